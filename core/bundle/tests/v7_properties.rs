//! The engine's codec compared with the view for tools, on random bundles.

use crate::common::bundle;
use crate::common::fragment::fragment;
use farlink_base::{Accel, BundleMeta, Bytes, BytesMut, HopState, Malformed, Payload};
use farlink_bundle::{BlockData, BlockFlags, Bundle, EndpointId, Profile, decode, v7};
use proptest::prelude::*;

fn wire(bundle: &Bundle) -> Bytes {
    bundle.encode(&Accel::default()).into_payload().to_bytes().unwrap()
}
/// Removes the blocks a node does not keep: those to be discarded, and a null previous node.
fn kept(mut bundle: Bundle) -> Bundle {
    bundle.extensions.retain(|block| match &block.data {
        BlockData::Unknown(_) => !block.flags.has(BlockFlags::DISCARD) || block.flags.has(BlockFlags::DELETE_BUNDLE),
        BlockData::PreviousNode(node) => !node.is_null(),
        _ => true,
    });
    bundle
}
fn read(bytes: &Bytes, profile: Profile) -> Result<(BundleMeta, HopState), Malformed> {
    v7::read(&Payload::from(bytes.clone()), profile, &Accel::default())
}
fn render(meta: &BundleMeta, hop: &HopState, cut: Option<std::ops::Range<u64>>) -> Bytes {
    let accel = Accel::default();
    let mut out = BytesMut::new();
    let encoded = v7::render(meta, hop, cut.clone(), &accel, &mut out);
    assert_eq!(encoded.len(), v7::size(meta, hop, cut.clone()));
    let bytes = encoded.into_payload().to_bytes().unwrap();
    let mut flat = BytesMut::from(&b"before"[..]);
    assert!(v7::append(meta, hop, cut, &accel, &mut flat));
    assert_eq!(&flat[6..], &bytes[..]);
    bytes
}
/// All results of a reader, in comparable form.
fn all(read: &(BundleMeta, HopState)) -> String {
    let payload = read.0.payload.to_bytes();
    let meta = BundleMeta { payload: Payload::new(), ..read.0.clone() };
    format!("{meta:?} {:?} {payload:?}", read.1)
}

