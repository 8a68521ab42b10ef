//! All orders of a few events in a small world. Layer by layer: each history of one event more is run from its
//! beginning by the real engine; the state it comes to is written out whole, and a state reached before is not
//! continued. At each new state, the world runs until nothing is due, and the promises are checked.
//!
//! Events that may happen only so often ([`Bounds`]) are counted, and the counts are part of the state.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "threads share what was met, and a search says how long it took"
)]

use super::forgery::Alteration;
use super::history::{History, Setup, Step};
use super::ledger::Violation;
use super::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Maximum number of events in a history.
pub const EVENTS_MAX: usize = 15;
const SHARDS: usize = 256;
/// Maximum number of pairs of histories with equal states whose continuations are compared.
const PAIRS: usize = 200;
/// Number of pairs at the beginning of a search that are compared whatever their states.
const PAIRS_FIRST: usize = 16;

/// Limits on the events of one history, by sort.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Honest bundles: even ones go forth, odd ones back.
    pub bundles: u8,
    pub forgeries: usize,
    pub crashes: usize,
    /// Times a link goes down.
    pub downs: usize,
    pub losses: usize,
    /// Single operations of disks.
    pub parts: usize,
    pub waits: usize,
}
impl Bounds {
    pub const SMALL: Bounds = Bounds { bundles: 2, forgeries: 1, crashes: 1, downs: 1, losses: 0, parts: 0, waits: 0 };

    fn of(&self, step: Step) -> usize {
        match step {
            Step::Forge { .. } => self.forgeries,
            Step::Crash { .. } => self.crashes,
            Step::Down { .. } => self.downs,
            Step::Lose { .. } => self.losses,
            Step::Part { .. } => self.parts,
            Step::Wait => self.waits,
            Step::Send { .. } | Step::Cross { .. } | Step::Answer { .. } | Step::Commit { .. } | Step::Up { .. } => {
                usize::MAX
            }
        }
    }
}

/// Parameters of a search.
#[derive(Clone, Debug)]
pub struct Search {
    pub setup: Setup,
    pub events: usize,
    pub bounds: Bounds,
    pub alterations: Vec<Alteration>,
    /// Whether only the first of several equal states is continued; else every history is.
    pub merge: bool,
    pub jobs: usize,
    /// Whether the search goes on after a violation.
    pub all: bool,
    /// Whether progress is printed.
    pub progress: bool,
}

/// A history as indices into the alphabet of steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Prefix {
    len: u8,
    steps: [u8; EVENTS_MAX],
}

/// A state to continue from, with the first history that led to it.
#[derive(Clone, Copy)]
struct State {
    prefix: Prefix,
    /// Enabled events, as bits by place in the alphabet.
    enabled: u128,
    /// Histories of this length that lead to it.
    orders: u64,
}

/// Result of a search.
#[derive(Default)]
pub struct Report {
    /// Different states by number of events, the beginning first.
    pub states: Vec<usize>,
    /// Number of histories run.
    pub runs: u64,
    /// Runs that reached a state that was known.
    pub merged: u64,
    /// Merged runs that took more events to reach the state than the first.
    pub later: u64,
    /// Number of histories, of all lengths, that the runs stand for.
    pub orders: u64,
    /// Outcomes of the histories, once nothing is due any more.
    pub outcomes: BTreeSet<String>,
    /// The shortest history of each sort of violation.
    pub violations: Vec<(History, Violation)>,
    pub violated: u64,
    pub seconds: f64,
    pairs: Vec<(Prefix, Prefix)>,
}
impl Report {
    pub fn all_states(&self) -> usize {
        self.states.iter().sum()
    }
}

/// Prints the history if the engine panics.
struct Telling<'a>(&'a Search, Prefix);
impl Drop for Telling<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("panic in: {}", self.0.history(self.1));
        }
    }
}

/// State that threads share while they work on a layer.
struct SearchLayer<'a> {
    frontier: &'a [State],
    next: AtomicUsize,
    seen: &'a [Mutex<BTreeSet<u128>>],
    found: Vec<Mutex<BTreeMap<u128, State>>>,
    ended: &'a AtomicBool,
    unmerged: &'a AtomicU64,
}

