//! The ONE simulator, version 1.6, reproduced to the last byte of its reports: an independent oracle.
//!
//! It reproduces a simulator that moves all hosts in equal steps and updates them in shuffled order, because results
//! depend on both. It shares no code with the engine or with Farlink's own simulator, on which claims about Farlink
//! rest. It was written from a description of The ONE's behaviour and from its reports; no line is from its source. Read
//! [`Setup`] first, which holds the settings of a run, then [`World`], whose `run` is the whole loop.
//!
//! | file | content |
//! |---|---|
//! | `java/` | random numbers, number formatting, iteration orders of Java's collections |
//! | `settings/` | keys, values of runs, supported features |
//! | `events.rs`, `wkt.rs`, `map.rs` | files that settings name |
//! | `movement.rs`, `contacts.rs`, `links.rs` | positions of hosts, contacts between them |
//! | `tracks.rs` | positions of hosts for other simulators |
//! | `world.rs`, `transfers.rs`, `buffer.rs` | steps, transfers, held messages |
//! | `routers/` | forwarding decisions |
//! | `reports/` | output files |
#![forbid(unsafe_code)]

mod buffer;
mod contacts;
mod events;
mod failure;
mod java;
mod links;
mod map;
mod movement;
mod reports;
mod routers;
pub mod settings;
mod tracks;
mod transfers;
mod wkt;
mod world;

pub use events::{Event, EventKind};
pub use failure::Failure;
pub use reports::Figures;
pub use settings::{Mistake, Setup, Values};
pub use tracks::{Fix, tracks};
pub use world::World;

use std::path::{Path, PathBuf};

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Report files, in order.
    pub files: Vec<PathBuf>,
    /// Figures of `MessageStatsReport`.
    pub figures: Figures,
}

/// Runs to the end and writes the reports into `folder`, or into the folder of the settings.
///
/// `progress` receives the simulated seconds from time to time.
///
/// # Errors
/// Fails on a duplicate message name or a report that cannot be written.
pub fn run(setup: &Setup, folder: Option<&Path>, progress: &mut dyn FnMut(f64)) -> Result<Outcome, Failure> {
    let folder = folder.unwrap_or(&setup.reporting.folder);
    let (reports, files) = reports::open(setup, folder)?;
    let mut world = World::new(setup, reports);
    world.run(progress).map_err(Failure::Mistake)?;
    let figures = world.finish(&files)?;
    Ok(Outcome { files, figures })
}
