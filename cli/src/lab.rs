//! `farlink lab`: implementations that the testbed can run, and checks of them.

use crate::CliError;
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use farlink_cla::registry::NAMES;
use farlink_lab::check::{CheckOptions, FARLINK, MatrixCell, check, table};
use farlink_lab::driver::NodeContext;
use farlink_lab::drivers::declared::{Declared, DriverFolder, names};
use std::path::{Path, PathBuf};

/// Arguments of `farlink lab`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink lab drivers\n  farlink lab show dtn7-rs scenario.toml\n  \
    farlink lab check dtn7-rs --layer tcpclv4\n  farlink lab check dtn7-rs --with ion --out runs/pair\n\n\
    A driver is a folder with a driver.toml. Folders are searched beside the scenario (drivers/NAME),\n\
    in the folders of FARLINK_DRIVERS, and among those of this program; programs in\n\
    FARLINK_PEERS/NAME and on the PATH.")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// List the drivers of this program, with what they need.
    Drivers,
    /// Print a driver, or one of its files.
    Driver {
        /// Name of a driver.
        name: String,
        /// A file of its folder.
        #[arg(default_value = "driver.toml")]
        file: String,
    },
    /// Print files and commands of a node of a scenario, without running anything.
    Show {
        /// Name of a driver, of which the scenario has a node.
        name: String,
        /// Scenario file.
        scenario: PathBuf,
    },
    /// Try an implementation against another one over every layer that both have.
    Check {
        /// Name of a driver, or NAME@FOLDER for programs in that folder.
        name: String,
        /// The other implementation.
        #[arg(long, default_value = "farlink")]
        with: String,
        /// Only these layers.
        #[arg(long, value_parser = PossibleValuesParser::new(NAMES))]
        layer: Vec<String>,
        /// Folder for the runs.
        #[arg(long, value_name = "DIR", default_value = "runs/check")]
        out: PathBuf,
        /// Print results as JSON.
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: Args) -> Result<(), CliError> {
    match args.what {
        What::Drivers => drivers(),
        What::Driver { name, file } => {
            let driver = find(&name, Path::new("."))?;
            let text = driver.read_text(&file).map_err(|why| {
                CliError::Input(format!("{why}\nhint: driver.toml and the files that it names are printed"))
            })?;
            print!("{text}");
            Ok(())
        }
        What::Show { name, scenario } => show(&name, &scenario),
        What::Check { name, with, layer, out, json } => {
            let program = std::env::current_exe().map_err(anyhow::Error::from)?;
            let stop = farlink_os::process::watch_termination()?;
            let pair = [with, name];
            for text in pair.iter().filter(|text| text.split('@').next() != Some(FARLINK)) {
                find(text.split('@').next().unwrap_or(text), Path::new("."))?;
            }
            let options = CheckOptions { pair: pair.clone(), layers: layer, folder: out, program, stop };
            checked(&options, json)
        }
    }
}

/// Finds a driver; one that is unknown or has mistakes is bad input.
fn find(name: &str, scenario_folder: &Path) -> Result<DriverFolder, CliError> {
    DriverFolder::find(name, scenario_folder).map_err(|why| CliError::Input(format!("{why:#}")))
}

fn drivers() -> Result<(), CliError> {
    for name in names() {
        let folder = find(name, Path::new("."))?;
        println!("{name}: {}", folder.summary());
    }
    Ok(())
}

fn show(name: &str, path: &Path) -> Result<(), CliError> {
    let scenario = crate::run::load(path)?;
    let index = scenario.nodes.iter().position(|node| node.implementation.name == name);
    let index = index.ok_or_else(|| {
        let hint = format!("hint: implementation = {name:?} in [[node]]");
        CliError::Input(format!("{} has no node of {name}\n{hint}", path.display()))
    })?;
    let folder = find(name, &scenario.folder)?;
    let driver = Declared::without_programs(folder);
    let (place, program) = (PathBuf::from("/run/NODE"), PathBuf::from("farlink"));
    let node = NodeContext {
        scenario: &scenario,
        index,
        folder: &place,
        epoch: farlink_base::DtnTime(0),
        program: &program,
        real_time: true,
    };
    let (command, files) = driver.plan(&node)?;
    for (name, content) in files {
        println!("-- {name}\n{}", content.trim_end());
    }
    println!("-- command\n{}", command.command.join(" "));
    for program in driver.others(&node)? {
        println!("{}", program.command.join(" "));
    }
    Ok(())
}

fn checked(options: &CheckOptions, json: bool) -> Result<(), CliError> {
    let lines = check(options, &mut |line| {
        if json {
            return;
        }
        let layer = line.layer.as_ref().map(|layer| format!("{layer}, ")).unwrap_or_default();
        match &line.outcome {
            Ok(text) => println!("ok      {layer}{}: {text} ({:.1} s)", line.subject, line.seconds),
            Err(why) => println!("FAILED  {layer}{}: {}", line.subject, why.replace('\n', "\n        ")),
        }
    })?;
    let date = farlink_base::DtnTime::from_unix_ms(farlink_os::realtime_ns() / 1_000_000).to_string();
    let cells = MatrixCell::of(&options.pair, date.get(..10).unwrap_or(&date), &lines);
    if json {
        println!("{}", serde_json::to_string_pretty(&cells).map_err(anyhow::Error::from)?);
    } else {
        println!("\n{}", table(&cells));
    }
    let failed = lines.iter().filter(|line| line.outcome.is_err()).count();
    if failed > 0 {
        return Err(CliError::Run(anyhow::anyhow!(
            "{failed} of {} lines failed\nhint: {} holds scenario, logs and tables of each",
            lines.len(),
            options.folder.display()
        )));
    }
    Ok(())
}
