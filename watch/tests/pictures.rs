//! Pictures of runs on a screen of 80 by 24 with a simulated clock, compared letter by letter. `FARLINK_BLESS=1`
//! updates the file.

use farlink_scenario::Scenario;
use farlink_sim::{Options, run_watched};
use farlink_watch::{KeyCommand, RunWatch, Screen};
use ratatui::backend::TestBackend;
use ratatui::{Frame, Terminal};
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Three nodes that walk and meet by radio.
const WALK: &str = r#"
name = "walk"
seed = 1
duration = "10 min"
fidelity = "message"
stop_when_delivered = false
[[mobility]]
name = "walking"
model = "random_waypoint"
area = "200 m"
speed = ["1 m/s", "2 m/s"]
pause = ["0 s", "10 s"]
[[radio]]
name = "wifi"
range = "80 m"
rate = "1 Mbit/s"
[[group]]
name = "walker"
count = 3
first_id = 1
mobility = "walking"
radio = "wifi"
router = "epidemic"
store_capacity = "100 kB"
[[traffic]]
name = "news"
from = "walker"
to = "walker"
bundles = { count = 1000, size = "10 kB", interval = "20 s" }
"#;

/// Two nodes and an intermittent link.
const LINK: &str = r#"
name = "link"
seed = 1
duration = "20 s"
stop_when_delivered = false
[[node]]
name = "probe"
id = "ipn:1.0"
[[node]]
name = "ground"
id = "ipn:2.0"
[[link]]
name = "space"
between = ["probe", "ground"]
layer = "ltp"
rate = "1 Mbit/s"
delay = "100 ms"
[[contact]]
link = "space"
start = "2 s"
end = "6 s"
[[contact]]
link = "space"
start = "12 s"
end = "16 s"
[[traffic]]
name = "news"
from = "probe"
to = "ground"
bundles = { count = 20, size = "20 kB", interval = "500 ms" }
"#;

thread_local! {
    static PICTURES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static KEYS: RefCell<Vec<(usize, KeyCommand)>> = const { RefCell::new(Vec::new()) };
}

/// Screen whose clock advances with each wait.
struct Fake {
    terminal: Terminal<TestBackend>,
    now: Duration,
}
impl Fake {
    fn open() -> std::io::Result<Fake> {
        let terminal = Terminal::new(TestBackend::new(80, 24)).expect("it is in memory");
        Ok(Fake { terminal, now: Duration::ZERO })
    }
}
impl Screen for Fake {
    fn now(&mut self) -> Duration {
        self.now
    }
    fn draw(&mut self, picture: &mut dyn FnMut(&mut Frame<'_>)) -> std::io::Result<()> {
        self.terminal.draw(picture).expect("it is in memory");
        let text = self.terminal.backend().to_string().replace('"', "");
        PICTURES.with_borrow_mut(|all| all.push(text));
        Ok(())
    }
    fn key(&mut self, wait: Duration) -> std::io::Result<Option<KeyCommand>> {
        let drawn = PICTURES.with_borrow(Vec::len);
        let due = KEYS.with_borrow_mut(|keys| match keys.first() {
            Some((after, _)) if *after <= drawn => Some(keys.remove(0).1),
            _ => None,
        });
        if due.is_none() {
            self.now += wait;
        }
        Ok(due)
    }
}

/// Runs a scenario, pressing keys after the given numbers of pictures. Returns the pictures, and whether the run
/// reached its end.
fn pictures(text: &str, keys: &[(usize, KeyCommand)]) -> (Vec<String>, bool) {
    let scenario = Scenario::parse_in(text, Path::new(".")).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    PICTURES.with_borrow_mut(Vec::clear);
    KEYS.set(keys.to_vec());
    let folder = tempfile::tempdir().expect("a folder");
    let stop = Arc::new(AtomicBool::new(false));
    let options = Options { folder: folder.path().join("run"), command: String::new(), stop: stop.clone() };
    std::fs::create_dir(&options.folder).expect("a folder");
    let mut watch = RunWatch::new(&scenario, stop.clone(), false, Fake::open);
    run_watched(&scenario, &options, &mut watch).expect("it runs");
    assert!(watch.finish().is_none(), "the screen stays");
    (PICTURES.take(), !stop.load(std::sync::atomic::Ordering::Relaxed))
}

#[test]
fn map_held_and_timeline_match_pictures() {
    // Pictures are drawn every 50 ms of the simulated clock.
    let (walk, whole) = pictures(WALK, &[(200, KeyCommand::Next), (600, KeyCommand::Pause), (601, KeyCommand::Quit)]);
    assert!(!whole, "somebody ended it");
    let (link, whole) = pictures(LINK, &[(10, KeyCommand::Next)]);
    assert!(whole, "it went to its end by itself");
    let found = [&walk[150], &walk[500], walk.last().expect("pictures"), &link[600]].map(String::as_str).join("\n");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pictures.txt");
    if std::env::var_os("FARLINK_BLESS").is_some() {
        std::fs::write(&file, &found).expect("it is written");
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == expected, "tests/pictures.txt is old: FARLINK_BLESS=1 writes it\n{found}");
}
