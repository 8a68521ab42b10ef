//! What rules do to bundles that are made, pass and arrive.

use super::*;
use alloc::string::String;
use alloc::vec;
use farlink_base::security::PRIMARY;
use farlink_base::{BytesMut, CreationTimestamp, DtnTime, Hop, Priority};

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
    }
}
fn secret(name: &str, byte: u8) -> (String, Secret) {
    (String::from(name), Secret::new(vec![byte; 32]))
}
fn node_with(node: u64, rules: Vec<Rule>, keys: Vec<(String, Secret)>) -> Security {
    let told = SecurityConfig { rules, keys: KeyRing::new(keys), start: 5, seed: [9; 32], bytes_max: 1 << 20 };
    Security::new(&told, &Config::new(EndpointId::ipn(node, 0)))
}
fn node(node: u64, rules: Vec<Rule>) -> Security {
    node_with(node, rules, vec![secret("mac", 1), secret("cipher", 2)])
}
fn made(payload: Payload) -> BundleMeta {
    let draft = v7::Draft {
        source: EndpointId::ipn(1, 7),
        destination: EndpointId::ipn(3, 7),
        lifetime_ms: 1000,
        priority: Priority::Expedited,
        hop_limit: 9,
        ..v7::Draft::default()
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
    let hop = Hop { previous: EndpointId::ipn(8, 0), hops: 3, ..Hop::default() };
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
use Role::{Acceptor, Source, Verifier};
use Service::{Confidentiality, Integrity};

#[test]
fn integrity_is_added_once_checked_on_the_way_and_at_the_end() {
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

#[test]
fn what_is_changed_missing_or_of_another_key_is_told_apart() {
    let mut source = node(1, vec![rule(Source, Integrity, "mac")]);
    let mut end = node(3, vec![rule(Acceptor, Integrity, "mac")]);
    let meta = source.protect(hello()).unwrap();
    let changed = sent_as(&meta, |bytes| {
        let at = bytes.len() - 3;
        bytes[at] ^= 1;
    });
    let arrived = end.arrive(changed).unwrap();
    assert_eq!(arrived.duties.security(), Some(DeleteReason::FailedSecurity), "RFC 9172 5.1.2");
    assert_eq!(opened(&end, &arrived), Err(DeleteReason::FailedSecurity));
    let plain = arrives(&mut end, &hello());
    assert_eq!(plain.duties.security(), Some(DeleteReason::MissingSecurity));
    let mut other = node_with(3, vec![rule(Acceptor, Integrity, "mac")], vec![secret("mac", 77)]);
    assert_eq!(arrives(&mut other, &meta).duties.security(), Some(DeleteReason::FailedSecurity));
    let mut keyless = node_with(3, vec![rule(Acceptor, Integrity, "mac")], vec![]);
    assert_eq!(arrives(&mut keyless, &meta).duties.security(), Some(DeleteReason::UnknownSecurity));
    assert_eq!((end.counts().failed, end.counts().missing), (2, 1));
}

#[test]
fn a_bundle_of_nobody_the_rules_name_is_left_alone() {
    let mut relay = node(2, vec![rule(Verifier, Integrity, "mac"), rule(Source, Confidentiality, "cipher")]);
    let mut meta = hello();
    meta.source = EndpointId::ipn(12, 7);
    assert!(wishes(&relay.rules, &meta, false).is_empty() && wishes(&relay.rules, &meta, true).is_empty());
    let head = meta.head.clone();
    assert_eq!(relay.arrive(meta).unwrap().head, head);
    assert_eq!(relay.counts(), SecurityCounts::default());
}

#[test]
fn an_enciphered_payload_is_sealed_to_all_but_its_acceptor_and_lies_enciphered_here() {
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

#[test]
fn what_the_source_enciphers_gets_no_hash_besides_and_counts_as_whole() {
    let both = |role| vec![rule(role, Integrity, "mac"), rule(role, Confidentiality, "cipher")];
    let (mut source, mut end) = (node(1, both(Source)), node(3, both(Acceptor)));
    let meta = source.protect(hello()).unwrap();
    assert_eq!(blocks(&meta).iter().filter(|kind| matches!(kind, 11 | 12)).count(), 1, "RFC 9172 3.9");
    let arrived = arrives(&mut end, &meta);
    assert_eq!((arrived.duties.security(), opened(&end, &arrived)), (None, Ok(b"hello".to_vec())));
    // A node on the way without the key cannot judge, and does not hold it up.
    let mut relay = node(2, vec![rule(Verifier, Integrity, "mac")]);
    assert_eq!(arrives(&mut relay, &meta).duties.security(), None);
}

#[test]
fn a_gateway_enciphers_what_another_node_signed_with_its_hash() {
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

#[test]
fn an_acceptor_on_the_way_takes_out_what_it_checked_and_puts_crcs_back() {
    let mut source = node(1, vec![rule(Source, Confidentiality, "cipher")]);
    let mut border = node(2, vec![rule(Acceptor, Confidentiality, "cipher")]);
    let meta = source.protect(hello()).unwrap();
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

#[test]
fn primary_and_payload_are_signed_together_and_the_hash_of_the_primary_block_stays_while_others_cover_it() {
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
            let fits = !wishes(&end.rules, &changed, false).is_empty();
            let judged = end.arrive(changed).unwrap().duties.security();
            assert!(!fits || judged.is_some(), "byte {at}");
        }
    }
}

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
    let mut later = receiver(vec![secret("cipher", 3)]);
    assert_eq!(arrives(&mut later, &new).duties.security(), None);
    assert_eq!(arrives(&mut later, &old).duties.security(), Some(DeleteReason::FailedSecurity));
}

#[test]
fn no_iv_serves_twice_and_what_is_worn_out_refuses() {
    let mut source = node(1, vec![rule(Source, Confidentiality, "cipher")]);
    let mut heads: Vec<_> = (0..200).map(|_| source.protect(hello()).unwrap().head).collect();
    heads.sort();
    heads.dedup();
    assert_eq!(heads.len(), 200, "the bundle is the same, its head differs by the IV");
    source.wear_out("cipher");
    assert_eq!(source.protect(hello()).unwrap_err(), Refusal::NoResources, "RFC 9173 4.8.1: 2^32 blocks a key");
    source.nonces.skip_to(1 << 40);
    source.set(vec![Rule { wrap: true, ..rule(Source, Confidentiality, "cipher") }], source.keys.clone());
    assert_eq!(source.protect(hello()).unwrap_err(), Refusal::NoResources);
}

#[test]
fn what_cannot_be_protected_is_refused_and_never_leaves_in_clear() {
    let mut keyless = node_with(1, vec![rule(Source, Confidentiality, "cipher")], vec![]);
    assert_eq!(keyless.protect(hello()).unwrap_err(), Refusal::NotAcceptable);
    let mut source = node(1, vec![rule(Source, Confidentiality, "cipher")]);
    assert_eq!(source.protect(made(Payload::from(vec![0; (1 << 20) + 1]))).unwrap_err(), Refusal::TooLarge);
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
    // A hash of two targets cannot be enciphered for one of them.
    let mut gateway = node(2, vec![rule(Source, Confidentiality, "cipher")]);
    let two = |meta: &BundleMeta| {
        let mut bundle = Security::unpack(meta, meta.payload.clone(), &Accel::default()).unwrap();
        let header = bpsec::Header { kind: 11, number: 9, flags: bpsec::FLAGS };
        let suite = bpsec::HashSuite { sha: bpsec::Sha::Sha256, scope: bpsec::Scope(0), wrapped: None };
        [PRIMARY, PAYLOAD].into_iter().for_each(|number| bpsec::drop_crc(&mut bundle, number));
        let block = bpsec::sign(&bundle, &[PRIMARY, PAYLOAD], header, &meta.source, &suite, &[1; 32]).unwrap();
        bpsec::Section { header, block }.insert(&mut bundle);
        gateway.pack(&bundle, meta).unwrap()
    };
    let signed = two(&hello());
    let judged = gateway.arrive(signed).unwrap();
    assert_eq!(judged.duties.security(), Some(DeleteReason::ConflictingSecurity), "RFC 9172 3.9");
}

#[test]
fn a_fragment_gets_no_block_and_is_judged_when_it_is_whole() {
    let accel = Accel::default();
    let mut source = node(1, vec![rule(Source, Confidentiality, "cipher")]);
    let mut end = node(3, vec![rule(Acceptor, Confidentiality, "cipher")]);
    let meta = source.protect(made(Payload::from(vec![7; 1000]))).unwrap();
    let cut = |range| {
        let rope = v7::render(&meta, &Hop::default(), Some(range), &accel, &mut BytesMut::new()).into_payload();
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
fn a_payload_known_by_its_length_is_protected_as_one_in_memory() {
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
fn a_group_gets_what_came_and_each_member_opens_it() {
    let group = |role| Rule { to: String::from("dtn://all/*"), ..rule(role, Confidentiality, "cipher") };
    let (mut source, mut member) = (node(1, vec![group(Source)]), node(3, vec![group(Acceptor)]));
    let draft = v7::Draft {
        source: EndpointId::ipn(1, 7),
        destination: EndpointId::dtn("all", "~news"),
        lifetime_ms: 1000,
        ..v7::Draft::default()
    };
    let payload = Payload::from(&b"news"[..]);
    let meta = v7::make(&draft, CreationTimestamp::default(), payload, CrcType::Crc32c, &Accel::default());
    let meta = source.protect(meta).unwrap();
    let arrived = arrives(&mut member, &meta);
    assert_eq!(arrived.payload.to_bytes(), meta.payload.to_bytes(), "others need it as it came");
    assert_eq!(opened(&member, &arrived), Ok(b"news".to_vec()));
}

#[test]
fn none_of_100_000_mutations_of_secured_bundles_is_accepted_as_another() {
    let (runs, mut judged) = (100_000, 0);
    let of_both = |role| Rule { targets: vec![PAYLOAD, PRIMARY], ..rule(role, Integrity, "mac") };
    let cipher = |role| rule(role, Confidentiality, "cipher");
    let mut rng = farlink_base::Rng::stream(1, 2);
    for (made_by, end_has) in
        [(vec![of_both(Source)], vec![of_both(Acceptor)]), (vec![cipher(Source)], vec![cipher(Acceptor)])]
    {
        let (mut source, mut end) = (node(1, made_by), node(3, end_has));
        let meta = source.protect(made(Payload::from(&b"a text that nobody may change"[..]))).unwrap();
        let rope = v7::render(&meta, &Hop::default(), None, &Accel::default(), &mut BytesMut::new()).into_payload();
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
            // Another source or destination may be nobody's business here.
            if wishes(&end.rules, &changed, false).is_empty() {
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
