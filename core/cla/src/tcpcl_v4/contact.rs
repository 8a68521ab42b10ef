//! Start of a session: contact headers and version negotiation, TLS, SESS_INIT (RFC 9174 4.1 to 4.4).

use super::session::{ReadStep, SessionPhase, TcpclSession};
use super::wire::{self, SessionInit, term};
use super::{Config, Tls, Versions};
use crate::tcpcl_v3;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{EndpointId, Instant, PayloadReader};

impl TcpclSession {
    /// Handles an opened stream: in version 4 the active side sends its header first (RFC 9174 4.1), in version 3 both
    /// sides send theirs at once. `older`: the peer is expected to use version 3.
    // 9174-4.1-4, 9174-4.2-1
    pub fn on_opened(&mut self, now: Instant, config: &Config, older: bool) {
        let active = self.phase == SessionPhase::Connecting;
        if config.versions == Versions::Three || (active && older && config.adapts()) {
            self.begin_old(config);
        } else if active {
            wire::put_contact_header(&mut self.control, config.tls != Tls::Forbid);
        }
        if active {
            (self.phase, self.since) = (SessionPhase::Contact, now);
        }
    }

    /// Reads the contact header (RFC 9174 4.2); `None` if reading goes on.
    // 9174-4.1-5, 9174-4.2-3, 9174-6.1-11
    pub fn read_contact(&mut self, now: Instant, reader: &mut PayloadReader<'_>, config: &Config) -> Option<ReadStep> {
        let before = reader.clone();
        let mut header = [0u8; 5];
        let have = reader.remaining().min(5) as usize;
        if !reader.read_exact(&mut header[..have]) {
            return Some(ReadStep::Wait);
        }
        let magic = have.min(4);
        // 9174-4.3-1, 9174-6.1-12, 7242-4.2-1
        if header[..magic] != wire::MAGIC[..magic] {
            // SESS_TERM is not sent to a peer that speaks another protocol (RFC 9174 4.3).
            self.control.clear();
            return Some(ReadStep::Over("the contact header does not begin with `dtn!`"));
        }
        if have < 5 {
            *reader = before;
            return Some(ReadStep::Wait);
        }
        let version = header[4];
        // The passive side adapts to the active side's version.
        if self.passive && self.old.is_none() && version == tcpcl_v3::VERSION && config.adapts() {
            self.begin_old(config);
        }
        if version != self.version() {
            return Some(self.on_other_version(now, version, config));
        }
        if self.old.is_some() {
            let step = self.read_old_contact(now, reader, config);
            if matches!(step, ReadStep::Wait) {
                *reader = before;
            }
            return Some(step);
        }
        let Some(flags) = reader.read_u8() else {
            *reader = before;
            return Some(ReadStep::Wait);
        };
        // 9174-4.1-6, 9174-4.2-1
        if self.passive {
            wire::put_contact_header(&mut self.control, config.tls != Tls::Forbid);
        }
        self.agree_on_tls(now, flags & wire::CAN_TLS != 0, config)
    }
    /// Version of this session.
    fn version(&self) -> u8 {
        if self.old.is_some() { tcpcl_v3::VERSION } else { wire::VERSION }
    }
    /// Handles a contact header of a version that this session does not use.
    // 9174-4.3-3, 9174-4.3-4, 7242-6.1-5
    fn on_other_version(&mut self, now: Instant, version: u8, config: &Config) -> ReadStep {
        match (self.passive, self.old.is_some()) {
            // RFC 9174 4.3: the side with the higher version reports the mismatch.
            (true, false) => {
                wire::put_contact_header(&mut self.control, config.tls != Tls::Forbid);
                self.terminate(now, term::VERSION);
            }
            // RFC 7242 4.2 would have this side go on in its own version, but a header of version 4 has another layout.
            (true, true) => self.terminate(now, term::VERSION),
            (false, _) if config.adapts() && [tcpcl_v3::VERSION, wire::VERSION].contains(&version) => {
                return ReadStep::OtherVersion;
            }
            // RFC 7242 6.1: only wrong magic bytes close a connection without SHUTDOWN.
            (false, true) => self.terminate(now, term::VERSION),
            (false, false) => {}
        }
        match version {
            3 => ReadStep::Over("the peer speaks TCPCLv3, which this layer does not"),
            4 => ReadStep::Over("the peer speaks TCPCLv4, which this layer does not"),
            _ => ReadStep::Over("the peer speaks another version of the protocol"),
        }
    }

    /// Decides on TLS by both sides' policies (RFC 9174 4.3).
    // 9174-4.3-5
    fn agree_on_tls(&mut self, now: Instant, peer_can: bool, config: &Config) -> Option<ReadStep> {
        match (config.tls, peer_can) {
            (Tls::Forbid, _) | (Tls::Allow, false) => self.introduce(config),
            (Tls::Require, false) => {
                self.terminate(now, term::CONTACT_FAILURE);
                return Some(ReadStep::Over("the peer cannot do TLS, which this node requires"));
            }
            (Tls::Allow | Tls::Require, true) => self.phase = SessionPhase::Securing,
        }
        None
    }
    /// Rejects plaintext where the TLS handshake must begin; only an attacker on the path would send it.
    pub fn refuse_plain_bytes(&mut self) -> ReadStep {
        self.control.clear();
        ReadStep::Over("bytes in the clear where TLS begins")
    }
    /// Whether the driver must start TLS now; true only once.
    // 9174-4.4.3-1
    pub fn begins_tls(&mut self) -> bool {
        let begins = self.phase == SessionPhase::Securing && !self.tls_asked && self.is_written();
        self.tls_asked |= begins;
        begins
    }
    /// Handles a secured stream; `proven`: node IDs of the peer's certificate. Both sides introduce themselves now (RFC
    /// 9174 4.4).
    // 9174-4.4.3-10
    pub fn on_secured(&mut self, proven: Vec<String>, config: &Config) {
        if self.phase == SessionPhase::Securing && self.tls_asked {
            self.certified = proven;
            self.introduce(config);
        }
    }

    // 9174-4.6-5
    fn introduce(&mut self, config: &Config) {
        let (segment_mru, transfer_mru) = (config.segment_mru, config.transfer_mru);
        let node_id = config.node_id.clone();
        let (keepalive_s, keeps_parts) = (config.keepalive_s(), config.reactive > 0);
        let init = SessionInit { keepalive_s, segment_mru, transfer_mru, node_id, critical: false, keeps_parts };
        wire::put_init(&mut self.control, &init);
        self.phase = SessionPhase::Init;
    }

    /// Compares the claimed node ID with the peer's certificate (RFC 9174 4.4.4.3), and records the node ID that it
    /// proves; returns false if they contradict. A certificate without node IDs, or a session without TLS, proves
    /// nothing. A peer that claims no node ID gets the first one of its certificate.
    // 9174-4.4.4.3-1, 9174-4.6-3, 7242-7-1
    pub fn authenticate(&mut self, claimed: &str) -> bool {
        let found = self.certified.iter().find(|id| claimed.is_empty() || same_node(id, claimed));
        self.proven = found.cloned();
        found.is_some() || self.certified.is_empty()
    }
}

/// Whether two node IDs name the same node. They are compared by value, because an ipn number can be written in two
/// ways (RFC 9758), and by text without final slashes, because some peers omit the slash of a dtn node ID.
// 9174-4.4.1-2
pub fn same_node(a: &str, b: &str) -> bool {
    let parse = |id: &str| id.parse::<EndpointId>().ok();
    a.trim_end_matches('/') == b.trim_end_matches('/') || parse(a).is_some_and(|a| Some(a) == parse(b))
}
