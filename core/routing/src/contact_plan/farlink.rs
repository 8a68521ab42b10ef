//! Farlink's contact-plan dialect, one statement per line:
//!
//! ```text
//! epoch 2026-11-20T09:00:00Z             # time of +0; without it the plan starts with the node
//! node earth ipn:1.0                     # a name for a node
//! node mars 3
//! contact earth mars link=ka +0..+3600 rate 2 Mbit/s delay 600 s
//! contact earth mars link=laser 2026-11-20T10:00:00Z..+30min rate 100 Mbit/s delay 600 s confidence 0.8
//! contact 3 1 +0..+3600 rate 64 kbit/s delay 10 min
//! contact earth 4 both +0..+1d rate 1 Gbit/s
//! ```
//!
//! Times: `+s` counts seconds from the epoch (units may follow: `+1h30min`); UTC as
//! `2026-11-20T09:00:00Z` or ION's `2026/11/20-09:00:00`. After a UTC start, `..+30min` is the
//! length of the contact. `link` names one of several links joining the pair, `both` adds the
//! contact back, `delay` is the one-way light time (0 when not given).

use super::text::{self, RawContact, When, decimal_seconds, format_seconds, parse_node, parse_seconds, shorten};
use super::{ContactPlan, Dialect, Parsed, PlanError, nanoseconds};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use farlink_base::{DataRate, DtnTime, Duration, NodeId, nearest_name};

/// First words of lines.
pub(super) const KEYWORDS: [&str; 3] = ["contact", "epoch", "node"];
/// Properties of a contact, after its nodes.
const FIELDS: [&str; 5] = ["link", "rate", "delay", "confidence", "both"];
const EXAMPLE: &str = "for example `contact 1 2 +0..+3600 rate 2 Mbit/s delay 600 s`";

/// Parses a plan.
///
/// # Errors
/// The first line that cannot be parsed.
pub fn parse(text: &str) -> Result<Parsed, PlanError> {
    parse_with(text, &|_| None)
}

/// Parses a plan; `resolve` finds nodes by names that the file does not declare.
///
/// # Errors
/// The first line that cannot be parsed.
pub fn parse_with(text: &str, resolve: &dyn Fn(&str) -> Option<NodeId>) -> Result<Parsed, PlanError> {
    let mut reader =
        FarlinkReader { epoch: None, names: Vec::new(), by_name: BTreeMap::new(), contacts: Vec::new(), resolve };
    for (line, content) in text::lines(text) {
        let mut words = content.split_whitespace();
        match words.next() {
            None => {}
            Some("epoch") => reader.epoch(line, words.next())?,
            Some("node") => reader.name(line, words.next(), words.next())?,
            Some("contact") => reader.contact(line, content)?,
            Some(other) => {
                let near = nearest_name(other, KEYWORDS.into_iter());
                return Err(PlanError {
                    line,
                    message: format!("`{}` begins no line of a contact plan", shorten(other)),
                    hint: near.map_or_else(|| EXAMPLE.into(), |n| format!("did you mean `{n}`?")),
                });
            }
        }
    }
    let (plan, lines) = text::finish(reader.epoch, reader.contacts)?;
    let (warnings, without_range) = (Vec::new(), Vec::new());
    Ok(Parsed { plan, dialect: Dialect::Farlink, names: reader.names, lines, warnings, without_range })
}

struct FarlinkReader<'a> {
    epoch: Option<DtnTime>,
    names: Vec<(String, NodeId)>,
    by_name: BTreeMap<String, NodeId>,
    contacts: Vec<RawContact>,
    resolve: &'a dyn Fn(&str) -> Option<NodeId>,
}

/// Properties on a contact line.
#[derive(Default)]
struct ContactFields<'a> {
    window: Option<&'a str>,
    link: Option<String>,
    rate: Option<String>,
    delay: Option<String>,
    confidence: Option<String>,
    both: bool,
}

