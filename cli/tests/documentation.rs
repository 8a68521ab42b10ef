//! The shell of the documentation, run word for word. All blocks of a page are one script, in an empty folder with the
//! files that the page shows, in a network and a process namespace of its own, so that ports are free and background
//! programs end with it. What a reader sees of none of this stands in comments of the page:
//!
//! - `<!-- file: NAME -->`: the next block is that file. A block whose first line is `# NAME.toml` is one by itself.
//! - `<!-- append: NAME -->`: the next block is added to the end of that file.
//! - `<!-- reader: COMMAND -->`: what the prose has its reader do by hand, such as an edit in the middle of a file.
//! - `<!-- not run: WHY -->`: the next block is not run.
//!
//! Skipped with the reason if the kernel does not permit namespaces.

use crate::testbed::{FARLINK, possible};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Most blocks of all pages that are not run.
const NOT_RUN_MAX: usize = 10;
/// A page that takes longer hangs.
const PAGE_LIMIT: &str = "300";
/// Pages run at the same time. Most of them wait for links, but the testbed needs a processor as it starts its nodes.
const PAGES_AT_ONCE: usize = 2;

/// Pages with a test of their own, which plays several computers or builds the program.
const OWN_TESTS: [(&str, &str); 2] = [
    ("docs/tutorials/two-computers.md", "tests/tests/pages_typed.rs"),
    ("docs/tutorials/add-a-router.md", "tests/tests/tutorial_add_a_router.rs"),
];

/// Results that pages promise: the script must print them on standard output.
const PROMISES: &[(&str, &[&str])] = &[
    (
        "README.md",
        &[
            "4 sent, 4 received",
            "inbox/report.png",
            "node           ipn:1.0",
            "after 3 hops",
            "\"hello\"",
            "800 of 800",
        ],
    ),
    ("docs/how-to/add-an-implementation.md", &["--node 2", "tcpclv4, ping", "goodput"]),
    ("docs/how-to/run-a-campaign.md", &["crowd, small size: 9 points", "45 of 45 cells done", "silva, small size"]),
    ("docs/how-to/secure-bundles.md", &["2 sent, 2 received", " 0 failed, 0 missing"]),
    ("docs/how-to/secure-sessions.md", &["trusted by nodes with authorities", "2 sent, 2 received"]),
    ("docs/reference/contact-plan.md", &["after 2 hops", "contact "]),
    (
        "docs/tutorials/from-the-one.md",
        &["104 of 121 messages", "overhead_ratio: 7.2404", "meeting.html", "inbox/message"],
    ),
];

/// What one block of a page does to the script.
#[derive(Debug, PartialEq)]
enum Part {
    /// Commands, and the line of the page where they begin.
    Shell(usize, String),
    /// A file, its text, and whether that is added to what is there.
    File(String, String, bool),
    /// Commands that are not run, and the reason.
    NotRun(String),
    /// A block that looks like commands and does not say so.
    Unmarked(usize),
}

/// The name in a first line such as `# scenario.toml`.
fn named_file(body: &str) -> Option<String> {
    let name = body.lines().next()?.strip_prefix("# ")?;
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "./-_".contains(c));
    (plain && name.contains('.') && !name.ends_with('.')).then(|| name.to_string())
}

fn looks_like_shell(body: &str) -> bool {
    let commands =
        ["farlink", "cargo", "make", "git", "apt-get", "sudo", "pip", "python3", "export", "mkdir", "cat", "$"];
    body.lines().any(|line| line.split_whitespace().next().is_some_and(|word| commands.contains(&word)))
}

/// Commands of a block of a terminal: the lines behind a prompt.
fn after_prompts(body: &str) -> String {
    body.lines().filter_map(|line| line.strip_prefix("$ ")).map(|line| format!("{line}\n")).collect()
}

