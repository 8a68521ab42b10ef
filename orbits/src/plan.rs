//! Computation of the contact plan of a network.

use crate::beams::{Claim, serve};
use crate::edges::{SightWindow, windows};
use crate::moment::{SECOND, whole};
use crate::network::{Network, NetworkLink};
use crate::sight::{Lost, Sight};
use farlink_base::{Duration, NodeId};
use farlink_routing::contact_plan::{Contact, ContactPlan, PlanTime};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Most contacts of a plan; more are probably a mistake, and would fill the memory.
pub const CONTACTS_MAX: usize = 2_000_000;
// Windows of a link with limits on beams, for each contact that a plan may have: most are dropped when the beams are
// assigned, and a window is a fifth of a contact in memory.
const WINDOWS: usize = 4;
// Pairs that a thread takes at a time.
const CHUNK: usize = 32;
// Longest step between two evaluations of the light time, in seconds. Near its maximum the light
// time changes by less than 30 µs within such a step, even between satellites in crossing planes.
const LIGHT_STEP_S: f64 = 120.0;

// Evaluations always granted to a pair, in addition to one per second; most orbits need one every
// few minutes.
const LOOKS_MIN: i64 = 200_000;
// Time before the end of a satellite's orbit at which its contacts end: the light time of a link near the Earth, and the
// step of the search for the end.
const FALL_MARGIN_NS: i64 = 60 * SECOND;
// Error for a pair that stays exactly at a limit: it would need an evaluation every millisecond.
const ON_EDGE: &str =
    "it stays at the very edge of a range, mask or clearance limit\nhint: allow a little more or less";

/// Windows of a pair in transmission time, from the first node to the second and back.
type PairWindows = [Vec<SightWindow>; 2];

/// Computes every contact of a network within `duration` nanoseconds from the start of its sky, in order of time. The
/// result does not depend on the number of `threads`. `progress` is called with the number of [`Network::pairs`] done.
///
/// # Errors
/// When elements are not valid throughout, a pair stays at the edge of a limit, the plan could not distinguish two
/// links, or there are more than [`CONTACTS_MAX`] contacts.
pub fn contacts(
    network: &Network,
    duration: i64,
    threads: usize,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<ContactPlan, String> {
    contacts_within(network, duration, threads, progress, CONTACTS_MAX)
}

/// Computes every contact of a network, as [`contacts`] does, if there are at most `most`.
fn contacts_within(
    network: &Network,
    duration: i64,
    threads: usize,
    progress: &(dyn Fn(usize) + Sync),
    most: usize,
) -> Result<ContactPlan, String> {
    let done = AtomicUsize::new(0);
    let mut all: Vec<Contact> = Vec::new();
    for link in &network.links {
        // Both are counted while they are made, before those of all pairs fill the memory.
        let windows = match link.beams {
            [None, None] => PlanRoom::new(all.len(), most, "contacts"),
            _ => PlanRoom::new(0, most.saturating_mul(WINDOWS), "passes to choose from"),
        };
        let room = PlanRoom::new(all.len(), most, "contacts");
        let looked = in_chunks(link.pairs.len(), threads, &|index| {
            let both = seen(network, link, index, duration)?;
            windows.take(both[0].len() + both[1].len())?;
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            Ok(both)
        })?;
        let kept = assign(link, looked);
        let made = in_chunks(kept.len(), threads, &|index| {
            let Some((pair, both)) = kept.get(index) else { return Ok(Vec::new()) };
            let contacts = written(network, link, *pair, both)?;
            room.take(contacts.len()).map(|()| contacts)
        })?;
        all.extend(made.into_iter().flatten());
    }
    all.sort_by(|a, b| key(a).cmp(&key(b)));
    joined_twice(network, &all)?;
    Ok(ContactPlan { epoch: Some(network.sky.start()), contacts: all })
}

/// Number of contacts or windows that may still be made.
struct PlanRoom {
    used: AtomicUsize,
    most: usize,
    what: &'static str,
}

impl PlanRoom {
    fn new(used: usize, most: usize, what: &'static str) -> PlanRoom {
        PlanRoom { used: AtomicUsize::new(used), most, what }
    }
    fn take(&self, count: usize) -> Result<(), String> {
        if self.used.fetch_add(count, Ordering::Relaxed).saturating_add(count) <= self.most {
            return Ok(());
        }
        let hint = "hint: a shorter time, a `range`, `neighbours` or `shortest` makes fewer";
        Err(format!("more than {} {}\n{hint}", self.most, self.what))
    }
}

fn key(contact: &Contact) -> (PlanTime, NodeId, NodeId, Option<&str>, PlanTime) {
    (contact.start, contact.from, contact.to, contact.link.as_deref(), contact.end)
}

/// First index of a chunk, and its results.
type ChunkResult<T> = (usize, Result<Vec<T>, String>);

/// Applies `work` to every number below `count` in parallel; returns the results in order, or the error of the lowest
/// number.
fn in_chunks<T: Send>(
    count: usize,
    threads: usize,
    work: &(dyn Fn(usize) -> Result<T, String> + Sync),
) -> Result<Vec<T>, String> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let chunks: Mutex<Vec<ChunkResult<T>>> = Mutex::new(Vec::new());
    let run = || {
        while !failed.load(Ordering::Relaxed) {
            // Numbers are taken in chunks, so that the threads seldom contend for the shared counter.
            let from = next.fetch_add(CHUNK, Ordering::Relaxed);
            if from >= count {
                break;
            }
            let made: Result<Vec<T>, String> = (from..count.min(from + CHUNK)).map(work).collect();
            if made.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            if let Ok(mut chunks) = chunks.lock() {
                chunks.push((from, made));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count.div_ceil(CHUNK)) {
            scope.spawn(run);
        }
        run();
    });
    let mut chunks = chunks.into_inner().map_err(|_| "a thread broke off".to_string())?;
    chunks.sort_by_key(|(from, _)| *from);
    let mut all = Vec::with_capacity(count);
    for (_, made) in chunks {
        all.extend(made?);
    }
    Ok(all)
}