impl FarlinkReader<'_> {
    fn epoch(&mut self, line: u32, word: Option<&str>) -> Result<(), PlanError> {
        let word = word.unwrap_or("");
        let time = DtnTime::parse_utc(word).ok_or_else(|| PlanError {
            line,
            message: format!("`{}` is not a wall time", shorten(word)),
            hint: "write `epoch 2026-11-20T09:00:00Z`".into(),
        })?;
        // Two epochs would give earlier lines another meaning.
        if self.epoch.replace(time).is_some() {
            return Err(PlanError { line, message: "a second epoch".into(), hint: "keep one `epoch` line".into() });
        }
        Ok(())
    }

    fn name(&mut self, line: u32, name: Option<&str>, node: Option<&str>) -> Result<(), PlanError> {
        let wrong = |message: String| PlanError { line, message, hint: "write `node mars ipn:3.0`".into() };
        let (Some(name), Some(text)) = (name, node) else {
            return Err(wrong("`node` wants a name and a node number or EID".into()));
        };
        let known = parse_node(text).or_else(|| (self.resolve)(text));
        let node = known.ok_or_else(|| wrong(format!("`{}` is not a node number or ipn EID", shorten(text))))?;
        // A name must not shadow a node number.
        if parse_node(name).is_some() || self.by_name.contains_key(name) {
            return Err(wrong(format!("`{}` already stands for a node", shorten(name))));
        }
        self.names.push((name.to_string(), node));
        self.by_name.insert(name.to_string(), node);
        Ok(())
    }

    fn node(&self, line: u32, word: Option<&str>) -> Result<NodeId, PlanError> {
        let Some(word) = word else {
            return Err(PlanError { line, message: "`contact` wants two nodes".into(), hint: EXAMPLE.into() });
        };
        let named = self.by_name.get(word).copied();
        named.or_else(|| parse_node(word)).or_else(|| (self.resolve)(word)).ok_or_else(|| {
            let near = nearest_name(word, self.names.iter().map(|(name, _)| name.as_str()));
            let word = shorten(word);
            PlanError {
                line,
                message: format!("`{word}` is not a node"),
                hint: match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("declare it first: `node {word} ipn:3.0`; or write its number"),
                },
            }
        })
    }

    fn contact(&mut self, line: u32, content: &str) -> Result<(), PlanError> {
        // Spaces around `..` are allowed: remove them before splitting into words.
        let mut closed = String::with_capacity(content.len());
        for (index, part) in content.split("..").enumerate() {
            if index > 0 {
                closed.push_str("..");
            }
            let part = if index > 0 { part.trim_start() } else { part };
            closed.push_str(part.trim_end());
        }
        let mut words = closed.split_whitespace().skip(1);
        let (from, to) = (self.node(line, words.next())?, self.node(line, words.next())?);
        let fields = fields(line, words)?;
        let window = fields.window.ok_or_else(|| PlanError {
            line,
            message: "this contact has no time span".into(),
            hint: EXAMPLE.into(),
        })?;
        let (start, end) = window_times(line, window)?;
        let rate = fields.rate.as_deref().ok_or_else(|| PlanError {
            line,
            message: "this contact has no rate".into(),
            hint: EXAMPLE.into(),
        })?;
        let rate: DataRate = rate.parse().map_err(|_| PlanError {
            line,
            message: format!("`{}` is not a data rate", shorten(rate)),
            hint: "write it with its unit: `rate 2 Mbit/s` or `rate 250 kB/s`".into(),
        })?;
        let contact = RawContact {
            line,
            from,
            to,
            link: fields.link,
            start,
            end,
            rate,
            one_way_delay: delay(line, fields.delay.as_deref())?,
            confidence: confidence(line, fields.confidence.as_deref())?,
        };
        // The contact back follows its original, in the order of the file.
        if fields.both {
            self.contacts.push(RawContact { from: to, to: from, ..contact.clone() });
            let last = self.contacts.len() - 1;
            self.contacts.insert(last, contact);
        } else {
            self.contacts.push(contact);
        }
        Ok(())
    }
}

