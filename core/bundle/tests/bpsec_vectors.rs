//! The four examples of RFC 9173 appendix A: reproduced byte for byte, read, and attacked.

use farlink_base::{Accel, Bytes, Payload};
use farlink_bundle::bpsec::{
    self, Aes, CONFIDENTIALITY, CipherSuite, HashSuite, Header, INTEGRITY, PAYLOAD, PRIMARY, Scope, Secret, Section,
    SecurityBlock, SecurityFault, SecurityValue, Sha,
};
use farlink_bundle::{BlockFlags, Bundle, EndpointId, Profile, decode};
use serde_json::Value as Json;

fn vectors(name: &str) -> Json {
    let path = format!("{}/../../tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("JSON")
}
fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("digits")).collect()
}
/// Reads permissively: the examples have no CRC on primary blocks.
fn read(hex: &str) -> Bundle {
    decode(&Payload::from(unhex(hex)), Profile::Permissive, &Accel::default()).expect("an example")
}
fn wire(bundle: &Bundle) -> Bytes {
    bundle.encode(&Accel::default()).into_payload().to_bytes().expect("in memory")
}
struct Examples(Json);
impl Examples {
    fn new() -> Examples {
        Examples(vectors("bpsec_rfc9173.json"))
    }
    fn bytes(&self, name: &str) -> Vec<u8> {
        unhex(self.0["common"][name].as_str().expect(name))
    }
    fn key(&self, name: &str) -> Secret {
        Secret::new(self.bytes(name))
    }
    fn case(&self, at: usize) -> &Json {
        &self.0["cases"][at]
    }
    fn bundle(&self, at: usize) -> Bundle {
        read(self.case(at)["bundle_hex"].as_str().expect("a bundle"))
    }
    fn plain(&self) -> Bundle {
        read(self.0["common"]["original_bundle_hex"].as_str().expect("a bundle"))
    }
    fn iv(&self) -> [u8; 12] {
        self.bytes("iv_hex").try_into().expect("12 bytes")
    }
}
fn header(kind: u64, number: u64, flags: u64) -> Header {
    Header { kind, number, flags: BlockFlags(flags) }
}
fn section(bundle: &Bundle, kind: u64) -> Section {
    Section::all(bundle, kind).next().expect("a block").expect("a security block")
}
fn hash_suite(sha: Sha, scope: u16) -> HashSuite {
    HashSuite { sha, scope: Scope(scope), wrapped: None }
}
fn open(bundle: &mut Bundle, target: u64, keys: &[Secret]) -> Result<(), SecurityFault> {
    let bcb = section(bundle, CONFIDENTIALITY);
    bpsec::open(bundle, &bcb.block, bcb.header, target, keys, None)
}
fn check(bundle: &Bundle, target: u64, keys: &[Secret]) -> Result<(), SecurityFault> {
    let bib = section(bundle, INTEGRITY);
    bpsec::check(bundle, &bib.block, bib.header, target, keys)
}
fn plaintext(examples: &Examples) -> Vec<u8> {
    examples.bytes("plaintext_hex")
}

/// Keeps 9172-3.6-1, 9172-3.6-2, 9172-3.11.2-1, 9172-9.1-1, 9173-1-1, 9173-3.1-1, 9173-3.1-2, 9173-3.2-1.
/// Keeps 9173-3.2-2, 9173-3.7-2, 9173-3.7-6, 9173-3.8.1-1, 9173-3.8.1-4, 9173-3.8.1-5, 9173-3.8.1-6, 9173-3.8.1-7.
/// Keeps 9173-3.8.1-8, 9173-3.8.1-9, 9173-3.8.2-1, 9173-3.8.2-5, 9173-3.8.2-6.
#[test]
fn example_a1_payload_integrity() {
    let examples = Examples::new();
    let (mut bundle, key, own) = (examples.plain(), examples.key("hmac_key_hex"), header(INTEGRITY, 2, 0));
    let source = EndpointId::ipn(2, 1);
    let block =
        bpsec::sign(&bundle, &[PAYLOAD], own, &source, &hash_suite(Sha::Sha512, 0), key.bytes()).expect("signed");
    Section { header: own, block }.insert(&mut bundle);
    assert_eq!(wire(&bundle), wire(&examples.bundle(0)));
    assert_eq!(check(&examples.bundle(0), PAYLOAD, &[key]), Ok(()));
}

