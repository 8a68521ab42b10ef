//! Names and node IDs of the file, each used once.

use crate::network::NetworkNode;
use crate::place::Trajectory;
use crate::walker::WalkerPattern;
use farlink_base::NodeId;
use farlink_config::{Input, Reader, nearest};
use farlink_routing::contact_plan::text::parse_node;
use std::collections::{BTreeMap, BTreeSet};

/// Most nodes of a file.
pub const NODES_MAX: usize = 100_000;
/// Words of `between` that stand for all nodes of a kind.
pub const KINDS: [&str; 2] = ["stations", "satellites"];

/// Nodes that a name in `between` stands for.
pub struct NodeGroup {
    /// Indices in the list of nodes.
    pub nodes: Vec<u32>,
    /// Walker pattern of the nodes, if they form one constellation.
    pub walker: Option<WalkerPattern>,
}

/// Nodes read so far, and the groups by name.
#[derive(Default)]
pub struct NameTable {
    pub nodes: Vec<NetworkNode>,
    groups: BTreeMap<String, NodeGroup>,
    ids: BTreeSet<NodeId>,
}

impl NameTable {
    /// Reads the name of a table; fails if it is taken or reserved.
    pub fn name(&self, reader: &Reader<'_>) -> Option<String> {
        let name = reader.name("name")?;
        let why = if KINDS.contains(&name.as_str()) {
            "means all nodes of a kind"
        } else if parse_node(&name).is_some() {
            "is a number, which the plan would take for a node ID"
        } else if self.groups.contains_key(&name) {
            "is the name of another"
        } else {
            return Some(name);
        };
        reader.fail("name", format!("`{name}` {why}"), "give it another name");
        None
    }

    /// Reads a key as a node ID.
    pub fn id(reader: &Reader<'_>, key: &str) -> Option<NodeId> {
        reader.custom(key, |input: Input<'_, '_>| {
            let number = input.integer().map(|number| number.to_string());
            let text = number.or_else(|_| input.text().map(str::to_string))?;
            let node = parse_node(&text).filter(|node| !node.is_named() && node.0 > 0);
            node.ok_or_else(|| format!("`{text}` is not the ID of a node"))
        })
    }

    /// Adds a node; reports errors at `key`.
    pub fn add(&mut self, reader: &Reader<'_>, key: &str, node: NetworkNode) -> Option<u32> {
        let hint = "give each node its own";
        if self.nodes.len() >= NODES_MAX {
            reader.fail(key, format!("more than {NODES_MAX} nodes"), "leave some out");
            return None;
        }
        if node.id.is_named() {
            let why = format!("{} is too large for the ID of a node", node.id.0);
            reader.fail(key, why, "begin with a smaller number");
            return None;
        }
        if !self.ids.insert(node.id) {
            reader.fail(key, format!("ipn:{}.0 is the ID of another node", node.id.0), hint);
            return None;
        }
        if self.groups.contains_key(&node.name) {
            reader.fail(key, format!("`{}` is the name of another node", node.name), hint);
            return None;
        }
        let index = u32::try_from(self.nodes.len()).ok()?;
        self.group(node.name.clone(), vec![index], None);
        self.nodes.push(node);
        Some(index)
    }

    /// Names a group of nodes.
    pub fn group(&mut self, name: String, nodes: Vec<u32>, walker: Option<WalkerPattern>) {
        self.groups.insert(name, NodeGroup { nodes, walker });
    }

    pub fn has(&self, name: &str) -> bool {
        self.groups.contains_key(name) || KINDS.contains(&name)
    }

    /// The group of this name.
    ///
    /// # Errors
    /// A message with the nearest known name.
    pub fn find(&self, name: &str) -> Result<NodeGroup, String> {
        let all = |keep: fn(&Trajectory) -> bool| {
            let numbered = self.nodes.iter().zip(0u32..).filter(|(node, _)| keep(&node.place));
            NodeGroup { nodes: numbered.map(|(_, index)| index).collect(), walker: None }
        };
        match name {
            "stations" => return Ok(all(Trajectory::is_ground)),
            "satellites" => return Ok(all(|place| !place.is_ground())),
            _ => {}
        }
        match self.groups.get(name) {
            Some(group) => Ok(NodeGroup { nodes: group.nodes.clone(), walker: group.walker }),
            None => {
                let known = self.groups.keys().map(String::as_str).chain(KINDS);
                let near = nearest(name, known).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                Err(format!("`{name}` is no node and no constellation{near}"))
            }
        }
    }
}

/// Turns a catalogue name into a plan name: runs of characters other than letters, digits, `-`, `_` and `.` become one
/// `-`.
pub fn plain(name: &str) -> String {
    let mut plain = String::new();
    for c in name.chars() {
        if c.is_alphanumeric() || matches!(c, '_' | '.') {
            plain.push(c);
        } else if !plain.ends_with('-') && !plain.is_empty() {
            plain.push('-');
        }
    }
    let plain: String = plain.trim_end_matches('-').chars().take(48).collect();
    if plain.is_empty() || parse_node(&plain).is_some() { format!("sat-{plain}") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogue_names_become_plan_names() {
        for (name, wanted) in [
            ("ISS (ZARYA)", "ISS-ZARYA"),
            ("STARLINK-1007", "STARLINK-1007"),
            ("25544", "sat-25544"),
            ("  ", "sat-"),
            ("a # b = c", "a-b-c"),
        ] {
            assert_eq!(plain(name), wanted);
        }
    }
}
