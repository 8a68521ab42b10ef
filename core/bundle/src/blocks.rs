//! Access to extension blocks of a bundle in memory (RFC 9171 4.4).

use crate::{BlockData, BlockFlags, Bundle, BundleFlags, EndpointId, ExtensionBlock, HopCount, QualityOfService};
use alloc::vec::Vec;
use farlink_base::{Payload, Priority};

impl BlockData {
    /// Block type code; `None` for [`BlockData::Unknown`].
    pub fn kind(&self) -> Option<u64> {
        Some(match self {
            BlockData::PreviousNode(_) => 6,
            BlockData::Age(_) => 7,
            BlockData::HopCount(_) => 10,
            BlockData::QualityOfService(_) => 193,
            BlockData::Labels(_) => 240,
            BlockData::Unvouched => 241,
            BlockData::Unknown(_) => return None,
        })
    }
}

impl Bundle {
    /// First value that `pick` extracts from the blocks.
    fn find<'a, T>(&'a self, pick: impl Fn(&'a BlockData) -> Option<T>) -> Option<T> {
        self.extensions.iter().find_map(|block| pick(&block.data))
    }

    /// Previous node (RFC 9171 4.4.1).
    pub fn previous_node(&self) -> Option<&EndpointId> {
        self.find(|data| if let BlockData::PreviousNode(eid) = data { Some(eid) } else { None })
    }
    /// Age in ms (RFC 9171 4.4.2).
    pub fn age_ms(&self) -> Option<u64> {
        self.find(|data| if let BlockData::Age(age) = data { Some(*age) } else { None })
    }
    /// Hop count (RFC 9171 4.4.3).
    pub fn hop_count(&self) -> Option<HopCount> {
        self.find(|data| if let BlockData::HopCount(hops) = data { Some(*hops) } else { None })
    }
    /// Quality of service (ION, type 193).
    pub fn qos(&self) -> Option<QualityOfService> {
        self.find(|data| if let BlockData::QualityOfService(qos) = data { Some(*qos) } else { None })
    }
    /// Class of service; normal without a QoS block.
    pub fn priority(&self) -> Priority {
        self.qos().map_or(Priority::Normal, |qos| qos.priority)
    }
    /// Labels of the router and of the congestion control (type 240).
    pub fn labels(&self) -> Option<[u32; 2]> {
        self.find(|data| if let BlockData::Labels(labels) = data { Some(*labels) } else { None })
    }

