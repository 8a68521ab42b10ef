//! Client of a node's control API, with one connection per request, over a Unix socket or TCP.

use crate::BadInput;
use anyhow::{anyhow, bail};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use ureq::Agent;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};

/// Status code and body of a response.
pub type HttpResponse = (u16, String);

/// Longest wait for the connection, and for the node's response.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a request to the node at `at`: the path of a Unix socket, `http://host:port` or `host:port`.
///
/// # Errors
/// If nothing answers there, or the peer does not speak HTTP.
pub fn request(method: &str, at: &str, path: &str, body: &str) -> anyhow::Result<HttpResponse> {
    request_with(method, at, None, path, body)
}

/// Sends a request with a bearer token, which nodes require over TCP.
///
/// # Errors
/// If nothing answers there, or the peer does not speak HTTP.
pub fn request_with(
    method: &str,
    at: &str,
    token: Option<&str>,
    path: &str,
    body: &str,
) -> anyhow::Result<HttpResponse> {
    crate::client::check_port(at.strip_prefix("http://").unwrap_or(at).trim_end_matches('/'))
        .map_err(|why| BadInput(format!("{at}: {why}")))?;
    if !["GET", "POST", "PUT", "DELETE"].contains(&method) {
        bail!("the control API has no method {method}\nhint: GET, POST, PUT or DELETE");
    }
    let (agent, host) = match tcp_host(at) {
        Some(host) if host.is_empty() || host.contains('/') => {
            let hint = "write a socket's path or http://127.0.0.1:4280";
            bail!(BadInput(format!("`{at}` is not the address of a control API\nhint: {hint}")))
        }
        Some(host) => (Agent::new_with_config(config()), host),
        // The host only fills the `Host` header: no name is resolved.
        None => (Agent::with_parts(config(), UnixConnector(at.into()), DefaultResolver::default()), "127.0.0.1"),
    };
    let place = format!("http://{host}{path}");
    let bearer = token.map(|token| format!("Bearer {token}"));
    let with_body = |mut request: ureq::RequestBuilder<ureq::typestate::WithBody>| {
        if let Some(bearer) = &bearer {
            request = request.header("Authorization", bearer);
        }
        request.send(body)
    };
    let attempt = || match method {
        "GET" => {
            let mut request = agent.get(&place);
            if let Some(bearer) = &bearer {
                request = request.header("Authorization", bearer);
            }
            request.call()
        }
        "POST" => with_body(agent.post(&place)),
        "PUT" => with_body(agent.put(&place)),
        // DELETE; the body names the entries to remove.
        _ => with_body(agent.delete(&place).force_send_body()),
    };
    // A request without a connection has not been sent, and may be sent again.
    let sent = crate::while_starting(|| match attempt() {
        Err(ureq::Error::Io(why)) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            Err(why)
        }
        Err(ureq::Error::ConnectionFailed) => Err(ErrorKind::ConnectionRefused.into()),
        other => Ok(other),
    });
    let sent = sent.map_err(ureq::Error::Io).flatten();
    // No limit on the body: lists of a large store exceed the default.
    let mut answer = sent.map_err(|why| unanswered(at, &why))?;
    let body = answer.body_mut().with_config().limit(u64::MAX).lossy_utf8(true).read_to_string();
    Ok((answer.status().as_u16(), body.map_err(|why| unanswered(at, &why))?))
}

/// Host and port if `at` is a network address; empty if it is a URL of another scheme; `None` if it is a path.
fn tcp_host(at: &str) -> Option<&str> {
    if let Some((_, rest)) = at.split_once("://") {
        return Some(if at.starts_with("http://") { rest.trim_end_matches('/') } else { "" });
    }
    let port = at.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    (port && !at.contains('/')).then_some(at)
}

/// Client configuration: error statuses are responses, and the environment's proxy is not used.
fn config() -> ureq::config::Config {
    // A node never redirects, so a redirection comes from another server.
    let config = Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0);
    config.timeout_connect(Some(PATIENCE)).timeout_recv_response(Some(PATIENCE)).build()
}

fn unanswered(at: &str, why: &ureq::Error) -> anyhow::Error {
    match why {
        ureq::Error::BadUri(_) => {
            anyhow!(
                "{at} is not an address\nhint: --at names the node's control socket, or http://HOST:PORT of its `[api] listen`"
            )
        }
        ureq::Error::Protocol(_) | ureq::Error::Http(_) => elsewhere(at),
        ureq::Error::Io(why) if silent(why.kind()) => elsewhere(at),
        ureq::Error::Io(why) if why.kind() == ErrorKind::PermissionDenied => {
            anyhow!("{at}: {why}\nhint: only its owner may use a control socket: run as the node's user")
        }
        ureq::Error::Io(why) => nobody(at, why),
        _ => nobody(at, why),
    }
}

