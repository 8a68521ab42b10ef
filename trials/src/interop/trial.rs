//! Trials with each peer over each layer.

use super::cbor;
use super::load::{Ledger, Load};
use super::matrix::Row;
use super::node::{HEARS, Ours, RECEIVES, SENDS};
use super::peer::{Can, Peer};
use crate::harness::client::{BundleAdu, Client, attach, is_taken, to};
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Endpoint at which our node answers pings.
pub const ECHO: &str = "ipn:1.7";
/// Time for which a killed side stays away.
const AWAY: Duration = Duration::from_millis(500);
/// One in this many datagrams may be lost.
const DATAGRAMS_LOST: usize = 20;
/// Payload of a ping, bytes.
const PING: usize = 64;

/// Extent of the trials.
#[derive(Clone, Copy)]
pub struct Size {
    pub bundles: usize,
    /// Bundles of trials in which a side is killed; 0 skips them.
    pub across_restarts: usize,
    /// Largest payload, bytes.
    pub largest: usize,
    /// Whether single long bundles are tried.
    pub once: bool,
    /// Longest wait for the next bundle.
    pub patience: Duration,
}

/// Our node and a peer, neighbours over one layer.
pub struct Pair<'a> {
    /// Name and version of the peer.
    pub name: String,
    pub layer: &'a str,
    pub ours: Ours,
    pub peer: Box<dyn Peer>,
    pub can: Can,
    pub size: Size,
}

/// Outcome of a trial that did not fail.
#[derive(Default)]
struct Came {
    lost: usize,
    notes: Vec<String>,
}

