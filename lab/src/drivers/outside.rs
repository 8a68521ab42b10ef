//! Driver of a node on a machine outside the testbed: nothing is started, ended or recorded there.

use crate::attached::Attachment;
use crate::driver::{BundleTally, Driver, NodeContext, Program};
use anyhow::{Result, bail};
use farlink_report::EventRow;
use farlink_scenario::LinkChange;
use std::path::Path;

/// Node on a machine outside the testbed.
#[derive(Debug)]
pub struct Outside {
    /// Name of the implementation in the scenario, for records only.
    name: String,
    /// Service at which the node answers pings, if the implementation is known to have one.
    echo: Option<u32>,
}

impl Outside {
    /// Driver of a node whose implementation has this name.
    pub fn new(name: &str, echo: Option<u32>) -> Outside {
        Outside { name: name.to_string(), echo }
    }

    fn refuse<T>(&self, node: &NodeContext<'_>, what: &str) -> Result<T> {
        bail!("node `{}` is outside the testbed, which {what} there", node.scenario.nodes[node.index].name)
    }
}

impl Driver for Outside {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_started(&self) -> bool {
        false
    }

    fn attachment(&self, _: &NodeContext<'_>) -> Result<Attachment> {
        Ok(Attachment { via: String::new(), at: String::new(), echo: self.echo })
    }

    fn prepare(&self, node: &NodeContext<'_>) -> Result<Program> {
        self.refuse(node, "starts nothing")
    }

    /// The testbed has asked the machine for its hardware address, so it is there; what runs on it is not known.
    fn ready(&self, _: &NodeContext<'_>) -> bool {
        true
    }

    fn receiver(&self, _: &NodeContext<'_>, _: usize, _: Option<&Path>) -> Result<Option<Program>> {
        Ok(None)
    }

    fn sender(&self, node: &NodeContext<'_>, _: usize, _: Option<&Path>, _: Option<u32>) -> Result<Program> {
        self.refuse(node, "starts nothing")
    }

    fn change_link(&self, node: &NodeContext<'_>, _: LinkChange) -> Result<Program> {
        self.refuse(node, "changes nothing")
    }

    fn fell(&mut self, node: &NodeContext<'_>, _: u64) -> Result<()> {
        self.refuse(node, "kills nothing")
    }

    fn again(&mut self, node: &NodeContext<'_>) -> Result<Program> {
        self.refuse(node, "starts nothing")
    }

    fn tally(&mut self, _: &NodeContext<'_>) -> BundleTally {
        BundleTally::default()
    }

    fn deviations(&self, _: &NodeContext<'_>) -> Vec<String> {
        Vec::new()
    }

    fn events(&mut self, _: &NodeContext<'_>, _: &mut dyn FnMut(EventRow) -> Result<()>) -> Result<()> {
        Ok(())
    }
}
