//! Contacts between interfaces: detection, connection, disconnection.

use super::map::{Point, distance};
use super::reports::Happened;
use super::settings::Mistake;
use super::world::{Link, World};

fn outside(host: &str, [x, y]: Point) -> Mistake {
    let what = format!("host {host} is at {x}, {y} m, outside the world, where The ONE ends with an error");
    Mistake::new(what, "make MovementModel.worldSize larger, or move its places")
}

impl World<'_> {
    pub(super) fn touch(&mut self, host: u32) {
        // Something about the host changed, so transfers that were refused may succeed now, for it and its neighbours.
        self.pulses[host as usize].awake = true;
        for radio in self.first_radio[host as usize]..self.first_radio[host as usize + 1] {
            for link in &self.radios[radio as usize].links {
                self.pulses[link.peer as usize].awake = true;
            }
        }
    }

    /// Fills `links` with all contacts of a host.
    pub(super) fn gather(&self, host: u32, links: &mut Vec<Link>) {
        links.clear();
        for radio in self.first_radio[host as usize]..self.first_radio[host as usize + 1] {
            links.extend(&self.radios[radio as usize].links);
        }
    }

    pub(super) fn linked(&self, mine: u32, theirs: u32) -> Option<usize> {
        self.radios[mine as usize].links.iter().position(|link| link.radio == theirs)
    }

    fn far(&self, a: u32, b: u32) -> f64 {
        let at = |radio: u32| self.movers.at(self.radios[radio as usize].host);
        distance(at(a), at(b))
    }

    pub(super) fn look_around(&mut self, host: u32) {
        // Enter the host into the grid, update its contacts, and record the first step that must do so again.
        let at = self.movers.at(host);
        let mut quiet = u64::MAX;
        for radio in self.first_radio[host as usize]..self.first_radio[host as usize + 1] {
            let kind = self.radios[radio as usize].kind as usize;
            // An interface without a range never looks for others: only events begin and end its contacts.
            if self.setup.radios[kind].range <= 0.0 {
                continue;
            }
            let border = self.grids[kind].update(radio, at);
            if !self.grids[kind].holds(radio) {
                self.failed = Some(outside(&self.names.hosts[host as usize], at));
                return;
            }
            let range = self.setup.radios[kind].range;
            if self.slack(radio, range).is_none() {
                // Only a changed contact needs a search; The ONE searches in every step with the same result.
                self.search(radio, kind, range);
            }
            let slack = self.slack(radio, range);
            quiet = quiet.min(self.nearness.quiet_until(self.step, border, slack));
        }
        self.pulses[host as usize].quiet = quiet;
    }

    fn search(&mut self, radio: u32, kind: usize, range: f64) {
        // Break contacts out of range first, then make new ones: the order in which The ONE reports them.
        let mut place = 0;
        while let Some(link) = self.radios[radio as usize].links.get(place).copied() {
            // An event can connect interfaces of two kinds: the shorter range counts.
            let theirs = self.setup.radios[self.radios[link.radio as usize].kind as usize].range;
            if self.far(radio, link.radio) > range.min(theirs) { self.disconnect(radio, place) } else { place += 1 }
        }
        let mut found = std::mem::take(&mut self.found);
        self.grids[kind].around(radio, &mut found);
        for &other in &found {
            if other != radio && self.far(radio, other) <= range && self.linked(radio, other).is_none() {
                self.connect(radio, other);
            }
        }
        self.found = found;
    }

    fn slack(&self, radio: u32, range: f64) -> Option<f64> {
        // Distance to the nearest border of a range, if all contacts of the interface are up to date.
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

    pub(super) fn connect(&mut self, mine: u32, theirs: u32) {
        let kinds = [mine, theirs].map(|radio| self.radios[radio as usize].kind as usize);
        let speed = kinds.map(|kind| self.setup.radios[kind].speed);
        // The slower of both interfaces sets the speed of a connection.
        let wire = self.new_wire(speed[0].min(speed[1]));
        let [a, b] = [mine, theirs].map(|radio| self.radios[radio as usize].host);
        self.radios[mine as usize].links.push(Link { peer: b, radio: theirs, wire });
        self.radios[theirs as usize].links.push(Link { peer: a, radio: mine, wire });
        self.touch(a);
        self.touch(b);
        self.record(Happened::Contact { a, b, up: true });
        self.met(a, b);
        self.met(b, a);
    }

    /// Ends the contact at `place` of an interface.
    pub(super) fn disconnect(&mut self, mine: u32, place: usize) {
        let link = self.radios[mine as usize].links.remove(place);
        if let Some(other) = self.linked(link.radio, mine) {
            self.radios[link.radio as usize].links.remove(other);
        }
        // A transfer in progress ends when its sender is next updated, so the connection outlives the link.
        let (a, b) = (self.radios[mine as usize].host, link.peer);
        self.cut(link.wire);
        self.touch(a);
        self.touch(b);
        self.record(Happened::Contact { a, b, up: false });
    }
}
