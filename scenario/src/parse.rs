//! From text to a checked [`Scenario`]: top level, nodes, measurement.

use crate::keys;
use crate::reader::{Errors, Input, Reader, choose, nearest};
use crate::types::{Crc, Expect, Measure, Node, Policy, Route, Scenario, StoreKind, Table};
use farlink_base::{ConfigError, DataRate, DataVolume, Duration, NodeId, Priority, parse_duration};
use std::path::Path;
use toml::de::{DeTable, DeValue};

impl Scenario {
    /// Reads a scenario file; paths in it are relative to its folder. All errors at once.
    pub fn load(path: &Path) -> Result<Scenario, Vec<ConfigError>> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            vec![ConfigError {
                path: path.display().to_string(),
                expected: format!("cannot be read: {error}"),
                hint: "give the path of a scenario file; `farlink init scenario` writes one".into(),
            }]
        })?;
        Scenario::parse_in(&text, path.parent().unwrap_or(Path::new("")))
    }

    /// Reads a scenario from text; paths in it are relative to the working directory.
    pub fn parse(text: &str) -> Result<Scenario, Vec<ConfigError>> {
        Scenario::parse_in(text, Path::new(""))
    }

    /// Reads a scenario from text; paths in it are relative to `folder`. All errors at once.
    pub fn parse_in(text: &str, folder: &Path) -> Result<Scenario, Vec<ConfigError>> {
        let errors = Errors::new(text);
        let (root, syntax) = DeTable::parse_recoverable(text);
        if !syntax.is_empty() {
            for error in &syntax {
                let offset = error.span().map_or(0, |span| span.start);
                errors.push(
                    format!("line {}", errors.line(offset)),
                    format!("not TOML: {}", error.message().trim()),
                    "text values need double quotes; tables are `[name]`, lists of tables `[[name]]`",
                );
            }
            return Err(errors.into_list());
        }
        let scenario = read(&errors, root.get_ref(), text, folder);
        let list = errors.into_list();
        match scenario {
            Some(scenario) if list.is_empty() => Ok(scenario),
            _ => Err(list),
        }
    }
}

fn read(errors: &Errors<'_>, root: &DeTable<'_>, text: &str, folder: &Path) -> Option<Scenario> {
    Reader::check_keys(errors, "", root, &[&keys::SCENARIO]);
    let top = Reader::new(errors, &keys::SCENARIO, vec![(String::new(), root)]);
    let name = top.name("name").unwrap_or_default();
    let duration = top.duration("duration").unwrap_or_default();
    if duration > Duration::from_secs(200 * 366 * 86_400) {
        top.fail("duration", "at most 200 years", "");
    }
    let nodes = nodes(&top);
    let names: Vec<String> = nodes.iter().map(|n| n.name.clone()).collect();
    let links = crate::parse_link::links(&top, &names);
    let epoch = top.time("epoch");
    let mut scenario = Scenario {
        name,
        description: top.text("description").unwrap_or_default(),
        seed: top.count("seed").unwrap_or(1),
        duration,
        stop_when_delivered: top.flag("stop_when_delivered").unwrap_or(true),
        epoch,
        traffic: crate::parse_traffic::traffic(&top, &nodes, folder),
        nodes,
        links,
        contacts: Vec::new(),
        measure: measure(&top),
        expect: expect(&top),
        text: text.to_string(),
        plan_file: None,
        folder: folder.to_path_buf(),
    };
    crate::parse_contact::contacts(&top, &mut scenario);
    Some(scenario)
}

