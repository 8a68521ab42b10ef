//! Cause of waiting and expected departure of each bundle, for operators: singly, in pages, or in sums. A page or a sum
//! examines at most 512 bundles, however many are held.

use crate::agent::Agent;
use crate::app::{BundleStatus, Sum};
use crate::neighbours::link::Link;
use crate::state::waits::Turned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use farlink_base::{Duration, EndpointId, Instant, LinkId, NodeId, PeerId, format_duration};
use farlink_book::{CursorId, Held, Peer, RetentionConstraint};

/// Most bundles that one page or sum examines.
const LOOK: usize = 512;

/// Cause of waiting, by which lists are grouped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum For {
    Store,
    Application,
    Answer,
    Parts,
    Rest,
    Whole,
    Tunnel,
    Custody,
    Turn,
    Session,
    Enabling,
    Contact,
    Link,
    Acknowledgment,
    Room,
    Neighbour,
    Back,
    Wider,
    Meeting,
    Route,
}
impl For {
    const fn word(self) -> &'static str {
        match self {
            For::Store => "store",
            For::Application => "application",
            For::Answer => "answer of application",
            For::Parts => "other fragments",
            For::Rest => "arriving",
            For::Whole => "part of a whole",
            For::Tunnel => "tunnel",
            For::Custody => "custody",
            For::Turn => "turn",
            For::Session => "session",
            For::Enabling => "link disabled",
            For::Contact => "contact",
            For::Link => "link down",
            For::Acknowledgment => "acknowledgment",
            For::Room => "neighbour full",
            For::Neighbour => "neighbour refused",
            For::Back => "came back",
            For::Wider => "wider link",
            For::Meeting => "no neighbour",
            For::Route => "no route",
        }
    }
}

/// Cause of a bundle's waiting, with the link, neighbour and time that belong to it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Cause {
    what: For,
    link: Option<LinkId>,
    peer: Option<PeerId>,
    turned: Option<Turned>,
    /// Expected departure or next attempt.
    at: Option<Instant>,
}
const fn just(what: For) -> Cause {
    Cause { what, link: None, peer: None, turned: None, at: None }
}

/// Key of a sum: destination, cause, neighbour, second of the expected departure.
type CauseKey = (NodeId, For, Option<PeerId>, Option<u64>);

impl Agent {
    /// The `limit` held bundles with the lowest numbers above `after`, with their causes of waiting. Examines all held
    /// bundles; [`Agent::page`] examines a bounded number.
    pub fn bundles(&self, now: Instant, after: farlink_base::BundleHandle, limit: usize) -> Vec<BundleStatus> {
        // After a restart the order of arrival is not the order of numbers.
        // A map keeps the lowest numbers seen so far without sorting all bundles.
        let mut first = BTreeMap::new();
        for held in self.book.all().filter(|held| held.number > after.0) {
            if first.len() < limit {
                first.insert(held.number, held.handle());
            } else if first.last_key_value().is_some_and(|(last, _)| held.number < *last) {
                first.pop_last();
                first.insert(held.number, held.handle());
            }
        }
        first.into_values().filter_map(|handle| self.book.get(handle)).map(|held| self.row(now, held)).collect()
    }

    /// Opens a cursor before the oldest bundle, for [`Agent::page`] and [`Agent::sums`]; [`Agent::end_list`] releases
    /// it.
    pub fn begin_list(&mut self) -> CursorId {
        self.book.open_cursor()
    }
    /// Releases the cursor of a list.
    pub fn end_list(&mut self, list: CursorId) {
        self.book.close_cursor(list);
    }
    /// Next bundles of a list in order of arrival, at most `limit`, without those numbered up to `after`. Also returns
    /// whether to call again: more bundles may follow even an empty page.
    pub fn page(&mut self, now: Instant, list: CursorId, after: u64, limit: usize) -> (Vec<BundleStatus>, bool) {
        let mut rows = Vec::new();
        for _ in 0..LOOK {
            if rows.len() >= limit {
                return (rows, true);
            }
            let Some(bundle) = self.book.advance(list) else { return (rows, false) };
            if let Some(held) = self.book.get(bundle).filter(|held| held.number > after) {
                rows.push(self.row(now, held));
            }
        }
        (rows, true)
    }
    /// Sums over the next bundles of a list, by destination, cause, neighbour and second of departure. Also returns
    /// whether more follow.
    pub fn sums(&mut self, now: Instant, list: CursorId) -> (Vec<Sum>, bool) {
        let mut sums: BTreeMap<CauseKey, Sum> = BTreeMap::new();
        let mut more = true;
        for _ in 0..LOOK {
            let Some(bundle) = self.book.advance(list) else {
                more = false;
                break;
            };
            let Some(held) = self.book.get(bundle) else { continue };
            let cause = self.cause(now, held);
            // Grouped by whole seconds: exact times would make almost every bundle a group of its own.
            let second = cause.at.map(|at| at.0 / 1_000_000_000);
            let sum = sums.entry((held.destination(), cause.what, cause.peer, second)).or_insert_with(|| Sum {
                destination: held.bundle.destination.node_id(),
                reason: cause.what.word(),
                neighbour: cause.peer.and_then(|peer| self.neighbours.peers().get(peer)).map(Peer::endpoint),
                leaves: cause.at,
                bundles: 0,
                bytes: 0,
                oldest_ms: 0,
            });
            sum.bundles += 1;
            sum.bytes += held.size();
            sum.oldest_ms = sum.oldest_ms.max(held.age_ms(now));
        }
        (sums.into_values().collect(), more)
    }

