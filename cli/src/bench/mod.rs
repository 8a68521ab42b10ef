//! `farlink bench`: benchmarks, each with a baseline measured in the same run.

mod against;
mod codec;
mod delivery;
mod forward;
mod loopback;
mod nodes;
mod peer;
mod peers;
mod round_trip;
mod routing;
mod rows;
mod shards;
mod stats;
mod suite;

use crate::CliError;

/// Arguments of `farlink bench`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(clap::Subcommand)]
enum BenchCommand {
    /// Two nodes on this machine that generate and count bundles themselves; baseline: the fastest plain copy of the
    /// same kind.
    #[command(after_help = "Examples:\n  farlink bench loopback --cla tcpclv4 --bundle-size '100 kB'\n  \
        farlink bench loopback --cla ltp --bundle-size '100 kB' --mtu 1360 --seconds 10 --json\n  \
        farlink bench loopback --cla tcpclv4 --bundle-size '1 kB' --store durable\n  \
        farlink bench loopback --cla tcpclv4 --tls")]
    Loopback(loopback::Args),
    /// A node that forwards from a generator to a sink; baseline: a thread that copies from socket to socket.
    #[command(after_help = "Examples:\n  farlink bench forward --cla tcpclv4 --bundle-size '1 kB'\n  \
        farlink bench forward --cla ltp --bundle-size '100 kB' --json\n  \
        farlink bench forward --cla tcpclv4 --encipher")]
    Forward(forward::Args),
    /// Pings between two nodes; baseline: the same bytes through a chain of plain sockets.
    #[command(after_help = "Examples:\n  farlink bench round-trip --cla tcpclv4\n  \
        farlink bench round-trip --cla tcpclv4 --store durable --count 500")]
    RoundTrip(round_trip::Args),
    /// Delivery of the bundles that wait in a durable store to one application; baseline: a copy through a Unix socket.
    #[command(after_help = "Examples:\n  farlink bench delivery --bundle-size '5 kB'\n  \
        farlink bench delivery --bundle-size '100 kB' --files\n  \
        farlink bench delivery --window 1 --bundles 5000 --json")]
    Delivery(delivery::Args),
    /// Encoding and decoding of bundles; baseline: the checksum of the same bytes.
    #[command(after_help = "Examples:\n  farlink bench codec\n  farlink bench codec --bundle-size '1 MB' --json")]
    Codec(codec::Args),
    /// Contact-graph routing over a large plan, each route booked.
    #[command(
        after_help = "Examples:\n  farlink bench routing\n  farlink bench routing --nodes 50 --contacts 2000 --json"
    )]
    Routing(routing::Args),
    /// A node that forwards between several generators and sinks, with one owner thread and with one per pair;
    /// baseline: as many plain copies at once.
    #[command(after_help = "Examples:\n  farlink bench shards --shards 2\n  \
        farlink bench shards --shards 4 --bundle-size '1 kB' --cross --json")]
    Shards(shards::Args),
    /// All of the above, several runs each, as one table.
    #[command(after_help = "Examples:\n  farlink bench suite\n  farlink bench suite --rows forward --runs 5\n  \
        farlink bench suite --json > suite.json\n  farlink bench suite --write README.md\n  \
        farlink bench suite --against old/farlink --rows '1 kB' --runs 7")]
    Suite(suite::Args),
    /// Another implementation and Farlink, alternately between the same generator and sink.
    #[command(after_help = "Examples:\n  farlink bench peer dtn7-rs --program target/interop/dtn7-0.21.0/bin/dtnd\n  \
        farlink bench peer hardy --program farlink-hardy-peer --bundle-size '1 kB' --runs 5\n  \
        farlink bench peer hdtn --program hdtn-one-process --cla stcp\n")]
    Peer(peer::Args),
}

pub fn run(args: Args) -> Result<(), CliError> {
    match args.command {
        BenchCommand::Loopback(args) => loopback::run(args),
        BenchCommand::Forward(args) => forward::run(args),
        BenchCommand::RoundTrip(args) => round_trip::run(args),
        BenchCommand::Delivery(args) => delivery::run(args),
        BenchCommand::Codec(args) => codec::run(args),
        BenchCommand::Routing(args) => routing::run(args),
        BenchCommand::Shards(args) => shards::run(args),
        BenchCommand::Suite(args) => suite::run(args),
        BenchCommand::Peer(args) => peer::run(args),
    }
}