impl Pair<'_> {
    /// Runs every trial that both nodes support.
    pub fn trials(&mut self) -> Vec<Row> {
        let ready = self.ours.start().and_then(|()| self.peer.start());
        if let Err(why) = ready {
            let row = self.row("start", &Load::equal(0, 0), Err(why));
            return vec![row];
        }
        let (can, size) = (self.can.clone(), self.size);
        // Ten pings suffice for a median.
        let pings = Load::equal(10, PING);
        let to = Load::mixed(size.bundles, can.takes.min(size.largest));
        let from = Load::mixed(size.bundles, can.gives.min(size.largest));
        let mut rows = Vec::new();
        let mut told = |pair: &mut Self, trial: &str, load: &Load, came: Result<Came>| {
            let row = pair.row(trial, load, came);
            println!("  {}: {}", row.trial, row.failed.as_deref().unwrap_or("ok"));
            rows.push(row);
        };
        if can.gives > 0 {
            let came = self.peer_pings(&pings);
            told(self, "pings ours", &pings, came);
        }
        if let Some(echo) = can.echo {
            let came = self.we_ping(echo, &pings);
            told(self, "answers our pings", &pings, came);
        }
        let came = self.send_to_it(&to, Killed::Nobody);
        told(self, "ours to it", &to, came);
        if can.gives > 0 {
            let came = self.hear_from_it(&from, Killed::Nobody);
            told(self, "it to ours", &from, came);
        }
        for (bytes, there) in [(can.takes_once, true), (can.gives_once, false)] {
            if bytes == 0 || !size.once {
                continue;
            }
            let once = Load::equal(1, bytes);
            let came =
                if there { self.send_to_it(&once, Killed::Nobody) } else { self.hear_from_it(&once, Killed::Nobody) };
            told(self, if there { "ours to it, one long" } else { "it to ours, one long" }, &once, came);
        }
        if size.across_restarts > 0 && can.restarts {
            let to = Load::mixed(size.across_restarts, can.takes.min(size.largest));
            let from = Load::mixed(size.across_restarts, can.gives.min(size.largest));
            let came = self.send_to_it(&to, Killed::Ours);
            told(self, "ours to it, ours killed", &to, came);
            let came = self.send_to_it(&to, Killed::Peer);
            told(self, "ours to it, it killed", &to, came);
            if can.gives > 0 {
                let came = self.hear_from_it(&from, Killed::Ours);
                told(self, "it to ours, ours killed", &from, came);
            }
        }
        if rows.iter().any(|row| row.failed.is_some()) {
            println!("{}", self.ours.words());
        }
        // A node that ended by itself has failed, even if all bundles arrived.
        if let Err(why) = self.ours.kill() {
            rows.push(self.row("ours runs to the end", &pings, Err(why)));
        }
        self.peer.kill();
        rows
    }

    fn row(&self, trial: &str, load: &Load, came: Result<Came>) -> Row {
        let (lost, notes, failed) = match came {
            Ok(Came { lost, notes }) => (lost, notes, None),
            Err(why) => (load.len(), Vec::new(), Some(format!("{why:#}"))),
        };
        let (peer, layer, trial) = (self.name.clone(), self.layer.to_string(), trial.to_string());
        Row { peer, layer, trial, bundles: load.len(), sizes: load.range(), lost, notes, failed, left_out: false }
    }

    /// Pings from the peer to our echo service.
    fn peer_pings(&mut self, load: &Load) -> Result<Came> {
        let mut ledger = Ledger::of(load);
        for at in 0..load.len() {
            self.peer.send(ECHO, &load.payload(at))?;
            // A repeated answer may come first.
            while ledger.missing() == load.len() - at
                && let Some(payload) = self.peer.take(self.size.patience)?
            {
                ledger.came(&payload)?;
            }
        }
        ledger.settled()?;
        let again = (ledger.again > 0).then(|| format!("{} came twice", ledger.again));
        Ok(Came { lost: 0, notes: again.into_iter().collect() })
    }

    /// Pings from our node to the peer's echo service.
    fn we_ping(&mut self, echo: &str, load: &Load) -> Result<Came> {
        let mut ledger = Ledger::of(load);
        let mut answers = self.ours.receiver(SENDS, self.size.patience)?;
        let mut sender = attach(&self.ours.socket(), SENDS, 0)?;
        let mut times = Vec::new();
        for at in 0..load.len() {
            let begun = Instant::now();
            sender.send(to(echo), &load.payload(at))?;
            ensure!(is_taken(&mut sender)?, "our node refused a ping");
            let answer = answers.delivery().context("no answer")?;
            times.push(begun.elapsed());
            answers.taken(true)?;
            ledger.came(&answer.payload)?;
        }
        ledger.settled()?;
        // The median: single pings may wait for the machine.
        times.sort();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        Ok(Came { lost: 0, notes: vec![format!("median {:.1} ms", median.as_secs_f64() * 1e3)] })
    }

    /// Bundles from our node to the peer; one side may be killed in between.
    fn send_to_it(&mut self, load: &Load, killed: Killed) -> Result<Came> {
        let (socket, destination) = (self.ours.socket(), self.can.endpoint);
        // Reports are counted only in trials without a kill.
        let hears = self.can.reports && killed == Killed::Nobody;
        let reports = if hears { Some(self.ours.receiver(HEARS, self.size.patience)?) } else { None };
        let (patience, before) = (self.size.patience, self.ours.happened("forwarded"));
        let mut ledger = Ledger::of(load);
        let mut gone = 0;
        let (peer, ours) = (&mut self.peer, &mut self.ours);
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || send_all(&socket, destination, load, hears, patience));
            let (mut last, mut open) = (Instant::now(), killed);
            while ledger.missing() > 0 && last.elapsed() < patience {
                let came = load.len() - ledger.missing();
                if open != Killed::Nobody && came * 3 >= load.len() {
                    match open {
                        Killed::Ours => {
                            ours.kill()?;
                            sleep(AWAY);
                            ours.start()?;
                        }
                        _ => {
                            peer.kill();
                            // After this pause the event file contains all forwarded bundles.
                            sleep(AWAY);
                            gone = ours.happened("forwarded").saturating_sub(before + came);
                            peer.start()?;
                        }
                    }
                    (last, open) = (Instant::now(), Killed::Nobody);
                }
                // A short wait, so that the moment of the kill is not missed.
                if let Some(payload) = peer.take(Duration::from_millis(100))? {
                    ledger.came(&payload)?;
                    last = Instant::now();
                }
                // The rest was lost with the killed peer: waiting longer is useless.
                if sending.is_finished() && last.elapsed() > patience / 2 && ledger.missing() <= gone {
                    break;
                }
            }
            sending.join().unwrap_or_else(|_| bail!("the sender panicked"))
        })?;
        let mut notes = Vec::new();
        if ledger.again > 0 {
            notes.push(format!("{} came twice", ledger.again));
        }
        let lost = ledger.missing();
        notes.extend(forgiven(lost, load.len(), killed, gone, self.can.datagrams)?.map(String::from));
        if let Some(reports) = reports {
            let heard = delivery_reports(reports, load.len())?;
            notes.push(format!("{heard} delivery report{}", if heard == 1 { "" } else { "s" }));
        }
        Ok(Came { lost, notes })
    }

    /// Bundles from the peer to our application; our node may be killed in between.
    fn hear_from_it(&mut self, load: &Load, killed: Killed) -> Result<Came> {
        let patience = self.size.patience;
        let mut ledger = Ledger::of(load);
        let mut receiver = self.ours.receiver(RECEIVES, patience)?;
        let reports = self.peer.reports()?;
        let (peer, ours) = (&mut self.peer, &mut self.ours);
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| -> Result<()> {
                for at in 0..load.len() {
                    peer.send(RECEIVES, &load.payload(at)).with_context(|| format!("bundle {at}"))?;
                }
                Ok(())
            });
            let mut open = killed;
            while ledger.missing() > 0 {
                if open != Killed::Nobody && (load.len() - ledger.missing()) * 3 >= load.len() {
                    ours.kill()?;
                    sleep(AWAY);
                    ours.start()?;
                    receiver = ours.receiver(RECEIVES, patience)?;
                    open = Killed::Nobody;
                }
                // The receiver's read timeout ends the wait.
                let Ok(delivered) = receiver.delivery() else { break };
                ledger.came(&delivered.payload)?;
                receiver.taken(true)?;
            }
            sending.join().unwrap_or_else(|_| bail!("the sender panicked"))
        })?;
        let mut notes = Vec::new();
        if ledger.again > 0 {
            notes.push(format!("{} came twice", ledger.again));
        }
        let lost = ledger.missing();
        // The peer should retransmit bundles that our node had not confirmed when it was killed. From a peer that never
        // does, none are expected.
        let own = if killed == Killed::Ours && !self.can.repeats { lost } else { 0 };
        notes.extend(forgiven(lost, load.len(), killed, own, self.can.datagrams)?.map(String::from));
        if self.can.understands_reports && killed == Killed::Nobody {
            let begun = Instant::now();
            while self.peer.reports()? < reports + load.len() && begun.elapsed() < patience {
                sleep(Duration::from_millis(50));
            }
            let heard = self.peer.reports()? - reports;
            ensure!(heard >= load.len(), "it understood {heard} of {} delivery reports of ours", load.len());
            notes.push(format!("{heard} delivery reports of ours understood"));
        }
        Ok(Came { lost, notes })
    }
}

