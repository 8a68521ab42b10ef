//! Trust in neighbours, shared by all controls that receive messages.

use farlink_base::{Param, PeerId};
use farlink_book::{Node, Peer};

/// Certainty of identity that a neighbour needs for its messages to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trust(u8);

impl Trust {
    /// Parameter for the required certainty.
    pub const PARAM: Param = Param {
        name: "trust",
        help: "Neighbours whose messages count: 0 all, 1 those that claim a name, 2 those at a configured address, \
               3 those with a proven name.",
        unit: "",
        default: 2.0,
        min: 0.0,
        max: 3.0,
    };

    /// Creates the requirement from a value of [`Trust::PARAM`].
    pub fn of(param: f64) -> Trust {
        Trust(param as u8)
    }
    /// The neighbour, if it is up and certain enough for its messages to count.
    pub fn heeds<'a>(self, node: &Node<'a>, from: PeerId) -> Option<&'a Peer> {
        node.peers.get(from).filter(|peer| peer.is_up() && peer.identity() as u8 >= self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ControlSite;
    use farlink_base::{EndpointId, LinkId};
    use farlink_book::{Identity, Origin};

    #[test]
    fn trust_needs_presence_and_identity() {
        let mut site = ControlSite::new(1000);
        let peers = [None, Some(Identity::Claimed), Some(Identity::Address), Some(Identity::Proven)].map(|identity| {
            let peer = site.peers.add(Origin::Came);
            if let Some(identity) = identity {
                site.peers.learn(peer, EndpointId::ipn(u64::from(peer.0), 0), identity);
            }
            site.peers.get_mut(peer).unwrap().up.push(LinkId(peer.0));
            peer
        });
        for trust in 0..=3u8 {
            // The values of `Identity` are the levels of trust.
            let heeded = peers.map(|peer| Trust::of(trust.into()).heeds(&site.node(), peer).is_some());
            assert_eq!(heeded, [0, 1, 2, 3].map(|sure| sure >= trust), "{trust}");
        }
        site.peers.get_mut(peers[3]).unwrap().up.clear();
        assert!(Trust::of(0.0).heeds(&site.node(), peers[3]).is_none(), "the neighbour is down");
        assert!(Trust::of(0.0).heeds(&site.node(), PeerId(77)).is_none(), "an unknown neighbour");
    }
}
