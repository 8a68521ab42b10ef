//! Use of processors and memory by role, from the values that probes read: makes rows of the samples table, and totals
//! for each phase.

use crate::supervisor::{Reading, Role, RoleReading, TcpReading};
use farlink_report::schema::{APPLICATION, CPU_S, EMULATOR, MEMORY_BYTES, RSS_BYTES, STORE_FILES_BYTES, TCP};
use farlink_report::{RoleUse, SampleRow, Spread, Text};
use farlink_scenario::Scenario;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Maximum number of samples of a span that count for quartiles; later samples are left out.
const SAMPLES: usize = 1 << 20;

/// Index of a host (`None` for the emulator), and a role there.
type Account = (Option<usize>, Role);

/// Resource use of all roles of a run.
pub struct Usages {
    names: Vec<Text>,
    /// Link that each address belongs to.
    links: BTreeMap<IpAddr, Text>,
    tracks: BTreeMap<Account, Track>,
    /// Interval of rows of one series, ns.
    interval_ns: u64,
    /// Time of the current rows of each machine, and time at which its next rows are due (ns). Machines are read at
    /// different times.
    rows_ns: BTreeMap<Option<usize>, (u64, u64)>,
}

impl Usages {
    /// Creates the state before the first reading.
    pub fn new(scenario: &Scenario) -> Usages {
        let ends = (0..scenario.links.len()).flat_map(|link| scenario.ends(link));
        let name = |link: usize| scenario.links[link].name.as_str().into();
        Usages {
            names: scenario.nodes.iter().map(|node| node.name.as_str().into()).collect(),
            links: ends.map(|end| (IpAddr::from(end.address), name(end.link))).collect(),
            tracks: BTreeMap::new(),
            interval_ns: u64::try_from(scenario.measure.interval.as_nanos()).unwrap_or(u64::MAX),
            rows_ns: BTreeMap::new(),
        }
    }

    /// Takes values that were read on a machine (`None`: this one) at `time_ns`, in ns since the start of the run, or
    /// `None` before that. Adds rows to `rows` if they are due.
    pub fn note(
        &mut self,
        machine: Option<usize>,
        time_ns: Option<u64>,
        readings: &[Reading],
        rows: &mut Vec<SampleRow>,
    ) {
        let (rows_at_ns, next_row_ns) = self.rows_ns.entry(machine).or_default();
        // Values of one time come in several messages, all of which make rows.
        if let Some(now) = time_ns.filter(|now| *now >= *next_row_ns && *now != *rows_at_ns) {
            // A tenth less than the interval, since readings come a little early or late.
            (*rows_at_ns, *next_row_ns) = (now, now.saturating_add(self.interval_ns / 10 * 9));
        }
        let rows_at_ns = *rows_at_ns;
        for reading in readings {
            if let Reading::Role(role) = reading {
                self.tracks.entry((role.host, role.role)).or_default().note(time_ns, role);
            }
            if time_ns.is_some_and(|now| now == rows_at_ns) {
                self.rows(rows_at_ns, reading, rows);
            }
        }
    }

    fn rows(&self, time_ns: u64, reading: &Reading, rows: &mut Vec<SampleRow>) {
        let mut row = |host: Option<usize>, link: Option<Text>, metric: &str, value: f64| {
            let node = host.and_then(|host| self.names.get(host).cloned());
            rows.push(SampleRow { time_ns, node, link, metric: metric.into(), value, phase: None });
        };
        match reading {
            Reading::Role(role) => {
                let (host, cpu_s) = (role.host, (role.cpu_user_ns + role.cpu_system_ns) as f64 / 1e9);
                let memory = [role.anonymous, role.shared, role.cache].map(|bytes| bytes as f64);
                let all = memory.iter().sum();
                match role.role {
                    Role::Implementation => {
                        row(host, None, CPU_S, cpu_s);
                        row(host, None, RSS_BYTES, all);
                        MEMORY_BYTES.iter().zip(memory).for_each(|(metric, bytes)| row(host, None, metric, bytes));
                    }
                    Role::Application => {
                        let values = [cpu_s, memory[0], memory[1], memory[2]];
                        APPLICATION.iter().zip(values).for_each(|(metric, value)| row(host, None, metric, value));
                    }
                    Role::Emulator => {
                        EMULATOR.iter().zip([cpu_s, all]).for_each(|(metric, value)| row(host, None, metric, value));
                    }
                }
            }
            Reading::Tcp(tcp) => {
                let TcpReading { host, peer, round_trip_us, window, retransmitted, delivery_rate } = *tcp;
                // Connections with other addresses do not cross a link of the scenario.
                let Some(link) = self.links.get(&peer) else { return };
                let values =
                    [f64::from(round_trip_us) / 1e6, window as f64, retransmitted as f64, delivery_rate as f64 * 8.0];
                TCP.iter().zip(values).for_each(|(metric, value)| row(Some(host), Some(link.clone()), metric, value));
            }
            Reading::Store { host, bytes } => row(Some(*host), None, STORE_FILES_BYTES, *bytes as f64),
        }
    }

