//! Encoding of beacons. They are sent in the format of dtn7-rs ("IPND-ng": the Internet draft draft-irtf-dtnrg-ipnd
//! with BPv7's endpoint IDs, in CBOR); the format of dtn7-go is read as well. The layout below is the one that the
//! program dtn7-rs writes; its documentation has the sequence number before the node ID:
//!
//! ```text
//! [7, flags, node ID, sequence number, ? [[* [layer, port]], {* tag => value}], ? period in seconds]
//! ```

use crate::cbor::{self, ARRAY, MAP, TEXT, UINT};
use crate::registry::{LAYERS, LayerInfo};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{Bytes, Duration, EndpointId, Payload, PayloadReader};

/// Longest beacon that is read, bytes: as long as the smallest IPv6 MTU, so that genuine beacons are never fragmented.
pub const BEACON_MAX: usize = 1280;
/// Most layers kept from one beacon.
const SERVICES_MAX: usize = 16;
/// Longest text that is read, bytes: a node name of 255 characters with the slashes around it.
const NAME_MAX: u64 = 258;

/// Version of the format; draft-irtf-dtnrg-ipnd itself has version 4.
const VERSION: u64 = 7;
/// Flag: the beacon has a node ID. Beacons without one are rejected.
const HAS_NODE_ID: u64 = 1;
/// Flag: the beacon lists layers.
const HAS_SERVICES: u64 = 1 << 1;
/// Flag: the beacon has a period.
const HAS_PERIOD: u64 = 1 << 2;

/// A convergence layer that a node serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AnnouncedService {
    /// Convergence layer that the node serves.
    pub layer: &'static LayerInfo,
    /// Port, at the source address of the beacon.
    pub port: u16,
}

/// One beacon: a node ID, the layers that the node serves, and the time between its beacons.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beacon {
    /// Node ID of the sender.
    pub node: EndpointId,
    /// Sequence number; `None` if the beacon came in dtn7-go's format.
    pub sequence: Option<u32>,
    /// Layers that the sender serves. A parsed beacon has only those that this node knows, too, at most 16.
    pub services: Vec<AnnouncedService>,
    /// Time between beacons; zero if the node is leaving, `None` if the beacon does not give it.
    pub period: Option<Duration>,
}

impl Beacon {
    /// Encodes the beacon; the period is rounded up to whole seconds.
    pub fn emit(&self) -> Vec<u8> {
        let (services, period) = (!self.services.is_empty(), self.period.is_some());
        let mut out = Vec::new();
        cbor::put(&mut out, ARRAY, 4 + u64::from(services) + u64::from(period));
        cbor::put(&mut out, UINT, VERSION);
        let flags = HAS_NODE_ID | if services { HAS_SERVICES } else { 0 } | if period { HAS_PERIOD } else { 0 };
        cbor::put(&mut out, UINT, flags);
        put_node_id(&mut out, &self.node);
        cbor::put(&mut out, UINT, self.sequence.unwrap_or_default().into());
        if services {
            cbor::put(&mut out, ARRAY, 2);
            cbor::put(&mut out, ARRAY, self.services.len() as u64);
            for service in &self.services {
                cbor::put(&mut out, ARRAY, 2);
                put_text(&mut out, service.layer.announced);
                cbor::put(&mut out, UINT, service.port.into());
            }
            cbor::put(&mut out, MAP, 0);
        }
        if let Some(period) = self.period {
            // A period rounded to zero would announce a departure.
            let more = u64::from(period.subsec_nanos() > 0);
            cbor::put(&mut out, UINT, period.as_secs().saturating_add(more));
        }
        out
    }

    /// Decodes a beacon of dtn7-rs, with its first fields in either order, or of dtn7-go.
    ///
    /// # Errors
    ///
    /// The reason why the datagram is not a usable beacon.
    pub fn parse(bytes: &[u8]) -> Result<Beacon, &'static str> {
        if bytes.len() > BEACON_MAX {
            return Err("longer than a beacon");
        }
        let rope = Payload::from(Bytes::copy_from_slice(bytes));
        let mut reader = rope.reader();
        let Some((ARRAY, Some(count))) = cbor::head(&mut reader) else { return Err("not an array") };
        let beacon = match cbor::peek(&reader).map(|byte| byte >> 5) {
            Some(UINT) => beacon(&mut reader, count),
            Some(ARRAY) => announcements(&mut reader, count),
            _ => Err("neither a version nor an announcement"),
        }?;
        // A datagram holds exactly one beacon.
        if reader.remaining() > 0 {
            return Err("bytes after its end");
        }
        Ok(beacon)
    }
}

/// Layer for a name used in beacons or in the registry; `None` if unknown.
fn announced(name: &str) -> Option<&'static LayerInfo> {
    LAYERS.iter().find(|layer| layer.announced == name).or_else(|| LayerInfo::named(name))
}

