//! Tests that messages given together are written together, with the same bytes as one by one.

use crate::tcpcl_v4_script::{Lone, send, span};
use farlink_base::layer::{Input, Output};
use farlink_base::socket;
use farlink_cla::tcpcl_v4::LinkParams;

const BUNDLES: u64 = 100;

fn established() -> Lone {
    Lone::active(LinkParams { segment_bytes: 4096, ..span() }).greet(30)
}
/// Passes all inputs to a layer, lets it write the output that it postponed, and returns the number of writes.
fn tell_together(lone: &mut Lone, inputs: impl IntoIterator<Item = Input>) -> usize {
    let (mut out, mut streams) = (Vec::new(), Vec::new());
    for input in inputs {
        streams.extend(lone.layer.handle_soon(lone.now, input, &mut out));
    }
    assert_eq!(streams, [lone.stream], "named once");
    lone.layer.write(lone.now, lone.stream, &mut out);
    let writes = out.iter().filter(|o| matches!(o, Output::Socket(socket::Output::Write { .. }))).count();
    lone.take(out);
    writes
}
fn bundle(number: u64) -> Vec<u8> {
    vec![number as u8; 200 + number as usize]
}

#[test]
fn short_bundles_share_one_write() {
    let (mut apart, mut together) = (established(), established());
    (0..BUNDLES).for_each(|number| apart.give(send(number, bundle(number))));
    assert_eq!(tell_together(&mut together, (0..BUNDLES).map(|number| send(number, bundle(number)))), 1);
    let wrote = together.wrote();
    assert!(wrote.len() > 25_000 && wrote == apart.wrote(), "{} bytes", wrote.len());
}

#[test]
fn many_acknowledgments_leave_in_one_write() {
    let (mut apart, mut together) = (established(), established());
    let segment = |id: u64| [&[1, 3][..], &id.to_be_bytes(), &[0; 4], &300u64.to_be_bytes(), &[7; 300]].concat();
    for lone in [&mut apart, &mut together] {
        lone.receive(&(0..BUNDLES).flat_map(segment).collect::<Vec<u8>>());
    }
    for ticket in apart.tickets() {
        apart.give(Input::Accepted { ticket });
    }
    let tickets = together.tickets();
    assert_eq!(tickets.len() as u64, BUNDLES);
    assert_eq!(tell_together(&mut together, tickets.into_iter().map(|ticket| Input::Accepted { ticket })), 1);
    let wrote = together.wrote();
    assert!(wrote.len() as u64 == 18 * BUNDLES && wrote == apart.wrote(), "{} bytes", wrote.len());
}

#[test]
fn stream_end_returns_waiting_bundles() {
    let mut lone = established();
    let mut out = Vec::new();
    assert_eq!(lone.layer.handle_soon(lone.now, send(7, bundle(7)), &mut out), Some(lone.stream));
    assert_eq!(lone.layer.handle_soon(lone.now, send(8, bundle(8)), &mut out), None, "it is named already");
    assert!(out.is_empty());
    let closed = socket::Input::Closed { stream: lone.stream, error: true };
    lone.give(Input::Socket(closed));
    assert_eq!(lone.failed(), [(7, None), (8, None)]);
    lone.layer.write(lone.now, lone.stream, &mut out);
    assert!(out.is_empty() && lone.wrote().is_empty());
}