fn delay(line: u32, text: Option<&str>) -> Result<Duration, PlanError> {
    let Some(text) = text else { return Ok(Duration::ZERO) };
    let unit = text.contains(char::is_alphabetic);
    // A bare number would be ambiguous: seconds here, milliseconds elsewhere.
    let parsed = if unit { parse_seconds(text) } else { None };
    parsed.map(Duration::from_nanos).ok_or_else(|| PlanError {
        line,
        message: format!("`{}` is not a delay", shorten(text)),
        hint: "write it with its unit: `delay 600 s` or `delay 270 ms`".into(),
    })
}

fn confidence(line: u32, text: Option<&str>) -> Result<f64, PlanError> {
    let Some(text) = text else { return Ok(1.0) };
    text.parse().ok().filter(|c| (0.0..=1.0).contains(c)).ok_or_else(|| PlanError {
        line,
        message: format!("`{}` is not a confidence", shorten(text)),
        hint: "a number from 0 to 1, such as `confidence 0.9`".into(),
    })
}

fn fields<'a>(line: u32, words: impl Iterator<Item = &'a str>) -> Result<ContactFields<'a>, PlanError> {
    let mut fields = ContactFields::default();
    let mut current: Option<&str> = None;
    for word in words {
        let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
        if word.contains("..") && value.is_none() {
            if fields.window.replace(word).is_some() {
                let hint = "write one contact a line".into();
                return Err(PlanError { line, message: "a second time span".into(), hint });
            }
            current = None;
        } else if FIELDS.contains(&key) && (value.is_some() || current != Some("link") || fields.link.is_some()) {
            // After `link`, a word such as `rate` may be the link's name.
            fields.both |= key == "both";
            current = (key != "both").then_some(key);
            if let Some(value) = value {
                push_value(line, &mut fields, key, value)?;
            }
        } else if let Some(key) = current {
            push_value(line, &mut fields, key, word)?;
        } else {
            let near = nearest_name(key, FIELDS.into_iter());
            return Err(PlanError {
                line,
                message: format!("`{}` is not a property of a contact", shorten(word)),
                hint: near.map_or_else(|| EXAMPLE.into(), |n| format!("did you mean `{n}`?")),
            });
        }
    }
    Ok(fields)
}

fn push_value(line: u32, fields: &mut ContactFields<'_>, key: &str, word: &str) -> Result<(), PlanError> {
    let slot = match key {
        "link" => &mut fields.link,
        "rate" => &mut fields.rate,
        "delay" => &mut fields.delay,
        "confidence" => &mut fields.confidence,
        _ => return Err(PlanError { line, message: format!("`{key}` takes no value"), hint: EXAMPLE.into() }),
    };
    match slot {
        None => *slot = Some(word.to_string()),
        // Other values may have a unit behind a space; a link's name may not.
        Some(_) if key == "link" => {
            let hint = "names of links have no blanks".into();
            return Err(PlanError { line, message: format!("`{}` after the link's name", shorten(word)), hint });
        }
        Some(value) => {
            value.push(' ');
            value.push_str(word);
        }
    }
    Ok(())
}

fn window_times(line: u32, window: &str) -> Result<(When, When), PlanError> {
    let wrong = |word: &str| PlanError {
        line,
        message: format!("`{}` is not a time", shorten(word)),
        hint: "write `+0..+3600`, `+1h..+2h` or `2026-11-20T09:00:00Z..+30min`".into(),
    };
    let one = |word: &str| -> Result<When, PlanError> {
        // Plain numbers are offsets too.
        let plain = word.strip_prefix('+').unwrap_or(word);
        if let Some(offset) = parse_seconds(plain) {
            return Ok(When::after_epoch(offset));
        }
        DtnTime::parse_utc(word).map(When::utc).ok_or_else(|| wrong(word))
    };
    let (start, end) = window.split_once("..").ok_or_else(|| wrong(window))?;
    let start = one(start)?;
    let end = match (start.base, one(end)?) {
        // After a UTC start, `+s` is the length of the contact.
        (Some(base), When { base: None, offset_ns }) => When { base: Some(base), offset_ns },
        (_, end) => end,
    };
    Ok((start, end))
}

