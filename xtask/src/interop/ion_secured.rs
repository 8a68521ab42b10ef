//! ION with more than bundles as they are: their security (BPSec), and custody of those of version 6.

use std::fmt::Write as _;

/// The key of both sides.
pub const KEY: [u8; 32] = *b"a key of thirty-two bytes, known";
/// The file that ION reads it from, beside `node.rc`.
pub const KEY_FILE: &str = "shared.key";

/// What is done with every bundle between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// BIB-HMAC-SHA2 (RFC 9173 3), with SHA-256.
    Integrity,
    /// BCB-AES-GCM (RFC 9173 4).
    Confidentiality,
}

impl Service {
    pub const ALL: [Service; 2] = [Service::Integrity, Service::Confidentiality];

    /// Its context in RFC 9173.
    pub fn context(self) -> &'static str {
        match self {
            Service::Integrity => "BIB-HMAC-SHA2",
            Service::Confidentiality => "BCB-AES-GCM",
        }
    }
    /// Tables of our node file: what goes to it is secured, what comes from it must be.
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
    /// What `bpsecadmin` is told when ION runs: before, it has nowhere to keep rules. The hash is said, since ION takes
    /// another for the default than RFC 9173 3.3.1 does.
    pub fn rules(self) -> String {
        let (service, context, of) = match self {
            Service::Integrity => ("bib-integrity", 1, ", {\"sha_variant\" : \"5\"}"),
            Service::Confidentiality => ("bcb-confidentiality", 2, ""),
        };
        let mut text = String::from("a {\"event_set\" : {\"name\" : \"all\", \"desc\" : \"nothing besides\"}}\n");
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

/// What ION's node file says besides.
pub const SECTION: &str = "\n## begin ionsecadmin\n1\na key shared shared.key\n## end ionsecadmin\n";
/// Where its rules are, beside that.
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
