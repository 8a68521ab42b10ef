//! Application interface through an implementation's own command-line programs, for implementations without a socket,
//! such as ION.
//!
//! A JSON file lists the programs as words, whose placeholders, such as `{file}`, are replaced when a program is
//! started. [`Programs`] is that file.

mod packets;
mod ping;
mod receive;
mod send;
mod whole;

pub use ping::ping;
pub use whole::{load, unload};

use super::lines::StartedProgram;
use super::{BundleReceiver, BundleSender, SenderTerms};
use crate::BadInput;
use anyhow::{Context, Result, anyhow, bail};
use regex_lite::Regex;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

/// Contents of the file: the programs of one implementation, each with its command and the meaning of its output.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    /// Variables of the environment of all programs.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Sends one bundle, or every bundle of a stream.
    send: Option<OwnProgram>,
    /// Receives bundles.
    receive: Option<OwnProgram>,
    /// Sends many bundles with payloads of its own.
    load: Option<OwnProgram>,
    /// Receives and counts the bundles of `load`.
    unload: Option<OwnProgram>,
    /// Measures round-trip times.
    ping: Option<OwnProgram>,
}

/// Program of the implementation, and the meaning of its output.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnProgram {
    /// Program and arguments.
    run: Vec<String>,
    /// Sender: whether the file of a payload can be removed when the program has ended. Some implementations only note
    /// the file's name, and read the file when they send.
    #[serde(default)]
    remove: bool,
    /// Sender: address at which the program takes a stream of packets; it is started once for each destination.
    /// Receiver: address to which it delivers such a stream; this program listens there first.
    packets: Option<String>,
    /// Receiver: log to follow; without one, the output of the program.
    log: Option<String>,
    /// Receiver: expression for lines about a delivery, whose group 1 is the file of the payload. Without one, each line
    /// counts.
    each: Option<String>,
    /// Receiver: folder in which the program runs and leaves files.
    folder: Option<String>,
    /// Receiver: pause after which the program is run again; each run leaves payloads as files in the folder.
    every: Option<String>,
    /// Program that counts: expression for the line after which everything has arrived; group 1, if any, is the count.
    done: Option<String>,
    /// Ping: expression for lines about an answer.
    rtt: Option<RttLine>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RttLine {
    /// Expression for lines about an answer, whose group 1 is the round-trip time.
    #[serde(rename = "match")]
    pattern: String,
    /// Unit of the time: `s`, `ms` or `us`.
    unit: String,
    /// Expression for the number of the ping in the same line; without one, answers are numbered as they come.
    number: Option<String>,
}

/// Values of the placeholders.
type Values<'a> = [(&'a str, String)];

impl Programs {
    /// Reads the file that an implementation's driver has written.
    ///
    /// # Errors
    /// If it cannot be read, or has unknown keys, placeholders, or wrong expressions.
    pub fn read(at: &str) -> Result<Programs> {
        let bad = |why: &str, hint: &str| anyhow!(BadInput(format!("{at}: {why}\nhint: {hint}")));
        let text = std::fs::read_to_string(at)
            .map_err(|why| bad(&why.to_string(), "--at names the file of the implementation's programs"))?;
        Programs::parse(&text).map_err(|why| bad(&format!("{why:#}"), "see `farlink app --help`"))
    }
    fn parse(text: &str) -> Result<Programs> {
        let programs: Programs = serde_json::from_str(text).context("not a file of programs (JSON)")?;
        let all = [&programs.send, &programs.receive, &programs.load, &programs.unload, &programs.ping];
        for program in all.into_iter().flatten() {
            program.check()?;
        }
        if let Some(ping) = &programs.ping {
            ping.rtt.as_ref().context("`ping` needs `rtt`, which finds the times in its output")?;
        }
        Ok(programs)
    }
    /// Sender by the program `send`.
    ///
    /// # Errors
    /// If the file names no such program.
    pub fn sender(&self, terms: &SenderTerms) -> Result<Box<dyn BundleSender>> {
        let program = self.send.clone().ok_or_else(|| missing("send"))?;
        Ok(match program.packets.clone() {
            Some(place) => Box::new(packets::sender(self.command(&program), place, terms)),
            None => Box::new(send::sender(self.command(&program), program.remove, terms)?),
        })
    }
    /// Receiver by the program `receive`.
    ///
    /// # Errors
    /// If the file names no such program, or it cannot be started.
    pub fn receiver(&self, service: &str) -> Result<Box<dyn BundleReceiver>> {
        let program = self.receive.clone().ok_or_else(|| missing("receive"))?;
        Ok(match program.packets.clone() {
            Some(place) => Box::new(packets::receiver(&self.command(&program), &program, &place, service)?),
            None => receive::receiver(&self.command(&program), &program, service)?,
        })
    }
    /// Command of one of the programs.
    fn command(&self, program: &OwnProgram) -> OwnCommand {
        OwnCommand { words: program.run.clone(), environment: self.environment.clone() }
    }
    /// Whether the file names a program that measures round-trip times.
    pub fn pings(&self) -> bool {
        self.ping.is_some()
    }
}

