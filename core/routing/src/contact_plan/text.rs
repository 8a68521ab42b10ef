//! Syntax shared by both dialects: nodes, times, durations, and the choice of an epoch.

use super::{Contact, ContactPlan, PlanError, PlanTime};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use farlink_base::{DataRate, DtnTime, Duration, EndpointId, NodeId};

/// Numbered lines without comments and surrounding spaces; a byte-order mark is skipped.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines().zip(1u32..).map(|(line, number)| (number, line.split('#').next().unwrap_or("").trim()))
}

/// Shortens a word for messages, to at most 40 characters.
pub(crate) fn shorten(word: &str) -> String {
    if word.chars().count() <= 40 { word.to_string() } else { word.chars().take(37).chain("...".chars()).collect() }
}

/// Parses a node: a number (`3`), an ipn endpoint ID (`ipn:3`, `ipn:3.0`, `ipn:977000.3.0`; RFC 9758), or a dtn one
/// (`dtn://mars/`).
pub fn parse_node(text: &str) -> Option<NodeId> {
    let number = |part: &str| -> Option<u64> {
        (!part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())).then(|| part.parse().ok())?
    };
    if text.starts_with("dtn://") {
        let id: EndpointId = text.parse().ok()?;
        return Some(id.node()).filter(|node| *node != NodeId::NULL);
    }
    let Some(rest) = text.strip_prefix("ipn:") else {
        return number(text).filter(|n| *n < NodeId::NAMED).map(NodeId::ipn);
    };
    let mut parts = rest.split('.');
    let (first, second, third) = (parts.next()?, parts.next(), parts.next());
    if parts.next().is_some() {
        return None;
    }
    let whole = match (second, third) {
        // Three parts: allocator, node and service (RFC 9758).
        (Some(node), Some(_service)) => {
            let (allocator, node) = (number(first)?, number(node)?);
            (allocator <= 0x7fff_ffff && node <= 0xffff_ffff).then_some(allocator << 32 | node)?
        }
        _ => number(first)?,
    };
    if let Some(service) = third.or(second) {
        number(service)?;
    }
    (whole < NodeId::NAMED).then_some(NodeId::ipn(whole))
}

/// Parses `90`, `1.5` (seconds), `90s`, `1h30min` or `600 ms` to nanoseconds, exactly; fractions of a nanosecond are
/// dropped.
pub fn parse_seconds(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total = 0u64;
    let mut plain = false;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (whole, fraction) = rest[..digits].split_once('.').unwrap_or((&rest[..digits], ""));
        // A part after a number without a unit would be ambiguous.
        if plain || (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let after = rest[digits..].trim_start();
        let unit_end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let unit: u64 = match &after[..unit_end] {
            "" => {
                plain = true;
                1_000_000_000
            }
            "ns" => 1,
            "us" | "µs" | "μs" => 1000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return None,
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        // From the last digit, so that what one step drops cannot reach a nanosecond in the next, however many digits.
        let part = fraction.bytes().rev().fold(0, |less, digit| (u64::from(digit - b'0') * unit + less) / 10);
        total = total.checked_add(whole.checked_mul(unit)?.checked_add(part)?)?;
        rest = after[unit_end..].trim_start();
    }
    // A bare number must stand alone: "1 h 30" is ambiguous.
    (!plain || !text.trim().contains(char::is_alphabetic)).then_some(total)
}

/// Writes a duration in seconds without loss: "600 s", "1.5 s".
pub fn format_seconds(nanoseconds: u64) -> String {
    format!("{} s", decimal_seconds(nanoseconds))
}

/// Seconds with as many decimals as needed.
pub fn decimal_seconds(nanoseconds: u64) -> String {
    let (whole, fraction) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    if fraction == 0 {
        return whole.to_string();
    }
    format!("{whole}.{}", format!("{fraction:09}").trim_end_matches('0'))
}

/// A time as written: an offset from a wall time, or from the epoch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct When {
    pub base: Option<DtnTime>,
    pub offset_ns: u64,
}
impl When {
    pub fn utc(time: DtnTime) -> When {
        When { base: Some(time), offset_ns: 0 }
    }
    pub fn after_epoch(offset_ns: u64) -> When {
        When { base: None, offset_ns }
    }
}

/// A contact whose epoch is not known yet.
#[derive(Clone, Debug)]
pub(super) struct RawContact {
    pub line: u32,
    pub from: NodeId,
    pub to: NodeId,
    pub link: Option<String>,
    pub start: When,
    pub end: When,
    pub rate: DataRate,
    pub one_way_delay: Duration,
    pub confidence: f64,
}

