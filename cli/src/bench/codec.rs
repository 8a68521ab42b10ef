//! `farlink bench codec`: encoding and decoding of bundles.

use crate::CliError;
use farlink_base::{Accel, BytesMut, DataVolume, DtnTime, HopState, Payload};
use farlink_bundle::v7::{self, BundleDraft};
use farlink_bundle::{CrcType, CreationTimestamp, EndpointId, Profile};
use farlink_os::process::thread_cpu;
use serde_json::{Value, json};
use std::hint::black_box;

/// Least bytes encoded or decoded in one round.
const ROUND: u64 = 4_000_000;
/// Rounds measured; their median is the result.
const ROUNDS: usize = 25;

/// Longest bundle, bytes: it is held in memory four times, and measuring it takes half a minute.
const LONGEST: u64 = 500_000_000;

/// Arguments of `farlink bench codec`.
#[derive(clap::Args)]
pub struct Args {
    /// Payload of each bundle.
    #[arg(long, default_value = "1 kB")]
    bundle_size: DataVolume,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), CliError> {
    if args.bundle_size.0 > LONGEST {
        let most = DataVolume(LONGEST);
        return Err(CliError::Input(format!(
            "--bundle-size: more than {most}\nhint: 1 MB is long enough for any ratio"
        )));
    }
    let result = measure(args.bundle_size.0)?;
    if args.json {
        println!("{result}");
        return Ok(());
    }
    let ns = |key: &str| result[key].as_f64().unwrap_or(0.0);
    println!("bundles of {} with CRC-32C and three extension blocks", args.bundle_size);
    println!("  encode    {:.0} ns, including the payload's checksum", ns("encode_ns"));
    println!("  decode    {:.0} ns, with every checksum verified", ns("decode_ns"));
    println!("  checksum  {:.0} ns for the same bytes, the baseline", ns("crc_ns"));
    println!("  copy      {:.0} ns for the same bytes", ns("copy_ns"));
    println!(
        "  ratio     {:.2} encode, {:.2} decode, relative to the checksum",
        ns("encode_ratio"),
        ns("decode_ratio")
    );
    Ok(())
}

/// Measures the processor time to encode, decode, checksum and copy one bundle, in ns; each is the median over the
/// rounds.
pub fn measure(size: u64) -> anyhow::Result<Value> {
    let accel = farlink_node::accel();
    let content = Payload::fill(1, size).to_bytes().unwrap_or_default();
    let payload = Payload::from(content);
    let mut out = BytesMut::with_capacity(size as usize + 256);
    encode(&payload, &accel, &mut out);
    let wire = out.clone().freeze();
    // Guards against measuring how fast an error is returned.
    anyhow::ensure!(
        v7::read(&Payload::from(wire.clone()), Profile::Strict, &accel).is_ok(),
        "it does not read its own"
    );
    // 200 bytes stand for the blocks around the payload; at least 4 bundles even out the clock's resolution.
    let count = (ROUND / (size + 200)).clamp(4, 20_000);
    let mut copy = vec![0; wire.len()];
    let mut times: [Vec<f64>; 4] = Default::default();
    // The four kinds of work alternate within each round, so that a slow phase of the machine hits all of them.
    for _ in 0..ROUNDS {
        times[0].push(each(count, || {
            encode(black_box(&payload), &accel, &mut out);
            black_box(&mut out);
        }));
        // Created outside the measured loop: `read` copies no payload, and only refers to these bytes.
        let rope = Payload::from(wire.clone());
        times[1].push(each(count, || {
            let _ = black_box(v7::read(black_box(&rope), Profile::Strict, &accel));
        }));
        times[2].push(each(count, || {
            black_box((accel.crc32c)(0, black_box(&wire)));
        }));
        times[3].push(each(count, || {
            copy.copy_from_slice(black_box(&wire));
            black_box(&mut copy);
        }));
    }
    let [encode, decode, crc, copy] = times.map(|times| super::stats::median(&times));
    Ok(json!({
        "bundle_size": size,
        "encode_ns": encode,
        "decode_ns": decode,
        "crc_ns": crc,
        "copy_ns": copy,
        "encode_ratio": encode / crc,
        "decode_ratio": decode / crc,
    }))
}

/// Encodes a bundle as it leaves a node on its first hop, with previous node, age and hop count blocks.
fn encode(payload: &Payload, accel: &Accel, out: &mut BytesMut) {
    let draft = BundleDraft {
        source: EndpointId::ipn(1, 1),
        destination: EndpointId::ipn(2, 9),
        lifetime_ms: 3_600_000,
        hop_limit: 32,
        ..BundleDraft::default()
    };
    // Creation time 0 requires a bundle age block (RFC 9171 section 4.4.2).
    let creation = CreationTimestamp { time: DtnTime(0), sequence: 7 };
    let meta = v7::make(&draft, creation, payload.clone(), CrcType::Crc32c, accel);
    let hop = HopState { previous: EndpointId::ipn(3, 0), ..HopState::default() };
    out.clear();
    v7::append(&meta, &hop, None, accel, out);
}
/// Processor time of one call in ns; other load on the machine does not count.
fn each(count: u64, mut work: impl FnMut()) -> f64 {
    let began = thread_cpu();
    for _ in 0..count {
        work();
    }
    (thread_cpu() - began).as_nanos() as f64 / count as f64
}