/// Side that is killed once a third of the bundles has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Killed {
    Nobody,
    Ours,
    Peer,
}

/// Reason that excuses the loss of `lost` bundles, `None` without a loss; fails if nothing excuses it. The peer alone
/// is responsible for `gone` bundles.
fn forgiven(lost: usize, of: usize, killed: Killed, gone: usize, datagrams: bool) -> Result<Option<&'static str>> {
    match killed {
        _ if lost == 0 => Ok(None),
        _ if datagrams && killed != Killed::Nobody => Ok(Some("sent while nobody listened")),
        Killed::Peer if lost <= gone => Ok(Some("confirmed by it, and gone with it when it was killed")),
        Killed::Ours if lost <= gone => Ok(Some("it does not send again what was not confirmed")),
        Killed::Nobody if datagrams && lost * DATAGRAMS_LOST <= of => Ok(Some("nothing repairs what UDP loses")),
        Killed::Peer => bail!("{lost} bundles did not arrive, of which it answers for {gone}"),
        _ => bail!("{lost} bundles did not arrive"),
    }
}

/// Sends a load through a node that may be killed meanwhile; unconfirmed bundles are sent again.
fn send_all(socket: &Path, destination: &str, load: &Load, reports: bool, patience: Duration) -> Result<()> {
    let mut attached: Option<Client> = None;
    for at in 0..load.len() {
        let (payload, begun) = (load.payload(at), Instant::now());
        loop {
            let sent = match &mut attached {
                Some(client) => {
                    let report_to_eid = if reports { HEARS.into() } else { String::new() };
                    let adu = BundleAdu { report_to_eid, ..to(destination) };
                    client.send(adu, &payload).and_then(|()| is_taken(client))
                }
                None => attach(socket, SENDS, 0).map(|client| {
                    attached = Some(client);
                    false
                }),
            };
            match sent {
                Ok(true) => break,
                // Nothing was sent yet, as the sender attached just now, or the node refused the bundle for lack of
                // room.
                Ok(false) => {}
                Err(_) => attached = None,
            }
            ensure!(begun.elapsed() < patience, "our node does not take bundle {at}");
            sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// Waits for reports of all deliveries; returns their number.
fn delivery_reports(mut client: Client, wanted: usize) -> Result<usize> {
    let mut heard = 0;
    while heard < wanted {
        let record = client.delivery().with_context(|| format!("only {heard} of {wanted} deliveries were reported"))?;
        client.taken(true)?;
        heard += usize::from(cbor::reports_delivery(&record.payload));
    }
    Ok(heard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_losses_are_forgiven() {
        let forgiven = |lost, killed, gone, datagrams| forgiven(lost, 100, killed, gone, datagrams);
        assert_eq!(forgiven(0, Killed::Peer, 0, false).unwrap(), None);
        assert!(forgiven(1, Killed::Nobody, 0, false).is_err());
        assert!(forgiven(3, Killed::Peer, 3, false).unwrap().unwrap().contains("gone with it"));
        assert!(forgiven(4, Killed::Peer, 3, false).unwrap_err().to_string().contains("answers for 3"));
        assert!(forgiven(1, Killed::Ours, 0, false).is_err(), "ours keeps what it confirmed");
        assert!(forgiven(1, Killed::Ours, 1, false).unwrap().is_some(), "what the peer does not repeat");
        assert!(forgiven(5, Killed::Nobody, 0, true).unwrap().is_some());
        assert!(forgiven(6, Killed::Nobody, 0, true).is_err());
    }

    #[test]
    fn absent_node_times_out() {
        let dir = tempfile::tempdir().unwrap();
        let load = Load::equal(1, 10);
        let begun = Instant::now();
        let patience = Duration::from_millis(100);
        let why = send_all(&dir.path().join("none"), "ipn:2.1", &load, false, patience).unwrap_err();
        assert!(why.to_string().contains("does not take bundle 0") && begun.elapsed() >= patience, "{why}");
    }
}
