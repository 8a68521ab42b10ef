//! Instrumented copy of the tree, and its test programs.

use super::sites::{self, Kind, Site, Source, Wanted};
use crate::mutants::copied;
use crate::tools;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A copy of the tree in which every site has a switch.
pub struct Instrumented {
    pub sites: Vec<Site>,
    /// Number of sites left out because they do not compile.
    pub unguardable: usize,
    /// Test programs built from the copy.
    pub programs: Vec<Program>,
}

/// A test program of one package.
#[derive(Clone, Debug)]
pub struct Program {
    pub path: PathBuf,
    /// Folder of the package, in which its tests run.
    pub folder: PathBuf,
    /// Names of package and target.
    pub name: String,
}

fn place() -> PathBuf {
    tools::target().join("mutants/every")
}
/// Target folder of the copy's builds.
pub fn builds() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| tools::target().join("mutants/target"), PathBuf::from)
}
fn unguardable_file() -> PathBuf {
    // Anchors of mutants that do not compile behind a switch.
    tools::target().join("mutants/unguardable.txt")
}

/// Instruments the sources of crates (folders of the root) with these kinds, everywhere or only under marks of rules.
/// Returns them with the number of sites left out.
///
/// # Errors
/// When a source cannot be read.
pub fn instrument(root: &Path, crates: &[String], wanted: (&[Kind], bool)) -> Result<(Vec<Source>, usize)> {
    let left_out = std::fs::read_to_string(unguardable_file()).unwrap_or_default();
    let left_out: BTreeSet<&str> = left_out.lines().collect();
    let may = |anchor: &str| !left_out.contains(anchor);
    let mut sources = Vec::new();
    for folder in crates {
        sources.extend(sites::of_crate(root, folder, &Wanted { kinds: wanted.0, marked: wanted.1, may: &may })?);
    }
    // Numbers are digests: a collision would plant two mutants at once.
    let mut numbers = BTreeMap::new();
    for site in sources.iter().flat_map(|source| &source.sites) {
        if let Some(other) = numbers.insert(site.number, site.anchor()) {
            bail!("two mutants have one number: `{other}` and `{}`", site.anchor());
        }
    }
    Ok((sources, left_out.len()))
}

/// Writes the copy and builds the tests of these packages; mutants that do not compile are left out.
///
/// # Errors
/// When the build fails for another reason.
pub fn build(root: &Path, crates: &[String], wanted: (&[Kind], bool), packages: &[String]) -> Result<Instrumented> {
    // Each failed build excludes more mutants, until the copy compiles.
    loop {
        let (sources, unguardable) = instrument(root, crates, wanted)?;
        let texts = sources.iter().map(|source| (source.file.clone(), source.text.clone()));
        let mut changed: BTreeMap<String, String> = texts.collect();
        let read = |file: &str| std::fs::read_to_string(root.join(file)).with_context(|| format!("reading {file}"));
        let members = read("Cargo.toml")?.replacen("members = [", "members = [\"farlink-mutant\", ", 1);
        changed.insert("Cargo.toml".into(), members);
        for folder in crates {
            // The switch is a crate of its own, on which every instrumented crate depends.
            let up = "../".repeat(folder.split('/').count());
            let wanted = format!("[dependencies]\nfarlink-mutant = {{ path = \"{up}farlink-mutant\" }}\n");
            let file = format!("{folder}/Cargo.toml");
            changed.insert(file.clone(), read(&file)?.replacen("[dependencies]\n", &wanted, 1));
        }
        let switch = "[package]\nname = \"farlink-mutant\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        changed.insert("farlink-mutant/Cargo.toml".into(), switch.into());
        changed.insert("farlink-mutant/src/lib.rs".into(), include_str!("switch.rs").into());
        copied(root, &place(), &changed)?;
        let sites: Vec<Site> = sources.into_iter().flat_map(|source| source.sites).collect();
        let (messages, built) = cargo(packages)?;
        if built {
            return Ok(Instrumented { sites, unguardable, programs: programs(&messages) });
        }
        leave_out(&sites, &messages)?;
    }
}

/// Builds the tests of these packages; returns cargo's messages and whether it succeeded.
fn cargo(packages: &[String]) -> Result<(Vec<Value>, bool)> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(place()).env("CARGO_TARGET_DIR", builds()).env("RUSTFLAGS", "-Awarnings");
    // Each test runs for many mutants: faster code outweighs its longer build.
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0");
    command.args(["test", "--no-run", "--lib", "--tests", "--message-format=json"]);
    packages.iter().for_each(|package| {
        command.args(["--package", package]);
    });
    let output = command.stderr(Stdio::piped()).output().context("starting cargo")?;
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if !output.status.success() && errors(&messages).next().is_none() {
        bail!("the copy does not build:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok((messages, output.status.success()))
}

fn errors(messages: &[Value]) -> impl Iterator<Item = &Value> {
    messages
        .iter()
        .filter(|message| message["reason"] == "compiler-message")
        .map(|message| &message["message"])
        .filter(|message| message["level"] == "error")
}

/// Assigns compiler errors to sites, and excludes those from the next build.
fn leave_out(sites: &[Site], messages: &[Value]) -> Result<()> {
    let mut out: BTreeSet<String> = BTreeSet::new();
    for error in errors(messages) {
        let spans = || error["spans"].as_array().into_iter().flatten();
        let lines = |span: &Value| {
            let line = |name: &str| usize::try_from(span[name].as_u64().unwrap_or(0)).unwrap_or(0);
            (line("line_start"), line("line_end"))
        };
        let within = |site: &Site, span: &Value, whole: bool| {
            let ((first, last), of) = (lines(span), if whole { site.function } else { site.lines });
            span["file_name"] == site.file.as_str() && of.0 <= last && first <= of.1
        };
        let near = sites.iter().filter(|site| spans().any(|span| within(site, span, false)));
        let mut found: Vec<String> = near.map(Site::anchor).collect();
        // Omitting a jump, an arm, an assignment or a drop may cause an error elsewhere in the function.
        let around = || sites.iter().filter(|site| spans().any(|span| within(site, span, true)));
        let elsewhere = |site: &&Site| {
            matches!(site.kind, Kind::Jump | Kind::Arm | Kind::Assignment) || site.text.starts_with("drop(")
        };
        found.extend(around().filter(elsewhere).map(Site::anchor));
        // Last resort: every mutant of the function.
        if found.is_empty() {
            found.extend(around().map(Site::anchor));
        }
        if found.is_empty() && spans().next().is_some() {
            bail!("the copy does not build:\n{}", error["rendered"].as_str().unwrap_or_default());
        }
        out.extend(found);
    }
    if out.is_empty() {
        bail!("the copy does not build, and no mutant is the cause");
    }
    let file = unguardable_file();
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    eprintln!("{} mutants do not compile and are left out", out.len());
    std::fs::write(file, before + &out.into_iter().map(|anchor| anchor + "\n").collect::<String>())?;
    Ok(())
}

fn programs(messages: &[Value]) -> Vec<Program> {
    let mut programs: Vec<Program> = messages
        .iter()
        .filter(|message| message["reason"] == "compiler-artifact" && message["profile"]["test"] == true)
        .filter_map(|message| {
            let path = PathBuf::from(message["executable"].as_str()?);
            let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
            let package = folder.file_name()?.to_string_lossy().into_owned();
            let name = format!("{package} {}", message["target"]["name"].as_str()?);
            Some(Program { path, folder, name })
        })
        .collect();
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    programs
}
