//! Error messages of scenarios: every mistake at once, each with its place, the expectation and a hint.

use farlink_scenario::Scenario;

const GOOD: &str = r#"
name = "two"
duration = "10 s"
[[node]]
name = "a"
id = "ipn:1.0"
[[node]]
name = "b"
id = "ipn:2.0"
[[link]]
name = "ab"
between = ["a", "b"]
layer = "ltp"
rate = "1 Mbit/s"
[[traffic]]
from = "a"
to = "b"
bundles = { count = 1, size = "1 kB" }
"#;

fn errors(text: &str) -> Vec<String> {
    match Scenario::parse(text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(|e| e.to_string()).collect(),
    }
}

#[track_caller]
fn one_error(from: &str, to: &str, parts: &[&str]) {
    // A text that no longer occurs would test the scenario without its mistake.
    assert!(GOOD.contains(from), "{from}");
    let found = errors(&GOOD.replacen(from, to, 1));
    assert_eq!(found.len(), 1, "{found:#?}");
    for part in parts {
        assert!(found[0].contains(part), "{:?} lacks {part:?}", found[0]);
    }
}

#[test]
fn base_scenario_is_valid() {
    assert_eq!(errors(GOOD), Vec::<String>::new());
}

#[test]
fn unknown_keys_suggest_the_nearest() {
    one_error("rate =", "rte =", &["link[ab].rte (line 14)", "unknown key", "hint: did you mean `rate`?"]);
    one_error("duration", "durration = \"1 s\"\nduration", &["durration (line 3)", "did you mean `duration`?"]);
    one_error("rate =", "xylophone = 1\nrate =", &["known keys: `name`, `between`"]);
}

#[test]
fn broken_link_is_no_missing_link() {
    let contact = "[[contact]]\nlink = \"ab\"\nstart = \"1 s\"\nend = \"2 s\"\n[[traffic]]";
    let found = errors(&GOOD.replace("[[traffic]]", contact).replace("\"ltp\"", "\"tcp\""));
    assert!(found.len() == 1 && found[0].contains("`tcp` is none of"), "{found:#?}");
    one_error("[[traffic]]", &contact.replace("\"ab\"", "\"x\""), &["no link is called `x`", "known names: ab"]);
    one_error("id = \"ipn:2.0\"", "id = \"ipn:2.0\"\nradio = \"w\"", &["hint: there is no `[[radio]]` yet"]);
}

#[test]
fn campaign_is_recognized() {
    let found = errors("name = \"c\"\nscenario = \"s.toml\"\n[[axis]]\nname = \"x\"\n");
    assert!(found.len() == 1 && found[0].starts_with("line 3: this is a campaign, not a scenario file"), "{found:#?}");
}

#[test]
fn key_of_another_table_names_it() {
    let tcp = "tcp = { congestion = \"cubic\" }\nrate =";
    one_error(
        "rate =",
        tcp,
        &["link[ab].tcp", "hint: `tcp` is a key of [[node]] and [[group]]; or did you mean `stcp`?"],
    );
    one_error("rate =", "epoch = 1\nrate =", &["link[ab].epoch", "hint: `epoch` is a key of the top of the file"]);
    one_error("bundles =", "confidence = 1\nbundles =", &["hint: `confidence` is a key of [[contact]]"]);
}

#[test]
fn all_mistakes_come_at_once() {
    let text = GOOD
        .replace("10 s", "10")
        .replace("1 Mbit/s", "fast")
        .replace("1 kB", "1 parsec")
        .replace("ipn:2.0", "ipn:0.0");
    let found = errors(&text);
    // One mistake of each stage of parsing: a quantity, a rate, a volume and a node ID.
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found.iter().all(|e| e.contains("hint: ")), "{found:#?}");
}

#[test]
fn quantities_need_units() {
    one_error("\"10 s\"", "10", &["duration (line 3)", "bare number 10", "hint: write e.g. `duration = \"600 ms\"`"]);
    one_error("\"1 Mbit/s\"", "\"1 Mbit\"", &["link[ab].rate", "not a data rate"]);
    one_error("rate = \"1 Mbit/s\"", "loss = 3", &["3 is not between 0 and 1"]);
    one_error("rate = \"1 Mbit/s\"", "loss = \"3\"", &["0.1 %"]);
    one_error("rate = \"1 Mbit/s\"", "rate = [[\"5 s\", \"1 Mbit/s\"], [\"1 s\", \"2 Mbit/s\"]]", &["order of time"]);
}