    /// Ends the span and begins the next; returns the use in the ended span by node and role.
    pub fn end_span(&mut self) -> Vec<RoleUse> {
        let names = &self.names;
        let ended = self.tracks.iter_mut().map(|((host, role), track)| {
            let node = host.and_then(|host| names.get(host)).map(|name| name.to_string());
            track.end_span(node, *role)
        });
        ended.filter(|used| used.cpu_s() > 0.0 || used.memory_peak_bytes > 0).collect()
    }

    /// Use over the whole run, by node and role.
    pub fn whole(&self) -> Vec<RoleUse> {
        let of = |((host, role), track): (&Account, &Track)| {
            let node = host.and_then(|host| self.names.get(host)).map(|name| name.to_string());
            track.run.used(node, *role, [track.now.0, track.now.1])
        };
        self.tracks.iter().map(of).collect()
    }
}

/// Resource use of one role at a host over time.
#[derive(Default)]
struct Track {
    /// Processor time (user and system, ns) at the last reading, and the time of that reading.
    now: (u64, u64),
    at_ns: Option<u64>,
    /// Processor time (user and system, ns) at the beginning of the span.
    begun: (u64, u64),
    span: Use,
    run: Use,
}

/// Memory peaks, and samples of processor use, of one span.
#[derive(Clone, Default)]
struct Use {
    /// Peaks of all memory, and of anonymous, shared and cache memory, in bytes.
    peaks: [u64; 4],
    percents: Vec<f64>,
}

impl Track {
    fn note(&mut self, time_ns: Option<u64>, reading: &RoleReading) {
        let before = self.now.0 + self.now.1;
        // If `/proc` is the source, a process that ends between two readings may seem to take time back.
        self.now = (reading.cpu_user_ns.max(self.now.0), reading.cpu_system_ns.max(self.now.1));
        let used = (self.now.0 + self.now.1 - before) as f64;
        let passed = time_ns.zip(self.at_ns).map(|(now, before)| now.saturating_sub(before));
        let percent = passed.filter(|passed| *passed > 0).map(|passed| used / passed as f64 * 100.0);
        self.at_ns = time_ns;
        let parts = [reading.anonymous, reading.shared, reading.cache];
        let all = reading.peak.unwrap_or_else(|| parts.iter().sum());
        for own in [&mut self.span, &mut self.run] {
            let values = [all, parts[0], parts[1], parts[2]];
            own.peaks.iter_mut().zip(values).for_each(|(peak, value)| *peak = (*peak).max(value));
            own.percents.extend(percent.filter(|_| own.percents.len() < SAMPLES));
        }
    }

    fn end_span(&mut self, node: Option<String>, role: Role) -> RoleUse {
        let used = [self.now.0 - self.begun.0, self.now.1 - self.begun.1];
        self.begun = self.now;
        std::mem::take(&mut self.span).used(node, role, used)
    }
}

