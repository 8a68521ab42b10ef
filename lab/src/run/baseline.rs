//! Baselines: plain TCP, UDP and TCP again through each link in turn, sent and received by `farlink flow` in the hosts.

use super::folder::RunFolder;
use crate::driver::Program;
use farlink_base::ConfigError;
use farlink_report::BaselineFlow;
use farlink_scenario::{Link, PhaseKind, Scenario};
use serde_json::Value;
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

/// Transports of a link's flows, in order. The two TCP flows show how much baselines vary without a cause.
const TRANSPORTS: [&str; 3] = ["tcp", "udp", "tcp"];
/// Time by which a receiver starts before its sender.
const HEAD_START: Duration = Duration::from_millis(300);
/// Time after the end of a flow, in addition to a round trip, for data still in flight.
const DRAIN: Duration = Duration::from_millis(200);
/// Minimum time for which a flow sends; a flow with less time is left out.
const SHORTEST: Duration = Duration::from_millis(300);
/// First port of the receivers; each flow has its own.
const PORT: u16 = 15_201;

/// Action that the session takes for a baseline.
#[derive(Clone, PartialEq, Debug)]
pub enum BaselineStep {
    /// Start a program: its number among the baseline's programs, its node, its name, and its command.
    Start(u32, usize, String, Program),
    /// End the programs with these numbers.
    End([u32; 2]),
}

/// Steps that are still to come, sorted by time since the start of the run, and all planned flows.
#[derive(Debug, Default)]
pub struct Baseline {
    steps: VecDeque<(Duration, BaselineStep)>,
    flows: Vec<BaselineRecord>,
}

#[derive(Debug)]
struct BaselineRecord {
    phase: String,
    flow: BaselineFlow,
    ends: [(usize, String); 2],
}

impl Baseline {
    /// Plans the flows of a phase that begins now; a flow without enough time is left out.
    pub fn begin(&mut self, scenario: &Scenario, phase: usize, now: Duration, program: &Path) {
        let Some(slot) = slot(scenario, phase) else { return };
        for (number, (link, transport)) in
            (0..scenario.links.len()).flat_map(|link| TRANSPORTS.map(|transport| (link, transport))).enumerate()
        {
            let ends = scenario.ends(link);
            let one = &scenario.links[link].forward;
            let sends = slot.saturating_sub(beside(&scenario.links[link]));
            if sends < SHORTEST {
                continue;
            }
            // Flows are numbered over all phases: a second baseline must not overwrite the files of the first.
            let place = self.flows.len();
            let first = place as u32 * 2;
            let name = |role: &str| format!("baseline-{}-{place}-{role}", scenario.links[link].name);
            // Modulo, so that ports stay below 2^16 however many flows there are.
            let at = format!("{}:{}", ends[1].address, PORT + (place % 40_000) as u16);
            let run = |arguments: &[&str]| {
                let mut command = vec![program.display().to_string()];
                command.extend(["flow", "--json"].iter().chain(arguments).map(|word| word.to_string()));
                command.extend((transport == "udp").then(|| "--udp".to_string()));
                Program { command, ..Program::default() }
            };
            let mut sender = run(&[at.as_str(), "--seconds", &format!("{:.3}", sends.as_secs_f64())]);
            // Without a rate limit, UDP would only show how many datagrams a sender can discard.
            if let Some(rate) = farlink_scenario::first_rate(one).filter(|_| transport == "udp") {
                sender.command.extend(["--rate".into(), format!("{} bit/s", rate.bits_per_second())]);
            }
            let begin = now + slot * number as u32;
            let names = [name("sender"), name("receiver")];
            let receiver =
                BaselineStep::Start(first + 1, ends[1].node, names[1].clone(), run(&["--receive", at.as_str()]));
            self.steps.push_back((begin, receiver));
            let sender = BaselineStep::Start(first, ends[0].node, names[0].clone(), sender);
            self.steps.push_back((begin + HEAD_START, sender));
            // Both programs end before the next flow begins, even if one hangs: two flows at once would disturb each
            // other.
            self.steps.push_back((begin + slot - DRAIN / 4, BaselineStep::End([first, first + 1])));
            let [from, to] = ends.map(|end| scenario.nodes[end.node].name.clone());
            self.flows.push(BaselineRecord {
                phase: scenario.phases[phase].name.clone(),
                flow: BaselineFlow {
                    link: scenario.links[link].name.clone(),
                    from,
                    to,
                    transport: transport.to_string(),
                    ..BaselineFlow::default()
                },
                ends: [(ends[0].node, names[0].clone()), (ends[1].node, names[1].clone())],
            });
        }
    }

