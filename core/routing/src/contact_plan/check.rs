//! Findings about a contact plan: errors and oddities.

use super::{Contact, ContactPlan, decimal};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A finding that the author of a plan should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Index of the contact.
    pub contact: usize,
    /// Whether the contact is unusable or overlaps another (otherwise it is merely odd).
    pub error: bool,
    /// Description of the problem.
    pub message: String,
    /// Suggested remedy.
    pub hint: &'static str,
}

/// Checks a plan for contacts that end before they begin, have no rate, join a node to itself, or overlap another on
/// the same link, and for pairs with contacts in one direction only.
pub fn check(plan: &ContactPlan) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, contact) in plan.contacts.iter().enumerate() {
        let mut add = |error, message: String, hint| {
            findings.push(Finding { contact: index, error, message, hint });
        };
        // The index leaves such contacts out silently, so the author must learn of them here.
        if contact.end <= contact.start {
            let (start, end) = (decimal(contact.start), decimal(contact.end));
            add(true, format!("ends at +{end} s, not after its start at +{start} s"), "swap or correct the times");
        }
        if contact.rate.0 == 0 {
            add(true, "has no rate: nothing can be sent".into(), "give it a rate, or remove it");
        }
        if contact.from == contact.to {
            add(true, format!("joins {} to itself", contact.from), "correct one of the nodes");
        }
    }
    overlaps(plan, &mut findings);
    one_way_only(plan, &mut findings);
    // The order in which an author reads the file; errors of a contact come before oddities.
    findings.sort_by_key(|f| (f.contact, !f.error));
    findings
}

fn overlaps(plan: &ContactPlan, findings: &mut Vec<Finding>) {
    let mut by_link: BTreeMap<_, Vec<(usize, &Contact)>> = BTreeMap::new();
    for (index, contact) in plan.contacts.iter().enumerate() {
        by_link.entry((contact.from, contact.to, &contact.link)).or_default().push((index, contact));
    }
    for list in by_link.values_mut() {
        list.sort_by_key(|(_, contact)| (contact.start, contact.end));
        // The latest end so far: a long contact may overlap several later ones.
        let mut latest: Option<(usize, &Contact)> = None;
        for &(index, contact) in list.iter() {
            if let Some((other, before)) = latest
                && contact.start < before.end
            {
                findings.push(Finding {
                    contact: index,
                    error: true,
                    message: format!("overlaps contact {} on the same link", other + 1),
                    hint: "give parallel links names (`link=ka`), or correct the times",
                });
            }
            if latest.is_none_or(|(_, before)| contact.end > before.end) {
                latest = Some((index, contact));
            }
        }
    }
}

/// Finds pairs without a contact back, which acknowledging layers (LTP, TCPCL) need.
fn one_way_only(plan: &ContactPlan, findings: &mut Vec<Finding>) {
    let mut told: BTreeMap<_, usize> = BTreeMap::new();
    // One finding per pair, at its first contact.
    for (index, contact) in plan.contacts.iter().enumerate() {
        told.entry((contact.from, contact.to)).or_insert(index);
    }
    for (&(from, to), &index) in &told {
        if !told.contains_key(&(to, from)) {
            findings.push(Finding {
                contact: index,
                error: false,
                message: format!("{from} reaches {to}, but no contact leads back"),
                hint: "acknowledging layers need a contact back; only green LTP and UDPCL go without",
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::farlink::parse;
    use super::*;

    fn messages(text: &str) -> Vec<(usize, bool)> {
        check(&parse(text).unwrap().plan).iter().map(|f| (f.contact, f.error)).collect()
    }

    #[test]
    fn a_sound_plan_has_no_findings() {
        assert_eq!(messages("contact 1 2 both +0..+5 rate 1 kbit/s\ncontact 1 2 both +5..+9 rate 1 kbit/s"), []);
        // Two named links may overlap.
        let parallel = "contact 1 2 both link=ka +0..+5 rate 1 kbit/s\ncontact 1 2 both link=x +3..+9 rate 1 kbit/s";
        assert_eq!(messages(parallel), []);
    }

    #[test]
    fn faults_are_found() {
        assert_eq!(messages("contact 1 2 both +5..+5 rate 1 kbit/s"), [(0, true), (1, true)]);
        assert_eq!(messages("contact 1 2 both +0..+5 rate 0 bit/s"), [(0, true), (1, true)]);
        assert_eq!(messages("contact 1 1 +0..+5 rate 1 bit/s"), [(0, true)]);
        // No contact back is odd, but no error.
        assert_eq!(messages("contact 1 2 +0..+5 rate 1 bit/s"), [(0, false)]);
        let overlap = "contact 1 2 both +0..+50 rate 1 kbit/s\ncontact 1 2 +3..+9 rate 1 kbit/s\n\
                       contact 1 2 +20..+60 rate 1 kbit/s";
        assert_eq!(messages(overlap), [(2, true), (3, true)]);
    }
}
