//! Round trips and segments with and without Nagle's algorithm.

use super::*;
use crate::pcapng::tests::capture;
use crate::segments::tests::frame;
use farlink_base::Rng;

const MS: u64 = 1_000_000;

/// Draw of a round trip in ms.
type RoundTripDraw<'a> = &'a dyn Fn(&mut Rng) -> f64;

/// Draws this number of round trips of each kind; in seconds.
fn times(kinds: &[(usize, RoundTripDraw<'_>)]) -> Vec<f64> {
    let mut rng = Rng::new(7);
    kinds.iter().flat_map(|(count, draw)| (0..*count).map(|_| draw(&mut rng) / 1e3).collect::<Vec<_>>()).collect()
}

#[test]
fn third_of_delayed_round_trips_is_found() {
    let fast: RoundTripDraw<'_> = &|rng| 2.0 + rng.unit();
    for (low, wide) in [(41.0, 3.0), (13.0, 1.0), (42.0, 160.0), (200.0, 8.0)] {
        let slow: RoundTripDraw<'_> = &|rng| low + wide * rng.unit();
        let found = RoundTripClusters::find(&times(&[(660, fast), (340, slow)])).unwrap();
        assert!((found.share - 0.34).abs() < 0.01, "{low}: {found:?}");
        assert!((found.first_s - 0.0025).abs() < 2e-4 && found.second_s > low / 1e3, "{found:?}");
    }
    let slow: RoundTripDraw<'_> = &|rng| 42.0 + rng.unit();
    let lost: RoundTripDraw<'_> = &|rng| 1000.0 + 2000.0 * rng.unit();
    assert!(RoundTripClusters::find(&times(&[(600, fast), (340, slow), (60, lost)])).is_some(), "in spite of losses");
}

#[test]
fn other_distributions_have_no_second_cluster() {
    let fast: RoundTripDraw<'_> = &|rng| 2.0 + rng.unit();
    let at = |ms: f64| move |rng: &mut Rng| ms + rng.unit();
    let cases: [(&str, Vec<f64>); 8] = [
        ("one cluster", times(&[(1000, fast)])),
        ("a fifth at most", times(&[(810, fast), (190, &at(42.0))])),
        ("too near", times(&[(600, fast), (400, &at(8.0))])),
        ("too far", times(&[(600, fast), (400, &at(260.0))])),
        ("uniform", times(&[(1000, &|rng| 200.0 * rng.unit())])),
        ("exponential", times(&[(1000, &|rng| -50.0 * (1.0 - rng.unit()).ln())])),
        ("nearly all", times(&[(20, fast), (980, &at(42.0))])),
        ("too few", times(&[(10, fast), (9, &at(42.0))])),
    ];
    for (name, seconds) in cases {
        assert_eq!(RoundTripClusters::find(&seconds), None, "{name}");
    }
    assert_eq!(RoundTripClusters::find(&[0.001; 50]), None);
    for count in [20, 50, 200] {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            let few: Vec<f64> = (0..count).map(|_| 0.001 + 0.1 * rng.unit()).collect();
            assert_eq!(RoundTripClusters::find(&few), None, "{count} uniform values of seed {seed}");
        }
    }
}

/// Both directions of a connection at the end that sends.
#[derive(Default)]
struct Wire {
    segments: Vec<SegmentSeen>,
    sent: u32,
}
impl Wire {
    fn send(&mut self, time_ns: u64, payload: u32) {
        // The sequence numbers wrap around within the test.
        let sequence = 0xffff_ff00u32.wrapping_add(self.sent);
        self.sent += payload;
        self.segments.push(SegmentSeen { time_ns, is_sent: true, sequence, payload, ..SegmentSeen::default() });
    }
    fn again(&mut self, time_ns: u64) {
        let last = self.segments.iter().rfind(|segment| segment.is_sent).copied();
        self.segments.extend(last.map(|segment| SegmentSeen { time_ns, ..segment }));
    }
    /// Acknowledges all data with a segment that carries `payload` bytes.
    fn acknowledge(&mut self, time_ns: u64, payload: u32) {
        let acknowledgment = 0xffff_ff00u32.wrapping_add(self.sent);
        let is_ack_only = payload == 0;
        self.segments.push(SegmentSeen { time_ns, acknowledgment, payload, is_ack_only, ..SegmentSeen::default() });
    }
    fn found(&self) -> HeldSegments {
        HeldSegments::of(&self.segments, FULL)
    }
}

/// An application that writes two small pieces each second, to a peer that delays acknowledgments for 40 ms.
fn two_writes(nagle: bool) -> Wire {
    let mut wire = Wire::default();
    for second in 0..100 {
        let at = second * 1000 * MS;
        wire.send(at, 20);
        if !nagle {
            wire.send(at + MS / 10, 200);
        }
        wire.acknowledge(at + 41 * MS, 0);
        if nagle {
            wire.send(at + 41 * MS + MS / 5, 200);
        }
        wire.acknowledge(at + 43 * MS, 30);
    }
    wire
}

#[test]
fn segments_released_by_acknowledgments_are_held() {
    let found = two_writes(true).found();
    assert_eq!((found.small, found.held, found.overlapping), (200, 100, 0));
    assert!(found.is_found() && (found.wait_s.unwrap() - 0.041).abs() < 1e-6, "{found:?}");
}

#[test]
fn overlapping_segments_are_not_held() {
    let found = two_writes(false).found();
    assert_eq!((found.small, found.held, found.overlapping), (200, 0, 100));
    assert!(!found.is_found());
}

#[test]
fn idle_application_holds_nothing() {
    let mut wire = Wire::default();
    for second in 0..100 {
        wire.send(second * 1000 * MS, 100);
        wire.acknowledge(second * 1000 * MS + 40 * MS, 0);
    }
    assert_eq!((wire.found().small, wire.found().held), (100, 0));
}

#[test]
fn answers_to_data_are_not_held() {
    let mut wire = Wire::default();
    for turn in 0..100 {
        // Ping-pong with a window of one over a link of 50 ms: each answer starts the next request.
        wire.send(turn * 50 * MS, 100);
        wire.acknowledge((turn + 1) * 50 * MS - MS, 100);
    }
    assert_eq!(wire.found().held, 0);
}

#[test]
fn prompt_acknowledgments_delay_nothing() {
    let mut wire = Wire::default();
    for turn in 0..100 {
        wire.send(turn * 100 * MS, 20);
        wire.acknowledge(turn * 100 * MS + 3 * MS, 0);
        wire.send(turn * 100 * MS + 3 * MS + 1, 200);
        wire.acknowledge(turn * 100 * MS + 6 * MS, 0);
    }
    let found = wire.found();
    assert_eq!((found.held, found.overlapping), (0, 0), "3 ms are no finding");
}

#[test]
fn losses_neither_hide_nor_feign() {
    for nagle in [true, false] {
        let (mut wire, mut rng) = (Wire::default(), Rng::new(11));
        for turn in 0..200 {
            let at = turn * 1000 * MS;
            let lost = rng.below(5) == 0;
            wire.send(at, 20);
            if !nagle {
                wire.send(at + MS / 2, 200);
            }
            if lost {
                wire.again(at + 230 * MS);
            }
            let acknowledged = at + if lost { 232 } else { 41 } * MS;
            wire.acknowledge(acknowledged, 0);
            if nagle {
                wire.send(acknowledged + MS / 10, 200);
                wire.acknowledge(acknowledged + 2 * MS, 0);
            }
        }
        let found = wire.found();
        assert_eq!((found.is_found(), found.small), (nagle, 400), "{found:?}");
    }
}

#[test]
fn end_of_large_write_is_not_held() {
    let mut wire = Wire::default();
    for turn in 0..100 {
        let at = turn * 1000 * MS;
        // Super-packets with a small end behind full segments, and full ones alone.
        wire.send(at, 10 * FULL);
        wire.send(at + 1, 3 * FULL + 100);
        wire.acknowledge(at + 30 * MS, 0);
        wire.send(at + 30 * MS + 1, 5 * FULL);
        wire.acknowledge(at + 60 * MS, 0);
    }
    assert_eq!((wire.found().small, wire.found().held), (100, 0));
}

/// A capture of [`two_writes`] at both hosts.
fn captured(nagle: bool) -> Vec<u8> {
    const OPTIONS: [u8; 4] = [2, 4, 5, 168];
    let mut frames = vec![
        (0, 1, true, frame(false, (0xffff_feff, 0), 2, &OPTIONS, 0)),
        (0, 2, false, frame(true, (0, 0xffff_ff00), 0x12, &OPTIONS, 0)),
    ];
    for segment in two_writes(nagle).segments {
        let numbers = (segment.sequence, segment.acknowledgment);
        let bytes = frame(!segment.is_sent, numbers, 0x18, &[], segment.payload as usize);
        frames.push((0, segment.time_ns + 10, segment.is_sent, bytes.clone()));
        frames.push((1, segment.time_ns + 11, !segment.is_sent, bytes));
    }
    capture(&frames)
}

#[test]
fn capture_shows_which_host_holds() {
    for nagle in [true, false] {
        let all = held_in_capture(&captured(nagle)[..]).unwrap();
        let found: Vec<_> = all.iter().filter(|held| held.is_found()).collect();
        assert_eq!(all.len(), 2, "one connection from both of its ends");
        assert_eq!(found.len(), usize::from(nagle));
        assert!(found.iter().all(|held| held.node == "a" && held.held == 100), "{found:?}");
    }
}

#[test]
fn reused_port_is_another_connection() {
    // One full segment; then a new connection uses the port again, with lower sequence numbers and small segments.
    let mut frames = vec![
        (0, 1, true, frame(false, (0xffff_0000, 0), 2, &[], 0)),
        (0, 2, true, frame(false, (0xffff_0001, 0), 0x18, &[], 536)),
        (0, 3, true, frame(false, (0x9000_0000, 0), 2, &[], 0)),
    ];
    for number in 0..7 {
        let (sequence, time_ns) = (0x9000_0001 + number * 100, 1000 + u64::from(number));
        frames.push((0, time_ns, true, frame(false, (sequence, 0), 0x18, &[], 100)));
    }
    let all = held_in_capture(&capture(&frames)[..]).unwrap();
    assert_eq!(all.iter().map(|held| held.small).collect::<Vec<_>>(), [7]);
}

#[test]
fn simulation_has_no_nagle() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = crate::Manifest::new(crate::RunWorld::Sim, "x", "", None);
    crate::RunWriter::create(folder.path(), manifest).unwrap().finish().unwrap();
    let run = RunReader::open(folder.path()).unwrap();
    // Two paths of different length, used in turn.
    let trip = |at: u64| RoundTrip { sent_ns: at, seconds: if at.is_multiple_of(3) { 0.142 } else { 0.1 } };
    assert_eq!(NagleReport::read(&run, &(0..90).map(trip).collect::<Vec<_>>()), None);
}