impl OwnProgram {
    fn check(&self) -> Result<()> {
        self.run.first().context("`run` names no program")?;
        // Fills in every known placeholder, so that a misspelt one is found before a program is started.
        let known = PLACEHOLDERS.map(|name| (name, String::new()));
        self.run.iter().try_for_each(|word| fill(word, &known).map(drop))?;
        if let Some(each) = &self.each {
            group(each)?;
        }
        if let Some(done) = &self.done {
            expression(done)?;
        }
        if let Some(rtt) = &self.rtt {
            rtt.read()?;
        }
        let ways = [self.each.is_some() || self.log.is_some(), self.every.is_some(), self.packets.is_some()];
        if ways.iter().filter(|way| **way).count() > 1 {
            bail!("a program takes one of `each` and `log`, `every`, or `packets`");
        }
        if let Some(every) = &self.every {
            farlink_base::parse_duration(every).map_err(|why| anyhow!("`every`: {why}"))?;
            self.folder.as_ref().context("`every` needs `folder`, where the program leaves the payloads")?;
        }
        Ok(())
    }
}

impl RttLine {
    /// Compiled expressions for the time and the number, and the length of the unit in seconds.
    fn read(&self) -> Result<(Regex, Option<Regex>, f64)> {
        let seconds = match self.unit.as_str() {
            "s" => 1.0,
            "ms" => 1e-3,
            "us" => 1e-6,
            other => bail!("`unit` is `{other}`, not `s`, `ms` or `us`"),
        };
        Ok((group(&self.pattern)?, self.number.as_deref().map(group).transpose()?, seconds))
    }
}

/// Words of a program with placeholders, and its environment.
#[derive(Clone, Debug)]
struct OwnCommand {
    words: Vec<String>,
    environment: BTreeMap<String, String>,
}

impl OwnCommand {
    /// Starts the program in a folder with these values in place of the placeholders.
    fn start(&self, values: &Values<'_>, folder: &Path, output: Stdio) -> Result<StartedProgram> {
        let words: Result<Vec<String>> = self.words.iter().map(|word| fill(word, values)).collect();
        StartedProgram::start(&words?, &self.environment, folder, output)
    }
}

/// Parses a regular expression of the file.
fn expression(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|why| anyhow!("`{pattern}` is not a regular expression: {why}"))
}

/// Parses a regular expression, which must have a group.
fn group(pattern: &str) -> Result<Regex> {
    let expression = expression(pattern)?;
    if expression.captures_len() < 2 {
        bail!("`{pattern}` has no group: write parentheses around the part that is meant");
    }
    Ok(expression)
}

fn missing(program: &str) -> anyhow::Error {
    anyhow!("the file names no program `{program}`\nhint: this implementation cannot do that, or its driver lacks it")
}

