//! Moving nodes: links follow contacts, bundles cross them, and recorded contacts reproduce a run.

use farlink_base::{Duration, Event, Instant};
use farlink_scenario::{Fidelity, Scenario};
use farlink_sim::contacts::as_lines;
use farlink_sim::{Observer, Outcome, World};
use std::collections::BTreeSet;
use std::path::Path;

/// Delivery times, link changes, and names of links.
#[derive(Default)]
struct ContactsSeen {
    delivered: Vec<Instant>,
    ups: u64,
    downs: u64,
    names: BTreeSet<String>,
}
impl Observer for ContactsSeen {
    fn event(&mut self, at: Instant, _node: usize, event: &Event) {
        match event {
            Event::Delivered { .. } => self.delivered.push(at),
            Event::LinkUp { .. } => self.ups += 1,
            Event::LinkDown { .. } => self.downs += 1,
            _ => {}
        }
    }
    fn link_named(&mut self, _node: usize, _link: farlink_base::LinkId, name: &str) {
        self.names.insert(name.into());
    }
}

fn parse(text: &str, folder: &Path) -> Scenario {
    Scenario::parse_in(text, folder).unwrap_or_else(|errors| panic!("{errors:#?}"))
}
fn run(scenario: &Scenario) -> (Outcome, ContactsSeen) {
    World::new(scenario, ContactsSeen::default()).unwrap().run()
}

fn ferry(radio: &str, more: &str) -> String {
    // `a` and `c` rest out of each other's range; `b` moves from one to the other and back.
    format!(
        r#"
        name = "ferry"
        duration = "400 s"
        stop_when_delivered = false
        fidelity = "message"
        node_defaults = {{ router = "epidemic", radio = "wifi" }}
        [[mobility]]
        name = "ends"
        model = "stationary"
        points = [["0 m", "0 m"], ["1 km", "0 m"]]
        [[mobility]]
        name = "ferry"
        model = "trace"
        file = "ferry.txt"
        [[radio]]
        name = "wifi"
        range = "100 m"
        {radio}
        [[node]]
        name = "a"
        id = "ipn:1.0"
        mobility = "ends"
        [[node]]
        name = "b"
        id = "ipn:2.0"
        mobility = "ferry"
        [[node]]
        name = "c"
        id = "ipn:3.0"
        mobility = "ends"
        [[traffic]]
        name = "news"
        from = "a"
        to = "c"
        bundles = {{ count = 10, size = "100 kB", interval = "1 s" }}
        {more}
        "#
    )
}
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ferry.txt"), "0 b 0 0\n20 b 0 0\n120 b 1000 0\n140 b 1000 0\n240 b 0 0\n")
        .unwrap();
    folder
}

#[test]
fn ferry_carries_bundles_between_contacts() {
    let folder = folder();
    let (outcome, seen) = run(&parse(&ferry("rate = \"8 Mbit/s\"", ""), folder.path()));
    assert_eq!(outcome.traffic[0].delivered, 10, "{outcome:#?}");
    // `b` leaves at 20 s with 10 m/s and is in range of `c` from 900 m on.
    let first = seen.delivered[0].as_secs_f64();
    assert!((110.0..110.5).contains(&first), "{first}");
    assert!(seen.delivered.iter().all(|at| at.as_secs_f64() < 112.5), "1 Mbit each at 8 Mbit/s: {:?}", seen.delivered);
    let radio = &outcome.radios[0];
    assert_eq!((radio.name.as_str(), radio.contacts), ("wifi", 3));
    // `b` is in contact with `a` until 30 s, with `c` from 110 s to 150 s, and with `a` again from 230 s to the end.
    assert_eq!(radio.up, Duration::from_secs(30 + 40 + 170));
    assert!(radio.counted.sent >= 20, "each over two contacts: {radio:?}");
    assert_eq!((seen.ups, seen.downs), (6, 4), "two ends each; the last is still there");
    assert_eq!(Vec::from_iter(seen.names), ["wifi:a-b", "wifi:b-c"]);
}

