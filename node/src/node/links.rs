//! Links of a running node: from its configuration file, or added, changed and removed by the API and by reloading.

use super::Node;
use crate::clock;
use crate::config::{LinkSettings, link_keys};
use farlink_base::layer::Medium;
use farlink_base::{ConfigError, LayerId, LinkId, NodeId};
use farlink_stack::{LINKS_MAX, LayerConfig, LinkConfig, LinkParams};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Configuration of a link, with the driver's part.
pub type GivenLink = (LinkConfig, LinkSettings);

/// Links by number. A number is not reused soon, so that events of the former link have been handled by then.
#[derive(Debug, Default)]
pub(crate) struct Links {
    given: BTreeMap<LinkId, GivenLink>,
    /// Links made for discovered neighbours.
    found: BTreeSet<LinkId>,
    by_name: HashMap<String, LinkId>,
    next: u32,
}
impl Links {
    /// Numbers links in the order of the configuration.
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
    /// Unused number, if possible not a recent one; numbers stay below about twice the number of links.
    fn vacant(&self) -> LinkId {
        let end = (self.given.len() as u32 * 2 + 64).min(LINKS_MAX);
        let mut numbers = (self.next.min(end)..end).chain(0..LINKS_MAX).map(LinkId);
        numbers.find(|id| !self.given.contains_key(id)).unwrap_or(LinkId(LINKS_MAX))
    }
    /// Number of the link with this name.
    pub fn named(&self, name: &str) -> Option<LinkId> {
        self.by_name.get(name).copied()
    }
    /// Node that a link leads to.
    pub fn peer_of(&self, link: LinkId) -> Option<NodeId> {
        self.given.get(&link).map(|(link, _)| link.peer.node())
    }
    /// Layer of the link with this name.
    pub fn layer_of(&self, name: &str) -> Option<usize> {
        self.given.get(&self.named(name)?).map(|(link, _)| link.layer)
    }
    /// Returns whether a configured link of the layer leads to this address.
    pub fn leads_to(&self, layer: usize, address: &str) -> bool {
        let leads = |(id, (link, settings)): (&LinkId, &GivenLink)| {
            link.layer == layer && settings.address.as_deref() == Some(address) && !self.found.contains(id)
        };
        self.given.iter().any(leads)
    }
}

