//! Export and import of a store as plain files that any version reads: each bundle in its wire format, and a list.

use super::offline::{Contents, Damage, Found, Offline};
use anyhow::Context;
use farlink_base::store::{IndexEntry, Remembered};
use farlink_base::{Bytes, DtnTime, Priority};
use farlink_os::disk::open_regular;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Name of the list: one JSON document a line, the first about the store as a whole.
const LIST: &str = "index.jsonl";
/// Format of the list. New keys keep the number; a change of meaning raises it.
const FORMAT: u64 = 1;

/// Result of an export or import.
#[derive(Debug, Default)]
pub struct Moved {
    /// Number of bundles moved.
    pub bundles: u64,
    /// Identities of delivered bundles moved.
    pub deliveries: u64,
    /// Damaged bundles, which were left out.
    pub left_out: Vec<u64>,
    /// All damage found.
    pub damage: Vec<Damage>,
}

/// Folders of a store's shards, in order.
///
/// # Errors
/// If `dir` is there and cannot be listed.
pub fn shards(dir: &Path) -> anyhow::Result<Vec<(u8, PathBuf)>> {
    let mut numbers = crate::shards::left_over(dir).with_context(|| format!("listing {}", dir.display()))?;
    numbers.push(0);
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(|shard| (shard, crate::shards::folder(dir, shard))).collect())
}

/// Writes every intact bundle of a store and its remembered deliveries into a new folder; the store stays unchanged.
///
/// # Errors
/// If a node uses the store, or the folder exists or cannot be written.
pub fn export(dir: &Path, to: &Path) -> anyhow::Result<Moved> {
    // `Offline::read` locks a shard: all are locked before anything is written.
    let opened: Vec<(u8, Offline, Contents, PathBuf)> = shards(dir)?
        .into_iter()
        .map(|(shard, dir)| Offline::read(&dir).map(|(store, found)| (shard, store, found, dir)))
        .collect::<anyhow::Result<_>>()?;
    // A new folder only, so that two exports never mix.
    std::fs::create_dir(to).with_context(|| format!("{}: a new folder is needed", to.display()))?;
    let list = to.join(LIST);
    let mut lines = BufWriter::new(File::create(&list).with_context(|| list.display().to_string())?);
    let mut moved = Moved::default();
    for (shard, mut store, found, dir) in opened {
        let (owner, ran_ms) = (super::owner(&dir).unwrap_or_default(), super::ran_before(&dir));
        let about = json!({
            "export": FORMAT, "shard": shard, "node_ids": owner, "counter": found.counter, "last_bundle": found.last_bundle,
        });
        writeln!(lines, "{about}")?;
        for bundle in &found.bundles {
            let name = format!("{:020}.bundle", bundle.bundle);
            // The list names a bundle only after its file is complete.
            match write_bundle(&mut store, bundle, &to.join(&name))? {
                Some(crc32c) => {
                    writeln!(lines, "{}", line(bundle, shard, &name, crc32c, ran_ms))?;
                    moved.bundles += 1;
                }
                None => moved.left_out.push(bundle.bundle),
            }
        }
        for delivery in &found.deliveries {
            let fingerprint = format!("{:032x}", delivery.fingerprint);
            writeln!(lines, "{}", json!({ "delivered": fingerprint, "until": delivery.until.0, "shard": shard }))?;
            moved.deliveries += 1;
        }
        moved.damage.extend(found.damage);
    }
    lines.into_inner().map_err(|why| why.into_error())?.sync_all()?;
    Ok(moved)
}
/// Writes a bundle; returns its checksum, or `None` without a file if the payload is damaged.
fn write_bundle(store: &mut Offline, bundle: &Found, path: &Path) -> anyhow::Result<Option<u32>> {
    let accel = crate::accel();
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let (mut out, mut crc) = (BufWriter::new(file), 0);
    let mut write = |bytes: &[u8]| {
        crc = (accel.crc32c)(crc, bytes);
        out.write_all(bytes)
    };
    write(&bundle.head)?;
    let whole = store.payload(bundle, &mut write)?;
    write(&bundle.tail)?;
    // Damage may show at the last byte, when the file exists already.
    if !whole {
        drop(out);
        std::fs::remove_file(path)?;
        return Ok(None);
    }
    out.into_inner().map_err(|why| why.into_error())?.sync_all()?;
    Ok(Some(crc))
}
fn line(bundle: &Found, shard: u8, file: &str, crc32c: u32, ran_ms: u64) -> Value {
    let index = &bundle.index;
    // Operating times count in this store only; the importing store needs the time that the bundle has waited.
    let waited_ms = index.ran_ms.map_or(0, |stored_ms| ran_ms.saturating_sub(stored_ms));
    json!({
        "bundle": bundle.bundle,
        "shard": shard,
        "file": file,
        "crc32c": crc32c,
        "head_bytes": bundle.head.len(),
        "payload_bytes": bundle.payload_len(),
        "tail_bytes": bundle.tail.len(),
        "priority": index.priority.number(),
        "expires": index.expires.map(|time| time.0),
        "stored_at": index.stored_at.map(|time| time.0),
        "age_ms": index.age_ms.saturating_add(waited_ms),
        "quota": index.quota,
        "fingerprint": format!("{:032x}", index.fingerprint),
        "flags": index.flags,
    })
}

