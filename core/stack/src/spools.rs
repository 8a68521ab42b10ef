//! Payloads of applications that go to disk as they come, because they are too long for memory. The bundle is made of
//! the stored bytes once its request is complete; its payload block has no CRC, as no byte is read again.
//!
//! Spools are numbered among the spills of [`crate::arrivals`], which owns them and performs their actions.

use crate::arrivals::{Bounds, Do};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use farlink_base::{NodeId, Payload, Refusal};
use farlink_bpa::app::{RequestId, SendRequest};

/// One payload on its way to disk.
#[derive(Debug)]
struct Spool {
    spill: u64,
    quota: u64,
    /// First bytes of the payload, on disk.
    rope: Payload,
    /// Number of bytes that follow, on their way to disk.
    flying: u64,
    /// Last bytes so far, in memory.
    rest: Payload,
    /// The request, once it is whole.
    request: Option<Box<SendRequest>>,
}
impl Spool {
    fn len(&self) -> u64 {
        self.rope.len() + self.flying + self.rest.len()
    }
    fn memory(&self) -> u64 {
        self.flying + self.rest.len()
    }
}

/// All payloads that applications are spooling.
#[derive(Default, Debug)]
pub(crate) struct Spools {
    /// Payloads being spooled. `None`: refused, and the application informed; further parts are dropped.
    open: BTreeMap<RequestId, Option<Spool>>,
    of_spill: BTreeMap<u64, RequestId>,
    /// Spill of each request that the agent has not decided.
    undecided: BTreeMap<RequestId, u64>,
    memory: u64,
}

impl Spools {
    pub const fn new() -> Spools {
        Spools { open: BTreeMap::new(), of_spill: BTreeMap::new(), undecided: BTreeMap::new(), memory: 0 }
    }
    pub fn memory(&self) -> u64 {
        self.memory
    }
    /// Takes the next bytes of a payload; `number` gives the number of its spill if these are the first.
    pub fn part(
        &mut self,
        (request, source): (RequestId, NodeId),
        part: Payload,
        bounds: &Bounds,
        number: impl FnOnce() -> u64,
        out: &mut Vec<Do>,
    ) {
        let of_spill = &mut self.of_spill;
        let spool = self.open.entry(request).or_insert_with(|| {
            let (spill, quota) = (number(), source.0);
            of_spill.insert(spill, request);
            let (rope, rest) = (Payload::new(), Payload::new());
            Some(Spool { spill, quota, rope, flying: 0, rest, request: None })
        });
        let Some(spool) = spool else { return };
        if spool.len().saturating_add(part.len()) > bounds.bundle {
            return self.give_up(request, Refusal::TooLarge, out);
        }
        // The part that crosses the bound is taken: the driver has its bytes in memory anyway, and keeps a share of
        // memory for them.
        if self.memory > bounds.memory {
            return self.give_up(request, Refusal::NoResources, out);
        }
        self.memory += part.len();
        spool.rest.gather(part);
        let block = bounds.block();
        while spool.rest.len() >= block {
            let data = spool.rest.split_to(block);
            spool.flying += block;
            out.push(Do::Spill { spill: spool.spill, quota: spool.quota, data });
        }
    }
    /// Completes a request, whose own payload is the end of the spooled payload. Returns the request if nothing was
    /// spooled for it.
    pub fn send(&mut self, request: RequestId, wanted: SendRequest, out: &mut Vec<Do>) -> Option<SendRequest> {
        match self.open.get_mut(&request) {
            None => return Some(wanted),
            Some(None) => drop(self.open.remove(&request)),
            Some(Some(spool)) => {
                let mut wanted = wanted;
                let end = core::mem::take(&mut wanted.payload);
                self.memory += end.len();
                spool.rest.append(end);
                spool.request = Some(Box::new(wanted));
                self.finish(request, out);
            }
        }
        None
    }
    /// Cancels a request.
    pub fn abandon(&mut self, request: RequestId, out: &mut Vec<Do>) {
        if let Some(Some(spool)) = self.open.remove(&request) {
            self.forget(&spool);
            out.push(Do::DropSpill { spill: spool.spill });
        }
    }
    /// Ends a request after the agent's verdict: bytes on disk that the agent did not keep are dropped.
    pub fn decided(&mut self, request: RequestId, out: &mut Vec<Do>) {
        out.extend(self.undecided.remove(&request).map(|spill| Do::DropSpill { spill }));
    }
    pub fn spilled(&mut self, spill: u64, result: Result<Payload, Refusal>, out: &mut Vec<Do>) {
        let Some(request) = self.of_spill.get(&spill).copied() else { return };
        let Some(Some(spool)) = self.open.get_mut(&request) else { return };
        match result {
            Err(reason) => self.give_up(request, reason, out),
            Ok(extents) => {
                // A store that answers with more than was asked for must not make the account negative.
                let len = extents.len().min(spool.flying);
                spool.flying -= len;
                self.memory -= len;
                spool.rope.append(extents);
                out.push(Do::Spooled { request, bytes: len });
                self.finish(request, out);
            }
        }
    }
    fn finish(&mut self, request: RequestId, out: &mut Vec<Do>) {
        let whole = |spool: &Spool| spool.flying == 0 && spool.request.is_some();
        if !self.open.get(&request).is_some_and(|spool| spool.as_ref().is_some_and(whole)) {
            return;
        }
        let Some(Some(mut spool)) = self.open.remove(&request) else { return };
        self.forget(&spool);
        let Some(mut wanted) = spool.request.take() else { return };
        spool.rope.append(spool.rest);
        wanted.payload = spool.rope;
        self.undecided.insert(request, spool.spill);
        out.push(Do::Send(request, wanted));
    }
    fn forget(&mut self, spool: &Spool) {
        // Answers of the store to this spill are ignored from now on.
        self.of_spill.remove(&spool.spill);
        self.memory -= spool.memory();
    }
    fn give_up(&mut self, request: RequestId, reason: Refusal, out: &mut Vec<Do>) {
        let Some(Some(spool)) = self.open.remove(&request) else { return };
        self.forget(&spool);
        out.push(Do::DropSpill { spill: spool.spill });
        out.push(Do::NotSent(request, reason));
        // The application may still send parts and the request; `None` lets them be dropped.
        if spool.request.is_none() {
            self.open.insert(request, None);
        }
    }
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.of_spill.is_empty() && self.undecided.is_empty() && self.memory == 0
    }
}

#[cfg(test)]
#[path = "spools_tests.rs"]
mod tests;
