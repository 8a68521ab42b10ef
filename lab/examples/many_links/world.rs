//! Ring of hosts with many links, each of which opens and closes repeatedly.

use farlink_lab::supervisor::{CableSetup, HostSetup, LinkModels, Reply, Request, Role, SpawnSetup, Supervisor};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two changes of one link.
const PERIOD_MS: u64 = 500;
/// Longest wait for one step.
const PATIENCE: Duration = Duration::from_secs(120);

/// Size of the measured network.
#[derive(Clone, Copy, Debug)]
pub struct ManyLinks {
    /// Number of hosts.
    pub hosts: usize,
    /// Number of links.
    pub links: usize,
    /// Minimum number of changes of all links together.
    pub changes: usize,
}

/// Results of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Findings {
    /// Time until all hosts are joined and all links are emulated.
    pub set_up: Duration,
    /// Number of carrier changes that the first host saw at the link where it saw the fewest, and the number planned
    /// for each link.
    pub seen: [usize; 2],
    /// Number of changes later than 50 ms, which would make a run disturbed.
    pub late: u64,
}

impl ManyLinks {
    /// Indexes of the hosts that a link joins: neighbours in the ring first, then hosts two places apart, and so on.
    fn ends(&self, link: usize) -> [usize; 2] {
        let from = link % self.hosts;
        [from, (from + 1 + link / self.hosts) % self.hosts]
    }

    fn contacts_each(&self) -> usize {
        self.changes.div_ceil(self.links * 2)
    }

    /// Text of a scenario whose links change at times spread over a period, so that no change delays another.
    fn scenario(&self) -> String {
        let mut text = "name = \"many\"\nduration = \"60 s\"\n".to_string();
        for host in 0..self.hosts {
            let _ = write!(text, "[[node]]\nname = \"h{host}\"\nid = \"ipn:{}.0\"\n", host + 1);
        }
        for link in 0..self.links {
            let [a, b] = self.ends(link);
            let _ = write!(
                text,
                "[[link]]\nname = \"l{link}\"\nbetween = [\"h{a}\", \"h{b}\"]\nlayer = \"udpcl\"\ndelay = \"1 ms\"\n"
            );
            let first = 1000 + PERIOD_MS * link as u64 / self.links as u64;
            for contact in 0..self.contacts_each() as u64 {
                let start = first + contact * 2 * PERIOD_MS;
                let end = start + PERIOD_MS;
                let _ = write!(text, "[[contact]]\nlink = \"l{link}\"\nstart = \"{start} ms\"\nend = \"{end} ms\"\n");
            }
        }
        text
    }

    /// Sets up the network, waits until all changes are made, and takes it down.
    ///
    /// # Errors
    ///
    /// If the kernel refuses isolation, or a step fails.
    pub fn run(&self, program: &Path) -> anyhow::Result<Findings> {
        let mut supervisor = Supervisor::start(program, None)?;
        let begun = Instant::now();
        let cable = |link: usize| {
            let address = |end: u8| {
                let [high, low] = (link as u16).to_be_bytes();
                vec![(IpAddr::from(Ipv4Addr::new(10, high, low, end)), 30)]
            };
            CableSetup {
                hosts: self.ends(link),
                addresses: [address(1), address(2)],
                mtu: 1500,
                rings: [0; 2],
                tunnels: [None, None],
            }
        };
        let hosts = (0..self.hosts).map(|host| HostSetup { name: format!("h{host}"), ..HostSetup::default() });
        let cables = (0..self.links).map(cable).collect();
        supervisor.tell(&Request::SetUp { hosts: hosts.collect(), cables, routes: Vec::new() })?;
        supervisor.wait_for(PATIENCE, |r| matches!(r, Reply::SetUp { .. }).then_some(()), |_| {})?;
        let links = LinkModels::Scenario { text: self.scenario(), folder: std::env::temp_dir() };
        let (captures, retention) = (Vec::new(), false);
        let emulate = Request::Emulate { links, seed: 1, start_ns: None, interval_ms: 1000, captures, retention };
        supervisor.tell(&emulate)?;
        supervisor.wait_for(PATIENCE, |r| matches!(r, Reply::Emulating { .. }).then_some(()), |_| {})?;
        let set_up = begun.elapsed();
        std::thread::sleep(Duration::from_millis(1500 + PERIOD_MS * 2 * self.contacts_each() as u64 + PERIOD_MS));
        let seen = self.carrier_changes(&mut supervisor)?;
        supervisor.tell(&Request::StopEmulator)?;
        let mut late = vec![[0; 2]; self.links];
        let count = |reply: Reply| {
            if let Reply::Link(report) = reply {
                late[report.link][usize::from(report.forward)] = report.own_losses;
            }
        };
        supervisor.wait_for(PATIENCE, |r| matches!(r, Reply::EmulatorEnded { .. }).then_some(()), count)?;
        supervisor.end()?;
        let late = late.iter().flatten().sum();
        let each = self.contacts_each() * 2;
        Ok(Findings { set_up, seen: [seen, each], late })
    }

    /// Number of carrier changes that the first host's kernel counted, at the link with the fewest.
    fn carrier_changes(&self, supervisor: &mut Supervisor) -> anyhow::Result<usize> {
        let file = tempfile::NamedTempFile::new()?;
        // Mounted again: /sys shows the first network namespace of this machine, not the host's.
        let script = "mount -t sysfs sysfs /sys && cat /sys/class/net/link*/carrier_changes";
        let command = ["unshare", "--mount", "sh", "-c", script].map(String::from).to_vec();
        supervisor.tell(&Request::Spawn(SpawnSetup {
            id: 1,
            host: 0,
            role: Role::Application,
            command,
            environment: BTreeMap::new(),
            directory: std::env::temp_dir(),
            stdout: Some(file.path().into()),
            stderr: None,
            real_time: None,
        }))?;
        supervisor.wait_for(PATIENCE, |r| matches!(r, Reply::Exited { id: 1, .. }).then_some(()), |_| {})?;
        let text = std::fs::read_to_string(file.path())?;
        let changes = text.lines().map(|line| line.parse().unwrap_or(0));
        let links = (0..self.links).filter(|link| self.ends(*link).contains(&0)).count();
        anyhow::ensure!(text.lines().count() == links, "the first host has {links} links, and shows `{text}`");
        Ok(changes.min().unwrap_or(0))
    }
}
