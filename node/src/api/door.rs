//! Access control of the API: listeners, permission, number and duration of connections.
//!
//! The Unix socket is restricted by its mode to its owner. Over TCP every request carries a token. Web pages in the
//! operator's browser could reach the TCP port by cross-site requests and DNS rebinding, so requests with an `Origin`
//! are refused, and over TCP also those whose `Host` is neither an address nor `localhost`.

use super::{BODY_MAX, Problem};
use crate::config::ApiSettings;
use anyhow::{Context, bail};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use farlink_os::stream::SocketFile;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

/// Most connections of one listener. A further one replaces the oldest without an accepted request; if there is none,
/// it is closed.
const GUESTS: usize = 64;
/// Time limit for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit from a request's head to the beginning of its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Listener of the API.
pub enum Door {
    /// Unix socket, restricted by its mode.
    Unix(UnixListener),
    /// TCP, for clients with the token.
    Tcp(TcpListener, Arc<str>),
}

/// Address of the API as `--at` takes it, and the socket file to remove at the end.
pub struct Place {
    /// Path of the socket, or URL.
    pub name: String,
    _file: Option<SocketFile>,
}

/// Opens all listeners of `settings`.
///
/// # Errors
/// If a listener cannot be opened or its token is unusable. A failure of the default socket is not an error.
pub fn open(settings: &ApiSettings) -> anyhow::Result<Vec<(Door, Place)>> {
    let mut doors = Vec::new();
    if let Some(path) = &settings.socket {
        match farlink_os::stream::listen_unix(path, 0o600) {
            Ok((socket, file)) => {
                let place = Place { name: path.display().to_string(), _file: Some(file) };
                doors.push((Door::Unix(socket), place));
            }
            Err(why) => {
                let said = format!("control API {}: {why}{}", path.display(), crate::hint(&why));
                if settings.socket_given {
                    bail!(said);
                }
                tracing::warn!("{said}");
            }
        }
    }
    if let Some((at, file)) = settings.listen.as_ref().zip(settings.token_file.as_ref()) {
        let token = token(file)?;
        let listener = farlink_os::stream::listen(at)
            .map_err(|why| anyhow::anyhow!("control API {at}: {why}{}", crate::hint(&why)))?;
        let place = Place { name: format!("http://{}", listener.local_addr()?), _file: None };
        doors.push((Door::Tcp(listener, token.into()), place));
    }
    Ok(doors)
}

/// Reads the token from `file`; if the file is absent, creates it with a random token. Fails if other users may read
/// the file or the token has fewer than 16 characters.
fn token(file: &Path) -> anyhow::Result<String> {
    let what = || format!("control token {}", file.display());
    if !file.exists() {
        let mut random = [0; 32];
        farlink_os::random(&mut random).with_context(what)?;
        let text: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let fresh = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
        // `exists` is false for a dangling link, but creating a file through it is refused.
        if fresh.as_ref().is_err_and(|why| why.kind() == std::io::ErrorKind::AlreadyExists) {
            bail!("{} is a link to what is not there\nhint: remove the link, and the node makes the file", what());
        }
        fresh.and_then(|mut file| writeln!(file, "{text}")).with_context(what)?;
    }
    let others = std::fs::metadata(file).with_context(what)?.permissions().mode() & 0o077;
    if others != 0 {
        bail!("{}: others may read it\nhint: chmod 600 {}", what(), file.display());
    }
    let text = std::fs::read_to_string(file).with_context(what)?;
    match text.trim() {
        token if token.len() >= 16 => Ok(token.to_string()),
        _ => bail!("{}: a token has at least 16 characters\nhint: remove the file, and the node makes one", what()),
    }
}

/// Connection of a client.
struct Guest {
    task: AbortHandle,
    /// Whether a request other than `/events` was accepted.
    known: Arc<AtomicBool>,
}

trait DoorWire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> DoorWire for T {}

