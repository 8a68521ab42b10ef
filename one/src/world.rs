//! Main loop: events, movement, host updates in shuffled order, contacts.

use super::buffer::{Buffer, Held, Knowledge};
use super::contacts::{Grid, Nearness};
use super::events::{Event, EventKind, Queues};
use super::java::{Draws, round, spread, string_hash};
use super::movement::Movers;
use super::reports::{Happened, Message, Names, Reports};
use super::routers::Predictions;
use super::settings::{Mistake, Router, Setup};
use super::transfers::Wire;
use std::collections::HashSet;

/// Contact, as seen from one end.
#[derive(Clone, Copy)]
pub(super) struct Link {
    /// Host at the other end.
    pub peer: u32,
    /// Interface at the other end.
    pub radio: u32,
    /// Connection that carries transfers.
    pub wire: u32,
}

/// Interface of a host.
pub(super) struct Radio {
    pub host: u32,
    pub kind: u32,
    /// Contacts in the order of connection.
    pub links: Vec<Link>,
}

/// Settings of a host that its group defines.
pub(super) struct Rules {
    pub fifo: bool,
    pub delete_delivered: bool,
    lifetime: Option<i32>,
}

/// State of a host that every update reads.
#[derive(Clone)]
pub(super) struct Pulse {
    /// First step in which the host's contacts or cell may change again.
    pub quiet: u64,
    /// Time of the host's last search for expired messages, seconds.
    pub checked: f64,
    /// Number of reasons that keep the host from beginning a transfer; sending is one of them.
    pub engaged: u8,
    /// Whether something changed since the host's last unsuccessful search for a transfer.
    pub awake: bool,
}

/// Simulated world: hosts, contacts, messages, time.
pub struct World<'a> {
    pub(super) setup: &'a Setup,
    pub(super) clock: f64,
    pub(super) step: u64,
    queues: Queues,
    pub(super) movers: Movers,
    pub(super) rules: Vec<Rules>,
    pub(super) radios: Vec<Radio>,
    /// Interfaces of host `h` are `first_radio[h]..first_radio[h + 1]`.
    pub(super) first_radio: Vec<u32>,
    pub(super) grids: Vec<Grid>,
    pub(super) nearness: Nearness,
    order: Vec<u32>,
    pub(super) draws: Draws,
    pub(super) wires: Vec<Wire>,
    pub(super) free_wires: Vec<u32>,
    pub(super) buffers: Vec<Buffer>,
    /// Messages that each host holds, or received as their destination.
    pub(super) known: Knowledge,
    pub(super) pulses: Vec<Pulse>,
    /// Connection over which each host sends.
    pub(super) sending: Vec<Option<u32>>,
    pub(super) predictions: Predictions,
    pub(super) names: Names,
    keeps_paths: bool,
    taken: HashSet<String>,
    reports: Reports,
    /// Reason for which The ONE would end here with an error.
    pub(super) failed: Option<Mistake>,
    pub(super) found: Vec<u32>,
    pub(super) links: Vec<Link>,
    pub(super) listed: Vec<Held>,
    pub(super) queue: Vec<Held>,
    pub(super) ranked: Vec<(f64, Held, Link)>,
}

