//! Tests of every stream layer against itself, over streams with the impairments of real networks.

use crate::stream_common::{LINK, StreamPlan, run};
use farlink_base::{Duration, LayerId};
use farlink_cla::oneway::{self, Framing, OneWay};
use farlink_cla::tcpcl_v4::{Config, LinkParams, TcpclV4, Tls, Versions};
use proptest::prelude::*;

/// TCPCLv4 with segments of this size; `connect`: the sides that connect.
fn tcpcl_v4(segment_bytes: u64, connect: [bool; 2]) -> impl Fn(usize) -> TcpclV4 {
    with_tls(segment_bytes, connect, [Tls::Forbid; 2])
}
/// TCPCLv3 with segments of this size; `connect`: the sides that connect.
fn tcpcl_v3(segment_bytes: u64, connect: [bool; 2]) -> impl Fn(usize) -> TcpclV4 {
    versions(segment_bytes, connect, [Tls::Forbid; 2], [Versions::Three; 2])
}
fn with_tls(segment_bytes: u64, connect: [bool; 2], tls: [Tls; 2]) -> impl Fn(usize) -> TcpclV4 {
    versions(segment_bytes, connect, tls, [Versions::Four; 2])
}
fn versions(
    segment_bytes: u64,
    connect: [bool; 2],
    tls: [Tls; 2],
    versions: [Versions; 2],
) -> impl Fn(usize) -> TcpclV4 {
    move |side| {
        let names = ["ipn:1.0", "ipn:2.0"];
        let config = Config {
            layer: LayerId(3),
            node_id: names[side].into(),
            keepalive: Duration::from_secs(5),
            segment_mru: 1 << 16,
            tls: tls[side],
            versions: versions[side],
            ..Config::default()
        };
        let span = LinkParams {
            link: LINK,
            node_id: names[1 - side].into(),
            connect: connect[side],
            segment_bytes,
            window_bytes: 20_000,
            ..LinkParams::default()
        };
        TcpclV4::new(config, vec![span])
    }
}

/// STCP or MTCP; each side that connects sends.
fn one_way(framing: Framing, window_bytes: u64) -> impl Fn(usize) -> OneWay {
    move |_| {
        let config = oneway::Config { layer: LayerId(3), framing, ..oneway::Config::default() };
        let span = oneway::LinkParams { link: LINK, window_bytes, ..oneway::LinkParams::default() };
        OneWay::new(config, vec![span])
    }
}
const FRAMINGS: [Framing; 2] = [Framing::Stcp, Framing::Mtcp];

#[test]
fn faultless_transfer_crosses_once() {
    let outcome = run(&StreamPlan::default(), &tcpcl_v4(100, [true, false]));
    assert_eq!((outcome.repeated, outcome.streams), (0, 1));
    let outcome = run(&StreamPlan::default(), &tcpcl_v3(100, [true, false]));
    assert_eq!((outcome.repeated, outcome.streams), (0, 1));
    for framing in FRAMINGS {
        let outcome = run(&StreamPlan::default(), &one_way(framing, 20_000));
        assert_eq!((outcome.repeated, outcome.streams), (0, 2), "one stream each way");
        // One stream carries 20 bundles of 200 bytes, the other 20 of 300, plus heads; nothing is answered.
        let frames = if framing == Framing::Stcp { [20 * 204, 20 * 304] } else { [20 * 202, 20 * 303] };
        assert!(frames.iter().any(|bytes| outcome.first == [*bytes, 0] || outcome.first == [0, *bytes]), "{outcome:?}");
    }
}

#[test]
fn bundles_survive_any_read_boundary() {
    // µD3TN's reader of MTCP loses a bundle if a read ends within its first bytes.
    for chunk in [1, 2, 3, 7] {
        let plan = StreamPlan { bundles: [vec![40, 90, 300], vec![60, 12]], chunk, ..StreamPlan::default() };
        for framing in FRAMINGS {
            assert_eq!(run(&plan, &one_way(framing, 20_000)).repeated, 0, "{framing:?}, {chunk}");
        }
        for outcome in [run(&plan, &tcpcl_v3(50, [true, false])), run(&plan, &tcpcl_v4(50, [true, false]))] {
            assert_eq!((outcome.repeated, outcome.streams), (0, 1), "{chunk}");
        }
    }
}

#[test]
fn both_sides_may_connect() {
    // Two sessions may serve the link at once.
    for seed in 0..20 {
        let plan = StreamPlan { seed, ..StreamPlan::default() };
        let old = run(&plan, &tcpcl_v3(100, [true, true]));
        for outcome in [run(&plan, &tcpcl_v4(100, [true, true])), old] {
            assert_eq!(outcome.repeated, 0);
            assert!(outcome.streams <= 2);
        }
    }
}

#[test]
fn dual_version_node_meets_either() {
    use Versions::{Both, Four, Three};
    for (speak, streams) in [([Both, Three], 2), ([Both, Four], 1), ([Both, Both], 1), ([Three, Both], 1)] {
        // A side with both versions connects in version 4 first.
        let outcome = run(&StreamPlan::default(), &versions(100, [true, false], [Tls::Forbid; 2], speak));
        assert_eq!((outcome.repeated, outcome.streams), (0, streams), "{speak:?}");
    }
}

