//! Accounts of the hosts' programs, by role: control groups if they can be created, else environment marks and `/proc`.

use super::protocol::{HostLimits, HostSetup};
use super::readings::{Role, RoleReading};
use farlink_os::cgroup::{self, ControlGroup, GroupName, Hierarchies, Needs};
use farlink_os::members::{self, Members};
use farlink_os::process::EndedChild;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Roles that programs of a host may have.
const ROLES: [Role; 2] = [Role::Implementation, Role::Application];

/// Number of the account of a role at a host; programs carry it in the environment variable [`members::MARK`].
pub fn account_of(host: usize, role: Role) -> u32 {
    (host * ROLES.len()) as u32 + u32::from(role == Role::Application)
}

/// Accounts of all hosts, one for each role.
#[derive(Debug)]
pub struct Accounts {
    name: GroupName,
    way: Way,
    hosts: usize,
}

#[derive(Debug)]
enum Way {
    /// Control groups: one for each host, and below it one for each role.
    Groups {
        hosts: Vec<ControlGroup>,
        roles: Vec<[ControlGroup; 2]>,
    },
    Marks(Members),
}

impl Accounts {
    /// Creates the accounts; the second value is the reason for which there are no control groups, `None` if there are.
    ///
    /// # Errors
    /// If a host has a limit of quota or memory that cannot be kept.
    pub fn new(
        name: GroupName,
        hierarchies: &Hierarchies,
        hosts: &[HostSetup],
    ) -> io::Result<(Accounts, Option<String>)> {
        // Limits of hosts of other machines are those machines' task.
        let own = || hosts.iter().filter(|host| !host.elsewhere);
        let any = |limited: fn(&HostSetup) -> bool| own().any(limited);
        let needs = Needs {
            quota: any(|host| host.limits.quota.is_some()),
            // Optional: without this controller only affinity restricts processors, which a program may change.
            cpus: any(|host| !host.limits.cpus.is_empty()),
            memory: any(|host| host.limits.memory.is_some()),
        };
        let made = Way::groups(name, hierarchies, hosts, needs).or_else(|_| {
            cgroup::remove(hierarchies, name);
            Way::groups(name, hierarchies, hosts, Needs { cpus: false, ..needs })
        });
        let limited = own().find(|host| host.limits.quota.is_some() || host.limits.memory.is_some());
        match (made, limited) {
            (Ok(way), _) => Ok((Accounts { name, way, hosts: hosts.len() }, None)),
            (Err(error), Some(host)) => {
                cgroup::remove(hierarchies, name);
                let text = format!(
                    "the limits of host `{}` need control groups: {error}\nhint: run as root, or within `systemd-run \
                     --user --scope -p Delegate=yes`; `farlink doctor` shows what there is",
                    host.name
                );
                Err(io::Error::new(error.kind(), text))
            }
            (Err(error), None) => {
                cgroup::remove(hierarchies, name);
                let way = Way::Marks(Members::default());
                Ok((Accounts { name, way, hosts: hosts.len() }, Some(error.to_string())))
            }
        }
    }

    /// Whether a host's programs may have real-time threads.
    pub fn allows_real_time(&self, host: usize) -> bool {
        match &self.way {
            Way::Groups { hosts, .. } => !hosts[host].forbids_real_time(),
            Way::Marks(_) => true,
        }
    }

