//! What the tests share.
#![allow(dead_code, reason = "each test file uses some of it")]

use farlink_orbits::{contacts, parse};
use farlink_routing::contact_plan::ContactPlan;
use std::path::Path;

/// Nanoseconds of a day.
pub const DAY: i64 = 86_400_000_000_000;

/// The plan of a file that says when it starts.
pub fn plan(text: &str, duration: i64) -> ContactPlan {
    let network = parse(text, Path::new(""), None).unwrap_or_else(|errors| panic!("{errors:#?}"));
    contacts(&network, duration, 2, &|_| ()).unwrap_or_else(|error| panic!("{error}"))
}

/// The mistakes in a file, each with its place.
pub fn mistakes(text: &str) -> Vec<String> {
    let errors = parse(text, Path::new(""), None).expect_err("mistakes");
    errors.iter().map(ToString::to_string).collect()
}

/// Start and end in seconds of the contacts from one node to another.
pub fn spans(plan: &ContactPlan, from: u64, to: u64) -> Vec<(f64, f64)> {
    let of_pair = plan.contacts.iter().filter(|contact| contact.from.0 == from && contact.to.0 == to);
    of_pair.map(|contact| (contact.start.as_secs_f64(), contact.end.as_secs_f64())).collect()
}
