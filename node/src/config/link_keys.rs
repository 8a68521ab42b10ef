//! Keys of links, from the file that a layer names; several keys of one name are generations of a link's key.

use super::security::{NamedKey, key_file, open_to_others};
use super::{LayerSettings, LinkSettings, NodeConfig};
use farlink_base::ConfigError;
use farlink_cla::ltp::{Authentication, GENERATIONS_MAX, KEY_ID_MAX, LinkKey};
use farlink_config::Reader;
use farlink_stack::{LinkConfig, LinkParams};

/// Reads the keys of links from the files that their layers name; reports mistakes, and files that others can read.
pub fn all(top: &Reader<'_>, config: &mut NodeConfig) {
    let NodeConfig { stack, layers, links, .. } = config;
    for (link, settings) in stack.links.iter_mut().zip(links) {
        if let Err(why) = fill(link, settings, layers.get(link.layer)) {
            let at = top.errors.beginning(&format!("link.{}", link.name));
            top.errors.at(&why.path, at, why.expected, why.hint);
        }
    }
    for layer in layers {
        let path = format!("layer.{}", layer.name);
        if let Some((what, hint)) = layer.keys.as_deref().and_then(open_to_others) {
            top.errors.warn(&path, top.errors.beginning(&path), what, hint);
        }
    }
}

