//! Why each bundle is still here and when it will leave, for operators: one at a time, a page, or in sums. No call looks at
//! more than some hundreds of bundles, however many there are.

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

/// Bundles that one call looks at.
const LOOK: usize = 512;

/// What a bundle waits for: the word that lists are grouped by.
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
            For::Route => "no route",
        }
    }
}

/// Why a bundle is still here.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Cause {
    what: For,
    link: Option<LinkId>,
    peer: Option<PeerId>,
    turned: Option<Turned>,
    /// When it should leave, or is tried again.
    at: Option<Instant>,
}
const fn just(what: For) -> Cause {
    Cause { what, link: None, peer: None, turned: None, at: None }
}

/// How sums are told apart.
type Key = (NodeId, For, Option<PeerId>, Option<u64>);

impl Agent {
    /// The first `limit` held bundles by number, from behind `after` on, and why each is still here. Walks all that are
    /// held: nodes ask for pages.
    pub fn bundles(&self, now: Instant, after: farlink_base::BundleHandle, limit: usize) -> Vec<BundleStatus> {
        // Those of a store that was read again are not in the order of their numbers.
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

    /// A place before the oldest bundle, for [`Agent::page`] and [`Agent::sums`]; [`Agent::end_list`] gives it back.
    pub fn begin_list(&mut self) -> CursorId {
        self.book.open_cursor()
    }
    /// A list is not gone on with.
    pub fn end_list(&mut self, list: CursorId) {
        self.book.close_cursor(list);
    }
    /// The next bundles of a list, in order of arrival, `limit` at most; those up to number `after` are left out. Whether
    /// there may be more: then this is to be asked again, also when there are none.
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
    /// The next bundles of a list in sums, by destination, reason and departure. Whether there are more.
    pub fn sums(&mut self, now: Instant, list: CursorId) -> (Vec<Sum>, bool) {
        let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
        let mut more = true;
        for _ in 0..LOOK {
            let Some(bundle) = self.book.advance(list) else {
                more = false;
                break;
            };
            let Some(held) = self.book.get(bundle) else { continue };
            let cause = self.cause(now, held);
            // Departures of one second are one.
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

    /// Why a bundle is still here.
    fn cause(&self, now: Instant, held: &Held) -> Cause {
        let (meta, bundle) = (&held.bundle, held.handle());
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
        if let Some((link, peer)) = sending.filter(|_| !held.has(RetentionConstraint::Route)) {
            return Cause { link: Some(link), peer: Some(peer), ..just(For::Acknowledgment) };
        }
        if let Some((until, _)) = self.held_back(now, held).filter(|_| held.has(RetentionConstraint::Route)) {
            return Cause { at: Some(until), ..just(For::Back) };
        }
        if let Some((peer, turned)) = self.turned(held) {
            let full = turned == Turned::Away(farlink_base::Refusal::NoResources);
            let at = [self.outbound.waits.due(bundle), self.outbound.backoff.due(bundle)].into_iter().flatten().min();
            let what = if full { For::Room } else { For::Neighbour };
            return Cause { peer: Some(peer), turned: Some(turned), at, ..just(what) };
        }
        match held.has(RetentionConstraint::Route) {
            true if self.outbound.waits.is_unfit(bundle) => just(For::Wider),
            true => just(For::Route),
            false => just(For::Store),
        }
    }

    fn cause_of_link(&self, now: Instant, link: LinkId, not_before: Instant) -> Cause {
        let Some(l) = self.neighbours.link(link) else { return just(For::Link) };
        let of = |what, at| Cause { link: Some(link), peer: Some(l.peer), at, ..just(what) };
        let contact = || l.next_contact(self.plan.placed(), now).map(|window| window.start.max(not_before));
        match self.what_hinders(now, l) {
            // The contact it is for is not the one that is open.
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
    /// How long a link takes for all that is queued, where its rate is known.
    fn backlog(&self, now: Instant, link: &Link) -> Duration {
        let Some(rate) = link.state(self.plan.placed(), now).rate.filter(|rate| rate.0 > 0) else {
            return Duration::ZERO;
        };
        let bits = u128::from(self.outbound.queues.of(link.id).1) * 8;
        Duration::from_millis(u64::try_from(bits * 1000 / u128::from(rate.0)).unwrap_or(u64::MAX))
    }

    /// The first neighbour that counts as having refused a bundle, and why.
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
            For::Session => format!("a session with {} on link {}: it does not answer there", peer(), link()),
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
            For::Route => match self.disabled_link_to(to) {
                Some(link) => format!("no route to {}: link {link} is disabled", to.node_id()),
                None => format!("no route to {}", to.node_id()),
            },
        }
    }

    /// A link an operator took out of use, to a neighbour or to the next hop of the route to a node.
    fn disabled_link_to(&self, destination: &EndpointId) -> Option<&str> {
        let peer = self.neighbours.of_node(self.next_hop(destination).unwrap_or_else(|| destination.node()))?;
        let links = peer.links.iter().filter_map(|link| self.neighbours.link(*link));
        links.filter(|link| !link.enabled).map(|link| link.name.as_str()).next()
    }
}
