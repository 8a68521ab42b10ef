//! Encryption: payloads, hash blocks that it covers, and keys.

use super::*;

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
    // Once the old generation is gone, bundles protected by it can no longer be decrypted.
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

#[test]
fn hash_of_sealed_target_stays_encrypted() {
    let sealed = arrives(&mut node(2, vec![of_both(Source, Confidentiality, "cipher")]), &signed_with_extra(&hello()));
    let of_extra = Rule { targets: vec![200], ..rule(Acceptor, Confidentiality, "cipher") };
    let of_payload = rule(Verifier, Confidentiality, "cipher");
    for rules in [[of_extra.clone(), of_payload.clone()], [of_payload, of_extra]] {
        let passed = arrives(&mut node(4, rules.into()), &sealed);
        assert_eq!(data_of(&passed, 200), Some(BlockData::Unknown(Bytes::from_static(b"extra"))));
        assert_eq!(blocks(&passed).iter().filter(|kind| **kind == 12).count(), 2, "payload and hash");
        let mut end = node(3, vec![rule(Acceptor, Confidentiality, "cipher"), rule(Acceptor, Integrity, "mac")]);
        let arrived = arrives(&mut end, &passed);
        assert_eq!((arrived.duties.security(), opened(&end, &arrived)), (None, Ok(b"hello".to_vec())));
    }
}

#[test]
fn hash_of_accepted_targets_is_decrypted() {
    let sealed = arrives(&mut node(2, vec![of_both(Source, Confidentiality, "cipher")]), &signed_with_extra(&hello()));
    // The first rule is for blocks that the bundle lacks.
    let absent = Rule { targets: vec![201], required: false, ..rule(Verifier, Confidentiality, "cipher") };
    let passed = arrives(&mut node(4, vec![absent, of_both(Acceptor, Confidentiality, "cipher")]), &sealed);
    assert_eq!(blocks(&passed).iter().filter(|kind| **kind == 12).count(), 0);
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

#[test]
fn verifier_leaves_hash_of_clear_target() {
    let signed = by_hand(&hello(), |bundle| {
        bundle.extensions.push(extra_block(30, b"extra"));
        let header = bpsec::Header { kind: 11, number: 9, flags: bpsec::FLAGS };
        let suite = bpsec::HashSuite { sha: Sha::Sha256, scope: Scope(0), wrapped: None };
        let block = bpsec::sign(bundle, &[30], header, &hello().source, &suite, &[1; 32]).unwrap();
        Section { header, block }.insert(bundle);
    });
    let of_extra = Rule { targets: vec![200], ..rule(Source, Confidentiality, "cipher") };
    let sealed = arrives(&mut node(2, vec![of_extra]), &signed);
    // The bundle as a relay of another implementation would forward it that decrypts the extra block only.
    let half = by_hand(&sealed, |bundle| {
        let keys = [Secret::new(vec![2; 32])];
        let sections: Vec<Section> = Section::all(bundle, 12).filter_map(Result::ok).collect();
        for mut section in sections {
            if section.block.targets.contains(&30) {
                bpsec::open(bundle, &section.block, section.header, 30, &keys, None).unwrap();
                section.remove(bundle, 30);
            }
        }
    });
    assert_eq!(data_of(&half, 200), Some(BlockData::Unknown(Bytes::from_static(b"extra"))));
    assert_eq!(blocks(&half).iter().filter(|kind| **kind == 12).count(), 1);
    let verifier = Rule { targets: vec![200], required: false, ..rule(Verifier, Confidentiality, "cipher") };
    let passed = arrives(&mut node(4, vec![verifier]), &half);
    assert_eq!(passed.duties.security(), None);
    assert_eq!(blocks(&passed), blocks(&half), "a verifier changes nothing");
}
