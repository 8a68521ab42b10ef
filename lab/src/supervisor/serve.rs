//! Main loop of PID 1: one thread serves requests, reaps children, and samples resource use.

use super::accounts::Accounts;
use super::containers::{Containers, Start};
use super::protocol::{
    CableSetup, HostRoute, HostSetup, LinkModels, ProcessUsage, Reply, Request, SignalName, SpawnSetup, say,
};
use super::tcp;
use crate::cable::{self, CableEnd, CablePlace};
use crate::emulator::capture::{CaptureSetup, Captures};
use crate::emulator::{Emulator, Port};
use crate::probes::retention::{RetentionProbe, RetentionSetup};
use crate::probes::{self, Probe, ProbedHosts};
use crate::remote::{relay, tunnel_of};
use farlink_link::LinkSpec;
use farlink_os::account::{self, Waits};
use farlink_os::cgroup::{GroupName, Hierarchies};
use farlink_os::namespace::NetworkNamespace;
use farlink_os::netlink::Netlink;
use farlink_os::process::{self, EndedChild, Fork, Surroundings};
use farlink_os::{monotonic_ns, schedule};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::time::Duration;

// Interval at which children are checked while no request arrives.
const TICK_NS: u64 = 10_000_000;

/// Serves requests until standard input ends, then returns; the end of PID 1 ends all processes in its namespace.
/// `machine` is the network namespace that the testbed was started in, if it may enter it; `relay` the socket of the
/// relay, if the emulator is on another machine.
pub fn serve(
    own_proc: bool,
    groups: GroupName,
    hierarchies: Hierarchies,
    machine: Option<NetworkNamespace>,
    relay: Option<UdpSocket>,
) -> io::Result<()> {
    let mut server = Server::new(own_proc, groups, hierarchies);
    (server.machine, server.relay) = (machine, relay);
    let mut input = LineReader::default();
    loop {
        // Waits on the descriptor: a buffered reader could hold bytes that the poll does not see.
        let stdin = io::stdin();
        let mut ended = false;
        if schedule::wait_readable(&[stdin.as_fd()], Some(monotonic_ns() + TICK_NS))? {
            ended = !input.read()?;
        }
        while let Some(line) = input.next() {
            let request = serde_json::from_slice(&line).map_err(|e| io::Error::other(format!("request: {e}")))?;
            server.obey(request)?;
        }
        server.look_after_children()?;
        server.sample();
        if ended {
            return Ok(());
        }
    }
}

/// Reads lines of standard input; unlike a buffered reader, it never blocks for more bytes than there are.
#[derive(Default)]
struct LineReader {
    bytes: Vec<u8>,
}

impl LineReader {
    /// Reads the bytes that are available; returns false at the end of input.
    fn read(&mut self) -> io::Result<bool> {
        let mut chunk = [0u8; 65536];
        let count = farlink_os::read(io::stdin().as_fd(), &mut chunk)?;
        self.bytes.extend_from_slice(&chunk[..count]);
        Ok(count > 0)
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().position(|b| *b == b'\n')?;
        let line = self.bytes.drain(..=end).collect();
        Some(line)
    }
}

struct Server {
    own_proc: bool,
    groups: GroupName,
    hierarchies: Hierarchies,
    accounts: Option<Accounts>,
    containers: Containers,
    setups: Vec<HostSetup>,
    machine: Option<NetworkNamespace>,
    hosts: Vec<NetworkNamespace>,
    ports: Vec<[Port; 2]>,
    /// Socket and ports of the relay, each with the number of its tunnel.
    relay: Option<UdpSocket>,
    relayed: Vec<(u16, Port)>,
    /// Process of the emulator or the relay.
    emulator: Option<u32>,
    children: BTreeMap<u32, u32>,
    probes: Vec<Box<dyn Probe>>,
    interval_ns: Option<u64>,
    /// Earliest time of the next sample, in monotonic ns: reading must not take more than a fifth of the time.
    next_sample_ns: u64,
    /// Time at which the next sample is due, in monotonic ns; 0 before the first one.
    due_ns: u64,
    /// Start of the run in monotonic ns; samples missed before it do not count as left out.
    start_ns: u64,
    /// Number of samples left out because reading took too long.
    dropped: u64,
    /// Waits for a processor of each child's threads, as of the last report.
    waits: BTreeMap<u32, BTreeMap<u32, Waits>>,
}