    fn row(&self, now: Instant, held: &Held) -> BundleStatus {
        let cause = self.cause(now, held);
        BundleStatus {
            handle: held.name(),
            id: held.bundle.identity(),
            destination: held.bundle.destination.clone(),
            payload: held.bundle.payload.len(),
            priority: held.bundle.priority,
            remaining_ms: held.remaining(now).as_millis() as u64,
            shortened: self.is_shortened(now, held),
            reason: cause.what.word(),
            leaves: cause.at,
            waits_for: self.sentence(now, held, &cause),
        }
    }

    fn cause(&self, now: Instant, held: &Held) -> Cause {
        let (meta, bundle) = (&held.bundle, held.handle());
        // The first cause that applies is the one that blocks the bundle now.
        if self.fragments.is_arriving(bundle) {
            return just(For::Rest);
        }
        let for_members =
            meta.is_for_group() && held.has(RetentionConstraint::Whole) && !held.has(RetentionConstraint::Route);
        if held.has(RetentionConstraint::Deliver) || for_members {
            return just(match self.deliveries.is_open(bundle) {
                _ if !self.is_durable(held) => For::Store,
                true => For::Answer,
                false => For::Application,
            });
        }
        if held.has(RetentionConstraint::Fragment) {
            return just(For::Parts);
        }
        if held.has(RetentionConstraint::Whole) {
            return just(For::Whole);
        }
        if self.waits_for_tunnel(now, held).is_some() {
            return just(For::Tunnel);
        }
        if self.is_in_custody_only(held) {
            return just(For::Custody);
        }
        if let Some((link, not_before)) = self.outbound.queues.leg_of(held) {
            return self.cause_of_link(now, link, not_before);
        }
        let sending = self.outbound.transmissions.of(bundle).next().map(|(_, sending)| (sending.link, sending.peer));
        // A bundle still to be routed waits for more than the acknowledgment of one copy.
        if let Some((link, peer)) = sending.filter(|_| !held.has(RetentionConstraint::Route)) {
            return Cause { link: Some(link), peer: Some(peer), ..just(For::Acknowledgment) };
        }
        if let Some((until, _)) = self.held_back(now, held).filter(|_| held.has(RetentionConstraint::Route)) {
            return Cause { at: Some(until), ..just(For::Back) };
        }
        if let Some((peer, turned)) = self.turned(held) {
            let full = turned == Turned::Away(farlink_base::Refusal::NoResources);
            // Either table may hold the next attempt: the bundle's own wait, or the backoff of its group.
            let at = [self.outbound.waits.due(bundle), self.outbound.backoff.due(bundle)].into_iter().flatten().min();
            let what = if full { For::Room } else { For::Neighbour };
            return Cause { peer: Some(peer), turned: Some(turned), at, ..just(what) };
        }
        match held.has(RetentionConstraint::Route) {
            true if self.outbound.waits.is_unfit(bundle) => just(For::Wider),
            // Such a router needs no route: neighbours take copies as they come.
            true if self.policies.offers() => just(For::Meeting),
            true => just(For::Route),
            false => just(For::Store),
        }
    }

