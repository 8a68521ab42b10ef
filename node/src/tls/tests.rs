use super::certificate::{Made, authority, authority_params, node_ids, node_params, of_node};
use super::*;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose as Use, IsCa, Issuer, KeyPair};
use std::fs::write;
use std::time::Duration;
use tempfile::TempDir;

const YEAR: Duration = Duration::from_secs(365 * 86_400);
/// Address of all clients.
const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

/// Authority and the folder of its files.
struct House {
    folder: TempDir,
    authority: Made,
}
impl House {
    fn new() -> House {
        let (folder, authority) = (tempfile::tempdir().unwrap(), authority(YEAR).unwrap());
        write(folder.path().join("authority.pem"), &authority.certificate).unwrap();
        House { folder, authority }
    }
    fn files(&self, name: &str, ids: &[&str], hosts: &[&str], valid: Duration) -> Files {
        let text = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let made = of_node(&self.authority, &text(ids), &text(hosts), valid).unwrap();
        let at = |kind: &str| self.folder.path().join(format!("{name}.{kind}"));
        write(at("pem"), &made.certificate).unwrap();
        write(at("key"), &made.key).unwrap();
        Files { certificate: at("pem"), key: at("key"), authorities: self.folder.path().join("authority.pem") }
    }
    fn credentials(&self, name: &str, ids: &[&str], hosts: &[&str], valid: Duration) -> Credentials {
        Credentials::load(&self.files(name, ids, hosts, valid)).unwrap()
    }
    fn node(&self, name: &str, id: &str) -> Credentials {
        self.credentials(name, &[id], &[], YEAR)
    }
    /// Node whose certificate is changed before signing.
    fn changed(&self, name: &str, id: &str, change: impl Fn(&mut CertificateParams)) -> Credentials {
        let root = KeyPair::from_pem(&self.authority.key).unwrap();
        self.signed(name, id, &Issuer::new(authority_params(&root, YEAR).unwrap(), root), "", change)
    }
    /// As `changed`, with another signer; `behind` follows the certificate in its file.
    fn signed(
        &self,
        name: &str,
        id: &str,
        by: &Issuer<'_, KeyPair>,
        behind: &str,
        change: impl Fn(&mut CertificateParams),
    ) -> Credentials {
        let files = self.files(name, &[], &[], YEAR);
        let mut params = node_params(&[id.to_string()], &[], YEAR).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, by).unwrap().pem();
        write(&files.certificate, certificate + behind).unwrap();
        write(&files.key, key.serialize_pem()).unwrap();
        Credentials::load(&files).unwrap()
    }
}

/// Two nodes of one authority; an empty name stands for a node of another authority.
pub fn credentials(names: [&str; 2]) -> (TempDir, [Credentials; 2]) {
    let house = House::new();
    let made =
        names.map(|id| if id.is_empty() { House::new().node("a", "ipn:9.0") } else { house.node(&id[4..5], id) });
    (house.folder, made)
}

type TlsEnd = Result<(Vec<String>, Vec<u8>), String>;

/// Exchanges records until both sides are silent; returns the results of client and server.
fn talk(client: &mut Session, server: &mut Session, words: [&[u8]; 2]) -> [TlsEnd; 2] {
    let mut ends: [TlsEnd; 2] = [Ok(Default::default()), Ok(Default::default())];
    let mut said = [false; 2];
    let mut quiet = 0;
    while quiet < 2 {
        for side in 0..2 {
            let (from, to) = if side == 0 { (&mut *client, &mut *server) } else { (&mut *server, &mut *client) };
            if from.proven.is_some() && !said[side] && ends[side].is_ok() {
                said[side] = true;
                from.say(words[side]).unwrap();
            }
            let Some(bytes) = from.take().unwrap() else {
                quiet += 1;
                continue;
            };
            quiet = 0;
            // Pieces as a network might cut them.
            for piece in bytes.chunks(700) {
                let Ok((proven, heard)) = &mut ends[1 - side] else { break };
                let mut plain = BytesMut::new();
                match to.receive(piece, &mut plain) {
                    Ok(Heard { contradicts: Some(why), .. }) => ends[1 - side] = Err(why),
                    Ok(news) => {
                        heard.extend_from_slice(&plain);
                        proven.extend(news.proven.into_iter().flatten());
                    }
                    Err(why) => ends[1 - side] = Err(why),
                }
            }
        }
    }
    ends
}
fn meet(client: &Credentials, host: &str, server: &Credentials) -> [TlsEnd; 2] {
    let (mut client, mut server) = (Session::client(client, host).unwrap(), Session::server(server, HERE).unwrap());
    talk(&mut client, &mut server, [&[7; 100_000], b"hello"])
}
fn failed(end: &TlsEnd, words: &str) {
    let Err(why) = end else { panic!("it went well: {end:?}") };
    assert!(why.to_lowercase().contains(words), "{why}");
}

