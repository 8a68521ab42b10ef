//! `farlink lab`: implementations that the testbed can run, and checks of them.

use crate::CliError;
use crate::lab_bisect::{self, BisectArgs};
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use farlink_cla::registry::NAMES;
use farlink_lab::check::{CheckOptions, CheckSize, CheckedPair, FARLINK, MatrixCell, check, table, update};
use farlink_lab::driver::NodeContext;
use farlink_lab::drivers::declared::{Declared, DriverFolder, names};
use farlink_lab::drivers::farlink::node_files;
use farlink_scenario::{HostKind, PREFIX_LENGTH, Scenario};
use std::path::{Path, PathBuf};

/// Arguments of `farlink lab`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink lab drivers\n  farlink lab show dtn7-rs scenario.toml\n  \
    farlink lab check dtn7-rs --layer tcpclv4\n  farlink lab check dtn7-rs --with ion --out runs/pair\n  \
    farlink lab check --matrix matrix.json\n\n\
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
        /// Name of a driver, of which the scenario has a node; or of a node outside the testbed.
        name: String,
        /// Scenario file.
        scenario: PathBuf,
    },
    /// Find among builds of an implementation the first with a different value of a metric.
    Bisect(BisectArgs),
    /// Try an implementation against another one over every layer that both have.
    Check {
        /// Name of a driver, or NAME@FOLDER for programs in that folder. With --matrix it may be left out, for all
        /// pairs that can run here.
        #[arg(required_unless_present = "matrix")]
        name: Option<String>,
        /// The other implementation.
        #[arg(long, default_value = "farlink", requires = "name")]
        with: String,
        /// Merge the results into this file, and write the table into the page beside it.
        #[arg(long, value_name = "FILE.json")]
        matrix: Option<PathBuf>,
        /// Only these layers.
        #[arg(long, value_parser = PossibleValuesParser::new(NAMES))]
        layer: Vec<String>,
        /// Only this version of the Bundle Protocol, 6 or 7.
        #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(u8).range(6..=7))]
        bundle_version: Option<u8>,
        /// 1,000 bundles each way and 200 across each outage and restart, instead of 48 and 10.
        #[arg(long)]
        full: bool,
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
        What::Bisect(args) => lab_bisect::run(&args),
        What::Check { name, with, matrix, layer, bundle_version, full, out, json } => {
            let size = if full { CheckSize::Full } else { CheckSize::Small };
            let program = std::env::current_exe().map_err(anyhow::Error::from)?;
            let stop = farlink_os::process::watch_termination()?;
            let alone = name.is_some();
            let pairs = name.map_or_else(pairs_here, |name| vec![[with, name]]);
            for text in pairs.iter().flatten().filter(|text| text.split('@').next() != Some(FARLINK)) {
                find(text.split('@').next().unwrap_or(text), Path::new("."))?;
            }
            // A matrix file that cannot be updated is refused now, before the checks take their time.
            if let Some(path) = &matrix {
                update(path, Vec::new()).map_err(|why| CliError::Input(format!("{why:#}")))?;
            }
            let mut failed = None;
            for pair in pairs {
                let folder = if alone { out.clone() } else { out.join(pair.join("-")) };
                let (layers, program, stop) = (layer.clone(), program.clone(), stop.clone());
                let options = CheckOptions { pair, layers, bundle_version, size, folder, program, stop };
                if let Err(why) = checked(&options, matrix.as_deref(), json) {
                    // A stopped check ends the others, too.
                    if alone || options.stop.load(std::sync::atomic::Ordering::Relaxed) {
                        return Err(why);
                    }
                    failed.get_or_insert(why);
                }
            }
            failed.map_or(Ok(()), Err)
        }
    }
}

/// Pairs of implementations to check: Farlink with each driver whose programs are on this machine, and every two of
/// these drivers that have a layer in common.
fn pairs_here() -> Vec<[String; 2]> {
    let found = |name: &&str| {
        let folder = DriverFolder::find(name, Path::new(".")).ok()?;
        Declared::new(folder.clone(), None).ok().map(|_| folder)
    };
    let drivers: Vec<(&str, DriverFolder)> = names().filter_map(|name| Some((name, found(&name)?))).collect();
    let ours = drivers.iter().map(|(name, _)| [FARLINK.to_string(), name.to_string()]);
    let others = drivers.iter().enumerate().flat_map(|(at, (first, folder))| {
        let later = drivers.iter().skip(at + 1);
        let common =
            later.filter(|(_, other)| NAMES.iter().any(|layer| folder.has_layer(layer) && other.has_layer(layer)));
        common.map(|(second, _)| [first.to_string(), second.to_string()])
    });
    ours.chain(others).collect()
}

