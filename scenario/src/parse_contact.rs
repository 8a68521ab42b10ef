//! Contacts: inline tables and the plan file, joined to one list in order of time.

use crate::keys;
use crate::names::Names;
use crate::types::{Contact, Scenario};
use farlink_base::{DtnTime, Duration, NodeId};
use farlink_config::Reader;
use farlink_routing::PlanTime;
use farlink_routing::contact_plan::{self, Parsed};
use std::collections::HashMap;

/// Message for a contact of a discovered link.
const FOUND: &str = "its nodes find each other (`found`): it is in no contact plan";
const FOUND_HINT: &str = "say when it is there by its `appears` and `disappears`";

pub fn contacts(top: &Reader<'_>, scenario: &mut Scenario, nodes: &Names) {
    let links = Names::new(scenario.links.iter().map(|l| l.name.as_str())).or_broken(top, "link");
    for (path, table) in top.tables("contact") {
        Reader::check_keys(top.errors, &path, table, &[&keys::CONTACT]);
        let reader = Reader::new(top.errors, &keys::CONTACT, vec![(path, table)]);
        inline(&reader, scenario, nodes, &links);
    }
    if let Some(file) = top.text("plan") {
        plan_file(top, scenario, &file);
    }
    // A fixed order, so that every world numbers contacts alike.
    scenario.contacts.sort_by_key(|c| (c.start, c.link, !c.forward));
    check_overlap(top, scenario);
}

fn inline(reader: &Reader<'_>, scenario: &mut Scenario, nodes: &Names, links: &Names) {
    let link = links.named(reader, "link", "link");
    let from = nodes.named(reader, "from", "node");
    let (start, end) = (reader.duration("start"), reader.duration("end"));
    let (rate, delay) = (reader.rate("rate"), reader.duration("delay"));
    let confidence = reader.share("confidence").unwrap_or(1.0);
    if let (Some(start), Some(end)) = (start, end)
        && start >= end
    {
        reader.fail(
            "end",
            if start == end { "the contact ends when it starts" } else { "the contact ends before it starts" },
            "`end` is a time from the start of the run, not a length",
        );
        return;
    }
    let (Some(link), Some(start), Some(end)) = (link, start, end) else { return };
    if scenario.links[link].found {
        return reader.fail("link", FOUND, FOUND_HINT);
    }
    let between = scenario.links[link].between;
    // `true` is the link's forward direction; a contact without `from` is up both ways.
    let directions: &[bool] = match from {
        None if reader.given("from") => return,
        None => &[true, false],
        Some(node) if node == between[0] => &[true],
        Some(node) if node == between[1] => &[false],
        Some(node) => {
            let ends = between.map(|n| nodes.at(n)).join("` and `");
            reader.fail(
                "from",
                format!("`{}` is no end of this link", nodes.at(node)),
                format!("its ends are `{ends}`"),
            );
            return;
        }
    };
    for &forward in directions {
        scenario.contacts.push(Contact { link, forward, start, end, rate, delay, confidence });
    }
}

/// Reads a contact plan file; reports its mistakes with their lines.
pub(crate) fn read_plan(top: &Reader<'_>, scenario: &Scenario, key: &str, file: &str) -> Option<(Parsed, String)> {
    let path = scenario.folder.join(file);
    let text = match farlink_config::read_text(&path) {
        Ok(text) => text,
        Err(error) => {
            top.fail(key, format!("`{}` {error}", path.display()), "paths are relative to the scenario");
            return None;
        }
    };
    match contact_plan::parse_with(&text, &numbers(scenario)) {
        Ok(parsed) => Some((parsed, text)),
        Err(error) => {
            top.errors.push(format!("{file} (line {})", error.line), error.message, error.hint);
            None
        }
    }
}

/// Reads the plan file and adds its contacts; its times are moved to the scenario's epoch.
fn plan_file(top: &Reader<'_>, scenario: &mut Scenario, file: &str) {
    let Some((parsed, text)) = read_plan(top, scenario, "plan", file) else { return };
    let shift = shift(top, scenario, parsed.plan.epoch);
    let places = Places::new(scenario);
    for (contact, line) in parsed.plan.contacts.iter().zip(&parsed.lines) {
        match places.placed(scenario, contact, shift) {
            Ok(contacts) => scenario.contacts.extend(contacts),
            Err((found, hint)) => top.errors.push(format!("{file} (line {line})"), found, hint),
        }
    }
    scenario.plan_file = Some((file.into(), text));
}