#[test]
fn cut_bundle_goes_with_next_contact() {
    let folder = folder();
    // A bundle of 100 kB takes 15 s: at most two fit into the remaining 30 s of the first contact.
    let scenario = parse(&ferry("rate = \"60 kbit/s\"\nlayer = \"stcp\"", ""), folder.path());
    let (outcome, _) = run(&scenario);
    let delivered = outcome.traffic[0].delivered;
    assert!((1..=2).contains(&delivered), "{delivered}");
    assert_eq!(outcome, run(&scenario).0, "and the same again");
    let slow = parse(&ferry("rate = \"20 kbit/s\"", ""), folder.path());
    assert_eq!(run(&slow).0.traffic[0].delivered, 0, "none fits");
}

#[test]
fn radio_links_join_permanent_links() {
    let folder = folder();
    let cable = "[[node]]\nname = \"d\"\nid = \"ipn:4.0\"\nmobility = \"far\"\n[[mobility]]\nname = \"far\"\n\
                 model = \"stationary\"\npoints = [[\"500 m\", \"900 m\"]]\n[[link]]\nname = \"cable\"\n\
                 between = [\"c\", \"d\"]\nlayer = \"tcpclv4\"\nrate = \"1 Mbit/s\"\n\
                 [[traffic]]\nname = \"far\"\nfrom = \"a\"\nto = \"d\"\nbundles = { count = 5, size = \"10 kB\" }\n";
    let (outcome, seen) = run(&parse(&ferry("", cable), folder.path()));
    assert_eq!(outcome.traffic.iter().map(|t| t.delivered).collect::<Vec<_>>(), [10, 5]);
    assert_eq!(Vec::from_iter(seen.names), ["wifi:a-b", "wifi:b-c"], "`d` is too far");
    assert!(outcome.links[0][0].delivered >= 5);
}

#[test]
fn each_radio_has_its_link() {
    let folder = folder();
    let text = ferry("rate = \"8 Mbit/s\"", "[[radio]]\nname = \"lora\"\nrange = \"300 m\"\nrate = \"1 Mbit/s\"\n");
    let text = text.replacen("radio = \"wifi\"", "radio = [\"wifi\", \"lora\"]", 1);
    let (outcome, seen) = run(&parse(&text, folder.path()));
    assert_eq!(
        outcome.radios.iter().map(|r| (r.name.as_str(), r.contacts)).collect::<Vec<_>>(),
        [("wifi", 3), ("lora", 3)]
    );
    assert_eq!(outcome.radios[1].up, Duration::from_secs(50 + 80 + 190));
    assert_eq!(Vec::from_iter(seen.names), ["lora:a-b", "lora:b-c", "wifi:a-b", "wifi:b-c"]);
    let first = seen.delivered[0].as_secs_f64();
    assert!((90.0..93.0).contains(&first) && outcome.traffic[0].delivered == 10, "over the far one: {first}");
}

#[test]
fn flapping_links_reuse_numbers() {
    let folder = tempfile::tempdir().unwrap();
    // `b` swings across the border of `a`'s range: in range for one second of every two.
    let swings: String = (0..200).map(|n| format!("{n} b {} 0\n", if n % 2 == 0 { 50 } else { 150 })).collect();
    std::fs::write(folder.path().join("ferry.txt"), swings).unwrap();
    let more = "[[traffic]]\nname = \"near\"\nfrom = \"a\"\nto = \"b\"\nbundles = { count = 50, size = \"100 kB\", interval = \"1 s\" }";
    let (outcome, seen) = run(&parse(&ferry("rate = \"2 Mbit/s\"", more), folder.path()));
    assert_eq!(outcome.radios[0].contacts, 100, "{outcome:#?}");
    assert_eq!(outcome.traffic[1].delivered, 50);
    assert_eq!((seen.ups, Vec::from_iter(seen.names)), (200, vec!["wifi:a-b".to_string()]));
}

