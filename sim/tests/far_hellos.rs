//! Hellos between distant neighbours, whose lifetime covers the one-way delay.

use farlink_scenario::Scenario;
use farlink_sim::{Silent, World};

fn delivered(router: &str, delay: &str) -> u64 {
    // A satellite meets a rover; then Earth, minutes away, meets the satellite, which meets the rover again.
    let node = |name: &str, number: u32| {
        format!(
            "[[node]]\nname = \"{name}\"\nid = \"ipn:{number}.0\"\nrouter = \"{router}\"\ncontrol = \"drop-oldest\"\nlifetime = \"10 h\"\n"
        )
    };
    let link = |name: &str, one: &str, other: &str, delay: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nbetween = [\"{one}\", \"{other}\"]\nlayer = \"ltp\"\nrate = \"1 Mbit/s\"\ndelay = \"{delay}\"\n"
        )
    };
    let contact = |link: &str, start: u32, end: u32| {
        format!("[[contact]]\nlink = \"{link}\"\nstart = \"{start} s\"\nend = \"{end} s\"\n")
    };
    let parts = [
        "name = \"far\"\nduration = \"3 h\"\nfidelity = \"message\"\n".to_string(),
        node("earth", 1),
        node("satellite", 2),
        node("rover", 3),
        link("space", "earth", "satellite", delay),
        link("down", "satellite", "rover", "1 s"),
        contact("down", 100, 200),
        contact("space", 300, 5000),
        contact("down", 9000, 9500),
        "[[traffic]]\nfrom = \"earth\"\nto = \"rover\"\nbundles = { count = 5, size = \"1 kB\" }\n".to_string(),
    ];
    let scenario = Scenario::parse(&parts.concat()).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let (outcome, _) = World::new(&scenario, Silent).unwrap_or_else(|error| panic!("{error}")).run();
    outcome.traffic[0].delivered
}

#[test]
fn distant_neighbour_hellos_arrive() {
    for router in ["epidemic", "prophet"] {
        for delay in ["1 s", "59 s", "61 s", "240 s", "1200 s"] {
            assert_eq!(delivered(router, delay), 5, "{router}, {delay}");
        }
    }
}