/// Keeps 9174-6.1-8.
#[test]
fn reset_at_any_byte_loses_nothing() {
    // Bundles without a confirmation are sent again, and duplicates are recognised.
    let plan = |reset| StreamPlan { bundles: [vec![40, 90], vec![60]], chunk: 30, reset, ..StreamPlan::default() };
    fn each_byte<L: farlink_base::layer::ConvergenceLayer>(
        plan: impl Fn(Option<(usize, u64)>) -> StreamPlan,
        make: &dyn Fn(usize) -> L,
    ) {
        let whole = run(&plan(None), make).first;
        assert!(whole[0] > 150 && whole[1] > 70);
        for (side, length) in whole.into_iter().enumerate() {
            for at in 1..=length {
                let outcome = run(&plan(Some((side, at))), make);
                assert!(outcome.repeated <= 3, "{outcome:?}");
            }
        }
    }
    each_byte(plan, &tcpcl_v4(50, [true, false]));
    each_byte(plan, &tcpcl_v3(50, [true, false]));
}

#[test]
fn unacknowledged_reset_loses_nothing() {
    for framing in FRAMINGS {
        let plan = |reset| StreamPlan { bundles: [vec![40, 90], vec![60]], chunk: 30, reset, ..StreamPlan::default() };
        let make = one_way(framing, 100);
        let whole = run(&plan(None), &make).first;
        let side = usize::from(whole[0] == 0);
        assert!(whole[side] > 60 && whole[1 - side] == 0, "the accepting side sends nothing: {whole:?}");
        for at in 1..=whole[side] {
            let outcome = run(&plan(Some((side, at))), &make);
            assert!(outcome.repeated <= 2, "{outcome:?}");
        }
    }
}

fn names() -> [Vec<String>; 2] {
    ["ipn:1.0", "ipn:2.0"].map(|name| vec![format!("dtn://{name}/"), name.to_string()])
}

#[test]
fn tls_is_negotiated_and_proves_identity() {
    // The claimed and the proven node ID are reported separately.
    for (tls, secured) in [
        ([Tls::Require, Tls::Require], true),
        ([Tls::Allow, Tls::Require], true),
        ([Tls::Allow, Tls::Allow], true),
        ([Tls::Forbid, Tls::Allow], false),
        ([Tls::Allow, Tls::Forbid], false),
    ] {
        let plan = StreamPlan { certificates: Some(names()), ..StreamPlan::default() };
        let outcome = run(&plan, &with_tls(100, [true, false], tls));
        assert_eq!((outcome.repeated, outcome.streams), (0, 1), "{tls:?}");
        for (side, peer) in [(0, "ipn:2.0"), (1, "ipn:1.0")] {
            let peer = Some(peer.to_string());
            assert_eq!(outcome.peers[side], [(peer.clone(), peer.filter(|_| secured))], "{tls:?}");
        }
    }
}

#[test]
fn reset_around_handshake_is_survived() {
    // A reset between the headers and SESS_INIT loses nothing, either.
    let plan = |reset| StreamPlan {
        bundles: [vec![40, 90], vec![60]],
        chunk: 30,
        reset,
        certificates: Some(names()),
        ..StreamPlan::default()
    };
    let make = with_tls(50, [true, true], [Tls::Require; 2]);
    for side in 0..2 {
        for at in 1..=60 {
            run(&plan(Some((side, at))), &make);
        }
    }
}

#[test]
fn link_gaps_around_timeout_are_survived() {
    // Some outages are shorter than `PARK`, others longer.
    for gap in [1, 4, 7, 60, 600] {
        let gaps = (0..3).map(|i| {
            let down = Duration::from_millis(30) + Duration::from_secs(i * (gap + 3));
            (down, down + Duration::from_secs(gap))
        });
        let plan =
            StreamPlan { bundles: [vec![2000; 30], vec![5000; 10]], gaps: gaps.collect(), ..StreamPlan::default() };
        run(&plan, &tcpcl_v4(700, [true, false]));
        run(&plan, &tcpcl_v3(700, [true, false]));
        for framing in FRAMINGS {
            run(&plan, &one_way(framing, 20_000));
        }
    }
}

#[test]
fn refused_bundles_are_sent_again() {
    // Some bundles are refused at their first part, some at the last.
    let plan = StreamPlan { bundles: [vec![3000; 20], vec![100; 50]], refused: 300, ..StreamPlan::default() };
    run(&plan, &tcpcl_v4(256, [true, false]));
    run(&plan, &tcpcl_v3(256, [true, false]));
    // Refusals are not conveyed: refused bundles are kept and offered again.
    for framing in FRAMINGS {
        assert_eq!(run(&plan, &one_way(framing, 20_000)).repeated, 0);
    }
}

#[test]
fn slow_verdict_applies_backpressure() {
    // The sender's window fills up, and nothing hangs.
    let plan = StreamPlan {
        bundles: [vec![5000; 40], vec![5000; 40]],
        verdict: Duration::from_secs(20),
        ..StreamPlan::default()
    };
    run(&plan, &tcpcl_v4(2000, [true, true]));
    run(&plan, &tcpcl_v3(2000, [true, true]));
    for framing in FRAMINGS {
        run(&plan, &one_way(framing, 20_000));
    }
}

