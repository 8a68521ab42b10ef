//! `farlink flow`: a plain TCP or UDP flow between two hosts.

use crate::{CliError, values};
use farlink_apps::flow::{self, FlowOptions, FlowReport, Transport};
use farlink_base::{DataRate, DataVolume};
use std::net::SocketAddr;
use std::time::Duration;

/// Arguments of `farlink flow`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink flow --receive 0.0.0.0:5201\n  \
    farlink flow 10.77.0.1:5201 --seconds 20 --json\n  \
    farlink flow 10.77.0.1:5201 --udp --rate '10 Mbit/s' --datagram '1400 B'\n  \
    farlink emulate --link geo --run-a 'farlink flow --receive 10.77.0.1:5201 --once' \\\n      \
    --run-b 'farlink flow 10.77.0.1:5201 --seconds 30'\n\n\
    No bundles are sent: flows are background traffic of a testbed, and show what a network carries.\n\
    The receiver counts until Control-C, or until the first flow has ended (--once).")]
pub struct Args {
    /// Address and port of the receiver.
    #[arg(required_unless_present = "receive", value_parser = values::address)]
    to: Option<SocketAddr>,
    /// Receive at this address and port.
    #[arg(long, value_name = "ADDRESS", value_parser = values::address,
        conflicts_with_all = ["to", "rate", "datagram", "seconds"])]
    receive: Option<SocketAddr>,
    /// Receiver: end with the first flow.
    #[arg(long, requires = "receive")]
    once: bool,
    /// UDP datagrams instead of a TCP connection.
    #[arg(long)]
    udp: bool,
    /// Payload rate; default: as fast as the network takes it.
    #[arg(long, allow_hyphen_values = true, value_parser = values::rate)]
    rate: Option<DataRate>,
    /// Payload of each datagram, at least 8 bytes.
    #[arg(long, default_value = "1400 B", allow_hyphen_values = true)]
    datagram: DataVolume,
    /// How long to send, with the time that connecting takes.
    #[arg(long, default_value = "10", allow_hyphen_values = true, value_parser = values::seconds)]
    seconds: Duration,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let transport = if args.udp { Transport::Udp } else { Transport::Tcp };
    let datagram = usize::try_from(args.datagram.0).ok().filter(|bytes| (8..=65_507).contains(bytes));
    let datagram = datagram.ok_or_else(|| {
        CliError::Input(format!("--datagram {}: 8 B to 65507 B\nhint: 1400 B suits most links", args.datagram))
    })?;
    let stop = farlink_os::process::watch_termination()?;
    let report = match (args.receive, args.to) {
        (Some(at), _) => flow::receive(at, transport, args.once, &stop)?,
        (None, Some(to)) => {
            let duration = args.seconds;
            flow::send(&FlowOptions { to, transport, rate: args.rate, datagram, duration }, &stop)?
        }
        (None, None) => return Err(CliError::Input("no receiver is named\nhint: farlink flow --help".into())),
    };
    if args.json {
        println!("{}", serde_json::to_string(&report).map_err(anyhow::Error::from)?);
    } else {
        println!("{}", line(&report, transport));
    }
    Ok(())
}

fn line(report: &FlowReport, transport: Transport) -> String {
    let carried = format!("{} in {:.1} s, {}", DataVolume(report.bytes), report.seconds, DataRate(report.bit_s as u64));
    match transport {
        Transport::Tcp if report.retransmitted > 0 => {
            format!("{carried}, {} segments sent again", report.retransmitted)
        }
        Transport::Tcp => carried,
        Transport::Udp if report.lost > 0 => format!("{carried}, {} datagrams, {} lost", report.datagrams, report.lost),
        Transport::Udp => format!("{carried}, {} datagrams", report.datagrams),
    }
}
