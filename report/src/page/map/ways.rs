//! Movements of bundle copies between nodes, from the events of a run.

use super::gather::{NOBODY, Play};
use crate::column::Text;
use crate::run::RunReader;
use crate::schema::BundleRow;
use anyhow::Result;
use std::collections::HashMap;

// Most steps of all bundles together.
const STEPS: usize = 100_000;

/// State of a copy after a step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum StepKind {
    /// A node deleted its copy.
    Gone = 0,
    /// A node created or received a copy.
    Has = 1,
    /// An application received the bundle.
    Delivered = 2,
}

/// One step of a bundle's path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyStep {
    pub tick: u32,
    pub node: u16,
    pub from: Option<u16>,
    pub kind: StepKind,
}

/// Steps gathered from the events.
#[derive(Default)]
pub struct BundlePaths {
    /// Steps of each bundle, in order of time.
    pub steps: Vec<Vec<CopyStep>>,
    /// Sentence about the steps left out, if any were.
    pub left_out: Option<String>,
}

/// Identity of a bundle: creation time, sequence number, service, source.
type BundlePathKey = (u64, u64, u64, Text);

impl BundlePaths {
    /// Gathers the steps of these bundles at the nodes that are drawn.
    pub fn read(
        run: &RunReader,
        bundles: &[BundleRow],
        play: &Play,
        places: &HashMap<Text, u16>,
    ) -> Result<BundlePaths> {
        let key = |row: &BundleRow| (row.creation_ms, row.sequence, row.service, row.source.clone());
        let numbers: HashMap<BundlePathKey, usize> =
            bundles.iter().enumerate().map(|(number, row)| (key(row), number)).collect();
        // Two passes over the events: the first counts steps, so that the second can stop at a
        // whole bundle once the limit is reached.
        let mut counts = vec![0usize; bundles.len()];
        let each = |take: &mut dyn FnMut(usize, CopyStep)| {
            run.events(&mut |row| {
                let kind = match &*row.event {
                    "created" | "received" => StepKind::Has,
                    "delivered" => StepKind::Delivered,
                    "deleted" => StepKind::Gone,
                    _ => return Ok(()),
                };
                let (Some(creation), Some(sequence)) = (row.creation_ms, row.sequence) else { return Ok(()) };
                let (Some(service), Some(source)) = (row.service, row.source) else { return Ok(()) };
                let number = numbers.get(&(creation, sequence, service, source));
                let (Some(number), Some(node)) = (number, places.get(&row.node)) else { return Ok(()) };
                let from = row.peer.as_ref().and_then(|peer| places.get(peer)).copied();
                let from = from.filter(|from| *from != NOBODY && kind == StepKind::Has);
                take(*number, CopyStep { tick: play.tick(row.time_ns as f64 / 1e9), node: *node, from, kind });
                Ok(())
            })
        };
        each(&mut |number, _| counts[number] += 1)?;
        let mut left = STEPS;
        let whole = counts.iter().take_while(|count| {
            left.checked_sub(**count).is_some_and(|rest| {
                left = rest;
                true
            })
        });
        let shown = whole.count();
        let mut steps: Vec<Vec<CopyStep>> = vec![Vec::new(); bundles.len()];
        each(&mut |number, step| {
            if number < shown {
                steps[number].push(step);
            }
        })?;
        let any = counts.iter().any(|count| *count > 0);
        let left_out = match (bundles.is_empty() || any, shown < bundles.len()) {
            (false, _) => Some("Paths of bundles are unknown: the run has no table of events.".into()),
            (true, true) => Some(format!("Paths are shown for the first {shown} bundles.")),
            (true, false) => None,
        };
        Ok(BundlePaths { steps, left_out })
    }
}
