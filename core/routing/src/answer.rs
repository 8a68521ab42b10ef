//! Answers to route questions typed by people, as in `farlink plan route`.

use crate::contact_plan::{Parsed, text};
use crate::sabr::{Booked, Profile, Query, Route, find_route};
use crate::{PlanIndex, PlanTime};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use farlink_base::{ConfigError, DataVolume, DtnTime, NodeId, Priority, nearest_name};

/// A route question as typed.
#[derive(Clone, Copy, Debug)]
pub struct RouteRequest<'a> {
    /// Node that has the bundle: number, `ipn:` EID, or a name from the plan.
    pub from: &'a str,
    /// Node to reach.
    pub to: &'a str,
    /// Earliest departure: UTC, `+s`, or plain seconds from the epoch.
    pub at: &'a str,
    /// Length of the encoded bundle, such as `100 kB`.
    pub size: &'a str,
    /// End of the bundle's lifetime, written like `at`; `None`: no end.
    pub expires: Option<&'a str>,
    /// Class of service: `bulk`, `normal` or `expedited`.
    pub priority: &'a str,
    /// Profile of the search: `exact`, `sabr` or `ion`.
    pub profile: &'a str,
    /// Neighbours excluded as first hop.
    pub excluded: &'a [String],
}

/// Answer to a route question.
#[derive(Clone, PartialEq, Debug)]
pub struct RouteAnswer {
    /// The route, if there is one.
    pub route: Option<Route>,
    /// Explanation, if there is no route.
    pub reason: Option<String>,
}

fn wrong(path: &str, expected: String, hint: String) -> ConfigError {
    ConfigError { path: path.into(), expected, hint }
}

/// Parses a time on the plan's scale: UTC, if the plan has an epoch, or a duration from the plan's zero (`3600`,
/// `+3600`, `1h30min`).
///
/// # Errors
/// Text that is no time, or UTC in a plan without an epoch.
pub fn parse_time(plan: &Parsed, option: &str, text: &str) -> Result<PlanTime, ConfigError> {
    // Wall time needs an epoch to place it on the plan's scale.
    if let Some(utc) = DtnTime::parse_utc(text) {
        let epoch = plan.plan.epoch.ok_or_else(|| {
            let hint = "give the time in seconds, or declare an epoch in the plan".into();
            wrong(option, "a wall time, but the plan has no epoch".into(), hint)
        })?;
        return match utc.0.checked_sub(epoch.0) {
            Some(ms) => Ok(PlanTime(ms.saturating_mul(1_000_000))),
            None => Err(wrong(option, format!("{utc} is before the plan's epoch, {epoch}"), String::new())),
        };
    }
    text::parse_seconds(text.strip_prefix('+').unwrap_or(text)).map(PlanTime).ok_or_else(|| {
        let hint = "write `+3600`, `1h30min` or `2026-11-20T09:00:00Z`".into();
        wrong(option, format!("`{}` is not a time", text::shorten(text)), hint)
    })
}

fn parse_node(plan: &Parsed, option: &str, text: &str) -> Result<NodeId, ConfigError> {
    plan.node(text).ok_or_else(|| {
        // Typing errors in names are the most common mistake.
        let near = nearest_name(text, plan.names.iter().map(|(name, _)| name.as_str()));
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "write a node number, such as 3 or ipn:3.0".into(),
        };
        wrong(option, format!("`{}` is not a node", text::shorten(text)), hint)
    })
}

/// Finds the route that SABR picks for a bundle as typed.
///
/// # Errors
/// A question that cannot be parsed.
pub fn answer(plan: &Parsed, request: &RouteRequest<'_>) -> Result<RouteAnswer, ConfigError> {
    let excluded: Result<Vec<NodeId>, _> = request.excluded.iter().map(|n| parse_node(plan, "--exclude", n)).collect();
    let excluded = excluded?;
    let size: DataVolume = request
        .size
        .parse()
        .map_err(|error: String| wrong("--size", error, "decimal units: `100 kB`; binary: `64 MiB`".into()))?;
    let query = Query {
        from: parse_node(plan, "--from", request.from)?,
        to: parse_node(plan, "--to", request.to)?,
        at: parse_time(plan, "--at", request.at)?,
        size: size.bytes(),
        expires: request.expires.map_or(Ok(PlanTime::MAX), |text| parse_time(plan, "--expires", text))?,
        priority: match request.priority {
            "bulk" => Priority::Bulk,
            "normal" => Priority::Normal,
            "expedited" => Priority::Expedited,
            other => {
                let expected = format!("`{}` is not a priority", text::shorten(other));
                return Err(wrong("--priority", expected, "bulk, normal or expedited".into()));
            }
        },
        excluded: &excluded,
        profile: Profile::from_name(request.profile).ok_or_else(|| {
            let expected = format!("`{}` is not a profile", text::shorten(request.profile));
            wrong("--profile", expected, "exact, sabr or ion".into())
        })?,
    };
    // A single request: nothing is booked.
    let index = PlanIndex::new(plan.plan.clone());
    let route = find_route(&index, &query, &Booked::default());
    let reason = if route.is_none() { Some(reason(&index, &query)) } else { None };
    Ok(RouteAnswer { route, reason })
}

