//! ION's dialect: the contact-plan commands of `ionadmin`.
//!
//! ```text
//! @ 2026/11/20-09:00:00                  # time of +0 from here on
//! a contact +0 +3600 1 2 250000 1.0      # start, end, from, to, bytes per second, confidence
//! a range   +0 +3600 1 2 600             # start, end, one node, other node, light seconds
//! ```
//!
//! A range from a smaller to a larger node number holds in both directions unless the reverse is given. Other
//! commands are skipped with a warning, and so are contacts that give no transmission window between two nodes:
//! registrations (time `-1`), hypothetical ones (time `0`), those of a node with itself, and those whose start no range
//! covers: ION uses no contact without a range. A misspelt `a contact` or `a range` is an error.

use super::text::{self, RawContact, When, parse_node, parse_seconds, shorten};
use super::{Contact, ContactPlan, Dialect, Parsed, PlanError, PlanTime, Warning, nanoseconds};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use farlink_base::{DataRate, DtnTime, Duration, NodeId, nearest_name};

/// One-letter commands that a file for `ionadmin` may begin with.
pub(super) const COMMANDS: &str = "!1?abcdehilmpqrstvwx@^";

/// Assumed length of an interval whose end is unknown: ten years, longer than any run.
const OPEN_END_NS: u64 = 3650 * 86_400 * 1_000_000_000;

struct Range {
    start: When,
    end: When,
    delay: Duration,
}

/// Start, end and light time of the ranges of each pair.
type RangeTable = BTreeMap<(NodeId, NodeId), Vec<(PlanTime, PlanTime, Duration)>>;

#[derive(Default)]
struct IonReader {
    reference: Option<DtnTime>,
    reference_offset_ns: u64,
    contacts: Vec<RawContact>,
    ranges: BTreeMap<(NodeId, NodeId), Vec<(u32, Range)>>,
    warnings: Vec<Warning>,
    skipped: BTreeMap<String, (u32, u32)>,
}

/// Parses a plan.
///
/// # Errors
/// The first `a contact`, `a range` or `@` line that cannot be parsed, or that is a misspelt one.
pub fn parse(text: &str) -> Result<Parsed, PlanError> {
    let mut reader = IonReader::default();
    for (line, content) in text::lines(text) {
        // No command that is read has more words.
        let words: Vec<&str> = content.split_whitespace().take(16).collect();
        match words[..] {
            [] => {}
            // `@ 0` is the time at which the plan is read.
            ["@", "0"] => (reader.reference, reader.reference_offset_ns) = (None, 0),
            ["@", time] => reader.set_reference(line, time)?,
            ["a", "contact", ref rest @ ..] => reader.contact(line, rest)?,
            ["a", "range", ref rest @ ..] => reader.range(line, rest)?,
            [command, ref rest @ ..] => {
                let noun = rest.first().copied().unwrap_or("");
                if let Some(error) = misspelt(line, command, noun) {
                    return Err(error);
                }
                let kind =
                    if matches!(command, "a" | "d" | "c") { format!("{command} {noun}") } else { command.into() };
                // One warning per kind of command, at its first line.
                reader.skipped.entry(shorten(kind.trim())).or_insert((line, 0)).1 += 1;
            }
        }
    }
    reader.finish()
}

/// Objects of the commands that are read.
const OBJECTS: [&str; 2] = ["contact", "range"];

/// Error for a command that was meant to add a contact or a range. Skipped as a command of another program, it would
/// change the plan unnoticed.
fn misspelt(line: u32, command: &str, noun: &str) -> Option<PlanError> {
    let known = command.chars().count() == 1 && COMMANDS.contains(command);
    let meant = match command {
        // Deletes, changes, shows or lists contacts, and is no addition.
        "d" | "c" | "i" | "l" if OBJECTS.contains(&noun) => None,
        _ if known => nearest_name(noun, OBJECTS.into_iter()),
        // The `a` may be misspelt, or left out.
        _ => OBJECTS.into_iter().find(|object| *object == noun).or_else(|| nearest_name(command, OBJECTS.into_iter())),
    }?;
    let found = if known || OBJECTS.contains(&noun) { format!("{command} {noun}") } else { command.to_string() };
    Some(PlanError {
        line,
        message: format!("`{}` is no command of ionadmin", shorten(&found)),
        hint: format!("did you mean `a {meant}`?"),
    })
}

