//! Supervisors of a run: that of this machine, and one on each machine reached by SSH.

use super::folder::RunFolder;
use super::hosts::{self, HostsMade};
use crate::container::ContainerSetup;
use crate::driver::COMMON;
use crate::emulator::shortest_delay;
use crate::emulator::tunnel::{AROUND, TunnelSetup};
use crate::remote::{self, Connecting, Machine, Measured, tunnel_of};
use crate::supervisor::{Reply, Request, SpawnSetup, Supervisor};
use anyhow::{Context, Result, bail};
use farlink_link::{DirectionSpec, Loss};
use farlink_scenario::{Scenario, SshMachine};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Longest wait for another machine to set its hosts up, or to start its relay.
const SET_UP: Duration = Duration::from_secs(30);

/// Supervisors of a run.
pub struct Crew {
    local: Supervisor,
    machines: Vec<Machine>,
    /// Machine of each host; `None` for this one.
    of_host: Vec<Option<usize>>,
    /// Machine of each process that was started on another one.
    of_process: BTreeMap<u32, usize>,
    program: String,
    /// Folders of the nodes and the one that they share, and the files that each node sends.
    folders: Vec<PathBuf>,
    common: PathBuf,
    contents: Vec<Vec<PathBuf>>,
}

impl Crew {
    /// Connects to the machines, sets all hosts up and plugs all links.
    pub fn start(
        scenario: &Scenario,
        folder: &RunFolder,
        program: &Path,
        congestion: &[String],
        containers: Vec<Option<ContainerSetup>>,
        stop: &Arc<AtomicBool>,
        progress: &mut dyn FnMut(&'static str),
    ) -> Result<(Crew, HostsMade)> {
        let request = hosts::request(scenario, congestion, containers)?;
        let ssh = |node: usize| scenario.nodes[node].host.ssh();
        // In the order of their names.
        let setups: BTreeSet<&SshMachine> = (0..scenario.nodes.len()).filter_map(ssh).collect();
        let place = |node: usize| setups.iter().position(|setup| Some(*setup) == ssh(node));
        let of_host: Vec<Option<usize>> = (0..scenario.nodes.len()).map(place).collect();
        let (mut machines, mut made) = (Vec::new(), Vec::new());
        for (number, setup) in setups.iter().enumerate() {
            let log = &folder.machine_log(number);
            let connecting = Connecting { folder: &scenario.folder, program, log, stop, progress };
            let mut machine = Machine::connect(setup, connecting)?;
            made.push(set_up_there(&mut machine, &request, |host| of_host[host] == Some(number))?);
            machine.watch(folders_of(scenario, folder, |node| of_host[node] == Some(number)))?;
            machines.push(machine);
        }
        check_network(scenario, &machines, &of_host)?;
        for socket in machines.iter().flat_map(|machine| machine.sockets.values()) {
            farlink_os::process::let_inherit(socket)?;
        }
        let local = Supervisor::start(program, Some(&folder.supervisor_log()))?;
        let contents = |node: usize| {
            let sent = (0..scenario.traffic.len()).filter(move |traffic| scenario.traffic[*traffic].from == node);
            let files = sent.filter_map(|traffic| folder.content(scenario, traffic));
            files.flat_map(|file| [file.with_extension("sizes"), file]).collect()
        };
        let mut crew = Crew {
            local,
            machines,
            of_host,
            of_process: BTreeMap::new(),
            program: program.display().to_string(),
            folders: (0..scenario.nodes.len()).map(|node| folder.node(node).to_path_buf()).collect(),
            common: folder.root().join("nodes").join(COMMON),
            contents: (0..scenario.nodes.len()).map(contents).collect(),
        };
        made.push(crew.set_up_here(scenario, request)?);
        // The emulator has them now.
        crew.machines.iter_mut().for_each(|machine| machine.sockets.clear());
        let real_time = made.iter().all(|made| made.real_time);
        Ok((crew, HostsMade { real_time, no_groups: made.into_iter().find_map(|made| made.no_groups) }))
    }

    fn set_up_here(&mut self, scenario: &Scenario, mut request: hosts::HostsRequest) -> Result<HostsMade> {
        for (index, cable) in request.cables.iter_mut().enumerate() {
            for end in 0..2 {
                let Some(machine) = self.of_host[cable.hosts[end]] else { continue };
                let machine = &self.machines[machine];
                let tunnel = tunnel_of(index, end);
                let socket = machine.sockets.get(&tunnel).context("a tunnel is missing")?;
                let delay_ns = one_way(&machine.measured).as_nanos() as u64;
                cable.tunnels[end] =
                    Some(TunnelSetup { socket: socket.as_raw_fd(), token: machine.token, tunnel, delay_ns });
            }
        }
        for (host, machine) in request.hosts.iter_mut().zip(&self.of_host) {
            host.elsewhere = machine.is_some();
        }
        // Each link is a cable to be plugged, which takes time.
        let most = Duration::from_secs(10 + scenario.links.len() as u64);
        set_up(&mut self.local, request, most)
    }

    /// Supervisor of this machine.
    pub fn local(&self) -> &Supervisor {
        &self.local
    }

    /// Number of machines that are reached by SSH.
    pub fn machines(&self) -> usize {
        self.machines.len()
    }

    /// Destination of a machine.
    pub fn name(&self, machine: usize) -> &str {
        &self.machines[machine].at
    }

    /// Whether a host is on this machine (`None`), or on that of the number.
    pub fn has(&self, machine: Option<usize>, host: usize) -> bool {
        self.of_host.get(host).is_some_and(|own| *own == machine)
    }

    /// Nanoseconds by which the monotonic clock and Unix time of a machine are ahead of those here.
    pub fn ahead(&self, machine: usize) -> [i64; 2] {
        let measured = &self.machines[machine].measured;
        [measured.monotonic_ahead, measured.realtime_ahead]
    }

    /// As [`Crew::ahead`], of the machine of a host.
    pub fn ahead_at(&self, host: usize) -> [i64; 2] {
        self.of_host.get(host).copied().flatten().map_or([0; 2], |machine| self.ahead(machine))
    }

    /// Sends a request to those supervisors that it concerns.
    pub fn tell(&mut self, request: &Request) -> Result<()> {
        match request {
            Request::Spawn(setup) => match self.of_host.get(setup.host).copied().flatten() {
                Some(machine) => self.spawn_there(machine, setup.clone()),
                None => self.local.tell(request),
            },
            Request::Signal { id, .. } => match self.of_process.get(id) {
                Some(machine) => self.machines[*machine].supervisor.tell(request),
                None => self.local.tell(request),
            },
            Request::Probe { interval_ms, start_ns, tcp, stores } => {
                for number in 0..self.machines.len() {
                    let there = |(host, _): &&(usize, PathBuf)| self.of_host[*host] == Some(number);
                    let stores = stores.iter().filter(there).cloned().collect();
                    let start_ns = start_ns.saturating_add_signed(self.ahead(number)[0]);
                    let request = Request::Probe { interval_ms: *interval_ms, start_ns, tcp: *tcp, stores };
                    self.machines[number].supervisor.tell(&request)?;
                }
                let here = stores.iter().filter(|(host, _)| self.of_host[*host].is_none()).cloned().collect();
                self.local.tell(&Request::Probe {
                    interval_ms: *interval_ms,
                    start_ns: *start_ns,
                    tcp: *tcp,
                    stores: here,
                })
            }
            Request::Phase { .. } | Request::StopEmulator => {
                self.machines.iter_mut().try_for_each(|machine| machine.supervisor.tell(request))?;
                self.local.tell(request)
            }
            Request::SetUp { .. } | Request::Emulate { .. } | Request::Relay { .. } => self.local.tell(request),
        }
    }

    fn spawn_there(&mut self, machine: usize, mut setup: SpawnSetup) -> Result<()> {
        self.of_process.insert(setup.id, machine);
        if setup.command.first() == Some(&self.program) {
            setup.command[0] = remote::PROGRAM.into();
        }
        let there = &mut self.machines[machine];
        // What drivers wrote since the last program.
        for path in [&self.folders[setup.host], &self.common].into_iter().chain(&self.contents[setup.host]) {
            there.give(path)?;
        }
        there.supervisor.tell(&Request::Spawn(setup))
    }

    /// Waits at most `wait` for the next reply, with the number of its machine (`None`: this one).
    pub fn next(&mut self, wait: Duration) -> Result<Option<(Option<usize>, Reply)>> {
        for (number, machine) in self.machines.iter_mut().enumerate() {
            if let Some(reply) = machine.supervisor.next(Duration::ZERO)? {
                return Ok(Some((Some(number), reply)));
            }
        }
        Ok(self.local.next(wait)?.map(|reply| (None, reply)))
    }

    /// Waits until all files that the nodes of other machines wrote so far are here.
    pub fn fetch(&mut self) -> Result<()> {
        self.machines.iter_mut().try_for_each(Machine::fetch)
    }

    /// Sentences about the machines, their networks and clocks; call it while their relays still run.
    pub fn describe(&self, scenario: &Scenario) -> Vec<String> {
        let describe = |(number, machine): (usize, &Machine)| {
            let largest = scenario
                .links
                .iter()
                .filter(|link| link.between.into_iter().any(|node| self.of_host[node] == Some(number)));
            let largest = largest.map(|link| link.mtu_bytes).max().unwrap_or(0);
            [network_of(machine, largest), clocks_of(machine, machine.measure_again())]
        };
        self.machines.iter().enumerate().flat_map(describe).collect()
    }

    /// Ends all supervisors; returns the directories of control groups here that could not be removed.
    pub fn end(self) -> Result<Vec<PathBuf>> {
        // Those of other machines end and tidy up at the same time.
        let ending: Vec<_> = self.machines.into_iter().map(|machine| machine.supervisor).collect();
        ending.into_iter().try_for_each(|supervisor| supervisor.end().map(drop))?;
        self.local.end()
    }
}

/// Delay of the real network in one direction.
fn one_way(measured: &Measured) -> Duration {
    measured.median / 2
}

fn set_up(supervisor: &mut Supervisor, request: hosts::HostsRequest, most: Duration) -> Result<HostsMade> {
    let hosts::HostsRequest { hosts, cables, routes } = request;
    supervisor.tell(&Request::SetUp { hosts, cables, routes })?;
    let made = |reply: &Reply| match reply {
        Reply::SetUp { real_time, no_groups, .. } => {
            Some(HostsMade { real_time: *real_time, no_groups: no_groups.clone() })
        }
        _ => None,
    };
    supervisor.wait_for(most, made, |_| {}).context("setting up the hosts")
}

/// Sets the hosts of a machine up, starts its relay and opens the tunnels to it.
fn set_up_there(
    machine: &mut Machine,
    request: &hosts::HostsRequest,
    own: impl Fn(usize) -> bool,
) -> Result<HostsMade> {
    let mut request = request.clone();
    request.hosts.iter_mut().enumerate().for_each(|(index, host)| host.elsewhere = !own(index));
    let ends = (0..request.cables.len()).flat_map(|link| [(link, 0), (link, 1)]);
    let there = ends.filter(|(link, end)| own(request.cables[*link].hosts[*end]));
    let numbers: Vec<u16> = there.map(|(link, end)| tunnel_of(link, end)).collect();
    let made = set_up(&mut machine.supervisor, request, SET_UP)?;
    machine.supervisor.tell(&Request::Relay { token: machine.token })?;
    let relaying = |reply: &Reply| matches!(reply, Reply::Relaying).then_some(());
    machine.supervisor.wait_for(SET_UP, relaying, |_| {}).context("starting the relay")?;
    machine.open_tunnels(&numbers)?;
    Ok(made)
}

/// Folders that the nodes of a machine write into.
fn folders_of(scenario: &Scenario, folder: &RunFolder, own: impl Fn(usize) -> bool) -> Vec<PathBuf> {
    let nodes = (0..scenario.nodes.len()).filter(|node| own(*node)).map(|node| folder.node(node).to_path_buf());
    let received = (0..scenario.traffic.len()).filter(|traffic| own(scenario.traffic[*traffic].to));
    nodes.chain(received.map(|traffic| folder.received(traffic))).collect()
}

/// Refuses links that are shorter, or lose less, than the real network to their hosts.
fn check_network(scenario: &Scenario, machines: &[Machine], of_host: &[Option<usize>]) -> Result<()> {
    for (index, link) in scenario.links.iter().enumerate() {
        let there: Vec<&Machine> = link.between.iter().filter_map(|node| Some(&machines[of_host[*node]?])).collect();
        let spec = scenario.link_spec(index);
        let names: BTreeSet<&str> = there.iter().map(|machine| machine.at.as_str()).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(" and ");
        for direction in [&spec.forward, &spec.reverse] {
            let delay: Duration = there.iter().map(|machine| one_way(&machine.measured)).sum();
            if delay > shortest_delay(direction) {
                bail!(
                    "link `{}` takes {:?}, and the network to {names} takes {delay:?}\nhint: give the link a longer \
                     `delay`, from which the network's is subtracted",
                    link.name,
                    shortest_delay(direction)
                );
            }
            let lost = there.iter().map(|machine| machine.measured.loss).fold(0.0, f64::max);
            if lost > mean_loss(direction) {
                bail!(
                    "link `{}` loses {:.1} % of its packets, and the network to {names} lost {:.1} % of 200 probes\n\
                     hint: run again, or look for what disturbs that network",
                    link.name,
                    mean_loss(direction) * 100.0,
                    lost * 100.0
                );
            }
        }
    }
    Ok(())
}

fn mean_loss(direction: &DirectionSpec) -> f64 {
    match direction.loss {
        Loss::None => 0.0,
        Loss::Bernoulli(part) => part,
        Loss::GilbertElliott { p, r, bad, good } => {
            let in_bad = if p + r > 0.0 { p / (p + r) } else { 0.0 };
            in_bad * bad + (1.0 - in_bad) * good
        }
    }
}

fn network_of(machine: &Machine, largest: u32) -> String {
    let Measured { fastest, median, loss, .. } = machine.measured;
    let packets = match machine.path_mtu() {
        None => String::new(),
        Some(mtu) if largest as usize + AROUND > mtu as usize => format!(
            " Its path takes packets of {mtu} bytes, so frames of more than {} bytes travelled in two of them.",
            mtu as usize - AROUND.min(mtu as usize)
        ),
        Some(mtu) => format!(" Its path takes packets of {mtu} bytes, which hold every frame."),
    };
    format!(
        "Machine {}: the network there and back took {:.0} us (fastest {:.0} us) and lost {:.1} % of 200 probes before \
         the run; {:.0} us were subtracted from the delay of each link's end there.{packets}",
        machine.at,
        median.as_secs_f64() * 1e6,
        fastest.as_secs_f64() * 1e6,
        loss * 100.0,
        one_way(&machine.measured).as_secs_f64() * 1e6,
    )
}

/// What is known of a machine's clocks from the measurements before and after the run.
fn clocks_of(machine: &Machine, after: Option<Measured>) -> String {
    let before = machine.measured;
    let ahead =
        |ns: i64| format!("{:.3} ms {}", ns.unsigned_abs() as f64 / 1e6, if ns < 0 { "behind" } else { "ahead" });
    let half = |measured: &Measured| measured.fastest.as_secs_f64() * 1e6 / 2.0;
    // What the clocks drifted apart during the run adds to the error of a single measurement.
    let (drift, error) = match &after {
        Some(after) => {
            let drift = (after.monotonic_ahead - before.monotonic_ahead) as f64 / 1e3;
            (format!("; they drifted {drift:.0} us apart in the run"), half(&before).max(half(after)) + drift.abs())
        }
        None => ("; their drift in the run is not known".into(), half(&before)),
    };
    format!(
        "Machine {}: its time of day is {}{drift}. One-way times to and from its nodes are wrong by at most {error:.0} \
         us, round trips are not.",
        machine.at,
        ahead(before.realtime_ahead),
    )
}
