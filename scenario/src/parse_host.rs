//! `[node.host]` and `[[phase]]`: machines of nodes, and spans of the run.

use crate::host::{ContainerImage, HostKind, HostSpec, PHASES_MAX, Phase, PhaseEnd, PhaseKind, Processors, SshMachine};
use crate::keys_host::{HOST, PHASE};
use crate::types::Scenario;
use farlink_base::{DataVolume, Duration, format_duration};
use farlink_config::{Input, Reader};
use std::path::PathBuf;

/// Largest number of one processor, and most processors of a host.
const PROCESSORS_MAX: u64 = 4096;
/// Least memory of a host: below it no program starts.
const MEMORY_MIN: DataVolume = DataVolume(4 << 20);

/// Reads the host of a node.
pub fn host(reader: &Reader<'_>) -> HostSpec {
    let Some(table) = reader.table("host", &HOST) else { return HostSpec::default() };
    let memory = table.volume("memory");
    if memory.is_some_and(|memory| memory < MEMORY_MIN) {
        table.fail("memory", "at least 4 MiB", "a node needs some tens of MB, with `store_capacity` to match");
    }
    let kind = kind(&table);
    if let HostKind::Interface(_) = kind {
        for limit in ["cpus", "quota", "memory"].into_iter().filter(|limit| table.given(limit)) {
            table.fail(limit, "a limit of a machine outside the testbed", "set it there");
        }
    }
    if matches!(kind, HostKind::Ssh(_)) && table.given("cpus") {
        table.fail("cpus", "processors of another machine", "`quota` limits the programs of a host there");
    }
    HostSpec { kind, cpus: table.custom("cpus", processors), quota: table.custom("quota", quota), memory }
}

fn kind(table: &Reader<'_>) -> HostKind {
    let chosen = table.choice("kind");
    let (container, interface) = (chosen == Some(1), chosen == Some(2));
    let name = table.custom("name", |input| match input.text()? {
        // Linux keeps names in 16 bytes and uses them as file names.
        text if text.is_empty() || text.len() > 15 || text.chars().any(|c| c == '/' || c <= ' ' || c.is_control()) => {
            Err("expected the name of an interface, as `ip link` lists it".into())
        }
        text => Ok(text.to_string()),
    });
    let image = table.custom("image", |input| match input.text()? {
        text if text.is_empty() || text.chars().any(char::is_control) => Err("expected a path or a name".into()),
        text => Ok(ContainerImage::parse(text)),
    });
    let ssh = ssh(table, chosen == Some(3));
    match image {
        Some(image) if container => return HostKind::Container(image),
        Some(_) => table.fail("image", "an image for a host without a container", "add kind = \"container\""),
        None if container && !table.given("image") => {
            table.fail("image", "missing", "e.g. image = \"./image.tar\", or the name of an image at Podman or Docker");
        }
        None => {}
    }
    match name {
        Some(name) if interface => return HostKind::Interface(name),
        Some(_) => table.fail("name", "an interface for a host of another kind", "add kind = \"interface\""),
        None if interface && !table.given("name") => {
            table.fail("name", "missing", "e.g. name = \"eth1\", an interface that `ip link` lists");
        }
        None => {}
    }
    ssh.map_or(HostKind::Namespace, HostKind::Ssh)
}

/// Reads the keys of a machine reached by SSH; `chosen` says whether the host is one.
fn ssh(table: &Reader<'_>, chosen: bool) -> Option<SshMachine> {
    let path = |name: &str| {
        table.custom(name, |input| match input.text()? {
            text if text.is_empty() || text.chars().any(char::is_control) => Err("expected a path".into()),
            text => Ok(PathBuf::from(text)),
        })
    };
    let at = table.custom("at", |input| match input.text()? {
        // `ssh` takes what begins with a hyphen for an option.
        text if text.is_empty() || text.starts_with('-') || text.chars().any(|c| c <= ' ' || c.is_control()) => {
            Err("expected a destination of `ssh`, such as user@machine".into())
        }
        text => Ok(text.to_string()),
    });
    let (config, program) = (path("config"), path("program"));
    if !chosen {
        for name in ["at", "config", "program"].into_iter().filter(|name| table.given(name)) {
            table.fail(name, "a machine reached by SSH for a host of another kind", "add kind = \"ssh\"");
        }
        return None;
    }
    if !table.given("at") {
        table.fail("at", "missing", "e.g. at = \"user@machine\"");
    }
    Some(SshMachine { at: at?, config, program })
}

