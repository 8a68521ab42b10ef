//! Links: the model of each direction and the parameters of the convergence layer.

use crate::defaults::defaults;
use crate::keys::{self, LayerSections};
use crate::names::Names;
use crate::types::{CAPTURES_MAX, ConnectSide, Layer, Link};
use farlink_base::{Duration, LINK_TERMS, exact_volume, parse_duration};
use farlink_cla::registry::{LAYERS, LayerInfo, Medium};
use farlink_config::custody::terms;
use farlink_config::{Errors, Input, Reader, SpannedValue, Tables, positive_rate};
use farlink_link::UDP_IPV4_HEADERS;
use farlink_link::{Delay, DirectionSpec, Jitter, JitterShape, LinkSpec, Loss, Outages, Rate, Reorder, Spread};
use toml::de::DeValue;

pub fn links(top: &Reader<'_>, nodes: &Names) -> Vec<Link> {
    let defaults = defaults(top, "link_defaults", &[&*keys::LINK, &keys::DIRECTION]);
    let mut links: Vec<Link> = Vec::new();
    let (mut names, mut captures) = (Names::default(), Names::default());
    for (path, table) in top.tables("link") {
        Reader::check_keys(top.errors, &path, table, &[&*keys::LINK, &keys::DIRECTION]);
        let mut layers = vec![(path, table)];
        layers.extend(defaults.clone());
        let reader = Reader::new(top.errors, &keys::LINK, layers.clone());
        let Some(link) = link(&reader, &layers, nodes) else { continue };
        if !names.add(&link.name) {
            reader.fail("name", format!("a second link called `{}`", link.name), "each link needs its own name");
        }
        if link.capture.as_ref().is_some_and(|capture| !captures.add(capture)) {
            reader.fail("capture", "a second capture of this name", "each capture needs its own file");
        }
        links.push(link);
    }
    // Each link has a /24 network in 10.0.0.0/8.
    if links.len() > 65_536 {
        top.fail("link", format!("{} links", links.len()), "the address plan holds 65536");
    }
    if links.iter().filter(|link| link.capture.is_some()).count() > CAPTURES_MAX {
        top.fail("link", format!("more than {CAPTURES_MAX} captures"), "capture the links that you will look at");
    }
    links
}

fn link(reader: &Reader<'_>, layers: &Tables<'_>, nodes: &Names) -> Option<Link> {
    let name = reader.name("name");
    let between = between(reader, nodes);
    let preset = preset(reader);
    let mtu_bytes = reader.volume_u32("mtu").unwrap_or(1500);
    // RFC 791: every link carries 68 octets, and a packet has at most 65,535.
    if !(68..=65_535).contains(&mtu_bytes) {
        reader.fail("mtu", format!("{mtu_bytes} B is not between 68 B and 65535 B"), "1500 B suits most links");
    }
    let (layer, port) = (layer(reader, mtu_bytes), reader.count("port"));
    let forward = direction(reader.errors, &with(reader, "forward", layers), preset.as_ref().map(|p| &p.forward));
    let reverse = direction(reader.errors, &with(reader, "reverse", layers), preset.as_ref().map(|p| &p.reverse));
    let spec = LinkSpec { forward: forward.clone(), reverse: reverse.clone() };
    // Ranges of single values that the emulator and the simulator share are checked in `farlink-link`.
    if let Err(error) = spec.check(&format!("{}.", reader.path())) {
        reader.errors.push(error.path, error.expected, error.hint);
    }
    let layer = layer?;
    let port = port.map_or(layer.kind.port, |port| port as u16);
    let appears = reader.duration("appears").unwrap_or_default();
    let disappears = reader.duration("disappears");
    if disappears.is_some_and(|at| at <= appears) {
        reader.fail("disappears", "a link disappears after it appears", "write a later time, or leave it out");
    }
    let terms = terms(reader, LINK_TERMS);
    let exact = reader.flag("exact").unwrap_or(false);
    let capture = capture(reader);
    let shares = reader.name("shares");
    let found = reader.flag("found").unwrap_or(false);
    // A discovered neighbour is present while its session lasts; layers over datagrams have none.
    if found && layer.kind.medium != Medium::Streams {
        let what = format!("`{}` has no sessions: nobody could tell that a neighbour is there", layer.kind.name);
        reader.fail("found", what, "use a layer over TCP, as `tcpclv4`, or take it out");
    }
    let (name, between) = (name?, between?);
    let capture = match capture {
        Some(Capture::Named(file)) => Some(file),
        Some(Capture::OfLink) => Some(name.clone()),
        None => None,
    };
    Some(Link {
        name,
        between,
        layer,
        port,
        terms,
        mtu_bytes,
        exact,
        capture,
        shares,
        forward,
        reverse,
        appears,
        disappears,
        found,
    })
}

/// Name of the file of a capture.
enum Capture {
    /// Named like the link.
    OfLink,
    Named(String),
}