/// Writes a plan so that it parses to the same plan. `names` are node names.
pub fn emit(plan: &ContactPlan, names: &[(String, NodeId)]) -> String {
    let mut text = String::from("# contact plan, written by farlink\n");
    if let Some(epoch) = plan.epoch {
        let _ = writeln!(text, "epoch {epoch}");
    }
    // Nodes with a dtn name are written by that name and need no `node` line.
    for (name, node) in names.iter().filter(|(_, node)| !node.is_named()) {
        let _ = writeln!(text, "node {name} {}", node.0);
    }
    // Reversed, so that the first name of a node overwrites later ones.
    let by_node: BTreeMap<NodeId, &str> = names.iter().rev().map(|(name, node)| (*node, name.as_str())).collect();
    let name = |node: NodeId| by_node.get(&node).map_or_else(|| node.0.to_string(), |name| name.to_string());
    for contact in &plan.contacts {
        let _ = write!(text, "contact {} {}", name(contact.from), name(contact.to));
        if let Some(link) = &contact.link {
            let _ = write!(text, " link={link}");
        }
        // Offsets from the epoch are exact, unlike wall time in whole milliseconds.
        let (start, end) = (decimal_seconds(contact.start.0), decimal_seconds(contact.end.0));
        let _ = write!(text, " +{start}..+{end} rate {}", exact_rate(contact.rate));
        if !contact.one_way_delay.is_zero() {
            let _ = write!(text, " delay {}", format_seconds(nanoseconds(contact.one_way_delay)));
        }
        if contact.confidence < 1.0 {
            let _ = write!(text, " confidence {}", contact.confidence);
        }
        text.push('\n');
    }
    text
}

/// Writes a rate in the largest unit that keeps it exact.
fn exact_rate(rate: DataRate) -> String {
    for (unit, name) in [(1_000_000_000, "Gbit/s"), (1_000_000, "Mbit/s"), (1000, "kbit/s")] {
        if rate.0 > 0 && rate.0.is_multiple_of(unit) {
            return format!("{} {name}", rate.0 / unit);
        }
    }
    format!("{} bit/s", rate.0)
}

#[cfg(test)]
mod tests {
    use super::super::PlanTime;
    use super::*;

    const SAMPLE: &str = "epoch 2026-11-20T09:00:00Z\nnode earth ipn:1.0\nnode mars 3 # red\n\
        contact earth mars link=ka +0..+3600 rate 2 Mbit/s delay 600 s\n\
        contact earth mars link=laser 2026-11-20T10:00:00Z..+30min rate 100 Mbit/s delay 600 s confidence 0.8\n\
        contact 3 1 +0s .. 2026/11/20-10:00:00 delay 10 min rate=64 kbit/s\n\
        contact earth 4 both +1h30min..+1d rate 1 Gbit/s link laser\n";

    #[test]
    fn the_sample_reads_as_documented() {
        let parsed = parse(SAMPLE).unwrap();
        let contacts = &parsed.plan.contacts;
        assert_eq!(contacts.len(), 5);
        assert_eq!((contacts[0].from, contacts[0].to), (NodeId(1), NodeId(3)));
        assert_eq!(contacts[0].link.as_deref(), Some("ka"));
        // UTC times count from the epoch of the sample.
        assert_eq!(contacts[1].start, PlanTime::from_secs(3600));
        assert_eq!(contacts[1].end, PlanTime::from_secs(5400));
        assert_eq!(contacts[1].confidence, 0.8);
        assert_eq!(contacts[2].one_way_delay, Duration::from_secs(600));
        assert_eq!(contacts[2].end, PlanTime::from_secs(3600));
        assert_eq!(contacts[2].rate, DataRate(64_000));
        assert_eq!(contacts[3].start, PlanTime::from_secs(5400));
        assert_eq!((contacts[3].from, contacts[4].from), (NodeId(1), NodeId(4)));
        assert_eq!(contacts[4].link.as_deref(), Some("laser"));
        assert_eq!(parsed.lines, [4, 5, 6, 7, 7]);
        assert_eq!(parsed.node("mars"), Some(NodeId(3)));
    }

