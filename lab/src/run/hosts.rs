//! Requests for the supervisor to set up the hosts, links and captures of a scenario.

use super::folder::RunFolder;
use crate::container::ContainerSetup;
use crate::emulator::capture::{self, CaptureSetup};
use crate::emulator::rings;
use crate::hybla;
use crate::supervisor::{CableSetup, HostLimits, HostRoute, HostSetup, HostTcp};
use anyhow::{Result, bail};
use farlink_scenario::{FaultKind, HostKind, IpRoute, Node, PREFIX_LENGTH, PhaseKind, Processors, Scenario};
use std::collections::BTreeMap;

/// Outcome of setting up the hosts: whether real-time scheduling is available, and why control groups are missing.
#[derive(Clone, Debug)]
pub struct HostsMade {
    /// Whether programs may have real-time scheduling.
    pub real_time: bool,
    /// Reason for which resource use is read from `/proc` instead of control groups; `None` with control groups.
    pub no_groups: Option<String>,
}

/// Hosts to be set up, their cables and their IP routes.
#[derive(Clone, Debug)]
pub struct HostsRequest {
    pub hosts: Vec<HostSetup>,
    pub cables: Vec<CableSetup>,
    pub routes: Vec<HostRoute>,
}

/// What is to be set up for a scenario, on whatever machines.
pub fn request(
    scenario: &Scenario,
    congestion: &[String],
    containers: Vec<Option<ContainerSetup>>,
) -> Result<HostsRequest> {
    let specs: Vec<_> = (0..scenario.links.len()).map(|link| scenario.link_spec(link)).collect();
    let mut rings = rings(&specs);
    for (rings, link) in rings.iter_mut().zip(&scenario.links) {
        // A bottleneck sorts frames by the time of their sending, for which frames in a ring would come too late.
        if link.shares.is_some() {
            *rings = [0; 2];
        }
    }
    let cable = |link: usize| {
        let ends = scenario.ends(link);
        CableSetup {
            hosts: ends.map(|end| end.node),
            addresses: ends.map(|end| vec![(end.address.into(), PREFIX_LENGTH)]),
            mtu: scenario.links[link].mtu_bytes,
            rings: rings[link],
            tunnels: [None, None],
        }
    };
    let cables = (0..scenario.links.len()).map(cable).collect();
    let processors = farlink_os::process::allowed_processors();
    let mut turn = 0;
    let host = |(node, control): (&Node, &String)| host(node, control, &processors, &mut turn);
    let mut hosts = scenario.nodes.iter().zip(congestion).map(host).collect::<Result<Vec<_>>>()?;
    hosts.iter_mut().zip(containers).for_each(|(host, container)| host.container = container);
    let route = |route: IpRoute| HostRoute { host: route.node, to: route.to.into(), via: route.via.into() };
    let routes = scenario.ip_routes().into_iter().map(route).collect();
    Ok(HostsRequest { hosts, cables, routes })
}

/// Refuses uses of machines outside that need programs there, or several links.
pub fn check_outside(scenario: &Scenario) -> Result<()> {
    let outside = |node: usize| scenario.nodes[node].host.is_outside();
    let name = |node: usize| &scenario.nodes[node].name;
    let mut interfaces = BTreeMap::new();
    for node in (0..scenario.nodes.len()).filter(|node| outside(*node)) {
        if let HostKind::Interface(interface) = &scenario.nodes[node].host.kind
            && let Some(other) = interfaces.insert(interface, node)
        {
            bail!(
                "nodes `{}` and `{}` have the same interface `{interface}`\nhint: each machine needs its own",
                name(other),
                name(node)
            );
        }
        let links = scenario.links.iter().filter(|link| link.between.contains(&node)).count();
        if links != 1 {
            bail!("node `{}` has {links} links and one interface\nhint: a machine outside needs one link", name(node));
        }
    }
    let killed = scenario.faults.iter().find_map(|fault| match fault.kind {
        FaultKind::Restart { node } => Some(node).filter(|node| outside(*node)),
        _ => None,
    });
    if let Some(node) = killed {
        bail!("node `{}` is outside the testbed, which cannot restart it\nhint: take its fault out", name(node));
    }
    if let Some(flow) = scenario.flows.iter().find(|flow| outside(flow.from) || outside(flow.to)) {
        bail!("flow `{}` has an end outside the testbed, which starts nothing there\nhint: take it out", flow.name);
    }
    let sends = |kind| matches!(kind, PhaseKind::Baseline | PhaseKind::Retention);
    let phase = scenario.phases.iter().find(|phase| sends(phase.kind));
    if let (Some(phase), Some(node)) = (phase, (0..scenario.nodes.len()).find(|node| outside(*node))) {
        bail!(
            "phase `{}` starts programs at every host, and cannot at node `{}`\nhint: take the phase out",
            phase.name,
            name(node)
        );
    }
    Ok(())
}

