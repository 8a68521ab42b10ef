//! The map of a report: its data match the tables, and no page grows without bound.

use farlink_base::Rng;
use farlink_report::{
    EventRow, LegRow, Manifest, MeetingRow, NodeFacts, RunReader, RunWorld, RunWriter, SampleRow, html,
};
use serde_json::Value;
use std::path::Path;

const DURATION_S: f64 = 1000.0;

/// Nodes that move between random points, `legs` times each, with radio contacts in index order.
struct Scene {
    nodes: usize,
    legs: usize,
    meetings: usize,
    bundles: u64,
    events: bool,
    name: &'static str,
}
impl Scene {
    fn small() -> Scene {
        Scene { nodes: 12, legs: 20, meetings: 30, bundles: 10, events: true, name: "walker" }
    }
    fn names(&self) -> Vec<String> {
        (0..self.nodes).map(|node| format!("{}-{node}", self.name)).collect()
    }
    fn ways(&self) -> Vec<LegRow> {
        let mut random = Rng::new(3);
        let mut rows = Vec::new();
        for node in self.names() {
            let mut here = [random.unit() * 5000.0 - 900.0, random.unit() * 2000.0];
            let each = DURATION_S / self.legs as f64;
            for leg in 0..self.legs {
                let there = [random.unit() * 5000.0 - 900.0, random.unit() * 2000.0];
                let [velocity_x, velocity_y] = [0, 1].map(|axis| (there[axis] - here[axis]) / each);
                let start_s = leg as f64 * each;
                let (node, end_s) = (node.as_str().into(), start_s + each);
                rows.push(LegRow { node, start_s, end_s, x: here[0], y: here[1], velocity_x, velocity_y });
                // Some legs do not begin where the previous one ended.
                here = if leg % 7 == 3 { [0.0, 0.0] } else { there };
            }
        }
        rows
    }
    fn write(&self, folder: &Path) -> RunReader {
        let mut manifest = Manifest::new(RunWorld::Sim, "scene", "name = \"scene\"\n", None);
        let names = self.names();
        let node = |(number, name): (usize, &String)| NodeFacts {
            name: name.clone(),
            id: format!("ipn:{}.0", number + 1),
            number: number as u64 + 1,
            store: "memory".into(),
            store_capacity_bytes: 1000,
            router: "epidemic".into(),
            position: None,
        };
        manifest.topology.nodes = names.iter().enumerate().map(node).collect();
        manifest.duration_s = DURATION_S;
        let mut writer = RunWriter::create(folder, manifest).unwrap();
        if !self.events {
            writer.without_events();
        }
        self.ways().iter().for_each(|leg| writer.leg(leg).unwrap());
        for number in 0..self.meetings {
            let [node, peer] = [number % self.nodes, (number + 1) % self.nodes].map(|n| names[n].as_str().into());
            let start_ns = number as u64 * 1_000;
            let end_ns = start_ns + 5_000_000_000 + 1_000_000 * number as u64;
            writer.meeting(&MeetingRow { radio: "wifi".into(), node, peer, start_ns, end_ns }).unwrap();
        }
        for number in 0..self.bundles {
            let (from, to) = (number as usize % self.nodes, (number as usize + 1) % self.nodes);
            let row = |seconds: f64, at: usize, event: &'static str| EventRow {
                source: Some(names[from].as_str().into()),
                service: Some(1),
                creation_ms: Some(1000),
                sequence: Some(number),
                destination: Some(names[to].as_str().into()),
                destination_service: Some(2),
                size: Some(100),
                bundle_bytes: Some(130),
                priority: Some("normal".into()),
                ..EventRow::new((seconds * 1e9) as u64, names[at].as_str().into(), event)
            };
            let begun = number as f64 / self.bundles as f64 * DURATION_S / 2.0;
            writer.event(&row(begun, from, "created")).unwrap();
            let got = EventRow { peer: Some(names[from].as_str().into()), ..row(begun + 10.0, to, "received") };
            writer.event(&got).unwrap();
            writer.event(&row(begun + 10.0, to, "delivered")).unwrap();
            writer.event(&EventRow { reason: Some("done".into()), ..row(begun + 11.0, from, "deleted") }).unwrap();
        }
        for (time_s, value) in [(0, 0.0), (100, 500.0), (200, 1000.0)] {
            let row = SampleRow {
                time_ns: time_s * 1_000_000_000,
                node: Some(names[0].as_str().into()),
                link: None,
                metric: "stored_bytes".into(),
                value,
                phase: None,
            };
            writer.sample(&row).unwrap();
        }
        RunReader::open(&writer.finish().unwrap()).unwrap()
    }
}

