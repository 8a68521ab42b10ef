use super::*;
use farlink_base::DtnTime;
use farlink_scenario::Scenario;
use std::collections::BTreeMap;

const DTN7: &str = include_str!("../../../drivers/dtn7-rs/driver.toml");

const SCENARIO: &str = "name = \"s\"\nduration = \"9 s\"\n\
    [[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n\
    [[node]]\nname = \"b\"\nid = \"ipn:2.0\"\nimplementation = \"dtn7-rs\"\nparameters = { routing = \"sprayandwait\" }\n\
    [[node]]\nname = \"c\"\nid = \"ipn:3.0\"\n\
    [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"tcpclv4\"\n\
    [[link]]\nname = \"m\"\nbetween = [\"b\", \"c\"]\nlayer = \"mtcp\"\n\
    [[traffic]]\nfrom = \"a\"\nto = \"b\"\nbundles = { count = 7, size = \"1 kB\" }\n\
    [[traffic]]\nfrom = \"b\"\nto = \"c\"\nbundles = { count = 7, size = \"1 kB\" }\n";

fn folder(name: &str, files: &[(&str, &str)]) -> Result<DriverFolder> {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join(name);
    fs::create_dir(&here).unwrap();
    files.iter().for_each(|(name, text)| fs::write(here.join(name), text).unwrap());
    DriverFolder::read(&here)
}

fn driver(text: &str) -> Declared {
    let folder = folder("dtn7-rs", &[(DRIVER_FILE, text)]).unwrap();
    Declared { folder, programs: Some("/opt/dtn7/bin".into()), records: AppRecords::default() }
}

