//! `farlink bundle`: explain one bundle, block by block.

use crate::{CliError, bundle_custody, bundle_security, bundle_tunnel, bundle_v6};
use farlink_base::{Accel, DtnTime, Malformed, Payload};
use farlink_bundle::{
    AdministrativeRecord, BlockData, BlockFlags, Bundle, BundleFlags, CrcType, ExtensionBlock, Profile, StatusReport,
    decode, reason, v6,
};
use serde_json::{Value, json};
use std::io::Read;
use std::path::PathBuf;

/// Arguments of `farlink bundle`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: BundleCommand,
}

#[derive(clap::Subcommand)]
enum BundleCommand {
    /// Explain one bundle block by block; if it is not valid, exit 2 with the byte offset and the reason.
    #[command(after_help = "Examples:\n  farlink bundle decode message.bundle\n  \
        farlink bundle decode --profile permissive --json message.bundle\n  \
        echo 9f89... | farlink bundle decode --hex -")]
    Decode(Decode),
}

#[derive(clap::Args)]
struct Decode {
    /// File with one bundle; `-` for standard input.
    file: PathBuf,
    /// Strictness: every MUST of RFC 9171 (version 6: RFC 5050), or the deviations that implementations in the field
    /// send.
    #[arg(long, value_enum, default_value = "strict")]
    profile: ProfileName,
    /// The input is hexadecimal text.
    #[arg(long)]
    hex: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ProfileName {
    Strict,
    Permissive,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let BundleCommand::Decode(args) = args.command;
    let input = read_input(&args)?;
    let profile = if args.profile == ProfileName::Strict { Profile::Strict } else { Profile::Permissive };
    // The tag of self-described CBOR (RFC 8949 3.4.6) marks files; it never travels.
    let skipped = if input.starts_with(&[0xd9, 0xd9, 0xf7]) { 3 } else { 0 };
    let rope = Payload::from(input[skipped..].to_vec());
    match read(&rope, profile, args.json, skipped) {
        Ok(text) => {
            print!("{text}");
            Ok(())
        }
        // With --json the error is also printed as a document.
        Err(error) => Err(rejected(&args, error, &rope, skipped)?),
    }
}

/// Whether a bundle is of version 6, which is its first byte (RFC 5050 section 4.5.1).
fn is_v6(rope: &Payload) -> bool {
    rope.reader().read_u8() == Some(v6::VERSION)
}

/// Explains a bundle of either version, as text or as a JSON document.
fn read(rope: &Payload, profile: Profile, json: bool, skipped: usize) -> Result<String, Malformed> {
    if is_v6(rope) {
        let bundle = v6::decode(rope, profile)?;
        return Ok(match json {
            true => pretty(&bundle_v6::document(&bundle, skipped)),
            false => bundle_v6::explain(&bundle, skipped),
        });
    }
    let bundle = decode(rope, profile, &Accel::default())?;
    Ok(if json { pretty(&document(&bundle, skipped)) } else { explain(&bundle, skipped) })
}

fn read_input(args: &Decode) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let place = place(args);
    if args.file.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut bytes)?;
    } else {
        bytes = std::fs::read(&args.file)
            .map_err(|e| CliError::Input(format!("{place}: {e}\nhint: name a file with one bundle, or - for stdin")))?;
    }
    if !args.hex {
        return Ok(bytes);
    }
    unhex(&bytes).map_err(|at| {
        CliError::Input(format!("{place}: not hexadecimal text at byte {at}\nhint: leave out --hex for a binary file"))
    })
}

/// Decodes hexadecimal text; whitespace and a leading `0x` are skipped. The error is the offset of the first byte that
/// is not hexadecimal, or the text's length if the last byte lacks a digit.
pub(crate) fn unhex(text: &[u8]) -> Result<Vec<u8>, usize> {
    let start = if text.starts_with(b"0x") { 2 } else { 0 };
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut half = None;
    for (at, byte) in text.iter().enumerate().skip(start).filter(|(_, byte)| !byte.is_ascii_whitespace()) {
        let digit = char::from(*byte).to_digit(16).ok_or(at)? as u8;
        half = match half {
            None => Some(digit),
            Some(high) => {
                out.push(high << 4 | digit);
                None
            }
        };
    }
    if half.is_some() { Err(text.len()) } else { Ok(out) }
}