/// Line of sight of a pair, forward or back.
fn sight<'a>(network: &'a Network, link: &NetworkLink, pair: [u32; 2], back: bool) -> Option<Sight<'a>> {
    let [first, second] = if back { [pair[1], pair[0]] } else { pair };
    let (from, to) = (network.nodes.get(first as usize)?, network.nodes.get(second as usize)?);
    let masks = [from.mask, to.mask].map(|own| link.mask.unwrap_or(own));
    Some(Sight::new(&network.sky, [&from.place, &to.place], masks, &link.limits))
}

/// Prefixes an error with the name of the node that caused it.
fn named(network: &Network, pair: [u32; 2], back: bool) -> impl Fn(Lost) -> String + '_ {
    move |lost| {
        let end = pair.get(usize::from(back) ^ lost.end).and_then(|node| network.nodes.get(*node as usize));
        let name = end.map_or("a node", |node| node.name.as_str());
        let hint = if lost.why.contains("hint: ") {
            ""
        } else {
            "\nhint: take newer elements, a shorter time, or leave it out"
        };
        format!("{name}: {}{hint}", lost.why)
    }
}

/// Windows of one pair within the plan, as long as both ends stay on their orbits.
fn seen(network: &Network, link: &NetworkLink, index: usize, duration: i64) -> Result<PairWindows, String> {
    let satellites = || {
        let nodes = link.pairs.get(index).into_iter().flatten().filter_map(|node| network.nodes.get(*node as usize));
        nodes.filter_map(|node| node.place.by_elements())
    };
    let until = |fall: Option<i64>| fall.map(|fall| fall - FALL_MARGIN_NS).filter(|until| *until < duration);
    let known = satellites().filter_map(|satellite| until(satellite.fallen())).min();
    let found = seen_until(network, link, index, known.unwrap_or(duration));
    if found.is_ok() {
        return found;
    }
    // The search for the end of an orbit takes longer than the plan of the pair: it is made where that fails.
    match satellites().filter_map(|satellite| until(satellite.falls(duration))).min() {
        None => found,
        Some(until) => seen_until(network, link, index, until),
    }
}