fn capture(reader: &Reader<'_>) -> Option<Capture> {
    let read = |input: Input<'_, '_>| {
        if let Input::Given(DeValue::Boolean(wanted)) = input {
            return Ok(wanted.then_some(Capture::OfLink));
        }
        let name = input.text().map_err(|_| format!("expected true or the name of a file, found {}", input.found()))?;
        let name = name.strip_suffix(".pcapng").unwrap_or(name);
        // A name and no path: a scenario from elsewhere must not write beyond the folder of its run.
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.starts_with('.') || name.len() > 100 || !name.chars().all(known) {
            return Err(format!("`{name}` is not made of letters, digits, `-`, `_` and `.`"));
        }
        Ok(Some(Capture::Named(name.to_string())))
    };
    reader.custom("capture", read).flatten()
}

/// Indices of the two nodes that `between` names.
pub fn between(reader: &Reader<'_>, nodes: &Names) -> Option<[usize; 2]> {
    let names = reader.custom("between", |input| {
        let names: Vec<String> = input
            .items()?
            .iter()
            .map(|v| Input::Given(v.get_ref()).text().map(str::to_string))
            .collect::<Result<_, _>>()?;
        <[String; 2]>::try_from(names).map_err(|names| format!("expected two nodes, found {}", names.len()))
    })?;
    let mut found = [None; 2];
    for (slot, name) in found.iter_mut().zip(&names) {
        // Both ends are looked up before any return, so that two unknown names are two mistakes.
        *slot = nodes.find(reader, "between", "node", name);
    }
    if names[0] == names[1] {
        reader.fail("between", "it names the same node twice", "name two different nodes");
        return None;
    }
    Some([found[0]?, found[1]?])
}

fn preset(reader: &Reader<'_>) -> Option<LinkSpec> {
    let name = reader.text("preset")?;
    let found = LinkSpec::preset(&name);
    if found.is_none() {
        Names::new(farlink_link::PRESETS.iter().map(|(name, _)| *name)).unknown(reader, "preset", "preset", &name);
    }
    found
}

fn with<'a>(reader: &Reader<'a>, key: &str, layers: &Tables<'a>) -> Tables<'a> {
    // A reader takes the first table that gives a key, so the list runs from the nearest to the farthest.
    let mut tables = Vec::new();
    // The order is `[link.forward]`, `[link]`, `[link_defaults.forward]`, `[link_defaults]`: a key of the link itself
    // precedes every default.
    for (path, table) in layers {
        if let Some(value) = table.get(key) {
            let path = format!("{path}.{key}");
            if let DeValue::Table(own) = value.get_ref() {
                Reader::check_keys(reader.errors, &path, own, &[&keys::DIRECTION]);
                tables.push((path, own));
            } else {
                reader.fail(
                    key,
                    format!("expected a table, found {}", value.get_ref().type_str()),
                    format!("write `[link.{key}]`"),
                );
            }
        }
        tables.push((path.clone(), *table));
    }
    tables
}

fn direction<'a>(errors: &'a Errors<'a>, tables: &Tables<'a>, preset: Option<&DirectionSpec>) -> DirectionSpec {
    let reader = Reader::new(errors, &keys::DIRECTION, tables.clone());
    // Keys change the preset one by one, so each is set only where it is given.
    let mut spec = preset.cloned().unwrap_or_default();
    if reader.given("rate") {
        spec.rate = reader.custom("rate", rate).unwrap_or_default();
    }
    if reader.given("delay") {
        spec.delay = reader.custom("delay", delay).unwrap_or_default();
    }
    if let Some(most) = reader.duration("jitter") {
        let shape = [JitterShape::Uniform, JitterShape::Normal][reader.choice("jitter_shape").unwrap_or(0)];
        let jitter = Jitter { most, shape, reorders: reader.flag("jitter_reorders").unwrap_or(false) };
        spec.jitter = (!most.is_zero()).then_some(jitter);
    }
    if reader.given("loss") && reader.given("burst") {
        reader.fail("burst", "both `loss` and `burst`", "keep one; `burst` has `loss_good` for losses between bursts");
    }
    if reader.given("loss") {
        let loss = reader.share("loss").unwrap_or(0.0);
        spec.loss = if loss > 0.0 { Loss::Bernoulli(loss) } else { Loss::None };
    }
    if let Some(burst) = reader.table("burst", &keys::BURST) {
        let share = |key: &str| burst.share(key).unwrap_or(0.0);
        // p and r are the probabilities, for each packet, to enter and to leave the bad state.
        spec.loss = Loss::GilbertElliott {
            p: share("to_bad"),
            r: share("to_good"),
            bad: share("loss_bad"),
            good: share("loss_good"),
        };
    }
    for (key, slot) in [
        ("bit_error_rate", &mut spec.bit_error_rate),
        ("duplicate", &mut spec.duplicate),
        ("corrupt", &mut spec.corrupt),
    ] {
        if reader.given(key) {
            *slot = reader.share(key).unwrap_or(0.0);
        }
    }
    if reader.given("reorder") {
        let probability = reader.share("reorder").unwrap_or(0.0);
        let gap = reader.duration("reorder_gap").unwrap_or_default();
        spec.reorder = (probability > 0.0).then_some(Reorder { probability, gap });
    }
    if let Some(queue) = reader.volume("queue") {
        spec.queue = Some(queue);
    }
    if reader.given("overhead") {
        spec.overhead = reader.volume_u32("overhead").unwrap_or(0);
    }
    if let Some(outages) = reader.table("outages", &keys::OUTAGES) {
        spec.outages = Some(Outages {
            up: outages.duration("up").unwrap_or(Duration::from_secs(1)),
            down: outages.duration("down").unwrap_or(Duration::from_secs(1)),
            spread: [Spread::Exponential, Spread::Fixed][outages.choice("spread").unwrap_or(0)],
        });
    }
    spec
}