/// Name of the input, for messages.
fn place(args: &Decode) -> String {
    match args.file.as_os_str() == "-" {
        true => "standard input".into(),
        false => args.file.display().to_string(),
    }
}

/// Error for a bundle that is not valid, with a hint. With `--json` it is also printed as a document.
fn rejected(args: &Decode, error: Malformed, rope: &Payload, skipped: usize) -> Result<CliError, CliError> {
    // Offsets count from the beginning of the file.
    let offset = error.offset + skipped as u64;
    let hint = hint(args, &error, rope);
    if args.json {
        let document = json!({ "accepted": false, "offset": offset, "reason": error.reason, "hint": hint });
        print!("{}", pretty(&document));
    }
    let place = place(args);
    Ok(CliError::Input(format!("{place}: {} at byte {offset}\nhint: {hint}", error.reason)))
}

fn hint(args: &Decode, error: &Malformed, rope: &Payload) -> String {
    let bytes = rope.to_bytes().unwrap_or_default();
    // The first bytes of a BPv7 bundle (an array of indefinite length, or tagged) and of a BPv6 bundle.
    if !args.hex && unhex(&bytes).is_ok_and(|b| matches!(b.first().copied(), Some(0x9f | 0xd9 | v6::VERSION))) {
        return "the file holds hexadecimal text: add --hex".into();
    }
    let standard = if is_v6(rope) { "RFC 5050" } else { "RFC 9171" };
    // Deviations that implementations in the field are known to send.
    if args.profile == ProfileName::Strict && read(rope, Profile::Permissive, false, 0).is_ok() {
        return format!("it violates {standard} as some implementations do: --profile permissive accepts it");
    }
    match error.reason {
        r if r.contains("CRC is wrong") => "the bytes changed after the CRC was computed; see RFC 9171 4.2.1".into(),
        r if r.contains("too early") || r.contains("ends inside") || r.contains("longer than the bytes") => {
            let bytes = rope.len();
            format!(
                "there {}; was the bundle cut short?",
                if bytes == 1 { "is 1 byte".into() } else { format!("are {bytes} bytes") }
            )
        }
        r if r.contains("bytes after the end") || r.contains("bytes after the last") => {
            "the file must hold exactly one bundle".into()
        }
        r if r.contains("begins with the byte 9f") => {
            "is this a bare bundle, without a convergence layer's header?".into()
        }
        _ if is_v6(rope) => "compare the bytes there with RFC 5050 4.5 and, without a dictionary, RFC 6260 2.2".into(),
        _ => "compare the bytes there with RFC 9171 4.2 and 4.3".into(),
    }
}

fn pretty(document: &Value) -> String {
    format!("{document:#}\n")
}

const BUNDLE_FLAGS: [(u64, &str); 9] = [
    (BundleFlags::FRAGMENT, "fragment"),
    (BundleFlags::ADMIN, "administrative record"),
    (BundleFlags::NO_FRAGMENT, "must not be fragmented"),
    (BundleFlags::APP_ACK, "application acknowledgment requested"),
    (BundleFlags::STATUS_TIME, "status times wanted"),
    (BundleFlags::REPORT_RECEPTION, "report reception"),
    (BundleFlags::REPORT_FORWARDING, "report forwarding"),
    (BundleFlags::REPORT_DELIVERY, "report delivery"),
    (BundleFlags::REPORT_DELETION, "report deletion"),
];
const BLOCK_FLAGS: [(u64, &str); 4] = [
    (BlockFlags::REPLICATE, "replicate in every fragment"),
    (BlockFlags::REPORT, "report if not understood"),
    (BlockFlags::DELETE_BUNDLE, "delete bundle if not understood"),
    (BlockFlags::DISCARD, "discard block if not understood"),
];

pub(crate) fn flag_names(bits: u64, names: &[(u64, &'static str)]) -> Vec<String> {
    let known = names.iter().fold(0, |known, (bit, _)| known | bit);
    let mut found: Vec<String> =
        names.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| name.to_string()).collect();
    if bits & !known != 0 {
        // Bits that no standard assigns are shown, not hidden.
        found.push(format!("unassigned bits {:#x}", bits & !known));
    }
    found
}

fn crc_name(crc: CrcType) -> &'static str {
    match crc {
        CrcType::None => "none",
        CrcType::Crc16 => "CRC-16",
        CrcType::Crc32c => "CRC-32C",
    }
}