/// Windows of one pair until a time.
fn seen_until(network: &Network, link: &NetworkLink, index: usize, duration: i64) -> Result<PairWindows, String> {
    let mut both = [Vec::new(), Vec::new()];
    let Some(pair) = link.pairs.get(index).copied().filter(|_| duration > 0) else { return Ok(both) };
    for (back, found) in [false, true].into_iter().zip(&mut both) {
        let Some(sight) = sight(network, link, pair, back) else { continue };
        let fail = named(network, pair, back);
        let span =
            SightWindow { start: sight.anchored(0).map_err(&fail)?, end: sight.anchored(duration).map_err(&fail)? };
        let mut left = LOOKS_MIN + (span.end - span.start) / SECOND;
        let look = &mut |time| {
            left -= 1;
            if left > 0 { sight.look(time) } else { Err(Lost { end: 0, why: ON_EDGE.into() }) }
        };
        let anchored = windows(span, look).map_err(&fail)?;
        for window in anchored {
            // The search runs in anchor time; its results are converted to transmission time. The
            // ends of the plan stay exact.
            let start = if window.start == span.start { 0 } else { sight.sent(window.start).map_err(&fail)? };
            let end = if window.end == span.end { duration } else { sight.sent(window.end).map_err(&fail)? };
            let window = SightWindow { start: start.clamp(0, duration), end: end.clamp(0, duration) };
            if window.end - window.start >= link.shortest.max(1) {
                found.push(window);
            }
        }
    }
    Ok(both)
}

/// Applies the limits on beams to the windows of all pairs.
fn assign(link: &NetworkLink, looked: Vec<PairWindows>) -> Vec<([u32; 2], PairWindows)> {
    let mut kept: Vec<([u32; 2], PairWindows)> = link.pairs.iter().copied().zip(looked).collect();
    if link.beams == [None, None] {
        return kept;
    }
    let claims: Vec<Claim> = kept
        .iter()
        .flat_map(|(ends, both)| both[0].iter().map(|window| Claim { ends: *ends, window: *window }))
        .collect();
    let mut served = serve(&claims, link.beams, link.shortest).into_iter();
    for (_, [forward, back]) in &mut kept {
        let from: Vec<(SightWindow, Option<i64>)> = forward.iter().copied().zip(served.by_ref()).collect();
        forward.clear();
        forward.extend(from.iter().filter_map(|(window, from)| Some(SightWindow { start: (*from)?, end: window.end })));
        // A beam carries both directions of a pass, so the reverse window is cut to the part in which the forward one
        // is served.
        let cut = |window: &SightWindow| {
            let overlap = |other: &SightWindow| window.end.min(other.end) - window.start.max(other.start);
            let (pass, served) = from.iter().max_by_key(|(other, _)| overlap(other))?;
            let start = if (*served)? > pass.start { window.start.max((*served)?) } else { window.start };
            let cut = SightWindow { start, end: window.end };
            (overlap(pass) > 0 && cut.end - cut.start >= link.shortest.max(1)).then_some(cut)
        };
        *back = back.iter().filter_map(cut).collect();
    }
    kept
}

/// Converts the windows of a pair to contacts.
fn written(network: &Network, link: &NetworkLink, pair: [u32; 2], both: &PairWindows) -> Result<Vec<Contact>, String> {
    let mut contacts = Vec::new();
    for ((back, windows), rate) in [false, true].into_iter().zip(both).zip(link.rates) {
        if windows.is_empty() {
            continue;
        }
        let Some(sight) = sight(network, link, pair, back) else { continue };
        let [from, to] = if back { [pair[1], pair[0]] } else { pair };
        let id = |node: u32| network.nodes.get(node as usize).map_or(NodeId::NULL, |node| node.id);
        for window in windows {
            let pieces = pieces(&sight, *window, network.delay_step_s).map_err(named(network, pair, back))?;
            contacts.extend(pieces.into_iter().map(|(window, light_s)| Contact {
                from: id(from),
                to: id(to),
                link: link.name.clone(),
                start: PlanTime(u64::try_from(window.start).unwrap_or(0)),
                end: PlanTime(u64::try_from(window.end).unwrap_or(0)),
                rate,
                one_way_delay: Duration::from_nanos(u64::try_from(whole(light_s)).unwrap_or(0)),
                confidence: 1.0,
            }));
        }
    }
    Ok(contacts)
}

