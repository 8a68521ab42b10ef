//! Who is listened to: said once for all controls that neighbours tell something.

use farlink_base::{Param, PeerId};
use farlink_book::{Node, Peer};

/// How sure it must be who a neighbour is, so that its word counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trust(u8);

impl Trust {
    /// The parameter that says it.
    pub const PARAM: Param = Param {
        name: "trust",
        help: "Who is listened to: 0 anybody, 1 who says a name, 2 who is at a configured address, 3 who proved its name.",
        unit: "",
        default: 2.0,
        min: 0.0,
        max: 3.0,
    };

    /// A value of [`Trust::PARAM`].
    pub fn of(param: f64) -> Trust {
        Trust(param as u8)
    }
    /// A neighbour that said something, where its word counts: it is there, and sure enough.
    pub fn heeds<'a>(self, node: &Node<'a>, from: PeerId) -> Option<&'a Peer> {
        node.peers.get(from).filter(|peer| peer.is_up() && peer.identity() as u8 >= self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Site;
    use farlink_base::{EndpointId, LinkId};
    use farlink_book::{Identity, Origin};

    #[test]
    fn trust_needs_presence_and_identity() {
        let mut site = Site::new(1000);
        let peers = [None, Some(Identity::Claimed), Some(Identity::Address), Some(Identity::Proven)].map(|identity| {
            let peer = site.peers.add(Origin::Came);
            if let Some(identity) = identity {
                site.peers.learn(peer, EndpointId::ipn(u64::from(peer.0), 0), identity);
            }
            site.peers.get_mut(peer).unwrap().up.push(LinkId(peer.0));
            peer
        });
        for trust in 0..=3u8 {
            let heeded = peers.map(|peer| Trust::of(trust.into()).heeds(&site.node(), peer).is_some());
            assert_eq!(heeded, [0, 1, 2, 3].map(|sure| sure >= trust), "{trust}");
        }
        site.peers.get_mut(peers[3]).unwrap().up.clear();
        assert!(Trust::of(0.0).heeds(&site.node(), peers[3]).is_none(), "it is gone");
        assert!(Trust::of(0.0).heeds(&site.node(), PeerId(77)).is_none(), "nobody");
    }
}
