//! Bundles at their acceptor: blocks that it removes, and failed, missing or contradictory operations.

use super::*;

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

#[test]
fn failure_at_delivery_raises_alarm() {
    let sealed = node(1, vec![rule(Source, Confidentiality, "cipher")]).protect(hello()).unwrap();
    let end = node_with(3, vec![rule(Acceptor, Confidentiality, "cipher")], vec![secret("cipher", 66)]);
    assert_eq!(opened(&end, &sent(&sealed)), Err(DeleteReason::FailedSecurity));
    let alarm = end.take_alarm().expect("an operator hears of it");
    assert_eq!((alarm.source, alarm.key.as_str()), (EndpointId::ipn(1, 7), "cipher"));
    assert_eq!(alarm.fault, Some(SecurityFault::Mismatch));
    assert!(end.take_alarm().is_none(), "once");
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
