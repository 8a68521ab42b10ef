//! Cables between hosts: an interface in each host, with its addresses and its only neighbour, and two ports between
//! which the emulator carries packets. An end may be an interface of this machine instead, to which a machine outside
//! the testbed is plugged.

use crate::emulator::tunnel::{Tunnel, TunnelSetup};
use crate::emulator::{OutsideMachine, OutsidePort, Port, hardware_address};
use farlink_os::namespace::NetworkNamespace;
use farlink_os::netlink::{self, Mac, Netlink};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;

/// Place into which one end of a cable is plugged.
#[derive(Clone, Copy, Debug)]
pub enum CablePlace<'a> {
    /// A host.
    Host(&'a NetworkNamespace),
    /// A machine outside the testbed, behind an interface of this machine.
    Outside {
        /// Network namespace of the interface.
        network: &'a NetworkNamespace,
        /// Name of the interface.
        interface: &'a str,
    },
    /// A host of another machine, at the end of a tunnel.
    Tunnel(&'a TunnelSetup),
    /// A host of another machine, for which this machine's emulator is not responsible.
    Elsewhere,
}

/// One end of a cable.
#[derive(Debug)]
pub struct CableEnd<'a> {
    /// Host or machine into which the end is plugged.
    pub place: CablePlace<'a>,
    /// Addresses of the interface, with prefix lengths; those of a machine outside must be set there.
    pub addresses: Vec<(IpAddr, u8)>,
    /// TCP congestion control towards the other end, by its name in the kernel; `None` for the host's default.
    pub congestion: Option<String>,
}

