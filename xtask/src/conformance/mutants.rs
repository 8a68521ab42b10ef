//! Mutants of the code under each rule's marks; the tests that name the rule must notice one.
//!
//! The instrumented copy is that of `cargo xtask mutants every`: one build carries all mutants behind a switch. For
//! each rule they are planted one after another until a test with that rule in its `Keeps` line fails; the noticed
//! mutant is recorded in [`FILE`] and on the page.

use super::{Standing, marks, standings, table};
use crate::tools;
use anyhow::{Context, Result, bail};
use farlink_trials::mutants::every::{sites, tree, trial};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

/// Noticed mutant of each rule, and the test that noticed it.
const FILE: &str = "docs/conformance/mutants.toml";
/// Folders of the crates whose code carries marks.
const CRATES: [&str; 7] = ["core/base", "core/bundle", "core/cla", "core/bpa", "core/stack", "config", "node"];
/// Most mutants planted for one rule.
const MOST: usize = 60;

/// A mutant that a test notices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Noticed {
    /// Mutated place: kind, item and code.
    pub mutant: String,
    /// The test that fails.
    pub by: String,
}

/// Recorded mutants by rule.
///
/// # Errors
/// When the file is not such a table.
pub fn noticed(root: &Path) -> Result<BTreeMap<String, Noticed>> {
    let text = std::fs::read_to_string(root.join(FILE)).unwrap_or_default();
    let table: toml::Table = text.parse().with_context(|| format!("cannot read {FILE}"))?;
    let word = |row: &toml::Value, key: &str| row.get(key).and_then(toml::Value::as_str).map(String::from);
    let rows = table.into_iter().map(|(id, row)| {
        let (mutant, by) = (word(&row, "mutant"), word(&row, "by"));
        let (mutant, by) = mutant.zip(by).with_context(|| format!("{FILE}: {id} has no mutant or no test"))?;
        Ok((id, Noticed { mutant, by }))
    });
    rows.collect()
}

/// Plants mutants for each rule whose number begins with `only`, and records those that are noticed.
///
/// # Errors
/// When the copy does not build, or a rule with a recorded mutant has none that is noticed now.
pub fn run(root: &Path, only: &str) -> Result<()> {
    let tables = table::read_all(&root.join("docs/conformance"))?;
    let mut wrong = Vec::new();
    let marks = marks::read_all(root, &mut wrong)?;
    let standings = standings(&tables, &marks, &mut wrong);
    std::fs::create_dir_all(tools::target().join("mutants"))?;
    let crates: Vec<String> = CRATES.map(String::from).into();
    let packages: Vec<String> = CRATES.iter().map(|folder| folder.replacen("core/", "", 1)).collect();
    let packages: Vec<String> = packages.iter().map(|name| format!("farlink-{name}")).collect();
    let kinds: Vec<sites::Kind> = sites::Kind::ALL.iter().map(|(kind, _)| *kind).collect();
    let built = tree::build(root, &crates, (&kinds, true), &packages)?;
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let reach = trial::trace(&built.programs, jobs, &tools::target().join("mutants"), &|_, _| {})?;
    let before = noticed(root)?;
    let rules: Vec<(&table::Rule, &marks::Kept)> = standings
        .iter()
        .flatten()
        .filter_map(|(rule, standing)| match standing {
            Standing::Kept(kept)
                if only.split(',').any(|begin| rule.id.starts_with(begin)) && rule.no_mutant.is_none() =>
            {
                Some((*rule, kept))
            }
            _ => None,
        })
        .collect();
    let found = Mutex::new(BTreeMap::new());
    trial::each(jobs, rules.len(), &|at| {
        let (rule, kept) = rules[at];
        let tests: BTreeSet<&str> = kept.tests.iter().map(|place| place.item.as_str()).collect();
        // Only tests that name the rule count.
        let named = |_: &tree::Program, test: &trial::Test| {
            test.name.rsplit("::").next().is_some_and(|name| tests.contains(name))
        };
        let mut sites: Vec<&sites::Site> = built.sites.iter().filter(|site| site.marks.contains(&rule.id)).collect();
        // The recorded mutant is tried first: usually it is still noticed.
        let known = before.get(&rule.id).map(|known| known.mutant.as_str());
        sites.sort_by_key(|site| Some(site.anchor().as_str()) != known);
        for site in sites.into_iter().take(MOST) {
            let verdict = reach.judge(site, &built.programs, &named)?;
            if verdict.is_noticed() {
                let one = Noticed { mutant: site.anchor(), by: verdict.by().to_string() };
                let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                found.insert(rule.id.clone(), one);
                // Written after each rule, so that an interrupted run keeps its results.
                write(root, before.clone(), &found, &[])?;
                break;
            }
        }
        Ok(())
    })?;
    let found = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let none: Vec<&str> =
        rules.iter().filter(|(rule, _)| !found.contains_key(&rule.id)).map(|(rule, _)| rule.id.as_str()).collect();
    let lost: Vec<&str> = none.iter().filter(|id| before.contains_key(**id)).copied().collect();
    println!("of {} rules, {} have a mutant that their tests notice", rules.len(), found.len());
    if !none.is_empty() {
        println!("none is noticed of: {}", none.join(" "));
    }
    write(root, before, &found, &rules)?;
    if !lost.is_empty() {
        bail!("no mutant is noticed any more of: {}", lost.join(" "));
    }
    Ok(())
}

fn write(
    root: &Path,
    mut all: BTreeMap<String, Noticed>,
    found: &BTreeMap<String, Noticed>,
    rules: &[(&table::Rule, &marks::Kept)],
) -> Result<()> {
    // Rules that were tried lose their old record; all others keep it.
    for (rule, _) in rules {
        all.remove(&rule.id);
    }
    all.extend(found.iter().map(|(id, one)| (id.clone(), one.clone())));
    let mut text = String::from(
        "# Written by `cargo xtask conformance --mutants`: a mutant of each rule, and the test that notices it.\n",
    );
    for (id, Noticed { mutant, by }) in &all {
        let quoted = |text: &str| toml::Value::String(text.into()).to_string();
        text += &format!("\"{id}\" = {{ mutant = {}, by = {} }}\n", quoted(mutant), quoted(by));
    }
    std::fs::write(root.join(FILE), text).with_context(|| format!("cannot write {FILE}"))
}
