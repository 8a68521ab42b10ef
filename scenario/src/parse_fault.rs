//! `[[fault]]`: faults injected in a run, with their times.

use crate::names::Names;
use crate::types::{Fault, FaultKind, Lie, Scenario};
use farlink_base::Duration;
use farlink_config::{Fallback, Kind, Reader, Section, key, other};

/// Most occurrences of one table of faults in a run.
const TIMES_MAX: u128 = 1_000_000;
/// Greatest drift of a clock, in parts per million: a tenth of the time.
const DRIFT_MAX: f64 = 100_000.0;
const KINDS: &[&str] = &["restart", "link_down", "clock", "lie"];
const LIES: &[&str] = &["met", "arrived", "has"];

/// Keys of `[[fault]]`.
pub const FAULT: Section = Section {
    name: "fault",
    help: "Something goes wrong, which no contact plan and no node knows before: `[[fault]]` for each. The testbed knows \
           `link_down` of links, and `restart` of nodes that send nothing until they are up again.",
    keys: &[
        key(
            "kind",
            Kind::Choice(KINDS),
            Fallback::Required,
            "`restart`: a node is killed and starts again, with what a `durable` store had synced and nothing else; its \
             applications wait meanwhile. `link_down`: a link transmits nothing, either way; what is under way arrives. \
             `clock`: a node's clock is set wrong, or runs wrong. `lie`: from then on, and after a restart, a node tells \
             its neighbours what is not so as they meet; else it does what it should. Only with `fidelity = \"message\"`.",
        ),
        key(
            "node",
            other("name of a node", "\"relay\""),
            Fallback::Absent,
            "Of `restart`, `clock` and `lie`: which node.",
        ),
        key("link", other("name of a link", "\"space\""), Fallback::Absent, "Of `link_down`: which link."),
        key(
            "between",
            other("two names of nodes", "[\"rover\", \"lander\"]"),
            Fallback::Absent,
            "Of `link_down` instead of `link`: two nodes that then hear each other by no radio; what is under way is lost.",
        ),
        key("at", Kind::Duration, Fallback::Required, "When it begins, from the start of the run."),
        key(
            "lasts",
            Kind::Duration,
            Fallback::Absent,
            "Of `restart` and `link_down`: how long the node, or the link, is down.",
        ),
        key("every", Kind::Duration, Fallback::Absent, "It begins again every so often; without it, it comes once."),
        key(
            "jump",
            other("duration with a sign", "\"-5 min\""),
            Fallback::Absent,
            "Of `clock`: how far it is set ahead, or back.",
        ),
        key(
            "drift_ppm",
            other("number", "50"),
            Fallback::Absent,
            "Of `clock`: how much too fast it runs from then on, in parts of a million; below 0: too slow.",
        ),
        key(
            "says",
            Kind::Choice(LIES),
            Fallback::Absent,
            "Of `lie`: what it says, as its router and control say it. `met`: that it meets every node always (PRoPHET, \
             MaxProp, RAPID, marginal utility). `arrived`: that all bundles arrived that anybody sent until then (MaxProp, \
             RAPID, marginal utility). `has`: that it has all of these (every router that is told what neighbours have).",
        ),
    ],
};

/// The faults of a scenario whose nodes, links and radios are known.
pub fn faults(top: &Reader<'_>, scenario: &Scenario, nodes: &Names) -> Vec<Fault> {
    let links = Names::new(scenario.links.iter().map(|link| link.name.as_str())).or_broken(top, "link");
    let mut faults = Vec::new();
    for (path, table) in top.tables("fault") {
        let reader = Reader::checked(top.errors, &FAULT, &path, table);
        faults.extend(fault(&reader, scenario, nodes, &links));
    }
    faults
}

