//! Effects of rules on bundles that are made, pass and arrive.

use super::*;
use alloc::string::String;
use alloc::vec;
use farlink_base::security::PRIMARY;
use farlink_base::{BytesMut, CreationTimestamp, DtnTime, HopState, Priority};
use farlink_bundle::bpsec::{INTEGRITY, Scope, Section, SecurityBlock, SecurityFault, SecurityValue, Sha};
use farlink_bundle::{BlockData, BlockFlags, ExtensionBlock};

fn rule(role: Role, service: Service, key: &str) -> Rule {
    Rule {
        role,
        service,
        from: String::from("ipn:1.*"),
        to: String::from("ipn:3.*"),
        targets: vec![PAYLOAD],
        key: String::from(key),
        wrap: false,
        sha_bits: 384,
        aes_bits: 256,
        scope: 7,
        required: true,
        fragments: false,
    }
}
fn secret(name: &str, byte: u8) -> (String, Secret) {
    (String::from(name), Secret::new(vec![byte; 32]))
}
fn node_with(node: u64, rules: Vec<Rule>, keys: Vec<(String, Secret)>) -> Security {
    let told = SecurityConfig { rules, keys: KeyRing::new(keys), start: 5, seed: [9; 32], aes_gcm: None };
    let mut config = Config::new(EndpointId::ipn(node, 0));
    config.node.security.longest = farlink_base::DataVolume(1 << 20);
    Security::new(&told, &config)
}
fn node(node: u64, rules: Vec<Rule>) -> Security {
    node_with(node, rules, vec![secret("mac", 1), secret("cipher", 2)])
}
fn made(payload: Payload) -> BundleMeta {
    let draft = v7::BundleDraft {
        source: EndpointId::ipn(1, 7),
        destination: EndpointId::ipn(3, 7),
        lifetime_ms: 1000,
        priority: Priority::Expedited,
        hop_limit: 9,
        ..v7::BundleDraft::default()
    };
    let creation = CreationTimestamp { time: DtnTime(7), sequence: 1 };
    v7::make(&draft, creation, payload, CrcType::Crc32c, &Accel::default())
}
fn hello() -> BundleMeta {
    made(Payload::from(&b"hello"[..]))
}
/// The bundle as the next node reads it.
fn sent(meta: &BundleMeta) -> BundleMeta {
    sent_as(meta, |_| {})
}
fn sent_as(meta: &BundleMeta, change: impl FnOnce(&mut Vec<u8>)) -> BundleMeta {
    let accel = Accel::default();
    let hop = HopState { previous: EndpointId::ipn(8, 0), hops: 3, ..HopState::default() };
    let rope = v7::render(meta, &hop, None, &accel, &mut BytesMut::new()).into_payload();
    if rope.is_fill() {
        return v7::read(&rope, Profile::Strict, &accel).unwrap().0;
    }
    let mut bytes = rope.to_bytes().unwrap().to_vec();
    change(&mut bytes);
    v7::read(&Payload::from(bytes), Profile::Permissive, &accel).unwrap().0
}
fn arrives(node: &mut Security, meta: &BundleMeta) -> BundleMeta {
    node.arrive(sent(meta)).unwrap()
}
fn text(payload: Result<Payload, DeleteReason>) -> Result<Vec<u8>, DeleteReason> {
    payload.map(|payload| payload.to_bytes().unwrap().to_vec())
}
fn opened(node: &Security, meta: &BundleMeta) -> Result<Vec<u8>, DeleteReason> {
    assert!(node.guards(meta), "it may only be handed out checked");
    text(node.open(meta, meta.payload.clone()))
}
fn blocks(meta: &BundleMeta) -> Vec<u64> {
    let bundle = Security::unpack(meta, meta.payload.clone(), &Accel::default()).unwrap();
    bundle.extensions.iter().map(|block| block.kind).collect()
}
/// The bundle after a change that no rule allows.
fn by_hand(meta: &BundleMeta, change: impl FnOnce(&mut Bundle)) -> BundleMeta {
    let mut bundle = Security::unpack(meta, meta.payload.clone(), &Accel::default()).unwrap();
    change(&mut bundle);
    node(9, vec![]).pack(&bundle, meta).unwrap()
}
/// A security block that names these targets and holds nothing.
fn empty(kind: u64, number: u64, targets: &[u64]) -> Section {
    let block = SecurityBlock {
        targets: targets.to_vec(),
        context: kind as i64 - 10,
        source: EndpointId::ipn(1, 0),
        parameters: vec![],
        results: vec![vec![]; targets.len()],
    };
    Section { header: bpsec::Header { kind, number, flags: bpsec::FLAGS }, block }
}
use Role::{Acceptor, Source, Verifier};
use Service::{Confidentiality, Integrity};

/// Keeps 9172-3.2-2, 9172-3.2-3, 9172-5.1.2-8.
#[test]
fn integrity_added_once_and_checked() {
    let mut source = node(1, vec![rule(Source, Integrity, "mac")]);
    let mut relay = node(2, vec![rule(Verifier, Integrity, "mac"), rule(Source, Integrity, "mac")]);
    let mut end = node(3, vec![rule(Acceptor, Integrity, "mac")]);
    let meta = source.protect(hello()).unwrap();
    assert_eq!((blocks(&meta)[0], source.counts().made), (11, 1));
    let passed = arrives(&mut relay, &meta);
    assert_eq!(passed.duties.security(), None);
    assert_eq!(
        passed.head.iter().filter(|byte| **byte == 11).count(),
        sent(&meta).head.iter().filter(|b| **b == 11).count()
    );
    assert_eq!((relay.counts().verified, relay.counts().made), (1, 0), "it is there: nothing is added");
    let here = arrives(&mut end, &passed);
    assert_eq!(here.duties.security(), None);
    assert_eq!(opened(&end, &here), Ok(b"hello".to_vec()));
    assert_eq!(end.counts().verified, 1);
}

/// Keeps 9172-5.1.2-3, 9172-5.1.2-6, 9172-5.1.2-7, 9173-3.3.2-2, 9173-3.8.2-3, 9173-3.8.2-7.
#[test]
fn integrity_faults_are_distinguished() {
    let mut source = node(1, vec![rule(Source, Integrity, "mac")]);
    let mut end = node(3, vec![rule(Acceptor, Integrity, "mac")]);
    let meta = source.protect(hello()).unwrap();
    let changed = sent_as(&meta, |bytes| {
        let at = bytes.len() - 3;
        // The third byte from the end is in the payload: only the break follows it.
        bytes[at] ^= 1;
    });
    let arrived = end.arrive(changed).unwrap();
    assert_eq!(arrived.duties.security(), Some(DeleteReason::FailedSecurity), "RFC 9172 5.1.2");
    assert_eq!(opened(&end, &arrived), Err(DeleteReason::FailedSecurity));
    let plain = arrives(&mut end, &hello());
    assert_eq!(plain.duties.security(), Some(DeleteReason::MissingSecurity));
    // A wrong key and a changed bundle look the same to the verifier.
    let mut other = node_with(3, vec![rule(Acceptor, Integrity, "mac")], vec![secret("mac", 77)]);
    assert_eq!(arrives(&mut other, &meta).duties.security(), Some(DeleteReason::FailedSecurity));
    let mut keyless = node_with(3, vec![rule(Acceptor, Integrity, "mac")], vec![]);
    assert_eq!(arrives(&mut keyless, &meta).duties.security(), Some(DeleteReason::UnknownSecurity));
    assert_eq!((end.counts().failed, end.counts().missing), (2, 1));
}

