//! The driver file: `driver.toml` of an implementation's folder, as `docs/reference/driver.md` describes it.

use super::{APP_FILE, READY};
use farlink_scenario::LAYERS;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;

/// Name of the file in a driver's folder.
pub const DRIVER_FILE: &str = "driver.toml";
/// Version of the schema that this program reads.
pub const SCHEMA: u32 = 1;

/// A word of a command, or a text, with placeholders.
pub type Word = Spanned<String>;

/// Mistake in a driver's folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriverMistake {
    /// File in the driver's folder.
    pub file: String,
    /// Line of the file, from 1.
    pub line: usize,
    /// Problem in words.
    pub problem: String,
    /// Suggestion to correct it.
    pub hint: String,
}

impl fmt::Display for DriverMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}: {}\nhint: {}", self.file, self.line, self.problem, self.hint)
    }
}

/// Content of a driver file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverFile {
    /// Version of the schema.
    pub driver: Spanned<u32>,
    /// Name of the implementation, equal to its folder's.
    pub name: Spanned<String>,
    /// Versions of the Bundle Protocol.
    pub bundles: Spanned<Vec<u8>>,
    /// Scheme of its node IDs.
    pub ids: IdScheme,
    /// Whether it can read blocks with a CRC.
    #[serde(default = "yes")]
    pub reads_crc: bool,
    #[serde(default)]
    pub programs: Programs,
    /// Files written into the node's folder before it starts.
    #[serde(default, rename = "file")]
    pub files: Vec<FileEntry>,
    pub start: Start,
    #[serde(default)]
    pub stop: Stop,
    pub app: Application,
    /// Convergence layers by Farlink's names.
    pub layer: Spanned<BTreeMap<String, Spanned<LayerEntry>>>,
    pub contacts: Option<Contacts>,
    #[serde(default)]
    pub parameter: BTreeMap<String, Spanned<Parameter>>,
}

/// Scheme of node IDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdScheme {
    Ipn,
    Dtn,
    /// Both schemes.
    Any,
}

/// Programs of the implementation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    /// Names of the programs that must be found, all in one folder.
    #[serde(default)]
    pub need: Vec<String>,
    /// Command that prints the version.
    pub version: Option<VersionCommand>,
    /// Command that installs the programs, or the address of a page that describes the installation.
    #[serde(default)]
    pub install: String,
    /// Folder of shared libraries, relative to the programs' folder.
    pub libraries: Option<String>,
}

/// Command that prints a version, found by the first group of a regular expression.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionCommand {
    pub run: Vec<String>,
    #[serde(default)]
    pub input: String,
    pub r#match: Spanned<String>,
}

/// File of the node's folder: exactly one of `text`, `template` and `copy`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Path in the node's folder.
    pub path: Spanned<String>,
    /// Content with placeholders.
    pub text: Option<Word>,
    /// Name of a file in the driver's folder: a template, in which placeholders are filled in.
    pub template: Option<Spanned<String>>,
    /// Name of a file in the driver's folder that is copied without changes.
    pub copy: Option<Spanned<String>>,
}

/// Start of a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Names of ports that are free in the host.
    #[serde(default)]
    pub ports: Vec<Spanned<String>>,
    /// Command that starts the node: program and arguments.
    pub run: Spanned<Vec<Word>>,
    #[serde(default)]
    pub each: Each,
    #[serde(default)]
    pub environment: BTreeMap<String, Word>,
    /// Whether the program ends once the node runs in the background.
    #[serde(default)]
    pub forks: bool,
    /// Whether a node that was killed still has its bundles after a restart.
    #[serde(default = "yes")]
    pub durable: bool,
    pub ready: Spanned<Ready>,
    /// Programs started once the node is ready.
    #[serde(default)]
    pub also: Vec<Vec<Word>>,
}

fn yes() -> bool {
    true
}

/// Arguments repeated for each layer, each link, each service with an application, and each node beyond the neighbours.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Each {
    #[serde(default)]
    pub layer: Vec<Word>,
    #[serde(default)]
    pub link: Vec<Word>,
    #[serde(default)]
    pub service: Vec<Word>,
    #[serde(default)]
    pub route: Vec<Word>,
}

/// Sign that a node accepts applications: exactly one of `connect`, `run`, `file` and `log`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Port at the loopback address, or `address:port`, that accepts a connection.
    pub connect: Option<Word>,
    /// Command that exits with status 0 once the node is ready.
    pub run: Option<Vec<Word>>,
    /// File that exists once the node is ready.
    pub file: Option<Word>,
    /// Log file in which a line fits `match` once the node is ready.
    pub log: Option<Word>,
    pub r#match: Option<Spanned<String>>,
    /// Longest wait for the sign, with its unit.
    pub within: Spanned<String>,
}

/// End of a node: a signal, or a command.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    pub run: Option<Vec<Word>>,
    /// Longest wait before the node is killed.
    pub within: Option<Spanned<String>>,
}