/// Nanoseconds from the run's start to the plan's epoch; 0 for a plan without one. A scenario without an epoch takes
/// the plan's.
pub(crate) fn shift(top: &Reader<'_>, scenario: &mut Scenario, plan: Option<DtnTime>) -> i128 {
    let Some(plan) = plan else { return 0 };
    let epoch = *scenario.epoch.get_or_insert(plan);
    let ms = i128::from(plan.as_millis()) - i128::from(epoch.as_millis());
    // Epochs a year apart are a typing mistake: no contact would fall into the run.
    if ms.unsigned_abs() > 366 * 86_400_000 {
        top.fail(
            "plan",
            format!("its epoch {plan} is more than a year from the scenario's {epoch}"),
            "give both the same",
        );
    }
    ms * 1_000_000
}

/// Node numbers by name and by any node ID.
pub(crate) fn numbers(scenario: &Scenario) -> impl Fn(&str) -> Option<NodeId> + use<> {
    let mut numbers: HashMap<String, NodeId> = HashMap::new();
    for node in &scenario.nodes {
        for name in std::iter::once(&node.name).chain(&node.ids) {
            numbers.entry(name.clone()).or_insert(node.number);
        }
    }
    move |name| numbers.get(name).copied()
}

/// Indices of the scenario's nodes and links, by a plan's node numbers.
struct Places {
    nodes: HashMap<NodeId, usize>,
    /// Links by their two ends, the smaller first.
    links: HashMap<(usize, usize), Vec<usize>>,
}

impl Places {
    fn new(scenario: &Scenario) -> Places {
        let nodes = scenario.nodes.iter().enumerate().map(|(place, node)| (node.number, place)).collect();
        let mut links: HashMap<_, Vec<usize>> = HashMap::new();
        // Discovered links are in no plan.
        for (index, link) in scenario.links.iter().enumerate().filter(|(_, link)| !link.found) {
            links.entry(sorted(link.between[0], link.between[1])).or_default().push(index);
        }
        Places { nodes, links }
    }

    /// Contact of the scenario for a contact of the plan; `Ok(None)` if it ends before the run starts.
    fn placed(
        &self,
        scenario: &Scenario,
        contact: &farlink_routing::Contact,
        shift: i128,
    ) -> Result<Option<Contact>, (String, String)> {
        let node = |number| {
            let missing =
                || (format!("no node of the scenario is {number}"), "remove the contact or add the node".into());
            self.nodes.get(&number).copied().ok_or_else(missing)
        };
        let pair = (node(contact.from)?, node(contact.to)?);
        let joining = self.links.get(&sorted(pair.0, pair.1)).map_or(&[][..], Vec::as_slice);
        let joining: Vec<_> = joining.iter().map(|index| (*index, &scenario.links[*index])).collect();
        let names = || joining.iter().map(|(_, l)| l.name.as_str()).collect::<Vec<_>>().join(", ");
        let (index, link) = match (&contact.link, &joining[..]) {
            (None, [only]) => only,
            (Some(name), _) => joining.iter().find(|(_, l)| l.name == *name).ok_or_else(|| {
                (format!("no link `{name}` joins these nodes"), format!("links that do: {}", names()))
            })?,
            (None, []) => return Err(("no link joins these nodes".into(), "add a `[[link]]` between them".into())),
            (None, _) => {
                return Err(("several links join these nodes".into(), format!("add link=NAME, one of {}", names())));
            }
        };
        let (start, end) = (moved(contact.start, shift), moved(contact.end, shift));
        if start >= end {
            return Ok(None);
        }
        Ok(Some(Contact {
            link: *index,
            forward: link.between[0] == pair.0,
            start: Duration::from_nanos(start),
            end: Duration::from_nanos(end),
            rate: (contact.rate.0 > 0).then_some(contact.rate),
            // The parser reads a missing delay as zero; then the link's own delay holds.
            delay: (!contact.one_way_delay.is_zero()).then_some(contact.one_way_delay),
            confidence: contact.confidence,
        }))
    }
}

/// Converts a time of a plan to nanoseconds from the start of the run; earlier times become 0.
pub(crate) fn moved(time: PlanTime, shift: i128) -> u64 {
    u64::try_from((i128::from(time.0) + shift).max(0)).unwrap_or(u64::MAX)
}

fn sorted(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

fn check_overlap(top: &Reader<'_>, scenario: &Scenario) {
    // The emulator sets one rate at a time. Contacts are sorted by start, so comparing each with the one before it in
    // its direction suffices.
    let mut before: HashMap<(usize, bool), (Duration, Duration)> = HashMap::new();
    for contact in &scenario.contacts {
        let earlier = before.insert((contact.link, contact.forward), (contact.start, contact.end));
        if let Some((start, end)) = earlier.filter(|(_, end)| contact.start < *end) {
            let span = |from, to| format!("{} to {}", time(from), time(to));
            let found = format!("{} overlaps {}", span(contact.start, contact.end), span(start, end));
            let name = &scenario.links[contact.link].name;
            top.errors.push(format!("contacts of link `{name}`"), found, "join or shorten them");
        }
    }
}

fn time(duration: Duration) -> String {
    farlink_base::format_duration(duration)
}
