//! Shards of one node: opened, informed and ended together.

use super::{Handle, Node};
use crate::config::NodeConfig;
use crate::log::LogLevel;
use crate::shards::part;
use anyhow::Context;
use farlink_base::ConfigError;
use farlink_bpa::app::AdminInput;
use farlink_os::poll::Waker;
use farlink_stack::{HeadBudget, Input};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Thread of a shard, with its result.
pub(super) type Running = JoinHandle<anyhow::Result<()>>;

/// Wakes shard 0 when a shard ends, also by a panic.
struct Ends(Waker);
impl Drop for Ends {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// Waits for the end of a shard.
pub(super) fn end(running: Running) -> anyhow::Result<()> {
    running.join().map_err(|_| anyhow::anyhow!("a shard has failed"))?
}

impl Node {
    /// Opens all shards of a node.
    pub(super) fn of_shards(mut config: NodeConfig, log: &LogLevel, count: u8) -> anyhow::Result<Node> {
        // The plan's epoch is set before the configuration is divided, or each shard would choose its own.
        super::place_plan(&mut config);
        let heads = Arc::new(HeadBudget::new(crate::budget::heads(&config)));
        let part = |own| {
            let mut part = part(&config, own, count);
            if let Some(shards) = &mut part.stack.shards {
                shards.heads = heads.clone();
            }
            part
        };
        let main = Node::open(part(0), log.clone(), None).with_context(|| left_over(&config, count))?;
        let mut nodes = vec![main];
        // The others share the first one's events thread, so that one file has the events of all.
        for own in 1..count {
            let node = Node::open(part(own), log.clone(), Some(&nodes[0].io.events))?;
            nodes.push(node);
        }
        // All channels exist before the first shard joins, as each shard needs the channels of all.
        let door = |node: &Node| node.io.mesh.as_ref().map(|mesh| mesh.door(node.io.poller.waker()));
        let doors: Vec<_> = nodes.iter().filter_map(door).collect();
        for node in &mut nodes {
            if let Some(mesh) = &mut node.io.mesh {
                mesh.join(&doors);
            }
        }
        let mut main = nodes.remove(0);
        if let Some(mesh) = &mut main.io.mesh {
            mesh.others = nodes.iter().map(Node::handle).collect();
        }
        nodes.iter().for_each(|node| main.addresses.extend(&node.addresses));
        main.siblings = nodes;
        for own in config.stack.node.shards.max(1)..count {
            tracing::info!("the store of shard {own}, which is no more, is emptied");
        }
        Ok(main)
    }
    /// Starts the threads of the other shards.
    pub(super) fn start_others(&mut self) -> anyhow::Result<Vec<Running>> {
        let waker = self.io.poller.waker();
        let start = |mut node: Node| {
            let name = format!("shard {}", node.io.mesh.as_ref().map_or(0, |mesh| mesh.own()));
            let ends = Ends(waker.clone());
            let run = move || {
                // Dropped at any end of this thread, also after a panic.
                let _ends = ends;
                node.run_alone()?;
                node.take_away();
                Ok(())
            };
            std::thread::Builder::new().name(name).spawn(run).context("a thread for a shard")
        };
        std::mem::take(&mut self.siblings).into_iter().map(start).collect()
    }
    /// Closes the shard's store, and removes its folder if this is a former shard without bundles.
    fn take_away(self) {
        let own = self.io.mesh.as_ref().map_or(0, |mesh| mesh.own());
        let empty = self.stack.is_open() && self.stack.held() == 0;
        let dir = self.config.store_dir.clone().filter(|_| own >= self.config.stack.node.shards.max(1) && empty);
        // The store must be closed before its folder is removed.
        drop(self);
        if let Some(dir) = dir {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
    /// Handles of all other shards; only shard 0 has them.
    pub fn others(&self) -> Vec<Handle> {
        self.io.mesh.as_ref().map(|mesh| mesh.others.clone()).unwrap_or_default()
    }
    /// Runs a task in each other shard; only for shard 0.
    pub(super) fn each_other(&self, what: impl Fn(&mut Node) + Clone + Send + 'static) {
        for other in self.io.mesh.iter().flat_map(|mesh| &mesh.others) {
            let what = what.clone();
            other.run(move |node| what(node));
        }
    }
    /// Runs a task in the shard that owns a layer, and waits for its result; fails if that shard has ended.
    pub(super) fn owner<T: Send + 'static>(
        &mut self,
        layer: usize,
        what: impl FnOnce(&mut Node) -> Result<T, ConfigError> + Send + 'static,
    ) -> Result<T, ConfigError> {
        let owner = self.config.layers.get(layer).map_or(0, |layer| usize::from(layer.shard));
        let door = self.io.mesh.as_ref().filter(|_| self.is_foreign(layer)).and_then(|mesh| mesh.others.get(owner - 1));
        let Some(door) = door else { return what(self) };
        let (reply, answer) = std::sync::mpsc::channel();
        door.run(move |node| {
            let done = what(node);
            // Its messages leave before the answer, so that the asking shard can handle them next.
            node.flush_shards();
            drop(reply.send(done));
        });
        answer.recv().unwrap_or_else(|_| {
            let (path, expected) = ("link".into(), "a node whose shards all run".into());
            Err(ConfigError { path, expected, hint: "the node is about to end".into() })
        })
    }
    /// Sends pending messages to other shards.
    pub(super) fn flush_shards(&mut self) {
        if let Some(mesh) = &mut self.io.mesh {
            mesh.flush();
        }
    }
    /// Handles pending messages of other shards.
    pub(super) fn take_shard_messages(&mut self) {
        if let Some(mesh) = &mut self.io.mesh {
            mesh.take(&mut self.io.inputs);
            self.drain();
        }
    }
    /// Runs a task in all shards except the owner of a layer, without waiting for the others.
    pub(super) fn all_but_owner(&mut self, layer: usize, what: impl Fn(&mut Node) + Clone + Send + 'static) {
        let owner = self.config.layers.get(layer).map_or(0, |layer| layer.shard);
        if self.is_foreign(layer) {
            what(self);
        }
        self.each_other(move |node| {
            if node.io.mesh.as_ref().is_some_and(|mesh| mesh.own() != owner) {
                what(node);
            }
        });
    }
    /// Passes an operator's input for the whole node to all other shards.
    pub(super) fn forward_to_shards(&self, input: &AdminInput) {
        let all = match input {
            AdminInput::SetPlan(_)
            | AdminInput::AddRoute { .. }
            | AdminInput::RemoveRoute { .. }
            | AdminInput::SetLink { .. }
            | AdminInput::ConfirmClock => input.clone(),
            AdminInput::Cancel { .. } | AdminInput::LastRun { .. } | AdminInput::Shutdown => return,
        };
        self.each_other(move |node| node.input(Input::Admin(all.clone())));
    }
    /// Part of the node's configuration for this shard.
    pub(super) fn part_of(&self, whole: NodeConfig) -> NodeConfig {
        let shards = self.config.stack.shards.as_ref();
        shards.map_or_else(|| whole.clone(), |shards| part(&whole, shards.own, shards.count))
    }
    /// Returns whether this shard owns the layer of a link.
    pub fn owns_link(&self, name: &str) -> bool {
        self.known.layer_of(name).is_some_and(|layer| !self.is_foreign(layer))
    }
    /// Returns whether a layer belongs to another shard.
    pub(super) fn is_foreign(&self, layer: usize) -> bool {
        self.io.mesh.as_ref().is_some_and(|mesh| mesh.is_foreign(layer))
    }
}

/// Context of an error in opening several shards; explains folders left over from more shards than configured.
fn left_over(config: &NodeConfig, count: u8) -> String {
    match config.stack.node.shards < count {
        true => {
            "the store has folders of shards: `shards` was above 1, and what is in them leaves by `sabr` or `static`"
                .into()
        }
        false => "shards".into(),
    }
}