/// Creates a store from an export.
///
/// # Errors
/// If there is a store already, or the export is damaged.
pub fn import(from: &Path, dir: &Path) -> anyhow::Result<Moved> {
    let list = from.join(LIST);
    let lines = BufReader::new(File::open(&list).with_context(|| list.display().to_string())?).lines();
    let lines: Vec<Value> = lines
        .enumerate()
        .map(|(at, line)| serde_json::from_str(&line?).with_context(|| format!("{}: line {}", list.display(), at + 1)))
        .collect::<anyhow::Result<_>>()?;
    let parts: Vec<&Value> = lines.iter().filter(|line| line["export"].is_u64()).collect();
    if parts.is_empty() || parts.iter().any(|part| part["export"] != FORMAT) {
        anyhow::bail!("{}: not an export that this program reads", list.display());
    }
    let mut moved = Moved::default();
    for part in parts {
        let shard = u8::try_from(number(part, "shard")?)?;
        let dir = crate::shards::folder(dir, shard);
        let mut store = Offline::make(&dir)?;
        let of = |line: &&Value| line["shard"] == u64::from(shard);
        let mut last = number(part, "last_bundle")?;
        for line in lines.iter().filter(of).filter(|line| line["bundle"].is_u64()) {
            last = last.max(number(line, "bundle")?);
            let name = line["file"].as_str().context("an entry without a file")?;
            read_bundle(&mut store, line, &from.join(name)).with_context(|| name.to_string())?;
            moved.bundles += 1;
        }
        let delivered = |line: &Value| {
            // Content fingerprints depend on a secret of the old store.
            let (fingerprint, until) = (fingerprint(line, "delivered")?, DtnTime(number(line, "until")?));
            Ok(Remembered { fingerprint, until, content: 0 })
        };
        let deliveries = lines.iter().filter(of).filter(|line| line["delivered"].is_string()).map(delivered);
        let deliveries = deliveries.collect::<anyhow::Result<Vec<_>>>()?;
        store.remember(&deliveries, last, number(part, "counter")?)?;
        moved.deliveries += deliveries.len() as u64;
        let owner = part["node_ids"].as_array().into_iter().flatten().filter_map(|id| id.as_str().map(str::to_string));
        let owner: Vec<String> = owner.collect();
        if !owner.is_empty() {
            super::set_owner(&dir, &owner)?;
        }
    }
    Ok(moved)
}
fn number(line: &Value, key: &str) -> anyhow::Result<u64> {
    line[key].as_u64().with_context(|| format!("`{key}` is missing"))
}
fn fingerprint(line: &Value, key: &str) -> anyhow::Result<u128> {
    let text = line[key].as_str().with_context(|| format!("`{key}` is missing"))?;
    u128::from_str_radix(text, 16).with_context(|| format!("`{key}`: `{text}`"))
}
fn read_bundle(store: &mut Offline, line: &Value, path: &Path) -> anyhow::Result<()> {
    let accel = crate::accel();
    let (head, payload, tail) =
        (number(line, "head_bytes")?, number(line, "payload_bytes")?, number(line, "tail_bytes")?);
    let index = IndexEntry {
        digest: 0,
        priority: Priority::from_number(u8::try_from(number(line, "priority")?)?),
        expires: line["expires"].as_u64().map(DtnTime),
        stored_at: line["stored_at"].as_u64().map(DtnTime),
        ran_ms: None,
        age_ms: number(line, "age_ms")?,
        quota: number(line, "quota")?,
        fingerprint: fingerprint(line, "fingerprint")?,
        flags: u32::try_from(number(line, "flags")?)?,
    };
    let mut file = open_regular(OpenOptions::new().read(true), path)?;
    // The file is read once for its checksum alone, so that no damaged bundle reaches the store.
    let (mut crc, mut bytes, mut len) = (0, vec![0; 1 << 20], 0);
    loop {
        let read = file.read(&mut bytes)?;
        if read == 0 {
            break;
        }
        crc = (accel.crc32c)(crc, &bytes[..read]);
        len += read as u64;
    }
    let long = head.checked_add(payload).and_then(|sum| sum.checked_add(tail));
    if long != Some(len) || u64::from(crc) != number(line, "crc32c")? {
        anyhow::bail!("damaged: its bytes are not those that were exported");
    }
    let part = |at: u64, len: u64| -> std::io::Result<Bytes> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, at)?;
        Ok(bytes.into())
    };
    let ends = (part(0, head)?, part(head + payload, tail)?);
    let mut at = head;
    store.put((number(line, "bundle")?, index), ends, payload, |len| {
        at += len;
        part(at - len, len)
    })
}
