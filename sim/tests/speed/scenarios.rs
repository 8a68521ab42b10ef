//! Scenarios for the cost of simulation, in any size: the tests run them small, `cargo xtask sim-speed` in full. Text
//! only, so that both can share this file.

use std::fmt::Write;

fn nodes(name: &str, duration_s: u64, count: usize, defaults: &str) -> String {
    // Links, contacts and traffic of all scenarios refer to `n1`, `n2` and so on.
    let mut text = format!(
        "name = \"{name}\"\nseed = 7\nduration = \"{duration_s} s\"\nstop_when_delivered = false\n\
         [node_defaults]\nlifetime = \"9600 h\"\n{defaults}\n"
    );
    for number in 1..=count {
        let _ = writeln!(text, "[[node]]\nname = \"n{number}\"\nid = \"ipn:{number}.0\"");
    }
    text
}

fn link(text: &mut String, a: usize, b: usize, keys: &str) {
    let _ = writeln!(text, "[[link]]\nname = \"l{a}-{b}\"\nbetween = [\"n{a}\", \"n{b}\"]\n{keys}");
}

fn contact(text: &mut String, a: usize, b: usize, start_s: u64, end_s: u64) {
    let _ = writeln!(text, "[[contact]]\nlink = \"l{a}-{b}\"\nstart = \"{start_s} s\"\nend = \"{end_s} s\"");
}

fn traffic(text: &mut String, from: usize, to: usize, start_s: u64, bundles: &str) {
    let _ = writeln!(
        text,
        "[[traffic]]\nname = \"t{from}-{to}-{start_s}\"\nfrom = \"n{from}\"\nto = \"n{to}\"\nstart = \"{start_s} s\"\n\
         bundles = {{ {bundles} }}"
    );
}

/// Two nodes with contacts of one minute in every two, a bundle at the start and one at the end.
pub fn contacts(count: u64) -> String {
    let mut text = nodes("contacts", count * 120, 2, "");
    link(&mut text, 1, 2, "layer = \"ltp\"\nrate = \"1 Mbit/s\"\ndelay = \"1 s\"");
    for number in 0..count {
        contact(&mut text, 1, 2, number * 120 + 30, number * 120 + 90);
    }
    traffic(&mut text, 1, 2, 0, "count = 1, size = \"10 kB\"");
    traffic(&mut text, 1, 2, (count - 1) * 120, "count = 1, size = \"10 kB\"");
    text
}

/// A probe, a relay and a ground station for `count` days: one pass and ten bundles each day.
pub fn days(count: u64) -> String {
    let mut text = nodes("days", count * 86_400, 3, "");
    link(&mut text, 1, 2, "layer = \"ltp\"\nrate = \"1 Mbit/s\"\ndelay = \"10 min\"");
    link(&mut text, 2, 3, "layer = \"tcpclv4\"\nrate = \"100 Mbit/s\"\ndelay = \"20 ms\"");
    for day in 0..count {
        contact(&mut text, 1, 2, day * 86_400 + 30_000, day * 86_400 + 37_200);
    }
    traffic(&mut text, 1, 3, 0, &format!("count = {}, size = \"10 kB\", interval = \"2 h\"", count * 10));
    text
}

/// Three nodes in a row and `count` bundles at an even pace, ten a second.
pub fn paced(count: u64) -> String {
    let mut text = nodes("paced", count / 10 + 60, 3, "");
    link(&mut text, 1, 2, "layer = \"ltp\"\nrate = \"10 Mbit/s\"\ndelay = \"200 ms\"");
    link(&mut text, 2, 3, "layer = \"tcpclv4\"\nrate = \"100 Mbit/s\"\ndelay = \"10 ms\"");
    traffic(&mut text, 1, 3, 0, &format!("count = {count}, size = \"1 kB\", interval = \"100 ms\""));
    text
}

/// A node whose store takes two of fourteen bundles, without a contact for `seconds`.
#[allow(dead_code, reason = "a small run shows it")]
pub fn full(seconds: u64) -> String {
    let mut text = nodes("full", seconds, 2, "store_capacity = \"25 kB\"");
    link(&mut text, 1, 2, "layer = \"ltp\"\nrate = \"1 Mbit/s\"\ndelay = \"1 s\"");
    contact(&mut text, 1, 2, seconds - 1, seconds);
    traffic(&mut text, 1, 2, 0, "count = 14, size = \"10 kB\"");
    text
}

/// Nodes that meet at random and copy all their bundles, for `minutes`. A pair meets for half a minute, about every
/// forty minutes; the source of a bundle never meets its destination.
pub fn saturated(count: usize, minutes: u64, fidelity: &str) -> String {
    let mut text = format!("fidelity = \"{fidelity}\"\n");
    text += &nodes("saturated", minutes * 60, count, "router = \"epidemic\"\nstore_capacity = \"5 MB\"");
    let pairs = (1..=count).flat_map(|a| (a + 2..=count).map(move |b| (a, b)));
    let pairs: Vec<(usize, usize)> = pairs.filter(|pair| *pair != (1, count)).collect();
    for &(a, b) in &pairs {
        link(&mut text, a, b, "layer = \"ltp\"\nrate = \"2 Mbit/s\"\ndelay = \"1 ms\"");
    }
    // A small generator (Knuth's MMIX) keeps the file independent of the crates.
    let mut state = 1u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    for &(a, b) in &pairs {
        let mut at = below(2400);
        while at + 30 < minutes * 60 {
            contact(&mut text, a, b, at, at + 30);
            at += 60 + below(4600);
        }
    }
    for from in 1..=count {
        let to = from % count + 1;
        let keys = format!("count = {}, size = [\"50 kB\", \"500 kB\"], interval = \"25 min\"", minutes / 25 + 1);
        traffic(&mut text, from, to, from as u64 * 30, &keys);
    }
    text
}