#[test]
fn bundle_without_rule_stays_unchanged() {
    let mut relay = node(2, vec![rule(Verifier, Integrity, "mac"), rule(Source, Confidentiality, "cipher")]);
    let mut meta = hello();
    meta.source = EndpointId::ipn(12, 7);
    assert!(
        wishes(&relay.rules, &relay.node_ids, &meta, false).is_empty()
            && wishes(&relay.rules, &relay.node_ids, &meta, true).is_empty()
    );
    let head = meta.head.clone();
    assert_eq!(relay.arrive(meta).unwrap().head, head);
    assert_eq!(relay.counts(), SecurityCounts::default());
}

/// Keeps 9172-5.1.1-2, 9172-5.1.1-3, 9172-5.1.1-9, 9173-4.8.1-17, 9173-4.8.2-2.
#[test]
fn encrypted_payload_opens_at_acceptor_only() {
    for wrap in [false, true] {
        let mut source = node(1, vec![Rule { wrap, ..rule(Source, Confidentiality, "cipher") }]);
        let mut end = node(3, vec![rule(Acceptor, Confidentiality, "cipher")]);
        let meta = source.protect(hello()).unwrap();
        assert_eq!(blocks(&meta)[0], 12);
        assert!(meta.facts.has(Facts::SEALED) && meta.payload.to_bytes().unwrap() != b"hello"[..]);
        let arrived = arrives(&mut end, &meta);
        assert!(!arrived.facts.has(Facts::SEALED), "there is a key for it");
        assert_eq!(arrived.payload.to_bytes(), meta.payload.to_bytes(), "deciphered when it is handed out");
        assert_eq!(opened(&end, &arrived), Ok(b"hello".to_vec()));
        let mut stranger = node_with(3, vec![rule(Acceptor, Integrity, "mac")], vec![secret("mac", 1)]);
        assert!(stranger.arrive(sent(&meta)).unwrap().duties.security().is_some());
    }
}

/// Keeps 9172-3.9-12.
#[test]
fn encrypted_payload_needs_no_hash() {
    let both = |role| vec![rule(role, Integrity, "mac"), rule(role, Confidentiality, "cipher")];
    let (mut source, mut end) = (node(1, both(Source)), node(3, both(Acceptor)));
    let meta = source.protect(hello()).unwrap();
    assert_eq!(blocks(&meta).iter().filter(|kind| matches!(kind, 11 | 12)).count(), 1, "RFC 9172 3.9");
    let arrived = arrives(&mut end, &meta);
    assert_eq!((arrived.duties.security(), opened(&end, &arrived)), (None, Ok(b"hello".to_vec())));
    // A node on the way without the key sees only a cipher. Where its rule requires a hash, the cipher does not
    // count as one.
    let seen = |required| {
        let mut relay = node(2, vec![Rule { required, ..rule(Verifier, Integrity, "mac") }]);
        arrives(&mut relay, &meta).duties.security()
    };
    assert_eq!((seen(true), seen(false)), (Some(DeleteReason::MissingSecurity), None));
}

/// Keeps 9172-3.8-5, 9172-3.9-1, 9172-3.9-2, 9172-3.9-10, 9172-3.9-11, 9172-3.11.2-2, 9172-5.1-1, 9172-5.1.1-12.
#[test]
fn gateway_encrypts_payload_with_its_hash() {
    let mut source = node(1, vec![rule(Source, Integrity, "mac")]);
    let mut gateway = node(2, vec![rule(Source, Confidentiality, "cipher")]);
    let mut end = node(3, vec![rule(Acceptor, Confidentiality, "cipher"), rule(Acceptor, Integrity, "mac")]);
    let meta = arrives(&mut gateway, &source.protect(hello()).unwrap());
    let kinds = blocks(&meta);
    assert_eq!(kinds.iter().filter(|kind| **kind == 12).count(), 2, "payload and hash, each in a block of its own");
    let bundle = Security::unpack(&meta, meta.payload.clone(), &Accel::default()).unwrap();
    assert!(bpsec::Section::all(&bundle, 11).all(|bib| bib.is_err()), "the hash is enciphered");
    let arrived = arrives(&mut end, &meta);
    assert_eq!((arrived.duties.security(), opened(&end, &arrived)), (None, Ok(b"hello".to_vec())));
    assert_eq!(end.counts().verified, 3);
}

/// Keeps 9172-5.1.1-1, 9172-5.1.1-2, 9172-5.1.1-4, 9172-5.1.1-6, 9172-5.1.2-1, 9172-5.1.2-4, 9173-3.8.1-3.
/// Keeps 9173-3.8.2-9, 9173-4.8.1-2, 9173-4.8.2-11.
#[test]
fn acceptor_removes_blocks_and_restores_crcs() {
    let mut source = node(1, vec![rule(Source, Confidentiality, "cipher")]);
    let mut border = node(2, vec![rule(Acceptor, Confidentiality, "cipher")]);
    let meta = source.protect(hello()).unwrap();
    // One byte is the CBOR break; a CRC-32C adds five.
    assert_eq!(meta.tail_len, 1, "a target has no CRC");
    let passed = arrives(&mut border, &meta);
    assert_eq!(passed.payload.to_bytes().unwrap(), b"hello"[..]);
    assert!(!blocks(&passed).contains(&12) && passed.tail_len == 6 && !passed.facts.has(Facts::SEALED));
    let mut of_primary = rule(Source, Integrity, "mac");
    of_primary.targets = vec![PRIMARY];
    let mut source = node(1, vec![of_primary.clone()]);
    let mut border = node(2, vec![Rule { role: Acceptor, ..of_primary }]);
    let meta = source.protect(hello()).unwrap();
    let accel = Accel::default();
    let crc = |meta: &BundleMeta| Security::unpack(meta, meta.payload.clone(), &accel).unwrap().primary.crc;
    assert_eq!(crc(&meta), CrcType::None);
    let passed = arrives(&mut border, &meta);
    assert_eq!((crc(&passed), blocks(&passed).contains(&11)), (CrcType::Crc32c, false), "RFC 9173 3.8.2");
    assert_eq!(passed.id, meta.id);
}

/// Keeps 9172-2.2-1, 9172-5.1.2-9.
#[test]
fn primary_hash_stays_while_covered() {
    let of_both = |role| Rule { targets: vec![PAYLOAD, PRIMARY], ..rule(role, Integrity, "mac") };
    let (mut source, mut end) = (node(1, vec![of_both(Source)]), node(3, vec![of_both(Acceptor)]));
    let mut border = node(2, vec![Rule { targets: vec![PRIMARY], ..rule(Acceptor, Integrity, "mac") }]);
    let meta = source.protect(hello()).unwrap();
    assert_eq!(source.counts().made, 2);
    let passed = arrives(&mut border, &meta);
    let arrived = arrives(&mut end, &passed);
    assert_eq!((arrived.duties.security(), opened(&end, &arrived)), (None, Ok(b"hello".to_vec())));
    for at in 3..20 {
        // Source, destination, times: none can be another.
        let mut bytes = meta.head.to_vec();
        bytes[at] ^= 1;
        let rope = [&bytes[..], b"hello", &[0xff]].concat();
        if let Ok((changed, _)) = v7::read(&Payload::from(rope), Profile::Permissive, &Accel::default()) {
            let fits = !wishes(&end.rules, &end.node_ids, &changed, false).is_empty();
            let judged = end.arrive(changed).unwrap().duties.security();
            assert!(!fits || judged.is_some(), "byte {at}");
        }
    }
}