impl Server {
    fn new(own_proc: bool, groups: GroupName, hierarchies: Hierarchies) -> Server {
        Server {
            own_proc,
            groups,
            hierarchies,
            accounts: None,
            containers: Containers::default(),
            setups: Vec::new(),
            machine: None,
            hosts: Vec::new(),
            ports: Vec::new(),
            relay: None,
            relayed: Vec::new(),
            emulator: None,
            children: BTreeMap::new(),
            probes: Vec::new(),
            interval_ns: None,
            next_sample_ns: 0,
            due_ns: 0,
            start_ns: 0,
            dropped: 0,
            waits: BTreeMap::new(),
        }
    }

    fn obey(&mut self, request: Request) -> io::Result<()> {
        match request {
            Request::SetUp { hosts, cables, routes } => self.set_up(hosts, &cables, &routes),
            Request::Emulate { links, seed, start_ns, interval_ms, captures, retention } => {
                let mut plan = link_plan(&links)?;
                plan.retention = plan.retention.filter(|_| retention);
                self.emulate(&plan, seed, start_ns, Duration::from_millis(interval_ms), &captures)
            }
            Request::Relay { token } => self.start_relay(token),
            Request::Spawn(setup) => self.spawn(setup),
            Request::Signal { id, signal } => {
                match self.children.iter().find(|(_, known)| **known == id) {
                    Some((child, _)) => drop(process::signal(*child, signal.into())),
                    None => drop(self.containers.keep_signal(id, signal)),
                }
                Ok(())
            }
            Request::Probe { interval_ms, start_ns, tcp, stores } => {
                self.start_ns = start_ns;
                self.interval_ns = Some(interval_ms.max(1) * 1_000_000);
                self.probes = probes::all(tcp, stores);
                Ok(())
            }
            Request::Phase { number } => {
                self.begin_phase(number);
                Ok(())
            }
            Request::StopEmulator => match self.emulator {
                Some(child) => process::signal(child, process::Signal::Terminate),
                None => Ok(()),
            },
        }
    }

    fn set_up(&mut self, hosts: Vec<HostSetup>, cables: &[CableSetup], routes: &[HostRoute]) -> io::Result<()> {
        let (accounts, no_groups) = Accounts::new(self.groups, &self.hierarchies, &hosts)?;
        self.accounts = Some(accounts);
        for HostSetup { tcp, elsewhere, .. } in &hosts {
            if *elsewhere {
                // In its place, so that all machines number hosts alike.
                self.hosts.push(NetworkNamespace::current()?);
                continue;
            }
            tcp::check(tcp)?;
            let host = cable::make_host()?;
            host.within(|| tcp::set_up(tcp))?;
            if !routes.is_empty() {
                host.within(cable::allow_forwarding)?;
            }
            self.hosts.push(host);
        }
        self.containers = Containers::new(&hosts, &self.hierarchies)?;
        self.setups = hosts;
        for (index, setup) in cables.iter().enumerate() {
            let [a, b] = [self.end(setup, 0)?, self.end(setup, 1)?];
            let name = format!("link{index}");
            if self.relay.is_none() {
                self.ports.push(cable::plug(&name, [&a, &b], setup.mtu, setup.rings)?);
                continue;
            }
            let own = (0..2).filter(|end| !self.setups[setup.hosts[*end]].elsewhere);
            let plug = |end| Ok((tunnel_of(index, end), cable::plug_one(&name, [&a, &b], end, setup.mtu)?));
            let ports: io::Result<Vec<_>> = own.map(plug).collect();
            self.relayed.extend(ports?);
        }
        for route in routes.iter().filter(|route| self.setups.get(route.host).is_some_and(|host| !host.elsewhere)) {
            let host = self.hosts.get(route.host).ok_or_else(|| io::Error::other("no such host"))?;
            let control = self.setups.get(route.host).and_then(|host| host.tcp.congestion.as_deref());
            let prefix = if route.to.is_ipv4() { 32 } else { 128 };
            host.within(|| Netlink::open()?.add_route(route.to, prefix, route.via, control))?;
        }
        let descriptors = self.hosts.iter().map(|host| host.as_fd().as_raw_fd()).collect();
        say(&Reply::SetUp { descriptors, real_time: schedule::may_be_real_time(), no_groups });
        Ok(())
    }