/// Interface to applications.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// Adapter, one of those of `farlink app --via`.
    pub via: Spanned<String>,
    /// Address of the interface; of no use with `via = "programs"`.
    pub at: Option<Word>,
    /// Service at which it answers pings.
    pub echo: Option<u32>,
    pub send: Option<AppCommand>,
    pub receive: Option<AppCommand>,
    pub load: Option<AppCommand>,
    pub unload: Option<AppCommand>,
    pub ping: Option<AppCommand>,
}

/// Program of an implementation that serves as application.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppCommand {
    pub run: Vec<Word>,
    /// Log in the node's folder that reports arrivals, in place of the program's output.
    pub log: Option<Word>,
    /// Regular expression of a line that reports an arrival; its first group names the file of the payload.
    pub each: Option<Spanned<String>>,
    /// Regular expression of the line that reports the end.
    pub done: Option<Spanned<String>>,
    /// Round-trip times in the output.
    pub rtt: Option<RoundTrip>,
}

/// Round-trip time in a program's output: the first group of a regular expression.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundTrip {
    pub r#match: Spanned<String>,
    pub unit: TimeUnit,
}

/// Unit of a printed time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub enum TimeUnit {
    #[serde(rename = "s")]
    Second,
    #[serde(rename = "ms")]
    Millisecond,
    #[serde(rename = "us")]
    Microsecond,
}

impl TimeUnit {
    /// Name of the unit in driver files.
    pub fn word(self) -> &'static str {
        match self {
            TimeUnit::Second => "s",
            TimeUnit::Millisecond => "ms",
            TimeUnit::Microsecond => "us",
        }
    }
}

/// A convergence layer of the implementation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerEntry {
    /// Name of the layer in the implementation's own configuration.
    pub word: String,
    /// Largest bundle that it receives; `None` for no known limit.
    pub takes: Option<String>,
    /// Largest bundle that it sends; `None` for no known limit.
    pub gives: Option<String>,
    /// Largest bundle that passes while no other is in transit; `farlink lab check` sends one of this size. `None` for
    /// no known limit.
    pub once: Option<String>,
    /// Whether each bundle is one datagram, which may be lost.
    #[serde(default)]
    pub datagrams: bool,
}

/// Contact plan of the implementation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contacts {
    /// Dialect of `{{ contacts }}`.
    pub dialect: Dialect,
}

/// Dialect of a contact plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    Ion,
    Farlink,
}

/// Parameter of the implementation that scenarios and campaigns set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    pub default: toml::Value,
    #[serde(default)]
    pub help: String,
    /// Permitted values; all if empty.
    #[serde(default)]
    pub one_of: Vec<toml::Value>,
}

