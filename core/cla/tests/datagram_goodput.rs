//! Goodput of LTP by loss and delay, as a text table under version control, so that a regression shows as a readable
//! difference. `BLESS=1 cargo test -p farlink-cla --test all datagram_goodput` rewrites the table.

#![allow(clippy::disallowed_methods, reason = "the table is a file")]

use crate::datagram_common::{Channel, EnginePair};
use farlink_base::{DataRate, Duration, Payload, format_duration};
use farlink_cla::ltp::{SpanConfig, whole_block};
use std::fmt::Write;

const BUNDLES: u64 = 50;
const BUNDLE_BYTES: u64 = 100_000;

/// Time until the last bundle was confirmed, s; and excess of the bytes sent over the bytes of the bundles, percent.
fn transfer(loss: f64, delay: Duration) -> (f64, f64) {
    let channel =
        Channel { loss: [loss; 2], delay: [delay; 2], rate: Some(DataRate(100_000_000)), ..Channel::default() };
    let span = SpanConfig { attempts: 60, ..SpanConfig::default() };
    let mut world = EnginePair::with(1, channel, span, |_, config| config.split = whole_block);
    for number in 0..BUNDLES {
        world.offer(0, number, Payload::fill(number, BUNDLE_BYTES), true);
    }
    world.run(1_000_000);
    let extra = world.sides[0].sent_bytes as f64 / (BUNDLES * BUNDLE_BYTES) as f64 - 1.0;
    (world.now.as_secs_f64(), extra * 100.0)
}

#[test]
fn goodput_table() {
    let losses = [0.0, 0.01, 0.05, 0.2, 0.5];
    let mut table = String::from(
        "LTP, 50 bundles of 100 kB, one per block, 100 Mbit/s, datagrams of 1360 bytes and 28 of headers,\n\
         loss both ways. Each cell: goodput in Mbit/s until the last bundle is confirmed, round trips that\n\
         took beyond the time on the wire, bytes sent beyond the bundles' own.\n\n\
         one-way delay",
    );
    losses.iter().for_each(|loss| write!(table, " | {:>21}", format!("loss {} %", loss * 100.0)).unwrap());
    table.push('\n');
    for ms in [1u64, 100, 600, 10_000, 1_200_000] {
        let delay = Duration::from_millis(ms);
        write!(table, "{:>13}", format_duration(delay)).unwrap();
        for loss in losses {
            let (seconds, extra) = transfer(loss, delay);
            let bits = (BUNDLES * BUNDLE_BYTES * 8) as f64;
            let wire = bits / 1e8 * (1.0 + extra / 100.0);
            let trips = (seconds - wire) / (2.0 * delay.as_secs_f64());
            let goodput = bits / seconds / 1e6;
            let cell = if goodput >= 0.1 { format!("{goodput:.2}") } else { format!("{goodput:.4}") };
            write!(table, " | {cell:>7} {trips:>6.1} {extra:>5.1}%").unwrap();
        }
        table.push('\n');
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/ltp_goodput.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &table).unwrap();
    }
    let checked_in = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        table == checked_in,
        "the goodput table changed; if that is intended: BLESS=1 cargo test -p farlink-cla --test all datagram_goodput\n\
         now:\n{table}\nchecked in:\n{checked_in}"
    );
}
