//! Identity of a bundle from its first bytes, for tools that watch bundles pass.

use crate::cbor::CborReader;
use crate::fields::read_primary;
use crate::{CreationTimestamp, EndpointId, Profile, v6};
use farlink_base::{Accel, Malformed};

/// Identity of a bundle from its primary block alone, hence without the payload length of a fragment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeekedIdentity {
    /// Version of the bundle protocol.
    pub version: u8,
    /// Source endpoint.
    pub source: EndpointId,
    /// Creation timestamp.
    pub creation: CreationTimestamp,
    /// Offset of a fragment in the payload of the whole bundle, bytes.
    pub fragment_offset: Option<u64>,
}

/// Reads the identity of the bundle that starts with these bytes; its primary block suffices.
///
/// # Errors
///
/// The bytes are not a bundle, or its primary block is damaged or incomplete.
pub fn peek_identity(head: &[u8], accel: &Accel) -> Result<PeekedIdentity, Malformed> {
    if head.first() == Some(&v6::VERSION) {
        return v6::peek_identity(head);
    }
    let mut reader = CborReader::new(head, 0, false);
    if reader.take(1)? != [0x9f] {
        return reader.error_at(0, crate::head::NOT_A_BUNDLE);
    }
    let primary = read_primary(&mut reader, head, Profile::Permissive, accel)?;
    let fragment_offset = primary.fragment.map(|fragment| fragment.offset);
    Ok(PeekedIdentity { version: 7, source: primary.source, creation: primary.creation, fragment_offset })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bundle;
    use farlink_base::Payload;

    fn bundle() -> Bundle {
        let creation = CreationTimestamp { sequence: 7, ..CreationTimestamp::default() };
        let made = Bundle::new(EndpointId::dtn("a", "b"), EndpointId::ipn(2, 1), creation);
        made.payload(Payload::fill(7, 10_000)).build()
    }

    #[test]
    fn identity_needs_only_the_primary_block() {
        let accel = Accel::default();
        let (bundle, mut head) = (bundle(), [0; 100]);
        bundle.encode(&accel).into_payload().copy_to(0, &mut head);
        let peeked = peek_identity(&head, &accel).unwrap();
        let id = bundle.id();
        assert_eq!((peeked.version, peeked.source, peeked.creation), (7, id.source, id.creation));
        assert_eq!(peeked.fragment_offset, None);
        for cut in 0..20 {
            assert!(peek_identity(&head[..cut], &accel).is_err(), "cut to {cut}");
        }
    }

    #[test]
    fn old_identity_has_fragment_offset() {
        let mut old = [6, 1, 16, 2, 1, 3, 4, 2, 1, 0, 0, 9, 5, 60, 0, 0x82, 0x2c, 0x84, 0x10, 1, 8, 0];
        let peeked = peek_identity(&old, &Accel::default()).unwrap();
        assert_eq!((peeked.version, peeked.source, peeked.fragment_offset), (6, EndpointId::ipn(3, 4), Some(300)));
        assert_eq!((peeked.creation.time.0, peeked.creation.sequence), (9000, 5));
        old[1] = 0;
        assert!(peek_identity(&old, &Accel::default()).is_err(), "longer than its fields");
        assert!(peek_identity(b"no bundle", &Accel::default()).is_err());
    }
}
