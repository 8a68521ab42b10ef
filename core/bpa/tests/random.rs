//! Random inputs in random order; checks the invariants that must always hold.

mod disk;
mod far_end;
mod nodes;
use crate::support;

use crate::support::{Bundle, Node, Toy, request, token};
use disk::{Disk, Record};
use farlink_base::layer::SendId;
use farlink_base::{
    BundleHandle, Chunk, DataVolume, DeleteReason, Duration, EndpointId, Event, Extent, HopState, LinkId, Payload,
    Priority, Refusal, Rng, store,
};
use farlink_bpa::app::{AdminInput, AppInput, AppOutput, DeliveryId, RegistrationId, RequestId};
use farlink_bpa::{About, Answer, Counts, Edge, Input, Numbers, OfferToken, Output, Reading, Signal};
use nodes::{closed, quotas, rare, small};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One random run: the node under test, and a model of the state that its outputs imply.
struct RandomRun {
    seed: u64,
    rng: Rng,
    node: Node,
    restarts: u64,
    disk: Disk,
    /// Hop state of each arrival by identity.
    hops: BTreeMap<u128, HopState>,
    /// Outer bundles to be opened, with their payloads.
    opens: Vec<(DeliveryId, Payload)>,
    insides: Vec<OfferToken>,
    /// Transmission numbers used in the tunnel.
    tunnelled: Vec<u64>,
    /// MTUs of the two configured links.
    largest: [Option<DataVolume>; 2],
    /// Number of outputs examined so far.
    seen: usize,
    /// Bundles that may arrive, some of them repeatedly.
    known: Vec<Bundle>,
    /// Transmissions in the hands of the layers.
    open: BTreeMap<SendId, (LinkId, u64)>,
    answered: BTreeSet<SendId>,
    deliveries: BTreeMap<DeliveryId, RegistrationId>,
    /// Records and deletions that the store has not answered.
    puts: BTreeMap<u64, u64>,
    deletes: Vec<u64>,
    tokens: BTreeMap<u64, Option<Result<(), Refusal>>>,
    begun: Vec<(u64, Bundle)>,
    /// Bytes of each arrival that were spilled, and bytes that were promised.
    given: BTreeMap<u64, (u64, u64)>,
    requests: BTreeMap<u64, Option<bool>>,
    /// Held bundles according to events.
    held: BTreeSet<u64>,
    deleted: BTreeMap<u64, DeleteReason>,
    accepted: BTreeSet<u64>,
    forwarded: BTreeSet<u64>,
    delivered: BTreeSet<u64>,
    fragments: BTreeSet<u64>,
    in_custody: BTreeSet<u64>,
    registered: BTreeSet<RegistrationId>,
    /// Verdicts on inner bundles that are still to be passed on.
    judged: Vec<(DeliveryId, Result<(), Refusal>)>,
    /// Whether the far end of the tunnel sends custody signals.
    tunnels_custody: bool,
    last: u64,
    /// The last inputs, printed on failure.
    inputs: VecDeque<String>,
}

impl Drop for RandomRun {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let RandomRun { seed, inputs, .. } = self;
            println!("seed {seed}, after:");
            inputs.iter().for_each(|input| println!("  {}", &input[..input.len().min(400)]));
        }
    }
}

const LINKS: [u32; 4] = [0, 1, LinkId::DYNAMIC, LinkId::DYNAMIC | 1];

impl RandomRun {
    fn new(seed: u64) -> RandomRun {
        let small = small(seed);
        let largest = [0, 1].map(|n: usize| small.links[n].largest);
        let mut node = closed(seed, small);
        node.tell(Input::Clock(support::clock_at(node.now)));
        node.open();
        for sent in node.take_sent() {
            node.confirm(sent.id);
        }
        node.commit = false;
        node.said.clear();
        RandomRun {
            seed,
            rng: Rng::new(seed),
            node,
            restarts: 0,
            disk: Disk::default(),
            hops: BTreeMap::new(),
            opens: Vec::new(),
            insides: Vec::new(),
            tunnelled: Vec::new(),
            largest,
            seen: 0,
            known: Vec::new(),
            open: BTreeMap::new(),
            answered: BTreeSet::new(),
            deliveries: BTreeMap::new(),
            puts: BTreeMap::new(),
            deletes: Vec::new(),
            tokens: BTreeMap::new(),
            begun: Vec::new(),
            given: BTreeMap::new(),
            requests: BTreeMap::new(),
            held: BTreeSet::new(),
            deleted: BTreeMap::new(),
            accepted: BTreeSet::new(),
            forwarded: BTreeSet::new(),
            delivered: BTreeSet::new(),
            fragments: BTreeSet::new(),
            in_custody: BTreeSet::new(),
            registered: BTreeSet::new(),
            judged: Vec::new(),
            tunnels_custody: rare(seed).is_some_and(|rare| rare.tunnels[0].custody),
            last: 0,
            inputs: VecDeque::new(),
        }
    }

