//! Links of a running node: those of its configuration file, added, changed and removed by the API and
//! when the file is read again.

use super::Node;
use crate::clock;
use crate::config::{LinkSettings, link_keys};
use farlink_base::layer::Medium;
use farlink_base::{ConfigError, LayerId, LinkId, NodeId};
use farlink_stack::{LINKS_MAX, LayerConfig, LinkConfig, LinkParams};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A link as it was given, and where it leads.
pub type GivenLink = (LinkConfig, LinkSettings);

/// The links a node was given, by number. A number is not given anew at once: what was said about the link
/// that had it has been heard by then.
#[derive(Debug, Default)]
pub(crate) struct Links {
    given: BTreeMap<LinkId, GivenLink>,
    /// Of those, the ones made for neighbours found by announcements.
    found: BTreeSet<LinkId>,
    by_name: HashMap<String, LinkId>,
    next: u32,
}
impl Links {
    /// Those of the configuration, in its order.
    pub fn new(links: Vec<GivenLink>) -> Links {
        let mut all = Links::default();
        for (number, link) in links.into_iter().enumerate() {
            all.insert(LinkId(number as u32), link);
        }
        all
    }
    fn insert(&mut self, id: LinkId, link: GivenLink) {
        self.next = id.0 + 1;
        self.by_name.insert(link.0.name.clone(), id);
        self.given.insert(id, link);
    }
    fn remove(&mut self, id: LinkId) -> Option<GivenLink> {
        let link = self.given.remove(&id)?;
        self.by_name.remove(&link.0.name);
        self.found.remove(&id);
        Some(link)
    }
    /// A number no link has; as few as twice the links are in use.
    fn vacant(&self) -> LinkId {
        let end = (self.given.len() as u32 * 2 + 64).min(LINKS_MAX);
        let mut numbers = (self.next.min(end)..end).chain(0..LINKS_MAX).map(LinkId);
        numbers.find(|id| !self.given.contains_key(id)).unwrap_or(LinkId(LINKS_MAX))
    }
    /// The link of this name.
    pub fn named(&self, name: &str) -> Option<LinkId> {
        self.by_name.get(name).copied()
    }
    /// The node a link leads to.
    pub fn peer_of(&self, link: LinkId) -> Option<NodeId> {
        self.given.get(&link).map(|(link, _)| link.peer.node())
    }
    /// The layer of the link of this name.
    pub fn layer_of(&self, name: &str) -> Option<usize> {
        self.given.get(&self.named(name)?).map(|(link, _)| link.layer)
    }
    /// Whether a link of a layer that was configured leads to this address.
    pub fn leads_to(&self, layer: usize, address: &str) -> bool {
        let leads = |(id, (link, settings)): (&LinkId, &GivenLink)| {
            link.layer == layer && settings.address.as_deref() == Some(address) && !self.found.contains(id)
        };
        self.given.iter().any(leads)
    }
}

