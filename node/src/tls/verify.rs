//! Verification of certificates (RFC 9174 section 4.4.4).

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, PeerIncompatible, RootCertStore,
    SignatureScheme,
};
use std::sync::{Arc, Mutex, PoisonError};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, KeyUsage};

/// Encoding of `id-kp-bundleSecurity` (RFC 9174 section 8.11).
const BUNDLE_SECURITY: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 35];
/// Encoding of `anyExtendedKeyUsage` (RFC 5280 section 4.2.1.12).
const ANY: &[u8] = &[0x55, 0x1d, 0x25, 0];
const SERVER: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
const CLIENT: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];

/// Accepted purposes of a certificate, if it names any: the security of bundles, as RFC 9174 section 4.4.2 requires,
/// any purpose, or its role in TLS, which some authorities write instead.
struct Purposes([KeyPurposeId<'static>; 3]);
impl Purposes {
    const fn with(role: &'static [u8]) -> Purposes {
        Purposes([KeyPurposeId::new(BUNDLE_SECURITY), KeyPurposeId::new(ANY), KeyPurposeId::new(role)])
    }
}
impl ExtendedKeyUsageValidator for Purposes {
    fn validate(&self, named: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let mut says = false;
        for purpose in named {
            says = true;
            let purpose = purpose?;
            if self.0.contains(&purpose) {
                return Ok(());
            }
        }
        // The context names the purpose that RFC 9174 asks for, although others would do.
        let required = KeyUsage::required(BUNDLE_SECURITY);
        let lacks = webpki::RequiredEkuNotFoundContext { required, present: Vec::new() };
        if says { Err(webpki::Error::RequiredEkuNotFoundContext(lacks)) } else { Ok(()) }
    }
}

/// Description of the certificate that was refused last, for the log of the session that showed it: TLS errors have no
/// room for it.
#[derive(Clone, Default, Debug)]
pub struct RefusedCertificate(Arc<Mutex<Option<String>>>);
impl RefusedCertificate {
    fn set(&self, what: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
    }
    /// Takes the description.
    pub fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Trusted authorities, and accepted algorithms.
#[derive(Clone, Debug)]
struct Believed {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
    refused: RefusedCertificate,
}
impl Believed {
    fn new(roots: Arc<RootCertStore>, provider: &CryptoProvider, refused: RefusedCertificate) -> Believed {
        Believed { roots, algorithms: provider.signature_verification_algorithms, refused }
    }
    /// Checks that a trusted authority has issued a certificate, and that it is valid now and for this role (RFC 9174
    /// section 4.4.4.1).
    ///
    /// # Errors
    /// Defect of the certificate.
    // 9174-4.4.4.1-4
    fn verify(
        &self,
        role: &'static [u8],
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let wrong = |why| {
            self.refused.set(super::certificate::describe(shown));
            Error::InvalidCertificate(reason(why))
        };
        let shown = EndEntityCert::try_from(shown).map_err(wrong)?;
        let (roots, purposes) = (&self.roots.roots, Purposes::with(role));
        let path = shown.verify_for_usage(self.algorithms.all, roots, between, now, purposes, None, None);
        path.map(drop).map_err(wrong)
    }
    fn verify_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, shown, signed, &self.algorithms)
    }
}

/// Translates an error of webpki into one of rustls.
fn reason(why: webpki::Error) -> CertificateError {
    use webpki::Error as E;
    match why {
        E::CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
        E::CertNotValidYet { time, not_before } => CertificateError::NotValidYetContext { time, not_before },
        E::UnknownIssuer => CertificateError::UnknownIssuer,
        E::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        E::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        E::BadDer | E::BadDerTime | E::TrailingData(_) => CertificateError::BadEncoding,
        why => CertificateError::Other(OtherError(Arc::new(why))),
    }
}

/// Defect of a certificate, in words.
pub fn defect(why: &CertificateError) -> String {
    let wrong = |valid, now: &UnixTime| super::certificate::out_of_time(valid, now.as_secs());
    let said = match why {
        CertificateError::ExpiredContext { time, not_after } => wrong([0, not_after.as_secs()], time),
        CertificateError::NotValidYetContext { time, not_before } => wrong([not_before.as_secs(), u64::MAX], time),
        CertificateError::Other(OtherError(other)) => match other.downcast_ref::<webpki::Error>() {
            Some(webpki::Error::UnsupportedCertVersion) => {
                Some("it is of X.509 version 1 or 2, which name no node: version 3 is needed".into())
            }
            Some(webpki::Error::InvalidCertValidity) => Some("its validity ends before it begins".into()),
            _ => None,
        },
        _ => None,
    };
    said.unwrap_or_else(|| why.to_string())
}

/// Checks that a certificate without a Node ID belongs to this host (RFC 9174 section 4.4.4.2).
///
/// # Errors
/// If the certificate belongs to other hosts; the error names them.
// 9174-4.4.4.2-1, 9174-4.4.4.2-2
pub fn verify_host(shown: &CertificateDer<'_>, host: &ServerName<'_>) -> Result<(), Error> {
    verify_server_name(&ParsedCertificate::try_from(shown)?, host)
}

/// Verifier of servers: a valid certificate of a trusted authority.
///
/// Node ID and host are checked after the handshake, by the session and its layer.
#[derive(Debug)]
pub struct Servers(Believed);
impl Servers {
    /// Trusts the authorities `roots`.
    pub fn new(roots: Arc<RootCertStore>, provider: &CryptoProvider, refused: RefusedCertificate) -> Servers {
        Servers(Believed::new(roots, provider, refused))
    }
}

impl ServerCertVerifier for Servers {
    // 9174-4.4.2-1, 9174-4.4.2-2, 9174-4.4.2-3, 9174-4.4.4.1-1
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _host: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0.verify(SERVER, shown, between, now)?;
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // Never called, as only TLS 1.3 is offered.
        Err(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig.into())
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_signature(message, shown, signed)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.algorithms.supported_schemes()
    }
}

/// Verifier of clients: a valid certificate of a trusted authority.
///
/// Node ID and host are checked by the session, as the client's address is unknown here.
#[derive(Debug)]
pub struct Clients {
    believed: Believed,
    /// Names of the authorities, sent to clients.
    names: Vec<DistinguishedName>,
}
impl Clients {
    /// Trusts the authorities `roots`.
    pub fn new(roots: Arc<RootCertStore>, provider: &CryptoProvider, refused: RefusedCertificate) -> Clients {
        Clients { names: roots.subjects(), believed: Believed::new(roots, provider, refused) }
    }
}

impl ClientCertVerifier for Clients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.names
    }
    // 9174-4.4.4.1-1
    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.believed.verify(CLIENT, shown, between, now).map(|()| ClientCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.believed.verify_signature(message, shown, signed)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.believed.algorithms.supported_schemes()
    }
}
