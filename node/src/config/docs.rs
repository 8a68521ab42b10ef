//! Generated parts of `docs/reference/node.md`.

use super::keys;
use farlink_cla::registry::LAYERS;
use farlink_config::docs::write_toml;
use farlink_config::{Key, Section};
use std::fmt::Write;

/// File with every key: its default, or an example.
pub fn example() -> String {
    let mut out = String::new();
    write_toml(
        &mut out,
        keys::NODE.keys.iter().filter(|key| key.name != "routes").copied().collect::<Vec<_>>().as_slice(),
    );
    table(&mut out, "store", keys::STORE.help, keys::STORE.keys);
    for (layer, sections) in LAYERS.iter().zip(keys::LAYER_SECTIONS.iter()) {
        let keys = with_value(&sections.layer, "kind", layer.name);
        table(
            &mut out,
            &format!("layer.{}", layer.name),
            &format!("any name, and sockets of its own; {}", layer.title),
            &keys,
        );
    }
    for (layer, sections) in LAYERS.iter().zip(keys::LAYER_SECTIONS.iter()) {
        let note = format!("any name, which the contact plan and operators use; over {}", layer.name);
        let keys = with_value(&sections.link, "layer", layer.name);
        table(&mut out, &format!("link.moon-{}", layer.name), &note, &keys);
    }
    out.push_str("\n[routes]                          # static routes, tried when the router has none\n");
    out.push_str("\"ipn:5.*\" = \"ipn:2.0\"\n");
    let sections = [
        &*keys::DISCOVERY,
        &keys::PLAN,
        &keys::ROUTER,
        &keys::CONTROL,
        &keys::CUSTODY,
        &keys::COMPRESSED,
        &keys::LIMITS,
        &keys::APP,
        &keys::API,
        &keys::LOG,
    ];
    for section in sections.into_iter().chain([&keys::EVENTS, &keys::SECURITY]) {
        table(&mut out, section.name, section.help, section.keys);
    }
    let _ = writeln!(out, "\n{:<33} # {}", "[[tunnel]]", keys::TUNNEL.help);
    write_toml(&mut out, keys::TUNNEL.keys);
    let _ = writeln!(out, "\n{:<33} # {}", "[[quota]]", keys::QUOTA.help);
    let only = |wanted: &[&str]| -> Vec<Key> {
        keys::QUOTA.keys.iter().filter(|key| wanted.contains(&key.name)).copied().collect()
    };
    write_toml(&mut out, &only(&["sources", "bytes", "bundles", "share"]));
    let _ = writeln!(out, "\n{:<33} # another, of what neighbours give", "[[quota]]");
    write_toml(&mut out, &only(&["neighbours"]));
    out.push_str("share = 25\n");
    let _ = writeln!(out, "\n{:<33} # {}", "[[security.rule]]", keys::RULE.help);
    write_toml(&mut out, keys::RULE.keys);
    out
}

/// JSON schema of a node's file, `docs/reference/node.schema.json`.
pub fn schema() -> String {
    let plain: [&Section; 15] = [
        &keys::STORE,
        &keys::DISCOVERY,
        &keys::PLAN,
        &keys::ROUTER,
        &keys::CONTROL,
        &keys::CUSTODY,
        &keys::COMPRESSED,
        &keys::LIMITS,
        &keys::APP,
        &keys::API,
        &keys::LOG,
        &keys::EVENTS,
        &keys::SECURITY,
        &keys::TUNNEL,
        &keys::QUOTA,
    ];
    let layers = keys::LAYER_SECTIONS.iter().flat_map(|layer| [&layer.layer, &layer.link]);
    let sections: Vec<&Section> = plain.into_iter().chain(layers).chain([&keys::RULE]).collect();
    farlink_config::schema::schema("A node of Farlink", &keys::NODE, &sections)
}

fn table(out: &mut String, name: &str, help: &str, keys: &[Key]) {
    let _ = writeln!(out, "\n{:<33} # {}", format!("[{name}]"), help.trim_end_matches('.'));
    write_toml(out, keys);
}

/// Keys of a section, one of them with a value for the example.
fn with_value(section: &Section, name: &str, value: &'static str) -> Vec<Key> {
    let set = |key: &Key| {
        if key.name == name { Key { default: farlink_config::Fallback::Is(value), ..*key } } else { *key }
    };
    section.keys.iter().map(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NodeConfig;
    use farlink_base::node::params;
    use farlink_config::docs::replace_between;
    use std::path::Path;

    #[test]
    fn reference_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/node.md");
        let page = std::fs::read_to_string(path).unwrap();
        let keys = format!("```toml\n{}```\n", example());
        let made = replace_between(&page, "keys", &keys).expect("markers `keys`");
        let made = replace_between(&made, "events", &farlink_events::reference()).expect("markers `events`");
        if std::env::var_os("FARLINK_BLESS").is_some() {
            std::fs::write(path, &made).unwrap();
        }
        let page = std::fs::read_to_string(path).unwrap();
        assert!(page == made, "{path} is old: FARLINK_BLESS=1 cargo test -p farlink-node");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/node.schema.json");
        if std::env::var_os("FARLINK_BLESS").is_some() {
            std::fs::write(path, schema()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == schema(), "{path} is old: FARLINK_BLESS=1 cargo test -p farlink-node");
        let read: serde_json::Value = serde_json::from_str(&found).expect("JSON");
        let rows = params().map(|row| match row.table() {
            "" => format!("/properties/{}", row.name()),
            table => format!("/definitions/{table}/properties/{}", row.name()),
        });
        rows.for_each(|row| assert!(read.pointer(&row).is_some(), "{row}"));
    }

    #[test]
    fn the_documented_file_is_without_mistakes() {
        let config = NodeConfig::parse(&example(), Path::new("dir/node.toml"))
            .unwrap_or_else(|errors| panic!("{errors:#?}\n{}", example()));
        assert_eq!(config.store_dir.unwrap(), Path::new("dir/store"));
        assert_eq!((config.stack.layers.len(), config.stack.links.len()), (LAYERS.len(), LAYERS.len()));
        assert_eq!(config.stack.routes.len(), 1);
        assert!(config.epoch.is_some() && config.stack.node.seed.is_some());
        for row in params().filter(|row| row.default().is_some()) {
            assert_eq!((row.get)(&config.stack.node), row.default(), "{}", row.path);
        }
    }
}