    /// Removes and returns the next step that is due.
    pub fn due(&mut self, elapsed: Duration) -> Option<BaselineStep> {
        self.steps.pop_front_if(|(at, _)| *at <= elapsed).map(|(_, step)| step)
    }

    /// Reads the output of the programs; returns each flow with the name of its phase.
    pub fn results(self, folder: &RunFolder) -> Vec<(String, BaselineFlow)> {
        let printed = |(node, name): &(usize, String)| -> Value {
            let text = std::fs::read_to_string(folder.node(*node).join(format!("{name}.out"))).unwrap_or_default();
            serde_json::from_str(&text).unwrap_or_default()
        };
        let of = |record: BaselineRecord| {
            let [sent, received] = [printed(&record.ends[0]), printed(&record.ends[1])];
            let flow = BaselineFlow {
                // A rate of 0 means that nothing arrived, so the rate is unknown.
                bit_s: received["bit_s"].as_f64().filter(|rate| *rate > 0.0),
                lost: received["lost"].as_u64().unwrap_or(0),
                retransmitted: sent["retransmitted"].as_u64().unwrap_or(0),
                ..record.flow
            };
            (record.phase, flow)
        };
        self.flows.into_iter().map(of).collect()
    }
}

/// Time of each flow of a phase; `None` without links, and for a phase without a duration.
fn slot(scenario: &Scenario, phase: usize) -> Option<Duration> {
    let slots = (scenario.links.len() * TRANSPORTS.len()) as u32;
    scenario.phases[phase].duration.and_then(|all| all.checked_div(slots))
}

/// Time of a flow through a link in which nothing is sent.
fn beside(link: &Link) -> Duration {
    HEAD_START + DRAIN + link.forward.longest_delay() + link.reverse.longest_delay()
}

/// Sentence about the links that a baseline phase has no time for; `None` if it has time for all.
pub fn shortage(scenario: &Scenario, phase: usize) -> Option<String> {
    let slot = slot(scenario, phase)?;
    let short: Vec<&Link> = scenario.links.iter().filter(|link| slot < beside(link) + SHORTEST).collect();
    let needs =
        short.iter().map(|link| beside(link) + SHORTEST).max()? * (scenario.links.len() * TRANSPORTS.len()) as u32;
    let names: Vec<&str> = short.iter().map(|link| link.name.as_str()).collect();
    let (name, seconds) = (&scenario.phases[phase].name, needs.as_secs_f64().ceil());
    Some(format!(
        "Phase {name} is too short for a baseline of {} {}: all links need {seconds} s together.",
        if names.len() == 1 { "link" } else { "links" },
        names.join(", ")
    ))
}

/// Checks that each baseline phase has time for a flow.
///
/// # Errors
/// The first phase that could measure nothing.
pub fn check(scenario: &Scenario) -> Result<(), ConfigError> {
    for (index, phase) in scenario.phases.iter().enumerate().filter(|(_, phase)| phase.kind == PhaseKind::Baseline) {
        let Some(slot) = slot(scenario, index) else { continue };
        let fits = scenario.links.iter().any(|link| slot >= beside(link) + SHORTEST);
        if let Some(expected) = shortage(scenario, index).filter(|_| !fits) {
            let hint =
                "write a longer `duration`: each link gets three flows, one after another, of a second or more".into();
            return Err(ConfigError { path: format!("phase[{}].duration", phase.name), expected, hint });
        }
    }
    Ok(())
}

