//! Tests of admission over STCP and MTCP: which link a stream gets, and the cost of many peers.

use crate::oneway_script::{FRAMINGS, Lone, PASSIVE, PLACE, closed, downs, frame, ours, span, ups};
use farlink_base::layer::{Input, LinkState, Output, Ticket};
use farlink_base::socket;
use farlink_base::{Duration, LinkId, Payload, StreamId};
use farlink_cla::oneway::{Config, Framing, LinkParams};

const SECOND: Duration = Duration::from_secs(1);

fn waiting(config: Config) -> Lone {
    Lone::waiting(Framing::Stcp, config)
}
fn stream(number: u64) -> StreamId {
    StreamId(PASSIVE.0 + number)
}
/// Link on which the next received bundle is offered.
fn link_of(lone: &mut Lone) -> LinkId {
    lone.receive_bundle(b"whose?");
    let offer = |o: &Output| if let Output::Offer { link, ticket, .. } = o { Some((*link, *ticket)) } else { None };
    let (link, ticket) = lone.said().iter().find_map(offer).expect("an offer");
    lone.give(Input::Accepted { ticket });
    link
}

#[test]
fn links_are_assigned_by_peer_address() {
    // These protocols convey no identity other than the source address.
    for framing in FRAMINGS {
        let mut lone = Lone::waiting(framing, ours());
        lone.located(&["10.0.0.7", PLACE]);
        for number in 0..2 {
            lone.open(number, PLACE);
            assert!(ups(&lone.said()).is_empty(), "bundles cannot be sent over this stream");
            assert_eq!(link_of(&mut lone), LinkId(0));
        }
        lone.open(2, "10.9.9.9");
        assert!(lone.said().is_empty(), "bundles cannot be sent over this stream");
        let unknown = link_of(&mut lone);
        lone.open(3, "10.9.9.9");
        let other = link_of(&mut lone);
        assert!(unknown.is_dynamic() && other.is_dynamic() && other != unknown);
        for number in [0, 1, 3] {
            lone.stream = stream(number);
            lone.close(true);
            assert!(downs(&lone.said()).is_empty(), "reported to nobody");
        }
        assert_eq!(lone.layer.usage().links, 2);
        lone.give(Input::RemoveLink { link: unknown });
        let said = lone.said();
        assert_eq!((downs(&said), closed(&said, stream(2))), (vec![], Some(true)));
        assert_eq!((lone.layer.usage().links, lone.layer.usage().sessions), (1, 0));
    }
}

#[test]
fn unknown_peers_are_rejected_on_request() {
    // This must be set explicitly, because `accept_unknown` is on by default.
    let mut lone = waiting(Config { accept_unknown: false, ..ours() });
    lone.open(0, "10.9.9.9");
    assert_eq!(closed(&lone.said(), PASSIVE), Some(true));
    assert_eq!(lone.reasons(), ["an unknown node"]);
    lone.open(1, PLACE);
    assert_eq!(closed(&lone.said(), stream(1)), None);
    lone.located(&[]);
    lone.open(2, PLACE);
    assert_eq!(closed(&lone.said(), stream(2)), Some(true), "the neighbour is nowhere at the moment");
    lone.stream = stream(1);
    assert_eq!(link_of(&mut lone), LinkId(0), "a stream that is there stays");
}

#[test]
fn located_stream_changes_link_between_bundles() {
    // The stream was open before the driver knew the neighbour's address.
    for framing in FRAMINGS {
        let mut lone = Lone::new(framing, ours(), vec![LinkParams { connect: false, ..span() }]);
        lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
        lone.open(0, PLACE);
        let wire = frame(framing, &[1; 100_000]);
        lone.receive(&wire[..70_000]);
        let [Output::Offer { link: unknown, .. }] = lone.said()[..] else { panic!("one offer") };
        assert!(unknown.is_dynamic());
        lone.located(&[PLACE]);
        assert!(lone.said().is_empty(), "a bundle does not change its link");
        lone.receive(&wire[70_000..]);
        let said = lone.said();
        assert!(matches!(said[..], [Output::Offer { link, last: true, .. }] if link == unknown));
        assert_eq!((link_of(&mut lone), lone.layer.usage().links), (LinkId(0), 1));
        // A link added at run time finds its neighbour's streams in the same way.
        lone.open(1, "10.0.0.2");
        assert!(link_of(&mut lone).is_dynamic());
        assert!(lone.layer.add_span(lone.now, LinkParams { link: LinkId(1), ..span() }, &mut Vec::new()));
        let addresses = vec!["10.0.0.2:4556".parse().unwrap()];
        lone.give(Input::Socket(socket::Input::Located { link: LinkId(1), addresses }));
        assert!(lone.said().is_empty());
        assert_eq!((link_of(&mut lone), lone.layer.usage().links), (LinkId(1), 2));
    }
}

