//! Medium access of shared radios: turns.
//!
//! A node has a seat for each of its radios, and at the seat a link for each node in contact. An end of a link that may
//! have something to send requests a turn and gets it once both ends are free. An end that had nothing to send is not
//! asked again before its next request.

use farlink_base::Rng;
use farlink_scenario::motion::{TurnOrder, Turns};
use std::collections::VecDeque;

/// End of a link: the link's index, and 0 or 1 for its first or second seat.
pub type End = (u32, u8);

/// Sharing rules of a radio.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    /// Scope of a turn: which ends exclude each other.
    pub turns: Turns,
    /// Order in which waiting ends are asked for a bundle.
    pub order: TurnOrder,
    /// Largest number of simultaneous links of a seat.
    pub beams: u32,
}

/// Use of one radio by one node: the beams in use, and the links.
#[derive(Clone, Default)]
struct Seat {
    busy: bool,
    beams: u32,
    /// Links in the order of their contacts.
    links: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct TurnSide {
    /// Whether the end may have something to send.
    waits: bool,
    /// Whether the end is queued for a turn.
    called: bool,
    /// Whether the end sends; used only where turns are per link.
    busy: bool,
    /// Number of the end's last turn.
    last: u64,
}

#[derive(Clone, Copy)]
struct TurnLink {
    radio: u16,
    seats: [u32; 2],
    sides: [TurnSide; 2],
    /// Number of links created before this one.
    met: u64,
    /// Whether both seats have a beam for it.
    joined: bool,
}

/// Seats and links of all radios of a simulation.
pub struct Table {
    radios: Vec<(Sharing, Rng)>,
    seats: Vec<Seat>,
    links: Vec<TurnLink>,
    /// Ends that may get a turn, in order.
    line: VecDeque<End>,
    /// Number of turns so far.
    turns: u64,
    /// Number of links so far.
    meetings: u64,
    /// Buffer for the ends that may be next after a transmission; kept for reuse.
    candidates: Vec<(u64, End)>,
}

impl Table {
    /// Makes a table for radios with these rules and random streams, and `seats` seats in total.
    pub fn new(radios: Vec<(Sharing, Rng)>, seats: usize) -> Table {
        let seats = vec![Seat::default(); seats];
        Table { radios, seats, links: Vec::new(), line: VecDeque::new(), turns: 0, meetings: 0, candidates: Vec::new() }
    }

    /// Creates a link at `place`, which is free or the next index. Returns whether both seats have a beam for it.
    pub fn meet(&mut self, place: u32, radio: u16, seats: [u32; 2]) -> bool {
        let link = TurnLink { radio, seats, sides: [TurnSide::default(); 2], met: self.meetings, joined: false };
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
    /// Removes a link, and appends to `joined` the links that get its beams, in order.
    pub fn part(&mut self, place: u32, joined: &mut Vec<u32>) {
        let link = &mut self.links[place as usize];
        let (seats, had) = (link.seats, std::mem::take(&mut link.joined));
        link.sides = [TurnSide::default(); 2];
        self.line.retain(|(called, _)| *called != place);
        for seat in seats {
            let seat = &mut self.seats[seat as usize];
            seat.links.retain(|link| *link != place);
            seat.beams -= u32::from(had);
        }
        if !had || self.radios[usize::from(self.links[place as usize].radio)].0.beams == u32::MAX {
            return;
        }
        // Links of both seats by age: two of them may want the beam of the same third seat.
        let mut waiting: Vec<u32> = seats.iter().flat_map(|seat| &self.seats[*seat as usize].links).copied().collect();
        waiting.sort_unstable_by_key(|link| self.links[*link as usize].met);
        joined.extend(waiting.into_iter().filter(|link| self.try_to_join(*link)));
    }

    /// Links of a seat, oldest first.
    pub fn links_of(&self, seat: u32) -> &[u32] {
        &self.seats[seat as usize].links
    }
    /// Whether the nodes of a link have a beam for each other.
    #[cfg(test)]
    pub fn is_joined(&self, place: u32) -> bool {
        self.links[place as usize].joined
    }

    /// Marks an end as having something to send, and queues it for a turn.
    pub fn wait(&mut self, end: End) {
        self.side(end).waits = true;
        self.call(end);
    }
    /// Lets an end continue its turn, because its last action took no time.
    pub fn go_on(&mut self, end: End) {
        let side = self.side(end);
        side.waits = true;
        if !std::mem::replace(&mut side.called, true) {
            self.line.push_front(end);
        }
    }
    /// The next end whose turn it is; it must request again for another turn.
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
    /// Begins a transmission of an end.
    pub fn take(&mut self, end: End) {
        self.turns += 1;
        let turn = self.turns;
        let side = self.side(end);
        (side.last, side.busy) = (turn, true);
        if self.sharing(end).turns == Turns::Node {
            self.set_seats(end, true);
        }
    }
    /// Ends a transmission, complete or aborted, and queues the ends that may be next.
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

    fn candidates_after(&mut self, (place, side): End, out: &mut Vec<(u64, End)>) {
        // Ends that wait at either seat: their own first, then those of their neighbours, in the configured order.
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
                    // A link between the two seats appears in both lists.
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
            // Fisher-Yates with the radio's own stream.
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
    fn side(&mut self, (place, side): End) -> &mut TurnSide {
        &mut self.links[place as usize].sides[usize::from(side)]
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
