//! Tests of receiving over STCP and MTCP: byte for byte, hostile input, and a node without room.

use crate::oneway_script;

use crate::oneway_script::{FRAMINGS, Lone, PASSIVE, closed, frame, ours, paused, vectors};
use farlink_base::layer::{ConvergenceLayer, Input, LinkState, Output};
use farlink_base::socket;
use farlink_base::{Duration, LinkId, Payload, Refusal};
use farlink_cla::oneway::{Config, Framing, OneWay, Usage};
use std::sync::Arc;

const SECOND: Duration = Duration::from_secs(1);

fn passive(framing: Framing) -> Lone {
    Lone::passive(framing, ours())
}

#[test]
fn hostile_frames_end_stream() {
    for framing in FRAMINGS {
        for (what, bytes) in vectors(framing) {
            for step in [1, 3, 1000] {
                let mut lone = Lone::passive(framing, Config { transfer_mru: 1 << 30, ..ours() });
                bytes.chunks(step).for_each(|chunk| lone.receive(chunk));
                if what.starts_with("hostile") {
                    assert_eq!(closed(&lone.said(), PASSIVE), Some(true), "{what}");
                    assert_eq!(lone.reasons(), ["a bundle longer than this node accepts"], "{what}");
                    assert_eq!(lone.layer.usage(), Usage { links: 1, ..Usage::default() }, "{what}");
                } else if what.starts_with("keepalive") {
                    assert!(lone.said().is_empty() && lone.reasons().is_empty(), "{what}");
                } else {
                    let bundle = &bytes[bytes.len() - 55..];
                    let offers = lone.offers();
                    assert!(matches!(&offers[..], [(_, part, true)] if part == bundle), "{what}: {offers:?}");
                    lone.give(Input::Accepted { ticket: offers[0].0 });
                    assert!(lone.said().is_empty() && lone.wrote().is_empty(), "and nothing is answered");
                    assert_eq!(lone.layer.usage().kept, 0);
                }
            }
        }
    }
}

#[test]
fn oversized_frame_ends_stream_at_head() {
    // A bundle as long as the limit is accepted.
    for framing in FRAMINGS {
        let config = Config { transfer_mru: 300, ..ours() };
        let mut lone = Lone::passive(framing, config.clone());
        lone.receive_bundle(&[1; 300]);
        let first = lone.offers();
        assert_eq!(first[0].1.len(), 300);
        let mut head = Vec::new();
        framing.put_head(&mut head, 301);
        lone.receive(&head);
        assert_eq!(closed(&lone.said(), PASSIVE), Some(true));
        assert_eq!(lone.layer.usage().sessions, 1, "the verdict on what came before is awaited");
        lone.give(Input::Accepted { ticket: first[0].0 });
        assert_eq!(lone.layer.usage(), Usage { links: 1, ..Usage::default() });
    }
    let mut lone = passive(Framing::Mtcp);
    lone.receive(&[0x5f, 0x41, 7, 0xff]);
    assert_eq!(lone.reasons(), ["a byte string of indefinite length"]);
    let mut lone = passive(Framing::Mtcp);
    lone.receive(&[0x9f]);
    assert_eq!(lone.reasons(), ["not a CBOR byte string"], "a bundle without its frame");
}

#[test]
fn trickled_long_bundle_costs_its_length() {
    for framing in FRAMINGS {
        let mut lone = passive(framing);
        let bundle: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        let wire = frame(framing, &bundle);
        // One byte is read at a time, because a head may be cut anywhere.
        for byte in &wire {
            lone.receive(&[*byte]);
        }
        let offers = lone.offers();
        assert_eq!(offers.len(), 4, "64 KiB at least, but for the last");
        assert!(offers.iter().all(|(ticket, ..)| *ticket == offers[0].0));
        assert_eq!(offers.iter().position(|(_, _, last)| *last), Some(offers.len() - 1));
        assert_eq!(offers.into_iter().flat_map(|(_, part, _)| part).collect::<Vec<u8>>(), bundle);
    }
}

