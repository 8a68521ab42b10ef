//! Probes: what is sampled of all hosts while a run lasts. One file for each; the supervisor owns and asks them.

mod resources;
mod store;
mod tcp;

use crate::supervisor::{Accounts, Reading};
use farlink_os::namespace::NetworkNamespace;
use std::path::PathBuf;

pub use resources::Resources;
pub use store::StoreVolume;
pub use tcp::TcpState;

/// Parts of the supervisor that probes read.
#[derive(Debug)]
pub struct ProbedHosts<'a> {
    /// Accounts of the hosts' programs.
    pub accounts: &'a mut Accounts,
    /// Network namespaces of the hosts.
    pub namespaces: &'a [NetworkNamespace],
    /// Process of the emulator, while it runs.
    pub emulator: Option<u32>,
}

/// Something that is sampled.
pub trait Probe {
    /// Reads all hosts once and calls `each` with the values. Hosts that cannot be read are left out.
    fn sample(&mut self, hosts: &mut ProbedHosts<'_>, each: &mut dyn FnMut(Reading));

    /// A phase begins: peaks count from here.
    fn begin_phase(&mut self, _hosts: &mut ProbedHosts<'_>) {}
}

/// The probes of a run.
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
