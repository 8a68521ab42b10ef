//! Driver of any implementation that a folder describes: a driver file, templates of its configuration, and no code.

mod check;
mod context;
mod file;
mod folder;
mod places;
mod template;

pub use file::{DRIVER_FILE, DriverMistake};
pub use folder::{DriverFolder, LayerLimits, names};

use crate::attached::{self, AppRecords, Attachment};
use crate::driver::{BundleTally, Driver, NodeContext, Program, Stopping};
use anyhow::{Context, Result, bail};
use context::services;
use farlink_base::parse_duration;
use farlink_report::EventRow;
use farlink_scenario::LinkChange;
use file::{AppCommand, PROGRAMS, Word};
use serde_json::{Value, json};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use template::{APP, render};

/// File in the node's folder with the commands by which the implementation's own programs serve as applications.
const APP_FILE: &str = "app.json";
/// File in the node's folder that exists once the node accepts applications.
const READY: &str = "node.ready";
/// Longest wait for a node to end, unless its driver names another.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// A node of an implementation that a folder describes.
#[derive(Debug)]
pub struct Declared {
    folder: DriverFolder,
    /// Folder with the implementation's programs; `None` for those of the PATH.
    programs: Option<PathBuf>,
    records: AppRecords,
}

impl Declared {
    /// Driver for a node; `programs` is the folder that the scenario names, if any.
    ///
    /// # Errors
    /// When programs of the implementation are missing.
    pub fn new(folder: DriverFolder, programs: Option<&Path>) -> Result<Declared> {
        let need = &folder.file.programs.need;
        let programs = match programs {
            Some(given) => Some(places::within(given, need)?),
            None if need.is_empty() => None,
            None => Some(places::find(folder.file.name.get_ref(), need, &folder.file.programs.install)?),
        };
        Ok(Declared { folder, programs, records: AppRecords::default() })
    }

    /// Driver that only shows commands and files: programs are not searched.
    pub fn without_programs(folder: DriverFolder) -> Declared {
        Declared { folder, programs: None, records: AppRecords::default() }
    }

    /// All commands of a node except its start: readiness, companions, end.
    ///
    /// # Errors
    /// As [`Declared::plan`].
    pub fn others(&self, node: &NodeContext<'_>) -> Result<Vec<Program>> {
        let mut programs: Vec<Program> = self.readiness(node)?.into_iter().collect();
        programs.extend(self.companions(node)?);
        programs.extend(self.stopping(node)?.run);
        Ok(programs)
    }

    /// Command with its placeholders filled in, and the environment that finds the implementation's programs.
    fn program(&self, values: &Value, words: &[Word]) -> Result<Program> {
        let command = rendered(values, words)?;
        self.in_environment(values, Program { command, ..Program::default() })
    }

    /// Program with the environment that all programs of a node have.
    fn in_environment(&self, values: &Value, program: Program) -> Result<Program> {
        let mut program = self.on_path(program);
        for (name, word) in &self.folder.file.start.environment {
            program.environment.insert(name.clone(), render(word.get_ref(), values)?);
        }
        Ok(program)
    }

    fn on_path(&self, mut program: Program) -> Program {
        if let Some(folder) = &self.programs {
            let path = std::env::var("PATH").unwrap_or_default();
            program.environment.insert("PATH".into(), format!("{}:{path}", folder.display()));
            if let Some(libraries) = &self.folder.file.programs.libraries {
                program.environment.insert("LD_LIBRARY_PATH".into(), folder.join(libraries).display().to_string());
            }
        }
        program
    }

    fn values(&self, node: &NodeContext<'_>) -> Result<Value> {
        context::values(&self.folder.file, node)
    }

