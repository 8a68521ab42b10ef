//! Parsing of a scenario's text to a checked [`Scenario`]: top level and measurement.

use crate::keys;
use crate::names::Names;
use crate::parse_moving::Equipment;
use crate::types::{Expect, Fidelity, Measure, Scenario, Table};
use farlink_base::{ConfigError, Duration};
use farlink_config::{Errors, Reader};
use std::path::Path;
use toml::de::DeTable;

impl Scenario {
    /// Reads a scenario file; paths in it are relative to its folder. Returns all errors at once.
    pub fn load(path: &Path) -> Result<Scenario, Vec<ConfigError>> {
        let text = farlink_config::read_text(path).map_err(|expected| {
            let hint = "give the path of a scenario file; `farlink init scenario` writes one".into();
            vec![ConfigError { path: path.display().to_string(), expected, hint }]
        })?;
        Scenario::parse_of(&text, path.parent().unwrap_or(Path::new("")), &path.display().to_string())
    }

    /// Reads a scenario from text; paths in it are relative to the working directory.
    pub fn parse(text: &str) -> Result<Scenario, Vec<ConfigError>> {
        Scenario::parse_in(text, Path::new(""))
    }

    /// Reads a scenario from text; paths in it are relative to `folder`. Returns all errors at once.
    pub fn parse_in(text: &str, folder: &Path) -> Result<Scenario, Vec<ConfigError>> {
        Scenario::parse_of(text, folder, "FILE")
    }

    /// Reads the text of the scenario `file`.
    fn parse_of(text: &str, folder: &Path, file: &str) -> Result<Scenario, Vec<ConfigError>> {
        let errors = Errors::new(None, text);
        let root = errors.parse().filter(|root| !is_of_a_node(&errors, root.get_ref(), file));
        let root = root.filter(|root| !is_of_a_campaign(&errors, root.get_ref(), file));
        let scenario = root.as_ref().and_then(|root| read(&errors, root.get_ref(), text, folder));
        // The tree borrows the list of errors.
        drop(root);
        let mut list = errors.into_list();
        list.iter_mut().for_each(name_other_table);
        match scenario {
            Some(scenario) if list.is_empty() => Ok(scenario),
            _ => Err(list),
        }
    }
}

/// Most tables that a hint about an unknown key names; a key of more of them has no certain place.
const TABLES_NAMED: usize = 2;

/// Completes the hint about an unknown key that belongs to another table.
fn name_other_table(error: &mut ConfigError) {
    if error.expected != "unknown key" {
        return;
    }
    let path = error.path.split(" (line").next().unwrap_or_default();
    let key = path.rsplit('.').next().unwrap_or_default();
    let tables = crate::docs::tables_with(key);
    if (1..=TABLES_NAMED).contains(&tables.len()) {
        let near =
            error.hint.strip_prefix("did you mean ").map_or(String::new(), |near| format!("; or did you mean {near}"));
        error.hint = format!("`{key}` is a key of {}{near}", tables.join(" and "));
    }
}

/// Whether the tables are those of a node file, which is then reported as an error.
fn is_of_a_node(errors: &Errors<'_>, root: &DeTable<'_>, file: &str) -> bool {
    let is_table = |name: &str| root.get(name).is_some_and(|value| value.get_ref().is_table());
    let ids = root.get("node_ids");
    let found = !root.contains_key("node") && (ids.is_some() || is_table("layer") || is_table("link"));
    if found {
        let hint = format!("`farlink node --config {file}` runs the node; `farlink init scenario` writes a scenario");
        let at = ids.map_or(0, |ids| ids.span().start);
        errors.push(format!("line {}", errors.line(at)), "this is a node file, not a scenario file", hint);
    }
    found
}

/// Whether the tables are those of a campaign, which is then reported as an error.
fn is_of_a_campaign(errors: &Errors<'_>, root: &DeTable<'_>, file: &str) -> bool {
    let first = ["axis", "figure"].into_iter().filter_map(|key| root.get(key)).map(|value| value.span().start).min();
    let found = first.filter(|_| !root.contains_key("node"));
    if let Some(at) = found {
        let folder = Path::new(file).parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).display();
        let hint = format!("`farlink campaign run {folder}` runs it, if the file is called campaign.toml");
        errors.push(format!("line {}", errors.line(at)), "this is a campaign, not a scenario file", hint);
    }
    found.is_some()
}

