use super::connection::ROOM_MIN;
use super::*;
use crate::resolve::{Resolver, Wanted};
use std::collections::BTreeMap;

const BOUNDS: Bounds = Bounds { queue: QUEUE_BOUND, read: 1 << 20 };

/// Both ends of connections in one table of streams.
struct StreamsWorld {
    streams: Streams,
    poller: Poller,
    resolver: Resolver<Wanted>,
    buffers: Buffers,
    inputs: VecDeque<Input>,
    seen: Vec<Input>,
}
const LISTENER: u64 = 1 << 60;

impl StreamsWorld {
    fn new() -> StreamsWorld {
        StreamsWorld::at("127.0.0.1:0")
    }
    fn at(place: &str) -> StreamsWorld {
        let listener = stream::listen(&place.parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let poller = Poller::new().unwrap();
        poller.add(&listener, LISTENER).unwrap();
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut streams = Streams::new(vec![(LayerId(0), listener)], BOUNDS);
        streams.set_address(LayerId(0), LinkId(0), Some(address));
        streams.set_address(LayerId(0), LinkId(1), Some(nobody));
        StreamsWorld {
            streams,
            resolver: Resolver::start(poller.waker()).unwrap(),
            poller,
            buffers: Buffers::keeping(64),
            inputs: VecDeque::new(),
            seen: Vec::new(),
        }
    }
    fn connect(&mut self, link: u32) -> StreamId {
        let id = StreamId(100 + u64::from(link));
        let mut io = Connector { register: (&self.poller, 0), resolver: &self.resolver, inputs: &mut self.inputs };
        self.streams.connect(LayerId(0), id, LinkId(link), crate::clock::now(), &mut io);
        id
    }
    fn run(&mut self, until: impl Fn(&[Input]) -> bool) {
        for _ in 0..2000 {
            let now = crate::clock::now();
            self.streams.read(&mut self.buffers, &mut self.inputs);
            self.streams.flush(now, &mut self.inputs);
            self.seen.extend(self.inputs.drain(..));
            if until(&self.seen) {
                return;
            }
            let mut ready = Vec::new();
            let wait = if self.streams.busy() { Duration::ZERO } else { Duration::from_millis(5) };
            self.poller.wait(Some(wait), |r| ready.push(r)).unwrap();
            let register = (&self.poller, 0);
            for r in ready {
                if r.token == LISTENER {
                    self.streams.accept(now, 0, &register, &mut self.inputs);
                } else {
                    let mut io = Connector { register, resolver: &self.resolver, inputs: &mut self.inputs };
                    self.streams.on_ready(r.token, r, now, &mut io);
                }
            }
            self.streams.expire(now, &register, &mut self.inputs);
        }
        panic!("it never came: {:?}", self.seen);
    }
    fn passive(&self) -> Option<StreamId> {
        opened(&self.seen).into_iter().find(|stream| stream.is_passive())
    }
}
fn opened(seen: &[Input]) -> Vec<StreamId> {
    seen.iter()
        .filter_map(
            |i| {
                if let Input::Socket(_, socket::Input::Opened { stream, .. }) = i { Some(*stream) } else { None }
            },
        )
        .collect()
}
fn confirmed(seen: &[Input]) -> Vec<(StreamId, u64)> {
    let confirmed = |i: &Input| match i {
        Input::Socket(_, socket::Input::Confirmed { stream, bytes }) => Some((*stream, *bytes)),
        _ => None,
    };
    seen.iter().filter_map(confirmed).collect()
}
fn received(seen: &[Input], id: StreamId) -> u64 {
    seen.iter()
        .map(|i| match i {
            Input::Socket(_, socket::Input::Data { stream, data }) if *stream == id => data.len(),
            _ => 0,
        })
        .sum()
}
fn closed(seen: &[Input], id: StreamId) -> Option<bool> {
    seen.iter().find_map(|i| match i {
        Input::Socket(_, socket::Input::Closed { stream, error }) if *stream == id => Some(*error),
        _ => None,
    })
}

/// Keeps 9174-4.1-8.
#[test]
fn written_bytes_arrive_before_clean_end() {
    let mut world = StreamsWorld::new();
    let active = world.connect(0);
    world.run(|seen| opened(seen).len() == 2);
    let passive = world.passive().unwrap();
    let mut rope = Payload::from(&b"head"[..]);
    rope.push(Chunk::Fill { seed: 1, offset: 0, len: 3_000_000 });
    world.streams.write(active, &rope, &mut world.inputs);
    world.streams.close(active, false, crate::clock::now());
    world.run(|seen| received(seen, passive) == 3_000_004 && closed(seen, passive) == Some(false));
    world.streams.close(passive, false, crate::clock::now());
    world.run(|_| true);
    assert_eq!(closed(&world.seen, active), None, "who closes is not told");
}

#[test]
fn small_writes_are_not_delayed() {
    let mut world = StreamsWorld::new();
    world.connect(0);
    world.run(|seen| opened(seen).len() == 2);
    for id in opened(&world.seen) {
        let Phase::Open(socket) = &world.streams.streams[&id].phase else { panic!("{id:?} is open") };
        assert!(socket.nodelay().unwrap(), "{id:?}");
    }
}

#[test]
fn half_closed_peer_still_receives() {
    let mut world = StreamsWorld::new();
    let address = world.streams.listeners[0].1.local_addr().unwrap();
    let mut peer = TcpStream::connect(address).unwrap();
    world.run(|seen| !opened(seen).is_empty());
    let passive = world.passive().unwrap();
    io::Write::write_all(&mut peer, b"a question").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    world.run(|seen| closed(seen, passive) == Some(false));
    let long = Payload::fill(1, 3_000_000);
    world.streams.write(passive, &long, &mut world.inputs);
    world.streams.close(passive, false, crate::clock::now());
    let reader = std::thread::spawn(move || {
        let mut answer = Vec::new();
        io::Read::read_to_end(&mut peer, &mut answer).map(|_| answer.len())
    });
    while !reader.is_finished() {
        // One more turn of the poller: the kernel does not take all at once.
        let asked = std::cell::Cell::new(false);
        world.run(|_| asked.replace(true));
    }
    assert_eq!(reader.join().unwrap().unwrap(), 3_000_000);
    assert_eq!(world.seen.iter().filter(|i| matches!(i, Input::Socket(_, socket::Input::Closed { .. }))).count(), 1);
    assert!(world.streams.streams.is_empty(), "and nothing is left of it");
}

#[test]
fn final_data_arrives_with_end() {
    let mut world = StreamsWorld::new();
    let address = world.streams.listeners[0].1.local_addr().unwrap();
    let mut peer = TcpStream::connect(address).unwrap();
    world.run(|seen| !opened(seen).is_empty());
    let passive = world.passive().unwrap();
    // Data and end arrive before the next poll.
    io::Write::write_all(&mut peer, b"goodbye").unwrap();
    drop(peer);
    std::thread::sleep(std::time::Duration::from_millis(20));
    world.run(|seen| received(seen, passive) == 7 && closed(seen, passive) == Some(false));
}

/// Keeps 9174-4.1-8.
#[test]
fn dropped_peer_reads_fin_not_reset() {
    // RFC 9174 section 4.1: a connection whose input was all read closes by FIN.
    for abort in [false, true] {
        let mut world = StreamsWorld::new();
        let address = world.streams.listeners[0].1.local_addr().unwrap();
        let mut peer = TcpStream::connect(address).unwrap();
        io::Write::write_all(&mut peer, b"dtn").unwrap();
        world.run(world_has_read);
        let passive = world.passive().unwrap();
        world.streams.close(passive, abort, crate::clock::now());
        world.run(|_| true);
        let mut heard = Vec::new();
        assert_eq!(io::Read::read_to_end(&mut peer, &mut heard).ok(), Some(0), "abort: {abort}");
    }
}
/// Room reported to a stream's layer, each time.
fn rooms(seen: &[Input], of: StreamId) -> Vec<u64> {
    let room = |input: &Input| match input {
        Input::Socket(_, socket::Input::Writable { stream, room }) if *stream == of => Some(*room),
        _ => None,
    };
    seen.iter().filter_map(room).collect()
}
fn world_has_read(seen: &[Input]) -> bool {
    opened(seen).iter().any(|stream| received(seen, *stream) == 3)
}

#[test]
fn paused_stream_is_not_read() {
    let mut world = StreamsWorld::new();
    let active = world.connect(0);
    world.run(|seen| opened(seen).len() == 2);
    let passive = world.passive().unwrap();
    world.streams.pause(passive, true);
    world.streams.write(active, &Payload::fill(1, 8 * QUEUE_BOUND), &mut world.inputs);
    for _ in 0..20 {
        world.run(|_| true);
    }
    assert_eq!((received(&world.seen, passive), rooms(&world.seen, active).len()), (0, 1), "only as it opened");
    world.streams.pause(passive, false);
    world.run(|seen| received(seen, passive) == 8 * QUEUE_BOUND);
    world.run(|seen| rooms(seen, active).len() > 1);
    assert!(rooms(&world.seen, active).iter().all(|room| (ROOM_MIN..=QUEUE_BOUND).contains(room)));
}

#[test]
fn layer_queue_follows_kernel_buffer() {
    // A layer gets as much room as the kernel takes at once, more after it took all, and little while it takes nothing.
    let mut world = StreamsWorld::new();
    let active = world.connect(0);
    world.run(|seen| opened(seen).len() == 2);
    let passive = world.passive().unwrap();
    let (mut most, mut told) = (0, 0);
    for round in 0..200 {
        // The peer reads for 100 rounds only.
        world.streams.pause(passive, round >= 100);
        let rooms = rooms(&world.seen, active);
        if rooms.len() > told {
            told = rooms.len();
            most = most.max(rooms[told - 1]);
            world.streams.write(active, &Payload::fill(1, rooms[told - 1]), &mut world.inputs);
        }
        world.run(|_| true);
    }
    assert!(most > 4 * ROOM_MIN, "{most}");
    let queued = world.streams.streams[&active].queued;
    assert!(queued > 0 && queued <= 4 * ROOM_MIN, "{queued} bytes wait in the node, {most} at most were given room");
}

/// Peers at these addresses that each sent `bytes` unread bytes, and the address of each stream.
fn crowd(world: &mut StreamsWorld, places: &[String], bytes: usize) -> (Vec<TcpStream>, BTreeMap<StreamId, IpAddr>) {
    let address = world.streams.listeners[0].1.local_addr().unwrap();
    let from = |place: &String| stream::connect(&address, Some(&format!("{place}:0").parse().unwrap())).unwrap();
    let mut peers: Vec<TcpStream> = places.iter().map(from).collect();
    world.run(|seen| opened(seen).len() == peers.len());
    let opened = world.seen.iter().filter_map(|input| match input {
        Input::Socket(_, socket::Input::Opened { stream, from }) => Some((*stream, from.ip())),
        _ => None,
    });
    let places: BTreeMap<StreamId, IpAddr> = opened.collect();
    places.keys().for_each(|stream| world.streams.pause(*stream, true));
    for peer in &mut peers {
        peer.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while sent < bytes {
            sent += io::Write::write(peer, &[7; 64 << 10]).unwrap_or(usize::MAX / 2);
        }
    }
    let turns = std::cell::Cell::new(0);
    world.run(|_| turns.replace(turns.get() + 1) > 2);
    places.keys().for_each(|stream| world.streams.pause(*stream, false));
    (peers, places)
}

#[test]
fn streams_of_one_address_share_turn() {
    let mut world = StreamsWorld::new();
    let mut places = vec!["127.0.0.1".to_string(); 20];
    places.push("127.0.0.2".into());
    let (_peers, places) = crowd(&mut world, &places, 3 * READ_TURN);
    let mut heard = BTreeMap::new();
    for turn in 0..25 {
        world.inputs.clear();
        world.streams.read(&mut world.buffers, &mut world.inputs);
        let mut now: BTreeMap<IpAddr, u64> = BTreeMap::new();
        for stream in places.keys() {
            let bytes = received(world.inputs.make_contiguous(), *stream);
            *heard.entry(*stream).or_insert(0) += bytes;
            *now.entry(places[stream]).or_default() += bytes;
        }
        assert!(now.values().all(|bytes| *bytes <= READ_TURN as u64), "turn {turn}: {now:?}");
        assert!(turn > 0 || now.values().all(|bytes| *bytes > 0), "{now:?}");
    }
    assert!(heard.values().all(|bytes| *bytes > 0), "each had its turn: {heard:?}");
}

#[test]
fn streams_of_many_addresses_share_turn() {
    let mut world = StreamsWorld::new();
    let places: Vec<String> = (1..=200).map(|n| format!("127.0.0.{n}")).collect();
    let (_peers, places) = crowd(&mut world, &places, 64 << 10);
    let mut heard: BTreeMap<StreamId, u64> = BTreeMap::new();
    for turn in 0..40 {
        world.inputs.clear();
        world.streams.read(&mut world.buffers, &mut world.inputs);
        let now: Vec<u64> = places.keys().map(|id| received(world.inputs.make_contiguous(), *id)).collect();
        assert!(now.iter().sum::<u64>() <= BOUNDS.read as u64, "turn {turn}: {now:?}");
        assert!(turn > 0 || now.iter().all(|bytes| *bytes > 0), "{now:?}");
        places.keys().zip(now).for_each(|(id, bytes)| *heard.entry(*id).or_default() += bytes);
    }
    assert!(heard.values().all(|bytes| *bytes == 64 << 10), "all of each is read: {heard:?}");
}

#[test]
fn confirmed_bytes_reach_asking_layer_only() {
    let mut world = StreamsWorld::new();
    let active = world.connect(0);
    world.run(|seen| opened(seen).len() == 2);
    let passive = world.passive().unwrap();
    world.streams.pause(passive, true);
    world.streams.write(active, &Payload::fill(1, 1000), &mut world.inputs);
    world.streams.write(passive, &Payload::fill(1, 1000), &mut world.inputs);
    world.run(|seen| received(seen, active) == 1000);
    assert_eq!((confirmed(&world.seen), world.streams.next_timeout()), (vec![], None), "nobody asked");
    let now = crate::clock::now();
    world.streams.confirm(active, now);
    world.run(|seen| confirmed(seen) == [(active, 1000)]);
    assert_eq!((received(&world.seen, passive), world.streams.next_timeout()), (0, None), "its node read nothing");
    // More than both kernels buffer: the rest is never acknowledged.
    for _ in 0..8 {
        world.streams.write(active, &Payload::fill(1, QUEUE_BOUND), &mut world.inputs);
    }
    let later = crate::clock::now() + Duration::from_millis(300);
    world.run(|_| crate::clock::now() > later);
    let told = confirmed(&world.seen);
    assert!(told.windows(2).all(|pair| pair[0].1 < pair[1].1), "ever more: {told:?}");
    assert!(told.last().unwrap().1 < 1000 + 8 * QUEUE_BOUND);
    assert!(world.streams.next_timeout().is_some());
    world.streams.pause(passive, false);
    world.run(|seen| confirmed(seen).last() == Some(&(active, 1000 + 8 * QUEUE_BOUND)));
    assert_eq!(world.streams.next_timeout(), None, "all is confirmed");
}

#[test]
fn last_confirmation_precedes_end() {
    let mut world = StreamsWorld::new();
    let active = world.connect(0);
    world.run(|seen| opened(seen).len() == 2);
    let passive = world.passive().unwrap();
    world.streams.confirm(active, crate::clock::now());
    world.streams.write(active, &Payload::fill(1, 70_000), &mut world.inputs);
    world.run(|seen| received(seen, passive) == 70_000);
    world.streams.close(passive, false, crate::clock::now());
    world.run(|seen| closed(seen, active) == Some(false));
    assert_eq!(confirmed(&world.seen).last(), Some(&(active, 70_000)));
    let last = world.seen.iter().rposition(|i| matches!(i, Input::Socket(_, socket::Input::Confirmed { .. })));
    let end = world.seen.iter().position(|i| matches!(i, Input::Socket(_, socket::Input::Closed { .. })));
    assert!(last < end);
}

#[test]
fn outgoing_connection_uses_listener_address() {
    let mut world = StreamsWorld::at("127.0.0.9:0");
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    world.streams.set_address(LayerId(0), LinkId(7), Some(elsewhere.local_addr().unwrap().to_string()));
    world.connect(7);
    world.run(|seen| !opened(seen).is_empty());
    assert_eq!(elsewhere.accept().unwrap().1.ip().to_string(), "127.0.0.9");
    let home = |to: &str| world.streams.home(LayerId(0), &to.parse().unwrap());
    assert_eq!(home("10.0.0.1:4556"), None, "an address of this computer alone leads nowhere else");
    assert_eq!(home("[::1]:4556"), None);
}

#[test]
fn link_address_can_be_removed() {
    let mut world = StreamsWorld::new();
    let (_, address) = world.streams.addresses[&LinkId(0)].clone();
    world.streams.set_address(LayerId(0), LinkId(7), Some(address));
    let active = world.connect(7);
    world.run(|seen| opened(seen).contains(&active));
    for _ in 0..1000 {
        world.streams.set_address(LayerId(0), LinkId(7), None);
        world.streams.set_address(LayerId(0), LinkId(7), Some("127.0.0.1:9".into()));
        world.streams.set_address(LayerId(0), LinkId(7), None);
    }
    assert_eq!((world.streams.addresses.len(), world.streams.hosts.len()), (2, 2));
    world.streams.close(active, true, crate::clock::now());
    let again = world.connect(7);
    world.run(|seen| closed(seen, again) == Some(true));
}

#[test]
fn secured_stream_ends_without_certificates() {
    let mut world = StreamsWorld::new();
    let active = world.connect(0);
    world.run(|seen| opened(seen).len() == 2);
    world.streams.start_tls(active, false, None, &mut world.inputs);
    let passive = world.passive().unwrap();
    world.run(|seen| closed(seen, active) == Some(true) && closed(seen, passive).is_some());
}

/// World with secured streams; the active end has the first certificate.
fn secured(certificates: [&str; 2]) -> (StreamsWorld, StreamId, StreamId, tempfile::TempDir) {
    let (folder, certificates) = crate::tls::tests::credentials(certificates);
    let mut world = StreamsWorld::new();
    let active = world.connect(0);
    world.run(|seen| opened(seen).len() == 2);
    let passive = world.passive().unwrap();
    let [first, second] = certificates;
    world.streams.set_credentials(LayerId(0), second);
    world.streams.start_tls(passive, true, None, &mut world.inputs);
    world.streams.set_credentials(LayerId(0), first);
    world.streams.start_tls(active, false, None, &mut world.inputs);
    (world, active, passive, folder)
}
fn proven(seen: &[Input], id: StreamId) -> Option<Vec<String>> {
    seen.iter().find_map(|i| match i {
        Input::Socket(_, socket::Input::Secured { stream, proven, .. }) if *stream == id => Some(proven.clone()),
        _ => None,
    })
}

/// Keeps 9174-4.4-1.
#[test]
fn secured_stream_proves_both_ends() {
    let (mut world, active, passive, _folder) = secured(["ipn:1.0", "ipn:2.0"]);
    world.run(|seen| proven(seen, active).is_some() && proven(seen, passive).is_some());
    assert_eq!(proven(&world.seen, active).unwrap(), ["ipn:2.0"]);
    assert_eq!(proven(&world.seen, passive).unwrap(), ["ipn:1.0"]);
    for (id, len) in [(active, 3_000_000), (passive, 2_000_000)] {
        world.streams.write(id, &Payload::fill(1, len), &mut world.inputs);
    }
    world.run(|seen| received(seen, passive) == 3_000_000 && received(seen, active) == 2_000_000);
    world.streams.write(active, &Payload::from(&b"goodbye"[..]), &mut world.inputs);
    world.streams.close(active, false, crate::clock::now());
    world.run(|seen| received(seen, passive) == 3_000_007 && closed(seen, passive) == Some(false));
    let ends = world.seen.iter().filter(|i| matches!(i, Input::Socket(_, socket::Input::Closed { .. })));
    assert_eq!(ends.count(), 1, "told once");
}

#[test]
fn paused_secured_stream_stays_unread() {
    let (mut world, active, passive, _folder) = secured(["ipn:1.0", "ipn:2.0"]);
    world.run(|seen| proven(seen, passive).is_some());
    world.streams.pause(passive, true);
    world.streams.write(active, &Payload::fill(1, QUEUE_BOUND / 2), &mut world.inputs);
    (0..20).for_each(|_| world.run(|_| true));
    assert_eq!(received(&world.seen, passive), 0);
    world.streams.pause(passive, false);
    world.run(|seen| received(seen, passive) == QUEUE_BOUND / 2);
}

/// Keeps 9174-4.4.3-9.
#[test]
fn untrusted_peer_ends_stream() {
    // An empty name stands for another authority.
    let (mut world, active, passive, _folder) = secured(["ipn:1.0", ""]);
    world.run(|seen| closed(seen, active) == Some(true) && closed(seen, passive) == Some(true));
    assert!(proven(&world.seen, active).is_none());
}

#[test]
fn unreachable_peer_closes_with_error() {
    let mut world = StreamsWorld::new();
    for link in [1, 2] {
        let id = world.connect(link);
        world.run(|seen| closed(seen, id) == Some(true));
    }
    assert!(world.streams.is_quiet());
    let active = world.connect(0);
    world.run(|seen| opened(seen).len() == 2);
    let passive = world.passive().unwrap();
    world.streams.close(passive, true, crate::clock::now());
    world.run(|seen| closed(seen, active).is_some());
    world.streams.close(active, true, crate::clock::now());
    assert!(world.streams.tokens.is_empty() && world.streams.streams.is_empty(), "nothing is left of it");
}
