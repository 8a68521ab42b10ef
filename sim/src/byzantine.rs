//! Hellos of Byzantine nodes: honest hellos with false entries in the parts of router and control, which claim that the
//! node meets every node, that every bundle arrived, or that the node holds every bundle. Otherwise a Byzantine node
//! keeps, sends and accepts bundles like an honest one.
//!
//! Written from the meaning of these messages to their receivers, as an attacker would: no code is shared with the
//! policies. An unreadable message stays unchanged.

use farlink_base::NodeId;
use farlink_bundle::{v6, v7};
use std::collections::{BTreeSet, VecDeque};

/// Most bundles that a lie names, the newest ones; policies read no more.
const IDS_MAX: usize = 4096;
/// As [`IDS_MAX`], for RAPID, which reads arrivals from a quarter of its hello.
const RAPID_IDS_MAX: usize = 1000;

/// Lies of a node.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(crate) struct Lies {
    /// Claims to meet every node, at once and always.
    pub met: bool,
    /// Claims that every bundle arrived.
    pub arrived: bool,
    /// Claims to hold every bundle.
    pub has: bool,
}

/// Bundles sent anywhere in the network, which lies may name.
#[derive(Default)]
pub(crate) struct Crossed {
    known: BTreeSet<u128>,
    order: VecDeque<u128>,
}
impl Crossed {
    /// Records a bundle that leaves some node.
    pub fn note(&mut self, id: u128) {
        if self.known.insert(id) {
            self.order.push_back(id);
            if self.order.len() > IDS_MAX {
                self.order.pop_front().map(|oldest| self.known.remove(&oldest));
            }
        }
    }
    fn newest(&self, most: usize) -> impl ExactSizeIterator<Item = u128> {
        self.order.iter().skip(self.order.len().saturating_sub(most)).copied()
    }
}

/// Byzantine node, with the knowledge its lies draw on.
pub(crate) struct ByzantineNode<'a> {
    pub lies: Lies,
    pub me: NodeId,
    pub router: &'a str,
    pub control: &'a str,
    /// Identities of all nodes.
    pub nodes: &'a [NodeId],
    pub crossed: &'a Crossed,
}

fn put(message: &mut Vec<u8>, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| message.extend_from_slice(&number.to_be_bytes()));
}
const CERTAIN: u64 = 1f64.to_bits();

/// Reader of the numbers at the front of a message.
struct ClaimedNumbers<'a>(&'a [u8]);
impl ClaimedNumbers<'_> {
    fn next(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*first))
    }
    fn skip(&mut self, numbers: u64) -> Option<()> {
        let bytes = usize::try_from(numbers.checked_mul(8)?).ok()?;
        self.0 = self.0.split_at_checked(bytes)?.1;
        Some(())
    }
}