/// Sets the generations of a link's key, newest first, from the file of its layer. A link that names no key, or already
/// has its generations, stays as it is.
///
/// # Errors
/// If the link has no usable key. The message shows no key.
pub fn fill(link: &mut LinkConfig, settings: &LinkSettings, layer: Option<&LayerSettings>) -> Result<(), ConfigError> {
    let (Some(name), LinkParams::Ltp(span)) = (&settings.key, &mut link.params) else { return Ok(()) };
    if !span.authentication.lacks_key() {
        return Ok(());
    }
    let path = format!("link.{}.key", link.name);
    let file = layer.and_then(|layer| layer.keys.as_deref()).ok_or_else(|| ConfigError {
        path: path.clone(),
        expected: "its layer names no file of keys".into(),
        hint: "add keys = \"ltp.keys\" to the layer".into(),
    })?;
    let fail = |expected: String, hint: &str| ConfigError { path: path.clone(), expected, hint: hint.into() };
    let hint = "write `[[key]]` with `name` and `secret` in it; `head -c 32 /dev/urandom | xxd -p -c 64` makes one";
    let keys = key_file(file).map_err(|why| fail(format!("{} {why}", file.display()), hint))?;
    let generations: Vec<NamedKey> = keys.into_iter().rev().filter(|key| key.name == *name).collect();
    if generations.is_empty() {
        return Err(fail(format!("{} has no key `{name}`", file.display()), "add it to the file of keys"));
    }
    if let Some(long) = generations.iter().find(|key| key.id.len() > KEY_ID_MAX) {
        let what = format!("the id `{}` is longer than the {KEY_ID_MAX} bytes that segments have room for", long.id);
        return Err(fail(what, "give the generation a shorter one"));
    }
    let generation = |key: NamedKey| LinkKey { id: key.id.into_bytes(), secret: key.secret };
    span.authentication =
        Authentication::HmacSha1(generations.into_iter().take(GENERATIONS_MAX).map(generation).collect());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    const KEYS: &str = "[[key]]\nname = \"moon\"\nid = \"1\"\nsecret = \"00112233445566778899aabbccddeeff\"\n\
        [[key]]\nname = \"sun\"\nsecret = \"77112233445566778899aabbccddeeff\"\n\
        [[key]]\nname = \"moon\"\nid = \"2\"\nsecret = \"11112233445566778899aabbccddeeff\"\n";

    /// Authentication of a link with these settings and keys, and the messages about it.
    fn said(layer: &str, link: &str, keys: &str, mode: u32) -> (Option<Authentication>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let (file, key_file) = (folder.path().join("node.toml"), folder.path().join("k"));
        std::fs::write(&key_file, keys).unwrap();
        std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(mode)).unwrap();
        let text = format!(
            "node_ids = \"ipn:1.0\"\n[layer.ltp]\nkind = \"ltp\"\n{layer}\n\
             [link.b]\nlayer = \"ltp\"\npeer = \"ipn:2.0\"\naddress = \"127.0.0.1:9\"\n\
             rate = \"1 Mbit/s\"\n{link}\n"
        );
        std::fs::write(&file, text).unwrap();
        let found = NodeConfig::look(&file);
        let said = found.mistakes.iter().chain(&found.warnings).map(ToString::to_string).collect();
        let told = found.config.map(|config| {
            assert!(!format!("{config:?}").contains("112233") && !format!("{config:?}").contains("17, 34"));
            match &config.stack.links[0].params {
                LinkParams::Ltp(span) => span.authentication.clone(),
                other => panic!("{other:?}"),
            }
        });
        (told, said)
    }

    #[test]
    fn link_key_generations_are_newest_first() {
        let (told, said) = said("keys = \"k\"", "key = \"moon\"", KEYS, 0o600);
        let Some(Authentication::HmacSha1(keys)) = told else { panic!("{said:?}") };
        let ids: Vec<&[u8]> = keys.iter().map(|key| &key.id[..]).collect();
        assert_eq!((ids, keys[0].secret.bytes()[0], said), (vec![&b"2"[..], b"1"], 0x11, vec![]));
        let (told, said) = said_null();
        assert_eq!((told, said), (Some(Authentication::Null), vec![]));
    }
    fn said_null() -> (Option<Authentication>, Vec<String>) {
        said("", "authentication = \"null\"", KEYS, 0o600)
    }

    #[test]
    fn missing_or_unused_link_keys_are_reported() {
        let hmac = "authentication = \"hmac-sha1-80\"";
        for (layer, link, keys, part) in [
            ("keys = \"k\"", hmac, KEYS, "link.b.authentication: needs a key"),
            ("", "key = \"moon\"", KEYS, "its layer names no file of keys"),
            ("keys = \"k\"", "key = \"mars\"", KEYS, "has no key `mars`"),
            ("keys = \"none\"", "key = \"moon\"", KEYS, "cannot be read"),
            ("keys = \"k\"", "key = \"moon\"", "[[key]", "is not TOML"),
            ("keys = \"k\"", "authentication = \"rsa-sha256\"\nkey = \"moon\"", KEYS, "hmac-sha1-80"),
            (
                "keys = \"k\"",
                "key = \"moon\"",
                &KEYS.replace("\"2\"", &format!("\"{}\"", "x".repeat(33))),
                "longer than",
            ),
        ] {
            let (told, said) = said(layer, link, keys, 0o600);
            assert!(told.is_none() && said[0].contains(part), "{part}: {said:?}");
            assert!(said[0].contains("node.toml:"), "{said:?}");
        }
        let (told, said) = said("keys = \"k\"", "key = \"moon\"\nauthentication = \"null\"", KEYS, 0o600);
        assert!(told == Some(Authentication::Null) && said[0].contains("link.b.key: has no effect"), "{said:?}");
    }

    #[test]
    fn readable_link_key_file_is_reported() {
        let (told, said) = said("keys = \"k\"", "key = \"moon\"", KEYS, 0o644);
        assert!(told.is_some() && said.len() == 1 && said[0].contains("others than its owner"), "{said:?}");
    }

    #[test]
    fn only_ltp_links_take_keys() {
        let text = "node_ids = \"ipn:1.0\"\n[layer.tcp]\nkind = \"tcpclv4\"\ntls = \"forbid\"\n\
            [link.b]\nlayer = \"tcp\"\npeer = \"ipn:2.0\"\nkey = \"moon\"\n";
        assert!(NodeConfig::parse(text, Path::new("n.toml")).is_err());
    }
}
