//! Checks of the files and folders that a configuration names.

use super::{NodeConfig, keys};
use crate::tls::Credentials;
use farlink_base::{DataVolume, EndpointId};
use farlink_config::Reader;
use farlink_routing::PlanIndex;
use farlink_stack::StoreKind;
use std::io::ErrorKind;
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
}

/// Reports sockets, files and folders that the node could not make or write.
pub fn written(top: &Reader<'_>, config: &NodeConfig) {
    let files = [
        ("events", "file", config.events.as_ref().map(|events| events.file.as_path()), &keys::EVENTS),
        ("api", "token_file", config.api.token_file.as_deref(), &*keys::API),
        ("app", "socket", config.app.socket.as_deref(), &*keys::APP),
        ("api", "socket", config.api.socket.as_deref().filter(|_| config.api.socket_given), &*keys::API),
    ];
    for (table, key, file, section) in files {
        let Some(file) = file else { continue };
        let name = file.display();
        let fail = |what: String, hint: &str| top.table_or_empty(table, section).fail(key, what, hint);
        if file.is_dir() {
            fail(format!("{name} is a folder, and a file is wanted"), "name a file in it");
        } else if key == "socket" && file.exists() && !is_socket(file) {
            fail(format!("{name} exists, and is not a socket"), "choose another path: it is left as it is");
        } else if key != "token_file" || !file.try_exists().unwrap_or(true) {
            // A token that is there is only read.
            writable(&top.table_or_empty(table, section), key, file, false);
        }
    }
    let durable = config.stack.store.kind == StoreKind::Durable;
    if let Some(dir) = config.store_dir.as_deref().filter(|dir| durable && !dir.is_file()) {
        writable(&top.table_or_empty("store", &keys::STORE), "dir", dir, true);
    }
}

/// Reports a file or folder that cannot be made or written. A lack of rights is a warning, because the node may run as
/// another user than the one who checks its file.
fn writable(reader: &Reader<'_>, key: &str, place: &Path, with_folders: bool) {
    let Err(why) = farlink_os::disk::could_write(place, with_folders) else { return };
    let what = format!("{} cannot be made or written: {why}", place.display());
    match why.kind() {
        ErrorKind::PermissionDenied => reader.warn(key, what, "run the node as a user who may, or give another path"),
        _ => reader.fail(key, what, "make its folder, or give another path"),
    }
}

fn is_socket(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|file| std::os::unix::fs::FileTypeExt::is_socket(&file.file_type()))
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
                if let Some(why) = credentials.out_of_time() {
                    let what = format!("{}: {why}", files.certificate.display());
                    let hint = "get a new one, or set this machine's clock: peers refuse it";
                    top.errors.warn(&path, at, what, hint);
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