#[test]
fn silent_streams_are_evicted_before_neighbours() {
    // Neighbours are admitted beyond the limit on sessions.
    let spans = (0..4).map(|n| LinkParams { link: LinkId(n), connect: false, ..span() }).collect();
    let mut lone = Lone::new(Framing::Stcp, Config { sessions: 10, ..ours() }, spans);
    for n in 0..4u8 {
        let addresses = vec![format!("10.0.0.{n}:4556").parse().unwrap()];
        lone.give(Input::Socket(socket::Input::Located { link: LinkId(n.into()), addresses }));
    }
    // Of ten sessions four are reserved for neighbours. All peers have sent something.
    for n in 0..6 {
        lone.open(n, "10.9.9.9");
        lone.receive(&[0; 4]);
    }
    lone.said();
    lone.open(6, "10.9.9.9");
    assert_eq!(lone.reasons(), ["no room for more unknown nodes"]);
    lone.wait(SECOND * 61);
    lone.stream = stream(0);
    lone.receive(&[0; 4]);
    lone.said();
    lone.open(7, "10.8.8.8");
    let said = lone.said();
    assert_eq!(closed(&said, stream(1)), Some(true), "the one that was silent for longest");
    // The new peer has sent nothing, so it is dropped next, long before a minute has passed.
    lone.open(8, "10.8.8.8");
    assert_eq!(closed(&lone.said(), stream(7)), Some(true));
    // A stream within a bundle stays.
    for n in [0, 2, 3, 4, 5, 8] {
        lone.stream = stream(n);
        lone.receive(&[0, 0, 1, 0, 7]);
    }
    lone.wait(SECOND * 100);
    lone.open(9, "10.8.8.8");
    assert_eq!(closed(&lone.said(), stream(9)), Some(true));
    assert_eq!(lone.layer.usage().sessions, 6);
    for n in 0..4 {
        lone.open(20 + n, &format!("10.0.0.{n}"));
        assert_eq!(link_of(&mut lone), LinkId(n as u32));
    }
    // Above the limit, each neighbour is admitted once more.
    for n in 0..4 {
        lone.open(30 + n, &format!("10.0.0.{n}"));
        assert_eq!(closed(&lone.said(), stream(30 + n)), None);
    }
    lone.open(40, "10.0.0.0");
    assert_eq!(closed(&lone.said(), stream(40)), Some(true));
    assert_eq!(lone.layer.usage().sessions, 14);
}

#[test]
fn reconnecting_neighbour_keeps_few_streams() {
    // The neighbour may have lost streams that still look open here.
    let mut lone = waiting(ours());
    for n in 0..100 {
        lone.open(n, PLACE);
        lone.wait(SECOND);
    }
    assert_eq!(lone.layer.usage().sessions, 8);
    assert_eq!(lone.said().iter().filter(|o| matches!(o, Output::Socket(socket::Output::Close { .. }))).count(), 92);
    // Streams that still bring data stay, and the new one waits.
    for n in 92..100 {
        lone.stream = stream(n);
        lone.receive(&[0, 0, 1, 0, 7]);
    }
    lone.open(100, PLACE);
    assert_eq!(closed(&lone.said(), stream(100)), Some(true));
    assert_eq!(lone.reasons(), ["a neighbour with too many streams"]);
    // The streams were lost within bundles, none of which continues.
    for n in 101..200 {
        lone.wait(SECOND * 10);
        lone.open(n, PLACE);
        lone.receive(&[0, 0, 1, 0, 7]);
        lone.give(Input::Link { link: LinkId(0), state: LinkState::DOWN });
        lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
    }
    assert!(lone.reasons().is_empty());
    assert_eq!(lone.layer.usage().sessions, 8);
}

/// Receives a bundle, and closes the stream before the bundle is decided; returns its ticket.
fn leave_bundle(lone: &mut Lone) -> Ticket {
    lone.receive_bundle(b"kept");
    let [(ticket, _, true)] = lone.offers()[..] else { panic!("one offer") };
    lone.close(false);
    lone.said();
    ticket
}
/// Whether a bundle that is refused for lack of room is offered again.
fn is_kept(lone: &mut Lone, ticket: Ticket) -> bool {
    lone.refuse(ticket);
    lone.wait(SECOND);
    lone.said().iter().any(|o| matches!(o, Output::Offer { last: true, .. }))
}

#[test]
fn closed_stream_keeps_bundles_when_neighbour_reconnects() {
    let mut lone = waiting(ours());
    lone.open(0, PLACE);
    let ticket = leave_bundle(&mut lone);
    for n in 1..9 {
        lone.wait(SECOND);
        lone.open(n, PLACE);
        lone.receive(&[0; 4]);
    }
    lone.said();
    lone.open(9, PLACE);
    assert_eq!(closed(&lone.said(), stream(1)), Some(true), "the open one that was silent for longest");
    assert!(is_kept(&mut lone, ticket));
}

#[test]
fn idle_stranger_goes_before_held_bundles() {
    // One of the four sessions is reserved for the neighbour.
    let mut lone = waiting(Config { sessions: 4, ..ours() });
    lone.open(0, "10.9.9.9");
    let ticket = leave_bundle(&mut lone);
    for n in 1..3 {
        lone.wait(SECOND);
        lone.open(n, "10.9.9.9");
        lone.receive(&[0; 4]);
    }
    lone.wait(SECOND * 61);
    lone.said();
    lone.open(3, "10.9.9.9");
    assert_eq!(closed(&lone.said(), stream(1)), Some(true));
    assert!(is_kept(&mut lone, ticket));
}

