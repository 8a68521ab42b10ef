//! Every case and sequence of `tests/vectors/sabr_cases.json`, with the same input as `farlink plan route`: the plan
//! as text in either dialect, and the request as text.

use farlink_routing::contact_plan::{Parsed, parse};
use farlink_routing::sabr::{Booked, Planner, Query, Route};
use farlink_routing::{NodeId, PlanIndex, PlanTime, RouteRequest, answer};
use serde_json::Value;
use std::fmt::Write;

fn vectors() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/sabr_cases.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_f64().map(|f| f as u64)).unwrap()
}

/// Plan of a case in Farlink's dialect and in ION's.
fn plans(case: &Value) -> [Parsed; 2] {
    let (mut ours, mut ion) = (String::new(), String::new());
    for c in case["contacts"].as_array().unwrap() {
        let [from, to, start, end, rate, delay] = [0, 1, 2, 3, 4, 5].map(|i| &c[i]);
        writeln!(ours, "contact {from} {to} +{start}..+{end} rate {rate} B/s delay {delay} s").unwrap();
        writeln!(ion, "a contact +{start} +{end} {from} {to} {rate}").unwrap();
        writeln!(ion, "a range +{start} +{end} {from} {to} {delay}").unwrap();
    }
    [parse(&ours).unwrap(), parse(&ion).unwrap()]
}

fn check(id: &str, route: Option<&Route>, expected: &Value) {
    let Some(route) = route else {
        assert!(expected.is_null(), "{id}: no route, expected {expected}");
        return;
    };
    assert!(!expected.is_null(), "{id}: {route:?}, expected none");
    assert_eq!(route.arrival.as_secs_f64(), expected["arrival"].as_f64().unwrap(), "{id}: {route:?}");
    assert_eq!(route.hops() as u64, number(&expected["hops"]), "{id}: {route:?}");
    assert_eq!(route.next_hop(), Some(NodeId(number(&expected["next_hop"]))), "{id}: {route:?}");
    if let Some(path) = expected["path"].as_array() {
        assert_eq!(route.first_contact().map(u64::from), expected["first_contact"].as_u64(), "{id}");
        for (hop, want) in route.path.iter().zip(path) {
            assert_eq!(hop.contact.map(u64::from), want["contact"].as_u64(), "{id}");
            assert_eq!(hop.start.as_secs_f64(), want["tx_start"].as_f64().unwrap(), "{id}");
            assert_eq!(hop.arrival.as_secs_f64(), want["arrival"].as_f64().unwrap(), "{id}");
        }
    }
    if let Some(contacts) = expected["contacts"].as_array() {
        let path: Vec<u64> = route.path.iter().filter_map(|hop| hop.contact.map(u64::from)).collect();
        assert_eq!(path, contacts.iter().map(number).collect::<Vec<_>>(), "{id}");
    }
}

#[test]
fn single_cases() {
    let vectors = vectors();
    let cases = vectors["cases"].as_array().unwrap();
    assert!(cases.len() >= 16);
    for case in cases {
        let (id, bundle) = (case["id"].as_str().unwrap(), &case["bundle"]);
        let text = |key: &str| number(&bundle[key]).to_string();
        let excluded: Vec<String> =
            case["excluded"].as_array().into_iter().flatten().map(|n| number(n).to_string()).collect();
        for plan in plans(case) {
            let request = RouteRequest {
                from: &text("source"),
                to: &format!("ipn:{}.0", text("dest")),
                at: &text("time"),
                size: &text("size"),
                expires: Some(&text("deadline")),
                priority: "normal",
                profile: "exact",
                excluded: &excluded,
            };
            let answer = answer(&plan, &request).unwrap();
            check(&format!("{id} ({})", plan.dialect), answer.route.as_ref(), &case["expected"]);
            assert_eq!(answer.route.is_none(), answer.reason.is_some());
        }
    }
}

#[test]
fn booked_sequences() {
    let vectors = vectors();
    let sequences = vectors["sequences"].as_array().unwrap();
    assert!(sequences.len() >= 3);
    for sequence in sequences {
        for plan in plans(sequence) {
            let (mut planner, mut booked) = (Planner::default(), Booked::default());
            let graph = PlanIndex::new(plan.plan);
            let bundles = sequence["bundles"].as_array().unwrap();
            for (index, (bundle, expected)) in bundles.iter().zip(sequence["expected"].as_array().unwrap()).enumerate()
            {
                let at = PlanTime::from_secs(number(&bundle["time"]));
                let [source, dest, size] = ["source", "dest", "size"].map(|key| number(&bundle[key]));
                let mut query = Query::new(NodeId(source), NodeId(dest), at, size);
                query.expires = PlanTime::from_secs(number(&bundle["deadline"]));
                let route = planner.route(&graph, &query, &booked);
                check(&format!("{} bundle {index}", sequence["id"]), route.as_ref(), expected);
                if let Some(route) = route {
                    booked.book(&route, query.priority);
                }
            }
        }
    }
}