    fn cause_of_link(&self, now: Instant, link: LinkId, not_before: Instant) -> Cause {
        let Some(l) = self.neighbours.link(link) else { return just(For::Link) };
        let of = |what, at| Cause { link: Some(link), peer: Some(l.peer), at, ..just(what) };
        let contact = || l.next_contact(self.plan.placed(), now).map(|window| window.start.max(not_before));
        match self.what_hinders(now, l) {
            // The open contact is not the one the bundle is booked for.
            None if not_before > now => of(For::Contact, Some(not_before)),
            None => of(For::Turn, Some(now + self.backlog(now, l))),
            Some("no session") => of(For::Session, None),
            Some("disabled") => of(For::Enabling, None),
            Some(_) => match contact() {
                Some(start) => of(For::Contact, Some(start)),
                None => of(For::Link, None),
            },
        }
    }
    /// Time that a link needs for its whole queue; zero if its rate is unknown.
    fn backlog(&self, now: Instant, link: &Link) -> Duration {
        let Some(rate) = link.state(self.plan.placed(), now).rate.filter(|rate| rate.0 > 0) else {
            return Duration::ZERO;
        };
        // 128 bits, because the bits of a long queue may exceed 64.
        let bits = u128::from(self.outbound.queues.of(link.id).1) * 8;
        Duration::from_millis(u64::try_from(bits * 1000 / u128::from(rate.0)).unwrap_or(u64::MAX))
    }

    /// First neighbour that counts as having refused a bundle, and why.
    fn turned(&self, held: &Held) -> Option<(PeerId, Turned)> {
        let id = *self.tried(held).first()?;
        Some((id, self.outbound.waits.why(held.handle(), id)?))
    }

    fn sentence(&self, now: Instant, held: &Held, cause: &Cause) -> String {
        let to = &held.bundle.destination;
        let peer =
            || cause.peer.and_then(|peer| self.neighbours.peers().get(peer)).map(Peer::endpoint).unwrap_or_default();
        let link = || cause.link.map(|link| self.link_name(link)).unwrap_or_default();
        match cause.what {
            For::Store => "the store".to_string(),
            For::Application => format!("an application at {to}"),
            For::Answer => format!("the answer of the application at {to}"),
            For::Parts => match self.fragments.have(held) {
                Some((parts, bytes, total)) => {
                    format!("the other fragments: {bytes} of {total} B are here, in {parts} of them")
                }
                None => "the other fragments".to_string(),
            },
            For::Rest => "the rest of it, which is arriving".to_string(),
            For::Whole => "the delivery of what it is part of".to_string(),
            For::Tunnel => self.waits_for_tunnel(now, held).unwrap_or_default(),
            For::Custody => self.waits_for_custody(now, held).unwrap_or_default(),
            For::Turn => {
                let queued = cause.link.map_or(0, |link| self.outbound.queues.of(link).0);
                format!("its turn on link {} to {} ({queued} bundles queued)", link(), peer())
            }
            For::Session => format!("a session with {} on link {}, which has none", peer(), link()),
            For::Enabling => format!("link {} to {}, which is disabled", link(), peer()),
            For::Contact => {
                let starts = cause.at.unwrap_or(now);
                format!("contact with {} starts in {}", peer(), format_duration(starts.since(now)))
            }
            For::Link if cause.link.is_none() => "its link".to_string(),
            For::Link => format!("link {} to {} is down", link(), peer()),
            For::Acknowledgment => format!("acknowledgment on link {}", link()),
            For::Room | For::Neighbour => match cause.turned {
                Some(why) => format!("{} {why}; will be tried again", peer()),
                None => String::new(),
            },
            For::Back => {
                let (until, returns) = self.held_back(now, held).unwrap_or((now, 0));
                let left = format_duration(until.since(now));
                format!("{left} to pass: it came back {returns} times after it was forwarded, as in a loop of routes")
            }
            For::Wider => format!("a link towards {} that takes a bundle of its length", to.node_id()),
            For::Meeting => format!("meeting {}, or a neighbour that carries it on", to.node_id()),
            For::Route => match self.disabled_link_to(to) {
                Some(link) => format!("no route to {}: link {link} is disabled", to.node_id()),
                None => format!("no route to {}", to.node_id()),
            },
        }
    }

    /// Name of a disabled link to the next hop of a destination's static route, or, without a route, to its node.
    fn disabled_link_to(&self, destination: &EndpointId) -> Option<&str> {
        let peer = self.neighbours.of_node(self.next_hop(destination).unwrap_or_else(|| destination.node()))?;
        let links = peer.links.iter().filter_map(|link| self.neighbours.link(*link));
        links.filter(|link| !link.enabled).map(|link| &*link.name).next()
    }
}
