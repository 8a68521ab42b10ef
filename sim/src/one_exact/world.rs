//! The loop: events, movement, updates of hosts in shuffled order; and contacts.

use super::buffer::{Buffer, Held, Knowledge};
use super::contacts::{Grid, Nearness};
use super::events::{Event, Happening, Queues};
use super::java::{Draws, Random, round, spread, string_hash};
use super::map::distance;
use super::movement::Mover;
use super::reports::{Happened, Message, Names, Reports};
use super::routers::Predictions;
use super::settings::{Mistake, Router, Setup};
use super::transfers::Wire;
use std::collections::HashSet;

/// A contact, as one end sees it.
#[derive(Clone, Copy)]
pub(super) struct Link {
    /// The host at the other end.
    pub peer: u32,
    /// Its interface.
    pub radio: u32,
    /// The connection.
    pub wire: u32,
}

/// One interface of a host.
struct Radio {
    host: u32,
    kind: u32,
    /// In the order in which they came.
    links: Vec<Link>,
}

/// What a host's group says of it.
pub(super) struct Rules {
    pub fifo: bool,
    pub delete_delivered: bool,
    lifetime: Option<i32>,
}

/// Hosts, contacts, messages, and the time.
pub struct World<'a> {
    pub(super) setup: &'a Setup,
    pub(super) clock: f64,
    step: u64,
    queues: Queues,
    movers: Vec<Mover>,
    movement: Random,
    pub(super) rules: Vec<Rules>,
    radios: Vec<Radio>,
    /// Of host `h`: interfaces `first_radio[h]` to `first_radio[h + 1]`.
    first_radio: Vec<u32>,
    grids: Vec<Grid>,
    nearness: Nearness,
    order: Vec<u32>,
    pub(super) draws: Draws,
    pub(super) wires: Vec<Wire>,
    pub(super) free_wires: Vec<u32>,
    pub(super) buffers: Vec<Buffer>,
    /// What each host holds, or got as the one it was for.
    pub(super) known: Knowledge,
    /// How many transfers keep a host from beginning another.
    pub(super) engaged: Vec<u8>,
    pub(super) sending: Vec<Option<u32>>,
    /// When each host last looked for messages that are too old.
    pub(super) checked: Vec<f64>,
    pub(super) predictions: Predictions,
    pub(super) names: Names,
    taken: HashSet<String>,
    reports: Reports,
    pub(super) found: Vec<u32>,
    pub(super) links: Vec<Link>,
    pub(super) ranked: Vec<(f64, Held, Link)>,
}

