//! TLS at packet and at message level: its cost, and ends whose settings exclude a session.

use farlink_base::{Event, Instant};
use farlink_scenario::{Fidelity, Scenario};
use farlink_sim::tls::{HANDSHAKE_BYTES, RECORD_BYTES};
use farlink_sim::{Observer, Outcome, World};

const BUNDLES: u64 = 50;
const SIZE: u64 = 40_000;

fn scenario(tls: [&str; 2], fidelity: Fidelity) -> Scenario {
    // Two nodes, 100 ms apart, each with a TLS mode; the first sends.
    let node = |name: &str, number: usize| {
        let tls = tls[number - 1];
        format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{number}.0\"\ntcpclv4 = {{ tls = \"{tls}\" }}\n")
    };
    let text = format!(
        "name = \"tls\"\nduration = \"60 s\"\n{}{}[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n\
         layer = \"tcpclv4\"\nrate = \"10 Mbit/s\"\ndelay = \"100 ms\"\n\
         [[traffic]]\nfrom = \"a\"\nto = \"b\"\nbundles = {{ count = {BUNDLES}, size = \"{SIZE} B\" }}\n",
        node("a", 1),
        node("b", 2)
    );
    let mut scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    scenario.fidelity = fidelity;
    scenario
}

#[derive(Default)]
struct First(Option<Instant>);
impl Observer for First {
    fn event(&mut self, at: Instant, _: usize, event: &Event) {
        if matches!(event, Event::Delivered { .. }) {
            self.0 = self.0.or(Some(at));
        }
    }
}
fn run(tls: [&str; 2], fidelity: Fidelity) -> (Outcome, First) {
    World::new(&scenario(tls, fidelity), First::default()).unwrap().run()
}
fn bytes(outcome: &Outcome) -> u64 {
    // Handshakes and acknowledgments cost bytes in both directions.
    outcome.links[0].iter().map(|direction| direction.sent_bytes).sum()
}

#[test]
fn tls_costs_round_trips_and_records() {
    let ((plain, first), (secured, later)) =
        (run(["forbid", "forbid"], Fidelity::Full), run(["require", "allow"], Fidelity::Full));
    assert_eq!([&plain, &secured].map(|outcome| outcome.traffic[0].delivered), [BUNDLES; 2]);
    let more = later.0.unwrap().0 - first.0.unwrap().0;
    // One round trip for TLS 1.3, and one because a server that sends its contact header in the clear initializes its
    // session only after the client's last flight (RFC 9174 4.1, 4.4).
    assert!((400_000_000..415_000_000).contains(&more), "{more} ns later");
    // Per bundle three records of data, one of its header and one of the acknowledgment; and TCP headers of some more
    // segments.
    let least = HANDSHAKE_BYTES.iter().sum::<u64>() + BUNDLES * 5 * RECORD_BYTES;
    let more = bytes(&secured) - bytes(&plain);
    assert!((least..least + 12_000).contains(&more), "{more} B, at least {least} B");
}

#[test]
fn mismatched_ends_have_no_session() {
    for tls in [["require", "forbid"], ["forbid", "require"]] {
        let (outcome, _) = run(tls, Fidelity::Full);
        assert_eq!(outcome.traffic[0].delivered, 0, "{tls:?}");
    }
    assert_eq!(run(["allow", "forbid"], Fidelity::Full).0.traffic[0].delivered, BUNDLES);
}

#[test]
fn whole_bundles_pay_record_overhead() {
    let [plain, secured] = ["forbid", "require"].map(|tls| bytes(&run([tls; 2], Fidelity::Message).0));
    let share = secured as f64 / plain as f64 - 1.0;
    assert!((0.0013..0.0020).contains(&share), "22 B of 16 KiB, rounded up to a byte a segment: {share}");
}

#[test]
fn a_seed_replays_a_secured_run() {
    let trace = || run(["require", "require"], Fidelity::Full).0.trace;
    assert_eq!(trace(), trace());
}
