//! AES-GCM of ring, which TLS uses as well: several times as fast as the portable code.

use farlink_base::AesGcm;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};

/// AES-GCM for BPSec.
pub(crate) const AES_GCM: AesGcm = AesGcm { seal, open };

fn key(bytes: &[u8]) -> Option<LessSafeKey> {
    let algorithm = if bytes.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
    Some(LessSafeKey::new(UnboundKey::new(algorithm, bytes).ok()?))
}

fn seal(bytes: &[u8], iv: &[u8; 12], aad: &[u8], text: &mut [u8]) -> Option<[u8; 16]> {
    // The caller makes IVs unique per key (RFC 9173 section 4.3.1); ring cannot check that here.
    let nonce = Nonce::assume_unique_for_key(*iv);
    let tag = key(bytes)?.seal_in_place_separate_tag(nonce, Aad::from(aad), text).ok()?;
    tag.as_ref().try_into().ok()
}

fn open(bytes: &[u8], iv: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool {
    let nonce = Nonce::assume_unique_for_key(*iv);
    key(bytes)
        .is_some_and(|key| key.open_in_place_separate_tag(nonce, Aad::from(aad), Tag::from(*tag), text, 0..).is_ok())
}

#[cfg(test)]
mod tests {
    use super::AES_GCM;
    use farlink_base::{EndpointId, Payload, Rng};
    use farlink_bundle::bpsec::{self, Aes, CONFIDENTIALITY, CipherSuite, FLAGS, Header, Scope, Secret, Section};
    use farlink_bundle::{Bundle, CrcType, CreationTimestamp};

    const PAYLOAD: u64 = 1;

    fn sealed(text: &[u8], key: &[u8], iv: [u8; 12], faster: Option<&farlink_base::AesGcm>) -> Bundle {
        let node = EndpointId::ipn(1, 1);
        let creation = CreationTimestamp { time: farlink_base::DtnTime(7), sequence: 1 };
        let bundle = Bundle::new(node.clone(), EndpointId::ipn(2, 1), creation).crc(CrcType::None);
        let mut bundle = bundle.payload(Payload::from(text.to_vec())).build();
        let header = Header { kind: CONFIDENTIALITY, number: 2, flags: FLAGS };
        let suite = CipherSuite { aes: Aes::for_key(key.len()).unwrap(), scope: Scope(7), iv, wrapped: None };
        let block = bpsec::seal(&mut bundle, PAYLOAD, header, &node, &suite, key, faster).unwrap();
        Section { header, block }.insert(&mut bundle);
        bundle
    }

    #[test]
    fn ciphertext_matches_portable_code() {
        let mut rng = Rng::new(5);
        let mut some = |len: u64| (0..len).map(|_| rng.next_u64() as u8).collect::<Vec<u8>>();
        for (key_len, len) in [(16, 0), (32, 1), (16, 15), (32, 4_000), (32, 70_001)] {
            let (key, text) = (some(key_len), some(len));
            let iv: [u8; 12] = some(12).try_into().unwrap();
            let (ours, theirs) = (sealed(&text, &key, iv, Some(&AES_GCM)), sealed(&text, &key, iv, None));
            assert_eq!(ours, theirs, "{len} bytes");
            // The first key has the right length and the wrong bytes: opening with it spoils the text, which must then
            // be restored for the second key.
            let keys = [Secret::new(some(key_len)), Secret::new(key.clone())];
            for faster in [Some(&AES_GCM), None] {
                let mut bundle = ours.clone();
                let section = Section::all(&bundle, CONFIDENTIALITY).next().unwrap().unwrap();
                let wrong = bpsec::open(&mut bundle, &section.block, section.header, PAYLOAD, &keys[..1], faster);
                assert!(wrong.is_err() && bundle == ours, "{len} bytes");
                bpsec::open(&mut bundle, &section.block, section.header, PAYLOAD, &keys, faster).unwrap();
                assert_eq!(bundle.payload.to_bytes().unwrap(), text);
            }
        }
    }
}
