//! Process of a node: signals, control API, exit.

use crate::apps::load::{Load, LoadSettings};
use crate::config::NodeConfig;
use crate::log::LogLevel;
use crate::node::{Handle, Node};
use farlink_base::ConfigError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Runs a node until SIGTERM, SIGINT or a shutdown over the API; logs the warnings about its configuration. With a load,
/// returns its report.
///
/// # Errors
/// If a socket, a file or the store cannot be opened; the error names it.
pub fn run(
    config: NodeConfig,
    warnings: &[ConfigError],
    load: Option<LoadSettings>,
    signals: NodeSignals,
) -> anyhow::Result<Option<serde_json::Value>> {
    let log = LogLevel::init(&config.stack.node.log);
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let descriptors = farlink_os::process::raise_descriptor_limit();
    tracing::debug!("at most {descriptors} files and sockets at once");
    let api = config.api.clone();
    let mut node = Node::new(config, log)?;
    if let Some(settings) = load {
        node.apps().set_load(Load::new(settings));
    }
    let places = crate::api::start(&api, &node)?;
    for place in &places {
        tracing::info!("control API at {}", place.name);
    }
    signals.attach(node.handle());
    announce(&node);
    // Only now: who starts after this node finds its sockets.
    notify("READY=1");
    node.run()?;
    Ok(node.apps().load().map(|load| {
        let mut report = load.report();
        let (cpu_s, rss_bytes) = usage();
        report["cpu_s"] = cpu_s.into();
        report["rss_bytes"] = rss_bytes.into();
        report
    }))
}

/// Tells the service manager about a change of state, if there is one that listens (`sd_notify(3)`).
pub(crate) fn notify(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    // A service manager that has gone is no reason to end.
    if let Err(why) = notify_at(&socket, state) {
        tracing::debug!("NOTIFY_SOCKET {}: {why}", socket.display());
    }
}
fn notify_at(socket: &OsStr, state: &str) -> io::Result<()> {
    let from = UnixDatagram::unbound()?;
    match socket.as_bytes() {
        // An abstract socket, which is no file.
        [b'@', name @ ..] => from.send_to_addr(state.as_bytes(), &SocketAddr::from_abstract_name(name)?)?,
        _ => from.send_to(state.as_bytes(), Path::new(socket))?,
    };
    Ok(())
}

/// Checks that the engine accepts the configuration: names of routers, parameters, links.
///
/// # Errors
/// The first rejected key, with a hint.
pub fn check(config: &NodeConfig) -> Result<(), farlink_base::ConfigError> {
    farlink_stack::Stack::new(config.stack.clone()).map(|_| ())
}

fn announce(node: &Node) {
    let ids: Vec<_> = node.config.stack.node_ids.iter().map(ToString::to_string).collect();
    let layers = node.addresses().iter().map(|(layer, address)| {
        let name = node.config.layers.get(usize::from(layer.0)).map_or("?", |layer| &layer.name);
        format!("{name} {address}")
    });
    let layers: Vec<_> = layers.collect();
    let serves = if layers.is_empty() { "no layer: it has no neighbours".into() } else { layers.join(", ") };
    tracing::info!("node {} serves {serves}", ids.join(" "));
}

/// Signal handlers of a node process.
///
/// They must be installed before all else: the default action of SIGHUP would end a node that is still reading its
/// configuration. Signals that arrive before [`NodeSignals::attach`] are handled by it.
pub struct NodeSignals {
    state: Arc<Mutex<SignalState>>,
}

#[derive(Default)]
struct SignalState {
    node: Option<Handle>,
    /// Signals received during start, in order, each once.
    pending: Vec<i32>,
}

impl NodeSignals {
    /// Installs the handlers and starts the thread that handles signals.
    ///
    /// # Errors
    /// If the system gives no pipe or no thread.
    pub fn install() -> io::Result<NodeSignals> {
        // SIGXFSZ is caught so that a write beyond a limit of file sizes fails instead; the store treats that as a full
        // disk. SIGUSR1 and SIGUSR2 have no meaning here, and must not end the node either.
        let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGXFSZ])?;
        let state = Arc::new(Mutex::<SignalState>::default());
        let shared = state.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever().filter(|signal| [SIGTERM, SIGINT, SIGHUP].contains(signal)) {
                let mut state = lock(&shared);
                let SignalState { node, pending } = &mut *state;
                match node {
                    Some(node) => {
                        if !carry_out(node, signal) {
                            return;
                        }
                    }
                    // Two requests end a start that hangs.
                    None if signal != SIGHUP && pending.contains(&signal) => std::process::exit(128 + signal),
                    None if pending.contains(&signal) => {}
                    None => pending.push(signal),
                }
            }
        })?;
        Ok(NodeSignals { state })
    }
    /// Directs signals to a running node, beginning with those received during its start.
    fn attach(self, node: Handle) {
        let mut state = lock(&self.state);
        for signal in std::mem::take(&mut state.pending) {
            carry_out(&node, signal);
        }
        state.node = Some(node);
    }
}

fn lock(state: &Mutex<SignalState>) -> std::sync::MutexGuard<'_, SignalState> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Reloads the configuration on SIGHUP, ends the node on other signals. Returns false if it has ended.
fn carry_out(node: &Handle, signal: i32) -> bool {
    node.run(move |node| {
        if signal != SIGHUP {
            node.stop();
        } else if let Err(why) = node.reload() {
            tracing::error!("configuration not read again: {why}");
        }
    })
}

/// CPU seconds and peak resident memory of this process, bytes.
pub fn usage() -> (f64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the command name in parentheses, utime and stime are fields 12 and 13, in 1/100 s.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks: u64 = after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("");
    let kilobytes: u64 = peak.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
    (ticks as f64 / 100.0, kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_manager_is_notified_at_both_kinds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("farlink-notify-{}", std::process::id());
        let file = UnixDatagram::bind(&path).unwrap();
        let hidden = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (place, socket) in [(path.as_os_str(), file), (OsStr::new(&format!("@{name}")), hidden)] {
            notify_at(place, "READY=1").unwrap();
            let mut heard = [0; 16];
            assert_eq!(socket.recv(&mut heard).map(|n| heard[..n].to_vec()).unwrap(), b"READY=1");
        }
        assert!(notify_at(folder.path().join("gone").as_os_str(), "READY=1").is_err());
    }

    #[test]
    fn usage_is_read_from_the_kernel() {
        let (cpu_s, rss_bytes) = usage();
        assert!(cpu_s >= 0.0 && rss_bytes > 100_000, "{cpu_s} {rss_bytes}");
    }
}
