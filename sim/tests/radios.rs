//! Radios with turns: transmission times computed by hand, refusals before the first byte, aborted transfers.

use farlink_base::{Event, Instant};
use farlink_link::DropReason;
use farlink_scenario::Scenario;
use farlink_sim::{Observer, Outcome, World};

/// Reception times of bundles in seconds, with the node's index, in order.
#[derive(Default)]
struct Got(Vec<(usize, f64)>);
impl Observer for Got {
    fn event(&mut self, at: Instant, node: usize, event: &Event) {
        if let Event::Received { .. } = event {
            self.0.push((node, at.as_secs_f64()));
        }
    }
}

fn scenario(contacts: &str, keys: &str, more: &str) -> Scenario {
    // 10 kB at 80 kbit/s take a second each, so that times count bundles.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("contacts.txt"), contacts).unwrap();
    let node = |(number, name): (usize, &str)| {
        format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{}.0\"\nradio = \"wifi\"\n", number + 1)
    };
    let nodes: String = ["a", "b", "c", "d"].into_iter().enumerate().map(node).collect();
    let text = format!(
        "name = \"turns\"\nduration = \"300 s\"\nstop_when_delivered = false\nfidelity = \"message\"\n\
         [[radio]]\nname = \"wifi\"\ncontacts = \"contacts.txt\"\nrate = \"80 kbit/s\"\n{keys}\n{nodes}\n{more}"
    );
    Scenario::parse_in(&text, folder.path()).unwrap_or_else(|errors| panic!("{errors:#?}"))
}
fn traffic(from: &str, to: &str, count: u64) -> String {
    // All are due at one moment, so that only the rules of turns decide their order.
    let bundles = format!("{{ count = {count}, size = \"10 kB\" }}");
    format!(
        "[[traffic]]\nname = \"{from}{to}\"\nfrom = \"{from}\"\nto = \"{to}\"\nstart = \"10 s\"\nbundles = {bundles}\n"
    )
}
/// Three nodes in permanent contact.
const ALL: &str = "a b 0 300\na c 0 300\nb c 0 300\n";

fn run(scenario: &Scenario) -> (Outcome, Vec<(usize, f64)>) {
    // Times are counted from 10 s on, in units of one bundle's transmission.
    let (outcome, got) = World::new(scenario, Got::default()).unwrap().run();
    let counted = &outcome.radios[0].counted;
    let each_s = counted.sent_bytes as f64 / counted.sent.max(1) as f64 * 8.0 / 80_000.0;
    assert!((1.03..1.05).contains(&each_s), "10 kB and its headers: {each_s} s");
    let in_turns = |(node, at): &(usize, f64)| (*node, ((at - 10.0) / each_s * 1000.0).round() / 1000.0);
    let got = got.0.iter().map(in_turns).collect();
    assert_eq!(outcome, World::new(scenario, Got::default()).unwrap().run().0, "and the same again");
    (outcome, got)
}

fn four_bundles(keys: &str) -> Vec<(usize, f64)> {
    // The orders of turns differ only if the sender, the receiver and a third node all have something to send next.
    let more = traffic("a", "b", 2) + &traffic("a", "c", 1) + &traffic("b", "c", 1);
    let mut scenario = scenario(ALL, keys, &more);
    scenario.nodes.iter_mut().for_each(|node| node.router.name = "static".into());
    let got = run(&scenario).1;
    got.into_iter().map(|(node, at)| (node, at.round())).collect()
}
const B: usize = 1;
const C: usize = 2;

#[test]
fn turns_follow_chosen_order() {
    // Each node sends or receives one bundle at a time, so all are sequential.
    let at_once = "delay = \"0 s\"\n";
    let order = |order: &str| four_bundles(&format!("{at_once}turn_order = \"{order}\""));
    // `a` continues while it has bundles; then `c`, which has none, is free for `b`.
    assert_eq!(order("sender"), [(B, 1.0), (B, 2.0), (C, 3.0), (C, 4.0)]);
    assert_eq!(four_bundles(at_once), order("sender"), "that is the default");
    // `b` received and sends to `c`; `c` has nothing to send and next receives from `a`, whose other bundle is last.
    assert_eq!(order("receiver"), [(B, 1.0), (C, 2.0), (C, 3.0), (B, 4.0)]);
    // With `fair`, ends that had no turn yet precede the end that had one.
    assert_eq!(order("fair"), [(B, 1.0), (C, 2.0), (C, 3.0), (B, 4.0)]);
    let random = order("random");
    assert_eq!(random.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0]);
    // Links are independent: all transmit at once, and the second bundle from `a` to `b` follows the first.
    let mut alone = four_bundles("delay = \"0 s\"\nturns = \"link\"");
    alone.sort_by(|one, other| one.partial_cmp(other).unwrap());
    assert_eq!(alone, [(B, 1.0), (B, 2.0), (C, 1.0), (C, 1.0)]);
}