/// Keeps 9172-5.1.1-9, 9173-4.3.3-2, 9173-4.8.2-3.
#[test]
fn keys_rotate_without_a_bundle_lost() {
    let mut source = node_with(1, vec![rule(Source, Confidentiality, "cipher")], vec![secret("cipher", 2)]);
    let receiver = |keys| node_with(3, vec![rule(Acceptor, Confidentiality, "cipher")], keys);
    let old = source.protect(hello()).unwrap();
    source.set(
        vec![rule(Source, Confidentiality, "cipher")],
        KeyRing::new(vec![secret("cipher", 2), secret("cipher", 3)]),
    );
    let new = source.protect(hello()).unwrap();
    let mut both = receiver(vec![secret("cipher", 2), secret("cipher", 3)]);
    for meta in [&old, &new] {
        assert_eq!(arrives(&mut both, meta).duties.security(), None);
        assert_eq!(opened(&both, &sent(meta)), Ok(b"hello".to_vec()));
    }
    // After the old generation was taken away.
    let mut later = receiver(vec![secret("cipher", 3)]);
    assert_eq!(arrives(&mut later, &new).duties.security(), None);
    assert_eq!(arrives(&mut later, &old).duties.security(), Some(DeleteReason::FailedSecurity));
    // The rule names its key: another key that the node has is not tried.
    let others = Rule { targets: vec![193], ..rule(Acceptor, Confidentiality, "other") };
    let keys = vec![secret("cipher", 3), secret("other", 2)];
    let mut both_rules = node_with(3, vec![rule(Acceptor, Confidentiality, "cipher"), others], keys);
    assert_eq!(arrives(&mut both_rules, &new).duties.security(), None);
    assert_eq!(arrives(&mut both_rules, &old).duties.security(), Some(DeleteReason::FailedSecurity));
}

/// Keeps 9173-4.3.1-3, 9173-4.6-1, 9173-4.6-2, 9173-4.6-3, 9173-4.8.1-5.
#[test]
fn worn_out_key_refuses() {
    let mut source = node(1, vec![rule(Source, Confidentiality, "cipher")]);
    let mut heads: Vec<_> = (0..200).map(|_| source.protect(hello()).unwrap().head).collect();
    heads.sort();
    heads.dedup();
    assert_eq!(heads.len(), 200, "the bundle is the same, its head differs by the IV");
    source.wear_out("cipher");
    assert_eq!(source.protect(hello()).unwrap_err(), Refusal::NoResources, "RFC 9173 4.8.1: 2^32 blocks a key");
    // All IVs of this start are used up.
    source.nonces.skip_to(1 << 40);
    source.set(vec![Rule { wrap: true, ..rule(Source, Confidentiality, "cipher") }], source.keys.clone());
    assert_eq!(source.protect(hello()).unwrap_err(), Refusal::NoResources);
}

/// Keeps 9173-3.8.1-11, 9173-4.8.1-18.
#[test]
fn unprotectable_bundle_is_refused() {
    for service in [Integrity, Confidentiality] {
        let mut keyless = node_with(1, vec![rule(Source, service, "cipher")], vec![]);
        assert_eq!(keyless.protect(hello()).unwrap_err(), Refusal::NotAcceptable);
        let mut source = node(1, vec![rule(Source, service, "cipher")]);
        let of_length = |len| made(Payload::from(vec![0; len]));
        assert_eq!(source.protect(of_length((1 << 20) + 1)).unwrap_err(), Refusal::TooLarge);
        assert_ne!(source.protect(of_length(1 << 20)).unwrap().head, of_length(1 << 20).head);
    }
    let long = made(Payload::from(vec![0; (1 << 20) + 1]));
    let mut end = node(3, vec![rule(Acceptor, Confidentiality, "cipher")]);
    assert_eq!(end.arrive(sent(&long)).unwrap_err().1, Refusal::TooLarge);
    assert_eq!(
        text(end.open(&long, long.payload.clone())),
        Err(DeleteReason::DepletedStorage),
        "fragments may make one"
    );
    let mut gateway = node_with(2, vec![rule(Source, Confidentiality, "cipher")], vec![]);
    assert_eq!(gateway.arrive(sent(&hello())).unwrap_err().1, Refusal::NoResources, "the neighbour keeps it");
}

/// The bundle with one hash block for primary and payload block.
fn signed_together(meta: &BundleMeta, scope: u16) -> BundleMeta {
    by_hand(meta, |bundle| {
        let header = bpsec::Header { kind: 11, number: 9, flags: bpsec::FLAGS };
        let suite = bpsec::HashSuite { sha: Sha::Sha256, scope: Scope(scope), wrapped: None };
        [PRIMARY, PAYLOAD].into_iter().for_each(|number| bpsec::drop_crc(bundle, number));
        let block = bpsec::sign(bundle, &[PRIMARY, PAYLOAD], header, &meta.source, &suite, &[1; 32]).unwrap();
        Section { header, block }.insert(bundle);
    })
}

/// Keeps 9172-3.9-3, 9172-3.9-4, 9172-3.9-5.
#[test]
fn hash_block_splits_at_encrypted_target() {
    let mut gateway = node(2, vec![rule(Source, Confidentiality, "cipher")]);
    let of_both = Rule { targets: vec![PRIMARY, PAYLOAD], ..rule(Acceptor, Integrity, "mac") };
    let mut end = node(3, vec![rule(Acceptor, Confidentiality, "cipher"), of_both]);
    for scope in [0, Scope::PRIMARY | Scope::TARGET] {
        let passed = arrives(&mut gateway, &signed_together(&hello(), scope));
        assert_eq!(passed.duties.security(), None);
        let bundle = Security::unpack(&passed, passed.payload.clone(), &Accel::default()).unwrap();
        let clear: Vec<Section> = Section::all(&bundle, 11).filter_map(Result::ok).collect();
        assert_eq!(clear.iter().map(|bib| bib.block.targets.clone()).collect::<Vec<_>>(), [[PRIMARY]]);
        assert_eq!(blocks(&passed).iter().filter(|kind| matches!(kind, 11 | 12)).count(), 4, "two hashes, two ciphers");
        let arrived = arrives(&mut end, &passed);
        assert_eq!((arrived.duties.security(), opened(&end, &arrived)), (None, Ok(b"hello".to_vec())));
    }
    // The hash covers the number of its block, so it does not verify in a block with another number.
    let judged = arrives(&mut gateway, &signed_together(&hello(), 7));
    assert_eq!(judged.duties.security(), Some(DeleteReason::ConflictingSecurity));
}