fn processors(input: Input<'_, '_>) -> Result<Processors, String> {
    let within = |input: Input<'_, '_>, least: u64| match input.integer_in(least, PROCESSORS_MAX)? {
        number if (least..=PROCESSORS_MAX).contains(&number) => Ok(number as usize),
        number => Err(format!("{number} is not between {least} and {PROCESSORS_MAX}")),
    };
    let Ok(items) = input.items() else { return within(input, 1).map(Processors::Count) };
    let list: Result<Vec<usize>, String> = items.iter().map(|item| within(Input::Given(item.get_ref()), 0)).collect();
    match list? {
        list if list.is_empty() => Err("expected at least one processor".into()),
        list => Ok(Processors::These(list)),
    }
}

fn quota(input: Input<'_, '_>) -> Result<f64, String> {
    let quota = input.number()?;
    match quota {
        0.01..=4096.0 => Ok(quota),
        _ => Err("expected 0.01 to 4096 processors".into()),
    }
}

/// Reads the phases.
pub fn phases(top: &Reader<'_>) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    for (path, table) in top.tables("phase") {
        let reader = Reader::checked(top.errors, &PHASE, &path, table);
        if phases.len() == PHASES_MAX {
            reader.fail("name", format!("more than {PHASES_MAX} phases"), "write fewer");
            break;
        }
        let phase = Phase {
            name: reader.name("name").unwrap_or_default(),
            kind: PhaseKind::ALL[reader.choice("kind").unwrap_or(0)],
            start: reader.duration("start"),
            duration: reader.duration("duration"),
            until: reader.choice("until").map(|word| [PhaseEnd::Sent, PhaseEnd::Delivered][word]),
        };
        if phases.iter().any(|known| known.name == phase.name) {
            reader.fail("name", format!("a second phase called `{}`", phase.name), "each needs its own name");
        }
        if phase.duration.is_some_and(|duration| duration.is_zero()) {
            reader.fail("duration", "a phase that takes no time", "write how long it takes, e.g. \"10 s\"");
        }
        let last = phases.iter().filter_map(|known| known.start).next_back();
        if last.zip(phase.start).is_some_and(|(last, start)| start <= last) {
            reader.fail("start", "begins before the phase above it", "write phases in order of time");
        }
        if let Some(before) = phases.last().filter(|before| before.duration.is_none() && before.until.is_none())
            && phase.start.is_none()
        {
            let hint = format!("give `{}` a `duration` or `until`, or this one a `start`", before.name);
            reader.fail("name", format!("never begins: nothing ends `{}` above it", before.name), hint);
        }
        if phase.kind == PhaseKind::Baseline && (phase.duration.is_none() || phase.until.is_some()) {
            reader.fail(
                "duration",
                "a baseline takes a time that is given",
                "e.g. duration = \"9 s\", without `until`",
            );
        }
        phases.push(phase);
    }
    phases
}