fn far(keys: &str) -> (Outcome, Vec<f64>) {
    // A delay of ten transmission times shows whether the radio waits for each arrival.
    let mut scenario = scenario("a b 0 300\n", &format!("delay = \"10 s\"\n{keys}"), &traffic("a", "b", 3));
    scenario.nodes.iter_mut().for_each(|node| node.router.name = "static".into());
    let outcome = World::new(&scenario, Got::default()).unwrap().run();
    (outcome.0, outcome.1.0.into_iter().map(|(_, at)| at).collect())
}

#[test]
fn radio_delay_is_optional() {
    let (outcome, at) = far("");
    let each_s = at[1] - at[0];
    assert!((1.03..1.05).contains(&each_s) && (at[2] - at[1] - each_s).abs() < 1e-3, "{at:?}");
    assert!((at[0] - 20.0 - each_s).abs() < 1e-3);
    assert_eq!((outcome.traffic[0].delivered, outcome.radios[0].counted.busy.as_secs()), (3, 3));
    let (outcome, at) = far("delay_mode = \"stop_and_wait\"");
    assert!((at[0] - 20.0 - each_s).abs() < 1e-3, "{at:?}");
    assert!((at[1] - at[0] - 10.0 - each_s).abs() < 1e-3 && (at[2] - at[1] - 10.0 - each_s).abs() < 1e-3, "{at:?}");
    assert_eq!(outcome.radios[0].counted.busy.as_secs(), 33);
    let (_, linked) = far("delay_mode = \"stop_and_wait\"\nturns = \"link\"");
    assert_eq!(linked, at, "there is one link only");
}

#[test]
fn transfers_end_at_quantum_multiples() {
    let at = far("quantum = \"4 s\"").1;
    assert_eq!(at, [22.0, 26.0, 30.0], "they leave at 10, 12 and 16 s");
    let at = far("quantum = \"4 s\"\ndelay_mode = \"stop_and_wait\"").1;
    assert_eq!(at, [24.0, 36.0, 48.0], "a radio that waits for the light is free when it arrived");
}

#[test]
fn hellos_cost_a_turn_or_nothing() {
    let epidemic = |metadata: &str| {
        let keys = format!("delay = \"0 s\"\nmetadata = \"{metadata}\"");
        let mut scenario = scenario("a b 20 300\n", &keys, &traffic("a", "b", 1));
        scenario.nodes.iter_mut().for_each(|node| node.router.name = "epidemic".into());
        let (outcome, got) = World::new(&scenario, Got::default()).unwrap().run();
        (outcome.radios[0].counted.sent, got.0[0].1, outcome.radios[0].counted.sent_bytes)
    };
    let (sent, at, bytes) = epidemic("free");
    assert_eq!(sent, 1);
    assert!((at - 20.0 - bytes as f64 * 8.0 / 80_000.0).abs() < 1e-6, "{at}");
    let (sent, later, more) = epidemic("charged");
    assert!(sent >= 3 && more > bytes && later > at, "two hellos at least: {sent}, {later}");
}

#[test]
fn broken_transfer_restarts_at_next_contact() {
    for turns in ["node", "link"] {
        // A bundle takes 1.04 s.
        let keys = format!("delay = \"0 s\"\nturns = \"{turns}\"");
        let mut scenario = scenario("a b 0 11\na b 20 300\n", &keys, &traffic("a", "b", 1));
        scenario.nodes.iter_mut().for_each(|node| node.router.name = "static".into());
        let (outcome, got) = World::new(&scenario, Got::default()).unwrap().run();
        let counted = &outcome.radios[0].counted;
        assert_eq!((counted.sent, counted.delivered, counted.dropped_by(DropReason::WindowEnd)), (2, 1, 1));
        assert!(matches!(got.0[..], [(B, at)] if (21.03..21.05).contains(&at)), "{:?}", got.0);
        assert_eq!((outcome.traffic[0].delivered, counted.busy.as_millis() / 10), (1, 204), "a second and 1.04 s");
    }
}

