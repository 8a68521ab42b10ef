//! Tests of this engine sending to a model of ION's receiver: loss costs some round trips, and no session fails because
//! of this engine's own behaviour.

use crate::ion_model::{IonOutcome, IonSetup, run};
use farlink_base::{DataRate, Duration};
use farlink_cla::ltp::SpanConfig;

/// Setup with 10 % loss in both directions and a round trip of half a second.
fn far() -> IonSetup {
    IonSetup { loss: 0.1, delay: Duration::from_millis(250), rate: Some(DataRate(20_000_000)), ..IonSetup::default() }
}
fn all_arrive(setting: &IonSetup, seconds: f64) -> IonOutcome {
    let outcome = run(setting);
    println!("{outcome:?}");
    assert_eq!(outcome.sent, setting.bundles, "{outcome:?}");
    assert!(outcome.seconds < seconds, "{outcome:?}");
    outcome
}

#[test]
fn ten_percent_loss_ends_no_session() {
    for seed in 1..6 {
        let outcome = all_arrive(&IonSetup { seed, ..far() }, 15.0);
        assert_eq!((outcome.cancelled, outcome.delivered), (0, 60), "{outcome:?}");
        assert!(outcome.datagrams < 7500, "{outcome:?}");
        assert!(outcome.malformed > 0, "bytes after its secondary reports are counted, and the reports read");
    }
}

#[test]
fn three_hundred_bundles_within_two_minutes() {
    let outcome = all_arrive(&IonSetup { bundles: 300, ..far() }, 40.0);
    assert_eq!(outcome.cancelled, 0);
}

#[test]
fn unrated_link_survives_loss() {
    for seed in 1..6 {
        let outcome = all_arrive(&IonSetup { seed, rate: None, ..far() }, 25.0);
        assert!(outcome.cancelled <= 1, "{outcome:?}");
    }
}

#[test]
fn unrated_link_spares_small_socket_buffer() {
    // Without a configured rate, congestion control must find the speed at which the socket is drained.
    for (socket, drain) in [(64 << 10, 5_000_000), (212_992, 40_000_000)] {
        for delay in [0, 5, 100] {
            let delay = Duration::from_millis(delay);
            let setting = IonSetup { socket, drain, delay, reports: 6, bundles: 40, ..IonSetup::default() };
            let outcome = all_arrive(&setting, 90.0);
            assert!(outcome.cancelled <= 6, "{outcome:?}");
            assert!(outcome.overrun * 3 < outcome.datagrams, "{outcome:?}");
        }
    }
}

#[test]
fn checkpoints_thin_out_after_cancel() {
    // A peer that answers each copy of a checkpoint cancels the session at its limit; the sender must then change its
    // behaviour.
    let span = SpanConfig { copies: 3, checkpoint_every: 20_000, ..SpanConfig::default() };
    let outcome = all_arrive(&IonSetup { reports: 6, span, bundles: 60, ..far() }, 60.0);
    assert!((1..90).contains(&outcome.cancelled), "{outcome:?}");
    assert!(outcome.reasons.contains("cancelled by the peer: RLEXC (retransmission limit)"));
}
