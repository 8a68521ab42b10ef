//! `farlink app`: one client for the application interfaces of all implementations.

use crate::app_run::AppKind;
use crate::{CliError, app_run, send, socket, values};
use farlink_apps::file::SendPace;
use farlink_apps::via::event::AppEvent;
use farlink_apps::via::file::PiecedFile;
use farlink_apps::via::ping::{PingPlan, ping};
use farlink_apps::via::programs::{self, Programs};
use farlink_apps::via::ready::{ReadySign, wait_ready};
use farlink_apps::via::receive::{ReceivePlan, receive};
use farlink_apps::via::send::{SendLoad, SendPlan};
use farlink_apps::via::stamp::{PIECE_STAMP, STAMP};
use farlink_apps::via::{self, AppInterface, SenderTerms, Via};
use farlink_base::{DataRate, DataVolume, parse_duration};
use std::path::PathBuf;
use std::time::Duration;

/// Longest payload that is sent, bytes: some interfaces carry no more.
const PAYLOAD_MAX: u64 = 256 << 20;
/// Lifetime of pings and their answers.
const PING_LIFETIME: Duration = Duration::from_secs(3600);

/// Arguments of `farlink app`.
#[derive(clap::Args)]
#[command(after_help = "Interfaces (--via) and their places (--at):\n  \
    farlink    application socket of a node: a path or host:port; default: as for `farlink send`\n  \
    aap2       the same of any node with AAP2, e.g. µD3TN: a path or host:port\n  \
    dtn7-http  HTTP interface of dtn7-rs: http://host:port; sends from the node ID, asks for bundles every 5 ms\n  \
    dtn7-ws    its WebSocket: http://host:port; bundles arrive at once\n  \
    dtn7-go    Unix socket of dtn7-go; takes whole endpoint IDs\n  \
    frames     a file {\"run\": [WORD, ...]} with a program that speaks frames, or a socket of `farlink app frames`\n  \
    programs   a file that names the implementation's own programs, with these keys, all optional but \"run\":\n             \
    {\"environment\": {NAME: TEXT},\n              \
    \"send\": {\"run\": [WORD, ..], \"remove\": true, \"packets\": \"HOST:PORT\"},\n              \
    \"receive\": {\"run\": [..], \"folder\": DIR, \"log\": FILE, \"each\": REGEX, \"every\": \"20 ms\",\n                          \
    \"packets\": \"HOST:PORT\"},\n              \
    \"load\": {\"run\": [..]}, \"unload\": {\"run\": [..], \"done\": REGEX},\n              \
    \"ping\": {\"run\": [..], \"rtt\": {\"match\": REGEX, \"unit\": \"s\", \"number\": REGEX}}}\n             \
    In words, {file} {source} {endpoint} {to} {count} {size} {lifetime_s} {interval_s} {timeout_s} are replaced.\n\n\
    The first 24 bytes of a payload are flow, number and monotonic time of sending (ns), big-endian; those of a\n\
    piece of a file are followed by its offset. Shorter payloads are only counted.")]
pub struct Args {
    #[command(subcommand)]
    command: AppCommand,
}

#[derive(clap::Subcommand)]
enum AppCommand {
    /// Send bundles or a file.
    Send(SendArgs),
    /// Receive bundles or a file.
    Receive(ReceiveArgs),
    /// Measure round-trip times to an echo service.
    Ping(PingArgs),
    /// Answer pings, for implementations without an echo service.
    Echo(EchoArgs),
    /// Wait until a node takes applications.
    Ready(ReadyArgs),
    /// Run a program that speaks frames, and serve it at a socket to several applications.
    Frames(FramesArgs),
}

#[derive(clap::Args)]
struct InterfaceArgs {
    /// Application interface; see `farlink app --help`.
    #[arg(long, default_value = "farlink", value_parser = Via::WORDS)]
    via: String,
    /// Place of the interface: a socket, an address or a file.
    #[arg(long, value_name = "PLACE")]
    at: Option<String>,
}

