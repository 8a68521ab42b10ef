//! `farlink run`: runs a scenario in simulation, in the testbed, or on machines reached by SSH.

use crate::CliError;
use crate::progress::RunProgress;
use crate::values;
use anyhow::Context as _;
use clap::ValueEnum;
use farlink_report::{
    FlowUse, Manifest, Missed, MissingBundles, PhaseUse, PlainFlow, Quantity, RetentionFacts, RoleUse, RunReader,
    Statistics, Validity, counted, with_refused,
};
use farlink_routing::contact_plan;
use farlink_scenario::{Fidelity, Scenario, SshMachine};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Most traffic entries printed one by one.
const TRAFFIC_SHOWN: usize = 20;
/// Largest table of events that is read for the summary, in bytes; that takes about a second.
const EVENTS_READ: u64 = 20_000_000;

/// Arguments of `farlink run`.
#[derive(clap::Args)]
#[command(after_help = "A run is a directory: manifest.json and Parquet tables (events, bundles, samples, links).\n\n\
    Examples:\n\
    \x20 farlink run campaigns/iss/scenario.toml --in sim\n\
    \x20 farlink run campaigns/iss/scenario.toml --in lab --out runs/iss-lab\n\
    \x20 farlink run campaigns/town/scenario.toml --in sim --watch\n\
    \x20 farlink run campaigns/iss/scenario.toml --in hosts --at root@board --at server\n\
    \x20 farlink run scenario.toml --in sim --seed 7 --json | jq .latency_s.mean\n\n\
    Exit status: 0 done, 1 the run failed or missed an [expect] of the scenario, 2 bad input.")]
pub struct Args {
    /// Scenario file, TOML.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// World to run the scenario in.
    #[arg(long = "in", value_name = "WORLD")]
    world: WorldChoice,
    /// With `--in hosts`: a machine, as `ssh` takes it. Nodes without another host run on the machines in turn.
    #[arg(long, value_name = "MACHINE")]
    at: Vec<String>,
    /// With `--at`: configuration file of `ssh`, instead of the user's.
    #[arg(long, value_name = "FILE", requires = "at")]
    ssh_config: Option<PathBuf>,
    /// With `--at`: `farlink` for those machines, instead of this program.
    #[arg(long, value_name = "FILE", requires = "at")]
    program: Option<PathBuf>,
    /// Random seed, instead of the scenario's.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = values::whole)]
    seed: Option<u64>,
    /// Simulation only: level of detail, instead of the scenario's.
    #[arg(long, value_name = "FIDELITY")]
    fidelity: Option<Play>,
    /// Directory of the run; default: `runs/<scenario>-<world>`, numbered if it exists.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace a run in that directory; anything else is never overwritten.
    #[arg(long, requires = "out")]
    force: bool,
    /// Simulation only: show the run live in this terminal: positions and contacts of nodes, or links that are up,
    /// store occupancy, and the bundles of a node. `q` stops the run and keeps its results.
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Arguments for a simulation of this file into a directory whose run may be replaced.
    pub fn of_file(scenario: PathBuf, out: PathBuf) -> Args {
        let (world, out) = (WorldChoice::Sim, Some(out));
        let (at, ssh_config, program) = (Vec::new(), None, None);
        Args {
            scenario,
            world,
            at,
            ssh_config,
            program,
            seed: None,
            fidelity: None,
            out,
            force: true,
            watch: false,
            json: false,
        }
    }
}

/// Level of detail of a simulation.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Play {
    /// Whole stacks, down to packets.
    Full,
    /// Whole bundles, at the rate and delay of the links.
    Message,
}

/// Worlds that a scenario can run in.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WorldChoice {
    /// Simulation in virtual time.
    Sim,
    /// Testbed on this machine: real node processes over emulated links.
    Lab,
    /// Testbed with nodes on other machines: those of `--at`, or of the scenario's hosts.
    Hosts,
}
impl WorldChoice {
    fn name(self) -> &'static str {
        match self {
            WorldChoice::Sim => "sim",
            WorldChoice::Lab => "lab",
            WorldChoice::Hosts => "hosts",
        }
    }
}

