//! Positions and passes compared with published values, or with values computed by hand.

use crate::support;

use crate::support::{DAY, plan, spans};
use farlink_base::DtnTime;
use farlink_orbits::moment::{SECOND, sidereal};
use farlink_orbits::place::Trajectory;
use farlink_orbits::satellite::Satellite;
use farlink_orbits::sight::{LIGHT, Limits, Sight};
use farlink_orbits::sky::Sky;
use farlink_orbits::{Network, contacts, kepler::Elements, parse, tle};
use std::f64::consts::{FRAC_PI_2, TAU};
use std::path::Path;

#[test]
fn sgp4_matches_published_vectors() {
    let text = include_str!("vectors/sgp4.txt");
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).peekable();
    let (mut satellites, mut states) = (0, 0);
    while let (Some(first), Some(second)) = (lines.next(), lines.next()) {
        let tle = &tle::read(&format!("{first}\n{second}")).unwrap_or_else(|error| panic!("{first}: {error}"))[0];
        // The plan starts on the first day of the elements' year, which differs from their epoch.
        let start = DtnTime::parse_utc(&format!("20{}-01-01T00:00:00Z", &first[18..20])).unwrap();
        let satellite = Satellite::new(tle, start).unwrap_or_else(|error| panic!("{first}: {error}"));
        satellites += 1;
        let is_state = |line: &&str| line.split(' ').count() == 7 && !line.starts_with("1 ");
        while let Some(line) = lines.next_if(is_state) {
            let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            let time = satellite.epoch() + (numbers[0] * 60e9).round() as i64;
            // Satellites that decay leave the bounds of their elements, which must be an error.
            let far = numbers[1..4].iter().map(|number| number * number).sum::<f64>().sqrt();
            if far < satellite.reach().nearest_km {
                assert!(satellite.state(time).is_err(), "{first}\n{line}");
                continue;
            }
            let state = satellite.state(time).unwrap_or_else(|error| panic!("{first}: {error}"));
            let (p, v) = (state.position, state.velocity);
            for (found, wanted) in [p.x, p.y, p.z].iter().zip(&numbers[1..4]) {
                assert!((found - wanted).abs() < 2e-6, "{first}\n{line}: {found} km");
            }
            for (found, wanted) in [v.x, v.y, v.z].iter().zip(&numbers[4..7]) {
                assert!((found - wanted).abs() < 2e-9, "{first}\n{line}: {found} km/s");
            }
            states += 1;
        }
    }
    assert!(satellites >= 25 && states >= 180, "{satellites} satellites, {states} states");
}