    fn end<'a>(&'a self, setup: &'a CableSetup, index: usize) -> io::Result<CableEnd<'a>> {
        let number = setup.hosts[index];
        let host = self.hosts.get(number).ok_or_else(|| io::Error::other("no such host"))?;
        let setting = self.setups.get(number);
        let elsewhere = setting.is_some_and(|host| host.elsewhere);
        let place = match (&setup.tunnels[index], setting.and_then(|host| host.interface.as_deref())) {
            (Some(tunnel), _) => CablePlace::Tunnel(tunnel),
            (None, _) if elsewhere => CablePlace::Elsewhere,
            (None, None) => CablePlace::Host(host),
            (None, Some(interface)) => CablePlace::Outside { network: self.machine(interface)?, interface },
        };
        let congestion = setting.and_then(|host| host.tcp.congestion.clone());
        Ok(CableEnd { place, addresses: setup.addresses[index].clone(), congestion })
    }

    /// Network namespace of this machine, which only root may enter again.
    fn machine(&self, interface: &str) -> io::Result<&NetworkNamespace> {
        self.machine.as_ref().ok_or_else(|| {
            io::Error::other(format!(
                "interface `{interface}` is of this machine, and the testbed may not use it\nhint: run it as root"
            ))
        })
    }

    /// Starts the emulator in a process of its own.
    fn emulate(
        &mut self,
        plan: &LinkPlan,
        seed: u64,
        start_ns: Option<u64>,
        interval: Duration,
        captures: &[CaptureSetup],
    ) -> io::Result<()> {
        // A process of its own: PID 1 must stay without threads, and each fork for a program would otherwise make the
        // emulator's memory copy-on-write.
        let ports = std::mem::take(&mut self.ports);
        if plan.specs.len() != ports.len() {
            return Err(io::Error::other(format!("{} links for {} cables", plan.specs.len(), ports.len())));
        }
        if let Fork::Parent(child) = process::fork()? {
            self.emulator = Some(child);
            return Ok(());
        }
        let run = || run_emulator(ports, plan, seed, start_ns, interval, captures);
        let result = process::die_with_parent().and_then(|()| run());
        if let Err(error) = &result {
            say(&Reply::Failed { reason: format!("link emulator: {error}") });
        }
        // The child must not return into the loop of the server.
        std::process::exit(i32::from(result.is_err()));
    }

    /// Starts the relay in a process of its own.
    fn start_relay(&mut self, token: u64) -> io::Result<()> {
        let Some(socket) = self.relay.take() else { return Err(io::Error::other("no socket for a relay")) };
        let ports = std::mem::take(&mut self.relayed);
        if let Fork::Parent(child) = process::fork()? {
            self.emulator = Some(child);
            return Ok(());
        }
        let run = || {
            let ended = process::watch_termination()?;
            relay::run(ports, socket, token, &ended, || say(&Reply::Relaying))
        };
        let result = process::die_with_parent().and_then(|()| run());
        let failed = result.is_err();
        match result {
            Ok(lost) => lost.chunks(READINGS).for_each(|lost| say(&Reply::Relayed { lost: lost.to_vec() })),
            Err(error) => say(&Reply::Failed { reason: format!("relay of the links: {error}") }),
        }
        // The child must not return into the loop of the server.
        std::process::exit(i32::from(failed));
    }

