//! A layer that another shard owns, as seen by this shard's stack: the agent's inputs go to the owner, the layer's
//! outputs come back. It keeps account of transmissions and offers under way, so that a link can end here at once.

use super::Across;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::layer::{Input, Output, SendId, Ticket};
use farlink_base::{LinkId, Refusal};

/// Bound per link on bundles and bytes that the owner has and its layer has not taken; beyond it, this shard keeps
/// further bundles.
const OF_LINK: Untaken = Untaken { bundles: 1024, bytes: 4 << 20 };
/// Bound for all links of the layer together; beyond it, each link has at most one bundle at the owner, until half of
/// the bound is taken.
const OF_LAYER: Untaken = Untaken { bundles: 8 * OF_LINK.bundles, bytes: 8 * OF_LINK.bytes };

/// Bundles that the owner has and its layer has not taken.
#[derive(Clone, Copy, Debug, Default)]
struct Untaken {
    bundles: u32,
    bytes: u64,
}
impl Untaken {
    fn more(&mut self, bytes: u64) {
        (self.bundles, self.bytes) = (self.bundles.saturating_add(1), self.bytes.saturating_add(bytes));
    }
    fn less(&mut self, by: Untaken) {
        (self.bundles, self.bytes) = (self.bundles.saturating_sub(by.bundles), self.bytes.saturating_sub(by.bytes));
    }
    fn is_less_than(&self, other: Untaken) -> bool {
        self.bundles < other.bundles && self.bytes < other.bytes
    }
}

/// Actions that the remote layer asks for.
#[derive(Clone, Debug)]
pub(crate) enum Do {
    /// Pass this output to the stack, as if a layer here had made it.
    Emit(Output),
    /// Send this message to the owner.
    Owner(Across),
}

/// State of one link of the remote layer, as this shard knows it.
#[derive(Debug, Default)]
struct OwnerLine {
    /// Whether the layer takes more for this link.
    ready: bool,
    /// Readiness as last reported to the agent.
    reported: bool,
    /// Whether the neighbour is known to be there.
    up: bool,
    untaken: Untaken,
}
impl OwnerLine {
    /// Whether the owner may get the next bundle; `full`: the layer's bound is reached.
    fn takes(&self, full: bool) -> bool {
        // Even a full layer takes one bundle of each link, so that no link is shut out.
        self.ready && self.untaken.is_less_than(OF_LINK) && !(full && self.untaken.bundles > 0)
    }
    fn report_ready(&mut self, link: LinkId, full: bool, out: &mut Vec<Do>) {
        let ready = self.takes(full);
        if ready != self.reported {
            self.reported = ready;
            out.push(Do::Emit(Output::Ready { link, ready }));
        }
    }
}

/// A bundle that the owner's layer offered to this shard.
#[derive(Debug)]
struct Offered {
    link: LinkId,
    /// Whether the last part is here.
    ended: bool,
    /// Whether this shard refused the bundle; further parts are dropped.
    refused: bool,
}

/// A remote layer.
#[derive(Debug)]
pub(crate) struct RemoteLayer {
    owner: u8,
    lines: BTreeMap<LinkId, OwnerLine>,
    /// Sum over all lines.
    untaken: Untaken,
    /// Set when the bound of the layer is reached, and cleared at half of it.
    full: bool,
    sends: BTreeMap<SendId, LinkId>,
    offers: BTreeMap<Ticket, Offered>,
}

impl RemoteLayer {
    /// A remote layer of this owner, with these links.
    pub fn new(owner: u8, links: impl Iterator<Item = LinkId>) -> Self {
        let lines = links.map(|link| (link, OwnerLine::default())).collect();
        let (sends, offers) = (BTreeMap::new(), BTreeMap::new());
        RemoteLayer { owner, lines, untaken: Untaken::default(), full: false, sends, offers }
    }
    pub fn owner(&self) -> u8 {
        self.owner
    }
    /// Adds a link; false if it exists already. After adding it, the caller must ask the owner for the link's state
    /// ([`Across::Known`]).
    pub fn add(&mut self, link: LinkId) -> bool {
        let fresh = !self.lines.contains_key(&link);
        self.lines.entry(link).or_default();
        fresh
    }

    /// Takes an input of the stack for the layer.
    pub fn on_input(&mut self, input: Input, out: &mut Vec<Do>) {
        match &input {
            Input::Send { link, id, part, .. } => {
                let (link, id) = (*link, *id);
                let Some(line) = self.lines.get_mut(&link) else {
                    return out.push(Do::Emit(Output::SendFailed { id, link, refused: None }));
                };
                line.untaken.more(part.len());
                self.untaken.more(part.len());
                self.sends.insert(id, link);
                out.push(Do::Owner(Across::Input(input)));
                line.report_ready(link, self.full, out);
                self.look(out);
            }
            Input::SendMore { id, .. } | Input::SendBroken { id, .. } | Input::CancelSend { id, .. } => {
                if self.sends.contains_key(id) {
                    out.push(Do::Owner(Across::Input(input)));
                }
            }
            Input::Accepted { ticket } => {
                if self.offers.remove(ticket).is_some() {
                    out.push(Do::Owner(Across::Input(input)));
                }
            }
            Input::Refused { ticket, .. } => {
                let Some(offered) = self.offers.get_mut(ticket) else { return };
                offered.refused = true;
                // Before the last part, the entry stays to drop parts that are on their way.
                if offered.ended {
                    self.offers.remove(ticket);
                }
                out.push(Do::Owner(Across::Input(input)));
            }
            Input::Hold { ticket } | Input::Resume { ticket } | Input::Kept { ticket, .. } => {
                if self.offers.contains_key(ticket) {
                    out.push(Do::Owner(Across::Input(input)));
                }
            }
            Input::RemoveLink { link } => self.remove(*link, out),
            // The owner's own agent sends these inputs, too: it has the same plan and the same operator. Only the
            // owner has sockets.
            Input::Link { .. } | Input::CloseLink { .. } | Input::Shutdown | Input::Unshare => {}
            Input::Wake | Input::Socket(_) => {}
        }
    }

