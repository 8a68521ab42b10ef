//! Asks a node's control API: one request, one answer.

use anyhow::{anyhow, bail};
use std::time::Duration;
use ureq::Agent;

/// An answer: status code and body.
pub type Answer = (u16, String);

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks `url` (`http://host:port`, or `host:port`) for `path` with a method and a body.
///
/// # Errors
/// When nobody answers there, or not in HTTP.
pub fn request(method: &str, url: &str, path: &str, body: &str) -> anyhow::Result<Answer> {
    let host = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    if host.is_empty() || host.contains('/') {
        bail!("`{url}` is not the address of a control API\nhint: write e.g. http://127.0.0.1:4280");
    }
    let (agent, place) = (agent(), format!("http://{host}{path}"));
    let sent = match method {
        "GET" => agent.get(&place).call(),
        "POST" => agent.post(&place).send(body),
        "PUT" => agent.put(&place).send(body),
        // What to remove is in the body.
        "DELETE" => agent.delete(&place).force_send_body().send(body),
        other => bail!("the control API has no method {other}\nhint: GET, POST, PUT or DELETE"),
    };
    let mut answer = sent.map_err(|why| unanswered(url, &why))?;
    let body = answer.body_mut().with_config().limit(u64::MAX).lossy_utf8(true).read_to_string();
    Ok((answer.status().as_u16(), body.map_err(|why| unanswered(url, &why))?))
}

/// A 404 is an answer, and no proxy of the environment stands between a node and its operator.
fn agent() -> Agent {
    let config = Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0);
    config.timeout_connect(Some(PATIENCE)).timeout_recv_response(Some(PATIENCE)).build().new_agent()
}

fn unanswered(url: &str, why: &ureq::Error) -> anyhow::Error {
    match why {
        ureq::Error::Protocol(_) | ureq::Error::Http(_) | ureq::Error::BadUri(_) => {
            anyhow!("{url} does not answer in HTTP: {why}\nhint: --at names the address of `[api] listen`")
        }
        _ => anyhow!(
            "no control API answers at {url}: {why}\n\
             hint: is the node running, and does its file have `[api] listen`? --at names the address"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// Answers one request, which ends like this, with these bytes; gives the address and the request.
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
    fn answers_are_read_whole_and_in_chunks() {
        let (at, _) = server("\r\n\r\n", b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno");
        assert_eq!(request("GET", &at, "/status", "").unwrap(), (404, "no".into()));
        let (at, _) = server(
            "\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        );
        assert_eq!(request("GET", &format!("http://{at}/"), "/status", "").unwrap(), (200, "abcde".into()));
    }

    #[test]
    fn what_to_change_goes_in_the_body_of_every_method_but_get() {
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
    fn what_went_wrong_says_what_to_try() {
        let said = |url: &str| request("GET", url, "/", "").unwrap_err().to_string();
        assert!(said("ftp://x/y").contains("hint: write e.g. http://127.0.0.1:4280"));
        let (ssh, _) = server("\r\n\r\n", b"SSH-2.0-OpenSSH\r\n");
        let text = said(&ssh);
        assert!(text.contains("does not answer in HTTP") && text.contains("hint: "), "{text}");
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let text = said(&closed);
        assert!(text.contains("no control API answers at") && text.contains("is the node running"), "{text}");
    }
}