impl ByzantineNode<'_> {
    /// Rewrites a hello: version, flags, free bytes, capacity, count of identities and these, length of the router's
    /// part, that part, and the control's part. `None` if it is unreadable.
    pub fn hello(&self, content: &[u8]) -> Option<Vec<u8>> {
        // Fixed part: version, flags, and two numbers of 8 bytes.
        let (head, rest) = content.split_at_checked(18)?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let (ids, rest) = rest.split_at_checked((u32::from_be_bytes(*count) as usize).checked_mul(8)?)?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (router, control) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        let mut hello = head.to_vec();
        let mut summary = ids.to_vec();
        if self.lies.has {
            // Flag 1: the list of identities is complete.
            hello[1] |= 1;
            summary.clear();
            put(&mut summary, self.crossed.newest(IDS_MAX).map(|id| id as u64));
        }
        hello.extend_from_slice(&(summary.len() as u32 / 8).to_be_bytes());
        hello.extend_from_slice(&summary);
        let router = self.by_router(router).unwrap_or_else(|| router.to_vec());
        hello.extend_from_slice(&(router.len() as u32).to_be_bytes());
        hello.extend_from_slice(&router);
        hello.extend_from_slice(&self.by_control());
        hello.extend_from_slice(control);
        Some(hello)
    }
    /// Rewrites the payload of an administrative bundle; `None` if it is no readable hello.
    pub fn payload(&self, version: u8, payload: &[u8]) -> Option<Vec<u8>> {
        match version {
            6 => match v6::record(payload) {
                Ok(v6::ParsedRecord::Signal(content)) => Some(v6::signal(&self.hello(&content)?).to_vec()),
                _ => None,
            },
            _ => match v7::record(payload) {
                Ok(v7::ParsedRecord::Signal(content)) => Some(v7::signal(&self.hello(&content)?).to_vec()),
                _ => None,
            },
        }
    }

    fn others(&self) -> impl Iterator<Item = NodeId> + Clone {
        self.nodes.iter().copied().filter(|node| *node != self.me)
    }
    fn arrivals(&self, message: &mut Vec<u8>, most: usize) {
        // A count, then the two halves of each bundle identity.
        let newest = self.crossed.newest(most);
        put(message, [newest.len() as u64]);
        newest.for_each(|id| put(message, [(id >> 64) as u64, id as u64]));
    }
    fn by_router(&self, said: &[u8]) -> Option<Vec<u8>> {
        let (mut message, mut numbers) = (Vec::new(), ClaimedNumbers(said));
        match self.router {
            // Format: nodes, each with its delivery predictability.
            "prophet" if self.lies.met => self.others().for_each(|node| put(&mut message, [node.0, CERTAIN])),
            // Format: arrivals; then nodes, each with its meeting probabilities.
            "maxprop" => {
                let count = numbers.next()?;
                numbers.skip(count.checked_mul(2)?)?;
                let honest = &said[..said.len() - numbers.0.len()];
                match self.lies.arrived {
                    true => self.arrivals(&mut message, IDS_MAX),
                    false => message.extend_from_slice(honest),
                }
                if self.lies.met {
                    put(&mut message, [self.me.0, self.others().count() as u64]);
                    self.others().for_each(|node| put(&mut message, [node.0, CERTAIN]));
                }
                message.extend_from_slice(numbers.0);
            }
            // Format: three counts; arrivals; then nodes, each with the age of its row and its meeting intervals in
            // seconds.
            "rapid" => {
                numbers.skip(3)?;
                message.extend_from_slice(&said[..24]);
                let before = numbers.0;
                let count = numbers.next()?;
                numbers.skip(count.checked_mul(2)?)?;
                match self.lies.arrived {
                    true => self.arrivals(&mut message, RAPID_IDS_MAX),
                    false => message.extend_from_slice(&before[..before.len() - numbers.0.len()]),
                }
                // The lie adds one row: the node's own, with an age of zero.
                let rows = numbers.next()?;
                put(&mut message, [rows.saturating_add(u64::from(self.lies.met))]);
                if self.lies.met {
                    put(&mut message, [self.me.0, 0, self.others().count() as u64]);
                    self.others().for_each(|node| put(&mut message, [node.0, CERTAIN]));
                }
                message.extend_from_slice(numbers.0);
            }
            _ => return None,
        }
        Some(message)
    }
    fn by_control(&self) -> Vec<u8> {
        // Parts with a letter and a count: arrivals with their lifetime in seconds, nodes with the time since they were
        // met.
        let mut message = Vec::new();
        if self.control != "marginal-utility" {
            return message;
        }
        let begin = |message: &mut Vec<u8>, kind: u8, count: usize| {
            message.push(kind);
            message.extend_from_slice(&(count as u16).to_be_bytes());
        };
        if self.lies.arrived {
            let newest = self.crossed.newest(IDS_MAX);
            begin(&mut message, b'a', newest.len());
            for id in newest {
                message.extend_from_slice(&id.to_be_bytes());
                message.extend_from_slice(&86_400u32.to_be_bytes());
            }
        }
        if self.lies.met {
            begin(&mut message, b'm', self.others().count().min(IDS_MAX));
            for node in self.others().take(IDS_MAX) {
                message.extend_from_slice(&node.0.to_be_bytes());
                message.extend_from_slice(&[0; 4]);
            }
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(ids: &[u64], router: &[u8], control: &[u8]) -> Vec<u8> {
        let mut hello = vec![1, 0];
        put(&mut hello, [7, 9]);
        hello.extend_from_slice(&(ids.len() as u32).to_be_bytes());
        put(&mut hello, ids.iter().copied());
        hello.extend_from_slice(&(router.len() as u32).to_be_bytes());
        [&hello, router, control].concat()
    }
    fn all() -> Lies {
        Lies { met: true, arrived: true, has: true }
    }
    fn said(lies: Lies, router: &str, control: &str, content: &[u8]) -> Option<Vec<u8>> {
        let mut crossed = Crossed::default();
        [5, 1 << 64 | 6].into_iter().for_each(|id| crossed.note(id));
        let nodes = [NodeId(1), NodeId(2), NodeId(3)];
        ByzantineNode { lies, me: NodeId(2), router, control, nodes: &nodes, crossed: &crossed }.hello(content)
    }
    fn words(numbers: &[u64]) -> Vec<u8> {
        let mut message = Vec::new();
        put(&mut message, numbers.iter().copied());
        message
    }

    #[test]
    fn claimed_possession_changes_nothing_else() {
        let has = Lies { has: true, ..Lies::default() };
        let mut expected = hello(&[5, 6], b"words", b"more");
        expected[1] = 1;
        assert_eq!(said(has, "epidemic", "none", &hello(&[4], b"words", b"more")), Some(expected));
        let honest = hello(&[4], b"words", b"more");
        assert_eq!(said(Lies::default(), "maxprop", "marginal-utility", &honest), Some(honest));
    }

    #[test]
    fn every_policy_has_its_own_lie() {
        let lie = Lies { has: false, ..all() };
        let one = CERTAIN;
        let maxprop = said(lie, "maxprop", "none", &hello(&[], &words(&[1, 0, 9, 3, 0]), b""));
        let expected = words(&[2, 0, 5, 1, 6, 2, 2, 1, one, 3, one, 3, 0]);
        assert_eq!(maxprop, Some(hello(&[], &expected, b"")));
        let prophet = said(lie, "prophet", "none", &hello(&[], &words(&[3, 0]), b""));
        assert_eq!(prophet, Some(hello(&[], &words(&[1, one, 3, one]), b"")));
        let rapid = said(lie, "rapid", "none", &hello(&[], &words(&[7, 8, 9, 0, 0, 0]), b""));
        let expected = words(&[7, 8, 9, 2, 0, 5, 1, 6, 1, 2, 0, 2, 1, one, 3, one, 0]);
        assert_eq!(rapid, Some(hello(&[], &expected, b"")));
        let Some(marginal) = said(lie, "epidemic", "marginal-utility", &hello(&[], b"", b"rest")) else { panic!() };
        let tail = &marginal[26..];
        assert_eq!((&tail[..3], &tail[3 + 40..3 + 43]), (&b"a\0\x02"[..], &b"m\0\x02"[..]));
        assert!(tail.ends_with(b"rest") && tail.len() == 3 + 40 + 3 + 24 + 4);
    }

    #[test]
    fn unreadable_hello_stays_unchanged() {
        // A count of `u64::MAX` must neither overflow nor be believed.
        let content = hello(&[1, 2], &words(&[u64::MAX, 1]), b"");
        for router in ["maxprop", "rapid"] {
            let Some(lie) = said(Lies { has: false, ..all() }, router, "none", &content) else { panic!() };
            assert_eq!(lie, content);
        }
        for cut in 0..26 {
            assert_eq!(said(all(), "epidemic", "none", &content[..cut]), None);
        }
    }

    #[test]
    fn newest_are_remembered() {
        let mut crossed = Crossed::default();
        // The last one repeats an identity and must not count twice.
        (0..2 * IDS_MAX as u128).chain([5000]).for_each(|id| crossed.note(id));
        assert_eq!((crossed.order.len(), crossed.known.len()), (IDS_MAX, IDS_MAX));
        assert_eq!(crossed.newest(2).collect::<Vec<_>>(), [8190, 8191]);
    }
}