    /// Updates all links when the layer becomes full, or has room again.
    fn look(&mut self, out: &mut Vec<Do>) {
        // Full and free have different bounds, so that the links do not flap around one of them.
        let bound = match self.full {
            true => Untaken { bundles: OF_LAYER.bundles / 2, bytes: OF_LAYER.bytes / 2 },
            false => OF_LAYER,
        };
        let full = !self.untaken.is_less_than(bound);
        if full != self.full {
            self.full = full;
            self.lines.iter_mut().for_each(|(link, line)| line.report_ready(*link, full, out));
        }
    }
    /// Removes a link without waiting for the bundles that its owner has.
    fn forget(&mut self, link: LinkId, out: &mut Vec<Do>) -> Option<OwnerLine> {
        let line = self.lines.remove(&link)?;
        self.untaken.less(line.untaken);
        self.look(out);
        Some(line)
    }
    /// Ends a link here, whatever its owner reports later.
    fn remove(&mut self, link: LinkId, out: &mut Vec<Do>) {
        let Some(mut line) = self.forget(link, out) else { return };
        line.ready = false;
        line.report_ready(link, self.full, out);
        let under_way: Vec<SendId> = self.sends.iter().filter(|(_, of)| **of == link).map(|(id, _)| *id).collect();
        for id in under_way {
            self.sends.remove(&id);
            out.push(Do::Emit(Output::SendFailed { id, link, refused: None }));
        }
        for (ticket, offered) in &mut self.offers {
            if offered.link == link && !offered.refused && !offered.ended {
                offered.refused = true;
                out.push(Do::Emit(Output::OfferAborted { ticket: *ticket }));
                // The bundle's last part may be under way, and the owner would then wait for a verdict.
                let refused = Input::Refused { ticket: *ticket, reason: Refusal::NoResources };
                out.push(Do::Owner(Across::Input(refused)));
            }
        }
        if line.up {
            out.push(Do::Emit(Output::PeerDown { link }));
        }
    }

    /// Takes a message of the owner.
    pub fn on_message(&mut self, message: Across, out: &mut Vec<Do>) {
        match message {
            Across::Output(output) => self.on_output(output, out),
            Across::Taken { link, bundles, bytes } => {
                let taken = Untaken { bundles, bytes };
                if let Some(line) = self.lines.get_mut(&link) {
                    // A late report may be about an earlier link with the same number: subtract no more than this
                    // link has.
                    let before = line.untaken;
                    line.untaken.less(taken);
                    self.untaken.less(Untaken {
                        bundles: before.bundles - line.untaken.bundles,
                        bytes: before.bytes - line.untaken.bytes,
                    });
                    line.report_ready(link, self.full, out);
                    self.look(out);
                }
            }
            Across::Closed { ticket } => {
                if self.offers.get(&ticket).is_some_and(|offered| offered.refused) {
                    self.offers.remove(&ticket);
                }
            }
            // These messages go to owners only.
            Across::Input(_) | Across::Known { .. } => {}
        }
    }
    fn on_output(&mut self, output: Output, out: &mut Vec<Do>) {
        match &output {
            Output::Ready { link, ready } => {
                let (link, ready) = (*link, *ready);
                // The link of an inbound neighbour may become ready before `PeerUp` introduces the neighbour.
                if ready && link.is_dynamic() {
                    self.lines.entry(link).or_default();
                }
                if let Some(line) = self.lines.get_mut(&link) {
                    line.ready = ready;
                    line.report_ready(link, self.full, out);
                }
            }
            Output::PeerUp { link, .. } => {
                if link.is_dynamic() {
                    self.lines.entry(*link).or_default();
                }
                if let Some(line) = self.lines.get_mut(link) {
                    line.up = true;
                    out.push(Do::Emit(output));
                }
            }
            Output::PeerDown { link } => {
                let known = match link.is_dynamic() {
                    true => self.forget(*link, out).is_some_and(|line| line.up),
                    false => self.lines.get_mut(link).is_some_and(|line| core::mem::take(&mut line.up)),
                };
                if known {
                    out.push(Do::Emit(output));
                }
            }
            Output::Sent { id, .. } | Output::SendFailed { id, .. } => {
                if self.sends.remove(id).is_some() {
                    out.push(Do::Emit(output));
                }
            }
            Output::SentInPart { id, .. } | Output::Want { id, .. } => {
                if self.sends.contains_key(id) {
                    out.push(Do::Emit(output));
                }
            }
            Output::InParts { ticket, link, .. } => {
                self.offers.insert(*ticket, Offered { link: *link, ended: false, refused: false });
                out.push(Do::Emit(output));
            }
            Output::Offer { ticket, link, last, .. } => {
                let (ticket, link, last) = (*ticket, *link, *last);
                let fresh = || Offered { link, ended: false, refused: false };
                let offered = self.offers.entry(ticket).or_insert_with(fresh);
                offered.ended |= last;
                if !offered.refused {
                    return out.push(Do::Emit(output));
                }
                if last {
                    self.offers.remove(&ticket);
                }
            }
            Output::OfferAborted { ticket } => {
                // The agent has ended a refused offer itself.
                if self.offers.remove(ticket).is_some_and(|offered| !offered.refused) {
                    out.push(Do::Emit(output));
                }
            }
            Output::Socket(_) | Output::Event(_) => {}
        }
    }
}