/// Largest difference between the two TCP flows of a link, as a fraction of the faster; `None` without two flows of a
/// link.
pub fn spread(flows: &[BaselineFlow]) -> Option<f64> {
    let tcp = |link: &str| {
        let rates = flows.iter().filter(move |flow| flow.link == link && flow.transport == "tcp");
        // A flow of which nothing arrived counts as 0 bit/s: beside a flow that arrived, the difference is 1, the
        // largest possible.
        rates.map(|flow| flow.bit_s.unwrap_or(0.0)).collect::<Vec<f64>>()
    };
    let of = |flow: &BaselineFlow| {
        let rates = tcp(&flow.link);
        let (least, most) =
            rates.iter().fold((f64::MAX, 0.0f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
        (rates.len() > 1 && most > 0.0).then(|| (most - least) / most)
    };
    flows.iter().filter_map(of).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(duration: &str) -> Scenario {
        let text = format!(
            "name = \"s\"\nduration = \"100 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\n\
             id = \"ipn:2.0\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\nrate = \"8 Mbit/s\"\n\
             [[phase]]\nname = \"base\"\nkind = \"baseline\"\nduration = \"{duration}\"\n"
        );
        Scenario::parse(&text).unwrap()
    }

    #[test]
    fn flows_take_turns_within_phase() {
        let mut baseline = Baseline::default();
        let begun = Duration::from_secs(5);
        baseline.begin(&scenario("6 s"), 0, begun, Path::new("farlink"));
        let (mut running, mut started) = (0i32, Vec::new());
        let at: Vec<Duration> = baseline.steps.iter().map(|(at, _)| *at).collect();
        assert!(at.is_sorted() && at[0] == begun && at[8] < begun + Duration::from_secs(6), "{at:?}");
        while let Some(step) = baseline.due(Duration::from_secs(99)) {
            match step {
                BaselineStep::Start(_, _, _, program) => {
                    running += 1;
                    started.push(program.command.join(" "));
                }
                BaselineStep::End(_) => running -= 2,
            }
            assert!((0..=2).contains(&running));
        }
        assert_eq!(started[0], "farlink flow --json --receive 10.0.0.2:15201");
        assert_eq!(started[3], "farlink flow --json 10.0.0.2:15202 --seconds 1.500 --udp --rate 8000000 bit/s");
        assert_eq!(started.len(), 6);
    }

    #[test]
    fn second_baseline_has_its_own_files() {
        let (mut baseline, scenario) = (Baseline::default(), scenario("6 s"));
        for begun in [0, 20] {
            baseline.begin(&scenario, 0, Duration::from_secs(begun), Path::new("farlink"));
        }
        let mut names: Vec<&String> = baseline.flows.iter().flat_map(|flow| &flow.ends).map(|(_, name)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 12, "{names:?}");
    }

    #[test]
    fn short_phase_is_refused() {
        let (mut baseline, short) = (Baseline::default(), scenario("2 s"));
        baseline.begin(&short, 0, Duration::ZERO, Path::new("farlink"));
        assert_eq!(baseline.due(Duration::from_secs(99)), None);
        let error = check(&short).unwrap_err().to_string();
        assert!(
            error.starts_with("phase[base].duration: Phase base is too short for a baseline of link l: "),
            "{error}"
        );
        assert!(error.contains("need 3 s together") && error.contains("hint: write a longer"), "{error}");
        assert!(check(&scenario("3 s")).is_ok() && shortage(&scenario("3 s"), 0).is_none());
    }

    #[test]
    fn distant_link_without_time_is_named() {
        let far = "[[link]]\nname = \"far\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\ndelay = \"5 s\"\nport = 2000\n";
        let scenario = Scenario::parse(&scenario("6 s").text.replace("[[phase]]", &format!("{far}[[phase]]"))).unwrap();
        assert!(check(&scenario).is_ok(), "the near link is measured");
        let told = shortage(&scenario, 0).unwrap();
        assert!(told.contains("of link far: all links need 65 s"), "{told}");
    }

    #[test]
    fn spread_compares_tcp_of_one_link() {
        let flow = |link: &str, transport: &str, bit_s| BaselineFlow {
            link: link.into(),
            transport: transport.into(),
            bit_s,
            ..BaselineFlow::default()
        };
        let mut flows = vec![flow("l", "tcp", Some(90.0)), flow("l", "udp", Some(1.0)), flow("m", "tcp", Some(5.0))];
        assert_eq!(spread(&flows), None);
        flows.push(flow("l", "tcp", Some(100.0)));
        assert_eq!(spread(&flows), Some(0.1));
        flows.extend([flow("m", "tcp", None), flow("n", "tcp", None), flow("n", "tcp", None)]);
        assert_eq!(spread(&flows), Some(1.0), "one of two failed");
    }
}