pub fn run(args: Args) -> Result<(), CliError> {
    let folder = into_folder(&args)?;
    if args.json {
        let (value, judged) = document(&folder)?;
        println!("{value:#}");
        return judged;
    }
    tell(&folder)
}

/// Runs a scenario; returns the directory of the run.
///
/// # Errors
/// If the scenario cannot be run, or the directory cannot be written.
pub fn into_folder(args: &Args) -> Result<PathBuf, CliError> {
    let mut scenario = load(&args.scenario)?;
    if let Some(seed) = args.seed {
        scenario.set_seed(seed);
    }
    place(args, &mut scenario)?;
    if args.watch {
        let hindrance = match args.world {
            WorldChoice::Sim => farlink_watch::hindrance(),
            WorldChoice::Lab | WorldChoice::Hosts => Some(
                "`--watch` in the testbed, whose nodes do not report every event while they run\n\
                hint: use it with `--in sim`; `farlink node status` queries a node of the testbed",
            ),
        };
        if let Some(why) = hindrance {
            return Err(CliError::Input(why.into()));
        }
    }
    match (args.fidelity, args.world) {
        (None, _) => {}
        (Some(Play::Full), _) => scenario.fidelity = Fidelity::Full,
        (Some(Play::Message), WorldChoice::Sim) => scenario.fidelity = Fidelity::Message,
        (Some(Play::Message), WorldChoice::Lab | WorldChoice::Hosts) => {
            return Err(CliError::Input(
                "`--fidelity message` in the testbed, which runs complete nodes\nhint: use it with `--in sim`".into(),
            ));
        }
    }
    for doubt in scenario.doubts().into_iter().chain(plan_warnings(&scenario)) {
        eprintln!("warning: {doubt}");
    }
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => fresh_folder(Path::new("runs"), &scenario.name, args.world.name()),
    };
    // Checked before the run starts, which may take hours.
    farlink_report::free_for_run(&folder, args.force).map_err(|error| CliError::Input(error.to_string()))?;
    crate::make_folder(&folder, "--out")?;
    let command = command_line(args, scenario.seed);
    let done = match args.world {
        WorldChoice::Sim => in_simulation(&scenario, &folder, command, args.watch),
        WorldChoice::Lab | WorldChoice::Hosts => in_testbed(&scenario, &folder, command),
    };
    if done.is_err() {
        // Removes the directory only if it is empty: results of a failed run are kept.
        let _ = std::fs::remove_dir(&folder);
    }
    done?;
    Ok(folder)
}

/// Places the nodes on the machines of `--at`.
fn place(args: &Args, scenario: &mut Scenario) -> Result<(), CliError> {
    let file = |path: &Option<PathBuf>| match path {
        None => Ok(None),
        Some(path) => match path.canonicalize() {
            Ok(path) => Ok(Some(path)),
            Err(why) => Err(CliError::Input(format!("cannot read {}: {why}", path.display()))),
        },
    };
    let (config, program) = (file(&args.ssh_config)?, file(&args.program)?);
    let machine = |at: &String| SshMachine { at: at.clone(), config: config.clone(), program: program.clone() };
    let machines: Vec<SshMachine> = args.at.iter().map(machine).collect();
    match (args.world, machines.is_empty()) {
        (WorldChoice::Hosts, false) => scenario.place_on(&machines),
        (WorldChoice::Hosts, true) if scenario.nodes.iter().all(|node| node.host.ssh().is_none()) => {
            return Err(CliError::Input("`--in hosts` without a machine\nhint: `--at MACHINE` names one".into()));
        }
        (_, true) => {}
        (_, false) => return Err(CliError::Input("`--at` without `--in hosts`\nhint: write `--in hosts`".into())),
    }
    Ok(())
}