#[test]
fn long_bundles_stream_under_any_faults() {
    let long = StreamPlan {
        bundles: [vec![2_300_000, 50, 1_300_000], vec![2_100_000]],
        chunk: 60_000,
        capacity: 200_000,
        stream_from: 1000,
        ..StreamPlan::default()
    };
    for speaks in [Versions::Four, Versions::Three] {
        let make = versions(30_000, [true, false], [Tls::Forbid; 2], [speaks; 2]);
        assert_eq!(run(&long, &make).repeated, 0);
        for seed in 0..3 {
            let plan = StreamPlan { seed, held: 300, refused: 5, verdict: Duration::from_secs(1), ..long.clone() };
            run(&plan, &make);
            let plan = StreamPlan { seed, broken: 100, reset: Some((0, 500_000 * (seed + 1))), ..long.clone() };
            run(&plan, &make);
        }
    }
    for framing in FRAMINGS {
        let make = one_way(framing, 500_000);
        assert_eq!(run(&long, &make).repeated, 0);
        for seed in 0..3 {
            run(&StreamPlan { seed, held: 300, verdict: Duration::from_secs(1), ..long.clone() }, &make);
            let reset = Some((seed as usize % 2, 500_000 * (seed + 1)));
            run(&StreamPlan { seed, broken: 100, reset, ..long.clone() }, &make);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn confirmed_bundles_were_all_accepted(
        seed in any::<u64>(),
        bundles in prop::array::uniform2(prop::collection::vec(8usize..3000, 0..25)),
        capacity in 1u64..20_000,
        chunk in 1u64..3000,
        refused in 0u64..400,
        stream_from in 8usize..4000,
        broken in prop_oneof![Just(0), 0u64..200],
        held in prop_oneof![Just(0), 0u64..500],
        segment in 1u64..4000,
        connect in prop_oneof![Just([true, false]), Just([true, true])],
        speak in prop_oneof![
            2 => Just([Versions::Four; 2]),
            2 => Just([Versions::Three; 2]),
            1 => Just([Versions::Both, Versions::Three]),
            1 => Just([Versions::Both, Versions::Both]),
        ],
        reset in prop::option::of((0usize..2, 1u64..20_000)),
        gaps in prop::collection::vec((1u64..2000, 1u64..20_000), 0..3),
        restarts in prop::collection::vec((1u64..3000, 0usize..2), 0..3),
    ) {
        // All faults at once, drawn from a seed.
        let ms = Duration::from_millis;
        let mut at = 0;
        let gaps = gaps.into_iter().map(|(wait, len)| {
            at += wait + len;
            (ms(at - len), ms(at))
        }).collect();
        let restarts = restarts.into_iter().map(|(at, side)| (ms(at), side)).collect();
        let plan = StreamPlan { seed, bundles, capacity, chunk, refused, stream_from, broken, held, reset, gaps, restarts, ..StreamPlan::default() };
        // Tiny segments only if the bundles are short: at most about 2,000 segments in all.
        let segment = segment.max(plan.bundles.iter().flatten().sum::<usize>() as u64 / 2000);
        let outcome = run(&plan, &versions(segment, connect, [Tls::Forbid; 2], speak));
        prop_assert!(outcome.took < Duration::from_secs(36_000));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn unacknowledged_bundles_sent_were_all_offered(
        seed in any::<u64>(),
        bundles in prop::array::uniform2(prop::collection::vec(8usize..3000, 0..25)),
        capacity in 1u64..20_000,
        chunk in 1u64..3000,
        refused in prop_oneof![Just(0), 0u64..200],
        stream_from in 8usize..4000,
        broken in prop_oneof![Just(0), 0u64..200],
        held in prop_oneof![Just(0), 0u64..500],
        framing in prop_oneof![Just(Framing::Stcp), Just(Framing::Mtcp)],
        window in 1u64..20_000,
        reset in prop::option::of((0usize..2, 1u64..20_000)),
        gaps in prop::collection::vec((1u64..2000, 1u64..20_000), 0..3),
        restarts in prop::collection::vec((1u64..3000, 0usize..2), 0..3),
    ) {
        let ms = Duration::from_millis;
        let mut at = 0;
        let gaps = gaps.into_iter().map(|(wait, len)| {
            at += wait + len;
            (ms(at - len), ms(at))
        }).collect();
        let restarts = restarts.into_iter().map(|(at, side)| (ms(at), side)).collect();
        let plan = StreamPlan { seed, bundles, capacity, chunk, refused, stream_from, broken, held, reset, gaps, restarts,
            forgetful: true, ..StreamPlan::default() };
        // Tiny windows only if the bundles are short: at most about 2,000 windows in all.
        let least = plan.bundles.iter().flatten().sum::<usize>() as u64 / 2000;
        let outcome = run(&plan, &one_way(framing, window.max(least)));
        prop_assert!(outcome.took < Duration::from_secs(36_000));
    }
}
