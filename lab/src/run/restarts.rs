//! Restarts of nodes. At the scenario's times a node and its applications are killed (SIGKILL). Later the node starts
//! again from its disk, and its receivers do, too; killed senders do not.

use super::session::{FIRST_APPLICATION, LabSession};
use crate::attached;
use crate::driver::{Driver, NodeContext};
use crate::supervisor::{Request, SignalName};
use anyhow::{Context, Result, bail};
use farlink_scenario::{Down, Scenario, TrafficKind};
use std::collections::VecDeque;
use std::time::Duration;

// Time for a killed node to end, and for a restarted node to accept applications; long, because the node may have much
// to read from its disk.
const PATIENCE: Duration = Duration::from_secs(30);

/// Progress of the scheduled restarts.
#[derive(Debug, Default)]
pub struct Restarts {
    /// Failures that are still to come.
    due: VecDeque<Down>,
    /// Nodes that were killed and not yet started again.
    down: Vec<Killed>,
    /// Nodes that were started again and do not accept applications yet.
    starting: Vec<Killed>,
    /// Number of restarts of each node.
    lives: Vec<u32>,
}

/// Killed node, and its state on the way to readiness.
#[derive(Clone, Debug)]
struct Killed {
    node: usize,
    /// Time of the kill, in monotonic nanoseconds.
    at_ns: u64,
    /// Scheduled time of the restart, since the start of the run.
    until: Duration,
    /// Time of the kill or, after the restart, of the restart, since the start of the run.
    since: Duration,
    /// Whether the node's driver was informed ([`Driver::fell`]).
    fell: bool,
    /// Traffic flows whose receivers were killed with the node.
    receivers: Vec<usize>,
}

impl Restarts {
    /// Collects the restarts of a scenario.
    pub fn new(scenario: &Scenario) -> Restarts {
        let lives = vec![0; scenario.nodes.len()];
        Restarts { due: scenario.restarts().into(), lives, ..Restarts::default() }
    }
    /// Whether the node was killed and is not ready again.
    pub fn awaits(&self, node: usize) -> bool {
        self.down.iter().chain(&self.starting).any(|killed| killed.node == node)
    }
    /// Nodes that were killed at least once.
    pub fn restarted(&self) -> Vec<usize> {
        let down = |node: &usize| self.down.iter().any(|killed| killed.node == *node);
        (0..self.lives.len()).filter(|node| self.lives[*node] > 0 || down(node)).collect()
    }
    /// Nodes that were restarted and do not accept applications yet.
    pub fn unready(&self) -> Vec<usize> {
        self.starting.iter().map(|killed| killed.node).collect()
    }
    /// Node that has exceeded its time to end or to get ready, with a description; `None` if there is no such node.
    /// Nodes for which `watched` is true are left out while they get ready: the program that waits for them has its
    /// own limit.
    fn overdue(&self, elapsed: Duration, watched: impl Fn(usize) -> bool) -> Option<(usize, &'static str)> {
        let late = |killed: &&Killed| elapsed > killed.since + PATIENCE;
        let undead = self.down.iter().filter(|killed| !killed.fell).find(late);
        let hangs = self.starting.iter().filter(|killed| !watched(killed.node)).find(late);
        let undead = undead.map(|killed| (killed.node, "was killed and did not end"));
        undead.or(hangs.map(|killed| (killed.node, "was started again and takes no applications")))
    }
}