/// Listener within the runtime.
enum Listening {
    Unix(tokio::net::UnixListener),
    Tcp(tokio::net::TcpListener),
}
impl Listening {
    async fn accept(&self) -> std::io::Result<Box<dyn DoorWire>> {
        Ok(match self {
            Listening::Unix(listener) => Box::new(listener.accept().await?.0),
            Listening::Tcp(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

impl Door {
    /// Accepts connections forever.
    pub async fn serve(self, router: Router) {
        let (listener, token) = match self {
            Door::Unix(socket) => (tokio::net::UnixListener::from_std(socket).map(Listening::Unix), None),
            Door::Tcp(socket, token) => (tokio::net::TcpListener::from_std(socket).map(Listening::Tcp), Some(token)),
        };
        let listener = match listener {
            Ok(listener) => listener,
            Err(why) => return tracing::error!("control API: {why}"),
        };
        let mut guests: VecDeque<Guest> = VecDeque::new();
        loop {
            match listener.accept().await {
                Ok(wire) => {
                    if make_room(&mut guests) {
                        let known = Arc::new(AtomicBool::new(false));
                        let serving = attend(wire, router.clone(), token.clone(), known.clone());
                        guests.push_back(Guest { task: tokio::spawn(serving).abort_handle(), known });
                    }
                }
                // Perhaps out of descriptors: wait for other connections to close.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

/// Closes the oldest connection without an accepted request if the listener is full; false if all have one.
fn make_room(guests: &mut VecDeque<Guest>) -> bool {
    guests.retain(|guest| !guest.task.is_finished());
    if guests.len() < GUESTS {
        return true;
    }
    // A connection without an accepted request may belong to a client without permission that only holds it open.
    let idler = guests.iter().position(|guest| !guest.known.load(Relaxed));
    let idler = idler.and_then(|at| guests.remove(at));
    idler.map(|guest| guest.task.abort()).is_some()
}

/// Serves one connection from its first request to its last.
async fn attend(wire: Box<dyn DoorWire>, router: Router, token: Option<Arc<str>>, known: Arc<AtomicBool>) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request: Request<Incoming>| {
        let checked = check(request.headers(), token.as_deref());
        // Clients of `/events` do not count as known, so that they may give way to a new client: they can reconnect.
        known.fetch_or(checked.is_ok() && request.uri().path() != "/events", Relaxed);
        let answer = checked.map(|()| router.call(request));
        async move {
            Ok::<Response<Body>, Infallible>(match answer {
                Err(problem) => problem.into_response(),
                Ok(answer) => match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
                    Ok(answer) => answer.into_response(),
                    Err(_) => Problem(StatusCode::REQUEST_TIMEOUT, "the request took too long".into()).into_response(),
                },
            })
        }
    });
    let mut http = http1::Builder::new();
    // Heads are short; without a limit a client could make the node store any amount.
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(64 << 10);
    let _ = http.serve_connection(TokioIo::new(wire), service).await;
}

/// Checks that a request comes from a program of the operator, not from a web page, and carries the token if there is
/// one.
fn check(head: &HeaderMap, token: Option<&str>) -> Result<(), Problem> {
    let forbidden = |why: &str| Err(Problem(StatusCode::FORBIDDEN, why.into()));
    // Browsers add `Origin` to cross-site requests, and programs have no reason to.
    if head.contains_key(header::ORIGIN) {
        return forbidden(
            "web pages have no business here\nhint: use `farlink node`, or a program that sends no Origin",
        );
    }
    let length = head.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()).unwrap_or("0");
    // Refused by its head, before memory is reserved for the body.
    if length.parse().is_ok_and(|bytes: u64| bytes > BODY_MAX as u64) {
        return Err(Problem(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {BODY_MAX} bytes")));
    }
    let Some(token) = token else { return Ok(()) };
    let host = head.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    // A page that uses DNS rebinding has its own name in `Host`.
    if !is_address(host) {
        return forbidden("the Host is no address of this node\nhint: ask by IP address, e.g. http://127.0.0.1:4280");
    }
    let shown = head.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or("");
    if shown.strip_prefix("Bearer ").is_some_and(|shown| same(shown, token)) {
        return Ok(());
    }
    let why = "this node wants its token over TCP\nhint: --token-file names the file of `[api] token_file`";
    Err(Problem(StatusCode::UNAUTHORIZED, why.into()))
}

/// Returns whether a `Host` is an IP address or `localhost`, rather than a name that somebody else may control.
fn is_address(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    host.parse::<SocketAddr>().is_ok()
        || host.parse::<IpAddr>().is_ok()
        || name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
}

/// Compares in constant time, so that the duration does not reveal where two secrets differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(head: &[(&'static str, &str)], token: Option<&str>) -> u16 {
        let head = head.iter().map(|(name, value)| ((*name).try_into().unwrap(), value.parse().unwrap()));
        check(&head.collect(), token).map_or_else(|problem| problem.0.as_u16(), |()| 200)
    }

    #[test]
    fn foreign_origins_and_hosts_are_refused() {
        let (token, bearer) = (Some("0123456789abcdef"), ("authorization", "Bearer 0123456789abcdef"));
        assert_eq!(code(&[("host", "127.0.0.1:4280"), bearer], token), 200);
        assert_eq!(code(&[("host", "[::1]:4280"), bearer], token), 200);
        assert_eq!(code(&[("host", "localhost"), bearer], token), 200);
        assert_eq!(code(&[("host", "127.0.0.1:4280")], token), 401);
        assert_eq!(code(&[("host", "127.0.0.1:4280"), ("authorization", "Bearer 0123456789abcdee")], token), 401);
        assert_eq!(code(&[("host", "rebound.example:4280"), bearer], token), 403);
        assert_eq!(code(&[bearer], token), 403);
        assert_eq!(code(&[("host", "127.0.0.1"), bearer, ("origin", "http://evil.example")], token), 403);
        assert_eq!(code(&[("origin", "null")], None), 403);
        assert_eq!(code(&[], None), 200, "the mode of the socket said who may");
    }

    #[test]
    fn token_is_created_once_with_private_mode() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let made = token(&file).unwrap();
        assert_eq!((made.len(), token(&file).unwrap()), (64, made));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(token(&file).unwrap_err().to_string().contains("hint: chmod 600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&file, "short").unwrap();
        assert!(token(&file).unwrap_err().to_string().contains("at least 16"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("nowhere"), &link).unwrap();
        let said = token(&link).unwrap_err().to_string();
        assert!(said.contains("link is a link to what is not there\nhint: remove the link"), "{said}");
    }
}
