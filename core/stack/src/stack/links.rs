//! Links added, changed and removed while the node runs.

use super::{LINKS_MAX, Stack};
use crate::build;
use crate::config::LinkConfig;
use crate::io::Output;
use crate::kinds::{Layer, LinkParams, has_key};
use crate::outputs::{LayerOutputs, Outputs};
use crate::shards::Across;
use crate::work::{NO_LAYER, Work, layer_of};
use alloc::string::ToString;
use core::net::IpAddr;
use farlink_base::{ConfigError, EndpointId, Instant, LayerId, LinkId, LinkTerms, Sink, layer};
use farlink_bpa::Origin;

impl Stack {
    /// Adds a link while the node runs; its medium is taken to work. The driver must know the link's address before.
    ///
    /// # Errors
    /// Names the key that cannot be used, and a value to write instead. Nothing has changed then.
    pub fn add_link(
        &mut self,
        now: Instant,
        link: LinkId,
        config: &LinkConfig,
        out: &mut dyn Sink<Output>,
    ) -> Result<(), ConfigError> {
        self.link_up(now, link, config, Origin::Configured, out)
    }
    /// Adds a link to a neighbour that was discovered by announcements: the neighbour's name is only claimed, the
    /// contact plan does not list the link, and bundles from it count as those of an unauthenticated neighbour.
    ///
    /// # Errors
    /// As [`Stack::add_link`].
    pub fn add_found_link(
        &mut self,
        now: Instant,
        link: LinkId,
        config: &LinkConfig,
        out: &mut dyn Sink<Output>,
    ) -> Result<(), ConfigError> {
        self.link_up(now, link, config, Origin::Discovered, out)
    }
    /// Adds a link to a neighbour in radio range (message-level simulation): the neighbour is forgotten with its last
    /// link, and the link takes turns, as [`MessageInput::Turn`](crate::MessageInput::Turn) describes. With
    /// `free_hellos`, hellos are not sent as bundles, but as [`MessageOutput::Hello`](crate::MessageOutput::Hello).
    ///
    /// # Errors
    /// As [`Stack::add_link`].
    pub fn add_met_link(
        &mut self,
        now: Instant,
        link: LinkId,
        config: &LinkConfig,
        free_hellos: bool,
        out: &mut dyn Sink<Output>,
    ) -> Result<(), ConfigError> {
        self.link_with(now, link, config, (Origin::Met, free_hellos), out)
    }
    fn link_up(
        &mut self,
        now: Instant,
        link: LinkId,
        config: &LinkConfig,
        origin: Origin,
        out: &mut dyn Sink<Output>,
    ) -> Result<(), ConfigError> {
        self.link_with(now, link, config, (origin, false), out)
    }
    fn link_with(
        &mut self,
        now: Instant,
        link: LinkId,
        config: &LinkConfig,
        (origin, free_hellos): (Origin, bool),
        out: &mut dyn Sink<Output>,
    ) -> Result<(), ConfigError> {
        let settings = build::link_settings(link, config, self.layers.len())?;
        has_key(config)?;
        let place = link.0 as usize;
        // Numbers are reused after removal, so a number below the end of the table may be free.
        let vacant = self.link_layer.get(place).is_none_or(|layer| *layer == NO_LAYER);
        if self.agent.has_link(&config.name) || link.0 >= LINKS_MAX || !vacant {
            let path = alloc::format!("link.{}", config.name);
            return Err(build::error(
                path,
                "a link this node does not have",
                "choose another name, or remove it before",
            ));
        }
        let id = LayerId(config.layer as u16);
        let Stack { layers, work, arrivals, outgoing, edges, link_layer, todo, .. } = self;
        link_layer.resize(link_layer.len().max(place + 1), NO_LAYER);
        let mut outputs =
            LayerOutputs { layer: id, work, out, arrivals, outgoing, edges, link_layer, todo, owner: None };
        let Some(layer) = layers.get_mut(config.layer) else { return Err(build::no_layer(&config.name)) };
        let layer = match layer {
            Layer::Shared(shared) => {
                shared.owner.add(link);
                outputs.owner = Some(&mut shared.owner);
                &mut shared.layer
            }
            layer => layer,
        };
        if layer.add_link(now, link, config.params.clone(), &mut outputs) != Some(true) {
            return Err(build::mismatch(&config.name, &alloc::format!("{}", config.layer)));
        }
        if let Layer::Remote(remote) = layer {
            // Earlier messages about the link went only to shards that had it, so the owner must repeat them.
            outputs.across(remote.owner(), Across::Known { link });
        }
        self.link_layer[place] = id;
        self.work_off(now, None, out);
        let Stack { agent, edges, work, link_layer, layers, arrivals, .. } = self;
        agent.add_link_of(now, &settings, origin, edges, &mut Outputs { work, out, link_layer, layers, arrivals });
        if free_hellos {
            agent.free_hellos(link);
        }
        self.wake_agent(now, out);
        Ok(())
    }
    /// Removes a link: its sessions end in good order, and bundles that it was sending or had queued take another
    /// way or wait. Its number may be used again.
    pub fn remove_link(&mut self, now: Instant, link: LinkId, out: &mut dyn Sink<Output>) {
        let layer = layer_of(&self.link_layer, link);
        if link.is_dynamic() || layer == NO_LAYER {
            return;
        }
        // The agent gives the link no more bundles from here on, so that its waiting bundles fail only once.
        self.work.push_back(Work::Agent(farlink_bpa::Input::Carrier { link, up: false }));
        self.work.push_back(Work::Layer(layer, layer::Input::RemoveLink { link }));
        // Bundles that the layer had return to the agent before the agent forgets the link.
        self.work_off(now, None, out);
        let Stack { agent, edges, work, link_layer, layers, arrivals, .. } = self;
        agent.remove_link(now, link, edges, &mut Outputs { work, out, link_layer, layers, arrivals });
        self.wake_agent(now, out);
        // This entry is cleared last, because the steps above still look up the link's layer in it.
        self.link_layer[link.0 as usize] = NO_LAYER;
    }
    /// Lets the agent act on changed links.
    fn wake_agent(&mut self, now: Instant, out: &mut dyn Sink<Output>) {
        self.agent_at = self.agent.next_timeout().unwrap_or(Instant::MAX);
        let wake = self.agent.is_due(now).then_some(Work::Agent(farlink_bpa::Input::Wake));
        self.work_off(now, wake, out);
    }
    /// Whether a session of a layer exists with a peer of this name and address.
    pub fn serves(&self, layer: LayerId, node: &EndpointId, at: IpAddr) -> bool {
        self.layers.get(usize::from(layer.0)).is_some_and(|layer| layer.serves(&node.to_string(), at))
    }
    /// State of a link now, as in [`farlink_bpa::app::LinkStatus::state`]; `None`: no such link.
    pub fn link_state(&self, now: Instant, link: LinkId) -> Option<&'static str> {
        self.agent.link_state(now, link)
    }
    /// Replaces a link's settings that do not depend on its layer; its sessions go on.
    pub fn set_link_terms(&mut self, link: LinkId, terms: LinkTerms) {
        self.agent.set_link_terms(link, terms);
    }
    /// Replaces the keys of an authenticated link whose other parameters stay as they are; its sessions go on.
    /// Returns false if the link must be removed and added for that.
    pub fn rekey_link(&mut self, link: LinkId, params: &LinkParams) -> bool {
        let layer = layer_of(&self.link_layer, link);
        self.layers.get_mut(usize::from(layer.0)).is_some_and(|layer| layer.rekey(link, params))
    }
}
