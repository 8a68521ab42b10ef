//! Files of other programs, and other files of this one, that are given as a node file by mistake.

/// Kind of a text that is no node file, with a hint where to go on; `None` if it may be one.
pub fn kind(text: &str) -> Option<(&'static str, &'static str)> {
    if text.trim_start().starts_with('{')
        && ["\"inductsConfig\"", "\"hdtnConfigName\""].iter().any(|key| text.contains(key))
    {
        return Some((
            "this is a configuration file of HDTN, not a node file",
            "docs/how-to/coming-from-hdtn.md translates it; `farlink init two-nodes` writes node files",
        ));
    }
    if is_of_ion(text) {
        return Some((
            "these are commands of ION, not a node file",
            "docs/how-to/coming-from-ion.md translates them; contacts and ranges need no translation: [plan] file = \"...\" \
             reads a file of them",
        ));
    }
    if crate::plan::parse(text).is_ok_and(|plan| !plan.contacts.is_empty()) {
        return Some((
            "this is a contact plan, not a node file",
            "name it in the node file: [plan] file = \"...\"; `farlink plan check --plan` reads it alone",
        ));
    }
    None
}

/// Whether every line is a command of ION's administration programs: one letter, and its arguments.
fn is_of_ion(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    let is_command = |line: &str| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|word| word.len() == 1) && words.next().is_none_or(|word| !word.starts_with('='))
    };
    lines.peek().is_some() && lines.all(is_command)
}

#[cfg(test)]
mod tests {
    use crate::config::NodeConfig;
    use std::path::Path;

    #[test]
    fn files_of_other_programs_are_named() {
        let ion =
            "## begin ionadmin\n1 2 node.ionconfig\ns\na contact +1 +3600 1 2 100000\nm horizon +0\n## end ionadmin\n";
        let hdtn = "{ \"hdtnConfigName\": \"node 10\",\n \"inductsConfig\": {} }";
        for (text, what, page) in [
            (ion, "n.rc: these are commands of ION, not a node file", "docs/how-to/coming-from-ion.md"),
            (hdtn, "n.rc: this is a configuration file of HDTN", "docs/how-to/coming-from-hdtn.md"),
            ("contact 1 2 +0..+60 rate 1 Mbit/s delay 1 s\n", "n.rc: this is a contact plan", "[plan] file"),
            ("{\"a\": 1}", "n.rc: the file is JSON", "farlink init"),
        ] {
            let said: Vec<String> =
                NodeConfig::parse(text, Path::new("n.rc")).unwrap_err().iter().map(ToString::to_string).collect();
            assert!(said.len() == 1 && said[0].starts_with(what) && said[0].contains(page), "{said:?}");
        }
        assert_eq!(super::kind("a = 1\nb = 2\n"), None, "keys of one letter");
        assert_eq!(super::kind(""), None);
    }
}