    fn tell(&mut self, input: Input) {
        if self.inputs.len() == 20 {
            self.inputs.pop_front();
        }
        self.inputs.push_back(format!("{:?} {input:?}", self.node.now));
        self.node.once(input);
        if self.rng.chance(0.8) {
            self.node.settle();
        }
        self.look();
    }

    /// Examines new outputs and updates the model.
    fn look(&mut self) {
        let seed = self.seed;
        for output in self.node.said.drain(..) {
            match output {
                Output::Verdict { token, result } if token.layer == OfferToken::TUNNEL => {
                    self.judged.push((DeliveryId(token.ticket.0), result));
                }
                Output::Open { output: AppOutput::Deliver { delivery, bundle, .. }, .. } => {
                    self.opens.push((delivery, bundle.payload));
                }
                Output::Inside { token, .. } => self.insides.push(token),
                Output::Verdict { token, result } => {
                    let owed = self.tokens.insert(token.ticket.0, Some(result));
                    assert_eq!(owed, Some(None), "seed {seed}: one verdict on offer {}", token.ticket.0);
                    self.begun.retain(|(ticket, _)| *ticket != token.ticket.0);
                }
                Output::Kept { token, bytes } => {
                    let ticket = token.ticket.0;
                    let (given, promised) = self.given.get_mut(&ticket).expect("it was given in pieces");
                    assert!(bytes > *promised && bytes <= *given, "seed {seed}: {bytes} of {ticket} promised");
                    *promised = bytes;
                }
                Output::Send { link, id, bundle, hop, cut, .. } => {
                    assert!(!self.answered.contains(&id), "seed {seed}: a number is used once");
                    let size = Toy.size(&bundle, &hop, cut.clone());
                    let takes =
                        self.largest.get(link.0 as usize).copied().flatten().map_or(u64::MAX, DataVolume::bytes);
                    assert!(size <= takes, "seed {seed}: {size} B over a link that takes {takes} B");
                    let bytes = bundle.payload.to_bytes().unwrap_or_default();
                    if let [b'I', number @ ..] = &bytes[..] {
                        // Without custody in the tunnel the number is 0.
                        self.tunnelled.push(number.first_chunk().map_or(0, |number| u64::from_be_bytes(*number)));
                    }
                    let len = cut.map_or(bundle.payload.len(), |range| range.end - range.start);
                    assert!(self.open.insert(id, (link, len)).is_none(), "seed {seed}: a number is used once");
                }
                Output::Put { bundle, meta, index } => {
                    self.puts.insert(bundle.0, meta.payload.len());
                    let before = self.disk.records.insert(bundle.0, Record { index, meta, durable: false });
                    assert!(before.is_none(), "seed {seed}: {} is kept once", bundle.0);
                }
                Output::Store(store::Input::Delete { bundle, remember }) => {
                    self.deletes.push(bundle.0);
                    self.disk.remembers.extend(remember.map(|remember| (bundle.0, remember)));
                }
                Output::Store(store::Input::SetCounter { value }) => self.disk.counter = value,
                Output::App(AppOutput::Deliver { delivery, registration, .. }) => {
                    assert!(self.deliveries.insert(delivery, registration).is_none());
                }
                Output::App(AppOutput::SendResult { request, result }) => {
                    let owed = self.requests.insert(request.0, Some(result.is_ok()));
                    assert_eq!(owed, Some(None), "seed {seed}: one answer to request {}", request.0);
                }
                Output::Event(event) => match event {
                    Event::Seen { bundle, key, destination, destination_service, .. } => {
                        assert!(self.held.insert(bundle.0));
                        // After a crash, numbers without a record may be reused; the model needs them unique.
                        self.disk.last = self.disk.last.max(bundle.0);
                        // Records for this node are processed and deleted at once.
                        let record = (destination, destination_service) == (farlink_base::NodeId::ipn(1), 0);
                        if key.fragment.is_some() || record {
                            self.fragments.insert(bundle.0);
                        }
                    }
                    Event::Deleted { bundle, reason } => {
                        assert!(self.held.remove(&bundle.0), "seed {seed}: {} left once", bundle.0);
                        let lost = self.in_custody.remove(&bundle.0) && reason == DeleteReason::Done;
                        assert!(!lost, "seed {seed}: {} left although nobody else has custody", bundle.0);
                        self.deleted.insert(bundle.0, reason);
                    }
                    Event::Accepted { bundle } => drop(self.accepted.insert(bundle.0)),
                    Event::Forwarded { bundle, .. } => drop(self.forwarded.insert(bundle.0)),
                    Event::CustodyTaken { bundle } => {
                        assert!(self.accepted.contains(&bundle.0), "seed {seed}: {} is not kept", bundle.0);
                        assert!(self.in_custody.insert(bundle.0), "seed {seed}: taken once");
                    }
                    // Another node is the custodian now.
                    Event::CustodyReleased { bundle } => {
                        let custodian = self.in_custody.remove(&bundle.0);
                        assert!(custodian || self.tunnels_custody, "seed {seed}: {} was in custody", bundle.0);
                        self.forwarded.insert(bundle.0);
                    }
                    Event::Delivered { bundle } => drop(self.delivered.insert(bundle.0)),
                    _ => {}
                },
                _ => {}
            }
        }
        self.seen = 0;
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.below(from.len() as u64) as usize]
    }

    fn endpoint(&mut self) -> EndpointId {
        match self.pick(&[1, 1, 2, 3, 7, 8, 9, 9, 0]) {
            0 => EndpointId::dtn("any", "~news"),
            node => EndpointId::ipn(node, 1),
        }
    }

    fn bundle(&mut self) -> Bundle {
        if !self.known.is_empty() && self.rng.chance(0.4) {
            let again = self.rng.below(self.known.len() as u64) as usize;
            let mut bundle = self.known[again].clone();
            bundle.hop.hops = self.rng.below(6) as u8;
            return bundle;
        }
        self.last += 1;
        let (to, source) = (self.endpoint(), self.pick(&[2, 3, 5, 1]));
        let source = if self.rng.chance(0.1) { EndpointId::Null } else { EndpointId::ipn(source, 5) };
        let len = self.pick(&[0, 10, 500, 3000, 30_000]);
        let mut bundle = Bundle::new(source, to, self.last).payload(Payload::fill(self.last, len));
        bundle = bundle.lifetime_ms(self.pick(&[5, 400, 3000, 60_000]));
        if self.rng.chance(0.5) {
            bundle = bundle.hops(self.rng.below(6) as u8, 5);
        }
        if self.rng.chance(0.3) {
            bundle = bundle.facts(farlink_base::Facts::REPORTS).report_to(EndpointId::ipn(2, 0));
        }
        if self.rng.chance(0.1) {
            bundle = bundle.duties(self.rng.below(4) as u8);
        }
        if self.rng.chance(0.4) {
            let number = self.rng.chance(0.5).then_some(self.last);
            bundle = bundle.custody(self.pick(&[2, 3, 1]), number);
        }
        if self.rng.chance(0.2) {
            bundle = bundle.labels([self.rng.below(9) as u32, 3]);
        }
        bundle = bundle.priority(self.pick(&Priority::ALL));
        if len > 1 && self.rng.chance(0.3) && !bundle.meta.is_anonymous() {
            let (a, b) = (self.rng.below(len), self.rng.below(len));
            let ranges = [0..a.max(1), a.min(b)..a.max(b).max(1), a..len];
            self.known.extend(ranges.map(|range| bundle.piece(range)));
        }
        self.known.push(bundle.clone());
        bundle
    }

    fn arrive(&mut self) {
        self.last += 1;
        let (ticket, link, bundle) = (self.last, LinkId(self.pick(&LINKS)), self.bundle());
        self.tokens.insert(ticket, None);
        self.hops.entry(bundle.meta.id).or_insert_with(|| bundle.hop.clone());
        if self.rng.chance(0.2) {
            self.begun.push((ticket, bundle.clone()));
            let (bundle, hop) = bundle.parts();
            return self.tell(Input::Begun { link, token: token(ticket), bundle, hop });
        }
        let (bundle, hop) = bundle.parts();
        self.tell(Input::Arrived { link, token: token(ticket), bundle, hop });
    }

    /// Sends a genuine or forged custody signal.
    fn signal(&mut self) {
        self.last += 1;
        let by = self.pick(&[2, 3, 7]);
        let answer = self.pick(&[Answer::Taken, Answer::Taken, Answer::Redundant, Answer::Depleted, Answer::Refused]);
        let (first, len) = (self.rng.below(self.last + 1), self.pick(&[0, 3, u64::MAX]));
        let sequence = self.pick(&[1, 1, 1, 2]);
        let run = Numbers { sequence, destination: EndpointId::Null, first, last: first.saturating_add(len) };
        let about = match self.known.get(self.rng.below(1 + self.known.len() as u64) as usize) {
            Some(bundle) if self.rng.chance(0.6) => About::One(bundle.meta.identity()),
            _ => About::Numbers(vec![run]),
        };
        if matches!(&about, About::One(id) if id.source.is_null()) {
            return;
        }
        let payload = Toy.custody_signal(99, &Signal { answer, about }, None).expect("it can be said");
        let bundle = Bundle::new(EndpointId::ipn(by, 0), EndpointId::ipn(1, 0), self.last).payload(payload);
        let (ticket, link) = (self.last, LinkId(self.pick(&LINKS)));
        self.tokens.insert(ticket, None);
        let (bundle, hop) = bundle.facts(farlink_base::Facts::ADMIN).parts();
        self.tell(Input::Arrived { link, token: token(ticket), bundle, hop });
    }

    /// Spills the next piece of an arrival, which may be over already.
    fn piece(&mut self, ticket: u64, whole: &Bundle) {
        let (given, _) = *self.given.entry(ticket).or_default();
        let len = whole.meta.payload.len();
        let end = given + 1 + self.rng.below(len / 2 + 1);
        if whole.meta.may_fragment() && end < len {
            self.given.entry(ticket).and_modify(|(given, _)| *given = end);
            let (bundle, hop) = whole.piece(given..end).parts();
            let link = LinkId(self.pick(&LINKS));
            self.tell(Input::Piece { link, token: token(ticket), bundle, hop, promises: given..end });
        }
    }

    fn go_on(&mut self) {
        if self.begun.is_empty() {
            return;
        }
        if self.rng.chance(0.6) {
            let (ticket, bundle) = self.begun[self.rng.below(self.begun.len() as u64) as usize].clone();
            return self.piece(ticket, &bundle);
        }
        let (ticket, bundle) = self.begun.swap_remove(self.rng.below(self.begun.len() as u64) as usize);
        let link = LinkId(self.pick(&LINKS));
        match self.rng.below(4) {
            0 => {
                self.tokens.remove(&ticket);
                self.tell(Input::Abandoned { token: token(ticket) });
            }
            1 => {
                let error = farlink_base::Malformed { offset: 1, reason: "random" };
                self.tell(Input::Malformed { link, token: token(ticket), error });
            }
            _ => {
                let (bundle, hop) = bundle.parts();
                self.tell(Input::Arrived { link, token: token(ticket), bundle, hop });
            }
        }
    }

    fn answer_send(&mut self) {
        let Some(id) = self.any_open() else { return };
        let (link, len) = self.open[&id];
        self.open.remove(&id);
        self.answered.insert(id);
        if link == LinkId::TUNNEL {
            return match self.rng.below(10) {
                0 => self.tell(Input::Unreadable { what: Reading::Send(id), for_good: false }),
                _ => self.tell(Input::Rendered { id, rope: Payload::from(vec![7; 50]) }),
            };
        }
        let refused = self.pick(&[None, Some(Refusal::NoResources), Some(Refusal::Duplicate)]);
        if self.rng.chance(0.1) {
            // A transfer is interrupted; the neighbour keeps the acknowledged bytes.
            let bytes = self.rng.below(len + 60);
            self.tell(Input::SentInPart { id, bytes });
            return self.tell(Input::SendFailed { id, refused: None });
        }
        match self.rng.below(10) {
            0 | 1 => self.tell(Input::SendFailed { id, refused }),
            2 => {
                let for_good = self.rng.chance(0.2);
                self.tell(Input::Unreadable { what: Reading::Send(id), for_good });
            }
            _ if len > 8000 => self.tell(Input::SendFailed { id, refused: Some(Refusal::TooLarge) }),
            _ => self.tell(Input::Sent { id }),
        }
    }
    fn any_open(&mut self) -> Option<SendId> {
        let n = self.rng.below(self.open.len() as u64) as usize;
        self.open.keys().nth(n).copied()
    }

    fn answer_store(&mut self) {
        if let Some(bundle) = self.deletes.pop() {
            self.puts.remove(&bundle);
            self.forget(bundle);
            return self.tell(Input::Store(store::Output::Deleted { bundle: BundleHandle(bundle) }));
        }
        let n = self.rng.below(self.puts.len() as u64) as usize;
        let Some((number, len)) = self.puts.iter().nth(n).map(|(number, len)| (*number, *len)) else { return };
        self.puts.remove(&number);
        let bundle = BundleHandle(number);
        if self.rng.chance(0.1) {
            self.disk.records.remove(&number);
            return self.tell(Input::Store(store::Output::Refused { bundle, reason: Refusal::NoResources }));
        }
        if let Some(record) = self.disk.records.get_mut(&number) {
            record.durable = true;
        }
        let mut on_disk = Payload::new();
        on_disk.push(Chunk::Stored { extent: Extent { record: number, offset: 0 }, len });
        let payload = self.rng.chance(0.3).then_some(on_disk);
        self.tell(Input::Store(store::Output::Stored { bundle, payload }));
    }

    fn link(&mut self) {
        let link = LinkId(self.pick(&LINKS));
        let up = self.rng.chance(0.7);
        if link.is_dynamic() {
            let claimed = self.pick(&[2u64, 7, 8, 9]);
            let claimed = Some(EndpointId::ipn(claimed, 0));
            if up {
                self.tell(Input::PeerUp { link, claimed, node: None, proven: None });
                self.tell(Input::Ready { link, ready: true });
            } else {
                self.tell(Input::PeerDown { link });
                self.lose(link);
            }
        } else if self.rng.chance(0.5) {
            self.tell(Input::Carrier { link, up });
            if !up && self.rng.chance(0.5) {
                self.lose(link);
            }
        } else {
            let ready = self.rng.chance(0.8);
            self.tell(Input::Ready { link, ready });
        }
    }
    /// Fails all transmissions of a link that is gone.
    fn lose(&mut self, link: LinkId) {
        let lost: Vec<SendId> = self.open.iter().filter(|(_, (over, _))| *over == link).map(|(id, _)| *id).collect();
        for id in lost {
            self.open.remove(&id);
            self.answered.insert(id);
            self.tell(Input::SendFailed { id, refused: None });
        }
    }

    fn app(&mut self) {
        let delivery = self.deliveries.first_key_value().map(|(delivery, registration)| (*delivery, *registration));
        match self.rng.below(6) {
            0 => {
                // Registration 1 is at an endpoint of this node, the others are members of a group.
                let registration = RegistrationId(self.pick(&[1, 1, 2, 3]));
                let input = if self.registered.remove(&registration) {
                    self.deliveries.retain(|_, of| *of != registration);
                    AppInput::Unregister { registration }
                } else {
                    self.registered.insert(registration);
                    let endpoint =
                        if registration.0 == 1 { EndpointId::ipn(1, 1) } else { EndpointId::dtn("any", "~news") };
                    AppInput::Register { registration, endpoint, window: 3 }
                };
                self.tell(Input::App(input));
            }
            1 | 2 => {
                self.last += 1;
                let (to, payload) = (self.endpoint(), Payload::fill(self.last, self.last % 5000));
                let mut bundle = request(to, Priority::Normal);
                (bundle.payload, bundle.lifetime_ms) = (payload, self.pick(&[500, 20_000]));
                self.requests.insert(self.last, None);
                self.tell(Input::App(AppInput::Send { request: RequestId(self.last), bundle }));
            }
            _ => {
                let Some((delivery, registration)) = delivery else { return };
                self.deliveries.remove(&delivery);
                if self.rng.chance(0.1) {
                    let for_good = self.rng.chance(0.3);
                    return self.tell(Input::Unreadable { what: Reading::Delivery(delivery), for_good });
                }
                let taken = self.rng.chance(0.8);
                self.tell(Input::App(AppInput::DeliveryDone { registration, delivery, taken }));
            }
        }
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..=3 => self.arrive(),
            4 if self.rng.chance(0.5) => self.signal(),
            4 if self.rng.chance(0.5) => self.far_end(),
            4 => (0..3).for_each(|_| self.comes_out()),
            5 => (0..3).for_each(|_| self.go_on()),
            6..=9 => self.answer_send(),
            10..=12 => self.answer_store(),
            13 => self.link(),
            14 | 15 => self.app(),
            16 => {
                let ms = self.pick(&[1, 20, 300, 2000]);
                self.node.now += Duration::from_millis(ms);
                self.tell(Input::Wake);
            }
            17 if self.rng.chance(0.2) => self.tell(Input::Clock(support::clock_at(self.node.now))),
            18 if self.rng.chance(0.2) => {
                let next_hop = EndpointId::ipn(self.pick(&[2u64, 3]), 0);
                self.tell(Input::Admin(AdminInput::AddRoute { pattern: "ipn:8.*".into(), next_hop }));
            }
            18 if self.rng.chance(0.05) => {
                let quotas = quotas(&mut self.rng);
                self.node.agent.set_quotas(quotas);
                self.tell(Input::Wake);
            }
            19 if self.rng.chance(0.1) => {
                let bundle = BundleHandle(self.rng.below(self.last + 1));
                self.tell(Input::Admin(AdminInput::Cancel { bundle }));
            }
            19 if self.rng.chance(0.05) => self.restart(),
            _ => self.tell(Input::Wake),
        }
    }

    fn is_answered(&self) -> bool {
        let asked = self.open.is_empty() && self.puts.is_empty() && self.deletes.is_empty();
        asked && self.opens.is_empty() && self.insides.is_empty() && self.judged.is_empty()
    }
    /// Answers everything that is open and lets all lifetimes end.
    fn end(&mut self) {
        for (ticket, _) in core::mem::take(&mut self.begun) {
            self.tokens.remove(&ticket);
            self.tell(Input::Abandoned { token: token(ticket) });
        }
        while !self.is_answered() {
            self.answer_send();
            self.answer_store();
            self.comes_out();
            if self.rng.chance(0.05) {
                self.node.now += Duration::from_secs(1);
                self.tell(Input::Wake);
            }
        }
        for _ in 0..100 {
            self.node.now += Duration::from_secs(20);
            self.node.settle();
            self.look();
            while !self.is_answered() {
                self.answer_send();
                self.answer_store();
                self.comes_out();
            }
            // Status reports have a lifetime of one day.
            if self.node.now.0 > 200_000_000_000 {
                self.node.now += Duration::from_secs(10_000);
            }
        }
        self.node.settle();
        self.look();
    }

    fn check(&self) {
        let seed = self.seed;
        let unpaid: Vec<u64> = self.tokens.iter().filter(|(_, v)| v.is_none()).map(|(t, _)| *t).collect();
        assert!(unpaid.is_empty(), "seed {seed}: offers without a verdict: {unpaid:?}");
        assert!(self.requests.values().all(Option::is_some), "seed {seed}: requests without an answer");
        assert!(self.held.is_empty(), "seed {seed}: {:?}", self.held);
        for bundle in &self.accepted {
            let reason = self.deleted.get(bundle);
            assert!(reason.is_some(), "seed {seed}: {bundle} was accepted and is gone");
            // A fragment is also settled by the delivery of its whole or by fragments with the same bytes.
            let kept = [&self.forwarded, &self.delivered, &self.fragments].iter().any(|set| set.contains(bundle));
            assert!(kept || reason != Some(&DeleteReason::Done), "seed {seed}: {bundle} is nowhere");
        }
        let counts = self.node.agent.counts();
        let status = self.node.agent.status(self.node.now);
        let endpoints = status.registrations.iter().collect::<BTreeSet<_>>().len();
        let (offers, neighbours, hellos) = (counts.offers, counts.neighbours, counts.hellos);
        let (cursors, timers) = (offers, counts.timers);
        let quiet = Counts { offers, cursors, neighbours, hellos, endpoints, timers, ..Counts::default() };
        assert_eq!(counts, quiet, "seed {seed}");
        assert!(counts.timers <= 8, "seed {seed}: {counts:?}");
        assert_eq!(status.bytes, 0);
        assert!(status.links.iter().all(|link| (link.queued, link.in_flight) == (0, 0)), "seed {seed}: {status:?}");
    }
}

#[test]
fn random_inputs_settle_each_commit_once() {
    let runs = std::option_env!("RANDOM_RUNS").map_or(40, |runs| runs.parse().expect("a number"));
    for seed in 0..runs {
        let mut run = RandomRun::new(seed);
        for _ in 0..1000 {
            run.step();
        }
        run.end();
        run.check();
    }
}