/// Results of a run as JSON, and an error if it was interrupted or missed an expectation of the scenario.
///
/// # Errors
/// If the folder is not a run.
pub fn document(folder: &Path) -> Result<(serde_json::Value, Result<(), CliError>), CliError> {
    let run = RunReader::open(folder)?;
    let statistics = Statistics::read(&run)?;
    let missed = Missed::of(run.manifest(), &statistics);
    let mut value = serde_json::to_value(&statistics).context("the statistics are not JSON")?;
    value["run"] = folder.display().to_string().into();
    value["missing"] = serde_json::to_value(missing(&run, &statistics)?).context("what is missing is not JSON")?;
    value["missed"] = serde_json::to_value(&missed).context("what was missed is not JSON")?;
    value["finished"] = run.manifest().finished.into();
    value["verdict"] = run.manifest().validity.judge().word().into();
    value["disturbances"] = run.manifest().validity.disturbances.clone().into();
    value["unmeasured"] = run.manifest().validity.unmeasured.clone().into();
    value["flows"] = serde_json::to_value(&run.manifest().flows).context("flows are not JSON")?;
    Ok((value, judge(&missed, &run)))
}

pub fn load(path: &Path) -> Result<Scenario, CliError> {
    Scenario::load(path).map_err(|errors| CliError::mistakes(path, &errors))
}

/// Warnings that `farlink plan check` gives for the scenario's plan file.
fn plan_warnings(scenario: &Scenario) -> Vec<String> {
    let Some((file, text)) = &scenario.plan_file else { return Vec::new() };
    let plan = contact_plan::parse(text).map(|plan| plan.warnings).unwrap_or_default();
    plan.iter().map(|warning| format!("{}: {warning}", file.display())).collect()
}

/// Command that repeats the run.
fn command_line(args: &Args, seed: u64) -> String {
    let play = match args.fidelity {
        None => "",
        Some(Play::Full) => " --fidelity full",
        Some(Play::Message) => " --fidelity message",
    };
    let at: String = args.at.iter().map(|machine| format!(" --at {machine}")).collect();
    let path = |option: &str, path: &Option<PathBuf>| {
        path.as_ref().map_or_else(String::new, |path| format!(" {option} {}", path.display()))
    };
    let more = [at, path("--ssh-config", &args.ssh_config), path("--program", &args.program)].concat();
    format!("farlink run {} --in {}{more} --seed {seed}{play}", args.scenario.display(), args.world.name())
}

/// Default directory of a run, numbered if it exists.
fn fresh_folder(parent: &Path, scenario: &str, world: &str) -> PathBuf {
    let base = format!("{scenario}-{world}");
    let numbered = (2..).map(|number| parent.join(format!("{base}-{number}")));
    let mut names = std::iter::once(parent.join(&base)).chain(numbered);
    names.find(|folder| !folder.exists()).unwrap_or_else(|| parent.join(base))
}

/// Makes Control-C and SIGTERM set a flag that ends the run with its results so far.
fn stop_when_asked() -> Result<Arc<AtomicBool>, CliError> {
    Ok(farlink_os::process::watch_termination()?)
}

fn in_simulation(scenario: &Scenario, folder: &Path, command: String, watched: bool) -> Result<(), CliError> {
    let options = farlink_sim::Options { folder: folder.to_path_buf(), command, stop: stop_when_asked()? };
    let result = if watched {
        let mut watch = farlink_watch::RunWatch::in_terminal(scenario, options.stop.clone());
        let result = farlink_sim::run_watched(scenario, &options, &mut watch);
        if let Some(error) = watch.finish() {
            // Standard error may be the same lost terminal: an error of this write is ignored.
            let _ = writeln!(std::io::stderr(), "warning: the live view ended, as the terminal failed: {error}");
        }
        result
    } else {
        let mut shown = RunProgress::new(scenario.duration, "simulating");
        let show = &mut |progress: farlink_sim::Progress| {
            shown.show(progress.simulated_s, &format!("{} bundles delivered", progress.delivered));
        };
        let result = farlink_sim::run(scenario, &options, show);
        shown.finish();
        result
    };
    result.map(drop).map_err(mistake)
}

