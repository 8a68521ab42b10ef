//! Control API: queries and changes of a running node over HTTP.
//!
//! Every change is one step of the thread that owns the stack, so it takes effect whole or not at all.
//! `docs/reference/openapi.json` describes the API.

mod bodies;
mod bundles;
mod door;
mod shards;

use crate::config::{ApiSettings, NodeConfig, PATTERN_HINT};
use crate::log::LogLevel;
use crate::metrics::Metrics;
use crate::node::{Announced, Handle, Node};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use farlink_base::DtnTime;
use farlink_bpa::app::{AdminInput, LinkStatus, QuotaStatus, Status};
use farlink_bundle::EndpointId;
use farlink_cla::announce::BeaconCounts;
use farlink_routing::{Contact, ContactPlan, PlanTime};
use farlink_stack::Input;
use futures_util::future::join_all;
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use tokio::sync::broadcast;

/// OpenAPI description, served at `/openapi.json`.
const OPENAPI: &str = include_str!("../../docs/reference/openapi.json");

/// Most bytes of a request's body: enough for a contact plan of some 200,000 lines.
const BODY_MAX: usize = 16 << 20;
/// Divisor: the bodies of all requests together take at most the node's memory budget divided by this.
const BODIES_PART: u64 = 16;
/// Items of a page by default. A client may ask for up to `PAGE_MAX`: 10,000, and one more that shows whether another
/// page follows.
const PAGE: usize = 100;
const PAGE_MAX: usize = 10_001;

#[derive(Clone)]
struct Api {
    node: Handle,
    /// Other shards of the node.
    others: Vec<Handle>,
    metrics: Vec<Arc<Metrics>>,
    live: broadcast::Sender<Arc<str>>,
    log: LogLevel,
}

/// Serves the API on its own thread. Returns its addresses; dropping them removes the socket files.
///
/// # Errors
/// If a listener cannot be opened or the token is unusable.
pub fn start(settings: &ApiSettings, node: &Node) -> anyhow::Result<Vec<door::Place>> {
    let (doors, places): (Vec<_>, Vec<_>) = door::open(settings)?.into_iter().unzip();
    let (handle, others) = (node.handle(), node.others());
    let api = Api { node: handle, others, metrics: node.all_metrics(), live: node.live(), log: node.log.clone() };
    let bodies = bodies::BodyRoom::new(node.memory().0.total() / BODIES_PART);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("control".into()).spawn(move || {
        let router = router(api, bodies);
        runtime.block_on(join_all(doors.into_iter().map(|door| door.serve(router.clone()))));
    })?;
    Ok(places)
}

fn router(api: Api, bodies: Arc<bodies::BodyRoom>) -> Router {
    Router::new()
        .route("/openapi.json", get(|| async { ([(header::CONTENT_TYPE, "application/json")], OPENAPI) }))
        .route("/status", get(status))
        .route("/bundles", get(bundles::list))
        .route("/bundles/summary", get(bundles::sums))
        .route("/bundles/{handle}", delete(bundles::cancel))
        .route("/links", get(links).post(add_links))
        .route("/links/{name}", put(enable_link).delete(remove_link))
        .route("/contacts", get(contacts).post(add_contacts).put(replace_contacts).delete(remove_contacts))
        .route("/routes", get(routes).post(add_route).put(replace_routes).delete(remove_route))
        .route("/registrations", get(registrations))
        .route("/log", get(log_level).put(set_log_level))
        .route("/events", get(events))
        .route("/metrics", get(metrics))
        .route("/reload", post(reload))
        .route("/clock", post(confirm_clock))
        .route("/shutdown", post(shutdown))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(axum::middleware::from_fn_with_state(bodies, bodies::read))
        .with_state(api)
}

/// Error answer: HTTP status, and a message with its hint on the next line.
struct Problem(StatusCode, String);
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (error, hint) = self.1.split_once("\nhint: ").unwrap_or((&self.1, ""));
        (self.0, axum::Json(json!({ "error": error, "hint": hint }))).into_response()
    }
}
type ApiAnswer = Result<axum::Json<Value>, Problem>;

fn bad(message: impl Into<String>) -> Problem {
    Problem(StatusCode::BAD_REQUEST, message.into())
}
fn gone() -> Problem {
    Problem(StatusCode::SERVICE_UNAVAILABLE, "the node is shutting down".into())
}
fn done() -> ApiAnswer {
    Ok(axum::Json(json!({ "done": true })))
}