impl<'a> World<'a> {
    /// All hosts where they begin, before the first step.
    pub fn new(setup: &'a Setup, reports: Reports) -> World<'a> {
        let mut movement = Random::new(setup.seed);
        let (mut movers, mut rules, mut radios, mut first_radio) = (Vec::new(), Vec::new(), Vec::new(), vec![0]);
        let (mut buffers, mut hosts) = (Vec::new(), Vec::new());
        for group in &setup.groups {
            for _ in 0..group.hosts {
                let host = movers.len() as u32;
                movers.push(Mover::new(group, setup.area, &mut movement, -setup.warmup));
                let kinds = group.radios.iter().map(|&kind| Radio { host, kind: kind as u32, links: Vec::new() });
                radios.extend(kinds);
                first_radio.push(radios.len() as u32);
                let (fifo, delete_delivered, lifetime) = (group.fifo, group.delete_delivered, group.lifetime);
                rules.push(Rules { fifo, delete_delivered, lifetime });
                buffers.push(Buffer::new(group.buffer));
                hosts.push(format!("{}{host}", group.id));
            }
        }
        let side = |range: f64| (range * f64::from(setup.cell_factor)).ceil();
        let mut grids: Vec<Grid> =
            setup.radios.iter().map(|kind| Grid::new(side(kind.range), radios.len())).collect();
        for (number, radio) in radios.iter().enumerate() {
            grids[radio.kind as usize].enter(number as u32);
        }
        let range = setup.radios.iter().map(|kind| kind.range).fold(0.0, f64::max);
        let fastest = movers.iter().map(Mover::fastest).fold(0.0, f64::max) * setup.step;
        let count = movers.len();
        World {
            clock: -setup.warmup,
            step: 0,
            queues: Queues::new(&setup.sources),
            movement,
            rules,
            nearness: Nearness::new(range, fastest, radios.len()),
            radios,
            first_radio,
            grids,
            order: (0..count as u32).collect(),
            draws: Draws::new(),
            wires: Vec::new(),
            free_wires: Vec::new(),
            buffers,
            known: Knowledge::new(count),
            engaged: vec![0; count],
            sending: vec![None; count],
            checked: vec![0.0; count],
            predictions: match setup.router {
                Router::Prophet { .. } => Predictions::new(count),
                _ => Predictions::default(),
            },
            names: Names { hosts, messages: Vec::new() },
            taken: HashSet::new(),
            movers,
            reports,
            found: Vec::new(),
            links: Vec::new(),
            ranked: Vec::new(),
            setup,
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// A message's name that comes twice.
    pub fn run(&mut self, progress: &mut dyn FnMut(f64)) -> Result<(), Mistake> {
        self.warm_up();
        let every = (self.setup.end / self.setup.step / 200.0) as u64 + 1;
        while self.clock < self.setup.end {
            let until = self.clock + self.setup.step;
            self.begin_step();
            while let Some(event) = self.queues.next(until) {
                self.clock = event.time;
                self.happen(event)?;
                self.update_hosts();
            }
            self.move_hosts(self.setup.step);
            self.clock = until;
            self.step += 1;
            self.begin_step();
            self.update_hosts();
            if self.step % every == 0 {
                progress(self.clock);
            }
        }
        Ok(())
    }

    /// Movement before the run, without contacts.
    fn warm_up(&mut self) {
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
            self.nearness.begin(self.step, |radio| movers[radios[radio as usize].host as usize].at);
        }
    }

    fn move_hosts(&mut self, seconds: f64) {
        for mover in &mut self.movers {
            mover.advance(seconds, self.clock, &mut self.movement);
        }
    }

    fn update_hosts(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        if self.setup.shuffle {
            let from = self.draws.swaps(round(self.clock), order.len());
            for (place, &other) in from.iter().enumerate().rev() {
                order.swap(place + 1, other as usize);
            }
        }
        for &host in &order {
            if self.setup.simulate {
                for radio in self.first_radio[host as usize]..self.first_radio[host as usize + 1] {
                    let at = self.movers[host as usize].at;
                    self.grids[self.radios[radio as usize].kind as usize].update(radio, at);
                    if !self.nearness.is_quiet(radio, self.step) {
                        self.look_around(radio);
                    }
                }
            }
            self.update_router(host);
        }
        self.order = order;
    }

    fn happen(&mut self, event: Event) -> Result<(), Mistake> {
        match event.what {
            Happening::Contact { a, b, up } => {
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
                self.nearness.wake(mine);
                self.nearness.wake(theirs);
            }
            Happening::Message { id, from, to, size } => {
                if !self.taken.insert(id.clone()) {
                    let what = format!("a second message of the name {id}, at {} s", event.time);
                    return Err(Mistake::new(what, "give sources of events prefixes of which none begins another"));
                }
                let (message, hash) = (self.names.messages.len() as u32, spread(string_hash(&id)));
                let lifetime = self.rules[from as usize].lifetime;
                self.names.messages.push(Message { id, from, to, created: self.clock, lifetime });
                let (received, created, hops) = (self.clock, self.clock, 0);
                self.create(from, Held { message, hash, size, to, received, created, hops, copies: 1 });
            }
        }
        Ok(())
    }

    pub(super) fn tell(&mut self, happened: Happened) {
        self.reports.tell(self.clock, &happened, &self.names);
    }

    /// Ends the reports.
    ///
    /// # Errors
    /// One that cannot be written; `files` are their names.
    pub(super) fn finish(
        mut self,
        files: &[std::path::PathBuf],
    ) -> Result<super::reports::Figures, super::Failure> {
        self.reports.finish(self.clock, &self.names, files)
    }

    /// Fills `links` with all contacts of a host.
    pub(super) fn gather(&self, host: u32, links: &mut Vec<Link>) {
        links.clear();
        for radio in self.first_radio[host as usize]..self.first_radio[host as usize + 1] {
            links.extend(&self.radios[radio as usize].links);
        }
    }

    fn linked(&self, mine: u32, theirs: u32) -> Option<usize> {
        self.radios[mine as usize].links.iter().position(|link| link.radio == theirs)
    }

    fn far(&self, a: u32, b: u32) -> f64 {
        let at = |radio: u32| self.movers[self.radios[radio as usize].host as usize].at;
        distance(at(a), at(b))
    }

    /// Breaks and makes the contacts of an interface, as its host does when it is updated.
    fn look_around(&mut self, radio: u32) {
        let kind = self.radios[radio as usize].kind;
        let range = self.setup.radios[kind as usize].range;
        if self.slack(radio, range).is_none() {
            let mut place = 0;
            while let Some(link) = self.radios[radio as usize].links.get(place).copied() {
                if self.far(radio, link.radio) > range { self.disconnect(radio, place) } else { place += 1 }
            }
            let mut found = std::mem::take(&mut self.found);
            self.grids[kind as usize].around(radio, &mut found);
            for &other in &found {
                if other != radio && self.far(radio, other) <= range && self.linked(radio, other).is_none() {
                    self.connect(radio, other);
                }
            }
            self.found = found;
        }
        match self.slack(radio, range) {
            Some(slack) => self.nearness.rest(radio, self.step, slack),
            None => self.nearness.wake(radio),
        }
    }

    /// How far the nearest border of a range is, metres, where all contacts of an interface are as they
    /// should be.
    fn slack(&self, radio: u32, range: f64) -> Option<f64> {
        let (mut slack, mut linked) = (f64::INFINITY, 0);
        let mine = &self.radios[radio as usize];
        for &other in self.nearness.of(radio) {
            if self.radios[other as usize].kind != mine.kind {
                continue;
            }
            let far = self.far(radio, other);
            if far <= range {
                linked += 1;
                self.linked(radio, other)?;
            }
            slack = slack.min((far - range).abs());
        }
        (linked == mine.links.len()).then_some(slack)
    }

    fn connect(&mut self, mine: u32, theirs: u32) {
        let kinds = [mine, theirs].map(|radio| self.radios[radio as usize].kind as usize);
        let speed = kinds.map(|kind| self.setup.radios[kind].speed);
        let wire = self.new_wire(speed[0].min(speed[1]));
        let [a, b] = [mine, theirs].map(|radio| self.radios[radio as usize].host);
        self.radios[mine as usize].links.push(Link { peer: b, radio: theirs, wire });
        self.radios[theirs as usize].links.push(Link { peer: a, radio: mine, wire });
        self.tell(Happened::Contact { a, b, up: true });
        self.met(a, b);
        self.met(b, a);
    }

    /// Ends the contact at `place` of an interface.
    fn disconnect(&mut self, mine: u32, place: usize) {
        let link = self.radios[mine as usize].links.remove(place);
        if let Some(other) = self.linked(link.radio, mine) {
            self.radios[link.radio as usize].links.remove(other);
        }
        let (a, b) = (self.radios[mine as usize].host, link.peer);
        self.cut(link.wire);
        self.tell(Happened::Contact { a, b, up: false });
    }
}
