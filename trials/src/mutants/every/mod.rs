//! `cargo xtask mutants every`: mutants of seven kinds (`sites.rs`), found by a parser, many in one build.
//!
//! The tree is copied to `target/mutants/every` with a switch around each site ([`sites`], [`tree`]). Every test runs
//! once to see which mutants it reaches. Then each mutant is planted by its number, and the tests that reach it run,
//! fastest first, until one fails ([`trial`]). Verdicts are kept by anchor (item and text): another run repeats only
//! changed sites, and, when tests changed, mutants that no test noticed.

mod accepted;
mod report;
#[allow(missing_docs, reason = "names of fields say what they hold")]
pub mod sites;
#[allow(missing_docs, reason = "names of fields say what they hold")]
pub mod tree;
#[allow(missing_docs, reason = "names of fields say what they hold")]
pub mod trial;

use crate::tools;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use sites::{Kind, Site};
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::sync::Mutex;
use std::time::Instant;
use trial::Verdict;

/// Synopsis for the command line.
pub const USAGE: &str = "every [--crates LIST] [--tests LIST] [--kinds LIST] [--only WORDS] [--rule RULE] \
                         [--sample N --seed S] [--list] [--fresh] [--jobs N]";

/// Help text for the command line.
pub const HELP: &str = "every: plants a mutant at each place of the chosen kinds, many in one build, and says which of them no test notices.\n\n\
  --crates LIST   crates to plant in: those of core, and node (storage,bpa,stack)\n\
  --tests LIST    crates whose tests are to notice (storage,bpa,stack)\n\
  --kinds LIST    calls, assignments, conditions, comparisons, jumps, arms, numbers (calls)\n\
  --only WORDS    those with these words in item or text; `a|b`: these or those\n\
  --rule RULE     those under the mark of this rule; `any`: under any mark\n\
  --sample N      so many, drawn by --seed S (1)\n\
  --list          says which, and plants none\n\
  --fresh         tries again what is known; without it a run goes on where the last one ended\n\
  --jobs N        tests run at a time (processors)\n\n\
Verdicts are in target/mutants/verdicts.jsonl, the table in target/mutants/every.md;\n\
survivors that may be stand in trials/src/mutants/every/accepted.toml, with the reason.\n\n\
  cargo xtask mutants every --crates storage\n\
  cargo xtask mutants every --only LogStore::delete --list\n\
  cargo xtask mutants every --kinds conditions,comparisons --crates bundle --tests bundle --rule 9171-4.2.1-1\n\
  cargo xtask mutants every --sample 20 --seed 7";

/// Parsed arguments.
struct EveryRequest {
    crates: Vec<String>,
    tests: Vec<String>,
    kinds: Vec<Kind>,
    only: String,
    rule: Option<String>,
    sample: Option<(usize, u64)>,
    list: bool,
    fresh: bool,
    jobs: usize,
}
impl EveryRequest {
    fn read(arguments: &[String]) -> Result<EveryRequest> {
        let mut arguments = tools::Arguments::new(arguments);
        let folders = |list: Option<&str>| -> Vec<String> {
            let folder = |name: &str| if name == "node" { "node".into() } else { format!("core/{name}") };
            list.unwrap_or("storage,bpa,stack").split(',').map(folder).collect()
        };
        let kinds = arguments.word("--kinds")?.unwrap_or("calls").split(',').map(|word| {
            let found = Kind::ALL.iter().find(|(_, name)| *name == word);
            found.map(|(kind, _)| *kind).with_context(|| format!("`{word}` is not a kind of mutant"))
        });
        let kinds = kinds.collect::<Result<Vec<Kind>>>()?;
        let (sample, seed) = (arguments.number("--sample", 0)?, arguments.number("--seed", 1)?);
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let asked = EveryRequest {
            crates: folders(arguments.word("--crates")?),
            tests: folders(arguments.word("--tests")?),
            kinds,
            only: arguments.word("--only")?.unwrap_or("").to_string(),
            rule: arguments.word("--rule")?.map(String::from),
            sample: (sample > 0).then_some((usize::try_from(sample)?, seed)),
            list: arguments.flag("--list"),
            fresh: arguments.flag("--fresh"),
            jobs: usize::try_from(arguments.number("--jobs", processors as u64)?)?.max(1),
        };
        match arguments.rest()?.first() {
            Some(word) => bail!("`{word}` is not an option of mutants every"),
            None => Ok(asked),
        }
    }
    fn chosen(&self, sites: &[Site]) -> Vec<Site> {
        let rule = |site: &Site| match self.rule.as_deref() {
            None => true,
            Some("any") => !site.marks.is_empty(),
            Some(rule) => site.marks.iter().any(|mark| mark == rule),
        };
        let only = |site: &Site| self.only.split('|').any(|words| site.anchor().contains(words));
        let mut chosen: Vec<Site> = sites.iter().filter(|site| only(site) && rule(site)).cloned().collect();
        if let Some((count, seed)) = self.sample {
            // Ordered by a digest: a seed draws the same sample on every machine.
            chosen.sort_by_key(|site| sites::digest(&format!("{seed} {}", site.number)));
            chosen.truncate(count);
        }
        chosen
    }
    fn packages(&self) -> Vec<String> {
        let name = |folder: &String| format!("farlink-{}", folder.trim_start_matches("core/"));
        self.tests.iter().map(name).collect()
    }
}