/// Refuses uses of machines reached by SSH that the testbed cannot provide.
pub fn check_machines(scenario: &Scenario) -> Result<()> {
    let there = |node: usize| scenario.nodes[node].host.ssh().is_some();
    let Some(first) = (0..scenario.nodes.len()).find(|node| there(*node)) else { return Ok(()) };
    let name = |node: usize| &scenario.nodes[node].name;
    if let Some(node) = (0..scenario.nodes.len()).find(|n| there(*n) && !scenario.nodes[*n].implementation.is_farlink())
    {
        bail!(
            "node `{}` runs {} on another machine, and only our node can be brought there\nhint: run it here, or start \
             it there by hand, behind an interface (kind = \"interface\")",
            name(node),
            scenario.nodes[node].implementation.name
        );
    }
    let killed = scenario.faults.iter().find_map(|fault| match fault.kind {
        FaultKind::Restart { node } => Some(node).filter(|node| there(*node)),
        _ => None,
    });
    if let Some(node) = killed {
        bail!("node `{}` is on another machine, where nodes cannot be restarted\nhint: take its fault out", name(node));
    }
    if let Some(flow) = scenario.flows.iter().find(|flow| there(flow.from) || there(flow.to)) {
        bail!("flow `{}` has an end on another machine, where flows cannot run\nhint: take it out", flow.name);
    }
    let whole = |phase: &&farlink_scenario::Phase| matches!(phase.kind, PhaseKind::Baseline | PhaseKind::Retention);
    if let Some(phase) = scenario.phases.iter().find(whole) {
        bail!(
            "phase `{}` measures with programs in all hosts, and node `{}` is on another machine\nhint: take it out",
            phase.name,
            name(first)
        );
    }
    Ok(())
}

/// Sentences about nodes on machines outside: what is not known of them.
pub fn notes_of_outside(scenario: &Scenario) -> Vec<String> {
    let note = |node: &Node| match &node.host.kind {
        HostKind::Interface(interface) => Some(format!(
            "Node {} was a machine behind {interface}: bundles to and from it are not counted, but pings are by their answers.",
            node.name
        )),
        HostKind::Namespace | HostKind::Container(_) | HostKind::Ssh(_) => None,
    };
    scenario.nodes.iter().filter_map(note).collect()
}

/// Setup of one host. Hosts that want a number of processors get the next ones in turn (`turn`), so that they share as
/// few as possible.
fn host(node: &Node, congestion: &str, processors: &[usize], turn: &mut usize) -> Result<HostSetup> {
    let name = &node.name;
    let cpus = match &node.host.cpus {
        None => Vec::new(),
        Some(Processors::Count(count)) if *count > processors.len() => bail!(
            "host `{name}` asks for {count} processors, and there are {}\nhint: lower `cpus` of [node.host]",
            processors.len()
        ),
        Some(Processors::Count(count)) => {
            let first = *turn;
            *turn += count;
            let mut own: Vec<usize> =
                (first..first + count).map(|place| processors[place % processors.len()]).collect();
            own.sort_unstable();
            own
        }
        Some(Processors::These(list)) => match list.iter().find(|processor| !processors.contains(processor)) {
            Some(missing) => bail!(
                "host `{name}` asks for processor {missing}, and this program may use {processors:?}\nhint: change \
                 `cpus` of [node.host]"
            ),
            None => list.clone(),
        },
    };
    Ok(HostSetup {
        name: name.clone(),
        tcp: HostTcp {
            congestion: Some(congestion.into()),
            send_buffer: node.tcp.send_buffer.bytes(),
            receive_buffer: node.tcp.receive_buffer.bytes(),
            sack: node.tcp.sack,
            window_scaling: node.tcp.window_scaling,
        },
        limits: HostLimits { cpus, quota: node.host.quota, memory: node.host.memory.map(|memory| memory.bytes()) },
        container: None,
        elsewhere: false,
        interface: match &node.host.kind {
            HostKind::Interface(name) => Some(name.clone()),
            HostKind::Namespace | HostKind::Container(_) | HostKind::Ssh(_) => None,
        },
    })
}

/// TCP congestion control of each host, by its name in this kernel.
pub fn congestion(scenario: &Scenario) -> Vec<String> {
    let available = hybla::available();
    let name = |node: &Node| hybla::name_in_kernel(node.tcp.control_in_linux(), &available).to_string();
    scenario.nodes.iter().map(name).collect()
}

/// Captures that the scenario wants, with files in the run's folder.
pub fn captures(scenario: &Scenario, folder: &RunFolder) -> Vec<CaptureSetup> {
    let setup = |(link, name): (usize, &String)| CaptureSetup {
        link,
        path: capture::file_in(folder.root(), name),
        interfaces: scenario.links[link].between.map(|node| scenario.nodes[node].name.clone()),
    };
    let wanted = scenario.links.iter().enumerate().filter_map(|(index, link)| Some((index, link.capture.as_ref()?)));
    wanted.map(setup).collect()
}