/// Whether the error means that the connection was closed without a response.
fn silent(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

fn elsewhere(at: &str) -> anyhow::Error {
    anyhow!(
        "{at} does not answer in HTTP: it is not a control API\n\
         hint: --at names the node's control socket (NAME.control.sock beside its file) or its `[api] listen`; not the \
         application socket (NAME.sock), and not a port of its links"
    )
}

fn nobody(at: &str, why: &dyn std::fmt::Display) -> anyhow::Error {
    anyhow!(
        "no control API answers at {at}: {why}\n\
         hint: is the node running? --at names its control socket (NAME.control.sock beside its file), or its `[api] \
         listen`"
    )
}

/// Connector to a Unix socket, whatever the host of the URL.
#[derive(Debug)]
struct UnixConnector(PathBuf);
impl Connector for UnixConnector {
    type Out = UnixTransport;
    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<UnixTransport>, ureq::Error> {
        let stream = UnixStream::connect(&self.0)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(UnixTransport { stream, buffers }))
    }
}

#[derive(Debug)]
struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}
impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }
    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), ureq::Error> {
        Ok(self.stream.write_all(&self.buffers.output()[..amount])?)
    }
    fn await_input(&mut self, _: NextTimeout) -> Result<bool, ureq::Error> {
        let read = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(read);
        Ok(read > 0)
    }
    fn is_open(&mut self) -> bool {
        // Connections are not reused: each request opens one.
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// Answers one request, which ends with `end`, with these bytes; returns the address, and a thread that returns the
    /// request.
    fn server(end: &'static str, answer: &'static [u8]) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let thread = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut got = Vec::new();
            let mut buffer = [0; 1024];
            while !got.ends_with(end.as_bytes()) {
                let n = socket.read(&mut buffer).unwrap();
                got.extend_from_slice(&buffer[..n]);
            }
            socket.write_all(answer).unwrap();
            String::from_utf8(got).unwrap()
        });
        (address, thread)
    }

    #[test]
    fn plain_and_chunked_answers_are_read() {
        let (at, _) = server("\r\n\r\n", b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno");
        assert_eq!(request("GET", &at, "/status", "").unwrap(), (404, "no".into()));
        let (at, _) = server(
            "\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        );
        assert_eq!(request("GET", &format!("http://{at}/"), "/status", "").unwrap(), (200, "abcde".into()));
    }

    #[test]
    fn only_get_has_no_body() {
        for method in ["POST", "PUT", "DELETE"] {
            let (at, asked) = server("BODY", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            assert_eq!(request(method, &at, "/contacts?x=1", "BODY").unwrap().0, 200);
            let asked = asked.join().unwrap();
            assert!(asked.starts_with(&format!("{method} /contacts?x=1 HTTP/1.1\r\n")), "{asked}");
            assert!(asked.ends_with("BODY"), "{asked}");
        }
        assert!(request("PATCH", "127.0.0.1:1", "/", "").unwrap_err().to_string().contains("hint:"));
    }

    #[test]
    fn request_waits_for_starting_node() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.control.sock");
        let at = path.display().to_string();
        // Left by a node that was killed: it refuses connections.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let node = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            std::fs::remove_file(&path).unwrap();
            let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
            let (mut socket, _) = listener.accept().unwrap();
            assert!(socket.read(&mut [0; 1024]).unwrap() > 0);
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        });
        assert_eq!(request("GET", &at, "/status", "").unwrap(), (200, "{}".into()));
        node.join().unwrap();
    }

    #[test]
    fn http_errors_carry_a_hint() {
        let said = |url: &str| request("GET", url, "/", "").unwrap_err().to_string();
        assert!(said("ftp://x/y").contains("hint: write a socket's path or http://127.0.0.1:4280"));
        for at in ["localhost:99999", "http://localhost:99999/"] {
            assert!(said(at).starts_with(&format!("{at}: the port 99999 is out of range\nhint: ")), "{}", said(at));
        }
        let nowhere = said("no/such.control.sock");
        assert!(nowhere.contains("no control API answers at no/such.control.sock"), "{nowhere}");
        let (ssh, _) = server("\r\n\r\n", b"SSH-2.0-OpenSSH\r\n");
        let text = said(&ssh);
        assert!(text.contains("does not answer in HTTP") && text.contains("hint: "), "{text}");
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let text = said(&closed);
        assert!(text.contains("no control API answers at") && text.contains("is the node running"), "{text}");
    }
}