/// Keeps 9172-3.8-1, 9172-5.2-1, 9172-5.2-2.
#[test]
fn fragment_is_judged_after_reassembly() {
    let accel = Accel::default();
    let mut source = node(1, vec![rule(Source, Confidentiality, "cipher")]);
    let mut end = node(3, vec![rule(Acceptor, Confidentiality, "cipher")]);
    let meta = source.protect(made(Payload::from(vec![7; 1000]))).unwrap();
    let cut = |range| {
        let rope = v7::render(&meta, &HopState::default(), Some(range), &accel, &mut BytesMut::new()).into_payload();
        v7::read(&rope, Profile::Strict, &accel).unwrap().0
    };
    let (first, second) = (cut(0..400), cut(400..1000));
    for piece in [&first, &second] {
        assert!(piece.facts.has(Facts::SEALED), "RFC 9172 3.8: each fragment says that it is enciphered");
        assert_eq!(end.arrive(piece.clone()).unwrap().duties.security(), None);
        assert_eq!(source.protect(piece.clone()).unwrap().head, piece.head, "RFC 9172 5.2");
    }
    let mut payload = first.payload.clone();
    payload.append(second.payload.clone());
    let whole = v7::whole(&first, payload, &accel);
    assert_eq!(opened(&end, &whole), Ok(vec![7; 1000]));
}

#[test]
fn length_only_payload_is_protected() {
    for service in [Integrity, Confidentiality] {
        let mut source = node(1, vec![rule(Source, service, "cipher")]);
        let mut end = node(3, vec![rule(Acceptor, service, "cipher")]);
        let (fill, bytes) = (Payload::fill(3, 5000), Payload::from(vec![1; 5000]));
        let [by_length, in_memory] = [fill, bytes].map(|payload| source.protect(made(payload)).unwrap());
        assert_eq!(by_length.size(), in_memory.size());
        let arrived = arrives(&mut end, &by_length);
        assert_eq!(arrived.duties.security(), None);
        assert_eq!(end.open(&arrived, arrived.payload.clone()).unwrap().len(), 5000);
        let mut other = node_with(3, vec![rule(Acceptor, service, "cipher")], vec![secret("cipher", 9)]);
        assert_eq!(arrives(&mut other, &by_length).duties.security(), Some(DeleteReason::FailedSecurity));
    }
}

#[test]
fn group_member_opens_unchanged_bundle() {
    let group = |role| Rule { to: String::from("dtn://all/*"), ..rule(role, Confidentiality, "cipher") };
    let (mut source, mut member) = (node(1, vec![group(Source)]), node(3, vec![group(Acceptor)]));
    let draft = v7::BundleDraft {
        source: EndpointId::ipn(1, 7),
        destination: EndpointId::dtn("all", "~news"),
        lifetime_ms: 1000,
        ..v7::BundleDraft::default()
    };
    let payload = Payload::from(&b"news"[..]);
    let meta = v7::make(&draft, CreationTimestamp::default(), payload, CrcType::Crc32c, &Accel::default());
    let meta = source.protect(meta).unwrap();
    let arrived = arrives(&mut member, &meta);
    assert_eq!(arrived.payload.to_bytes(), meta.payload.to_bytes(), "others need it as it came");
    assert_eq!(opened(&member, &arrived), Ok(b"news".to_vec()));
}

/// Keeps 9172-1.4-1, 9172-3.2-1, 9172-3.2-3, 9172-3.7-1, 9172-3.8-3, 9172-3.8-4, 9172-3.9-1.
/// Keeps 9172-3.9-9.
#[test]
fn contradictory_operations_are_rejected() {
    use DeleteReason::{ConflictingSecurity, UnexpectedSecurity};
    let mut end = node(3, vec![rule(Acceptor, Integrity, "mac")]);
    for (sections, reason) in [
        ([empty(11, 20, &[PAYLOAD]), empty(11, 21, &[PAYLOAD])], ConflictingSecurity),
        ([empty(12, 20, &[PAYLOAD]), empty(12, 21, &[PAYLOAD])], ConflictingSecurity),
        ([empty(11, 20, &[21]), empty(11, 21, &[PAYLOAD])], UnexpectedSecurity),
        ([empty(11, 20, &[21]), empty(12, 21, &[PAYLOAD])], UnexpectedSecurity),
        ([empty(12, 20, &[21]), empty(12, 21, &[PAYLOAD])], UnexpectedSecurity),
        ([empty(12, 20, &[PRIMARY]), empty(11, 21, &[PAYLOAD])], UnexpectedSecurity),
    ] {
        let meta = by_hand(&hello(), |bundle| sections.iter().for_each(|section| section.insert(bundle)));
        assert_eq!(arrives(&mut end, &meta).duties.security(), Some(reason), "{sections:?}");
    }
    assert_eq!(end.counts(), SecurityCounts::default(), "nothing was checked");
}

/// Keeps 9172-3.9-6, 9172-3.9-7, 9172-3.9-8, 9172-3.9-11, 9172-5.1.2-5.
#[test]
fn encrypted_block_neither_checked_nor_signed() {
    let mut source = node(1, vec![rule(Source, Confidentiality, "cipher")]);
    let mut relay = node(2, vec![rule(Verifier, Integrity, "mac"), rule(Source, Integrity, "mac")]);
    let sealed = source.protect(hello()).unwrap();
    // A hash added against RFC 9172 3.9, and one that was encrypted with the payload.
    let added = by_hand(&sealed, |bundle| empty(11, 20, &[PAYLOAD]).insert(bundle));
    let signed = node(1, vec![rule(Source, Integrity, "mac")]).protect(hello()).unwrap();
    let both = arrives(&mut node(2, vec![rule(Source, Confidentiality, "cipher")]), &signed);
    let missing = Some(DeleteReason::MissingSecurity);
    for (meta, lacks) in [(sealed, missing), (added, missing), (both, None)] {
        let passed = arrives(&mut relay, &meta);
        assert_eq!((passed.duties.security(), blocks(&passed)), (lacks, blocks(&sent(&meta))));
    }
    assert_eq!(relay.counts(), SecurityCounts { missing: 2, ..SecurityCounts::default() });
}

/// Keeps 9172-5.1.1-3, 9172-5.1.1-4, 9172-5.1.1-6, 9172-5.1.1-7, 9172-5.1.1-8, 9172-5.1.1-10, 9172-5.1.1-11.
/// Keeps 9172-5.1.2-3, 9172-5.1.2-4, 9172-5.1.2-6, 9172-5.1.2-7.
#[test]
fn failed_extension_block_is_removed() {
    let extra = |meta: &BundleMeta| {
        let bundle = Security::unpack(meta, meta.payload.clone(), &Accel::default()).unwrap();
        bundle.extensions.into_iter().find(|block| block.kind == 200).map(|block| block.data)
    };
    let data = BlockData::Unknown(Bytes::from_static(b"extra"));
    let block = ExtensionBlock {
        kind: 200,
        number: 30,
        flags: BlockFlags(0),
        crc: CrcType::None,
        data: data.clone(),
        raw: None,
    };
    let plain = by_hand(&hello(), |bundle| bundle.extensions.push(block));
    for service in [Integrity, Confidentiality] {
        let node_of = |number, role, byte| {
            let rules = vec![Rule { targets: vec![200], ..rule(role, service, "k") }];
            node_with(number, rules, vec![secret("k", byte)])
        };
        let meta = node_of(1, Source, 1).protect(plain.clone()).unwrap();
        assert_eq!(extra(&meta) == Some(data.clone()), service == Integrity);
        let secured = |meta: &BundleMeta| blocks(meta).iter().any(|kind| matches!(kind, 11 | 12));
        assert!(secured(&meta));
        for (byte, meta, left, counts) in
            [(1, &meta, Some(&data), (1, 0, 0)), (66, &meta, None, (0, 1, 0)), (1, &plain, None, (0, 0, 1))]
        {
            let mut border = node_of(2, Acceptor, byte);
            let passed = arrives(&mut border, meta);
            assert_eq!((passed.duties.security(), extra(&passed).as_ref()), (None, left), "{service:?}");
            assert!(!secured(&passed) && passed.payload.to_bytes().unwrap() == b"hello"[..]);
            let SecurityCounts { verified, failed, missing, .. } = border.counts();
            assert_eq!((verified, failed, missing), counts, "{service:?}");
        }
        let mut end = node(3, vec![rule(Acceptor, service, "mac")]);
        assert_eq!(arrives(&mut end, &hello()).duties.security(), Some(DeleteReason::MissingSecurity));
    }
}

