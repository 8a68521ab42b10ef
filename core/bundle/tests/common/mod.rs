//! Strategies for random bundles.

pub mod fragment;

use farlink_base::{Bytes, DtnTime, OtherName, Payload, Priority};
use farlink_bundle::{
    BlockData, BlockFlags, Bundle, BundleFlags, CrcType, CreationTimestamp, EndpointId, ExtensionBlock, HopCount,
    QualityOfService,
};
use proptest::prelude::*;
use std::sync::Arc;

fn eid() -> impl Strategy<Value = EndpointId> {
    prop_oneof![
        Just(EndpointId::Null),
        (1u64.., any::<u32>()).prop_map(|(node, service)| EndpointId::ipn(node, service)),
        ("[a-z][a-z0-9.-]{0,12}", "[!-~]{0,12}").prop_map(|(node, demux)| EndpointId::dtn(&node, &demux)),
        (4u64..90).prop_map(|scheme| {
            EndpointId::Other(Arc::new(OtherName { scheme, part: vec![0x82, 1, 0x63, b'a', b'b', b'c'] }))
        }),
    ]
}
fn crc() -> impl Strategy<Value = CrcType> {
    prop_oneof![Just(CrcType::None), Just(CrcType::Crc16), Just(CrcType::Crc32c)]
}
fn data() -> impl Strategy<Value = BlockData> {
    prop_oneof![
        eid().prop_map(BlockData::PreviousNode),
        any::<u64>().prop_map(BlockData::Age),
        (1u8.., any::<u64>()).prop_map(|(limit, count)| BlockData::HopCount(HopCount { limit, count })),
        (any::<u8>(), any::<u64>()).prop_map(|(ordinal, label)| {
            BlockData::QualityOfService(QualityOfService { flags: 4, priority: Priority::Expedited, ordinal, label })
        }),
        any::<[u32; 2]>().prop_map(BlockData::Labels),
    ]
}
prop_compose! {
    pub fn bundle()(
        source in eid(), destination in eid(), report_to in eid(),
        time in any::<u64>(), sequence in any::<u64>(), lifetime in any::<u64>(),
        flags in any::<u64>(), crc in crc(),
        blocks in prop::collection::vec(data(), 0..4),
        unknown in prop::collection::vec(
            (14u64..190, prop::sample::select(vec![0x11, 0, 1, 0x10, 0x14, 4]), crc(), prop::collection::vec(any::<u8>(), 0..40)),
            0..3,
        ),
        payload in prop::collection::vec(any::<u8>(), 0..600),
    ) -> Bundle {
        let creation = CreationTimestamp { time: DtnTime(time), sequence };
        let flags = flags & !(BundleFlags::FRAGMENT | BundleFlags::NO_FRAGMENT);
        let mut builder = Bundle::new(source, destination, creation).flags(flags).crc(crc);
        builder = builder.report_to(report_to).lifetime_ms(lifetime).payload(Payload::from(payload));
        for block in blocks {
            builder = builder.block(block);
        }
        let mut bundle = builder.build();
        for (kind, flags, crc, data) in unknown {
            let number = bundle.free_block_number();
            let data = BlockData::Unknown(Bytes::from(data));
            bundle.extensions.push(ExtensionBlock { kind, number, flags: BlockFlags(flags), crc, data, raw: None });
        }
        bundle
    }
}
