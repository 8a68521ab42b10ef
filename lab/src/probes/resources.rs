//! Processor time and memory of each role at each host, and of the emulator.

use super::{Probe, ProbedHosts};
use crate::supervisor::{Reading, Role, RoleReading};
use farlink_os::account;

/// Probe of processor time and memory; its state is in the accounts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resources;

impl Probe for Resources {
    fn sample(&mut self, hosts: &mut ProbedHosts<'_>, each: &mut dyn FnMut(Reading)) {
        hosts.accounts.read().into_iter().for_each(|reading| each(Reading::Role(reading)));
        // The emulator is one process, most of whose memory is packets in flight.
        let Some(usage) = hosts.emulator.and_then(|process| account::process_usage(process).ok()) else { return };
        each(Reading::Role(RoleReading {
            host: None,
            role: Role::Emulator,
            cpu_user_ns: u64::try_from(usage.cpu.as_nanos()).unwrap_or(u64::MAX),
            cpu_system_ns: 0,
            anonymous: usage.resident,
            shared: 0,
            cache: 0,
            peak: Some(usage.resident_peak),
        }));
    }

    fn begin_phase(&mut self, hosts: &mut ProbedHosts<'_>) {
        hosts.accounts.reset_peaks();
        if let Some(emulator) = hosts.emulator {
            let _ = account::reset_peak(emulator);
        }
    }
}
