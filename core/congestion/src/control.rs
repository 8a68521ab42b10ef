//! Contract of congestion controls, which decide *whether* a bundle is kept and copied.

use core::fmt;
use farlink_base::{PeerId, Refusal};
use farlink_book::{Actions, CopyOffer, EventMask, Held, Node, Peer, PolicyEvent};

/// A congestion control of one node. Decisions only read; [`Control::on`] changes its state. [`Node::router`] gives
/// the router's forecasts.
///
/// [`fmt::Debug`] writes all of a control's state: nodes with equal output continue in the same way.
///
/// Each control is one file, registered by one entry in `registry.rs`.
pub trait Control: fmt::Debug + Send {
    /// Events that the control handles.
    fn hears(&self) -> EventMask {
        EventMask::NOTHING
    }
    /// Whether [`Control::allow`] is also asked about bundles that the router does not want copied.
    fn wishes(&self) -> bool {
        false
    }
    /// Handles an event.
    fn on(&mut self, node: &Node<'_>, event: &PolicyEvent<'_>, out: &mut Actions) {
        let _ = (node, event, out);
    }
    /// Decides whether a newcomer may enter, including one created here (push-back to the source). Returns its worth:
    /// bundles worth less may be evicted for it. `new` is in no book yet.
    fn admit(&self, node: &Node<'_>, new: &Held) -> Result<f64, Refusal> {
        let _ = (node, new);
        Ok(f64::INFINITY)
    }
    /// Whether only free space decides about newcomers. Then a refused newcomer stays refused until a bundle leaves the
    /// node, whatever else happens and however long it takes.
    fn asks_for_room_only(&self) -> bool {
        false
    }
    /// Worth of keeping a bundle; `None` if it must never be evicted.
    fn worth(&self, node: &Node<'_>, held: &Held) -> Option<f64> {
        let _ = (node, held);
        None
    }
    /// Whether [`Control::worth`] grows with the class of service first, then with the bundle's number, and depends on
    /// nothing else. Then the oldest bundle of a class is worth least, and the agent asks about no other.
    fn keeps_newest(&self) -> bool {
        false
    }
    /// Decides about a copy offer of the router. May refuse it, change its rank, split the control's own label, or
    /// offer a copy that the router did not.
    fn allow(&self, node: &Node<'_>, peer: &Peer, held: &Held, want: Option<CopyOffer>) -> Option<CopyOffer> {
        let _ = (node, peer, held);
        want
    }
    /// Neighbour to which an evicted bundle moves; `None`: the bundle is deleted.
    fn rehome(&self, node: &Node<'_>, held: &Held) -> Option<PeerId> {
        let _ = (node, held);
        None
    }
}
