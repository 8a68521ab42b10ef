//! Rate limit of the hellos processed per neighbour.

use crate::support;

use crate::support::meeting::{alone, carried, data, names, nine};
use crate::support::{Bundle, Node, Script};
use core::time::Duration;
use farlink_base::{EndpointId, Facts, LinkId, Payload};
use farlink_book::{EventMask, PolicyEvent};
use farlink_bpa::Input;
use std::sync::mpsc::{Receiver, channel};

/// A node whose router records each message with its sender.
fn listening() -> (Node, Receiver<(u32, Vec<u8>)>) {
    let (said, heard) = channel();
    let script = Script {
        hears: EventMask::PEERS,
        on: Box::new(move |_, news, _| {
            if let PolicyEvent::Heard { from, bytes } = *news {
                said.send((from.0, bytes.to_vec())).unwrap_or_default();
            }
        }),
        ..Script::epidemic()
    };
    (alone(script), heard)
}
/// Content of a hello: identities if it is a summary, and a message to the router.
fn content(ids: Option<&[u64]>, message: &[u8]) -> Vec<u8> {
    let mut content = vec![1, u8::from(ids.is_some())];
    content.extend_from_slice(&[0; 16]);
    content.extend_from_slice(&(ids.map_or(0, <[u64]>::len) as u32).to_be_bytes());
    ids.unwrap_or_default().iter().for_each(|id| content.extend_from_slice(&id.to_be_bytes()));
    content.extend_from_slice(&(message.len() as u32).to_be_bytes());
    content.extend_from_slice(message);
    content
}
/// Receives a hello bundle over this link in the name of `from`; each must have a higher `sequence`.
fn says(node: &mut Node, link: u32, from: u64, sequence: u64, ids: Option<&[u64]>, message: &[u8]) {
    let content = [b"H".to_vec(), content(ids, message)].concat();
    let hello = Bundle::new(EndpointId::ipn(from, 0), EndpointId::ipn(1, 0), sequence).facts(Facts::ADMIN);
    node.receive_over(link, 5000 + sequence, hello.payload(Payload::from(content)));
}

#[test]
fn hello_flood_is_rate_limited_without_loss() {
    // Messages that wait for budget are joined, so fewer than 50 evaluations cover all 10,000.
    let (mut node, heard) = listening();
    node.carrier(0, true);
    for n in 0..10_000u64 {
        if n % 100 == 0 {
            node.wait(Duration::from_millis(10));
        }
        says(&mut node, 0, 2, n, None, &(n as u32).to_be_bytes());
    }
    node.wait(Duration::from_secs(30));
    let heard: Vec<Vec<u8>> = heard.try_iter().map(|(_, bytes)| bytes).collect();
    assert!(heard.len() < 50, "{} were weighed", heard.len());
    assert!(heard.len() > 32, "a burst of some is weighed at once: {}", heard.len());
    let words: Vec<u32> = heard.concat().as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word)).collect();
    assert_eq!(words, (0..10_000).collect::<Vec<_>>(), "all of them, in order, joined");
}

#[test]
fn free_hellos_are_limited_too() {
    let (mut node, heard) = listening();
    node.carrier(0, true);
    for _ in 0..1_000 {
        node.tell(Input::Hello { link: LinkId(0), content: content(None, b"x") });
    }
    assert!(heard.try_iter().count() < 40);
}

#[test]
fn hello_cost_by_length_and_waiting_bounded() {
    // Cost grows with length, and at most one long hello waits.
    let (mut node, heard) = listening();
    node.carrier(0, true);
    let megabyte = vec![7; 1 << 20];
    for n in 0..100 {
        says(&mut node, 0, 2, n, None, &megabyte);
    }
    node.wait(Duration::from_secs(60));
    let lengths: Vec<usize> = heard.try_iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(lengths, [1 << 20, 1 << 20], "the first, and one more when its time has come");
}