/// Names the first condition whose removal alone would give a route.
fn reason(index: &PlanIndex, query: &Query<'_>) -> String {
    // Each trial drops one condition, so the answer names something the user can change.
    let find = |query: &Query<'_>| find_route(index, query, &Booked::default());
    if let Some(late) = find(&Query { expires: PlanTime::MAX, ..*query }) {
        let (late, end) = (text::decimal_seconds(late.arrival.0), text::decimal_seconds(query.expires.0));
        return format!("the earliest arrival is +{late} s, after the bundle expires at +{end} s");
    }
    if find(&Query { excluded: &[], ..*query }).is_some() {
        return "every route begins with an excluded neighbour".into();
    }
    if find(&Query { size: 0, ..*query }).is_some() {
        return format!("no sequence of contacts can take {} whole", DataVolume(query.size));
    }
    let at = text::decimal_seconds(query.at.0);
    format!("no sequence of contacts leads from {} to {} after +{at} s", query.from, query.to).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contact_plan::parse;

    const PLAN: &str = "epoch 2026-11-20T09:00:00Z\nnode earth 1\nnode mars 3\n\
                        contact earth 2 +0..+100 rate 10 B/s delay 1 s\ncontact 2 mars +0..+200 rate 10 B/s delay 1 s";
    fn request() -> RouteRequest<'static> {
        RouteRequest {
            from: "earth",
            to: "ipn:3.0",
            at: "2026-11-20T09:00:10Z",
            size: "0.1 kB",
            expires: None,
            priority: "normal",
            profile: "exact",
            excluded: &[],
        }
    }

    #[test]
    fn answers_are_readable() {
        let plan = parse(PLAN).unwrap();
        let route = answer(&plan, &request()).unwrap().route.unwrap();
        assert_eq!((route.arrival, route.hops()), (PlanTime::from_secs(32), 2));
        // ION's profile adds overhead, so the transmission takes longer.
        let ion = answer(&plan, &RouteRequest { profile: "ion", ..request() }).unwrap().route.unwrap();
        assert!(ion.arrival > route.arrival);
    }

    #[test]
    fn missing_route_names_the_reason() {
        let plan = parse(PLAN).unwrap();
        let reason = |request: RouteRequest<'_>| answer(&plan, &request).unwrap().reason.unwrap();
        assert!(reason(RouteRequest { expires: Some("+20"), ..request() }).contains("earliest arrival is +32 s"));
        assert!(reason(RouteRequest { excluded: &["2".into()], ..request() }).contains("excluded"));
        assert!(reason(RouteRequest { size: "1 MB", ..request() }).contains("1 MB whole"));
        assert!(reason(RouteRequest { at: "500", ..request() }).contains("leads from"));
    }

    #[test]
    fn unreadable_question_gets_a_hint() {
        let plan = parse(PLAN).unwrap();
        for (request, path, hint) in [
            (RouteRequest { from: "erth", ..request() }, "--from", "earth"),
            (RouteRequest { to: "venus!", ..request() }, "--to", "number"),
            (RouteRequest { at: "noon", ..request() }, "--at", "+3600"),
            (RouteRequest { size: "big", ..request() }, "--size", "kB"),
            (RouteRequest { priority: "high", ..request() }, "--priority", "expedited"),
            (RouteRequest { profile: "cgr", ..request() }, "--profile", "ion"),
            (RouteRequest { expires: Some("1999-01-01T00:00:00Z"), ..request() }, "--expires", "+3600"),
        ] {
            let error = answer(&plan, &request).unwrap_err();
            assert_eq!(error.path, path);
            assert!(error.hint.contains(hint), "{error}");
        }
    }
}