impl Use {
    fn used(&self, node: Option<String>, role: Role, [user, system]: [u64; 2]) -> RoleUse {
        let [memory_peak_bytes, anonymous_peak_bytes, shared_peak_bytes, cache_peak_bytes] = self.peaks;
        RoleUse {
            node,
            role: role.word().to_string(),
            cpu_user_s: user as f64 / 1e9,
            cpu_system_s: system as f64 / 1e9,
            cpu_percent: Spread::of(self.percents.clone()),
            memory_peak_bytes,
            anonymous_peak_bytes,
            shared_peak_bytes,
            cache_peak_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn usages() -> Usages {
        let text = "name = \"s\"\nduration = \"100 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\n\
            id = \"ipn:2.0\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"tcpclv4\"\n";
        Usages::new(&Scenario::parse(text).unwrap())
    }
    fn role(host: usize, cpu_ms: u64, anonymous: u64, peak: Option<u64>) -> Reading {
        Reading::Role(RoleReading {
            host: Some(host),
            role: Role::Implementation,
            cpu_user_ns: cpu_ms * MS,
            cpu_system_ns: 0,
            anonymous,
            shared: 0,
            cache: 5,
            peak,
        })
    }

    #[test]
    fn machines_have_rows_of_their_own() {
        let text = "name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n";
        let mut usages = Usages::new(&Scenario::parse(text).unwrap());
        let (mut rows, interval) = (Vec::new(), usages.interval_ns);
        for round in 1..=10 {
            // The machines are read half an interval apart.
            for (machine, at_ns) in [(None, round * interval), (Some(0), round * interval + interval / 2)] {
                usages.note(machine, Some(at_ns), &[Reading::Store { host: 0, bytes: round }], &mut rows);
            }
        }
        assert_eq!(rows.len(), 20);
    }

    #[test]
    fn spans_divide_time_and_peaks() {
        let (mut usages, mut rows) = (usages(), Vec::new());
        usages.note(None, None, &[role(0, 10, 1, Some(2))], &mut rows);
        usages.note(None, Some(0), &[role(0, 20, 7, Some(90))], &mut rows);
        usages.note(None, Some(100 * MS), &[role(0, 60, 3, Some(91))], &mut rows);
        let first = &usages.end_span()[0];
        assert_eq!((first.node.as_deref(), first.role.as_str()), (Some("a"), "implementation"));
        assert_eq!((first.cpu_user_s, first.memory_peak_bytes, first.anonymous_peak_bytes), (0.06, 91, 7));
        usages.note(None, Some(200 * MS), &[role(0, 70, 4, None)], &mut rows);
        let second = &usages.end_span()[0];
        assert!((second.cpu_user_s - 0.01).abs() < 1e-9);
        assert_eq!((second.memory_peak_bytes, second.cpu_percent.unwrap().mean), (9, 10.0), "anonymous and cache");
        let whole = &usages.whole()[0];
        assert_eq!((whole.cpu_user_s, whole.memory_peak_bytes), (0.07, 91));
        assert_eq!(whole.cpu_percent.unwrap().samples, 2);
    }

    #[test]
    fn connections_belong_to_links() {
        let (mut usages, mut rows) = (usages(), Vec::new());
        let tcp = |peer: &str| {
            let peer = peer.parse().unwrap();
            Reading::Tcp(TcpReading {
                host: 0,
                peer,
                round_trip_us: 2000,
                window: 3,
                retransmitted: 4,
                delivery_rate: 100,
            })
        };
        usages.note(None, Some(100 * MS), &[tcp("10.0.0.2"), tcp("192.0.2.1")], &mut rows);
        let values: Vec<(&str, f64)> = rows.iter().map(|row| (&*row.metric, row.value)).collect();
        let [rtt, window, again, rate] = TCP;
        assert_eq!(values, [(rtt, 0.002), (window, 3.0), (again, 4.0), (rate, 800.0)]);
        assert!(rows.iter().all(|row| row.link.as_deref() == Some("l") && row.node.as_deref() == Some("a")));
        // The scenario's interval is 100 ms: values in between make no rows.
        usages.note(None, Some(150 * MS), &[tcp("10.0.0.2")], &mut rows);
        assert_eq!(rows.len(), 4);
        usages.note(None, Some(200 * MS), &[tcp("10.0.0.2")], &mut rows);
        assert_eq!(rows.len(), 8);
    }
}
