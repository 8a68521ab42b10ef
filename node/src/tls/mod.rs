//! TLS 1.3 for the stream layers (RFC 9174 section 4.4): credentials of a node, and the records of one stream.
//!
//! A layer decides when TLS begins and which node the peer must prove to be. Both sides present a certificate. A
//! certificate proves the Node IDs in its subject alternative names ([`certificate`]), or, if it has none, a host: the
//! name that this side connected to, or the address of the client.

pub mod certificate;
mod verify;

use bytes::BytesMut;
use farlink_base::Bytes;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};
use std::fmt;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Credential files of a node, PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    /// Certificate of the node, followed by intermediates.
    pub certificate: PathBuf,
    /// Private key of the certificate.
    pub key: PathBuf,
    /// Certificates of trusted authorities.
    pub authorities: PathBuf,
}

/// Certificate and key of a node, and its trusted authorities.
#[derive(Clone)]
pub struct Credentials {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    /// Node IDs that the certificate proves.
    pub node_ids: Vec<String>,
    files: Files,
    /// Validity of the certificate, UNIX seconds.
    valid: Option<[u64; 2]>,
    refused: verify::RefusedCertificate,
}
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("node_ids", &self.node_ids).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads the files.
    ///
    /// # Errors
    /// If a file is unusable; the error names it.
    // 9174-4.4.2-1, 9174-4.4.2-2, 9174-4.4.3-2, 9174-4.4.3-4, 9174-4.4.3-6, 9174-4.4.3-7, 9174-4.4.4.1-1
    pub fn load(files: &Files) -> Result<Credentials, String> {
        let chain = certificates(&files.certificate)?;
        let key =
            PrivateKeyDer::from_pem_file(&files.key).map_err(|why| cannot_read(&files.key, "private key", &why))?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(&files.authorities)? {
            roots.add(authority).map_err(|why| format!("{}: no authority: {why}", files.authorities.display()))?;
        }
        let valid = chain.first().and_then(|own| certificate::validity(own));
        // Without Node IDs the certificate may still prove a host, so an empty list is no error.
        let own = chain.first().map(|own| certificate::node_ids(own)).unwrap_or_default();
        let (roots, provider) = (Arc::new(roots), Arc::new(rustls::crypto::ring::default_provider()));
        let refused = verify::RefusedCertificate::default();
        let wrong = |why: rustls::Error| {
            let (certificate, key) = (files.certificate.display(), files.key.display());
            match &why {
                rustls::Error::InconsistentKeys(_) => {
                    format!("{certificate} and {key} do not go together: the key is of another certificate")
                }
                rustls::Error::InvalidCertificate(why) => format!("{certificate}: {}", verify::defect(why)),
                why => format!("{certificate} and {key}: {why}"),
            }
        };
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|why| why.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verify::Servers::new(roots.clone(), &provider, refused.clone())))
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(wrong)?;
        let clients = Arc::new(verify::Clients::new(roots, &provider, refused.clone()));
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|why| why.to_string())?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(wrong)?;
        // Resumption would skip the certificates, so each session does a full handshake.
        server.send_tls13_tickets = 0;
        let (client, server) = (Arc::new(client), Arc::new(server));
        Ok(Credentials { client, server, node_ids: own, files: files.clone(), valid, refused })
    }
    /// Why this node's certificate is not valid now; `None` if it is.
    pub fn out_of_time(&self) -> Option<String> {
        certificate::out_of_time(self.valid?, crate::clock::unix_ns() / 1_000_000_000)
    }
    /// File and node IDs of the certificate that this node shows.
    pub fn described(&self) -> String {
        let ids = if self.node_ids.is_empty() { "no node".into() } else { self.node_ids.join(" ") };
        format!("{}, of {ids}", self.files.certificate.display())
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|why| cannot_read(path, "certificate", &why))?;
    if found.is_empty() { Err(format!("{}: holds no certificate in PEM", path.display())) } else { Ok(found) }
}

fn cannot_read(path: &Path, what: &str, why: &rustls::pki_types::pem::Error) -> String {
    use rustls::pki_types::pem::Error;
    match why {
        Error::Io(why) => format!("{}: {why}", path.display()),
        Error::NoItemsFound => format!("{}: holds no {what} in PEM", path.display()),
        why => format!("{}: {why}", path.display()),
    }
}

/// TLS session of one stream.
pub struct Session {
    tls: Connection,
    /// Expected host: the name connected to, or the address of the client.
    host: ServerName<'static>,
    credentials: Credentials,
    /// Node IDs that the peer proved; `None` before the end of the handshake.
    proven: Option<Vec<String>>,
    ended: bool,
}
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("proven", &self.proven).field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// Facts about the peer that received records revealed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Heard {
    /// Node IDs that the peer proved; given once, at the end of the handshake.
    pub proven: Option<Vec<String>>,
    /// The certificate proves no Node ID and belongs to another host, described here for a log.
    pub contradicts: Option<String>,
    /// The peer sent its close_notify.
    pub ended: bool,
}

