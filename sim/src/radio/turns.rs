//! Whose turn it is to send by a radio.
//!
//! A node has a seat for each of its radios, and a link to each node that it hears by one. An end of a link
//! that may have something to send calls for its turn; it gets one once both ends are free. Nobody is asked
//! in vain twice: an end calls when it has something, and is not asked before.

use farlink_base::Rng;
use farlink_scenario::motion::{TurnOrder, Turns};
use std::collections::VecDeque;

/// One end of a link: its place, and 0 or 1 for its first or second seat.
pub type End = (u32, u8);

/// How a radio is shared.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    /// Who may send while others do.
    pub turns: Turns,
    /// Who goes first.
    pub order: TurnOrder,
    /// Links of a seat at once.
    pub beams: u32,
}

/// One node's place at one radio.
#[derive(Clone, Default)]
struct Seat {
    /// Whether it sends or receives.
    busy: bool,
    /// How many of its links have a beam.
    beams: u32,
    /// Its links in the order in which the nodes began to hear each other.
    links: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Side {
    /// Whether it may have something to send.
    waits: bool,
    /// Whether it is in line.
    called: bool,
    /// Whether it sends, where ends do not wait for each other.
    busy: bool,
    /// Number of its last turn.
    last: u64,
}

#[derive(Clone, Copy)]
struct Link {
    radio: u16,
    seats: [u32; 2],
    sides: [Side; 2],
    /// How many links there were before it.
    met: u64,
    /// Whether both of its seats have a beam for it.
    joined: bool,
}

/// The seats and links of all radios of a world.
pub struct Table {
    radios: Vec<(Sharing, Rng)>,
    seats: Vec<Seat>,
    links: Vec<Link>,
    /// Ends whose turn may have come, in order.
    line: VecDeque<End>,
    /// Turns so far.
    turns: u64,
    /// Links so far.
    meetings: u64,
    /// Kept for its memory.
    candidates: Vec<(u64, End)>,
}

impl Table {
    /// For radios shared so, with a stream of random numbers each, and so many seats in all.
    pub fn new(radios: Vec<(Sharing, Rng)>, seats: usize) -> Table {
        let seats = vec![Seat::default(); seats];
        Table { radios, seats, links: Vec::new(), line: VecDeque::new(), turns: 0, meetings: 0, candidates: Vec::new() }
    }

    /// Two seats of a radio begin to hear each other; the link's place is one that is free, or the next. Whether
    /// they have a beam for each other.
    pub fn meet(&mut self, place: u32, radio: u16, seats: [u32; 2]) -> bool {
        let link = Link { radio, seats, sides: [Side::default(); 2], met: self.meetings, joined: false };
        self.meetings += 1;
        match self.links.get_mut(place as usize) {
            Some(before) => *before = link,
            None => self.links.push(link),
        }
        seats.into_iter().for_each(|seat| self.seats[seat as usize].links.push(place));
        self.try_to_join(place)
    }
    fn try_to_join(&mut self, place: u32) -> bool {
        let link = &mut self.links[place as usize];
        let most = self.radios[usize::from(link.radio)].0.beams;
        if link.joined || link.seats.iter().any(|seat| self.seats[*seat as usize].beams >= most) {
            return false;
        }
        link.joined = true;
        link.seats.iter().for_each(|seat| self.seats[*seat as usize].beams += 1);
        true
    }
    /// Two seats do not hear each other any more. Links that get the beams are pushed, in order.
    pub fn part(&mut self, place: u32, joined: &mut Vec<u32>) {
        let link = &mut self.links[place as usize];
        let (seats, had) = (link.seats, std::mem::take(&mut link.joined));
        link.sides = [Side::default(); 2];
        self.line.retain(|(called, _)| *called != place);
        for seat in seats {
            let seat = &mut self.seats[seat as usize];
            seat.links.retain(|link| *link != place);
            seat.beams -= u32::from(had);
        }
        if !had || self.radios[usize::from(self.links[place as usize].radio)].0.beams == u32::MAX {
            return;
        }
        // Those of both seats by when they met: two of them may want the beam of the same third.
        let mut waiting: Vec<u32> = seats.iter().flat_map(|seat| &self.seats[*seat as usize].links).copied().collect();
        waiting.sort_unstable_by_key(|link| self.links[*link as usize].met);
        joined.extend(waiting.into_iter().filter(|link| self.try_to_join(*link)));
    }