impl InterfaceArgs {
    fn interface(self) -> Result<AppInterface, CliError> {
        let at = match self.at {
            Some(at) => at,
            None if self.via == "farlink" => socket::find_here()?,
            None => {
                return Err(input("--at is missing", "it names the place of the interface; see `farlink app --help`"));
            }
        };
        let via = Via::parse(&self.via).ok_or_else(|| input(&format!("--via {}", self.via), "see --help"))?;
        let interface = AppInterface { via, at };
        interface.check().map_err(|why| CliError::Input(format!("{why:#}")))?;
        Ok(interface)
    }
}

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farlink app send --at farlink.sock --to ipn:2.64 --count 1000 --size '10 kB' --json\n  \
    farlink app send --via dtn7-ws --at http://127.0.0.1:3000 --to ipn:2.64 --count 10 --interval '1 s' --json\n  \
    farlink app send --via aap2 --at ud3tn.sock --to ipn:2.64 --file photo.jpg --bundle-size '60 kB'\n\n\
    Exit status: 0 everything was accepted, 1 not, 2 bad input.")]
struct SendArgs {
    #[command(flatten)]
    interface: InterfaceArgs,
    /// Service or endpoint ID to send from; default: chosen by the interface.
    #[arg(long, value_name = "SERVICE")]
    source: Option<String>,
    /// Endpoint ID of the destination.
    #[arg(long, value_name = "EID")]
    to: String,
    /// Number of bundles.
    #[arg(long, allow_hyphen_values = true, value_parser = values::some)]
    count: Option<u64>,
    /// Payload of each bundle; default: 1 kB.
    #[arg(long, allow_hyphen_values = true)]
    size: Option<DataVolume>,
    /// File with the payload size of each bundle in order, one number of bytes per line.
    #[arg(long, value_name = "FILE")]
    sizes: Option<PathBuf>,
    /// File to send in pieces.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Payload of each bundle of a file, 32 bytes of which are not of the file; default: 1 MB.
    #[arg(long, allow_hyphen_values = true)]
    bundle_size: Option<DataVolume>,
    /// Payload rate; default, without --interval: as fast as bundles are accepted.
    #[arg(long, allow_hyphen_values = true, value_parser = values::rate)]
    rate: Option<DataRate>,
    /// Time between bundles.
    #[arg(long, conflicts_with = "rate", allow_hyphen_values = true, value_parser = parse_duration)]
    interval: Option<Duration>,
    /// Most bundles handed over and not yet accepted, where the interface confirms them.
    #[arg(long, default_value = "16", allow_hyphen_values = true, value_parser = values::some)]
    window: u64,
    /// Lifetime of the bundles.
    #[arg(long, default_value = "1 d", allow_hyphen_values = true, value_parser = values::lifetime)]
    lifetime: Duration,
    /// Number of the flow, in the payloads.
    #[arg(long, default_value = "0", allow_hyphen_values = true, value_parser = values::whole)]
    flow: u64,
    /// Let the implementation's own program for load send --count bundles of --size.
    #[arg(long)]
    own: bool,
    /// Print a line of JSON for each bundle.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farlink app receive --at farlink.sock --service 64 --count 1000 --json\n  \
    farlink app receive --via dtn7-ws --at http://127.0.0.1:3000 --service 64 --timeout '10 s' --json\n  \
    farlink app receive --service 64 --out photo.jpg --file-size '4200000 B'\n\n\
    Exit status: 0 everything arrived or a signal ended it, 1 the time was over before, 2 bad input.")]
struct ReceiveArgs {
    #[command(flatten)]
    interface: InterfaceArgs,
    /// Service or endpoint ID to receive at.
    #[arg(long)]
    service: String,
    /// Stop after this many different bundles.
    #[arg(long, allow_hyphen_values = true, value_parser = values::some)]
    count: Option<u64>,
    /// File to put together from pieces.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Length of the file that is sent.
    #[arg(long, allow_hyphen_values = true)]
    file_size: Option<DataVolume>,
    /// Go on with the pieces of an earlier call with this option, noted in the file --out with `.pieces` appended.
    #[arg(long, requires = "out")]
    resume: bool,
    /// Stop if nothing arrives for this time.
    #[arg(long, allow_hyphen_values = true, value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Let the implementation's own program receive --count bundles.
    #[arg(long)]
    own: bool,
    /// Print a line of JSON for each bundle.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farlink app ping --at farlink.sock --to ipn:2.128 --count 100 --interval '10 ms' --json\n  \
    farlink app ping --via programs --at ion.json --source ipn:1.9 --to ipn:2.1\n\n\
    Where a file of programs has `ping`, that program measures, and its times are marked \"own\".\n\n\
    Exit status: 0 at least one answer, 1 no answer, 2 bad input.")]
