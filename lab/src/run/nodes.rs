//! Start and end of nodes. Nodes of other implementations take an unknown time to start, so they start before the start
//! time of the run is chosen. Farlink's nodes follow, since their configuration contains that time.

use super::session::{FIRST_APPLICATION, LabSession, SessionProcess};
use crate::supervisor::{Request, SignalName};
use anyhow::{Result, bail};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// First process number of programs that belong to a node.
pub const FIRST_COMPANION: u32 = 1 << 15;
/// First process number of programs that wait for a node, or end it.
pub const FIRST_HELPER: u32 = 1 << 28;
/// Further wait for the supervisor to report a failed start, after [`READY_MOST`].
const READY_MARGIN: Duration = Duration::from_secs(10);
/// Longest time in which a node may start, whatever its driver permits.
const READY_MOST: Duration = Duration::from_secs(600);

impl LabSession<'_> {
    /// Refuses scheduled restarts of nodes that run in the background: their processes cannot be found.
    pub fn check_restarts(&self) -> Result<()> {
        let forks = |node: usize| self.drivers[node].forks();
        let Some(down) = self.scenario.restarts().into_iter().find(|down| forks(down.node)) else { return Ok(()) };
        bail!(
            "node `{}` cannot be restarted: {} runs in the background\nhint: take the fault out, or lower its links",
            self.scenario.nodes[down.node].name,
            self.drivers[down.node].name()
        );
    }

    /// Starts the nodes that need not know when the run starts, and waits until they accept applications. Fails when
    /// `stop` is set.
    pub fn start_early_nodes(&mut self, stop: &AtomicBool) -> Result<()> {
        let early = |session: &Self, node: &usize| !session.drivers[*node].needs_epoch();
        let nodes: Vec<usize> = (0..self.drivers.len()).filter(|node| early(self, node)).collect();
        for node in &nodes {
            let program = self.drivers[*node].prepare(&self.context(*node))?;
            self.spawn(*node as u32, *node, "node", program)?;
            self.start_readiness(*node)?;
        }
        let begun = Instant::now();
        for node in &nodes {
            while !self.drivers[*node].ready(&self.context(*node)) {
                self.turn()?;
                if stop.load(Ordering::Relaxed) {
                    bail!("stopped while node `{}` was getting ready", self.scenario.nodes[*node].name);
                }
                // Usually the program that waits for the node fails first, by the driver's own limit, and ends the run.
                if begun.elapsed() > READY_MOST + READY_MARGIN {
                    bail!("node `{}` did not get ready", self.scenario.nodes[*node].name);
                }
            }
            self.start_companions(*node)?;
        }
        Ok(())
    }

    /// Starts the program that waits for a node, if its driver has one.
    pub fn start_readiness(&mut self, node: usize) -> Result<()> {
        let Some(program) = self.drivers[node].readiness(&self.context(node))? else { return Ok(()) };
        self.helpers += 1;
        self.spawn(FIRST_HELPER + self.helpers, node, &format!("ready-{}", self.helpers), program)?;
        Ok(())
    }

    /// Starts the programs that belong to a node, once it is ready.
    pub fn start_companions(&mut self, node: usize) -> Result<()> {
        for program in self.drivers[node].companions(&self.context(node))? {
            self.companions += 1;
            self.spawn(FIRST_COMPANION + self.companions, node, &format!("companion-{}", self.companions), program)?;
        }
        Ok(())
    }

    /// Ends each node by its driver's program, or by a signal if the driver names no program. Nodes that still run
    /// after their driver's time limit are killed (SIGKILL).
    pub fn stop_nodes(&mut self) -> Result<()> {
        let mut longest = Duration::ZERO;
        let mut stops = Vec::new();
        for node in 0..self.drivers.len() {
            let stopping = self.drivers[node].stopping(&self.context(node))?;
            longest = longest.max(stopping.within);
            match stopping.run {
                Some(program) => {
                    self.helpers += 1;
                    stops.push(FIRST_HELPER + self.helpers);
                    self.spawn(FIRST_HELPER + self.helpers, node, &format!("stop-{}", self.helpers), program)?;
                }
                None => self.signal_node(node, SignalName::Terminate)?,
            }
        }
        let ended = |process: &SessionProcess| process.exited.is_some();
        let of_nodes = |process: &SessionProcess| process.id < FIRST_APPLICATION;
        let all_ended = |session: &Self| {
            let waits = |process: &&SessionProcess| of_nodes(process) || stops.contains(&process.id);
            session.processes.iter().filter(waits).all(ended)
        };
        self.turns_within(longest, all_ended)?;
        self.stop(|process| of_nodes(process) || stops.contains(&process.id))
    }

    fn signal_node(&mut self, node: usize, signal: SignalName) -> Result<()> {
        let own = |process: &&SessionProcess| {
            process.node == node && process.id < FIRST_APPLICATION && process.exited.is_none()
        };
        let ids: Vec<u32> = self.processes.iter().filter(own).map(|process| process.id).collect();
        ids.into_iter().try_for_each(|id| self.crew.tell(&Request::Signal { id, signal }))
    }
}