fn fault(reader: &Reader<'_>, scenario: &Scenario, nodes: &Names, links: &Names) -> Option<Fault> {
    let (kind, at) = (reader.choice("kind"), reader.duration("at"));
    let (lasts, every) = (reader.duration("lasts"), reader.duration("every"));
    let word = KINDS[kind?];
    let own: &[&str] = match word {
        "restart" => &["node", "lasts"],
        "link_down" => &["link", "between", "lasts"],
        "lie" => &["node", "says"],
        _ => &["node", "jump", "drift_ppm"],
    };
    // Keys of other kinds are mistakes, so that a wrong `kind` does not go unnoticed.
    for foreign in ["node", "link", "between", "lasts", "jump", "drift_ppm", "says"] {
        if reader.given(foreign) && !own.contains(&foreign) {
            reader.fail(foreign, format!("`{word}` has no `{foreign}`"), format!("its keys are {}", own.join(", ")));
        }
    }
    let lasts = if !own.contains(&"lasts") {
        Duration::ZERO
    } else {
        let Some(lasts) = lasts else {
            if !reader.given("lasts") {
                reader.fail("lasts", format!("`{word}` needs it"), "say how long it is down: lasts = \"10 s\"");
            }
            return None;
        };
        if lasts.is_zero() {
            reader.fail("lasts", "a fault that lasts no time", "write how long it is down, e.g. \"10 s\"");
        }
        lasts
    };
    let kind = match word {
        "restart" => FaultKind::Restart { node: node(reader, nodes)? },
        "link_down" => link_down(reader, scenario, nodes, links)?,
        "lie" => lie(reader, nodes)?,
        _ => clock(reader, nodes)?,
    };
    if let Some(every) = every {
        repeated(reader, kind, lasts, every, scenario.duration);
    }
    Some(Fault { kind, at: at?, lasts, every })
}

fn repeated(reader: &Reader<'_>, kind: FaultKind, lasts: Duration, every: Duration, duration: Duration) {
    if every <= lasts {
        reader.fail("every", "it begins again before it is over", "write a longer time than `lasts`");
    } else if duration.as_nanos() / every.as_nanos().max(1) > TIMES_MAX {
        reader.fail("every", format!("more than {TIMES_MAX} times in the run"), "write a longer time");
    }
    // These faults have no end, so a second beginning would change nothing.
    if matches!(kind, FaultKind::ClockDrift { .. }) {
        reader.fail("every", "a clock that drifts goes on drifting", "take it out");
    } else if matches!(kind, FaultKind::Lie { .. }) {
        reader.fail("every", "a node that lies goes on lying", "take it out");
    }
}

fn node(reader: &Reader<'_>, nodes: &Names) -> Option<usize> {
    if !reader.given("node") {
        reader.fail("node", "missing", "name the node it happens to");
        return None;
    }
    nodes.named(reader, "node", "node")
}

fn link_down(reader: &Reader<'_>, scenario: &Scenario, nodes: &Names, links: &Names) -> Option<FaultKind> {
    if reader.given("link") == reader.given("between") {
        reader.fail(
            "link",
            "exactly one of `link` and `between`",
            "`link` names a link, `between` two nodes with a radio",
        );
        return None;
    }
    if reader.given("link") {
        return Some(FaultKind::LinkDown { link: links.named(reader, "link", "link")? });
    }
    let [one, other] = crate::parse_link::between(reader, nodes)?;
    let shared = |radio: &crate::motion::Radio| [one, other].iter().all(|node| radio.nodes.contains(node));
    if !scenario.radios.iter().any(shared) {
        reader.fail("between", "these two have no radio in common", "of a link write `link` with its name");
    }
    // Ordered, so that the simulator finds the pair from either end.
    Some(FaultKind::Unheard { between: [one.min(other), one.max(other)] })
}

fn lie(reader: &Reader<'_>, nodes: &Names) -> Option<FaultKind> {
    if !reader.given("says") {
        reader.fail("says", "`lie` needs it", "write what it says, e.g. says = \"arrived\"");
    }
    let says = [Lie::Met, Lie::Arrived, Lie::Has][reader.choice("says")?];
    Some(FaultKind::Lie { says, node: node(reader, nodes)? })
}

