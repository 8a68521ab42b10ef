//! Conversion of a file of orbits to a checked network.

use super::keys;
use super::names::{NameTable, NodeGroup};
use super::places::{Context, from_start, length, turn_within};
use crate::network::{Network, NetworkLink};
use crate::sight::Limits;
use crate::sky::{Size, Sky};
use crate::walker::WalkerNeighbours;
use farlink_base::{ConfigError, DtnTime};
use farlink_config::{Errors, Input, Reader};
use std::collections::BTreeSet;
use std::path::Path;
use toml::de::DeTable;

/// Most pairs of nodes that are examined.
pub const PAIRS_MAX: usize = 2_000_000;

/// Reads a file of orbits for a plan that starts at `start`, or else at the file's `epoch`. Paths in the file are
/// relative to its folder.
///
/// # Errors
/// Every mistake in the file.
pub fn load(path: &Path, start: Option<DtnTime>) -> Result<Network, Vec<ConfigError>> {
    let text = farlink_config::read_text(path).map_err(|expected| {
        let hint = "give the path of a file of orbits; docs/how-to/plan-from-orbits.md shows one".into();
        vec![ConfigError { path: path.display().to_string(), expected, hint }]
    })?;
    parse(&text, path.parent().unwrap_or(Path::new("")), start)
}

/// Parses the text of a file in `folder`.
///
/// # Errors
/// Every mistake in the text.
pub fn parse(text: &str, folder: &Path, start: Option<DtnTime>) -> Result<Network, Vec<ConfigError>> {
    let errors = Errors::new(None, text);
    let root = errors.parse();
    let network = root.as_ref().and_then(|root| network(&errors, root.get_ref(), text, folder, start));
    drop(root);
    let list = errors.into_list();
    match network {
        Some(network) if list.is_empty() => Ok(network),
        _ => Err(list),
    }
}

fn network(
    errors: &Errors<'_>,
    root: &DeTable<'_>,
    text: &str,
    folder: &Path,
    start: Option<DtnTime>,
) -> Option<Network> {
    Reader::check_keys(errors, "", root, &[&keys::TOP]);
    let top = Reader::new(errors, &keys::TOP, vec![(String::new(), root)]);
    top.text("description");
    let epoch = top.time("epoch");
    let Some(start) = start.or(epoch) else {
        if !top.given("epoch") {
            top.fail("epoch", "nothing says when the plan starts", "give `--from 2026-11-20T09:00:00Z`, or an `epoch`");
        }
        return None;
    };
    let mut sky = Sky::new(start);
    let at = from_start(&sky, epoch.unwrap_or(start));
    if at.is_none() {
        top.fail("epoch", "more than a century from the plan's start", "");
    }
    let step = top.duration("delay_step");
    if step.is_some_and(|step| step.as_secs_f64() < 1e-3) {
        top.fail("delay_step", "less than 1 ms", "\"1 s\" suits most plans");
    }
    let epoch = at.unwrap_or_default();
    for (path, table) in top.tables("body") {
        body(&Reader::checked(errors, &keys::BODIES, &path, table), &mut sky, text, folder, epoch);
    }
    let mut names = NameTable::default();
    let context = Context { sky: &sky, text, folder, epoch };
    for (path, table) in top.tables("station") {
        context.station(&Reader::checked(errors, &keys::STATION, &path, table), &mut names);
    }
    for (path, table) in top.tables("satellite") {
        context.satellite(&Reader::checked(errors, &keys::SATELLITE, &path, table), &mut names);
    }
    for (path, table) in top.tables("constellation") {
        context.constellation(&Reader::checked(errors, &keys::CONSTELLATION, &path, table), &mut names);
    }
    let tables = top.tables("link");
    if tables.is_empty() && !top.given("link") {
        top.fail("link", "missing", "add [[link]] with `between = [\"stations\", \"satellites\"]` and a `rate`");
    }
    // A node missing because of an earlier mistake would cause more errors in every link.
    let known = errors.is_empty();
    let mut left = PAIRS_MAX;
    let mut links = Vec::new();
    for (path, table) in tables {
        let reader = Reader::checked(errors, &keys::LINK, &path, table);
        links.extend(link(&reader, known.then_some(&names), &mut left));
    }
    Some(Network { nodes: names.nodes, links, delay_step_s: step?.as_secs_f64(), sky })
}

/// Reads a `[[body]]` table.
fn body(reader: &Reader<'_>, sky: &mut Sky, text: &str, folder: &Path, epoch: i64) {
    let context = Context { sky, text, folder, epoch };
    let found = context.around(reader);
    let (name, radius_km) = (reader.name("name"), length(reader, "radius"));
    let gm = reader.custom("gm", |input: Input<'_, '_>| input.number());
    if !reader.given("elements") {
        reader.fail("elements", "missing", "add `elements = { body = \"jupiter\", ... }`: its orbit");
    }
    let (Some((around, elements)), Some(name), Some(radius_km), Some(gm)) = (found, name, radius_km, gm) else {
        return;
    };
    if !(radius_km > 0.0 && radius_km < 1e7 && (0.0..1e12).contains(&gm)) {
        reader.fail("radius", "no size of a body", "a radius of some kilometres, and a `gm` that is not negative");
        return;
    }
    if let Err(why) = sky.add(&name, around, &elements, Size { radius_km, gm }) {
        reader.fail("name", why, "orbits are above the ground of what they are around");
    }
}

