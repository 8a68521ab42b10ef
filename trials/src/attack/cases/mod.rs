//! The hostile cases: one file each, with its name and a sentence; add yours to [`CASES`].

mod aap2_half_sent;
mod aap2_keepalives;
mod aap2_other_spelling;
mod aap2_silent;
mod aap2_slow_reader;
mod announcements;
mod custody;
mod datagram_garbage;
mod endless_heads;
mod fragments;
mod http_half_open;
mod http_huge;
mod http_slow_body;
mod http_web_page;
mod liar;
mod long_heads;
mod long_lifetimes;
mod ltp_controls;
mod ltp_one_byte;
mod ltp_opens;
mod malformed;
mod many_endpoints;
mod old;
mod one_way;
mod reports;
mod tcpcl_claimed_identity;
mod tcpcl_empty_segments;
mod tcpcl_silent_connections;
mod tcpcl_silent_sessions;
mod tcpcl_stalled_readers;
mod tcpcl_unfinished;
mod tcpclv3;
mod tls;
mod udpcl;
mod waiting_small;

use super::wire::tcpcl::{Session, transfer};
use super::wire::{PATIENCE, stranger};
use anyhow::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A hostile case of the table.
pub struct Case {
    /// Name on the command line and in the table.
    pub name: &'static str,
    /// One sentence that describes the attack.
    pub what: &'static str,
    /// Attacks until [`Target::over`] and returns the outcome.
    pub run: fn(&Target) -> Result<Outcome>,
}

/// Outcome of an attack from the attacker's view.
#[derive(Default)]
pub struct Outcome {
    /// Actions of the attacker and their amounts, in words for the table.
    pub did: String,
    /// Forbidden effect that the attacker achieved, if any.
    pub broke: Option<String>,
}

impl Outcome {
    /// An outcome without a forbidden effect; bounds common to all cases (`verdict.rs`) decide whether harm was done.
    pub fn of(did: String) -> Outcome {
        Outcome { did, broke: None }
    }
    /// Records a forbidden effect unless `holds`.
    pub fn unless(mut self, holds: bool, broke: impl FnOnce() -> String) -> Outcome {
        if !holds {
            self.broke = Some(broke());
        }
        self
    }
}

/// All cases in the order of the table.
pub const CASES: &[Case] = &[
    tcpcl_unfinished::ONE,
    tcpcl_unfinished::SEVERAL,
    tcpcl_unfinished::FITTING,
    tcpcl_silent_connections::CASE,
    tcpcl_silent_sessions::CASE,
    tcpcl_empty_segments::CASE,
    tcpcl_stalled_readers::CASE,
    tcpcl_claimed_identity::CASE,
    endless_heads::TCPCL,
    endless_heads::TCPCL_FAST,
    tcpclv3::CLAIMED,
    tcpclv3::UNFINISHED,
    tcpclv3::NOISE,
    tls::HALF,
    tls::HELLOS,
    tls::GARBAGE,
    tls::STRIPPED,
    one_way::STCP_SILENT,
    one_way::STCP_GARBAGE,
    one_way::STCP_BOMBS,
    one_way::STCP_TRICKLE,
    one_way::STCP_FLOOD,
    endless_heads::STCP,
    endless_heads::STCP_FAST,
    one_way::MTCP_GARBAGE,
    one_way::MTCP_BOMBS,
    one_way::MTCP_TRICKLE,
    one_way::MTCP_NOISE,
    endless_heads::MTCP,
    udpcl::GARBAGE,
    udpcl::BUNDLES,
    udpcl::SEGMENTS,
    udpcl::SPOOFED,
    udpcl::QUESTIONS,
    udpcl::NAMES,
    ltp_one_byte::HONEST_ENGINE,
    ltp_one_byte::OTHER_ENGINES,
    ltp_opens::CASE,
    ltp_controls::CASE,
    datagram_garbage::CASE,
    waiting_small::CASE,
    long_lifetimes::CASE,
    long_heads::CASE,
    fragments::CASE,
    many_endpoints::CASE,
    reports::CASE,
    malformed::CASE,
    old::MALFORMED,
    old::FRAGMENTS,
    old::LONG_HEADS,
    aap2_keepalives::CASE,
    aap2_half_sent::CASE,
    aap2_silent::CASE,
    aap2_other_spelling::CASE,
    aap2_slow_reader::CASE,
    http_half_open::CASE,
    http_huge::CASE,
    http_slow_body::CASE,
    http_web_page::CASE,
    liar::CASE,
    custody::SIGNALS,
    custody::REPORTS,
    announcements::CASE,
];

