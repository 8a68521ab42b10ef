//! Integrity: which hashes are added, and how each fault shows.

use super::*;

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
fn failed_operation_alarms_with_its_key() {
    let mut source = node(1, vec![rule(Source, Integrity, "mac")]);
    let meta = source.protect(hello()).unwrap();
    let rules = || vec![rule(Acceptor, Integrity, "mac")];
    for (mut end, given, fault) in [
        (node_with(3, rules(), vec![secret("mac", 77)]), &meta, Some(bpsec::SecurityFault::Mismatch)),
        (node_with(3, rules(), vec![]), &meta, Some(bpsec::SecurityFault::Key)),
        (node(3, rules()), &hello(), None),
    ] {
        arrives(&mut end, given);
        let alarm = end.take_alarm().unwrap();
        assert_eq!((alarm.fault, &*alarm.key, alarm.service), (fault, "mac", Integrity));
        assert_eq!((&alarm.source, &alarm.destination), (&meta.source, &meta.destination));
        assert_eq!(end.take_alarm(), None, "said once");
    }
    let mut end = node(3, rules());
    arrives(&mut end, &meta);
    assert_eq!(end.take_alarm(), None, "a bundle that is right");
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
        // These bytes hold source, destination and times: none may change unnoticed.
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
        // One bad parameter at a time: variant, wrapped key, scope.
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

/// Keeps 9172-3.9-6.
#[test]
fn unreadable_security_blocks_prevent_additions() {
    for (kind, own) in [(12, rule(Source, Integrity, "mac")), (11, rule(Source, Confidentiality, "cipher"))] {
        let unreadable = by_hand(&hello(), |bundle| {
            empty(kind, 20, &[PAYLOAD]).insert(bundle);
            // The targets stay readable; parameters and results have no known form.
            bundle.extensions[0].data = BlockData::Unknown(Bytes::from_static(&[0x81, 1, 0xf6]));
            bundle.extensions[0].raw = None;
        });
        let mut relay = node(2, vec![own]);
        let judged = arrives(&mut relay, &unreadable);
        assert_eq!(judged.duties.security(), Some(DeleteReason::FailedSecurity), "{kind}");
        assert_eq!(relay.counts().made, 0);
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