fn measure(top: &Reader<'_>) -> Measure {
    const ALL: [Table; 5] = [Table::Events, Table::Bundles, Table::Samples, Table::Links, Table::Processes];
    let mut measure = Measure { interval: Duration::from_millis(100), tables: ALL.to_vec(), segments: false };
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

/// A table of `<what>_defaults`, with its keys checked.
pub fn defaults<'a>(
    top: &Reader<'a>,
    key: &str,
    sections: &[&'static keys::Section],
) -> Option<(String, &'a DeTable<'a>)> {
    let (_, value) = top.get(key)?;
    let DeValue::Table(table) = value.get_ref() else {
        top.fail(key, "expected a table", format!("write `[{key}]`"));
        return None;
    };
    Reader::check_keys(top.errors, key, table, sections);
    Some((key.to_string(), table))
}

fn nodes(top: &Reader<'_>) -> Vec<Node> {
    let defaults = defaults(top, "node_defaults", &[&keys::NODE]);
    let tables = top.tables("node");
    if tables.is_empty() {
        top.fail("node", "a scenario needs at least one node", "add `[[node]]` with `name` and `id`");
    }
    let mut nodes: Vec<Node> = Vec::with_capacity(tables.len());
    let mut readers = Vec::with_capacity(tables.len());
    for (path, table) in tables {
        Reader::check_keys(top.errors, &path, table, &[&keys::NODE]);
        let mut layers = vec![(path, table)];
        layers.extend(defaults.clone());
        let reader = Reader::new(top.errors, &keys::NODE, layers);
        let node = node(&reader, nodes.len());
        if let Some(other) = nodes.iter().find(|n| n.name == node.name) {
            reader.fail("name", format!("a second node called `{}`", other.name), "each node needs its own name");
        }
        if let Some((id, other)) = node.ids.iter().find_map(|id| Some((id, nodes.iter().find(|n| n.ids.contains(id))?)))
        {
            reader.fail("id", format!("`{id}` belongs to node `{}`, too", other.name), "each node needs its own ID");
        }
        nodes.push(node);
        readers.push(reader);
    }
    let names: Vec<String> = nodes.iter().map(|n| n.name.clone()).collect();
    for (node, reader) in nodes.iter_mut().zip(&readers) {
        node.routes = reader.custom("routes", |input| routes(input, &names)).unwrap_or_default();
    }
    nodes
}

fn node(reader: &Reader<'_>, index: usize) -> Node {
    let ids = reader.custom("id", endpoint_ids).unwrap_or_default();
    let number = ids.first().and_then(|id| ipn_number(id)).unwrap_or(NodeId::interned(index as u32));
    let params = |key: &str| reader.custom(key, params).unwrap_or_default();
    let router = Policy { name: reader.text("router").unwrap_or_default(), params: params("router_params") };
    let control = Policy { name: reader.text("control").unwrap_or_default(), params: params("control_params") };
    check_policies(reader, &router, &control);
    let lifetime = reader.duration("lifetime").unwrap_or_default();
    if lifetime < Duration::from_millis(1) && reader.given("lifetime") {
        reader.fail("lifetime", "a lifetime of at least 1 ms", "bundles without lifetime are dropped at once");
    }
    Node {
        name: reader.name("name").unwrap_or_default(),
        ids,
        number,
        store: if reader.choice("store") == Some(1) { StoreKind::Durable } else { StoreKind::Memory },
        store_capacity: reader.volume("store_capacity").unwrap_or_default(),
        router,
        control,
        routes: Vec::new(),
        hop_limit: reader.count("hop_limit").unwrap_or(0) as u8,
        crc: [Crc::None, Crc::Crc16, Crc::Crc32c][reader.choice("crc").unwrap_or(2)],
        status_reports: reader.flag("status_reports").unwrap_or(false),
        lifetime,
        priority: Priority::ALL[reader.choice("priority").unwrap_or(1)],
        position: reader.custom("position", point),
    }
}

/// Names and parameters must be those of the registries.
fn check_policies(reader: &Reader<'_>, router: &Policy, control: &Policy) {
    let made = [
        farlink_routing::make_router(&router.name, &router.params, &[], 0).err(),
        farlink_congestion::make_control(&control.name, &control.params, 0).err(),
    ];
    for (key, error) in ["router", "control"].into_iter().zip(made) {
        let Some(error) = error else { continue };
        // `router.sabr.profil` is about a parameter, `router` about the name.
        match error.path.rsplit_once('.') {
            None => reader.fail(key, error.expected, error.hint),
            Some((_, param)) => {
                reader.fail(&format!("{key}_params"), format!("`{param}`: {}", error.expected), error.hint);
            }
        }
    }
}

fn point(input: Input<'_, '_>) -> Result<(f64, f64), String> {
    let items = input.items()?;
    let [x, y] = items else { return Err(format!("expected two numbers, found {}", items.len())) };
    let (x, y) = (Input::Given(x.get_ref()).number()?, Input::Given(y.get_ref()).number()?);
    if [x, y].iter().all(|v| (0.0..=1.0).contains(v)) {
        Ok((x, y))
    } else {
        Err("expected two numbers from 0 to 1".into())
    }
}

fn endpoint_ids(input: Input<'_, '_>) -> Result<Vec<String>, String> {
    let ids: Vec<String> = match input {
        Input::Given(DeValue::Array(items)) => {
            items.iter().map(|v| Input::Given(v.get_ref()).text().map(str::to_string)).collect::<Result<_, _>>()?
        }
        other => vec![other.text()?.to_string()],
    };
    if ids.is_empty() {
        return Err("expected at least one node ID".into());
    }
    for id in &ids {
        let dtn = id.strip_prefix("dtn://").and_then(|rest| rest.strip_suffix('/'));
        let fine = ipn_number(id).is_some() || dtn.is_some_and(|name| !name.is_empty() && !name.contains('/'));
        if !fine {
            return Err(format!("`{id}` is not a node ID: `ipn:NUMBER.0` or `dtn://NAME/`"));
        }
    }
    Ok(ids)
}

/// The node number of `ipn:node.0` or `ipn:allocator.node.0` (RFC 9758 4.1: the allocator is the
/// upper half).
fn ipn_number(id: &str) -> Option<NodeId> {
    let number = |text: &str| -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        (digits && (text == "0" || !text.starts_with('0'))).then(|| text.parse().ok())?
    };
    let parts: Vec<u64> = id.strip_prefix("ipn:")?.split('.').map(number).collect::<Option<_>>()?;
    let node = match parts[..] {
        [node, 0] => node,
        [allocator, node, 0] if allocator <= u64::from(u32::MAX) && node <= u64::from(u32::MAX) => {
            allocator << 32 | node
        }
        _ => return None,
    };
    (node != 0 && node < NodeId::INTERNED).then_some(NodeId(node))
}

