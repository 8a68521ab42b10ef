//! Certificates of nodes: the Node IDs in them (RFC 9174 section 4.4.1), and a small authority for tests.

use farlink_base::{DtnTime, EndpointId};
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

/// `id-on-bundleEID` (RFC 9174 section 8.10): name form of a Node ID.
const BUNDLE_EID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.8.11");
/// `id-kp-bundleSecurity` (RFC 9174 section 8.11): purpose of the certificate.
const BUNDLE_SECURITY: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 35];
/// `id-ce-subjectAltName` (RFC 5280 section 4.2.1.6).
const ALTERNATIVE_NAMES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
/// Time by which certificates are antedated, so that peers whose clocks are behind accept them.
const BEHIND: Duration = Duration::from_secs(86_400);

/// Node IDs that a certificate names; empty if it is unreadable.
///
/// Other endpoint IDs are ignored (RFC 9174 section 4.4.1): the owner of an application's endpoint may not speak for
/// the node.
pub fn node_ids(certificate: &CertificateDer<'_>) -> Vec<String> {
    // An unreadable certificate proves nothing, but the handshake has its own checks.
    let Ok(certificate) = Certificate::from_der(certificate) else { return Vec::new() };
    let extensions = certificate.tbs_certificate.extensions.unwrap_or_default();
    let names = extensions.iter().filter(|extension| extension.extn_id == ALTERNATIVE_NAMES);
    let names = names.filter_map(|extension| SubjectAltName::from_der(extension.extn_value.as_bytes()).ok());
    names.flat_map(|names| names.0).filter_map(|name| bundle_eid(&name)).filter(|eid| is_node_id(eid)).collect()
}

/// First and last moment at which a certificate is valid, UNIX seconds; `None` if it is unreadable.
pub fn validity(certificate: &CertificateDer<'_>) -> Option<[u64; 2]> {
    let valid = Certificate::from_der(certificate).ok()?.tbs_certificate.validity;
    Some([valid.not_before, valid.not_after].map(|time| time.to_unix_duration().as_secs()))
}

/// Why a certificate with this validity is not valid now; `None` if it is.
pub fn out_of_time([from, until]: [u64; 2], now_s: u64) -> Option<String> {
    if until < from {
        return Some(format!("its validity ends at {} before it begins at {}", utc(until), utc(from)));
    }
    let now = utc(now_s);
    if now_s < from {
        return Some(format!("it is valid from {} on only, and the clock here says {now}", utc(from)));
    }
    (until < now_s).then(|| format!("it expired at {}, and the clock here says {now}", utc(until)))
}
fn utc(unix_s: u64) -> DtnTime {
    DtnTime::from_unix_ms(unix_s.saturating_mul(1000))
}

/// Node IDs and issuer of a certificate, for a log.
pub fn describe(certificate: &CertificateDer<'_>) -> String {
    let ids = node_ids(certificate);
    let of = if ids.is_empty() { "that names no node".into() } else { format!("of {}", ids.join(" ")) };
    let issuer = Certificate::from_der(certificate).map(|read| read.tbs_certificate.issuer.to_string());
    // The peer chose these names: they must neither steer the terminal nor fill the screen.
    let plain = |text: String| text.chars().filter(|c| !c.is_control()).take(200).collect::<String>();
    format!("a certificate {}, issued by {}", plain(of), plain(issuer.unwrap_or_else(|_| "?".into())))
}

/// Returns whether the name is a public node ID; some tools omit the slash at the end of `dtn` names.
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
    // Some tools write UTF8String only.
    text.or_else(|_| value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_string())).ok()
}

/// Certificate and private key, PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Made {
    /// Certificate in PEM.
    pub certificate: String,
    /// Private key of the certificate, in PEM.
    pub key: String,
}
impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Made").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Creates an authority, whose key signs certificates of nodes.
///
/// # Errors
/// If the library refuses.
pub fn authority(valid: Duration) -> Result<Made, rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = authority_params(&key, valid)?.self_signed(&key)?;
    Ok(Made { certificate: certificate.pem(), key: key.serialize_pem() })
}

pub(super) fn authority_params(key: &KeyPair, valid: Duration) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    // Verifiers find the issuer by its name, so each authority needs a name of its own.
    let number = params.key_identifier(key).iter().take(4).fold(0u32, |number, byte| number << 8 | u32::from(*byte));
    params.distinguished_name.push(DnType::CommonName, format!("Farlink test authority {number:08x}"));
    // No intermediates: this authority signs nodes only.
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

/// Creates the certificate of a node with these Node IDs, reached at these hosts (names or addresses).
///
/// # Errors
/// If a name is not allowed in a certificate, or the authority's key is invalid.
pub fn of_node(authority: &Made, node_ids: &[String], hosts: &[String], valid: Duration) -> anyhow::Result<Made> {
    let key = KeyPair::from_pem(&authority.key)?;
    let signer = Issuer::new(authority_params(&key, valid)?, key);
    let params = node_params(node_ids, hosts, valid)?;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &signer)?;
    Ok(Made { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// Contents of a node's certificate (RFC 9174 section 4.4.2).
// 9174-4.4.2-1, 9174-4.4.2-4, 9174-4.4.2.1-1, 9174-4.4.3-5, 9174-4.4.3-8
pub(super) fn node_params(node_ids: &[String], hosts: &[String], valid: Duration) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    // For people; verification uses alternative names only.
    params.distinguished_name.push(DnType::CommonName, node_ids.first().map_or("node", String::as_str));
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // Some TLS software accepts a certificate only with its role among the purposes.
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