impl IonReader {
    fn when(&self, line: u32, word: &str) -> Result<When, PlanError> {
        if let Some(offset) = word.strip_prefix('+').and_then(parse_seconds) {
            let offset_ns = self.reference_offset_ns.saturating_add(offset);
            return Ok(When { base: self.reference, offset_ns });
        }
        let absolute = DtnTime::parse_utc(word).map(When::utc);
        absolute.ok_or_else(|| PlanError {
            line,
            message: format!("`{}` is not a time", shorten(word)),
            hint: "write `+3600` (seconds after the reference time) or `2026/11/20-09:00:00`".into(),
        })
    }

    /// Parses start and end. If the start counts from the moment at which the plan is read, which no file states, an
    /// end in wall time cannot be converted. Such a contact is taken to have no end, since authors write a distant time
    /// for that.
    fn times(&mut self, line: u32, start: &str, end: &str) -> Result<(When, When), PlanError> {
        let (from, mut to) = (self.when(line, start)?, self.when(line, end)?);
        if from.base.is_none() && to.base.is_some() {
            to = When { base: None, offset_ns: from.offset_ns.saturating_add(OPEN_END_NS) };
            let end = shorten(end);
            self.warn(
                line,
                &format!(
                    "`{end}` cannot be placed after a start that counts from when the plan is read; taken to last \
                     ten years (a line `@ 2026/11/20-09:00:00` sets the time of +0)"
                ),
            );
        }
        Ok((from, to))
    }

    /// Sets the reference time; a relative one counts from the previous reference.
    fn set_reference(&mut self, line: u32, word: &str) -> Result<(), PlanError> {
        let when = self.when(line, word)?;
        (self.reference, self.reference_offset_ns) = (when.base, when.offset_ns);
        Ok(())
    }

    fn contact(&mut self, line: u32, words: &[&str]) -> Result<(), PlanError> {
        let &[start, end, from, to, rate, ref more @ ..] = words else {
            return Err(PlanError {
                line,
                message: "`a contact` wants start, end, from, to and a rate in bytes per second".into(),
                hint: "for example `a contact +0 +3600 1 2 125000`".into(),
            });
        };
        let (from, to) = (node(line, from)?, node(line, to)?);
        let no_contact = match (start, end) {
            ("-1", _) | (_, "-1") => Some("a registration or discovered contact (time -1) is no part of a plan"),
            ("0", _) => Some("a hypothetical contact (time 0) has no meeting time"),
            _ if from == to => Some("a contact of a node with itself is part of no route"),
            _ => None,
        };
        if let Some(why) = no_contact {
            self.warn(line, &format!("{why}; left out"));
            return Ok(());
        }
        let rate = rate.parse().map_err(|_| PlanError {
            line,
            message: format!("`{}` is not a rate", shorten(rate)),
            hint: "ION's rates are whole bytes per second, such as 125000".into(),
        })?;
        let confidence = match more.first() {
            None => 1.0,
            Some(word) => word.parse().ok().filter(|c| (0.0..=1.0).contains(c)).ok_or_else(|| PlanError {
                line,
                message: format!("`{}` is not a confidence", shorten(word)),
                hint: "a number from 0 to 1, such as 0.9".into(),
            })?,
        };
        let (start, end) = self.times(line, start, end)?;
        self.contacts.push(RawContact {
            line,
            from,
            to,
            link: None,
            start,
            end,
            rate: DataRate::from_bytes_per_second(rate),
            one_way_delay: Duration::ZERO,
            confidence,
        });
        Ok(())
    }

    fn range(&mut self, line: u32, words: &[&str]) -> Result<(), PlanError> {
        let &[start, end, from, to, delay, ..] = words else {
            return Err(PlanError {
                line,
                message: "`a range` wants start, end, two nodes and a distance in light seconds".into(),
                hint: "for example `a range +0 +3600 1 2 600`".into(),
            });
        };
        let delay = parse_seconds(delay).ok_or_else(|| PlanError {
            line,
            message: format!("`{}` is not a distance in light seconds", shorten(delay)),
            hint: "a number of seconds, such as 600".into(),
        })?;
        let (start, end) = self.times(line, start, end)?;
        let range = Range { start, end, delay: Duration::from_nanos(delay) };
        self.ranges.entry((node(line, from)?, node(line, to)?)).or_default().push((line, range));
        Ok(())
    }

    fn warn(&mut self, line: u32, message: &str) {
        self.warnings.push(Warning { line, message: message.to_string() });
    }

