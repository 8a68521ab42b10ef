//! Quotas of real nodes. Bundles beyond a quota are refused by the layer's own means and counted; the sender lists them
//! with the time of the next try; freed room is used at once, as is a larger quota after a reload.

use crate::node_support::{Node, Pair, run, until};
use farlink_apps::http;
use serde_json::Value;
use std::time::{Duration, Instant};

fn get(pair: &Pair, number: usize, path: &str) -> Value {
    serde_json::from_str(&http::request("GET", &pair.control(number), path, "").unwrap().1).unwrap()
}
fn send(node: &Node, count: usize) {
    let mut sender = node.client("99", 0);
    for _ in 0..count {
        let adu = farlink_aap2::proto::BundleAdu { dst_eid: "ipn:2.64".into(), ..Default::default() };
        sender.send(adu, b"one of many").unwrap();
        sender.response().unwrap();
    }
}
fn held(pair: &Pair, number: usize) -> u64 {
    get(pair, number, "/status")["bundles"].as_u64().unwrap()
}

#[test]
fn full_quota_refuses_until_freed() {
    for layer in ["tcpclv4", "ltp"] {
        let pair = Pair::new(layer, true);
        let second = pair.start(2, "[[quota]]\nneighbours = [\"ipn:1.0\"]\nbundles = 3");
        let first = pair.start(1, "");
        send(&first, 8);
        until("the quota is full, and refuses", || {
            let quota = &get(&pair, 2, "/status")["quotas"][0];
            quota["bundles"] == 3 && quota["refused"].as_u64() > Some(0)
        });
        assert_eq!((held(&pair, 1), held(&pair, 2)), (5, 3), "{layer}: nothing is lost, nothing is twice");
        let sums = get(&pair, 1, "/bundles/summary");
        let full = sums.as_array().unwrap().iter().find(|sum| sum["reason"] == "neighbour full").expect("it says why");
        assert_eq!((full["destination"].as_str(), full["neighbour"].as_str()), (Some("ipn:2.0"), Some("ipn:2.0")));
        assert!(full["leaves"].is_string() && full["leaves_in_ms"].as_u64().unwrap() <= 64_000, "{full}");
        let told = run(&["node", "bundles", "--summary", "--at", &pair.control(2)]);
        let table = String::from_utf8(told.stdout).unwrap();
        assert!(table.contains("application") && table.lines().count() == 2, "{table}");
        let status = String::from_utf8(run(&["node", "status", "--at", &pair.control(2)]).stdout).unwrap();
        assert!(status.contains("from ipn:1.0: 3 of 3 bundles"), "{status}");
        let metrics = http::request("GET", &pair.control(2), "/metrics", "").unwrap().1;
        assert!(metrics.contains("farlink_quota_refused_total{quota=\"ipn:1.0\"}"), "{metrics}");
        // Deliveries free the quota, and refused bundles follow at once instead of after their backoff.
        let mut receiver = second.client("64", 1);
        let began = Instant::now();
        for n in 0..4 {
            receiver.delivery().unwrap();
            receiver.taken(true).unwrap();
            assert!(n < 3 || began.elapsed() < Duration::from_secs(5), "{layer}: {:?}", began.elapsed());
        }
        for _ in 4..8 {
            receiver.delivery().unwrap();
            receiver.taken(true).unwrap();
        }
        until("nothing is left", || held(&pair, 1) == 0 && held(&pair, 2) == 0);
    }
}

#[test]
fn reload_applies_another_quota() {
    let pair = Pair::new("tcpclv4", true);
    let _second = pair.start(2, "[[quota]]\nsources = [\"ipn:1.*\"]\nbundles = 2");
    let first = pair.start(1, "");
    send(&first, 6);
    until("two are there", || held(&pair, 2) == 2 && held(&pair, 1) == 4);
    let file = pair.dir.path().join("2.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("bundles = 2", "bundles = 5");
    std::fs::write(&file, text).unwrap();
    let (code, said) = http::request("POST", &pair.control(2), "/reload", "").unwrap();
    assert!(code == 200 && said.contains("\"needs_restart\":[]"), "{said}");
    until("five are there", || held(&pair, 2) == 5 && held(&pair, 1) == 1);
    let text = std::fs::read_to_string(&file).unwrap().replace("bundles = 5", "bundles = 0");
    std::fs::write(&file, text).unwrap();
    assert_eq!(http::request("POST", &pair.control(2), "/reload", "").unwrap().0, 400, "a mistake changes nothing");
    assert_eq!(get(&pair, 2, "/status")["quotas"][0]["bundles_max"], 5);
}

#[test]
fn node_limits_bundle_lifetime() {
    let pair = Pair::new("tcpclv4", true);
    let first = pair.start(1, "[limits]\nlifetime = \"3 s\"");
    send(&first, 1);
    let row = get(&pair, 1, "/bundles")[0].clone();
    assert!(row["shortened"] == true && row["remaining_ms"].as_u64().unwrap() <= 3000, "{row}");
    until("it went", || held(&pair, 1) == 0);
}