fn in_testbed(scenario: &Scenario, folder: &Path, command: String) -> Result<(), CliError> {
    let mut shown = RunProgress::new(scenario.duration, "testbed");
    let program = std::env::current_exe().context("the path of this program")?;
    let options =
        farlink_lab::run::LabOptions { folder: folder.to_path_buf(), command, program, stop: stop_when_asked()? };
    let show = &mut |progress: farlink_lab::run::LabProgress| {
        let what = format!("{}: {} of {} bundles delivered", progress.phase, progress.delivered, progress.created);
        shown.show(progress.elapsed_s, &what);
    };
    let result = farlink_lab::run::run(scenario, &options, show);
    shown.finish();
    result.map(drop).map_err(mistake)
}

/// Tells mistakes of a scenario that show only when its world is built from failures of a run.
fn mistake(error: anyhow::Error) -> CliError {
    match error.downcast::<farlink_base::ConfigError>() {
        Ok(mistake) => CliError::Input(mistake.to_string()),
        Err(error) => CliError::Run(error),
    }
}

/// Prints the results of a run; fails if it was interrupted or missed an expectation of the scenario.
fn tell(folder: &Path) -> Result<(), CliError> {
    let run = RunReader::open(folder)?;
    let statistics = Statistics::read(&run)?;
    let (manifest, s) = (run.manifest(), &statistics);
    let missed = Missed::of(manifest, s);
    let seconds = |s: f64| Quantity::Seconds.text(s);
    println!("{}", manifest.title());
    println!("  delivered  {} of {}", s.delivered, counted(s.wanted(), "bundle"));
    for missing in missing(&run, s)? {
        println!("  missing    {}", missing.text());
    }
    if let Some(latency) = s.latency_s {
        let [mean, p50, p99] = [latency.mean, latency.p50, latency.p99].map(seconds);
        println!("  latency    mean {mean}, p50 {p50}, p99 {p99}");
    }
    if let Some(times) = s.round_trip_s {
        let [p50, p90, p99] = [times.p50, times.p90, times.p99].map(seconds);
        println!("  round trip p50 {p50}, p90 {p90}, p99 {p99}");
    }
    if let Some(goodput) = s.goodput_bit_s {
        println!("  goodput    {}", Quantity::Rate.text(goodput));
    }
    if let Some(overhead) = s.overhead_text() {
        println!("  overhead   {overhead}");
    }
    // The figures of a single traffic entry are the totals printed above.
    if s.traffic.len() > 1 {
        for flow in in_order(s, manifest).into_iter().take(TRAFFIC_SHOWN) {
            let latency = flow.latency_s.map_or(String::new(), |l| format!(", mean latency {}", seconds(l.mean)));
            let goodput = flow.goodput_bit_s.map_or(String::new(), |g| format!(", {}", Quantity::Rate.text(g)));
            let wanted = counted(flow.created + flow.refused, "bundle");
            println!("  traffic    {}: {} of {wanted}{latency}{goodput}", flow.traffic, flow.delivered);
        }
        if let Some(more) = s.traffic.len().checked_sub(TRAFFIC_SHOWN).filter(|more| *more > 0) {
            println!("  traffic    and {more} more: `farlink report` and `--json` show all");
        }
    }
    for line in plain_flows(&manifest.flows) {
        println!("  flow       {line}");
    }
    for file in &manifest.files {
        let how = match (file.equal(), file.complete_s) {
            (Some(false), _) | (_, None) => "incomplete".to_string(),
            (Some(true), Some(at)) => format!("complete after {}, checksum equal", seconds(at)),
            (None, Some(at)) => format!("complete after {}", seconds(at)),
        };
        println!("  file       {}: {how}", file.traffic);
    }
    let unjudged = Missed::unjudged(manifest, s);
    if let Some(text) = unjudged {
        println!("  expected   {text}");
    } else if manifest.expect != farlink_report::Expected::default() && missed.is_empty() {
        println!("  expected   yes: all of [expect] is met");
    }
    for line in retention(&s.phases).iter().take(TRAFFIC_SHOWN) {
        println!("  retention  {line}");
    }
    if let Some(line) = processors(&s.roles) {
        println!("  processors {line}");
    }
    println!("  took       {} for a run of {}", seconds(s.wall_s), seconds(s.duration_s));
    println!("  run        {}", folder.display());
    eprint!("{}", warnings(&manifest.validity));
    judge(&missed, &run)
}