/// Keeps 9173-3.1-1, 9173-3.3.1-1, 9173-3.3.2-1, 9173-3.3.3-1, 9173-3.3.3-2, 9173-3.7-2, 9173-3.8.1-2.
/// Keeps 9173-3.8.1-10, 9173-3.8.2-2, 9173-3.8.2-4, 9173-3.8.2-8.
#[test]
fn each_hash_length_verifies() {
    let mut end = node(3, vec![rule(Acceptor, Integrity, "mac")]);
    for (sha_bits, scope) in [256, 384, 512].into_iter().flat_map(|bits| (0..8).map(move |scope| (bits, scope))) {
        let mut source = node(1, vec![Rule { wrap: true, sha_bits, scope, ..rule(Source, Integrity, "mac") }]);
        let meta = source.protect(hello()).unwrap();
        let arrived = arrives(&mut end, &meta);
        assert_eq!((arrived.duties.security(), opened(&end, &arrived)), (None, Ok(b"hello".to_vec())));
        // Variant, wrapped key, scope.
        for (at, value) in [
            (0, SecurityValue::Uint(9)),
            (0, SecurityValue::Bytes(vec![6])),
            (1, SecurityValue::Uint(0)),
            (1, SecurityValue::Bytes(vec![0; 9])),
            (2, SecurityValue::Uint(0x1_0000)),
            (2, SecurityValue::Uint(u64::from(scope) ^ 1)),
            (2, SecurityValue::Other(vec![0xf6])),
        ] {
            let other = by_hand(&meta, |bundle| {
                let mut bib = Section::all(bundle, 11).next().unwrap().unwrap();
                let Some((_, SecurityValue::Bytes(hash))) = bib.block.results[0].first() else { panic!("a hash") };
                assert_eq!(hash.len(), usize::from(sha_bits / 8));
                bib.block.parameters[at].1 = value.clone();
                bundle.remove_block(bib.header.number);
                bib.insert(bundle);
            });
            let judged = arrives(&mut end, &other).duties.security();
            assert_eq!(judged, Some(DeleteReason::FailedSecurity), "{sha_bits} {scope}: {at} {value:?}");
        }
    }
}

/// Keeps 9172-3.4-1, 9172-3.6-5, 9172-3.8-1, 9172-3.8-2, 9172-3.8-4.
#[test]
fn missing_block_is_no_target() {
    let meta = hello();
    let mut bundle = Security::unpack(&meta, meta.payload.clone(), &Accel::default()).unwrap();
    let own = bpsec::Header { kind: 12, number: 40, flags: bpsec::FLAGS };
    let suite = bpsec::HashSuite { sha: Sha::Sha256, scope: Scope(7), wrapped: None };
    assert_eq!(bpsec::sign(&bundle, &[77], own, &meta.source, &suite, &[1; 32]), Err(SecurityFault::Target));
    let suite = bpsec::CipherSuite { aes: bpsec::Aes::A256, scope: Scope(7), iv: [1; 12], wrapped: None };
    for target in [77, PRIMARY] {
        let sealed = bpsec::seal(&mut bundle, target, own, &meta.source, &suite, &[1; 32], None);
        assert_eq!(sealed, Err(SecurityFault::Target), "{target}");
    }
    for service in [Integrity, Confidentiality] {
        let meta = node(1, vec![rule(Source, service, "cipher")]).protect(hello()).unwrap();
        let bundle = Security::unpack(&meta, meta.payload.clone(), &Accel::default()).unwrap();
        let sections: Vec<_> = [11, 12].into_iter().flat_map(|kind| Section::all(&bundle, kind)).collect();
        let [Ok(Section { header, block })] = &sections[..] else { panic!("one block: {sections:?}") };
        assert_eq!((header.flags, &block.targets[..]), (BlockFlags(BlockFlags::REPLICATE), &[PAYLOAD][..]));
    }
}

#[test]
fn mutated_secured_bundles_are_rejected() {
    let (runs, mut judged) = (100_000, 0);
    let of_both = |role| Rule { targets: vec![PAYLOAD, PRIMARY], ..rule(role, Integrity, "mac") };
    let cipher = |role| rule(role, Confidentiality, "cipher");
    let mut rng = farlink_base::Rng::stream(1, 2);
    for (made_by, end_has) in
        [(vec![of_both(Source)], vec![of_both(Acceptor)]), (vec![cipher(Source)], vec![cipher(Acceptor)])]
    {
        let (mut source, mut end) = (node(1, made_by), node(3, end_has));
        let meta = source.protect(made(Payload::from(&b"a text that nobody may change"[..]))).unwrap();
        let rope =
            v7::render(&meta, &HopState::default(), None, &Accel::default(), &mut BytesMut::new()).into_payload();
        let original = rope.to_bytes().unwrap();
        for _ in 0..runs / 2 {
            let mut bytes = original.to_vec();
            for _ in 0..=rng.next_u64() % 3 {
                let at = (rng.next_u64() % bytes.len() as u64) as usize;
                match rng.next_u64() % 4 {
                    0 => bytes[at] ^= 1 << (rng.next_u64() % 8),
                    1 => bytes[at] = rng.next_u64() as u8,
                    2 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, rng.next_u64() as u8),
                }
            }
            let Ok((changed, _)) = v7::read(&Payload::from(bytes), Profile::Permissive, &Accel::default()) else {
                continue;
            };
            // A changed source or destination may leave no rule for the bundle.
            if wishes(&end.rules, &end.node_ids, &changed, false).is_empty() {
                continue;
            }
            judged += 1;
            let Ok(arrived) = end.arrive(changed) else { continue };
            if arrived.duties.security().is_some() {
                continue;
            }
            assert_eq!(opened(&end, &arrived), Ok(b"a text that nobody may change".to_vec()));
            assert_eq!((arrived.id, arrived.lifetime_ms), (meta.id, meta.lifetime_ms));
        }
    }
    assert!(judged > runs / 10, "{judged} could be read at all");
}

