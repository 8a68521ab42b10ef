//! Bundle security (BPSec) between ION and our node.

use std::fmt::Write as _;

/// Key that both sides share.
pub const KEY: [u8; 32] = *b"a key of thirty-two bytes, known";
/// File from which ION reads the key, beside `node.rc`.
pub const KEY_FILE: &str = "shared.key";

/// Security service for every bundle between both nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// BIB-HMAC-SHA2 with SHA-256 (RFC 9173 section 3).
    Integrity,
    /// BCB-AES-GCM (RFC 9173 section 4).
    Confidentiality,
}

impl Service {
    pub const ALL: [Service; 2] = [Service::Integrity, Service::Confidentiality];

    /// Name of the security context in RFC 9173.
    pub fn context(self) -> &'static str {
        match self {
            Service::Integrity => "BIB-HMAC-SHA2",
            Service::Confidentiality => "BCB-AES-GCM",
        }
    }
    /// Rules of our node: bundles to ION are secured, and bundles from ION are accepted only if secured.
    pub fn ours(self) -> String {
        let (service, of) = match self {
            Service::Integrity => ("integrity", "hash = \"256\"\n"),
            Service::Confidentiality => ("confidentiality", "wrap = true\n"),
        };
        format!(
            "\n[security]\nkeys = \"node.keys\"\n\n\
             [[security.rule]]\nrole = \"source\"\nservice = \"{service}\"\nfrom = \"ipn:1.*\"\nto = \"ipn:2.*\"\n\
             key = \"shared\"\n{of}\n\
             [[security.rule]]\nrole = \"acceptor\"\nservice = \"{service}\"\nfrom = \"ipn:2.*\"\nto = \"ipn:1.*\"\n\
             key = \"shared\"\n"
        )
    }
    /// Rules for `bpsecadmin`, which accepts them only while ION runs. They state the hash, since ION's default differs
    /// from that of RFC 9173 section 3.3.1.
    pub fn rules(self) -> String {
        let (service, context, of) = match self {
            Service::Integrity => ("bib-integrity", 1, ", {\"sha_variant\" : \"5\"}"),
            Service::Confidentiality => ("bcb-confidentiality", 2, ""),
        };
        let mut text = String::from("a {\"event_set\" : {\"name\" : \"all\", \"desc\" : \"nothing besides\"}}\n");
        // Rule 1 makes ION a security source for its own bundles, rule 2 an acceptor of ours.
        for (number, role, from) in [(1, "s", "ipn:2.*"), (2, "a", "ipn:1.*")] {
            let _ = writeln!(
                text,
                "a {{\"policyrule\" : {{\"desc\" : \"{role}\", \"filter\" : {{\"rule_id\" : \"{number}\", \
                 \"role\" : \"{role}\", \"src\" : \"{from}\", \"tgt\" : 1}}, \"spec\" : {{\"svc\" : \"{service}\", \
                 \"sc_id\" : {context}, \"sc_parms\" : [{{\"key_name\" : \"shared\"}}{of}]}}, \
                 \"es_ref\" : \"all\"}}}}"
            );
        }
        text
    }
}

/// Further section of ION's `node.rc`.
pub const SECTION: &str = "\n## begin ionsecadmin\n1\na key shared shared.key\n## end ionsecadmin\n";
/// File of ION's security rules, beside `node.rc`.
pub const RULES_FILE: &str = "bpsec.rc";

/// Our file of keys.
pub fn keys() -> String {
    let digits: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("[[key]]\nname = \"shared\"\nsecret = \"{digits}\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_and_key_names_match() {
        for service in Service::ALL {
            let (ours, theirs) = (service.ours(), service.rules());
            assert_eq!(ours.matches("key = \"shared\"").count(), 2, "{ours}");
            assert_eq!(theirs.matches("{\"key_name\" : \"shared\"}").count(), 2, "{theirs}");
            assert!(theirs.matches('{').count() == theirs.matches('}').count(), "{theirs}");
        }
        assert!(keys().contains("secret = \"61206b6579"), "{}", keys());
    }
}
