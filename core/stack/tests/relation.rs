//! Random histories and all orders of a few events: an identity is not a content.

#[path = "relation/mod.rs"]
mod relation;

use relation::campaign::{try_history, try_seed};
use relation::history::History;

#[test]
fn random_histories_lose_and_mix_nothing() {
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