impl Api {
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Node) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        self.node.ask(question).await.ok_or_else(gone)
    }
    async fn no_such_link(&self, asked: &str) -> Problem {
        match self.snapshot().await {
            Ok(status) => {
                let there: Vec<String> = status.links.into_iter().map(|link| link.name.to_string()).collect();
                not_there("link", asked, &there)
            }
            Err(problem) => problem,
        }
    }
    async fn snapshot(&self) -> Result<Status, Problem> {
        Ok(self.whole().await?.status)
    }
    async fn whole(&self) -> Result<shards::Snapshot, Problem> {
        Ok(shards::whole(self.each(shards::Snapshot::of).await?))
    }
}

async fn status(State(api): State<Api>) -> ApiAnswer {
    let announced = api.ask(|node| node.announced()).await?;
    // Of the first shard: all have their folders on one disk.
    let disk = api.ask(|node| node.disk()).await?;
    let shards::Snapshot { status, capacity, memory, security, store, shards, faults, .. } = api.whole().await?;
    let store = json!({
        "file_bytes": store.file_bytes,
        "commits": store.commits.0,
        "commits_overlapped": store.commits.1,
        "files_written_over": store.written_over,
    });
    let security = security.map(
        |done| json!({ "made": done.made, "verified": done.verified, "failed": done.failed, "missing": done.missing }),
    );
    Ok(axum::Json(json!({
        "node_ids": texts(&status.node_ids),
        "version": env!("CARGO_PKG_VERSION"),
        "bundles": status.bundles,
        "bytes": status.bytes,
        "capacity_bytes": status.capacity,
        "store_capacity_bytes": capacity,
        "disk": disk.map(|disk| disk.to_json()),
        "strangers": json!({ "bundles": status.strangers.0, "bytes": status.strangers.1 }),
        "quotas": status.quotas.iter().map(quota).collect::<Vec<_>>(),
        "memory": memory.to_json(),
        "shards": shards,
        "store": store,
        "links": status.links.iter().map(|one| link(one, announced.as_ref(), &faults)).collect::<Vec<_>>(),
        "announcements": announced.as_ref().map(announcements),
        "registrations": texts(&status.registrations),
        "contacts": status.contacts,
        "security": security,
        "log_level": api.log.get(),
    })))
}
fn quota(quota: &QuotaStatus) -> Value {
    json!({
        "sources": quota.sources,
        "neighbours": quota.neighbours,
        "bundles": quota.bundles,
        "bytes": quota.bytes,
        "strangers": json!({ "bundles": quota.strangers.0, "bytes": quota.strangers.1 }),
        "bundles_max": quota.bundles_max,
        "bytes_max": quota.bytes_max,
        "refused": quota.refused,
    })
}
fn texts(endpoints: &[EndpointId]) -> Vec<String> {
    endpoints.iter().map(ToString::to_string).collect()
}
/// Neighbours discovered, with counters of beacons.
type HeardNode = (Vec<Announced>, BeaconCounts);
fn announcements((heard, counts): &HeardNode) -> Value {
    json!({
        "wanted": counts.wanted,
        "unwanted": counts.unwanted,
        "unreadable": counts.unreadable,
        "heard": heard.iter().map(announced).collect::<Vec<_>>(),
    })
}
fn announced(one: &Announced) -> Value {
    json!({
        "node": one.node.to_string(),
        "layer": one.layer,
        "address": one.address.to_string(),
        "link": one.link,
        "since_s": one.since.as_secs_f64(),
        "silent_s": one.silent.as_secs_f64(),
        "period_s": one.period.as_secs_f64(),
        "beacons": one.beacons,
        "sequence": one.sequence,
    })
}
fn link(link: &LinkStatus, heard: Option<&HeardNode>, faults: &HashMap<String, (f64, String)>) -> Value {
    let fault = faults.get(&*link.name);
    let found = heard.and_then(|(heard, _)| heard.iter().find(|one| one.link.as_ref() == Some(&link.name)));
    json!({
        "name": link.name,
        "peer": link.peer.to_string(),
        "up": link.up,
        "state": link.state,
        "queued": link.queued,
        "in_flight": link.in_flight,
        "found": found.map(announced),
        "last_error": fault.map(|(ago_s, what)| json!({ "what": what, "ago_s": ago_s })),
    })
}