#[test]
fn idle_timeout_within_and_between_bundles() {
    // Silence between bundles ends a stream only if configured.
    for framing in FRAMINGS {
        let whole = frame(framing, &[1; 100_000]);
        for cut in [1, 5, 70_000] {
            let mut lone = passive(framing);
            lone.receive(&whole[..cut]);
            lone.wait(SECOND * 119);
            assert_eq!(closed(&lone.said(), PASSIVE), None);
            lone.receive(&whole[cut..cut + 1]);
            lone.wait(SECOND * 119);
            assert_eq!(closed(&lone.said(), PASSIVE), None, "a byte is progress");
            lone.wait(SECOND);
            let said = lone.said();
            assert_eq!((closed(&said, PASSIVE), lone.layer.usage().sessions), (Some(true), 0), "{cut}");
            let aborted = said.iter().filter(|o| matches!(o, Output::OfferAborted { .. })).count();
            assert_eq!(aborted, usize::from(cut == 70_000), "the offer is aborted");
        }
        let mut lone = passive(framing);
        lone.wait(SECOND * 1_000_000);
        assert_eq!(closed(&lone.said(), PASSIVE), None);
        let mut lone = Lone::passive(framing, Config { idle: SECOND * 40, ..ours() });
        for _ in 0..10 {
            lone.wait(SECOND * 39);
            lone.receive(&frame(framing, &[]));
        }
        assert_eq!(closed(&lone.said(), PASSIVE), None, "keepalives keep it");
        lone.wait(SECOND * 40);
        assert_eq!(closed(&lone.said(), PASSIVE), Some(true));
        // While the link is down, silence of the peer means nothing.
        let mut lone = passive(framing);
        lone.receive(&whole[..70_000]);
        lone.give(Input::Link { link: LinkId(0), state: LinkState::DOWN });
        lone.wait(SECOND * 1000);
        lone.give(Input::Link { link: LinkId(0), state: LinkState::UP });
        lone.wait(SECOND * 119);
        assert_eq!(closed(&lone.said(), PASSIVE), None);
    }
}

#[test]
fn complete_bundles_before_reset_are_offered() {
    // The incomplete bundle is aborted.
    for (framing, error) in FRAMINGS.into_iter().flat_map(|framing| [(framing, true), (framing, false)]) {
        let mut lone = passive(framing);
        lone.receive(&frame(framing, &[1; 100_000])[..80_000]);
        let held = lone.offers()[0].0;
        lone.give(Input::Hold { ticket: held });
        assert_eq!(paused(&lone.said()), [true]);
        // The driver had read more before it noticed the reset.
        let rest =
            [&frame(framing, &[1; 100_000])[80_000..], &frame(framing, &[2; 50]), &frame(framing, &[3; 50])[..20]];
        lone.receive(&rest.concat());
        assert!(lone.said().is_empty());
        lone.close(error);
        let said = lone.said();
        let lasts: Vec<u64> = said
            .iter()
            .filter_map(|o| if let Output::Offer { part, last: true, .. } = o { Some(part.len()) } else { None })
            .collect();
        assert_eq!(lasts.len(), 2, "{said:?}");
        assert_eq!(closed(&said, PASSIVE), (!error).then_some(false));
        assert!(!said.iter().any(|o| matches!(o, Output::OfferAborted { .. })), "nothing of the third was offered");
        assert_eq!(lone.layer.usage().sessions, 1, "verdicts are awaited");
        lone.receive(&[0; 100]);
        assert!(lone.said().is_empty(), "later input is ignored");
        let tickets = said
            .iter()
            .filter_map(|o| if let Output::Offer { ticket, last: true, .. } = o { Some(*ticket) } else { None });
        for ticket in tickets {
            lone.give(Input::Accepted { ticket });
        }
        assert_eq!(lone.layer.usage(), Usage { links: 1, ..Usage::default() });
    }
}

