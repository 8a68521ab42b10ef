//! Certificates of nodes: the Node IDs in them (RFC 9174 section 4.4.1), and a small authority to try them with.

use farlink_base::EndpointId;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};
use x509_cert::Certificate;
use x509_cert::der::asn1::{Any, Ia5String, Ia5StringRef, ObjectIdentifier, OctetString, Utf8StringRef};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::{GeneralName, OtherName};

/// `id-on-bundleEID` (RFC 9174 section 8.11): the form of name that is a Node ID.
const BUNDLE_EID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.8.11");
/// `id-kp-bundleSecurity` (RFC 9174 section 8.11): what the certificate is for.
const BUNDLE_SECURITY: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 35];
/// `id-ce-subjectAltName` (RFC 5280 section 4.2.1.6).
const ALTERNATIVE_NAMES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
/// Clocks that are behind by this much believe a new certificate.
const BEHIND: Duration = Duration::from_secs(86_400);

/// The Node IDs a certificate names; none where it cannot be read. Other endpoint IDs in it are ignored (RFC 9174 4.4.1):
/// whoever may speak for an application does not speak for its node.
pub fn node_ids(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = Certificate::from_der(certificate) else { return Vec::new() };
    let extensions = certificate.tbs_certificate.extensions.unwrap_or_default();
    let names = extensions.iter().filter(|extension| extension.extn_id == ALTERNATIVE_NAMES);
    let names = names.filter_map(|extension| SubjectAltName::from_der(extension.extn_value.as_bytes()).ok());
    names.flat_map(|names| names.0).filter_map(|name| bundle_eid(&name)).filter(|eid| is_node_id(eid)).collect()
}

/// Whether this is the name of a node that others know; some leave out the slash that ends a `dtn` one.
fn is_node_id(text: &str) -> bool {
    let endpoint = text.parse().or_else(|_| format!("{text}/").parse());
    endpoint.is_ok_and(|id: EndpointId| id.is_node_id() && !id.is_null() && !id.is_here())
}

// 9174-4.4.1-1, 9174-4.4.2.1-1
fn bundle_eid(name: &GeneralName) -> Option<String> {
    let GeneralName::OtherName(OtherName { type_id, value }) = name else { return None };
    if *type_id != BUNDLE_EID {
        return None;
    }
    let text = value.decode_as::<Ia5StringRef<'_>>().map(|text| text.as_str().to_string());
    // Some tools know no other text.
    text.or_else(|_| value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_string())).ok()
}

/// A certificate and its private key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Made {
    /// The certificate.
    pub certificate: String,
    /// The key: whoever has it is who the certificate names.
    pub key: String,
}
impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Made").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Makes an authority; certificates of nodes are signed with its key.
///
/// # Errors
/// When the library refuses.
pub fn authority(valid: Duration) -> Result<Made, rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = authority_params(&key, valid)?.self_signed(&key)?;
    Ok(Made { certificate: certificate.pem(), key: key.serialize_pem() })
}

pub(super) fn authority_params(key: &KeyPair, valid: Duration) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    // Two authorities are told apart by name.
    let number = params.key_identifier(key).iter().take(4).fold(0u32, |number, byte| number << 8 | u32::from(*byte));
    params.distinguished_name.push(DnType::CommonName, format!("Farlink test authority {number:08x}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    hold(&mut params, valid);
    Ok(params)
}

fn hold(params: &mut CertificateParams, valid: Duration) {
    let now = SystemTime::now();
    params.not_before = (now - BEHIND).into();
    params.not_after = (now + valid).into();
}

/// Makes the certificate of a node with these Node IDs, reached at these hosts (names or addresses).
///
/// # Errors
/// When a name cannot be in a certificate, or the key is none.
pub fn of_node(authority: &Made, node_ids: &[String], hosts: &[String], valid: Duration) -> anyhow::Result<Made> {
    let key = KeyPair::from_pem(&authority.key)?;
    let signer = Issuer::new(authority_params(&key, valid)?, key);
    let params = node_params(node_ids, hosts, valid)?;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &signer)?;
    Ok(Made { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// What the certificate of a node says (RFC 9174 4.4.2).
// 9174-4.4.2-1, 9174-4.4.2-4, 9174-4.4.2.1-1, 9174-4.4.3-5, 9174-4.4.3-8
pub(super) fn node_params(node_ids: &[String], hosts: &[String], valid: Duration) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, node_ids.first().map_or("node", String::as_str));
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
        ExtendedKeyUsagePurpose::Other(BUNDLE_SECURITY.to_vec()),
    ];
    let oid: Vec<u64> = ALTERNATIVE_NAMES.arcs().map(u64::from).collect();
    params.custom_extensions.push(CustomExtension::from_oid_content(&oid, alternative_names(node_ids, hosts)?));
    hold(&mut params, valid);
    Ok(params)
}

fn alternative_names(node_ids: &[String], hosts: &[String]) -> anyhow::Result<Vec<u8>> {
    let mut names = Vec::new();
    for id in node_ids {
        let value = Any::encode_from(&Ia5StringRef::new(id)?)?;
        names.push(GeneralName::OtherName(OtherName { type_id: BUNDLE_EID, value }));
    }
    for host in hosts {
        names.push(match host.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => GeneralName::IpAddress(OctetString::new(address.octets())?),
            Ok(IpAddr::V6(address)) => GeneralName::IpAddress(OctetString::new(address.octets())?),
            Err(_) => GeneralName::DnsName(Ia5String::new(host)?),
        });
    }
    Ok(SubjectAltName(names).to_der()?)
}