fn read(errors: &Errors<'_>, root: &DeTable<'_>, text: &str, folder: &Path) -> Option<Scenario> {
    Reader::check_keys(errors, "", root, &[&keys::SCENARIO]);
    let top = Reader::new(errors, &keys::SCENARIO, vec![(String::new(), root)]);
    let name = top.name("name").unwrap_or_default();
    let given = top.duration("duration");
    let duration = given.unwrap_or_default();
    // Nanoseconds of an unsigned 64-bit integer last 584 years; 200 leave room for lifetimes and delays beyond the end.
    if duration > Duration::from_secs(200 * 366 * 86_400) {
        top.fail("duration", "at most 200 years", "");
    }
    if given.is_some_and(|duration| duration.is_zero()) {
        top.fail("duration", "a run that takes no time", "write how long it may take at most, e.g. \"10 min\"");
    }
    // The order follows the references: nodes name mobilities and radios, links name nodes, traffic names all, and
    // contacts and faults name links.
    let mut mobilities = crate::parse_moving::mobilities(&top, folder);
    let (mut radios, tables) = crate::parse_moving::radios(&top);
    let (nodes, groups) = crate::parse_node::nodes(&top, &mut Equipment::new(&mut mobilities, &mut radios));
    crate::parse_moving::check(&top, &mobilities);
    crate::parse_sky::check(&top, &mobilities, &radios);
    crate::parse_moving::contacts(&mut radios, &tables, &nodes, folder);
    let names = Names::new(nodes.iter().map(|n| n.name.as_str())).or_broken(&top, "node");
    let links = crate::parse_link::links(&top, &names);
    let epoch = top.time("epoch");
    let places = crate::parse_traffic::Places { nodes: &nodes, names: &names, groups: &groups };
    let (traffic, group_traffic) = crate::parse_traffic::traffic(&top, duration, &places, folder);
    let mut scenario = Scenario {
        name,
        description: top.text("description").unwrap_or_default(),
        seed: top.count("seed").unwrap_or(1),
        duration,
        stop_when_delivered: top.flag("stop_when_delivered").unwrap_or(true),
        shared_routes: top.flag("shared_routes").unwrap_or(false),
        fidelity: if top.choice("fidelity") == Some(0) { Fidelity::Message } else { Fidelity::Full },
        epoch,
        traffic,
        group_traffic,
        flows: Vec::new(),
        files: files(root),
        groups,
        mobilities,
        radios,
        nodes,
        links,
        contacts: Vec::new(),
        faults: Vec::new(),
        phases: crate::parse_host::phases(&top),
        measure: measure(&top, duration),
        expect: expect(&top),
        text: text.to_string(),
        plan_file: None,
        forecast: Vec::new(),
        folder: folder.to_path_buf(),
    };
    crate::parse_contact::contacts(&top, &mut scenario, &names);
    crate::parse_forecast::forecast(&top, &mut scenario);
    scenario.flows = crate::parse_flow::flows(&top, &scenario, &names);
    crate::parse_flow::check_shares(&top, &scenario);
    scenario.faults = crate::parse_fault::faults(&top, &scenario, &names);
    crate::parse_host::check(&top, &scenario);
    // Drawing relies on checked indices, such as a second node in every group of traffic.
    if errors.is_empty() {
        scenario.set_seed(scenario.seed);
    }
    Some(scenario)
}

/// Tables and keys that name files of movements and contacts.
const FILES: [(&str, &str); 3] = [("mobility", "map"), ("mobility", "file"), ("radio", "contacts")];

