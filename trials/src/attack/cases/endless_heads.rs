//! Thousands of bundles at once whose heads never end.

use super::{Case, Outcome, Target, open_many};
use crate::attack::wire::bundle::{Bundle, put};
use crate::attack::wire::ltp::put_sdnv;
use crate::attack::wire::tcpcl::{CONTACT, START, segment_head, sess_init};
use crate::attack::wire::{connect, discard, one_of_many, stranger};
use anyhow::Result;
use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Over STCP.
pub const STCP: Case = Case {
    name: "stcp-endless-heads",
    what: "3,000 streams that stay open, each with 64 kB of a bundle's head (an unknown block, the name of a source, or a \
           dictionary, of a gigabyte) and then a byte of it at a time.",
    run: |target| run(target, target.stcp, &Framing { begin: stcp, more: |_| Vec::new() }, &MANY),
};
/// Over STCP, fast.
pub const STCP_FAST: Case = Case {
    name: "stcp-fast-endless-heads",
    what: "600 streams from as many addresses, whose heads never end and come as fast as the node reads.",
    run: |target| run(target, target.stcp, &Framing { begin: stcp, more: |_| Vec::new() }, &FAST),
};
/// Over MTCP.
pub const MTCP: Case = Case {
    name: "mtcp-endless-heads",
    what: "The same over MTCP.",
    run: |target| run(target, target.mtcp, &Framing { begin: mtcp, more: |_| Vec::new() }, &MANY),
};
/// Over TCPCLv4.
pub const TCPCL: Case = Case {
    name: "tcpcl-endless-heads",
    what: "The same in the transfers of 3,000 sessions of TCPCLv4.",
    run: |target| {
        run(target, target.tcpcl, &Framing { begin: tcpcl, more: |len| segment_head(0, 0, None, len) }, &MANY)
    },
};
/// Over TCPCLv4, fast.
pub const TCPCL_FAST: Case = Case {
    name: "tcpcl-fast-endless-heads",
    what: "600 sessions of TCPCLv4 from as many addresses, whose heads never end and come as fast as the node reads.",
    run: |target| {
        run(target, target.tcpcl, &Framing { begin: tcpcl, more: |len| segment_head(0, 0, None, len) }, &FAST)
    },
};

/// Streams of a case.
struct Crowd {
    streams: u64,
    from: fn(u64) -> Ipv4Addr,
    /// Bytes sent at a time behind the first.
    piece: usize,
    /// Between two times that all sent.
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
    from: |number| one_of_many(number as u16 + 256),
    piece: 64_000,
    pause: Duration::from_millis(1),
};
/// Bytes of a head that come at once.
const AT_ONCE: usize = 64_000;
/// Length that the head gives of itself or of its bundle.
const WHOLE: u64 = 1_000_000_000;

/// Way in which bytes of a bundle come.
struct Framing {
    /// Before the first, of which there are so many.
    begin: fn(u64) -> Vec<u8>,
    /// Before so many more.
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

/// Heads of three kinds: a long block, a long name in the primary block, and the dictionary of a bundle of version 6.
fn heads() -> [Vec<u8>; 3] {
    let mut block = Bundle::new("ipn:1.22", 1).primary();
    block.extend([0x85, 24, 200, 2, 0, 0]);
    put(&mut block, 2, WHOLE);
    let mut name = vec![0x9f, 0x89, 7, 0, 2, 0x82, 2, 0x82, 1, 22, 0x82, 1];
    put(&mut name, 3, WHOLE);
    let mut dictionary = vec![6, 0x81, 0x10];
    put_sdnv(&mut dictionary, WHOLE);
    [0, 4, 8, 12, 8, 12, 8, 12, 1, 1, 3600, WHOLE - 100].into_iter().for_each(|value| put_sdnv(&mut dictionary, value));
    [block, name, dictionary].map(|mut head| {
        head.resize(AT_ONCE, b'x');
        head
    })
}

fn run(target: &Target, at: SocketAddr, framing: &Framing, crowd: &Crowd) -> Result<Outcome> {
    let first = heads().map(|head| [(framing.begin)(head.len() as u64), head].concat());
    let more = [(framing.more)(crowd.piece as u64), vec![b'x'; crowd.piece]].concat();
    let mut opened = open_many(target, crowd.streams, |number| {
        let stream = connect((crowd.from)(number), at)?;
        stream.set_nonblocking(true)?;
        let mut head = Sending { stream, kind: number as usize % 3, sent: 0, open: true };
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

/// A head on its way.
struct Sending {
    stream: TcpStream,
    kind: usize,
    sent: usize,
    open: bool,
}
impl Sending {
    /// As much of what comes first as goes, then of what comes behind it.
    fn send(&mut self, first: &[Vec<u8>; 3], more: &[u8]) {
        let first = &first[self.kind];
        let next = match first.get(self.sent..) {
            Some(rest) if !rest.is_empty() => rest,
            // One that was cut goes on where it was.
            _ => &more[(self.sent - first.len()) % more.len()..],
        };
        if !self.open {
            return;
        }
        match self.stream.write(next) {
            Ok(sent) => self.sent += sent,
            Err(why) => self.open = why.kind() == ErrorKind::WouldBlock,
        }
        // Answers are not what it waits for, and must not keep the node from reading.
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