/// Keeps 9172-3.8-6, 9172-3.11.1-1, 9172-4-4, 9172-5.1.1-11, 9172-9.1-1, 9173-4.1-1, 9173-4.2-1, 9173-4.3.1-2.
/// Keeps 9173-4.3.2-2, 9173-4.3.3-1, 9173-4.4.1-2, 9173-4.4.1-3, 9173-4.7.1-1, 9173-4.7.1-2, 9173-4.7.1-3.
/// Keeps 9173-4.8.1-1, 9173-4.8.1-6, 9173-4.8.1-7, 9173-4.8.1-8, 9173-4.8.1-9, 9173-4.8.1-10, 9173-4.8.1-11.
/// Keeps 9173-4.8.1-12, 9173-4.8.1-13, 9173-4.8.1-14, 9173-4.8.1-15, 9173-4.8.1-16, 9173-4.8.1-17, 9173-4.8.2-1.
/// Keeps 9173-4.8.2-2, 9173-4.8.2-4, 9173-4.8.2-5, 9173-4.8.2-6, 9173-4.8.2-8, 9173-4.8.2-9.
#[test]
fn example_a2_payload_confidentiality_wrapped_key() {
    let examples = Examples::new();
    let (kek, cek, own) = (examples.key("kek_hex"), examples.key("cek128_hex"), header(CONFIDENTIALITY, 2, 1));
    let wrapped = bpsec::wrap_key(kek.bytes(), &cek).expect("wrapped");
    let suite = CipherSuite { aes: Aes::A128, scope: Scope(0), iv: examples.iv(), wrapped: Some(wrapped) };
    let mut bundle = examples.plain();
    let block =
        bpsec::seal(&mut bundle, PAYLOAD, own, &EndpointId::ipn(2, 1), &suite, cek.bytes(), None).expect("enciphered");
    Section { header: own, block }.insert(&mut bundle);
    assert_eq!(wire(&bundle), wire(&examples.bundle(1)));

    let mut bundle = examples.bundle(1);
    assert_eq!(
        open(&mut bundle, PAYLOAD, std::slice::from_ref(&cek)),
        Err(SecurityFault::Mismatch),
        "the key wraps no other"
    );
    assert_eq!(open(&mut bundle, PAYLOAD, &[]), Err(SecurityFault::Key));
    assert_eq!(bundle, examples.bundle(1), "what cannot be deciphered stays as it is");
    assert_eq!(open(&mut bundle, PAYLOAD, &[cek, kek]), Ok(()), "the second fits");
    assert_eq!(bundle.payload.to_bytes().expect("in memory"), plaintext(&examples));
}

/// Keeps 9172-2.2-1, 9172-3.6-16, 9172-3.6-18, 9172-3.6-21, 9172-4-3, 9173-3.1-1, 9173-3.8.2-8.
#[test]
fn example_a3_integrity_of_several_blocks() {
    let examples = Examples::new();
    let mut bundle = read(examples.0["common"]["original_bundle_with_age_hex_A3"].as_str().expect("a bundle"));
    let (mac, cek) = (examples.key("hmac_key_hex"), examples.key("cek128_hex"));
    let (bib, bcb) = (header(INTEGRITY, 3, 0), header(CONFIDENTIALITY, 4, 1));
    let targets = [PRIMARY, 2];
    let suite = hash_suite(Sha::Sha256, 0);
    let hashes = bpsec::sign(&bundle, &targets, bib, &EndpointId::ipn(3, 0), &suite, mac.bytes()).expect("signed");
    let suite = CipherSuite { aes: Aes::A128, scope: Scope(0), iv: examples.iv(), wrapped: None };
    let cipher =
        bpsec::seal(&mut bundle, PAYLOAD, bcb, &EndpointId::ipn(2, 1), &suite, cek.bytes(), None).expect("sealed");
    Section { header: bcb, block: cipher }.insert(&mut bundle);
    Section { header: bib, block: hashes }.insert(&mut bundle);
    assert_eq!(wire(&bundle), wire(&examples.bundle(2)));

    let mut bundle = examples.bundle(2);
    for target in targets {
        assert_eq!(check(&bundle, target, std::slice::from_ref(&mac)), Ok(()), "{target}");
    }
    assert_eq!(check(&bundle, PAYLOAD, &[mac]), Err(SecurityFault::Parameters), "it has no hash");
    assert_eq!(open(&mut bundle, PAYLOAD, &[cek]), Ok(()));
    assert_eq!(bundle.payload.to_bytes().expect("in memory"), plaintext(&examples));
}