#[test]
fn finding_needs_both_facts() {
    let clusters = Some(RoundTripClusters { share: 0.34, first_s: 0.002, second_s: 0.042 });
    let held = Some(HeldSegments { node: "a".into(), ..two_writes(true).found() });
    let report = |clusters, held: &Option<HeldSegments>, is_captured| NagleReport {
        round_trips: 1000,
        clusters,
        held: held.clone(),
        is_captured,
        unreadable: None,
    };
    let both = report(clusters, &held, true);
    let expected = "Nagle's algorithm delays round trips: 34 % of 1,000 round trips are 40 ms longer than the others, and \
                    a held 100 of 200 small segments until an acknowledgment came, 41 ms in the median.";
    assert_eq!((both.verdict(), both.finding().as_deref()), (NagleVerdict::Found, Some(expected)));
    for (report, says) in [
        (report(clusters, &None, false), "no link was captured"),
        (report(clusters, &None, true), "the captures show no small segments held"),
        (report(None, &held, true), "no round trips stand apart"),
    ] {
        let text = report.finding().unwrap();
        assert!(report.verdict() == NagleVerdict::Suspected && text.contains(says), "{text}");
        assert!(text.starts_with("Nagle's algorithm is suspected: "), "{text}");
    }
    let unreadable = NagleReport { unreadable: Some("l.pcapng: cut\nhint".into()), ..report(clusters, &None, false) };
    assert!(unreadable.finding().unwrap().ends_with("a capture could not be read, l.pcapng: cut."));
    let none = report(None, &None, true);
    assert_eq!((none.verdict(), none.finding()), (NagleVerdict::Absent, None));
}

