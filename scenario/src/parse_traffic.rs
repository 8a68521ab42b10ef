//! Traffic: who sends what to whom.

use crate::keys;
use crate::names::Names;
use crate::types::{Node, Pace, SizeRange, Traffic, TrafficKind};
use farlink_base::{DataVolume, Duration, Priority};
use farlink_config::{Input, Reader, Value};
use std::collections::HashMap;
use std::path::Path;
use toml::de::DeValue;

/// First service number given to traffic that names none.
const FIRST_SERVICE: usize = 1000;
/// Echo (draft-taylor-dtn-echo-service).
const ECHO_SERVICE: u32 = 128;

pub fn traffic(top: &Reader<'_>, duration: Duration, nodes: &[Node], names: &Names, folder: &Path) -> Vec<Traffic> {
    // Which entry a service of a node belongs to.
    let mut taken: HashMap<(usize, u32), usize> = HashMap::new();
    let mut list: Vec<Traffic> = Vec::new();
    for (index, (path, table)) in top.tables("traffic").into_iter().enumerate() {
        Reader::check_keys(top.errors, &path, table, &[&keys::TRAFFIC]);
        let reader = Reader::new(top.errors, &keys::TRAFFIC, vec![(path, table)]);
        let from = names.named(&reader, "from", "node");
        let to = names.named(&reader, "to", "node");
        if from.is_some() && from == to {
            reader.fail("to", "traffic goes from one node to another", "name another node");
        }
        let kind = kind(&reader, folder);
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
        let priority = reader.choice("priority");
        let window = reader.count("window").unwrap_or(0) as u32;
        let reports = Traffic::reports_of(&reader.choices("reports").unwrap_or_default());
        if reader.given("reports") && matches!(kind, Some(TrafficKind::Ping { .. })) {
            reader.fail("reports", "pings ask for none: their answer says more", "take it out, or send `bundles`");
        }
        let (Some(from), Some(to), Some(kind)) = (from, to, kind) else { continue };
        let own_service = match kind {
            TrafficKind::Ping { .. } => ECHO_SERVICE,
            _ => (FIRST_SERVICE + index) as u32,
        };
        let traffic = Traffic {
            name: name.unwrap_or_else(|| format!("{}-to-{}", names.at(from), names.at(to))),
            from,
            to,
            service: service.map_or(own_service, |s| s as u32),
            kind,
            start,
            lifetime: lifetime.unwrap_or(nodes[from].lifetime),
            priority: priority.map_or(nodes[from].priority, |p| Priority::ALL[p]),
            window,
            reports,
        };
        let other = taken.insert((traffic.to, traffic.service), list.len()).map(|other| &list[other]);
        let echo = |t: &Traffic| matches!(t.kind, TrafficKind::Ping { .. });
        if let Some(other) = other.filter(|other| !(echo(other) && echo(&traffic))) {
            let found = format!("service {} of `{}` receives `{}`, too", other.service, names.at(other.to), other.name);
            reader.fail("service", found, "give each its own service number");
        }
        list.push(traffic);
    }
    list
}

fn kind(reader: &Reader<'_>, folder: &Path) -> Option<TrafficKind> {
    let given: Vec<&str> = ["file", "bundles", "ping"].into_iter().filter(|key| reader.given(key)).collect();
    match given[..] {
        ["file"] => file(&reader.table("file", &keys::TRAFFIC_FILE)?, folder),
        ["bundles"] => {
            let table = reader.table("bundles", &keys::TRAFFIC_BUNDLES)?;
            let (count, size, pace) = (table.count("count"), table.custom("size", size_range), pace(&table));
            Some(TrafficKind::Bundles { count: count?, size: size?, pace })
        }
        ["ping"] => {
            let table = reader.table("ping", &keys::TRAFFIC_PING)?;
            let (count, interval, size) = (table.count("count"), table.duration("interval"), table.volume("size"));
            Some(TrafficKind::Ping { count: count?, interval: interval?, size: size? })
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

fn pace(table: &Reader<'_>) -> Pace {
    match (table.rate("rate"), table.duration("interval")) {
        (Some(_), Some(_)) => {
            table.fail("interval", "both `rate` and `interval`", "keep one");
            Pace::Flat
        }
        (Some(rate), None) => Pace::Rate(rate),
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
        let volume = |v: &Value<'_>| Input::Given(v.get_ref()).text()?.parse::<DataVolume>();
        let range = SizeRange { min: volume(min)?, max: volume(max)? };
        return if range.min <= range.max { Ok(range) } else { Err("the smallest is larger than the largest".into()) };
    }
    let size = input.text()?.parse()?;
    Ok(SizeRange { min: size, max: size })
}
