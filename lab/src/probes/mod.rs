//! Probes: measurements during a run, apart from its events. A [`Probe`] samples all hosts; the supervisor owns and
//! calls it. A [`Watcher`] copies the frames of a link to a reader: [`retention`] finds in them how long a relay keeps
//! each bundle, and [`zero_work`] is a relay to compare with.

mod flow;
mod packet;
mod resources;
pub mod retention;
mod store;
mod tcp;
mod watcher;
pub mod zero_work;

use crate::supervisor::{Accounts, Reading};
use farlink_os::namespace::NetworkNamespace;
use std::path::PathBuf;

pub use resources::Resources;
pub use store::StoreVolume;
pub use tcp::TcpState;
pub use watcher::{FramePoint, WatchQueue, WatchedFrame, Watcher, watch_queue};

/// State of the supervisor that probes read.
#[derive(Debug)]
pub struct ProbedHosts<'a> {
    /// Accounts of the hosts' programs.
    pub accounts: &'a mut Accounts,
    /// Network namespaces of the hosts.
    pub namespaces: &'a [NetworkNamespace],
    /// Process ID of the emulator, while it runs.
    pub emulator: Option<u32>,
}

/// Source of samples.
pub trait Probe {
    /// Reads all hosts once, and calls `each` with each value. Hosts that cannot be read are left out.
    fn sample(&mut self, hosts: &mut ProbedHosts<'_>, each: &mut dyn FnMut(Reading));

    /// Begins a phase, which resets peaks.
    fn begin_phase(&mut self, _hosts: &mut ProbedHosts<'_>) {}
}

/// Creates the probes of a run; `tcp` is whether to sample TCP connections, `stores` are the stores' folders, with
/// their hosts' indexes.
pub fn all(tcp: bool, stores: Vec<(usize, PathBuf)>) -> Vec<Box<dyn Probe>> {
    let mut probes: Vec<Box<dyn Probe>> = vec![Box::new(Resources)];
    if tcp {
        probes.push(Box::new(TcpState::default()));
    }
    if !stores.is_empty() {
        probes.push(Box::new(StoreVolume::new(stores)));
    }
    probes
}
