//! Converts settings of The ONE to a Farlink scenario, for `farlink one --mode fast`.
//!
//! The scenario has the same hosts and messages, but time advances from event to event, and radios and routers are
//! Farlink's. [`DIFFERENCES`] is printed with every run.

use crate::CliError;
use farlink_one::settings::{Active, Generator, Group, Model, Router, Source};
use farlink_one::{EventKind, Fix, Setup};
use std::fmt::Write as _;
use std::ops::Range;

/// Differences from The ONE that no conversion avoids: subject, Farlink, The ONE.
pub const DIFFERENCES: &[(&str, &str, &str)] = &[
    ("", "Farlink", "The ONE"),
    ("time", "from event to event", "in steps of updateInterval"),
    ("transfers", "one bundle at a time by each radio", "one transfer a host at a time"),
    ("others' bundles", "announced in bundles", "known at once"),
    ("next message", "by priority and age", "random, or first in, first out"),
    ("PRoPHET", "version 2 (RFC 6693)", "version 1"),
    ("lifetimes", "exact", "end one minute early"),
    ("sizes", "with headers of bundles and of TCPCLv4", "without headers"),
    ("random numbers", "xoshiro", "java.util.Random"),
];

/// First line of every converted scenario, by which a later run recognizes it.
pub const HEAD: &str = "# Made by `farlink one --mode fast` of settings of The ONE.\n";

/// A converted scenario with the files beside it.
pub struct Translation {
    /// Text of the scenario, TOML.
    pub scenario: String,
    /// Names and texts of other files: contacts, positions.
    pub files: Vec<(String, String)>,
}

/// Name of the contacts file beside the scenario of this name: lines `time CONN host host up`.
fn contacts_file(name: &str) -> String {
    format!("{name}.contacts")
}

/// Converts a name to the characters that scenarios allow. A name longer than 64 is cut in the middle, as the runs of a
/// batch differ at one of the ends; a hash (FNV-1a) of the whole name keeps it unique.
pub fn name(text: &str) -> String {
    const LONGEST: usize = 64;
    let fine = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let all: String = text.chars().map(fine).collect();
    // `.` and `..` would be folders.
    if all.chars().all(|c| c == '.') {
        return all.replace('.', "-");
    }
    if all.chars().count() <= LONGEST {
        return all;
    }
    // Offset basis and prime of 32-bit FNV-1a.
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    // Eight digits of the hash and two hyphens between the parts.
    let part = (LONGEST - 10) / 2;
    let last: String = all.chars().skip(all.chars().count() - part).collect();
    format!("{}-{hash:08x}-{last}", all.chars().take(part).collect::<String>())
}

/// Lines about settings that have no counterpart in a scenario.
pub fn left_out(setup: &Setup) -> Vec<String> {
    let drawn = |group: &&Group| group.hosts > 0 && !is_traced(group) && !matches!(group.model, Model::Stationary(_));
    let keys = [
        ("MovementModel.warmup", setup.warmup > 0.0 && setup.groups.iter().any(|group| drawn(&group))),
        ("Report.warmup", setup.reporting.figures.warmup > 0.0),
        ("Group.deleteDelivered", setup.groups.iter().any(|group| group.delete_delivered)),
    ];
    let keys = keys.into_iter().filter(|(_, set)| *set).map(|(key, _)| format!("{key} has no effect here"));
    keys.chain(setup.left_out.iter().cloned()).collect()
}

/// Whether the hosts of a group move along recorded positions: in ways that no model of a scenario has.
fn is_traced(group: &Group) -> bool {
    group.active != Active::Always || !matches!(group.model, Model::Waypoint | Model::Walk | Model::Stationary(_))
}