impl LabSession<'_> {
    /// Kills and restarts the nodes whose time has come, and starts the receivers of restarted nodes that are ready.
    pub fn restart_due_nodes(&mut self, elapsed: Duration) -> Result<()> {
        while let Some(down) = self.restarts.due.pop_front_if(|down| down.from <= elapsed) {
            self.kill_node(down, elapsed)?;
        }
        self.note_fallen()?;
        for killed in std::mem::take(&mut self.restarts.down) {
            if killed.until <= elapsed && killed.fell {
                self.start_node_again(Killed { since: elapsed, ..killed })?;
            } else {
                self.restarts.down.push(killed);
            }
        }
        for killed in std::mem::take(&mut self.restarts.starting) {
            if self.drivers[killed.node].ready(&self.context(killed.node)) {
                self.attach_again(&killed)?;
            } else {
                self.restarts.starting.push(killed);
            }
        }
        if let Some((node, what)) = self.restarts.overdue(elapsed, |node| !self.drivers[node].needs_epoch()) {
            let name = &self.scenario.nodes[node].name;
            bail!("node `{name}` {what} within {PATIENCE:?}\nhint: its last log shows its state");
        }
        Ok(())
    }

    /// Informs the drivers of killed nodes whose processes have all ended.
    pub fn note_fallen(&mut self) -> Result<()> {
        for mut killed in std::mem::take(&mut self.restarts.down) {
            let gone = self.processes.iter().all(|process| process.node != killed.node || process.exited.is_some());
            // The driver moves files, to which no process may still write.
            if gone && !killed.fell {
                self.with_driver(killed.node, |driver, node| driver.fell(node, killed.at_ns))?;
                killed.fell = true;
            }
            self.restarts.down.push(killed);
        }
        Ok(())
    }

    /// Calls a closure with the driver of a node.
    pub fn with_driver<T>(&mut self, node: usize, what: impl FnOnce(&mut dyn Driver, &NodeContext<'_>) -> T) -> T {
        // The driver is moved out because the context borrows the whole session.
        let mut driver = std::mem::replace(&mut self.drivers[node], crate::drivers::new_default());
        let done = what(&mut *driver, &self.context(node));
        self.drivers[node] = driver;
        done
    }

    fn kill_node(&mut self, down: Down, elapsed: Duration) -> Result<()> {
        let (node, until, at_ns) = (down.node, down.to, farlink_os::monotonic_ns());
        let mut killed = Killed { node, at_ns, until, since: elapsed, fell: false, receivers: Vec::new() };
        let here =
            |process: &&mut super::session::SessionProcess| process.node == down.node && process.exited.is_none();
        for process in self.processes.iter_mut().filter(here) {
            process.killed = true;
            self.crew.tell(&Request::Signal { id: process.id, signal: SignalName::Kill })?;
            // Receivers start again after the restart; killed senders do not.
            killed.receivers.extend(process.receives);
        }
        // The node may still be getting ready after its previous restart.
        let (again, others) =
            std::mem::take(&mut self.restarts.starting).into_iter().partition(|k| k.node == down.node);
        self.restarts.starting = others;
        let again: Vec<Killed> = again;
        killed.receivers.extend(again.into_iter().flat_map(|killed| killed.receivers));
        self.restarts.down.push(killed);
        Ok(())
    }

    fn start_node_again(&mut self, killed: Killed) -> Result<()> {
        let node = killed.node;
        self.restarts.lives[node] += 1;
        let program = self.with_driver(node, |driver, context| driver.again(context))?;
        self.spawn(node as u32, node, &format!("node-{}", self.restarts.lives[node] + 1), program)?;
        self.start_readiness(node)?;
        self.restarts.starting.push(killed);
        Ok(())
    }

    fn attach_again(&mut self, killed: &Killed) -> Result<()> {
        self.start_companions(killed.node)?;
        for traffic in &killed.receivers {
            let name = format!("{}-{}", attached::label(self.scenario, *traffic), self.restarts.lives[killed.node] + 1);
            self.start_receiver(*traffic, &name)?;
        }
        Ok(())
    }

    /// Starts the program that receives a traffic flow, if the driver has one for it.
    pub fn start_receiver(&mut self, traffic: usize, name: &str) -> Result<()> {
        let to = self.scenario.traffic[traffic].to;
        let into = self.folder.received(traffic);
        if matches!(self.scenario.traffic[traffic].kind, TrafficKind::File { .. }) {
            std::fs::create_dir_all(&into).with_context(|| format!("cannot create {}", into.display()))?;
        }
        let program = self.drivers[to].receiver(&self.context(to), traffic, Some(&into))?;
        let Some(program) = program else { return Ok(()) };
        let id = FIRST_APPLICATION + traffic as u32 * 2 + 1;
        self.spawn(id, to, &format!("{name}-receiver"), program)?.receives = Some(traffic);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hanging_node_is_overdue() {
        let at = Duration::from_secs;
        let killed = |fell| Killed { node: 2, at_ns: 0, until: at(1000), since: at(10), fell, receivers: Vec::new() };
        let mut restarts = Restarts { down: vec![killed(true)], ..Restarts::default() };
        let overdue = |restarts: &Restarts, after| restarts.overdue(at(after), |_| false);
        assert_eq!(overdue(&restarts, 900), None, "it stays down as long as the scenario says");
        restarts.down = vec![killed(false)];
        assert_eq!(overdue(&restarts, 40), None);
        assert_eq!(overdue(&restarts, 41), Some((2, "was killed and did not end")));
        restarts = Restarts { starting: vec![killed(true)], ..Restarts::default() };
        assert_eq!((overdue(&restarts, 40), restarts.unready()), (None, vec![2]));
        assert_eq!(overdue(&restarts, 41), Some((2, "was started again and takes no applications")));
        assert_eq!(restarts.overdue(at(900), |node| node == 2), None, "its own limit may be longer");
    }
}
