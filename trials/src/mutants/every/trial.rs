//! Runs tests of the instrumented tree: which mutants each reaches, and which tests notice a mutant.

use super::sites::Site;
use super::tree::Program;
use crate::tools;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Address space of a test, KiB: ends a mutant that allocates endlessly.
const MEMORY_KIB: u64 = 6 << 20;
/// Time limit of a mutant's test: factor over the unmutated time, plus seconds.
const PATIENCE: (f64, f64) = (6.0, 5.0);
/// Longest test without a mutant.
const LONGEST: Duration = Duration::from_secs(600);

/// A test with its unmutated duration.
#[derive(Clone, Debug)]
pub struct Test {
    /// Index of the test's program.
    pub program: usize,
    pub name: String,
    pub seconds: f64,
}

/// Tests, and for each mutant those that reach it, fastest first.
pub struct Reach {
    pub tests: Vec<Test>,
    pub of: HashMap<u32, Vec<usize>>,
    /// Tests that fail without any mutant; they prove nothing.
    pub failing: Vec<String>,
}

/// Verdict on a mutant.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// Noticed: the named test failed.
    Killed(String),
    /// Noticed: the named test exceeded its limit.
    Hung(String),
    Survived,
    /// No test reaches the mutant.
    Unreached,
}
impl Verdict {
    /// Word in tables.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Killed(_) => "killed",
            Verdict::Hung(_) => "hung",
            Verdict::Survived => "survived",
            Verdict::Unreached => "unreached",
        }
    }
    /// The test that noticed; empty if none did.
    pub fn by(&self) -> &str {
        match self {
            Verdict::Killed(by) | Verdict::Hung(by) => by,
            Verdict::Survived | Verdict::Unreached => "",
        }
    }
    /// Whether a test noticed the mutant.
    pub fn is_noticed(&self) -> bool {
        !self.by().is_empty()
    }
}

#[derive(PartialEq, Debug)]
enum Ended {
    Well,
    Badly,
    Not,
}

fn run(program: &Program, test: &str, setting: (&str, &str), limit: Duration) -> Result<Ended> {
    let mut child = Command::new("sh")
        // No core dumps: a mutant may crash thousands of times.
        .args(["-c", &format!("ulimit -c 0 -v {MEMORY_KIB} 2>/dev/null; exec \"$0\" \"$@\"")])
        .arg(&program.path)
        .args(["--exact", test, "--test-threads", "1"])
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("RUST_BACKTRACE", "0")
        .env(setting.0, setting.1)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("starting {}", program.path.display()))?;
    let (begun, mut pause) = (Instant::now(), Duration::from_micros(500));
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() { Ended::Well } else { Ended::Badly });
        }
        if begun.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(Ended::Not);
        }
        std::thread::sleep(pause);
        // The pause grows up to 20 ms: the end of a short test is noticed at once, and a long test costs few wake-ups.
        pause = (pause * 5 / 4).min(Duration::from_millis(20));
    }
}

/// Runs `something` for each number below `count`, on `jobs` threads.
///
/// # Errors
/// The first error of any call; no further calls begin.
pub fn each(jobs: usize, count: usize, something: &(impl Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    if let Err(error) = something(at) {
                        next.store(count, Ordering::Relaxed);
                        *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).map_or(Ok(()), Err)
}

fn names(program: &Program) -> Result<Vec<String>> {
    let list = |more: &[&str]| -> Result<Vec<String>> {
        let mut command = Command::new(&program.path);
        command.current_dir(&program.folder).args(["--list", "--format", "terse"]).args(more);
        let text = tools::output(&mut command)?;
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(String::from).collect())
    };
    // Ignored tests are too slow to run for every mutant.
    let ignored = list(&["--ignored"])?;
    Ok(list(&[])?.into_iter().filter(|name| !ignored.contains(name)).collect())
}

fn stamp(program: &Program) -> Result<String> {
    // A program that was rebuilt has another time or length.
    let about = std::fs::metadata(&program.path)?;
    let changed = about.modified()?.duration_since(std::time::UNIX_EPOCH)?;
    Ok(format!("{} {}", changed.as_nanos(), about.len()))
}

