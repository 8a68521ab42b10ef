//! Mobility and radios: the models with their files, and the nodes that use them.

use crate::keys_moving as keys;
use crate::motion::encounters::{self, Meeting, number_of};
use crate::motion::quantities::{area, length, points, seconds, span, speed};
use crate::motion::{
    DelayMode, Map, Mistake, Mobility, Model, Point, Radio, Reach, Sharing, TurnOrder, Turns, Wander, positions, read,
    wkt,
};
use crate::names::Names;
use crate::parse_sky;
use crate::types::{ConnectSide, Layer, Node};
use farlink_base::Duration;
use farlink_cla::registry::LAYERS;
use farlink_config::Reader;
use farlink_link::Loss;
use std::path::Path;

/// Reads all mobilities; [`Equipment`] adds their nodes.
pub fn mobilities(top: &Reader<'_>, folder: &Path) -> Vec<Mobility> {
    let (mut all, mut names) = (Vec::new(), Names::default());
    for (path, table) in top.tables("mobility") {
        let reader = Reader::checked(top.errors, &keys::MOBILITY, &path, table);
        let name = reader.name("name");
        let model = reader.choice("model").and_then(|model| one_model(&reader, keys::MODELS[model], folder));
        let seed = reader.count("seed");
        let Some(name) = name else { continue };
        if !names.add(&name) {
            reader.fail("name", format!("a second mobility called `{name}`"), "each needs its own name");
        }
        // The model's mistake is reported already; a stand-in keeps the name, so that nodes may refer to it.
        let model = model.unwrap_or(Model::Stationary { points: Vec::new(), area: [1.0; 2] });
        all.push(Mobility { name, model, seed, nodes: Vec::new() });
    }
    all
}

fn one_model(reader: &Reader<'_>, model: &str, folder: &Path) -> Option<Model> {
    let wanders = matches!(model, "random_walk" | "random_waypoint");
    // Each key, and whether the model uses it; `file`, which only traces have, is added below.
    let own: [(&str, bool); 9] = [
        ("area", wanders || model == "stationary"),
        ("speed", wanders || model == "map"),
        ("pause", wanders || model == "map"),
        ("step", model == "random_walk"),
        ("points", model == "stationary"),
        ("map", model == "map"),
        ("city", model == "map"),
        ("walker", model == "orbit"),
        ("positions", model == "ground"),
    ];
    for (key, _) in own.iter().chain(&[("file", model == "trace")]).filter(|(key, own)| !own && reader.given(key)) {
        reader.fail(key, format!("a key of another model than `{model}`"), "take it out, or choose that model");
    }
    match model {
        "stationary" => {
            let points = reader.custom("points", points).unwrap_or_default();
            if points.is_empty() && !reader.given("area") {
                reader.fail("area", "says not where the nodes are", "add `area = \"1 km\"`, or `points`");
            }
            Some(Model::Stationary { points, area: reader.custom("area", area).unwrap_or_default() })
        }
        "random_walk" => {
            let (wander, step) = (wander(reader), reader.custom("step", |input| span(input, length)));
            let (wander, step) = (wander?, step?);
            if step[1] < 0.1 {
                reader.fail("step", "steps of less than 10 cm", "write e.g. `step = [\"0 m\", \"50 m\"]`");
            }
            check_haste(reader, step[1], wander.speed);
            if step[0] > wander.area[0].max(wander.area[1]) {
                reader.fail("step", "no step fits into the area", "make the area larger, or the steps shorter");
            }
            Some(Model::Walk { wander, step })
        }
        "random_waypoint" => wander(reader).map(Model::Waypoint),
        "map" => {
            let (speed, pause, map) = (speeds(reader), pauses(reader), streets(reader, folder));
            let (speed, pause, map) = (speed?, pause?, map?);
            if let Map::City { block, .. } = &map {
                check_haste(reader, *block, speed);
            }
            Some(Model::Map { map, speed, pause })
        }
        "orbit" => parse_sky::orbit(reader),
        "ground" => parse_sky::ground(reader),
        _ => trace(reader, folder),
    }
}

