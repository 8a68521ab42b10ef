//! Links that an operator turns off: both ends close them, and carry bundles again once they are on.

use crate::line::{Layer, Line, content};
use farlink_base::Duration;
use farlink_bpa::app::AdminInput;
use farlink_stack::Input;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn disabled_link_ends_session_until_enabled() {
    for node in [0, 1] {
        let mut line = Line::new(Layer::TcpclV4, 2, |_, _| {});
        line.register(1);
        line.run(seconds(2));
        let turn = |line: &mut Line, enabled| {
            let link = line.node(node).status(line.now).links[0].name.clone();
            line.tell(node, Input::Admin(AdminInput::SetLink { link, enabled }));
        };
        assert_eq!([0, 1].map(|end| line.streams(end)), [1; 2]);
        turn(&mut line, false);
        line.run(seconds(1));
        assert_eq!(line.streams(node), 0);
        line.send(content(1, 1000));
        line.run(seconds(60));
        assert!(line.delivered.is_empty() && line.streams(node) == 0, "a neighbour that comes is sent away");
        turn(&mut line, true);
        // The neighbour's attempts to connect have backed off by now.
        line.run(seconds(70));
        assert_eq!([0, 1].map(|end| line.streams(end)), [1; 2], "turned on at {node}");
        assert!(line.delivered == [content(1, 1000)]);
    }
}
