//! Isolation that leaves nothing behind: a process without threads that is PID 1 of its own process
//! namespace, holds every host's network namespace by a descriptor only, and dies with the program
//! that wanted it. When it ends, however it ends, the kernel ends every process below it and frees
//! every interface.
//!
//! The program starts itself again with a hidden argument ([`run_if_asked`]), speaks to it through
//! [`Supervisor`], and tells it in [`Request`]s what to set up and to start.

mod client;
mod isolate;
mod protocol;
mod serve;
mod tcp;

pub use client::Supervisor;
pub use protocol::{
    Addresses, CableSetup, HostTcp, LinkReport, Links, ProcessUsage, Reply, Request, SignalName, SpawnSetup,
};

use std::process::ExitCode;

/// The hidden argument.
pub const ARGUMENT: &str = "lab-supervisor";

/// Does the supervisor's work when this process was started for it. Call it before anything else in
/// `main`: no thread may exist yet.
pub fn run_if_asked() -> Option<ExitCode> {
    let asked = std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT);
    asked.then(|| match isolate::become_supervisor() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            protocol::say(&Reply::Failed { reason: error.to_string() });
            ExitCode::FAILURE
        }
    })
}
