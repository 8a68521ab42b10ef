//! CRCs on the wire follow the settings of links: one node has four links with different settings.

#![allow(clippy::disallowed_types, reason = "the test and its codecs, all `Send`, look at the same bundles")]

use crate::line::{Layer, Line, content, payload_rule};
use crate::odd::Site;
use crate::reads::Reads;
use farlink_base::security::{Role, Service};
use farlink_base::{
    Accel, Bytes, CrcType, CreationTimestamp, DtnTime, Duration, EndpointId, Facts, LayerId, LinkCrc, LinkId,
    LinkTerms, Payload, Priority, socket,
};
use farlink_bpa::app::{AppInput, RequestId, SendRequest};
use farlink_bundle::{Bundle, BundleFlags, Profile, decode};
use farlink_stack::{
    BpV6, BpV7, Codec, CompressedConfig, Config, CustodyConfig, Input, KeyRing, LinkConfig, Secret, SecurityConfig,
};
use std::sync::{Arc, Mutex};

/// Number of each neighbour, and the CRC of the link to it.
fn neighbours() -> impl Iterator<Item = (u64, LinkCrc)> {
    (2..).zip(LinkCrc::ALL.iter().copied())
}
/// One UDP link to each neighbour.
fn links(config: &mut Config, forwarded: bool) {
    let first = config.links[0].clone();
    let link = |(peer, crc): (u64, LinkCrc)| {
        let terms = LinkTerms { crc, crc_forwarded: forwarded };
        LinkConfig { name: format!("to-{peer}"), peer: EndpointId::ipn(peer, 0), terms, ..first.clone() }
    };
    config.links = neighbours().map(link).collect();
    config.routes = neighbours().map(|(peer, _)| (format!("ipn:{peer}.*"), EndpointId::ipn(peer, 0))).collect();
    config.node.agent.hop_limit = 30;
}
fn own(config: &mut Config) {
    links(config, false);
}
fn site(tune: fn(&mut Config)) -> Site {
    let mut site = Site::tuned(tune);
    for (link, (peer, _)) in (0..).map(LinkId).zip(neighbours()) {
        let addresses = vec![([10, 0, 0, peer as u8], 4556).into()];
        site.give(Input::Socket(LayerId(1), socket::Input::Located { link, addresses }));
    }
    site.wait(Duration::from_secs(1));
    site.left.clear();
    site
}
fn request(to: u64, len: usize) -> SendRequest {
    SendRequest {
        source: EndpointId::ipn(1, 1),
        destination: EndpointId::ipn(to, 1),
        report_to: EndpointId::Null,
        facts: Facts::default(),
        lifetime_ms: 3_600_000,
        priority: Priority::Expedited,
        hop_limit: 0,
        reliable: true,
        payload: Payload::from(content(to, len)),
    }
}
/// Sends a bundle to each neighbour; returns what leaves, by destination.
fn send_to_all(site: &mut Site, len: usize, facts: u32) -> Vec<(u64, Bytes)> {
    for (peer, _) in neighbours() {
        let bundle = SendRequest { facts: Facts(facts), ..request(peer, len) };
        site.give(Input::App(AppInput::Send { request: RequestId(peer), bundle }));
    }
    taken(site)
}
fn taken(site: &mut Site) -> Vec<(u64, Bytes)> {
    site.wait(Duration::from_secs(3));
    let to = |bytes: &Bytes| match read(bytes).primary.destination {
        EndpointId::Ipn { node, .. } => node,
        _ => 0,
    };
    std::mem::take(&mut site.left).into_iter().map(|bytes| (to(&bytes), bytes)).collect()
}
fn read(bytes: &Bytes) -> Bundle {
    // The strict reader checks all CRCs.
    decode(&Payload::from(bytes.clone()), Profile::Strict, &Accel::default()).expect("a bundle")
}
/// CRC types of all blocks but the primary one.
fn crcs(bundle: &Bundle) -> Vec<CrcType> {
    bundle.extensions.iter().map(|block| block.crc).chain([bundle.payload_crc]).collect()
}
fn kinds(bundle: &Bundle) -> Vec<u64> {
    bundle.extensions.iter().map(|block| block.kind).collect()
}
/// CRC type of the link to a neighbour, at a node whose own is `node`.
fn expected(to: u64, node: CrcType) -> CrcType {
    neighbours().find(|(peer, _)| *peer == to).and_then(|(_, crc)| crc.kind()).unwrap_or(node)
}

