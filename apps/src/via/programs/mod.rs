//! Programs of an implementation itself as its application interface: for implementations without a socket, such as ION.
//!
//! A file in JSON names them, as lists of words in which `{file}` and the like are replaced when a program is started.
//! [`Programs`] is that file.

mod packets;
mod ping;
mod receive;
mod send;
mod whole;

pub use ping::ping;
pub use whole::{load, unload};

use super::{BundleReceiver, BundleSender, SenderTerms};
use anyhow::{Context, Result, anyhow, bail};
use regex_lite::Regex;
use serde::Deserialize;

/// Programs and how to read them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    /// Sends one bundle, or every bundle of a stream.
    send: Option<SendProgram>,
    /// Receives bundles.
    receive: Option<ReceiveProgram>,
    /// Sends many bundles with payloads of its own.
    load: Option<LoadProgram>,
    /// Receives and counts those.
    unload: Option<UnloadProgram>,
    /// Measures round-trip times.
    ping: Option<PingProgram>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SendProgram {
    run: Vec<String>,
    /// Whether the files of payloads must outlive the program, which sends them later.
    #[serde(default)]
    keep: bool,
    /// Address at which the program takes a stream of packets: it is started once for each destination.
    packets: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReceiveProgram {
    run: Vec<String>,
    /// Log to follow; without one, the output of the program.
    log: Option<String>,
    /// Expression for lines about a delivery: group 1 is the file of the payload. Without one, each line counts.
    each: Option<String>,
    /// Folder in which the program runs and leaves files.
    folder: Option<String>,
    /// Pause after which the program is run again: each run leaves payloads as files in the folder.
    every: Option<String>,
    /// Address at which the program delivers a stream of packets; this program listens there first.
    packets: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadProgram {
    run: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnloadProgram {
    run: Vec<String>,
    /// Expression for the line after which everything has arrived; group 1, if any, is the count.
    done: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PingProgram {
    run: Vec<String>,
    rtt: RttLine,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RttLine {
    /// Expression for lines about an answer: group 1 is the round-trip time.
    #[serde(rename = "match")]
    pattern: String,
    /// Unit of the time: `s` or `ms`.
    unit: String,
    /// Expression for the number of the ping in the same line; without one, answers are numbered as they come.
    number: Option<String>,
}

/// Values of the placeholders.
type Values<'a> = [(&'a str, String)];

impl Programs {
    /// Reads the file of a driver.
    ///
    /// # Errors
    /// If it cannot be read, or has unknown keys, placeholders, or wrong expressions.
    pub fn read(at: &str) -> Result<Programs> {
        let text = std::fs::read_to_string(at)
            .map_err(|why| anyhow!("{at}: {why}\nhint: --at names the file of the implementation's programs"))?;
        Programs::parse(&text).map_err(|why| anyhow!("{at}: {why:#}\nhint: see `farlink app --help`"))
    }
    fn parse(text: &str) -> Result<Programs> {
        let programs: Programs = serde_json::from_str(text)?;
        let runs = [
            programs.send.as_ref().map(|send| &send.run),
            programs.receive.as_ref().map(|receive| &receive.run),
            programs.load.as_ref().map(|load| &load.run),
            programs.unload.as_ref().map(|unload| &unload.run),
            programs.ping.as_ref().map(|ping| &ping.run),
        ];
        for words in runs.into_iter().flatten() {
            words.first().context("`run` names no program")?;
            // All that can be replaced, so that a misspelt name is found before a program is started.
            let known = PLACEHOLDERS.map(|name| (name, String::new()));
            words.iter().try_for_each(|word| fill(word, &known).map(drop))?;
        }
        if let Some(receive) = &programs.receive {
            receive.check()?;
        }
        if let Some(ping) = &programs.ping {
            ping.rtt.read()?;
        }
        if let Some(done) = programs.unload.as_ref().and_then(|unload| unload.done.as_deref()) {
            expression(done)?;
        }
        Ok(programs)
    }
    /// Sender by the program `send`.
    ///
    /// # Errors
    /// If the file names none.
    pub fn sender(&self, terms: &SenderTerms) -> Result<Box<dyn BundleSender>> {
        let program = self.send.clone().ok_or_else(|| missing("send"))?;
        Ok(match program.packets.clone() {
            Some(place) => Box::new(packets::sender(program.run, place, terms)),
            None => Box::new(send::sender(program, terms)?),
        })
    }
    /// Receiver by the program `receive`.
    ///
    /// # Errors
    /// If the file names none, or it cannot be started.
    pub fn receiver(&self, service: &str) -> Result<Box<dyn BundleReceiver>> {
        let program = self.receive.clone().ok_or_else(|| missing("receive"))?;
        Ok(match program.packets.clone() {
            Some(place) => Box::new(packets::receiver(&program, &place, service)?),
            None => receive::receiver(program, service)?,
        })
    }
    /// Whether it names a program that measures round-trip times.
    pub fn pings(&self) -> bool {
        self.ping.is_some()
    }
}

impl ReceiveProgram {
    fn check(&self) -> Result<()> {
        if let Some(each) = &self.each {
            groups(each, 1)?;
        }
        let ways = [self.each.is_some() || self.log.is_some(), self.every.is_some(), self.packets.is_some()];
        if ways.iter().filter(|way| **way).count() > 1 {
            bail!("`receive` takes one of `each` and `log`, `every`, or `packets`");
        }
        if let Some(every) = &self.every {
            farlink_base::parse_duration(every).map_err(|why| anyhow!("`every`: {why}"))?;
            self.folder.as_ref().context("`every` needs `folder`, where the program leaves the payloads")?;
        }
        Ok(())
    }
}

impl RttLine {
    /// Expressions, and the seconds of a unit.
    fn read(&self) -> Result<(Regex, Option<Regex>, f64)> {
        let seconds = match self.unit.as_str() {
            "s" => 1.0,
            "ms" => 1e-3,
            other => bail!("`unit` is `{other}`, not `s` or `ms`"),
        };
        let number = self.number.as_deref().map(|number| groups(number, 1)).transpose()?;
        Ok((groups(&self.pattern, 1)?, number, seconds))
    }
}

/// Regular expression of a file.
fn expression(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|why| anyhow!("`{pattern}` is not a regular expression: {why}"))
}

/// Regular expression with at least so many groups.
fn groups(pattern: &str, least: usize) -> Result<Regex> {
    let expression = expression(pattern)?;
    if expression.captures_len() <= least {
        bail!("`{pattern}` has no group: write parentheses around the part that is meant");
    }
    Ok(expression)
}

fn missing(program: &str) -> anyhow::Error {
    anyhow!("the file names no program `{program}`\nhint: this implementation cannot do that, or its driver lacks it")
}

/// Names that can be replaced.
const PLACEHOLDERS: [&str; 9] =
    ["file", "source", "service", "to", "count", "size", "lifetime_s", "interval_s", "timeout_s"];

/// Replaces the placeholders of all words.
fn fill_all(words: &[String], values: &Values<'_>) -> Result<Vec<String>> {
    words.iter().map(|word| fill(word, values)).collect()
}

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
        // Values are not looked through again, and other braces stay.
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
            (r#"{"ping": {"run": ["x"], "rtt": {"match": "(.*)", "unit": "us"}}}"#, "`unit` is `us`"),
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
