//! `[[traffic]]`: files, bundles and pings from node to node, and bundles among groups.

use crate::keys;
use crate::motion::quantities::{seconds, span};
use crate::motion::{Group, GroupTraffic};
use crate::names::Names;
use crate::types::{Node, Pace, SizeRange, Traffic, TrafficKind};
use farlink_base::{DataVolume, Duration, Priority};
use farlink_config::{Input, Reader, SpannedValue};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use toml::de::DeValue;

/// First service number given to traffic that names none.
const FIRST_SERVICE: usize = 1000;
/// Service number of the echo service (draft-taylor-dtn-echo-service).
const ECHO_SERVICE: u32 = 128;

/// Nodes that a key names, with whether they are a group.
type Named = (Range<usize>, bool);

/// Nodes and groups that traffic may go from and to.
pub struct Places<'s> {
    /// All nodes, in the order of their indices.
    pub nodes: &'s [Node],
    /// Names of the nodes, with their indices.
    pub names: &'s Names,
    /// Groups, as ranges of node indices.
    pub groups: &'s [Group],
}
impl Places<'_> {
    /// Nodes that the given key names. A group's name wins: names of groups and nodes are distinct.
    fn of(&self, reader: &Reader<'_>, key: &str) -> Option<Named> {
        let name = reader.text(key)?;
        if let Some(group) = self.groups.iter().find(|group| group.name == name) {
            return Some((group.nodes.clone(), true));
        }
        let node = self.names.find(reader, key, "node", &name)?;
        Some((node..node + 1, false))
    }
}

/// Traffic from node to node, and traffic still to be drawn among groups.
pub fn traffic(
    top: &Reader<'_>,
    duration: Duration,
    places: &Places<'_>,
    folder: &Path,
) -> (Vec<Traffic>, Vec<GroupTraffic>) {
    let Places { nodes, names, .. } = places;
    // Entry that uses each service of a receiving node, because the receiver could not distinguish two entries at one
    // service.
    let mut taken: HashMap<(usize, u32), usize> = HashMap::new();
    let (mut list, mut drawn): (Vec<Traffic>, Vec<GroupTraffic>) = (Vec::new(), Vec::new());
    for (index, (path, table)) in top.tables("traffic").into_iter().enumerate() {
        Reader::check_keys(top.errors, &path, table, &[&keys::TRAFFIC]);
        let reader = Reader::new(top.errors, &keys::TRAFFIC, vec![(path, table)]);
        let from = places.of(&reader, "from");
        let to = places.of(&reader, "to");
        // An empty group is reported where it is defined, and not again by traffic that names it.
        let same = |(from, to): (&Named, &Named)| from.0 == to.0 && from.0.len() == 1;
        if from.as_ref().zip(to.as_ref()).is_some_and(same) {
            reader.fail("to", "traffic goes from one node to another", "name another node");
        }
        // The bundles of an entry are drawn if at least one of its ends is a group.
        let in_group = [&from, &to].into_iter().flatten().any(|(_, group)| *group);
        let kind = kind(&reader, folder, in_group);
        let name = reader.name("name");
        let service = reader.count("service");
        let start = reader.duration("start").unwrap_or_default();
        if start >= duration && !duration.is_zero() {
            reader.fail(
                "start",
                "begins when the run is over",
                "start it earlier, or give the run a longer `duration`",
            );
        }
        let lifetime = reader.duration("lifetime");
        let priority = reader.choice("priority").map(|priority| Priority::ALL[priority]);
        let window = reader.count("window").unwrap_or(0) as u32;
        let reports = Traffic::reports_of(&reader.choices("reports").unwrap_or_default());
        if reader.given("reports") && matches!(kind, Some((TrafficKind::Ping { .. }, _))) {
            reader.fail("reports", "pings ask for none: their answer says more", "take it out, or send `bundles`");
        }
        let lost = reader.choice("refused") == Some(1);
        // All keys are read before this point, so that every mistake of an entry is reported at once.
        let (Some(from), Some(to), Some((kind, interval))) = (from, to, kind) else { continue };
        // Service numbers follow the order of the file, so that a new entry at the end changes no other entry's.
        let own_service = match kind {
            TrafficKind::Ping { .. } => ECHO_SERVICE,
            _ => (FIRST_SERVICE + index) as u32,
        };
        let service = service.map_or(own_service, |s| s as u32);
        let (from, to) = (from.0, to.0);
        if from.is_empty() || to.is_empty() {
            continue;
        }
        if let (TrafficKind::Bundles { count, size, .. }, true) = (&kind, in_group) {
            let (name, count, size) = (name.unwrap_or_else(|| format!("traffic{}", index + 1)), *count, *size);
            let of_node = to.clone().find_map(|node| taken.get(&(node, service))).map(|other| &list[*other].name);
            let overlaps =
                |other: &&GroupTraffic| other.service == service && other.to.start < to.end && to.start < other.to.end;
            if let Some(other) = of_node.or(drawn.iter().find(overlaps).map(|other| &other.name)) {
                let found = format!("service {service} of a node receives `{other}`, too");
                reader.fail("service", found, "give each its own service number");
            }
            drawn.push(GroupTraffic {
                name,
                from,
                to,
                service,
                count,
                size,
                interval,
                start,
                lifetime,
                priority,
                reports,
                lost,
            });
            continue;
        }
        let (from, to) = (from.start, to.start);
        let traffic = Traffic {
            name: name.unwrap_or_else(|| format!("{}-to-{}", names.at(from), names.at(to))),
            from,
            to,
            service,
            kind,
            start,
            lifetime: lifetime.unwrap_or(nodes[from].lifetime),
            priority: priority.unwrap_or(nodes[from].priority),
            window,
            reports,
            lost,
            drawn: None,
        };
        let other = taken.insert((traffic.to, traffic.service), list.len()).map(|other| &list[other]);
        let of_group = drawn.iter().find(|group| group.service == traffic.service && group.to.contains(&traffic.to));
        if let Some(group) = of_group {
            let found =
                format!("service {} of `{}` receives `{}`, too", traffic.service, names.at(traffic.to), group.name);
            reader.fail("service", found, "give each its own service number");
        }
        let echo = |t: &Traffic| matches!(t.kind, TrafficKind::Ping { .. });
        if let Some(other) = other.filter(|other| !(echo(other) && echo(&traffic))) {
            let found = format!("service {} of `{}` receives `{}`, too", other.service, names.at(other.to), other.name);
            reader.fail("service", found, "give each its own service number");
        }
        list.push(traffic);
    }
    // Each drawn bundle is an entry of the scenario in memory: a million take some hundred megabytes.
    if drawn.iter().map(|traffic| traffic.count).sum::<u64>() > 1_000_000 {
        top.fail("traffic", "more than 1000000 bundles among groups", "write fewer");
    }
    (list, drawn)
}

