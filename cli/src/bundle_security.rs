//! Explains security blocks (RFC 9172, RFC 9173) without a key: targets, security context, parameters, results and
//! security source.

use crate::bundle::hex;
use farlink_bundle::bpsec::{
    AES_GCM, CONFIDENTIALITY, HMAC_SHA2, INTEGRITY, Pairs, Section, SecurityBlock, SecurityValue,
};
use farlink_bundle::{BlockData, Bundle, ExtensionBlock};
use serde_json::{Value as Json, json};

/// A security block as lines of text and as JSON; `None` if it is another block.
pub fn of(bundle: &Bundle, block: &ExtensionBlock) -> Option<(Vec<String>, Json)> {
    let BlockData::Unknown(data) = &block.data else { return None };
    let service = match block.kind {
        INTEGRITY => "integrity",
        CONFIDENTIALITY => "confidentiality",
        _ => return None,
    };
    // A block that is the target of a BCB holds ciphertext: only its bytes can be shown.
    let bcbs = Section::all(bundle, CONFIDENTIALITY).filter_map(Result::ok);
    let by = bcbs.filter(|bcb| bcb.block.targets.contains(&block.number)).map(|bcb| bcb.header.number).next();
    if let Some(by) = by {
        let line = format!("encrypted by block {by}: {}", hex(data, 32));
        return Some((vec![format!("  content      {line}")], json!({ "service": service, "enciphered_by": by })));
    }
    Some(match SecurityBlock::decode(data) {
        Ok(security) => (lines(bundle, service, &security), document(service, &security)),
        Err(error) => (vec![format!("  content      not valid: {error}")], json!({ "error": error.to_string() })),
    })
}

fn context(context: i64) -> &'static str {
    match context {
        HMAC_SHA2 => "BIB-HMAC-SHA2",
        AES_GCM => "BCB-AES-GCM",
        // draft-ietf-dtn-bpsec-cose.
        3 => "COSE (a draft)",
        _ => "unknown",
    }
}

/// Name and value of a security parameter, as text (RFC 9173 sections 3.3 and 4.3).
fn parameter(context: i64, id: u64, value: &SecurityValue) -> (&'static str, String) {
    let scope = |bits: u64| {
        let parts = [(1, "primary block"), (2, "target header"), (4, "security header")];
        let named: Vec<&str> = parts.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
        if named.is_empty() { "the target only".to_string() } else { format!("the target, {}", named.join(", ")) }
    };
    match (context, id, value) {
        (HMAC_SHA2, 1, SecurityValue::Uint(5)) => ("hash", "HMAC 256/256".into()),
        (HMAC_SHA2, 1, SecurityValue::Uint(6)) => ("hash", "HMAC 384/384".into()),
        (HMAC_SHA2, 1, SecurityValue::Uint(7)) => ("hash", "HMAC 512/512".into()),
        (HMAC_SHA2, 2, value) | (AES_GCM, 3, value) => ("wrapped key", plain(value)),
        (HMAC_SHA2, 3, SecurityValue::Uint(bits)) | (AES_GCM, 4, SecurityValue::Uint(bits)) => ("covers", scope(*bits)),
        (AES_GCM, 1, value) => ("IV", plain(value)),
        (AES_GCM, 2, SecurityValue::Uint(1)) => ("cipher", "A128GCM".into()),
        (AES_GCM, 2, SecurityValue::Uint(3)) => ("cipher", "A256GCM".into()),
        (_, _, value) => ("parameter", plain(value)),
    }
}

fn result(context: i64, id: u64) -> &'static str {
    match (context, id) {
        (HMAC_SHA2, 1) => "keyed hash",
        (AES_GCM, 1) => "authentication tag",
        _ => "result",
    }
}

fn plain(value: &SecurityValue) -> String {
    match value {
        SecurityValue::Uint(number) => number.to_string(),
        SecurityValue::Bytes(bytes) => hex(bytes, usize::MAX),
        SecurityValue::Other(item) => format!("CBOR {}", hex(item, usize::MAX)),
    }
}