    #[test]
    fn earliest_wall_time_is_default_epoch() {
        let plan = parse("contact 1 2 2026-11-20T09:00:00Z..+3600s rate 2 Mbit/s").unwrap().plan;
        assert_eq!(plan.epoch, DtnTime::parse_utc("2026-11-20T09:00:00Z"));
        assert_eq!(plan.contacts[0].end, PlanTime::from_secs(3600));
        assert_eq!(parse("contact 1 2 0..5 rate 1 bit/s").unwrap().plan.epoch, None);
    }

    #[test]
    fn errors_name_line_and_hint() {
        for (text, line, hint) in [
            ("contct 1 2", 1, "contact"),
            ("\ncontact 1", 2, "for example"),
            ("node earth 1\ncontact erth 2 0..5 rate 1 bit/s", 2, "earth"),
            ("contact 1 2 rate 1 bit/s", 1, "for example"),
            ("contact 1 2 +0..+5", 1, "for example"),
            ("contact 1 2 +0..+5 rate 5", 1, "unit"),
            ("contact 1 2 +0..noon rate 5 bit/s", 1, "+0..+3600"),
            ("contact 1 2 +0..+5 rat 5 bit/s", 1, "rate"),
            ("contact 1 2 +0..+5 rate 5 bit/s delay 5", 1, "unit"),
            ("contact 1 2 +0..+5 rate 5 bit/s confidence 2", 1, "0 to 1"),
            ("contact 1 2 +0..+5 +6..+7 rate 5 bit/s", 1, "a line"),
            ("contact 1 2 both=yes +6..+7 rate 5 bit/s", 1, "for example"),
            ("contact 1 2 link=a b +6..+7 rate 5 bit/s", 1, "blanks"),
            ("epoch soon", 1, "epoch 2026"),
            ("node 1 2", 1, "node mars"),
            ("contact 1 2 2026-11-20T09:00:00Z..+5 rate 5 bit/s\ncontact 1 2 0..1 rate 5 bit/s", 2, "epoch"),
            ("epoch 2026-11-20T09:00:01Z\ncontact 1 2 2026-11-20T09:00:00Z..+5 rate 5 bit/s", 2, "earlier"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.hint.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn names_of_others_resolve() {
        let resolve = |name: &str| (name == "dtn://rover/").then_some(NodeId::named("rover"));
        let parsed = parse_with("contact dtn://rover/ 2 0..5 rate 1 bit/s", &resolve).unwrap();
        assert_eq!(parsed.plan.contacts[0].from, NodeId::named("rover"));
    }

    #[test]
    fn dtn_names_are_written_unchanged() {
        let text = "contact dtn://rover/ 2 0..5 rate 1 bit/s";
        let parsed = parse(text).unwrap();
        assert_eq!(parsed.plan.contacts[0].from, NodeId::named("rover"));
        let again = parse(&emit(&parsed.plan, &[("dtn://rover/".into(), NodeId::named("rover"))])).unwrap();
        assert_eq!(again.plan, parsed.plan);
    }

    #[test]
    fn what_is_emitted_reads_back() {
        let parsed = parse(SAMPLE).unwrap();
        let emitted = emit(&parsed.plan, &parsed.names);
        let again = parse(&emitted).unwrap();
        assert_eq!(again.plan, parsed.plan, "{emitted}");
        assert_eq!(again.names, parsed.names);
    }
}
