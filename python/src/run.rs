//! Simulated runs, each on a thread of its own without Python's lock, while the caller's thread watches for signals.

use crate::control::PythonControl;
use crate::errors::{RunError, failure, mistake};
use crate::policy::{Fault, Shared};
use crate::router::PythonRouter;
use crate::scenario::Scenario;
use crate::views::Names;
use farlink_base::nearest_name;
use farlink_campaign::{Interval, measure};
use farlink_congestion::Control;
use farlink_report::{Missed, RunReader, Statistics};
use farlink_routing::Router;
use farlink_scenario::{Policy, Table};
use farlink_sim::{Options, OwnPolicies, Progress};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval of checks for signals, and of progress reports.
const GLANCE: Duration = Duration::from_millis(50);

/// Policies by node, each of which the simulator takes once; `None` for nodes with a policy of the scenario.
type Taken<T> = Mutex<Vec<Option<Box<T>>>>;

/// Policies written in Python, created before the run begins.
struct Own {
    routers: Taken<dyn Router>,
    controls: Taken<dyn Control>,
}
fn take<T: ?Sized>(places: &Taken<T>, node: usize) -> Option<Box<T>> {
    places.lock().unwrap_or_else(PoisonError::into_inner).get_mut(node)?.take()
}
impl OwnPolicies for Own {
    fn router(&self, node: usize) -> Option<Box<dyn Router>> {
        take(&self.routers, node)
    }
    fn control(&self, node: usize) -> Option<Box<dyn Control>> {
        take(&self.controls, node)
    }
}