/// Names that can be replaced.
const PLACEHOLDERS: [&str; 9] =
    ["file", "source", "endpoint", "to", "count", "size", "lifetime_s", "interval_s", "timeout_s"];

/// Replaces the placeholders of a word; braces around anything but a name stay.
fn fill(word: &str, values: &Values<'_>) -> Result<String> {
    let (mut out, mut rest) = (String::new(), word);
    while let Some((before, after)) = rest.split_once('{') {
        out += before;
        let end = after
            .find('}')
            .filter(|end| *end > 0 && after[..*end].bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        let Some(end) = end else {
            out.push('{');
            rest = after;
            continue;
        };
        let value = values.iter().find(|(name, _)| *name == &after[..end]).map(|(_, value)| value);
        let known = || values.iter().map(|(name, _)| format!("{{{name}}}")).collect::<Vec<_>>().join(", ");
        out += value.with_context(|| format!("`{{{}}}` in `{word}` is none of {}", &after[..end], known()))?;
        rest = &after[end + 1..];
    }
    Ok(out + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced() {
        let values = [("file", "/tmp/x".to_string()), ("to", "{file}".to_string())];
        let filled = |word: &str| fill(word, &values).map_err(|why| why.to_string());
        assert_eq!(filled("@{file}").unwrap(), "@/tmp/x");
        // Placeholders within a value are not replaced, and other braces stay.
        assert_eq!(filled("{to}-{file}{}{ file}{1}{").unwrap(), "{file}-/tmp/x{}{ file}{1}{");
        assert_eq!(filled("{fil}").unwrap_err(), "`{fil}` in `{fil}` is none of {file}, {to}");
    }

    #[test]
    fn wrong_files_name_the_mistake() {
        let said = |text: &str| format!("{:#}", Programs::parse(text).unwrap_err());
        for (text, expected) in [
            ("{", "EOF"),
            (r#"{"sends": {"run": ["x"]}}"#, "unknown field `sends`"),
            (r#"{"send": {}}"#, "missing field `run`"),
            (r#"{"send": {"run": []}}"#, "`run` names no program"),
            (r#"{"send": {"run": ["x", "{payload}"]}}"#, "`{payload}` in `{payload}` is none of {file}, "),
            (r#"{"receive": {"run": ["x"], "each": "("}}"#, "`(` is not a regular expression"),
            (r#"{"receive": {"run": ["x"], "each": "created"}}"#, "`created` has no group"),
            (r#"{"receive": {"run": ["x"], "every": "1 s"}}"#, "`every` needs `folder`"),
            (r#"{"receive": {"run": ["x"], "every": "soon", "folder": "y"}}"#, "`every`: `soon` is not a duration"),
            (r#"{"receive": {"run": ["x"], "log": "y", "packets": "z:1"}}"#, "takes one of"),
            (r#"{"ping": {"run": ["x"], "rtt": {"match": "(.*)", "unit": "h"}}}"#, "`unit` is `h`"),
            (r#"{"ping": {"run": ["x"], "rtt": null}}"#, "`ping` needs `rtt`"),
            (r#"{"ping": {"run": ["x"], "rtt": {"match": "=", "unit": "s"}}}"#, "`=` has no group"),
            (r#"{"unload": {"run": ["x"], "done": "["}}"#, "`[` is not a regular expression"),
        ] {
            assert!(said(text).contains(expected), "{text}: {}", said(text));
        }
        let terms = SenderTerms { source: None, lifetime: std::time::Duration::from_secs(1), window: 1 };
        let nothing = Programs::parse("{}").unwrap();
        assert!(nothing.sender(&terms).err().unwrap().to_string().contains("no program `send`"));
        assert!(nothing.receiver("1").err().unwrap().to_string().contains("no program `receive`"));
        let why = Programs::read("/no/such.json").unwrap_err().to_string();
        assert!(why.contains("/no/such.json: ") && why.contains("hint: "), "{why}");
    }
}
