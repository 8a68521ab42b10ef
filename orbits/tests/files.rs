//! Files of orbits: valid ones, and the errors of invalid ones.

use crate::support::{DAY, mistakes, plan, spans};
use farlink_base::DtnTime;
use farlink_orbits::{contacts, load, parse};
use farlink_routing::contact_plan::{check, emit_farlink, parse as parse_plan};
use std::path::Path;

const TOP: &str = "epoch = \"2026-11-20T09:00:00Z\"\n";
const GROUND: &str =
    "[[station]]\nname = \"ground\"\nid = \"ipn:1.0\"\nposition = [\"52.5 N\", \"13.4 E\", \"40 m\"]\n";
const LEO: &str = "[[constellation]]\nname = \"leo\"\nfirst_id = \"ipn:100.0\"\n\
    walker = { planes = 4, per_plane = 6, inclination = \"60 deg\", altitude = \"1200 km\", phasing = 1 }\n";
const DOWN: &str = "[[link]]\nbetween = [\"ground\", \"leo\"]\nrate = \"50 Mbit/s\"\n";
const GRID: &str =
    "[[link]]\nname = \"laser\"\nbetween = [\"leo\", \"leo\"]\nrate = \"1 Gbit/s\"\nneighbours = \"grid\"\n";
const ISS: &str = "1 25544U 98067A   14020.93268519  .00009878  00000-0  18200-3 0  5082\n\
    2 25544  51.6498 109.4756 0003572  55.9686 274.8005 15.49815350868473\n";

#[test]
fn constellation_file_makes_valid_plan() {
    let plan = plan(&format!("{TOP}{GROUND}{LEO}{DOWN}{GRID}"), DAY / 4);
    assert!(check(&plan).iter().all(|finding| !finding.error), "{:?}", check(&plan));
    assert_eq!(plan.epoch, DtnTime::parse_utc("2026-11-20T09:00:00Z"));
    assert_eq!(plan.nodes().len(), 25);
    let lasers: Vec<_> = plan.contacts.iter().filter(|contact| contact.link.is_some()).collect();
    assert!(lasers.iter().all(|contact| contact.rate.0 == 1_000_000_000));
    // The two neighbours in the plane are always in sight. Those in adjacent planes, at least 45
    // degrees apart, come and go.
    let always = lasers.iter().filter(|contact| contact.end.since(contact.start).as_secs() == 21_600).count();
    assert!(always == 24 * 2 && lasers.len() > 24 * 4, "{always} of {}", lasers.len());
    assert!(plan.contacts.iter().filter(|contact| contact.from.0 == 1).count() > 20);
    assert!(plan.contacts.is_sorted_by_key(|contact| contact.start));
}

#[test]
fn plan_does_not_depend_on_threads() {
    let text = format!("{TOP}{GROUND}{LEO}{DOWN}{GRID}");
    let network = parse(&text, Path::new(""), None).unwrap();
    let one = contacts(&network, DAY / 12, 1, &|_| ()).unwrap();
    let told = std::sync::atomic::AtomicUsize::new(0);
    let hear = |done: usize| {
        told.fetch_max(done, std::sync::atomic::Ordering::Relaxed);
    };
    let many = contacts(&network, DAY / 12, 7, &hear).unwrap();
    assert_eq!(one, many);
    assert_eq!((network.pairs(), told.into_inner()), (24 + 48, 24 + 48));
    let names: Vec<_> = network.nodes.iter().map(|node| (node.name.clone(), node.id)).collect();
    let read = parse_plan(&emit_farlink(&one, &names)).unwrap();
    assert_eq!(read.plan, one);
    assert_eq!(read.node("leo-4-6"), Some(network.nodes[24].id));
}