fn wander(reader: &Reader<'_>) -> Option<Wander> {
    let area: Option<Point> = reader.custom("area", area);
    if !reader.given("area") {
        reader.fail("area", "missing", "add e.g. `area = \"1 km\"`, the side of a square, or [width, height]");
    }
    let (speed, pause) = (speeds(reader), pauses(reader));
    let (area, speed, pause) = (area?, speed?, pause?);
    check_haste(reader, area[0].max(area[1]), speed);
    Some(Wander { area, speed, pause })
}

fn check_haste(reader: &Reader<'_>, metres: f64, speed: [f64; 2]) {
    // The shortest leg takes at least a millisecond, so that an hour has at most 3.6 million legs for each node.
    if metres / speed[1] < 1e-3 {
        reader.fail("speed", "ways that take less than a millisecond", "go slower, or farther");
    }
}

fn speeds(reader: &Reader<'_>) -> Option<[f64; 2]> {
    if !reader.given("speed") {
        reader.fail("speed", "missing", "add e.g. `speed = [\"0.5 m/s\", \"1.5 m/s\"]`");
    }
    reader.custom("speed", |input| span(input, speed))
}

fn pauses(reader: &Reader<'_>) -> Option<[f64; 2]> {
    reader.custom("pause", |input| span(input, seconds))
}

fn streets(reader: &Reader<'_>, folder: &Path) -> Option<Map> {
    if reader.given("map") == reader.given("city") {
        let found = if reader.given("map") { "both `map` and `city`" } else { "says not which streets" };
        reader.fail("map", found, "give one of `map = \"streets.wkt\"` and `city = { columns = 20, rows = 20 }`");
        return None;
    }
    if let Some(city) = reader.table("city", &keys::CITY) {
        let block = city.custom("block", |input| length(input.text()?));
        if block.is_some_and(|block| block < 1.0) {
            city.fail("block", "blocks of less than a metre", "100 m suits most cities");
        }
        let (columns, rows) = (city.count("columns")? as u32, city.count("rows")? as u32);
        let (bend, missing) = (city.share("bend")?, city.share("missing")?);
        return Some(Map::City { columns, rows, block: block?, bend, missing });
    }
    let (file, text) = read(reader, "map", folder)?;
    // Nodes go to random crossings, so the map needs two points and a way between any two.
    let streets = wkt::parse(&text).map_err(|mistake| of_file(reader, &file, &mistake)).ok()?;
    if streets.points.len() < 2 {
        reader.fail("map", "a map without streets", "it needs a LINESTRING at least");
        return None;
    }
    let parts = streets.parts();
    if parts > 1 {
        let found = format!("the map has {parts} parts, and no street leads from one to another");
        reader.fail("map", found, "streets meet only where they have a point in common: add it to both");
        return None;
    }
    Some(Map::File(streets))
}

fn trace(reader: &Reader<'_>, folder: &Path) -> Option<Model> {
    if !reader.given("file") {
        reader.fail("file", "says not what was recorded", "add `file = \"positions.txt\"`");
    }
    let (file, text) = read(reader, "file", folder)?;
    positions::parse(&text).map_err(|mistake| of_file(reader, &file, &mistake)).ok().map(Model::Trace)
}

/// Reports a mistake in a file that the scenario names, with its line.
fn of_file(reader: &Reader<'_>, file: &Path, mistake: &Mistake) {
    let hint = "docs/reference/scenario.md says what such a file holds";
    reader.errors.push(format!("{} (line {})", file.display(), mistake.line), mistake.message.clone(), hint);
}

