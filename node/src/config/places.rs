//! Checks of the files and folders that a configuration names.

use super::{NodeConfig, keys};
use crate::tls::Credentials;
use farlink_base::{DataVolume, EndpointId};
use farlink_config::Reader;
use farlink_routing::PlanIndex;
use farlink_stack::StoreKind;
use std::path::Path;
use std::sync::Arc;

/// Reads the contact plan and certificates; reports missing or wrong files and folders.
pub fn look(top: &Reader<'_>, config: &mut NodeConfig) {
    if let Some(file) = config.plan_file.clone() {
        plan(&top.table_or_empty("plan", &keys::PLAN), &file, config);
    }
    certificates(top, config);
    super::security::keys(top, config);
    super::link_keys::all(top, config);
    let durable = config.stack.store.kind == StoreKind::Durable;
    if let Some(dir) = config.store_dir.as_deref().filter(|dir| durable && dir.exists() && !dir.is_dir()) {
        let what = format!("{} is a file, and a folder is wanted", dir.display());
        top.table_or_empty("store", &keys::STORE).fail("dir", what, "give another path; the node makes the folder");
    }
    if let Some(dir) = config.store_dir.as_deref().filter(|_| durable) {
        let capacity = config.stack.node.store.capacity;
        // The files that the store has already count as room.
        let room = farlink_os::disk::room(dir).map_or(u64::MAX, |(room, _)| room);
        if capacity.bytes() > room {
            let what = format!(
                "{} is more than the {} that the disk of {} has room for: it may be full before the store is",
                capacity,
                DataVolume(room),
                dir.display()
            );
            let hint = "give less than the disk has free, or a folder of a larger disk as `dir`";
            top.table_or_empty("store", &keys::STORE).warn("capacity", what, hint);
        }
    }
    let files = [
        ("events", "file", config.events.as_ref().map(|events| events.file.as_path()), &keys::EVENTS),
        ("api", "token_file", config.api.token_file.as_deref(), &*keys::API),
        ("app", "socket", config.app.socket.as_deref(), &*keys::APP),
        ("api", "socket", config.api.socket.as_deref().filter(|_| config.api.socket_given), &*keys::API),
    ];
    for (table, key, file, section) in files {
        if let Some(file) = file.filter(|file| file.is_dir()) {
            let what = format!("{} is a folder, and a file is wanted", file.display());
            top.table_or_empty(table, section).fail(key, what, "name a file in it");
        }
    }
}

/// Reads the certificates of layers.
fn certificates(top: &Reader<'_>, config: &mut NodeConfig) {
    for layer in &mut config.layers {
        let Some(files) = &layer.tls else { continue };
        let path = format!("layer.{}", layer.name);
        let at = top.errors.beginning(&path);
        match Credentials::load(files) {
            Ok(credentials) => {
                let named = |own: &EndpointId| credentials.node_ids.iter().any(|id| id.parse() == Ok(own.clone()));
                if !config.stack.node_ids.iter().any(named) {
                    let what = format!(
                        "{} does not name this node: peers that want proof turn it away",
                        files.certificate.display()
                    );
                    top.errors.warn(&path, at, what, "get one with its node ID, e.g. by `farlink node certs`");
                }
                layer.credentials = Some(credentials);
            }
            Err(why) => {
                let hint = "`farlink node certs` makes an authority and certificates to try";
                top.errors.at(&path, at, why, hint);
            }
        }
    }
}

/// Reads the contact plan.
fn plan(reader: &Reader<'_>, file: &Path, config: &mut NodeConfig) {
    let name = file.display();
    let text = match farlink_config::read_text(file) {
        Ok(text) => text,
        Err(why) => {
            let hint = "relative paths start at the folder of this file; name a contact plan, or take [plan] out";
            return reader.fail("file", format!("{name} {why}"), hint);
        }
    };
    match crate::plan::parse(&text) {
        Ok(mut plan) => {
            plan.epoch = plan.epoch.or(config.epoch);
            config.stack.plan = Some(Arc::new(PlanIndex::new(plan)));
        }
        Err(why) => {
            let (what, hint) = why.split_once("\nhint: ").unwrap_or((&why, "`farlink plan check` explains it"));
            reader.fail("file", format!("{name} {what}"), hint);
        }
    }
}
