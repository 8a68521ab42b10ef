//! Tests of administrative records (RFC 5050 6.1, CCSDS 734.2-B-1).

use super::*;
use crate::{BundleId, StatusItem, reason};

fn subject(fragment: Option<(u64, u64)>) -> BundleId {
    let creation = CreationTimestamp { time: DtnTime(799_000_000_000), sequence: 4 };
    BundleId { source: EndpointId::dtn("a", "b"), creation, fragment }
}

/// Keeps 5050-6.2-1, 5050-6.2-2.
#[test]
fn v6_status_reports_always_have_time() {
    let fragment = made(b"data").with(|bundle| (bundle.flags, bundle.place) = (flags::FRAGMENT, Some((5, 9))));
    for bundle in [made(b"data"), made(b"data").named(), fragment] {
        let (meta, _) = bundle.read();
        for (which, at) in [
            StatusAssertion::Received,
            StatusAssertion::Forwarded,
            StatusAssertion::Delivered,
            StatusAssertion::Deleted,
        ]
        .into_iter()
        .zip([0, 2, 3, 4])
        {
            for time in [None, Some(DtnTime(9_001))] {
                let bytes = status_report(&meta, which, reason::NO_ROUTE, time);
                let Ok(ParsedRecord::Report(report)) = record(&bytes) else { panic!("{bytes:x?}") };
                assert_eq!((&report.subject, report.reason), (&meta.identity(), 6));
                let asserted = report.items().map(|(_, item)| item.asserted);
                assert!(asserted[at] && asserted.iter().filter(|asserted| **asserted).count() == 1);
                assert_eq!(report.items()[at].1, StatusItem::at(time));
                for cut in 0..bytes.len() {
                    assert!(record(&bytes[..cut]).is_err(), "cut to {cut}");
                }
                assert!(record(&[&bytes[..], &[0]].concat()).unwrap_err().reason.contains("bytes after"));
            }
        }
    }
}

/// Keeps 5050-5.6-2.
#[test]
fn newer_reasons_map_to_v6_codes() {
    // Codes added by BPv7 have no number in BPv6.
    let (meta, _) = made(b"").read();
    let said = |code| {
        record(&status_report(&meta, StatusAssertion::Deleted, code, None)).map(|record| match record {
            ParsedRecord::Report(report) => (report.reason, report.reason_text()),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(said(reason::LIFETIME_EXPIRED), Ok((1, "lifetime expired")));
    assert_eq!(said(5), Ok((5, "destination endpoint ID unintelligible")));
    assert_eq!(said(reason::BLOCK_UNSUPPORTED), Ok((8, "block unintelligible")));
    assert_eq!(said(reason::TRAFFIC_PARED), Ok((4, "depleted storage")));
    assert_eq!(
        [said(reason::HOP_LIMIT), said(u64::MAX)],
        [Ok((0, "no additional information")), Ok((0, "no additional information"))]
    );
}

#[test]
fn custody_signals_round_trip() {
    for fragment in [None, Some((5, 7))] {
        for succeeded in [true, false] {
            let signal =
                CustodySignal { succeeded, reason: 3, time: DtnTime(800_000_000_123), subject: subject(fragment) };
            let bytes = signal.encode();
            assert_eq!((bytes[0] >> 4, bytes[1]), (2, u8::from(succeeded) << 7 | 3));
            assert_eq!(record(&bytes), Ok(ParsedRecord::Custody(signal)));
            assert!((0..bytes.len()).all(|cut| record(&bytes[..cut]).is_err()));
        }
    }
    assert_eq!([3, 4, 1, 99].map(custody_reason), ["redundant reception", "depleted storage", "reserved", "reserved"]);
}

/// Keeps 9758-7.4-2.
#[test]
fn long_v6_node_number_omits_allocator() {
    let long = EndpointId::ipn(977_000 << 32 | 1, 3);
    assert_eq!(crate::v6::text(&long), "ipn:4196183048192001.3");
}

#[test]
fn aggregate_signals_encode_ranges() {
    let fills =
        |fills: &[(u64, u64)]| fills.iter().map(|(first, last)| CustodyFill { first: *first, last: *last }).collect();
    for (ranges, wire) in [
        (&[][..], &[][..]),
        (&[(1, 2), (4, 4)], &[1, 2, 2, 1]),
        (&[(0, 255), (512, 782)], &[0, 0x82, 0, 0x82, 1, 0x82, 0x0f]),
        (&[(1, u64::MAX)], &[1, 0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
    ] {
        let signal = AggregateSignal { succeeded: true, reason: 0, fills: fills(ranges) };
        assert_eq!(signal.encode()[2..], *wire);
        assert_eq!(record(&signal.encode()), Ok(ParsedRecord::Aggregate(signal)));
    }
    let most = [&[0x81][..], &[0xff; 8], &[0x7f]].concat();
    for (bytes, why) in [
        (&[1, 0][..], "a fill that is empty or overlaps the one before"),
        (&[1, 2, 0, 1], "a fill that is empty or overlaps the one before"),
        (&[&[2][..], &most].concat(), "a fill beyond 64 bits"),
        (&[&[1][..], &most, &[1, 1]].concat(), "a fill beyond 64 bits"),
        (&[1], "the record ends too early"),
    ] {
        let bytes = [&[0x40, 0x80], bytes].concat();
        assert_eq!(record(&bytes).unwrap_err().reason, why);
    }
}

#[test]
fn v6_unknown_records_are_kept() {
    for len in [0, 1, 300] {
        let content = vec![7; len];
        assert_eq!(record(&signal(&content)), Ok(ParsedRecord::Signal(Bytes::from(content))));
    }
    assert_eq!(record(&[0x30, 1, 2]), Ok(ParsedRecord::Other { kind: 3, content: Bytes::from_static(&[1, 2]) }));
    assert!(record(&[]).is_err());
    // A missing source, and times out of range.
    let late =
        [&[0x10, 1, 0][..], &[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], &[0, 1, 1, 0]].concat();
    assert_eq!(record(&late).unwrap_err().reason, "a time out of range");
    assert_eq!(record(&[0x10, 0, 0, 1, 1, 3, b'a', b'b', b'c']).unwrap_err().reason, "an endpoint ID without scheme");
    assert!(record(&[&[0x10, 0, 0, 1, 1][..], &[0xff; 9], &[0x7f]].concat()).is_err());
}