impl Search {
    /// All steps of this world.
    fn alphabet(&self) -> Vec<Step> {
        let nodes = self.setup.nodes as u8;
        let mut steps: Vec<Step> = (0..self.bounds.bundles).map(|bundle| Step::Send { bundle }).collect();
        for node in 0..nodes {
            steps.extend([Step::Commit { node }, Step::Part { node }, Step::Crash { node }]);
        }
        for link in 0..nodes - 1 {
            let (one, other) = (link, link + 1);
            for (from, to) in [(one, other), (other, one)] {
                steps.extend([Step::Cross { from, to }, Step::Answer { from, to }, Step::Lose { from, to }]);
            }
            steps.extend([Step::Down { link }, Step::Up { link }]);
        }
        steps.push(Step::Wait);
        for bundle in 0..self.bounds.bundles {
            for node in 0..nodes {
                let forge = |alteration: &Alteration| Step::Forge { bundle, alteration: *alteration, node };
                steps.extend(self.alterations.iter().map(forge));
            }
        }
        // `enabled` has one bit for each step.
        assert!(steps.len() <= 128, "the alphabet fits into a word");
        steps
    }
    fn steps(&self, alphabet: &[Step], prefix: Prefix) -> Vec<Step> {
        prefix.steps[..usize::from(prefix.len)].iter().map(|at| alphabet[usize::from(*at)]).collect()
    }
    fn history(&self, prefix: Prefix) -> History {
        History { setup: self.setup, steps: self.steps(&self.alphabet(), prefix) }
    }
    /// The world after a history, and the promise that its last step broke.
    fn replay(&self, alphabet: &[Step], prefix: Prefix) -> (World, Result<(), Violation>) {
        let _telling = Telling(self, prefix);
        let mut world = World::new(self.setup);
        let mut result = Ok(());
        for step in self.steps(alphabet, prefix) {
            result = world.step(step);
        }
        (world, result)
    }
    fn enabled(&self, alphabet: &[Step], prefix: Prefix, world: &World) -> u128 {
        let steps = self.steps(alphabet, prefix);
        let sort = |step: &Step| std::mem::discriminant(step);
        let mut enabled = 0;
        for (at, step) in alphabet.iter().enumerate() {
            let happened = || steps.iter().filter(|other| sort(other) == sort(step)).count();
            let bound = self.bounds.of(*step);
            if world.can(*step) && (bound == usize::MAX || happened() < bound) {
                enabled |= 1 << at;
            }
        }
        enabled
    }
    /// The state after a history: all of the world, and the counts of bounded events.
    fn key(&self, alphabet: &[Step], prefix: Prefix, world: &World, text: &mut String) -> u128 {
        let mut counts = [0u128; 6];
        for step in self.steps(alphabet, prefix) {
            let sort = match step {
                Step::Forge { .. } => 0,
                Step::Crash { .. } => 1,
                Step::Down { .. } => 2,
                Step::Lose { .. } => 3,
                Step::Part { .. } => 4,
                Step::Wait => 5,
                _ => continue,
            };
            counts[sort] += 1;
        }
        // Five bits hold any count up to `EVENTS_MAX`.
        let counts = counts.iter().fold(0, |all, count| all << 5 | count);
        // The odd constant spreads the counts over all bits, so that they do not cancel bits of the digest.
        world.digest(text) ^ (counts << 64 | counts).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
    }