#[test]
fn bundle_without_room_is_offered_again() {
    // Refusals are not conveyed to the sender, so the bundle is kept and offered again.
    for (framing, reason) in FRAMINGS
        .into_iter()
        .flat_map(|framing| [Refusal::NoResources, Refusal::NotOpen, Refusal::StoreFailed].map(|why| (framing, why)))
    {
        let mut lone = passive(framing);
        lone.receive_bundle(b"first");
        let mut ticket = lone.offers()[0].0;
        for wait in [250, 500, 1000, 2000] {
            lone.give(Input::Refused { ticket, reason });
            assert!(lone.said().is_empty());
            lone.wait(Duration::from_millis(wait - 1));
            assert!(lone.said().is_empty(), "it waits");
            lone.wait(Duration::from_millis(1));
            let offers = lone.offers();
            assert!(matches!(&offers[..], [(again, part, true)] if *again != ticket && part == b"first"), "{offers:?}");
            ticket = offers[0].0;
        }
        lone.receive_bundle(b"second");
        let second = lone.offers()[0].0;
        lone.give(Input::Accepted { ticket: second });
        lone.give(Input::Accepted { ticket });
        assert_eq!((lone.layer.usage().kept, lone.layer.usage().timers), (0, 0));
        lone.wait(SECOND * 1000);
        assert!(lone.said().is_empty(), "each is taken once");
        lone.receive_bundle(b"third");
        let ticket = lone.offers()[0].0;
        lone.refuse(ticket);
        lone.wait(Duration::from_millis(250));
        assert_eq!(lone.offers().len(), 1, "there was room: the first wait is short again");
    }
}

#[test]
fn otherwise_refused_bundle_is_skipped() {
    // A bundle that is rejected for another reason than lack of room is gone.
    for framing in FRAMINGS {
        for reason in [Refusal::NotAcceptable, Refusal::Duplicate, Refusal::Expired, Refusal::TooLarge] {
            let mut lone = passive(framing);
            let wire = frame(framing, &[1; 300_000]);
            lone.receive(&wire[..100_000]);
            let ticket = lone.offers()[0].0;
            lone.give(Input::Hold { ticket });
            lone.give(Input::Refused { ticket, reason });
            assert_eq!(paused(&lone.said()), [true, false]);
            for byte in wire[100_000..].chunks(999) {
                lone.receive(byte);
            }
            assert!(lone.said().is_empty() && lone.layer.usage().kept == 0);
            lone.receive_bundle(b"next");
            assert_eq!(lone.offers().len(), 1);
        }
    }
}

#[test]
fn refused_long_bundle_pauses_and_resumes() {
    // The bundle is longer than the copy kept of it, so its rest must stay in the socket.
    for framing in FRAMINGS {
        let mut lone = passive(framing);
        let bundle: Vec<u8> = (0..1_200_000u32).map(|n| (n % 253) as u8).collect();
        let wire = frame(framing, &bundle);
        lone.receive(&wire[..100_000]);
        let offers = lone.offers();
        let (ticket, before) = (offers[0].0, offers[0].1.len());
        lone.refuse(ticket);
        assert_eq!(paused(&lone.said()), [true], "TCP pushes back");
        lone.wait(Duration::from_millis(250));
        let said = lone.said();
        let Output::Offer { ticket: again, part, last: false, total: Some(1_200_000), .. } = &said[0] else {
            panic!("{said:?}")
        };
        assert!(*again != ticket && part.len() == before as u64, "from its beginning");
        assert_eq!(paused(&said), [false]);
        lone.refuse(*again);
        lone.wait(Duration::from_millis(500));
        lone.said();
        lone.receive(&wire[100_000..]);
        let rest: Vec<u8> = lone.offers().into_iter().flat_map(|(_, part, _)| part).collect();
        assert_eq!(rest, bundle[before..]);
        assert_eq!(lone.layer.usage().kept, 0, "now it is longer than what is kept");
    }
}

#[test]
fn refused_short_bundle_completes_then_retries() {
    // All of the bundle can be kept, so the stream need not be paused.
    for (framing, ends) in FRAMINGS.into_iter().flat_map(|framing| [(framing, true), (framing, false)]) {
        let mut lone = passive(framing);
        let bundle: Vec<u8> = (0..300_000u32).map(|n| (n % 253) as u8).collect();
        let wire = frame(framing, &bundle);
        lone.receive(&wire[..100_000]);
        let ticket = lone.offers()[0].0;
        lone.refuse(ticket);
        lone.receive(&[&wire[100_000..], &frame(framing, b"behind it")[..]].concat());
        if ends {
            lone.close(true);
        }
        assert!(paused(&lone.said).is_empty(), "nothing is lost with the stream");
        let offers: Vec<_> = lone.said().into_iter().filter(|o| matches!(o, Output::Offer { .. })).collect();
        assert!(matches!(&offers[..], [Output::Offer { part, last: true, .. }] if part.len() == 9));
        lone.wait(Duration::from_millis(250));
        let offers = lone.offers();
        assert!(matches!(&offers[..], [(again, part, true)] if *again != ticket && *part == bundle));
    }
}