/// Keeps 9172-3.9-7, 9173-3.1-1, 9173-3.7-1, 9173-3.7-3, 9173-3.7-4, 9173-3.7-5, 9173-3.8.2-4, 9173-4.7-1.
/// Keeps 9173-4.7.2-1, 9173-4.7.2-2, 9173-4.7.2-3, 9173-4.7.2-4, 9173-4.7.2-5.
#[test]
fn example_a4_full_scope_both_services() {
    let examples = Examples::new();
    let (mac, cek) = (examples.key("hmac_key_hex"), examples.key("cek256_hex"));
    let (bib, bcb, source) = (header(INTEGRITY, 3, 0), header(CONFIDENTIALITY, 2, 1), EndpointId::ipn(2, 1));
    let mut bundle = examples.plain();
    let suite = hash_suite(Sha::Sha384, 7);
    let block = bpsec::sign(&bundle, &[PAYLOAD], bib, &source, &suite, mac.bytes()).expect("signed");
    Section { header: bib, block }.insert(&mut bundle);
    assert_eq!(wire(&bundle), unhex(examples.case(3)["bundle_after_bib_hex"].as_str().expect("a bundle")));
    // The example gives both targets one block and hence one IV, which `seal` never does: build it by hand.
    let suite = CipherSuite { aes: Aes::A256, scope: Scope(7), iv: examples.iv(), wrapped: None };
    let one =
        |bundle: &mut Bundle, target| bpsec::seal(bundle, target, bcb, &source, &suite, cek.bytes(), None).expect("it");
    let (hash, payload) = (one(&mut bundle, 3), one(&mut bundle, PAYLOAD));
    let results = vec![hash.results[0].clone(), payload.results[0].clone()];
    let block = SecurityBlock { targets: vec![3, PAYLOAD], results, ..payload };
    Section { header: bcb, block }.insert(&mut bundle);
    bundle.extensions.swap(0, 1);
    assert_eq!(wire(&bundle), wire(&examples.bundle(3)));

    let mut bundle = examples.bundle(3);
    assert!(Section::all(&bundle, INTEGRITY).all(|bib| bib.is_err()), "the encrypted block does not decode");
    assert_eq!(open(&mut bundle, 3, std::slice::from_ref(&cek)), Ok(()));
    assert_eq!(
        check(&bundle, PAYLOAD, std::slice::from_ref(&mac)),
        Err(SecurityFault::Mismatch),
        "of the payload in clear"
    );
    assert_eq!(open(&mut bundle, PAYLOAD, &[cek]), Ok(()));
    assert_eq!(check(&bundle, PAYLOAD, &[mac]), Ok(()));
    assert_eq!(bundle.payload.to_bytes().expect("in memory"), plaintext(&examples));
}

/// Payload accepted by a receiver that has all keys and requires the example's operations; `None` if one does not
/// verify.
fn accepted(bytes: &[u8], case: usize, examples: &Examples) -> Option<Vec<u8>> {
    let mut bundle = decode(&Payload::from(bytes.to_vec()), Profile::Permissive, &Accel::default()).ok()?;
    let keys: Vec<Secret> =
        ["hmac_key_hex", "cek128_hex", "cek256_hex", "kek_hex"].iter().map(|name| examples.key(name)).collect();
    let one = |bundle: &Bundle, kind| Section::all(bundle, kind).next()?.ok();
    if case > 0 {
        let bcb = one(&bundle, CONFIDENTIALITY)?;
        if case == 3 {
            bpsec::open(&mut bundle, &bcb.block, bcb.header, 3, &keys, None).ok()?;
        }
        bpsec::open(&mut bundle, &bcb.block, bcb.header, PAYLOAD, &keys, None).ok()?;
    }
    if case != 1 {
        let bib = one(&bundle, INTEGRITY)?;
        let targets: &[u64] = if case == 2 { &[PRIMARY, 2] } else { &[PAYLOAD] };
        for target in targets {
            bpsec::check(&bundle, &bib.block, bib.header, *target, &keys).ok()?;
        }
    }
    Some(bundle.payload.to_bytes()?.to_vec())
}