/// Reads all radios, without their nodes and contacts, and returns them with the readers of their tables.
pub fn radios<'a>(top: &Reader<'a>) -> (Vec<Radio>, Vec<Reader<'a>>) {
    let (mut all, mut readers, mut names) = (Vec::new(), Vec::new(), Names::default());
    for (path, table) in top.tables("radio") {
        let reader = Reader::checked(top.errors, &keys::RADIO, &path, table);
        let name = reader.name("name");
        let range = reader.custom("range", |input| length(input.text()?));
        if range.is_some_and(|range| range < 1e-3) {
            reader.fail("range", "a range of less than a millimetre", "write e.g. `range = \"150 m\"`");
        }
        let sight = parse_sky::sight(&reader, range);
        if reader.given("range") == reader.given("contacts") && !reader.given("neighbours") {
            let found = if reader.given("range") { "both `range` and `contacts`" } else { "says not who hears whom" };
            reader.fail("range", found, "give one of `range = \"150 m\"` and `contacts = \"contacts.txt\"`");
        }
        let of_file = ["contacts_from", "first_number", "only_known"];
        for key in of_file.into_iter().filter(|key| reader.given(key) && !reader.given("contacts")) {
            reader.fail(key, "says more of a file, and none is given", "add `contacts`, or take it out");
        }
        let (rate, delay, loss) = (reader.rate("rate"), reader.duration("delay"), reader.share("loss"));
        let (layer, sharing) = (reader.choice("layer"), sharing(&reader));
        let Some(name) = name else { continue };
        // A radio with an unknown layer keeps its name, so that the mistake is reported once and not by each of its
        // nodes.
        let layer = layer.unwrap_or(0);
        if !names.add(&name) {
            reader.fail("name", format!("a second radio called `{name}`"), "each needs its own name");
        }
        let loss = loss.filter(|loss| *loss > 0.0).map_or(Loss::None, Loss::Bernoulli);
        let layer = Layer { kind: &LAYERS[layer], connect: ConnectSide::First, settings: Vec::new() };
        // Radios with mistakes get a range of 1 m: they must have some reach to be kept.
        let reach = match range {
            _ if sight.is_some() => sight.map_or(Reach::Range(1.0), Reach::Sight),
            None if reader.given("contacts") => Reach::Recorded(Vec::new()),
            range => Reach::Range(range.unwrap_or(1.0)),
        };
        all.push(Radio { name, reach, rate, delay, loss, layer, sharing, nodes: Vec::new() });
        readers.push(reader);
    }
    // Each pair of nodes may get a link by each radio.
    if all.len() > 1000 {
        top.fail("radio", format!("{} radios", all.len()), "there are at most 1000");
    }
    (all, readers)
}

fn sharing(reader: &Reader<'_>) -> Sharing {
    // In the order of the words in `keys_moving`.
    const TURNS: [Turns; 2] = [Turns::Node, Turns::Link];
    const ORDERS: [TurnOrder; 4] = [TurnOrder::Sender, TurnOrder::Receiver, TurnOrder::Fair, TurnOrder::Random];
    const MODES: [DelayMode; 2] = [DelayMode::Pipelined, DelayMode::StopAndWait];
    // An unknown word is reported already; the first word stands in for it, so that the radio keeps its name.
    let word = |key: &str| reader.choice(key).unwrap_or(0);
    let turns = TURNS[word("turns")];
    if reader.given("turn_order") && turns == Turns::Link {
        let found = "says who goes first, and with `turns = \"link\"` nobody waits for another";
        reader.fail("turn_order", found, "take one of them out");
    }
    Sharing {
        turns,
        order: ORDERS[word("turn_order")],
        delay_mode: MODES[word("delay_mode")],
        metadata_free: keys::METADATA[word("metadata")] == "free",
        quantum: reader.duration("quantum").unwrap_or_default(),
        beams: reader.count("beams").map(|beams| beams as u32),
    }
}

/// Mobilities and radios under construction, to which tables of nodes add their nodes.
pub struct Equipment<'m> {
    mobilities: &'m mut [Mobility],
    mobility_names: Names,
    radios: &'m mut [Radio],
    radio_names: Names,
}

