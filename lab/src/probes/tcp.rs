//! Probe of the TCP connections of each host: round trip, window, retransmissions, delivery rate.

use super::{Probe, ProbedHosts};
use crate::supervisor::{Reading, TcpReading};
use farlink_os::sock_diag::{Connection, SockDiag};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Probe of TCP connections, with a query socket in each host.
#[derive(Debug, Default)]
pub struct TcpState {
    sockets: Vec<Option<SockDiag>>,
}

impl Probe for TcpState {
    fn sample(&mut self, hosts: &mut ProbedHosts<'_>, each: &mut dyn FnMut(Reading)) {
        // Opened once: a host in which this fails keeps `None`, and is not tried again.
        for namespace in &hosts.namespaces[self.sockets.len().min(hosts.namespaces.len())..] {
            self.sockets.push(namespace.within(SockDiag::open).ok());
        }
        for (host, socket) in self.sockets.iter_mut().enumerate() {
            let connections = socket.as_mut().and_then(|socket| socket.connections().ok()).unwrap_or_default();
            by_peer(host, &connections).into_iter().for_each(|reading| each(Reading::Tcp(reading)));
        }
    }
}

/// Sums the connections with each peer. Loopback is left out: it joins a host's own programs.
fn by_peer(host: usize, connections: &[Connection]) -> Vec<TcpReading> {
    let mut peers: BTreeMap<IpAddr, (TcpReading, u64)> = BTreeMap::new();
    for connection in connections.iter().filter(|connection| !connection.peer.is_loopback()) {
        let none =
            TcpReading { host, peer: connection.peer, round_trip_us: 0, window: 0, retransmitted: 0, delivery_rate: 0 };
        let (reading, most) = peers.entry(connection.peer).or_insert((none, 0));
        reading.window += connection.window;
        reading.retransmitted += u64::from(connection.retransmitted);
        reading.delivery_rate += connection.delivery_rate;
        if reading.round_trip_us == 0 || connection.acknowledged > *most {
            (reading.round_trip_us, *most) = (connection.round_trip_us, connection.acknowledged);
        }
    }
    peers.into_values().map(|(reading, _)| reading).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_added_by_peer() {
        let connection = |peer: &str, round_trip_us, acknowledged| Connection {
            peer: peer.parse().unwrap(),
            round_trip_us,
            window: 1000,
            retransmitted: 2,
            delivery_rate: 50,
            acknowledged,
        };
        let all = [
            connection("10.0.0.2", 20, 100),
            connection("10.0.0.2", 30, 900),
            connection("127.0.0.1", 1, 1),
            connection("10.0.0.3", 40, 0),
        ];
        let readings = by_peer(4, &all);
        let short = |r: &TcpReading| (r.host, r.round_trip_us, r.window, r.retransmitted, r.delivery_rate);
        let found: Vec<_> = readings.iter().map(short).collect();
        assert_eq!(found, [(4, 30, 2000, 4, 100), (4, 40, 1000, 2, 50)], "the busiest gives the round trip");
    }
}
