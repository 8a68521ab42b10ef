//! Bundles with a number in their payload: when each left a node, and with which age.
#![allow(dead_code, reason = "each test file uses another part")]
#![allow(clippy::disallowed_types, reason = "the test and its codecs, all `Send`, look at the same ages")]

use crate::line::{Line, Speak};
use crate::reads::Reads;
use farlink_base::{BundleMeta, HopState, Instant, Payload};
use farlink_stack::{BpV6, BpV7, Codec, Config};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Ages in ms of bundles at the time they were read, by number.
pub type Ages = Arc<Mutex<BTreeMap<u32, u64>>>;

/// The payload of a bundle: its number, repeated a few times, then zeros.
pub fn payload(number: u32, len: usize) -> Payload {
    let mark = [*b"AGES", number.to_be_bytes()].concat();
    let mut bytes: Vec<u8> = mark.iter().copied().cycle().take(len.min(128)).collect();
    bytes.resize(len, 0);
    Payload::from(bytes)
}
/// The number that begins here.
fn number_at(bytes: &[u8]) -> Option<u32> {
    let mark = bytes.get(..8)?.strip_prefix(b"AGES")?;
    Some(u32::from_be_bytes(mark.try_into().ok()?)).filter(|number| *number < 1_000)
}

/// Codecs of both versions, the node's own first; they note the ages that node `reader` reads.
pub fn speak(version: u8, reader: usize, ages: &Ages) -> Speak {
    let told = ages.clone();
    let note = move |read: &(BundleMeta, HopState)| {
        let bytes = read.0.payload.slice(0, 8).to_bytes().unwrap_or_default();
        if let Some(number) = number_at(&bytes) {
            told.lock().unwrap().entry(number).or_insert(read.1.age_ms);
        }
    };
    Box::new(move |node: usize, config: &Config| -> Vec<Box<dyn Codec>> {
        let v7 = BpV7 { profile: config.node.profile, crc: config.node.agent.crc, accel: config.accel, custody: None };
        let v6 = BpV6 { profile: config.node.profile, numbers: false };
        let mut all = Vec::<Box<dyn Codec>>::new();
        if node == reader {
            let both = (note.clone(), note.clone());
            all.push(Box::new(Reads(v7, move |codec: &BpV7, rope: &Payload| codec.read(rope).inspect(&both.0))));
            all.push(Box::new(Reads(v6, move |codec: &BpV6, rope: &Payload| codec.read(rope).inspect(&both.1))));
        } else {
            all.push(Box::new(v7));
            all.push(Box::new(v6));
        }
        all.sort_by_key(|codec| codec.version() != version);
        all
    })
}

/// Times at which the first byte that identifies each bundle left the watched node.
pub fn left(line: &Line) -> BTreeMap<u32, Vec<Instant>> {
    let mut all = BTreeMap::<u32, Vec<Instant>>::new();
    for (at, data) in line.left.iter().flatten() {
        let bytes = data.to_bytes().unwrap();
        let mut place = 0;
        while let Some(found) = bytes[place..].windows(4).position(|four| four == b"AGES") {
            place += found;
            if let Some(number) = number_at(&bytes[place..]) {
                all.entry(number).or_default().push(*at);
            }
            place += 4;
        }
    }
    all
}
