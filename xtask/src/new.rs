//! `cargo xtask new <kind> <name>`: writes the initial file of a router, control or chore, and names the place of its
//! registration.

use crate::{Chore, tools};
use anyhow::{Result, bail, ensure};

pub const CHORE: Chore = Chore {
    name: "new",
    usage: "router|control|chore NAME",
    help: "Writes the file a new router, congestion control or chore begins as.",
    run,
};

/// Kind, folder, place of registration, and template.
const KINDS: [(&str, &str, &str, &str); 3] = [
    (
        "router",
        "core/routing/src",
        "core/routing: `mod NAME;` in lib.rs and one entry in registry.rs",
        include_str!("new/router.rs.txt"),
    ),
    (
        "control",
        "core/congestion/src",
        "core/congestion: `mod NAME;` in lib.rs and one entry in registry.rs",
        include_str!("new/control.rs.txt"),
    ),
    ("chore", "xtask/src", "xtask/src/main.rs: `mod NAME;` and one entry in CHORES", include_str!("new/chore.rs.txt")),
];

fn run(arguments: &[String]) -> Result<()> {
    let words = tools::Arguments::new(arguments).rest()?;
    let [kind, name] = words[..] else { bail!("usage: cargo xtask {} {}", CHORE.name, CHORE.usage) };
    let Some((_, folder, register, template)) = KINDS.iter().find(|(known, ..)| *known == kind) else {
        bail!("`{kind}` is not one of router, control, chore; CONTRIBUTING.md says where other things go");
    };
    // The name becomes a file, a module and a type: only letters that all of them allow.
    let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(valid);
    ensure!(good, "`{name}`: names are lower case, such as `spray-and-wait`");
    let path = tools::root().join(folder).join(format!("{}.rs", module(name)));
    ensure!(!path.exists(), "{} is there already", path.display());
    std::fs::write(&path, fill(template, name))?;
    println!("wrote {folder}/{}.rs\nnow register it in {}", module(name), register.replace("NAME", &module(name)));
    Ok(())
}

fn module(name: &str) -> String {
    name.replace('-', "_")
}

fn fill(template: &str, name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
    };
    let type_name: String = name.split('-').map(word).collect();
    template.replace("TYPE", &type_name).replace("NAME", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_receive_the_names() {
        for (kind, folder, _, template) in KINDS {
            let text = fill(template, "spray-and-wait");
            assert!(text.contains("SprayAndWait") || kind == "chore", "{kind}");
            assert!(text.contains("spray-and-wait") && !text.contains("NAME") && !text.contains("TYPE"), "{kind}");
            assert!(tools::root().join(folder).is_dir());
        }
        assert!(run(&["router".into(), "Loud".into()]).is_err());
        assert!(run(&["engine".into(), "x".into()]).is_err());
    }
}