/// Keeps 9172-5.1.1-7, 9172-5.2-2.
#[test]
fn clear_fragment_stops_at_encrypting_gateway() {
    let accel = Accel::default();
    let sealed = node(1, vec![rule(Source, Confidentiality, "cipher")]).protect(made(Payload::from(vec![7; 1000])));
    let fragment = |meta: &BundleMeta| {
        let rope = v7::render(meta, &HopState::default(), Some(0..400), &accel, &mut BytesMut::new()).into_payload();
        v7::read(&rope, Profile::Strict, &accel).unwrap().0
    };
    let (clear, sealed) = (fragment(&made(Payload::from(vec![7; 1000]))), fragment(&sealed.unwrap()));
    let of_primary = Rule { targets: vec![PRIMARY], ..rule(Verifier, Integrity, "mac") };
    for (of, reason) in [
        (rule(Source, Confidentiality, "cipher"), Some(DeleteReason::MissingSecurity)),
        (rule(Verifier, Confidentiality, "cipher"), Some(DeleteReason::MissingSecurity)),
        (Rule { required: false, ..rule(Verifier, Confidentiality, "cipher") }, None),
        (rule(Source, Integrity, "mac"), None),
        (Rule { fragments: true, ..of_primary }, None),
    ] {
        let mut border = node(2, vec![of.clone()]);
        assert_eq!(border.arrive(clear.clone()).unwrap().duties.security(), reason, "{of:?}");
        assert_eq!(border.arrive(sealed.clone()).unwrap().duties.security(), None, "{of:?}");
    }
    let mut end = node(3, vec![rule(Acceptor, Confidentiality, "cipher")]);
    assert_eq!(end.arrive(clear).unwrap().duties.security(), None, "judged when it is whole");
}

#[test]
fn rule_covers_node_aliases() {
    let told = SecurityConfig {
        rules: vec![rule(Acceptor, Integrity, "mac")],
        keys: KeyRing::new([secret("mac", 1)]),
        start: 5,
        seed: [9; 32],
        aes_gcm: None,
    };
    let mut config = Config::new(EndpointId::ipn(3, 0));
    config.node_ids.extend([EndpointId::ipn(9, 0), EndpointId::dtn("moon", "")]);
    let mut end = Security::new(&told, &config);
    for (destination, judged) in [
        (EndpointId::ipn(9, 7), Some(DeleteReason::MissingSecurity)),
        (EndpointId::dtn("moon", "7"), None),
        (EndpointId::ipn(8, 7), None),
    ] {
        let draft = v7::BundleDraft {
            source: EndpointId::ipn(1, 7),
            destination,
            lifetime_ms: 1000,
            ..v7::BundleDraft::default()
        };
        let payload = Payload::from(&b"hello"[..]);
        let meta = v7::make(&draft, CreationTimestamp::default(), payload, CrcType::Crc32c, &Accel::default());
        assert_eq!(end.guards(&meta), judged.is_some(), "{}", meta.destination);
        assert_eq!(arrives(&mut end, &meta).duties.security(), judged, "{}", meta.destination);
    }
}

/// Keeps 9172-3.9-6.
#[test]
fn unreadable_security_blocks_prevent_additions() {
    for (kind, own) in [(12, rule(Source, Integrity, "mac")), (11, rule(Source, Confidentiality, "cipher"))] {
        let unreadable = by_hand(&hello(), |bundle| {
            empty(kind, 20, &[PAYLOAD]).insert(bundle);
            // Targets as they were, the rest of no known form.
            bundle.extensions[0].data = BlockData::Unknown(Bytes::from_static(&[0x81, 1, 0xf6]));
            bundle.extensions[0].raw = None;
        });
        let mut relay = node(2, vec![own]);
        let judged = arrives(&mut relay, &unreadable);
        assert_eq!(judged.duties.security(), Some(DeleteReason::FailedSecurity), "{kind}");
        assert_eq!(relay.counts().made, 0);
    }
}

/// Keeps 9172-3.8-2, 9172-5.1.1-1.
#[test]
fn unrelated_encrypted_hash_stays() {
    let signed = node(1, vec![rule(Source, Integrity, "mac")]).protect(hello()).unwrap();
    let both = arrives(&mut node(2, vec![rule(Source, Confidentiality, "cipher")]), &signed);
    for role in [Acceptor, Verifier] {
        let of_another = Rule { targets: vec![200], required: false, ..rule(role, Confidentiality, "other") };
        let mut relay = node_with(4, vec![of_another], vec![secret("other", 9)]);
        let passed = arrives(&mut relay, &both);
        assert_eq!((passed.duties.security(), blocks(&passed)), (None, blocks(&sent(&both))), "{role:?}");
        assert_eq!(relay.counts(), SecurityCounts::default());
    }
}

/// Keeps 9172-3.6-5.
#[test]
fn operation_beside_missing_target_is_rejected() {
    // RFC 9172 3.6: a target is a block of the bundle.
    let missing = Some(DeleteReason::FailedSecurity);
    let astray = |meta: &BundleMeta, kind| {
        by_hand(meta, |bundle| {
            let mut section = bpsec::Section::all(bundle, kind).next().unwrap().unwrap();
            section.block.targets.push(9);
            section.block.results.push(vec![]);
            let at = bundle.extensions.iter().position(|block| block.kind == kind).unwrap();
            bundle.extensions.remove(at);
            section.insert(bundle);
        })
    };
    for (service, key, kind) in [(Integrity, "mac", 11), (Confidentiality, "cipher", 12)] {
        let whole = node(1, vec![rule(Source, service, key)]).protect(hello()).unwrap();
        for (place, role) in [(2, Verifier), (2, Acceptor), (3, Acceptor)] {
            for required in [true, false] {
                let mut judge = node(place, vec![Rule { required, ..rule(role, service, key) }]);
                assert_eq!(arrives(&mut judge, &whole).duties.security(), None);
                assert_eq!(
                    arrives(&mut judge, &astray(&whole, kind)).duties.security(),
                    missing,
                    "{service:?} {role:?}"
                );
            }
        }
        let mut stranger = node(2, vec![Rule { from: String::from("ipn:5.*"), ..rule(Verifier, service, key) }]);
        assert_eq!(arrives(&mut stranger, &astray(&whole, kind)).duties.security(), None, "not its business");
    }
}

/// Keeps 9172-3.9-7, 9172-5.1.2-6.
#[test]
fn unknown_cipher_is_no_hash() {
    // Without the key a cipher cannot be checked, so a block that claims to encrypt does not count as a hash.
    let mut signer = node(1, vec![rule(Source, Integrity, "mac")]);
    let signed = signer.protect(hello()).unwrap();
    let mut relay = node(2, vec![rule(Verifier, Integrity, "mac")]);
    let unknown = |mut section: Section| {
        section.block.context = 77;
        section
    };
    let missing = Some(DeleteReason::MissingSecurity);
    for (sections, reason) in [
        (vec![empty(12, 20, &[PAYLOAD])], missing),
        (vec![empty(12, 20, &[PAYLOAD]), empty(11, 21, &[PRIMARY])], missing),
        (vec![unknown(empty(12, 20, &[PAYLOAD, 21])), empty(11, 21, &[PAYLOAD])], missing),
        (vec![unknown(empty(12, 20, &[PAYLOAD])), empty(12, 22, &[21]), empty(11, 21, &[PAYLOAD])], missing),
        (vec![empty(12, 20, &[PAYLOAD, 21]), empty(11, 21, &[PAYLOAD])], None),
    ] {
        let meta = by_hand(&hello(), |bundle| sections.iter().rev().for_each(|section| section.insert(bundle)));
        assert_eq!(arrives(&mut relay, &meta).duties.security(), reason, "{sections:?}");
    }
    assert_eq!(arrives(&mut relay, &signed).duties.security(), None);
}