/// Decodes a beacon of dtn7-rs.
fn beacon(reader: &mut PayloadReader<'_>, count: u64) -> Result<Beacon, &'static str> {
    if !(4..=6).contains(&count) {
        return Err("not as long as a beacon");
    }
    if cbor::uint(reader) != Some(VERSION) {
        return Err("another version");
    }
    let flags = cbor::uint(reader).ok_or("no flags")?;
    if flags & HAS_NODE_ID == 0 {
        return Err("no node ID");
    }
    const NO_SEQUENCE: &str = "no sequence number";
    let sequence = |reader: &mut PayloadReader<'_>| u32::try_from(cbor::uint(reader)?).ok();
    let (node, sequence) = match cbor::peek(reader).map(|byte| byte >> 5) {
        // dtn7-rs documents the sequence number before the node ID, but writes it after.
        Some(UINT) => {
            let sequence = sequence(reader).ok_or(NO_SEQUENCE)?;
            (node_id(reader)?, sequence)
        }
        _ => (node_id(reader)?, sequence(reader).ok_or(NO_SEQUENCE)?),
    };
    let (services, period) = match count {
        // An array of five has either layers or a period; the flags show which.
        4 => (false, false),
        5 => (flags & HAS_SERVICES != 0, flags & HAS_SERVICES == 0),
        _ => (true, true),
    };
    let services = if services { service_block(reader).ok_or("layers that cannot be read")? } else { Vec::new() };
    let period = match period {
        true => Some(Duration::from_secs(cbor::uint(reader).ok_or("no period")?)),
        false => None,
    };
    Ok(Beacon { node, sequence: Some(sequence), services, period })
}

/// Decodes the layers; the map of other properties is skipped. `None` if the bytes are malformed.
fn service_block(reader: &mut PayloadReader<'_>) -> Option<Vec<AnnouncedService>> {
    let mut services = Vec::new();
    match cbor::head(reader)? {
        (ARRAY, Some(0)) => return Some(services),
        (ARRAY, Some(2)) => {}
        _ => return None,
    }
    let (ARRAY, Some(count)) = cbor::head(reader)? else { return None };
    for _ in 0..count {
        let (ARRAY, Some(2)) = cbor::head(reader)? else { return None };
        let layer = announced(&text(reader)?);
        // A service without a port holds `null` here.
        let port = match cbor::peek(reader)? >> 5 {
            UINT => Some(cbor::uint(reader)?),
            _ => cbor::skip(reader).map(|()| None)?,
        };
        push(&mut services, layer, port);
    }
    if cbor::peek(reader)? >> 5 != MAP {
        return None;
    }
    cbor::skip(reader)?;
    Some(services)
}

/// Adds a layer if this node knows it, its port is valid and there is room. A layer without a port gets its usual one.
fn push(services: &mut Vec<AnnouncedService>, layer: Option<&'static LayerInfo>, port: Option<u64>) {
    let Some(layer) = layer.filter(|_| services.len() < SERVICES_MAX) else { return };
    match port.map_or(Ok(layer.port), u16::try_from) {
        Ok(port) if port > 0 => services.push(AnnouncedService { layer, port }),
        _ => {}
    }
}

/// Decodes dtn7-go's format, `[* [layer, node ID, port]]`. Entries of nodes other than the first are ignored.
fn announcements(reader: &mut PayloadReader<'_>, count: u64) -> Result<Beacon, &'static str> {
    let mut said: Option<Beacon> = None;
    for _ in 0..count {
        let Some((ARRAY, Some(3))) = cbor::head(reader) else { return Err("not an announcement") };
        let number = cbor::uint(reader).ok_or("no layer")?;
        let node = node_id(reader)?;
        let port = cbor::uint(reader).ok_or("no port")?;
        let layer = LAYERS.iter().find(|layer| layer.announced_number == Some(number));
        let beacon = said.get_or_insert_with(|| Beacon {
            node: node.clone(),
            sequence: None,
            services: Vec::new(),
            period: None,
        });
        if beacon.node == node {
            push(&mut beacon.services, layer, Some(port));
        }
    }
    said.ok_or("nothing announced")
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    cbor::put(out, TEXT, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Encodes a node ID as in RFC 9171 4.2.5.1, an ipn node number and service number as two numbers (RFC 9758 5).
fn put_node_id(out: &mut Vec<u8>, node: &EndpointId) {
    cbor::put(out, ARRAY, 2);
    match node {
        EndpointId::Ipn { node, service } => {
            cbor::put(out, UINT, 2);
            cbor::put(out, ARRAY, 2);
            cbor::put(out, UINT, *node);
            cbor::put(out, UINT, (*service).into());
        }
        other => {
            cbor::put(out, UINT, 1);
            put_text(out, format!("{other}").strip_prefix("dtn:").unwrap_or_default());
        }
    }
}

/// Decodes a node ID. Endpoint IDs of services, and the local node (`ipn:!`), are errors.
fn node_id(reader: &mut PayloadReader<'_>) -> Result<EndpointId, &'static str> {
    const NONE: &str = "a node ID that cannot be read";
    let Some((ARRAY, Some(2))) = cbor::head(reader) else { return Err(NONE) };
    let node = match cbor::uint(reader) {
        Some(1) => text(reader).and_then(|part| format!("dtn:{part}").parse().ok()),
        Some(2) => ipn(reader),
        _ => None,
    };
    let node: EndpointId = node.ok_or(NONE)?;
    // 9758-5.4-6
    if !node.is_node_id() || node.is_here() {
        return Err("an endpoint that is no node");
    }
    Ok(node)
}

fn ipn(reader: &mut PayloadReader<'_>) -> Option<EndpointId> {
    let (ARRAY, Some(count)) = cbor::head(reader)? else { return None };
    let node = match count {
        2 => cbor::uint(reader)?,
        3 => {
            let (allocator, node) = (cbor::uint(reader)?, cbor::uint(reader)?);
            u64::from(u32::try_from(allocator).ok()?) << 32 | u64::from(u32::try_from(node).ok()?)
        }
        _ => return None,
    };
    let service = u32::try_from(cbor::uint(reader)?).ok()?;
    Some(EndpointId::ipn(node, service))
}

/// Decodes a text of at most [`NAME_MAX`] bytes.
fn text(reader: &mut PayloadReader<'_>) -> Option<String> {
    let text = cbor::string(reader, TEXT).filter(|text| text.len() <= NAME_MAX)?;
    String::from_utf8(text.to_bytes()?.to_vec()).ok()
}