#[test]
fn packet_fidelity_is_refused() {
    // Radios exist only at message level.
    let folder = folder();
    let mut scenario = parse(&ferry("", ""), folder.path());
    scenario.fidelity = Fidelity::Full;
    let error = World::new(&scenario, ContactsSeen::default()).err().expect("refused").to_string();
    assert!(error.contains("radio[wifi]") && error.contains("fidelity"), "{error}");
}

fn town(radio: &str, count: u32) -> String {
    format!(
        r#"
        name = "town"
        duration = "20 min"
        fidelity = "message"
        stop_when_delivered = false
        [[mobility]]
        name = "walking"
        model = "random_waypoint"
        area = "1 km"
        speed = ["0.5 m/s", "1.5 m/s"]
        pause = ["0 s", "2 min"]
        [[mobility]]
        name = "driving"
        model = "map"
        city = {{ columns = 10, rows = 10 }}
        speed = "40 km/h"
        [[radio]]
        name = "wifi"
        {radio}
        rate = "2.5 Mbit/s"
        [[group]]
        name = "walker"
        count = {count}
        first_id = 1
        router = "epidemic"
        store_capacity = "5 MB"
        mobility = "walking"
        radio = "wifi"
        [[group]]
        name = "bus"
        count = 3
        first_id = 1000
        router = "epidemic"
        mobility = "driving"
        radio = "wifi"
        [[traffic]]
        name = "chat"
        from = "walker"
        to = "walker"
        bundles = {{ count = 1000, size = ["5 kB", "10 kB"], interval = ["1 s", "20 s"] }}
        "#
    )
}

#[test]
fn town_delivers_chat_and_replays() {
    let scenario = parse(&town("range = \"120 m\"", 16), Path::new(""));
    let (outcome, seen) = run(&scenario);
    let delivered: u64 = outcome.traffic.iter().map(|traffic| traffic.delivered).sum();
    let share = delivered as f64 / outcome.traffic.len() as f64;
    assert!(share > 0.6, "{delivered} of {}", outcome.traffic.len());
    let radio = &outcome.radios[0];
    assert!(radio.contacts > 100 && radio.up > Duration::from_secs(600), "{radio:?}");
    assert_eq!(seen.ups, 2 * radio.contacts);
    assert!(seen.downs <= seen.ups && seen.downs + 80 > seen.ups, "{} of {}", seen.downs, seen.ups);
    assert_eq!(outcome, run(&scenario).0);
    let mut other = scenario.clone();
    other.set_seed(2);
    assert_ne!(outcome.trace, run(&other).0.trace);
}

#[test]
fn recorded_contacts_reproduce_the_run() {
    let moving = parse(&town("range = \"120 m\"", 16), Path::new(""));
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> = as_lines(&moving).unwrap().collect();
    assert!(lines.len() > 200 && lines.iter().all(|line| line.contains(" CONN ")));
    std::fs::write(folder.path().join("town.txt"), lines.join("\n")).unwrap();
    // 401 ns is the light time over the range, which a contact file cannot express.
    let recorded = parse(&town("contacts = \"town.txt\"\ndelay = \"401 ns\"", 16), folder.path());
    let (by_ways, by_file) = (run(&moving).0, run(&recorded).0);
    assert_eq!(by_ways.radios[0].contacts, by_file.radios[0].contacts);
    assert_eq!(by_ways, by_file);
}

#[test]
fn movement_depends_on_own_seed() {
    let lines = |text: &str| as_lines(&parse(text, Path::new(""))).unwrap().collect::<Vec<_>>();
    let text = town("range = \"120 m\"", 16);
    let all = lines(&text);
    assert_eq!(all, lines(&text));
    let among = |line: &&String| !line.contains("bus") && !line.contains("walker16");
    let fewer = lines(&town("range = \"120 m\"", 15));
    assert!(all.iter().filter(among).eq(fewer.iter().filter(among)), "whoever else there is");
    let own = text.replace("model =", "seed = 5\nmodel =");
    assert_ne!(all, lines(&own));
    assert_eq!(lines(&own), lines(&own.replacen("name = \"town\"", "seed = 9\nname = \"town\"", 1)));
}