/// Renders a scene's report and parses the data of its map.
fn page(scene: &Scene) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let page = html(&[&scene.write(folder.path())]).unwrap();
    let data = data(&page);
    (page, data)
}
fn data(page: &str) -> Value {
    let data = page.split("<script type=\"application/json\">").nth(1).unwrap().split("</script>").next().unwrap();
    serde_json::from_str(data).unwrap()
}
fn bytes(text: &Value) -> Vec<u8> {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let text = text.as_str().unwrap();
    let bits = text.bytes().filter_map(|letter| LETTERS.bytes().position(|known| known == letter));
    let bits: Vec<usize> = bits.collect();
    let group = |four: &[usize]| {
        let all = four.iter().fold(0, |all, six| all << 6 | six) << (6 * (4 - four.len()));
        [all >> 16, all >> 8, all].map(|byte| byte as u8).into_iter().take(four.len() - 1).collect::<Vec<u8>>()
    };
    bits.chunks(4).flat_map(group).collect()
}
fn wide(text: &Value) -> Vec<u32> {
    bytes(text).chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
}
fn narrow(text: &Value) -> Vec<u16> {
    bytes(text).chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect()
}

#[test]
fn map_positions_match_table() {
    let scene = Scene::small();
    let (_, data) = page(&scene);
    let (ticks, x, y) = (wide(&data["ways"]["t"]), narrow(&data["ways"]["x"]), narrow(&data["ways"]["y"]));
    let extent: Vec<f64> = data["extent"].as_array().unwrap().iter().map(|e| e.as_f64().unwrap()).collect();
    let metres = (extent[2] - extent[0]).max(extent[3] - extent[1]) / 65000.0;
    let tick_s = data["tick"].as_f64().unwrap();
    let (legs, mut random) = (scene.ways(), Rng::new(5));
    let mut begin = 0;
    for (node, count) in wide(&data["ways"]["counts"]).into_iter().enumerate() {
        let end = begin + count as usize;
        for _ in 0..200 {
            let time_s = random.unit() * DURATION_S;
            // The same interpolation as in `map.js`.
            let at = time_s / tick_s;
            let k = begin + ticks[begin..end].partition_point(|tick| f64::from(*tick) <= at) - 1;
            let next = (k + 1).min(end - 1);
            let span = f64::from(ticks[next]) - f64::from(ticks[k]);
            let part = if span > 0.0 { ((at - f64::from(ticks[k])) / span).clamp(0.0, 1.0) } else { 0.0 };
            let between = |of: &[u16]| f64::from(of[k]) + (f64::from(of[next]) - f64::from(of[k])) * part;
            let drawn = (extent[0] + between(&x) * metres, extent[1] + between(&y) * metres);
            let name = &scene.names()[node];
            let leg = legs.iter().find(|l| *l.node == **name && l.start_s <= time_s && time_s < l.end_s).unwrap();
            let there = leg.at(time_s);
            let off = ((drawn.0 - there.0).powi(2) + (drawn.1 - there.1).powi(2)).sqrt();
            assert!(off < 2.0 * metres, "{name} at {time_s}: {off} m off, a place is {metres} m");
        }
        begin = end;
    }
    assert_eq!(begin, ticks.len());
}

#[test]
fn map_data_match_tables() {
    let (page, data) = page(&Scene::small());
    let (start, a, b) =
        (wide(&data["meetings"]["start"]), narrow(&data["meetings"]["a"]), narrow(&data["meetings"]["b"]));
    assert_eq!((start.len(), start[0], a[0], b[0], a[11], b[11]), (30, 0, 0, 1, 11, 0));
    assert_eq!(wide(&data["fills"]["counts"])[..2], [3, 0]);
    assert_eq!(bytes(&data["fills"]["v"]), [0, 128, 255], "of a capacity of 1000 B");
    assert!(page.contains("of its capacity"));
    assert_eq!(wide(&data["steps"]["counts"]), [4; 10]);
    assert_eq!(bytes(&data["steps"]["kind"])[..4], [1, 1, 2, 0]);
    assert_eq!(narrow(&data["steps"]["node"])[..4], [0, 1, 1, 0]);
    assert_eq!(narrow(&data["steps"]["from"])[..4], [u16::MAX, 0, u16::MAX, u16::MAX]);
    let delivered = wide(&data["bundles"]["delivered"]);
    assert_eq!((delivered.len(), delivered[0]), (10, (10.0 / DURATION_S * 4e9) as u32));
    assert!(!page.contains("drawn.</p>") && !page.contains("Paths "), "nothing is left out");
}

