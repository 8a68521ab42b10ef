//! Nodes that are killed and started again on what their disk has, as the scenario says: `kill -9` of the node and of
//! its applications, and later both again, but for applications that were done.

use super::session::{FIRST_APPLICATION, Session};
use crate::supervisor::{Request, SignalName};
use anyhow::Result;
use farlink_scenario::{Down, Scenario};
use std::collections::VecDeque;
use std::time::Duration;

/// What is still to be done.
#[derive(Debug, Default)]
pub struct Restarts {
    /// Not yet killed.
    due: VecDeque<Down>,
    /// Killed.
    down: Vec<Killed>,
    /// Started again: their applications wait until they are ready.
    starting: Vec<Killed>,
    /// How often each node was started again.
    lives: Vec<u32>,
}

/// A node that was killed.
#[derive(Clone, Debug)]
struct Killed {
    node: usize,
    /// Monotonic nanoseconds.
    at_ns: u64,
    /// When it is to start again.
    until: Duration,
    /// Traffic whose receivers ended with it.
    receivers: Vec<usize>,
}

impl Restarts {
    /// Of a scenario.
    pub fn new(scenario: &Scenario) -> Restarts {
        let lives = vec![0; scenario.nodes.len()];
        Restarts { due: scenario.restarts().into(), lives, ..Restarts::default() }
    }
    /// Whether the node was killed and is not ready again.
    pub fn awaits(&self, node: usize) -> bool {
        self.down.iter().chain(&self.starting).any(|killed| killed.node == node)
    }
}

impl Session<'_> {
    /// Kills, and starts again, what is due.
    pub fn restart_due_nodes(&mut self, elapsed: Duration) -> Result<()> {
        while let Some(down) = self.restarts.due.pop_front_if(|down| down.from <= elapsed) {
            self.kill_node(down)?;
        }
        for killed in std::mem::take(&mut self.restarts.down) {
            let gone = self.processes.iter().all(|process| process.node != killed.node || process.exited.is_some());
            if killed.until <= elapsed && gone {
                self.start_node_again(killed)?;
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
        Ok(())
    }

    fn kill_node(&mut self, down: Down) -> Result<()> {
        let mut killed =
            Killed { node: down.node, at_ns: farlink_os::monotonic_ns(), until: down.to, receivers: Vec::new() };
        let here = |process: &&mut super::session::Process| process.node == down.node && process.exited.is_none();
        for process in self.processes.iter_mut().filter(here) {
            process.killed = true;
            self.supervisor.tell(&Request::Signal { id: process.id, signal: SignalName::Kill })?;
            killed.receivers.extend(process.receives);
        }
        // It may not have been ready yet after the last time.
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
        let mut driver = std::mem::replace(&mut self.drivers[node], crate::drivers::new_default());
        let program = driver.again(&self.context(node), killed.at_ns);
        self.drivers[node] = driver;
        self.spawn(node as u32, node, &format!("node-{}", self.restarts.lives[node] + 1), program?)?;
        self.restarts.starting.push(killed);
        Ok(())
    }

    fn attach_again(&mut self, killed: &Killed) -> Result<()> {
        for traffic in &killed.receivers {
            let name = format!("{}-{}", self.scenario.traffic[*traffic].name, self.restarts.lives[killed.node] + 1);
            self.start_receiver(*traffic, &name)?;
        }
        Ok(())
    }

    /// Starts the program that receives a traffic, where there is one.
    pub fn start_receiver(&mut self, traffic: usize, name: &str) -> Result<()> {
        let to = self.scenario.traffic[traffic].to;
        let into = self.folder.received(traffic);
        let Some(program) = self.drivers[to].receiver(&self.context(to), traffic, Some(&into)) else { return Ok(()) };
        let id = FIRST_APPLICATION + traffic as u32 * 2 + 1;
        self.spawn(id, to, &format!("{name}-receiver"), program)?.receives = Some(traffic);
        Ok(())
    }
}