#[test]
fn captures_of_a_run_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = crate::Manifest::new(crate::RunWorld::Lab, "x", "", None);
    crate::RunWriter::create(folder.path(), manifest).unwrap().finish().unwrap();
    let run = RunReader::open(folder.path()).unwrap();
    let trip = |at: u64| RoundTrip { sent_ns: at, seconds: if at.is_multiple_of(3) { 0.042 } else { 0.002 } };
    let trips: Vec<RoundTrip> = (0..90).map(trip).collect();
    let verdict = |trips: &[RoundTrip]| NagleReport::read(&run, trips).map(|report| report.verdict());
    assert_eq!((verdict(&trips[..9]), verdict(&trips)), (None, Some(NagleVerdict::Suspected)));
    let captures = folder.path().join("captures");
    std::fs::create_dir(&captures).unwrap();
    let nearly_all: Vec<RoundTrip> =
        (0..90).map(|at| RoundTrip { seconds: if at == 0 { 0.002 } else { 0.042 }, ..trip(at) }).collect();
    assert_eq!(verdict(&nearly_all), Some(NagleVerdict::Absent));
    std::fs::write(captures.join("l.pcapng"), captured(true)).unwrap();
    assert_eq!([verdict(&trips), verdict(&nearly_all)], [Some(NagleVerdict::Found); 2]);
    std::fs::write(captures.join("m.pcapng"), "no capture").unwrap();
    let report = NagleReport::read(&run, &trips).unwrap();
    assert!(report.verdict() == NagleVerdict::Found && report.unreadable.unwrap().starts_with("m.pcapng: "));
}