fn link(reader: &Reader<'_>, names: Option<&NameTable>, left: &mut usize) -> Option<NetworkLink> {
    let name = if reader.given("name") { Some(reader.name("name")?) } else { None };
    let (rate, back) = (reader.rate("rate"), reader.rate("rate_back"));
    let (range_km, clearance_km) = (length(reader, "range"), length(reader, "clearance"));
    for (key, length) in [("range", range_km), ("clearance", clearance_km)] {
        if length.is_some_and(|km| km < 0.0) {
            reader.fail(key, "less than nothing", "write e.g. \"100 km\"");
        }
    }
    let mask = if reader.given("mask") { Some(turn_within(reader, "mask", -10.0, 90.0)?) } else { None };
    let beams = if reader.given("beams") { reader.custom("beams", beams)? } else { [None, None] };
    let shortest = reader.duration("shortest").unwrap_or_default();
    let neighbours = [None, Some(WalkerNeighbours::Ring), Some(WalkerNeighbours::Grid)]
        .get(reader.choice("neighbours")?)
        .copied()?;
    let sides = reader.custom("between", |input: Input<'_, '_>| between(input, names))?;
    let pairs: Vec<[u32; 2]> = match (sides, neighbours) {
        (None, _) => return None,
        (Some([one, _]), Some(neighbours)) => {
            let [first, second] = reader.custom("between", both_sides)?;
            let Some(walker) = one.walker.filter(|_| first == second) else {
                let why = "neighbours are of one Walker constellation";
                reader.fail("neighbours", why, "write it twice: `between = [\"leo\", \"leo\"]`");
                return None;
            };
            let places = walker.pairs(neighbours).into_iter();
            let at = |place: u32| one.nodes.get(place as usize).copied();
            places.filter_map(|[a, b]| Some([at(a)?, at(b)?])).collect()
        }
        (Some([one, other]), None) => match all_pairs(names?, &one, &other, *left) {
            Some(pairs) => pairs,
            None => {
                let hint = "`neighbours`, or fewer nodes, make fewer";
                reader.fail("between", format!("more than {PAIRS_MAX} pairs of nodes"), hint);
                return None;
            }
        },
    };
    if pairs.is_empty() {
        let hint = "two stations of one body never see each other; a ring needs two satellites";
        reader.fail("between", "there is no pair of nodes that could be linked", hint);
    }
    *left = left.saturating_sub(pairs.len());
    let rate = rate?;
    Some(NetworkLink {
        name,
        pairs,
        rates: [rate, back.unwrap_or(rate)],
        limits: Limits { range_km, clearance_km: clearance_km? },
        mask,
        beams,
        shortest: i64::try_from(shortest.as_nanos()).unwrap_or(i64::MAX),
    })
}

/// Reads the two sides of `between`, each a name or a list.
fn both_sides(input: Input<'_, '_>) -> Result<[Vec<String>; 2], String> {
    let items = input.items()?;
    match items {
        [one, other] => Ok([Input::Given(one.get_ref()).texts()?, Input::Given(other.get_ref()).texts()?]),
        _ => Err(format!("expected two names, or lists of names; found {}", items.len())),
    }
}

/// Finds the nodes on both sides; `None` if the names are incomplete because of earlier errors.
fn between(input: Input<'_, '_>, names: Option<&NameTable>) -> Result<Option<[NodeGroup; 2]>, String> {
    let [one, other] = both_sides(input)?;
    let Some(names) = names else { return Ok(None) };
    let group = |side: &[String]| match side {
        [name] => names.find(name),
        many => {
            let mut nodes = BTreeSet::new();
            for name in many {
                nodes.extend(names.find(name)?.nodes);
            }
            Ok(NodeGroup { nodes: nodes.into_iter().collect(), walker: None })
        }
    };
    Ok(Some([group(&one)?, group(&other)?]))
}

/// Pairs each node of one side with each of the other, without duplicates, self-pairs, and pairs on the ground of one
/// body; `None` if there are more than `most`.
fn all_pairs(names: &NameTable, one: &NodeGroup, other: &NodeGroup, most: usize) -> Option<Vec<[u32; 2]>> {
    if one.nodes.len().checked_mul(other.nodes.len())? > most.checked_mul(2)? {
        return None;
    }
    let (firsts, seconds): (BTreeSet<u32>, BTreeSet<u32>) =
        (one.nodes.iter().copied().collect(), other.nodes.iter().copied().collect());
    let ground = |node: u32| {
        let place = names.nodes.get(node as usize).map(|node| &node.place);
        place.filter(|place| place.is_ground()).map(|place| place.centre)
    };
    let mut pairs = Vec::new();
    for first in &one.nodes {
        for second in &other.nodes {
            // If both nodes are on both sides the pair occurs in both orders; only the ascending
            // one is kept.
            let twice = firsts.contains(second) && seconds.contains(first);
            let grounded = ground(*first).is_some() && ground(*first) == ground(*second);
            if first == second || grounded || (twice && first > second) {
                continue;
            }
            pairs.push([*first, *second]);
        }
    }
    (pairs.len() <= most).then_some(pairs)
}

/// Reads one number for both sides, or one for each.
fn beams(input: Input<'_, '_>) -> Result<[Option<u32>; 2], String> {
    let number = |input: Input<'_, '_>| {
        let number = input.integer_in(1, 1000)?;
        let fits = u32::try_from(number).ok().filter(|number| (1..=1000).contains(number));
        fits.map(Some).ok_or_else(|| format!("{number} is not between 1 and 1000"))
    };
    let Ok(items) = input.items() else { return number(input).map(|both| [both, both]) };
    match items {
        [one, other] => Ok([number(Input::Given(one.get_ref()))?, number(Input::Given(other.get_ref()))?]),
        _ => Err(format!("expected one number, or two; found {}", items.len())),
    }
}
