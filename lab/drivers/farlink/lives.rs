//! Handles the files of a killed node: its events, which the restarted node would overwrite, and its sockets, which
//! would make it look ready. Unwritten output of its applications and log is lost, and up to 200 ms of its events.

use super::{CONTROL, EVENTS, SOCKET};
use crate::driver::NodeContext;
use anyhow::{Context, Result};
use farlink_base::{Event, Instant};
use farlink_events::EventNames;
use std::fs;
use std::io::Write;

/// Name under which the event file of a node is kept after kill number `life`, counted from 0.
pub fn events_of(life: u32) -> String {
    format!("events.{life}.jsonl")
}

/// Keeps the events up to the kill at `killed_ns` (monotonic) under another name, without a truncated last line and
/// with a fault event added; removes the node's sockets.
pub fn put_aside(node: &NodeContext<'_>, life: u32, killed_ns: u64) -> Result<()> {
    let file = node.folder.join(EVENTS);
    let mut text = fs::read(&file).unwrap_or_default();
    // The kill may have cut the last line.
    text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    // `killed_ns` was taken before the kill took effect, so the node may have written later events.
    let down_ns = last_time(&text).map_or(killed_ns, |last| last.max(killed_ns));
    text.extend_from_slice(line(node, down_ns, "node down").as_bytes());
    let kept = node.folder.join(events_of(life));
    fs::write(&kept, text).with_context(|| format!("cannot write {}", kept.display()))?;
    for left in [SOCKET, CONTROL] {
        let _ = fs::remove_file(node.folder.join(left));
    }
    // The run may end before the restarted node writes its first event.
    fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))
}

/// Appends the event of the restart to the events kept at kill number `life`.
pub fn tell_up(node: &NodeContext<'_>, life: u32) -> Result<()> {
    let kept = node.folder.join(events_of(life));
    let opened = fs::OpenOptions::new().append(true).open(&kept);
    let line = line(node, farlink_os::monotonic_ns(), "node up");
    opened
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .with_context(|| format!("cannot write {}", kept.display()))
}

/// Time of the last line, in monotonic ns; `None` if it cannot be read.
fn last_time(lines: &[u8]) -> Option<u64> {
    let last = lines.trim_ascii_end().rsplit(|byte| *byte == b'\n').next()?;
    let names = EventNames::new(String::new(), Vec::new());
    Some(names.read(std::str::from_utf8(last).ok()?).ok()?.0.0)
}

/// Event line of a fault of the node at `at_ns` (monotonic).
fn line(node: &NodeContext<'_>, at_ns: u64, what: &'static str) -> String {
    let names = EventNames::new(node.scenario.nodes[node.index].name.clone(), Vec::new());
    // Only the monotonic time was recorded, so the wall-clock time is derived from it.
    let ago_ns = farlink_os::monotonic_ns().saturating_sub(at_ns);
    let utc_ns = farlink_os::realtime_ns().saturating_sub(ago_ns);
    names.json(Instant(at_ns), utc_ns, &Event::Fault { link: None, what }) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::drivers::farlink::Farlink;
    use farlink_base::DtnTime;
    use farlink_scenario::Scenario;
    use std::path::Path;

    const TEXT: &str = "name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n";

    /// Runs a closure with a node in a temporary folder.
    fn with_node(name: &str, something: impl FnOnce(&NodeContext<'_>)) {
        let folder = std::env::temp_dir().join(format!("farlink-lives-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let scenario = Scenario::parse(TEXT).unwrap();
        let (program, epoch) = (Path::new("/x"), DtnTime(1));
        something(&NodeContext { scenario: &scenario, index: 0, folder: &folder, epoch, program, real_time: true });
        fs::remove_dir_all(&folder).unwrap();
    }
    /// Times, names and reasons of the node's events, over all restarts.
    fn said(driver: &mut Farlink, node: &NodeContext<'_>) -> Vec<(u64, String)> {
        let mut said = Vec::new();
        let each = &mut |row: farlink_report::EventRow| {
            said.push((row.time_ns, format!("{} {}", row.event, row.reason.as_deref().unwrap_or("-"))));
            Ok(())
        };
        driver.events(node, each).unwrap();
        said
    }
    fn words(said: &[(u64, String)]) -> Vec<&str> {
        said.iter().map(|(_, words)| words.as_str()).collect()
    }

    #[test]
    fn events_of_earlier_lives_come_first() {
        with_node("read", |node| {
            let created = "{\"time_ns\":5,\"event\":\"created\",\"bundle\":1}\n";
            fs::write(node.folder.join(EVENTS), format!("{created}{{\"event\":\"creat")).unwrap();
            fs::write(node.folder.join(SOCKET), "").unwrap();
            let mut driver = Farlink::default();
            driver.fell(node, 7).unwrap();
            assert!(!driver.ready(node), "its socket is gone");
            assert_eq!(driver.again(node).unwrap().command, ["/x", "node", "--config", "node.toml"]);
            fs::write(node.folder.join(EVENTS), created).unwrap();
            assert_eq!(driver.tally(node).created, 2, "both lives count");
            let said = said(&mut driver, node);
            assert_eq!(words(&said), ["created -", "fault node down", "fault node up", "created -"]);
        });
    }

    #[test]
    fn unrestarted_node_stays_down() {
        with_node("down", |node| {
            let mut driver = Farlink::default();
            driver.fell(node, 7).unwrap();
            assert_eq!(words(&said(&mut driver, node)), ["fault node down"]);
        });
    }

    #[test]
    fn down_event_follows_last_event() {
        with_node("order", |node| {
            let told = "{\"time_ns\":9,\"event\":\"created\",\"bundle\":1}\n";
            fs::write(node.folder.join(EVENTS), told).unwrap();
            let mut driver = Farlink::default();
            driver.fell(node, 7).unwrap();
            let times: Vec<u64> = said(&mut driver, node).into_iter().map(|(at, _)| at).collect();
            assert_eq!(times, [9, 9]);
        });
    }
}
