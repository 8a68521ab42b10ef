//! The file of orbits: TOML, in the style of scenario files.

mod keys;
mod names;
mod places;
mod read;

use farlink_config::docs::write_section;

pub use read::{load, parse};

/// Renders the reference of the file as Markdown.
pub fn reference() -> String {
    let mut out = String::from(INTRODUCTION);
    for section in keys::SECTIONS {
        let title = if section.name == "orbits" { "Top level" } else { section.name };
        write_section(&mut out, title, section);
    }
    out
}

const INTRODUCTION: &str = "# The file of orbits

<!-- Made from orbits/src/file/keys.rs. Change that, then: FARLINK_BLESS=1 cargo test -p farlink-orbits -->

`farlink plan from-orbits` reads it and writes a contact plan; [Plan contacts from orbits](../how-to/plan-from-orbits.md)
shows how. Quantities are text with a unit: lengths `\"550 km\"`, `\"120 m\"`, `\"1.5 AU\"`; angles `\"53 deg\"`; durations
`\"30 s\"`; rates `\"100 Mbit/s\"`. Unknown keys are errors.

";

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_config::Kind;
    use std::collections::BTreeSet;

    #[test]
    fn reference_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/orbits.md");
        if std::env::var_os("FARLINK_BLESS").is_some() {
            std::fs::write(path, reference()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == reference(), "{path} is old: FARLINK_BLESS=1 cargo test -p farlink-orbits");
    }

    #[test]
    fn tables_and_keys_are_unique() {
        for section in keys::SECTIONS {
            let names: BTreeSet<&str> = section.keys.iter().map(|key| key.name).collect();
            assert_eq!(names.len(), section.keys.len(), "{}", section.name);
            for key in section.keys {
                if let Kind::Table(name) | Kind::Tables(name) = key.kind {
                    assert_eq!(keys::SECTIONS.iter().filter(|s| s.name == name).count(), 1, "{name}");
                }
                assert!(key.help.ends_with('.'), "{}: a sentence", key.name);
            }
        }
    }
}