#[test]
fn unstorable_bundle_resets_long_transfer() {
    // Only a reset shows the sender that the bundle was lost, which helps if its end was not confirmed yet.
    for framing in FRAMINGS {
        let mut lone = Lone::passive(framing, Config { kept: 150_000, ..ours() });
        let mut head = Vec::new();
        framing.put_head(&mut head, 20 << 20);
        lone.receive(&head);
        lone.receive(&[1; 200_000]);
        let ticket = lone.offers()[0].0;
        assert_eq!(lone.layer.usage().kept, 0, "too long to be kept");
        lone.refuse(ticket);
        assert_eq!(closed(&lone.said(), PASSIVE), Some(true), "its sender knows that the end did not arrive");
        assert_eq!(lone.reasons(), ["no room for a bundle that is arriving"]);
        assert_eq!(lone.layer.usage(), Usage { links: 1, ..Usage::default() });
        lone.open(1, oneway_script::PLACE);
        lone.said();
        // Data after a shorter bundle may have arrived already, so the bundle is skipped.
        let wire = frame(framing, &[1; 400_000]);
        lone.receive(&wire[..200_000]);
        let ticket = lone.offers()[0].0;
        lone.refuse(ticket);
        lone.receive(&wire[200_000..]);
        lone.receive(&wire);
        let ticket = lone.offers()[0].0;
        lone.refuse(ticket);
        assert!(lone.said().is_empty());
        lone.wait(SECOND * 1000);
        assert!(lone.said().is_empty() && lone.layer.usage().kept == 0, "the bundle is lost");
        lone.receive_bundle(b"next");
        assert_eq!(lone.offers().len(), 1);
    }
}

