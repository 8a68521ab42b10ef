//! Payloads on disk that are read into memory whole: those of deliveries, and of fragments to be sent. They are read in
//! steps, so that transmissions need not wait for them. A long fragment is not kept in memory: its bytes are read once
//! for its CRC, and again as it leaves.
//!
//! Bytes read and not yet handed on are bounded: a payload beyond the bound waits for its turn, and one longer than
//! the bound is read alone.

use crate::edge::Piece;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use farlink_base::layer::SendId;
use farlink_base::{BundleMeta, Empty, HopState, Instant, LinkId, Payload, Refusal};
use farlink_bpa::Reading;
use farlink_bpa::app::{AppOutput, DeliveryId};

/// Bytes of one payload that are read at once.
const STEP: u64 = 4 << 20;
/// Maximum length of a delivery that is handed on whole even if `bytes_max` is less, unless applications left too many
/// bytes unanswered ([`Reads::stays`]).
const WHOLE: u64 = 16 << 20;
/// Maximum length of a delivery that is always handed on whole: for a shorter one, asking the disk again would cost
/// more.
const LITTLE: u64 = 64 << 10;

/// A transmission that the agent decided on.
#[derive(Debug)]
pub(crate) struct Departure {
    pub link: LinkId,
    pub id: SendId,
    pub bundle: Arc<BundleMeta>,
    pub hop: Box<HopState>,
    pub cut: Option<Range<u64>>,
    /// Encoded length of the bundle or fragment.
    pub size: u64,
    pub reliable: bool,
    /// Time to which the age in `hop` refers, then the end of the lifetime.
    pub lives: [Instant; 2],
}
impl Departure {
    /// The part of the payload that leaves.
    pub fn payload(&self) -> Payload {
        match &self.cut {
            Some(range) => self.bundle.payload.slice(range.start, range.end - range.start),
            None => self.bundle.payload.clone(),
        }
    }
}

/// The reason why a payload is read.
#[derive(Debug)]
pub(crate) enum Waiting {
    Departure(Departure),
    /// A delivery; with its bundle if its security is to be checked.
    Delivery(AppOutput, Option<Arc<BundleMeta>>),
    /// A request of the driver for part of a delivery.
    Part(DeliveryId),
    /// A fragment to be sent, whose bytes are read once to compute its CRC.
    Piece(Departure, Box<dyn Piece>),
}
impl Waiting {
    /// Transmission or delivery to report to the agent if the payload cannot be read; `None` if the read belongs to
    /// neither.
    pub fn reading(&self) -> Option<Reading> {
        match self {
            Waiting::Departure(departure) | Waiting::Piece(departure, _) => Some(Reading::Send(departure.id)),
            Waiting::Delivery(AppOutput::Deliver { delivery, .. }, _) | Waiting::Part(delivery) => {
                Some(Reading::Delivery(*delivery))
            }
            Waiting::Delivery(..) => None,
        }
    }
    /// Number of the transmission, if it goes over this link.
    fn send_over(&self, link: LinkId) -> Option<SendId> {
        match self {
            Waiting::Departure(departure) | Waiting::Piece(departure, _) => {
                (departure.link == link).then_some(departure.id)
            }
            Waiting::Delivery(..) | Waiting::Part(_) => None,
        }
    }
    fn is_send(&self, id: SendId) -> bool {
        self.reading() == Some(Reading::Send(id))
    }
}

#[derive(Debug)]
struct Job {
    waiting: Waiting,
    rope: Payload,
    /// Number of bytes requested from the store so far; `read` collects the answers.
    asked: u64,
    read: Payload,
}
impl Job {
    /// Upper bound of the memory that the job takes, bytes.
    fn cost(&self) -> u64 {
        match self.waiting {
            Waiting::Piece(..) => self.rope.len().min(STEP),
            _ => self.rope.len(),
        }
    }
}

/// Number of a load, and the stored bytes to read.
pub(crate) type Load = (u64, Payload);

/// All payloads that are being read.
#[derive(Debug)]
pub(crate) struct Reads {
    jobs: BTreeMap<u64, Job>,
    queue: VecDeque<Job>,
    /// Sum of the costs of `jobs`; at most `bytes_max`, unless one job alone costs more.
    bytes: u64,
    bytes_max: u64,
    last: u64,
}

/// Empty value shared by nodes that read nothing from disk yet.
impl Empty for Reads {
    type From = u64;
    const EMPTY: &'static Self = &Reads::new(0);
    fn make(bytes_max: u64) -> Self {
        Reads::new(bytes_max)
    }
}

