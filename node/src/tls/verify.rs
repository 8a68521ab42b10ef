//! Which servers are believed.

use super::certificate;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, PeerIncompatible, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// A server is believed that shows a certificate of an authority, still valid, which names a node (RFC 9174
/// 4.4.3: its layer compares it with what it claims to be) or the host that was connected to.
#[derive(Debug)]
pub struct Servers {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}
impl Servers {
    /// With these authorities.
    pub fn new(roots: Arc<RootCertStore>, provider: &CryptoProvider) -> Servers {
        Servers { roots, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for Servers {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(shown)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, between, now, self.algorithms.all)?;
        if certificate::node_ids(shown).is_empty() {
            verify_server_name(&parsed, host)?;
        }
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _shown: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig.into())
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, shown, signed, &self.algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