/// Part of a list that a client asks for; a page shorter than its limit is the last.
#[derive(Deserialize)]
struct Page {
    limit: Option<usize>,
    /// Items skipped before the page.
    #[serde(default)]
    offset: usize,
}
impl Page {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(PAGE).min(PAGE_MAX)
    }
    fn of<T>(&self, items: impl IntoIterator<Item = T>, row: impl Fn(T) -> Value) -> ApiAnswer {
        Ok(axum::Json(items.into_iter().skip(self.offset).take(self.limit()).map(row).collect()))
    }
}
async fn links(State(api): State<Api>, Query(page): Query<Page>) -> ApiAnswer {
    let announced = api.ask(|node| node.announced()).await?;
    let all = api.whole().await?;
    page.of(&all.status.links, |one| link(one, announced.as_ref(), &all.faults))
}
#[derive(Deserialize)]
struct Enabled {
    enabled: bool,
}
async fn add_links(State(api): State<Api>, body: String) -> ApiAnswer {
    let (layers, own) = api.ask(|node| (node.config.stack.layers.clone(), node.config.stack.node_ids.clone())).await?;
    let links = NodeConfig::parse_links(&body, &layers, &own)
        .map_err(|errors| bad(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    api.ask(move |node| node.add_links(links)).await?.map_err(|why| bad(why.to_string()))?;
    done()
}
async fn remove_link(State(api): State<Api>, Path(name): Path<String>) -> ApiAnswer {
    let asked = name.clone();
    if api.ask(move |node| node.remove_link(&name)).await? { done() } else { Err(api.no_such_link(&asked).await) }
}
/// Answer (404) for the unknown name `asked` of a `what`, such as a link; `there` lists the existing names.
fn not_there(what: &str, asked: &str, there: &[String]) -> Problem {
    let hint =
        if there.is_empty() { format!("there is no {what} at all") } else { format!("there are {}", there.join(", ")) };
    Problem(StatusCode::NOT_FOUND, format!("no {what} is called `{asked}`\nhint: {hint}"))
}
async fn enable_link(State(api): State<Api>, Path(name): Path<String>, body: String) -> ApiAnswer {
    let Enabled { enabled } = read(&body, "{\"enabled\": false}")?;
    let asked = name.clone();
    let known = api
        .ask(move |node| {
            let known = node.has_link(&name);
            if known {
                node.input(Input::Admin(AdminInput::SetLink { link: name, enabled }));
            }
            known
        })
        .await?;
    if known { done() } else { Err(api.no_such_link(&asked).await) }
}
fn read<T: for<'de> Deserialize<'de>>(body: &str, example: &str) -> Result<T, Problem> {
    serde_json::from_str(body).map_err(|why| bad(format!("the body is not as expected: {why}\nhint: send {example}")))
}

async fn contacts(State(api): State<Api>, Query(page): Query<Page>) -> ApiAnswer {
    let plan = api.ask(|node| node.stack.plan().cloned()).await?;
    let Some(index) = plan else { return Ok(axum::Json(json!([]))) };
    let plan = index.plan();
    page.of(&plan.contacts, |c| contact(c, plan.epoch))
}
fn contact(contact: &Contact, epoch: Option<DtnTime>) -> Value {
    let seconds = |time: PlanTime| time.0 as f64 / 1e9;
    let utc = |time: PlanTime| epoch.map(|epoch| epoch.saturating_add_ms(time.0 / 1_000_000).to_string());
    json!({
        "from": contact.from.to_string(),
        "to": contact.to.to_string(),
        "link": contact.link,
        "start_s": seconds(contact.start),
        "end_s": seconds(contact.end),
        "start": utc(contact.start),
        "end": utc(contact.end),
        "rate_bit_s": contact.rate.0,
        "one_way_delay_s": contact.one_way_delay.as_secs_f64(),
        "confidence": contact.confidence,
    })
}
fn plan_of(body: &str) -> Result<ContactPlan, Problem> {
    crate::plan::parse(body).map_err(bad)
}
async fn add_contacts(State(api): State<Api>, body: String) -> ApiAnswer {
    let parsed = crate::plan::parse_all(&body).map_err(bad)?;
    if !parsed.without_range.is_empty() {
        // A file may hold such contacts, as ION's may; whoever adds one means it to be used.
        let why = parsed.warnings.first().map(ToString::to_string).unwrap_or_default();
        return Err(bad(format!("{why}\nhint: send `a range` with it, with the same times and nodes")));
    }
    let added = parsed.plan;
    api.ask(move |node| change_plan(node, added, |plan, contact| plan.push(contact))).await?.map_err(bad)?;
    done()
}
async fn remove_contacts(State(api): State<Api>, body: String) -> ApiAnswer {
    let parsed = crate::plan::parse_all(&body).map_err(bad)?;
    // A contact is removed by its nodes and start: it needs no range.
    let contacts = parsed.plan.contacts.into_iter().chain(parsed.without_range).collect();
    let removed = ContactPlan { epoch: parsed.plan.epoch, contacts };
    let remove = |plan: &mut Vec<Contact>, gone: Contact| {
        plan.retain(|c| (c.from, c.to, &c.link, c.start) != (gone.from, gone.to, &gone.link, gone.start));
    };
    api.ask(move |node| change_plan(node, removed, remove)).await?.map_err(bad)?;
    done()
}
async fn replace_contacts(State(api): State<Api>, body: String) -> ApiAnswer {
    let plan = plan_of(&body)?;
    api.ask(move |node| node.set_plan(plan)).await?;
    done()
}
/// Applies `change` to a copy of the plan for each contact of `by`, with times relative to the plan's epoch, and
/// activates the copy. Fails if a contact begins before that epoch.
fn change_plan(node: &mut Node, by: ContactPlan, change: impl Fn(&mut Vec<Contact>, Contact)) -> Result<(), String> {
    let mut plan = node.stack.plan().map_or_else(ContactPlan::default, |index| index.plan().clone());
    let epoch = plan.epoch.or(node.config.epoch);
    let shift_ms = match (by.epoch, epoch) {
        (Some(theirs), Some(ours)) => i128::from(theirs.as_millis()) - i128::from(ours.as_millis()),
        _ => 0,
    };
    let shift = |time: PlanTime| {
        u64::try_from(i128::from(time.0) + shift_ms * 1_000_000)
            .map(PlanTime)
            .map_err(|_| "a contact begins before the plan's epoch\nhint: replace the whole plan".to_string())
    };
    for mut contact in by.contacts {
        (contact.start, contact.end) = (shift(contact.start)?, shift(contact.end)?);
        change(&mut plan.contacts, contact);
    }
    node.set_plan(plan);
    Ok(())
}

#[derive(Deserialize)]
struct ApiRoute {
    pattern: String,
    next_hop: Option<String>,
}
impl ApiRoute {
    /// Accepts the route if some endpoint can match its pattern.
    fn checked(self) -> Result<ApiRoute, Problem> {
        if EndpointId::is_pattern(&self.pattern) {
            return Ok(self);
        }
        Err(bad(format!("`{}` matches no endpoint\nhint: {PATTERN_HINT}", self.pattern)))
    }
    fn hop(&self) -> Result<EndpointId, Problem> {
        let text = self.next_hop.as_deref().unwrap_or("");
        text.parse().map_err(|_| bad(format!("`{text}` is not a node ID\nhint: e.g. \"ipn:2.0\"")))
    }
}
const ROUTE: &str = "{\"pattern\": \"ipn:5.*\", \"next_hop\": \"ipn:2.0\"}";
async fn routes(State(api): State<Api>, Query(page): Query<Page>) -> ApiAnswer {
    let routes = api.ask(|node| node.stack.routes().to_vec()).await?;
    page.of(&routes, |(pattern, hop)| json!({ "pattern": pattern, "next_hop": hop.to_string() }))
}
async fn add_route(State(api): State<Api>, body: String) -> ApiAnswer {
    let route = read::<ApiRoute>(&body, ROUTE)?.checked()?;
    let next_hop = route.hop()?;
    api.ask(move |node| node.input(Input::Admin(AdminInput::AddRoute { pattern: route.pattern, next_hop }))).await?;
    done()
}
async fn remove_route(State(api): State<Api>, body: String) -> ApiAnswer {
    let route: ApiRoute = read(&body, "{\"pattern\": \"ipn:5.*\"}")?;
    let pattern = route.pattern.clone();
    let there = api
        .ask(move |node| {
            let there: Vec<String> = node.stack.routes().iter().map(|(pattern, _)| pattern.clone()).collect();
            node.input(Input::Admin(AdminInput::RemoveRoute { pattern: route.pattern }));
            there
        })
        .await?;
    if there.contains(&pattern) { done() } else { Err(not_there("route", &pattern, &there)) }
}
async fn replace_routes(State(api): State<Api>, body: String) -> ApiAnswer {
    let routes: Vec<ApiRoute> = read(&body, &format!("[{ROUTE}]"))?;
    let routes = routes
        .into_iter()
        .map(|route| route.checked().and_then(|r| r.hop().map(|hop| (r.pattern, hop))))
        .collect::<Result<Vec<_>, _>>()?;
    api.ask(move |node| node.set_routes(routes)).await?;
    done()
}

async fn registrations(State(api): State<Api>, Query(page): Query<Page>) -> ApiAnswer {
    page.of(&api.snapshot().await?.registrations, |endpoint| json!(endpoint.to_string()))
}

#[derive(Deserialize)]
struct Level {
    level: String,
}
async fn log_level(State(api): State<Api>) -> ApiAnswer {
    Ok(axum::Json(json!({ "level": api.log.get() })))
}
async fn set_log_level(State(api): State<Api>, body: String) -> ApiAnswer {
    let level: Level = read(&body, "{\"level\": \"debug\"}")?;
    api.log.set(&level.level).map_err(bad)?;
    done()
}

async fn events(State(api): State<Api>) -> impl IntoResponse {
    let receiver = api.live.subscribe();
    let stream = stream::unfold(receiver, |mut receiver| async move {
        let event = match receiver.recv().await {
            Ok(line) => Event::default().data(&*line),
            Err(broadcast::error::RecvError::Lagged(n)) => Event::default().event("lagged").data(n.to_string()),
            Err(broadcast::error::RecvError::Closed) => return None,
        };
        Some((Ok::<_, Infallible>(event), receiver))
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}

async fn metrics(State(api): State<Api>) -> Result<impl IntoResponse, Problem> {
    let status = api.snapshot().await?;
    let mut out = match &api.metrics[..] {
        [one] => one.render(),
        all => Metrics::sum(all).render(),
    };
    let gauges = [
        ("bundles", "Bundles kept.", status.bundles),
        ("bundle_bytes", "Their bytes.", status.bytes),
        ("capacity_bytes", "Most bytes kept.", status.capacity),
        ("registrations", "Registered endpoints.", status.registrations.len() as u64),
    ];
    for (name, help, value) in gauges {
        let _ = writeln!(out, "# HELP farlink_{name} {help}\n# TYPE farlink_{name} gauge\nfarlink_{name} {value}");
    }
    type Field = fn(&LinkStatus) -> u64;
    let fields: [(&str, &str, Field); 3] = [
        ("link_up", "Whether bundles may leave over the link now.", |link| link.up.into()),
        ("link_queued", "Bundles queued for the link.", |link| link.queued),
        ("link_in_flight", "Bundles handed to the layer and not yet confirmed.", |link| link.in_flight),
    ];
    for (name, help, field) in fields {
        let _ = writeln!(out, "# HELP farlink_{name} {help}\n# TYPE farlink_{name} gauge");
        for link in &status.links {
            let label = link.name.replace(['"', '\\', '\n'], "_");
            let _ = writeln!(out, "farlink_{name}{{link=\"{label}\"}} {}", field(link));
        }
    }
    type OfQuota = fn(&QuotaStatus) -> u64;
    let fields: [(&str, &str, &str, OfQuota); 3] = [
        ("quota_bytes", "gauge", "Bytes kept that count to a quota.", |quota| quota.bytes),
        ("quota_bundles", "gauge", "Bundles kept that count to a quota.", |quota| quota.bundles),
        ("quota_refused_total", "counter", "Bundles refused because of a quota.", |quota| quota.refused),
    ];
    for (name, kind, help, field) in fields.into_iter().filter(|_| !status.quotas.is_empty()) {
        let _ = writeln!(out, "# HELP farlink_{name} {help}\n# TYPE farlink_{name} {kind}");
        for quota in &status.quotas {
            let of = [&quota.sources[..], &quota.neighbours[..]].concat().join(" ").replace(['"', '\\', '\n'], "_");
            let _ = writeln!(out, "farlink_{name}{{quota=\"{of}\"}} {}", field(quota));
        }
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], out))
}

async fn reload(State(api): State<Api>) -> ApiAnswer {
    let waiting = api.ask(Node::reload).await?.map_err(bad)?;
    Ok(axum::Json(json!({ "done": true, "needs_restart": waiting })))
}
async fn confirm_clock(State(api): State<Api>) -> ApiAnswer {
    api.ask(|node| node.input(Input::Admin(AdminInput::ConfirmClock))).await?;
    done()
}
async fn shutdown(State(api): State<Api>) -> ApiAnswer {
    // The answer is sent before the node stops: a node with nothing to drain ends at once, and this thread with it.
    api.ask(|_| ()).await?;
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        api.node.run(Node::stop);
    });
    done()
}