#[test]
fn station_passes_match_published_times() {
    // The space station over Bluffton on 2014-01-23, above 30 degrees: the example of Skyfield's
    // documentation.
    let file = "epoch = \"2014-01-23T00:00:00Z\"
        [[station]]
        name = \"bluffton\"
        id = 1
        position = [\"40.8939 N\", \"83.8917 W\"]
        mask = \"30 deg\"
        [[satellite]]
        name = \"iss\"
        id = 2
        tle = \"\"\"
1 25544U 98067A   14020.93268519  .00009878  00000-0  18200-3 0  5082
2 25544  51.6498 109.4756 0003572  55.9686 274.8005 15.49815350868473
\"\"\"
        [[link]]
        between = [\"bluffton\", \"iss\"]
        rate = \"1 Mbit/s\"";
    let plan = plan(file, DAY);
    let at = |hours: f64, minutes: f64, seconds: f64| hours * 3600.0 + minutes * 60.0 + seconds;
    let published = [(at(6.0, 25.0, 37.0), at(6.0, 28.0, 19.0)), (at(12.0, 54.0, 56.0), at(12.0, 57.0, 58.0))];
    for (from, to) in [(1, 2), (2, 1)] {
        let found = spans(&plan, from, to);
        assert_eq!(found.len(), 2, "{found:?}");
        for ((start, end), (rise, set)) in found.iter().zip(published) {
            assert!((start - rise).abs() < 1.0 && (end - set).abs() < 1.0, "{found:?}");
        }
    }
    // Distances from 420 km overhead to twice that at 30 degrees.
    assert!(plan.contacts.iter().all(|contact| (1.4e-3..2.9e-3).contains(&contact.one_way_delay.as_secs_f64())));
}

#[test]
fn polar_passes_match_hand_computation() {
    // A polar circular orbit of 550 km over a station at the pole, which does not move, so that
    // passes follow from plane trigonometry.
    let file = "epoch = \"2026-11-20T09:00:00Z\"
        [[station]]
        name = \"pole\"
        id = 1
        position = [\"90 N\", \"0 E\"]
        mask = \"10 deg\"
        [[satellite]]
        name = \"polar\"
        id = 2
        elements = { altitude = \"550 km\", inclination = \"90 deg\", node = \"40 deg\" }
        [[link]]
        between = [\"pole\", \"polar\"]
        rate = \"1 Mbit/s\"";
    let (r, pole, mask) = (6378.137f64 + 550.0, 6_356.752_314_245f64, 10f64.to_radians());
    let motion = (398_600.441_8 / (r * r * r)).sqrt();
    let drift = 1.5 * 1.082_626_68e-3 * (6378.137 / r) * (6378.137 / r) * motion;
    let rate = motion - drift;
    let half = (pole * mask.cos() / r).acos() - mask;
    let light = r * half.sin() / mask.cos() / LIGHT;
    let plan = plan(file, DAY);
    let found = [spans(&plan, 1, 2), spans(&plan, 2, 1)];
    assert_eq!(found[0].len(), (86_400.0 * rate / TAU).round() as usize);
    for (down, spans) in found.iter().enumerate() {
        for (turn, (start, end)) in spans.iter().enumerate() {
            // An uplink is sent before the satellite rises, by the light time.
            let lead = if down == 0 { light } else { 0.0 };
            let rise = (FRAC_PI_2 - half + TAU * turn as f64) / rate - lead;
            assert!((start - rise).abs() < 2e-7, "{turn}: {start} instead of {rise}");
            assert!((end - start - 2.0 * half / rate).abs() < 2e-7, "{turn}");
        }
    }
    // The light time of a contact is its largest, which occurs at both ends.
    assert!(plan.contacts.iter().all(|contact| (contact.one_way_delay.as_secs_f64() - light).abs() < 2e-9));
}

#[test]
fn geostationary_satellite_never_rises_nor_sets() {
    let start = DtnTime::parse_utc("2026-11-20T09:00:00Z").unwrap();
    // At the plan's start one satellite is above 8 degrees east, the other half a turn from there.
    let over = sidereal(start).to_degrees() + 8.0;
    let file = format!(
        "epoch = \"2026-11-20T09:00:00Z\"
        station = [{{ name = \"ground\", id = 1, position = [\"50 N\", \"8 E\"] }}]
        satellite = [
            {{ name = \"above\", id = 2, elements = {{ semi_major_axis = \"42164.17 km\", inclination = \"0 deg\", anomaly = \"{over} deg\" }} }},
            {{ name = \"below\", id = 3, elements = {{ semi_major_axis = \"42164.17 km\", inclination = \"0 deg\", anomaly = \"{} deg\" }} }},
        ]
        link = [{{ between = [\"stations\", \"satellites\"], rate = \"1 Mbit/s\" }}]",
        over + 180.0
    );
    let plan = plan(&file, 30 * DAY);
    assert_eq!(spans(&plan, 1, 2), [(0.0, 30.0 * 86_400.0)]);
    assert_eq!(spans(&plan, 2, 1), [(0.0, 30.0 * 86_400.0)]);
    assert_eq!(plan.contacts.len(), 2, "the other is never in sight");
    let delay = plan.contacts[0].one_way_delay.as_secs_f64();
    assert!((0.127..0.130).contains(&delay), "{delay}: 38,400 km");
}

fn around(sky: &Sky, body: &str, semi_major_km: f64) -> Trajectory {
    let (inclination, node, periapsis, anomaly) = (0.0, 0.0, 0.0, 0.0);
    let elements = Elements { semi_major_km, eccentricity: 0.0, inclination, node, periapsis, anomaly, at: 0 };
    Trajectory::orbit(sky, sky.find(body).unwrap(), &elements).unwrap()
}

#[test]
fn light_time_to_mars_matches_distances() {
    let sky = Sky::new(DtnTime::parse_utc("2026-11-20T09:00:00Z").unwrap());
    let (earth, mars) = (around(&sky, "earth", 42_164.0), around(&sky, "mars", 20_428.0));
    let limits = Limits { range_km: None, clearance_km: 0.0 };
    let there = Sight::new(&sky, [&earth, &mars], [0.0; 2], &limits);
    let back = Sight::new(&sky, [&mars, &earth], [0.0; 2], &limits);
    let (mut least, mut most, mut unlike) = (f64::MAX, 0f64, 0f64);
    for days in 0..15 * 365 {
        let light = there.light(days * DAY).unwrap();
        (least, most) = (least.min(light), most.max(light));
        unlike = unlike.max((light - back.light(days * DAY).unwrap()).abs());
    }
    // Extremes: 0.3804 astronomical units on 2035-09-11, and 2.68 at the farthest.
    assert!((189.0..191.0).contains(&least), "{least} s");
    assert!((1320.0..1345.0).contains(&most), "{most} s");
    // During 20 minutes of light time the planets move at 30 and 24 km/s, which changes it by
    // tenths of a second.
    assert!((0.01..0.3).contains(&unlike), "{unlike} s");
}

#[test]
fn moon_blocks_line_of_sight() {
    let file = "epoch = \"2026-11-20T09:00:00Z\"
        satellite = [
            { name = \"relay\", id = 1, elements = { altitude = \"35786 km\", inclination = \"0 deg\" } },
            { name = \"lunar\", id = 2, elements = { body = \"moon\", altitude = \"2000 km\", inclination = \"0 deg\" } },
        ]
        link = [{ between = [\"relay\", \"lunar\"], rate = \"1 Mbit/s\" }]";
    let plan = plan(file, 7 * DAY);
    let found = spans(&plan, 2, 1);
    let r = 1737.4f64 + 2000.0;
    let period = TAU * (r * r * r / 4902.8).sqrt();
    // The Earth hides the relay for few contacts; gaps behind the Moon occur once per orbit.
    let gaps: Vec<f64> = found.windows(2).map(|pair| pair[1].0 - pair[0].1).collect();
    // Fraction of the orbit behind the Moon, seen from afar in the orbital plane.
    let behind = (1737.4 / r).asin() / std::f64::consts::PI;
    let hidden = gaps.iter().filter(|gap| (**gap / period - behind).abs() < 0.2 * behind).count();
    let turns = 7.0 * 86_400.0 / period;
    assert!((hidden as f64 - turns).abs() < 8.0, "{hidden} of {turns} turns: {gaps:?}");
}

#[test]
fn custom_moon_blocks_line_of_sight() {
    // Io has a radius of 1821.6 km; the orbiter passes behind it once per orbit, as seen from a
    // relay at Jupiter.
    let file = |io: &str| {
        format!(
            "epoch = \"2026-11-20T09:00:00Z\"
            {io}
            satellite = [
                {{ name = \"low\", id = 1, elements = {{ body = \"jupiter\", semi_major_axis = \"150000 km\", inclination = \"0 deg\" }} }},
                {{ name = \"orbiter\", id = 2, elements = {{ body = \"io\", altitude = \"500 km\", inclination = \"0 deg\" }} }},
            ]
            link = [{{ between = [\"low\", \"orbiter\"], rate = \"1 Mbit/s\" }}]"
        )
    };
    let io = "body = [{ name = \"io\", radius = \"1821.6 km\", gm = 5959.9, elements = { body = \"jupiter\", \
              semi_major_axis = \"421800 km\", eccentricity = 0.0041, inclination = \"0.04 deg\" } }]";
    let found = spans(&plan(&file(io), 2 * DAY), 2, 1);
    let r = 1821.6f64 + 500.0;
    let period = TAU * (r * r * r / 5959.9).sqrt();
    let behind = (1821.6 / r).asin() / std::f64::consts::PI;
    let gaps: Vec<f64> = found.windows(2).map(|pair| (pair[1].0 - pair[0].1) / period).collect();
    assert!(
        gaps.len() > 10 && gaps.iter().filter(|gap| (**gap - behind).abs() < 0.15 * behind).count() > 8,
        "{gaps:?}"
    );
    for (wrong, what) in [
        ("", "`io` is none of sun"),
        (&io.replace("gm = 5959.9, ", ""), "holds nothing"),
        (&io.replace("421800", "4218"), "that is inside"),
        (&io.replace("\"io\"", "\"mars\""), "is the name of another body"),
    ] {
        let said = support::mistakes(&file(wrong));
        assert!(said.iter().any(|mistake| mistake.contains(what)), "{what}: {said:?}");
    }
}

#[test]
fn mars_rover_sees_earth_each_sol() {
    let file = "epoch = \"2026-11-20T09:00:00Z\"
        delay_step = \"200 ms\"
        station = [
            { name = \"rover\", id = 1, body = \"mars\", position = [\"18.4 N\", \"77.5 E\", \"-2600 m\"], mask = \"15 deg\" },
            { name = \"dish\", id = 2, position = [\"35.4 S\", \"149 E\", \"700 m\"], mask = \"10 deg\" },
        ]
        satellite = [{ name = \"relay\", id = 3, elements = { altitude = \"35786 km\", inclination = \"0 deg\" } }]
        link = [{ between = [\"rover\", [\"dish\", \"relay\"]], rate = \"10 kbit/s\", rate_back = \"2 kbit/s\" }]";
    let plan = plan(file, 10 * DAY);
    let joined = |from, to| {
        let mut joined: Vec<(f64, f64)> = Vec::new();
        for (start, end) in spans(&plan, from, to) {
            match joined.last_mut() {
                Some(last) if start - last.1 < 1e-6 => last.1 = end,
                _ => joined.push((start, end)),
            }
        }
        joined
    };
    let rises: Vec<f64> = joined(1, 3).into_iter().map(|(start, _)| start).collect();
    assert!((9..=11).contains(&rises.len()), "{rises:?}");
    for pair in rises.windows(2).skip(1) {
        assert!((pair[1] - pair[0] - 88_775.0).abs() < 300.0, "a solar day on Mars: {rises:?}");
    }
    // Time during which both ends are above their masks.
    let seen = |from, to| joined(from, to).iter().map(|(start, end)| end - start).sum::<f64>();
    assert!(seen(1, 2) > 3600.0 && seen(1, 2) < seen(1, 3));
    // A reply is sent one light time earlier than it arrives; each direction has its own rate.
    let sent = joined(3, 1)[1].0;
    let first = plan.contacts.iter().find(|contact| contact.from.0 == 3 && contact.start.as_secs_f64() == sent);
    let delay = first.unwrap().one_way_delay.as_secs_f64();
    assert!((500.0..1200.0).contains(&delay), "{delay}");
    // During the light time the rover turns with Mars, so its own rise differs by some seconds.
    assert!(rises.iter().any(|rise| (rise - sent - delay).abs() < 6.0), "{sent} {delay} {rises:?}");
    assert!(plan.contacts.iter().all(|contact| contact.rate.0 == if contact.from.0 == 1 { 10_000 } else { 2000 }));
}

#[test]
fn old_elements_error_names_satellite() {
    let text = "epoch = \"2026-11-20T09:00:00Z\"
        station = [{ name = \"ground\", id = 1, position = [\"50 N\", \"8 E\"] }]
        satellite = [{ name = \"iss\", id = 2, tle = '''
1 25544U 98067A   14020.93268519  .00009878  00000-0  18200-3 0  5082
2 25544  51.6498 109.4756 0003572  55.9686 274.8005 15.49815350868473
''' }]
        link = [{ between = [\"ground\", \"iss\"], rate = \"1 Mbit/s\" }]";
    let network: Network = parse(text, Path::new(""), None).unwrap();
    assert_eq!(network.oldest(0), Some(("iss", 4686)));
    let error = contacts(&network, DAY, 1, &|_| ()).unwrap_err();
    assert!(
        error.starts_with("iss: its elements are more than 366 days from +") && error.contains("\nhint: "),
        "{error}"
    );
    assert_eq!(SECOND * 86_400, DAY);
}
