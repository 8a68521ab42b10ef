//! Fuzz target of LTP with its extensions: authentication, cookies, marked aggregates, green parts.

use farlink_base::layer::{ConvergenceLayer, DatagramBatch, Input, LinkState, Output, SendId};
use farlink_base::socket;
use farlink_base::{Duration, Instant, LinkId, NodeId, Payload};
use farlink_bundle::decode_prefix;
use farlink_cla::ltp::{AskCookies, Authentication, Config, Ltp, SpanConfig};

/// An LTP engine with an authenticated link, a link with marked aggregates and green parts, and unknown senders that
/// must echo cookies. Input: datagrams, each with a byte for the sender and one for the length. The engine accepts
/// every bundle, and must be idle in the end.
pub fn ltp_extensions(data: &[u8]) {
    let config = Config {
        engine: 1,
        memory_bytes: 1 << 18,
        cookies: AskCookies::Always,
        split: decode_prefix,
        ..Config::default()
    };
    let span = |link, engine| SpanConfig {
        link: LinkId(link),
        engine,
        node: NodeId::ipn(engine),
        attempts: 2,
        idle: Duration::from_secs(60),
        ..SpanConfig::default()
    };
    let sealed = SpanConfig { authentication: Authentication::Null, ..span(0, 2) };
    let wait = Duration::from_millis(1);
    let marked =
        SpanConfig { aggregate_marked: true, aggregate_bytes: 5000, aggregate_wait: wait, green_from: 0, ..span(1, 3) };
    let green = SpanConfig { green_from: 100, ..span(2, 42) };
    let mut layer = Ltp::new(config, vec![sealed, marked, green]);
    let address = |host: u8| core::net::SocketAddr::from(([127, 0, 0, host], 1113));
    let (mut now, mut out) = (Instant::ZERO, Vec::new());
    for (link, host) in [(LinkId(0), 2), (LinkId(1), 3), (LinkId(2), 42)] {
        layer.handle(now, Input::Socket(socket::Input::Located { link, addresses: vec![address(host)] }), &mut out);
        layer.handle(now, Input::Link { link, state: LinkState::UP }, &mut out);
        for id in 0..2 {
            let bundle = Payload::from(vec![7; 2000]);
            layer.handle(now, Input::send(link, SendId(u64::from(link.0) * 2 + id), bundle, true), &mut out);
        }
    }
    let (mut rest, mut said, mut ended) = (data, 0u64, 0);
    for round in 0..1400 {
        let mut step = 50_000_000;
        if let Some(([host, length], after)) = rest.split_first_chunk() {
            let (datagram, after) = after.split_at(usize::from(*length).min(after.len()));
            rest = after;
            let train = DatagramBatch::single(Payload::from(datagram.to_vec()));
            layer.handle(now, Input::Socket(socket::Input::Datagrams { from: address(*host), train }), &mut out);
        } else if round > 1000 || ended > 0 {
            // Timers end the remaining sessions.
            (step, ended) = (10_000_000_000, ended + 1);
        } else {
            ended = 1;
        }
        now = Instant(now.0 + step);
        layer.handle(now, Input::Wake, &mut out);
        while !out.is_empty() {
            for output in core::mem::take(&mut out) {
                match output {
                    Output::Offer { ticket, last: true, reliable: true, .. } => {
                        layer.handle(now, Input::Accepted { ticket }, &mut out);
                    }
                    Output::Socket(socket::Output::Datagrams { train, .. }) => said += train.data.len(),
                    _ => {}
                }
            }
        }
        if ended > 100 {
            break;
        }
    }
    assert!(said <= 1_000_000 + 64 * data.len() as u64, "{said} bytes said for {} heard", data.len());
    let usage = layer.usage();
    assert_eq!((usage.exports, usage.imports, usage.arriving_bytes), (0, 0, 0), "{usage:?}");
}
