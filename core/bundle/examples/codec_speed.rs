//! Measures the time, in ns, of a relay's work on one bundle of 1 kB: to read it, and to write it with a new previous
//! node and one more hop. It compares the view for tools ([`decode`] and [`Bundle::encode`]) with the engine's codec
//! ([`v7`]). `cargo run --release -p farlink-bundle --example codec_speed`
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "this measures, so it reads the clock")]

use farlink_base::{Accel, Bytes, BytesMut, DtnTime, Facts, Payload, Priority};
use farlink_bundle::{BlockData, Bundle, CrcType, CreationTimestamp, EndpointId, Profile, decode, v7};
use std::hint::black_box;
use std::time::Instant;

/// Smallest mean of several rounds, ns.
fn time(mut work: impl FnMut()) -> f64 {
    const TIMES: u32 = 20_000;
    (0..15).fold(f64::MAX, |least, _| {
        let start = Instant::now();
        (0..TIMES).for_each(|_| work());
        least.min(start.elapsed().as_nanos() as f64 / f64::from(TIMES))
    })
}

fn sample(source: EndpointId, destination: EndpointId, hops: bool, crc: CrcType) -> Payload {
    let creation = CreationTimestamp { time: DtnTime(800_000_000_000), sequence: 7 };
    let payload = Payload::from(vec![42u8; 1000]);
    let mut builder = Bundle::new(source.clone(), destination, creation).payload(payload).crc(crc);
    if hops {
        builder = builder.block(BlockData::PreviousNode(source.node_id())).hop_limit(30);
    }
    // One chunk, like a bundle received from a socket.
    Payload::from(builder.build().encode(&Accel::default()).into_payload().to_bytes().unwrap_or_default())
}

fn measure(name: &str, wire: &Payload, here: &EndpointId) {
    let accel = Accel::default();
    let old_read = time(|| drop(black_box(decode(black_box(wire), Profile::Permissive, &accel))));
    let new_read = time(|| drop(black_box(v7::read(black_box(wire), Profile::Permissive, &accel))));
    let begin = time(|| drop(black_box(v7::begin(black_box(wire), Profile::Permissive, &accel))));
    let (Ok(bundle), Ok((meta, came))) =
        (decode(wire, Profile::Permissive, &accel), v7::read(wire, Profile::Permissive, &accel))
    else {
        return println!("{name}: does not read");
    };
    let old_write = time(|| {
        let mut bundle = black_box(&bundle).clone();
        bundle.set_previous_node(here.clone());
        bundle.increment_hop();
        drop(black_box(bundle.encode(&accel)));
    });
    let hop = farlink_base::HopState { previous: here.clone(), hops: came.hops + 1, ..came.clone() };
    let mut out = BytesMut::with_capacity(64 << 10);
    let new_write = time(|| drop(black_box(v7::render(black_box(&meta), &hop, None, &accel, &mut out))));
    let same = time(|| drop(black_box(v7::render(black_box(&meta), &came, None, &accel, &mut out))));
    let cut = time(|| drop(black_box(v7::render(black_box(&meta), &hop, Some(500..1000), &accel, &mut out))));
    let size = time(|| {
        black_box(v7::size(black_box(&meta), &hop, None));
    });
    let mut flat = BytesMut::with_capacity(64 << 10);
    let append = time(|| {
        flat.clear();
        black_box(v7::append(black_box(&meta), &hop, None, &accel, &mut flat));
    });
    println!(
        "{name:<26}{old_read:>8.0}{new_read:>8.0}{begin:>8.0}{old_write:>10.0}{new_write:>8.0}{same:>8.0}{append:>8.0}{cut:>8.0}{size:>8.0}{:>8}",
        meta.head.len()
    );
}

fn main() {
    println!(
        "ns                          decode    read   begin    encode  render    same  append     cut    size    head"
    );
    let (ipn, to, here) = (EndpointId::ipn(10, 1), EndpointId::ipn(20, 1), EndpointId::ipn(15, 0));
    for (crc, text) in [(CrcType::None, "no payload CRC"), (CrcType::Crc32c, "CRC-32C")] {
        measure(&format!("ipn, {text}"), &sample(ipn.clone(), to.clone(), false, crc), &here);
        measure(&format!("ipn, 2 blocks, {text}"), &sample(ipn.clone(), to.clone(), true, crc), &here);
    }
    let (dtn, to, here) =
        (EndpointId::dtn("mars", "in"), EndpointId::dtn("earth", "out"), EndpointId::dtn("relay", ""));
    measure("dtn, 2 blocks, no CRC", &sample(dtn, to, true, CrcType::None), &here);
    let draft = v7::BundleDraft {
        source: ipn,
        destination: EndpointId::ipn(20, 1),
        facts: Facts::default(),
        lifetime_ms: 3_600_000,
        priority: Priority::Normal,
        hop_limit: 30,
        ..v7::BundleDraft::default()
    };
    let payload = Payload::from(Bytes::from(vec![42u8; 1000]));
    let creation = CreationTimestamp { time: DtnTime(800_000_000_000), sequence: 7 };
    let accel = Accel::default();
    let make = time(|| drop(black_box(v7::make(&draft, creation, payload.clone(), CrcType::None, &accel))));
    println!("make: {make:.0} ns");
}