/// Keeps 9174-4.4.2-1, 9174-4.4.2-4, 9174-4.4.3-2, 9174-4.4.3-4, 9174-4.4.3-5, 9174-4.4.3-7, 9174-4.4.3-8.
#[test]
fn both_sides_prove_their_nodes() {
    let house = House::new();
    let (moon, earth) =
        (house.node("moon", "ipn:1.0"), house.credentials("earth", &["ipn:2.0", "dtn://e/"], &[], YEAR));
    assert_eq!(earth.node_ids, ["ipn:2.0", "dtn://e/"]);
    let [at_moon, at_earth] = meet(&moon, "10.0.0.2", &earth);
    assert_eq!(at_moon.unwrap(), (vec!["ipn:2.0".to_string(), "dtn://e/".into()], b"hello".to_vec()));
    assert_eq!(at_earth.unwrap(), (vec!["ipn:1.0".to_string()], vec![7; 100_000]));
}

/// Keeps 9174-4.4.2-1, 9174-4.4.4.1-1.
#[test]
fn foreign_authority_is_refused() {
    let (house, other) = (House::new(), House::new());
    let [client, server] = meet(&house.node("a", "ipn:1.0"), "a.example", &other.node("b", "ipn:2.0"));
    failed(&client, "a certificate of ipn:2.0, issued by cn=");
    failed(&server, "trusts no authority that signed this node's certificate");
    // The client is trusted by its own authority only.
    let mixed = Files {
        authorities: house.files("c", &["ipn:2.0"], &[], YEAR).authorities,
        ..other.files("d", &["ipn:1.0"], &[], YEAR)
    };
    let [_, server] = meet(&Credentials::load(&mixed).unwrap(), "a.example", &house.node("e", "ipn:2.0"));
    failed(&server, "has signed it");
}

/// Keeps 9174-4.4.4.1-1.
#[test]
fn expired_certificates_are_refused() {
    let house = House::new();
    let old = house.credentials("old", &["ipn:1.0"], &[], Duration::ZERO);
    let new = house.node("new", "ipn:2.0");
    std::thread::sleep(Duration::from_millis(1100));
    let [at_new, at_old] = meet(&new, "x.example", &old);
    failed(&at_new, "expired at 20");
    failed(&at_old, "the peer refused this node's certificate");
    failed(&at_old, "expired at 20");
    failed(&meet(&old, "x.example", &new)[1], "expired at 20");
    assert!(old.out_of_time().is_some() && new.out_of_time().is_none());
}

/// Keeps 9174-4.4.4.1-1.
#[test]
fn early_or_reversed_validity_is_named() {
    let house = House::new();
    let new = house.node("new", "ipn:2.0");
    for (name, words) in [("early", "it is valid from 20"), ("reversed", "before it begins")] {
        let node = house.changed(name, "ipn:1.0", |params| match name {
            "early" => params.not_before += YEAR / 2,
            _ => params.not_after = params.not_before - YEAR,
        });
        let [at_new, at_node] = meet(&new, "x.example", &node);
        failed(&at_new, if name == "early" { words } else { "its validity ends before it begins" });
        failed(&at_node, "the peer refused this node's certificate");
        failed(&at_node, words);
    }
    let other = house.files("other", &["ipn:3.0"], &[], YEAR);
    let mixed = Files { key: house.files("key", &["ipn:3.0"], &[], YEAR).key, ..other };
    let why = Credentials::load(&mixed).unwrap_err();
    assert!(why.ends_with("do not go together: the key is of another certificate"), "{why}");
}