    /// Replaces the data of the block of this type, or adds such a block. Does nothing for [`BlockData::Unknown`],
    /// which has no type.
    pub fn set_block(&mut self, data: BlockData) {
        let Some(kind) = data.kind() else { return };
        if let Some(block) = self.extensions.iter_mut().find(|block| block.kind == kind) {
            // An unchanged block keeps its bytes as received.
            if block.data != data {
                block.data = data;
                block.raw = None;
            }
            return;
        }
        // Every fragment needs its age, hop limit, priority and labels, so these blocks are replicated. The previous
        // node block need not be: every hop writes its own.
        let flags = match data {
            BlockData::PreviousNode(_) | BlockData::Unknown(_) => BlockFlags::default(),
            BlockData::Age(_)
            | BlockData::HopCount(_)
            | BlockData::QualityOfService(_)
            | BlockData::Labels(_)
            | BlockData::Unvouched => BlockFlags(BlockFlags::REPLICATE),
        };
        let number = self.free_block_number();
        self.extensions.push(ExtensionBlock { kind, number, flags, crc: self.primary.crc, data, raw: None });
    }
    /// Smallest unused block number, at least 2.
    pub fn free_block_number(&self) -> u64 {
        let mut used: Vec<u64> = self.extensions.iter().map(|block| block.number).collect();
        used.sort_unstable();
        used.iter().fold(2, |free, number| if *number == free { free + 1 } else { free })
    }
    /// Sets the previous node block.
    pub fn set_previous_node(&mut self, node: EndpointId) {
        self.set_block(BlockData::PreviousNode(node));
    }
    /// Sets the age in ms, adding an age block if the bundle has no such block.
    pub fn set_age(&mut self, age_ms: u64) {
        self.set_block(BlockData::Age(age_ms));
    }
    /// Increments the hop count. Returns false if it now exceeds the limit (RFC 9171 5.4 step 4), true without a hop
    /// count block.
    pub fn increment_hop(&mut self) -> bool {
        let Some(hops) = self.hop_count() else { return true };
        let hops = HopCount { count: hops.count.saturating_add(1), ..hops };
        self.set_block(BlockData::HopCount(hops));
        hops.count <= u64::from(hops.limit)
    }
    /// Sets the labels of the router and of the congestion control.
    pub fn set_labels(&mut self, labels: [u32; 2]) {
        self.set_block(BlockData::Labels(labels));
    }
    /// Sets the quality of service.
    pub fn set_qos(&mut self, qos: QualityOfService) {
        self.set_block(BlockData::QualityOfService(qos));
    }
    /// Removes the block with this number. Returns whether it existed.
    pub fn remove_block(&mut self, number: u64) -> bool {
        let before = self.extensions.len();
        self.extensions.retain(|block| block.number != number);
        self.extensions.len() != before
    }
    /// Removes every block of this type. Returns whether any existed.
    pub fn remove_blocks_of(&mut self, kind: u64) -> bool {
        let before = self.extensions.len();
        self.extensions.retain(|block| block.kind != kind);
        self.extensions.len() != before
    }
    /// Blocks of unknown type, in wire order, with the flags that rule their processing (RFC 9171 5.6 step 4).
    pub fn unprocessable(&self) -> impl Iterator<Item = (&ExtensionBlock, BlockFlags)> {
        self.extensions
            .iter()
            .filter(|block| matches!(block.data, BlockData::Unknown(_)))
            .map(|block| (block, block.flags))
    }
    /// Replaces the payload.
    pub fn set_payload(&mut self, payload: Payload) {
        self.payload = payload;
        // The received CRC covers the old payload.
        self.payload_crc_value = None;
    }
    /// Whether the bundle may be fragmented (RFC 9171 4.2.3) and has more than one byte of payload.
    // 9171-5.8-1
    pub fn may_fragment(&self) -> bool {
        !self.primary.flags.has(BundleFlags::NO_FRAGMENT) && self.payload.len() > 1
    }
    /// Whether all of these reports ([`BundleFlags`]) are requested. Requests of anonymous and administrative bundles
    /// are void (RFC 9171 4.2.3).
    pub fn wants_report(&self, bits: u64) -> bool {
        self.primary.flags.has(bits) && !self.is_administrative() && !self.primary.source.is_null()
    }
    /// Whether the payload is an administrative record.
    pub fn is_administrative(&self) -> bool {
        self.primary.flags.has(BundleFlags::ADMIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CrcType, CreationTimestamp};
    use farlink_base::{Accel, Bytes, DtnTime};

    fn bundle() -> Bundle {
        let creation = CreationTimestamp { time: DtnTime(7), sequence: 0 };
        Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), creation)
            .hop_limit(2)
            .payload(Payload::from(&b"data"[..]))
            .build()
    }

    #[test]
    fn increment_hop_reports_exceeded_limit() {
        let mut bundle = bundle();
        assert!(bundle.increment_hop() && bundle.increment_hop());
        assert!(!bundle.increment_hop(), "RFC 9171 4.4.3: the count is greater than the limit");
        bundle.remove_blocks_of(10);
        assert!(bundle.increment_hop(), "nothing to count in");
    }

    #[test]
    fn only_changed_blocks_are_reencoded() {
        let accel = Accel::default();
        let mut sent = bundle();
        sent.set_previous_node(EndpointId::ipn(1, 0));
        let wire = sent.encode(&accel).into_payload();
        let mut bundle = crate::decode(&wire, crate::Profile::Strict, &accel).unwrap();
        bundle.set_previous_node(EndpointId::ipn(1, 0));
        assert!(bundle.extensions.iter().all(|block| block.raw.is_some()), "the same data is no change");
        bundle.set_previous_node(EndpointId::ipn(9, 0));
        bundle.set_age(5);
        let raw = |bundle: &Bundle| bundle.extensions.iter().map(|block| block.raw.is_some()).collect::<Vec<_>>();
        assert_eq!(raw(&bundle), [true, false, false]);
        let again = crate::decode(&bundle.encode(&accel).into_payload(), crate::Profile::Strict, &accel).unwrap();
        assert_eq!((again.previous_node(), again.age_ms()), (Some(&EndpointId::ipn(9, 0)), Some(5)));
    }

    #[test]
    fn removed_block_number_is_reused() {
        let mut bundle = bundle();
        bundle.set_age(1);
        assert_eq!(bundle.free_block_number(), 4);
        assert!(bundle.remove_block(2) && !bundle.remove_block(2));
        assert_eq!(bundle.free_block_number(), 2);
        bundle.set_labels([3, 0]);
        assert_eq!(bundle.labels(), Some([3, 0]));
    }

    #[test]
    fn unprocessable_lists_unknown_blocks_and_flags() {
        let mut bundle = bundle();
        let (data, flags) = (BlockData::Unknown(Bytes::new()), BlockFlags(BlockFlags::DISCARD));
        bundle.extensions.push(ExtensionBlock { kind: 99, number: 9, flags, crc: CrcType::None, data, raw: None });
        assert_eq!(
            bundle.unprocessable().map(|(block, flags)| (block.number, flags)).collect::<Vec<_>>(),
            [(9, flags)]
        );
    }
}
