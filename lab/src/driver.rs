//! What the testbed must know of an implementation to run it: how to write its configuration, start
//! it, see that it is ready, attach applications and read what it did. One folder under
//! `lab/drivers/` for each; foreign programs are named nowhere else.

use anyhow::Result;
use farlink_base::DtnTime;
use farlink_report::EventRow;
use farlink_scenario::{LinkChange, Scenario};
use std::collections::BTreeMap;
use std::path::Path;

/// A node to be run.
#[derive(Clone, Copy, Debug)]
pub struct NodeContext<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Which of its nodes.
    pub index: usize,
    /// The node's own folder; every process of the node starts in it.
    pub folder: &'a Path,
    /// Wall time at the start of the run.
    pub epoch: DtnTime,
    /// This program.
    pub program: &'a Path,
    /// Whether its processes have real-time scheduling; without it they get the processor late.
    pub real_time: bool,
}

/// A folder that all nodes of a run share, beside those of the nodes, of which none can be called so. What secures the
/// run lies there: it goes when the run has ended well.
pub const COMMON: &str = ".common";

/// A program with its arguments and what it needs in its environment.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Program {
    /// Program, then arguments.
    pub command: Vec<String>,
    /// Environment beyond ours.
    pub environment: BTreeMap<String, String>,
}

/// Bundles counted at one node so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Created by applications here.
    pub created: u64,
    /// Taken by applications here.
    pub delivered: u64,
}

/// One implementation.
pub trait Driver {
    /// Its name, as in `lab/drivers/`.
    fn name(&self) -> &'static str;

    /// Writes what the node needs into its folder and gives the program to start.
    ///
    /// # Errors
    /// What the scenario asks for that this implementation cannot do, or a file that cannot be
    /// written.
    fn prepare(&self, node: &NodeContext<'_>) -> Result<Program>;

    /// Whether the node takes applications.
    fn ready(&self, node: &NodeContext<'_>) -> bool;

    /// The program that receives a traffic at its destination; `into` is the folder where a file
    /// goes, under the name it has at the sender. `None` when the node does it by itself.
    fn receiver(&self, node: &NodeContext<'_>, traffic: usize, into: Option<&Path>) -> Option<Program>;

    /// The program that sends a traffic; it ends when everything was accepted. `content` is the
    /// file to send, or the bytes of all bundles; beside it, with the extension `sizes`, may be the
    /// size of each bundle in turn, a number per line.
    fn sender(&self, node: &NodeContext<'_>, traffic: usize, content: Option<&Path>) -> Program;

    /// The program that gives the running node a link of its, or takes one away; it ends when that is done.
    ///
    /// # Errors
    /// When this implementation cannot change its links, or a file cannot be written.
    fn change_link(&self, node: &NodeContext<'_>, change: LinkChange) -> Result<Program>;

    /// Puts aside what the node, which was killed at that monotonic nanosecond and has ended, left in its folder; that it
    /// is down is among its events from then on.
    ///
    /// # Errors
    /// When a file cannot be moved.
    fn fell(&mut self, node: &NodeContext<'_>, killed_ns: u64) -> Result<()>;

    /// Gives the program to start a node that [fell](Driver::fell) again, on what its disk has.
    ///
    /// # Errors
    /// When that cannot be done, or a file cannot be written.
    fn again(&mut self, node: &NodeContext<'_>) -> Result<Program>;

    /// Counts what happened so far; what came again to an application after a restart once. Cheap: it is asked several
    /// times a second.
    fn tally(&mut self, node: &NodeContext<'_>) -> Tally;

    /// Deviations of the running node from the scenario, in its own words, such as a bound that it lowered.
    fn deviations(&self, node: &NodeContext<'_>) -> Vec<String>;

    /// Gives everything that happened, in order, once the node has ended. Times in the rows are on
    /// the machine's monotonic clock.
    ///
    /// # Errors
    /// When the record cannot be read.
    fn events(&mut self, node: &NodeContext<'_>, each: &mut dyn FnMut(EventRow) -> Result<()>) -> Result<()>;
}
