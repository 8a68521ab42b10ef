//! The tests of a stack, in one program: it is linked once.

mod aged;
mod ages;
mod broken_transfers;
mod compressed;
mod configuration;
mod custody;
mod layers_apart;
mod line;
mod link_crc;
mod links_off;
mod long_bundles;
mod marginal_utility;
mod message_links;
mod message_pieces;
mod odd;
mod odd_bundles;
mod reads;
mod second_version;
mod secured;
mod serial_line;
mod shards;
mod stub;
mod tunnel;
mod two_nodes;
mod version_6;
mod version_6_security;
