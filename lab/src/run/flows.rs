//! Plain TCP and UDP flows of a run: a receiver at each destination, started before the run, a sender that starts at
//! the flow's time, and their counters at the end.

use super::folder::RunFolder;
use super::session::LabSession;
use crate::driver::Program;
use anyhow::Result;
use farlink_report::PlainFlow;
use farlink_scenario::{Flow, FlowTransport, Scenario};
use serde::Deserialize;
use std::path::Path;
use std::time::Duration;

/// First process number of flows; the processes of traffic have lower ones.
pub const FIRST_FLOW: u32 = 1 << 20;

/// Whether a process number belongs to the sender or receiver of a flow.
pub fn is_flow(id: u32) -> bool {
    // There are at most 10,000 flows, with two processes each.
    (FIRST_FLOW..FIRST_FLOW + 20_000).contains(&id)
}

impl LabSession<'_> {
    /// Starts the receivers of all flows.
    pub fn start_flow_receivers(&mut self) -> Result<()> {
        let scenario = self.scenario;
        for (index, flow) in scenario.flows.iter().enumerate() {
            let at = format!("0.0.0.0:{}", flow.port);
            let mut command = self.flow_command(flow);
            command.extend(["--receive".to_string(), at]);
            let program = Program { command, ..Program::default() };
            self.spawn(FIRST_FLOW + index as u32 * 2 + 1, flow.to, &process_name(flow, false), program)?;
        }
        Ok(())
    }

    /// Starts the senders whose time has come. `begun` is the number of flows begun so far, in order of their start.
    pub fn start_due_flows(&mut self, elapsed: Duration, begun: &mut usize) -> Result<()> {
        let scenario = self.scenario;
        if *begun == scenario.flows.len() {
            return Ok(());
        }
        let mut order: Vec<usize> = (0..scenario.flows.len()).collect();
        order.sort_by_key(|index| scenario.flows[*index].start);
        while let Some(index) = order.get(*begun).filter(|index| scenario.flows[**index].start <= elapsed) {
            *begun += 1;
            let flow = &scenario.flows[*index];
            let Some([_, address]) = scenario.flow_addresses(flow) else { continue };
            let left = flow.stop.saturating_sub(elapsed).as_secs_f64();
            let mut command = self.flow_command(flow);
            command.extend([format!("{address}:{}", flow.port), "--seconds".into(), format!("{left:.3}")]);
            if let Some(rate) = flow.rate {
                command.extend(["--rate".into(), format!("{} bit/s", rate.0)]);
            }
            if flow.transport == FlowTransport::Udp {
                command.extend(["--datagram".into(), format!("{} B", flow.datagram_bytes)]);
            }
            let program = Program { command, ..Program::default() };
            self.spawn(FIRST_FLOW + *index as u32 * 2, flow.from, &process_name(flow, true), program)?;
        }
        Ok(())
    }

    fn flow_command(&self, flow: &Flow) -> Vec<String> {
        let mut command = vec![self.program.display().to_string(), "flow".into(), "--json".into()];
        if flow.transport == FlowTransport::Udp {
            command.push("--udp".into());
        }
        command
    }
}

fn process_name(flow: &Flow, sends: bool) -> String {
    // Not `sender` and `receiver`, as for traffic: a traffic flow named `x-flow` would have processes of the same name.
    format!("{}-flow-{}", flow.name, if sends { "source" } else { "sink" })
}

/// Counters that `farlink flow --json` prints.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Counted {
    bytes: u64,
    seconds: f64,
    bit_s: f64,
    datagrams: u64,
    lost: u64,
    retransmitted: u64,
}

/// Results of all flows, from the output files of their processes. `congestion` is the congestion control of each host.
pub fn results(scenario: &Scenario, folder: &RunFolder, congestion: &[String]) -> Vec<PlainFlow> {
    let result = |flow: &Flow| {
        let sent = counted(folder.node(flow.from), &process_name(flow, true));
        let received = counted(folder.node(flow.to), &process_name(flow, false));
        let failure = [&sent, &received].into_iter().find_map(|end| end.as_ref().err().cloned());
        let (sent, received) = (sent.unwrap_or_default(), received.unwrap_or_default());
        let tcp = flow.transport == FlowTransport::Tcp;
        PlainFlow {
            name: flow.name.clone(),
            from: scenario.nodes[flow.from].name.clone(),
            to: scenario.nodes[flow.to].name.clone(),
            transport: flow.transport.name().into(),
            congestion: congestion.get(flow.from).filter(|_| tcp).cloned(),
            sent_bytes: sent.bytes,
            received_bytes: received.bytes,
            seconds: received.seconds,
            bit_s: received.bit_s,
            datagrams: sent.datagrams,
            // The receiver does not notice losses after the last datagram that arrived.
            lost: received.lost.max(sent.datagrams.saturating_sub(received.datagrams)),
            retransmitted: sent.retransmitted,
            failure,
        }
    };
    scenario.flows.iter().map(result).collect()
}

fn counted(node: &Path, process: &str) -> Result<Counted, String> {
    // Without a file the process never began: the run was over before.
    let Ok(text) = std::fs::read_to_string(node.join(format!("{process}.out"))) else { return Ok(Counted::default()) };
    serde_json::from_str(text.lines().last().unwrap_or_default()).map_err(|_| {
        let log = std::fs::read_to_string(node.join(format!("{process}.log"))).unwrap_or_default();
        let why = log.lines().next().unwrap_or("it ended without a result");
        format!("{process}: {why}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_join_both_ends() {
        let folder = tempfile::tempdir().unwrap();
        let text = "name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\ntcp = { congestion = \"cubic\" }\n\
            [[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n\
            [[flow]]\nname = \"t\"\nfrom = \"a\"\nto = \"b\"\n\
            [[flow]]\nname = \"u\"\nfrom = \"b\"\nto = \"a\"\ntransport = \"udp\"\nrate = \"1 Mbit/s\"\n";
        let scenario = Scenario::parse(text).unwrap();
        let run = RunFolder::create(folder.path(), &scenario).unwrap();
        let write = |node: usize, file: &str, text: &str| std::fs::write(run.node(node).join(file), text).unwrap();
        write(0, "t-flow-source.out", "{\"bytes\":900,\"retransmitted\":3}\n");
        write(1, "t-flow-sink.out", "{\"bytes\":800,\"seconds\":2.0,\"bit_s\":3200.0}\n");
        write(1, "u-flow-source.out", "");
        write(1, "u-flow-source.log", "error: no route\nhint: none\n");
        let [tcp, udp] = &results(&scenario, &run, &["cubic".into(), "reno".into()])[..] else { panic!() };
        assert_eq!((tcp.sent_bytes, tcp.received_bytes, tcp.retransmitted, tcp.bit_s), (900, 800, 3, 3200.0));
        assert_eq!((tcp.congestion.as_deref(), &tcp.failure), (Some("cubic"), &None));
        assert_eq!(udp.failure.as_deref(), Some("u-flow-source: error: no route"));
        std::fs::remove_file(run.node(1).join("u-flow-source.out")).unwrap();
        assert_eq!(results(&scenario, &run, &[])[1].failure, None, "the run ended before it began");
    }
}
