//! Retention times in the testbed, by `farlink run`. Skipped with the reason if the kernel does not permit isolation.
//! `cargo xtask bench retention` measures how exact they are.

use crate::testbed::{self, FARLINK, possible};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

const BUNDLES: u64 = 60;

/// Three nodes in a row over a layer. The traffic starts at 2 s, after the zero-work relay at the start of the phase.
fn scenario(layer: &str, more: &str) -> String {
    let node = |name: &str, number: u8| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{number}.0\"\n");
    let link = |name: &str, from: &str, to: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nbetween = [\"{from}\", \"{to}\"]\nlayer = \"{layer}\"\ndelay = \"2 ms\"\n\
             rate = \"50 Mbit/s\"\n"
        )
    };
    [
        "name = \"relayed\"\nduration = \"30 s\"\n".to_string(),
        more.into(),
        node("a", 1) + &node("b", 2) + &node("c", 3),
        link("near", "a", "b") + &link("far", "b", "c"),
        "[[phase]]\nname = \"relay\"\nkind = \"retention\"\n".into(),
        format!(
            "[[traffic]]\nfrom = \"a\"\nto = \"c\"\nstart = \"2 s\"\nbundles = {{ count = {BUNDLES}, size = \"5 kB\", \
             interval = \"10 ms\" }}\n"
        ),
    ]
    .concat()
}

/// Runs a scenario and makes its report; returns the JSON of the run, the page, and the folder.
fn run(name: &str, text: &str) -> (Value, String, PathBuf) {
    let folder = testbed::folder(&format!("retention-{name}"), text);
    let farlink = |arguments: &[&str]| {
        let output = Command::new(FARLINK).current_dir(&folder).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let result = farlink(&["run", "scenario.toml", "--in", "lab", "--json", "--out", "run"]);
    farlink(&["report", "run", "--out", "report.html"]);
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    (serde_json::from_slice(&result).unwrap(), page, folder)
}

#[test]
fn relay_is_measured_over_each_transport() {
    if !possible() {
        return;
    }
    for (layer, transport) in [("tcpclv4", "tcp"), ("ltp", "udp")] {
        let (result, page, folder) = run(layer, &scenario(layer, ""));
        assert_eq!(result["delivered"].as_u64(), Some(BUNDLES), "{layer}: {result:#}");
        let relays = result["phases"][0]["retention"].as_array().unwrap();
        assert_eq!(relays.len(), 1, "{layer}: {result:#}");
        let relay = &relays[0];
        assert_eq!((relay["relay"].as_str(), relay["unavailable"].as_str()), (Some("b"), None), "{layer}: {relay:#}");
        let count = |key: &str| relay[key].as_u64();
        // The relay's times are of all bundles, and no bundle overtook another.
        assert_eq!(count("bundles"), Some(BUNDLES), "{layer}: {relay:#}");
        for key in ["missing", "overtaking", "frames_missed", "enciphered", "unreadable", "unread_bytes"] {
            assert_eq!(count(key), Some(0), "{layer}, {key}: {relay:#}");
        }
        let zero_work = &relay["zero_work"][0];
        assert_eq!(zero_work["transport"].as_str(), Some(transport), "{layer}: {relay:#}");
        assert!(
            zero_work["bundles"].as_u64() > Some(0) && zero_work["p50_s"].as_f64() > Some(0.0),
            "{layer}: {relay:#}"
        );
        let p50 = |key: &str| relay[key]["p50"].as_f64().unwrap();
        assert!(p50("first_out_s") > p50("net_first_out_s") && p50("last_out_s") >= p50("first_out_s"), "{relay:#}");
        assert!(page.contains("relay: b") && page.contains("zero-work relay"), "{layer}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn enciphered_relay_is_not_available() {
    if !possible() {
        return;
    }
    let (result, page, folder) = run("tls", &scenario("tcpclv4", "[node_defaults]\ntcpclv4 = { tls = \"require\" }\n"));
    assert_eq!(result["delivered"].as_u64(), Some(BUNDLES), "{result:#}");
    let relay = &result["phases"][0]["retention"][0];
    let reason = "its conversations are enciphered (TLS)";
    assert_eq!((relay["unavailable"].as_str(), relay["bundles"].as_u64()), (Some(reason), Some(0)), "{relay:#}");
    assert_eq!(relay["first_out_s"], Value::Null, "{relay:#}");
    assert!(page.contains(&format!("n/a: {reason}")));
    std::fs::remove_dir_all(&folder).unwrap();
}