/// Addresses of the node under attack, and the time of the attack.
#[derive(Clone)]
pub struct Target {
    /// Listener for TCPCLv4 sessions.
    pub tcpcl: SocketAddr,
    /// Listener for LTP segments.
    pub ltp: SocketAddr,
    /// Listener for TCPCLv4 sessions with TLS.
    pub tls: SocketAddr,
    /// Listener for TCPCLv3 sessions.
    pub old: SocketAddr,
    /// Listener for STCP streams.
    pub stcp: SocketAddr,
    /// Listener for MTCP streams.
    pub mtcp: SocketAddr,
    /// Listener for UDPCL datagrams.
    pub udpcl: SocketAddr,
    /// Listener for announcements; used by the case about them only.
    pub announcements: SocketAddr,
    /// Listener of the control interface (HTTP).
    pub api: SocketAddr,
    /// Socket of the node's applications.
    pub applications: PathBuf,
    /// Socket of the applications of the node's neighbour over TCPCLv4.
    pub neighbours_applications: PathBuf,
    /// Start of the attack.
    pub begun: Instant,
    /// Duration of the attack.
    pub lasts: Duration,
}

impl Target {
    /// Whether the attack's time is up.
    pub fn over(&self) -> bool {
        self.begun.elapsed() >= self.lasts
    }
    /// End of the attack.
    pub fn end(&self) -> Instant {
        self.begun + self.lasts
    }
    /// Waits until the end of the attack; the caller keeps its sockets open meanwhile.
    pub fn hold(&self) {
        std::thread::sleep(self.end().saturating_duration_since(Instant::now()));
    }
    /// Numbers 0.. of `total`, spread evenly over the attack's time.
    pub fn paced(&self, total: u64) -> impl Iterator<Item = u64> + '_ {
        (0..total).take_while(move |number| {
            // The clock is read once per stride; a stride lasts two milliseconds or more.
            let stride = (total / (self.lasts.as_millis() as u64 / 2).max(1)).max(1);
            if number % stride == 0 {
                let due = self.begun + self.lasts.mul_f64(*number as f64 / total as f64);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            !self.over()
        })
    }
    /// Offers up to `total` bundles as an unknown neighbour: see [`Target::offer_from`].
    pub fn offer(&self, total: u64, bundle: impl FnMut(u64) -> Vec<u8>) -> (u64, u64) {
        self.offer_from(stranger(1), total, bundle)
    }
    /// Offers up to `total` bundles from `from`, evenly over the attack's time, reopening sessions that the node ends.
    /// Returns the bundles and bytes sent.
    pub fn offer_from(&self, from: Ipv4Addr, total: u64, mut bundle: impl FnMut(u64) -> Vec<u8>) -> (u64, u64) {
        let (mut session, mut transfers, mut sent) = (None, 0, (0, 0));
        for number in self.paced(total) {
            if session.is_none() {
                transfers = 0;
                session = Session::open(from, self.tcpcl, "ipn:66.0").ok();
            }
            let Some(open) = &mut session else {
                // A refused session is not retried at once: that would be another attack.
                std::thread::sleep(PATIENCE / 10);
                continue;
            };
            let bytes = transfer(transfers, &bundle(number));
            transfers += 1;
            if open.push(&bytes, self.end()) {
                sent = (sent.0 + 1, sent.1 + bytes.len() as u64);
            } else {
                // The node ended the session; transfer numbers start over with the next one.
                session = None;
            }
        }
        self.hold();
        sent
    }
}

/// Opens up to `total` connections one after the other; returns those that the node accepted.
pub fn open_many<T>(target: &Target, total: u64, mut open: impl FnMut(u64) -> std::io::Result<T>) -> Vec<T> {
    let mut opened = Vec::new();
    for number in 0..total {
        if target.over() {
            break;
        }
        opened.extend(open(number).ok());
    }
    opened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_names_are_unique() {
        for (at, case) in CASES.iter().enumerate() {
            assert!(case.what.ends_with('.'), "{}", case.name);
            assert!(CASES[..at].iter().all(|other| other.name != case.name), "{}", case.name);
        }
    }
}
