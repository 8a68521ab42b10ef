use super::*;
use farlink_aap2::proto::{self, AapMessage, Body};
use farlink_base::{BundleId, CreationTimestamp, DtnTime};
use std::io::Write;
use std::os::unix::net::UnixStream;

const MEMORY: u64 = 100_000;

struct World {
    apps: Apps,
    clients: Vec<UnixStream>,
    inputs: VecDeque<Input>,
    spooling: Spooling,
}
impl World {
    /// Payloads longer than this go to disk as they come.
    fn spooling_from(length: u64) -> World {
        World { spooling: Spooling::new(length, 64 << 20), ..World::new() }
    }
    fn new() -> World {
        let settings =
            AppSettings { socket: None, socket_mode: 0, links: false, listen: None, echo: false, echo_rate: 1 };
        let apps = Apps::new(&settings, &[EndpointId::ipn(1, 0)], (u64::MAX, MEMORY, None)).unwrap();
        World { apps, clients: Vec::new(), inputs: VecDeque::new(), spooling: Spooling::new(u64::MAX, MEMORY) }
    }
    /// One more application; they are numbered from 1.
    fn connect(&mut self) {
        let (client, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        self.apps.serial += 1;
        let bounds = (1 << 40, self.spooling);
        let connection = Connection::new(AppSocket::Unix(socket), "ipn:1.0", bounds, Instant::ZERO);
        self.apps.connections.insert(self.apps.serial, connection);
        self.clients.push(client);
        let config = ConnectionConfig { endpoint_id: format!("ipn:1.{}", 10 + self.apps.serial), ..Default::default() };
        self.say(self.apps.serial, &[message(Body::Config(config))]);
    }
    /// An application says something.
    fn say(&mut self, serial: u64, parts: &[Vec<u8>]) {
        self.clients[serial as usize - 1].write_all(&parts.concat()).unwrap();
        let ready = Readiness { token: 0, readable: true, writable: false, ended: false };
        self.apps.connections.get_mut(&serial).unwrap().on_ready(ready);
        self.apps.active.push(serial);
        self.turn();
    }
    fn turn(&mut self) {
        self.apps.turn(Instant::ZERO, &mut Buffers::keeping(1), &mut self.inputs);
    }
    /// The node decides about all that was sent.
    fn decide(&mut self) {
        for input in std::mem::take(&mut self.inputs) {
            let Input::App(AppInput::Send { request, .. }) = input else { continue };
            let creation = CreationTimestamp { time: DtnTime(0), sequence: 1 };
            let result = Ok(BundleId { source: EndpointId::ipn(1, 11), creation, fragment: None });
            self.apps.on_output(AppOutput::SendResult { request, result }, Instant::ZERO, &mut self.inputs);
        }
        self.turn();
    }
    fn let_on(&self) -> Vec<u64> {
        let mut serials: Vec<u64> =
            self.apps.connections.iter().filter(|(_, c)| c.admitted).map(|(serial, _)| *serial).collect();
        serials.sort_unstable();
        serials
    }
}
fn message(body: Body) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    proto::frame(&AapMessage::new(body), &mut out);
    out.to_vec()
}
fn head(length: u64) -> Vec<u8> {
    message(Body::Adu(BundleAdu { dst_eid: "ipn:2.1".into(), payload_length: length, ..Default::default() }))
}

#[test]
fn those_that_wait_go_on_in_the_order_they_asked_until_one_does_not_fit() {
    let mut world = World::new();
    (0..5).for_each(|_| world.connect());
    world.say(1, &[head(60_000)]);
    for (serial, length) in [(4, 50_000), (3, 60_000), (2, 41_000)] {
        world.say(serial, &[head(length)]);
    }
    world.say(5, &[head(40_000)]);
    assert_eq!((world.let_on(), world.apps.sending), (vec![1, 5], 100_000), "what fits does not wait");
    assert!(!world.apps.busy());
    world.apps.close(1, &mut world.inputs);
    assert!(world.apps.busy());
    world.turn();
    assert_eq!((world.let_on(), world.apps.sending), (vec![4, 5], 90_000));
    assert!(!world.apps.busy());
    world.apps.close(3, &mut world.inputs);
    world.say(5, &[vec![0; 40_000]]);
    assert_eq!((world.let_on(), world.apps.sending), (vec![4], 90_000), "it counts until the node decided");
    world.decide();
    assert_eq!((world.let_on(), world.apps.sending), (vec![2, 4], 91_000));
    (1..=5).for_each(|serial| world.apps.close(serial, &mut world.inputs));
    assert_eq!((world.apps.sending, world.apps.waiting.len()), (0, 0));
}

#[test]
fn a_bundle_right_behind_another_asks_too() {
    let mut world = World::new();
    world.connect();
    world.say(1, &[head(60_000)]);
    world.say(1, &[vec![0; 60_000], head(60_000), vec![0; 10]]);
    assert_eq!((world.let_on().len(), world.apps.sending), (0, 60_000), "there is no room beside the first");
    world.decide();
    assert_eq!((world.let_on().len(), world.apps.sending), (1, 60_000));
}