/// Runs every test once, except in programs traced before; the cache is in the folder `place`.
///
/// # Errors
/// When a test cannot be run, or its trace cannot be read.
pub fn trace(
    programs: &[Program],
    jobs: usize,
    place: &Path,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Reach> {
    let cache = place.join("reach.json");
    let before: Value =
        std::fs::read_to_string(&cache).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let (mut open, mut traced) = (Vec::new(), BTreeMap::new());
    for (at, program) in programs.iter().enumerate() {
        let known = &before[program.path.to_string_lossy().as_ref()];
        if known["stamp"] == stamp(program)?.as_str() {
            traced.insert(at, known["tests"].clone());
        } else {
            open.extend(names(program)?.into_iter().map(|name| (at, name)));
        }
    }
    let folder = place.join("traces");
    std::fs::create_dir_all(&folder)?;
    let (found, done) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    each(jobs, open.len(), &|at| {
        let (program, name) = &open[at];
        let file = folder.join(format!("{at}.txt"));
        // A trace is appended to: that of an earlier run must not remain.
        let _ = std::fs::remove_file(&file);
        let begun = Instant::now();
        let ended = run(&programs[*program], name, ("FARLINK_MUTANT_TRACE", file.to_string_lossy().as_ref()), LONGEST)?;
        let seconds = begun.elapsed().as_secs_f64();
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(&file);
        let numbers: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let row = json!({"name": name, "seconds": seconds, "well": ended == Ended::Well, "reaches": numbers});
        found.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((*program, row));
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, open.len());
        Ok(())
    })?;
    let mut rows = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Sorted, since threads finish in any order.
    rows.sort_by(|(one, a), (other, b)| (one, a["name"].as_str()).cmp(&(other, b["name"].as_str())));
    for (program, row) in rows {
        if let Value::Array(list) = traced.entry(program).or_insert_with(|| json!([])) {
            list.push(row);
        }
    }
    let mut all = before.as_object().cloned().unwrap_or_default();
    for (at, tests) in &traced {
        let about = json!({"stamp": stamp(&programs[*at])?, "tests": tests});
        all.insert(programs[*at].path.to_string_lossy().into_owned(), about);
    }
    std::fs::write(cache, serde_json::to_string(&all)?)?;
    Ok(reach(programs, &traced))
}

fn reach(programs: &[Program], traced: &BTreeMap<usize, Value>) -> Reach {
    let mut reach = Reach { tests: Vec::new(), of: HashMap::new(), failing: Vec::new() };
    let rows = traced.iter().flat_map(|(at, list)| list.as_array().into_iter().flatten().map(move |row| (*at, row)));
    for (program, row) in rows {
        let name = row["name"].as_str().unwrap_or_default().to_string();
        if row["well"] != true {
            reach.failing.push(format!("{} {name}", programs[program].name));
            continue;
        }
        for number in row["reaches"].as_array().into_iter().flatten().filter_map(Value::as_u64) {
            reach.of.entry(u32::try_from(number).unwrap_or(0)).or_default().push(reach.tests.len());
        }
        reach.tests.push(Test { program, name, seconds: row["seconds"].as_f64().unwrap_or(1.0) });
    }
    for list in reach.of.values_mut() {
        list.sort_by(|one, other| reach.tests[*one].seconds.total_cmp(&reach.tests[*other].seconds));
    }
    reach
}

impl Reach {
    /// Plants a mutant and runs the tests that reach it until one notices; `may` selects tests.
    ///
    /// # Errors
    /// When a test cannot be started.
    pub fn judge(&self, site: &Site, programs: &[Program], may: &dyn Fn(&Program, &Test) -> bool) -> Result<Verdict> {
        let reaching = self.of.get(&site.number).map_or(&[][..], Vec::as_slice).iter().map(|at| &self.tests[*at]);
        let chosen: Vec<&Test> = reaching.filter(|test| may(&programs[test.program], test)).collect();
        if chosen.is_empty() {
            return Ok(Verdict::Unreached);
        }
        let number = site.number.to_string();
        for test in chosen {
            let program = &programs[test.program];
            let limit = Duration::from_secs_f64(test.seconds * PATIENCE.0 + PATIENCE.1);
            let by = || format!("{} {}", program.name, test.name);
            match run(program, &test.name, ("FARLINK_MUTANT", &number), limit)? {
                Ended::Well => {}
                Ended::Badly => return Ok(Verdict::Killed(by())),
                Ended::Not => return Ok(Verdict::Hung(by())),
            }
        }
        Ok(Verdict::Survived)
    }
}

/// Digest of the tests of these folders; survivors are tried again when it changes.
///
/// # Errors
/// When a file cannot be read.
pub fn digest_of_tests(root: &Path, folders: &[String]) -> Result<u64> {
    let mut sum = 0u64;
    for folder in folders {
        crate::sources::each_source(&root.join(folder), &|_| true, &mut |path| {
            let text = std::fs::read_to_string(path)?;
            // In sources, tests begin at the first `cfg(test)`.
            let from = if path.components().any(|part| part.as_os_str() == "tests") {
                0
            } else {
                text.find("#[cfg(test)]").unwrap_or(text.len())
            };
            // The order of files does not matter to a sum.
            sum = sum.wrapping_add(super::sites::digest(&text[from..]));
            Ok(())
        })?;
    }
    Ok(sum)
}