/// Converts settings to a scenario.
///
/// # Errors
/// Settings that a scenario cannot express.
pub fn translate(setup: &Setup) -> Result<Translation, CliError> {
    let mut out = String::new();
    let w = &mut out;
    // Writing to a string cannot fail.
    w.push_str(HEAD);
    let _ = writeln!(w, "name = \"{}\"\nseed = {}\nduration = \"{} s\"", name(&setup.name), setup.seed, setup.end);
    // The ONE runs to its end time, and transfers whole messages.
    let _ = writeln!(w, "stop_when_delivered = false\nfidelity = \"message\"");
    let contacts = contacts(setup);
    radios(w, setup, contacts.is_some())?;
    let mut files: Vec<(String, String)> =
        contacts.map(|text| (contacts_file(&name(&setup.name)), text)).into_iter().collect();
    // The whole movement is computed only if a group needs it.
    let tracks = if setup.groups.iter().any(is_traced) { farlink_one::tracks(setup) } else { Vec::new() };
    let mut hosts = 0;
    // Hosts are numbered through all groups, in their order.
    let mut places: Vec<(String, Range<u32>)> = Vec::new();
    for (number, group) in setup.groups.iter().enumerate().filter(|(_, group)| group.hosts > 0) {
        // Group IDs may repeat; with the number they are unique.
        let title = name(&format!("{}{}", group.id, number + 1));
        let range = hosts..hosts + group.hosts;
        if is_traced(group) {
            let file = format!("{}.{title}.positions", name(&setup.name));
            let _ = writeln!(w, "\n[[mobility]]\nname = \"{title}\"\nmodel = \"trace\"\nfile = \"{file}\"");
            files.push((file, positions(&tracks[range.start as usize..range.end as usize])));
        } else {
            mobility(w, setup, group, &title);
        }
        self::group(w, setup, group, &title, hosts + 1);
        hosts = range.end;
        places.push((title, range));
    }
    for source in &setup.sources {
        match source {
            Source::Generator(generator) => traffic(w, setup, generator, &places)?,
            Source::File(events) => {
                if events.iter().any(|event| matches!(event.what, EventKind::Message { .. })) {
                    return Err(cannot("messages from a file", "leave its `C` lines out, or use --mode exact"));
                }
            }
        }
    }
    let _ = writeln!(w, "\n[measure]\ntables = [\"bundles\", \"samples\"]");
    Ok(Translation { scenario: out, files })
}

fn cannot(what: &str, hint: &str) -> CliError {
    CliError::Input(format!("{what}: not possible in a scenario\nhint: {hint}"))
}

fn contacts(setup: &Setup) -> Option<String> {
    let mut lines = String::new();
    for event in setup.sources.iter().filter_map(|source| match source {
        Source::File(events) => Some(events),
        Source::Generator(_) => None,
    }) {
        for event in event {
            if let EventKind::Contact { a, b, up } = event.what {
                let _ = writeln!(lines, "{} CONN {a} {b} {}", event.time, if up { "up" } else { "down" });
            }
        }
    }
    // With simulated connections the file's contacts do not apply.
    (!setup.simulate && !lines.is_empty()).then_some(lines)
}

fn radios(w: &mut String, setup: &Setup, traced: bool) -> Result<(), CliError> {
    if !setup.simulate && !traced {
        return Err(cannot(
            "hosts that never meet",
            "set Scenario.simulateConnections = true, or name a file of contacts",
        ));
    }
    if traced && setup.radios.len() > 1 {
        return Err(cannot("contacts from a file between several kinds of interfaces", "give all groups one kind"));
    }
    for radio in &setup.radios {
        let _ = writeln!(w, "\n[[radio]]\nname = \"{}\"\nrate = \"{} B/s\"", name(&radio.name), radio.speed);
        let _ = match traced {
            true => writeln!(w, "contacts = \"{}\"\ndelay = \"0 s\"", contacts_file(&name(&setup.name))),
            false => writeln!(w, "range = \"{} m\"", radio.range),
        };
    }
    Ok(())
}

/// Lines `time node x y` of tracks, whose nodes are numbered from 0.
fn positions(tracks: &[Vec<Fix>]) -> String {
    let mut lines = String::new();
    for (node, track) in tracks.iter().enumerate() {
        for (time, [x, y]) in track {
            let _ = writeln!(lines, "{time} {node} {x} {y}");
        }
    }
    lines
}

