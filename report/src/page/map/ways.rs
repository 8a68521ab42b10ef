//! Where the copies of bundles went, from the events of a run.

use super::gather::{NOBODY, Play};
use crate::column::Text;
use crate::run::RunReader;
use crate::schema::BundleRow;
use anyhow::Result;
use std::collections::HashMap;

/// Steps of all bundles together at most.
const STEPS: usize = 100_000;

/// What became of a copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum StepKind {
    /// A node has it no more.
    Gone = 0,
    /// A node made it, or got it.
    Has = 1,
    /// An application took it.
    Delivered = 2,
}

/// A step of a bundle's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub tick: u32,
    pub node: u16,
    /// The neighbour it came from.
    pub from: Option<u16>,
    pub kind: StepKind,
}

/// What was found in the events.
#[derive(Default)]
pub struct Found {
    /// Per bundle, in order of time.
    pub steps: Vec<Vec<Step>>,
    /// What is not shown, in a sentence.
    pub left_out: Option<String>,
}

/// Identity of a bundle: creation time, sequence number, service, source.
type Key = (u64, u64, u64, Text);

impl Found {
    /// Of these bundles, among the nodes that are drawn.
    pub fn read(run: &RunReader, bundles: &[BundleRow], play: &Play, places: &HashMap<Text, u16>) -> Result<Found> {
        let key = |row: &BundleRow| (row.creation_ms, row.sequence, row.service, row.source.clone());
        let numbers: HashMap<Key, usize> = bundles.iter().enumerate().map(|(number, row)| (key(row), number)).collect();
        // A page can be left with too many steps: then the later bundles have none.
        let mut counts = vec![0usize; bundles.len()];
        let each = |take: &mut dyn FnMut(usize, Step)| {
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
                take(*number, Step { tick: play.tick(row.time_ns as f64 / 1e9), node: *node, from, kind });
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
        let mut steps: Vec<Vec<Step>> = vec![Vec::new(); bundles.len()];
        each(&mut |number, step| {
            if number < shown {
                steps[number].push(step);
            }
        })?;
        let any = counts.iter().any(|count| *count > 0);
        let left_out = match (bundles.is_empty() || any, shown < bundles.len()) {
            (false, _) => Some("Where bundles went is not known: the run has no table of events.".into()),
            (true, true) => Some(format!("Where bundles went is shown of the first {shown}.")),
            (true, false) => None,
        };
        Ok(Found { steps, left_out })
    }
}