    fn finish(mut self) -> Result<Parsed, PlanError> {
        // Contacts alone choose the epoch, so that a plan does not shift when a range is removed.
        let (mut plan, lines) = text::finish(None, core::mem::take(&mut self.contacts))?;
        let mut ranges = RangeTable::new();
        for (pair, list) in &self.ranges {
            for (line, range) in list {
                // A range may begin before the first contact; then it holds from the epoch on.
                let clamp = |when: When| match (when.base, plan.epoch) {
                    (Some(base), Some(epoch)) if base < epoch => {
                        let before = (epoch.0 - base.0).saturating_mul(1_000_000);
                        Ok(PlanTime(when.offset_ns.saturating_sub(before)))
                    }
                    _ => text::on_plan(plan.epoch, when, *line),
                };
                ranges.entry(*pair).or_default().push((clamp(range.start)?, clamp(range.end)?, range.delay));
            }
        }
        let (mut kept, mut without_range) = (Vec::new(), Vec::new());
        for (contact, line) in core::mem::take(&mut plan.contacts).into_iter().zip(lines) {
            let Some(one_way_delay) = delay_of(&ranges, &contact) else {
                let message = format!(
                    "no range from {} to {} covers the start of this contact; left out, because ION uses no contact \
                     without a range (`a range` with the contact's times gives its light time)",
                    contact.from.0, contact.to.0
                );
                self.warnings.push(Warning { line, message });
                without_range.push(contact);
                continue;
            };
            kept.push(line);
            plan.contacts.push(Contact { one_way_delay, ..contact });
        }
        for (command, (line, count)) in self.skipped {
            let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
            let message = format!("`{command}` adds no contact and no range; skipped{times}");
            self.warnings.push(Warning { line, message });
        }
        self.warnings.sort_by_key(|w| w.line);
        let (names, warnings) = (Vec::new(), self.warnings);
        Ok(Parsed { plan, dialect: Dialect::Ion, names, lines: kept, warnings, without_range })
    }
}

/// Light time of a contact. A range of the contact's direction is preferred to one of the reverse direction. In each
/// direction, a range with the contact's times is preferred to the ranges that cover its start; of those, the one that
/// starts latest counts.
fn delay_of(ranges: &RangeTable, contact: &Contact) -> Option<Duration> {
    let find = |pair| {
        let list: &Vec<_> = ranges.get(&pair)?;
        let same = list.iter().find(|(start, end, _)| (*start, *end) == (contact.start, contact.end));
        let covering = || {
            let covers = list.iter().filter(|(start, end, _)| *start <= contact.start && contact.start < *end);
            covers.max_by_key(|(start, _, _)| *start)
        };
        same.or_else(covering).map(|(_, _, delay)| *delay)
    };
    let own = find((contact.from, contact.to));
    // ION lets a range from the smaller to the larger number hold both ways.
    if contact.from > contact.to { own.or_else(|| find((contact.to, contact.from))) } else { own }
}

fn node(line: u32, word: &str) -> Result<NodeId, PlanError> {
    parse_node(word).ok_or_else(|| PlanError {
        line,
        message: format!("`{}` is not a node number", shorten(word)),
        hint: "ION's nodes are numbers, such as 3".into(),
    })
}

