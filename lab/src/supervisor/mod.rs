//! Isolation that leaves nothing behind. The supervisor, a process without threads, is PID 1 of its own process
//! namespace, refers to each host's network namespace only by a descriptor, and dies with the program that started it.
//! When it ends for any reason, the kernel ends every process below it and removes every interface.
//!
//! The program starts itself again with a hidden argument ([`run_if_asked`]). Through [`Supervisor`] it sends that
//! process [`Request`]s to set up hosts and start processes.

mod accounts;
mod client;
mod containers;
mod isolate;
mod protocol;
mod readings;
mod serve;
mod tcp;

use crate::remote;
pub use accounts::{Accounts, account_of};
pub use client::Supervisor;
pub(crate) use client::{Connection, GLANCE, read_reply, spawn};
pub(crate) use protocol::plain;
pub use protocol::{
    Addresses, CableSetup, HostLimits, HostRoute, HostSetup, HostTcp, LinkModels, LinkReport, ProcessUsage, Reply,
    Request, SignalName, SpawnSetup,
};
pub use readings::{Reading, Role, RoleReading, TcpReading};

use std::process::ExitCode;

/// Hidden argument that makes the program a supervisor.
pub const ARGUMENT: &str = "lab-supervisor";

/// Does the work of a supervisor, or of a zero-work program in a host, if this process was started as one; then returns
/// its exit status, else `None`. Call it before anything else in `main`: no thread may exist yet.
pub fn run_if_asked() -> Option<ExitCode> {
    let asked = std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT);
    asked.then(supervise).or_else(remote::run_if_asked).or_else(crate::probes::zero_work::run_if_asked)
}

fn supervise() -> ExitCode {
    let mut arguments = std::env::args_os().skip(2);
    let socket = arguments.next().and_then(|socket| socket.to_str()?.parse().ok());
    let there = socket.zip(arguments.next()).map(|(socket, root)| isolate::There { socket, root: root.into() });
    match isolate::become_supervisor(there) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            protocol::say(&Reply::Failed { reason: error.to_string() });
            ExitCode::FAILURE
        }
    }
}