#[test]
fn each_link_gives_own_crc() {
    let tunes: [fn(&mut Config); 3] = [
        |config| (links(config, false), config.node.agent.crc = CrcType::None).1,
        |config| (links(config, false), config.node.agent.crc = CrcType::Crc16).1,
        own,
    ];
    for (tune, node) in tunes.into_iter().zip(CrcType::ALL.iter().copied()) {
        let left = send_to_all(&mut site(tune), 100, 0);
        assert_eq!(left.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [2, 3, 4, 5]);
        for (to, bytes) in left {
            let bundle = read(&bytes);
            assert_eq!((kinds(&bundle), crcs(&bundle)), (vec![10, 193], vec![expected(to, node); 3]), "{node:?} {to}");
            let primary = if node == CrcType::None { CrcType::Crc32c } else { node };
            assert_eq!(bundle.primary.crc, primary, "the primary block is the same for all links");
        }
    }
}

#[test]
fn copies_of_one_bundle_differ_by_link() {
    let tune = |config: &mut Config| {
        links(config, false);
        config.router = "epidemic".into();
    };
    let mut site = site(tune);
    site.give(Input::App(AppInput::Send { request: RequestId(1), bundle: request(9, 100) }));
    site.wait(Duration::from_secs(60));
    let copies: Vec<Bundle> = site.left.iter().map(read).filter(|bundle| !bundle.is_administrative()).collect();
    let crcs: Vec<CrcType> = copies.iter().map(|bundle| bundle.payload_crc).collect();
    assert_eq!(crcs, neighbours().map(|(peer, _)| expected(peer, CrcType::Crc32c)).collect::<Vec<_>>());
    assert!(copies.iter().all(|copy| copy.primary_raw == copies[0].primary_raw), "one bundle");
}

#[test]
fn fragments_follow_their_link() {
    let left = send_to_all(&mut site(own), 5000, 0);
    for (peer, _) in neighbours() {
        let mut parts: Vec<Bundle> = left.iter().filter(|(to, _)| *to == peer).map(|(_, bytes)| read(bytes)).collect();
        assert!(parts.len() > 3, "{peer}: {} fragments", parts.len());
        assert!(parts.iter().all(|part| crcs(part).iter().all(|crc| *crc == expected(peer, CrcType::Crc32c))));
        parts.sort_by_key(|part| part.primary.fragment.expect("a fragment").offset);
        let bytes: Vec<Bytes> = parts.iter().map(|part| part.payload.to_bytes().expect("in memory")).collect();
        assert_eq!(bytes.concat(), content(peer, 5000));
    }
}

/// A bundle from elsewhere whose blocks have CRC-16.
fn foreign(to: u64) -> Vec<u8> {
    let at = CreationTimestamp { time: DtnTime(844_000_000_000), sequence: to };
    let bundle = Bundle::new(EndpointId::ipn(9, 1), EndpointId::ipn(to, 1), at).crc(CrcType::Crc16).hop_limit(9);
    let bundle = bundle.lifetime_ms(1 << 40).payload(Payload::from(content(to, 100))).build();
    bundle.encode(&Accel::default()).into_payload().to_bytes().expect("in memory").to_vec()
}