/// Keeps 9174-4.4.4.2-1, 9174-4.4.4.2-2, 9174-4.4.4.2-4.
#[test]
fn server_without_node_id_proves_host() {
    let house = House::new();
    let me = house.node("me", "ipn:1.0");
    let host = house.credentials("host", &[], &["moon.example", "10.0.0.2"], YEAR);
    for (name, good) in [("moon.example", true), ("10.0.0.2", true), ("mars.example", false), ("10.0.0.3", false)] {
        let [client, _] = meet(&me, name, &host);
        assert_eq!(client.is_ok(), good, "{name}: {client:?}");
        assert!(client.is_err() || client.unwrap().0.is_empty(), "it proves no node");
    }
}

/// Keeps 9174-4.4.1-1, 9174-4.4.2.1-1.
#[test]
fn application_endpoints_prove_no_node() {
    // RFC 9174 section 4.4.1: the owner of an application's endpoint speaks neither for its node nor for another one.
    let house = House::new();
    let ids =
        ["ipn:1.5", "dtn://moon/app", "ipn:1.0", "dtn:none", "ipn:!.0", "dtn:///", "sip:a", "dtn://earth", "dtn://a/"];
    let named = house.credentials("many", &ids, &[], YEAR);
    assert_eq!(named.node_ids, ["ipn:1.0", "dtn://earth", "dtn://a/"]);
    let application = house.credentials("application", &["ipn:2.7"], &["10.0.0.9"], YEAR);
    let [client, _] = meet(&named, "10.0.0.8", &application);
    failed(&client, "not valid for name");
    let [client, _] = meet(&named, "10.0.0.9", &application);
    assert!(client.unwrap().0.is_empty(), "its host is, and no node");
}

#[test]
fn client_without_node_id_proves_address() {
    // RFC 9174 section 4.4.4.2: a certificate without a Node ID can only be compared with the peer's address.
    let house = House::new();
    let me = house.node("me", "ipn:1.0");
    for (host, good) in [("10.0.0.1", true), ("10.0.0.2", false), ("moon.example", false)] {
        let client = house.credentials("host", &[], &[host], YEAR);
        let [_, server] = meet(&client, "x.example", &me);
        match good {
            true => assert!(server.unwrap().0.is_empty(), "it proves no node"),
            false => failed(&server, "not valid for name"),
        }
    }
}

/// Keeps 9174-4.4.4.1-4.
#[test]
fn certificate_purpose_must_fit() {
    // RFC 9174 section 4.4.2: the purpose is `id-kp-bundleSecurity`; those of TLS serve other software.
    let house = House::new();
    let other = house.node("other", "ipn:9.0");
    let bundles = || Use::Other(vec![1, 3, 6, 1, 5, 5, 7, 3, 35]);
    let both = [true, true];
    for (uses, [as_client, as_server]) in [
        (vec![], both),
        (vec![bundles()], both),
        (vec![Use::Any], both),
        (vec![Use::CodeSigning, bundles()], both),
        (vec![Use::ClientAuth], [true, false]),
        (vec![Use::ServerAuth], [false, true]),
        (vec![Use::CodeSigning, Use::EmailProtection], [false, false]),
    ] {
        let node = house.changed("node", "ipn:1.0", |params| params.extended_key_usages = uses.clone());
        let [_, at_server] = meet(&node, "x.example", &other);
        assert_eq!(at_server.is_ok(), as_client, "{uses:?}: {at_server:?}");
        let [at_client, _] = meet(&other, "x.example", &node);
        assert_eq!(at_client.is_ok(), as_server, "{uses:?}: {at_client:?}");
        for end in [at_server, at_client] {
            assert!(
                end.as_ref().map_or_else(|why| why.contains("bundleSecurity"), |end| end.0 == ["ipn:1.0"]),
                "{end:?}"
            );
        }
    }
    // The purpose does not excuse any other defect.
    let old = house.changed("old", "ipn:1.0", |params| {
        params.extended_key_usages = vec![bundles()];
        params.not_after = params.not_before + std::time::Duration::from_secs(60);
    });
    failed(&meet(&old, "x.example", &other)[1], "expired");
    let theirs = House::new().changed("theirs", "ipn:1.0", |params| params.extended_key_usages = vec![bundles()]);
    failed(&meet(&other, "x.example", &theirs)[0], "has signed it");
}

