//! Contacts: inline tables and the plan file, joined to one list in order of time.

use crate::keys;
use crate::parse::{node_index, unknown};
use crate::reader::Reader;
use crate::types::{Contact, Scenario};
use farlink_base::{DtnTime, Duration};
use farlink_routing::contact_plan;

pub fn contacts(top: &Reader<'_>, scenario: &mut Scenario) {
    let nodes: Vec<String> = scenario.nodes.iter().map(|n| n.name.clone()).collect();
    let links: Vec<String> = scenario.links.iter().map(|l| l.name.clone()).collect();
    for (path, table) in top.tables("contact") {
        Reader::check_keys(top.errors, &path, table, &[&keys::CONTACT]);
        let reader = Reader::new(top.errors, &keys::CONTACT, vec![(path, table)]);
        inline(&reader, scenario, &nodes, &links);
    }
    if let Some(file) = top.text("plan") {
        plan_file(top, scenario, &file);
    }
    scenario.contacts.sort_by_key(|c| (c.start, c.link, !c.forward));
    check_overlap(top, scenario);
}

fn inline(reader: &Reader<'_>, scenario: &mut Scenario, nodes: &[String], links: &[String]) {
    let link = reader.text("link").and_then(|name| {
        let index = links.iter().position(|l| *l == name);
        if index.is_none() {
            unknown(reader, "link", "link", &name, links);
        }
        index
    });
    let from = node_index(reader, "from", nodes);
    let (start, end) = (reader.duration("start"), reader.duration("end"));
    let (rate, delay) = (reader.rate("rate"), reader.duration("delay"));
    let confidence = reader.share("confidence").unwrap_or(1.0);
    if let (Some(start), Some(end)) = (start, end)
        && start >= end
    {
        reader.fail(
            "end",
            "the contact ends before it starts",
            "`end` is a time from the start of the run, not a length",
        );
        return;
    }
    let (Some(link), Some(start), Some(end)) = (link, start, end) else { return };
    let between = scenario.links[link].between;
    let directions: &[bool] = match from {
        None if reader.given("from") => return,
        None => &[true, false],
        Some(node) if node == between[0] => &[true],
        Some(node) if node == between[1] => &[false],
        Some(node) => {
            let ends = between.map(|n| nodes[n].as_str()).join("` and `");
            reader.fail("from", format!("`{}` is no end of this link", nodes[node]), format!("its ends are `{ends}`"));
            return;
        }
    };
    for &forward in directions {
        scenario.contacts.push(Contact { link, forward, start, end, rate, delay, confidence });
    }
}

/// Reads the plan file and adds its contacts; its times are moved to the scenario's epoch.
fn plan_file(top: &Reader<'_>, scenario: &mut Scenario, file: &str) {
    let path = scenario.folder.join(file);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            top.fail(
                "plan",
                format!("`{}` cannot be read: {error}", path.display()),
                "paths are relative to the scenario",
            );
            return;
        }
    };
    let resolve = |name: &str| scenario.nodes.iter().find(|n| n.name == name || n.ids.iter().any(|id| id == name));
    let parsed = match contact_plan::parse_with(&text, &|name| resolve(name).map(|n| n.number)) {
        Ok(parsed) => parsed,
        Err(error) => {
            top.errors.push(format!("{file} (line {})", error.line), error.message, error.hint);
            return;
        }
    };
    let shift = shift(top, scenario, parsed.plan.epoch);
    for (contact, line) in parsed.plan.contacts.iter().zip(&parsed.lines) {
        match placed(scenario, contact, shift) {
            Ok(contacts) => scenario.contacts.extend(contacts),
            Err((found, hint)) => top.errors.push(format!("{file} (line {line})"), found, hint),
        }
    }
    scenario.plan_file = Some((file.into(), text));
}

/// Nanoseconds from the run's start to the plan's epoch. A scenario without an epoch takes the plan's.
fn shift(top: &Reader<'_>, scenario: &mut Scenario, plan: Option<DtnTime>) -> i128 {
    let Some(plan) = plan else { return 0 };
    let epoch = *scenario.epoch.get_or_insert(plan);
    let ms = i128::from(plan.as_millis()) - i128::from(epoch.as_millis());
    if ms.unsigned_abs() > 366 * 86_400_000 {
        top.fail(
            "plan",
            format!("its epoch {plan} is more than a year from the scenario's {epoch}"),
            "give both the same",
        );
    }
    ms * 1_000_000
}

/// A contact of a plan on the scenario's link; nothing if it ended before the run starts.
fn placed(
    scenario: &Scenario,
    contact: &farlink_routing::Contact,
    shift: i128,
) -> Result<Option<Contact>, (String, String)> {
    let node = |number| {
        let found = scenario.nodes.iter().position(|n| n.number == number);
        found.ok_or_else(|| {
            (format!("no node of the scenario is {number}"), "remove the contact or add the node".into())
        })
    };
    let pair = (node(contact.from)?, node(contact.to)?);
    let joins = |l: &&(usize, &crate::types::Link)| {
        let between = (l.1.between[0], l.1.between[1]);
        between == pair || (between.1, between.0) == pair
    };
    let joining: Vec<_> = scenario.links.iter().enumerate().filter(|l| joins(&l)).collect();
    let names = || joining.iter().map(|(_, l)| l.name.as_str()).collect::<Vec<_>>().join(", ");
    let (index, link) = match (&contact.link, &joining[..]) {
        (None, [only]) => only,
        (Some(name), _) => joining
            .iter()
            .find(|(_, l)| l.name == *name)
            .ok_or_else(|| (format!("no link `{name}` joins these nodes"), format!("links that do: {}", names())))?,
        (None, []) => return Err(("no link joins these nodes".into(), "add a `[[link]]` between them".into())),
        (None, _) => {
            return Err(("several links join these nodes".into(), format!("add link=NAME, one of {}", names())));
        }
    };
    let moved = |time: u64| u64::try_from((i128::from(time) + shift).max(0)).unwrap_or(u64::MAX);
    let (start, end) = (moved(contact.start.0), moved(contact.end.0));
    if start >= end {
        return Ok(None);
    }
    Ok(Some(Contact {
        link: *index,
        forward: link.between[0] == pair.0,
        start: Duration::from_nanos(start),
        end: Duration::from_nanos(end),
        rate: (contact.rate.0 > 0).then_some(contact.rate),
        // Our dialect reads "not given" as zero; then the link knows better.
        delay: (!contact.one_way_delay.is_zero()).then_some(contact.one_way_delay),
        confidence: contact.confidence,
    }))
}

/// The emulator knows one rate at a time: contacts of one direction of a link must not overlap.
fn check_overlap(top: &Reader<'_>, scenario: &Scenario) {
    for (index, link) in scenario.links.iter().enumerate() {
        for forward in [true, false] {
            let mut before: Option<(Duration, Duration)> = None;
            for contact in scenario.contacts.iter().filter(|c| c.link == index && c.forward == forward) {
                if let Some((start, end)) = before
                    && contact.start < end
                {
                    let span = |from, to| format!("{} to {}", time(from), time(to));
                    let found = format!("{} overlaps {}", span(contact.start, contact.end), span(start, end));
                    top.errors.push(format!("contacts of link `{}`", link.name), found, "join or shorten them");
                }
                before = Some((contact.start, contact.end));
            }
        }
    }
}

fn time(duration: Duration) -> String {
    farlink_base::format_duration(duration)
}
