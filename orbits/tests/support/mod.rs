//! Helpers shared by the tests.
#![allow(dead_code, reason = "each test file uses some of it")]

use farlink_orbits::{contacts, parse};
use farlink_routing::contact_plan::ContactPlan;
use std::path::Path;

/// Nanoseconds per day.
pub const DAY: i64 = 86_400_000_000_000;

/// Plan of a file that contains its start time.
pub fn plan(text: &str, duration: i64) -> ContactPlan {
    let network = parse(text, Path::new(""), None).unwrap_or_else(|errors| panic!("{errors:#?}"));
    contacts(&network, duration, 2, &|_| ()).unwrap_or_else(|error| panic!("{error}"))
}

/// Errors of a file, each with its position.
pub fn mistakes(text: &str) -> Vec<String> {
    let errors = parse(text, Path::new(""), None).expect_err("mistakes");
    errors.iter().map(ToString::to_string).collect()
}

/// Start and end of the contacts from one node to another, in seconds.
pub fn spans(plan: &ContactPlan, from: u64, to: u64) -> Vec<(f64, f64)> {
    let of_pair = plan.contacts.iter().filter(|contact| contact.from.0 == from && contact.to.0 == to);
    of_pair.map(|contact| (contact.start.as_secs_f64(), contact.end.as_secs_f64())).collect()
}