fn rate(input: Input<'_, '_>) -> Result<Rate, String> {
    if let Input::Given(DeValue::Array(_)) = input {
        return pairs(input, positive_rate).map(Rate::Steps);
    }
    match input.text()? {
        "unlimited" => Ok(Rate::Unlimited),
        text => positive_rate(text).map(Rate::Constant),
    }
}

fn delay(input: Input<'_, '_>) -> Result<Delay, String> {
    if let Input::Given(DeValue::Array(_)) = input {
        return pairs(input, parse_duration).map(Delay::Table);
    }
    parse_duration(input.text()?).map(Delay::Constant)
}

/// Reads a value over time: `[["0 s", VALUE], ["60 s", VALUE]]`.
fn pairs<T>(input: Input<'_, '_>, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<(Duration, T)>, String> {
    let pair = |item: &SpannedValue<'_>| {
        let items = Input::Given(item.get_ref()).items()?;
        let [time, value] = items else { return Err(format!("expected [time, value], found {} entries", items.len())) };
        Ok((parse_duration(Input::Given(time.get_ref()).text()?)?, read(Input::Given(value.get_ref()).text()?)?))
    };
    input.items()?.iter().map(pair).collect()
}

fn layer(reader: &Reader<'_>, mtu_bytes: u32) -> Option<Layer> {
    // Tables of other layers in the link itself are mistakes; in `[link_defaults]` they serve links of those layers.
    let index = reader.choice("layer")?;
    let (kind, sections) = (&LAYERS[index], &keys::LAYER_SECTIONS[index]);
    let wrong = LAYERS.iter().find(|other| *other != kind && reader.given_here(other.name));
    if let Some(wrong) = wrong.filter(|_| !reader.given_here(kind.name)) {
        let hint = format!("write `layer = \"{}\"` or remove the table", wrong.name);
        reader.fail(wrong.name, "this link's layer is another", hint);
    }
    let table = layer_table(reader, kind, sections);
    let connect = match kind.medium {
        // Over a one-way stream only the connecting end sends, so both must connect.
        Medium::Streams => table.choice("connect").unwrap_or(if kind.one_way { 2 } else { 0 }),
        Medium::Datagrams => 0,
    };
    let connect = [ConnectSide::First, ConnectSide::Second, ConnectSide::Both][connect];
    let layer = Layer { kind, connect, settings: table.settings() };
    check_datagram(if table.given("datagram") { (&table, "datagram") } else { (reader, "mtu") }, &layer, mtu_bytes);
    Some(layer)
}

fn layer_table<'a>(reader: &Reader<'a>, kind: &LayerInfo, sections: &'static LayerSections) -> Reader<'a> {
    let Some((path, table)) = reader.raw_table(kind.name) else {
        return Reader::new(reader.errors, &sections.link, Vec::new());
    };
    // Keys of a node pass this check, so that the loop below can report them with a hint where they belong.
    Reader::check_keys(reader.errors, &path, table, &[&sections.link, &sections.node]);
    let here = Reader::new(reader.errors, &sections.link, vec![(path, table)]);
    let of_link = |name: &str| sections.link.keys.iter().any(|key| key.name == name);
    for key in sections.node.keys.iter().filter(|key| !of_link(key.name) && here.given(key.name)) {
        let hint = format!("write `{} = {{ {} = ... }}` in `[[node]]` or `[node_defaults]`", kind.name, key.name);
        here.fail(key.name, "holds for all links of a node, not for one", hint);
    }
    here
}

fn check_datagram((table, key): (&Reader<'_>, &str), layer: &Layer, mtu_bytes: u32) {
    // IP would fragment a longer datagram, and the model of a link loses whole packets. The mistake stands at
    // `datagram` if that is given, else at `mtu`.
    let Some(datagram) = layer.value("datagram").filter(|_| layer.kind.medium == Medium::Datagrams) else { return };
    let largest = u64::from(mtu_bytes).saturating_sub(UDP_IPV4_HEADERS);
    if datagram > largest {
        let (datagram, largest) = (exact_volume(datagram), exact_volume(largest));
        let found = format!("{datagram} is not between 64 B and {largest} (the MTU less IP and UDP headers)");
        let found = format!("`datagram`, {found}");
        table.fail(key, found, "make it smaller, or the link's `mtu` larger");
    }
}