fn mobility(w: &mut String, setup: &Setup, group: &Group, name: &str) {
    let [width, height] = setup.area;
    let area = format!("area = [\"{width} m\", \"{height} m\"]");
    let _ = writeln!(w, "\n[[mobility]]\nname = \"{name}\"");
    let _ = match &group.model {
        Model::Waypoint => writeln!(w, "model = \"random_waypoint\"\n{area}"),
        // Steps of up to 50 m, as in The ONE's RandomWalk.
        Model::Walk => writeln!(w, "model = \"random_walk\"\n{area}\nstep = [\"0 m\", \"50 m\"]"),
        Model::Stationary([x, y]) => {
            let points = vec![format!("[\"{x} m\", \"{y} m\"]"); group.hosts as usize];
            writeln!(w, "model = \"stationary\"\n{area}\npoints = [{}]", points.join(", "))
        }
        // The others are traced.
        _ => Ok(()),
    };
    if !matches!(group.model, Model::Stationary(_)) {
        let ([slow, fast], [short, long]) = (group.speed, group.wait);
        let _ = writeln!(w, "speed = [\"{slow} m/s\", \"{fast} m/s\"]\npause = [\"{short} s\", \"{long} s\"]");
    }
}

fn group(w: &mut String, setup: &Setup, group: &Group, name: &str, first: u32) {
    let _ = writeln!(w, "\n[[group]]\nname = \"{name}\"\ncount = {}\nfirst_id = {first}", group.hosts);
    // The ONE's routers drop the oldest message.
    let _ = writeln!(w, "mobility = \"{name}\"\ncontrol = \"drop-oldest\"");
    if !group.radios.is_empty() {
        let radios: Vec<String> =
            group.radios.iter().map(|&kind| format!("\"{}\"", self::name(&setup.radios[kind].name))).collect();
        let _ = writeln!(w, "radio = [{}]", radios.join(", "));
    }
    // Scenarios need a bound: use one that is never reached where The ONE has none.
    let buffer = if group.buffer == i64::from(i32::MAX) { "1 TB".into() } else { format!("{} B", group.buffer) };
    // Ten years stand for messages that do not expire.
    let lifetime = group.lifetime.map_or("3650 d".into(), |minutes| format!("{minutes} min"));
    let _ = writeln!(w, "store_capacity = \"{buffer}\"\nlifetime = \"{lifetime}\"");
    let _ = match setup.router {
        Router::Epidemic => writeln!(w, "router = \"epidemic\""),
        Router::Spray { copies, binary } => {
            let params = format!("copies = {copies}, binary = {}", u8::from(binary));
            writeln!(w, "router = \"spray-and-wait\"\nrouter_params = {{ {params} }}")
        }
        Router::Prophet { .. } => writeln!(w, "router = \"prophet\""),
        Router::Direct => writeln!(w, "router = \"direct-delivery\""),
        Router::FirstContact => writeln!(w, "router = \"first-contact\""),
        Router::Farlink(name) => writeln!(w, "router = \"{name}\""),
    };
}

