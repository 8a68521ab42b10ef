use super::*;
use farlink_aap2::decoder::{Decoder, Request};
use farlink_aap2::proto::{self, AapBody, AapMessage, AapStatus, BundleAdu, ConnectionConfig};
use farlink_base::{BundleId, CreationTimestamp, DtnTime, Payload, Refusal};
use farlink_bpa::app::{AppOutput, Delivery, DeliveryId};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const MEMORY: u64 = 100_000;

struct AppsWorld {
    apps: Apps,
    clients: Vec<UnixStream>,
    inputs: VecDeque<Input>,
    spooling: Spooling,
    /// Decoder of the subscriber's input.
    heard: Decoder,
}
impl AppsWorld {
    /// World whose applications' payloads are spooled if they are longer than `length`.
    fn spooling_from(length: u64) -> AppsWorld {
        AppsWorld { spooling: Spooling::new(length, 64 << 20), ..AppsWorld::new() }
    }
    fn new() -> AppsWorld {
        let settings = AppSettings { socket: None, socket_mode: 0, listen: None };
        let told = farlink_base::node::AppSettings { window: 8, links: false, echo: false, echo_rate: 1 };
        let apps = Apps::new(&settings, &told, &[EndpointId::ipn(1, 0)], (u64::MAX, MEMORY, None)).unwrap();
        let (spooling, heard) = (Spooling::new(u64::MAX, MEMORY), Decoder::new(u64::MAX));
        AppsWorld { apps, clients: Vec::new(), inputs: VecDeque::new(), spooling, heard }
    }
    /// Connects one more application; they are numbered from 1.
    fn connect(&mut self) {
        let (client, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        self.apps.serial += 1;
        let bounds = (1 << 40, self.spooling);
        let connection = Connection::new(AppSocket::Unix(socket), "ipn:1.0", bounds, Instant::ZERO);
        self.apps.connections.insert(self.apps.serial, connection);
        self.clients.push(client);
        let config = ConnectionConfig { endpoint_id: format!("ipn:1.{}", 10 + self.apps.serial), ..Default::default() };
        self.say(self.apps.serial, &[message(AapBody::Config(config))]);
    }
    /// Connects one more application as a subscriber.
    fn subscribe(&mut self) -> (u64, RegistrationId) {
        self.connect();
        let serial = self.apps.serial;
        // Replace the connection by one whose client end does not block.
        let (client, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        client.set_nonblocking(true).unwrap();
        let bounds = (1 << 40, self.spooling);
        self.apps.close(serial, &mut self.inputs);
        let connection = Connection::new(AppSocket::Unix(socket), "ipn:1.0", bounds, Instant::ZERO);
        self.apps.connections.insert(serial, connection);
        *self.clients.last_mut().unwrap() = client;
        let config = ConnectionConfig {
            endpoint_id: format!("ipn:1.{}", 10 + serial),
            is_subscriber: true,
            window: 8,
            ..Default::default()
        };
        self.say(serial, &[message(AapBody::Config(config))]);
        let registration = RegistrationId(self.apps.next);
        let result = Ok(EndpointId::ipn(1, 10 + serial as u32));
        self.apps.on_output(AppOutput::Registered { registration, result }, Instant::ZERO, &mut self.inputs);
        self.inputs.clear();
        // The welcome, and the answer to the configuration.
        self.apps.flush(&mut self.inputs);
        assert!(!self.bytes(serial).is_empty());
        (serial, registration)
    }
    fn deliver(&mut self, registration: RegistrationId, delivery: u64, payload: Payload) {
        let bundle = Delivery {
            source: EndpointId::ipn(2, 1),
            destination: EndpointId::ipn(1, 11),
            creation: CreationTimestamp { time: DtnTime(0), sequence: delivery },
            lifetime_ms: 1000,
            facts: farlink_base::Facts::default(),
            redelivered: false,
            payload,
        };
        let output = AppOutput::Deliver { registration, delivery: DeliveryId(delivery), bundle };
        self.apps.on_output(output, Instant::ZERO, &mut self.inputs);
    }
    /// Whole deliveries that an application received: number and length.
    fn hears(&mut self, serial: u64) -> Vec<(u64, u64)> {
        self.apps.flush(&mut self.inputs);
        let bytes = self.bytes(serial);
        self.heard.feed(bytes.into()).unwrap();
        let whole = |request| match request {
            Request::Send(adu, _) => (adu.sequence_number, adu.payload_length),
            other => panic!("{other:?}"),
        };
        std::iter::from_fn(|| self.heard.request()).map(whole).collect()
    }
    fn bytes(&mut self, serial: u64) -> Vec<u8> {
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
        while let Ok(n @ 1..) = self.clients[serial as usize - 1].read(&mut buffer) {
            bytes.extend_from_slice(&buffer[..n]);
        }
        bytes
    }
    /// Next requested read from disk.
    fn reads(&mut self) -> Option<(u64, u64)> {
        let read = |input: &Input| match input {
            Input::Read { delivery, part } => Some((delivery.0, part.len())),
            _ => None,
        };
        let found = self.inputs.iter().find_map(read);
        self.inputs.clear();
        found
    }
    /// Answered deliveries, and ends of registrations as `None`, in order.
    fn answered(&self) -> Vec<Option<(u64, bool)>> {
        let answer = |input: &Input| match input {
            Input::App(AppInput::DeliveryDone { delivery, taken, .. }) => Some(Some((delivery.0, *taken))),
            Input::App(AppInput::Unregister { .. }) => Some(None),
            _ => None,
        };
        self.inputs.iter().filter_map(answer).collect()
    }
    /// Sends messages of an application.
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
    /// Accepts all bundles sent.
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
fn message(body: AapBody) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    proto::frame(&AapMessage::new(body), &mut out);
    out.to_vec()
}
fn head(length: u64) -> Vec<u8> {
    message(AapBody::Adu(BundleAdu { dst_eid: "ipn:2.1".into(), payload_length: length, ..Default::default() }))
}

/// Keeps 9758-5.7-1.
#[test]
fn administrative_endpoint_is_refused_to_applications() {
    for (endpoint, registers) in [("ipn:1.0", false), ("ipn:1.64", true)] {
        let mut world = AppsWorld::new();
        world.connect();
        let (client, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let connection = Connection::new(AppSocket::Unix(socket), "ipn:1.0", (1 << 40, world.spooling), Instant::ZERO);
        world.apps.connections.insert(1, connection);
        world.clients[0] = client;
        world.inputs.clear();
        let config = ConnectionConfig { endpoint_id: endpoint.into(), is_subscriber: true, ..Default::default() };
        world.say(1, &[message(AapBody::Config(config))]);
        assert_eq!(!world.inputs.is_empty(), registers, "{endpoint}: {:?}", world.inputs);
    }
}

#[test]
fn refused_subscriber_may_configure_again() {
    // The first endpoint is refused by this module, the second by the agent.
    for endpoint in ["ipn:1.0", "ipn:7.1"] {
        let mut world = AppsWorld::new();
        let (client, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let connection = Connection::new(AppSocket::Unix(socket), "ipn:1.0", (1 << 40, world.spooling), Instant::ZERO);
        world.apps.connections.insert(1, connection);
        world.clients.push(client);
        let config = |endpoint: &str, is_subscriber| {
            let secret = endpoint.into();
            let config = ConnectionConfig { endpoint_id: endpoint.into(), is_subscriber, secret, ..Default::default() };
            [message(AapBody::Config(config))]
        };
        world.say(1, &config(endpoint, true));
        let output = AppOutput::Registered { registration: RegistrationId(1), result: Err(Refusal::NotAcceptable) };
        world.apps.on_output(output, Instant::ZERO, &mut world.inputs);
        world.say(1, &config("ipn:1.64", false));
        let connection = world.apps.connections.get(&1).expect("open");
        assert_eq!((connection.introduced, connection.endpoint.as_deref()), (true, Some("ipn:1.64")), "{endpoint}");
        assert_eq!(world.apps.secrets.len(), 1, "the refused one is free");
    }
}

#[test]
fn waiting_senders_are_admitted_in_order() {
    let mut world = AppsWorld::new();
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
fn pipelined_bundle_waits_for_memory() {
    let mut world = AppsWorld::new();
    world.connect();
    world.say(1, &[head(60_000)]);
    world.say(1, &[vec![0; 60_000], head(60_000), vec![0; 10]]);
    assert_eq!((world.let_on().len(), world.apps.sending), (0, 60_000), "there is no room beside the first");
    world.decide();
    assert_eq!((world.let_on().len(), world.apps.sending), (1, 60_000));
}

#[test]
fn closed_connection_holds_memory_until_verdict() {
    let mut world = AppsWorld::new();
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
fn spooling_stays_within_application_memory() {
    for memory in [4 << 10, 1 << 20, 8 << 20, 1 << 30] {
        let spooling = Spooling::new(memory / 4, memory);
        assert!(spooling.window > 0 && spooling.window <= memory / 4, "one that is alone is not refused");
        let at_once = memory / spooling.most();
        assert!(at_once * spooling.most() <= memory && (memory < 8 << 20 || at_once >= 3), "{at_once} of {memory}");
    }
}

/// Bytes sent to disk, and their request.
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
fn long_payload_spools_at_disk_speed() {
    const LONG: u64 = 20 << 20;
    let mut world = AppsWorld::spooling_from(1 << 20);
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
fn refusal_midway_is_answered_at_end() {
    let mut world = AppsWorld::spooling_from(1 << 20);
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

fn on_disk(len: u64) -> Payload {
    let mut rope = Payload::new();
    rope.push(farlink_base::Chunk::Stored { extent: farlink_base::Extent { record: 1, offset: 0 }, len });
    rope
}
fn in_memory(len: u64) -> Payload {
    Payload::from(vec![7; len as usize])
}
fn yes() -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    proto::frame(&proto::AapResponse::new(AapStatus::Success), &mut out);
    out.to_vec()
}

#[test]
fn delivery_from_disk_waits_for_read() {
    let mut world = AppsWorld::new();
    let (serial, registration) = world.subscribe();
    for (delivery, payload) in [(1, in_memory(5)), (2, on_disk(100)), (3, in_memory(6)), (4, on_disk(150_000))] {
        world.deliver(registration, delivery, payload);
    }
    assert_eq!(world.hears(serial), [(1, 5)], "its place in the line is kept");
    assert_eq!(world.reads(), Some((2, 100)));
    assert_eq!((world.hears(serial), world.reads()), (vec![], None), "it is being read");
    world.apps.read(DeliveryId(2), Err(Refusal::Unknown), &mut world.inputs);
    assert_eq!(world.hears(serial), [(3, 6)], "it expired meanwhile: the next");
    assert_eq!(world.reads(), Some((4, 65_536)), "as much as one may have of memory, and no less than is worth a read");
    world.apps.read(DeliveryId(9), Err(Refusal::Unknown), &mut world.inputs);
    world.apps.read(DeliveryId(4), Ok(in_memory(65_536)), &mut world.inputs);
    assert!(world.hears(serial).is_empty(), "a part of it");
    for part in [65_536, 150_000 - 2 * 65_536] {
        assert!(world.hears(serial).is_empty());
        assert_eq!(world.reads(), Some((4, part)));
        world.apps.read(DeliveryId(4), Ok(in_memory(part)), &mut world.inputs);
    }
    assert_eq!(world.hears(serial), [(4, 150_000)]);
    world.say(serial, &[yes(), yes(), yes()]);
    assert_eq!(world.answered(), [Some((1, true)), Some((3, true)), Some((4, true))]);
    // A partial delivery cannot be withdrawn.
    world.inputs.clear();
    world.deliver(registration, 5, on_disk(150_000));
    world.hears(serial);
    world.apps.read(DeliveryId(5), Ok(in_memory(65_536)), &mut world.inputs);
    world.hears(serial);
    world.inputs.clear();
    world.apps.read(DeliveryId(5), Err(Refusal::Damaged), &mut world.inputs);
    assert_eq!(world.answered(), [None]);
}

#[test]
fn answer_counts_despite_unread_output() {
    let mut world = AppsWorld::new();
    let (serial, registration) = world.subscribe();
    for delivery in 1..=8 {
        world.deliver(registration, delivery, in_memory(100_000));
    }
    world.apps.flush(&mut world.inputs);
    let client = world.clients.pop().unwrap();
    (&client).write_all(&[yes(), yes()].concat()).unwrap();
    drop(client);
    // The kernel reports room to write before it reports the end.
    let ready = Readiness { token: 0, readable: false, writable: true, ended: false };
    world.apps.connections.get_mut(&serial).unwrap().on_ready(ready);
    world.apps.flush(&mut world.inputs);
    assert!(world.apps.busy(), "what it said is read");
    (0..3).for_each(|_| world.turn());
    assert_eq!(world.answered(), [Some((1, true)), Some((2, true)), None]);
    assert!(world.apps.connections.is_empty() && !world.apps.busy());
}

fn unconfigured(world: &mut AppsWorld) {
    let (client, socket) = UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    let connection = Connection::new(AppSocket::Unix(socket), "ipn:1.0", (1 << 40, world.spooling), Instant::ZERO);
    world.apps.connections.insert(1, connection);
    world.clients.push(client);
}

#[test]
fn late_refusal_leaves_time_to_configure() {
    let mut world = AppsWorld::new();
    unconfigured(&mut world);
    let config = ConnectionConfig { endpoint_id: "ipn:7.1".into(), is_subscriber: true, ..Default::default() };
    world.say(1, &[message(AapBody::Config(config))]);
    // The node was busy for 40 s, reading its store.
    let now = Instant(40_000_000_000);
    let output = AppOutput::Registered { registration: RegistrationId(1), result: Err(Refusal::NotAcceptable) };
    world.apps.on_output(output, now, &mut world.inputs);
    world.apps.sweep_at = Some(now);
    world.apps.expire(now, 0, &mut world.inputs);
    assert!(world.apps.connections.contains_key(&1), "closed within a sweep of the refusal");
}

#[test]
fn keepalive_of_refused_subscription_is_forgotten() {
    let mut world = AppsWorld::new();
    unconfigured(&mut world);
    let config = |endpoint: &str| ConnectionConfig {
        endpoint_id: endpoint.into(),
        is_subscriber: true,
        window: 8,
        keepalive_seconds: 1,
        ..Default::default()
    };
    world.say(1, &[message(AapBody::Config(config("ipn:7.1")))]);
    let now = Instant(1_500_000_000);
    world.apps.expire(now, 0, &mut world.inputs);
    let output = AppOutput::Registered { registration: RegistrationId(1), result: Err(Refusal::NotAcceptable) };
    world.apps.on_output(output, now, &mut world.inputs);
    world.say(1, &[message(AapBody::Config(config("ipn:1.64")))]);
    let registration = RegistrationId(world.apps.next);
    let output = AppOutput::Registered { registration, result: Ok(EndpointId::ipn(1, 64)) };
    world.apps.on_output(output, now, &mut world.inputs);
    world.inputs.clear();
    world.deliver(registration, 7, Payload::from(vec![1; 3]));
    let mut out = bytes::BytesMut::new();
    proto::frame(&farlink_aap2::proto::AapResponse::new(AapStatus::Success), &mut out);
    world.say(1, &[out.to_vec()]);
    assert_eq!(world.answered(), [Some((7, true))]);
}

/// An application that asked for a keepalive of 10 s, and the node's verdict on its registration after 40 s.
fn judged_late(result: Result<EndpointId, Refusal>) -> AppsWorld {
    let mut world = AppsWorld::new();
    unconfigured(&mut world);
    let config = ConnectionConfig {
        endpoint_id: "ipn:1.64".into(),
        is_subscriber: true,
        window: 8,
        keepalive_seconds: 10,
        ..Default::default()
    };
    world.say(1, &[message(AapBody::Config(config))]);
    let now = Instant(40_000_000_000);
    let output = AppOutput::Registered { registration: RegistrationId(1), result };
    world.apps.on_output(output, now, &mut world.inputs);
    world.apps.expire(now, 0, &mut world.inputs);
    world
}

#[test]
fn keepalive_of_refused_configuration_ends() {
    let world = judged_late(Err(Refusal::NotAcceptable));
    assert!(world.apps.connections.contains_key(&1));
}

#[test]
fn late_registration_leaves_time_for_keepalive() {
    let mut world = judged_late(Ok(EndpointId::ipn(1, 64)));
    // Half an interval later the client may still answer the first keepalive.
    world.apps.expire(Instant(45_000_000_000), 0, &mut world.inputs);
    assert!(world.apps.connections.contains_key(&1));
    // The client never answers, and is disconnected.
    for seconds in (50..=70).step_by(5) {
        world.apps.expire(Instant(seconds * 1_000_000_000), 0, &mut world.inputs);
    }
    assert!(!world.apps.connections.contains_key(&1));
}