impl Reads {
    pub const fn new(bytes_max: u64) -> Reads {
        Reads { jobs: BTreeMap::new(), queue: VecDeque::new(), bytes: 0, bytes_max, last: 0 }
    }
    /// Whether a payload is too long to be read whole.
    pub fn exceeds(&self, payload: &Payload) -> bool {
        payload.len() > self.bytes_max.max(WHOLE)
    }
    /// Whether a payload stays on disk until its application reads it; `unanswered` counts delivered bytes without
    /// answer, those of this payload included.
    pub fn stays(&self, payload: &Payload, unanswered: u64) -> bool {
        // An application that does not answer may still have one bundle at a time, but not in memory.
        self.exceeds(payload) || (payload.len() > LITTLE && unanswered > self.bytes_max.max(STEP))
    }
    /// Releases memory that a busy period needed.
    pub fn rest(&mut self) {
        self.queue.shrink_to_fit();
    }
    /// Reads a payload for a delivery or a transmission.
    pub fn begin(&mut self, waiting: Waiting, rope: Payload, out: &mut Vec<Load>) {
        self.queue.push_back(Job { waiting, rope, asked: 0, read: Payload::new() });
        self.start(out);
    }
    fn start(&mut self, out: &mut Vec<Load>) {
        while let Some(job) = self.queue.pop_front() {
            // A job longer than the bound would never fit; it runs when nothing else does.
            if !self.jobs.is_empty() && self.bytes.saturating_add(job.cost()) > self.bytes_max {
                return self.queue.push_front(job);
            }
            self.bytes += job.cost();
            self.ask(job, out);
        }
    }
    fn ask(&mut self, mut job: Job, out: &mut Vec<Load>) {
        // One step is under way for each job, so that a long read leaves the disk to others in between.
        let part = job.rope.slice(job.asked, STEP);
        job.asked += part.len();
        self.last += 1;
        self.jobs.insert(self.last, job);
        out.push((self.last, part));
    }
    /// Takes the result of a load; returns the waiting delivery or transmission with its payload after the last
    /// load.
    pub fn loaded(
        &mut self,
        load: u64,
        result: Result<Payload, Refusal>,
        out: &mut Vec<Load>,
    ) -> Option<(Waiting, Result<Payload, Refusal>)> {
        let mut job = self.jobs.remove(&load)?;
        let error = match (result, &mut job.waiting) {
            (Ok(part), Waiting::Piece(_, piece)) => {
                piece.pass(&part);
                None
            }
            (Ok(part), _) => {
                job.read.append(part);
                None
            }
            (Err(reason), _) => Some(reason),
        };
        if error.is_none() && job.asked < job.rope.len() {
            self.ask(job, out);
            return None;
        }
        // A failed read frees its room, too, or the queue would stand still.
        self.bytes -= job.cost();
        self.start(out);
        let read = if matches!(job.waiting, Waiting::Piece(..)) { job.rope } else { job.read };
        Some((job.waiting, error.map_or(Ok(read), Err)))
    }
    /// Forgets transmissions over a link and returns their numbers.
    pub fn down(&mut self, link: LinkId, out: &mut Vec<Load>) -> Vec<SendId> {
        let jobs = self.jobs.values().chain(&self.queue);
        let sends: Vec<SendId> = jobs.filter_map(|job| job.waiting.send_over(link)).collect();
        // Waiting jobs are cancelled first. In the other order, cancelling a running job would start a waiting one that
        // is to be cancelled next.
        for id in sends.iter().rev() {
            self.cancel(*id, out);
        }
        sends
    }
    /// Forgets a cancelled transmission; returns whether it was here.
    pub fn cancel(&mut self, id: SendId, out: &mut Vec<Load>) -> bool {
        if let Some(at) = self.queue.iter().position(|job| job.waiting.is_send(id)) {
            self.queue.remove(at);
            return true;
        }
        let load = self.jobs.iter().find(|(_, job)| job.waiting.is_send(id)).map(|(load, _)| *load);
        // The store still answers the load; without a job the answer is ignored.
        let Some(job) = load.and_then(|load| self.jobs.remove(&load)) else { return false };
        self.bytes -= job.cost();
        self.start(out);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{Accel, Chunk, EndpointId, Extent, Facts};
    use farlink_bpa::app::{Delivery, DeliveryId, RegistrationId};
    use farlink_bundle::{CrcType, v7};

    fn stored(len: u64) -> Payload {
        let mut rope = Payload::new();
        rope.push(Chunk::Stored { extent: Extent { record: 1, offset: 0 }, len });
        rope
    }
    fn delivery(n: u64) -> Waiting {
        let bundle = Delivery {
            source: EndpointId::Null,
            destination: EndpointId::Null,
            creation: farlink_base::CreationTimestamp::default(),
            lifetime_ms: 0,
            facts: Facts::default(),
            redelivered: false,
            payload: Payload::new(),
        };
        Waiting::Delivery(AppOutput::Deliver { registration: RegistrationId(1), delivery: DeliveryId(n), bundle }, None)
    }
    /// Answers loads until none is asked for; returns the reads completed, and the most bytes under way.
    fn drain(reads: &mut Reads, mut loads: Vec<Load>) -> (Vec<(Reading, u64)>, u64) {
        let (mut done, mut most) = (Vec::new(), reads.bytes);
        while let Some((load, part)) = loads.pop() {
            assert!(part.len() <= STEP);
            if let Some((waiting, read)) = reads.loaded(load, Ok(Payload::fill(0, part.len())), &mut loads) {
                done.push((waiting.reading().unwrap(), read.unwrap().len()));
            }
            most = most.max(reads.bytes);
        }
        (done, most)
    }

    #[test]
    fn oversize_read_runs_alone() {
        let (mut reads, mut loads) = (Reads::new(3 * STEP), Vec::new());
        for (n, len) in [(1, STEP), (2, 2 * STEP), (3, 5 * STEP + 1), (4, 10)] {
            reads.begin(delivery(n), stored(len), &mut loads);
        }
        // The first two fill the bound.
        assert_eq!((loads.len(), reads.bytes), (2, 3 * STEP));
        let (mut done, most) = drain(&mut reads, loads);
        done.sort();
        let want = |n, len| (Reading::Delivery(DeliveryId(n)), len);
        assert_eq!(done, [want(1, STEP), want(2, 2 * STEP), want(3, 5 * STEP + 1), want(4, 10)]);
        // The longest read exceeded the bound of three steps, and ran alone.
        assert_eq!((most, reads.bytes), (5 * STEP + 1, 0));
    }

    #[test]
    fn unanswered_deliveries_keep_next_on_disk() {
        let reads = Reads::new(2 * WHOLE);
        let full = 2 * WHOLE + 1;
        assert!(!reads.stays(&stored(WHOLE), full - 1) && reads.stays(&stored(WHOLE), full));
        assert!(reads.stays(&stored(full), 0) && !reads.stays(&stored(LITTLE), full));
        assert!(!reads.exceeds(&stored(WHOLE)), "what is to be checked is read");
        assert!(!Reads::new(0).stays(&stored(STEP), STEP) && Reads::new(0).stays(&stored(WHOLE), WHOLE));
    }

    /// A transmission of this number.
    fn departure(n: u64) -> Waiting {
        let payload = Payload::new();
        let bundle =
            v7::make(&v7::BundleDraft::default(), Default::default(), payload, CrcType::None, &Accel::default());
        Waiting::Departure(Departure {
            link: LinkId(0),
            id: SendId(n),
            bundle: bundle.into(),
            hop: Box::default(),
            cut: None,
            size: 0,
            reliable: true,
            lives: [Instant::ZERO; 2],
        })
    }

    #[test]
    fn waiting_cancelled_transmission_never_read() {
        let (mut reads, mut loads) = (Reads::new(STEP), Vec::new());
        (1..=3).for_each(|n| reads.begin(departure(n), stored(STEP), &mut loads));
        assert_eq!(loads.len(), 1, "the others wait");
        assert!(reads.cancel(SendId(2), &mut loads) && !reads.cancel(SendId(2), &mut loads));
        let (done, _) = drain(&mut reads, loads);
        assert_eq!(done, [1, 3].map(|n| (Reading::Send(SendId(n)), STEP)));
    }

    #[test]
    fn cancelled_read_starts_next() {
        let (mut reads, mut loads) = (Reads::new(STEP), Vec::new());
        reads.begin(departure(1), stored(2 * STEP), &mut loads);
        reads.begin(delivery(2), stored(STEP), &mut loads);
        loads.clear();
        assert!(reads.cancel(SendId(1), &mut loads));
        assert_eq!(drain(&mut reads, loads).0, [(Reading::Delivery(DeliveryId(2)), STEP)]);
    }

    #[test]
    fn link_down_ends_its_reads_only() {
        let (mut reads, mut loads) = (Reads::new(STEP), Vec::new());
        (1..=2).for_each(|n| reads.begin(departure(n), stored(STEP), &mut loads));
        reads.begin(delivery(3), stored(STEP), &mut loads);
        loads.clear();
        assert_eq!(reads.down(LinkId(0), &mut loads), [1, 2].map(SendId));
        assert_eq!(drain(&mut reads, loads).0, [(Reading::Delivery(DeliveryId(3)), STEP)]);
    }

    #[test]
    fn failed_read_frees_its_room() {
        let (mut reads, mut loads) = (Reads::new(0), Vec::new());
        reads.begin(delivery(1), stored(2 * STEP), &mut loads);
        reads.begin(delivery(2), stored(10), &mut loads);
        let [(load, _)] = loads[..] else { panic!("one at a time") };
        loads.clear();
        let (waiting, result) = reads.loaded(load, Err(Refusal::Damaged), &mut loads).unwrap();
        assert!(waiting.reading() == Some(Reading::Delivery(DeliveryId(1))) && result == Err(Refusal::Damaged));
        assert_eq!(drain(&mut reads, loads).0.len(), 1);
        assert!(reads.loaded(load, Ok(Payload::new()), &mut Vec::new()).is_none());
    }
}
