//! Forwarding decisions. Every router first exchanges deliverable messages: its own for a neighbour, then a neighbour's
//! for this host. `epidemic.rs`, `spray.rs` and `prophet.rs` add their own rules.

mod epidemic;
mod prophet;
mod spray;

pub use prophet::Predictions;

use super::buffer::Held;
use super::java::round;
use super::settings::Router;
use super::transfers::Answer;
use super::world::{Link, World};

impl World<'_> {
    pub(super) fn route(&mut self, host: u32) {
        // The host is idle and holds a message: it tries to begin a transfer.
        // PRoPHET's predictabilities age when they are read, so it must read them in every step.
        self.pulses[host as usize].awake = matches!(self.setup.router, Router::Prophet { .. });
        let mut links = std::mem::take(&mut self.links);
        self.gather(host, &mut links);
        // A busy host answers `Later` to every offer: asking it is pointless.
        if links.iter().any(|link| self.pulses[link.peer as usize].engaged == 0)
            && !self.exchange_deliverable(host, &links)
        {
            match self.setup.router {
                // First contact offers the same; it differs in what remains, and in what is taken.
                Router::Epidemic | Router::FirstContact => self.epidemic(host, &links),
                Router::Direct => {}
                Router::Spray { .. } => self.spray(host, &links),
                Router::Prophet { .. } => self.prophet(host, &links),
                // The settings refuse these routers outside Farlink's own world.
                Router::Farlink(_) => {}
            }
        }
        self.links = links;
    }

    fn exchange_deliverable(&mut self, host: u32, links: &[Link]) -> bool {
        // The ONE's order: this host's messages for its neighbours, then theirs for it.
        let mut pairs: Vec<(Held, Link)> = Vec::new();
        for held in self.buffers[host as usize].held() {
            pairs.extend(links.iter().filter(|link| link.peer == held.to).map(|&link| (*held, link)));
        }
        if !pairs.is_empty() {
            let mut queue = Vec::with_capacity(pairs.len());
            self.queued(host, &pairs, |(held, _)| held, &mut queue);
            for (held, link) in queue {
                if self.offer(host, held, link) == Answer::Accepted {
                    return true;
                }
            }
        }
        links.iter().any(|&link| self.ask(host, link))
    }

    fn ask(&mut self, host: u32, link: Link) -> bool {
        // The neighbour becomes the sender, so it must be idle.
        let peer = link.peer;
        if self.pulses[peer as usize].engaged > 0 {
            return false;
        }
        let mut place = 0;
        while let Some(next) = self.buffers[peer as usize].held()[place..].iter().position(|held| held.to == host) {
            place += next;
            let (held, before) = (self.buffers[peer as usize].held()[place], self.buffers[peer as usize].held().len());
            if self.offer(peer, held, Link { peer: host, ..link }) == Answer::Accepted {
                return true;
            }
            // If the offer deleted the message, the next one has moved to this index.
            place += usize::from(self.buffers[peer as usize].held().len() == before);
        }
        false
    }

    fn queued<T: Copy>(&mut self, host: u32, list: &[T], held: impl Fn(&T) -> &Held, queue: &mut Vec<T>) {
        // The host's queue mode sets the order: by arrival, or shuffled with the current second as the seed, as in The
        // ONE.
        queue.clear();
        if self.rules[host as usize].fifo {
            queue.extend(list);
            queue.sort_by(|a, b| held(a).received.total_cmp(&held(b).received));
        } else {
            let order = self.draws.shuffle(round(self.clock), list.len());
            queue.extend(order.iter().map(|&from| list[from as usize]));
        }
    }

    fn offer_all(&mut self, host: u32, links: &[Link], pick: impl Fn(&Held) -> bool) {
        // Both lists are taken out for the call and put back, so that their allocations are reused.
        let (mut list, mut queue) = (std::mem::take(&mut self.listed), std::mem::take(&mut self.queue));
        list.clear();
        list.extend(self.buffers[host as usize].held().iter().filter(|held| pick(held)));
        self.queued(host, &list, |held| held, &mut queue);
        self.offer_queue(host, links, &queue);
        (self.listed, self.queue) = (list, queue);
    }

    fn offer_queue(&mut self, host: u32, links: &[Link], queue: &[Held]) {
        for &link in links {
            for &held in queue {
                match self.offer(host, held, link) {
                    Answer::Accepted => return,
                    // This neighbour is busy; the next one may not be.
                    Answer::Later => break,
                    Answer::Denied => {}
                }
            }
        }
    }

    pub(super) fn met(&mut self, host: u32, other: u32) {
        // A contact began: only PRoPHET learns from it.
        if let Router::Prophet { unit, beta, gamma } = self.setup.router {
            self.predictions.meet(host, other, self.clock, [unit, beta, gamma]);
        }
    }
}
