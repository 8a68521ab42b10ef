//! Cables between hosts: an interface in each host, with its addresses and its only neighbour, and two ports between
//! which the emulator carries packets.

use crate::emulator::Port;
use farlink_os::namespace::NetworkNamespace;
use farlink_os::netlink::{Mac, Netlink};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// One end of a cable.
#[derive(Debug)]
pub struct CableEnd<'a> {
    /// Host into which the end is plugged.
    pub host: &'a NetworkNamespace,
    /// Addresses of the interface, with prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// TCP congestion control towards the other end, by its name in the kernel; `None` for the host's default.
    pub congestion: Option<String>,
}

/// Plugs a cable into two hosts; call it in the emulator's network namespace. The interfaces are named `name` (at most
/// 13 bytes) with `a` or `b` appended. `rings` are the sizes of both ports' receive rings in bytes
/// ([`crate::emulator::rings`]).
pub fn plug(name: &str, ends: [&CableEnd<'_>; 2], mtu: u32, rings: [usize; 2]) -> io::Result<[Port; 2]> {
    let macs = [mac(name, 1), mac(name, 2)];
    let make = |index: usize| {
        let (end, inside) = (ends[index], format!("{name}{}", ['a', 'b'][index]));
        let ours = format!("{inside}-");
        let mut netlink = Netlink::open()?;
        netlink.create_veth_to(&ours, &inside, end.host.as_fd(), macs[index], mtu)?;
        let number = index_of(&mut netlink, &ours)?;
        silence(&ours);
        netlink.set_up(number, true)?;
        let port = Port::open(&ours, number, rings[index])?;
        let other = ends[1 - index].addresses.iter().map(|a| a.0);
        end.host.within(|| set_up(&inside, end, other, macs[1 - index]))?;
        Ok::<Port, io::Error>(port)
    };
    Ok([make(0)?, make(1)?])
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
    use farlink_os::udp::DatagramSocket;
    use std::net::UdpSocket;

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
                    host: &hosts[i],
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
}