/// Keeps 9172-5.1.2-6.
#[test]
fn verifier_passes_fragments_by_rule() {
    // RFC 9172 5.2: nothing can be checked in a fragment.
    let fragment = |meta: &BundleMeta| BundleMeta {
        rare: Some(Box::new(farlink_base::Rare {
            fragment: Some(farlink_base::FragmentInfo { offset: 0, total: meta.payload.len() }),
            ..meta.rare.as_deref().cloned().unwrap_or_default()
        })),
        ..meta.clone()
    };
    let all = fragment(&hello());
    assert!(all.fragment().is_some());
    for (role, required, fragments, reason) in [
        (Verifier, true, false, Some(DeleteReason::MissingSecurity)),
        (Acceptor, true, false, Some(DeleteReason::MissingSecurity)),
        (Verifier, true, true, None),
        (Verifier, false, false, None),
    ] {
        let mut relay = node(2, vec![Rule { required, fragments, ..rule(role, Integrity, "mac") }]);
        assert_eq!(relay.arrive(all.clone()).unwrap().duties.security(), reason, "{role:?} {required} {fragments}");
    }
    let mut end = node(3, vec![rule(Acceptor, Integrity, "mac")]);
    assert_eq!(end.arrive(all).unwrap().duties.security(), None, "judged when it is whole");
}

fn extra_block(number: u64, data: &'static [u8]) -> ExtensionBlock {
    let data = BlockData::Unknown(Bytes::from_static(data));
    ExtensionBlock { kind: 200, number, flags: BlockFlags(0), crc: CrcType::None, data, raw: None }
}
/// The bundle with an extension block of type 200 and number 30, and one hash block for that and the payload.
fn signed_with_extra(meta: &BundleMeta) -> BundleMeta {
    by_hand(meta, |bundle| {
        bundle.extensions.push(extra_block(30, b"extra"));
        bpsec::drop_crc(bundle, PAYLOAD);
        let header = bpsec::Header { kind: 11, number: 9, flags: bpsec::FLAGS };
        let suite = bpsec::HashSuite { sha: Sha::Sha256, scope: Scope(0), wrapped: None };
        let block = bpsec::sign(bundle, &[30, PAYLOAD], header, &meta.source, &suite, &[1; 32]).unwrap();
        Section { header, block }.insert(bundle);
    })
}
fn of_both(role: Role, service: Service, key: &str) -> Rule {
    Rule { targets: vec![PAYLOAD, 200], ..rule(role, service, key) }
}
fn data_of(meta: &BundleMeta, kind: u64) -> Option<BlockData> {
    let bundle = Security::unpack(meta, meta.payload.clone(), &Accel::default()).unwrap();
    bundle.extensions.into_iter().find(|block| block.kind == kind).map(|block| block.data)
}

/// Keeps 9172-3.9-2, 9172-3.9-5.
#[test]
fn hash_of_two_targets_encrypted_once() {
    let mut gateway = node(2, vec![of_both(Source, Confidentiality, "cipher")]);
    let passed = arrives(&mut gateway, &signed_with_extra(&hello()));
    assert_eq!((passed.duties.security(), gateway.counts().made), (None, 3), "payload, extra, their hash");
    assert_eq!(blocks(&passed).iter().filter(|kind| **kind == 12).count(), 3);
    let rules = vec![of_both(Acceptor, Confidentiality, "cipher"), of_both(Acceptor, Integrity, "mac")];
    let mut border = node(4, rules.clone());
    let onward = arrives(&mut border, &passed);
    assert_eq!((onward.duties.security(), onward.payload.to_bytes().unwrap()), (None, Bytes::from_static(b"hello")));
    assert_eq!(data_of(&onward, 200), Some(BlockData::Unknown(Bytes::from_static(b"extra"))));
    let mut end = node(3, rules);
    let arrived = arrives(&mut end, &passed);
    assert_eq!((arrived.duties.security(), opened(&end, &arrived)), (None, Ok(b"hello".to_vec())));
}

/// Keeps 9173-4.8.1-2.
#[test]
fn enciphered_hash_block_keeps_no_crc() {
    // RFC 9173 4.8.1: a block loses its CRC when it is encrypted.
    let signed = by_hand(&node(1, vec![rule(Source, Integrity, "mac")]).protect(hello()).unwrap(), |bundle| {
        let bib = bundle.extensions.iter().find(|block| block.kind == INTEGRITY).unwrap().number;
        bpsec::add_crc(bundle, bib, CrcType::Crc32c);
    });
    let passed = arrives(&mut node(2, vec![rule(Source, Confidentiality, "cipher")]), &signed);
    let bundle = Security::unpack(&passed, passed.payload.clone(), &Accel::default()).unwrap();
    let crcs: Vec<CrcType> =
        bundle.extensions.iter().filter(|block| block.kind == INTEGRITY).map(|block| block.crc).collect();
    assert_eq!((passed.duties.security(), &crcs[..]), (None, &[CrcType::None][..]));
}

/// Keeps 9173-3.8.1-2, 9173-4.8.1-3.
#[test]
fn block_keys_depend_on_whole_seed() {
    // RFC 9173 3.8.1, 4.8.1: all inputs but the seed are known to others, so the seed alone must make the keys
    // secret.
    let sealed = |seed: [u8; 32], service| {
        let told = SecurityConfig {
            rules: vec![Rule { wrap: true, ..rule(Source, service, "cipher") }],
            keys: KeyRing::new([secret("cipher", 2)]),
            start: 5,
            seed,
            aes_gcm: None,
        };
        let meta = Security::new(&told, &Config::new(EndpointId::ipn(1, 0))).protect(hello()).unwrap();
        (meta.head, meta.payload.to_bytes())
    };
    for service in [Integrity, Confidentiality] {
        let of_byte = |at: usize| {
            let mut seed = [0; 32];
            seed[at] = 1;
            sealed(seed, service)
        };
        let all: Vec<_> = [sealed([0; 32], service)].into_iter().chain((0..32).map(of_byte)).collect();
        assert!(all.iter().enumerate().all(|(at, one)| !all[..at].contains(one)), "{service:?}");
    }
}

#[test]
fn unsecured_fragment_counts_as_missing() {
    let accel = Accel::default();
    let rope = v7::render(&hello(), &HopState::default(), Some(0..2), &accel, &mut BytesMut::new()).into_payload();
    let fragment = v7::read(&rope, Profile::Strict, &accel).unwrap().0;
    let mut border = node(2, vec![rule(Verifier, Confidentiality, "cipher")]);
    assert_eq!(border.arrive(fragment).unwrap().duties.security(), Some(DeleteReason::MissingSecurity));
    assert_eq!(border.foreign(hello()).duties.security(), Some(DeleteReason::MissingSecurity));
    assert_eq!(border.counts(), SecurityCounts { missing: 2, ..SecurityCounts::default() });
}