/// Name of a block type: the IANA registry, and the private codes that this program knows.
pub(crate) fn block_name(kind: u64, data: Option<&BlockData>) -> &'static str {
    // For these types only the content shows whether it is a custody or reporting block.
    if let Some(name) = data.and_then(|data| bundle_custody::name(kind, unknown(data)?)) {
        return name;
    }
    match kind {
        1 => "payload",
        6 => "previous node",
        7 => "bundle age",
        10 => "hop count",
        11 => "block integrity",
        12 => "block confidentiality",
        193 => "quality of service",
        240 => "policy labels",
        241 => "unvouched",
        // RFC 9171 section 9.1.
        192..=255 => "private or experimental",
        _ => "unknown",
    }
}

pub(crate) fn time_text(time: DtnTime) -> String {
    if time == DtnTime::UNKNOWN { "unknown".into() } else { time.to_string() }
}

/// Data of a block that the codec does not interpret; `None` for other blocks.
fn unknown(data: &BlockData) -> Option<&[u8]> {
    if let BlockData::Unknown(bytes) = data { Some(bytes) } else { None }
}

/// A block's content as text and as JSON.
fn content(kind: u64, data: &BlockData) -> (String, Value) {
    if let Some(known) = unknown(data).and_then(|bytes| bundle_custody::content(kind, bytes)) {
        return known;
    }
    match data {
        BlockData::PreviousNode(eid) => (eid.to_string(), json!({ "node": eid.to_string() })),
        BlockData::Age(ms) => (format!("{ms} ms"), json!({ "age_ms": ms })),
        BlockData::HopCount(hops) => {
            (format!("{} of {}", hops.count, hops.limit), json!({ "limit": hops.limit, "count": hops.count }))
        }
        BlockData::QualityOfService(qos) => (
            format!(
                "class {}, ordinal {}, flags {:#x}, label {}",
                qos.priority.number(),
                qos.ordinal,
                qos.flags,
                qos.label
            ),
            json!({ "class": qos.priority.number(), "ordinal": qos.ordinal, "flags": qos.flags, "label": qos.label }),
        ),
        BlockData::Labels([router, control]) => {
            (format!("router {router}, control {control}"), json!({ "router": router, "control": control }))
        }
        BlockData::Unvouched => ("source not authenticated".into(), json!({ "unvouched": true })),
        BlockData::Unknown(bytes) => (hex(bytes, 32), json!({ "data": hex(bytes, usize::MAX) })),
    }
}

pub(crate) fn hex(bytes: &[u8], most: usize) -> String {
    let mut text: String = bytes.iter().take(most).map(|byte| format!("{byte:02x}")).collect();
    // Without a mark the preview would look complete.
    if bytes.len() > most {
        text.push('…');
    }
    text
}

/// First bytes of the payload, as text if they are UTF-8 without control characters, else in hexadecimal.
pub(crate) fn preview(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(48)];
    let dots = if bytes.len() > 48 { "…" } else { "" };
    match std::str::from_utf8(start) {
        Ok(text) if !text.chars().any(char::is_control) => format!("\"{text}\"{dots}"),
        _ => hex(bytes, 32),
    }
}

/// Offset and length of each block: the primary block, the extension blocks, the payload block.
fn offsets(bundle: &Bundle, skipped: usize) -> Vec<(u64, u64)> {
    let raw = |bytes: &Option<farlink_base::Bytes>| bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
    let lengths = [raw(&bundle.primary_raw)].into_iter().chain(bundle.extensions.iter().map(|block| raw(&block.raw)));
    // The first byte opens the array that is the bundle; the last one ends it.
    let mut at = 1 + skipped as u64;
    let mut out: Vec<(u64, u64)> = lengths
        .map(|length| {
            at += length;
            (at - length, length)
        })
        .collect();
    // The payload block is the last one (RFC 9171 section 4.1): it fills the rest.
    let end = bundle.encoded_len() + skipped as u64 - 1;
    out.push((at, end.saturating_sub(at)));
    out
}

fn record(bundle: &Bundle) -> Option<Result<AdministrativeRecord, Malformed>> {
    let bytes = bundle.payload.to_bytes().unwrap_or_default();
    bundle.is_administrative().then(|| AdministrativeRecord::decode(&bytes))
}

