//! Implementations that can forward between generator and sink. Other programs are named only here and in the
//! interoperability trials.

mod dtn7;
mod hardy;
mod hdtn;

use crate::CliError;
use anyhow::{bail, ensure};
use farlink_apps::bench::{BenchOptions, Middle, Ports};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Implementations that `farlink bench peer` can start; `other` is any program, started by the command of `--start`.
pub const NAMES: [&str; 4] = ["dtn7-rs", "hardy", "hdtn", "other"];

/// Creates the implementation of this name.
pub fn named(name: &str, program: Option<PathBuf>, start: Option<String>) -> Result<Box<dyn Middle>, CliError> {
    let found = |default: &str| program.as_deref().map_or_else(|| on_path(default), given);
    Ok(match name {
        "dtn7-rs" => Box::new(dtn7::Dtnd(found("dtnd")?)),
        "hardy" => Box::new(hardy::Hardy(found("farlink-hardy-peer")?)),
        "hdtn" => Box::new(hdtn::Hdtn(found("hdtn-one-process")?)),
        _ => Box::new(Other(start.unwrap_or_default())),
    })
}

/// Absolute path of the program named. The program runs in another folder, where a relative path would not resolve.
fn given(program: &Path) -> Result<PathBuf, CliError> {
    let missing = |why| CliError::Input(format!("--program: {}: {why}", program.display()));
    program.canonicalize().map_err(missing)
}

fn on_path(program: &str) -> Result<PathBuf, CliError> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let file = std::env::split_paths(&paths).map(|folder| folder.join(program)).find(|file| file.is_file());
    file.ok_or_else(|| {
        CliError::Input(format!(
            "no program `{program}` on the PATH\nhint: name it with --program; docs/how-to/interoperate.md says how to get it"
        ))
    })
}

/// Refuses options that the program does not support: other layers, a durable store, TLS.
fn only(options: &BenchOptions, layers: &[&str]) -> anyhow::Result<()> {
    let layer = options.layer;
    ensure!(layers.contains(&layer), "not measured over {layer}\nhint: --cla {}", layers.join(", or --cla "));
    ensure!(!options.durable, "it uses its own store\nhint: leave out --store");
    ensure!(options.layer_lines[0].is_empty(), "measured without TLS only\nhint: leave out --tls");
    Ok(())
}

/// Any program, started by a command line with placeholders.
struct Other(String);
impl Middle for Other {
    fn name(&self) -> String {
        "other".into()
    }
    fn prepare(&mut self, _: &BenchOptions, ports: &Ports, folder: &Path) -> anyhow::Result<Command> {
        // Split before replacing: a folder's path may contain spaces.
        let mut words = self.0.split_whitespace().map(|word| {
            let word = word.replace("{listen}", &ports.middle.to_string()).replace("{sink}", &ports.sink.to_string());
            word.replace("{folder}", &folder.display().to_string())
        });
        let Some(program) = words.next() else { bail!("--start is empty\nhint: begin with the program to start") };
        let mut command = Command::new(program);
        command.args(words).current_dir(folder);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_program_gets_ports_and_folder() {
        let nodes = crate::bench::nodes::tests::some();
        let ports = Ports { generator: 1, sink: 2, middle: 3 };
        let folder = Path::new("/there");
        let mut other =
            named("other", None, Some("run --at 127.0.0.1:{listen} --to {sink} {folder}/x".into())).unwrap();
        let command = other.prepare(&nodes, &ports, folder).unwrap();
        assert_eq!(
            format!("{command:?}"),
            "cd \"/there\" && \"run\" \"--at\" \"127.0.0.1:3\" \"--to\" \"2\" \"/there/x\""
        );
        assert!(named("other", None, Some(String::new())).unwrap().prepare(&nodes, &ports, folder).is_err());
    }

    #[test]
    fn missing_program_gets_a_hint() {
        for missing in [on_path("no-such-program-here"), given(Path::new("no-such-program-here"))] {
            let Err(CliError::Input(why)) = missing else { panic!("it is there?") };
            assert!(why.contains("--program"), "{why}");
        }
        assert!(given(Path::new("Cargo.toml")).is_ok_and(|program| program.is_absolute()));
    }

    #[test]
    fn peers_refuse_unsupported_layers() {
        let ports = Ports { generator: 1, sink: 2, middle: 3 };
        let mut nodes = crate::bench::nodes::tests::some();
        nodes.layer = "udpcl";
        for name in ["dtn7-rs", "hardy", "hdtn"] {
            let mut peer = named(name, Some("/bin/true".into()), None).unwrap();
            assert!(
                peer.prepare(&nodes, &ports, Path::new("/tmp")).unwrap_err().to_string().contains("--cla"),
                "{name}"
            );
        }
    }
}