#[test]
fn names_must_refer_to_something() {
    one_error("to = \"b\"", "to = \"c\"", &["traffic[1].to", "no node is called `c`"]);
    one_error("[\"a\", \"b\"]", "[\"a\", \"a\"]", &["two different nodes"]);
    one_error("[\"a\", \"b\"]", "[\"a\"]", &["expected two nodes, found 1"]);
    let renamed = errors(&GOOD.replace("name = \"b\"", "name = \"bee\""));
    // The link and the traffic both name the node.
    assert_eq!(renamed.len(), 2, "both uses: {renamed:#?}");
}

#[test]
fn a_route_must_match_something() {
    let route = |pattern: &str| format!("id = \"ipn:2.0\"\nroutes = {{ \"{pattern}\" = \"a\" }}");
    assert_eq!(errors(&GOOD.replace("id = \"ipn:2.0\"", &route("ipn:5.*"))), Vec::<String>::new());
    let said = ["node[b].routes", "`ipn:5` matches no endpoint: write `ipn:5.*`, `dtn://node/` or `*`"];
    one_error("id = \"ipn:2.0\"", &route("ipn:5"), &said);
}

#[test]
fn names_and_ids_are_unique() {
    one_error("id = \"ipn:2.0\"", "id = \"ipn:1.0\"", &["node[b].id", "belongs to node `a`"]);
}

#[test]
fn missing_keys_are_explained() {
    one_error("name = \"two\"\n", "", &["name: missing", "hint: add `name = \"words\"`"]);
    one_error("layer = \"ltp\"\n", "", &["link[ab].layer (line 10): missing", "Convergence layer"]);
    one_error("bundles = { count = 1, size = \"1 kB\" }\n", "", &["traffic[1]: says not what to send"]);
}

#[test]
fn bad_choice_suggests_the_nearest() {
    one_error(
        "\"ltp\"",
        "\"lpt\"",
        &["`lpt` is none of `ltp`, `tcpclv4`, `tcpclv3`, `stcp`, `mtcp`, `udpcl`", "hint: did you mean `ltp`?"],
    );
}

#[test]
fn invalid_toml_names_its_line() {
    let found = errors("name = two\nduration = \"1 s\"");
    assert!(found[0].contains("line 1") && found[0].contains("not TOML"), "{found:#?}");
}

#[test]
fn traffic_begins_within_the_run() {
    for none in ["0 s", "0 min"] {
        one_error("\"10 s\"", &format!("\"{none}\""), &["duration (line 3)", "takes no time", "hint: "]);
    }
    // `a` is no unit, and the others are no lengths of time that a clock could count.
    for absurd in ["-1 s", "300 a", "1e300 s", "NaN s", "inf s"] {
        one_error("\"10 s\"", &format!("\"{absurd}\""), &["duration (line 3)"]);
    }
    for late in ["10 s", "1 h"] {
        let start = format!("to = \"b\"\nstart = \"{late}\"");
        one_error("to = \"b\"", &start, &["traffic[1].start (line 18)", "when the run is over", "`duration`"]);
    }
    // A start just before the end is valid: the run still has time for it.
    assert!(errors(&GOOD.replace("to = \"b\"", "to = \"b\"\nstart = \"9999 ms\"")).is_empty());
}

#[test]
fn oracle_controls_need_simulations() {
    let choose = |control: &str| {
        let text = GOOD.replacen("id = \"ipn:2.0\"", &format!("id = \"ipn:2.0\"\ncontrol = \"{control}\""), 1);
        Scenario::parse(&text).expect("a simulation has one").needs_oracle()
    };
    let error = choose("afner").expect("nodes have none").to_string();
    for part in ["node[b].control: `afner`", "only a simulator has", "hint: use one of none, drop-oldest"] {
        assert!(error.contains(part), "{error:?} lacks {part:?}");
    }
    assert_eq!(choose("drop-oldest"), None);
}