impl Node {
    /// Sets the addresses of all links, and the names that applications may list.
    pub(super) fn place_links(&mut self) {
        let links: Vec<_> = self.known.given.iter().map(|(id, (l, s))| (*id, l.layer, s.address.clone())).collect();
        for (id, (link, settings)) in &self.known.given {
            let key = self.config.key_of(link.layer, settings);
            self.io.streams.faults.name(*id, &link.name, &link.peer.to_string(), key);
        }
        for (id, layer, address) in links {
            self.set_link_address(id, layer, address);
        }
        self.name_links();
    }
    /// Updates the names of links that applications may list.
    pub(super) fn name_links(&mut self) {
        let links = self.known.given.values();
        self.io.apps.set_links(links.map(|(link, _)| (link.name.clone(), link.peer.to_string())).collect());
    }
    /// Sets the address of a link; `None` forgets the link. Open connections stay.
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
    /// Returns whether an error of this link is over once it is up: an up link of a layer without sessions may still
    /// reach nobody.
    pub(crate) fn is_proven_when_up(&self, name: &str) -> bool {
        let layer = self.known.layer_of(name).and_then(|layer| self.config.layers.get(layer));
        layer.is_none_or(|layer| layer.medium == Medium::Streams)
    }
    /// Names of the links that had an error, with the last one and its time.
    pub(crate) fn last_errors(&self) -> impl Iterator<Item = (&str, farlink_base::Instant, &str)> {
        self.io.streams.faults.all()
    }
    /// Returns whether a link has this name.
    pub(crate) fn has_link(&self, name: &str) -> bool {
        self.known.named(name).is_some()
    }
    /// Adds links, and replaces those of the same name that differ.
    ///
    /// # Errors
    /// The first key that cannot be used, with a hint; links from a parsed configuration never fail.
    pub fn add_links(&mut self, links: Vec<GivenLink>) -> Result<(), ConfigError> {
        let result = links.into_iter().try_for_each(|link| self.set_link(link));
        self.name_links();
        self.drain();
        result
    }
    fn set_link(&mut self, (mut link, settings): GivenLink) -> Result<(), ConfigError> {
        // Links of a file already have their keys.
        let layer = self.config.layers.get(link.layer);
        link_keys::fill(&mut link, &settings, layer)?;
        // A changed link loses its sessions, so an equal one must stay untouched.
        if let Some(old) = self.known.named(&link.name) {
            let fresh = (link.clone(), settings.clone());
            let running = self.known.given.get(&old);
            if running == Some(&fresh) {
                return Ok(());
            }
            if running.is_some_and(|running| only_keys_differ(running, &fresh))
                // With shards, the key would have to change in all at once.
                && self.io.mesh.is_none()
                && self.stack.rekey_link(old, &link.params)
            {
                tracing::info!("link {} has other keys", link.name);
                let key = self.config.key_of(link.layer, &settings);
                self.io.streams.faults.name(old, &link.name, &link.peer.to_string(), key);
                self.known.given.insert(old, fresh);
                return Ok(());
            }
            if running.is_some_and(|running| only_terms_differ(running, &fresh)) {
                return self.set_link_terms(old, fresh);
            }
            self.end_link(old);
        }
        self.end_found_links_to(link.peer.node());
        self.make_link((link, settings), false).map(drop)
    }
    /// Changes in all shards the settings of a link that do not depend on its layer; its sessions go on.
    fn set_link_terms(&mut self, id: LinkId, link: GivenLink) -> Result<(), ConfigError> {
        let layer = link.0.layer;
        let set = move |node: &mut Node| {
            node.stack.set_link_terms(id, link.0.terms);
            tracing::info!("link {} has other settings", link.0.name);
            node.known.given.insert(id, link.clone());
        };
        let own = set.clone();
        self.owner(layer, move |node| {
            own(node);
            Ok(())
        })?;
        self.all_but_owner(layer, set);
        Ok(())
    }
    /// Adds a link to a discovered neighbour.
    pub(super) fn set_found_link(&mut self, link: GivenLink) -> Result<LinkId, ConfigError> {
        self.make_link(link, true)
    }
    /// Adds a link under one number to all shards. If the owner of its layer refuses it, no shard gets it.
    fn make_link(&mut self, given: GivenLink, found: bool) -> Result<LinkId, ConfigError> {
        let id = self.known.vacant();
        let layer = given.0.layer;
        let place = move |node: &mut Node| node.place_link(id, given.clone(), found);
        // The owner of the layer decides whether the link is valid.
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
        let key = self.config.key_of(link.layer, &settings);
        self.io.streams.faults.name(id, &link.name, &link.peer.to_string(), key);
        self.known.insert(id, (link, settings));
        if found {
            self.known.found.insert(id);
        }
        Ok(())
    }
    /// Removes a link; false if none has this name.
    pub fn remove_link(&mut self, name: &str) -> bool {
        let Some(id) = self.known.named(name) else { return false };
        self.end_link(id);
        self.name_links();
        self.drain();
        true
    }
    /// Ends a link in all shards.
    pub(super) fn end_link(&mut self, id: LinkId) {
        // The owner of the layer goes first, so that its reports on bundles in flight arrive before the link ends
        // elsewhere.
        let Some(layer) = self.known.given.get(&id).map(|(link, _)| link.layer) else { return };
        let ended = self.owner(layer, move |node| {
            node.take_link(id);
            Ok(())
        });
        // A shard that has ended has nothing more to report.
        drop(ended);
        self.flush_shards();
        self.take_shard_messages();
        self.all_but_owner(layer, move |node| node.take_link(id));
    }
    fn take_link(&mut self, id: LinkId) {
        let Some((link, _)) = self.known.remove(id) else { return };
        let now = clock::now();
        self.io.now = now;
        self.stack.remove_link(now, id, &mut self.io);
        self.set_link_address(id, link.layer, None);
        tracing::info!("link {} removed", link.name);
        self.io.streams.faults.forget(id);
    }
    /// Replaces the links by those of a reloaded configuration file.
    ///
    /// # Errors
    /// If a link needs a layer that did not exist at start; nothing is changed then.
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
        // Discovered links are in no file and stay.
        let gone =
            |id: &LinkId, (link, _): &GivenLink| !kept.contains(link.name.as_str()) && !self.known.found.contains(id);
        let gone: Vec<LinkId> =
            self.known.given.iter().filter(|(id, link)| gone(id, link)).map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|id| self.end_link(id));
        self.add_links(fresh).map_err(|why| why.to_string())
    }
}

/// Returns whether two links differ only in settings that do not depend on their layer.
fn only_terms_differ(old: &GivenLink, new: &GivenLink) -> bool {
    let mut old = old.clone();
    old.0.terms = new.0.terms;
    old == *new
}

/// Returns whether two links differ only in the generations of their key.
fn only_keys_differ(old: &GivenLink, new: &GivenLink) -> bool {
    let mut old = old.clone();
    if let (LinkParams::Ltp(old), LinkParams::Ltp(new)) = (&mut old.0.params, &new.0.params) {
        old.authentication = new.authentication.clone();
    }
    old == *new
}
