//! Replies from machines reached by SSH, and their clocks.

use super::outcome::ProcessRecord;
use super::session::LabSession;
use crate::supervisor::{Reading, Reply, Role, RoleReading};
use anyhow::{Result, bail};
use farlink_base::DtnTime;

/// Most frames that a machine may call lost: more than any run has, and few enough to be added up.
const FRAMES_MAX: u64 = 1 << 40;

/// Whether the values of a reading can be added up: none works for 70 years or holds 2 EiB.
fn is_plausible(reading: &RoleReading) -> bool {
    let RoleReading { cpu_user_ns, cpu_system_ns, anonymous, shared, cache, peak, .. } = *reading;
    [cpu_user_ns, cpu_system_ns, anonymous, shared, cache, peak.unwrap_or(0)].into_iter().all(|value| value < 1 << 61)
}

impl LabSession<'_> {
    /// Start of the run on the monotonic clock (ns) of a node's machine.
    pub fn start_at(&self, node: usize) -> u64 {
        self.start_ns.saturating_add_signed(self.crew.ahead_at(node)[0])
    }

    /// Start of the run on the wall clock of a node's machine.
    pub fn epoch_at(&self, node: usize) -> DtnTime {
        let ahead_ms = self.crew.ahead_at(node)[1].div_euclid(1_000_000);
        if ahead_ms == 0 {
            return self.epoch;
        }
        DtnTime::from_unix_ms(self.epoch.as_unix_ms().saturating_add_signed(ahead_ms))
    }

    /// Processes a reply of the supervisor on another machine.
    pub fn note_there(&mut self, machine: usize, reply: Reply) -> Result<()> {
        let here = |at_ns: u64| at_ns.saturating_add_signed(-self.crew.ahead(machine)[0]);
        match reply {
            Reply::Read { at_ns, mut readings } => {
                let time_ns = here(at_ns).checked_sub(self.start_ns);
                readings.retain(|reading| {
                    let host = match reading {
                        // The relay is no host's.
                        Reading::Role(role) => role.host.filter(|_| is_plausible(role)),
                        Reading::Tcp(tcp) => Some(tcp.host),
                        Reading::Store { host, .. } => Some(*host),
                    };
                    host.is_some_and(|host| self.crew.has(Some(machine), host))
                });
                self.usages.note(Some(machine), time_ns, &readings, &mut self.samples);
            }
            Reply::Waited { id, at_ns, waits } => {
                let counts = here(at_ns) >= self.start_ns;
                let own = counts && self.crew.has(Some(machine), id as usize);
                if let Some(own) = self.waits.get_mut(id as usize).filter(|_| own) {
                    waits.iter().for_each(|[ns, times]| own.add_many(*ns, *times));
                }
            }
            Reply::Phase { dropped, .. } => self.samples_dropped = self.samples_dropped.max(dropped),
            Reply::Exited { id, code, signal, usage, .. } => {
                let node = self.processes.iter().find(|process| process.id == id).map(|process| process.node);
                // No other machine's process, nor one of this machine.
                if node.is_some_and(|node| self.crew.has(Some(machine), node)) {
                    return self.note_exit(id, code, signal, usage);
                }
            }
            Reply::Relayed { mut lost } => {
                lost.retain(|(tunnel, _)| {
                    let link = self.scenario.links.get(usize::from(tunnel / 2));
                    link.is_some_and(|link| self.crew.has(Some(machine), link.between[usize::from(tunnel % 2)]))
                });
                // What arrives at the first end of a link is the reverse direction.
                let of = |(tunnel, lost): (u16, u64)| {
                    (usize::from(tunnel / 2), usize::from(tunnel % 2 == 0), lost.min(FRAMES_MAX))
                };
                self.lost_in_tunnels.extend(lost.into_iter().map(of));
            }
            Reply::EmulatorEnded { usage, killed_for_memory, .. } => {
                let killed = self.scenario.nodes.iter().zip(killed_for_memory).enumerate();
                for (_, (node, killed)) in killed.filter(|(host, (_, n))| *n > 0 && self.crew.has(Some(machine), *host))
                {
                    let text = format!("Node {}: {killed} processes were killed at its memory limit.", node.name);
                    self.remarks.disturbances.push(text);
                }
                let name = format!("relay at {}", self.crew.name(machine));
                self.records.push(ProcessRecord { node: None, name, role: Role::Emulator, usage });
                if !self.stopping {
                    bail!("the relay at machine {} ended by itself", self.crew.name(machine));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_readings_are_left_out() {
        let reading = RoleReading {
            host: Some(1),
            role: Role::Implementation,
            cpu_user_ns: 9,
            cpu_system_ns: 8,
            anonymous: 7,
            shared: 6,
            cache: 5,
            peak: None,
        };
        assert!(is_plausible(&reading));
        assert!(!is_plausible(&RoleReading { cpu_system_ns: u64::MAX, ..reading }));
        assert!(!is_plausible(&RoleReading { peak: Some(u64::MAX), ..reading }));
    }
}
