//! What a scenario says that can be run, and yet can hardly be meant.

use crate::types::Scenario;
use farlink_base::format_duration;

impl Scenario {
    /// Sentences about links and contacts that never come to pass.
    pub fn doubts(&self) -> Vec<String> {
        let mut all = Vec::new();
        for link in &self.links {
            if link.appears >= self.duration {
                let (at, end) = (format_duration(link.appears), format_duration(self.duration));
                all.push(format!("link `{}` appears at {at}, and the run ends at {end}", link.name));
            }
        }
        for contact in &self.contacts {
            let link = &self.links[contact.link];
            let gone = link.disappears.is_some_and(|at| contact.start >= at);
            if contact.end <= link.appears || gone {
                let from = &self.nodes[link.between[usize::from(!contact.forward)]].name;
                let (start, end) = (format_duration(contact.start), format_duration(contact.end));
                let when = if gone { "after it disappears" } else { "before it appears" };
                all.push(format!("a contact of link `{}`, from `{from}`, {start} to {end}, lies {when}", link.name));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_contacts_that_never_come_are_doubted() {
        let scenario = |life: &str, contact: &str| {
            let text = format!(
                "name = \"s\"\nduration = \"60 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\n\
                 id = \"ipn:2.0\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n{life}\n\
                 [[contact]]\nlink = \"l\"\nfrom = \"b\"\n{contact}\n"
            );
            Scenario::parse(&text).unwrap().doubts()
        };
        let life = "appears = \"20 s\"\ndisappears = \"40 s\"";
        assert!(scenario(life, "start = \"10 s\"\nend = \"50 s\"").is_empty(), "they overlap");
        let early = scenario(life, "start = \"1 s\"\nend = \"20 s\"");
        assert_eq!(early, ["a contact of link `l`, from `b`, 1 s to 20 s, lies before it appears"]);
        let late = scenario(life, "start = \"40 s\"\nend = \"50 s\"");
        assert_eq!(late, ["a contact of link `l`, from `b`, 40 s to 50 s, lies after it disappears"]);
        let never = scenario("appears = \"60 s\"", "start = \"60 s\"\nend = \"70 s\"");
        assert_eq!(never, ["link `l` appears at 60 s, and the run ends at 60 s"]);
    }
}