fn with_node<T>(scenario: &str, index: usize, what: impl FnOnce(&NodeContext<'_>) -> T) -> T {
    let scenario = Scenario::parse(scenario).unwrap();
    let (folder, program) = (Path::new("/run/b"), Path::new("/bin/farlink"));
    what(&NodeContext { scenario: &scenario, index, folder, epoch: DtnTime(1), program, real_time: true })
}

#[test]
fn command_has_layers_links_services() {
    let (program, files) = with_node(SCENARIO, 1, |node| driver(DTN7).plan(node).unwrap());
    assert!(files.is_empty());
    let line = program.command.join(" ");
    for part in [
        "dtnd --nodeid 2 --web-port 18100",
        "--workdir /run/b/store --routing sprayandwait",
        "--cla tcp:port=4556:bind=0.0.0.0",
        "--cla mtcp:port=",
        "--static-peer tcp://10.0.0.1:4556/1",
        "--static-peer mtcp://10.0.1.2:",
        "--endpoint 1000 --endpoint 10001",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(program.environment["PATH"].starts_with("/opt/dtn7/bin:"));
}

#[test]
fn names_stand_for_numbers() {
    let text = SCENARIO.replace("ipn:1.0", "dtn://one/").replace("ipn:2.0", "dtn://two/");
    let line = with_node(&text, 1, |node| driver(DTN7).plan(node).unwrap().0.command.join(" "));
    for part in
        ["--nodeid dtn://two/ ", "--static-peer tcp://10.0.0.1:4556/one ", "--static-peer mtcp://10.0.1.2:16162/3"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn applications_attach_by_declared_interface() {
    with_node(SCENARIO, 1, |node| {
        let driver = driver(DTN7);
        let ready = driver.readiness(node).unwrap().unwrap().command.join(" ");
        let wanted = "/bin/farlink app ready --within 30 s --touch node.ready --connect 127.0.0.1:18100";
        assert_eq!(ready, wanted);
        let receiver = driver.receiver(node, 0, None).unwrap().unwrap().command.join(" ");
        assert!(receiver.contains("receive --json --via dtn7-http --at http://127.0.0.1:18100"), "{receiver}");
        assert!(receiver.ends_with("--service ipn:2.1000 --count 7"), "{receiver}");
        let sender = driver.sender(node, 1, None, None).unwrap().command.join(" ");
        assert!(sender.contains("--source ipn:2.10001 --to ipn:3.1001 --flow "), "{sender}");
        assert!(sender.contains("--count 7 --size 1000 B"), "{sender}");
    });
}

#[test]
fn all_programs_of_node_share_environment() {
    let ready = "ready = { connect = \"{{ port.web }}\", within = \"30 s\" }";
    assert!(DTN7.contains(ready));
    let more = "ready = { run = [\"list\"], within = \"30 s\" }\nalso = [[\"echo\"]]\n\
        environment = { NODES = \"{{ node.folder }}\" }\n[stop]\nrun = [\"stop\"]";
    let app = "[app]\nvia = \"programs\"\nsend = { run = [\"send\"] }\nreceive = { run = [\"receive\"] }\n";
    let text = DTN7.replace(ready, more).replace("[app]\nvia = \"dtn7-http\"\n", app);
    let driver = driver(&text);
    with_node(SCENARIO, 1, |node| {
        let (program, files) = driver.plan(node).unwrap();
        for program in [driver.others(node).unwrap(), vec![program]].concat() {
            assert_eq!(program.environment["NODES"], "/run/b", "{:?}", program.command);
        }
        let commands: Value = serde_json::from_str(&files[0].1).unwrap();
        assert_eq!(commands["environment"]["NODES"], "/run/b");
    });
}

#[test]
fn node_killed_before_readiness_has_fallen() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = driver(DTN7);
    with_node(SCENARIO, 1, |node| {
        let node = NodeContext { folder: dir.path(), ..*node };
        fs::write(dir.path().join(READY), "").unwrap();
        driver.fell(&node, 1).unwrap();
        assert!(!driver.ready(&node));
        driver.fell(&node, 2).unwrap();
    });
}

#[test]
fn what_implementation_lacks_is_told() {
    let plan = |from: &str, to: &str| {
        let text = SCENARIO.replace(from, to);
        let driver = driver(&DTN7.replace("ids = \"any\"", "ids = \"ipn\""));
        with_node(&text, 1, |node| driver.plan(node).unwrap_err().to_string())
    };
    for (from, to, said) in [
        ("layer = \"mtcp\"", "layer = \"ltp\"", "a link over ltp, which dtn7-rs lacks"),
        ("\"ipn:2.0\"", "\"dtn://b/\"", "dtn7-rs has ipn IDs"),
        ("routing =", "rooting =", "no parameter `rooting`"),
        ("\"sprayandwait\"", "\"prophet\"", "one of epidemic"),
        ("implementation =", "custody = \"take\"\nstore = \"durable\"\nimplementation =", "node `b` has custody"),
        ("implementation =", "bundle_version = 6\nimplementation =", "bundle_version = 6, which dtn7-rs does not make"),
    ] {
        let why = plan(from, to);
        assert!(why.contains(said) && why.contains("hint: "), "{to}: {why}");
    }
}

#[test]
fn mistakes_have_line_and_hint() {
    for (from, to, line, said) in [
        ("driver = 1", "driver = 2", 2, "schema 2"),
        ("driver = 1", "", 1, "missing field `driver`"),
        ("name = \"dtn7-rs\"", "name = \"dtn7\"", 3, "in a folder called `dtn7-rs`"),
        ("bundles = [7]", "bundles = [5]", 4, "no version of the Bundle Protocol"),
        ("bundles = [7]", "bundles = [7, 6]", 4, "nothing uses `node.bundle_version`"),
        ("ids = \"any\"", "ids = \"imc\"", 5, "imc"),
        ("need = [\"dtnd\"]", "needs = [\"dtnd\"]", 8, "unknown field `needs`"),
        ("ports = [\"web\"]", "ports = [\"web\", \"more\"]", 13, "nothing uses port `more`"),
        ("{{ node.number }}", "{{ node.nubmer }}", 16, "unknown placeholder `node.nubmer`"),
        ("{{ node.number }}", "{{ node.number }", 16, ""),
        ("{{ node.number }}", "{{ node.number | upper }}", 16, "a placeholder with a filter"),
        ("{{ port.web }}\",\n", "{{ port.wbe }}\",\n", 17, "`port.wbe`"),
        ("{{ parameter.store }}", "sled", 61, "nothing uses parameter `store`"),
        ("bind=0.0.0.0\"]", "bind={{ link.port }}\"]", 23, "unknown placeholder `link.port`"),
        ("port={{ layer.port }}:", "", 14, "nothing uses `layer.port`"),
        ("match = '(\\d+\\.\\d+\\.\\d+)'", "match = '\\d+'", 9, "`version.match` has no group"),
        ("connect = \"{{ port.web }}\"", "log = \"x\", match = '('", 30, ""),
        ("{{ link.peer.address }}", "x", 14, "nothing uses `link.peer.address`"),
        ("connect = \"{{ port.web }}\", ", "", 30, "needs exactly one of `connect`"),
        ("within = \"30 s\"", "within = \"30 parsecs\"", 30, "parsecs"),
        ("via = \"dtn7-http\"", "via = \"dtn7-htp\"", 33, "`dtn7-htp` is no adapter"),
        ("at = \"http://127.0.0.1:{{ port.web }}\"\n", "", 33, "needs `at`"),
        ("[layer.mtcp]", "[layer.mtpc]", 46, "`mtpc` is no convergence layer"),
        ("takes = \"64 kB\"", "takes = \"64 x\"", 50, "x"),
        ("default = \"epidemic\"", "default = \"none\"", 56, "none of `one_of`"),
    ] {
        assert!(DTN7.contains(from), "{from}");
        let text = DTN7.replacen(from, to, 1);
        let why = folder("dtn7-rs", &[(DRIVER_FILE, &text)]).unwrap_err().to_string();
        let found = why.split("driver.toml line ").nth(1).unwrap_or_default();
        let at: usize = found.split(':').next().unwrap_or_default().parse().unwrap_or(0);
        assert!(at.abs_diff(line) <= 1, "{to}: {why}");
        assert!(found.contains(said) && found.contains("hint: "), "{to}: {why}");
    }
}

#[test]
fn files_are_rendered_or_copied() {
    let more = "\n[[file]]\npath = \"etc/node.rc\"\ntemplate = \"node.rc.j2\"\n\
        [[file]]\npath = \"tool\"\ncopy = \"tool\"\n[[file]]\npath = \"id\"\ntext = \"{{ node.id }}\\n\"\n";
    let files = [
        (DRIVER_FILE, &*[DTN7, more].concat()),
        ("node.rc.j2", "{% for link in links %}a plan {{ link.peer.number }} {{ link.rate_bit_s }}\n{% endfor %}"),
        ("tool", "{{ kept }}"),
    ];
    let folder_of = folder("dtn7-rs", &files).unwrap();
    let driver = Declared { folder: folder_of, programs: None, records: AppRecords::default() };
    let files: BTreeMap<_, _> = with_node(SCENARIO, 1, |node| driver.plan(node).unwrap().1).into_iter().collect();
    assert_eq!(files["etc/node.rc"], "a plan 1 0\na plan 3 0\n");
    assert_eq!((files["tool"].as_str(), files["id"].as_str()), ("{{ kept }}", "ipn:2.0\n"));
    for (from, to, said) in [
        ("template = \"node.rc.j2\"", "template = \"absent\"", "no file `absent`"),
        ("etc/node.rc", "../node.rc", "not a path in the node's folder"),
        ("etc/node.rc", "node.ready", "`node.ready` is written twice"),
        ("path = \"id\"", "path = \"tool\"", "`tool` is written twice"),
        ("copy = \"tool\"", "copy = \"tool\"\ntext = \"x\"", "needs exactly one of"),
    ] {
        let text = [DTN7, &more.replace(from, to)].concat();
        let why = folder("dtn7-rs", &[(DRIVER_FILE, &text), ("tool", ""), ("node.rc.j2", "")]).unwrap_err().to_string();
        assert!(why.contains(said), "{why}");
    }
    let bad = "x\n{% for link in links %}{{ nobody }}{% endfor %}";
    let text = [DTN7, more].concat();
    let why = folder("dtn7-rs", &[(DRIVER_FILE, &text), ("tool", ""), ("node.rc.j2", bad)]).unwrap_err().to_string();
    assert!(why.contains("node.rc.j2 line 2: unknown placeholder `nobody`"), "{why}");
}

#[test]
fn own_programs_become_app_file() {
    let app = "[app]\nvia = \"programs\"\nsend = { run = [\"bptrace\", \"{{ app.source }}\", \"@{{ app.file }}\"] }\n\
        receive = { run = [\"bprecv\", \"{{ app.endpoint }}\"], log = \"ion.log\", each = \"created '([^']+)'\" }\n\
        ping = { run = [\"bping\", \"-c\", \"{{ app.count }}\"], rtt = { match = 'time=([\\d.]+)', unit = \"s\" } }\n\
        echo = 1\n";
    let old = "[app]\nvia = \"dtn7-http\"\nat = \"http://127.0.0.1:{{ port.web }}\"\n";
    assert!(DTN7.contains(old));
    let driver = driver(&DTN7.replace(old, app));
    with_node(SCENARIO, 1, |node| {
        let files = driver.plan(node).unwrap().1;
        let commands: Value = serde_json::from_str(&files[0].1).unwrap();
        assert_eq!(files[0].0, APP_FILE);
        assert_eq!(commands["send"]["run"], json!(["bptrace", "{source}", "@{file}"]));
        assert_eq!(commands["receive"]["log"], "ion.log");
        assert_eq!(commands["ping"]["rtt"]["unit"], "s");
        assert!(commands["environment"]["PATH"].is_string());
        let attachment = driver.attachment(node).unwrap();
        assert_eq!((attachment.via.as_str(), attachment.at.as_str(), attachment.echo), ("programs", APP_FILE, Some(1)));
    });
}

#[test]
fn ion_plans_with_rate_and_delay_of_link() {
    let text = SCENARIO.replace("dtn7-rs", "ion").replace("parameters = { routing = \"sprayandwait\" }\n", "");
    let text = text.replace("layer = \"mtcp\"\n", "layer = \"stcp\"\nrate = \"8 Mbit/s\"\ndelay = \"2100 ms\"\n");
    let text = text.replace("layer = \"tcpclv4\"", "layer = \"ltp\"");
    let driver = Declared::without_programs(DriverFolder::find("ion", Path::new("/nowhere")).unwrap());
    let files: BTreeMap<_, _> = with_node(&text, 1, |node| driver.plan(node).unwrap().1).into_iter().collect();
    let lines: Vec<&str> = files["node.rc"].lines().collect();
    for line in [
        "a contact +0 +86400 2 1 125000000",
        "a range +0 +86400 2 1 1",
        "a contact +0 +86400 3 2 1000000",
        "a range +0 +86400 2 3 3",
    ] {
        assert!(lines.contains(&line), "{line}\n{}", files["node.rc"]);
    }
}

/// Files of a node of HDTN between two neighbours, by their names.
fn hdtn_files(scenario: &str) -> BTreeMap<String, Value> {
    let text = scenario.replace("dtn7-rs", "hdtn").replace("parameters = { routing = \"sprayandwait\" }\n", "");
    let driver = Declared::without_programs(DriverFolder::find("hdtn", Path::new("/nowhere")).unwrap());
    let files = with_node(&text, 1, |node| driver.plan(node).unwrap().1);
    let files = files.into_iter().filter(|(name, _)| name.ends_with(".json"));
    files
        .map(|(name, text)| (name, serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}\n{text}"))))
        .collect()
}

#[test]
fn hdtn_ducts_follow_links() {
    let far = "[[node]]\nname = \"d\"\nid = \"ipn:4.0\"\n[[link]]\nname = \"n\"\nbetween = [\"c\", \"d\"]\nlayer = \"stcp\"\n";
    for (layer, word) in
        [("ltp", "ltp_over_udp"), ("stcp", "stcp"), ("tcpclv3", "tcpcl_v3"), ("tcpclv4", "tcpcl_v4"), ("udpcl", "udp")]
    {
        let link = format!("layer = \"{layer}\"\nrate = \"8 Mbit/s\"\ndelay = \"2100.5 ms\"\n");
        let files = hdtn_files(&format!("{}{far}", SCENARIO.replace("layer = \"mtcp\"\n", &link)));
        let (hdtn, contacts) = (&files["hdtn.json"], &files["contacts.json"]["contacts"]);
        let (inducts, outducts) = (&hdtn["inductsConfig"]["inductVector"], &hdtn["outductsConfig"]["outductVector"]);
        // Applications, and each layer; the first neighbour opens its session, so it needs no outduct.
        let layers: Vec<&Value> = inducts.as_array().unwrap().iter().map(|duct| &duct["convergenceLayer"]).collect();
        assert!(layers.contains(&&json!("tcpcl_v4")) && layers.contains(&&json!(word)), "{layers:?}");
        assert_eq!(outducts.as_array().unwrap().len(), 1, "{layer}");
        let out = &outducts[0];
        assert_eq!((&out["convergenceLayer"], &out["nextHopNodeId"]), (&json!(word), &json!(3)));
        assert_eq!(out["remoteHostname"], "10.0.1.2");
        let most = hdtn["maxBundleSizeBytes"].as_u64().unwrap();
        assert!(out["maxSumOfBundleBytesInPipeline"].as_u64().unwrap() >= 2 * most);
        let rate = if matches!(layer, "ltp" | "udpcl") { 7_200_000 } else { 0 };
        let first = json!({ "contact": 0, "source": 2, "dest": 3, "startTime": 0, "endTime": 864_000,
            "rateBitsPerSec": rate, "owlt": 3 });
        assert_eq!((&contacts[0], &contacts[1]["source"], &contacts[1]["dest"]), (&first, &json!(3), &json!(4)));
        if layer == "ltp" {
            let duct = inducts.as_array().unwrap().iter().find(|duct| duct["convergenceLayer"] == word).unwrap();
            for duct in [duct, out] {
                assert_eq!((&duct["thisLtpEngineId"], &duct["remoteLtpEngineId"]), (&json!(2), &json!(3)));
                assert_eq!((&duct["oneWayLightTimeMs"], &duct["clientServiceId"]), (&json!(2101), &json!(1)));
            }
        }
    }
}

#[test]
fn built_in_drivers_are_without_mistakes() {
    for name in folder::names() {
        DriverFolder::find(name, Path::new("/nowhere")).unwrap();
    }
    let why = DriverFolder::find("none", Path::new("/nowhere")).unwrap_err().to_string();
    assert!(why.contains("no driver of `none`") && why.contains("dtn7-rs"), "{why}");
}