    /// Command of the node, and the files that it reads.
    ///
    /// # Errors
    /// A placeholder without a value, or a feature of the scenario that the implementation lacks.
    pub fn plan(&self, node: &NodeContext<'_>) -> Result<(Program, Vec<(String, String)>)> {
        let mut values = self.values(node)?;
        let file = &self.folder.file;
        let mut files = Vec::new();
        for entry in &file.files {
            let content = match (&entry.text, &entry.template, &entry.copy) {
                (Some(text), ..) => render(text.get_ref(), &values)?,
                (_, Some(name), _) => render(self.folder.read_text(name.get_ref())?, &values)
                    .with_context(|| format!("template {}", name.get_ref()))?,
                (.., Some(name)) => self.folder.read_text(name.get_ref())?.to_string(),
                _ => String::new(),
            };
            files.push((entry.path.get_ref().clone(), content));
        }
        if file.app.via.get_ref() == PROGRAMS {
            files.push((APP_FILE.into(), self.app_file(&values)?));
        }
        let mut program = self.program(&values, file.start.run.get_ref())?;
        let each = &file.start.each;
        for (list, name, words) in
            [("layers", "layer", &each.layer), ("links", "link", &each.link), ("routes", "route", &each.route)]
        {
            for item in values[list].as_array().cloned().unwrap_or_default() {
                values[name] = item;
                program.command.extend(rendered(&values, words)?);
            }
        }
        for service in services(node) {
            values["app"] = json!({ "service": service });
            program.command.extend(rendered(&values, &file.start.each.service)?);
        }
        Ok((program, files))
    }

    /// Commands of the implementation's own programs, for `farlink app --via programs`.
    fn app_file(&self, values: &Value) -> Result<String> {
        let environment = self.in_environment(values, Program::default())?.environment;
        let mut values = values.clone();
        // `farlink app` fills these in, for each bundle or each run.
        let late = APP.iter().map(|(name, late)| (name.trim_start_matches("app.").to_string(), json!(late)));
        values["app"] = Value::Object(late.collect());
        let app = &self.folder.file.app;
        let mut commands = json!({ "environment": environment });
        let list = [
            ("send", &app.send),
            ("receive", &app.receive),
            ("load", &app.load),
            ("unload", &app.unload),
            ("ping", &app.ping),
        ];
        for (name, command) in list {
            if let Some(command) = command {
                commands[name] = app_command(&values, command)?;
            }
        }
        Ok(format!("{commands:#}\n"))
    }
}

/// Words of a command after substitution, without those that placeholders or conditions make empty.
fn rendered(values: &Value, words: &[Word]) -> Result<Vec<String>> {
    let words = words.iter().map(|word| Ok((word, render(word.get_ref(), values)?)));
    let kept = |(word, text): &(&Word, String)| !text.is_empty() || word.get_ref().is_empty();
    words.filter(|word| word.as_ref().map_or(true, kept)).map(|word| word.map(|(_, text)| text)).collect()
}

