//! Compressed reporting on the wire (CCSDS 734.6-O-1): number and content of the signals that report a thousand
//! bundles.

#![allow(clippy::disallowed_types, reason = "the test and its codecs, all `Send`, look at the same bundles")]

use crate::line::{Layer, Line, content};
use crate::reads::Reads;
use farlink_base::{Bytes, Duration, EndpointId, Event, Facts, Payload};
use farlink_bpa::app::{AppInput, RequestId, SendRequest};
use farlink_bundle::v7::CustodyCodes;
use farlink_bundle::v7::custody::{Counter, ReportingBlock, read_signal, reporting};
use farlink_bundle::{Profile, v7};
use farlink_stack::{BpV7, Codec, CompressedConfig, Config, CustodyConfig, Input};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Bundles as they arrived at a node.
type ReportWire = Arc<Mutex<Vec<Bytes>>>;

/// All three nodes send compressed reports; the first requests them.
fn everybody(node: usize, config: &mut Config) {
    let mut compressed = CompressedConfig::default();
    compressed.settings.delay = Duration::from_secs(2);
    if node == 0 {
        compressed.settings.request = vec!["ipn:3.*".into()];
    } else {
        config.routes.push(("ipn:1.*".into(), EndpointId::ipn(node as u64, 0)));
    }
    config.compressed = Some(compressed);
    config.node.agent.status_reports = true;
}
fn line(wire: &ReportWire, tune: impl Fn(usize, &mut Config) + 'static) -> Line {
    let wire = wire.clone();
    let speak = Box::new(move |node: usize, config: &Config| {
        let codes = CustodyCodes { transfer_block: 0, custody_record: 0, ..CustodyCodes::default() };
        let codes = if config.custody.is_some() { CustodyCodes::default() } else { codes };
        let codes = config.compressed.is_some().then(|| Box::new(codes));
        let v7 = BpV7 { profile: Profile::Strict, crc: config.node.agent.crc, accel: config.accel, custody: codes };
        let wire = wire.clone();
        let heard = Reads(v7, move |codec: &BpV7, rope: &Payload| {
            if let Some(bytes) = rope.to_bytes().filter(|_| node != 2) {
                wire.lock().expect("nobody panicked").push(bytes);
            }
            codec.read(rope)
        });
        vec![Box::new(heard) as Box<dyn Codec>]
    });
    Line::speaking(Layer::TcpclV4, 3, tune, speak)
}
fn ask(line: &mut Line, facts: u32) {
    let bundle = SendRequest {
        source: EndpointId::ipn(1, 1),
        destination: EndpointId::ipn(3, 1),
        report_to: EndpointId::ipn(1, 0),
        facts: Facts(facts),
        lifetime_ms: 3_600_000,
        priority: farlink_base::Priority::Normal,
        hop_limit: 0,
        reliable: true,
        payload: Payload::from(content(1, 100)),
    };
    line.tell(0, Input::App(AppInput::Send { request: RequestId(0), bundle }));
}
fn read(bytes: &Bytes) -> farlink_base::BundleMeta {
    v7::read(&Payload::from(bytes.clone()), Profile::Strict, &Default::default()).unwrap().0
}
/// Bundles that each node reported, by item, and the number of signals.
fn told(wire: &ReportWire) -> (BTreeMap<(String, i64), u64>, usize) {
    let mut all = BTreeMap::new();
    let mut signals = BTreeMap::new();
    for meta in wire.lock().unwrap().iter().map(read).filter(|meta| meta.is_administrative()) {
        let Ok(v7::ParsedRecord::Other { kind: 14, content }) = v7::record(&meta.payload.to_bytes().unwrap()) else {
            panic!("a compressed reporting signal")
        };
        // A relay receives the signals of others, too.
        signals.insert(meta.id, (meta.source.to_string(), content));
    }
    for (source, content) in signals.values() {
        for said in read_signal(content).unwrap() {
            for sequence in said.sequences {
                assert_eq!(sequence.counter, Counter::Number(1));
                assert_eq!(sequence.source, Some(EndpointId::ipn(1, 1)), "the counter is that of the source");
                let count: u64 = sequence.runs.iter().map(|run| run.last - run.first + 1).sum();
                *all.entry((source.clone(), said.code)).or_insert(0) += count;
            }
        }
    }
    (all, signals.len())
}