/// Keeps 9173-3.8.2-7, 9173-4.8.2-12, 9173-6.3-1.
#[test]
fn flipped_protected_bit_is_detected() {
    let examples = Examples::new();
    let original = plaintext(&examples);
    for case in 0..4 {
        let bundle = wire(&examples.bundle(case));
        assert_eq!(accepted(&bundle, case, &examples), Some(original.clone()), "case {case}");
        for bit in 0..bundle.len() * 8 {
            let mut changed = bundle.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            // Bits outside every scope may change, but never the payload.
            if let Some(payload) = accepted(&changed, case, &examples) {
                assert_eq!(payload, original, "case {case}, bit {bit}");
            }
        }
    }
    // With the full scope, the primary block must not change either.
    let bundle = wire(&examples.bundle(3));
    // The primary block follows the one byte that opens the bundle.
    let primary = 1..1 + examples.bytes("primary_block_hex").len();
    for bit in primary.start * 8..primary.end * 8 {
        let mut changed = bundle.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(accepted(&changed, 3, &examples), None, "bit {bit} of the primary block");
    }
}

/// Keeps 9172-3.6-16, 9172-3.7-2, 9173-4.3.1-1, 9173-4.3.1-2, 9173-4.3.2-1, 9173-4.3.3-1, 9173-4.3.4-1.
/// Keeps 9173-4.3.4-2, 9173-4.8.2-12.
#[test]
fn wrong_security_parameters_are_faults() {
    let examples = Examples::new();
    let keys = [examples.key("cek128_hex"), examples.key("kek_hex")];
    let mut right = examples.bundle(1);
    let bcb = section(&right, CONFIDENTIALITY);
    assert_eq!(bpsec::open(&mut right, &bcb.block, bcb.header, PAYLOAD, &keys, None), Ok(()));
    for (at, value) in [
        (0, SecurityValue::Uint(1)),
        (0, SecurityValue::Bytes(vec![0; 7])),
        (0, SecurityValue::Bytes(vec![0; 17])),
        (1, SecurityValue::Uint(2)),
        (2, SecurityValue::Uint(0)),
        (2, SecurityValue::Bytes(vec![0; 9])),
        (3, SecurityValue::Uint(65_536)),
        (3, SecurityValue::Other(vec![0xf6])),
    ] {
        let mut bundle = examples.bundle(1);
        let mut bcb = section(&bundle, CONFIDENTIALITY);
        bcb.block.parameters[at].1 = value.clone();
        let opened = bpsec::open(&mut bundle, &bcb.block, bcb.header, PAYLOAD, &keys, None);
        assert_eq!(opened, Err(SecurityFault::Parameters), "{at} {value:?}");
    }
    let mac = [examples.key("hmac_key_hex")];
    let bundle = examples.bundle(0);
    let right = section(&bundle, INTEGRITY);
    assert_eq!(bpsec::check(&bundle, &right.block, right.header, PAYLOAD, &mac), Ok(()));
    for (at, value) in [
        (0, SecurityValue::Uint(4)),
        (0, SecurityValue::Uint(8)),
        (0, SecurityValue::Bytes(vec![7])),
        (1, SecurityValue::Uint(65_536)),
        (1, SecurityValue::Bytes(vec![0])),
    ] {
        let mut bib = section(&bundle, INTEGRITY);
        bib.block.parameters[at].1 = value.clone();
        let checked = bpsec::check(&bundle, &bib.block, bib.header, PAYLOAD, &mac);
        assert_eq!(checked, Err(SecurityFault::Parameters), "{at} {value:?}");
    }
    // A block whose hash function is not valid is refused although it would verify with the default one.
    let (suite, source) = (hash_suite(Sha::default(), 0), EndpointId::ipn(2, 1));
    let mut block = bpsec::sign(&bundle, &[PAYLOAD], right.header, &source, &suite, mac[0].bytes()).expect("signed");
    assert_eq!(bpsec::check(&bundle, &block, right.header, PAYLOAD, &mac), Ok(()));
    for unknown in [SecurityValue::Uint(4), SecurityValue::Bytes(vec![6])] {
        block.parameters[0].1 = unknown;
        assert_eq!(bpsec::check(&bundle, &block, right.header, PAYLOAD, &mac), Err(SecurityFault::Parameters));
    }
    let mut bundle = examples.bundle(1);
    let mut bcb = section(&bundle, CONFIDENTIALITY);
    bcb.block.context = 3;
    assert_eq!(bpsec::open(&mut bundle, &bcb.block, bcb.header, PAYLOAD, &keys, None), Err(SecurityFault::Context));
    assert_eq!(bpsec::check(&bundle, &bcb.block, bcb.header, PAYLOAD, &keys), Err(SecurityFault::Context));
}

