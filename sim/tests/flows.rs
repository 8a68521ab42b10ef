//! Plain flows between hosts, and links that share a bottleneck.

use farlink_report::PlainFlow;
use farlink_scenario::Scenario;
use farlink_sim::{Outcome, Silent, World};

const NODES: &str = "name = \"flows\"\nduration = \"10 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n\
    [[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n[[node]]\nname = \"c\"\nid = \"ipn:3.0\"\n";

fn run(text: &str) -> Outcome {
    let scenario = Scenario::parse(&format!("{NODES}{text}")).unwrap_or_else(|errors| panic!("{errors:#?}"));
    World::new(&scenario, Silent).unwrap().run().0
}
fn link(name: &str, rest: &str) -> String {
    let (one, other) = name.split_at(1);
    format!("[[link]]\nname = \"{name}\"\nbetween = [\"{one}\", \"{other}\"]\nlayer = \"ltp\"\n{rest}\n")
}
fn flow(path: &str, rest: &str) -> String {
    let (from, to) = path.split_at(1);
    format!("[[flow]]\nname = \"{path}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{rest}\n")
}
const UDP: &str = "transport = \"udp\"\nrate = \"1 Mbit/s\"\ndatagram = \"1000 B\"";

#[test]
fn datagrams_cross_several_links_at_their_rate() {
    let links =
        link("ab", "rate = \"10 Mbit/s\"\ndelay = \"50 ms\"") + &link("bc", "loss = \"10 %\"\ndelay = \"50 ms\"");
    let outcome = run(&(links + &flow("ac", &format!("{UDP}\nstart = \"1 s\"\nstop = \"5 s\""))));
    let flow = &outcome.flows[0];
    assert_eq!((flow.datagrams, flow.sent_bytes), (500, 500_000), "125 a second for 4 s");
    assert_eq!(flow.received_bytes, (500 - flow.lost) * 1000);
    assert!((25..80).contains(&flow.lost), "{flow:?}");
    assert!((flow.bit_s / 0.9e6 - 1.0).abs() < 0.1, "{flow:?}");
    let [crossed, last] = [0, 1].map(|link: usize| outcome.links[link][0].sent);
    assert_eq!((crossed, last), (500, 500));
}

#[test]
fn rate_of_few_datagrams_is_theirs() {
    let outcome =
        run(&(link("ab", "") + &flow("ab", "transport = \"udp\"\nrate = \"100 kbit/s\"\ndatagram = \"50 kB\"")));
    let flow = &outcome.flows[0];
    assert_eq!((flow.datagrams, flow.seconds.round(), (flow.bit_s / 1e3).round()), (3, 8.0, 100.0), "{flow:?}");
}

#[test]
fn rate_beyond_all_networks_is_no_overflow() {
    let flow = &run(&(link("ab", "rate = \"1 Mbit/s\"") + &flow("ab", "rate = \"1000000 Gbit/s\""))).flows[0];
    assert!(flow.received_bytes > 900_000, "{flow:?}");
}

#[test]
fn stream_without_connection_says_so() {
    let contact = "[[contact]]\nlink = \"ab\"\nstart = \"4 s\"\nend = \"9 s\"\n";
    let outcome = run(&(link("ab", "rate = \"1 Mbit/s\"") + contact + &flow("ab", "stop = \"3 s\"")));
    assert_eq!(outcome.flows[0].failure.as_deref(), Some("no connection within 3.0 s"));
    assert_eq!(outcome.flows[0].sent_bytes, 0);
}

#[test]
fn stream_takes_the_rate_of_its_bottleneck() {
    let links =
        link("ab", "rate = \"8 Mbit/s\"\ndelay = \"10 ms\"") + &link("bc", "rate = \"4 Mbit/s\"\ndelay = \"10 ms\"");
    let [free, paced] =
        ["", "rate = \"1 Mbit/s\""].map(|rest| run(&(links.clone() + &flow("ac", rest))).flows[0].clone());
    // Payload of 1448 B in packets of 1500 B.
    assert!((3.3e6..3.87e6).contains(&free.bit_s), "{free:?}");
    assert!((paced.bit_s / 1e6 - 1.0).abs() < 0.03, "{paced:?}");
    assert!(paced.retransmitted == 0 && paced.failure.is_none(), "{paced:?}");
}

#[test]
fn links_of_a_bottleneck_divide_its_rate() {
    let shared = "rate = \"1 Mbit/s\"\ndelay = \"5 ms\"\nqueue = \"20 kB\"";
    let links = |more: &str| link("ab", &format!("{shared}{more}")) + &link("ac", &format!("{shared}{more}"));
    let flows = flow("ab", UDP) + &flow("ac", UDP);
    let total = |flows: &[PlainFlow]| flows.iter().map(|flow| flow.received_bytes).sum::<u64>() as f64 * 0.8 / 1e6;
    let apart = run(&(links("") + &flows)).flows;
    assert!(total(&apart) > 1.9, "{apart:?}");
    let together = run(&(links("\nshares = \"modem\"") + &flows));
    assert!((0.9..1.0).contains(&total(&together.flows)), "{:?}", together.flows);
    let back = flow("ba", UDP) + &flow("ac", UDP);
    let both_ways = run(&(links("\nshares = \"modem\"") + &back)).flows;
    assert!(total(&both_ways) > 1.9, "each direction has its own transmitter: {both_ways:?}");
}

#[test]
fn hybla_outruns_reno_on_long_lossy_path() {
    let text = |control: &str| {
        let tcp = format!("[node_defaults]\ntcp = {{ congestion = \"{control}\" }}\n");
        let long = link("ab", "rate = \"10 Mbit/s\"\ndelay = \"300 ms\"\nloss = \"1 %\"");
        format!("seed = 3\n{}{tcp}{long}{}", NODES.replace("10 s", "25 s"), flow("ab", ""))
    };
    let bytes = |control: &str| {
        let outcome = World::new(&Scenario::parse(&text(control)).unwrap(), Silent).unwrap().run().0;
        assert_eq!(outcome.flows[0].congestion.as_deref(), Some(if control == "newreno" { "reno" } else { control }));
        outcome.flows[0].received_bytes
    };
    let (hybla, reno) = (bytes("hybla"), bytes("newreno"));
    assert!(hybla >= 5 * reno, "{hybla} {reno}");
}

#[test]
fn same_seed_repeats_flows() {
    let text = link("ab", "rate = \"2 Mbit/s\"\ndelay = \"20 ms\"\nloss = \"2 %\"") + &flow("ab", "");
    let (one, other) = (run(&text), run(&text));
    assert_eq!((one.trace, one.flows), (other.trace, other.flows));
}

#[test]
fn whole_bundles_have_no_flows() {
    let text = format!("{}fidelity = \"message\"\n{}", "", NODES) + &link("ab", "") + &flow("ab", "");
    let scenario = Scenario::parse(&text).unwrap();
    let error = World::new(&scenario, Silent).err().unwrap().to_string();
    assert!(error.contains("flow[ab]") && error.contains("hint: "), "{error}");
}