fn status_items(report: &StatusReport) -> Vec<(&'static str, Option<DtnTime>)> {
    let items = [
        ("received", report.received),
        ("forwarded", report.forwarded),
        ("delivered", report.delivered),
        ("deleted", report.deleted),
    ];
    items.into_iter().filter(|(_, item)| item.asserted).map(|(name, item)| (name, item.time)).collect()
}

fn document(bundle: &Bundle, skipped: usize) -> Value {
    let primary = &bundle.primary;
    let offsets = offsets(bundle, skipped);
    let block = |kind: u64, data: Option<&BlockData>, number: u64, flags: BlockFlags, crc, place: (u64, u64)| {
        let (offset, length) = place;
        json!({
            "type": kind, "name": block_name(kind, data), "number": number, "flags": flags.0,
            "flag_names": flag_names(flags.0, &BLOCK_FLAGS), "crc": crc_name(crc),
            "offset": offset, "length": length,
        })
    };
    // `offsets` begins with the primary block, which is not among the extensions.
    let mut blocks: Vec<Value> = Vec::new();
    for (extension, place) in bundle.extensions.iter().zip(&offsets[1..]) {
        let ExtensionBlock { kind, number, flags, crc, data, .. } = extension;
        let mut value = block(*kind, Some(data), *number, *flags, *crc, *place);
        value["content"] = bundle_security::of(bundle, extension).map_or_else(|| content(*kind, data).1, |said| said.1);
        blocks.push(value);
    }
    let bytes = bundle.payload.to_bytes().unwrap_or_default();
    let place = offsets.last().copied().unwrap_or_default();
    let mut payload = block(1, None, 1, bundle.payload_flags, bundle.payload_crc, place);
    payload["content"] = json!({ "length": bytes.len(), "preview": preview(&bytes) });
    blocks.push(payload);
    let mut document = json!({
        "accepted": true, "version": 7, "id": bundle.id().to_string(),
        "source": primary.source.to_string(), "destination": primary.destination.to_string(),
        "report_to": primary.report_to.to_string(),
        "creation": { "time": time_text(primary.creation.time), "dtn_ms": primary.creation.time.as_millis(),
            "sequence": primary.creation.sequence },
        "lifetime_ms": primary.lifetime_ms, "flags": primary.flags.0,
        "flag_names": flag_names(primary.flags.0, &BUNDLE_FLAGS), "crc": crc_name(primary.crc),
        "fragment": primary.fragment.map(|f| json!({ "offset": f.offset, "total": f.total })),
        "bytes": bundle.encoded_len(), "payload_bytes": bytes.len(), "blocks": blocks,
    });
    document["administrative_record"] = match record(bundle) {
        None => Value::Null,
        Some(Err(error)) => json!({ "error": error.to_string() }),
        // The codec itself decodes status reports only; `known` decodes records of custody, reporting and BIBE.
        Some(Ok(AdministrativeRecord::Unknown { kind, content })) => {
            let known = known(bundle, kind, &content).map(|(_, document)| document);
            known.unwrap_or_else(|| json!({ "type": kind, "content": hex(&content, usize::MAX) }))
        }
        Some(Ok(AdministrativeRecord::Status(report))) => {
            let items: serde_json::Map<String, Value> = status_items(&report)
                .into_iter()
                .map(|(name, time)| (name.to_string(), json!({ "time": time.map(time_text) })))
                .collect();
            json!({ "type": 1, "asserted": items, "reason": report.reason,
                "reason_text": reason::text(report.reason), "subject": report.subject().to_string() })
        }
    };
    document
}

/// An administrative record of custody, compressed reporting or BIBE, as lines of text and as JSON; `None` for others.
fn known(bundle: &Bundle, kind: u64, content: &[u8]) -> Option<(Vec<String>, Value)> {
    bundle_custody::record(kind, content).or_else(|| bundle_tunnel::record(&bundle.payload, kind, content))
}