/// Keeps 9172-3.6-5.
#[test]
fn missing_security_target_is_fault() {
    let examples = Examples::new();
    let (mac, keys) = ([examples.key("hmac_key_hex")], [examples.key("cek128_hex"), examples.key("kek_hex")]);
    let (mut bundle, source) = (examples.bundle(0), EndpointId::ipn(2, 1));
    let mut bib = section(&bundle, INTEGRITY);
    bib.block.targets[0] = 77;
    assert_eq!(bpsec::check(&bundle, &bib.block, bib.header, 77, &mac), Err(SecurityFault::Target));
    let suite = hash_suite(Sha::Sha256, 0);
    let signed = bpsec::sign(&bundle, &[77], bib.header, &source, &suite, mac[0].bytes());
    assert_eq!(signed.err(), Some(SecurityFault::Target));
    let suite = CipherSuite { aes: Aes::A128, scope: Scope(0), iv: examples.iv(), wrapped: None };
    let sealed = bpsec::seal(&mut bundle, 77, bib.header, &source, &suite, keys[0].bytes(), None);
    assert_eq!(sealed.err(), Some(SecurityFault::Target));
    let mut bundle = examples.bundle(1);
    let mut bcb = section(&bundle, CONFIDENTIALITY);
    bcb.block.targets[0] = 77;
    assert_eq!(bpsec::open(&mut bundle, &bcb.block, bcb.header, 77, &keys, None), Err(SecurityFault::Target));
}

/// Keeps 9172-3.11.1-1, 9173-4.8.2-7, 9173-4.8.2-10.
#[test]
fn tag_appended_to_ciphertext_is_accepted() {
    let examples = Examples::new();
    let mut bundle = examples.bundle(2);
    let mut bcb = section(&bundle, CONFIDENTIALITY);
    let Some((_, SecurityValue::Bytes(tag))) = bcb.block.results[0].pop() else { panic!("a tag") };
    let text = bundle.payload.to_bytes().expect("in memory");
    bundle.set_payload(Payload::from([&text[..], &tag].concat()));
    assert_eq!(bpsec::open(&mut bundle, &bcb.block, bcb.header, PAYLOAD, &[examples.key("cek128_hex")], None), Ok(()));
    assert_eq!(bundle.payload.to_bytes().expect("in memory"), plaintext(&examples), "RFC 9173 4.4.2");
}

/// Keeps 9173-3.1-1, 9173-3.8.2-7, 9173-3.8.2-8, 9173-4.8.2-7, 9173-4.8.2-12, 9173-6.3-1.
#[test]
fn altered_tag_is_refused() {
    // A tag is compared completely: no bit may differ, no byte be missing or added.
    let examples = Examples::new();
    let mac = [examples.key("hmac_key_hex")];
    let cek = [examples.key("cek128_hex"), examples.key("kek_hex")];
    let holds = |case: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bundle = examples.bundle(case);
        let mut part = section(&bundle, if case == 0 { INTEGRITY } else { CONFIDENTIALITY });
        let SecurityValue::Bytes(tag) = &mut part.block.results[0][0].1 else { panic!("a tag is bytes") };
        change(tag);
        match case {
            0 => bpsec::check(&bundle, &part.block, part.header, PAYLOAD, &mac).is_ok(),
            _ => bpsec::open(&mut bundle, &part.block, part.header, PAYLOAD, &cek, None).is_ok(),
        }
    };
    for (case, length) in [(0, 64), (1, 16)] {
        assert!(holds(case, &|tag| assert_eq!(tag.len(), length)));
        for bit in 0..length * 8 {
            assert!(!holds(case, &|tag| tag[bit / 8] ^= 1 << (bit % 8)), "case {case}, bit {bit}");
        }
        for shorter in 0..length {
            assert!(!holds(case, &|tag| tag.truncate(shorter)), "case {case}, {shorter} bytes");
        }
        assert!(!holds(case, &|tag| tag.push(0)), "case {case}, a byte more");
    }
}