    fn spawn(&mut self, setup: SpawnSetup) -> io::Result<()> {
        let child = self.start(&setup);
        let child = child.map_err(|e| farlink_os::context(e, &format!("starting `{}`", setup.command.join(" "))))?;
        if let Some(accounts) = &mut self.accounts {
            accounts.started(child, setup.host, setup.role);
        }
        say(&Reply::Started { id: setup.id });
        if self.containers.has(setup.host) {
            self.containers.starts(child, setup);
        } else {
            self.children.insert(child, setup.id);
        }
        Ok(())
    }

    fn start(&mut self, setup: &SpawnSetup) -> io::Result<u32> {
        let no_host = || io::Error::other("no such host");
        let host = self.hosts.get(setup.host).ok_or_else(no_host)?;
        let (limits, accounts) = (&self.setups[setup.host].limits, self.accounts.as_ref().ok_or_else(no_host)?);
        let marks = accounts.marks(setup.host, setup.role);
        let (mut command, ipc, hidden_mount) = if self.containers.has(setup.host) {
            let (command, ipc, hidden_mount) = self.containers.command(setup, &marks)?;
            (command, Some(ipc), hidden_mount)
        } else {
            let (program, arguments) = setup.command.split_first().ok_or_else(|| io::Error::other("empty command"))?;
            let mut command = Command::new(program);
            command.args(arguments).envs(&setup.environment);
            (command, None, None)
        };
        command.envs(marks);
        command.current_dir(&setup.directory).stdin(no_input()?);
        command.stdout(match &setup.stdout {
            Some(file) => Stdio::from(File::create(file)?),
            // Standard output of this process carries replies only.
            None => Stdio::from(io::stderr()),
        });
        if let Some(file) = &setup.stderr {
            command.stderr(File::create(file)?);
        }
        let surroundings = Surroundings {
            namespace: Some(host.as_fd().try_clone_to_owned()?),
            ipc,
            hidden_mount,
            groups: accounts.entrances(setup.host, setup.role)?,
            processors: limits.cpus.clone(),
            // The kernel applies a quota to ordinary threads only.
            real_time: setup.real_time.filter(|_| limits.quota.is_none() && accounts.allows_real_time(setup.host)),
        };
        process::start_within(&mut command, surroundings);
        Ok(command.spawn()?.id())
    }

