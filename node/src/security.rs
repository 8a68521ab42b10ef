//! Parts of BPSec that belong to the machine: a unique number for each start, durable before the first IV is made from
//! it, and a random seed; and the log of bundles that fail.

use anyhow::{Context, Result, bail};
use farlink_base::security::Service;
use farlink_base::{BundleHandle, BundleKey, DeleteReason, Event, NodeId};
use farlink_bundle::bpsec::SecurityFault;
use farlink_stack::SecurityAlarm;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Upper bound of the random first number of a new file: after a loss of the file, repetition is unlikely.
const BEGIN_BELOW: u32 = 1 << 23;
/// Number of starts that IVs distinguish (`core/stack/src/security/nonces.rs`).
const STARTS: u32 = 1 << 24;

/// Counts this start; returns its unique number, and a random seed for the keys that each encrypt a single block.
///
/// # Errors
/// If the file cannot be read or written, holds no number, or all numbers are used.
// 9173-4.3.1-3, 9173-4.8.1-5
pub(crate) fn begin(starts: &Path) -> Result<(u32, [u8; 32])> {
    let mut random = [0; 36];
    farlink_os::random(&mut random)?;
    let (first, seed) = random.split_at(4);
    let first = first.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)) % BEGIN_BELOW;
    let start = raise(starts, first)?;
    let mut all = [0; 32];
    all.copy_from_slice(seed);
    Ok((start, all))
}

/// Increments the counter of starts, or sets a missing one to `first`; returns it once it is durable.
fn raise(file: &Path, first: u32) -> Result<u32> {
    let hint = "hint: it counts starts, so that no IV comes twice: take new keys, and then it away";
    if std::fs::metadata(file).is_ok_and(|kind| !kind.is_file()) {
        bail!("it is no plain file\n{hint}"); // a pipe would be waited for
    }
    let start = match std::fs::read_to_string(file) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(last) if last < STARTS - 1 => last + 1,
            Ok(_) => bail!("all {STARTS} starts were counted\n{hint}"),
            Err(_) => bail!("it holds no number\n{hint}"),
        },
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => first,
        Err(why) => return Err(why).context("cannot be read"),
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A new file is synced and renamed, so that a crash leaves the old number or the new one.
    let write = || {
        std::fs::create_dir_all(folder)?;
        let fresh = file.with_extension("starts.new");
        let mut out = File::create(&fresh)?;
        writeln!(out, "{start}")?;
        out.sync_all()?;
        std::fs::rename(&fresh, file)?;
        File::open(folder)?.sync_all()
    };
    write().context("cannot be written")?;
    Ok(start)
}

/// Warning about a bundle that failed a rule, with the key, its file, and a hint.
pub(crate) fn words(alarm: &SecurityAlarm, keys: &Path) -> String {
    let SecurityAlarm { source, destination, service, key, fault } = alarm;
    let (service, key) = (Service::WORDS[*service as usize], format!("key `{key}` of {}", keys.display()));
    let same = "the source needs the same secret under the key that its rule names: compare both files of keys; \
                `farlink node reload` reads a corrected one";
    let (what, hint) = match fault {
        None => (format!("it lacks the {service} that a rule here requires"), "the source needs a rule that adds it"),
        Some(SecurityFault::Mismatch) => (
            format!(
                "its {service} does not verify with the {key}: the source has another key, or the bundle was changed"
            ),
            same,
        ),
        Some(SecurityFault::Key) => (format!("the {key} for its {service} is missing, or has a wrong length"), same),
        Some(SecurityFault::Context) => {
            (format!("its {service} is of an unknown context"), "known are BIB-HMAC-SHA2 and BCB-AES-GCM (RFC 9173)")
        }
        Some(_) => (format!("its {service} is not valid"), "`farlink bundle decode` explains a bundle block by block"),
    };
    format!("a bundle from {source} to {destination} failed: {what}\nhint: {hint}")
}

/// Bundles for this node whose identity is remembered: one that cannot be decrypted is deleted soon after it was seen.
const SEEN_MAX: usize = 64;

/// Bundles that this node deleted because no rule here decrypts them, from the events of the engine.
#[derive(Debug, Default)]
pub(crate) struct SealedBundles {
    own: Vec<NodeId>,
    seen: VecDeque<(BundleHandle, BundleKey)>,
    /// Number of bundles since the last [`SealedBundles::take`], and the last one's identity, if it is known.
    fresh: (u64, Option<BundleKey>),
}
impl SealedBundles {
    pub fn new(own: Vec<NodeId>) -> SealedBundles {
        SealedBundles { own, ..SealedBundles::default() }
    }
    pub fn look(&mut self, event: &Event) {
        match event {
            Event::Seen { bundle, key, destination, .. } if self.own.contains(destination) => {
                if self.seen.len() == SEEN_MAX {
                    self.seen.pop_front();
                }
                self.seen.push_back((*bundle, *key));
            }
            Event::Deleted { bundle, reason: DeleteReason::UnknownSecurity } => {
                let known = self.seen.iter().rev().find(|(seen, _)| seen == bundle);
                self.fresh = (self.fresh.0 + 1, known.map(|(_, key)| *key));
            }
            _ => {}
        }
    }
    /// Number of bundles since the last call, and the last one's identity.
    pub fn take(&mut self) -> (u64, Option<BundleKey>) {
        std::mem::take(&mut self.fresh)
    }
}