fn target(bundle: &Bundle, number: u64) -> String {
    let name = match number {
        0 => "primary block",
        1 => "payload",
        _ => match bundle.extensions.iter().find(|block| block.number == number) {
            Some(block) => crate::bundle::block_name(block.kind, Some(&block.data)),
            None => "not in the bundle",
        },
    };
    format!("block {number} ({name})")
}

fn lines(bundle: &Bundle, service: &str, block: &SecurityBlock) -> Vec<String> {
    let targets: Vec<String> = block.targets.iter().map(|number| target(bundle, *number)).collect();
    let mut lines = vec![
        format!("  content      {service} of {}", targets.join(", ")),
        format!("  context      {} ({})", context(block.context), block.context),
        format!("  made by      {}", block.source),
    ];
    for (id, value) in &block.parameters {
        let (name, said) = parameter(block.context, *id, value);
        lines.push(format!("  {name:<12} {said}"));
    }
    for (number, results) in block.targets.iter().zip(&block.results) {
        for (id, value) in results {
            lines.push(format!("  of block {number:<3} {}: {}", result(block.context, *id), plain(value)));
        }
    }
    lines
}

fn document(service: &str, block: &SecurityBlock) -> Json {
    let value = |value: &SecurityValue| match value {
        SecurityValue::Uint(number) => json!(number),
        value => json!(plain(value)),
    };
    let pairs = |pairs: &Pairs| pairs.iter().map(|(id, v)| json!({ "id": id, "value": value(v) })).collect::<Vec<_>>();
    let operations = block.targets.iter().zip(&block.results);
    json!({
        "service": service, "targets": block.targets, "context": block.context,
        "context_name": context(block.context), "source": block.source.to_string(),
        "parameters": pairs(&block.parameters),
        "results": operations.map(|(target, all)| json!({ "target": target, "results": pairs(all) })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::{Accel, Payload};
    use farlink_bundle::{Profile, decode};

    /// Explains the security blocks of an example of RFC 9173 appendix A.
    fn explained(case: usize) -> (Vec<String>, Vec<Json>) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/bpsec_rfc9173.json");
        let vectors: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let wire = crate::bundle::unhex(vectors["cases"][case]["bundle_hex"].as_str().unwrap().as_bytes()).unwrap();
        let bundle = decode(&Payload::from(wire), Profile::Permissive, &Accel::default()).unwrap();
        let all = bundle.extensions.iter().filter_map(|block| of(&bundle, block));
        let (lines, documents): (Vec<_>, Vec<_>) = all.unzip();
        (lines.concat(), documents)
    }

    #[test]
    fn security_block_is_explained_without_key() {
        let (lines, documents) = explained(2);
        for line in [
            "  content      integrity of block 0 (primary block), block 2 (bundle age)",
            "  context      BIB-HMAC-SHA2 (1)",
            "  made by      ipn:3.0",
            "  hash         HMAC 256/256",
            "  covers       the target only",
            "  of block 0   keyed hash: cac6ce8e4c5dae57988b757e49a6dd1431dc04763541b2845098265bc817241b",
            "  content      confidentiality of block 1 (payload)",
            "  context      BCB-AES-GCM (2)",
            "  IV           5477656c7665313231323132",
            "  cipher       A128GCM",
            "  of block 1   authentication tag: efa4b5ac0108e3816c5606479801bc04",
        ] {
            assert!(lines.iter().any(|l| l == line), "{line}\n{lines:#?}");
        }
        assert_eq!((&documents[0]["targets"], &documents[0]["source"]), (&json!([0, 2]), &json!("ipn:3.0")));
        assert_eq!(documents[1]["parameters"][1], json!({ "id": 2, "value": 1 }));
    }

    #[test]
    fn encrypted_block_names_its_bcb() {
        let (lines, documents) = explained(3);
        assert!(
            lines.iter().any(|line| line.starts_with("  content      encrypted by block 2: 438ed620")),
            "{lines:#?}"
        );
        assert_eq!(documents[0]["enciphered_by"], 2);
        assert!(
            lines.iter().any(|line| line == "  covers       the target, primary block, target header, security header")
        );
        assert!(explained(1).0.iter().any(|line| line.starts_with("  wrapped key  69c411276f")));
    }
}
