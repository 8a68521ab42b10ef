//! A bundle longer than any contact, between real nodes over a link that breaks all the time.

use crate::node_support::{Node, Pair, port, run, until};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const LONG: usize = 200_000_000;
/// Rate of the link in bytes a second, and the time that it holds.
const RATE: u64 = 24_000_000;
const HOLDS: Duration = Duration::from_secs(1);
const CHUNK: usize = 64 << 10;

/// A link between two ports. It breaks a second after it was made, but not before it carried a second's bytes: a busy
/// machine makes it slower, not worse.
struct BrokenLink {
    carried: Arc<AtomicU64>,
    breaks: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
}
impl Drop for BrokenLink {
    fn drop(&mut self) {
        self.done.store(true, Relaxed);
    }
}
impl BrokenLink {
    fn new(from: u16, to: u16) -> BrokenLink {
        let (carried, breaks, done) = <(Arc<AtomicU64>, Arc<AtomicU64>, Arc<AtomicBool>)>::default();
        let link = BrokenLink { carried: carried.clone(), breaks: breaks.clone(), done: done.clone() };
        let listener = TcpListener::bind(("127.0.0.1", from)).expect("the port is free");
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if done.load(Relaxed) {
                    return;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                carry(&near, &far, &carried);
                // Both nodes see the break as a reset or as an end of the stream, as when a router on the path fails.
                let _ = (near.shutdown(Shutdown::Both), far.shutdown(Shutdown::Both));
                breaks.fetch_add(1, Relaxed);
            }
        });
        link
    }
}
/// Carries bytes both ways for [`HOLDS`], and longer until the bytes of that time have passed. Ends early if a node
/// closes its stream, and when no bytes come after ten times [`HOLDS`].
fn carry(near: &TcpStream, far: &TcpStream, carried: &AtomicU64) {
    let (mut from, mut to) = (far.try_clone().expect("a stream"), near.try_clone().expect("a stream"));
    let back = std::thread::spawn(move || std::io::copy(&mut from, &mut to));
    let (mut chunk, began, mut passed) = (vec![0; CHUNK], Instant::now(), 0u64);
    let (mut near, mut far) = (near, far);
    near.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    while began.elapsed() < HOLDS || passed < RATE * HOLDS.as_secs() {
        match near.read(&mut chunk) {
            Ok(0) => break,
            Ok(len) => {
                if far.write_all(&chunk[..len]).is_err() {
                    break;
                }
                carried.fetch_add(len as u64, Relaxed);
                passed += len as u64;
                let due = Duration::from_micros(passed * 1_000_000 / RATE);
                std::thread::sleep(due.saturating_sub(began.elapsed()));
            }
            Err(why) if matches!(why.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                if began.elapsed() > 10 * HOLDS {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    let _ = (near.shutdown(Shutdown::Both), far.shutdown(Shutdown::Both));
    drop(back.join());
}

/// Two nodes and a link from the first to the second. The second connects nowhere.
fn nodes(reactive: bool) -> (Pair, [u16; 4]) {
    let mut pair = Pair::new("tcpclv4", true);
    pair.layer_keys = if reactive { "reactive = \"1 MiB\"" } else { "" };
    let ports = [pair.ports[0], pair.ports[1], port(), port()];
    (pair, ports)
}
fn first(pair: &mut Pair, [own, _, link, _]: [u16; 4]) -> Node {
    pair.ports = [own, link];
    pair.start(1, "")
}
fn second(pair: &mut Pair, [_, own, _, nobody]: [u16; 4]) -> Node {
    pair.ports = [nobody, own];
    pair.start(2, "")
}
fn write_long(pair: &Pair) -> (String, String) {
    let mut state = 1_u64;
    let bytes: Vec<u8> = (0..LONG / 8)
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_le_bytes()
        })
        .collect();
    let file = pair.dir.path().join("long");
    std::fs::write(&file, &bytes).expect("the file is written");
    (file.display().to_string(), Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}
fn send(node: &Node, file: &str) {
    let sent = run(&["send", file, "--to", "ipn:2.64", "--bundle-size", "1 GB", "--at", &node.socket]);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
}
fn receive(pair: &Pair, node: &Node, digest: &str) {
    let inbox = pair.dir.path().join("inbox").display().to_string();
    let came = run(&["recv", "--at", &node.socket, "--files", "1", "--out", &inbox, "--timeout", "120s"]);
    let printed = String::from_utf8_lossy(&came.stdout).into_owned();
    assert!(came.status.success() && printed.starts_with(digest), "{printed}{}", String::from_utf8_lossy(&came.stderr));
}

#[test]
fn breaking_link_repeats_little() {
    let (mut pair, ports) = nodes(true);
    let (file, digest) = write_long(&pair);
    let receiver = second(&mut pair, ports);
    let link = BrokenLink::new(ports[2], ports[1]);
    let sender = first(&mut pair, ports);
    send(&sender, &file);
    receive(&pair, &receiver, &digest);
    let (carried, breaks) = (link.carried.load(Relaxed), link.breaks.load(Relaxed));
    assert!(breaks >= 5, "{breaks} breaks");
    // Each break may repeat the bytes in flight at that moment; 30 % bounds all of them together.
    assert!(carried <= LONG as u64 * 13 / 10, "{carried} bytes carried for {LONG}, {breaks} breaks");
    let empty = |number: usize| {
        let status = farlink_apps::http::request("GET", &pair.control(number), "/status", "").unwrap().1;
        status.contains("\"bundles\":0")
    };
    until("nothing left", || empty(1) && empty(2));
}

#[test]
fn whole_transfer_restarts_after_breaks() {
    let (mut pair, ports) = nodes(false);
    let (file, _) = write_long(&pair);
    let _receiver = second(&mut pair, ports);
    let link = BrokenLink::new(ports[2], ports[1]);
    let sender = first(&mut pair, ports);
    send(&sender, &file);
    until("five breaks", || link.breaks.load(Relaxed) >= 4);
    let held = farlink_apps::http::request("GET", &pair.control(1), "/bundles", "").unwrap().1;
    // 200 MB need eight seconds, and no contact lasts that long.
    assert!(held.contains("ipn:2.64"), "it is still here: {held}");
}

#[test]
fn acknowledged_parts_survive_receiver_kills() {
    let (mut pair, ports) = nodes(true);
    let (file, digest) = write_long(&pair);
    let mut receiver = second(&mut pair, ports);
    let link = BrokenLink::new(ports[2], ports[1]);
    let sender = first(&mut pair, ports);
    send(&sender, &file);
    for _ in 0..3 {
        // A little more than one contact carries, so that each kill hits another part.
        let until_here = link.carried.load(Relaxed) + 30_000_000;
        until("some of it came", || link.carried.load(Relaxed) > until_here);
        receiver.kill();
        receiver = second(&mut pair, ports);
    }
    receive(&pair, &receiver, &digest);
    let carried = link.carried.load(Relaxed);
    assert!(carried <= LONG as u64 * 14 / 10, "{carried} bytes carried for {LONG}");
}
