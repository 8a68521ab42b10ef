//! Measures how long a plan of many passes takes: `cargo run --release -p farlink-orbits --example speed --
//! [SATELLITES] [STATIONS] [THREADS] [tle]`; the defaults are 1000, 10 and 1. With `tle`, satellites follow two-line
//! elements, whose positions take longer to compute.

use farlink_orbits::{contacts, parse};
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |default: usize| words.next().and_then(|word| word.parse().ok()).unwrap_or(default);
    let (satellites, stations, threads) = (number(1000), number(10), number(1));
    let tle = words.next().is_some_and(|word| word == "tle");
    let per_plane = satellites.div_ceil(20);
    let mut text = String::from("epoch = \"2026-11-20T09:00:00Z\"\n");
    for station in 0..stations {
        let latitude = -75.0 + 150.0 * (station as f64 + 0.5) / stations as f64;
        let _ = writeln!(
            text,
            "[[station]]\nname = \"s{station}\"\nid = {}\nposition = [\"{latitude} deg\", \"{} deg\"]\nmask = \"10 deg\"",
            station + 1,
            station * 137 % 360
        );
    }
    text.push_str("[[constellation]]\nname = \"leo\"\nfirst_id = 1000\n");
    if tle {
        text.push_str("tle = '''\n");
        for satellite in 0..satellites {
            text.push_str(&elements(satellite, per_plane));
        }
        text.push_str("'''\n");
    } else {
        let _ = writeln!(
            text,
            "walker = {{ planes = 20, per_plane = {per_plane}, inclination = \"53 deg\", altitude = \"550 km\", phasing = 1 }}"
        );
    }
    text.push_str("[[link]]\nbetween = [\"stations\", \"leo\"]\nrate = \"1 Mbit/s\"\n");
    let network = match parse(&text, Path::new(""), None) {
        Ok(network) => network,
        Err(errors) => return eprintln!("{errors:?}"),
    };
    let begun = Instant::now();
    match contacts(&network, 86_400_000_000_000, threads, &|_| ()) {
        Ok(plan) => println!(
            "{} satellites, {stations} stations, 1 day, {threads} threads: {} contacts in {:.2} s",
            network.nodes.len() - stations,
            plan.contacts.len(),
            begun.elapsed().as_secs_f64()
        ),
        Err(error) => eprintln!("{error}"),
    }
}

/// Two-line elements of a satellite in the same constellation.
fn elements(number: usize, per_plane: usize) -> String {
    let (plane, slot) = (number / per_plane, number % per_plane);
    let node = 18.0 * plane as f64 % 360.0;
    let anomaly = 360.0 * slot as f64 / per_plane as f64;
    let catalog = 10_000 + number;
    [
        format!("1 {catalog:05}U 26001A   26324.37500000  .00000000  00000-0  10000-4 0  999"),
        format!("2 {catalog:05}  53.0000 {node:8.4} 0001000   0.0000 {anomaly:8.4} 15.06000000    1"),
    ]
    .map(|line| {
        let digit = |b: u8| if b.is_ascii_digit() { u32::from(b - b'0') } else { u32::from(b == b'-') };
        let sum = line.bytes().map(digit).sum::<u32>() % 10;
        format!("{line}{sum}\n")
    })
    .concat()
}