fn parts(page: &str) -> Vec<Part> {
    let (mut parts, mut notes) = (Vec::new(), Vec::<(String, String)>::new());
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let text = line.trim_start();
        if let Some(note) = text.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
            match note.split_once(": ") {
                Some(("reader", commands)) => parts.push(Part::Shell(at + 1, format!("{commands}\n"))),
                Some((key @ ("file" | "append" | "not run"), value)) => notes.push((key.into(), value.into())),
                _ => {}
            }
            continue;
        }
        let Some(language) = text.strip_prefix("```") else { continue };
        let indent = line.len() - text.len();
        let body: String = (&mut lines)
            .take_while(|(_, line)| line.trim() != "```")
            .map(|(_, line)| format!("{}\n", line.get(indent..).unwrap_or("")))
            .collect();
        let note = std::mem::take(&mut notes).pop();
        let (key, value) = note.unwrap_or_default();
        parts.push(match (key.as_str(), language) {
            ("not run", _) => Part::NotRun(value),
            ("file" | "append", _) => Part::File(value, body, key == "append"),
            (_, "sh" | "bash") => Part::Shell(at + 1, body),
            (_, "console") => Part::Shell(at + 1, after_prompts(&body)),
            (_, "") if looks_like_shell(&body) => Part::Unmarked(at + 1),
            _ => match named_file(&body) {
                Some(name) => Part::File(name, body, false),
                None => continue,
            },
        });
    }
    parts
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// README, everything below `docs`, and the page of each study, relative to the repository.
fn pages() -> Vec<String> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    let mut found = vec![root().join("README.md")];
    below(&root().join("docs"), &mut found);
    below(&root().join("campaigns"), &mut found);
    let mut names: Vec<_> = found.iter().map(|path| path.strip_prefix(root()).unwrap().display().to_string()).collect();
    names.sort();
    names
}

fn script(name: &str, parts: &[Part]) -> String {
    let mut script = String::from("set -eux\n");
    for part in parts {
        match part {
            Part::Shell(line, commands) => script += &format!(": {name}:{line}\n{commands}"),
            Part::File(file, body, more) => {
                let arrow = if *more { ">>" } else { ">" };
                script += &format!(
                    "mkdir -p \"$(dirname {file})\"\ncat {arrow} {file} <<'END_OF_BLOCK'\n{body}END_OF_BLOCK\n"
                );
            }
            Part::NotRun(_) | Part::Unmarked(_) => {}
        }
    }
    script
}

/// A shell in namespaces of its own, whose loopback interface is up; all its programs end with it.
fn alone(script: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PAGE_LIMIT, "unshare", "--map-root-user", "--net", "--pid", "--fork"]);
    command.args(["--kill-child", "--mount-proc", "sh", "-c", "ip link set lo up && exec bash -c \"$0\"", script]);
    command
}

/// Whether pages can be run here; prints the reason if not.
fn namespaces() -> bool {
    let can = alone("true").output().is_ok_and(|output| output.status.success());
    if !can {
        println!("skipped: the kernel refuses namespaces, or unshare and ip are missing");
    }
    can
}

/// Runs a page's script; returns the failure in words.
fn run_page(name: &str, parts: &[Part]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    // Pages name files of the repository.
    for part in ["docs", "campaigns"] {
        std::os::unix::fs::symlink(root().join(part), folder.path().join(part)).unwrap();
    }
    let programs = Path::new(FARLINK).parent().unwrap().display().to_string();
    let search = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    // In files: programs in the background may hold a pipe open.
    let open = |file: &str| fs::File::create(folder.path().join(file)).unwrap();
    let mut shell = alone(&script(name, parts));
    shell.current_dir(&folder).env("PATH", search).stdin(std::process::Stdio::null());
    let status = shell.stdout(open(".stdout")).stderr(open(".stderr")).status().unwrap();
    let read = |file: &str| String::from_utf8_lossy(&fs::read(folder.path().join(file)).unwrap()).into_owned();
    let (printed, told) = (read(".stdout"), read(".stderr"));
    if !status.success() {
        let end = told.len().saturating_sub(4000);
        let end = (end..=told.len()).find(|place| told.is_char_boundary(*place)).unwrap_or(0);
        return Err(format!("{name}: {status}\n{printed}\n-- standard error ends with\n{}", &told[end..]));
    }
    let promises = PROMISES.iter().filter(|(page, _)| *page == name).flat_map(|(_, promises)| *promises);
    match promises.filter(|promise| !printed.contains(**promise)).collect::<Vec<_>>()[..] {
        [] => Ok(()),
        ref missing => Err(format!("{name} does not print {missing:?}, but\n{printed}")),
    }
}