/// Runs `cargo xtask mutants every`.
///
/// # Errors
/// When the copy does not build, or a mutant survives that is not accepted.
pub fn run(arguments: &[String]) -> Result<()> {
    let (asked, root) = (EveryRequest::read(arguments)?, tools::root());
    std::fs::create_dir_all(tools::target().join("mutants"))?;
    if asked.list {
        let (sources, left_out) = tree::instrument(&root, &asked.crates, (&asked.kinds, false))?;
        let all: Vec<Site> = sources.into_iter().flat_map(|source| source.sites).collect();
        let chosen = asked.chosen(&all);
        // The list shows the rules that mark each mutant, by which mutants for a run can be chosen: a run is long.
        for site in &chosen {
            let (file, line, rules) = (&site.file, site.lines.0, site.marks.join(" "));
            println!("{:>10} {file}:{line} {} {rules}", site.number, site.anchor());
        }
        eprintln!("{} mutants of {}; {left_out} do not compile", chosen.len(), all.len());
        return Ok(());
    }
    let built = tree::build(&root, &asked.crates, (&asked.kinds, false), &asked.packages())?;
    let bar = bar("tests traced");
    let reach = trial::trace(&built.programs, asked.jobs, &tools::target().join("mutants"), &|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
    for test in &reach.failing {
        eprintln!("left out, as it fails with nothing planted: {test}");
    }
    let chosen = asked.chosen(&built.sites);
    let tests = trial::digest_of_tests(&root, &asked.tests)?;
    let mut verdicts = known(&chosen, tests, &asked)?;
    try_all(&chosen, &built, &reach, tests, &asked, &mut verdicts)?;
    report::write(&chosen, &verdicts, built.unguardable)
}

fn bar(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let style = "{bar:30} {pos}/{len} {prefix} {msg} {eta} left";
    bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.with_prefix(what)
}

fn verdicts_file() -> std::path::PathBuf {
    tools::target().join("mutants/verdicts.jsonl")
}

/// Verdicts of earlier runs that still hold.
fn known(chosen: &[Site], tests: u64, asked: &EveryRequest) -> Result<BTreeMap<u32, Verdict>> {
    let text = std::fs::read_to_string(verdicts_file()).unwrap_or_default();
    let here: BTreeMap<String, &Site> = chosen.iter().map(|site| (site.anchor(), site)).collect();
    let mut verdicts = BTreeMap::new();
    // Later lines replace earlier ones of the same mutant.
    for line in text.lines().filter(|_| !asked.fresh) {
        // A killed run may leave half a line at the end.
        let Ok(row) = serde_json::from_str::<Value>(line) else { continue };
        let Some(site) = row["anchor"].as_str().and_then(|anchor| here.get(anchor)) else { continue };
        let verdict = match row["verdict"].as_str().unwrap_or_default() {
            "killed" => Verdict::Killed(row["by"].as_str().unwrap_or_default().into()),
            "hung" => Verdict::Hung(row["by"].as_str().unwrap_or_default().into()),
            "survived" => Verdict::Survived,
            _ => Verdict::Unreached,
        };
        // A survivor's verdict also depends on the tests; a killed mutant stays killed when tests are added.
        let same = row["digest"] == site.digest && (verdict.is_noticed() || row["tests"] == tests);
        if same {
            verdicts.insert(site.number, verdict);
        } else {
            verdicts.remove(&site.number);
        }
    }
    Ok(verdicts)
}

fn try_all(
    chosen: &[Site],
    built: &tree::Instrumented,
    reach: &trial::Reach,
    tests: u64,
    asked: &EveryRequest,
    verdicts: &mut BTreeMap<u32, Verdict>,
) -> Result<()> {
    let known: HashSet<u32> = verdicts.keys().copied().collect();
    let open: Vec<&Site> = chosen.iter().filter(|site| !known.contains(&site.number)).collect();
    let bar = bar("mutants");
    bar.set_length(open.len() as u64);
    let file = std::fs::OpenOptions::new().create(true).append(true).open(verdicts_file())?;
    let shared = Mutex::new((file, &mut *verdicts));
    trial::each(asked.jobs, open.len(), &|at| {
        let (site, begun) = (open[at], Instant::now());
        let verdict = reach.judge(site, &built.programs, &|_, _| true)?;
        let row = json!({
            "anchor": site.anchor(), "digest": site.digest, "tests": tests,
            "verdict": verdict.word(), "by": verdict.by(), "seconds": begun.elapsed().as_secs_f64(),
        });
        let mut shared = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Each verdict is written at once, so that an interrupted run can continue.
        shared.0.write_all(format!("{row}\n").as_bytes())?;
        if !verdict.is_noticed() {
            bar.suspend(|| println!("{:<10} {}:{} {}", verdict.word(), site.file, site.lines.0, site.anchor()));
        }
        shared.1.insert(site.number, verdict);
        bar.inc(1);
        Ok(())
    })?;
    bar.finish_and_clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::sites::{Kind, Site, Wanted, of_crate};
    use super::tree::Program;
    use super::trial::{Verdict, each, trace};
    use super::{accepted, tools};
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::process::Command;
    use std::sync::Mutex;

    const ALL: [Kind; 6] = [Kind::Call, Kind::Assignment, Kind::Condition, Kind::Comparison, Kind::Jump, Kind::Arm];

    fn sites(root: &Path, folder: &str, kinds: &[Kind]) -> Vec<Site> {
        let sources = of_crate(root, folder, &Wanted { kinds, marked: false, may: &|_| true }).unwrap();
        sources.into_iter().flat_map(|source| source.sites).collect()
    }

    #[test]
    fn accepted_mutants_have_reasons() {
        let root = tools::root();
        let all: Vec<Site> =
            ["core/storage", "core/bpa", "core/stack"].iter().flat_map(|folder| sites(&root, folder, &ALL)).collect();
        assert!(all.len() > 4000, "{}", all.len());
        for row in accepted::all().unwrap() {
            assert!(all.iter().any(|site| row.is_of(site)), "no such mutant: {row:?}");
            assert!(row.why.len() > 20, "{row:?}");
        }
    }

    const TOY: &str = r#"
pub struct Toy { pub list: Vec<u32>, pub sum: u32 }
impl Toy {
    // RULE
    pub fn put(&mut self, value: u32) {
        self.list.push(value);
        self.list.shrink_to_fit();
        self.sum += value;
    }
    pub fn drain(&mut self) {
        while !self.list.is_empty() {
            self.list.pop();
        }
    }
    pub fn never(&mut self) {
        self.list.clear();
    }
    pub fn small(&self, most: u32) -> bool {
        if self.sum == 77 {
            return false;
        }
        match self.sum {
            0 => true,
            sum if sum < most && let Some(first) = self.list.first() => *first <= sum,
            _ => false,
        }
    }
    pub const fn constant(value: u32) -> bool {
        value < 3
    }
}
#[cfg(test)]
mod tests {
    #[test]
    fn put_and_drain() {
        let mut toy = super::Toy { list: Vec::new(), sum: 0 };
        toy.put(5);
        toy.put(2);
        assert_eq!((toy.list.len(), toy.sum), (2, 7));
        assert!(toy.small(8) && !toy.small(7));
        toy.drain();
        assert!(toy.list.is_empty());
    }
}
"#;

    #[test]
    fn toy_mutants_are_tried() {
        // Only a built and executed toy shows that the switches compile and that verdicts are right.
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("core/toy/src")).unwrap();
        // The mark is inserted at run time: in this file it would count as one.
        std::fs::write(root.join("core/toy/src/lib.rs"), TOY.replace("RULE", "9171-1-1")).unwrap();
        std::fs::write(root.join("switch.rs"), include_str!("switch.rs")).unwrap();
        let source =
            of_crate(root, "core/toy", &Wanted { kinds: &ALL, marked: false, may: &|_| true }).unwrap().remove(0);
        assert_eq!(source.text.lines().count(), TOY.lines().count(), "line numbers hold");
        std::fs::write(root.join("toy.rs"), &source.text).unwrap();
        let rustc = |arguments: &[&str]| {
            let mut command = Command::new("rustc");
            command.current_dir(root).args(["--edition", "2024"]).args(arguments);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}{}", source.text, String::from_utf8_lossy(&output.stderr));
        };
        rustc(&["--crate-type", "lib", "--crate-name", "farlink_mutant", "switch.rs"]);
        rustc(&["--test", "--extern", "farlink_mutant=libfarlink_mutant.rlib", "-o", "toy", "toy.rs"]);
        let programs = [Program { path: root.join("toy"), folder: root.to_path_buf(), name: "toy".into() }];
        let reach = trace(&programs, 1, root, &|_, _| {}).unwrap();
        assert_eq!((reach.tests.len(), reach.failing.len()), (1, 0));
        let verdicts = Mutex::new(BTreeMap::new());
        each(2, source.sites.len(), &|at| {
            let verdict = reach.judge(&source.sites[at], &programs, &|_, _| true)?;
            verdicts.lock().unwrap().insert(source.sites[at].anchor(), verdict.word());
            Ok(())
        })
        .unwrap();
        let verdicts = verdicts.into_inner().unwrap();
        let of = |words: &str| verdicts.iter().find(|(anchor, _)| anchor.contains(words)).map(|(_, word)| *word);
        for (words, word) in [
            ("calls toy::Toy::put: self.list.push(value);", "killed"),
            ("calls toy::Toy::put: self.list.shrink_to_fit();", "survived"),
            ("assignments toy::Toy::put: self.sum += value;", "killed"),
            ("calls toy::Toy::drain: self.list.pop();", "hung"),
            ("calls toy::Toy::never", "unreached"),
            ("comparisons toy::Toy::small: self.sum == 77", "killed"),
            ("jumps toy::Toy::small: return false;", "unreached"),
            ("arms toy::Toy::small: 0", "unreached"),
            ("conditions toy::Toy::small: sum < most && let", "killed"),
            ("comparisons toy::Toy::small: sum < most", "killed"),
            ("comparisons toy::Toy::small: *first <= sum", "survived"),
        ] {
            assert_eq!(of(words), Some(word), "{words}: {verdicts:#?}");
        }
        assert!(!verdicts.keys().any(|anchor| anchor.contains("constant")), "it cannot ask a switch");
        let marked = source.sites.iter().filter(|site| site.marks == ["9171-1-1"]).count();
        assert_eq!(marked, 3, "what stands under the mark of a rule");
        assert!(matches!(Verdict::Killed("a test".into()), verdict if verdict.is_noticed()));
    }
}