/// Writes one traffic entry for each pair of groups, at the rate at which The ONE draws hosts from that pair.
fn traffic(
    w: &mut String,
    setup: &Setup,
    generator: &Generator,
    groups: &[(String, Range<u32>)],
) -> Result<(), CliError> {
    if let Some([_, end]) = generator.time.filter(|[_, end]| *end < setup.end) {
        let hint = "end the run then, leave it out, or use --mode exact";
        return Err(cannot(&format!("messages that are made until {end} s only"), hint));
    }
    let (from, to) = (among(generator.from, groups)?, among(generator.to, groups)?);
    /// Most messages of one traffic entry from group to group.
    const MOST: u64 = 100_000;
    let pairs = |a: &Range<u32>, b: &Range<u32>| {
        // A host does not send to itself.
        let both = if a == b { a.len() } else { 0 };
        (a.len() * b.len() - both) as f64
    };
    let all: f64 = from.iter().flat_map(|(_, a)| to.iter().map(move |(_, b)| pairs(a, b))).sum();
    // The ONE never draws the last number of a range.
    let last = |[first, end]: [i32; 2]| (end - 1).max(first);
    let (least, most) = (f64::from(generator.interval[0]), f64::from(last(generator.interval)));
    let mean = (least + most) / 2.0;
    let mut pair = 0.0;
    for (sender, a) in &from {
        for (receiver, b) in &to {
            let share = pairs(a, b) / all;
            // A group of one host has no pairs with itself.
            if share <= 0.0 {
                continue;
            }
            // Twice the expected number of messages suffices for any run. Where the limit allows fewer, 5 % more than
            // expected must fit.
            let average = setup.end * share / mean.max(1e-9);
            let count = ((average * 2.0) as u64 + 100).min(MOST);
            if average * 1.05 > MOST as f64 {
                let hint = "shorten the run, or lengthen the interval";
                return Err(cannot(&format!("more than {MOST} messages from one group to another"), hint));
            }
            // Pairs begin at different parts of their intervals, or each would make a message at once; parts of the
            // golden ratio are spread evenly, however many there are.
            pair += 1.0;
            let begin = generator.time.map_or(0.0, |[begin, _]| begin);
            let start = begin + mean / share * (pair * 0.618_034_f64).fract();
            // The pair makes no message in this run.
            if start >= setup.end {
                continue;
            }
            let title = name(&format!("{}-{sender}-{receiver}", generator.prefix));
            let _ = writeln!(w, "\n[[traffic]]\nname = \"{title}\"");
            let _ = writeln!(w, "from = \"{sender}\"\nto = \"{receiver}\"");
            let _ = writeln!(w, "start = \"{start} s\"");
            let _ = writeln!(
                w,
                "bundles = {{ count = {count}, size = [\"{} B\", \"{} B\"], interval = [\"{} s\", \"{} s\"] }}",
                generator.size[0],
                last(generator.size),
                least / share,
                most / share
            );
        }
    }
    Ok(())
}

/// Groups that together have exactly this range of host numbers; an error if the range contains a part of a group.
fn among([first, end]: [i32; 2], groups: &[(String, Range<u32>)]) -> Result<Vec<(String, Range<u32>)>, CliError> {
    let asked = first as u32..end.max(first + 1) as u32;
    let inside = |range: &Range<u32>| asked.start <= range.start && range.end <= asked.end;
    let found: Vec<_> = groups.iter().filter(|(_, range)| inside(range)).cloned().collect();
    if found.iter().map(|(_, range)| range.len()).sum::<usize>() == asked.len() {
        return Ok(found);
    }
    let what = format!("messages of hosts {} to {}, which are not whole groups", asked.start, asked.end - 1);
    Err(cannot(&what, "make those hosts a group of their own"))
}