    /// Runs all histories within the bounds.
    pub fn run(&self) -> Report {
        let begun = Instant::now();
        let alphabet = self.alphabet();
        let seen: Vec<Mutex<BTreeSet<u128>>> = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (ended, unmerged) = (AtomicBool::new(false), AtomicU64::new(0));
        let empty = Prefix { len: 0, steps: [0; EVENTS_MAX] };
        let world = World::new(self.setup);
        let enabled = self.enabled(&alphabet, empty, &world);
        let mut frontier = vec![State { prefix: empty, enabled, orders: 1 }];
        let mut report = Report { states: vec![1], ..Report::default() };
        for _ in 0..self.events.min(EVENTS_MAX) {
            let layer = SearchLayer {
                frontier: &frontier,
                next: AtomicUsize::new(0),
                seen: &seen,
                found: (0..SHARDS).map(|_| Mutex::default()).collect(),
                ended: &ended,
                unmerged: &unmerged,
            };
            let parts: Vec<Report> = std::thread::scope(|scope| {
                let work = || scope.spawn(|| self.work(&alphabet, &layer));
                let threads: Vec<_> = (0..self.jobs.max(1)).map(|_| work()).collect();
                threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
            });
            for part in parts {
                report.add(part);
            }
            let found: Vec<State> = layer
                .found
                .into_iter()
                .flat_map(|shard| shard.into_inner().expect("no thread panics").into_values())
                .collect();
            report.states.push(found.len());
            frontier = found;
            if self.progress {
                let seconds = begun.elapsed().as_secs_f64();
                eprintln!("  {} events: {} states, {seconds:.0} s", report.states.len() - 1, frontier.len());
            }
            if ended.load(Ordering::Relaxed) || frontier.is_empty() {
                break;
            }
        }
        report.seconds = begun.elapsed().as_secs_f64();
        report
    }
    fn work(&self, alphabet: &[Step], layer: &SearchLayer<'_>) -> Report {
        let (mut report, mut text) = (Report::default(), String::new());
        while let Some(state) = layer.frontier.get(layer.next.fetch_add(1, Ordering::Relaxed)) {
            if layer.ended.load(Ordering::Relaxed) {
                break;
            }
            let mut enabled = state.enabled;
            while enabled != 0 {
                let at = enabled.trailing_zeros() as u8;
                // The lowest bit set is the event that is taken now.
                enabled &= enabled - 1;
                let mut prefix = state.prefix;
                prefix.steps[usize::from(prefix.len)] = at;
                prefix.len += 1;
                self.meet(alphabet, layer, State { prefix, ..*state }, &mut report, &mut text);
            }
        }
        report
    }
    /// Runs one history. If the state it reaches is new, also runs its world until nothing is due, and checks the
    /// promises.
    fn meet(&self, alphabet: &[Step], layer: &SearchLayer<'_>, state: State, report: &mut Report, text: &mut String) {
        let (prefix, orders) = (state.prefix, state.orders);
        let (mut world, result) = self.replay(alphabet, prefix);
        report.runs += 1;
        report.orders += orders;
        if let Err(violation) = result {
            return self.violated(layer, prefix, violation, report);
        }
        let key = match self.merge {
            true => self.key(alphabet, prefix, &world, text),
            // Unique keys keep equal states apart.
            false => layer.unmerged.fetch_add(1, Ordering::Relaxed).into(),
        };
        // Locks are split, because all threads insert all the time.
        let shard = key as usize % SHARDS;
        {
            let mut found = layer.found[shard].lock().expect("no thread panics");
            if let Some(first) = found.get_mut(&key) {
                report.merged += 1;
                first.orders += orders;
                // The first pairs, so that a small search has some; then one in 16 states, so that others come from all
                // over the search.
                let few = report.pairs.len() < PAIRS_FIRST;
                if few || report.pairs.len() < PAIRS && ((key >> 64) as u64).is_multiple_of(16) {
                    report.pairs.push((first.prefix, prefix));
                }
                return;
            }
            // A state of an earlier layer was already continued, with fewer events.
            if self.merge && !layer.seen[shard].lock().expect("no thread panics").insert(key) {
                (report.merged, report.later) = (report.merged + 1, report.later + 1);
                return;
            }
            let enabled = self.enabled(alphabet, prefix, &world);
            found.insert(key, State { prefix, enabled, orders });
        }
        let _telling = Telling(self, prefix);
        match world.drain() {
            Ok(()) => drop(report.outcomes.insert(world.outcome())),
            Err(violation) => self.violated(layer, prefix, violation, report),
        }
    }
    fn violated(&self, layer: &SearchLayer<'_>, prefix: Prefix, violation: Violation, report: &mut Report) {
        report.outcomes.insert(format!("broken: {violation}"));
        report.add_violation(self.history(prefix), violation);
        report.violated += 1;
        if !self.all {
            layer.ended.store(true, Ordering::Relaxed);
        }
    }

    /// Continues both histories of each pair that led to one state: the same steps must be possible, and lead to the
    /// same states and outcomes. Returns the number of steps compared.
    ///
    /// # Errors
    /// Two histories that differ.
    pub fn compare(&self, report: &Report) -> Result<usize, String> {
        let (alphabet, mut text, mut compared) = (self.alphabet(), String::new(), 0);
        for (one, other) in &report.pairs {
            let told = |why: &str| format!("{why}:\n  {}\n  {}", self.history(*one), self.history(*other));
            let enabled = [one, other].map(|prefix| {
                let (world, _) = self.replay(&alphabet, *prefix);
                self.enabled(&alphabet, *prefix, &world)
            });
            // Equal digests with different futures would mean that the digest misses part of the state.
            if enabled[0] != enabled[1] {
                return Err(told("one state, and not the same can happen"));
            }
            if usize::from(one.len) >= EVENTS_MAX {
                continue;
            }
            for at in (0..alphabet.len()).filter(|at| enabled[0] >> at & 1 == 1) {
                let ends = [one, other].map(|prefix| {
                    let mut prefix = *prefix;
                    prefix.steps[usize::from(prefix.len)] = at as u8;
                    prefix.len += 1;
                    let (mut world, result) = self.replay(&alphabet, prefix);
                    let key = self.key(&alphabet, prefix, &world, &mut text);
                    (key, result.and_then(|()| world.drain()), world.outcome())
                });
                if ends[0] != ends[1] {
                    return Err(told(&format!("one state, and {} comes to two", alphabet[at])));
                }
                compared += 1;
            }
        }
        Ok(compared)
    }
}

impl Report {
    fn add(&mut self, other: Report) {
        self.runs += other.runs;
        self.merged += other.merged;
        self.later += other.later;
        self.orders = self.orders.saturating_add(other.orders);
        self.violated += other.violated;
        self.outcomes.extend(other.outcomes);
        self.pairs.extend(other.pairs);
        for (history, violation) in other.violations {
            self.add_violation(history, violation);
        }
    }
    fn add_violation(&mut self, history: History, violation: Violation) {
        let known = self.violations.iter_mut().find(|(_, known)| known.kind() == violation.kind());
        match known {
            None => self.violations.push((history, violation)),
            Some(known) if known.0.steps.len() > history.steps.len() => *known = (history, violation),
            Some(_) => {}
        }
    }
}