/// Writes a plan. Content that ION cannot express (link names, fractions of a second) is listed in the warnings.
pub fn emit(plan: &ContactPlan) -> (String, Vec<Warning>) {
    let mut text = String::from("# contact plan, written by farlink\n");
    let mut warnings = Vec::new();
    if let Some(epoch) = plan.epoch {
        let utc = epoch.to_string();
        // 2026-11-20T09:00:00.000Z -> 2026/11/20-09:00:00
        let ion = utc.get(..19).unwrap_or(&utc).replacen('-', "/", 2).replacen('T', "-", 1);
        let _ = writeln!(text, "@ {ion}");
    }
    let mut written: BTreeMap<(NodeId, NodeId, u64, u64), u64> = BTreeMap::new();
    for (index, contact) in plan.contacts.iter().enumerate() {
        let (start, end) = (contact.start.0.div_ceil(1_000_000_000), contact.end.0 / 1_000_000_000);
        // Times are rounded inwards and the delay up: a contact must not seem longer or nearer than it is.
        let delay = nanoseconds(contact.one_way_delay).div_ceil(1_000_000_000);
        let is_cut = [contact.start.0, contact.end.0].iter().any(|ns| !ns.is_multiple_of(1_000_000_000));
        let is_rounded = !nanoseconds(contact.one_way_delay).is_multiple_of(1_000_000_000);
        let mut warn = |what: &str| {
            warnings.push(Warning { line: 0, message: format!("contact {}: {what}", index + 1) });
        };
        if start >= end {
            warn("ION counts whole seconds: the contact lies within one, and is left out");
            continue;
        }
        match (is_cut, is_rounded) {
            (true, true) => warn("ION counts whole seconds: the contact is cut and the range rounded up to them"),
            (true, false) => warn("ION counts whole seconds: the contact is cut to them"),
            (false, true) => warn("ION counts whole seconds: the range is rounded up to them"),
            (false, false) => {}
        }
        // ION counts rates in bytes per second.
        if contact.rate.0 % 8 != 0 {
            warn("ION counts whole bytes per second: the rate is rounded down");
        }
        let mut comment = String::new();
        if let Some(link) = &contact.link {
            let _ = write!(comment, " # link={link}");
            warn("ION does not name links: the name is kept as a comment only");
        }
        let (from, to) = (contact.from.0, contact.to.0);
        let confidence = if contact.confidence < 1.0 { format!(" {}", contact.confidence) } else { String::new() };
        let _ = writeln!(text, "a contact +{start} +{end} {from} {to} {}{confidence}{comment}", contact.rate.0 / 8);
        let own = (contact.from, contact.to, start, end);
        let symmetric = (contact.to, contact.from, start, end);
        let known = written.get(&own).or_else(|| if from > to { written.get(&symmetric) } else { None });
        // A range that already holds for this contact needs no repetition.
        if known != Some(&delay) {
            let _ = writeln!(text, "a range +{start} +{end} {from} {to} {delay}");
            written.insert(own, delay);
        }
    }
    (text, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contacts_ranges_references_and_foreign_commands() {
        let text = "## begin ionadmin\n1 1 ''\ns\n@ 2026/11/20-09:00:00\na contact +0 +3600 1 2 125000 0.5\n\
                    a contact +0 +3600 2 1 1000\na range +0 +7200 1 2 7 # comment\n@ +3600\na contact +0 +10 2 1 8\n\
                    a range +0 +10 2 1 9\nm horizon +0\na contact 2026/11/20-11:00:00 2026/11/20-12:00:00 1 3 5\n";
        let parsed = parse(text).unwrap();
        let plan = &parsed.plan;
        assert_eq!(plan.epoch, DtnTime::parse_utc("2026-11-20T09:00:00Z"));
        assert_eq!(
            (plan.contacts.len(), &parsed.lines[..]),
            (3, &[5, 6, 9][..]),
            "ION uses no contact without a range"
        );
        assert_eq!(plan.contacts[0].rate, DataRate(1_000_000));
        assert_eq!(plan.contacts[0].confidence, 0.5);
        let delays: Vec<u64> = plan.contacts.iter().map(|c| c.one_way_delay.as_secs()).collect();
        assert_eq!(delays, [7, 7, 9], "symmetric twice, then its own direction");
        assert_eq!(plan.contacts[2].start, PlanTime::from_secs(3600));
        let warned: Vec<u32> = parsed.warnings.iter().map(|w| w.line).collect();
        assert_eq!(warned, [2, 3, 11, 12]);
    }

    #[test]
    fn without_a_reference_times_are_relative() {
        let parsed = parse("a contact +10 +20 0 1 10\na range +0 +100 0 1 1.5").unwrap();
        assert_eq!(parsed.plan.epoch, None);
        assert_eq!(parsed.plan.contacts[0].one_way_delay, Duration::from_millis(1500));
    }

    #[test]
    fn range_may_precede_first_contact() {
        let text = "a range 2026/11/20-08:00:00 2026/11/20-10:00:00 1 2 4\n\
                    a contact 2026/11/20-09:00:00 2026/11/20-10:00:00 1 2 10";
        let plan = parse(text).unwrap().plan;
        assert_eq!(plan.epoch, DtnTime::parse_utc("2026-11-20T09:00:00Z"));
        assert_eq!(plan.contacts[0].one_way_delay, Duration::from_secs(4));
    }

    #[test]
    fn unusable_lines_are_skipped_with_warning() {
        let text = "! 1\n1 2 ''\ne 1\na contact +0 +9 2 2 5\na range +0 +9 2 2 1\na contact 0 0 1 2 0 0.0\n\
                    a contact -1 -1 2 2 0\na contact +0 +9 1 2 5\na range +0 +9 1 2 3\nt 1\n";
        let parsed = parse(text).unwrap();
        assert_eq!(super::super::detect(text), Ok(Dialect::Ion));
        let plan = &parsed.plan;
        assert_eq!((plan.contacts.len(), plan.contacts[0].one_way_delay.as_secs()), (1, 3));
        assert!(super::super::check(plan).iter().all(|finding| !finding.error));
        let warned: Vec<u32> = parsed.warnings.iter().map(|w| w.line).collect();
        assert_eq!(warned, [1, 2, 3, 4, 6, 7, 10]);
    }

    #[test]
    fn wall_time_after_relative_start_open() {
        let text = "a range +0 2009/01/01-00:00:00 5 7 600\na contact +10 2009/01/01-00:00:00 5 7 10000\n\
                    a contact +10 +20 7 5 1";
        let parsed = parse(text).unwrap();
        let contact = &parsed.plan.contacts[0];
        assert_eq!((parsed.plan.epoch, contact.start), (None, PlanTime::from_secs(10)));
        assert_eq!(contact.end, PlanTime::from_secs(10 + 3650 * 86_400));
        assert_eq!(parsed.plan.contacts[1].one_way_delay, Duration::from_secs(600));
        let warned: Vec<u32> = parsed.warnings.iter().map(|w| w.line).collect();
        assert_eq!(warned, [1, 2]);
        // With a reference, both times are on one clock; `@ 0` removes it.
        let plan = parse(&format!("@ 2008/12/31-23:00:00\n{text}\n")).unwrap().plan;
        assert_eq!(plan.contacts[0].end.since(plan.contacts[0].start), Duration::from_secs(3590));
        assert_eq!(parse(&format!("@ 2008/12/31-23:00:00\n@ 0\n{text}")).unwrap().plan.epoch, None);
    }

    #[test]
    fn misspelt_contacts_and_ranges_are_errors() {
        for (text, hint) in [
            ("a contcat +0 +9 1 2 5", "a contact"),
            ("a contacts +0 +9 1 2 5", "a contact"),
            ("a rnge +0 +9 1 2 5", "a range"),
            ("A contact +0 +9 1 2 5", "a contact"),
            ("add range +0 +9 1 2 5", "a range"),
            ("contact +0 +9 1 2 5", "a contact"),
        ] {
            let error = parse(&format!("a range +0 +9 1 2 3\n{text}\n")).unwrap_err();
            assert_eq!(error.line, 2, "{text}");
            assert!(error.hint.contains(hint), "{text}: {error}");
        }
        // Commands of ION's other programs, and those of ionadmin that add nothing.
        let others = "1 1 ''\na scheme ipn 'x' 'y'\na span 2 9 9 1400 10000 1 'udplso'\na plan 2 ltp/2\nd contact 1 2\n\
                      c contact +0 1 2 5\nl range\na endpoint ipn:1.1 q\na { \"event_set\" }\nm horizon +0\n\
                      run bp\n";
        assert_eq!(parse(others).unwrap().warnings.len(), 11);
    }

    #[test]
    fn errors_name_line_and_hint() {
        for (text, line) in [
            ("a contact +0 +1 1 2", 1),
            ("\na contact 5 +1 1 2 3", 2),
            ("a contact +0 0 1 2 3", 1),
            ("a contact +0 +1 x 2 3", 1),
            ("a contact +0 +1 1 2 fast", 1),
            ("a contact +0 +1 1 2 3 7", 1),
            ("a range +0 +1 1 2", 1),
            ("@ noon", 1),
            ("a contact +0 +1 1 2 3\na contact 2026/11/20-11:00:00 2026/11/20-12:00:00 1 3 5", 1),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}");
            assert!(!error.hint.is_empty());
        }
    }

    #[test]
    fn what_is_emitted_reads_back() {
        let text = "@ 2026/11/20-09:00:00\na contact +0 +3600 1 2 125000 0.5\na range +0 +3600 1 2 4\n\
                    a contact +0 +3600 2 1 1000\na range +0 +3600 2 1 5\na contact +50 +90 2 1 1000\n\
                    a range +50 +90 1 2 6\n";
        let plan = parse(text).unwrap().plan;
        let (emitted, warnings) = emit(&plan);
        assert_eq!(parse(&emitted).unwrap().plan, plan, "{emitted}");
        assert!(warnings.is_empty());
        // A link name and half a second have no form in ION's dialect.
        let mut odd = plan.clone();
        odd.contacts[0].link = Some("ka".into());
        odd.contacts[1].end = PlanTime(1_500_000_000);
        assert_eq!(emit(&odd).1.len(), 2);
        // Whole seconds would end it before it begins.
        (odd.contacts[1].start, odd.contacts[1].end) = (PlanTime(1_200_000_000), PlanTime(1_700_000_000));
        let (emitted, warnings) = emit(&odd);
        assert_eq!(parse(&emitted).unwrap().plan.contacts.len(), plan.contacts.len() - 1, "{emitted}");
        assert!(warnings[1].message.ends_with("the contact lies within one, and is left out"), "{warnings:?}");
    }
}