/// Fates of the undelivered bundles; none for a run whose events would take long to read, as its report does.
fn missing(run: &RunReader, statistics: &Statistics) -> Result<Vec<MissingBundles>, CliError> {
    let size = std::fs::metadata(run.folder().join("events.parquet")).map_or(0, |file| file.len());
    let followed = match statistics.delivered == statistics.created || size > EVENTS_READ {
        true => Vec::new(),
        false => MissingBundles::read(run, &run.bundles()?)?,
    };
    Ok(with_refused(statistics, followed))
}

/// Retention times of the relays, a line for each phase and relay.
fn retention(phases: &[PhaseUse]) -> Vec<String> {
    let seconds = |s: f64| Quantity::Seconds.text(s);
    let relays = phases.iter().flat_map(|phase| phase.facts.retention.iter().map(move |relay| (phase, relay)));
    let line = |(phase, relay): (&PhaseUse, &RetentionFacts)| {
        let told = match (&relay.unavailable, relay.first_out_s) {
            (Some(reason), _) => format!("n/a: {reason}"),
            (None, None) => "n/a".to_string(),
            (None, Some(raw)) => {
                let net = relay.net_first_out_s.map_or("n/a".into(), |net| seconds(net.p50));
                let missing =
                    if relay.missing > 0 { format!(", {} did not leave", relay.missing) } else { String::new() };
                format!(
                    "p50 {} (net {net}), p99 {}, {} bundles{missing}",
                    seconds(raw.p50),
                    seconds(raw.p99),
                    relay.bundles
                )
            }
        };
        format!("{} in {}: {told}", relay.relay, phase.facts.name)
    };
    relays.map(line).collect()
}

/// Processor time of each node, with that of its applications in brackets, and of the emulator; nodes beyond
/// [`TRAFFIC_SHOWN`] are summed up.
fn processors(roles: &[RoleUse]) -> Option<String> {
    let seconds = |role: &RoleUse| Quantity::Seconds.text(role.cpu_s());
    let implementations = || roles.iter().filter(|role| role.role == "implementation");
    let of_node = |role: &RoleUse| {
        let own = roles.iter().find(|other| other.role == "application" && other.node == role.node);
        let own = own.map_or(String::new(), |own| format!(" (its applications {})", seconds(own)));
        format!("{} {}{own}", role.node.as_deref().unwrap_or_default(), seconds(role))
    };
    let mut parts: Vec<String> = implementations().take(TRAFFIC_SHOWN).map(of_node).collect();
    let more = implementations().skip(TRAFFIC_SHOWN).map(RoleUse::cpu_s).sum::<f64>();
    parts.extend((more > 0.0).then(|| format!("other nodes {}", Quantity::Seconds.text(more))));
    parts.extend(roles.iter().filter(|role| role.role == "emulator").map(|role| format!("emulator {}", seconds(role))));
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Results of each traffic flow, in the order of the scenario rather than of arrival, which varies.
fn in_order<'s>(statistics: &'s Statistics, manifest: &Manifest) -> Vec<&'s FlowUse> {
    let mut flows: Vec<&FlowUse> = statistics.traffic.iter().collect();
    flows.sort_by_key(|flow| manifest.topology.traffic.iter().position(|facts| facts.name == flow.traffic));
    flows
}

/// Results of plain flows, a line each: what the receiver got, at which rate, and what was lost or sent again.
fn plain_flows(flows: &[PlainFlow]) -> Vec<String> {
    let line = |flow: &PlainFlow| {
        let told = match (&flow.failure, flow.transport.as_str()) {
            (Some(failure), _) => failure.clone(),
            (None, _) if flow.received_bytes == 0 => "nothing arrived".to_string(),
            (None, transport) => {
                let (bytes, rate) = (flow.received_bytes as f64, Quantity::Rate.text(flow.bit_s));
                let lost = match transport {
                    "udp" => format!("{} of {} lost", flow.lost, counted(flow.datagrams, "datagram")),
                    _ => format!("{} sent again", counted(flow.retransmitted, "segment")),
                };
                format!("{rate}, {} received, {lost}", Quantity::Bytes.text(bytes))
            }
        };
        format!("{} from {} to {}, {}: {told}", flow.name, flow.from, flow.to, flow.transport.to_uppercase())
    };
    let mut lines: Vec<String> = flows.iter().take(TRAFFIC_SHOWN).map(line).collect();
    if let Some(more) = flows.len().checked_sub(TRAFFIC_SHOWN).filter(|more| *more > 0) {
        lines.push(format!("and {more} more: `farlink report` and `--json` show all"));
    }
    lines
}