fn explain(bundle: &Bundle, skipped: usize) -> String {
    let primary = &bundle.primary;
    let places = offsets(bundle, skipped);
    let mut out = format!("BPv7 bundle, {} bytes: {}\n", bundle.encoded_len(), bundle.id());
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let title = |(offset, length): (u64, u64), name: &str, crc| {
        format!(
            "\nbyte {offset}: {name}, {length} bytes, {}",
            if crc == CrcType::None { "no CRC" } else { crc_name(crc) }
        )
    };
    line(title(places[0], "primary block", primary.crc));
    line(format!("  source       {}", primary.source));
    line(format!("  destination  {}", primary.destination));
    line(format!("  report to    {}", primary.report_to));
    line(format!("  created      {}, sequence {}", time_text(primary.creation.time), primary.creation.sequence));
    let lifetime = farlink_base::format_duration(farlink_base::Duration::from_millis(primary.lifetime_ms));
    line(format!("  lifetime     {lifetime}"));
    line(format!("  flags        {}", list(flag_names(primary.flags.0, &BUNDLE_FLAGS))));
    if let Some(fragment) = primary.fragment {
        line(format!("  fragment     from byte {} of {}", fragment.offset, fragment.total));
    }
    for (block, place) in bundle.extensions.iter().zip(&places[1..]) {
        line(title(
            *place,
            &format!("block {}, {} (type {})", block.number, block_name(block.kind, Some(&block.data)), block.kind),
            block.crc,
        ));
        match bundle_security::of(bundle, block) {
            Some((lines, _)) => lines.into_iter().for_each(&mut line),
            None => line(format!("  content      {}", content(block.kind, &block.data).0)),
        }
        line(format!("  flags        {}", list(flag_names(block.flags.0, &BLOCK_FLAGS))));
    }
    let bytes = bundle.payload.to_bytes().unwrap_or_default();
    line(title(places.last().copied().unwrap_or_default(), "block 1, payload (type 1)", bundle.payload_crc));
    line(format!("  content      {} bytes: {}", bytes.len(), preview(&bytes)));
    line(format!("  flags        {}", list(flag_names(bundle.payload_flags.0, &BLOCK_FLAGS))));
    match record(bundle) {
        None => {}
        Some(Err(error)) => line(format!("  record       not valid: {error}")),
        Some(Ok(AdministrativeRecord::Unknown { kind, content })) => match known(bundle, kind, &content) {
            Some((lines, _)) => lines.into_iter().for_each(&mut line),
            None => line(format!("  record       type {kind}: {}", hex(&content, 32))),
        },
        Some(Ok(AdministrativeRecord::Status(report))) => {
            line(format!("  record       status report about {}", report.subject()));
            for (name, time) in status_items(&report) {
                line(format!("  {name:<12} {}", time.map_or("no time given".into(), time_text)));
            }
            line(format!("  reason       {} ({})", report.reason, reason::text(report.reason)));
        }
    }
    out
}

pub(crate) fn list(names: Vec<String>) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_errors_carry_their_offset() {
        assert_eq!(unhex(b"0x9f 89\n07"), Ok(vec![0x9f, 0x89, 7]));
        assert_eq!(unhex(b"9g"), Err(1));
        assert_eq!(unhex(b"9f8"), Err(3));
    }

    #[test]
    fn every_block_is_placed_and_explained() {
        let text = b"9f89070002820282020182028201018202820100821b000000ba081c7600001a0036ee804442d61fb386060200024582028207\
            004490101ade86070300024319012c44eceb49d0860a0400024482181e03441182057c8601010002477061796c6f616444dcb49ba2ff";
        let wire = unhex(text).unwrap();
        let bundle = decode(&Payload::from(wire.clone()), Profile::Strict, &Accel::default()).unwrap();
        let document = document(&bundle, 0);
        assert_eq!(document["source"], "ipn:1.1");
        let blocks = document["blocks"].as_array().unwrap();
        assert_eq!(blocks.len(), 4);
        let end = |block: &Value| block["offset"].as_u64().unwrap() + block["length"].as_u64().unwrap();
        // Each block begins where the one before ends, and the last ends before the final byte of the array.
        assert!(blocks.windows(2).all(|pair| end(&pair[0]) == pair[1]["offset"].as_u64().unwrap()));
        assert_eq!(end(&blocks[3]) as usize, wire.len() - 1);
        let text = explain(&bundle, 0);
        assert!(
            text.contains("hop count (type 10)") && text.contains("3 of 30") && text.contains("\"payload\""),
            "{text}"
        );
    }
}