impl<'m> Equipment<'m> {
    /// Starts with these models and radios, all without nodes.
    pub fn new(mobilities: &'m mut [Mobility], radios: &'m mut [Radio]) -> Equipment<'m> {
        let mobility_names = Names::new(mobilities.iter().map(|mobility| mobility.name.as_str()));
        let radio_names = Names::new(radios.iter().map(|radio| radio.name.as_str()));
        Equipment { mobilities, mobility_names, radios, radio_names }
    }
    pub fn equip(&mut self, reader: &Reader<'_>, nodes: std::ops::Range<usize>) {
        // A node whose radio has a range needs a position, hence a mobility; a radio with recorded contacts needs
        // neither.
        if let Some(found) = self.mobility_names.named(reader, "mobility", "mobility") {
            self.mobilities[found].nodes.extend(nodes.clone());
        }
        for name in reader.texts("radio").unwrap_or_default() {
            let Some(found) = self.radio_names.find(reader, "radio", "radio", &name) else { continue };
            let radio = &mut self.radios[found];
            // The nodes of a table are added together, so the first one stands for all.
            if radio.nodes.contains(&nodes.start) {
                reader.fail("radio", format!("`{name}` twice"), "name each once");
                continue;
            }
            radio.nodes.extend(nodes.clone());
            if !matches!(radio.reach, Reach::Recorded(_)) && !reader.given("mobility") {
                let hint = "add `mobility`; `stationary` is one";
                reader.fail("radio", format!("`{name}` has a range, and where the node is is not said"), hint);
            }
        }
    }
}

/// Checks that each model has positions for all of its nodes.
pub fn check(top: &Reader<'_>, mobilities: &[Mobility]) {
    for Mobility { name, model, nodes, .. } in mobilities {
        let (told, what) = match model {
            Model::Trace(tracks) => (tracks.len(), "has positions of"),
            Model::Stationary { points, area } if *area == [0.0; 2] => (points.len(), "has points for"),
            Model::Orbit(walker) => (walker.count(), "has satellites for"),
            Model::Ground(sites) => (sites.len(), "has positions for"),
            _ => continue,
        };
        if told < nodes.len() {
            let found = format!("{what} {told} nodes, and {} move so", nodes.len());
            top.errors.push(format!("mobility[{name}]"), found, "add more, or let fewer nodes name it");
        }
    }
}

/// Reads the contact files of radios with recorded contacts.
pub fn contacts(radios: &mut [Radio], readers: &[Reader<'_>], nodes: &[Node], folder: &Path) {
    let of_file = |reader: &Reader<'_>| reader.given("contacts") && !reader.given("range");
    for (radio, reader) in radios.iter_mut().zip(readers).filter(|(_, reader)| of_file(reader)) {
        radio.reach = Reach::Recorded(recorded(reader, radio, nodes, folder).unwrap_or_default());
    }
}

fn recorded(reader: &Reader<'_>, radio: &Radio, nodes: &[Node], folder: &Path) -> Option<Vec<Meeting>> {
    let (from, first) = (reader.duration("contacts_from")?, reader.count("first_number")?);
    let only_known = reader.flag("only_known")?;
    let (file, text) = read(reader, "contacts", folder)?;
    let found = encounters::parse(&text).map_err(|mistake| of_file(reader, &file, &mistake)).ok()?;
    let names = Names::new(radio.nodes.iter().map(|node| nodes[*node].name.as_str()));
    let place = |id: &str| {
        // Files name nodes as the scenario does, or by numbers that begin at `first_number`.
        let numbered = || Some(number_of(id)?.checked_sub(first)? as usize);
        radio.nodes.get(names.place(id).or_else(numbered)?).copied()
    };
    let mut meetings = Vec::new();
    for encounter in found {
        let [one, other] = encounter.nodes.map(place);
        let (Some(one), Some(other)) = (one, other) else {
            if only_known {
                continue;
            }
            let id = encounter.nodes[usize::from(one.is_some())];
            let of = radio.nodes.len();
            let message = format!("`{id}` is none of the {of} nodes with this radio, which have numbers from {first}");
            let hint = "give `first_number`, name the nodes as the file does, or add `only_known = true`";
            reader.errors.push(format!("{} (line {})", file.display(), encounter.line), message, hint);
            return None;
        };
        let in_run = |time: f64| time - from.as_secs_f64();
        let end = encounter.end.map(in_run);
        // The record may begin before the run: contacts that are over then are left out, others are cut at its start.
        if end.is_some_and(|end| end <= 0.0) {
            continue;
        }
        let time = |seconds: f64| Duration::from_nanos((seconds.max(0.0) * 1e9).round() as u64);
        meetings.push(Meeting { nodes: [one, other], start: time(in_run(encounter.start)), end: end.map(time) });
    }
    Some(meetings)
}
