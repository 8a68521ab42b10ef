//! Compressed reports and store quotas, at packet and at message level.

use farlink_base::{Event, Instant};
use farlink_scenario::Scenario;
use farlink_sim::{Observer, World};

#[derive(Default)]
struct ReportCounts {
    created: usize,
    delivered: usize,
    /// Per node: number of compressed reports, and number of bundles that they cover.
    told: [(usize, u64); 3],
    refused: [usize; 3],
    /// Records received by the first node.
    records: usize,
    /// Bundles at the second node: present and maximum number.
    there: (usize, usize),
}
impl Observer for ReportCounts {
    fn event(&mut self, _: Instant, node: usize, event: &Event) {
        match event {
            Event::Created { .. } => self.created += 1,
            Event::Delivered { .. } => self.delivered += 1,
            Event::ReportsCompressed { bundles, .. } => {
                self.told[node].0 += 1;
                self.told[node].1 += bundles;
            }
            Event::Refused { .. } => self.refused[node] += 1,
            Event::Received { .. } if node == 0 => self.records += 1,
            Event::Received { .. } if node == 1 => {
                self.there.0 += 1;
                self.there.1 = self.there.1.max(self.there.0);
            }
            Event::Deleted { .. } if node == 1 => self.there.0 -= 1,
            _ => {}
        }
    }
}

fn run(fidelity: &str, down: &str, traffic: &str, more: &str) -> ReportCounts {
    // 40 bundles from the first through the second to the third node; `down` is the rate of the second link.
    let text = format!(
        r#"
        name = "reports"
        duration = "120 s"
        stop_when_delivered = false
        fidelity = "{fidelity}"
        node_defaults = {{ router = "static" }}
        [[node]]
        name = "a"
        id = "ipn:1.0"
        routes = {{ "ipn:3.*" = "b" }}
        compressed_reports = {{ request = ["ipn:3.*"] }}
        [[node]]
        name = "b"
        id = "ipn:2.0"
        [[node]]
        name = "c"
        id = "ipn:3.0"
        routes = {{ "ipn:1.*" = "b" }}
        compressed_reports = {{ delay = "5 s", bundles = 30 }}
        [[link]]
        name = "ab"
        between = ["a", "b"]
        layer = "tcpclv4"
        rate = "1 Mbit/s"
        delay = "10 ms"
        [[link]]
        name = "bc"
        between = ["b", "c"]
        layer = "tcpclv4"
        rate = "{down}"
        delay = "10 ms"
        [[traffic]]
        from = "a"
        to = "c"
        bundles = {{ count = 40, size = "1 kB", interval = "20 ms" }}
        {traffic}
        {more}
        "#
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let counts = World::new(&scenario, ReportCounts::default()).unwrap().run().1;
    assert_eq!((counts.created, counts.delivered), (40, 40), "{fidelity}");
    counts
}

#[test]
fn compressed_reports_wait_for_count_or_time() {
    for fidelity in ["full", "message"] {
        let counts = run(fidelity, "1 Mbit/s", "reports = [\"delivery\"]", "");
        assert_eq!(counts.told, [(0, 0), (0, 0), (2, 40)], "{fidelity}: 30 at once, the others 5 s later");
        assert_eq!(counts.records, 2, "{fidelity}: whoever asked is told, and nobody counts that as a delivery");
        let silent = run(fidelity, "1 Mbit/s", "", "");
        assert_eq!((silent.told, silent.records), ([(0, 0); 3], 0), "{fidelity}: nobody asked");
    }
}

#[test]
fn reports_require_the_table() {
    let quotas = "[[quota]]\nsources = [\"ipn:3.*\"]\nbundles = 100\n[[quota]]\nneighbours = [\"ipn:99.*\"]\nshare = 1";
    for fidelity in ["full", "message"] {
        let counts = run(fidelity, "1 Mbit/s", "reports = [\"reception\"]", quotas);
        assert_eq!(counts.told, [(0, 0), (0, 0), (2, 40)], "{fidelity}: b has no compressed reports");
        assert_eq!(counts.refused, [0; 3], "{fidelity}: quotas of others refuse nobody");
    }
}

#[test]
fn quota_refusal_only_delays() {
    for fidelity in ["full", "message"] {
        let quota = "[[quota]]\nnodes = \"b\"\nsources = [\"ipn:1.*\"]\nbundles = 5";
        let bounded = run(fidelity, "50 kbit/s", "", quota);
        assert!(bounded.refused[1] > 0 && bounded.there.1 <= 5, "{fidelity}: {:?}", bounded.there);
        let free = run(fidelity, "50 kbit/s", "", "");
        assert!(free.there.1 > 20 && free.refused == [0; 3], "{fidelity}: {:?}", free.there);
    }
}
