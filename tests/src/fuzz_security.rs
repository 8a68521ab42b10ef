//! Fuzz targets of bundle security.

use farlink_base::{Accel, Payload};
use farlink_bundle::bpsec::{self, CONFIDENTIALITY, INTEGRITY, Secret, Section, SecurityBlock};
use farlink_bundle::{Profile, decode};

/// The keys of the examples of RFC 9173.
const KEYS: [&[u8]; 3] = [b"abcdefghijklmnop", b"qwertyuiopasdfghqwertyuiopasdfgh", &[0x1a, 0x2b, 0x1a, 0x2b]];

/// The data of a security block: parsed data encodes again, no longer than before except for another spelling of a
/// name.
pub fn security_block(data: &[u8]) {
    let Ok(block) = SecurityBlock::decode(data) else { return };
    let again = block.encode();
    assert!(again.len() <= data.len() + 16, "an endpoint ID may have a longer form");
    assert_eq!(SecurityBlock::decode(&again), Ok(block));
}

/// A bundle with security blocks: every operation is tried, and a failed one changes nothing.
pub fn secured_bundle(data: &[u8]) {
    let accel = Accel::default();
    let Ok(mut bundle) = decode(&Payload::from(data.to_vec()), Profile::Permissive, &accel) else { return };
    let keys = KEYS.map(|key| Secret::new(key.to_vec()));
    for bcb in Section::all(&bundle, CONFIDENTIALITY).filter_map(Result::ok).collect::<Vec<_>>() {
        for target in &bcb.block.targets {
            let before = bundle.clone();
            if bpsec::open(&mut bundle, &bcb.block, bcb.header, *target, &keys, None).is_err() {
                assert_eq!(bundle, before);
            }
        }
    }
    for bib in Section::all(&bundle, INTEGRITY).filter_map(Result::ok).collect::<Vec<_>>() {
        for target in &bib.block.targets {
            let _ = bpsec::check(&bundle, &bib.block, bib.header, *target, &keys);
        }
    }
    let meta = farlink_bundle::v7::read(&Payload::from(data.to_vec()), Profile::Permissive, &accel);
    let secured = bundle.extensions.iter().any(|block| matches!(block.kind, INTEGRITY | CONFIDENTIALITY));
    if let Ok((meta, _)) = meta {
        assert_eq!(bpsec::is_secured(&meta.head), secured);
    }
}
