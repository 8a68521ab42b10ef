//! Chores of the project: `cargo xtask <chore>`, one file each.
//!
//! It contains nothing that the product needs at run time. To add a chore, write `src/<name>.rs` with a `pub const
//! CHORE`, and add one line to [`CHORES`]; `layers.rs` is a good model. Chores that try the product are in `trials/`.
#![forbid(unsafe_code)]

mod ci;
mod conformance;
mod docs;
mod fuzz;
mod layers;
mod new;
mod python;
mod relation;
mod sources;
mod static_build;
mod words;

use farlink_trials::{self as trials, Chore, tools};
use std::process::ExitCode;

/// All chores, in the order of `cargo xtask help`.
const CHORES: &[Chore] = &[
    ci::CHORE,
    layers::CHORE,
    fuzz::CHORE,
    trials::CRASH,
    trials::SIMFUZZ,
    trials::MUTANTS,
    trials::ATTACK,
    trials::SOAK,
    trials::OVERLOAD,
    trials::INTEROP,
    python::CHORE,
    static_build::CHORE,
    relation::CHORE,
    trials::AGREEMENT,
    trials::BENCH,
    trials::PROFILE,
    trials::SIM_SPEED,
    trials::ONE_REFERENCE,
    docs::CHORE,
    conformance::CHORE,
    words::CHORE,
    new::CHORE,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = arguments.split_first().map_or(("help", &[][..]), |(name, rest)| (name.as_str(), rest));
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        // Asking for help is no error, an unknown chore is.
        let asked = matches!(name, "help" | "--help" | "-h");
        if !asked {
            eprintln!("error: `{name}` is not a chore");
        }
        print!("{}", help());
        return if asked { ExitCode::SUCCESS } else { ExitCode::from(2) };
    };
    if rest.iter().any(|argument| argument == "--help" || argument == "-h") {
        // `mutants every` is a chore of its own with more options.
        match (name, rest[0].as_str()) {
            ("mutants", "every") => {
                println!("cargo xtask mutants {}\n\n{}", trials::mutants::every::USAGE, trials::mutants::every::HELP)
            }
            _ => println!("cargo xtask {} {}\n\n{}", chore.name, chore.usage, chore.help),
        }
        return ExitCode::SUCCESS;
    }
    match (chore.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn help() -> String {
    let mut text = String::from("cargo xtask <chore>\n\n");
    for chore in CHORES {
        text +=
            &format!("  {:<13} {:<34} {}\n", chore.name, chore.usage, chore.help.lines().next().unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn chores_have_name_and_sentence() {
        for chore in super::CHORES {
            assert!(!chore.name.is_empty() && chore.help.ends_with('.'), "{}", chore.name);
        }
        assert!(super::help().contains("layers"));
    }
}