/// One warning line per measurement that the scenario left no room for, and per disturbance of the run.
fn warnings(validity: &Validity) -> String {
    let unmeasured = validity.unmeasured.iter().map(|text| format!("warning: not measured: {text}\n"));
    unmeasured.chain(validity.disturbances.iter().map(|text| format!("warning: disturbed: {text}\n"))).collect()
}

/// Fails if the run was interrupted or missed an expectation of the scenario.
fn judge(missed: &[Missed], run: &RunReader) -> Result<(), CliError> {
    let folder = run.folder().display();
    if let Some(how) = run.manifest().interruption() {
        return Err(CliError::Run(anyhow::anyhow!(
            "the run was {how}; {folder} holds the results so far\nhint: `{}` repeats the run",
            run.manifest().command
        )));
    }
    if missed.is_empty() {
        return Ok(());
    }
    let line = |m: &Missed| format!("  {}: expected {}, found {}", m.key, m.expected, m.found);
    let lines: Vec<String> = missed.iter().map(line).collect();
    Err(CliError::Run(anyhow::anyhow!(
        "the run misses expectations of the scenario\n{}\nhint: [expect] of the scenario lists them; \
         `farlink report {folder}` shows where bundles were",
        lines.join("\n"),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_and_disturbance_gives_a_warning() {
        let disturbances = ["Machine: busy.", "Clock: stepped."].map(String::from).to_vec();
        let validity =
            Validity { disturbances, unmeasured: vec!["Phase base: too short.".into()], ..Validity::default() };
        assert_eq!(
            warnings(&validity),
            "warning: not measured: Phase base: too short.\nwarning: disturbed: Machine: busy.\n\
             warning: disturbed: Clock: stepped.\n"
        );
        assert_eq!(warnings(&Validity::default()), "");
    }

    #[test]
    fn plain_flows_have_a_line_each() {
        let flow = |transport: &str, received_bytes| PlainFlow {
            name: "bulk".into(),
            from: "a".into(),
            to: "b".into(),
            transport: transport.into(),
            received_bytes,
            bit_s: 2e6,
            datagrams: 1200,
            lost: 3,
            retransmitted: 1,
            ..PlainFlow::default()
        };
        let failed = PlainFlow { failure: Some("no result".into()), ..flow("tcp", 9) };
        assert_eq!(
            plain_flows(&[flow("tcp", 5_000_000), flow("udp", 5_000_000), flow("tcp", 0), failed]),
            [
                "bulk from a to b, TCP: 2 Mbit/s, 5 MB received, 1 segment sent again",
                "bulk from a to b, UDP: 2 Mbit/s, 5 MB received, 3 of 1,200 datagrams lost",
                "bulk from a to b, TCP: nothing arrived",
                "bulk from a to b, TCP: no result",
            ]
        );
        assert_eq!(plain_flows(&vec![flow("tcp", 1); 23]).len(), TRAFFIC_SHOWN + 1);
    }

    #[test]
    fn existing_folder_is_never_overwritten() {
        let parent = std::env::temp_dir().join(format!("farlink-run-{}", std::process::id()));
        assert_eq!(fresh_folder(&parent, "iss", "sim"), parent.join("iss-sim"));
        std::fs::create_dir_all(parent.join("iss-sim")).unwrap();
        assert_eq!(fresh_folder(&parent, "iss", "sim"), parent.join("iss-sim-2"));
        std::fs::remove_dir_all(&parent).unwrap();
    }
}
