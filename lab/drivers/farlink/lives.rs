//! What a node that was killed leaves: its events, which it would write over when it starts again, and its sockets, by
//! which it would seem to be ready.

use super::{CONTROL, EVENTS, SOCKET};
use crate::driver::NodeContext;
use anyhow::{Context, Result};
use farlink_base::{Event, Instant};
use std::fs;

/// The events of a life that was cut short.
pub fn events_of(life: u32) -> String {
    format!("events.{life}.jsonl")
}

/// Keeps the events of the life that ended at that monotonic nanosecond, less a line that was cut off, and with what
/// happened to the node; takes its sockets away.
pub fn put_aside(node: &NodeContext<'_>, life: u32, killed_ns: u64) -> Result<()> {
    let file = node.folder.join(EVENTS);
    let mut text = fs::read(&file).unwrap_or_default();
    text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    let names = farlink_events::Names::new(node.scenario.nodes[node.index].name.clone(), Vec::new());
    let now_ns = farlink_os::monotonic_ns();
    for (at_ns, what) in [(killed_ns, "node down"), (now_ns, "node up")] {
        let utc_ns = farlink_os::realtime_ns().saturating_sub(now_ns.saturating_sub(at_ns));
        let line = names.json(Instant(at_ns), utc_ns, &Event::Fault { link: None, what });
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    let kept = node.folder.join(events_of(life));
    fs::write(&kept, text).with_context(|| format!("cannot write {}", kept.display()))?;
    for left in [SOCKET, CONTROL] {
        let _ = fs::remove_file(node.folder.join(left));
    }
    // The run may end before the next life has said anything.
    fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;
    use crate::drivers::farlink::Farlink;
    use farlink_base::DtnTime;
    use farlink_scenario::Scenario;
    use std::path::Path;

    #[test]
    fn what_a_killed_node_told_is_read_before_what_it_tells_later() {
        let folder = std::env::temp_dir().join(format!("farlink-lives-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let text = "name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n";
        let scenario = Scenario::parse(text).unwrap();
        let (program, epoch) = (Path::new("/x"), DtnTime(1));
        let node = NodeContext { scenario: &scenario, index: 0, folder: &folder, epoch, program, real_time: true };
        let created = "{\"time_ns\":5,\"event\":\"created\",\"bundle\":1}\n";
        fs::write(folder.join(EVENTS), format!("{created}{{\"event\":\"creat")).unwrap();
        fs::write(folder.join(SOCKET), "").unwrap();
        let mut driver = Farlink::default();
        let program = driver.again(&node, 7).unwrap();
        assert_eq!(program.command, ["/x", "node", "--config", "node.toml"]);
        assert!(!driver.ready(&node), "its socket is gone");
        fs::write(folder.join(EVENTS), created).unwrap();
        assert_eq!(driver.tally(&node).created, 2, "both lives count");
        let mut said = Vec::new();
        let each = &mut |row: farlink_report::EventRow| {
            said.push(format!("{} {}", row.event, row.reason.as_deref().unwrap_or("-")));
            Ok(())
        };
        driver.events(&node, each).unwrap();
        assert_eq!(said, ["created -", "fault node down", "fault node up", "created -"]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
