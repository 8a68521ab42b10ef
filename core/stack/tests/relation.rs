//! Random histories, and all orders of a few events: an identity does not vouch for its content.

#[path = "relation/mod.rs"]
mod relation;

use relation::campaign::{try_history, try_seed};
use relation::exhaust::{Bounds, Search};
use relation::forgery::Alteration;
use relation::history::{History, Setup};

#[test]
fn random_histories_preserve_bundles() {
    let failure = (0..2000).find_map(try_seed);
    assert!(failure.is_none(), "{}", failure.map(|failure| failure.report()).unwrap_or_default());
}

#[test]
fn honest_nodes_alone_lose_nothing() {
    let failure = (0..2000).find_map(|seed| try_history(seed, History::random(seed).honest()));
    assert!(failure.is_none(), "{}", failure.map(|failure| failure.report()).unwrap_or_default());
}

#[test]
fn history_is_read_back_as_written() {
    for seed in 0..200 {
        let history = History::random(seed);
        assert_eq!(History::parse(&history.to_string()), Some(history));
    }
}

#[test]
fn head_vouches_for_nothing() {
    for history in [
        "nodes=3 durable=0 version=7 narrow=1 power=0 send:1 forge:1:1:TrueLastPiece",
        "nodes=3 durable=1 version=7 narrow=1 power=0 send:1 forge:1:0:TrueFirstPiece",
        "nodes=3 durable=0 version=7 narrow=0 power=0 forge:1:0:ReportTo send:1 forge:1:1:Nothing down:0 cross:2:1",
    ] {
        assert_eq!(History::parse(history).expect("a history").run(), Ok(()), "{history}");
    }
}

fn search(setup: Setup, events: usize, alterations: &[Alteration]) -> Search {
    let bounds = Bounds::SMALL;
    Search {
        setup,
        events,
        bounds,
        alterations: alterations.to_vec(),
        merge: true,
        jobs: 2,
        all: true,
        progress: false,
    }
}

#[test]
fn short_histories_preserve_bundles() {
    for setup in Setup::small() {
        let report = search(setup, 3, &[Alteration::Payload, Alteration::FirstPiece]).run();
        assert!(report.violations.is_empty(), "{}: {}", report.violations[0].0, report.violations[0].1);
        assert!(report.all_states() > 300 && report.merged > 0, "{:?}", report.states);
    }
}

#[test]
fn equal_states_go_on_alike() {
    let [on_disk, _, in_memory, .., in_pieces] = Setup::small();
    for setup in [on_disk, in_memory, in_pieces] {
        let search = search(setup, 3, &[Alteration::Payload]);
        let merged = search.run();
        let apart = Search { merge: false, ..search.clone() }.run();
        assert_eq!(merged.outcomes, apart.outcomes, "what comes of them");
        let kinds = |report: &relation::exhaust::Report| -> Vec<u8> {
            report.violations.iter().map(|(_, violation)| violation.kind()).collect()
        };
        assert_eq!(kinds(&merged), kinds(&apart));
        assert!(merged.later > 0 || merged.orders == apart.orders, "each history is counted");
        assert!(merged.all_states() < apart.all_states());
        let compared = search.compare(&merged).unwrap_or_else(|why| panic!("{why}"));
        assert!(compared > 0, "no pair of histories came to one state");
    }
}