/// Finds a driver; one that is unknown or has mistakes is bad input.
fn find(name: &str, scenario_folder: &Path) -> Result<DriverFolder, CliError> {
    DriverFolder::find(name, scenario_folder).map_err(|why| CliError::Input(format!("{why:#}")))
}

fn drivers() -> Result<(), CliError> {
    for name in names() {
        let folder = find(name, Path::new("."))?;
        println!("{name}: {}", folder.summary());
        match Declared::new(folder, None) {
            Ok(_) => println!("  on this machine"),
            Err(why) => println!("  not on this machine: {}", format!("{why:#}").replace('\n', "\n  ")),
        }
    }
    Ok(())
}

fn show(name: &str, path: &Path) -> Result<(), CliError> {
    let scenario = crate::run::load(path)?;
    let outside = scenario.nodes.iter().position(|node| node.name == name && node.host.is_outside());
    if let Some(index) = outside {
        return show_outside(&scenario, index);
    }
    let index = scenario.nodes.iter().position(|node| node.implementation.name == name);
    let index = index.ok_or_else(|| {
        let outside = scenario.nodes.iter().filter(|node| node.host.is_outside()).map(|node| &node.name);
        let outside: Vec<&str> = outside.map(String::as_str).collect();
        let hint = match &outside[..] {
            [] => format!("hint: implementation = {name:?} in [[node]]"),
            names => format!("hint: outside the testbed are {}", names.join(", ")),
        };
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

/// Prints how to set up the machine of a node outside the testbed.
fn show_outside(scenario: &Scenario, index: usize) -> Result<(), CliError> {
    let node = &scenario.nodes[index];
    if let HostKind::Interface(interface) = &node.host.kind {
        println!("-- node {}, on the machine behind {interface}", node.name);
    }
    for end in scenario.ends_of(index) {
        let (link, peer) = (&scenario.links[end.link], &scenario.nodes[end.peer]);
        println!("its address       {}/{PREFIX_LENGTH}", end.address);
        println!(
            "at the other end  node {}, {}, over {} at port {}",
            peer.name, end.peer_address, link.layer.kind.name, end.port
        );
        println!("largest packet    {} bytes", link.mtu_bytes);
    }
    if node.implementation.is_farlink() {
        let (folder, program) = (Path::new("."), Path::new("farlink"));
        if scenario.epoch.is_none() && !scenario.contacts.is_empty() {
            return Err(CliError::Input(
                "the contacts need an `epoch`, at which this machine and the other begin their contact plans\n\
                 hint: write one that lies ahead, such as epoch = \"2030-01-31T09:00:00Z\"; the run waits for it"
                    .into(),
            ));
        }
        // Without contacts the plan holds for years from now.
        let now = farlink_base::DtnTime::from_unix_ms(farlink_os::realtime_ns() / 1_000_000);
        let epoch = scenario.epoch.unwrap_or(now);
        let context = NodeContext { scenario, index, folder, epoch, program, real_time: false };
        let [configuration, plan] = node_files(&context);
        println!("-- {}, for `farlink node --config {0}` there\n{}", configuration.0, configuration.1.trim_end());
        println!("-- {}, beside it\n{}", plan.0, plan.1.trim_end());
    }
    Ok(())
}

fn checked(options: &CheckOptions, matrix: Option<&Path>, json: bool) -> Result<(), CliError> {
    let pair: CheckedPair = check(options, &mut |line| {
        if json {
            return;
        }
        let layer = match &line.layer {
            Some((layer, 7)) => format!("{layer}, "),
            Some((layer, version)) => format!("{layer}, BPv{version}, "),
            None => String::new(),
        };
        match &line.outcome {
            Ok(text) => println!("ok      {layer}{}: {text} ({:.1} s)", line.subject, line.seconds),
            Err(why) => println!("FAILED  {layer}{}: {}", line.subject, why.replace('\n', "\n        ")),
        }
    })?;
    let date = farlink_base::DtnTime::from_unix_ms(farlink_os::realtime_ns() / 1_000_000).to_string();
    let cells = MatrixCell::of(&pair, date.get(..10).unwrap_or(&date));
    if json {
        println!("{}", serde_json::to_string_pretty(&cells).map_err(anyhow::Error::from)?);
    } else {
        println!("\n{}", table(&cells));
    }
    if let Some(path) = matrix {
        update(path, cells)?;
    }
    let lines = pair.lines;
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
