//! A whole scenario file simulated into a run directory that the report reads.

use farlink_report::{RunReader, Statistics};
use farlink_scenario::Scenario;
use farlink_sim::{Options, run};
use std::path::Path;

fn smoke() -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../campaigns/iss/smoke.toml");
    Scenario::load(&path).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

#[test]
fn the_small_space_station_delivers_its_file_and_says_so() {
    let scenario = smoke();
    let folder = tempfile::tempdir().unwrap();
    let options = Options { folder: folder.path().join("run"), command: "farlink run".into(), ..Options::default() };
    let mut seen = 0.0;
    let (path, outcome) = run(&scenario, &options, &mut |p| seen = p.simulated_s).unwrap();
    assert!(outcome.traffic[0].complete_at.is_some(), "{outcome:#?}");
    assert!(seen > 1.0, "progress was told");

    let reader = RunReader::open(&path).unwrap();
    let statistics = Statistics::read(&reader).unwrap();
    assert_eq!((statistics.created, statistics.delivered), (50, 50));
    assert!(statistics.goodput_bit_s.unwrap() < 20e6, "no faster than the space link");
    assert!(statistics.last_delivery_s.unwrap() < 10.0, "{statistics:?}");
    assert!((3.0..4.0).contains(&statistics.overhead.unwrap()), "three hops: {statistics:?}");
    let manifest = reader.manifest();
    assert!(manifest.finished);
    assert_eq!(manifest.files[0].received_bytes, 5_000_000);
    assert_eq!(reader.links().unwrap().len(), 6, "three links, two directions");
    let mut samples = 0;
    reader
        .samples(&mut |_| {
            samples += 1;
            Ok(())
        })
        .unwrap();
    assert!(samples > 100);
}
