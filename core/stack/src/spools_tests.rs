//! Payloads of applications on their way to disk, against a store that answers only when the test lets it.

use super::*;
use farlink_base::{Chunk, EndpointId, Extent, Facts, Priority};

const SOURCE: NodeId = NodeId(7);
const ONE: RequestId = RequestId(1);

struct SpoolBench {
    spools: Spools,
    bounds: Bounds,
    numbers: u64,
    /// Spills asked for and not answered, and bytes of each spill on disk.
    asked: Vec<(u64, u64)>,
    written: BTreeMap<u64, u64>,
    out: Vec<Do>,
}

fn bench(memory: u64, bundle: u64) -> SpoolBench {
    let bounds = Bounds { memory, bundle, spill_from: 1 };
    let (asked, written) = (Vec::new(), BTreeMap::new());
    SpoolBench { spools: Spools::new(), bounds, numbers: 1, asked, written, out: Vec::new() }
}

fn wanted(end: &[u8]) -> SendRequest {
    SendRequest {
        source: EndpointId::ipn(7, 1),
        destination: EndpointId::ipn(8, 1),
        report_to: EndpointId::Null,
        facts: Facts::default(),
        lifetime_ms: 1000,
        priority: Priority::Normal,
        hop_limit: 0,
        reliable: true,
        payload: Payload::from(end.to_vec()),
    }
}

impl SpoolBench {
    fn part(&mut self, request: RequestId, len: usize) {
        let part = Payload::from(alloc::vec![1; len]);
        let numbers = &mut self.numbers;
        let number = || {
            *numbers += 1;
            *numbers - 1
        };
        self.spools.part((request, SOURCE), part, &self.bounds, number, &mut self.out);
        self.take_spills();
    }
    /// Takes the requests to the store; other actions stay in `out`.
    fn take_spills(&mut self) {
        for what in core::mem::take(&mut self.out) {
            match what {
                Do::Spill { spill, quota, data } => {
                    assert_eq!(quota, SOURCE.0);
                    self.asked.push((spill, data.len()));
                }
                other => self.out.push(other),
            }
        }
    }
    /// Lets the store write the oldest spill.
    fn write(&mut self) {
        let (spill, len) = self.asked.remove(0);
        let at = self.written.entry(spill).or_default();
        let mut extents = Payload::new();
        extents.push(Chunk::Stored { extent: Extent { record: Extent::SPILL | spill, offset: *at }, len });
        *at += len;
        self.spools.spilled(spill, Ok(extents), &mut self.out);
        self.take_spills();
    }
    fn send(&mut self, request: RequestId, end: &[u8]) {
        assert!(self.spools.send(request, wanted(end), &mut self.out).is_none(), "it was spooled");
        self.take_spills();
    }
    /// The payload of the request that the agent gets.
    fn given(&mut self) -> Option<Payload> {
        self.out.iter().find_map(|what| match what {
            Do::Send(_, wanted) => Some(wanted.payload.clone()),
            _ => None,
        })
    }
}

#[test]
fn spooled_payload_completes_its_request() {
    let mut b = bench(8 << 20, 1 << 40);
    let block = b.bounds.block() as usize;
    b.part(ONE, block / 2);
    assert!(b.asked.is_empty(), "less than a block waits for more");
    (0..5).for_each(|_| b.part(ONE, block / 2));
    assert_eq!(b.asked.len(), 3);
    b.write();
    assert!(matches!(b.out[..], [Do::Spooled { request: ONE, bytes }] if bytes == block as u64));
    b.send(ONE, b"the end");
    assert!(b.given().is_none(), "two blocks are on their way");
    b.write();
    b.write();
    let payload = b.given().expect("all of it is there");
    assert_eq!(payload.len(), 3 * block as u64 + 7);
    assert!(payload.is_stored() && payload.resident_len() == 7);
    assert_eq!(b.spools.memory(), 0);
    b.out.clear();
    b.spools.decided(ONE, &mut b.out);
    assert!(matches!(b.out[..], [Do::DropSpill { spill: 1 }]), "what no bundle took is dropped");
    assert!(b.spools.is_empty());
}

#[test]
fn unspooled_request_is_returned() {
    let mut b = bench(8 << 20, 1 << 40);
    assert!(b.spools.send(ONE, wanted(b"short"), &mut b.out).is_some_and(|wanted| wanted.payload.len() == 5));
    b.spools.decided(ONE, &mut b.out);
    b.spools.abandon(ONE, &mut b.out);
    assert!(b.out.is_empty() && b.spools.is_empty());
}

#[test]
fn oversize_spool_refused_once() {
    for case in ["disk", "too long", "memory"] {
        let mut b = bench(8 << 20, if case == "too long" { 3 << 20 } else { 1 << 40 });
        let block = b.bounds.block() as usize;
        b.part(ONE, 2 * block);
        let reason = match case {
            "disk" => {
                let (spill, _) = b.asked[0];
                b.spools.spilled(spill, Err(Refusal::NoResources), &mut b.out);
                Refusal::NoResources
            }
            "too long" => {
                b.part(ONE, 2 * block);
                Refusal::TooLarge
            }
            _ => {
                // The store does not answer, and the driver goes on.
                (0..7).for_each(|_| b.part(ONE, block));
                assert!(!b.out.iter().any(|what| matches!(what, Do::NotSent(..))), "the bound was kept before");
                b.part(ONE, 1);
                Refusal::NoResources
            }
        };
        let said = |what: &Do| matches!(what, Do::NotSent(ONE, why) if *why == reason);
        assert!(b.out.iter().any(|what| matches!(what, Do::DropSpill { spill: 1 })), "{case}");
        assert_eq!(b.out.iter().filter(|what| said(what)).count(), 1, "{case}: {:?}", b.out);
        b.out.clear();
        b.part(ONE, block);
        b.send(ONE, b"the end");
        b.spools.spilled(1, Ok(Payload::new()), &mut b.out);
        assert!(b.out.is_empty() && b.spools.is_empty(), "{case}: {:?}", b.out);
    }
}

#[test]
fn late_disk_failure_refuses_request() {
    let mut b = bench(8 << 20, 1 << 40);
    b.part(ONE, 1 << 20);
    b.send(ONE, b"the end");
    let (spill, _) = b.asked[0];
    b.spools.spilled(spill, Err(Refusal::NoResources), &mut b.out);
    assert!(matches!(b.out[..], [Do::DropSpill { spill: 1 }, Do::NotSent(ONE, Refusal::NoResources)]));
    assert!(b.spools.is_empty());
}

#[test]
fn departing_application_frees_its_spools() {
    let mut b = bench(8 << 20, 1 << 40);
    b.part(ONE, 3 << 20);
    b.part(RequestId(2), 1 << 20);
    b.spools.abandon(ONE, &mut b.out);
    assert!(matches!(b.out[..], [Do::DropSpill { spill: 1 }]));
    b.out.clear();
    while !b.asked.is_empty() {
        b.write();
    }
    b.send(RequestId(2), b"");
    assert_eq!(b.given().map(|payload| payload.len()), Some(1 << 20), "another goes on");
    b.spools.decided(RequestId(2), &mut b.out);
    assert!(b.spools.is_empty());
}
