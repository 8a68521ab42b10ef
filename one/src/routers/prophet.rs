//! PRoPHET (Lindgren, Doria and Schelén, 2003) with The ONE's encounter probability of 0.75; predictabilities age when
//! they are read.

use crate::settings::Router;
use crate::transfers::Answer;
use crate::world::{Link, World};

/// Encounter probability: the share of the remaining uncertainty that a meeting removes.
const ENCOUNTER: f64 = 0.75;

/// Delivery predictabilities of each host for every other.
#[derive(Default)]
pub struct Predictions {
    tables: Vec<Vec<f64>>,
    /// Time at which each table was last aged, seconds.
    aged: Vec<f64>,
}

impl Predictions {
    /// Makes empty tables.
    pub fn new(hosts: usize) -> Predictions {
        Predictions { tables: vec![Vec::new(); hosts], aged: vec![0.0; hosts] }
    }
    fn age(&mut self, host: u32, now: f64, unit: f64, gamma: f64) {
        let units = (now - self.aged[host as usize]) / unit;
        if units == 0.0 {
            return;
        }
        let left = gamma.powf(units);
        self.tables[host as usize].iter_mut().for_each(|value| *value *= left);
        self.aged[host as usize] = now;
    }
    fn get(&self, host: u32, of: u32) -> f64 {
        self.tables[host as usize].get(of as usize).copied().unwrap_or(0.0)
    }
    /// Updates the table of `host` after it met `other`: directly, then transitively by `beta`.
    pub fn meet(&mut self, host: u32, other: u32, now: f64, [unit, beta, gamma]: [f64; 3]) {
        self.age(host, now, unit, gamma);
        self.age(other, now, unit, gamma);
        let hosts = self.tables.len();
        let mut mine = std::mem::take(&mut self.tables[host as usize]);
        mine.resize(hosts, 0.0);
        let old = mine[other as usize];
        let met = old + (1.0 - old) * ENCOUNTER;
        mine[other as usize] = met;
        let theirs = &self.tables[other as usize];
        // Transitive update: predictabilities that `other` has for third hosts.
        for (of, (mine, &theirs)) in mine.iter_mut().zip(theirs).enumerate() {
            if of as u32 != host && theirs != 0.0 {
                *mine += (1.0 - *mine) * met * theirs * beta;
            }
        }
        self.tables[host as usize] = mine;
    }
}

impl World<'_> {
    pub(super) fn prophet(&mut self, host: u32, links: &[Link]) {
        let Router::Prophet { unit, gamma, .. } = self.setup.router else { return };
        let mut ranked = std::mem::take(&mut self.ranked);
        ranked.clear();
        for &link in links.iter().filter(|link| self.pulses[link.peer as usize].engaged == 0) {
            for &held in self.buffers[host as usize].held() {
                // Skip messages that the neighbour holds; one already delivered there is still offered, and refused.
                if self.known.has(link.peer, held.message) && held.to != link.peer {
                    continue;
                }
                self.predictions.age(link.peer, self.clock, unit, gamma);
                self.predictions.age(host, self.clock, unit, gamma);
                let theirs = self.predictions.get(link.peer, held.to);
                if theirs > self.predictions.get(host, held.to) {
                    ranked.push((theirs, held, link));
                }
            }
        }
        // By the neighbour's predictability; ties go to the message received first, as `sendQueue = 2` asks.
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.received.total_cmp(&b.1.received)));
        for &(_, held, link) in &ranked {
            if self.offer(host, held, link) == Answer::Accepted {
                break;
            }
        }
        self.ranked = ranked;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: [f64; 3] = [30.0, 0.25, 0.98];

    #[test]
    fn meeting_raises_and_time_lowers() {
        let mut known = Predictions::new(3);
        known.meet(0, 1, 10.0, RULES);
        assert_eq!(known.get(0, 1), 0.75);
        known.meet(0, 1, 40.0, RULES);
        let aged = 0.75 * 0.98;
        assert_eq!(known.get(0, 1), aged + (1.0 - aged) * 0.75);
        assert_eq!(known.get(1, 0), 0.0);
    }

    #[test]
    fn transitive_meeting_counts_by_beta() {
        let mut known = Predictions::new(3);
        known.meet(1, 2, 10.0, RULES);
        known.meet(0, 1, 10.0, RULES);
        assert_eq!(known.get(0, 2), 0.75 * 0.75 * 0.25);
        known.meet(2, 0, 10.0, RULES);
        assert_eq!(known.get(2, 2), 0.0);
    }
}