/// Reports phases after the end of the run, and traffic that starts in a baseline.
pub fn check(top: &Reader<'_>, scenario: &Scenario) {
    for (index, (phase, (path, table))) in scenario.phases.iter().zip(top.tables("phase")).enumerate() {
        let reader = Reader::new(top.errors, &PHASE, vec![(path, table)]);
        // A phase after one that only an event ends may begin at any time.
        let Some((start, end)) = scenario.latest_span(index) else { continue };
        if start >= scenario.duration && !scenario.duration.is_zero() {
            let hint = "give the run a longer `duration`, or the phases shorter ones";
            reader.fail("name", format!("begins at {}, when the run is over", format_duration(start)), hint);
        }
        if phase.kind != PhaseKind::Baseline {
            continue;
        }
        let within = |at: Duration| at >= start && end.is_none_or(|end| at < end);
        for traffic in scenario.traffic.iter().filter(|traffic| within(traffic.start)) {
            // A baseline without an end is a mistake of its own.
            let Some(after) = end.map(format_duration) else { continue };
            let expected = format!("traffic `{}` starts in it", traffic.name);
            reader.fail("kind", expected, format!("start = \"{after}\" in [[traffic]] lets the baseline end first"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(host: &str, more: &str) -> Result<Scenario, String> {
        let node = |name: &str, n: u8, host: &str| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{n}.0\"\n{host}\n");
        let nodes = node("a", 1, host) + &node("b", 2, "");
        Scenario::parse(&format!("name = \"x\"\nduration = \"100 s\"\n{nodes}{more}"))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn host_limits_are_read() {
        let scenario = parse("host = { cpus = [0, 2], quota = 0.5, memory = \"64 MB\" }", "").unwrap();
        let host = &scenario.nodes[0].host;
        assert_eq!(host.cpus, Some(Processors::These(vec![0, 2])));
        assert_eq!((host.quota, host.memory), (Some(0.5), Some(DataVolume(64_000_000))));
        assert_eq!(scenario.nodes[1].host, HostSpec::default());
        let notes = scenario.notes_of_simulation();
        assert_eq!(notes.len(), 1);
        assert!(notes[0].contains("of a (processors 0, 2, 0.5 of a processor, 64 MB of memory)"), "{notes:?}");
        let one = parse("host = { kind = \"namespace\", cpus = 1 }", "").unwrap();
        assert_eq!(one.nodes[0].host.cpus, Some(Processors::Count(1)));
    }

    #[test]
    fn container_has_path_or_name() {
        for (image, wanted) in [
            ("./a/image.tar", ContainerImage::Path("./a/image.tar".into())),
            ("/srv/root", ContainerImage::Path("/srv/root".into())),
            ("docker.io/library/busybox:1.36", ContainerImage::Name("docker.io/library/busybox:1.36".into())),
        ] {
            let scenario = parse(&format!("host = {{ kind = \"container\", image = \"{image}\" }}"), "").unwrap();
            assert_eq!(scenario.nodes[0].host.kind, HostKind::Container(wanted));
            let notes = scenario.notes_of_simulation();
            assert!(notes.len() == 1 && notes[0].contains(image), "{notes:?}");
        }
    }

    #[test]
    fn machine_reached_by_ssh_is_read() {
        let scenario = parse("host = { kind = \"ssh\", at = \"me@far\", config = \"c\", quota = 0.5 }", "").unwrap();
        let wanted = SshMachine { at: "me@far".into(), config: Some("c".into()), program: None };
        assert_eq!(scenario.nodes[0].host.ssh(), Some(&wanted));
        let notes = scenario.notes_of_simulation();
        assert!(notes.iter().any(|note| note.contains("not on me@far")), "{notes:?}");
    }

    #[test]
    fn impossible_hosts_are_errors() {
        for (host, said) in [
            ("cpus = 0", "0 is not between 1"),
            ("cpus = []", "at least one processor"),
            ("quota = 0", "0.01 to 4096"),
            ("quota = nan", "is no number"),
            ("memory = \"1 kB\"", "at least 4 MiB"),
            ("kind = \"virtual\"", "`virtual`"),
            ("kind = \"container\"", "missing"),
            ("kind = \"container\", image = \"\"", "a path or a name"),
            ("image = \"./x\"", "without a container"),
            ("kind = \"interface\"", "missing"),
            ("name = \"eth1\"", "of another kind"),
            ("kind = \"interface\", name = \"a/b\"", "as `ip link` lists it"),
            ("kind = \"interface\", name = \"sixteen-letters-\"", "as `ip link` lists it"),
            ("kind = \"interface\", name = \"eth1\", quota = 0.5", "outside the testbed"),
            ("kind = \"ssh\"", "missing"),
            ("kind = \"ssh\", at = \"-oProxyCommand=x\"", "a destination of `ssh`"),
            ("kind = \"ssh\", at = \"a b\"", "a destination of `ssh`"),
            ("kind = \"ssh\", at = \"far\", cpus = 1", "of another machine"),
            ("at = \"far\"", "of another kind"),
        ] {
            let found = parse(&format!("host = {{ {host} }}"), "").unwrap_err();
            assert!(found.contains(said), "{host}: {found}");
        }
    }

    #[test]
    fn phases_follow_each_other() {
        let text = "[[phase]]\nname = \"base\"\nkind = \"baseline\"\nduration = \"9 s\"\n\
                    [[phase]]\nname = \"load\"\nkind = \"load\"\nuntil = \"sent\"\n\
                    [[phase]]\nname = \"rest\"\nstart = \"50 s\"\nduration = \"10 s\"\n";
        let scenario = parse("", text).unwrap();
        assert_eq!(scenario.phases[0].kind.word(), "baseline");
        assert_eq!(scenario.phases[1].until, Some(PhaseEnd::Sent));
        let spans: Vec<_> = (0..3).filter_map(|phase| scenario.latest_span(phase)).collect();
        let at = Duration::from_secs;
        assert_eq!(spans, [(at(0), Some(at(9))), (at(9), Some(at(50))), (at(50), Some(at(60)))]);
        assert_eq!(scenario.notes_of_simulation().len(), 2, "of the baseline, and of `until`");
    }

    #[test]
    fn phase_after_an_event_has_no_known_span() {
        let text = "[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n\
                    [[traffic]]\nfrom = \"a\"\nto = \"b\"\nping = {}\n\
                    [[phase]]\nname = \"load\"\nuntil = \"sent\"\n\
                    [[phase]]\nname = \"after\"\nkind = \"baseline\"\nduration = \"9 s\"\n\
                    [[phase]]\nname = \"rest\"\nstart = \"50 s\"\n";
        let scenario = parse("", text).unwrap();
        let spans: Vec<_> = (0..3).map(|phase| scenario.latest_span(phase)).collect();
        assert_eq!(spans, [Some((Duration::ZERO, None)), None, None]);
        let notes = scenario.notes_of_simulation();
        assert!(notes.contains(&"Phase after does not begin in a simulation.".to_string()), "{notes:?}");
    }

    #[test]
    fn traffic_in_baseline_is_error() {
        let link = "[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n";
        let with = |start: &str| {
            let traffic = format!("[[traffic]]\nfrom = \"a\"\nto = \"b\"\nstart = \"{start}\"\nping = {{}}\n");
            parse("", &format!("{link}{traffic}[[phase]]\nname = \"p\"\nkind = \"baseline\"\nduration = \"9 s\"\n"))
        };
        assert!(with("9 s").is_ok());
        let found = with("8 s").unwrap_err();
        assert!(found.contains("starts in it") && found.contains("start = \"9 s\""), "{found}");
    }

    #[test]
    fn invalid_phases_are_errors() {
        for (keys, said) in [
            ("name = \"p\"\nstart = \"200 s\"", "when the run is over"),
            ("name = \"p\"\nduration = \"0 s\"", "takes no time"),
            ("name = \"p\"\nkind = \"baseline\"", "a time that is given"),
            ("name = \"p\"\n[[phase]]\nname = \"p\"", "a second phase"),
            ("name = \"p\"\n[[phase]]\nname = \"q\"", "nothing ends `p` above it"),
            ("name = \"p\"\nstart = \"3 s\"\n[[phase]]\nname = \"q\"\nstart = \"2 s\"", "in order of time"),
        ] {
            let found = parse("", &format!("[[phase]]\n{keys}\n")).unwrap_err();
            assert!(found.contains(said), "{keys}: {found}");
        }
        let many: String = (0..65).map(|n| format!("[[phase]]\nname = \"p{n}\"\nduration = \"1 s\"\n")).collect();
        assert!(parse("", &many).unwrap_err().contains("more than 64"));
    }
}