/// Parameters: numbers as they are; quantities in seconds, bytes or bits per second.
fn params(input: Input<'_, '_>) -> Result<Vec<(String, f64)>, String> {
    let Input::Given(DeValue::Table(table)) = input else {
        return Err(format!("expected a table, found {}", input.found()));
    };
    let mut params = Vec::new();
    for (key, value) in table {
        let value = match value.get_ref() {
            DeValue::Boolean(flag) => f64::from(u8::from(*flag)),
            DeValue::String(text) => parse_duration(text)
                .map(|d| d.as_secs_f64())
                .or_else(|_| text.parse::<DataVolume>().map(|v| v.0 as f64))
                .or_else(|_| text.parse::<DataRate>().map(|r| r.0 as f64))
                .map_err(|_| format!("`{}`: `{text}` is no quantity", key.get_ref()))?,
            other => Input::Given(other).number()?,
        };
        params.push((key.get_ref().to_string(), value));
    }
    Ok(params)
}

fn routes(input: Input<'_, '_>, names: &[String]) -> Result<Vec<Route>, String> {
    let Input::Given(DeValue::Table(table)) = input else {
        return Err(format!("expected a table, found {}", input.found()));
    };
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let route = |(pattern, via): (&toml::Spanned<_>, &crate::reader::Value<'_>)| {
        let pattern: &std::borrow::Cow<'_, str> = pattern.get_ref();
        Ok(Route { to: pattern.to_string(), via: choose(Input::Given(via.get_ref()).text()?, &words)? })
    };
    table.iter().map(route).collect()
}

/// Index of a node named in a key; reported when there is none.
pub fn node_index(reader: &Reader<'_>, key: &str, names: &[String]) -> Option<usize> {
    let name = reader.text(key)?;
    let index = names.iter().position(|n| *n == name);
    if index.is_none() {
        unknown(reader, key, "node", &name, names);
    }
    index
}

/// Reports a name that refers to nothing.
pub fn unknown(reader: &Reader<'_>, key: &str, what: &str, name: &str, names: &[String]) {
    let words = || names.iter().map(String::as_str);
    let hint = match nearest(name, words()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("{what}s: {}", words().collect::<Vec<_>>().join(", ")),
    };
    reader.fail(key, format!("no {what} is called `{name}`"), hint);
}
