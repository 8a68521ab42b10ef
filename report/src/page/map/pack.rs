//! Encoding of integer columns: little-endian bytes in base64, in one JSON object.

use super::gather::{Knot, Meeting, NOBODY, Play, StoreFill, Trip};
use super::ways::CopyStep;
use serde_json::{Value, json};

/// Renders the data for the script. Angle brackets and `&` are escaped, so that no name can end the script element.
pub fn json(play: &Play) -> String {
    let value = json!({
        "duration": play.duration_s,
        "tick": play.tick_s(),
        "extent": play.extent,
        "names": play.names,
        "ways": ways(&play.ways),
        "meetings": meetings(&play.meetings),
        "fills": fills(&play.fills),
        "bundles": bundles(&play.bundles),
        "steps": steps(&play.steps),
        "created": play.created,
    });
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn ways(nodes: &[Vec<Knot>]) -> Value {
    let all = || nodes.iter().flatten();
    json!({
        "counts": counts(nodes),
        "t": wide(all().map(|knot| knot.tick)),
        "x": narrow(all().map(|knot| knot.x)),
        "y": narrow(all().map(|knot| knot.y)),
    })
}
fn meetings(all: &[Meeting]) -> Value {
    json!({
        "start": wide(all.iter().map(|meeting| meeting.start)),
        "end": wide(all.iter().map(|meeting| meeting.end)),
        "a": narrow(all.iter().map(|meeting| meeting.nodes[0])),
        "b": narrow(all.iter().map(|meeting| meeting.nodes[1])),
    })
}
fn fills(nodes: &[Vec<StoreFill>]) -> Value {
    let all = || nodes.iter().flatten();
    json!({
        "counts": counts(nodes),
        "t": wide(all().map(|fill| fill.tick)),
        "v": base64(all().map(|fill| fill.share)),
    })
}
fn bundles(all: &[Trip]) -> Value {
    json!({
        "created": wide(all.iter().map(|trip| trip.created)),
        "delivered": wide(all.iter().map(|trip| trip.delivered.unwrap_or(u32::MAX))),
        "from": narrow(all.iter().map(|trip| trip.from)),
        "to": narrow(all.iter().map(|trip| trip.to)),
    })
}
fn steps(bundles: &[Vec<CopyStep>]) -> Value {
    let all = || bundles.iter().flatten();
    json!({
        "counts": counts(bundles),
        "t": wide(all().map(|step| step.tick)),
        "node": narrow(all().map(|step| step.node)),
        "from": narrow(all().map(|step| step.from.unwrap_or(NOBODY))),
        "kind": base64(all().map(|step| step.kind as u8)),
    })
}

fn counts<T>(lists: &[Vec<T>]) -> String {
    wide(lists.iter().map(|list| list.len() as u32))
}
fn wide(numbers: impl Iterator<Item = u32>) -> String {
    base64(numbers.flat_map(u32::to_le_bytes))
}
fn narrow(numbers: impl Iterator<Item = u16>) -> String {
    base64(numbers.flat_map(u16::to_le_bytes))
}

/// Encodes bytes in base64 (RFC 4648 section 4).
pub fn base64(mut bytes: impl Iterator<Item = u8>) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    while let Some(first) = bytes.next() {
        let (second, third) = (bytes.next(), bytes.next());
        let bits = u32::from(first) << 16 | u32::from(second.unwrap_or(0)) << 8 | u32::from(third.unwrap_or(0));
        let letter = |shift: u32| char::from(LETTERS[(bits >> shift & 63) as usize]);
        out.extend([letter(18), letter(12)]);
        out.push(if second.is_some() { letter(6) } else { '=' });
        out.push(if third.is_some() { letter(0) } else { '=' });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_matches_rfc_4648() {
        // Test vectors of RFC 4648 section 10.
        let of = |text: &str| base64(text.bytes());
        assert_eq!(
            ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(of),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]
        );
        assert_eq!(wide([1, 0x0403_0201].into_iter()), base64([1, 0, 0, 0, 1, 2, 3, 4].into_iter()));
        assert_eq!(narrow([0x0201, NOBODY].into_iter()), base64([1, 2, 255, 255].into_iter()));
    }
}