#[test]
fn flooding_neighbour_delays_no_other() {
    // Each neighbour has its own budget.
    let (mut node, heard) = listening();
    node.carrier(0, true);
    node.carrier(1, true);
    for n in 0..1_000 {
        says(&mut node, 0, 2, n, None, b"flood");
    }
    let of = |heard: &Receiver<(u32, Vec<u8>)>, word: &[u8]| heard.try_iter().any(|(_, bytes)| bytes == word);
    says(&mut node, 1, 3, 1, None, b"honest");
    assert!(of(&heard, b"honest"));
}

#[test]
fn claimed_names_share_one_hello_budget() {
    // Anyone can claim any number of names at no cost, so all neighbours with merely claimed names share one budget.
    let (mut node, heard) = listening();
    node.carrier(0, true);
    for n in 0..200u32 {
        let link = node.comes(20 + n, EndpointId::ipn(1_000 + u64::from(n), 0));
        says(&mut node, link, 1_000 + u64::from(n), 1, None, b"claims");
        says(&mut node, link, 1_000 + u64::from(n), 2, None, b"claims");
    }
    assert!(heard.try_iter().count() < 40);
    says(&mut node, 0, 2, 1, None, b"sure");
    assert!(heard.try_iter().any(|(_, bytes)| bytes == b"sure"));
    node.wait(Duration::from_secs(60));
    let waited = heard.try_iter().count();
    assert!((32..100).contains(&waited), "of those that wait 64 are heard later: {waited}");
}

#[test]
fn newest_summary_replaces_waiting_one() {
    // A summary lists all bundles of its sender, so an older one is obsolete; after a disconnect every waiting summary
    // is.
    let (mut node, heard) = listening();
    carried(&mut node, 1, nine());
    let id = node.agent.bundles(node.now, farlink_base::BundleHandle(0), 1)[0].id.fingerprint_in(support::toy::VERSION);
    node.carrier(0, true);
    says(&mut node, 0, 2, 0, Some(&[id as u64]), b"");
    (1..100).for_each(|n| says(&mut node, 0, 2, n, Some(&[id as u64]), b"x"));
    says(&mut node, 0, 2, 100, Some(&[]), b"y");
    assert_eq!(names(&data(&mut node)), [], "not heard yet");
    node.wait(Duration::from_secs(5));
    assert_eq!(names(&data(&mut node)), [(0, 1)], "it lacks it, as it said last");
    let count = heard.try_iter().count();
    assert!((2..40).contains(&count), "{count}");
    (101..400).for_each(|n| says(&mut node, 0, 2, n, None, b"late"));
    heard.try_iter().for_each(drop);
    node.carrier(0, false);
    node.wait(Duration::from_secs(60));
    assert_eq!(heard.try_iter().count(), 0, "it is gone");
}

#[test]
fn reconnecting_gains_no_hello_budget() {
    // The budget belongs to the neighbour and outlives its links.
    let (mut node, heard) = listening();
    for n in 0..200 {
        node.carrier(0, true);
        says(&mut node, 0, 2, 2 * n, None, b"again");
        says(&mut node, 0, 2, 2 * n + 1, None, b"again");
        node.carrier(0, false);
    }
    let count = heard.try_iter().count();
    assert!((30..40).contains(&count), "{count}");
    assert_eq!(node.agent.counts().hellos, 0);
    node.carrier(0, true);
    says(&mut node, 0, 2, 1_000, None, b"last");
    node.wait(Duration::from_secs(1));
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [(1, b"last".to_vec())], "once");
}

#[test]
fn waiting_hellos_processed_in_order() {
    let (mut node, heard) = listening();
    node.carrier(0, true);
    let mut said = 0u32;
    let mut say = |node: &mut Node| {
        says(node, 0, 2, u64::from(said), None, &said.to_be_bytes());
        said += 1;
    };
    for _ in 0..5 {
        (0..40).for_each(|_| say(&mut node));
        // At the exact moment when budget is available again.
        node.now = node.agent.next_timeout().expect("some wait");
        say(&mut node);
    }
    node.wait(Duration::from_secs(60));
    let heard: Vec<u8> = heard.try_iter().flat_map(|(_, bytes)| bytes).collect();
    let words: Vec<u32> = heard.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word)).collect();
    assert_eq!(words, (0..205).collect::<Vec<_>>());
}