fn app_command(values: &Value, command: &AppCommand) -> Result<Value> {
    let text = |word: &Option<toml::Spanned<String>>| word.as_ref().map(|word| word.get_ref().clone());
    let log = command.log.as_ref().map(|log| render(log.get_ref(), values)).transpose()?;
    let rtt = command.rtt.as_ref().map(|rtt| json!({ "match": rtt.r#match.get_ref(), "unit": rtt.unit.word() }));
    Ok(json!({
        "run": rendered(values, &command.run)?,
        "log": log,
        "each": text(&command.each),
        "done": text(&command.done),
        "rtt": rtt,
    }))
}

impl Driver for Declared {
    fn name(&self) -> &str {
        self.folder.file.name.get_ref()
    }

    fn prepare(&self, node: &NodeContext<'_>) -> Result<Program> {
        let (program, files) = self.plan(node)?;
        for (name, content) in files {
            let path = node.folder.join(&name);
            let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, content));
            made.with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(program)
    }

    fn needs_epoch(&self) -> bool {
        false
    }

    fn forks(&self) -> bool {
        self.folder.file.start.forks
    }

    fn version(&self, folder: &Path) -> Option<String> {
        let command = self.folder.file.programs.version.as_ref()?;
        let program = Program { command: command.run.clone(), ..Program::default() };
        places::version(&self.on_path(program), folder, &command.input, command.r#match.get_ref())
    }

    fn readiness(&self, node: &NodeContext<'_>) -> Result<Option<Program>> {
        let ready = self.folder.file.start.ready.get_ref();
        let values = self.values(node)?;
        let mut words: Vec<String> = vec![node.program.display().to_string(), "app".into(), "ready".into()];
        let mut option = |name: &str, value: String| words.extend([name.to_string(), value]);
        option("--within", ready.within.get_ref().clone());
        option("--touch", READY.into());
        if let Some(connect) = &ready.connect {
            let place = render(connect.get_ref(), &values)?;
            // A port without an address is at the loopback address.
            option("--connect", if place.contains(':') { place } else { format!("127.0.0.1:{place}") });
        }
        for (name, word) in [("--file", &ready.file), ("--log", &ready.log)] {
            if let Some(word) = word {
                option(name, render(word.get_ref(), &values)?);
            }
        }
        if let Some(pattern) = &ready.r#match {
            option("--match", pattern.get_ref().clone());
        }
        if let Some(run) = &ready.run {
            words.push("--run".into());
            words.extend(rendered(&values, run)?);
        }
        self.in_environment(&values, Program { command: words, ..Program::default() }).map(Some)
    }

    fn companions(&self, node: &NodeContext<'_>) -> Result<Vec<Program>> {
        let values = self.values(node)?;
        self.folder.file.start.also.iter().map(|words| self.program(&values, words)).collect()
    }

    fn stopping(&self, node: &NodeContext<'_>) -> Result<Stopping> {
        let stop = &self.folder.file.stop;
        let within = stop.within.as_ref().and_then(|within| parse_duration(within.get_ref()).ok());
        let values = self.values(node)?;
        let run = stop.run.as_ref().map(|words| self.program(&values, words)).transpose()?;
        Ok(Stopping { run, within: within.unwrap_or(STOP_WITHIN) })
    }

    fn ready(&self, node: &NodeContext<'_>) -> bool {
        node.folder.join(READY).exists()
    }

    fn attachment(&self, node: &NodeContext<'_>) -> Result<Attachment> {
        let app = &self.folder.file.app;
        let via = app.via.get_ref().clone();
        let at = match &app.at {
            Some(at) if via != PROGRAMS => render(at.get_ref(), &self.values(node)?)?,
            _ => APP_FILE.to_string(),
        };
        Ok(Attachment { via, at, echo: app.echo })
    }

    fn receiver(&self, node: &NodeContext<'_>, traffic: usize, into: Option<&Path>) -> Result<Option<Program>> {
        Ok(attached::receiver(node, traffic, into, &self.attachment(node)?))
    }

    fn sender(
        &self,
        node: &NodeContext<'_>,
        traffic: usize,
        content: Option<&Path>,
        echo: Option<u32>,
    ) -> Result<Program> {
        attached::sender(node, traffic, content, &self.attachment(node)?, echo)
    }

    fn change_link(&self, _: &NodeContext<'_>, _: LinkChange) -> Result<Program> {
        bail!("{} cannot change its links while it runs", self.name())
    }

    fn fell(&mut self, node: &NodeContext<'_>, _: u64) -> Result<()> {
        let path = node.folder.join(READY);
        match fs::remove_file(&path) {
            // The node was killed before it was ready, so the file does not exist.
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
            done => done.with_context(|| format!("cannot remove {}", path.display())),
        }
    }

    fn again(&mut self, node: &NodeContext<'_>) -> Result<Program> {
        Ok(self.plan(node)?.0)
    }

    fn tally(&mut self, node: &NodeContext<'_>) -> BundleTally {
        self.records.tally(node)
    }

    fn deviations(&self, _: &NodeContext<'_>) -> Vec<String> {
        Vec::new()
    }

    fn events(&mut self, node: &NodeContext<'_>, each: &mut dyn FnMut(EventRow) -> Result<()>) -> Result<()> {
        AppRecords::events(node, each)
    }
}

#[cfg(test)]
mod tests;