/// Keeps 9174-4.4.4.1-1.
#[test]
fn chain_needs_shown_signing_intermediates() {
    let house = House::new();
    let other = house.node("other", "ipn:9.0");
    let between = |change: &dyn Fn(&mut CertificateParams)| {
        let root = KeyPair::from_pem(&house.authority.key).unwrap();
        let root = Issuer::new(authority_params(&root, YEAR).unwrap(), root);
        let key = KeyPair::generate().unwrap();
        let mut params = authority_params(&key, YEAR).unwrap();
        change(&mut params);
        let shown = params.signed_by(&key, &root).unwrap().pem();
        (Issuer::new(params, key), shown)
    };
    let bundles = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![Use::Other(vec![1, 3, 6, 1, 5, 5, 7, 3, 35])];
    };
    let (signer, shown) = between(&|_| {});
    for name in ["good", "short"] {
        let behind = if name == "good" { &shown[..] } else { "" };
        let node = house.signed(name, "ipn:1.0", &signer, behind, bundles);
        let ends = [meet(&other, "x.example", &node)[0].clone(), meet(&node, "x.example", &other)[1].clone()];
        for end in ends {
            match name {
                "good" => assert_eq!(end.unwrap().0, ["ipn:1.0"]),
                _ => failed(&end, "has signed it"),
            }
        }
    }
    let (signer, shown) = between(&|params| params.is_ca = IsCa::ExplicitNoCa);
    let node = house.signed("no-authority", "ipn:1.0", &signer, &shown, bundles);
    assert!(meet(&other, "x.example", &node)[0].is_err() && meet(&node, "x.example", &other)[1].is_err());
    let (signer, shown) = between(&|params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = params.not_before + std::time::Duration::from_secs(60);
    });
    let node = house.signed("old-between", "ipn:1.0", &signer, &shown, |_| {});
    failed(&meet(&other, "x.example", &node)[0], "expired");
}

/// Keeps 9174-4.4.3-6, 9174-4.4.3-7.
#[test]
fn client_without_certificate_is_refused() {
    let house = House::new();
    let me = house.node("me", "ipn:1.0");
    let mut naked = me.clone();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::new(RootCertStore { roots: Vec::new() });
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    #[derive(Debug)]
    struct Anyone(Arc<rustls::crypto::CryptoProvider>);
    use rustls::client::danger::{HandshakeSignatureValid as Valid, ServerCertVerified, ServerCertVerifier};
    use rustls::{DigitallySignedStruct as Signed, SignatureScheme};
    impl ServerCertVerifier for Anyone {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: rustls::pki_types::UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }
        fn verify_tls12_signature(&self, _: &[u8], _: &CertificateDer<'_>, _: &Signed) -> Result<Valid, rustls::Error> {
            Ok(Valid::assertion())
        }
        fn verify_tls13_signature(&self, _: &[u8], _: &CertificateDer<'_>, _: &Signed) -> Result<Valid, rustls::Error> {
            Ok(Valid::assertion())
        }
        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.0.signature_verification_algorithms.supported_schemes()
        }
    }
    config.dangerous().set_certificate_verifier(Arc::new(Anyone(provider)));
    naked.client = Arc::new(config);
    let [_, server] = meet(&naked, "x.example", &me);
    failed(&server, "showed no certificate");
    let [_, server] = meet(&house.node("you", "ipn:2.0"), "x.example", &me);
    assert_eq!(server.unwrap().0, ["ipn:2.0"], "it is asked for its own and shows it");
}