fn kind(reader: &Reader<'_>, folder: &Path, in_group: bool) -> Option<(TrafficKind, [f64; 2])> {
    // The two numbers are the seconds between bundles, least and most, and only groups use them: the pace of one sender
    // is a fixed interval.
    let given: Vec<&str> = ["file", "bundles", "ping"].into_iter().filter(|key| reader.given(key)).collect();
    if let (["file"] | ["ping"], true) = (&given[..], in_group) {
        reader.fail(given[0], "goes from one node to another, and not among groups", "write `bundles`");
        return None;
    }
    match given[..] {
        ["file"] => file(&reader.table("file", &keys::TRAFFIC_FILE)?, folder).map(|kind| (kind, [0.0; 2])),
        ["bundles"] => bundles(&reader.table("bundles", &keys::TRAFFIC_BUNDLES)?, in_group),
        ["ping"] => {
            let table = reader.table("ping", &keys::TRAFFIC_PING)?;
            let (count, interval, size) = (table.count("count"), table.duration("interval"), table.volume("size"));
            Some((TrafficKind::Ping { count: count?, interval: interval?, size: size? }, [0.0; 2]))
        }
        [] => {
            let hint = "add e.g. `bundles = { count = 100, size = \"100 kB\", rate = \"1 Mbit/s\" }`";
            reader.errors.at(reader.path(), None, "says not what to send", hint);
            None
        }
        _ => {
            reader.fail(given[1], format!("{} at once", given.join(" and ")), "write one [[traffic]] for each");
            None
        }
    }
}

fn file(table: &Reader<'_>, folder: &Path) -> Option<TrafficKind> {
    let path = table.text("path").map(std::path::PathBuf::from);
    let size = table.volume("size");
    let bundle_size = table.volume("bundle_size");
    let pace = pace(table);
    if bundle_size == Some(DataVolume(0)) {
        table.fail("bundle_size", "at least 1 B", "1 MB suits most files");
    }
    match (&path, size) {
        (Some(_), Some(_)) => table.fail("size", "both `path` and `size`", "keep one: a file has its own size"),
        (None, None) => {
            table.errors.at(
                table.path(),
                None,
                "says neither which file nor how large",
                "add `path = \"photo.raw\"` or `size = \"200 MB\"`",
            );
            return None;
        }
        _ => {}
    }
    // The size of an existing file is read now: a scenario states how much it moves before it runs.
    let size = match &path {
        Some(path) => match std::fs::metadata(folder.join(path)) {
            Ok(facts) if facts.is_file() => Some(DataVolume(facts.len())),
            Ok(_) => {
                table.fail("path", format!("`{}` is not a file", path.display()), "");
                None
            }
            Err(error) => {
                let place = folder.join(path);
                table.fail(
                    "path",
                    format!("`{}` cannot be read: {error}", place.display()),
                    "paths are relative to the scenario; `size = \"200 MB\"` makes a file",
                );
                None
            }
        },
        None => size,
    };
    Some(TrafficKind::File { path, size: size?, bundle_size: bundle_size?, pace })
}

