//! A node as a process: signals, control API, exit.

use crate::apps::load::{Load, LoadSettings};
use crate::config::NodeConfig;
use crate::log::LogLevel;
use crate::node::{Handle, Node};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

/// Runs a node until SIGTERM, SIGINT or a shutdown over the API. With a load, gives what it did.
///
/// # Errors
/// What cannot be opened, and why.
pub fn run(config: NodeConfig, load: Option<LoadSettings>) -> anyhow::Result<Option<serde_json::Value>> {
    let log = LogLevel::init(&config.log_level, config.log_json);
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
    watch_signals(node.handle())?;
    announce(&node);
    node.run()?;
    Ok(node.apps().load().map(|load| {
        let mut report = load.report();
        let (cpu_s, rss_bytes) = usage();
        report["cpu_s"] = cpu_s.into();
        report["rss_bytes"] = rss_bytes.into();
        report
    }))
}

/// Whether the engine takes the configuration: names of routers, parameters, links.
///
/// # Errors
/// Which key it does not take, and what to write instead.
pub fn check(config: &NodeConfig) -> Result<(), farlink_base::ConfigError> {
    farlink_stack::Stack::new(config.stack.clone()).map(|_| ())
}

fn announce(node: &Node) {
    let ids: Vec<_> = node.config.stack.node_ids.iter().map(ToString::to_string).collect();
    let layers = node.addresses().iter().map(|(layer, address)| {
        let name = node.config.layers.get(usize::from(layer.0)).map_or("?", |layer| &layer.name);
        format!("{name} {address}")
    });
    tracing::info!("node {} serves {}", ids.join(" "), layers.collect::<Vec<_>>().join(", "));
}

fn watch_signals(handle: Handle) -> anyhow::Result<()> {
    // A file that may not grow is the store's business, as a full disk is: caught, it ends nobody.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGXFSZ])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever().filter(|signal| *signal != SIGXFSZ) {
            let alive = handle.run(move |node| {
                if signal != SIGHUP {
                    node.stop();
                } else if let Err(why) = node.reload() {
                    tracing::error!("configuration not read again: {why}");
                }
            });
            if !alive {
                return;
            }
        }
    })?;
    Ok(())
}

/// CPU seconds and largest resident memory of this process so far.
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
    #[test]
    fn usage_is_read_from_the_kernel() {
        let (cpu_s, rss_bytes) = super::usage();
        assert!(cpu_s >= 0.0 && rss_bytes > 100_000, "{cpu_s} {rss_bytes}");
    }
}