    /// Links of a seat, in the order in which its node began to hear others.
    pub fn links_of(&self, seat: u32) -> &[u32] {
        &self.seats[seat as usize].links
    }
    /// Whether the nodes of a link have a beam for each other.
    #[cfg(test)]
    pub fn is_joined(&self, place: u32) -> bool {
        self.links[place as usize].joined
    }

    /// An end may have something to send: it gets its turn when it comes.
    pub fn wait(&mut self, end: End) {
        self.side(end).waits = true;
        self.call(end);
    }
    /// What an end just did took no time: its turn goes on.
    pub fn go_on(&mut self, end: End) {
        let side = self.side(end);
        side.waits = true;
        if !std::mem::replace(&mut side.called, true) {
            self.line.push_front(end);
        }
    }
    /// The next end whose turn it is. It does not wait any more, unless it says so.
    pub fn next(&mut self) -> Option<End> {
        while let Some(end) = self.line.pop_front() {
            let side = self.side(end);
            side.called = false;
            if side.waits && self.is_free(end) {
                self.side(end).waits = false;
                return Some(end);
            }
        }
        None
    }
    /// An end begins to send.
    pub fn take(&mut self, end: End) {
        self.turns += 1;
        let turn = self.turns;
        let side = self.side(end);
        (side.last, side.busy) = (turn, true);
        if self.sharing(end).turns == Turns::Node {
            self.set_seats(end, true);
        }
    }
    /// What an end sent is through, or was broken off: whose turn it may be now is called.
    pub fn release(&mut self, end: End) {
        self.side(end).busy = false;
        if self.sharing(end).turns == Turns::Link {
            return self.call(end);
        }
        self.set_seats(end, false);
        let mut ends = std::mem::take(&mut self.candidates);
        self.candidates_after(end, &mut ends);
        ends.drain(..).for_each(|(_, end)| self.call(end));
        self.candidates = ends;
    }

    /// Ends that wait at either seat of a link, in the order in which they are to be asked.
    fn candidates_after(&mut self, (place, side): End, out: &mut Vec<(u64, End)>) {
        let link = self.links[place as usize];
        let order = self.radios[usize::from(link.radio)].0.order;
        let first = usize::from(side) ^ usize::from(order == TurnOrder::Receiver);
        let seats = [link.seats[first], link.seats[1 - first]];
        for own in [true, false] {
            for seat in seats {
                for next in &self.seats[seat as usize].links {
                    let link = &self.links[*next as usize];
                    let at_seat = u8::from(link.seats[1] == seat);
                    let side = if own { at_seat } else { 1 - at_seat };
                    let waiting = &link.sides[usize::from(side)];
                    // A link between the two seats is seen from both.
                    let seen = !own && link.seats.iter().all(|seat| seats.contains(seat));
                    if link.joined && waiting.waits && !seen {
                        out.push((waiting.last, (*next, side)));
                    }
                }
            }
        }
        match order {
            TurnOrder::Sender | TurnOrder::Receiver => {}
            TurnOrder::Fair => out.sort_by_key(|(last, _)| *last),
            TurnOrder::Random => {
                let random = &mut self.radios[usize::from(link.radio)].1;
                for last in (1..out.len()).rev() {
                    out.swap(last, random.below(last as u64 + 1) as usize);
                }
            }
        }
    }

    fn call(&mut self, end: End) {
        if !std::mem::replace(&mut self.side(end).called, true) {
            self.line.push_back(end);
        }
    }
    fn is_free(&self, (place, side): End) -> bool {
        let link = &self.links[place as usize];
        link.joined
            && match self.radios[usize::from(link.radio)].0.turns {
                Turns::Node => !link.seats.iter().any(|seat| self.seats[*seat as usize].busy),
                Turns::Link => !link.sides[usize::from(side)].busy,
            }
    }
    fn set_seats(&mut self, (place, _): End, busy: bool) {
        let seats = self.links[place as usize].seats;
        seats.into_iter().for_each(|seat| self.seats[seat as usize].busy = busy);
    }
    fn sharing(&self, (place, _): End) -> &Sharing {
        &self.radios[usize::from(self.links[place as usize].radio)].0
    }
    fn side(&mut self, (place, side): End) -> &mut Side {
        &mut self.links[place as usize].sides[usize::from(side)]
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