#[test]
fn parts_of_page_are_found() {
    let page = "# A\n\n<!-- not run: no network -->\n```sh\nls\n```\ntext\n```toml\n# a/b.toml\nkey = 1\n```\n\
                1. one\n   ```console\n   $ pwd\n   /\n   ```\n<!-- append: a/b.toml -->\n```toml\nmore = 2\n```\n\
                <!-- reader: sed -i s/1/2/ a/b.toml -->\n```\nfarlink --help\n```\n```toml\n# a comment.\n```\n";
    let expected = [
        Part::NotRun("no network".into()),
        Part::File("a/b.toml".into(), "# a/b.toml\nkey = 1\n".into(), false),
        Part::Shell(13, "pwd\n".into()),
        Part::File("a/b.toml".into(), "more = 2\n".into(), true),
        Part::Shell(21, "sed -i s/1/2/ a/b.toml\n".into()),
        Part::Unmarked(22),
    ];
    assert_eq!(parts(page), expected);
}

#[test]
fn failure_names_page_and_line() {
    if !namespaces() {
        return;
    }
    let run = |body: &str| run_page("page.md", &parts(&format!("# A\n```sh\n{body}\n```\n")));
    // Programs in the background end with the page, and do not hold it up.
    assert_eq!(run("sleep 1000 &\nls docs campaigns"), Ok(()));
    let why = run("echo said\nfalse\necho more").unwrap_err();
    assert!(why.contains("said") && why.contains("page.md:2\n+ echo said\n+ false") && !why.contains("more"), "{why}");
}

#[test]
fn few_blocks_are_not_run() {
    let (mut not_run, mut unmarked) = (Vec::new(), Vec::new());
    for name in pages() {
        for part in parts(&fs::read_to_string(root().join(&name)).unwrap()) {
            match part {
                Part::NotRun(why) => not_run.push(format!("{name}: {why}")),
                Part::Unmarked(line) => unmarked.push(format!("{name}:{line}")),
                _ => {}
            }
        }
    }
    assert!(unmarked.is_empty(), "commands in blocks that do not say `sh`: {unmarked:#?}");
    assert!(not_run.len() <= NOT_RUN_MAX, "{} blocks are not run: {not_run:#?}", not_run.len());
    for (page, test) in OWN_TESTS {
        assert!(fs::read_to_string(root().join(test)).unwrap().contains(page), "{test} no longer reads {page}");
    }
}

#[test]
fn every_shell_block_of_pages_runs() {
    if !namespaces() {
        return;
    }
    let testbed = possible();
    let only = std::env::var("FARLINK_PAGES").unwrap_or_default();
    let own = |name: &str| OWN_TESTS.iter().any(|(page, _)| *page == name);
    let mut todo: Vec<_> = pages()
        .into_iter()
        .filter(|name| name.contains(&only) && !own(name))
        .map(|name| (parts(&fs::read_to_string(root().join(&name)).unwrap()), name))
        .filter(|(parts, _)| parts.iter().any(|part| matches!(part, Part::Shell(..))))
        .collect();
    let of_testbed = |parts: &[Part]| {
        let words = ["--in lab", "lab check", "farlink emulate"];
        parts.iter().any(|part| matches!(part, Part::Shell(_, text) if words.iter().any(|word| text.contains(word))))
    };
    todo.retain(|(parts, _)| testbed || !of_testbed(parts));
    // Runs in the testbed take their time; nothing should wait for one that begins last.
    todo.sort_by_key(|(parts, _)| !of_testbed(parts));
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..PAGES_AT_ONCE {
            scope.spawn(|| {
                while let Some((parts, name)) = todo.get(next.fetch_add(1, Relaxed)) {
                    let begun = Instant::now();
                    // The testbed refuses to measure where its nodes do not start in time. That is no fault of a page.
                    let busy = |why: &String| why.contains("this machine may be too busy");
                    let result =
                        run_page(name, parts).or_else(|why| if busy(&why) { run_page(name, parts) } else { Err(why) });
                    println!("{name}: {:.1} s", begun.elapsed().as_secs_f64());
                    match result {
                        Err(why) if busy(&why) => println!("{name}: not judged, this machine was too busy twice"),
                        Err(why) => failures.lock().unwrap().push(why),
                        Ok(()) => {}
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} pages\n\n{}", failures.len(), todo.len(), failures.join("\n\n"));
}