/// Sentences about hosts whose queue of received frames is shorter than the scenario wants.
pub fn short_queues(scenario: &Scenario) -> Vec<String> {
    let text = std::fs::read_to_string("/proc/sys/net/core/netdev_max_backlog").unwrap_or_default();
    // A setting that cannot be read is no reason to doubt the run.
    let Ok(there) = text.trim().parse::<u32>() else { return Vec::new() };
    let short = |node: &&Node| node.tcp.rx_queue.is_some_and(|wanted| wanted > there);
    let words = |node: &Node| {
        let wanted = node.tcp.rx_queue.unwrap_or(0);
        format!(
            "Node {}: {there} frames may wait for its host, {wanted} wanted; `sysctl -w \
             net.core.netdev_max_backlog={wanted}` as root changes it.",
            node.name
        )
    };
    scenario.nodes.iter().filter(short).map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(hosts: [&str; 3], processors: &[usize]) -> Result<Vec<Vec<usize>>> {
        let node =
            |n: usize, host: &str| format!("[[node]]\nname = \"n{n}\"\nid = \"ipn:{n}.0\"\nhost = {{ {host} }}\n");
        let nodes: String = hosts.iter().enumerate().map(|(n, text)| node(n + 1, text)).collect();
        let scenario = Scenario::parse(&format!("name = \"s\"\nduration = \"9 s\"\n{nodes}")).unwrap();
        let mut turn = 0;
        scenario.nodes.iter().map(|node| Ok(host(node, "cubic", processors, &mut turn)?.limits.cpus)).collect()
    }

    #[test]
    fn hosts_take_turns_at_processors() {
        let cpus = hosts(["cpus = 1", "", "cpus = 2"], &[1, 4, 6]).unwrap();
        assert_eq!(cpus, [vec![1], vec![], vec![4, 6]]);
        assert_eq!(hosts(["cpus = 2", "cpus = [6]", "cpus = 2"], &[1, 4, 6]).unwrap()[2], [1, 6], "they run out");
    }

    #[test]
    fn impossible_uses_of_machines_outside_are_errors() {
        let checked = |second: &str, more: &str| {
            let host = |name: &str| format!("host = {{ kind = \"interface\", name = \"{name}\" }}\n");
            let node = |n: u8, host: String| format!("[[node]]\nname = \"n{n}\"\nid = \"ipn:{n}.0\"\n{host}");
            let link = |a: u8, b: u8| {
                format!("[[link]]\nname = \"l{a}{b}\"\nbetween = [\"n{a}\", \"n{b}\"]\nlayer = \"ltp\"\n")
            };
            let nodes = [node(1, String::new()), node(2, host("eth1")), node(3, host(second))].concat();
            let text = ["name = \"s\"\nduration = \"99 s\"\n", &nodes, &link(1, 2), &link(1, 3), more].concat();
            let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
            check_outside(&scenario).map_err(|why| why.to_string())
        };
        let phase = |kind: &str| format!("[[phase]]\nname = \"p\"\nkind = \"{kind}\"\nduration = \"9 s\"\n");
        assert_eq!(checked("eth2", &phase("load")), Ok(()));
        let why = checked("eth1", "").unwrap_err();
        assert!(why.contains("nodes `n2` and `n3` have the same interface `eth1`"), "{why}");
        for (more, said) in [
            ("[[link]]\nname = \"l\"\nbetween = [\"n2\", \"n3\"]\nlayer = \"ltp\"\n".into(), "`n2` has 2 links"),
            (
                "[[fault]]\nkind = \"restart\"\nnode = \"n2\"\nat = \"5 s\"\nlasts = \"1 s\"\n".into(),
                "cannot restart it",
            ),
            ("[[flow]]\nname = \"f\"\nfrom = \"n1\"\nto = \"n2\"\nstop = \"3 s\"\n".into(), "flow `f` has an end"),
            (phase("baseline"), "cannot at node `n2`"),
            (phase("retention"), "cannot at node `n2`"),
        ] {
            let why = checked("eth2", &more).unwrap_err();
            assert!(why.contains(said), "{more}: {why}");
        }
    }

    #[test]
    fn absent_processors_are_named() {
        let many = hosts(["cpus = 4", "", ""], &[1, 4, 6]).unwrap_err().to_string();
        assert!(many.contains("`n1` asks for 4 processors, and there are 3"), "{many}");
        let foreign = hosts(["", "cpus = [0]", ""], &[1, 4, 6]).unwrap_err().to_string();
        assert!(foreign.contains("processor 0") && foreign.contains("[1, 4, 6]"), "{foreign}");
    }
}
