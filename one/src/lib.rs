//! The world of The ONE, version 1.6, to the last byte of its reports: an oracle, kept apart.
//!
//! It imitates a simulator that moves all hosts by equal steps and updates them in shuffled order,
//! because results depend on both. It holds nothing of the engine and uses nothing of Farlink's own
//! simulator, from which claims about Farlink come. Written from a description of what The ONE does
//! and from its reports, not from its source. Read [`Setup`] first, which is what a settings file
//! says, then [`World`], whose `run` is the whole loop.
//!
//! | file | what |
//! |---|---|
//! | `java/` | random numbers, texts of numbers, orders of Java's collections |
//! | `settings/` | keys, values of runs, what is covered |
//! | `events.rs`, `map.rs` | files that settings name |
//! | `movement.rs`, `contacts.rs`, `links.rs` | where hosts are, who hears whom |
//! | `world.rs`, `transfers.rs`, `buffer.rs` | steps, transfers, what is held |
//! | `routers/` | who gets what |
//! | `reports/` | what is written of it |
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
mod transfers;
mod world;

pub use events::{Event, EventKind};
pub use failure::Failure;
pub use reports::Figures;
pub use settings::{Mistake, Setup, Values};
pub use world::World;

use std::path::{Path, PathBuf};

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Files of reports, in their order.
    pub files: Vec<PathBuf>,
    /// What `MessageStatsReport` counts.
    pub figures: Figures,
}

/// Runs to the end and writes the reports, into `folder` or where the settings say.
///
/// `progress` hears the simulated seconds now and then.
///
/// # Errors
/// A message's name that comes twice; a report that cannot be written.
pub fn run(setup: &Setup, folder: Option<&Path>, progress: &mut dyn FnMut(f64)) -> Result<Outcome, Failure> {
    let folder = folder.unwrap_or(&setup.reporting.folder);
    let (reports, files) = reports::open(setup, folder)?;
    let mut world = World::new(setup, reports);
    world.run(progress).map_err(Failure::Mistake)?;
    let figures = world.finish(&files)?;
    Ok(Outcome { files, figures })
}
