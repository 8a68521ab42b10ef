//! The bundles of a block that is being sent. Each gets the age it leaves with when its first byte leaves, and one that
//! expired until then does not leave. What was sent once stays as it was, whenever it is sent again.

use super::segment::SERVICE_BUNDLE;
use super::source::BlockSource;
use alloc::vec::Vec;
use bytes::Bytes;
use farlink_base::layer::SendId;
use farlink_base::{Instant, Leaving, Payload};

/// What is before a bundle in a marked block: its service, as an SDNV.
pub(super) const MARK: &[u8] = &[SERVICE_BUNDLE as u8];

/// One of them.
#[derive(Debug)]
pub(super) struct Rider {
    pub(super) id: SendId,
    /// All of it or its first bytes, until they begin to leave.
    pub(super) bytes: Payload,
    pub(super) leaving: Leaving,
    /// Whether it was not taken back.
    wanted: bool,
}
impl Rider {
    pub(super) fn new(id: SendId, bytes: Payload, leaving: Leaving) -> Rider {
        Rider { id, bytes, leaving, wanted: true }
    }
}

/// All of them, in order.
#[derive(Debug)]
pub(super) struct Riders {
    all: Vec<Rider>,
    /// How many have begun to leave.
    begun: usize,
    marked: bool,
}
impl Riders {
    /// `marked`: each has a mark before it.
    pub(super) fn new(all: Vec<Rider>, marked: bool) -> Riders {
        Riders { all, begun: 0, marked }
    }
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
    pub(super) fn ids(&self) -> impl Iterator<Item = SendId> + '_ {
        self.all.iter().map(|rider| rider.id)
    }
    /// Whether one is still to begin.
    pub(super) fn are_to_begin(&self) -> bool {
        self.begun < self.all.len()
    }
    /// Bytes of the block that the next one is, where all of it is here.
    fn next_len(&self) -> u64 {
        let mark = if self.marked { MARK.len() as u64 } else { 0 };
        self.all.get(self.begun).map_or(0, |rider| mark + rider.bytes.len())
    }
    /// Lets those leave at `now` whose first bytes are before `until`; gives those that expired instead.
    pub(super) fn begin(&mut self, now: Instant, until: u64, source: &mut BlockSource) -> Vec<SendId> {
        let mut late = Vec::new();
        while source.end() < until {
            let len = self.next_len();
            let Some(rider) = self.all.get_mut(self.begun) else { break };
            if rider.leaving.is_over(now) {
                source.leave_out(len);
                late.push(self.all.remove(self.begun).id);
                continue;
            }
            if self.marked {
                source.begin(Payload::from(Bytes::from_static(MARK)), 0);
            }
            let mut bytes = core::mem::take(&mut rider.bytes);
            let grown = rider.leaving.stamp(now, &mut bytes);
            source.begin(bytes, grown);
            self.begun += 1;
        }
        late
    }
    /// One is not wanted any more; whether another one is. One that has not begun will not.
    pub(super) fn take_back(&mut self, id: SendId) -> bool {
        if let Some(at) = self.all.iter().position(|rider| rider.id == id) {
            let rider = &mut self.all[at];
            rider.wanted = false;
            if at >= self.begun {
                rider.leaving.expires = Instant::ZERO;
            }
        }
        self.all.iter().any(|rider| rider.wanted)
    }
    /// The bundles, each with its bytes: those that began to leave are cut out of the block by `split`, which gives the
    /// length of the first; `None` where they cannot be told apart.
    pub(super) fn apart(&self, mut block: Payload, split: impl Fn(&Payload) -> Option<u64>) -> Option<Vec<Rider>> {
        let mut bytes_of = |(at, rider): (usize, &Rider)| {
            if at >= self.begun {
                return Some(rider.bytes.clone());
            }
            if self.marked && block.len() >= MARK.len() as u64 {
                drop(block.split_to(MARK.len() as u64));
            }
            let len = split(&block).filter(|len| (1..=block.len()).contains(len))?;
            Some(block.split_to(len))
        };
        let bytes = self.all.iter().enumerate().map(&mut bytes_of).collect::<Option<Vec<_>>>()?;
        let riders = self.all.iter().zip(bytes).filter(|(rider, _)| rider.wanted);
        block.is_empty().then(|| riders.map(|(rider, bytes)| Rider::new(rider.id, bytes, rider.leaving)).collect())
    }
}