    fn look_after_children(&mut self) -> io::Result<()> {
        // PID 1 inherits every orphan; processes that it did not start are only reaped.
        while let Some(ended) = process::reap()? {
            let usage = usage_of(&ended);
            if let Some(accounts) = &mut self.accounts {
                accounts.ended(&ended);
            }
            if self.emulator == Some(ended.process) {
                self.emulator = None;
                let killed_for_memory = self.accounts.as_ref().map_or(Vec::new(), Accounts::killed_for_memory);
                say(&Reply::EmulatorEnded { usage, killed_for_memory, dropped: self.dropped });
            } else if let Some(id) = self.children.remove(&ended.process) {
                self.waits.remove(&ended.process);
                say_ended(id, &ended);
            } else {
                match self.containers.ended(ended) {
                    Some(Start::Runs { setup, process, signal }) => self.runs(&setup, process, signal),
                    Some(Start::Ended { id, ended }) => say_ended(id, &ended),
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Takes over a program that the container runtime has started, and sends it the signal that arrived during the
    /// start.
    fn runs(&mut self, setup: &SpawnSetup, process: u32, signal: Option<SignalName>) {
        self.children.insert(process, setup.id);
        if let Some(accounts) = &mut self.accounts {
            accounts.started(process, setup.host, setup.role);
        }
        if let Some(signal) = signal {
            let _ = process::signal(process, signal.into());
        }
    }

    /// Samples the hosts if a sample is due.
    fn sample(&mut self) {
        let now = monotonic_ns();
        let Some(interval) = self.interval_ns.filter(|_| self.own_proc && now >= self.next_sample_ns) else { return };
        self.dropped += self.left_out(now);
        self.due_ns = now + interval;
        self.read(now);
        for (child, id) in &self.children {
            // Empty on kernels that do not count waits.
            let waits = account::thread_waits(*child).unwrap_or_default();
            let before = self.waits.insert(*child, waits.clone()).unwrap_or_default();
            say(&Reply::Waited { id: *id, at_ns: now, waits: mean_waits(&before, &waits) });
        }
        // This process must also start programs.
        let cost = monotonic_ns() - now;
        self.next_sample_ns = self.due_ns.max(now + 5 * cost);
    }

    /// Number of samples of the run that were left out between the time at which one was due and now.
    fn left_out(&self, now_ns: u64) -> u64 {
        match self.interval_ns {
            Some(interval) if self.due_ns > 0 => now_ns.saturating_sub(self.due_ns.max(self.start_ns)) / interval,
            _ => 0,
        }
    }

    fn read(&mut self, now: u64) {
        let Some(accounts) = &mut self.accounts else { return };
        let mut hosts = ProbedHosts { accounts, namespaces: &self.hosts, emulator: self.emulator };
        let mut readings = Vec::new();
        self.probes.iter_mut().for_each(|probe| probe.sample(&mut hosts, &mut |reading| readings.push(reading)));
        for part in readings.chunks(READINGS) {
            say(&Reply::Read { at_ns: now, readings: part.to_vec() });
        }
    }

    fn begin_phase(&mut self, number: usize) {
        let now = monotonic_ns();
        self.read(now);
        if let Some(accounts) = &mut self.accounts {
            let mut hosts = ProbedHosts { accounts, namespaces: &self.hosts, emulator: self.emulator };
            self.probes.iter_mut().for_each(|probe| probe.begin_phase(&mut hosts));
        }
        say(&Reply::Phase { number, at_ns: now, dropped: self.dropped + self.left_out(now) });
    }
}

// Maximum number of readings in a reply, so that its write stays atomic.
const READINGS: usize = 12;
// Maximum number of threads whose waits are reported, so that the write of a reply stays atomic.
const MOST_THREADS: usize = 64;

/// Mean wait in ns and number of waits of each thread that waited since `before`: the [`MOST_THREADS`] longest means,
/// longest first.
fn mean_waits(before: &BTreeMap<u32, Waits>, now: &BTreeMap<u32, Waits>) -> Vec<[u64; 2]> {
    let since = |(thread, waits): (&u32, &Waits)| waits.since(before.get(thread).copied().unwrap_or_default());
    let mean = |w: Waits| [w.total.as_nanos() as u64 / w.turns, w.turns];
    let mut means: Vec<[u64; 2]> = now.iter().map(since).filter(|w| w.turns > 0).map(mean).collect();
    means.sort_unstable_by(|a, b| b.cmp(a));
    means.truncate(MOST_THREADS);
    means
}

fn say_ended(id: u32, ended: &EndedChild) {
    let (code, signal) = (ended.code, ended.signal);
    say(&Reply::Exited { id, at_ns: monotonic_ns(), code, signal, usage: usage_of(ended) });
}

fn usage_of(ended: &EndedChild) -> ProcessUsage {
    ProcessUsage {
        cpu_user_s: ended.cpu_user.as_secs_f64(),
        cpu_system_s: ended.cpu_system.as_secs_f64(),
        rss_bytes: ended.resident_peak,
        cgroup: false,
    }
}

/// Models of the links, and the relays to measure.
#[derive(Default)]
struct LinkPlan {
    /// Specification of each link, and whether its packets are handed over exactly on time.
    specs: Vec<(LinkSpec, bool)>,
    /// Groups of links that share transmitters.
    bottlenecks: Vec<Vec<usize>>,
    /// Relays whose retention times are measured.
    retention: Option<RetentionSetup>,
}

fn link_plan(links: &LinkModels) -> io::Result<LinkPlan> {
    match links {
        LinkModels::Scenario { text, folder } => {
            let scenario = farlink_scenario::Scenario::parse_in(text, folder)
                .map_err(|errors| io::Error::other(format!("{}", errors[0])))?;
            let spec = |link: usize| (scenario.link_spec(link), scenario.links[link].exact);
            let specs = (0..scenario.links.len()).map(spec).collect();
            let retention = Some(RetentionSetup::of(&scenario));
            Ok(LinkPlan { specs, bottlenecks: scenario.bottlenecks(), retention })
        }
        LinkModels::One { specification, exact } => {
            let spec = LinkSpec::parse(specification).map_err(|e| io::Error::other(e.to_string()))?;
            Ok(LinkPlan { specs: vec![(spec, *exact)], ..LinkPlan::default() })
        }
    }
}

/// Runs the emulator with its captures and probe until this process gets a termination signal.
fn run_emulator(
    ports: Vec<[Port; 2]>,
    plan: &LinkPlan,
    seed: u64,
    start_ns: Option<u64>,
    interval: Duration,
    captures: &[CaptureSetup],
) -> io::Result<()> {
    let asked_to_end = process::watch_termination()?;
    let mut emulator = Emulator::new(interval)?;
    for (ports, (spec, exact)) in ports.into_iter().zip(&plan.specs) {
        emulator.add(ports, spec, seed, *exact)?;
    }
    plan.bottlenecks.iter().try_for_each(|links| emulator.share(links))?;
    let mut files = Captures::new(captures.len());
    for setup in captures {
        for (observer, forward) in files.add(setup)?.into_iter().zip([true, false]) {
            emulator.observe(setup.link, forward, observer);
        }
    }
    // Before the links: `begin` gives this thread a priority that threads of captures and probe must not inherit.
    files.begin()?;
    let probe = plan.retention.clone().map(|setup| watch(setup, &mut emulator)).transpose()?;
    say(&Reply::Emulating { start_ns: emulator.begin(start_ns)? });
    while !asked_to_end.load(std::sync::atomic::Ordering::Relaxed) {
        emulator.poll(Duration::from_millis(20))?.iter().for_each(report);
    }
    emulator.finish()?.iter().for_each(report);
    files.finish().into_iter().for_each(|summary| say(&Reply::Captured(summary)));
    // The probe ends once the links, which own its watchers, are dropped.
    drop(emulator);
    if let Some(probe) = probe {
        probe.finish()?.parts(&mut |part| say(&Reply::Retention(part)));
    }
    Ok(())
}

/// Starts the retention probe, and adds its watchers to the links.
fn watch(setup: RetentionSetup, emulator: &mut Emulator) -> io::Result<RetentionProbe> {
    let (probe, watchers) = RetentionProbe::start(setup)?;
    for ((link, forward), watcher) in watchers {
        emulator.observe(link, forward, Box::new(watcher));
    }
    Ok(probe)
}

fn report(sample: &crate::emulator::DirectionSample) {
    say(&Reply::Link(Box::new(sample.into())));
}

impl From<SignalName> for process::Signal {
    fn from(name: SignalName) -> Self {
        match name {
            SignalName::Terminate => process::Signal::Terminate,
            SignalName::Kill => process::Signal::Kill,
            SignalName::Interrupt => process::Signal::Interrupt,
            SignalName::Stop => process::Signal::Stop,
            SignalName::Continue => process::Signal::Continue,
        }
    }
}

/// Standard input that is at its end.
fn no_input() -> io::Result<Stdio> {
    // A root without devices has a pipe instead, which ends as its writer is gone.
    Ok(match File::open("/dev/null") {
        Ok(file) => file.into(),
        Err(_) => io::pipe()?.0.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_before_the_run_are_not_missed() {
        let mut server = Server::new(true, GroupName { process: 1, start: 1 }, Hierarchies::default());
        (server.start_ns, server.interval_ns) = (5000, Some(100));
        let mut left_out = |due, taken| {
            server.due_ns = due;
            server.left_out(taken)
        };
        assert_eq!(
            (left_out(1000, 4000), left_out(1000, 5250), left_out(6000, 6099), left_out(6000, 6300), left_out(0, 9000)),
            (0, 2, 0, 3, 0)
        );
    }
}