#[test]
fn what_an_application_left_behind_counts_until_the_node_decided() {
    let mut world = World::new();
    (0..2).for_each(|_| world.connect());
    world.say(1, &[head(60_000)]);
    world.say(1, &[vec![0; 60_000]]);
    world.apps.close(1, &mut world.inputs);
    world.say(2, &[head(60_000)]);
    assert_eq!((world.let_on().len(), world.apps.sending), (0, 60_000), "the first is in the node's memory");
    world.decide();
    assert_eq!((world.let_on(), world.apps.sending), (vec![2], 60_000));
    world.apps.close(2, &mut world.inputs);
    assert_eq!(world.apps.sending, 0);
}

#[test]
fn all_that_go_to_disk_at_once_keep_to_the_memory_of_applications() {
    for memory in [4 << 10, 1 << 20, 8 << 20, 1 << 30] {
        let spooling = Spooling::new(memory / 4, memory);
        assert!(spooling.window > 0 && spooling.window <= memory / 4, "one that is alone is not refused");
        let at_once = memory / spooling.most();
        assert!(at_once * spooling.most() <= memory && (memory < 8 << 20 || at_once >= 3), "{at_once} of {memory}");
    }
}

/// Bytes that were sent to disk, and to which request they belong.
fn spooled(inputs: &VecDeque<Input>) -> Option<(RequestId, u64)> {
    inputs.iter().fold(None, |sum, input| match input {
        Input::Spool { request, source, part } => {
            assert_eq!(*source, EndpointId::ipn(1, 0).node());
            Some((*request, sum.map_or(0, |(_, bytes)| bytes) + part.len()))
        }
        _ => sum,
    })
}

#[test]
fn a_long_payload_goes_to_disk_as_it_comes_and_no_faster_than_that_takes_it() {
    const LONG: u64 = 20 << 20;
    let mut world = World::spooling_from(1 << 20);
    world.connect();
    world.decide();
    let mut client = world.clients[0].try_clone().unwrap();
    world.say(1, &[head(LONG)]);
    let writer = std::thread::spawn(move || client.write_all(&vec![7; LONG as usize]));
    let (mut on_disk, mut sent) = (0, None);
    while sent.is_none() {
        world.say(1, &[]);
        let (request, bytes) = spooled(&world.inputs).unwrap_or((RequestId(0), 0));
        let most = world.spooling.most();
        assert!(bytes <= most && world.apps.sending <= most, "{bytes} bytes at once");
        sent = world.inputs.iter().find_map(|input| match input {
            Input::App(AppInput::Send { request, bundle }) => Some((*request, bundle.payload.len())),
            _ => None,
        });
        if sent.is_none() && (bytes >= world.spooling.window || writer.is_finished()) {
            world.inputs.retain(|input| !matches!(input, Input::Spool { .. }));
            on_disk += bytes;
            world.apps.spooled(request, bytes, &mut world.inputs);
        }
    }
    assert!(writer.join().is_ok_and(|written| written.is_ok()));
    let (request, rest) = sent.expect("the request follows its payload");
    let left = spooled(&world.inputs).map_or(0, |(of, bytes)| if of == request { bytes } else { 0 });
    assert_eq!(on_disk + left + rest, LONG);
    world.decide();
    assert_eq!(world.apps.sending, 0);
}

#[test]
fn what_is_refused_in_the_middle_is_answered_once_it_is_over_and_a_sender_that_leaves_says_so() {
    let mut world = World::spooling_from(1 << 20);
    (0..2).for_each(|_| world.connect());
    for serial in [1, 2] {
        world.inputs.clear();
        world.say(serial, &[head(2 << 20)]);
        for _ in 0..16 {
            world.say(serial, &[vec![0; 64 << 10]]);
        }
        let (request, _) = spooled(&world.inputs).expect("a part of it");
        if serial == 2 {
            world.apps.close(serial, &mut world.inputs);
        } else {
            let result = Err(Refusal::NoResources);
            world.apps.on_output(AppOutput::SendResult { request, result }, Instant::ZERO, &mut world.inputs);
            world.inputs.clear();
            for _ in 0..16 {
                world.say(serial, &[vec![0; 64 << 10]]);
            }
            assert!(spooled(&world.inputs).is_none(), "the rest is thrown away");
        }
        let over = |input: &Input| matches!(input, Input::Unspool { request: of } if *of == request);
        assert!(world.inputs.iter().any(over), "{serial}: {:?}", world.inputs);
        assert!(!world.inputs.iter().any(|input| matches!(input, Input::App(AppInput::Send { .. }))));
    }
    let connection = &world.apps.connections[&1];
    assert!(connection.owed.is_empty() && connection.wants_write(), "it hears of the refusal");
    assert!(world.apps.requests.is_empty());
}