impl Parameter {
    /// Text of a value in templates.
    pub fn text(value: &toml::Value) -> String {
        match value {
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// Line of a byte offset, from 1.
pub fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

/// Reads a driver file, and checks everything but its placeholders and templates.
///
/// # Errors
/// The mistakes, each with its line.
pub fn read(text: &str, folder_name: &str) -> Result<DriverFile, Vec<DriverMistake>> {
    let mistake = |line: usize, problem: String, hint: &str| DriverMistake {
        file: DRIVER_FILE.into(),
        line,
        problem,
        hint: hint.into(),
    };
    let file: DriverFile = toml::from_str(text).map_err(|why| {
        let line = why.span().map_or(1, |span| line_at(text, span.start));
        // The first line of the message names the problem; the others draw the place, which the line number replaces.
        let problem = why.message().lines().next().unwrap_or_default().to_string();
        vec![mistake(line, problem, "docs/reference/driver.md lists tables and keys")]
    })?;
    let mut mistakes = Vec::new();
    let mut fail = |offset: usize, problem: String, hint: &str| {
        mistakes.push(mistake(line_at(text, offset), problem, hint));
    };
    let version = *file.driver.get_ref();
    if version != SCHEMA {
        let problem = format!("schema {version}, and this program reads {SCHEMA}");
        fail(file.driver.span().start, problem, "write driver = 1, or take the Farlink that the file is for");
    }
    if file.name.get_ref() != folder_name {
        let problem = format!("name `{}` in a folder called `{folder_name}`", file.name.get_ref());
        fail(file.name.span().start, problem, "both must be equal");
    }
    if file.bundles.get_ref().is_empty() || file.bundles.get_ref().iter().any(|version| !matches!(version, 6 | 7)) {
        fail(file.bundles.span().start, "no version of the Bundle Protocol".into(), "e.g. bundles = [7]");
    }
    if file.start.run.get_ref().is_empty() {
        fail(file.start.run.span().start, "no program to run".into(), "e.g. run = [\"dtnd\", \"--nodeid\", \"1\"]");
    }
    for entry in &file.files {
        let path = entry.path.get_ref();
        let leaves = path.split('/').any(|part| part == "..") || path.starts_with('/') || path.is_empty();
        if leaves {
            let problem = format!("`{path}` is not a path in the node's folder");
            fail(entry.path.span().start, problem, "write a relative path without `..`");
        }
        let twice = file.files.iter().filter(|other| other.path.get_ref() == path).count() > 1;
        if twice || [READY, APP_FILE, "node.out", "node.log"].contains(&path.as_str()) {
            let problem = format!("`{path}` is written twice, here and by another file or the testbed");
            fail(entry.path.span().start, problem, "choose another name");
        }
        let given = [entry.text.is_some(), entry.template.is_some(), entry.copy.is_some()];
        if given.iter().filter(|given| **given).count() != 1 {
            let problem = format!("`{path}` needs exactly one of `text`, `template` and `copy`");
            fail(entry.path.span().start, problem, "`template` and `copy` name files of this folder");
        }
    }
    let ready = file.start.ready.get_ref();
    let ways = [ready.connect.is_some(), ready.run.is_some(), ready.file.is_some(), ready.log.is_some()];
    if ways.iter().filter(|given| **given).count() != 1 || ready.log.is_some() != ready.r#match.is_some() {
        let hint = "e.g. ready = { connect = \"{{ port.web }}\", within = \"30 s\" }, or log = \"node.log\" with match";
        fail(file.start.ready.span().start, "needs exactly one of `connect`, `run`, `file`, `log`".into(), hint);
    }
    for within in [Some(&ready.within), file.stop.within.as_ref()].into_iter().flatten() {
        if let Err(why) = farlink_base::parse_duration(within.get_ref()) {
            fail(within.span().start, why.to_string(), "e.g. within = \"30 s\"");
        }
    }
    if file.layer.get_ref().is_empty() {
        fail(file.layer.span().start, "no convergence layer".into(), "e.g. [layer.tcpclv4] with word = \"tcp\"");
    }
    for (name, entry) in file.layer.get_ref() {
        if !LAYERS.iter().any(|layer| layer.name == name) {
            let names: Vec<&str> = LAYERS.iter().map(|layer| layer.name).collect();
            let hint = format!("one of {}", names.join(", "));
            fail(entry.span().start, format!("`{name}` is no convergence layer"), &hint);
        }
        let LayerEntry { takes, gives, once, .. } = entry.get_ref();
        for size in [takes, gives, once].into_iter().flatten() {
            if let Err(why) = size.parse::<farlink_base::DataVolume>() {
                fail(entry.span().start, why.to_string(), "e.g. takes = \"60 kB\"");
            }
        }
    }
    for (name, parameter) in &file.parameter {
        let entry = parameter.get_ref();
        if !entry.one_of.is_empty() && !entry.one_of.contains(&entry.default) {
            let problem = format!("the default of parameter `{name}` is none of `one_of`");
            fail(parameter.span().start, problem, "add it there, or choose another");
        }
    }
    for (place, pattern, group) in expressions(&file) {
        let problem = match regex_lite::Regex::new(pattern.get_ref()) {
            Err(why) => why.to_string(),
            Ok(known) if group && known.captures_len() < 2 => format!("`{place}` has no group"),
            Ok(_) => continue,
        };
        let hint = "write a regular expression, in single quotes, with parentheses around the part that is meant";
        fail(pattern.span().start, problem, hint);
    }
    application(&file.app, &mut fail);
    if mistakes.is_empty() { Ok(file) } else { Err(mistakes) }
}

/// Adapters of `farlink app --via` that take an address.
pub const ADAPTERS: &[&str] = &["aap2", "farlink", "dtn7-http", "dtn7-ws", "dtn7-go", "frames"];
/// Adapter that runs the implementation's own programs.
pub const PROGRAMS: &str = "programs";

fn application(app: &Application, fail: &mut impl FnMut(usize, String, &str)) {
    let (via, at) = (app.via.get_ref().as_str(), app.via.span().start);
    if via == PROGRAMS {
        if app.send.is_none() || app.receive.is_none() {
            fail(at, "via = \"programs\" needs `send` and `receive`".into(), "each has run = [\"program\", ...]");
        }
    } else if !ADAPTERS.contains(&via) {
        let hint = format!("one of {}, {PROGRAMS}", ADAPTERS.join(", "));
        fail(at, format!("`{via}` is no adapter"), &hint);
    } else if app.at.is_none() {
        fail(at, format!("via = \"{via}\" needs `at`"), "e.g. at = \"http://127.0.0.1:{{ port.web }}\"");
    }
}

/// Regular expressions of a file: where each stands, and whether its first group is needed.
fn expressions(file: &DriverFile) -> Vec<(&'static str, &Spanned<String>, bool)> {
    let app = &file.app;
    let commands = [&app.send, &app.receive, &app.load, &app.unload, &app.ping].into_iter().flatten();
    let of_commands = commands.flat_map(|command| {
        let rtt = command.rtt.as_ref().map(|rtt| ("rtt.match", &rtt.r#match, true));
        let each = command.each.as_ref().map(|each| ("each", each, true));
        [each, command.done.as_ref().map(|done| ("done", done, false)), rtt]
    });
    let version = file.programs.version.as_ref().map(|version| ("version.match", &version.r#match, true));
    let ready = file.start.ready.get_ref().r#match.as_ref().map(|pattern| ("ready.match", pattern, false));
    of_commands.chain([version, ready]).flatten().collect()
}