#[test]
fn forwarded_bundle_keeps_crcs_unless_asked() {
    let tunes: [fn(&mut Config); 2] = [own, |config| links(config, true)];
    for (tune, asked) in tunes.into_iter().zip([false, true]) {
        let mut site = site(tune);
        neighbours().for_each(|(peer, _)| site.receive(&foreign(peer)));
        let left = taken(&mut site);
        assert_eq!(left.len(), 4);
        for (to, bytes) in left {
            let (bundle, link) = (read(&bytes), expected(to, CrcType::Crc32c));
            let (primary_end, came) = (bundle.primary_raw.as_ref().expect("as read").len(), foreign(to));
            assert_eq!(bytes[1..=primary_end], came[1..=primary_end], "the primary block is immutable");
            assert_eq!(kinds(&bundle), [10, 6, 241]);
            let others = if asked { link } else { CrcType::Crc16 };
            assert_eq!(crcs(&bundle), [others, link, link, others], "{asked} {to}");
        }
    }
}

#[test]
fn custody_and_report_blocks_follow_their_link() {
    let tune = |config: &mut Config| {
        links(config, false);
        let mut custody = CustodyConfig::default();
        custody.settings.request = vec!["*".into()];
        let mut compressed = CompressedConfig::default();
        compressed.settings.request = vec!["*".into()];
        (config.custody, config.compressed) = (Some(custody), Some(compressed));
    };
    let mut site = site(tune);
    for (to, bytes) in send_to_all(&mut site, 100, Facts::REPORT_DELIVERY) {
        let bundle = read(&bytes);
        let all = kinds(&bundle);
        assert!([10, 13, 193].iter().all(|kind| all.contains(kind)), "{all:?}");
        assert!(crcs(&bundle).iter().all(|crc| *crc == expected(to, CrcType::Crc32c)), "{to}: {:?}", crcs(&bundle));
    }
}

#[test]
fn status_reports_follow_their_link() {
    let mut site = site(own);
    for (peer, _) in neighbours() {
        let at = CreationTimestamp { time: DtnTime(844_000_000_000), sequence: peer };
        let bundle = Bundle::new(EndpointId::ipn(9, 1), EndpointId::ipn(1, 1), at).report_to(EndpointId::ipn(peer, 0));
        let bundle = bundle
            .flags(BundleFlags::REPORT_DELIVERY)
            .lifetime_ms(1 << 40)
            .payload(Payload::from(content(1, 10)))
            .build();
        let bytes = bundle.encode(&Accel::default()).into_payload().to_bytes().expect("in memory");
        site.receive(&bytes);
    }
    let left = taken(&mut site);
    assert_eq!(left.len(), 4, "a report to each");
    for (to, bytes) in left {
        assert!(crcs(&read(&bytes)).iter().all(|crc| *crc == expected(to, CrcType::Crc32c)), "{to}");
    }
}

#[test]
fn version_6_is_the_same_over_all_links() {
    let tune = |config: &mut Config| {
        links(config, true);
        config.node.bundle_version = 6;
    };
    let mut site = site(tune);
    for (peer, _) in neighbours() {
        let bundle = request(peer, 100);
        site.give(Input::App(AppInput::Send { request: RequestId(peer), bundle }));
    }
    site.wait(Duration::from_secs(1));
    let lengths: Vec<usize> = site.left.iter().map(Bytes::len).collect();
    assert_eq!(lengths, [lengths[0]; 4]);
    assert!(site.left.iter().all(|bytes| bytes[0] == 6));
}

#[test]
fn changed_link_terms_hold_for_next_bundle() {
    let mut site = site(own);
    site.set_link_terms(LinkId(1), LinkTerms { crc: LinkCrc::Crc16, crc_forwarded: false });
    let left = send_to_all(&mut site, 100, 0);
    assert_eq!(left.iter().map(|(_, bytes)| read(bytes).payload_crc).collect::<Vec<_>>()[1], CrcType::Crc16);
}

