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

/// A hostile case.
pub struct Case {
    /// Its name on the command line and in the table.
    pub name: &'static str,
    /// A sentence: what the attacker does.
    pub what: &'static str,
    /// Does it until [`Target::over`]; gives what the attacker got.
    pub run: fn(&Target) -> Result<Outcome>,
}

/// What an attacker got.
#[derive(Default)]
pub struct Outcome {
    /// How much of the attack happened, for the table.
    pub did: String,
    /// What must not succeed and did.
    pub broke: Option<String>,
}

impl Outcome {
    /// So much happened, and the marks that every case has say whether it did harm.
    pub fn of(did: String) -> Outcome {
        Outcome { did, broke: None }
    }
    /// Adds what broke, where it did.
    pub fn unless(mut self, holds: bool, broke: impl FnOnce() -> String) -> Outcome {
        if !holds {
            self.broke = Some(broke());
        }
        self
    }
}

/// Every case, in the order of the table.
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

/// The node as an attacker sees it.
#[derive(Clone)]
pub struct Target {
    /// Where it takes TCPCLv4 sessions.
    pub tcpcl: SocketAddr,
    /// Where it takes LTP segments.
    pub ltp: SocketAddr,
    /// Where it takes TCPCLv4 sessions that are secured.
    pub tls: SocketAddr,
    /// Its address for TCPCLv3 sessions.
    pub old: SocketAddr,
    /// Where it takes STCP.
    pub stcp: SocketAddr,
    /// Where it takes MTCP.
    pub mtcp: SocketAddr,
    /// Where it takes datagrams of UDPCL.
    pub udpcl: SocketAddr,
    /// Its address for announcements, in the case about them.
    pub announcements: SocketAddr,
    /// Where it takes HTTP.
    pub api: SocketAddr,
    /// Where its applications attach.
    pub applications: PathBuf,
    /// Where applications of the neighbour over TCPCLv4 attach.
    pub neighbours_applications: PathBuf,
    /// When the attack began.
    pub begun: Instant,
    /// How long it takes.
    pub lasts: Duration,
}

impl Target {
    /// Whether the attack's time is up.
    pub fn over(&self) -> bool {
        self.begun.elapsed() >= self.lasts
    }
    /// When it is up.
    pub fn end(&self) -> Instant {
        self.begun + self.lasts
    }
    /// Waits until it is up, with whatever is held open.
    pub fn hold(&self) {
        std::thread::sleep(self.end().saturating_duration_since(Instant::now()));
    }
    /// Numbers 0.. of `total`, spread evenly over the attack's time.
    pub fn paced(&self, total: u64) -> impl Iterator<Item = u64> + '_ {
        (0..total).take_while(move |number| {
            // Looking at the clock and sleeping in strides: a stride is two milliseconds at least.
            let stride = (total / (self.lasts.as_millis() as u64 / 2).max(1)).max(1);
            if number % stride == 0 {
                let due = self.begun + self.lasts.mul_f64(*number as f64 / total as f64);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            !self.over()
        })
    }
    /// Offers up to `total` bundles as a neighbour that nobody knows: see [`Target::offer_from`].
    pub fn offer(&self, total: u64, bundle: impl FnMut(u64) -> Vec<u8>) -> (u64, u64) {
        self.offer_from(stranger(1), total, bundle)
    }
    /// Offers up to `total` bundles from this address, evenly over the attack's time; a session
    /// that the node ends is opened again. Gives how many bundles and bytes left.
    pub fn offer_from(&self, from: Ipv4Addr, total: u64, mut bundle: impl FnMut(u64) -> Vec<u8>) -> (u64, u64) {
        let (mut session, mut transfers, mut sent) = (None, 0, (0, 0));
        for number in self.paced(total) {
            if session.is_none() {
                transfers = 0;
                session = Session::open(from, self.tcpcl, "ipn:66.0").ok();
            }
            let Some(open) = &mut session else {
                std::thread::sleep(PATIENCE / 10);
                continue;
            };
            let bytes = transfer(transfers, &bundle(number));
            transfers += 1;
            if open.push(&bytes, self.end()) {
                sent = (sent.0 + 1, sent.1 + bytes.len() as u64);
            } else {
                session = None;
            }
        }
        self.hold();
        sent
    }
}

/// Several of something, opened one after the other as far as the node lets them; what was opened.
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