#[test]
fn large_run_page_is_bounded() {
    // Every limit of `gather.rs` is exceeded by one of these three scenes.
    let scene = Scene { nodes: 3_000, legs: 60, meetings: 100, bundles: 20_010, ..Scene::small() };
    let (page, data) = page(&scene);
    assert!(page.len() < 8_000_000, "{} bytes", page.len());
    let drawn = data["names"].as_array().unwrap().len();
    assert!((500..=2000).contains(&drawn), "{drawn}");
    assert!(wide(&data["ways"]["t"]).len() <= 150_000 && wide(&data["meetings"]["start"]).len() <= 60_000);
    assert!(wide(&data["bundles"]["created"]).len() == 20_000 && wide(&data["steps"]["t"]).len() <= 100_000);
    for said in ["Of 3000 nodes one in 4 is drawn.", "Of 20010 bundles the first 20000 are shown."] {
        assert!(page.contains(said), "{said}");
    }
    let turning = Scene { nodes: 2, legs: 80_000, meetings: 0, bundles: 0, ..Scene::small() };
    let (page, data) = self::page(&turning);
    assert!(wide(&data["ways"]["t"]).len() <= 150_000 && page.contains("turn very often"));
    let meeting = Scene { nodes: 12, meetings: 60_007, ..Scene::small() };
    let (page, data) = self::page(&meeting);
    assert!(wide(&data["meetings"]["start"]).len() == 60_000 && page.contains("7 meetings of"));
}

#[test]
fn map_needs_legs_and_paths_events() {
    let (page, data) = page(&Scene { events: false, ..Scene::small() });
    assert!(page.contains("Paths of bundles are unknown") && wide(&data["steps"]["t"]).is_empty());
    let folder = tempfile::tempdir().unwrap();
    let run = Scene { legs: 0, ..Scene::small() }.write(folder.path());
    let page = html(&[&run]).unwrap();
    assert!(!page.contains("<script") && !page.contains("where were the nodes?"));
}

#[test]
fn node_names_cannot_escape_map_data() {
    let (page, data) = page(&Scene { name: "</script><script>alert(1)</script>&amp;", ..Scene::small() });
    assert_eq!(page.matches("<script").count(), 2, "the data, and what draws");
    assert_eq!(data["names"][0], "</script><script>alert(1)</script>&amp;-0");
}

#[test]
fn nonsense_rows_still_make_page() {
    let folder = tempfile::tempdir().unwrap();
    // Numbers that a damaged or hostile table may hold: NaN, infinities, and ends before starts.
    let mut manifest = Scene::small().write(&folder.path().join("before")).manifest().clone();
    manifest.duration_s = 10.0;
    let name = manifest.topology.nodes[0].name.clone();
    let mut writer = RunWriter::create(folder.path(), manifest).unwrap();
    for (start_s, end_s, x, velocity_x) in [
        (f64::NAN, 1.0, 0.0, 0.0),
        (5.0, 1.0, 1e300, 1e300),
        (0.0, f64::INFINITY, f64::NAN, -1.0),
        (-9.0, 1e30, 0.0, 0.0),
    ] {
        let row = LegRow { node: name.as_str().into(), start_s, end_s, x, y: 0.0, velocity_x, velocity_y: f64::NAN };
        writer.leg(&row).unwrap();
    }
    let stranger = LegRow {
        node: "nobody we know".into(),
        start_s: 0.0,
        end_s: 1.0,
        x: 0.0,
        y: 0.0,
        velocity_x: 0.0,
        velocity_y: 0.0,
    };
    writer.leg(&stranger).unwrap();
    writer
        .meeting(&MeetingRow { radio: "w".into(), node: "nobody".into(), peer: name.into(), start_ns: 9, end_ns: 1 })
        .unwrap();
    let page = html(&[&RunReader::open(&writer.finish().unwrap()).unwrap()]).unwrap();
    let data = data(&page);
    assert!(page.contains("where were the nodes?") && data["extent"].as_array().unwrap().iter().all(Value::is_number));
    assert_eq!(narrow(&data["meetings"]["a"]), [0u16; 0]);
}