#[test]
fn link_limits_remove_contacts() {
    let base = format!("{TOP}{GROUND}{LEO}{DOWN}");
    let all = plan(&base, DAY / 4);
    let overlapping = |plan: &farlink_routing::contact_plan::ContactPlan| {
        let mut most = 0;
        for contact in &plan.contacts {
            let now = contact.start;
            let at_once = |other: &&farlink_routing::contact_plan::Contact| {
                other.from.0 == 1 && other.start <= now && now < other.end
            };
            most = most.max(plan.contacts.iter().filter(at_once).count());
        }
        most
    };
    assert!(overlapping(&all) >= 2);
    let one = plan(&format!("{base}beams = [1, 2]\n"), DAY / 4);
    assert_eq!(overlapping(&one), 1);
    // A single beam is never idle while a satellite is in sight, so its contacts cover the same time as those of many
    // beams.
    let covered = |plan: &farlink_routing::contact_plan::ContactPlan| {
        let mut spans: Vec<(f64, f64)> = (100..124).flat_map(|id| spans(plan, 1, id)).collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut covered, mut until) = (0.0, 0.0);
        for (start, end) in spans {
            covered += (end - start.max(until)).max(0.0);
            until = end.max(until);
        }
        covered
    };
    assert!((covered(&all) - covered(&one)).abs() < 1e-6);
    let near = plan(&format!("{base}range = \"2000 km\"\n"), DAY / 4);
    assert!(near.contacts.len() < all.contacts.len());
    assert!(near.contacts.iter().all(|contact| contact.one_way_delay.as_secs_f64() <= 2000.0 / 299_792.458 + 1e-8));
    let long = plan(&format!("{base}shortest = \"10 min\"\n"), DAY / 4);
    assert!(long.contacts.len() < all.contacts.len() && !long.contacts.is_empty());
    assert!(long.contacts.iter().all(|contact| contact.end.since(contact.start).as_secs() >= 600));
    let high = plan(&format!("{base}mask = \"40 deg\"\n"), DAY / 4);
    assert!(high.contacts.len() < all.contacts.len());
}

#[test]
fn decaying_satellite_ends_its_contacts_alone() {
    // The first in the air that ends an orbit within days, the second where it stays.
    let low = [
        "1 25545U 98067A   14020.93268519  .00009878  00000-0  10000-2 0  5082",
        "2 25545  51.6498 109.4756 0003572  55.9686 274.8005 16.25000000868473",
    ];
    let low: Vec<String> = low.into_iter().map(with_checksum).collect();
    let satellite = |name: &str, id: u64, tle: &str| {
        format!("[[satellite]]\nname = \"{name}\"\nid = {id}\ntle = \"\"\"\n{tle}\"\"\"\n")
    };
    let link = "[[link]]\nbetween = [\"ground\", \"satellites\"]\nrate = \"1 Mbit/s\"\n";
    let both = [satellite("low", 3, &format!("{}\n", low.join("\n"))), satellite("iss", 2, ISS)].concat();
    let read = |start: &str, more: &str| {
        parse(&format!("epoch = \"{start}\"\n{GROUND}{more}{link}"), Path::new(""), None).unwrap()
    };
    let network = read("2014-01-21T00:00:00Z", &both);
    let all = contacts(&network, 20 * DAY, 2, &|_| ()).unwrap();
    let fallen: Vec<_> = network.fallen().collect();
    let [("low", fall)] = fallen[..] else { panic!("{fallen:?}") };
    assert!((DAY..19 * DAY).contains(&fall), "{fall}");
    let last = spans(&all, 1, 3).into_iter().map(|(_, end)| end).fold(0.0, f64::max);
    assert!(last * 1e9 < fall as f64 && last * 1e9 > (fall - DAY) as f64, "{last} s");
    let alone = read("2014-01-21T00:00:00Z", &satellite("iss", 2, ISS));
    let alone = contacts(&alone, 20 * DAY, 2, &|_| ()).unwrap();
    assert_eq!(spans(&all, 1, 2), spans(&alone, 1, 2));
    // One that came down before the start has no contacts.
    let late = contacts(&read("2014-03-21T00:00:00Z", &both), DAY, 2, &|_| ()).unwrap();
    assert!(spans(&late, 1, 3).is_empty() && !spans(&late, 1, 2).is_empty());
}