struct PingArgs {
    #[command(flatten)]
    interface: InterfaceArgs,
    /// Service or endpoint ID to ping from; default: chosen by the interface.
    #[arg(long, value_name = "SERVICE")]
    source: Option<String>,
    /// Endpoint ID of the echo service.
    #[arg(long, value_name = "EID")]
    to: String,
    /// Number of pings.
    #[arg(long, default_value = "4", allow_hyphen_values = true, value_parser = values::some)]
    count: u64,
    /// Time between pings; 0 s sends each after the answer to the previous one.
    #[arg(long, default_value = "1 s", allow_hyphen_values = true, value_parser = parse_duration)]
    interval: Duration,
    /// Payload of each ping.
    #[arg(long, default_value = "64 B", allow_hyphen_values = true)]
    size: DataVolume,
    /// Time after which a ping is lost.
    #[arg(long, default_value = "10 s", allow_hyphen_values = true, value_parser = parse_duration)]
    timeout: Duration,
    /// Print a line of JSON for each ping.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farlink app echo --via dtn7-ws --at http://127.0.0.1:3000 --service 7\n\n\
    Answers go to the endpoint that a ping of `farlink app ping` names, else to the source of the bundle.\n\
    Ends by a signal.")]
struct EchoArgs {
    #[command(flatten)]
    interface: InterfaceArgs,
    /// Service or endpoint ID to answer at.
    #[arg(long)]
    service: String,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farlink app ready --connect 127.0.0.1:3000 --within '30 s' --touch ready\n  \
    farlink app ready --within '60 s' --touch ready --run bplist\n  \
    farlink app ready --within '60 s' --touch ready --run sh -c 'test -S ud3tn.sock'\n  \
    farlink app ready --log dtnd.log --match 'listening on [0-9]+' --within '30 s' --touch ready\n\n\
    Exit status: 0 ready, and the file is there; 1 not within the time; 2 bad input.")]
struct ReadyArgs {
    /// Ready when a TCP connection to this address succeeds.
    #[arg(long, value_name = "HOST:PORT", group = "sign")]
    connect: Option<String>,
    /// Ready when this program ends with status 0; takes all words that follow, so it comes last.
    #[arg(long, value_name = "WORD", num_args = 1.., allow_hyphen_values = true, group = "sign")]
    run: Vec<String>,
    /// Ready when this file exists.
    #[arg(long, group = "sign")]
    file: Option<PathBuf>,
    /// Ready when a line of this log matches --match.
    #[arg(long, value_name = "FILE", group = "sign")]
    log: Option<PathBuf>,
    /// Regular expression for lines of --log.
    #[arg(long = "match", value_name = "REGEX")]
    pattern: Option<String>,
    /// Longest wait.
    #[arg(long, default_value = "30 s", allow_hyphen_values = true, value_parser = parse_duration)]
    within: Duration,
    /// File to create when the node is ready; removed first.
    #[arg(long, value_name = "FILE")]
    touch: PathBuf,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farlink app frames --at node.sock -- farlink-hardy-peer ipn:20.0 0.0.0.0:4556\n\n\
    A frame is a letter, a length (4 bytes, big-endian) and that many bytes. The program reads S (endpoint ID, zero\n\
    byte, payload: send it) and writes K (ready), A (accepted), E (refused, with the reason), D (a delivered\n\
    payload) and R (a delivery report). The socket appears when it is ready. Deliveries wait for an application.")]
struct FramesArgs {
    /// Socket to create.
    #[arg(long, value_name = "SOCKET")]
    at: PathBuf,
    /// Program and its arguments.
    #[arg(last = true, required = true, value_name = "WORD")]
    words: Vec<String>,
}

fn input(what: &str, hint: &str) -> CliError {
    CliError::Input(format!("{what}\nhint: {hint}"))
}

pub fn run(args: Args) -> Result<(), CliError> {
    match args.command {
        AppCommand::Send(args) => run_send(args),
        AppCommand::Receive(args) => run_receive(args),
        AppCommand::Ping(args) => run_ping(args),
        AppCommand::Echo(args) => run_echo(args),
        AppCommand::Ready(args) => run_ready(args),
        AppCommand::Frames(args) => {
            app_run::run(AppKind::Other, false, move |stop, _| via::frames_host::serve(&args.words, &args.at, stop))
        }
    }
}

/// Reads the file of programs at `--at`, from which `--own` takes its command; other interfaces are refused.
fn programs_of(interface: &AppInterface) -> Result<Programs, CliError> {
    if interface.via != Via::Programs {
        return Err(input("--own needs --via programs", "only a file of programs names one for this"));
    }
    Ok(Programs::read(&interface.at)?)
}

fn run_send(args: SendArgs) -> Result<(), CliError> {
    crate::check_destination(&args.to)?;
    let (count, size) = (args.count, args.size.unwrap_or(DataVolume(1000)).0);
    let load = args.load()?;
    let interface = args.interface.interface()?;
    let pace = match (args.rate, args.interval) {
        (Some(rate), _) => SendPace::Rate(rate),
        (None, Some(interval)) => SendPace::Interval(interval),
        (None, None) => SendPace::Flat,
    };
    let terms = SenderTerms { source: args.source, lifetime: args.lifetime, window: args.window };
    if args.own {
        let count = count.ok_or_else(|| input("--own needs --count", "write e.g. --count 1000 --size '1 kB'"))?;
        let programs = programs_of(&interface)?;
        return app_run::run(AppKind::Sender, args.json, move |stop, say| {
            programs::load(&programs, (count, size), &args.to, &terms, stop, say)
        });
    }
    let plan = SendPlan { to: args.to, flow: args.flow, load, pace };
    app_run::run(AppKind::Sender, args.json, move |stop, say| {
        let mut sender = interface.sender(&terms)?;
        via::send::send(sender.as_mut(), &plan, stop, say)
    })
}

impl SendArgs {
    /// Payloads that the options describe.
    fn load(&self) -> Result<SendLoad, CliError> {
        let too_long = |option: &str| {
            input(&format!("{option}: a payload of more than 256 MiB"), "send more bundles of fewer bytes")
        };
        if let Some(path) = &self.file {
            if self.count.is_some() || self.size.is_some() || self.sizes.is_some() {
                let hint = "the file and --bundle-size determine how many bundles there are";
                return Err(input("--file goes without --count, --size and --sizes", hint));
            }
            let bundle = self.bundle_size.unwrap_or(DataVolume(1_000_000)).0;
            match bundle {
                0..=32 => return Err(input("--bundle-size: at least 33 B", "32 B of it are not of the file")),
                33..=PAYLOAD_MAX => {}
                _ => return Err(too_long("--bundle-size")),
            }
            let hint = "--file names a file that can be read";
            return SendLoad::file(path, bundle).map_err(|why| input(&format!("{}: {why}", path.display()), hint));
        }
        if self.bundle_size.is_some() {
            return Err(input("--bundle-size needs --file", "--size is the payload of other bundles"));
        }
        if let Some(path) = &self.sizes {
            if self.size.is_some() {
                return Err(input("--sizes goes without --size", "the file holds the size of each bundle"));
            }
            let mut sizes = send::read_sizes(path)?;
            if let Some(count) = self.count {
                let lines = sizes.len();
                if count > lines as u64 {
                    let problem = format!("{}: {lines} sizes for {count} bundles", path.display());
                    return Err(input(&problem, "lower --count"));
                }
                sizes.truncate(usize::try_from(count).unwrap_or(lines));
            }
            return match sizes.iter().all(|size| *size <= PAYLOAD_MAX) {
                true => Ok(SendLoad::Sizes(sizes)),
                false => Err(too_long("--sizes")),
            };
        }
        let Some(count) = self.count else {
            return Err(input("nothing to send", "write --count 10 --size '1 kB', --sizes FILE, or --file FILE"));
        };
        match self.size.unwrap_or(DataVolume(1000)).0 {
            size @ 0..=PAYLOAD_MAX => Ok(SendLoad::Count { count, size }),
            _ => Err(too_long("--size")),
        }
    }
}

fn run_receive(args: ReceiveArgs) -> Result<(), CliError> {
    let interface = args.interface.interface()?;
    if args.own {
        let count = args.count.ok_or_else(|| input("--own needs --count", "write e.g. --count 1000"))?;
        let programs = programs_of(&interface)?;
        return app_run::run(AppKind::Receiver, args.json, move |stop, say| {
            programs::unload(&programs, &args.service, count, args.timeout, stop, say)
        });
    }
    let file = match (&args.out, args.file_size) {
        (Some(path), Some(length)) => {
            let open = if args.resume { PiecedFile::resume } else { PiecedFile::create };
            Some(open(path, length.0).map_err(|why| crate::cannot_write(path, &why, "--out"))?)
        }
        (None, None) => None,
        _ => return Err(input("--out and --file-size go together", "the length tells when the file is complete")),
    };
    let mut plan = ReceivePlan { count: args.count, file, timeout: args.timeout };
    app_run::run(AppKind::Receiver, args.json, move |stop, say| {
        let mut receiver = interface.receiver(&args.service)?;
        receive(receiver.as_mut(), &mut plan, stop, say)
    })
}

fn run_ping(args: PingArgs) -> Result<(), CliError> {
    crate::check_destination(&args.to)?;
    if !(STAMP as u64..=PAYLOAD_MAX).contains(&args.size.0) {
        return Err(input(&format!("--size {}: 24 B to 256 MiB", args.size), "a ping carries 24 B of its own"));
    }
    let interface = args.interface.interface()?;
    let plan =
        PingPlan { to: args.to, count: args.count, interval: args.interval, size: args.size.0, timeout: args.timeout };
    let terms = SenderTerms { source: args.source, lifetime: PING_LIFETIME, window: 16 };
    let programs = (interface.via == Via::Programs).then(|| programs_of(&interface)).transpose()?;
    let programs = programs.filter(Programs::pings);
    app_run::run(AppKind::Ping, args.json, move |stop, say| {
        let answered = match &programs {
            Some(programs) => programs::ping(programs, &plan, &terms, stop, say)?,
            None => ping(interface.pair(&terms)?, &plan, stop, say)?,
        };
        if answered == 0 {
            anyhow::bail!(
                "no answer from {}\nhint: does a service there answer pings? see `farlink app echo`",
                plan.to
            );
        }
        Ok(())
    })
}

fn run_echo(args: EchoArgs) -> Result<(), CliError> {
    let interface = args.interface.interface()?;
    let terms = SenderTerms { source: Some(args.service.clone()), lifetime: PING_LIFETIME, window: 16 };
    app_run::run(AppKind::Other, false, move |stop, _: &mut dyn FnMut(AppEvent)| {
        let answered = via::echo::echo(interface.service(&args.service, &terms)?, stop)?;
        eprintln!("stopped: {answered} answered");
        Ok(())
    })
}

fn run_ready(args: ReadyArgs) -> Result<(), CliError> {
    let sign = match (args.connect, args.file, args.log) {
        (Some(address), ..) => {
            let whole = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            if !whole {
                return Err(input(&format!("--connect: `{address}` is not HOST:PORT"), "write e.g. 127.0.0.1:3000"));
            }
            ReadySign::Connect(address)
        }
        (_, Some(path), _) => ReadySign::File(path),
        (.., Some(path)) => {
            let pattern = args.pattern.as_deref();
            let pattern = pattern.ok_or_else(|| input("--log needs --match", "a regular expression for its lines"))?;
            let hint = "write e.g. --match 'listening on [0-9]+'";
            ReadySign::log(path, pattern).map_err(|why| input(&format!("--match: `{pattern}`: {why}"), hint))?
        }
        _ if !args.run.is_empty() => ReadySign::Run(args.run),
        _ => return Err(input("nothing to wait for", "name one of --connect, --run, --file, or --log with --match")),
    };
    app_run::run(AppKind::Other, false, move |stop, _| wait_ready(&sign, args.within, &args.touch, stop))
}

/// Fails the build if the help of `--bundle-size` no longer states the right length: a piece begins with a stamp of 24
/// bytes and an offset of 8.
const _: () = assert!(PIECE_STAMP == 32 && STAMP == 24);
