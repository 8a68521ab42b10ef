//! Interface between the testbed and an implementation: writing its configuration, starting it, detecting readiness,
//! attaching applications, and reading its events. One folder under `lab/drivers/` per implementation; foreign programs
//! are named nowhere else.

use crate::attached::Attachment;
use anyhow::Result;
use farlink_base::DtnTime;
use farlink_report::EventRow;
use farlink_scenario::{LinkChange, Scenario};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Node that a driver configures and starts, with the run's paths and settings.
#[derive(Clone, Copy, Debug)]
pub struct NodeContext<'a> {
    /// Scenario of the run.
    pub scenario: &'a Scenario,
    /// Index of the node in the scenario.
    pub index: usize,
    /// Folder of the node, in which all its processes start.
    pub folder: &'a Path,
    /// Wall-clock time at the start of the run.
    pub epoch: DtnTime,
    /// Path of the `farlink` program.
    pub program: &'a Path,
    /// Whether the node's processes have real-time scheduling; without it they may have to wait for a processor.
    pub real_time: bool,
}

/// Folder shared by all nodes of a run, in the folder that holds theirs; no node can have this name. It holds the
/// secrets of the run, and is removed after a successful run.
pub const COMMON: &str = ".common";

/// Program to start, with its arguments and environment.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Program {
    /// Program, then arguments.
    pub command: Vec<String>,
    /// Environment variables in addition to those of the testbed's own process.
    pub environment: BTreeMap<String, String>,
}

/// Bundle counters of one node.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct BundleTally {
    /// Bundles created by applications at the node.
    pub created: u64,
    /// Bundles delivered to applications at the node.
    pub delivered: u64,
}

/// Way to end a node, and the longest wait for its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stopping {
    /// Program that ends the node; `None` for a signal to terminate.
    pub run: Option<Program>,
    /// Longest wait before the node is killed.
    pub within: Duration,
}

/// An implementation under test.
pub trait Driver {
    /// Name of the implementation, as in `lab/drivers/`.
    fn name(&self) -> &str;

    /// Version that the implementation's programs print when run in a folder. `None` if it is unknown, or the
    /// implementation is this program.
    fn version(&self, _folder: &Path) -> Option<String> {
        None
    }

    /// Whether the node's configuration needs the time at which the run starts. Such nodes start last.
    fn needs_epoch(&self) -> bool {
        true
    }

    /// Whether the testbed starts and ends the node; false for nodes on machines outside.
    fn is_started(&self) -> bool {
        true
    }

    /// Whether the program that starts the node ends while the node goes on.
    fn forks(&self) -> bool {
        false
    }

    /// Program that waits in the host until the node accepts applications; `None` if [`Driver::ready`] needs no such
    /// program.
    ///
    /// # Errors
    /// As [`Driver::prepare`].
    fn readiness(&self, _node: &NodeContext<'_>) -> Result<Option<Program>> {
        Ok(None)
    }

    /// Programs of the implementation that start once the node accepts applications.
    ///
    /// # Errors
    /// As [`Driver::prepare`].
    fn companions(&self, _node: &NodeContext<'_>) -> Result<Vec<Program>> {
        Ok(Vec::new())
    }

    /// Way to end the node, and the longest wait for its end.
    ///
    /// # Errors
    /// As [`Driver::prepare`].
    fn stopping(&self, _node: &NodeContext<'_>) -> Result<Stopping> {
        Ok(Stopping { run: None, within: Duration::from_secs(5) })
    }

    /// Interface of the node to applications.
    ///
    /// # Errors
    /// As [`Driver::prepare`].
    fn attachment(&self, node: &NodeContext<'_>) -> Result<Attachment>;

    /// Writes the node's files into its folder and returns the program to start.
    ///
    /// # Errors
    /// If the implementation lacks a feature that the scenario uses, or a file cannot be written.
    fn prepare(&self, node: &NodeContext<'_>) -> Result<Program>;

    /// Whether the node accepts applications.
    fn ready(&self, node: &NodeContext<'_>) -> bool;

    /// Program that receives a traffic flow at its destination, or `None` if the node answers by itself. Files go to
    /// the folder `into`, under their name at the sender.
    ///
    /// # Errors
    /// As [`Driver::prepare`].
    fn receiver(&self, node: &NodeContext<'_>, traffic: usize, into: Option<&Path>) -> Result<Option<Program>>;

    /// Program that sends a traffic flow and ends when everything was accepted. `content` is the file to send, or the
    /// bytes of all bundles; the file beside it with the extension `sizes`, if any, holds the size of each bundle, one
    /// per line. `echo` is the service at which the destination answers pings.
    ///
    /// # Errors
    /// Traffic that the implementation's applications cannot make.
    fn sender(
        &self,
        node: &NodeContext<'_>,
        traffic: usize,
        content: Option<&Path>,
        echo: Option<u32>,
    ) -> Result<Program>;

    /// Program that adds a link to the running node, or removes one, and ends when this is done.
    ///
    /// # Errors
    /// If this implementation cannot change its links, or a file cannot be written.
    fn change_link(&self, node: &NodeContext<'_>, change: LinkChange) -> Result<Program>;

    /// Saves the files of a node after its process has ended, and adds the failure to the node's events. `killed_ns` is
    /// the monotonic time, in ns, at which the testbed killed it.
    ///
    /// # Errors
    /// If a file cannot be moved.
    fn fell(&mut self, node: &NodeContext<'_>, killed_ns: u64) -> Result<()>;

    /// Program that restarts a [killed node](Driver::fell) with the data on its disk.
    ///
    /// # Errors
    /// If restarting is not supported, or a file cannot be written.
    fn again(&mut self, node: &NodeContext<'_>) -> Result<Program>;

    /// Counts bundles so far; repeated deliveries after a restart count once. Called several times a second, so it must
    /// be cheap.
    fn tally(&mut self, node: &NodeContext<'_>) -> BundleTally;

    /// Folder of the node's store, for samples of its size; `None` if the node's events report the size.
    fn store(&self, _node: &NodeContext<'_>) -> Option<PathBuf> {
        None
    }

    /// Sentences about how the running node deviates from the scenario, such as a bound that it reduced.
    fn deviations(&self, node: &NodeContext<'_>) -> Vec<String>;

    /// Calls `each` with every event of the node in order, after the node has ended. Times are on the machine's
    /// monotonic clock.
    ///
    /// # Errors
    /// If the event record cannot be read.
    fn events(&mut self, node: &NodeContext<'_>, each: &mut dyn FnMut(EventRow) -> Result<()>) -> Result<()>;
}