#[test]
fn neighbours_at_one_address_share_streams() {
    let spans = (0..3).map(|n| LinkParams { link: LinkId(n), connect: false, ..span() }).collect();
    let mut lone = Lone::new(Framing::Mtcp, ours(), spans);
    for link in (0..3).map(LinkId) {
        let addresses = vec!["127.0.0.1:4556".parse().unwrap()];
        lone.give(Input::Socket(socket::Input::Located { link, addresses }));
        lone.give(Input::Link { link, state: LinkState::UP });
    }
    for n in 0..3 {
        lone.open(n, "127.0.0.1");
        assert_eq!(link_of(&mut lone), LinkId(n as u32));
    }
    lone.give(Input::CloseLink { link: LinkId(1) });
    lone.open(3, "127.0.0.1");
    lone.open(4, "127.0.0.1");
    let said = lone.said();
    assert!(ups(&said).is_empty() && closed(&said, stream(3)).is_none() && closed(&said, stream(4)).is_none());
    assert_ne!(link_of(&mut lone), LinkId(1), "that link is disabled");
}

#[test]
fn long_frame_flood_stays_within_memory() {
    // Each stream begins a long bundle and then stops.
    for framing in FRAMINGS {
        let mut lone = Lone::waiting(framing, Config { kept: 1 << 20, ..ours() });
        let beginning = &frame(framing, &[1; 1 << 20])[..200_000];
        for n in 0..900 {
            lone.open(n, "10.9.9.9");
            lone.receive(beginning);
            for output in lone.said() {
                if let Output::Offer { ticket, .. } = output {
                    lone.refuse(ticket);
                }
            }
            let usage = lone.layer.usage();
            assert!(usage.kept <= 1 << 19 && usage.sessions <= 999, "{usage:?}");
        }
        // The neighbour still finds room.
        lone.open(2000, PLACE);
        lone.receive(beginning);
        assert!(lone.layer.usage().kept > 1 << 19);
        // Many streams each announce gigabytes and send nothing more.
        let mut lone = Lone::waiting(framing, ours());
        let mut head = Vec::new();
        framing.put_head(&mut head, 4_000_000_000);
        for n in 0..2000 {
            lone.open(n, "10.9.9.9");
            lone.receive(&head);
        }
        let usage = lone.layer.usage();
        assert_eq!((usage.sessions, usage.kept), (999, 0), "a thousand, less the neighbour's");
        assert!(!lone.said().iter().any(|o| matches!(o, Output::Offer { .. })));
        lone.open(5000, PLACE);
        assert_eq!(link_of(&mut lone), LinkId(0));
        lone.wait(SECOND * 120);
        assert_eq!(lone.layer.usage().sessions, 1, "they bring nothing, and go");
    }
}

#[test]
fn interleaved_long_bundles_are_offered_early() {
    // Data that waits for a complete part counts against no limit, so with many streams it must be little.
    for framing in FRAMINGS {
        let mut lone = Lone::waiting(framing, ours());
        let beginning = &frame(framing, &[1; 1 << 20])[..63_000];
        let (mut heard, mut offered) = (0, 0);
        for n in 0..900 {
            lone.open(n, "10.9.9.9");
            lone.receive(beginning);
            heard += beginning.len() as u64;
            let part = |o: &Output| if let Output::Offer { part, .. } = o { part.len() } else { 0 };
            offered += lone.said().iter().map(part).sum::<u64>();
            assert!(heard - offered < 5 << 20, "{} B wait in {n} streams", heard - offered);
        }
    }
}

#[test]
fn unknown_streams_and_links_are_ignored() {
    // The driver may report events of a stream or link that is gone already.
    let mut lone = waiting(ours());
    let (stream, link) = (StreamId(77), LinkId(9));
    let inputs = [
        Input::Socket(socket::Input::Data { stream, data: Payload::from(vec![1; 10]) }),
        Input::Socket(socket::Input::Writable { stream, room: 10 }),
        Input::Socket(socket::Input::Confirmed { stream, bytes: 10 }),
        Input::Socket(socket::Input::Closed { stream, error: true }),
        Input::Socket(socket::Input::Closed { stream, error: false }),
        Input::Socket(socket::Input::Located { link, addresses: Vec::new() }),
        Input::Link { link, state: LinkState::UP },
        Input::CloseLink { link },
        Input::RemoveLink { link },
        Input::Hold { ticket: farlink_base::layer::Ticket(u64::MAX) },
        Input::Accepted { ticket: farlink_base::layer::Ticket(7) },
        Input::Unshare,
        Input::Wake,
    ];
    let before = lone.layer.usage();
    inputs.into_iter().for_each(|input| lone.give(input));
    assert!(lone.said().is_empty() && lone.layer.usage() == before);
    let from = "10.9.9.9:1".parse().unwrap();
    lone.give(Input::Socket(socket::Input::Opened { stream, from }));
    assert_eq!(closed(&lone.said(), stream), Some(true), "an unexpected stream");
}