    /// Environment variables that mark a program of this account.
    pub fn marks(&self, host: usize, role: Role) -> [(&'static str, String); 2] {
        [(cgroup::MARK, self.name.to_string()), (members::MARK, account_of(host, role).to_string())]
    }

    /// Open files through which a program enters the account's control groups; empty without groups.
    ///
    /// # Errors
    /// If they cannot be opened.
    pub fn entrances(&self, host: usize, role: Role) -> io::Result<Vec<OwnedFd>> {
        match &self.way {
            Way::Groups { roles, .. } => roles[host][usize::from(role == Role::Application)].entrances(),
            Way::Marks(_) => Ok(Vec::new()),
        }
    }

    /// Records a program that was started in an account.
    pub fn started(&mut self, process: u32, host: usize, role: Role) {
        if let Way::Marks(members) = &mut self.way {
            members.started(process, account_of(host, role));
        }
    }

    /// Adds the processor time of a process that has ended, orphans included.
    pub fn ended(&mut self, ended: &EndedChild) {
        if let Way::Marks(members) = &mut self.way {
            members.ended(ended.process, ended.cpu_user, ended.cpu_system);
        }
    }

    /// Reads all accounts that have used processor time.
    pub fn read(&mut self) -> Vec<RoleReading> {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut readings = Vec::new();
        match &mut self.way {
            Way::Groups { roles, .. } => {
                for (host, groups) in roles.iter_mut().enumerate() {
                    for (group, role) in groups.iter_mut().zip(ROLES) {
                        let usage = group.usage();
                        readings.push(RoleReading {
                            host: Some(host),
                            role,
                            cpu_user_ns: ns(usage.cpu_user),
                            cpu_system_ns: ns(usage.cpu_system),
                            anonymous: usage.anonymous.unwrap_or(0),
                            shared: usage.shared.unwrap_or(0),
                            cache: usage.cache.unwrap_or(0),
                            peak: usage.memory_peak,
                        });
                    }
                }
            }
            Way::Marks(members) => {
                let usages = members.scan().unwrap_or_default();
                for (host, role) in (0..self.hosts).flat_map(|host| ROLES.map(|role| (host, role))) {
                    let Some(usage) = usages.get(&account_of(host, role)) else { continue };
                    readings.push(RoleReading {
                        host: Some(host),
                        role,
                        cpu_user_ns: ns(usage.cpu_user),
                        cpu_system_ns: ns(usage.cpu_system),
                        anonymous: usage.anonymous,
                        shared: usage.shared,
                        cache: usage.files,
                        peak: Some(usage.peak),
                    });
                }
            }
        }
        readings.retain(|reading| reading.cpu_user_ns + reading.cpu_system_ns > 0);
        readings
    }

    /// Resets the memory peaks of all accounts.
    pub fn reset_peaks(&mut self) {
        match &mut self.way {
            // If the kernel cannot reset a peak, peaks of the samples take its place.
            Way::Groups { roles, .. } => roles.iter_mut().flatten().for_each(|group| drop(group.reset_peak())),
            Way::Marks(members) => members.reset_peaks(),
        }
    }

    /// Number of processes of each host that the kernel killed because the host reached its memory limit.
    pub fn killed_for_memory(&self) -> Vec<u64> {
        match &self.way {
            Way::Groups { hosts, roles } => {
                let all = |(host, roles): (&ControlGroup, &[ControlGroup; 2])| {
                    // Version 1 counts in the group of the process, version 2 in the group with the limit and those
                    // above.
                    roles.iter().map(ControlGroup::killed_for_memory).sum::<u64>().max(host.killed_for_memory())
                };
                hosts.iter().zip(roles).map(all).collect()
            }
            Way::Marks(_) => vec![0; self.hosts],
        }
    }
}

impl Way {
    fn groups(name: GroupName, hierarchies: &Hierarchies, hosts: &[HostSetup], needs: Needs) -> io::Result<Way> {
        let top = ControlGroup::create(hierarchies, name, needs)?;
        let (mut groups, mut roles) = (Vec::new(), Vec::new());
        for (index, host) in hosts.iter().enumerate() {
            // Hosts of other machines have a group in their place, so that all machines number hosts alike.
            let none = HostLimits::default();
            let limits = if host.elsewhere { &none } else { &host.limits };
            // The number keeps names of hosts distinct from the kernel's files.
            let quota = limits.quota.is_some();
            let group = top.child(&format!("{index}-{}", host.name), quota)?;
            limits.quota.map_or(Ok(()), |quota| group.set_quota(quota))?;
            limits.memory.map_or(Ok(()), |bytes| group.set_memory(bytes))?;
            if needs.cpus && !limits.cpus.is_empty() {
                group.set_cpus(&limits.cpus)?;
            }
            let [implementation, application] = ROLES.map(|role| group.child(role.word(), quota));
            roles.push([implementation?, application?]);
            groups.push(group);
        }
        Ok(Way::Groups { hosts: groups, roles })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_elsewhere_need_no_groups_here() {
        let limits = HostLimits { memory: Some(1 << 30), ..HostLimits::default() };
        let host =
            |elsewhere| HostSetup { name: "b".into(), limits: limits.clone(), elsewhere, ..HostSetup::default() };
        let none = Hierarchies::default();
        let accounts = |elsewhere| Accounts::new(GroupName::of_self().unwrap(), &none, &[host(elsewhere)]);
        let (_, no_groups) = accounts(true).unwrap();
        assert!(no_groups.is_some());
        let why = accounts(false).unwrap_err().to_string();
        assert!(why.starts_with("the limits of host `b` need control groups") && why.contains("\nhint: "), "{why}");
    }
}
