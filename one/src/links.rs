//! Contacts between interfaces: found, made, broken.

use super::map::distance;
use super::reports::Happened;
use super::world::{Link, World};

impl World<'_> {
    /// Something about a host is not as it was: what was tried in vain may be tried again, by it and by
    /// those in contact with it.
    pub(super) fn touch(&mut self, host: u32) {
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

    /// Enters a host into the grid and looks after its contacts, as it does when it is updated; then
    /// notes how long nothing of that need be done again.
    pub(super) fn look_around(&mut self, host: u32) {
        let at = self.movers.at(host);
        let mut quiet = u64::MAX;
        for radio in self.first_radio[host as usize]..self.first_radio[host as usize + 1] {
            let kind = self.radios[radio as usize].kind as usize;
            let border = self.grids[kind].update(radio, at);
            let range = self.setup.radios[kind].range;
            if self.slack(radio, range).is_none() {
                self.search(radio, kind, range);
            }
            let slack = self.slack(radio, range);
            quiet = quiet.min(self.nearness.quiet_until(self.step, border, slack));
        }
        self.pulses[host as usize].quiet = quiet;
    }

    /// Breaks the contacts of an interface that are out of range, and makes those that are in range.
    fn search(&mut self, radio: u32, kind: usize, range: f64) {
        let mut place = 0;
        while let Some(link) = self.radios[radio as usize].links.get(place).copied() {
            if self.far(radio, link.radio) > range { self.disconnect(radio, place) } else { place += 1 }
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

    pub(super) fn connect(&mut self, mine: u32, theirs: u32) {
        let kinds = [mine, theirs].map(|radio| self.radios[radio as usize].kind as usize);
        let speed = kinds.map(|kind| self.setup.radios[kind].speed);
        let wire = self.new_wire(speed[0].min(speed[1]));
        let [a, b] = [mine, theirs].map(|radio| self.radios[radio as usize].host);
        self.radios[mine as usize].links.push(Link { peer: b, radio: theirs, wire });
        self.radios[theirs as usize].links.push(Link { peer: a, radio: mine, wire });
        self.touch(a);
        self.touch(b);
        self.tell(Happened::Contact { a, b, up: true });
        self.met(a, b);
        self.met(b, a);
    }

    /// Ends the contact at `place` of an interface.
    pub(super) fn disconnect(&mut self, mine: u32, place: usize) {
        let link = self.radios[mine as usize].links.remove(place);
        if let Some(other) = self.linked(link.radio, mine) {
            self.radios[link.radio as usize].links.remove(other);
        }
        let (a, b) = (self.radios[mine as usize].host, link.peer);
        self.cut(link.wire);
        self.touch(a);
        self.touch(b);
        self.tell(Happened::Contact { a, b, up: false });
    }
}
