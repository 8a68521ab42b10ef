//! Effects of rules on bundles that are made, pass and arrive; here are the nodes, rules and bundles of the tests.

mod acceptance;
mod encryption;
mod integrity;

use super::*;
use Role::{Acceptor, Source, Verifier};
use Service::{Confidentiality, Integrity};
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