impl<'a> World<'a> {
    /// Makes all hosts at their starting positions, before the first step.
    pub fn new(setup: &'a Setup, reports: Reports) -> World<'a> {
        let mut movers = Movers::new(setup.seed, setup.area);
        let (mut rules, mut radios, mut first_radio) = (Vec::new(), Vec::new(), vec![0]);
        let (mut buffers, mut hosts) = (Vec::new(), Vec::new());
        for group in &setup.groups {
            movers.add(group, -setup.warmup);
            for host in hosts.len() as u32..movers.len() as u32 {
                let kinds = group.radios.iter().map(|&kind| Radio { host, kind: kind as u32, links: Vec::new() });
                radios.extend(kinds);
                first_radio.push(radios.len() as u32);
                let (fifo, delete_delivered, lifetime) = (group.fifo, group.delete_delivered, group.lifetime);
                rules.push(Rules { fifo, delete_delivered, lifetime });
                buffers.push(Buffer::new(group.buffer));
                hosts.push(format!("{}{host}", group.id));
            }
        }
        // Interfaces enter the grids in the order of hosts, which decides searches until the interfaces change their
        // cells.
        let grid =
            |range: f64| Grid::new((range * f64::from(setup.cell_factor)).ceil().max(1.0), setup.area, radios.len());
        let mut grids: Vec<Grid> = setup.radios.iter().map(|kind| grid(kind.range)).collect();
        for (number, radio) in radios.iter().enumerate() {
            grids[radio.kind as usize].enter(number as u32);
        }
        let range = setup.radios.iter().map(|kind| kind.range).fold(0.0, f64::max);
        let fastest = movers.fastest() * setup.step;
        let count = movers.len();
        World {
            clock: -setup.warmup,
            step: 0,
            queues: Queues::new(&setup.sources),
            rules,
            nearness: Nearness::new(range, fastest),
            radios,
            first_radio,
            grids,
            order: (0..count as u32).collect(),
            draws: Draws::new(),
            wires: Vec::new(),
            free_wires: Vec::new(),
            buffers,
            known: Knowledge::new(count),
            sending: vec![None; count],
            pulses: vec![Pulse { quiet: 0, checked: 0.0, engaged: 0, awake: true }; count],
            predictions: match setup.router {
                Router::Prophet { .. } => Predictions::new(count),
                _ => Predictions::default(),
            },
            names: Names { hosts, messages: Vec::new(), paths: Vec::new() },
            keeps_paths: setup.keeps_paths(),
            taken: HashSet::new(),
            movers,
            reports,
            failed: None,
            found: Vec::new(),
            links: Vec::new(),
            listed: Vec::new(),
            queue: Vec::new(),
            ranked: Vec::new(),
            setup,
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// Fails on a duplicate message name, and where The ONE ends with an error.
    pub fn run(&mut self, progress: &mut dyn FnMut(f64)) -> Result<(), Mistake> {
        self.warm_up();
        // About 200 progress reports in a run.
        let every = (self.setup.end / self.setup.step / 200.0) as u64 + 1;
        while self.clock < self.setup.end {
            let until = self.clock + self.setup.step;
            self.begin_step();
            while let Some(event) = self.queues.next(until) {
                self.clock = event.time;
                self.happen(event)?;
                // All hosts are updated after each event and after each step, as in The ONE.
                self.update_hosts()?;
            }
            self.move_hosts(self.setup.step);
            self.clock = until;
            self.step += 1;
            self.begin_step();
            self.update_hosts()?;
            if self.step.is_multiple_of(every) {
                progress(self.clock);
            }
        }
        Ok(())
    }

    fn warm_up(&mut self) {
        // Before the run hosts only move; there are no contacts.
        while self.clock < -self.setup.step {
            self.move_hosts(self.setup.step);
            self.clock += self.setup.step;
        }
        if self.clock < 0.0 {
            self.move_hosts(-self.clock);
        }
        self.clock = 0.0;
    }

    fn begin_step(&mut self) {
        if self.setup.simulate {
            let (movers, radios) = (&self.movers, &self.radios);
            if self.nearness.begin(self.step, radios.len(), |radio| movers.at(radios[radio as usize].host)) {
                self.pulses.iter_mut().for_each(|pulse| pulse.quiet = 0);
            }
        }
    }

    fn move_hosts(&mut self, seconds: f64) {
        self.movers.advance(seconds, self.clock);
    }

    fn update_hosts(&mut self) -> Result<(), Mistake> {
        let mut order = std::mem::take(&mut self.order);
        // Shuffled in place from the previous order, with the second as the seed: as in The ONE.
        if self.setup.shuffle {
            let from = self.draws.swaps(round(self.clock), order.len());
            for (place, &other) in from.iter().enumerate().rev() {
                order.swap(place + 1, other as usize);
            }
        }
        for &host in &order {
            // A host without an interface is never updated: it keeps even expired messages.
            if self.first_radio[host as usize] == self.first_radio[host as usize + 1] {
                continue;
            }
            if self.setup.simulate && self.pulses[host as usize].quiet <= self.step {
                self.look_around(host);
            }
            self.update_router(host);
        }
        self.order = order;
        self.failed.take().map_or(Ok(()), Err)
    }

    // A contact of a host without an interface, or a repeated name, is an error of the settings, reported with a hint.
    fn happen(&mut self, event: Event) -> Result<(), Mistake> {
        match event.what {
            EventKind::Contact { a, b, up } => {
                let radio = |host: u32| {
                    let [first, end] = [0, 1].map(|more| self.first_radio[host as usize + more]);
                    (first < end).then_some(first)
                };
                let (Some(mine), Some(theirs)) = (radio(a), radio(b)) else {
                    let name = &self.names.hosts[if radio(a).is_none() { a } else { b } as usize];
                    let what = format!("a contact of host {name}, which has no interface");
                    return Err(Mistake::new(what, "give its group nrofInterfaces and interface1"));
                };
                let linked = self.linked(mine, theirs);
                if up && linked.is_none() && mine != theirs {
                    self.connect(mine, theirs);
                }
                if let (false, Some(place)) = (up, linked) {
                    self.disconnect(mine, place);
                }
                self.pulses[a as usize].quiet = 0;
                self.pulses[b as usize].quiet = 0;
            }
            EventKind::Message { id, from, to, size } => {
                if !self.taken.insert(id.clone()) {
                    let what = format!("a second message of the name {id}, at {} s", event.time);
                    return Err(Mistake::new(what, "give sources of events prefixes of which none begins another"));
                }
                let (message, hash) = (self.names.messages.len() as u32, spread(string_hash(&id)));
                let lifetime = self.rules[from as usize].lifetime;
                self.names.messages.push(Message { id, from, to, size, created: self.clock, lifetime });
                let (received, created, hops, path) = (self.clock, self.clock, 0, self.longer_path(from, None));
                self.create(from, Held { message, hash, size, to, received, created, hops, path, copies: 1 });
            }
        }
        Ok(())
    }

    /// Number of a path with one more host.
    pub(super) fn longer_path(&mut self, host: u32, before: Option<u32>) -> u32 {
        if !self.keeps_paths {
            return 0;
        }
        let path = self.names.paths.len() as u32;
        self.names.paths.push([host, before.unwrap_or(path)]);
        path
    }

    pub(super) fn record(&mut self, happened: Happened) {
        self.reports.record(self.clock, &happened, &self.names);
    }

    /// Finishes the reports, whose names are `files`.
    ///
    /// # Errors
    /// Fails if a report cannot be written.
    pub(super) fn finish(
        mut self,
        files: &[std::path::PathBuf],
    ) -> Result<super::reports::Figures, crate::failure::Failure> {
        self.reports.finish(self.clock, files)
    }
}