impl Session {
    /// Creates the side that connected to this host name or address.
    ///
    /// # Errors
    /// If `host` is neither.
    // 9174-4.4.3-3
    pub fn client(credentials: &Credentials, host: &str) -> Result<Session, String> {
        let name = ServerName::try_from(host.to_string()).map_err(|_| format!("`{host}` is no name of a host"))?;
        let tls =
            ClientConnection::new(credentials.client.clone(), name.clone()).map_err(|why| reason(&why, credentials))?;
        Ok(Session::new(tls.into(), name, credentials))
    }
    /// Creates the side that was connected to from this address.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn server(credentials: &Credentials, from: IpAddr) -> Result<Session, String> {
        let tls = ServerConnection::new(credentials.server.clone()).map_err(|why| reason(&why, credentials))?;
        Ok(Session::new(tls.into(), ServerName::IpAddress(from.into()), credentials))
    }
    fn new(mut tls: Connection, host: ServerName<'static>, credentials: &Credentials) -> Session {
        // The driver bounds the queue of the stream, so that TLS need not.
        tls.set_buffer_limit(None);
        Session { tls, host, credentials: credentials.clone(), proven: None, ended: false }
    }
    /// Node IDs that the peer proved; `None` before the end of the handshake.
    pub fn proven(&self) -> Option<&[String]> {
        self.proven.as_deref()
    }

    /// Takes received bytes; their contents are appended to `plain`.
    ///
    /// # Errors
    /// Cause of the stream's end. [`Session::take`] may still return an alert for the peer.
    pub fn receive(&mut self, mut bytes: &[u8], plain: &mut BytesMut) -> Result<Heard, String> {
        while !bytes.is_empty() && !self.ended {
            // Input may end within a record; rustls keeps the incomplete one.
            self.tls.read_tls(&mut bytes).map_err(|why| why.to_string())?;
            let state = self.tls.process_new_packets().map_err(|why| reason(&why, &self.credentials))?;
            let (from, more) = (plain.len(), state.plaintext_bytes_to_read());
            plain.resize(from + more, 0);
            self.tls.reader().read_exact(&mut plain[from..]).map_err(|why| why.to_string())?;
            self.ended = state.peer_has_closed();
        }
        let mut heard = Heard { ended: self.ended, ..Heard::default() };
        // The peer's certificate is examined once, at the end of the handshake, when it is complete.
        if self.proven.is_none() && !self.tls.is_handshaking() {
            let shown = self.tls.peer_certificates().and_then(<[_]>::first);
            let proven = shown.map(|shown| certificate::node_ids(shown)).unwrap_or_default();
            // A certificate with Node IDs needs no host (RFC 9174 section 4.4.4).
            let nameless = shown.filter(|_| proven.is_empty());
            let wrong = nameless.and_then(|shown| verify::verify_host(shown, &self.host).err());
            heard.contradicts = wrong.map(|why| reason(&why, &self.credentials));
            self.proven = Some(proven.clone());
            heard.proven = Some(proven);
        }
        Ok(heard)
    }
    /// Seals bytes for the peer.
    ///
    /// # Errors
    /// If the TLS library has no memory for the bytes.
    pub fn say(&mut self, bytes: &[u8]) -> Result<(), String> {
        std::io::Write::write_all(&mut self.tls.writer(), bytes).map_err(|why| why.to_string())
    }
    /// Queues a close_notify.
    pub fn say_end(&mut self) {
        self.tls.send_close_notify();
    }
    /// Records to send, if any.
    ///
    /// # Errors
    /// None known: records are written to memory.
    pub fn take(&mut self) -> Result<Option<Bytes>, String> {
        let mut records = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut records).map_err(|why| why.to_string())?;
        }
        Ok((!records.is_empty()).then(|| Bytes::from(records)))
    }
}

/// Description of an error with both certificates and a hint, for a log.
fn reason(why: &rustls::Error, own: &Credentials) -> String {
    use rustls::AlertDescription as A;
    use rustls::CertificateError as C;
    use rustls::Error as E;
    let authorities = own.files.authorities.display();
    let (what, hint) = match why {
        E::InvalidCertificate(why) => {
            let shown = own.refused.take().unwrap_or_else(|| "a certificate".into());
            let (what, hint) = match why {
                C::UnknownIssuer => (
                    format!("no authority of {authorities} has signed it"),
                    "add the authority that has, or give the peer a certificate of yours",
                ),
                C::Expired | C::ExpiredContext { .. } | C::NotValidYet | C::NotValidYetContext { .. } => {
                    (verify::defect(why), "get a new one, or set this machine's clock")
                }
                C::NotValidForName | C::NotValidForNameContext { .. } => {
                    (why.to_string(), "it names no node: get one with its node ID, or with the host it is reached at")
                }
                C::InvalidPurpose | C::InvalidPurposeContext { .. } => (
                    why.to_string(),
                    "its uses, where it names any, are to have `id-kp-bundleSecurity` or the role of this side among them",
                ),
                _ => (verify::defect(why), "get a new one"),
            };
            (format!("the peer showed {shown}: {what}"), hint)
        }
        E::NoCertificatesPresented => {
            ("the peer showed no certificate".into(), "both sides must show one: give it one in its [layer]")
        }
        E::AlertReceived(A::UnknownCA) => (
            format!("the peer trusts no authority that signed this node's certificate ({})", own.described()),
            "put the authority that signed it into the peer's file of `authorities`",
        ),
        E::AlertReceived(A::CertificateExpired | A::CertificateUnknown) if own.out_of_time().is_some() => (
            format!(
                "the peer refused this node's certificate ({}): {}",
                own.described(),
                own.out_of_time().unwrap_or_default()
            ),
            "get a new one, or set the clock of the machine that is wrong",
        ),
        E::AlertReceived(A::CertificateExpired) => (
            format!("the clock of the peer is outside the validity of this node's certificate ({})", own.described()),
            "set the clock of the machine that is wrong, or get a new certificate",
        ),
        E::AlertReceived(alert) => (
            format!("the peer ended it ({alert:?}); this node showed {}", own.described()),
            "the peer's log says what it did not like",
        ),
        _ => return why.to_string(),
    };
    format!("{what}\nhint: {hint}")
}

#[cfg(test)]
pub(crate) mod tests;
