//! Nagle's algorithm in nodes of another implementation, found by `farlink report`. Skipped with the reason if the kernel
//! does not permit isolation.

use crate::testbed::{FARLINK, folder, possible};
use std::process::Command;

const SCENARIO: &str = "name = \"pair\"\nduration = \"60 s\"\n\
    [node_defaults]\nimplementation = \"toy\"\nparameters = { nagle = \"NAGLE\" }\n\
    [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\nid = \"ipn:2.0\"\n\
    [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"tcpclv4\"\ndelay = \"100 us\"\ncapture = true\n\
    [[traffic]]\nfrom = \"a\"\nto = \"b\"\nstart = \"200 ms\"\nping = { count = 30, interval = \"90 ms\" }\n";

#[test]
fn nagle_is_found_where_it_is_on() {
    if !possible() {
        return;
    }
    for (nagle, expected) in [("on", true), ("off", false)] {
        let folder = folder(&format!("nagle-{nagle}"), &SCENARIO.replace("NAGLE", nagle));
        let farlink = |arguments: &[&str]| {
            let output = Command::new(FARLINK).current_dir(&folder).args(arguments).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        farlink(&["run", "scenario.toml", "--in", "lab", "--out", "run"]);
        farlink(&["report", "run"]);
        let page = std::fs::read_to_string(folder.join("run/report.html")).unwrap();
        let found = page.split(['<', '>']).find(|text| text.contains("algorithm") && text.contains("round trips"));
        assert_eq!(found.is_some_and(|text| text.contains("algorithm delays round trips")), expected, "{found:?}");
        assert!(expected || found.is_none(), "{found:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