/// Reads `bundles`; returns also the least and the largest number of seconds between two, for draws among groups.
fn bundles(table: &Reader<'_>, in_group: bool) -> Option<(TrafficKind, [f64; 2])> {
    let (count, size) = (table.count("count"), table.custom("size", size_range));
    let interval = table.custom("interval", |input| span(input, seconds));
    if table.given("rate") && table.given("interval") {
        table.fail("interval", "both `rate` and `interval`", "keep one");
    }
    let pace = match (table.rate("rate"), interval) {
        (Some(rate), _) => Pace::Rate(rate),
        (None, Some([_, most])) if most > 0.0 => Pace::Interval(Duration::from_nanos((most * 1e9).round() as u64)),
        _ => Pace::Flat,
    };
    let [least, most] = interval.unwrap_or_default();
    if in_group {
        if table.given("rate") {
            table.fail("rate", "a rate of one sender, and a group has many", "write `interval`");
        }
        if count.is_some_and(|count| count > 100_000) {
            table.fail("count", "more than 100000 among groups", "write more than one [[traffic]]");
        }
    } else if least < most {
        table.fail("interval", "times are drawn only among groups", "write one duration");
    }
    Some((TrafficKind::Bundles { count: count?, size: size?, pace }, [least, most]))
}

fn pace(table: &Reader<'_>) -> Pace {
    match (table.rate("rate"), table.duration("interval")) {
        (Some(_), Some(_)) => {
            table.fail("interval", "both `rate` and `interval`", "keep one");
            Pace::Flat
        }
        (Some(rate), None) => Pace::Rate(rate),
        // An interval of zero means no pause: bundles follow as fast as the window allows.
        (None, Some(interval)) if interval.is_zero() => Pace::Flat,
        (None, Some(interval)) => Pace::Interval(interval),
        (None, None) => Pace::Flat,
    }
}

fn size_range(input: Input<'_, '_>) -> Result<SizeRange, String> {
    if let Input::Given(DeValue::Array(items)) = input {
        let [min, max] = &items[..] else {
            return Err(format!("expected [smallest, largest], found {} entries", items.len()));
        };
        let volume = |v: &SpannedValue<'_>| Input::Given(v.get_ref()).volume();
        let range = SizeRange { min: volume(min)?, max: volume(max)? };
        return if range.min <= range.max { Ok(range) } else { Err("the smallest is larger than the largest".into()) };
    }
    let size = input.volume()?;
    Ok(SizeRange { min: size, max: size })
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    #[test]
    fn shared_service_is_refused_in_any_order() {
        let group = "[[group]]\nname = \"walker\"\ncount = 3\nfirst_id = 10\n";
        let node = |n: u8| format!("[[node]]\nname = \"n{n}\"\nid = \"ipn:{n}.0\"\n");
        let nodes = format!("name = \"s\"\nduration = \"100 s\"\n{}{}{group}", node(1), node(2));
        let traffic = |from: &str, to: &str| {
            format!(
                "[[traffic]]\nfrom = \"{from}\"\nto = \"{to}\"\nservice = 1500\nbundles = {{ count = 3, size = \"1 kB\" }}\n"
            )
        };
        let to_one = traffic("n1", "walker2");
        let (to_all, again) = (traffic("n1", "walker"), traffic("n2", "walker"));
        for (first, second) in [(&to_one, &to_all), (&to_all, &to_one), (&to_all, &again), (&to_one, &to_one)] {
            let errors = Scenario::parse(&format!("{nodes}{first}{second}")).unwrap_err();
            let text = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            assert!(text.contains("service 1500") && text.contains("too"), "{text}");
        }
        // Traffic to other nodes, to the next group of the file, or to other services does not conflict.
        let beside = "[[group]]\nname = \"driver\"\ncount = 2\nfirst_id = 20\n";
        let to_beside = traffic("n1", "driver");
        let elsewhere = |text: &str| text.replace("1500", "1501");
        for (first, second) in [
            (&to_one, &traffic("n1", "walker3")),
            (&to_all, &to_beside),
            (&to_beside, &to_all),
            (&to_one, &elsewhere(&to_all)),
            (&to_all, &elsewhere(&to_one)),
            (&to_all, &elsewhere(&again)),
        ] {
            let errors = Scenario::parse(&format!("{nodes}{beside}{first}{second}")).err();
            assert!(errors.is_none(), "{first}{second}{errors:?}");
        }
    }
}