/// Plugs a cable into two hosts; call it in the emulator's network namespace. The interfaces are named `name` (at most
/// 13 bytes) with `a` or `b` appended. `rings` are the sizes of both ports' receive rings in bytes
/// ([`crate::emulator::rings`]).
pub fn plug(name: &str, ends: [&CableEnd<'_>; 2], mtu: u32, rings: [usize; 2]) -> io::Result<[Port; 2]> {
    let mut macs = [mac(name, 1), mac(name, 2)];
    for (index, mac) in macs.iter_mut().enumerate() {
        let [end, other] = [ends[index], ends[1 - index]];
        if let CablePlace::Outside { network, interface } = end.place {
            *mac = network.within(|| find_machine(interface, end, other, mtu))?;
        }
    }
    Ok([plug_end(name, ends, 0, mtu, rings[0], macs)?, plug_end(name, ends, 1, mtu, rings[1], macs)?])
}

/// Plugs one end of a cable whose other end the emulator of another machine plugs. The host sends no super-packets,
/// which no datagram of a tunnel could hold.
pub fn plug_one(name: &str, ends: [&CableEnd<'_>; 2], index: usize, mtu: u32) -> io::Result<Port> {
    let port = plug_end(name, ends, index, mtu, 0, [mac(name, 1), mac(name, 2)])?;
    if let CablePlace::Host(host) = ends[index].place {
        host.within(|| {
            let mut netlink = Netlink::open()?;
            let index = index_of(&mut netlink, &interface_name(name, index))?;
            netlink.refuse_super_packets(index)
        })?;
    }
    Ok(port)
}

fn interface_name(name: &str, index: usize) -> String {
    format!("{name}{}", ['a', 'b'][index])
}

fn plug_end(
    name: &str,
    ends: [&CableEnd<'_>; 2],
    index: usize,
    mtu: u32,
    ring: usize,
    macs: [Mac; 2],
) -> io::Result<Port> {
    let (end, inside) = (ends[index], interface_name(name, index));
    let other = ends[1 - index].addresses.iter().map(|a| a.0);
    let host = match end.place {
        CablePlace::Host(host) => host,
        CablePlace::Outside { network, interface } => {
            let neighbour_addresses = other.filter_map(v4).collect();
            let own_addresses = end.addresses.iter().filter_map(|(address, _)| v4(*address)).collect();
            let (own, neighbour) = (macs[index], macs[1 - index]);
            let machine = OutsideMachine { own, own_addresses, neighbour, neighbour_addresses };
            return network.within(|| {
                let number = index_of(&mut Netlink::open()?, interface)?;
                let outside = OutsidePort::claim(number, machine).map_err(|error| match error.kind() {
                    io::ErrorKind::AddrInUse => io::Error::other(format!(
                        "interface `{interface}` is used by another run\nhint: wait for its end, or stop it"
                    )),
                    _ => error,
                })?;
                Port::open_outside(interface, number, ring, outside)
            });
        }
        CablePlace::Tunnel(setup) => return Tunnel::open(setup).map(Port::tunnel),
        CablePlace::Elsewhere => return Err(io::Error::other("no tunnel to another machine")),
    };
    let ours = format!("{inside}-");
    let mut netlink = Netlink::open()?;
    netlink.create_veth_to(&ours, &inside, host.as_fd(), macs[index], mtu)?;
    let number = index_of(&mut netlink, &ours)?;
    silence(&ours);
    netlink.set_up(number, true)?;
    let port = Port::open(&ours, number, ring)?;
    host.within(|| set_up(&inside, end, other, macs[1 - index]))?;
    Ok(port)
}

/// Finds the hardware address of the machine behind an interface; call it in the interface's network namespace. `other`
/// is the other end of the link.
fn find_machine(interface: &str, end: &CableEnd<'_>, other: &CableEnd<'_>, mtu: u32) -> io::Result<Mac> {
    let addresses = &end.addresses;
    let fail = |why: &str, hint: &str| Err(io::Error::other(format!("interface `{interface}` {why}\nhint: {hint}")));
    let Some(found) = Netlink::open()?.interface(interface)? else {
        return fail("does not exist", "`ip link` lists the interfaces of this machine");
    };
    if netlink::has_address(interface)? {
        let hint = "a run takes all that arrives there; choose an interface of which this machine has no use";
        return fail("has an address of this machine", hint);
    }
    if !found.running {
        return fail("is down or has no carrier", &format!("plug the machine; `ip link set {interface} up`"));
    }
    if found.mtu < mtu {
        let why = format!("has an MTU of {} bytes, and the link one of {mtu}", found.mtu);
        return fail(&why, &format!("`ip link set {interface} mtu {mtu}`, or give the link that `mtu`"));
    }
    if found.is_member {
        return fail("is a member of a bridge or bond, which takes its frames", "`ip link set {interface} nomaster`");
    }
    // The kernel would answer the machine's address resolution before the emulator does.
    if let Some((address, _)) = other.addresses.iter().find(|(address, _)| is_own(*address)) {
        let why = format!("cannot stand for {address}, which is an address of this machine");
        return fail(&why, "remove that address, or run in a network namespace that has the interface alone");
    }
    let Some(address) = addresses.iter().find_map(|(address, _)| v4(*address)) else {
        return fail("has no address in the scenario", "links have IPv4 addresses");
    };
    match hardware_address(found.index, found.mac, address) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let hint = format!("give the machine the address {address}/{}, and look at its cable", addresses[0].1);
            fail(&format!("has no machine with the address {address}"), &hint)
        }
        other => other,
    }
}

/// Whether an address is one of this machine: what is sent to it comes from it.
fn is_own(address: IpAddr) -> bool {
    let source = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

/// Configures one end's interface; call it inside the host.
fn set_up(
    name: &str,
    end: &CableEnd<'_>,
    neighbours: impl Iterator<Item = IpAddr>,
    neighbour_mac: Mac,
) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let index = index_of(&mut netlink, name)?;
    let addresses = &end.addresses;
    if addresses.iter().all(|a| a.0.is_ipv4()) {
        silence(name);
    }
    netlink.set_up(index, true)?;
    for (address, prefix) in addresses {
        netlink.add_address(index, *address, *prefix)?;
    }
    // Neighbours are static, since ARP requests would take part in the link model's random decisions.
    for neighbour in neighbours {
        netlink.add_neighbour(index, neighbour, neighbour_mac)?;
        if let Some(control) = &end.congestion {
            netlink.set_congestion_control(index, neighbour, control)?;
        }
    }
    Ok(())
}

/// Makes the current host forward packets and accept packets on asymmetric routes (no reverse-path filter). Call it
/// inside the host before it has interfaces, which inherit these settings.
pub fn allow_forwarding() -> io::Result<()> {
    const SETTINGS: &str = "/proc/sys/net/ipv4";
    let set = |name: &str, value: &str| {
        let path = format!("{SETTINGS}/{name}");
        fs::write(&path, value).map_err(|e| farlink_os::context(e, &format!("setting {path} to {value}")))
    };
    set("ip_forward", "1")?;
    ["all", "default"].iter().try_for_each(|which| set(&format!("conf/{which}/rp_filter"), "0"))
}

/// Creates a host: a network namespace whose loopback interface is up.
pub fn make_host() -> io::Result<NetworkNamespace> {
    let host = NetworkNamespace::create()?;
    host.within(|| {
        let mut netlink = Netlink::open()?;
        let index = index_of(&mut netlink, "lo")?;
        netlink.set_up(index, true)
    })?;
    Ok(host)
}

/// Disables IPv6 on an interface if `/proc/sys` is writable, so that the kernel sends no unsolicited packets.
fn silence(name: &str) {
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
}

fn index_of(netlink: &mut Netlink, name: &str) -> io::Result<u32> {
    let found = netlink.interface(name)?;
    found.map(|i| i.index).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no interface `{name}`")))
}

/// Locally administered MAC address derived from the name, so that captures of two runs have equal addresses.
fn mac(name: &str, end: u8) -> Mac {
    // FNV-1a; the first byte 02 marks a locally administered address.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let [a, b, c, d, ..] = hash.to_be_bytes();
    [0x02, a, b, c, d, end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::{DirectionSample, Emulator, rings};
    use farlink_base::Duration;
    use farlink_link::LinkSpec;
    use farlink_os::namespace;
    use farlink_os::packet::{PacketSocket, VNET_HEADER};
    use farlink_os::udp::DatagramSocket;
    use std::io::IoSlice;

    /// Two hosts joined by a link, for tests.
    struct CableBench {
        hosts: [NetworkNamespace; 2],
        emulator: Emulator,
    }

    const A: &str = "10.0.0.1:4000";
    const B: &str = "10.0.0.2:4000";

    fn bench(spec: &str, seed: u64, exact: bool) -> Option<CableBench> {
        let build = || -> io::Result<CableBench> {
            let home = namespace::NetworkNamespace::current()?;
            let lab = NetworkNamespace::create()?;
            lab.enter()?;
            let built = (|| {
                let hosts = [make_host()?, make_host()?];
                let end = |i: usize| CableEnd {
                    place: CablePlace::Host(&hosts[i]),
                    addresses: vec![(format!("10.0.0.{}", i + 1).parse().unwrap(), 24)],
                    congestion: None,
                };
                let spec = LinkSpec::parse(spec).unwrap();
                let ports = plug("link0", [&end(0), &end(1)], 1500, rings(std::slice::from_ref(&spec))[0])?;
                let mut emulator = Emulator::new(Duration::from_millis(50))?;
                emulator.add(ports, &spec, seed, exact)?;
                emulator.begin(None)?;
                Ok(CableBench { hosts, emulator })
            })();
            home.enter()?;
            built
        };
        match build() {
            Ok(bench) => Some(bench),
            Err(e) => {
                println!("skipped: the kernel refuses a host or an interface: {e}");
                None
            }
        }
    }

    fn last(samples: &[DirectionSample], forward: bool) -> &DirectionSample {
        samples.iter().rev().find(|s| s.forward == forward).unwrap()
    }

    /// Receives a datagram; a signal from a child that ends may interrupt the wait.
    fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> std::io::Result<(usize, std::net::SocketAddr)> {
        loop {
            match socket.recv_from(buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    #[test]
    fn round_trip_takes_twice_the_delay() {
        // At 100 Mbit/s the ports have receive rings, at 10 Mbit/s none.
        for (rate, exact) in [("100 Mbit/s", false), ("10 Mbit/s", false), ("100 Mbit/s", true)] {
            let Some(mut bench) = bench(&format!("delay=50 ms,rate={rate}"), 1, exact) else { return };
            let a = bench.hosts[0].within(|| UdpSocket::bind(A)).unwrap();
            let b = bench.hosts[1].within(|| UdpSocket::bind(B)).unwrap();
            for socket in [&a, &b] {
                socket.set_read_timeout(Some(std::time::Duration::from_secs(3))).unwrap();
            }
            let mut buffer = [0u8; 2000];
            let mut round_trips = Vec::new();
            for _ in 0..8 {
                let start = std::time::Instant::now();
                a.send_to(&[7; 500], B).unwrap();
                let (n, from) = receive(&b, &mut buffer).unwrap();
                b.send_to(&buffer[..n], from).unwrap();
                let (n, _) = receive(&a, &mut buffer).unwrap();
                assert_eq!(buffer[..n], [7; 500]);
                round_trips.push(start.elapsed().as_secs_f64() * 1e3);
            }
            // The delay is never shorter; by how much it is longer depends on other load, so the best counts.
            let best = round_trips.iter().copied().fold(f64::MAX, f64::min);
            assert!((100.0..115.0).contains(&best), "{round_trips:?}");
            let samples = bench.emulator.finish().unwrap();
            assert_eq!(last(&samples, true).statistics.delivered, 8);
            assert_eq!(last(&samples, true).handed_over_bytes, 8 * 528);
        }
    }

    #[test]
    fn losses_depend_on_seed_not_offload() {
        let send = |batched: bool, seed: u64, exact: bool| -> Option<Vec<bool>> {
            let mut bench = bench("delay=1 ms,rate=1 Gbit/s,loss=10 %", seed, exact)?;
            let a = bench.hosts[0].within(|| DatagramSocket::bind(&A.parse().unwrap(), true, 1 << 20)).unwrap();
            let b = bench.hosts[1].within(|| UdpSocket::bind(B)).unwrap();
            b.set_read_timeout(Some(std::time::Duration::from_secs(3))).unwrap();
            let mut payload = Vec::new();
            for number in 0..200u16 {
                payload.extend_from_slice(&number.to_be_bytes());
                payload.resize(payload.len() + 98, 0);
            }
            for train in payload.chunks(if batched { 4000 } else { 100 }) {
                let (sent, result) = a.send_batch(&B.parse().unwrap(), 100, &[io::IoSlice::new(train)]);
                result.unwrap();
                assert_eq!(sent, train.len());
            }
            let mut arrived = vec![false; 200];
            let mut buffer = [0u8; 2000];
            while let Ok((n, _)) = receive(&b, &mut buffer) {
                assert_eq!(n, 100);
                b.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
                arrived[usize::from(u16::from_be_bytes([buffer[0], buffer[1]]))] = true;
            }
            bench.emulator.finish().unwrap();
            Some(arrived)
        };
        let Some(first) = send(false, 7, false) else { return };
        let lost = first.iter().filter(|a| !**a).count();
        assert!((5..45).contains(&lost), "{lost} of 200 lost");
        assert_eq!(Some(&first), send(false, 7, false).as_ref(), "same seed");
        assert_eq!(Some(&first), send(true, 7, false).as_ref(), "in super-packets");
        assert_eq!(Some(&first), send(false, 7, true).as_ref(), "without trains");
        assert_ne!(Some(&first), send(false, 8, false).as_ref(), "another seed");
    }

    #[test]
    fn packets_outside_window_are_lost() {
        let Some(mut bench) = bench("delay=1 ms,rate=10 Mbit/s,windows=300 ms .. 10 s", 1, false) else { return };
        let a = bench.hosts[0].within(|| UdpSocket::bind(A)).unwrap();
        let b = bench.hosts[1].within(|| UdpSocket::bind(B)).unwrap();
        b.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
        a.send_to(b"early", B).unwrap();
        assert!(receive(&b, &mut [0; 10]).is_err());
        b.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(320));
        a.send_to(b"later", B).unwrap();
        assert_eq!(receive(&b, &mut [0; 10]).unwrap().0, 5);
        let samples = bench.emulator.finish().unwrap();
        assert_eq!(last(&samples, true).statistics.dropped_by(farlink_link::DropReason::Down), 1);
    }

    /// A machine outside, at `v1`, plugged by an Ethernet pair into the interface `v0` of `network`, and linked to a
    /// host by the emulator.
    struct OutsideBench {
        network: NetworkNamespace,
        machine: NetworkNamespace,
        host: NetworkNamespace,
    }

    impl OutsideBench {
        /// `None` if the kernel refuses.
        fn new(address: &str) -> Option<OutsideBench> {
            let build = || -> io::Result<OutsideBench> {
                let (network, machine) = (NetworkNamespace::create()?, NetworkNamespace::create()?);
                network.within(|| {
                    let mut netlink = Netlink::open()?;
                    netlink.create_veth_to("v0", "v1", machine.as_fd(), [2, 0, 0, 0, 0, 9], 1500)?;
                    let index = index_of(&mut netlink, "v0")?;
                    netlink.set_up(index, true)
                })?;
                machine.within(|| {
                    let mut netlink = Netlink::open()?;
                    let index = index_of(&mut netlink, "v1")?;
                    netlink.set_up(index, true)?;
                    netlink.add_address(index, address.parse().unwrap(), 24)
                })?;
                Ok(OutsideBench { network, machine, host: make_host()? })
            };
            build().map_err(|e| println!("skipped: the kernel refuses a namespace or an interface: {e}")).ok()
        }

        /// Plugs the host and the machine into one cable.
        fn plug(&self, interface: &str, rings: [usize; 2]) -> io::Result<[Port; 2]> {
            self.plug_with("link0", interface, rings, 1500)
        }

        fn plug_with(&self, name: &str, interface: &str, rings: [usize; 2], mtu: u32) -> io::Result<[Port; 2]> {
            let addresses = |n: u8| vec![(IpAddr::from([10, 0, 0, n]), 24)];
            let host = CableEnd { place: CablePlace::Host(&self.host), addresses: addresses(1), congestion: None };
            let place = CablePlace::Outside { network: &self.network, interface };
            let machine = CableEnd { place, addresses: addresses(2), congestion: None };
            let lab = NetworkNamespace::create()?;
            lab.within(|| plug(name, [&host, &machine], mtu, rings))
        }

        /// Applies a change to an interface of the machine or of the network.
        fn change(&self, at: &NetworkNamespace, name: &str, change: impl Fn(&mut Netlink, u32) -> io::Result<()>) {
            at.within(|| {
                let mut netlink = Netlink::open()?;
                let index = index_of(&mut netlink, name)?;
                change(&mut netlink, index)
            })
            .unwrap();
        }
    }

    #[test]
    fn machine_outside_is_a_link_delay_away() {
        // At 100 Mbit/s the ports have receive rings, at 10 Mbit/s none.
        for rate in ["100 Mbit/s", "10 Mbit/s"] {
            let Some(bench) = OutsideBench::new("10.0.0.2") else { return };
            // With this delay Linux gives up address resolution before an answer could cross the link.
            let spec = LinkSpec::parse(&format!("delay=1.7 s,rate={rate}")).unwrap();
            let ports = bench.plug("v0", rings(std::slice::from_ref(&spec))[0]).unwrap();
            let mut emulator = Emulator::new(Duration::from_millis(50)).unwrap();
            emulator.add(ports, &spec, 1, false).unwrap();
            emulator.begin(None).unwrap();
            let host = bench.host.within(|| UdpSocket::bind(A)).unwrap();
            let machine = bench.machine.within(|| UdpSocket::bind(B)).unwrap();
            let mut buffer = [0u8; 2000];
            // The machine speaks first, so it has to resolve the host's address.
            machine.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
            host.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
            let start = std::time::Instant::now();
            machine.send_to(&[3; 700], A).unwrap();
            let (n, from) = receive(&host, &mut buffer).unwrap();
            assert_eq!((&buffer[..n], from), (&[3; 700][..], B.parse().unwrap()));
            host.send_to(&[4; 1400], from).unwrap();
            let (n, from) = receive(&machine, &mut buffer).unwrap();
            assert_eq!((&buffer[..n], from), (&[4; 1400][..], A.parse().unwrap()));
            assert!(start.elapsed().as_secs_f64() >= 3.4, "{:?}", start.elapsed());
            let samples = emulator.finish().unwrap();
            for forward in [true, false] {
                // Nothing else was on the link, neither address resolution nor broadcasts.
                assert_eq!(last(&samples, forward).statistics.delivered, 1, "{forward}");
            }
        }
    }

    #[test]
    fn machine_outside_harms_only_its_own_packets() {
        let Some(bench) = OutsideBench::new("10.0.0.2") else { return };
        let spec = LinkSpec::parse("delay=2 ms,rate=10 Mbit/s").unwrap();
        let ports = bench.plug_with("link0", "v0", [0; 2], 1000).unwrap();
        // The first cable has the host's interface, so the second one needs another name.
        let why = bench.plug_with("link1", "v0", [0; 2], 1000).unwrap_err().to_string();
        assert!(why.contains("`v0` is used by another run"), "{why}");
        let mut emulator = Emulator::new(Duration::from_millis(50)).unwrap();
        emulator.add(ports, &spec, 1, false).unwrap();
        emulator.begin(None).unwrap();
        let host = bench.host.within(|| UdpSocket::bind(A)).unwrap();
        let machine = bench.machine.within(|| UdpSocket::bind(B)).unwrap();
        host.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        machine.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        let mut buffer = [0u8; 2000];
        // Larger than the link's packets, which the machine does not know.
        machine.send_to(&[1; 1200], A).unwrap();
        machine.send_to(&[2; 700], A).unwrap();
        assert_eq!(receive(&host, &mut buffer).unwrap().0, 700);
        // With a VLAN tag, which a cable would carry and the host would not take.
        let [to, from] = [mac("link0", 1), [2, 0, 0, 0, 0, 9]];
        let frame = [&[0; VNET_HEADER][..], &to, &from, &[0x81, 0, 0, 5, 8, 0], &[0; 60]].concat();
        bench.change(&bench.machine, "v1", |_, index| {
            PacketSocket::open(index, 1 << 16)?.send(&[&[IoSlice::new(&frame)]]).map(drop)
        });
        // Without a carrier what is sent meanwhile is lost, and not delivered later.
        bench.change(&bench.machine, "v1", |netlink, index| netlink.set_up(index, false));
        host.send_to(&[3; 300], B).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        bench.change(&bench.machine, "v1", |netlink, index| netlink.set_up(index, true));
        host.send_to(&[4; 400], B).unwrap();
        assert_eq!(receive(&machine, &mut buffer).unwrap().0, 400);
        bench.change(&bench.machine, "v1", |netlink, index| netlink.set_mac(index, [2, 0, 0, 0, 0, 10]));
        machine.send_to(&[5; 500], A).unwrap();
        assert_eq!(receive(&host, &mut buffer).unwrap().0, 500);
        let samples = emulator.finish().unwrap();
        let [there, back] = [true, false].map(|forward| last(&samples, forward));
        assert_eq!((there.interface_losses, back.interface_losses), (1, 1));
        assert_eq!((there.own_losses, back.own_losses), (0, 0));
        assert_eq!((there.other_hardware, back.other_hardware), (false, true));
        assert_eq!((back.statistics.sent, back.ignored), (3, 0), "the tagged frame was not taken");
    }

    #[test]
    fn unusable_interfaces_are_errors() {
        let Some(bench) = OutsideBench::new("10.0.0.7") else { return };
        let why = |interface: &str| bench.plug(interface, [0; 2]).unwrap_err().to_string();
        assert!(why("v9").contains("`v9` does not exist"), "{}", why("v9"));
        let silent = why("v0");
        assert!(silent.contains("no machine with the address 10.0.0.2"), "{silent}");
        assert!(silent.contains("give the machine the address 10.0.0.2/24"), "{silent}");
        let small = bench.plug_with("link0", "v0", [0; 2], 9000).unwrap_err().to_string();
        assert!(small.contains("`v0` has an MTU of 1500 bytes, and the link one of 9000"), "{small}");
        bench.change(&bench.network, "v0", |netlink, _| {
            netlink.create_veth("v7", "w7")?;
            let index = index_of(netlink, "v7")?;
            netlink.set_up(index, true)?;
            netlink.add_address(index, "10.0.0.1".parse().unwrap(), 24)
        });
        assert!(why("v0").contains("cannot stand for 10.0.0.1"), "{}", why("v0"));
        bench.change(&bench.network, "v7", |netlink, index| netlink.delete(index));
        bench.change(&bench.network, "v0", |netlink, index| {
            netlink.add_address(index, "192.0.2.1".parse().unwrap(), 24)
        });
        assert!(why("v0").contains("has an address of this machine"), "{}", why("v0"));
        bench.change(&bench.machine, "v1", |netlink, index| netlink.set_up(index, false));
        bench.change(&bench.network, "v0", |netlink, index| {
            netlink.delete(index)?;
            netlink.create_veth("v0", "w0")
        });
        assert!(why("v0").contains("is down or has no carrier"), "{}", why("v0"));
    }
}
