//! The contract of congestion controls: *whether* a bundle is kept, and copied.

use core::fmt;
use farlink_base::{PeerId, Refusal};
use farlink_book::{Actions, CopyOffer, EventMask, Held, Node, Peer, PolicyEvent};

/// A congestion control of one node. Decisions look; only [`Control::on`] changes it. What the
/// router expects can be asked of [`Node::router`].
///
/// [`fmt::Debug`] writes all of its state: nodes that write the same go on in the same way.
///
/// One file each, registered by one line in `registry.rs`.
pub trait Control: fmt::Debug + Send {
    /// Which news it wants.
    fn hears(&self) -> EventMask {
        EventMask::NOTHING
    }
    /// Whether [`Control::allow`] is asked also about bundles the router does not want copied.
    fn wishes(&self) -> bool {
        false
    }
    /// Something happened.
    fn on(&mut self, node: &Node<'_>, news: &PolicyEvent<'_>, out: &mut Actions) {
        let _ = (node, news, out);
    }
    /// May this newcomer in, also one made here (that is push-back to the source)? Its own worth:
    /// what is worth less may make room for it. `new` is in no book yet.
    fn admit(&self, node: &Node<'_>, new: &Held) -> Result<f64, Refusal> {
        let _ = (node, new);
        Ok(f64::INFINITY)
    }
    /// Whether only room decides about a newcomer: one that is refused is refused until something
    /// leaves the node, whatever else happens and however long it takes.
    fn asks_for_room_only(&self) -> bool {
        false
    }
    /// What keeping this bundle is worth; `None`: it is never given up.
    fn worth(&self, node: &Node<'_>, held: &Held) -> Option<f64> {
        let _ = (node, held);
        None
    }
    /// Whether what [`Control::worth`] says grows with the class of service first and then with the number of the
    /// bundle, and with nothing else: then the least of those of one class is the one that came first, and nobody
    /// else is asked about.
    fn keeps_newest(&self) -> bool {
        false
    }
    /// May the router's wish be followed? May refuse, rank anew, split its own label, or wish where
    /// the router did not.
    fn allow(&self, node: &Node<'_>, peer: &Peer, held: &Held, want: Option<CopyOffer>) -> Option<CopyOffer> {
        let _ = (node, peer, held);
        want
    }
    /// A victim may move to this neighbour instead of being deleted.
    fn rehome(&self, node: &Node<'_>, held: &Held) -> Option<PeerId> {
        let _ = (node, held);
        None
    }
}