/// Keeps 9174-4.4.2-2.
#[test]
fn old_certificate_versions_are_refused() {
    use rcgen::SigningKey;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::UnixTime;
    use rustls::server::danger::ClientCertVerifier;
    use x509_cert::der::asn1::BitString;
    use x509_cert::der::{Decode, Encode};
    use x509_cert::{Certificate, Version};
    let house = House::new();
    let (root, files) = (KeyPair::from_pem(&house.authority.key).unwrap(), house.files("a", &["ipn:1.0"], &[], YEAR));
    let mut roots = RootCertStore::empty();
    roots.add(certificates(&files.authorities).unwrap().remove(0)).unwrap();
    let (roots, provider) = (Arc::new(roots), rustls::crypto::ring::default_provider());
    let refused = verify::RefusedCertificate::default();
    let servers = verify::Servers::new(roots.clone(), &provider, refused.clone());
    let clients = verify::Clients::new(roots, &provider, refused);
    let whole = Certificate::from_der(&certificates(&files.certificate).unwrap()[0]).unwrap();
    for version in [Version::V3, Version::V2, Version::V1] {
        let mut made = whole.clone();
        // Certificates before version 3 have no extensions.
        (made.tbs_certificate.version, made.tbs_certificate.extensions) = (version, None);
        made.signature = BitString::from_bytes(&root.sign(&made.tbs_certificate.to_der().unwrap()).unwrap()).unwrap();
        let shown = CertificateDer::from(made.to_der().unwrap());
        let (host, now) = (ServerName::try_from("x.example").unwrap(), UnixTime::now());
        let at_client = servers.verify_server_cert(&shown, &[], &host, &[], now).map(drop);
        let at_server = clients.verify_client_cert(&shown, &[], now).map(drop);
        for end in [at_client, at_server] {
            match version {
                Version::V3 => assert_eq!(end, Ok(())),
                _ => assert!(end.unwrap_err().to_string().contains("UnsupportedCertVersion"), "{version:?}"),
            }
        }
    }
}

/// Keeps 9174-4.4.2-3.
#[test]
fn subject_needs_no_common_name() {
    let house = House::new();
    let other = house.node("other", "ipn:9.0");
    let mut nameless = rcgen::DistinguishedName::new();
    for name in ["empty", "organization"] {
        let node = house.changed(name, "ipn:1.0", |params| params.distinguished_name = nameless.clone());
        assert_eq!(meet(&other, "x.example", &node)[0].clone().unwrap().0, ["ipn:1.0"], "{name}");
        assert_eq!(meet(&node, "x.example", &other)[1].clone().unwrap().0, ["ipn:1.0"], "{name}");
        nameless.push(rcgen::DnType::OrganizationName, "Moon");
    }
}

#[test]
fn close_notify_ends_and_garbage_fails() {
    let house = House::new();
    let (a, b) = (house.node("a", "ipn:1.0"), house.node("b", "ipn:2.0"));
    let (mut client, mut server) = (Session::client(&a, "x").unwrap(), Session::server(&b, HERE).unwrap());
    let _ = talk(&mut client, &mut server, [b"a", b"b"]);
    client.say_end();
    let last = client.take().unwrap().unwrap();
    let mut plain = BytesMut::new();
    assert!(server.receive(&last, &mut plain).unwrap().ended && plain.is_empty());

    // A change of any byte of a sealed record is detected.
    let (mut client, mut server) = (Session::client(&a, "x").unwrap(), Session::server(&b, HERE).unwrap());
    let _ = talk(&mut client, &mut server, [b"a", b"b"]);
    client.say(&[9; 1000]).unwrap();
    let mut sealed = client.take().unwrap().unwrap().to_vec();
    sealed[500] ^= 1;
    assert!(server.receive(&sealed, &mut plain).is_err() && plain.is_empty());

    for bytes in [&b"dtn!\x04\x00"[..], &[0; 600], &[0x16, 3, 1, 0xff, 0xff], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut server = Session::server(&b, HERE).unwrap();
        let heard = (0..200).try_for_each(|_| server.receive(bytes, &mut plain).map(drop));
        assert!(heard.is_err() && plain.is_empty(), "{bytes:?}");
    }
}

