//! Drawing of a plan as text: one row per link and direction, time from left to right.

use super::{ContactPlan, PlanTime, decimal};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use farlink_base::{NodeId, format_duration};

/// Draws a plan `width` columns wide (at least 40). `names` are node names. A column is `#` if contacts fill it, `+`
/// if they fill part of it.
pub fn gantt(plan: &ContactPlan, names: &[(String, NodeId)], width: usize) -> String {
    let Some((from, to)) = plan.span() else { return "no contacts\n".into() };
    let name = |node: NodeId| {
        let named = names.iter().find(|(_, n)| *n == node);
        named.map_or_else(|| node.to_string(), |(name, _)| name.clone())
    };
    let mut rows: BTreeMap<(NodeId, NodeId, Option<&str>), Vec<usize>> = BTreeMap::new();
    for (index, c) in plan.contacts.iter().enumerate() {
        rows.entry((c.from, c.to, c.link.as_deref())).or_default().push(index);
    }
    let label = |(a, b, link): &(NodeId, NodeId, Option<&str>)| {
        let link = link.map(|l| format!(" {l}")).unwrap_or_default();
        format!("{} > {}{link}", name(*a), name(*b))
    };
    // Long names must not take the space of the bars.
    let labels = rows.keys().map(|key| label(key).chars().count()).max().unwrap_or(0).min(32);
    let columns = width.clamp(40, 400).saturating_sub(labels + 26).max(10);
    let mut text = String::new();
    if let Some(epoch) = plan.epoch {
        let _ = writeln!(text, "epoch {epoch}");
    }
    let (left, right) = (format!("+{} s", decimal(from)), format!("+{} s", decimal(to)));
    let gap = columns.saturating_sub(left.chars().count());
    let _ = writeln!(text, "{:labels$} |{left}{right:>gap$}|", "");
    for (key, contacts) in &rows {
        let bar = bar(plan, contacts, from, to, columns);
        let first = &plan.contacts[contacts[0]];
        let label: String = label(key).chars().take(labels).collect();
        let delay = format_duration(first.one_way_delay);
        let _ = writeln!(text, "{label:labels$} |{bar}| {}, {delay}", first.rate);
    }
    text
}

/// Draws one row from the share of each column that its contacts cover.
fn bar(plan: &ContactPlan, contacts: &[usize], from: PlanTime, to: PlanTime, columns: usize) -> String {
    let span = u128::from(to.0.saturating_sub(from.0).max(1));
    // In thousandths of a column, so that short contacts still count.
    let per_column = |time: u64| u128::from(time.saturating_sub(from.0)) * columns as u128 * 1000 / span;
    let mut covered = alloc::vec![0u128; columns];
    for contact in contacts.iter().map(|&index| &plan.contacts[index]) {
        let (start, end) = (per_column(contact.start.0), per_column(contact.end.0));
        let (first, last) = ((start / 1000) as usize, (end.div_ceil(1000) as usize).min(columns));
        for (column, cover) in covered.iter_mut().enumerate().take(last).skip(first) {
            let (left, right) = (column as u128 * 1000, (column as u128 + 1) * 1000);
            // A contact shorter than a thousandth of a column remains visible.
            *cover += end.min(right).saturating_sub(start.max(left)).max(1);
        }
    }
    covered
        .iter()
        .map(|cover| {
            // Nine tenths count as full: contacts rarely end at the bounds of a column.
            if *cover >= 900 {
                '#'
            } else if *cover > 0 {
                '+'
            } else {
                '.'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::farlink::parse;
    use super::*;

    #[test]
    fn contacts_are_drawn_to_scale() {
        let text = "node earth 1\ncontact earth 2 +0..+50 rate 2 Mbit/s delay 600 ms\n\
                    contact earth 2 +90..+100 rate 2 Mbit/s delay 600 ms\ncontact 2 earth +1..+2 rate 1 kbit/s";
        let parsed = parse(text).unwrap();
        // Twenty columns for 100 s.
        let drawn = gantt(&parsed.plan, &parsed.names, 59);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[1], "earth > ipn:2 |##########........##| 2 Mbit/s, 600 ms");
        assert!(lines[2].starts_with("ipn:2 > earth |+....") && lines[2].ends_with("| 1 kbit/s, 0 s"), "{drawn}");
        assert_eq!(gantt(&ContactPlan::default(), &[], 80), "no contacts\n");
    }

    #[test]
    fn odd_plans_are_drawn_without_panic() {
        for text in ["contact 1 2 +5..+5 rate 1 bit/s", "contact 1 2 +9..+5 rate 1 bit/s"] {
            assert!(!gantt(&parse(text).unwrap().plan, &[], 0).is_empty());
        }
    }
}