#[test]
fn tle_files_yield_all_or_one() {
    let folder = tempfile::tempdir().unwrap();
    let other = ISS.replace("25544", "25545");
    let other: Vec<String> = other.lines().map(with_checksum).collect();
    std::fs::write(folder.path().join("two.tle"), format!("ISS (ZARYA)\n{ISS}{}\n", other.join("\n"))).unwrap();
    let file = folder.path().join("orbits.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let start = DtnTime::parse_utc("2014-01-23T00:00:00Z");
    write(
        "[[constellation]]\nname = \"all\"\nfirst_id = 10\ntle = \"two.tle\"\n\
        [[satellite]]\nname = \"one\"\nid = 3\ntle = \"two.tle\"\ncatalog = 25545\n\
        [[link]]\nbetween = [[\"one\", \"all\"], \"satellites\"]\nrate = \"1 Mbit/s\"\n",
    );
    let network = load(&file, start).unwrap();
    let named: Vec<_> = network.nodes.iter().map(|node| (node.name.as_str(), node.id.0)).collect();
    assert_eq!(named, [("one", 3), ("ISS-ZARYA", 10), ("sat-25545", 11)]);
    assert_eq!(network.links[0].pairs, [[0, 1], [0, 2], [1, 2]], "each pair once");
    write(
        "[[satellite]]\nname = \"one\"\nid = 3\ntle = \"two.tle\"\n[[link]]\nbetween = [\"one\", \"one\"]\nrate = \"1 Mbit/s\"\n",
    );
    let errors = load(&file, start).unwrap_err();
    assert!(errors[0].to_string().contains("these are 2 satellites"), "{}", errors[0]);
    std::fs::write(folder.path().join("two.tle"), ISS.replace("14020.9", "14021.9")).unwrap();
    let errors = load(&file, start).unwrap_err();
    assert!(errors[0].to_string().starts_with("two.tle: line 1, column 69: the checksum is 3"), "{}", errors[0]);
    assert!(load(&folder.path().join("nowhere.toml"), start).is_err());
}

fn with_checksum(line: &str) -> String {
    let sum: u32 = line
        .bytes()
        .take(68)
        .map(|b| match b {
            b'0'..=b'9' => u32::from(b - b'0'),
            b'-' => 1,
            _ => 0,
        })
        .sum();
    format!("{}{}", &line[..68], sum % 10)
}

#[test]
fn errors_name_cause_and_hint() {
    let good = format!("{TOP}{GROUND}{LEO}{DOWN}");
    assert!(parse(&good, Path::new(""), None).is_ok());
    for (from, to, wanted) in [
        ("epoch = \"2026-11-20T09:00:00Z\"\n", "", "nothing says when the plan starts"),
        ("52.5 N", "91 N", "beyond 90 degrees"),
        ("\"40 m\"", "40", "expected text, with its unit"),
        ("[\"52.5 N\", \"13.4 E\", \"40 m\"]", "[\"52.5 N\"]", "found 1 items"),
        ("name = \"ground\"", "name = \"7\"", "is a number"),
        ("name = \"leo\"", "name = \"stations\"", "means all nodes of a kind"),
        ("ipn:100.0", "ipn:1.0", "ID of another node"),
        ("ipn:100.0", "ipn:9223372036854775800.0", "9223372036854775808 is too large for the ID of a node"),
        ("1200 km", "1200", "is not a length"),
        ("1200 km", "-30 km", "that is inside"),
        ("phasing = 1", "phasing = 4", "not less than `planes`"),
        ("planes = 4, per_plane = 6", "planes = 9999, per_plane = 11", "more than 100000 satellites"),
        ("planes = 4", "plains = 4", "unknown key"),
        ("60 deg", "200 deg", "not between 0 and 180"),
        ("\"ground\", \"leo\"", "\"ground\", \"lea\"", "did you mean `leo`?"),
        ("\"ground\", \"leo\"", "\"ground\", \"ground\"", "no pair of nodes"),
        ("\"ground\", \"leo\"", "\"ground\"", "expected two names"),
        ("rate = \"50", "beams = 0\nrate = \"50", "is not between 1 and 1000"),
        ("rate = \"50", "neighbours = \"grid\"\nrate = \"50", "neighbours are of one Walker constellation"),
        ("rate = \"50", "range = \"-5 km\"\nrate = \"50", "less than nothing"),
        ("rate = \"50 Mbit/s\"\n", "", "missing"),
        ("[[link]]", "[[lonk]]", "did you mean `link`?"),
        ("id = \"ipn:1.0\"", "id = \"ipn:1.0\"\nbody = \"sun\"", "has no ground"),
        ("id = \"ipn:1.0\"", "id = \"ipn:1.0\"\nbody = \"pluto\"", "`pluto` is none of sun, mercury"),
        ("walker", "tle = \"x.tle\"\nwalker", "both `walker` and `tle`"),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        let found = mistakes(&text);
        assert!(found.iter().any(|error| error.contains(wanted)), "{wanted}: {found:#?}");
        assert!(found.iter().all(|error| error.contains("hint: ") || wanted.contains("century")), "{found:#?}");
    }
}

#[test]
fn inline_tle_error_names_its_column() {
    let wrong = ISS.replace("109.4756", "109.475x");
    let text = format!("{TOP}[[satellite]]\nname = \"iss\"\nid = 2\ntle = \"\"\"\n{wrong}\"\"\"\n{GROUND}{DOWN}");
    let found = mistakes(&text);
    assert!(found[0].starts_with("satellite[iss].tle (line 7, column 18): right ascension"), "{found:?}");
}

#[test]
fn parallel_links_need_names() {
    let text = format!("{TOP}{GROUND}{LEO}{DOWN}{DOWN}");
    let network = parse(&text, Path::new(""), None).unwrap();
    let error = contacts(&network, DAY / 12, 1, &|_| ()).unwrap_err();
    assert!(error.contains("two [[link]] tables join") && error.contains("hint: "), "{error}");
    let text = format!("{TOP}{GROUND}{LEO}{DOWN}{DOWN}name = \"optical\"\n");
    assert!(!plan(&text, DAY / 12).contacts.is_empty());
}

#[test]
fn hostile_files_are_refused_quickly() {
    for text in ["", "=", "[[link]]", "[[station]]\nposition = 3", "link = 3", "{\"a\": 1}", "station = [[], {}]"] {
        assert!(!mistakes(&format!("{TOP}{text}")).is_empty(), "{text}");
    }
    // Too many pairs must be refused before any pair is stored.
    let many = LEO.replace("planes = 4, per_plane = 6", "planes = 300, per_plane = 300");
    let text = format!("{TOP}{many}[[link]]\nbetween = [\"leo\", \"leo\"]\nrate = \"1 Mbit/s\"\n");
    let found = mistakes(&text);
    assert!(found[0].contains("more than 2000000 pairs"), "{found:?}");
    let odd = format!("{TOP}{GROUND}{DOWN}").replace("leo", &"x".repeat(100_000));
    assert!(!mistakes(&odd).is_empty());
}

#[test]
fn pair_at_exact_limit_terminates() {
    // Neighbours in a ring keep this distance up to rounding.
    let apart = 2.0 * (6378.137 + 1200.0) * (std::f64::consts::PI / 6.0).sin();
    let ring = GRID.replace("grid", "ring");
    for wider in [-1e-12, 0.0, 1e-12] {
        let text = format!("{TOP}{LEO}{ring}range = \"{:.12} km\"\n", apart * (1.0 + wider));
        let network = parse(&text, Path::new(""), None).unwrap();
        match contacts(&network, DAY / 24, 2, &|_| ()) {
            Ok(plan) => assert!(plan.contacts.len() <= 48),
            Err(error) => assert!(error.contains("the very edge") && error.matches("hint: ").count() == 1, "{error}"),
        }
    }
}

#[test]
fn corrupted_files_never_panic_reader() {
    let elements = "[[satellite]]\nname = \"o\"\nid = 9\nelements = { body = \"moon\", semi_major_axis = \"6142 km\", \
                    eccentricity = 0.6, inclination = \"57.7 deg\", epoch = \"2026-11-19T00:00:00Z\" }\n";
    let good = format!("{TOP}{GROUND}{elements}{LEO}{DOWN}beams = [2, 1]\nrange = \"9000 km\"\n{GRID}");
    let mut fine = 0;
    for wrong in *b"9-x \"" {
        for at in (0..good.len()).step_by(2) {
            let mut bytes = good.clone().into_bytes();
            bytes[at] = wrong;
            let Ok(text) = String::from_utf8(bytes) else { continue };
            if let Ok(network) = parse(&text, Path::new(""), None) {
                fine += 1;
                if fine % 20 == 0 {
                    // Ten minutes of plan: odd values are either refused or planned.
                    let _ = contacts(&network, 600_000_000_000, 2, &|_| ());
                }
            }
        }
    }
    assert!(fine > 100, "{fine}");
}

#[test]
fn documented_examples_make_plans() {
    let page = include_str!("../../docs/how-to/plan-from-orbits.md");
    let blocks: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        // A time at which the elements on the page are valid, for files without an epoch.
        let start = if block.contains("epoch = ") { None } else { DtnTime::parse_utc("2014-01-23T00:00:00Z") };
        let network = parse(block, Path::new(""), start).unwrap_or_else(|errors| panic!("{errors:#?}\n{block}"));
        let plan = contacts(&network, DAY / 2, 2, &|_| ()).unwrap();
        assert!(!plan.contacts.is_empty() && check(&plan).iter().all(|finding| !finding.error), "{block}");
    }
}
