//! Who offers what to whom. First of all routers: messages for a neighbour, then a neighbour's for
//! this host; then what `epidemic.rs`, `spray.rs` and `prophet.rs` say.

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
    /// A host that is free, and holds something, looks for a transfer to begin.
    pub(super) fn route(&mut self, host: u32) {
        // What PRoPHET knows ages when it is read, and so must be read each time.
        self.pulses[host as usize].awake = matches!(self.setup.router, Router::Prophet { .. });
        let mut links = std::mem::take(&mut self.links);
        self.gather(host, &mut links);
        // Whoever is engaged answers `Later`, whatever is offered: nothing comes of asking.
        if links.iter().any(|link| self.pulses[link.peer as usize].engaged == 0)
            && !self.exchange_deliverable(host, &links)
        {
            match self.setup.router {
                Router::Epidemic => self.epidemic(host, &links),
                Router::Spray { .. } => self.spray(host, &links),
                Router::Prophet { .. } => self.prophet(host, &links),
                // Never here.
                Router::Farlink(_) => {}
            }
        }
        self.links = links;
    }

    /// Messages whose receiver is a neighbour, this host's own and then neighbours' for it; whether a
    /// transfer began.
    fn exchange_deliverable(&mut self, host: u32, links: &[Link]) -> bool {
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

    /// Asks a neighbour for messages that this host receives.
    fn ask(&mut self, host: u32, link: Link) -> bool {
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
            // What the offer deleted made the next one come here.
            place += usize::from(self.buffers[peer as usize].held().len() == before);
        }
        false
    }

    /// A list in the order in which a host's queue mode sends.
    fn queued<T: Copy>(&mut self, host: u32, list: &[T], held: impl Fn(&T) -> &Held, queue: &mut Vec<T>) {
        queue.clear();
        if self.rules[host as usize].fifo {
            queue.extend(list);
            queue.sort_by(|a, b| held(a).received.total_cmp(&held(b).received));
        } else {
            let order = self.draws.shuffle(round(self.clock), list.len());
            queue.extend(order.iter().map(|&from| list[from as usize]));
        }
    }

    /// Offers the messages that `pick` names to one neighbour after the other, until a transfer begins.
    fn offer_all(&mut self, host: u32, links: &[Link], pick: impl Fn(&Held) -> bool) {
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
                    Answer::Later => break,
                    Answer::Denied => {}
                }
            }
        }
    }

    /// Two hosts met; `other` is who the first one met.
    pub(super) fn met(&mut self, host: u32, other: u32) {
        if let Router::Prophet { unit, beta, gamma } = self.setup.router {
            self.predictions.meet(host, other, self.clock, [unit, beta, gamma]);
        }
    }
}
