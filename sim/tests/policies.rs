//! Routers and congestion controls beside each other in networks in which what they are for can be seen.

use farlink_scenario::{Fidelity, Scenario};
use farlink_sim::{Outcome, Silent, World};

fn parse(text: &str) -> Scenario {
    Scenario::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"))
}
fn run(scenario: &Scenario) -> Outcome {
    World::new(scenario, Silent).unwrap_or_else(|error| panic!("{error:#?}")).run().0
}

/// Twelve people on a field whose stores hold five bundles or so.
fn crowd(policies: &str, seed: u64) -> Scenario {
    let mut scenario = parse(&format!(
        r#"
        name = "crowd"
        duration = "1 h"
        stop_when_delivered = false
        fidelity = "message"
        [[mobility]]
        name = "walking"
        model = "random_waypoint"
        area = "500 m"
        speed = ["0.5 m/s", "1.5 m/s"]
        pause = ["0 s", "30 s"]
        [[radio]]
        name = "wifi"
        range = "40 m"
        rate = "200 kbit/s"
        [[group]]
        name = "walker"
        count = 12
        first_id = 1
        mobility = "walking"
        radio = "wifi"
        store_capacity = "400 kB"
        lifetime = "30 min"
        {policies}
        [[traffic]]
        name = "message"
        from = "walker"
        to = "walker"
        refused = "lost"
        bundles = {{ count = 1000, size = ["50 kB", "100 kB"], interval = ["1 s", "40 s"] }}
        "#
    ));
    scenario.set_seed(seed);
    scenario
}
/// Bundles delivered, of four seeds together.
fn delivered(policies: &str) -> u64 {
    let seeds = 1..=4;
    seeds.map(|seed| run(&crowd(policies, seed)).traffic.iter().map(|traffic| traffic.delivered).sum::<u64>()).sum()
}

#[test]
fn who_weighs_copies_delivers_more_than_who_floods() {
    let by = |router: &str, control: &str| delivered(&format!("router = \"{router}\"\ncontrol = \"{control}\""));
    let flood = by("epidemic", "drop-oldest");
    let (rapid, gbsd, hbsd) = (by("rapid", "drop-oldest"), by("epidemic", "gbsd"), by("epidemic", "hbsd"));
    let all = format!("flooding {flood}, RAPID {rapid}, GBSD {gbsd}, HBSD {hbsd}");
    assert!(rapid > flood && gbsd > rapid, "{all}");
    // Within a run of an hour history begins with nothing.
    assert!(hbsd < gbsd && hbsd > flood - flood / 20, "{all}");
}

/// A relay's application fills its store before it meets a source that has only this meeting.
fn relay(control: &str, fidelity: Fidelity) -> [u64; 2] {
    let mut scenario = parse(&format!(
        r#"
        name = "relay"
        duration = "10 min"
        fidelity = "full"
        [[node]]
        name = "source"
        id = "ipn:1.0"
        [[node]]
        name = "relay"
        id = "ipn:2.0"
        store_capacity = "960 kB"
        {control}
        [[node]]
        name = "sink"
        id = "ipn:3.0"
        [[link]]
        name = "in"
        between = ["source", "relay"]
        layer = "ltp"
        [link.forward]
        rate = "800 kbit/s"
        [link.reverse]
        rate = "80 kbit/s"
        [[link]]
        name = "out"
        between = ["relay", "sink"]
        layer = "ltp"
        [link.forward]
        rate = "800 kbit/s"
        [link.reverse]
        rate = "80 kbit/s"
        [[contact]]
        link = "in"
        start = "10 s"
        end = "20 s"
        [[contact]]
        link = "out"
        start = "60 s"
        end = "120 s"
        [[traffic]]
        name = "through"
        from = "source"
        to = "sink"
        bundles = {{ count = 4, size = "100 kB" }}
        [[traffic]]
        name = "own"
        from = "relay"
        to = "sink"
        bundles = {{ count = 9, size = "100 kB" }}
        "#
    ));
    scenario.fidelity = fidelity;
    let outcome = run(&scenario);
    [0, 1].map(|traffic| outcome.traffic[traffic].delivered)
}

#[test]
fn a_forecast_keeps_room_for_what_the_plan_lets_come() {
    for fidelity in [Fidelity::Full, Fidelity::Message] {
        // It made nine while it was alone.
        assert_eq!(relay("control = \"none\"", fidelity), [0, 9], "{fidelity:?}");
        let ion = |horizon: &str| {
            relay(&format!("control = \"ion\"\ncontrol_params = {{ horizon = \"{horizon}\" }}"), fidelity)
        };
        assert_eq!(ion("0 s"), [0, 9], "{fidelity:?}: only the room there is counts");
        assert_eq!(ion("1 h"), [4, 9], "{fidelity:?}: its own wait until what comes is there");
    }
}