/// Splits a window into pieces in which the light time changes by at most `step_s` seconds, each with the largest light
/// time in it.
fn pieces(sight: &Sight<'_>, window: SightWindow, step_s: f64) -> Result<Vec<(SightWindow, f64)>, Lost> {
    let (first, last) = (sight.anchored(window.start)?, sight.anchored(window.end)?);
    // Within one step the light time changes by at most an eighth of `step_s`.
    let between = (step_s / (8.0 * sight.stretch().max(1e-12))).clamp(1e-3, LIGHT_STEP_S);
    let between = (between * SECOND as f64) as i64;
    let mut pieces = Vec::new();
    let (mut time, mut start) = (first, window.start);
    let light = sight.anchored_light(first)?;
    let (mut shortest, mut longest) = (light, light);
    while time < last {
        let next = time.saturating_add(between).min(last);
        let light = sight.anchored_light(next)?;
        let (below, above) = (shortest.min(light), longest.max(light));
        if above - below > step_s {
            let cut = sight.sent(time)?.clamp(start, window.end);
            if cut > start {
                pieces.push((SightWindow { start, end: cut }, longest));
                start = cut;
            }
            let before = sight.anchored_light(time)?;
            (shortest, longest) = (before.min(light), before.max(light));
        } else {
            (shortest, longest) = (below, above);
        }
        time = next;
    }
    pieces.push((SightWindow { start, end: window.end }, longest));
    Ok(pieces)
}

/// Rejects two links of the same name that join the same nodes at the same time: the plan could not distinguish them.
fn joined_twice(network: &Network, contacts: &[Contact]) -> Result<(), String> {
    if network.links.len() < 2 {
        return Ok(());
    }
    let mut by_link: Vec<&Contact> = contacts.iter().collect();
    by_link.sort_by(|a, b| (a.from, a.to, &a.link, a.start).cmp(&(b.from, b.to, &b.link, b.start)));
    for pair in by_link.windows(2) {
        let [one, other] = pair else { continue };
        if (one.from, one.to, &one.link) == (other.from, other.to, &other.link) && other.start < one.end {
            let name = |id| network.nodes.iter().find(|node| node.id == id).map_or("", |node| node.name.as_str());
            return Err(format!(
                "two [[link]] tables join {} and {} at the same time\nhint: give each a `name` of its own",
                name(one.from),
                name(one.to)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const HOUR: i64 = 3600 * SECOND;

    fn network(more: &str) -> Network {
        let text = format!(
            "epoch = \"2026-11-20T09:00:00Z\"\n\
             [[station]]\nname = \"ground\"\nid = \"ipn:1.0\"\nposition = [\"52.5 N\", \"13.4 E\", \"40 m\"]\n\
             [[constellation]]\nname = \"leo\"\nfirst_id = \"ipn:100.0\"\n\
             walker = {{ planes = 4, per_plane = 6, inclination = \"60 deg\", altitude = \"1200 km\", phasing = 1 }}\n\
             [[link]]\nbetween = [\"ground\", \"leo\"]\nrate = \"50 Mbit/s\"\n{more}"
        );
        crate::parse(&text, Path::new(""), None).unwrap()
    }

    #[test]
    fn only_kept_contacts_count() {
        let mut before = usize::MAX;
        for more in ["", "beams = [1, 1]\n"] {
            let network = network(more);
            let all = contacts(&network, 12 * HOUR, 2, &|_| ()).unwrap().contacts.len();
            assert!(all < std::mem::replace(&mut before, all), "one beam drops contacts");
            let within = |most| contacts_within(&network, 12 * HOUR, 2, &|_| (), most);
            assert_eq!(within(all).map(|plan| plan.contacts.len()), Ok(all), "{more}");
            let why = within(all - 1).unwrap_err();
            assert!(why.starts_with(&format!("more than {} contacts\nhint: ", all - 1)), "{why}");
            // What is dropped takes memory, too, until it is.
            assert!(within(1).is_err());
        }
    }
}