#[test]
fn full_node_pauses_then_resumes_reading() {
    for framing in FRAMINGS {
        let mut lone = passive(framing);
        let (mut refused, mut sent) = (Vec::new(), 0u32);
        let mut stopped = false;
        while !stopped {
            lone.receive_bundle(&[&sent.to_be_bytes()[..], &[7; 9996]].concat());
            sent += 1;
            for output in lone.said() {
                match output {
                    Output::Offer { ticket, .. } => refused.push(ticket),
                    Output::Socket(socket::Output::Pause { .. }) => stopped = true,
                    other => panic!("{other:?}"),
                }
            }
            refused.drain(..).for_each(|ticket| lone.refuse(ticket));
            stopped |= paused(&lone.said()) == [true];
            assert!(sent < 200, "1 MiB is enough");
        }
        assert!(lone.layer.usage().kept > 1 << 20);
        // For a minute there is no room: bundles are offered at growing intervals, and none is lost.
        let mut tried = 0;
        for _ in 0..60 {
            lone.wait(SECOND);
            // After each wait one more bundle may be read, to see by its verdict whether the node is still full; here
            // none is accepted.
            let offer = |o: Output| if let Output::Offer { ticket, .. } = o { Some(ticket) } else { None };
            let offers: Vec<_> = lone.said().into_iter().filter_map(offer).collect();
            tried += offers.len();
            offers.into_iter().for_each(|ticket| lone.refuse(ticket));
        }
        assert!((3 * sent..10 * sent).contains(&(tried as u32)), "{tried} of {sent}");
        // Then there is room: each bundle is accepted once, and the stream is read again.
        lone.wait(SECOND * 16);
        let mut numbers = Vec::new();
        for output in lone.said() {
            match output {
                Output::Offer { ticket, part, .. } => {
                    numbers.push(u32::from_be_bytes(part.to_bytes().unwrap()[..4].try_into().unwrap()));
                    lone.give(Input::Accepted { ticket });
                }
                Output::Socket(socket::Output::Resume { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(numbers, (0..sent).collect::<Vec<_>>());
        assert_eq!(lone.layer.usage().kept, 0);
        lone.said();
        lone.receive_bundle(b"and the stream is read");
        assert_eq!(lone.offers().len(), 1);
    }
}

#[test]
fn bundle_that_never_fits_unblocks_others() {
    // One run begins with a burst of bundles that never fit.
    for (framing, burst) in FRAMINGS.into_iter().flat_map(|framing| [(framing, 0), (framing, 300)]) {
        let mut lone = passive(framing);
        // One source exceeds its quota: its bundles are refused forever, others are accepted.
        let mut wire = std::collections::VecDeque::new();
        (0..burst).for_each(|_| wire.push_back(10_000));
        (0..300).for_each(|_| wire.extend([10, 10_000, 10_000]));
        let (mut taken, mut at_most, mut reads, mut rounds) = (0, 0, true, 0);
        while taken < 300 {
            if reads && let Some(len) = wire.pop_front() {
                lone.receive_bundle(&vec![9; len]);
            }
            lone.wait(SECOND);
            for output in lone.said() {
                match output {
                    Output::Offer { ticket, part, .. } if part.len() == 10 => {
                        taken += 1;
                        lone.give(Input::Accepted { ticket });
                    }
                    Output::Offer { ticket, .. } => lone.refuse(ticket),
                    Output::Socket(socket::Output::Pause { .. }) => reads = false,
                    Output::Socket(socket::Output::Resume { .. }) => reads = true,
                    _ => {}
                }
            }
            for pauses in paused(&lone.said()) {
                reads = !pauses;
            }
            at_most = at_most.max(lone.layer.usage().kept);
            rounds += 1;
            assert!(rounds < 50_000, "stuck after {taken}");
        }
        assert!(at_most <= 8 << 20, "{at_most} bytes kept");
    }
}

#[test]
fn late_verdicts_pause_reading() {
    // The number of bundles that await a verdict is bounded as well.
    let mut lone = passive(Framing::Stcp);
    let mut heard = 0;
    while paused(&lone.said()).is_empty() {
        lone.receive_bundle(b"small");
        heard += 1;
        assert!(heard < 2000);
    }
    assert_eq!(heard, 1025);
    // Data beyond the bound stays unparsed.
    lone.receive_bundle(b"small");
    assert!(lone.said().is_empty());
    let mut resumed = 0;
    for n in 0..1025u64 {
        lone.give(Input::Accepted { ticket: farlink_base::layer::Ticket(n) });
        resumed += paused(&lone.said()).len();
    }
    assert_eq!(resumed, 1);
    lone.give(Input::Accepted { ticket: farlink_base::layer::Ticket(1025) });
    assert_eq!(lone.layer.usage().kept, 0);
}

#[test]
fn tiny_bundles_are_read_as_decided() {
    // A buffer that the driver read at once may hold a hundred thousand tiny bundles.
    const ALL: usize = 50_000;
    for (framing, ends) in FRAMINGS.into_iter().flat_map(|framing| [(framing, false), (framing, true)]) {
        let mut lone = passive(framing);
        // A held bundle keeps later data in the buffer until the end.
        lone.receive(&frame(framing, &[1; 100_000])[..80_000]);
        let held = lone.offers()[0].0;
        lone.give(Input::Hold { ticket: held });
        lone.receive(&[&frame(framing, &[1; 100_000])[80_000..], &frame(framing, b"x").repeat(ALL)].concat());
        lone.said();
        if ends {
            lone.close(false);
        } else {
            lone.give(Input::Refused { ticket: held, reason: Refusal::NotAcceptable });
        }
        let (mut seen, mut at_once) = (0, 0);
        while seen < ALL {
            let offered: Vec<_> = lone
                .said()
                .iter()
                .filter_map(|o| if let Output::Offer { ticket, last: true, .. } = o { Some(*ticket) } else { None })
                .collect();
            assert!(offered.len() <= 1026, "{framing:?}, {ends}: {} undecided", offered.len());
            if offered.is_empty() {
                assert!(at_once > 0, "{framing:?}, {ends}: nothing follows after {seen}");
                (at_once, lone.now) = (0, lone.now + Duration::from_micros(1));
                lone.give(Input::Wake);
                continue;
            }
            at_once += offered.len();
            assert!(at_once <= 4200, "{framing:?}, {ends}: {at_once} at one moment");
            for ticket in offered {
                seen += usize::from(ticket != held);
                lone.give(Input::Refused { ticket, reason: Refusal::NotAcceptable });
            }
        }
        if !ends {
            lone.close(false);
        }
        assert_eq!((seen, lone.layer.usage()), (ALL, Usage { links: 1, ..Usage::default() }));
    }
}

#[test]
fn refused_bundle_outlives_its_stream() {
    // Bundles are offered until they are accepted, even when their stream has ended.
    for (framing, room) in FRAMINGS.into_iter().flat_map(|framing| [(framing, true), (framing, false)]) {
        let mut lone = passive(framing);
        lone.receive_bundle(b"precious");
        let ticket = lone.offers()[0].0;
        lone.refuse(ticket);
        lone.close(false);
        lone.said();
        for _ in 0..1000 {
            lone.wait(SECOND * 16);
            for (ticket, part, _) in lone.offers() {
                assert_eq!(part, b"precious");
                lone.refuse(ticket);
            }
        }
        lone.wait(SECOND * 16);
        let ticket = lone.offers()[0].0;
        let verdict = Input::Refused { ticket, reason: Refusal::Expired };
        lone.give(if room { Input::Accepted { ticket } } else { verdict });
        assert_eq!(lone.layer.usage(), Usage { links: 1, ..Usage::default() });
    }
}

#[test]
fn shutdown_and_removed_links_close_streams() {
    // Incoming streams are reset, so that their senders notice.
    for (framing, how) in FRAMINGS.into_iter().flat_map(|framing| (0..3).map(move |how| (framing, how))) {
        let mut lone = passive(framing);
        lone.receive_bundle(b"undecided");
        let undecided = lone.offers()[0].0;
        lone.receive_bundle(b"refused");
        let refused = lone.offers()[0].0;
        lone.refuse(refused);
        lone.receive(&frame(framing, &[1; 100_000])[..80_000]);
        lone.said();
        let link = LinkId(0);
        lone.give([Input::Shutdown, Input::CloseLink { link }, Input::RemoveLink { link }][how].clone());
        let said = lone.said();
        assert_eq!(closed(&said, PASSIVE), Some(true));
        assert_eq!(said.iter().filter(|o| matches!(o, Output::OfferAborted { .. })).count(), 1);
        assert_eq!(lone.layer.usage(), Usage { links: usize::from(how < 2), ..Usage::default() });
        lone.give(Input::Accepted { ticket: undecided });
        lone.wait(SECOND * 1000);
        assert!(lone.said().is_empty());
        lone.open(1, oneway_script::PLACE);
        let reason = ["the node is shutting down", "its link is disabled"].get(how);
        assert_eq!(lone.reasons().first(), reason);
        if how == 1 {
            lone.give(Input::Link { link, state: LinkState::UP });
            lone.open(2, oneway_script::PLACE);
            lone.receive_bundle(b"again");
            assert!(lone.said().iter().any(|o| matches!(o, Output::Offer { link: LinkId(0), .. })));
        }
    }
}

#[test]
fn scarce_memory_releases_receive_buffers() {
    // The agent asks for buffers to be released by `Input::Unshare`.
    let mut layer = OneWay::new(Config { framing: Framing::Mtcp, ..ours() }, Vec::new());
    let mut out = Vec::new();
    let from = "10.0.0.1:40000".parse().unwrap();
    let now = farlink_base::Instant::ZERO;
    layer.handle(now, Input::Socket(socket::Input::Opened { stream: PASSIVE, from }), &mut out);
    let mut buffer = frame(Framing::Mtcp, &[1; 5000]);
    buffer.extend_from_slice(&frame(Framing::Mtcp, &[2; 50_000])[..40_000]);
    let alive = Arc::new(());
    let whole = farlink_base::Bytes::from_owner(CountedBuffer { bytes: buffer.into(), _alive: Arc::clone(&alive) });
    layer.handle(now, Input::Socket(socket::Input::Data { stream: PASSIVE, data: Payload::from(whole) }), &mut out);
    out.clear();
    assert_eq!(Arc::strong_count(&alive), 2, "the offer and the unparsed input share the buffer");
    layer.handle(now, Input::Unshare, &mut out);
    assert_eq!(Arc::strong_count(&alive), 1, "nothing holds the buffer any more");
}

/// Buffer that holds a reference to `_alive` until it is released.
struct CountedBuffer {
    bytes: Box<[u8]>,
    _alive: Arc<()>,
}
impl AsRef<[u8]> for CountedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