/// Chooses the epoch: the declared one, else the earliest wall time used, else none.
pub(super) fn choose_epoch(
    declared: Option<DtnTime>,
    times: &mut dyn Iterator<Item = (u32, When)>,
) -> Result<Option<DtnTime>, PlanError> {
    if declared.is_some() {
        return Ok(declared);
    }
    // Only a plan in wall time chooses its epoch; offsets in the same plan would be ambiguous without a declared one.
    let (mut earliest, mut relative) = (None::<DtnTime>, None);
    for (line, when) in times {
        match when.base {
            Some(base) => earliest = Some(earliest.map_or(base, |e| e.min(base))),
            None => relative = relative.or(Some(line)),
        }
    }
    match (earliest, relative) {
        (Some(_), Some(line)) => Err(PlanError {
            line,
            message: "a time counted from the epoch, in a plan that uses wall time but declares no epoch".into(),
            hint: "declare it first: `epoch 2026-11-20T09:00:00Z` (ION: `@ 2026/11/20-09:00:00`)".into(),
        }),
        (epoch, _) => Ok(epoch),
    }
}

/// Converts a time to the plan's scale.
pub(super) fn on_plan(epoch: Option<DtnTime>, when: When, line: u32) -> Result<PlanTime, PlanError> {
    let (Some(base), Some(epoch)) = (when.base, epoch) else { return Ok(PlanTime(when.offset_ns)) };
    if base < epoch {
        return Err(PlanError {
            line,
            message: format!("{base} is before the epoch, {epoch}"),
            hint: "declare an earlier epoch".into(),
        });
    }
    let since_epoch = (base.0 - epoch.0).saturating_mul(1_000_000);
    Ok(PlanTime(since_epoch.saturating_add(when.offset_ns)))
}

/// Converts all contacts to the plan's scale; returns them with their lines.
pub(super) fn finish(declared: Option<DtnTime>, raw: Vec<RawContact>) -> Result<(ContactPlan, Vec<u32>), PlanError> {
    let mut times = raw.iter().flat_map(|c| [(c.line, c.start), (c.line, c.end)]);
    let epoch = choose_epoch(declared, &mut times)?;
    let mut plan = ContactPlan { epoch, contacts: Vec::with_capacity(raw.len()) };
    let mut lines = Vec::with_capacity(raw.len());
    for contact in raw {
        lines.push(contact.line);
        plan.contacts.push(Contact {
            from: contact.from,
            to: contact.to,
            link: contact.link,
            start: on_plan(epoch, contact.start, contact.line)?,
            end: on_plan(epoch, contact.end, contact.line)?,
            rate: contact.rate,
            one_way_delay: contact.one_way_delay,
            confidence: contact.confidence,
        });
    }
    Ok((plan, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbers_or_ipn_eids() {
        for (text, node) in [("3", 3), ("0", 0), ("ipn:3", 3), ("ipn:3.0", 3), ("ipn:1.3.0", (1 << 32) | 3)] {
            assert_eq!(parse_node(text), Some(NodeId(node)), "{text}");
        }
        // Signs, missing parts and numbers beyond 64 bits.
        for bad in ["", "earth", "-1", "+1", "ipn:", "ipn:3.", "ipn:3.x", "ipn:1.2.3.4", "18446744073709551615"] {
            assert_eq!(parse_node(bad), None, "{bad}");
        }
    }

    #[test]
    fn seconds_are_exact() {
        for (text, ns) in [
            ("90", 90_000_000_000),
            ("1.5", 1_500_000_000),
            ("0.000000001", 1),
            ("86400.123456789s", 86_400_123_456_789),
            ("1h30min", 5_400_000_000_000),
            ("1 h 30 min", 5_400_000_000_000),
            ("600 ms", 600_000_000),
            ("0.000000000001 d", 86),
            ("0.999999999999999 d", 86_399_999_999_999),
            ("0.3333333333333333333333333333333333 h", 1_199_999_999_999),
            ("1.123456789012345 h", 4_044_444_440_444),
            ("0.9999999999 ns", 0),
        ] {
            assert_eq!(parse_seconds(text), Some(ns), "{text}");
        }
        for bad in ["", "s", "1.2.3", "-1", "1x", "99999999999999", "1 h 30", "1 2", "."] {
            assert_eq!(parse_seconds(bad), None, "{bad}");
        }
        for ns in [0, 1, 1_000_000_000, 1_500_000_000, u64::MAX] {
            assert_eq!(parse_seconds(&format_seconds(ns)), Some(ns));
        }
    }
}
