//! Repair of CRCs, so that mutated bundles are not all rejected for the same reason.

use farlink_base::Accel;
use farlink_bundle::cbor::CborReader;

/// Corrects the CRC of every block that has one (RFC 9171 section 4.2.2), up to the first bytes that are no block.
pub fn mend(bundle: &mut [u8]) {
    let mut at = 1;
    while let Some(len) = bundle.get(at..).and_then(|rest| CborReader::new(rest, 0, false).item().ok().map(<[u8]>::len))
    {
        mend_block(&mut bundle[at..at + len], at == 1);
        at += len;
    }
}

/// Corrects the CRC of one block, if the block has one at its end.
fn mend_block(block: &mut [u8], primary: bool) {
    let accel = Accel::default();
    let Some((kind, value)) = crc_of(block, primary) else { return };
    // The CRC covers the block with zeros in place of its value.
    block[value..].fill(0);
    match kind {
        1 => {
            let crc = (accel.crc16_x25)(0, block);
            block[value..].copy_from_slice(&crc.to_be_bytes());
        }
        _ => {
            let crc = (accel.crc32c)(0, block);
            block[value..].copy_from_slice(&crc.to_be_bytes());
        }
    }
}

/// CRC type of a block, and the offset of the CRC value, which ends the block; `None` if the block has no CRC or is
/// malformed.
fn crc_of(block: &[u8], primary: bool) -> Option<(u64, usize)> {
    let mut reader = CborReader::new(block, 0, false);
    let items = reader.array().ok()?;
    // The CRC type follows version and flags, or type, number and flags.
    let before = if primary { 2 } else { 3 };
    (0..before).try_for_each(|_| reader.item().map(drop)).ok()?;
    let kind = reader.uint().ok()?;
    (before + 2..items).try_for_each(|_| reader.item().map(drop)).ok()?;
    let width = reader.bytes_head().ok()?;
    let fits = matches!((kind, width), (1, 2) | (2, 4)) && (block.len() - reader.position()) as u64 == width;
    fits.then_some((kind, reader.position()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{CreationTimestamp, Payload};
    use farlink_bundle::{Bundle, EndpointId, Profile, decode};

    fn read(bytes: &[u8]) -> Result<Bundle, &'static str> {
        let rope = Payload::from(bytes.to_vec());
        decode(&rope, Profile::Permissive, &Accel::default()).map_err(|error| error.reason)
    }

    #[test]
    fn mending_restores_crc_after_change() {
        let creation = CreationTimestamp::default();
        let bundle = Bundle::new(EndpointId::ipn(1, 1), EndpointId::ipn(2, 1), creation);
        let payload = Payload::from(vec![7; 100]);
        let good =
            bundle.payload(payload).build().encode(&Accel::default()).into_payload().to_bytes().unwrap().to_vec();
        let mut bytes = good.clone();
        mend(&mut bytes);
        assert_eq!(bytes, good);
        // Nearly every changed byte must break a CRC before mending, and none after it.
        let mut wrong = (0, 0);
        for at in 1..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            let is_crc = |bytes: &[u8]| read(bytes).is_err_and(|reason| reason.ends_with("CRC is wrong"));
            wrong.0 += usize::from(is_crc(&bytes));
            mend(&mut bytes);
            wrong.1 += usize::from(is_crc(&bytes));
        }
        assert!(wrong.0 > 100 && wrong.1 == 0, "{wrong:?}");
    }

    #[test]
    fn mending_leaves_invalid_bytes_alone() {
        for bytes in
            [&[][..], &[0x9f], &[0x9f, 0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], &[0x9f, 0x80, 0x81]]
        {
            let mut mended = bytes.to_vec();
            mend(&mut mended);
            assert_eq!(mended, bytes);
        }
    }
}
