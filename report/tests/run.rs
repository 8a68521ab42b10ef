//! A run directory reads back as it was written.

use crate::common;

use crate::common::Flavour;
use farlink_report::{Comparison, RunReader, RunWorld, Statistics};

#[test]
fn statistics_of_run_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let run = common::write(folder.path(), &Flavour::new(RunWorld::Sim));
    let statistics = Statistics::read(&run).unwrap();
    assert_eq!((statistics.created, statistics.delivered), (800, 800));
    assert_eq!(statistics.delivered_bytes, 200_000_000);
    assert!(statistics.duration_s > 30.0 && statistics.wall_s > 0.0);
    let bundles = run.bundles().unwrap();
    assert!(bundles.iter().all(|b| b.hops == 3 && b.transmissions == 3 && b.deliveries == 1));
    let space = statistics.links.iter().find(|l| l.link == "space" && l.from == "onboard").unwrap();
    // The third pass ends with the run.
    let up = 9.0 + 7.0 + (statistics.duration_s - 30.0);
    let busy = 211_000_000.0 * 8.0 / 100e6;
    assert!((space.utilisation.unwrap() - busy / up).abs() < 1e-6, "up time ends with the run");
    let mut events = 0;
    run.events(&mut |_| {
        events += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(events, 800 * 9);
}

#[test]
fn simulation_and_testbed_compare() {
    let folder = tempfile::tempdir().unwrap();
    let sim = common::write(&folder.path().join("sim"), &Flavour::new(RunWorld::Sim));
    let lab = common::write(&folder.path().join("lab"), &Flavour::new(RunWorld::Lab));
    let numbers = [Statistics::read(&sim).unwrap(), Statistics::read(&lab).unwrap()];
    let runs = [&sim, &lab].map(|r| (r.folder().display().to_string(), r.manifest()));
    let comparison =
        Comparison::of(&[(runs[0].0.clone(), runs[0].1, &numbers[0]), (runs[1].0.clone(), runs[1].1, &numbers[1])]);
    assert!(comparison.same_scenario);
    assert_eq!(comparison.metric("latency_s.mean").unwrap().within_10_percent, Some(true));
    assert!(comparison.to_text().contains("mean latency"));
}

#[test]
fn non_run_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = format!("{:#}", RunReader::open(folder.path()).unwrap_err());
    assert!(error.contains("is not a run") && error.contains("hint: "), "{error}");
    std::fs::write(folder.path().join("manifest.json"), "{\"schema\": 99}").unwrap();
    assert!(format!("{:#}", RunReader::open(folder.path()).unwrap_err()).contains("newer"));
    std::fs::write(folder.path().join("manifest.json"), "{").unwrap();
    assert!(format!("{:#}", RunReader::open(folder.path()).unwrap_err()).contains("damaged"));
}