fn clock(reader: &Reader<'_>, nodes: &Names) -> Option<FaultKind> {
    if reader.given("jump") == reader.given("drift_ppm") {
        reader.fail("jump", "exactly one of `jump` and `drift_ppm`", "a clock is set wrong, or runs wrong");
        return None;
    }
    let node = node(reader, nodes)?;
    if reader.given("jump") {
        return Some(FaultKind::ClockJump { node, by_ns: reader.offset("jump")? });
    }
    let ppm = reader.custom("drift_ppm", |input| input.number())?;
    if ppm.abs() > DRIFT_MAX {
        reader.fail("drift_ppm", "no clock runs so wrong", "100 is much for a clock");
    }
    Some(FaultKind::ClockDrift { node, ppm })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(faults: &str) -> Result<Scenario, String> {
        parse_with("", faults)
    }
    fn parse_with(top: &str, faults: &str) -> Result<Scenario, String> {
        let node = |name: &str, n: u8| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{n}.0\"\n");
        let nodes = [("a", 1), ("b", 2)].map(|(name, n)| node(name, n)).concat();
        let link = "[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n\
                    [[contact]]\nlink = \"l\"\nstart = \"10 s\"\nend = \"60 s\"\n";
        Scenario::parse(&format!("name = \"x\"\nduration = \"100 s\"\n{top}{nodes}{link}{faults}"))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn faults_keep_their_times() {
        let scenario = parse(
            "[[fault]]\nkind = \"restart\"\nnode = \"b\"\nat = \"5 s\"\nlasts = \"2 s\"\nevery = \"40 s\"\n\
             [[fault]]\nkind = \"clock\"\nnode = \"a\"\nat = \"6 s\"\njump = \"-5 min\"\n\
             [[fault]]\nkind = \"clock\"\nnode = \"a\"\nat = \"7 s\"\ndrift_ppm = -50\n",
        )
        .unwrap();
        let kinds: Vec<FaultKind> = scenario.faults.iter().map(|fault| fault.kind).collect();
        let jump = FaultKind::ClockJump { node: 0, by_ns: -300_000_000_000 };
        assert_eq!(kinds, [FaultKind::Restart { node: 1 }, jump, FaultKind::ClockDrift { node: 0, ppm: -50.0 }]);
        let at: Vec<u64> = scenario.faults[0].beginnings(scenario.duration).map(|at| at.as_secs()).collect();
        assert_eq!((at, scenario.faults[1].beginnings(scenario.duration).count()), (vec![5, 45, 85], 1));
        let why = scenario.needs_simulation().unwrap().to_string();
        assert!(why.contains("has one clock, which is right") && why.contains("fault[2]"), "{why}");
    }

    #[test]
    fn testbed_restarts_only_silent_nodes() {
        let restart = |node: &str, at: u64| {
            let text = "kind = \"restart\"\nlasts = \"5 s\"\n";
            format!("[[fault]]\n{text}node = \"{node}\"\nat = \"{at} s\"\n")
        };
        let traffic = |start: &str| {
            let text = "name = \"t\"\nfrom = \"a\"\nto = \"b\"\nbundles = { count = 1, size = \"1 kB\" }\n";
            format!("[[traffic]]\n{text}start = \"{start}\"\n")
        };
        let why = |text: &str| parse(text).unwrap().needs_simulation().map(|error| error.to_string());
        // Node b only receives, so it may restart; the first two restarts overlap.
        let both = restart("b", 7) + &restart("b", 3) + &restart("b", 30);
        assert_eq!(why(&(both.clone() + &traffic("0 s"))), None);
        let down: Vec<_> =
            parse(&both).unwrap().restarts().iter().map(|down| (down.from.as_secs(), down.to.as_secs())).collect();
        assert_eq!(down, [(3, 12), (30, 35)], "two that overlap are one");
        // Node a is up again at 12 s: traffic that begins earlier would be lost with its application.
        let sends = why(&(restart("a", 7) + &traffic("11 s"))).unwrap();
        assert!(sends.contains("`t` of node `a`") && sends.contains("hint"), "{sends}");
        assert_eq!(why(&(restart("a", 7) + &traffic("12 s"))), None);
    }

    #[test]
    fn lies_need_message_fidelity() {
        let message = "fidelity = \"message\"\n";
        let lie = "[[fault]]\nkind = \"lie\"\nnode = \"b\"\nat = \"5 s\"\n";
        let scenario = parse_with(message, &format!("{lie}says = \"arrived\"\n")).unwrap();
        assert_eq!(scenario.faults[0].kind, FaultKind::Lie { node: 1, says: Lie::Arrived });
        assert!(scenario.needs_simulation().unwrap().to_string().contains("nodes that say what is so"));
        assert!(scenario.needs_messages().is_none());
        // Without `fidelity = "message"` the scenario is parsed, but a simulation of packets cannot run it.
        let full = parse(&format!("{lie}says = \"has\"\n")).unwrap();
        let why = full.needs_messages().unwrap().to_string();
        assert!(why.contains("in whole bundles") && why.contains("fault[1]"), "{why}");
        let with = |text: &str| parse_with(message, &format!("{lie}{text}")).unwrap_err();
        assert!(with("").contains("`lie` needs it"));
        assert!(with("says = \"nothing\"\n").contains("`nothing`"));
        assert!(with("says = \"met\"\nlasts = \"5 s\"\n").contains("`lie` has no `lasts`"));
        assert!(with("says = \"met\"\nevery = \"5 s\"\n").contains("goes on lying"));
    }

    #[test]
    fn link_faults_spare_the_plan() {
        let text = "[[fault]]\nkind = \"link_down\"\nlink = \"l\"\nat = \"20 s\"\nlasts = \"5 s\"\nevery = \"20 s\"\n";
        let scenario = parse(text).unwrap();
        // The faults at 20 s and 40 s are cut out of the contact from 10 s to 60 s; the contact plan, which knows no
        // faults, keeps it whole.
        let spec = scenario.link_spec(0);
        for direction in [spec.forward, spec.reverse] {
            let windows = direction.windows.unwrap();
            let seconds: Vec<_> =
                windows.iter().map(|w| (w.start.as_secs_f64() as u64, w.end.as_secs_f64() as u64)).collect();
            assert_eq!(seconds, [(10, 20), (25, 40), (45, 60)]);
        }
        assert_eq!(scenario.contact_plan().contacts.len(), 2, "one each way, as without");
        assert!(scenario.needs_simulation().is_none(), "the testbed has such links");
    }

    #[test]
    fn invalid_faults_are_errors() {
        let with = |text: &str| parse(&format!("[[fault]]\n{text}\n")).unwrap_err();
        assert!(with("kind = \"restart\"\nat = \"1 s\"\nlasts = \"1 s\"").contains("fault[1].node"));
        assert!(with("kind = \"restart\"\nnode = \"c\"\nat = \"1 s\"\nlasts = \"1 s\"").contains("`c`"));
        assert!(with("kind = \"restart\"\nnode = \"a\"\nat = \"1 s\"").contains("`restart` needs it"));
        assert!(with("kind = \"restart\"\nnode = \"a\"\nat = \"1 s\"\nlasts = \"0 s\"").contains("lasts no time"));
        assert!(with("kind = \"link_down\"\nat = \"1 s\"\nlasts = \"1 s\"").contains("exactly one of `link`"));
        // A fault of a pair blocks its contacts by radio: without a common radio the pair has no contacts.
        let pair = "kind = \"link_down\"\nbetween = [\"a\", \"b\"]\nat = \"1 s\"\nlasts = \"1 s\"";
        assert!(with(pair).contains("no radio in common"));
        let often = "kind = \"link_down\"\nlink = \"l\"\nat = \"1 s\"\nlasts = \"2 s\"\nevery = \"2 s\"";
        assert!(with(often).contains("before it is over"));
        let too_often = "kind = \"clock\"\nnode = \"a\"\nat = \"1 s\"\njump = \"1 s\"\nevery = \"1 us\"";
        assert!(with(too_often).contains("more than 1000000 times"));
        assert!(with("kind = \"clock\"\nnode = \"a\"\nat = \"1 s\"").contains("exactly one of `jump`"));
        assert!(with("kind = \"clock\"\nnode = \"a\"\nat = \"1 s\"\ndrift_ppm = 1e6").contains("no clock runs so"));
        let foreign = "kind = \"clock\"\nnode = \"a\"\nat = \"1 s\"\njump = \"1 s\"\nlink = \"l\"";
        assert!(with(foreign).contains("`clock` has no `link`"));
    }
}
