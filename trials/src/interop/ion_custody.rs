//! Custody of bundles of version 6 between ION and our node in both directions: with a signal for each bundle (RFC 5050
//! section 5.10), and with aggregate signals (CCSDS 734.2-B-1) if ION was built with them.

use super::ion::{self, Ion};
use super::ion_rc::{self, Duct};
use super::load::{Ledger, Load};
use super::matrix::Row;
use super::node::{Ours, RECEIVES, SENDS};
use super::peer::Peer;
use super::trial::Size;
use crate::harness::client::{attach, is_taken, to};
use crate::harness::free_port;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bundles in each direction, and the largest payload.
const BUNDLES: usize = 100;
const LARGEST: usize = 100_000;
/// Class of service for `bptrace`: custody requested, normal priority.
const CUSTODY: &str = "1.1";
/// Further configuration for aggregate signals to us, sent a second after their first bundle.
const MANY: &str = "1 1\na ipn:1.0 500 1\n";

/// Trials in both directions over STCP, where each node knows the other by its configured address.
pub fn trials(dir: &Path, binary: &Path, programs: &Path, name: &str, size: Size) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for many in [false, true] {
        let layer = format!("STCP, version 6, custody{}", if many { " with signals about many" } else { "" });
        if many && !programs.join("acsadmin").is_file() {
            rows.push(Row::left_out(name, &layer, "this ION was built without them (no `acsadmin`)"));
            continue;
        }
        println!("{name}, {layer}");
        let dir = dir.join(format!("ion-custody-{many}"));
        fs::create_dir_all(&dir)?;
        let (here, there) = (format!("127.0.0.1:{}", free_port()?), format!("127.0.0.1:{}", free_port()?));
        let custody = format!("\n[custody]\nrequest = [\"ipn:2.*\"]\naggregate = {many}\ntimeout = \"20 s\"\n");
        let ours = Ours::new(&dir, binary, &(Duct::Stcp.ours(&here, &there) + &custody), 2, 6)?;
        let mut theirs = ion_rc::node(Duct::Stcp, &here, &there) + &ion::version_6(programs);
        if many {
            theirs = theirs.replace("1 1\n", MANY);
        }
        let mut ion = Ion::new(&dir, programs, &theirs)?;
        ion.class = CUSTODY;
        rows.extend(both(ours, ion, name, &layer, size.patience));
    }
    Ok(rows)
}

fn both(mut ours: Ours, mut ion: Ion, name: &str, layer: &str, patience: Duration) -> Vec<Row> {
    let load = Load::mixed(BUNDLES, LARGEST);
    let row = |trial: &str, came: Result<String>| {
        let (lost, notes, failed) = match came {
            Ok(note) => (0, vec![note], None),
            Err(why) => (load.len(), Vec::new(), Some(format!("{why:#}"))),
        };
        println!("  {trial}: {}", failed.as_deref().unwrap_or("ok"));
        let (peer, layer, trial) = (name.into(), layer.into(), trial.into());
        Row { peer, layer, trial, bundles: load.len(), sizes: load.range(), lost, notes, failed, left_out: false }
    };
    if let Err(why) = ours.start().and_then(|()| ion.start()) {
        return vec![row("start", Err(why))];
    }
    let rows = vec![
        row("ours to it", ours_to_it(&ours, &mut ion, &load, patience)),
        row("it to ours", it_to_ours(&ours, &mut ion, &load, patience)),
    ];
    if rows.iter().any(|row| row.failed.is_some()) {
        println!("{}", ours.words());
    }
    rows
}

/// Sends bundles to ION, which must take custody of all and signal it.
fn ours_to_it(ours: &Ours, ion: &mut Ion, load: &Load, patience: Duration) -> Result<String> {
    let mut sender = attach(&ours.socket(), SENDS, 0)?;
    let mut ledger = Ledger::of(load);
    for at in 0..load.len() {
        sender.send(to("ipn:2.42"), &load.payload(at))?;
        ensure!(is_taken(&mut sender)?, "our node refused bundle {at}");
    }
    while ledger.missing() > 0 {
        let payload = ion.take(patience)?.with_context(|| format!("{} did not arrive", ledger.missing()))?;
        ledger.came(&payload)?;
    }
    // Signals may arrive after the last delivery.
    let begun = Instant::now();
    loop {
        let (taken, released) = (ours.happened("custody_taken"), ours.happened("custody_released"));
        if taken >= load.len() && released >= load.len() {
            let again = ours.happened("custody_repeated");
            return Ok(format!("{released} released by its signals, {again} repeated"));
        }
        ensure!(begun.elapsed() < patience, "custody of {taken} was taken here, of {released} there");
        sleep(Duration::from_millis(100));
    }
}

/// Sends bundles from ION; our node must take custody of all, so that ION keeps none.
fn it_to_ours(ours: &Ours, ion: &mut Ion, load: &Load, patience: Duration) -> Result<String> {
    let mut receiver = ours.receiver(RECEIVES, patience)?;
    let mut ledger = Ledger::of(load);
    for at in 0..load.len() {
        ion.send(RECEIVES, &load.payload(at))?;
    }
    while ledger.missing() > 0 {
        let delivered = receiver.delivery().with_context(|| format!("{} did not arrive", ledger.missing()))?;
        ledger.came(&delivered.payload)?;
        receiver.taken(true)?;
    }
    // ION deletes bundles only after our signals.
    let begun = Instant::now();
    loop {
        let kept = ion.kept()?;
        if kept == 0 {
            return Ok(format!("{} signals of ours, after which it keeps none", ours.happened("custody_signalled")));
        }
        ensure!(begun.elapsed() < patience, "ION still keeps {kept}");
        sleep(Duration::from_millis(500));
    }
}