#[test]
fn unusable_credential_files_are_named() {
    let house = House::new();
    let good = house.files("a", &["ipn:1.0"], &[], YEAR);
    let other = house.files("b", &["ipn:1.0"], &[], YEAR);
    let said = |files: &Files| Credentials::load(files).unwrap_err();
    let missing = Files { key: house.folder.path().join("none"), ..good.clone() };
    assert!(said(&missing).contains("none: No such file"), "{}", said(&missing));
    let swapped = Files { certificate: good.key.clone(), ..good.clone() };
    assert!(said(&swapped).contains("a.key: holds no certificate"), "{}", said(&swapped));
    let keyless = Files { key: good.certificate.clone(), ..good.clone() };
    assert!(said(&keyless).contains("a.pem: holds no private key"), "{}", said(&keyless));
    let mixed = Files { key: other.key, ..good.clone() };
    assert!(said(&mixed).contains("do not go together"), "{}", said(&mixed));
    let folder = Files { authorities: house.folder.path().to_path_buf(), ..good.clone() };
    assert!(said(&folder).contains("Is a directory"), "{}", said(&folder));
    let empty = house.folder.path().join("empty.pem");
    write(&empty, "").unwrap();
    for (files, words) in [
        (Files { certificate: empty.clone(), ..good.clone() }, "empty.pem: holds no certificate"),
        (Files { key: empty.clone(), ..good.clone() }, "empty.pem: holds no private key"),
        (Files { authorities: empty.clone(), ..good.clone() }, "empty.pem: holds no certificate"),
    ] {
        assert!(said(&files).contains(words), "{}", said(&files));
    }
    let torn = house.folder.path().join("torn.pem");
    let whole = std::fs::read_to_string(&good.certificate).unwrap();
    write(&torn, &whole[..whole.len() / 2]).unwrap();
    assert!(said(&Files { certificate: torn, ..good }).contains("torn.pem: "));
}

/// Keeps 9174-4.4.2-4, 9174-4.4.2.1-1.
#[test]
fn unreadable_certificates_name_no_node() {
    for bytes in [&[][..], &[0x30], &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], &[0xff; 64]] {
        assert!(node_ids(&CertificateDer::from(bytes)).is_empty());
    }
    let house = House::new();
    let files = house.files("a", &["ipn:1.0"], &["10.0.0.1"], YEAR);
    let whole = certificates(&files.certificate).unwrap()[0].to_vec();
    assert_eq!(node_ids(&CertificateDer::from(&whole[..])), ["ipn:1.0"]);
    for len in 0..whole.len() {
        assert!(node_ids(&CertificateDer::from(&whole[..len])).is_empty());
    }
}

/// Keeps 9174-4.4.3-3.
#[test]
fn client_sends_sni_for_names_only() {
    let house = House::new();
    let hello = |host: &str| {
        let mut client = Session::client(&house.node("earth", "ipn:1.0"), host).unwrap();
        client.take().unwrap().expect("a ClientHello").to_vec()
    };
    // RFC 6066 3: a list of one name, of type 0, with its length.
    let asked = |hello: &[u8], host: &str| {
        let name = [&[0, 0, host.len() as u8 + 3, 0, 0, host.len() as u8][1..], host.as_bytes()].concat();
        hello.windows(name.len()).any(|part| part == name)
    };
    for host in ["moon.example", "a.b.example"] {
        assert!(asked(&hello(host), host), "{host}");
    }
    let to_address = hello("192.0.2.7");
    assert!(!asked(&to_address, "192.0.2.7"), "RFC 6066 3: an address is no host name");
}