impl Node {
    /// Tells the sockets where all links lead, and applications which there are.
    pub(super) fn place_links(&mut self) {
        let links: Vec<_> = self.known.given.iter().map(|(id, (l, s))| (*id, l.layer, s.address.clone())).collect();
        for (id, layer, address) in links {
            self.set_link_address(id, layer, address);
        }
        self.name_links();
    }
    /// Tells applications which links there are.
    pub(super) fn name_links(&mut self) {
        let links = self.known.given.values();
        self.io.apps.set_links(links.map(|(link, _)| (link.name.clone(), link.peer.to_string())).collect());
    }
    /// Where a link of a layer leads from now on; `None` forgets the link. A connection that stands is not
    /// moved.
    fn set_link_address(&mut self, link: LinkId, layer: usize, address: Option<String>) {
        if let Some(mesh) = &mut self.io.mesh {
            mesh.place_link(link, layer);
        }
        if self.is_foreign(layer) {
            return;
        }
        match self.config.layers.get(layer).map(|layer| layer.medium) {
            Some(Medium::Streams) => {
                let io = &mut self.io;
                io.streams.set_address(LayerId(layer as u16), link, address);
                io.streams.locate(link, &self.names, &mut io.inputs);
            }
            Some(Medium::Datagrams) => {
                let layer = LayerId(layer as u16);
                self.io.datagrams.set_address((layer, link), address, clock::now(), &self.links);
            }
            None => {}
        }
    }
    /// Whether the node was given a link of this name.
    pub(crate) fn has_link(&self, name: &str) -> bool {
        self.known.named(name).is_some()
    }
    /// Adds links, or changes those of the same name: each of these ends and begins anew, unless nothing
    /// about it is new.
    ///
    /// # Errors
    /// Names the key that cannot be used and what to write instead; what a configuration's reader took can.
    pub fn add_links(&mut self, links: Vec<GivenLink>) -> Result<(), ConfigError> {
        let result = links.into_iter().try_for_each(|link| self.set_link(link));
        self.name_links();
        self.drain();
        result
    }
    fn set_link(&mut self, (mut link, settings): GivenLink) -> Result<(), ConfigError> {
        // Those of a file have it already.
        let layer = self.config.layers.get(link.layer);
        link_keys::fill(&mut link, &settings, layer)?;
        if let Some(old) = self.known.named(&link.name) {
            let fresh = (link.clone(), settings.clone());
            let running = self.known.given.get(&old);
            if running == Some(&fresh) {
                return Ok(());
            }
            if running.is_some_and(|running| only_keys_differ(running, &fresh))
                // All shards have a link under one number.
                && self.io.mesh.is_none()
                && self.stack.rekey_link(old, &link.params)
            {
                tracing::info!("link {} has other keys", link.name);
                self.known.given.insert(old, fresh);
                return Ok(());
            }
            self.end_link(old);
        }
        self.end_found_links_to(link.peer.node());
        self.make_link((link, settings), false).map(drop)
    }
    /// A link to a neighbour found by announcements.
    pub(super) fn set_found_link(&mut self, link: GivenLink) -> Result<LinkId, ConfigError> {
        self.make_link(link, true)
    }
    /// All shards have a link under one number, or none has it.
    fn make_link(&mut self, given: GivenLink, found: bool) -> Result<LinkId, ConfigError> {
        let id = self.known.vacant();
        let layer = given.0.layer;
        let place = move |node: &mut Node| node.place_link(id, given.clone(), found);
        // Whoever owns its layer tells whether it can be.
        self.owner(layer, place.clone())?;
        self.all_but_owner(layer, move |node| {
            if let Err(why) = place(node) {
                tracing::error!("a shard has no link that another has: {why}");
            }
        });
        Ok(id)
    }
    fn place_link(&mut self, id: LinkId, (link, settings): GivenLink, found: bool) -> Result<(), ConfigError> {
        self.set_link_address(id, link.layer, settings.address.clone());
        let now = clock::now();
        self.io.now = now;
        self.io.events.name_link(id, link.name.clone());
        let made = match found {
            true => self.stack.add_found_link(now, id, &link, &mut self.io),
            false => self.stack.add_link(now, id, &link, &mut self.io),
        };
        if let Err(why) = made {
            self.set_link_address(id, link.layer, None);
            return Err(why);
        }
        tracing::info!("link {} to {} added", link.name, link.peer);
        self.known.insert(id, (link, settings));
        if found {
            self.known.found.insert(id);
        }
        Ok(())
    }
    /// Removes a link; false when there is none of this name.
    pub fn remove_link(&mut self, name: &str) -> bool {
        let Some(id) = self.known.named(name) else { return false };
        self.end_link(id);
        self.name_links();
        self.drain();
        true
    }
    /// Whoever owns its layer goes first: what it knows of bundles on their way is heard before the link ends elsewhere.
    pub(super) fn end_link(&mut self, id: LinkId) {
        let Some(layer) = self.known.given.get(&id).map(|(link, _)| link.layer) else { return };
        let ended = self.owner(layer, move |node| {
            node.take_link(id);
            Ok(())
        });
        // A shard that is no more has said all it had to say.
        drop(ended);
        self.tell_shards();
        self.hear_shards();
        self.all_but_owner(layer, move |node| node.take_link(id));
    }
    fn take_link(&mut self, id: LinkId) {
        let Some((link, _)) = self.known.remove(id) else { return };
        let now = clock::now();
        self.io.now = now;
        self.stack.remove_link(now, id, &mut self.io);
        self.set_link_address(id, link.layer, None);
        tracing::info!("link {} removed", link.name);
    }
    /// Makes the links those of a configuration file that was read anew.
    ///
    /// # Errors
    /// When a link needs a layer the node did not start with; nothing is changed then.
    pub(super) fn set_links(&mut self, layers: &[LayerConfig], links: Vec<GivenLink>) -> Result<(), String> {
        let mut fresh = Vec::new();
        for (mut link, settings) in links {
            let name = layers.get(link.layer).map_or("", |layer| &layer.name);
            let running = self.config.stack.layers.iter().position(|layer| layer.name == name);
            let same_kind = |place: &usize| {
                let kinds = (layers.get(link.layer), self.config.stack.layers.get(*place));
                matches!(kinds, (Some(a), Some(b)) if std::mem::discriminant(&a.kind) == std::mem::discriminant(&b.kind))
            };
            link.layer = running.filter(same_kind).ok_or_else(|| {
                format!(
                    "link.{}.layer: the node did not start with layer `{name}`\nhint: layers are read at start only: \
                     start the node anew",
                    link.name
                )
            })?;
            fresh.push((link, settings));
        }
        let kept: HashSet<&str> = fresh.iter().map(|(link, _)| link.name.as_str()).collect();
        // Those found by announcements are in no file.
        let gone =
            |id: &LinkId, (link, _): &GivenLink| !kept.contains(link.name.as_str()) && !self.known.found.contains(id);
        let gone: Vec<LinkId> =
            self.known.given.iter().filter(|(id, link)| gone(id, link)).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|id| self.end_link(id));
        self.add_links(fresh).map_err(|why| why.to_string())
    }
}

/// Whether two links are the same but for the generations of their key.
fn only_keys_differ(old: &GivenLink, new: &GivenLink) -> bool {
    let mut old = old.clone();
    if let (LinkParams::Ltp(old), LinkParams::Ltp(new)) = (&mut old.0.params, &new.0.params) {
        old.authentication = new.authentication.clone();
    }
    old == *new
}
