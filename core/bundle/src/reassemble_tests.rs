use super::*;
use crate::{FragmentInfo, fragment};
use alloc::vec;
use farlink_base::DtnTime;
use proptest::prelude::*;

const LATER: Instant = Instant(1_000);

fn whole(bytes: &[u8]) -> Bundle {
    let creation = CreationTimestamp { time: DtnTime(5), sequence: 0 };
    let builder = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), creation).hop_limit(3);
    builder.payload(Payload::from(bytes.to_vec())).build()
}

fn cut(bytes: &[u8], offset: usize, len: usize, total: u64) -> Bundle {
    let mut bundle = whole(&bytes[offset..offset + len]);
    bundle.primary.flags.0 |= BundleFlags::FRAGMENT;
    bundle.primary.fragment = Some(FragmentInfo { offset: offset as u64, total });
    bundle
}

fn joiner() -> Reassembler<u32> {
    Reassembler::new(ReassemblyLimits { bundles: 2, fragments: 50, bytes: 1000 })
}

#[test]
fn fragments_reassemble_in_any_order() {
    let bundle = whole(b"0123456789");
    let (a, rest) = fragment(&bundle, 3).unwrap();
    let (b, c) = fragment(&rest, 3).unwrap();
    let mut joiner = joiner();
    assert_eq!(joiner.add(3, c, LATER), Reassembly::Waiting);
    assert_eq!(joiner.add(2, b.clone(), LATER), Reassembly::Waiting);
    assert_eq!(joiner.add(4, b, LATER), Reassembly::Redundant);
    match joiner.add(1, a, LATER) {
        Reassembly::Complete { bundle: joined, keys } => {
            assert_eq!(*joined, bundle);
            assert_eq!(keys, [3, 2, 1]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((joiner.bytes(), joiner.bundles(), joiner.next_timeout()), (0, 0, None));
}

#[test]
fn false_total_length_does_no_harm() {
    let mut joiner = joiner();
    assert_eq!(joiner.add(1, cut(b"abcd", 0, 2, u64::MAX), LATER), Reassembly::Waiting);
    assert_eq!(joiner.add(2, cut(b"abcd", 0, 2, 4), LATER), Reassembly::Waiting);
    assert!(matches!(joiner.add(3, cut(b"abcd", 2, 2, 4), LATER), Reassembly::Complete { .. }));
    assert_eq!(joiner.bytes(), 2);
    assert_eq!(joiner.add(4, cut(b"abcd", 2, 2, 3), LATER), Reassembly::Refused(Refusal::NotAcceptable));
}

#[test]
fn refused_fragment_leaves_no_state() {
    let big = [0u8; 2000];
    let mut joiner = joiner();
    assert_eq!(joiner.add(1, cut(&big, 0, 1500, 2000), LATER), Reassembly::Refused(Refusal::NoResources));
    assert_eq!(joiner.bundles(), 0);
    for total in 0..2 {
        assert_eq!(joiner.add(1, cut(&big, 0, 1, 100 + total), LATER), Reassembly::Waiting);
    }
    assert_eq!(joiner.add(1, cut(&big, 0, 1, 300), LATER), Reassembly::Refused(Refusal::NoResources));
}

#[test]
fn expired_and_removed_fragments_free_bytes() {
    let mut joiner = joiner();
    let second = cut(b"abcd", 2, 2, 4);
    let id = second.id();
    joiner.add(1, cut(b"abcd", 0, 2, 4), Instant(5));
    joiner.add(2, cut(b"abcdefgh", 0, 2, 8), Instant(9));
    assert_eq!(joiner.next_timeout(), Some(Instant(5)));
    assert_eq!(joiner.expire(Instant(5)), [1]);
    assert_eq!(joiner.add(3, second, Instant(7)), Reassembly::Waiting);
    assert!(joiner.remove(&id, &3) && !joiner.remove(&id, &3));
    assert_eq!(joiner.expire(LATER), [2]);
    assert_eq!((joiner.bytes(), joiner.bundles()), (0, 0));
}

#[test]
fn empty_fragment_leaves_no_state() {
    let mut joiner = joiner();
    assert_eq!(joiner.add(1, cut(b"abcd", 2, 0, 4), LATER), Reassembly::Redundant);
    assert_eq!(joiner.bundles(), 0);
}

#[test]
fn empty_payload_completes_reassembly() {
    assert!(matches!(joiner().add(1, cut(b"", 0, 0, 0), LATER), Reassembly::Complete { .. }));
}

proptest! {
    #[test]
    fn overlapping_fragments_keep_first_bytes(
        total in 1usize..60,
        cuts in prop::collection::vec((0usize..60, 0usize..60, any::<u8>()), 1..40),
    ) {
        // The oracle is a byte array in which the first byte written stays.
        let mut joiner = joiner();
        let mut oracle = vec![None; total];
        for (key, (offset, len, value)) in cuts.into_iter().enumerate() {
            let offset = offset % total;
            let len = len.min(total - offset);
            let mut piece = cut(&vec![value; offset + len], offset, len, total as u64);
            piece.primary.creation.sequence = 0;
            let news = oracle[offset..offset + len].iter().any(Option::is_none);
            oracle[offset..offset + len].iter_mut().for_each(|slot| *slot = slot.or(Some(value)));
            match joiner.add(key as u32, piece, LATER) {
                Reassembly::Waiting => prop_assert!(oracle.iter().any(Option::is_none)),
                Reassembly::Redundant => prop_assert!(!news),
                Reassembly::Complete { bundle, .. } => {
                    let bytes = bundle.payload.to_bytes().unwrap();
                    let want: Vec<u8> = oracle.iter().map(|slot| slot.unwrap()).collect();
                    prop_assert_eq!(&bytes[..], &want[..]);
                    return Ok(());
                }
                Reassembly::Refused(why) => prop_assert!(false, "{}", why),
            }
            let covered = oracle.iter().filter(|slot| slot.is_some()).count();
            prop_assert_eq!(joiner.bytes(), covered as u64);
        }
    }
}