/// Warning about a bundle for this node that no rule here decrypts; `has_rules` is whether there is any rule.
pub(crate) fn sealed(bundle: Option<BundleKey>, has_rules: bool) -> String {
    let from = bundle.map_or_else(String::new, |key| format!(" from {}", farlink_events::source_name(&key)));
    let (lacks, do_what) = match has_rules {
        false => ("this node has no [security]", "add [security] with the key of the source and a rule"),
        true => ("no rule of [security] here decrypts it", "add a rule"),
    };
    format!(
        "a bundle{from} to this node was deleted: it is encrypted, and {lacks}\n\
         hint: {do_what}, role = \"acceptor\", service = \"confidentiality\"; docs/how-to/secure-bundles.md shows both \
         sides"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undecryptable_bundle_is_named_while_remembered() {
        let mut sealed_ones = SealedBundles::new(vec![NodeId::ipn(2)]);
        let seen = |number: u64, destination| Event::Seen {
            bundle: BundleHandle(number),
            key: BundleKey { source: NodeId::ipn(1), service: 64, time: 5, sequence: number, fragment: None },
            destination: NodeId::ipn(destination),
            destination_service: 7,
            payload: 1,
            size: 1,
            priority: farlink_base::Priority::Normal,
            lifetime_ms: 1,
        };
        let gone = |number, reason| Event::Deleted { bundle: BundleHandle(number), reason };
        sealed_ones.look(&seen(1, 2));
        (100..164).for_each(|number| sealed_ones.look(&seen(number, 3)));
        sealed_ones.look(&gone(100, DeleteReason::Expired));
        assert_eq!(sealed_ones.take(), (0, None));
        sealed_ones.look(&gone(1, DeleteReason::UnknownSecurity));
        let (count, last) = sealed_ones.take();
        assert!(count == 1 && sealed(last, true).starts_with("a bundle from ipn:1.64 to this node"), "{last:?}");
        (200..264).for_each(|number| sealed_ones.look(&seen(number, 2)));
        sealed_ones.look(&gone(1, DeleteReason::UnknownSecurity));
        assert_eq!(sealed_ones.take(), (1, None));
    }

    #[test]
    fn alarm_names_source_key_and_file() {
        let alarm = |fault| SecurityAlarm {
            source: "ipn:1.64".parse().unwrap(),
            destination: "ipn:2.64".parse().unwrap(),
            service: Service::Confidentiality,
            key: "bundles".into(),
            fault,
        };
        let said = |fault| words(&alarm(fault), Path::new("dtn/node.keys"));
        let text = said(Some(SecurityFault::Mismatch));
        let begin = "a bundle from ipn:1.64 to ipn:2.64 failed: its confidentiality does not verify with the key `bundles` \
                     of dtn/node.keys: ";
        assert!(text.starts_with(begin) && text.contains("\nhint: the source needs the same secret"), "{text}");
        assert!(said(None).contains("lacks the confidentiality that a rule here requires\nhint: "), "{}", said(None));
    }

    /// Keeps 9173-4.3.1-3, 9173-4.8.1-5.
    #[test]
    fn each_start_gets_unique_number() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made/security.starts");
        let starts: Vec<u32> = (0..20).map(|_| raise(&file, 70).unwrap()).collect();
        assert_eq!(starts, (70..90).collect::<Vec<_>>());
        std::fs::remove_file(&file).unwrap();
        assert_eq!(raise(&file, 5).unwrap(), 5);
        let (start, seed) = begin(&file).unwrap();
        let (next, other) = begin(&file).unwrap();
        assert!((start, next) == (6, 7) && seed != other);
    }

    #[test]
    fn exhausted_or_damaged_start_counter_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s");
        for text in ["", "x", "-1", "16777215\n", "4294967295", "1 2"] {
            std::fs::write(&file, text).unwrap();
            let why = format!("{:#}", raise(&file, 5).unwrap_err());
            assert!(why.contains("hint: "), "{text}: {why}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let why = raise(&pipe, 5).unwrap_err().to_string();
        assert!(why.starts_with("it is no plain file\nhint: "), "{why}");
        std::fs::write(&file, "16777214").unwrap();
        assert_eq!(raise(&file, 5).unwrap(), STARTS - 1);
    }
}
