//! Requests as a web page in the operator's browser can make them.

use super::{Case, Outcome, Target};
use crate::attack::wire::{connect, stranger};
use anyhow::Result;
use std::io::{Read, Write};

pub const CASE: Case = Case {
    name: "http-web-page",
    what: "Requests as a web page makes them (another Origin, another Host, a form's content type) add a route.",
    run,
};

const BODY: &str = "{\"pattern\":\"ipn:666.*\",\"next_hop\":\"ipn:2.0\"}";

/// Headers of each attempt besides the length: from a page elsewhere, from a name rebound to this machine (DNS
/// rebinding), and from a page on this machine.
const TRIES: [(&str, &str); 4] = [
    ("a page elsewhere", "Host: 127.0.0.1\r\nOrigin: http://evil.example\r\nContent-Type: application/json\r\n"),
    ("a form elsewhere", "Host: 127.0.0.1\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\n"),
    ("a name bound anew", "Host: evil.example\r\nOrigin: http://evil.example\r\nContent-Type: application/json\r\n"),
    ("a sandboxed frame", "Host: 127.0.0.1\r\nOrigin: null\r\nContent-Type: application/json\r\n"),
];

fn run(target: &Target) -> Result<Outcome> {
    let mut done = Vec::new();
    for (who, headers) in TRIES {
        let Ok(mut stream) = connect(stranger(1), target.api) else { continue };
        let length = BODY.len();
        stream.write_all(
            format!("POST /routes HTTP/1.1\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{BODY}")
                .as_bytes(),
        )?;
        let mut answer = Vec::new();
        // The connection closes after the answer, so reading to its end is bounded.
        let _ = stream.read_to_end(&mut answer);
        if answer.starts_with(b"HTTP/1.1 2") {
            done.push(who);
        }
    }
    target.hold();
    Ok(Outcome::of(format!("{} tries, {} added a route", TRIES.len(), done.len()))
        .unless(done.is_empty(), || format!("a route was added by {}", done.join(", "))))
}