/// Flag that ends the runs to which it was passed; any thread may set it.
#[pyclass(frozen, module = "farlink._engine")]
#[derive(Default)]
pub struct Stop(AtomicBool);
#[pymethods]
impl Stop {
    #[new]
    fn new() -> Stop {
        Stop::default()
    }
    /// Ends the runs to which the flag was passed.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Factories of policies, by the name of a node or a group, or `*` for all nodes.
type Makers = Vec<(String, Py<PyAny>)>;

/// Indexes of the nodes that the name of a node or group, or `*`, stands for.
fn nodes_of(scenario: &farlink_scenario::Scenario, name: &str) -> PyResult<std::ops::Range<usize>> {
    if name == "*" {
        return Ok(0..scenario.nodes.len());
    }
    if let Some(group) = scenario.groups.iter().find(|group| group.name == name) {
        return Ok(group.nodes.clone());
    }
    if let Some(at) = scenario.nodes.iter().position(|node| node.name == name) {
        return Ok(at..at + 1);
    }
    let known = scenario.groups.iter().map(|group| &group.name).chain(scenario.nodes.iter().map(|node| &node.name));
    // The hint is the same as for a wrong name in a scenario file.
    let near = nearest_name(name, known.map(String::as_str)).map(|near| format!("did you mean `{near}`?"));
    let hint = near.unwrap_or_else(|| "`*` stands for all nodes".into());
    Err(mistake(format!("the scenario has no node and no group `{name}`\nhint: {hint}")))
}

fn called(maker: &Bound<'_, PyAny>) -> Policy {
    // Reports show the name of the class or function; other callables have none.
    let name = maker.getattr("__name__").and_then(|name| name.extract()).unwrap_or_else(|_| "Python".to_string());
    Policy { name, params: Vec::new() }
}

/// Simulates a scenario, writes the run to a folder, and returns whether the run reached its end.
///
/// `lean` writes only the tables that metrics need. `progress` is called with the simulated time and the duration of
/// the whole run, both in seconds, and the number of delivered bundles.
#[pyfunction]
#[pyo3(signature = (scenario, folder, seed, routers, controls, lean, command, progress, stop))]
#[allow(clippy::too_many_arguments)]
pub fn simulate(
    py: Python<'_>,
    scenario: &Scenario,
    folder: PathBuf,
    seed: Option<u64>,
    routers: Makers,
    controls: Makers,
    lean: bool,
    command: String,
    progress: Option<Py<PyAny>>,
    stop: Option<Py<Stop>>,
) -> PyResult<bool> {
    let mut scenario = scenario.parsed(py)?;
    if let Some(seed) = seed {
        scenario.set_seed(seed);
    }
    if lean {
        // Campaigns compute their metrics from these two tables.
        scenario.measure.tables = vec![Table::Bundles, Table::Links];
        scenario.measure.segments = false;
    }
    let names: Names = scenario.nodes.iter().map(|node| (node.number, node.name.clone())).collect();
    let shared = Shared { names: Arc::new(names), fault: Arc::new(Fault::default()) };
    let own = own_policies(py, &mut scenario, &routers, &controls, &shared)?;
    farlink_report::free_for_run(&folder, false).map_err(|why| mistake(why.to_string()))?;
    let options = Options { folder, command, stop: shared.fault.stop.clone() };
    // At most one report waits, and others are dropped, so that a slow caller does not slow the run.
    let (tell, hear) = sync_channel(1);
    let runner = std::thread::Builder::new().name("farlink".into()).spawn(move || {
        let mut last = std::time::Instant::now();
        let mut show = |now: Progress| {
            if last.elapsed() >= GLANCE {
                last = std::time::Instant::now();
                let _ = tell.try_send(now);
            }
        };
        farlink_sim::run_with(&scenario, &options, &own, &mut show)
    });
    let runner = runner.map_err(|why| RunError::new_err(format!("no thread for the run: {why}")))?;
    // The closure without Python's lock must own the receiver, which therefore moves into each wait and back.
    let mut hear = hear;
    let mut interrupted = None;
    loop {
        // Without Python's lock, which policies written in Python need.
        let (told, back) = py.detach(move || (hear.recv_timeout(GLANCE), hear));
        hear = back;
        let shown = match (&told, &progress) {
            (Ok(now), Some(progress)) => progress.call1(py, (now.simulated_s, now.duration_s, now.delivered)).map(drop),
            _ => Ok(()),
        };
        // This only asks the run to stop: its thread ends the loop by closing the channel.
        if let Err(error) = py.check_signals().and(shown) {
            shared.fault.stop.store(true, Ordering::Relaxed);
            interrupted.get_or_insert(error);
        }
        if stop.as_ref().is_some_and(|stop| stop.get().0.load(Ordering::Relaxed)) {
            shared.fault.stop.store(true, Ordering::Relaxed);
        }
        if matches!(told, Err(RecvTimeoutError::Disconnected)) {
            break;
        }
    }
    let ended = py.detach(|| runner.join());
    // A policy's exception explains the end better than an interruption, which it may have caused.
    if let Some(error) = shared.fault.take().or(interrupted) {
        return Err(error);
    }
    match ended {
        Ok(Ok((_, outcome))) => Ok(!outcome.stopped),
        Ok(Err(error)) => Err(failure(error)),
        Err(_) => Err(RunError::new_err("the run panicked\nhint: this is a mistake of farlink; the scenario shows it")),
    }
}

/// Creates an empty slot for the policy of each node.
fn places<T: ?Sized>(scenario: &farlink_scenario::Scenario) -> Vec<Option<Box<T>>> {
    scenario.nodes.iter().map(|_| None).collect()
}

/// Creates the policies, and names them in the scenario, from which the manifest takes the names.
fn own_policies(
    py: Python<'_>,
    scenario: &mut farlink_scenario::Scenario,
    routers: &Makers,
    controls: &Makers,
    shared: &Shared,
) -> PyResult<Own> {
    let (mut made_routers, mut made_controls) = (places::<dyn Router>(scenario), places::<dyn Control>(scenario));
    // Later entries replace earlier ones, so that a node's own policy may follow one for `*`.
    for (name, maker) in routers {
        for node in nodes_of(scenario, name)? {
            made_routers[node] = Some(Box::new(PythonRouter::new(maker.bind(py), shared.clone())?));
            scenario.nodes[node].router = called(maker.bind(py));
        }
    }
    for (name, maker) in controls {
        for node in nodes_of(scenario, name)? {
            made_controls[node] = Some(Box::new(PythonControl::new(maker.bind(py), shared.clone())?));
            scenario.nodes[node].control = called(maker.bind(py));
        }
    }
    Ok(Own { routers: Mutex::new(made_routers), controls: Mutex::new(made_controls) })
}

/// Returns the statistics of the run in a folder as JSON, as `farlink run --json` prints them.
#[pyfunction]
pub fn summary(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    let read = || -> anyhow::Result<String> {
        let run = RunReader::open(&folder)?;
        let statistics = Statistics::read(&run)?;
        let mut value = serde_json::to_value(&statistics)?;
        value["missed"] = serde_json::to_value(Missed::of(run.manifest(), &statistics))?;
        value["finished"] = run.manifest().finished.into();
        Ok(value.to_string())
    };
    py.detach(read).map_err(failure)
}

/// Computes the metrics of campaigns for a scenario's run in a folder; returns them as JSON.
#[pyfunction]
#[pyo3(signature = (scenario, folder, seed = None))]
pub fn numbers(py: Python<'_>, scenario: &Scenario, folder: PathBuf, seed: Option<u64>) -> PyResult<String> {
    let mut scenario = scenario.parsed(py)?;
    if let Some(seed) = seed {
        scenario.set_seed(seed);
    }
    let read = || -> anyhow::Result<String> { Ok(serde_json::to_string(&measure(&scenario, &folder)?)?) };
    py.detach(read).map_err(failure)
}

/// Name of a policy, and a sentence that describes it.
type Known = (&'static str, &'static str);

/// Lists all routers, and all congestion controls.
#[pyfunction]
pub fn policies() -> (Vec<Known>, Vec<Known>) {
    let routers = farlink_routing::routers().iter().map(|router| (router.name, router.help));
    let controls = farlink_congestion::controls().iter().map(|control| (control.name, control.help));
    (routers.collect(), controls.collect())
}

/// Mean of some numbers, and half the width of its 95 % confidence interval (Student's t), as campaigns compute it.
/// None without numbers or if they are not finite; the half is None for a single number.
#[pyfunction]
pub fn interval(values: Vec<f64>) -> Option<(f64, Option<f64>)> {
    Interval::of(&values).map(|interval| (interval.mean, interval.half))
}