#[test]
fn bundle_for_own_node_decrypts() {
    let own = |role| Rule { to: String::from("ipn:1.*"), ..rule(role, Confidentiality, "cipher") };
    let mut both = node(1, vec![own(Source), own(Acceptor)]);
    let (source, destination) = (EndpointId::ipn(1, 7), EndpointId::ipn(1, 8));
    let draft = v7::BundleDraft { source, destination, lifetime_ms: 1000, ..v7::BundleDraft::default() };
    let payload = Payload::from(&b"hello"[..]);
    let meta = v7::make(&draft, CreationTimestamp::default(), payload, CrcType::Crc32c, &Accel::default());
    let protected = both.protect(meta.clone()).unwrap();
    assert!(!protected.facts.has(Facts::SEALED), "an application here may have it");
    assert_eq!(opened(&both, &protected), Ok(b"hello".to_vec()));
    assert!(node(1, vec![own(Source)]).protect(meta).unwrap().facts.has(Facts::SEALED), "no rule opens it");
}

/// Keeps 9172-5.1.1-8, 9172-5.1.1-10, 9172-5.1.1-4.
#[test]
fn failed_target_removes_cipher_block() {
    let sealed = by_hand(&hello(), |bundle| {
        bundle.extensions.push(extra_block(30, b"extra"));
        bpsec::drop_crc(bundle, PAYLOAD);
        let header = bpsec::Header { kind: 12, number: 9, flags: bpsec::FLAGS };
        let suite = bpsec::CipherSuite { aes: bpsec::Aes::A256, scope: Scope(7), iv: [1; 12], wrapped: None };
        let source = EndpointId::ipn(1, 0);
        let [mut block, of_payload] =
            [30, PAYLOAD].map(|target| bpsec::seal(bundle, target, header, &source, &suite, &[2; 32], None).unwrap());
        block.targets.extend(of_payload.targets);
        block.results.extend(of_payload.results);
        Section { header, block }.insert(bundle);
    });
    let changed = by_hand(&sealed, |bundle| {
        let extra = bundle.extensions.iter_mut().find(|block| block.number == 30).unwrap();
        (extra.data, extra.raw) = (extra_block(30, b"other").data, None);
    });
    let rules = |role| vec![of_both(role, Confidentiality, "cipher")];
    let whole = arrives(&mut node(2, rules(Acceptor)), &sealed);
    assert_eq!(data_of(&whole, 200), Some(BlockData::Unknown(Bytes::from_static(b"extra"))));
    let mut border = node(2, rules(Acceptor));
    let passed = arrives(&mut border, &changed);
    assert_eq!((passed.duties.security(), data_of(&passed, 200)), (None, None));
    assert_eq!(passed.payload.to_bytes().unwrap(), b"hello"[..]);
    assert!(!blocks(&passed).contains(&12), "nothing is left that it targets");
}

/// Keeps 9172-5.1.2-4, 9172-5.1.2-7.
#[test]
fn failed_target_removes_hash_block() {
    let changed = by_hand(&signed_with_extra(&hello()), |bundle| {
        let extra = bundle.extensions.iter_mut().find(|block| block.number == 30).unwrap();
        (extra.data, extra.raw) = (extra_block(30, b"other").data, None);
    });
    let mut border = node(2, vec![of_both(Acceptor, Integrity, "mac")]);
    let passed = arrives(&mut border, &changed);
    assert_eq!((passed.duties.security(), data_of(&passed, 200)), (None, None));
    assert!(!blocks(&passed).contains(&11), "nothing is left that it targets");
    let SecurityCounts { verified, failed, .. } = border.counts();
    assert_eq!((verified, failed), (1, 1));
}

/// Keeps 9173-3.8.2-9, 9173-4.8.2-11.
#[test]
fn last_operation_restores_payload_crc() {
    // RFC 9173 3.8.2, 4.8.2: the CRC returns once no other operation protects the payload.
    let signed = node(1, vec![rule(Source, Integrity, "mac")]).protect(hello()).unwrap();
    let mut border = node(2, vec![rule(Acceptor, Integrity, "mac")]);
    assert_eq!((signed.tail_len, arrives(&mut border, &signed).tail_len), (1, 6));
    let both = arrives(&mut node(2, vec![rule(Source, Confidentiality, "cipher")]), &signed);
    let mut opens = node(4, vec![rule(Acceptor, Confidentiality, "cipher")]);
    let passed = arrives(&mut opens, &both);
    assert_eq!((passed.duties.security(), passed.tail_len), (None, 1), "its hash is left");
    assert_eq!(arrives(&mut border, &passed).tail_len, 6);
}

/// Keeps 9172-2.2-1, 9172-5.1.2-9.
#[test]
fn cipher_keeps_covered_primary_hash() {
    let of_primary = |role| Rule { targets: vec![PRIMARY], ..rule(role, Integrity, "mac") };
    let cipher = |role| rule(role, Confidentiality, "cipher");
    let meta = node(1, vec![of_primary(Source), cipher(Source)]).protect(hello()).unwrap();
    let passed = arrives(&mut node(2, vec![of_primary(Acceptor)]), &meta);
    assert_eq!((passed.duties.security(), blocks(&passed).contains(&11)), (None, true));
    let mut end = node(3, vec![cipher(Acceptor)]);
    let arrived = arrives(&mut end, &passed);
    assert_eq!((arrived.duties.security(), opened(&end, &arrived)), (None, Ok(b"hello".to_vec())));
}

/// Keeps 9172-3.2-1, 9172-3.7-1.
#[test]
fn repeated_hash_behind_target_rejected() {
    for of_first in [&[PAYLOAD, 30][..], &[30, PAYLOAD]] {
        for [first, second] in [[20, 21], [21, 20]] {
            let meta = by_hand(&hello(), |bundle| {
                bundle.extensions.push(extra_block(30, b"extra"));
                let mut sections = [empty(11, first, of_first), empty(11, second, &[PAYLOAD])];
                sections.sort_by_key(|section| section.header.number);
                sections.iter().for_each(|section| section.insert(bundle));
            });
            let judged = arrives(&mut node(3, vec![rule(Acceptor, Integrity, "mac")]), &meta);
            assert_eq!(judged.duties.security(), Some(DeleteReason::ConflictingSecurity), "{of_first:?} {first}");
        }
    }
}

/// Keeps 9172-5.1.1-8, 9172-5.1.1-10.
#[test]
fn encrypted_hash_survives_other_failure() {
    // Blocks may be decrypted in either order.
    for targets in [[PAYLOAD, 200], [200, PAYLOAD]] {
        let cipher = Rule { targets: targets.to_vec(), ..rule(Source, Confidentiality, "cipher") };
        let sealed = arrives(&mut node(2, vec![cipher]), &signed_with_extra(&hello()));
        let changed = by_hand(&sealed, |bundle| {
            let extra = bundle.extensions.iter_mut().find(|block| block.number == 30).unwrap();
            (extra.data, extra.raw) = (extra_block(30, b"other").data, None);
        });
        let rules = vec![of_both(Acceptor, Confidentiality, "cipher"), of_both(Acceptor, Integrity, "mac")];
        let passed = arrives(&mut node(4, rules.clone()), &changed);
        assert_eq!((passed.duties.security(), data_of(&passed, 200)), (None, None), "{targets:?}");
        assert_eq!(passed.payload.to_bytes().unwrap(), b"hello"[..]);
        assert!(!blocks(&passed).iter().any(|kind| matches!(kind, 11 | 12)), "{targets:?}");
        let mut end = node(3, rules);
        let arrived = arrives(&mut end, &changed);
        assert_eq!((arrived.duties.security(), opened(&end, &arrived)), (None, Ok(b"hello".to_vec())));
    }
}
