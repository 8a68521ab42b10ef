//! Stored bundles with the reason why each waits and its expected departure; as a list or as sums.

use super::{Api, ApiAnswer, PAGE, PAGE_MAX, Problem, done, gone};
use crate::clock;
use crate::node::Handle;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use farlink_base::{BundleHandle, DtnTime, Instant};
use farlink_bpa::app::{AdminInput, BundleStatus, Sum};
use farlink_stack::Input;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Most sums reported separately; all others are added up in one.
const SUMS_MAX: usize = 10_000;

/// Part of the list of bundles. Bundles come and go, so a page starts after a bundle's number rather than at an offset.
#[derive(Deserialize)]
pub(super) struct Page {
    limit: Option<usize>,
    #[serde(default)]
    after: u64,
}
fn too_many() -> Problem {
    let why = "too many lists are read at once\nhint: try again";
    Problem(StatusCode::SERVICE_UNAVAILABLE, why.into())
}

/// UTC of an instant as text. The function `error` converts the instant; it returns `None` if the machine's clock is
/// not trusted.
fn utc(at: Option<Instant>, error: impl Fn(Instant) -> Option<DtnTime>) -> Option<String> {
    at.and_then(error).map(|time| time.to_string())
}
fn in_ms(at: Option<Instant>) -> Option<u64> {
    at.map(|at| at.since(clock::now()).as_millis() as u64)
}

/// Returns one page of bundles, in order of arrival.
pub(super) async fn list(State(api): State<Api>, Query(page): Query<Page>) -> ApiAnswer {
    let limit = page.limit.unwrap_or(PAGE).min(PAGE_MAX);
    let mut out = Vec::new();
    for shard in api.shards_from(page.after) {
        read(shard, page.after, limit, &mut out).await?;
        if out.len() >= limit {
            break;
        }
    }
    Ok(axum::Json(out.into()))
}
/// Appends a shard's bundles after `after`, up to `limit` rows in all.
async fn read(shard: &Handle, after: u64, limit: usize, out: &mut Vec<Value>) -> Result<(), Problem> {
    let list = shard.ask(move |node| node.begin_list(after)).await.ok_or_else(gone)?;
    let more = loop {
        let wanted = limit - out.len();
        let next = shard.ask(move |node| {
            let (rows, more) = node.next_bundles(list, wanted)?;
            Some((rows.iter().map(|row| bundle(row, |at| node.utc(at))).collect::<Vec<_>>(), more))
        });
        let (rows, more) = next.await.ok_or_else(gone)?.ok_or_else(too_many)?;
        out.extend(rows);
        if !more || out.len() >= limit {
            break more;
        }
    };
    shard.ask(move |node| node.end_list(list, more)).await.ok_or_else(gone)
}
fn bundle(bundle: &BundleStatus, clock: impl Fn(Instant) -> Option<DtnTime>) -> Value {
    json!({
        "bundle": bundle.handle.0,
        "source": bundle.id.source.to_string(),
        "created_ms": bundle.id.creation.time.as_millis(),
        "sequence": bundle.id.creation.sequence,
        "fragment": bundle.id.fragment.map(|(offset, length)| json!({ "offset": offset, "length": length })),
        "destination": bundle.destination.to_string(),
        "payload": bundle.payload,
        "priority": format!("{:?}", bundle.priority).to_lowercase(),
        "remaining_ms": bundle.remaining_ms,
        "shortened": bundle.shortened,
        "reason": bundle.reason,
        "leaves": utc(bundle.leaves, clock),
        "leaves_in_ms": in_ms(bundle.leaves),
        "waits_for": bundle.waits_for,
    })
}

type PageKey = (String, &'static str, Option<String>, Option<u64>);
/// Adds the sums of a shard to `all`. Once `all` has `SUMS_MAX` entries, sums with a new key are added to one entry,
/// `others`.
async fn sum(shard: &Handle, all: &mut BTreeMap<PageKey, Sum>) -> Result<(), Problem> {
    let list = shard.ask(|node| node.begin_list(0)).await.ok_or_else(gone)?;
    loop {
        let (sums, more) = shard.ask(move |node| node.next_sums(list)).await.ok_or_else(gone)?.ok_or_else(too_many)?;
        for sum in sums {
            // Departures within one second share a sum.
            let second = sum.leaves.map(|at| at.0 / 1_000_000_000);
            let mut key =
                (sum.destination.to_string(), sum.reason, sum.neighbour.as_ref().map(ToString::to_string), second);
            if all.len() >= SUMS_MAX && !all.contains_key(&key) {
                key = ("others".into(), "others", None, None);
            }
            match all.get_mut(&key) {
                Some(there) => there.add(&sum),
                None => drop(all.insert(key, sum)),
            }
        }
        if !more {
            break;
        }
    }
    shard.ask(move |node| node.end_list(list, false)).await.ok_or_else(gone)
}

/// Returns sums of all bundles by destination, reason, neighbour, and second of departure.
pub(super) async fn sums(State(api): State<Api>) -> ApiAnswer {
    let mut all = BTreeMap::new();
    for shard in api.shards_from(0) {
        sum(shard, &mut all).await?;
    }
    let row = |(destination, reason, neighbour, _): PageKey, sum: Sum, leaves: Option<String>| {
        json!({
            "destination": destination,
            "reason": reason,
            "neighbour": neighbour,
            "leaves": leaves,
            "leaves_in_ms": in_ms(sum.leaves),
            "bundles": sum.bundles,
            "bytes": sum.bytes,
            "oldest_ms": sum.oldest_ms,
        })
    };
    let rows = api.ask(move |node| -> Vec<Value> {
        all.into_iter()
            .map(|(key, sum)| (utc(sum.leaves, |at| node.utc(at)), key, sum))
            .map(|(utc, k, s)| row(k, s, utc))
            .collect()
    });
    Ok(axum::Json(rows.await?.into()))
}

pub(super) async fn cancel(State(api): State<Api>, Path(handle): Path<u64>) -> ApiAnswer {
    if let Some(shard) = api.shards_from(handle).next() {
        let cancel = AdminInput::Cancel { bundle: BundleHandle(handle) };
        shard.ask(move |node| node.input(Input::Admin(cancel))).await.ok_or_else(gone)?;
    }
    done()
}