/// Formats [`DIFFERENCES`] as a table.
pub fn differences() -> String {
    let mut text = String::new();
    for (what, here, there) in DIFFERENCES {
        let _ = writeln!(text, "  {what:<18}{here:<47}{there}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_one::Values;
    use farlink_scenario::Scenario;
    use std::path::PathBuf;

    fn setup(files: &[&str], sets: &[&str]) -> Setup {
        let data = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../one/tests/data"));
        let files: Vec<PathBuf> = files.iter().map(|file| data.join(file)).collect();
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        Setup::of(&Values::read(&files, &sets).expect("settings").translated()).expect("a setup")
    }

    /// Converts settings and reads the scenario back, as the simulator would.
    fn read(setup: &Setup) -> Scenario {
        let translation = translate(setup).unwrap_or_else(|_| panic!("it cannot be translated"));
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in &translation.files {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        let file = folder.path().join("scenario.toml");
        std::fs::write(&file, &translation.scenario).expect("written");
        Scenario::load(&file).unwrap_or_else(|errors| panic!("{}\n{errors:?}", translation.scenario))
    }

    #[test]
    fn covered_settings_convert_to_scenarios() {
        let walkers = read(&setup(&["terrestrial.txt"], &[]));
        assert_eq!((walkers.nodes.len(), walkers.radios.len()), (50, 1));
        read(&setup(
            &["terrestrial.txt", "tiny.txt"],
            &["Group.movementModel=RandomWalk", "Group.router=SprayAndWaitRouter"],
        ));
        read(&setup(&["terrestrial.txt", "streets.txt"], &["Group.router=ProphetRouter", "Group.sendQueue=2"]));
        let planets = read(&setup(&["planets.txt"], &[]));
        assert_eq!(planets.nodes.len(), 5);
    }

    #[test]
    fn group_traffic_keeps_total_rate() {
        let text = translate(&setup(&["planets.txt"], &[])).map(|it| it.scenario).unwrap_or_default();
        // A message every 1 to 299 s, half of them to each of two groups.
        assert_eq!(text.matches("interval = [\"2 s\", \"598 s\"]").count(), 2, "{text}");
    }

    #[test]
    fn pairs_of_groups_begin_apart() {
        // Thirty-six pairs would otherwise make as many messages at once.
        let groups: Vec<String> = (1..=6).map(|group| format!("Group{group}.groupID=g{group}")).collect();
        let sets = ["Scenario.nrofHostGroups=6", "Group.nrofHosts=4", "Events1.hosts=0,24", "Events1.interval=25,35"];
        let sets: Vec<&str> = groups.iter().map(String::as_str).chain(sets).collect();
        let setup = setup(&["terrestrial.txt"], &sets);
        let text = translate(&setup).map(|it| it.scenario).unwrap_or_default();
        assert_eq!(text.matches("[[traffic]]").count(), 36, "{text}");
        // A scenario has an entry for each message between groups.
        let scenario = read(&setup);
        let early = scenario.traffic.iter().filter(|traffic| traffic.start.as_secs_f64() < 300.0).count();
        // Ten messages are due in 300 s.
        assert!((7..=13).contains(&early), "{early}");
    }

    #[test]
    fn unimitated_routers_and_reports_are_accepted() {
        for (theirs, ours) in [
            ("DirectDeliveryRouter", "direct-delivery"),
            ("FirstContactRouter", "first-contact"),
            ("MaxPropRouter", "maxprop"),
            ("ProphetRouter", "prophet"),
        ] {
            let router = format!("Group.router={theirs}");
            let setup = setup(&["terrestrial.txt"], &[&router, "Report.report1=MessageReport"]);
            assert_eq!(setup.reporting.left_out, ["MessageReport"]);
            assert!(read(&setup).nodes.iter().all(|node| node.router.name == ours), "{theirs}");
        }
    }

    #[test]
    fn truncated_names_stay_unique() {
        let long = |seed: u32| name(&format!("terr-{}-i1,300-s{seed}", "SprayAndWaitRouter".repeat(4)));
        assert_ne!(long(1), long(2));
        assert!(long(1).chars().count() == 64 && long(1).ends_with("-i1-300-s1"), "{}", long(1));
        assert_eq!((name("a b"), name(".."), name("x.1")), ("a-b".into(), "--".into(), "x.1".into()));
    }

    #[test]
    fn one_by_one_copies_are_kept() {
        let text = |binary: &str| {
            let sets = ["Group.router=SprayAndWaitRouter", binary];
            translate(&setup(&["terrestrial.txt"], &sets)).map(|it| it.scenario).unwrap_or_default()
        };
        assert!(text("SprayAndWaitRouter.binaryMode=false").contains("router_params = { copies = 10, binary = 0 }"));
        assert!(text("SprayAndWaitRouter.binaryMode=true").contains("router_params = { copies = 10, binary = 1 }"));
    }

    #[test]
    fn keys_without_counterpart_are_listed() {
        assert!(left_out(&setup(&["terrestrial.txt"], &[])).is_empty());
        let set = setup(&["terrestrial.txt"], &["Report.warmup=10", "Group.deleteDelivered=true"]);
        assert_eq!(left_out(&set), ["Report.warmup has no effect here", "Group.deleteDelivered has no effect here"]);
    }

    #[test]
    fn inexpressible_settings_are_refused() {
        let refused = [
            &["Events1.hosts=0,20"][..],
            &["Scenario.simulateConnections=false"],
            &["Events1.time=0,600"],
            &["Scenario.endTime=1000000", "Events1.interval=1,2"],
        ];
        for sets in refused {
            let failed = translate(&setup(&["terrestrial.txt"], sets));
            assert!(matches!(failed, Err(CliError::Input(why)) if why.contains("\nhint: ")), "{sets:?}");
        }
    }
}
