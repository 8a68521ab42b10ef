//! Builder of new bundles that obey RFC 9171 4.2.3.

use crate::{
    BlockData, BlockFlags, Bundle, BundleFlags, CrcType, CreationTimestamp, EndpointId, HopCount, Primary,
    QualityOfService,
};
use alloc::vec::Vec;
use farlink_base::{DtnTime, Payload, Priority};

/// Collects the properties of a new bundle. [`BundleBuilder::build`] cannot fail, because it adjusts combinations that
/// the standard forbids.
#[derive(Clone, Debug)]
pub struct BundleBuilder {
    bundle: Bundle,
}

impl Bundle {
    /// Starts a bundle with a lifetime of one hour, CRC-32C on every block, and no reports.
    #[expect(clippy::new_ret_no_self, reason = "a bundle is made by its builder, which keeps the rules")]
    pub fn new(source: EndpointId, destination: EndpointId, creation: CreationTimestamp) -> BundleBuilder {
        BundleBuilder {
            bundle: Bundle {
                primary: Primary {
                    flags: BundleFlags::default(),
                    crc: CrcType::Crc32c,
                    destination,
                    source,
                    report_to: EndpointId::Null,
                    creation,
                    lifetime_ms: 3_600_000,
                    fragment: None,
                },
                primary_raw: None,
                extensions: Vec::new(),
                payload_flags: BlockFlags::default(),
                payload_crc: CrcType::Crc32c,
                payload_crc_value: None,
                payload: Payload::new(),
            },
        }
    }
}

impl BundleBuilder {
    /// Sets the bundle processing control flags ([`BundleFlags`]).
    pub fn flags(mut self, bits: u64) -> Self {
        // The fragment flag follows from the position, never from the caller.
        self.bundle.primary.flags = BundleFlags(bits & !BundleFlags::FRAGMENT);
        self
    }
    /// Sets the report-to endpoint.
    pub fn report_to(mut self, eid: EndpointId) -> Self {
        self.bundle.primary.report_to = eid;
        self
    }
    /// Sets the lifetime in ms.
    pub fn lifetime_ms(mut self, ms: u64) -> Self {
        self.bundle.primary.lifetime_ms = ms;
        self
    }
    /// Sets the CRC type of the primary and the payload block, and of extension blocks added later. `None` applies to
    /// the payload block only: the primary block always has a CRC (RFC 9171 4.3.1), and extension blocks take its type.
    // 9171-4.3.1-6, 9171-4.3.1-13
    pub fn crc(mut self, crc: CrcType) -> Self {
        self.bundle.payload_crc = crc;
        if crc != CrcType::None {
            self.bundle.primary.crc = crc;
        }
        self
    }
    /// Adds a hop count block; 0 adds none.
    pub fn hop_limit(self, limit: u8) -> Self {
        if limit == 0 { self } else { self.block(BlockData::HopCount(HopCount { limit, count: 0 })) }
    }
    /// Sets the class of service; any but normal adds a QoS block.
    pub fn priority(self, priority: Priority) -> Self {
        if priority == Priority::Normal {
            return self;
        }
        self.block(BlockData::QualityOfService(QualityOfService { priority, ..Default::default() }))
    }
    /// Adds an extension block, or replaces the block of the same type. Does nothing for [`BlockData::Unknown`].
    pub fn block(mut self, data: BlockData) -> Self {
        self.bundle.set_block(data);
        self
    }
    /// Sets the payload.
    pub fn payload(mut self, payload: Payload) -> Self {
        self.bundle.payload = payload;
        self
    }
    /// Returns the bundle. An anonymous one must not be fragmented and requests no reports; an administrative one
    /// requests no reports (RFC 9171 4.2.3); one without creation time gets an age block (4.4.2).
    // 9171-4.2.3-1, 9171-4.2.3-2, 9171-4.4.2-2
    pub fn build(mut self) -> Bundle {
        let primary = &mut self.bundle.primary;
        if primary.source == EndpointId::Null {
            primary.flags.0 |= BundleFlags::NO_FRAGMENT;
            primary.flags.0 &= !BundleFlags::REPORTS;
        }
        if primary.flags.has(BundleFlags::ADMIN) {
            primary.flags.0 &= !BundleFlags::REPORTS;
        }
        if primary.creation.time == DtnTime::UNKNOWN && self.bundle.age_ms().is_none() {
            self.bundle.set_age(0);
        }
        self.bundle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64) -> CreationTimestamp {
        CreationTimestamp { time: DtnTime(time), sequence: 0 }
    }

    /// Keeps 9171-4.2.3-1, 9171-4.2.3-2, 9171-4.3.1-6, 9171-4.3.1-13, 9171-4.4.2-2.
    #[test]
    fn what_the_standard_forbids_is_adjusted() {
        let anonymous = Bundle::new(EndpointId::Null, EndpointId::ipn(2, 1), at(5)).flags(BundleFlags::REPORTS).build();
        assert_eq!(anonymous.primary.flags, BundleFlags(BundleFlags::NO_FRAGMENT));
        let flags = BundleFlags::ADMIN | BundleFlags::REPORT_DELETION | BundleFlags::FRAGMENT;
        let record = Bundle::new(EndpointId::ipn(1, 0), EndpointId::ipn(2, 0), at(5)).flags(flags).build();
        assert_eq!(record.primary.flags, BundleFlags(BundleFlags::ADMIN));
        let clockless = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), at(0)).build();
        assert_eq!(clockless.age_ms(), Some(0));
        let plain = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), at(5)).crc(CrcType::None).build();
        assert_eq!((plain.primary.crc, plain.payload_crc), (CrcType::Crc32c, CrcType::None));
    }

    #[test]
    fn default_priority_and_hops_add_no_blocks() {
        let builder = || Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), at(5));
        assert!(builder().priority(Priority::Normal).hop_limit(0).build().extensions.is_empty());
        let bundle = builder().priority(Priority::Expedited).hop_limit(4).build();
        assert_eq!((bundle.priority(), bundle.hop_count().map(|hops| hops.limit)), (Priority::Expedited, Some(4)));
    }
}