#[test]
fn contacts_fit_links_without_overlap() {
    let with = |contacts: &str| errors(&format!("{GOOD}{contacts}"));
    let contact = |s: &str, e: &str| format!("[[contact]]\nlink = \"ab\"\nstart = \"{s}\"\nend = \"{e}\"\n");
    assert!(with(&contact("1 s", "2 s")).is_empty());
    assert!(with(&contact("2 s", "1 s"))[0].contains("ends before it starts"));
    assert!(with(&(contact("1 s", "3 s") + &contact("2 s", "4 s")))[0].contains("2 s to 4 s overlaps 1 s to 3 s"));
    assert!(with(&contact("1 s", "2 s").replace("ab", "ba"))[0].contains("no link is called `ba`"));
}

#[test]
fn datagram_fits_mtu_table_fits_layer() {
    // 1472 B: the default MTU of 1500 B less 20 B of IPv4 and 8 B of UDP.
    one_error("rate =", "ltp = { datagram = \"1480 B\" }\nrate =", &["1472 B (the MTU less IP and UDP headers)"]);
    one_error("rate =", "tcpclv4 = { segment = \"1 kB\" }\nrate =", &["link[ab].tcpclv4", "layer is another"]);
}

#[test]
fn missing_file_names_its_path() {
    one_error(
        "bundles = { count = 1, size = \"1 kB\" }",
        "file = { path = \"no.bin\" }",
        &["no.bin", "relative to the scenario"],
    );
    let load = Scenario::load(std::path::Path::new("/nowhere/x.toml")).unwrap_err();
    assert!(load[0].to_string().contains("/nowhere/x.toml") && load[0].to_string().contains("farlink init scenario"));
}

#[test]
fn unknown_policies_and_parameters_are_errors() {
    one_error("id = \"ipn:1.0\"", "id = \"ipn:1.0\"\nrouter = \"sbar\"", &["node[a].router", "did you mean `sabr`?"]);
    one_error("id = \"ipn:1.0\"", "id = \"ipn:1.0\"\ncontrol = \"nome\"", &["node[a].control", "did you mean `none`?"]);
    // A misspelt parameter would silently leave the policy at its default.
    let wrong = "id = \"ipn:1.0\"\nrouter_params = { profil = 1 }";
    one_error("id = \"ipn:1.0\"", wrong, &["node[a].router_params", "`profil`: unknown parameter", "profile"]);
}

#[test]
fn node_parameter_in_link_is_redirected() {
    // Keepalive is a setting of the whole layer: a link has none of its own.
    let table = "\ntcpclv4 = { keepalive = \"5 s\" }\n";
    let found = errors(&GOOD.replace("layer = \"ltp\"\n", &format!("layer = \"tcpclv4\"{table}")));
    assert_eq!(found.len(), 1, "{found:#?}");
    for part in
        ["link[ab].tcpclv4.keepalive (line 14)", "for all links of a node", "hint: write `tcpclv4 = { keepalive"]
    {
        assert!(found[0].contains(part), "{found:#?}");
    }
    assert!(errors(&GOOD.replace("id = \"ipn:1.0\"\n", &format!("id = \"ipn:1.0\"{table}"))).is_empty());
}

#[test]
fn node_file_is_recognized() {
    let text = "# A node.\nnode_ids = [\"ipn:1.0\"]\n[layer.tcp]\nkind = \"tcpclv4\"\n[link.b]\nlayer = \"tcp\"\n";
    let found = errors(text);
    assert_eq!(found.len(), 1, "said once: {found:#?}");
    assert!(found[0].starts_with("line 2: this is a node file, not a scenario file\nhint: `farlink node"), "{found:?}");
}

#[test]
fn binary_file_names_its_path() {
    let folder = std::env::temp_dir().join(format!("farlink-scenario-utf8-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    // Byte 0xff occurs in no UTF-8 text.
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    let said = |name: &str| Scenario::load(&folder.join(name)).unwrap_err()[0].to_string();
    write("s.toml", b"name = \"a\"\nduration = \"\xff\"\n");
    assert!(said("s.toml").contains("s.toml: is not UTF-8 text: byte 23, in line 2"), "{}", said("s.toml"));
    write("p.plan", b"\xff");
    write("p.toml", format!("plan = \"p.plan\"\n{GOOD}").as_bytes());
    let plan = said("p.toml");
    assert!(
        plan.starts_with("plan (line 1): `") && plan.contains("p.plan` is not UTF-8 text: byte 0, in line 1"),
        "{plan}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}
