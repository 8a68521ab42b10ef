//! Measures the time that the LTP engine needs per segment, sending and receiving, without sockets: `cargo run
//! --release -p farlink-cla --example ltp_speed`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "this measures, so it reads the clock")]

use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Input, LinkState, Output, SendId};
use farlink_base::socket;
use farlink_base::{Bytes, EventClass, Instant, LinkId, NodeId, Payload, Sink};
use farlink_cla::ltp::{Config, Ltp, SpanConfig};
use std::net::SocketAddr;
use std::time::Duration;

/// Sink that wants no events.
struct Quiet(Vec<Output>);
impl Sink<Output> for Quiet {
    fn push(&mut self, value: Output) {
        self.0.push(value);
    }
    fn wants(&self, _: EventClass) -> bool {
        false
    }
}

fn engine(engine: u64, peer: u64) -> Ltp {
    let span = SpanConfig { engine: peer, node: NodeId(peer), ..SpanConfig::default() };
    Ltp::new(Config { engine, seed: engine, ..Config::default() }, vec![span])
}

/// Runs until `total` bytes are confirmed; returns the times of sender and receiver, and the number of data segments.
fn run(bundle: usize, total: usize) -> (Duration, Duration, u64) {
    let (mut a, mut b) = (engine(1, 2), engine(2, 1));
    let from = [SocketAddr::from(([10, 0, 0, 1], 1113)), SocketAddr::from(([10, 0, 0, 2], 1113))];
    let payload = Bytes::from(vec![7u8; bundle]);
    let (mut spent, mut segments) = ([Duration::ZERO; 2], 0);
    let (mut next, mut sent, count) = (0, 0, (total / bundle) as u64);
    let mut out = [Quiet(Vec::new()), Quiet(Vec::new())];
    let up = Input::Link { link: LinkId(0), state: LinkState::UP };
    a.handle(Instant(0), up.clone(), &mut out[0]);
    b.handle(Instant(0), up, &mut out[1]);
    let (mut ready, mut inputs) = (false, [vec![], vec![]]);
    for tick in 1.. {
        let now = Instant(tick * 1000);
        for side in 0..2 {
            let start = std::time::Instant::now();
            let ltp = if side == 0 { &mut a } else { &mut b };
            for input in inputs[side].drain(..) {
                ltp.handle(now, input, &mut out[side]);
            }
            while side == 0 && ready && next < count {
                let input = Input::send(LinkId(0), SendId(next), payload.clone().into(), true);
                ltp.handle(now, input, &mut out[0]);
                next += 1;
                if let Some(Output::Ready { ready: r, .. }) = out[0].0.last() {
                    ready = *r;
                }
            }
            if ltp.next_timeout().is_some_and(|t| t <= now) {
                ltp.handle(now, Input::Wake, &mut out[side]);
            }
            spent[side] += start.elapsed();
        }
        for side in 0..2 {
            for output in out[side].0.drain(..) {
                match output {
                    Output::Socket(socket::Output::Datagrams { train, .. }) => {
                        segments += if side == 0 { train.count() } else { 0 };
                        // One contiguous buffer, as from a socket.
                        let data = Payload::from(train.data.to_bytes().unwrap());
                        let train = DatagramBatch { stride: train.stride, data };
                        inputs[1 - side].push(Input::Socket(socket::Input::Datagrams { from: from[side], train }));
                    }
                    Output::Ready { ready: r, .. } if side == 0 => ready = r,
                    Output::Sent { .. } => sent += 1,
                    Output::Offer { ticket, .. } => inputs[side].push(Input::Accepted { ticket }),
                    _ => {}
                }
            }
        }
        if sent == count {
            break;
        }
    }
    (spent[0], spent[1], segments)
}

fn main() {
    let only: Option<usize> = std::env::args().nth(1).and_then(|size| size.parse().ok());
    println!("bundle bytes  segments  send ns/segment  receive ns/segment  send ns/bundle  receive ns/bundle");
    for bundle in
        [100usize, 1000, 10_000, 100_000, 10_000_000].into_iter().filter(|size| only.is_none_or(|o| o == *size))
    {
        let total = (bundle * 300_000).min(400_000_000);
        let (send, receive, segments) = run(bundle, total);
        let (bundles, segments) = ((total / bundle) as f64, segments as f64);
        let per = |d: Duration, n: f64| d.as_nanos() as f64 / n;
        println!(
            "{bundle:>12} {segments:>9} {:>16.0} {:>19.0} {:>15.0} {:>18.0}",
            per(send, segments),
            per(receive, segments),
            per(send, bundles),
            per(receive, bundles)
        );
    }
}