#[test]
fn few_signals_report_thousand_bundles() {
    let wire = ReportWire::default();
    let mut line = line(&wire, everybody);
    line.register(2);
    line.run(Duration::from_secs(5));
    (0..1000).for_each(|_| ask(&mut line, Facts::REPORT_RECEPTION | Facts::REPORT_DELIVERY));
    line.run(Duration::from_secs(60));
    assert_eq!(line.delivered.len(), 1000);
    let (all, signals) = told(&wire);
    let of = |node: &str, what| all.get(&(node.to_string(), what)).copied();
    assert_eq!((of("ipn:2.0", 0), of("ipn:3.0", 0), of("ipn:3.0", 2)), (Some(1000), Some(1000), Some(1000)));
    assert_eq!(all.len(), 3, "nothing that nobody asked for: {all:?}");
    assert!((2..20).contains(&signals), "{signals} signals");
    let data = wire.lock().unwrap().iter().map(read).find(|meta| !meta.is_administrative()).unwrap();
    let asked = reporting(&data, 14).unwrap();
    assert_eq!((asked.asks, asked.sequence, &asked.source, &asked.report_to), (5, 1, &None, &None));
    assert!(!data.wants_report(0) || data.facts.0 & Facts::REPORTS == 0, "no status reports besides");
    assert!(data.facts.has(Facts::NO_FRAGMENT));
    let counted: u64 = line
        .events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::ReportsCompressed { bundles, .. } => Some(*bundles),
            _ => None,
        })
        .sum();
    assert_eq!(counted, 3000);
}

#[test]
fn custody_and_deletion_reports_are_restricted() {
    for to in ["*", "ipn:7.*"] {
        let wire = ReportWire::default();
        let mut line = line(&wire, move |node, config| {
            everybody(node, config);
            if let Some(compressed) = &mut config.compressed {
                compressed.settings.to = vec![to.into()];
            }
            let mut custody = CustodyConfig::default();
            if node == 0 {
                custody.settings.request = vec!["*".into()];
            }
            config.custody = Some(custody);
        });
        line.register(2);
        line.run(Duration::from_secs(5));
        ask(&mut line, Facts::REPORT_FORWARDING);
        line.run(Duration::from_secs(60));
        assert_eq!(line.delivered.len(), 1);
        // Custody has signals of its own, which are records of another type.
        let records: Vec<_> = wire.lock().unwrap().iter().map(read).filter(|meta| meta.is_administrative()).collect();
        let reports = records.iter().filter(|meta| {
            matches!(v7::record(&meta.payload.to_bytes().unwrap()), Ok(v7::ParsedRecord::Other { kind: 14, .. }))
        });
        assert_eq!(reports.count() > 0, to == "*", "{to}: {} records", records.len());
    }
}

#[test]
fn reporting_block_names_its_recipient() {
    // The block comes from another implementation and uses all optional fields.
    let block = ReportingBlock {
        number: u64::MAX,
        sequence: 0,
        asks: u64::MAX,
        source: Some(EndpointId::ipn(5, 0)),
        report_to: Some(EndpointId::ipn(6, 3)),
    };
    let draft = v7::BundleDraft {
        source: EndpointId::ipn(1, 5),
        destination: EndpointId::ipn(3, 1),
        lifetime_ms: 1000,
        reporting: Some((14, block.clone())),
        ..v7::BundleDraft::default()
    };
    let made = v7::make(&draft, Default::default(), Payload::new(), farlink_bundle::CrcType::None, &Default::default());
    assert_eq!(reporting(&made, 14), Some(block));
    assert_eq!(reporting(&made, 15), None);
    assert!(made.facts.has(Facts::NO_FRAGMENT));
}
