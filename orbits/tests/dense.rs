//! Windows compared with the state at closely spaced times: none missing, none too many, every edge exact.

use farlink_base::DtnTime;
use farlink_orbits::edges::{Look, SightWindow, windows};
use farlink_orbits::kepler::Elements;
use farlink_orbits::moment::SECOND;
use farlink_orbits::place::{GroundSite, Trajectory};
use farlink_orbits::satellite::Satellite;
use farlink_orbits::sight::{Limits, Sight};
use farlink_orbits::sky::Sky;
use farlink_orbits::tle;
use proptest::prelude::*;

const HOUR: i64 = 3600 * SECOND;

fn sky() -> Sky {
    Sky::new(DtnTime::parse_utc("2026-11-20T09:00:00Z").unwrap())
}

/// A body, and numbers from 0 to 1 that become an orbit around it or a site on it.
#[derive(Clone, Debug)]
struct Draw {
    body: &'static str,
    ground: bool,
    numbers: [f64; 6],
}

fn draw() -> impl Strategy<Value = Draw> {
    let body = prop_oneof![6 => Just("earth"), 1 => Just("moon"), 1 => Just("mars")];
    (body, prop::bool::weighted(0.4), prop::array::uniform6(0.0..1.0f64)).prop_map(|(body, ground, numbers)| Draw {
        body,
        ground,
        numbers,
    })
}

fn place(sky: &Sky, draw: &Draw) -> Trajectory {
    let body = sky.find(draw.body).unwrap();
    let [a, b, c, d, e, f] = draw.numbers;
    let turn = |number: f64| number * std::f64::consts::TAU;
    if draw.ground {
        let site = GroundSite { latitude: (a - 0.5) * 3.1, longitude: turn(b), altitude_km: c * 3.0 };
        return Trajectory::ground(sky, body, site).unwrap();
    }
    // Periapsis from just above the ground to seven radii, mostly low.
    let lowest = sky.body(body).radius_km * (1.02 + 6.0 * a * a * a);
    let eccentricity = 0.7 * b * b;
    let elements = Elements {
        semi_major_km: lowest / (1.0 - eccentricity),
        eccentricity,
        inclination: c * std::f64::consts::PI,
        node: turn(d),
        periapsis: turn(e),
        anomaly: turn(f),
        at: 0,
    };
    Trajectory::orbit(sky, body, &elements).unwrap()
}

/// Compares the windows found with the state at regular times; returns the number of evaluations of the search.
fn agree(sight: &Sight<'_>, span: SightWindow, apart: i64) -> Result<u32, TestCaseError> {
    let mut asked = 0;
    let found = windows(span, &mut |time| {
        asked += 1;
        sight.look(time)
    });
    let found = found.unwrap();
    let inside = |time: i64| found.iter().any(|window| (window.start..window.end).contains(&time));
    let look = |time: i64| sight.look(time).unwrap();
    let mut time = span.start;
    while time < span.end {
        prop_assert_eq!(look(time).value >= 0.0, inside(time), "at {} in {:?}", time, found);
        time += apart;
    }
    for window in &found {
        prop_assert!(window.start < window.end);
        for (edge, before) in [(window.start, false), (window.end, true)] {
            if edge > span.start && edge < span.end {
                prop_assert_eq!(look(edge - 1).value >= 0.0, before);
                prop_assert_eq!(look(edge).value >= 0.0, !before);
            }
        }
    }
    Ok(asked)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_match_dense_samples(
        one in draw(), other in draw(), mask in 0.0..0.7f64, range in 0.0..1.0f64, offset in 0..1_000_000_000i64,
    ) {
        prop_assume!(!(one.ground && other.ground && one.body == other.body));
        let sky = sky();
        let places = [place(&sky, &one), place(&sky, &other)];
        let range_km = (range < 0.3).then_some(2000.0 + 100_000.0 * range);
        let sight = Sight::new(&sky, [&places[0], &places[1]], [mask, mask * 0.5], &Limits { range_km, clearance_km: 0.0 });
        // An odd number of nanoseconds, so that sample times do not coincide with edges.
        agree(&sight, SightWindow { start: 0, end: 12 * HOUR }, 20 * SECOND + offset)?;
    }

    #[test]
    fn state_persists_for_guaranteed_time(
        one in draw(), other in draw(), mask in 0.0..0.7f64, at in prop::array::uniform8(0..48 * HOUR),
        shares in prop::array::uniform8(0.0..1.0f64),
    ) {
        prop_assume!(!(one.ground && other.ground && one.body == other.body));
        let sky = sky();
        let places = [place(&sky, &one), place(&sky, &other)];
        let limits = Limits { range_km: None, clearance_km: 50.0 };
        let sight = Sight::new(&sky, [&places[0], &places[1]], [mask; 2], &limits);
        for (time, share) in at.into_iter().zip(shares) {
            let Look { value, hold } = sight.look(time).unwrap();
            prop_assert!(hold >= value.abs() * 0.999_999, "a condition holds at least as long as its value says");
            for part in [share, 1.0] {
                let later = time + (hold * part * 1e9) as i64;
                let then = sight.look(later).unwrap();
                let surely = then.value.abs() < 1e-9 || (then.value >= 0.0) == (value >= 0.0);
                prop_assert!(surely, "{} s of {} s after {}: {} became {}", hold * part, hold, time, value, then.value);
            }
        }
    }
}

/// Satellites of every kind, by their two-line elements, over two stations for one day.
#[test]
fn tle_windows_match_dense_samples() {
    let text = include_str!("vectors/sgp4.txt");
    let is_elements = |line: &&str| line.len() == 69 && (line.starts_with("1 ") || line.starts_with("2 "));
    let lines: Vec<&str> = text.lines().filter(is_elements).collect();
    let (mut looks, mut satellites) = (0, 0);
    for pair in lines.chunks(2).step_by(2) {
        let tle = &tle::read(&pair.join("\n")).unwrap()[0];
        // The plan starts with the first whole day after the epoch.
        let day: u64 = pair[0][20..23].trim().parse().unwrap();
        let year = DtnTime::parse_utc(&format!("20{}-01-01T00:00:00Z", &pair[0][18..20])).unwrap();
        let sky = Sky::new(year.saturating_add_ms(day * 86_400_000));
        let satellite = Satellite::new(tle, sky.start()).unwrap();
        // Satellites that decay within the day are skipped.
        if (0..=24).any(|hour| satellite.state(hour * HOUR).is_err()) {
            continue;
        }
        let place = Trajectory::satellite(&sky, satellite).unwrap();
        for (latitude, longitude) in [(1.1, 0.2), (-0.3, 2.0)] {
            let site = GroundSite { latitude, longitude, altitude_km: 0.2 };
            let ground = Trajectory::ground(&sky, sky.find("earth").unwrap(), site).unwrap();
            let limits = Limits { range_km: None, clearance_km: 0.0 };
            let sight = Sight::new(&sky, [&ground, &place], [0.15, 0.0], &limits);
            looks += agree(&sight, SightWindow { start: 0, end: 24 * HOUR }, 30 * SECOND + 7).unwrap();
            satellites += 1;
        }
    }
    assert!(satellites >= 16, "{satellites}");
    assert!(looks < 400 * satellites, "{looks} looks for {satellites} days");
}