proptest! {
    /// Keeps 9171-4.2.8-1, 9171-4.3.1-2, 9171-4.3.1-3.
    #[test]
    fn unchanged_bundle_round_trips(bundle in bundle()) {
        let bundle = kept(bundle);
        let bytes = wire(&bundle);
        let (meta, hop) = read(&bytes, Profile::Strict).unwrap();
        prop_assert_eq!(render(&meta, &hop, None), bytes.clone());
        prop_assert_eq!(render(&meta, &hop, Some(0..u64::MAX)), bytes.clone(), "all of it is no cut");
        prop_assert_eq!(meta.size(), bytes.len() as u64);
        prop_assert_eq!(meta.identity(), bundle.id());
        prop_assert_eq!(meta.id, bundle.id().fingerprint());
        prop_assert_eq!(hop.labels, bundle.labels());
        prop_assert_eq!(meta.priority, bundle.priority());
        let (head, tail) = (Bytes::from(meta.head.to_vec()), v7::tail(&meta));
        let parts = v7::read_parts(&head, meta.payload.clone(), &tail, Profile::Strict, &Accel::default());
        prop_assert_eq!(all(&parts.unwrap()), all(&(meta, hop)));
    }

    /// Keeps 9171-5.6-5.
    #[test]
    fn only_discardable_blocks_are_dropped(bundle in bundle()) {
        let (meta, hop) = read(&wire(&bundle), Profile::Strict).unwrap();
        prop_assert_eq!(render(&meta, &hop, None), wire(&kept(bundle)));
    }

    /// Keeps 9171-4.3.1-2, 9171-4.4-1, 9171-5.4-7, 9171-5.4-9.
    #[test]
    fn render_matches_bundle_view_changes(
        bundle in bundle(), node in 1u64.., age in any::<u64>(), hops in any::<u8>(),
        labels in prop::option::of(any::<[u32; 2]>()), named in any::<bool>(),
    ) {
        let bytes = wire(&kept(bundle));
        let (meta, _) = read(&bytes, Profile::Strict).unwrap();
        let previous = if named { EndpointId::dtn("relay", "") } else { EndpointId::ipn(node, 0) };
        let hop = HopState { previous: previous.clone(), age_ms: age, hops, labels, ..HopState::default() };
        let mut tool = decode(&Payload::from(bytes), Profile::Strict, &Accel::default()).unwrap();
        // Removed blocks free their numbers for added ones.
        if labels.is_none() {
            tool.remove_blocks_of(240);
        }
        tool.set_previous_node(previous);
        if tool.age_ms().is_some() {
            tool.set_age(age);
        }
        if let Some(mut count) = tool.hop_count() {
            count.count = if count.count.min(255) == u64::from(hops) { count.count } else { u64::from(hops) };
            tool.set_block(BlockData::HopCount(count));
        }
        labels.into_iter().for_each(|labels| tool.set_labels(labels));
        prop_assert_eq!(render(&meta, &hop, None), wire(&tool));
    }

    #[test]
    fn incremental_read_matches_whole_read(
        bundle in bundle(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let bytes = wire(&bundle);
        let want = read(&bytes, Profile::Strict).unwrap();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).chain([bytes.len()]).collect();
        ends.sort_unstable();
        let (mut rope, mut from, mut begun) = (Payload::new(), 0, None);
        for end in ends {
            let piece = bytes.slice(from..end);
            from = end;
            rope.push_bytes(piece);
            if begun.is_none() {
                begun = v7::begin(&rope, Profile::Strict, &Accel::default()).unwrap();
            }
        }
        let mut begun = begun.unwrap();
        let (at, len) = (begun.payload_at as usize, begun.payload_len as usize);
        let payload = bytes.slice(at..at + len);
        prop_assert_eq!(begun.meta.payload.len(), len as u64);
        prop_assert!(len == 0 || begun.check.finish(&bytes[at + len..]).is_err(), "the payload has not come");
        let half = len / 2;
        begun.check.update(&payload[..half]);
        prop_assert_eq!(begun.check.remaining(), (len - half) as u64);
        begun.check.update_rope(&Payload::from(payload.slice(half..)));
        let tail = begun.check.finish(&bytes[at + len..]).unwrap();
        prop_assert_eq!(bytes.len() - at - len, usize::from(begun.meta.tail_len));
        prop_assert_eq!(all(&begun.complete(Payload::from(payload), tail)), all(&want));
        prop_assert_eq!(all(&v7::read(&rope, Profile::Strict, &Accel::default()).unwrap()), all(&want));
    }

    /// Keeps 9171-4.3.1-1, 9171-4.3.1-9, 9171-4.3.1-10, 9171-4.3.1-11, 9171-4.3.1-12, 9171-5.8-1.
    /// Keeps 9171-5.8-2, 9171-5.8-5, 9171-5.8-6, 9171-5.8-7.
    #[test]
    fn rendered_fragments_match_bundle_view(
        bundle in bundle(), first in any::<prop::sample::Index>(), second in any::<prop::sample::Index>(),
    ) {
        let bundle = kept(bundle);
        let len = bundle.payload.len();
        let at = first.index(len.max(1) as usize) as u64;
        let Some((one, rest)) = fragment(&bundle, at) else { return Ok(()) };
        let again = 1 + second.index((len - at) as usize) as u64;
        let mut ranges = vec![(0..at, one)];
        match fragment(&rest, again) {
            None => ranges.push((at..len, rest)),
            Some((two, three)) => ranges.extend([(at..at + again, two), (at + again..len, three)]),
        }
        let whole = read(&wire(&bundle), Profile::Strict).unwrap();
        for (range, mut piece) in ranges {
            // Every fragment carries previous node and labels for the next hop.
            if !whole.1.previous.is_null() {
                piece.set_previous_node(whole.1.previous.clone());
            }
            if let Some(labels) = whole.1.labels {
                piece.set_labels(labels);
            }
            let bytes = render(&whole.0, &whole.1, Some(range.clone()));
            prop_assert_eq!(&bytes, &wire(&piece), "{:?}", range);
            // A fragment is fragmented like any bundle.
            let (meta, hop) = read(&bytes, Profile::Strict).unwrap();
            prop_assert_eq!(meta.original_id(), whole.0.id);
            let half = (range.end - range.start) / 2;
            if half > 0 {
                let inside = render(&meta, &hop, Some(half..u64::MAX));
                prop_assert_eq!(inside, render(&whole.0, &whole.1, Some(range.start + half..range.end)));
            }
        }
    }

    /// Keeps 9171-5.8-3, 9171-5.9-1.
    #[test]
    fn whole_restores_fragmented_bundle(bundle in bundle(), at in any::<prop::sample::Index>()) {
        let bundle = kept(bundle);
        let at = at.index(bundle.payload.len().max(1) as usize) as u64;
        let bytes = wire(&bundle);
        let (meta, hop) = read(&bytes, Profile::Strict).unwrap();
        if at == 0 || !meta.may_fragment() {
            return Ok(());
        }
        let (first, came) = read(&render(&meta, &hop, Some(0..at)), Profile::Strict).unwrap();
        let whole = v7::whole(&first, meta.payload.clone(), &Accel::default());
        prop_assert_eq!(all(&(whole.clone(), came.clone())), all(&(meta, hop)));
        prop_assert_eq!(render(&whole, &came, None), bytes);
    }

    #[test]
    fn damage_verdict_matches_bundle_view(
        bundle in bundle(), at in any::<prop::sample::Index>(), to in any::<u8>(), end in any::<prop::sample::Index>(),
    ) {
        let accel = Accel::default();
        let mut bytes = wire(&bundle).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = to;
        for len in [bytes.len(), end.index(bytes.len())] {
            let rope = Payload::from(bytes[..len].to_vec());
            for profile in [Profile::Strict, Profile::Permissive] {
                let tool = decode(&rope, profile, &accel);
                let read = v7::read(&rope, profile, &accel);
                prop_assert_eq!(tool.as_ref().err(), read.as_ref().err());
                let begun = v7::begin(&rope, profile, &accel);
                prop_assert!(read.is_err() || begun.as_ref().is_ok_and(Option::is_some));
                if let Ok((meta, hop)) = read {
                    let written = render(&meta, &hop, None);
                    render(&meta, &hop, Some(1..3));
                    prop_assert!(v7::read(&Payload::from(written), Profile::Permissive, &accel).is_ok());
                }
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 1..200)) {
        for first in [bytes[0], 0x9f] {
            bytes[0] = first;
            let rope = Payload::from(bytes.clone());
            let _ = v7::read(&rope, Profile::Permissive, &Accel::default());
            let _ = v7::begin(&rope, Profile::Permissive, &Accel::default());
            let _ = v7::record(&bytes);
        }
    }

    #[test]
    fn corrupt_head_renders_without_panic(
        bundle in bundle(), at in any::<prop::sample::Index>(), to in any::<u8>(), end in any::<prop::sample::Index>(),
    ) {
        let (mut meta, hop) = read(&wire(&bundle), Profile::Strict).unwrap();
        let at = at.index(meta.head.len());
        meta.head[at] = to;
        render(&meta, &hop, None);
        meta.head = meta.head[..end.index(meta.head.len())].into();
        render(&meta, &hop, None);
        render(&meta, &hop, Some(1..2));
        v7::whole(&meta, meta.payload.clone(), &Accel::default());
    }
}