fn files(root: &DeTable<'_>) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for (name, key) in FILES {
        // Taken from the text and not from the parsed models, which keep the content and drop the names.
        let tables = root.get(name).and_then(|value| value.get_ref().as_array());
        for table in tables.into_iter().flatten() {
            let value = table.get_ref().as_table().and_then(|table| table.get(key));
            files.extend(value.and_then(|value| value.get_ref().as_str()).map(std::path::PathBuf::from));
        }
    }
    files
}

/// Most samples of a run whose scenario gives no `interval`.
const SAMPLES: u32 = 1000;

fn measure(top: &Reader<'_>, duration: Duration) -> Measure {
    use Table::{Bundles, Events, Legs, Links, Meetings, Processes, Samples};
    const ALL: [Table; 7] = [Events, Bundles, Samples, Links, Processes, Legs, Meetings];
    // Short runs are sampled at most ten times a second, unless the scenario asks for more.
    let interval = (duration / SAMPLES).max(Duration::from_millis(100));
    let mut measure = Measure { interval, tables: ALL.to_vec(), segments: false };
    let Some(reader) = top.table("measure", &keys::MEASURE) else { return measure };
    if let Some(interval) = reader.duration("interval") {
        if interval < Duration::from_millis(1) {
            reader.fail("interval", "at least 1 ms", "10 ms to 1 s suit most runs");
        }
        measure.interval = interval;
    }
    if let Some(chosen) = reader.choices("tables") {
        measure.tables = ALL.iter().enumerate().filter(|(i, _)| chosen.contains(i)).map(|(_, t)| *t).collect();
    }
    measure.segments = reader.flag("segments").unwrap_or(false);
    measure
}

fn expect(top: &Reader<'_>) -> Expect {
    let Some(reader) = top.table("expect", &keys::EXPECT) else {
        return Expect { delivery_ratio: None, finished_within: None, wall_time_lab: None };
    };
    Expect {
        delivery_ratio: reader.share("delivery_ratio"),
        finished_within: reader.duration("finished_within"),
        wall_time_lab: reader.duration("wall_time_lab"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// Text of a chain of nodes with links, contacts and traffic; with `mistakes`, every tenth link has one.
    fn chain(nodes: usize, mistakes: bool) -> String {
        let mut text = String::from("name = \"chain\"\nduration = \"1 h\"\n");
        for n in 1..=nodes {
            let _ =
                writeln!(text, "[[node]]\nname = \"n{n}\"\nid = \"ipn:{n}.0\"\nroutes = {{ \"ipn:1.*\" = \"n1\" }}");
        }
        for n in 1..nodes {
            let wrong = if mistakes && n % 10 == 0 { "rat = 1\n" } else { "" };
            let _ = writeln!(
                text,
                "[[link]]\nname = \"l{n}\"\nbetween = [\"n{n}\", \"n{}\"]\nlayer = \"ltp\"\n{wrong}\
                 [[contact]]\nlink = \"l{n}\"\nstart = \"1 s\"\nend = \"2 s\"\n\
                 [[traffic]]\nfrom = \"n{n}\"\nto = \"n{}\"\nbundles = {{ count = 1, size = \"1 kB\" }}",
                n + 1,
                n + 1
            );
        }
        text
    }

    /// Steps taken to read a text, and the number of its mistakes.
    fn work(text: &str) -> (u64, usize) {
        let errors = Errors::new(None, text);
        let root = errors.parse().expect("TOML");
        let scenario = read(&errors, root.get_ref(), text, Path::new("")).expect("a scenario");
        drop((root, scenario));
        (errors.work(), errors.into_list().len())
    }

    #[test]
    fn parsing_is_linear_in_nodes() {
        for mistakes in [false, true] {
            let ((one, few), (two, many)) = (work(&chain(1000, mistakes)), work(&chain(2000, mistakes)));
            assert_eq!((few > 0, many > 0), (mistakes, mistakes));
            // With mistakes, finding a line takes as many steps as its number has bits: one more for twice the nodes.
            assert!(two as f64 <= one as f64 * 2.05, "{one} steps for 1000 nodes, {two} for 2000");
            let keys = chain(2000, mistakes).lines().count() as u64;
            assert!(two < keys * 20, "{two} steps for {keys} lines");
        }
    }
}
