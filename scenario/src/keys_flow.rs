//! Keys of `[[flow]]`.

use farlink_config::Fallback::{Absent, Is, Required};
use farlink_config::{Kind, Section, key, other};

const NODE_NAME: Kind = other("name of a node", "\"ground\"");

/// Keys of `[[flow]]`.
pub const FLOW: Section = Section {
    name: "flow",
    help: "Plain TCP or UDP from one node's host to another's, without bundles: background traffic. It takes the path of the fewest links; hosts between forward its packets. The congestion control of TCP is that of the sending host (`tcp` of its node).",
    keys: &[
        key("name", Kind::Name, Absent, "Its name in reports; without it, made from the two nodes."),
        key("from", NODE_NAME, Required, "Node whose host sends."),
        key("to", NODE_NAME, Required, "Node whose host receives."),
        key("transport", Kind::Choice(&["tcp", "udp"]), Is("tcp"), "One TCP connection, or UDP datagrams."),
        key(
            "rate",
            Kind::Rate,
            Absent,
            "Rate of payload. Without it, TCP sends as fast as the network takes it; `udp` needs it.",
        ),
        key("datagram", Kind::Volume, Is("1400 B"), "Payload of each UDP datagram."),
        key("start", Kind::Duration, Is("0 s"), "When it begins."),
        key("stop", Kind::Duration, Absent, "When it ends; without it, with the run. No run waits for its flows."),
    ],
};