#[test]
fn duplicate_is_refused_before_first_byte() {
    // `c` gets a copy; then both meet `b`, and `a` delivers first.
    let keys = "delay = \"0 s\"\nmetadata = \"free\"";
    let contacts = "a c 0 20\na b 30 300\nb c 30 300\n";
    let mut scenario = scenario(contacts, keys, &traffic("a", "d", 1));
    scenario.nodes.iter_mut().for_each(|node| node.router.name = "epidemic".into());
    let (outcome, got) = run(&scenario);
    assert_eq!(got.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [C, B]);
    assert_eq!((outcome.radios[0].counted.sent, outcome.radios[0].refused), (2, 1));
    // A layer that cannot refuse in advance sends the whole bundle in vain.
    let keys = format!("{keys}\nlayer = \"udpcl\"");
    let mut scenario = self::scenario(contacts, &keys, &traffic("a", "d", 1));
    scenario.nodes.iter_mut().for_each(|node| node.router.name = "epidemic".into());
    let outcome = World::new(&scenario, Got::default()).unwrap().run().0;
    assert_eq!((outcome.radios[0].counted.sent, outcome.radios[0].refused), (3, 0));
}

#[test]
fn full_node_refuses_before_first_byte() {
    let keys = "delay = \"0 s\"\nmetadata = \"free\"";
    let mut scenario = scenario("a b 0 300\n", keys, &traffic("a", "d", 1));
    scenario.nodes.iter_mut().for_each(|node| node.router.name = "epidemic".into());
    scenario.nodes[B].given.push(("store.capacity", 5000));
    let outcome = World::new(&scenario, Got::default()).unwrap().run().0;
    assert_eq!(outcome.radios[0].counted.sent, 0, "{:?}", outcome.radios[0]);
    assert!(outcome.radios[0].refused >= 1);
}

#[test]
fn links_never_exceed_beams() {
    let keys = "delay = \"0 s\"\nbeams = 1";
    // `a` meets all: `b` until 50 s, then `c` until 100 s; `d` becomes free after that.
    let contacts = "a b 0 50\na c 0 100\na d 0 300\nc d 0 300\n";
    let more = traffic("a", "b", 1) + &traffic("a", "c", 1) + &traffic("a", "d", 1);
    let mut scenario = scenario(contacts, keys, &more);
    scenario.nodes.iter_mut().for_each(|node| node.router.name = "static".into());
    let (outcome, got) = World::new(&scenario, Got::default()).unwrap().run();
    // `c` and `d` have their beams for each other from the start, so `a` gets a link to neither.
    assert_eq!(outcome.radios[0].contacts, 2, "{:?}", outcome.radios[0]);
    assert_eq!(got.0.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [B]);
    assert_eq!(outcome.radios[0].up.as_secs(), 50 + 300);
    let unlimited = self::scenario(contacts, "delay = \"0 s\"", &more);
    assert_eq!(World::new(&unlimited, Got::default()).unwrap().run().0.radios[0].contacts, 4);
}

#[test]
fn cable_and_radio_share_a_neighbour() {
    let cable = "[[link]]\nname = \"cable\"\nbetween = [\"a\", \"b\"]\nlayer = \"tcpclv4\"\nrate = \"80 kbit/s\"\n\
                 [[contact]]\nlink = \"cable\"\nstart = \"100 s\"\nend = \"200 s\"\n";
    let more = traffic("a", "b", 1) + cable;
    let run = |contacts: &str| {
        let mut scenario = scenario(contacts, "delay = \"0 s\"\nmetadata = \"free\"", &more);
        scenario.nodes.iter_mut().for_each(|node| node.router.name = "epidemic".into());
        World::new(&scenario, Got::default()).unwrap().run()
    };
    // The radio delivers while the cable is down; the bundle does not cross the cable again.
    let (outcome, got) = run("a b 20 300\n");
    assert_eq!((outcome.traffic[0].delivered, got.0.len()), (1, 1));
    assert!((21.0..21.1).contains(&got.0[0].1), "{:?}", got.0);
    assert_eq!(outcome.radios[0].counted.sent, 1);
    // The cable delivers if its contact is first.
    let (outcome, got) = run("a b 250 300\n");
    assert_eq!((outcome.traffic[0].delivered, got.0.len(), outcome.radios[0].counted.sent), (1, 1, 0));
    assert!((101.0..103.0).contains(&got.0[0].1), "{:?}", got.0);
}