#[test]
fn signed_payload_gets_no_crc() {
    let tune = |config: &mut Config| {
        links(config, false);
        let rule = payload_rule(Role::Source, Service::Integrity);
        let keys = KeyRing::new([(String::from("key"), Secret::new(vec![1; 32]))]);
        config.security = Some(SecurityConfig { rules: vec![rule], keys, start: 1, seed: [1; 32], aes_gcm: None });
    };
    for (to, bytes) in send_to_all(&mut site(tune), 100, 0) {
        let bundle = read(&bytes);
        let hops = bundle.extensions.iter().find(|block| block.kind == 10).expect("a hop-count block");
        assert!(kinds(&bundle).contains(&11), "it is signed");
        assert_eq!((bundle.payload_crc, hops.crc), (CrcType::None, expected(to, CrcType::Crc32c)), "{to}");
    }
}

/// CRC type and length of the payloads of bundles that came to the last node.
type Came = Arc<Mutex<Vec<(u64, u8)>>>;
/// Codecs of a node; the last of `count` notes what comes.
fn speak(count: usize, came: &Came) -> Box<dyn Fn(usize, &Config) -> Vec<Box<dyn Codec>>> {
    let came = came.clone();
    Box::new(move |node, config| {
        let v7 = BpV7 { profile: Profile::Strict, crc: config.node.agent.crc, accel: config.accel, custody: None };
        let v6 = BpV6 { profile: Profile::Strict, numbers: false };
        if node + 1 < count {
            return vec![Box::new(v7), Box::new(v6)];
        }
        let came = came.clone();
        let note = move |codec: &BpV7, rope: &Payload| {
            codec
                .read(rope)
                .inspect(|(meta, _)| came.lock().expect("unbroken").push((meta.payload.len(), meta.tail_len)))
        };
        vec![Box::new(Reads(v7, note)), Box::new(v6)]
    })
}

#[test]
fn payload_from_disk_gets_crc_of_link() {
    // A payload of up to 16 MiB is read into memory before it leaves; a longer one is read twice, first for its CRC.
    for len in [3 << 20, 20 << 20] {
        let came = Came::default();
        let tune = |node: usize, config: &mut Config| {
            config.node.agent.crc = CrcType::None;
            config.links[0].terms.crc = if node == 0 { LinkCrc::Crc16 } else { LinkCrc::Node };
        };
        let mut line = Line::speaking(Layer::TcpclV4, 2, tune, speak(2, &came));
        line.register(1);
        line.run(Duration::from_secs(2));
        let payload = content(1, len);
        line.spool(&payload, 1 << 20, 4 << 20);
        assert!(line.run_until(Duration::from_secs(60), |line| !line.delivered.is_empty()), "{len}");
        assert!(line.delivered == [payload]);
        // 4: the end of a bundle whose payload has a CRC of 16 bits.
        let long = |came: &[(u64, u8)]| came.iter().copied().find(|(bytes, _)| *bytes == len as u64);
        assert_eq!(long(&came.lock().unwrap()), Some((len as u64, 4)));
        line.run(Duration::from_secs(5));
        line.assert_empty();
    }
}

#[test]
fn relay_in_shards_gives_crc_of_link() {
    let came = Came::default();
    let tune = |index: usize, config: &mut Config| {
        crate::shards::tune(index, config);
        // Bundles leave to the far neighbour without CRCs; the link to the near one keeps its defaults.
        let far = LinkTerms { crc: LinkCrc::None, crc_forwarded: true };
        config.links.iter_mut().filter(|link| link.name == "to-4").for_each(|link| link.terms = far);
    };
    let mut line = Line::speaking(Layer::TcpclV4, 4, tune, speak(4, &came));
    line.shards = 1;
    [0, 1, 3].into_iter().for_each(|node| crate::shards::register(&mut line, node));
    line.run(Duration::from_secs(2));
    // One bundle comes from the near neighbour, and one is made in each shard.
    [0, 1, 2].into_iter().for_each(|from| crate::shards::send(&mut line, from, 3, &content(from as u64, 100)));
    assert!(line.run_until(Duration::from_secs(30), |line| line.delivered.len() == 3), "{}", line.delivered.len());
    let ends: Vec<u8> = came.lock().unwrap().iter().filter(|(len, _)| *len == 100).map(|(_, end)| *end).collect();
    assert_eq!(ends, [1; 3], "no CRC before the end");
}
