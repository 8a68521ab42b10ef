//! The smallest HTTP client that can ask a node's control API.

use anyhow::{Context, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// An answer: status code and body.
pub type Answer = (u16, String);

/// Asks `url` (`http://host:port/...`, or `host:port` meaning the root) with a method and a body.
///
/// # Errors
/// When nobody answers there, or not in HTTP.
pub fn request(method: &str, url: &str, path: &str, body: &str) -> anyhow::Result<Answer> {
    let host = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    if host.is_empty() || host.contains('/') {
        bail!("`{url}` is not the address of a control API\nhint: write e.g. http://127.0.0.1:4280");
    }
    let mut socket = TcpStream::connect(host).map_err(|why| {
        anyhow::anyhow!(
            "no control API answers at {url}: {why}\n\
             hint: is the node running, and does its file have `[api] listen`? --at names the address"
        )
    })?;
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(
        socket,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    read_answer(&mut BufReader::new(socket))
}

fn read_answer(reader: &mut impl BufRead) -> anyhow::Result<Answer> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let code = line.split_whitespace().nth(1).and_then(|code| code.parse().ok()).context("not an HTTP answer")?;
    let mut length = None;
    let mut chunked = false;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse::<u64>().ok(),
            "transfer-encoding" => chunked = value.trim().eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    let mut body = Vec::new();
    if chunked {
        read_chunks(reader, &mut body)?;
    } else {
        reader.take(length.unwrap_or(u64::MAX)).read_to_end(&mut body)?;
    }
    Ok((code, String::from_utf8_lossy(&body).into_owned()))
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> anyhow::Result<()> {
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim(), 16).context("a chunk without a length")?;
        reader.take(length).read_to_end(body)?;
        reader.read_line(&mut line)?;
        if length == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_whole_and_in_chunks() {
        let plain = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno more";
        assert_eq!(read_answer(&mut &plain[..]).unwrap(), (404, "no".into()));
        let chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(read_answer(&mut &chunks[..]).unwrap(), (200, "abcde".into()));
        assert!(read_answer(&mut &b"SSH-2.0\r\n"[..]).is_err());
    }

    #[test]
    fn a_wrong_address_says_what_to_write() {
        assert!(request("GET", "ftp://x/y", "/", "").unwrap_err().to_string().contains("hint:"));
    }
}
