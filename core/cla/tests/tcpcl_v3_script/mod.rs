//! Messages of a scripted peer of version 3.
#![allow(dead_code, reason = "each test file uses another part")]

use crate::tcpcl_v4_script::{Lone, file, message_of, ours, span};
use farlink_base::layer::{Input, Output};
use farlink_base::socket;
use farlink_cla::tcpcl_v4::{Config, Versions};

/// Contact header flags: all three features (acknowledgments, refusals, lengths); acknowledgments only (ION); none.
pub const ALL: u8 = 0x0d;
pub const SILENT: u8 = 0x01;
pub const NONE: u8 = 0x00;
pub const START: u8 = 2;
pub const END: u8 = 1;

pub fn old_message(id: &str) -> Vec<u8> {
    message_of(&file("tcpclv3.json"), id)
}
pub fn sdnv(value: u64) -> Vec<u8> {
    let mut bytes = [0; farlink_cla::sdnv::LEN_MAX];
    let len = farlink_cla::sdnv::encode(value, &mut bytes);
    bytes[..len].to_vec()
}
pub fn contact(flags: u8, keepalive: u8, eid: &str) -> Vec<u8> {
    [&b"dtn!"[..], &[3, flags, 0, keepalive, eid.len() as u8], eid.as_bytes()].concat()
}
pub fn segment(flags: u8, data: &[u8]) -> Vec<u8> {
    [&[0x10 | flags][..], &sdnv(data.len() as u64), data].concat()
}
pub fn ack(bytes: u64) -> Vec<u8> {
    [vec![0x20], sdnv(bytes)].concat()
}

pub fn old_ours() -> Config {
    Config { versions: Versions::Three, ..ours() }
}
/// A layer to which the script has connected, with these features; its outputs are taken.
pub fn passive(flags: u8) -> Lone {
    introduced(Lone::passive(old_ours()), flags)
}
/// A layer that has connected to the script, which has these features.
pub fn active(flags: u8) -> Lone {
    introduced(Lone::connecting(old_ours(), span()), flags)
}
fn introduced(mut lone: Lone, flags: u8) -> Lone {
    lone.receive(&contact(flags, 30, "ipn:1.0"));
    assert!(lone.said().iter().any(|o| matches!(o, Output::PeerUp { .. })));
    lone.wrote();
    lone.give(Input::Socket(socket::Input::Writable { stream: lone.stream, room: 1 << 20 }));
    lone
}
