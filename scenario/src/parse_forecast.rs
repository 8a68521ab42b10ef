//! `forecast`: contacts in the nodes' contact plan that no link follows.

use crate::parse_contact::{moved, read_plan, shift};
use crate::types::Scenario;
use farlink_config::Reader;
use farlink_routing::PlanTime;

/// Link name of forecast contacts. Names of links have no parentheses, so that no link of a node matches it.
const NO_LINK: &str = "(forecast)";

/// Reads the file of `forecast`. Its contacts join nodes of the scenario, whether these have links or not.
pub fn forecast(top: &Reader<'_>, scenario: &mut Scenario) {
    let Some(file) = top.text("forecast") else { return };
    let Some((parsed, _)) = read_plan(top, scenario, "forecast", &file) else { return };
    let shift = shift(top, scenario, parsed.plan.epoch);
    for (contact, line) in parsed.plan.contacts.iter().zip(&parsed.lines) {
        for end in [contact.from, contact.to] {
            if !scenario.nodes.iter().any(|node| node.number == end) {
                let found = format!("no node of the scenario is {end}");
                top.errors.push(format!("{file} (line {line})"), found, "remove the contact or add the node");
            }
        }
        let (start, end) = (moved(contact.start, shift), moved(contact.end, shift));
        // `moved` cuts times at the start of the run: a contact that is over by then has no length.
        if start < end {
            scenario.forecast.push(farlink_routing::Contact {
                link: Some(NO_LINK.into()),
                start: PlanTime(start),
                end: PlanTime(end),
                ..contact.clone()
            });
        }
    }
    scenario.files.push(file.into());
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    const TEXT: &str = "name = \"told\"\nduration = \"1 h\"\nforecast = \"told.plan\"\nfidelity = \"message\"\n\
        [[group]]\nname = \"n\"\ncount = 2\nfirst_id = 1\nrouter = \"epidemic\"\nradio = \"r\"\n\
        [[radio]]\nname = \"r\"\ncontacts = \"real.txt\"\n\
        [[traffic]]\nfrom = \"n1\"\nto = \"n2\"\nbundles = { count = 1, size = \"1 kB\" }\n";

    fn read(plan: &str) -> Result<Scenario, String> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("told.plan"), plan).expect("written");
        // The radio's real contact is earlier than the forecast one.
        std::fs::write(folder.path().join("real.txt"), "n1 n2 5 6\n").expect("written");
        std::fs::write(folder.path().join("s.toml"), TEXT).expect("written");
        Scenario::load(&folder.path().join("s.toml")).map_err(|list| format!("{list:?}"))
    }

    #[test]
    fn forecast_contacts_reach_only_plans() {
        let scenario = read("contact n1 n2 +10..+20 rate 1 kB/s\n").expect("a scenario");
        let plan = scenario.contact_plan();
        assert_eq!((plan.contacts.len(), scenario.contacts.len()), (1, 0));
        assert_eq!(plan.contacts[0].link.as_deref(), Some("(forecast)"));
        assert!(scenario.files.iter().any(|file| file.ends_with("told.plan")), "it is kept with the run");
        let wrong = read("contact n1 9 +10..+20 rate 1 kB/s\n").expect_err("there is no node 9");
        assert!(wrong.contains("no node of the scenario is"), "{wrong}");
    }
}
