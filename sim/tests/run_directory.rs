//! Complete scenario files, simulated into a run directory that the report reads.

use farlink_report::{RunReader, Statistics};
use farlink_scenario::Scenario;
use farlink_sim::{Options, run};
use std::path::Path;

fn smoke() -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../campaigns/iss/smoke.toml");
    Scenario::load(&path).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

#[test]
fn space_station_delivers_its_file() {
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

#[test]
fn run_repeats_from_its_directory() {
    let place = tempfile::tempdir().unwrap();
    let (sources, data) = (place.path().join("study"), place.path().join("data"));
    std::fs::create_dir_all(&sources).unwrap();
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("contacts.txt"), "node1 node2 5 20\nnode2 node3 30 60\n").unwrap();
    let text = "name = \"copied\"\nduration = \"100 s\"\nfidelity = \"message\"\n\
        [[radio]]\nname = \"wifi\"\ncontacts = \"../data/contacts.txt\"\nrate = \"1 Mbit/s\"\n\
        [[group]]\nname = \"node\"\ncount = 3\nfirst_id = 1\nradio = \"wifi\"\nrouter = \"epidemic\"\n\
        [[traffic]]\nname = \"news\"\nfrom = \"node1\"\nto = \"node3\"\nbundles = { count = 3, size = \"10 kB\" }\n\
        [[traffic]]\nname = \"chat\"\nfrom = \"node\"\nto = \"node\"\nbundles = { count = 9, size = \"1 kB\", interval = \"2 s\" }\n";
    std::fs::write(sources.join("scenario.toml"), text).unwrap();
    let run_of = |file: &Path, out: &str| {
        let scenario = Scenario::load(file).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let options = Options { folder: place.path().join(out), ..Options::default() };
        run(&scenario, &options, &mut |_| {}).unwrap()
    };
    let (folder, outcome) = run_of(&sources.join("scenario.toml"), "run");
    assert_eq!(outcome.traffic[0].delivered, 3, "{outcome:#?}");
    // The copy in the run directory must suffice.
    std::fs::remove_dir_all(&sources).unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    let (_, again) = run_of(&folder.join("scenario/in/scenario.toml"), "again");
    assert_eq!(outcome, again);
    // Traffic between groups counts as one entry.
    let reader = RunReader::open(&folder).unwrap();
    let traffic: Vec<_> = reader.manifest().topology.traffic.iter().map(|t| (&*t.name, t.senders)).collect();
    assert_eq!(traffic, [("news", None), ("chat", Some(9))]);
    let counted = Statistics::read(&reader).unwrap().traffic;
    let mut created: Vec<_> = counted.iter().map(|flow| (&*flow.traffic, flow.created)).collect();
    created.sort_unstable();
    assert_eq!(created, [("chat", 9), ("news", 3)]);
}
