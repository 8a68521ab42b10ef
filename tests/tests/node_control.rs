//! Configuration messages, the control API, reloading and the events file of a real node.

use crate::node_support::{Pair, farlink, port, run, until};
use farlink_apps::http;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

#[test]
fn all_configuration_mistakes_have_hints() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.toml");
    let text = "node_ids = [\"ipn:1.0\"]\n[layer.tcp]\nkind = \"tcpcl4\"\n[link.moon]\nlayer = \"tpc\"\npeer = \"mars\"\n\
                adress = \"x:1\"\n[store]\nkind = \"durable\"\ncapacity = \"lots\"\n";
    std::fs::write(&file, text).unwrap();
    let checked = run(&["node", "--check", "--config", &file.display().to_string()]);
    assert_eq!(checked.status.code(), Some(2));
    let said = String::from_utf8(checked.stderr).unwrap();
    for part in [
        "node.toml:3: layer.tcp.kind",
        "did you mean `tcpclv4`?",
        "node.toml:5: link.moon.layer",
        "did you mean `tcp`?",
        "node.toml:6: link.moon.peer",
        "node.toml:7: link.moon.adress: unknown key",
        "store.dir: missing",
        "node.toml:10: store.capacity",
    ] {
        assert!(said.contains(part), "`{part}` is not in\n{said}");
    }
}

#[test]
fn log_of_connections_names_link() {
    let pair = Pair::new("tcpclv4", false);
    let b = pair.start(2, "");
    let unknown = "[link.moon]\nlayer = \"main\"\npeer = \"ipn:3.0\"\naddress = \"nobody.invalid:4556\"\n";
    let a = pair.start(1, unknown);
    until("the session", || a.log().contains(" on link peer to ipn:2.0") && a.log().contains("connected "));
    let lost = "WARN farlink_node::streams::opening: no address of nobody.invalid:4556: ";
    until("the failed lookup", || a.log().contains(lost));
    let links = || http::request("GET", &pair.control(1), "/links", "").expect("an answer").1;
    until("the last error", || links().contains("no address of nobody.invalid:4556: "));
    b.kill();
    let end = |line: &str| line.contains("disconnected from ") && line.ends_with(" on link peer to ipn:2.0");
    until("the end of the session", || a.log().lines().any(end));
    assert_eq!(a.log().matches(lost).count(), 1, "once until it resolves");
}

#[test]
fn reload_needs_no_folder_of_open_files() {
    let pair = Pair::new("tcpclv4", false);
    let folder = pair.dir.path().join("measured");
    std::fs::create_dir(&folder).unwrap();
    let _node = pair.start(1, "[events]\nfile = \"measured/e.jsonl\"\n");
    std::fs::remove_dir_all(&folder).unwrap();
    let (code, said) = http::request("POST", &pair.control(1), "/reload", "").unwrap();
    assert_eq!(code, 200, "{said}");
    let checked = run(&["node", "--check", "--config", &pair.dir.path().join("1.toml").display().to_string()]);
    assert_eq!(checked.status.code(), Some(2), "a start would need it");
}

#[test]
fn http_reads_and_changes_node() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    let at = pair.control(1);
    let get = |path: &str| -> Value { serde_json::from_str(&http::request("GET", &at, path, "").unwrap().1).unwrap() };
    let change = |method: &str, path: &str, body: &str| http::request(method, &at, path, body).unwrap();
    assert_eq!(get("/status")["node_ids"][0], "ipn:1.0");
    assert_eq!(change("POST", "/routes", "{\"pattern\":\"ipn:9.*\",\"next_hop\":\"ipn:2.0\"}").0, 200);
    assert!(get("/routes").as_array().unwrap().iter().any(|route| route["pattern"] == "ipn:9.*"));
    let (code, why) = change("DELETE", "/routes", "{\"pattern\":\"ipn:8.*\"}");
    assert!(code == 404 && why.contains("no route is called `ipn:8.*`") && why.contains("ipn:9.*"), "{why}");
    for pattern in ["foo", "ipn:5"] {
        let route = format!("{{\"pattern\":\"{pattern}\",\"next_hop\":\"ipn:2.0\"}}");
        for (method, body) in [("POST", route.clone()), ("PUT", format!("[{route}]"))] {
            let (code, why) = change(method, "/routes", &body);
            assert!(code == 400 && why.contains(&format!("`{pattern}` matches no endpoint")), "{why}");
            assert!(why.contains("write `ipn:5.*`, `dtn://node/` or `*`"), "{why}");
        }
    }
    let (code, why) = change("POST", "/routes", "{\"pattern\":\"ipn:9.*\",\"next_hop\":\"mars\"}");
    assert!(code == 400 && why.contains("hint"), "{why}");
    let plan = "a contact +0 +3600 1 2 100000\na range +0 +3600 1 2 5\n";
    assert_eq!(change("PUT", "/contacts", plan).0, 200);
    let (code, why) = change("POST", "/contacts", "a contact +4000 +5000 1 2 100000\n");
    assert!(code == 400 && why.contains("no range from 1 to 2") && why.contains("send `a range` with it"), "{why}");
    let ranged = "a contact +4000 +5000 1 2 100000\na range +4000 +5000 1 2 5\n";
    assert_eq!(change("POST", "/contacts", ranged).0, 200);
    assert_eq!(get("/contacts").as_array().unwrap().len(), 2);
    assert_eq!(change("DELETE", "/contacts", "a contact +4000 +5000 1 2 100000\n").0, 200);
    assert_eq!(get("/contacts")[0]["one_way_delay_s"], 5.0);
    assert_eq!(change("PUT", "/links/peer", "{\"enabled\":false}").0, 200);
    for (method, body) in [("PUT", "{\"enabled\":false}"), ("DELETE", "")] {
        let (code, why) = change(method, "/links/nope", body);
        assert!(code == 404 && why.contains("no link is called `nope`") && why.contains("there are peer"), "{why}");
    }
    let (code, why) = change("POST", "/links", "# nothing\n");
    assert!(code == 400 && why.contains("write `[link.NAME]`"), "{why}");
    assert_eq!(change("PUT", "/log", "{\"level\":\"debug\"}").0, 200);
    assert_eq!(get("/log")["level"], "debug");
    let mut sender = node.client("99", 0);
    let adu = farlink_aap2::proto::BundleAdu { dst_eid: "ipn:2.64".into(), ..Default::default() };
    sender.send(adu, b"waits").unwrap();
    sender.response().unwrap();
    until("the bundle is listed", || get("/bundles")[0]["destination"] == "ipn:2.64");
    assert!(!get("/bundles")[0]["waits_for"].as_str().unwrap().is_empty());
    let metrics = http::request("GET", &at, "/metrics", "").unwrap().1;
    assert!(metrics.contains("farlink_bundles_created_total 1"), "{metrics}");
    assert!(metrics.contains("farlink_link_up{link=\"peer\"}"), "{metrics}");
    let api: Value = get("/openapi.json");
    assert!(api["paths"]["/contacts"]["put"].is_object());
    // The OpenAPI description must match the answers key by key, in both directions.
    for path in ["/status", "/bundles", "/bundles/summary", "/links", "/contacts"] {
        let answer = get(path);
        let schema = &api["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        let name =
            schema["$ref"].as_str().or(schema["items"]["$ref"].as_str()).and_then(|name| name.rsplit('/').next());
        let described = &api["components"]["schemas"][name.unwrap_or_else(|| panic!("{path}"))]["properties"];
        let answered = if answer.is_array() { &answer[0] } else { &answer };
        let keys = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<BTreeSet<_>>());
        assert_eq!(keys(answered), keys(described), "{path}");
    }
    until("the level changed while running", || node.log().contains("bundle created"));
    assert_eq!(change("POST", "/shutdown", "").0, 200);
    until("the node stops", || node.log().contains("stopped"));
}

#[test]
fn control_socket_is_private_and_found() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    let mode = std::fs::metadata(pair.control(1)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let application = std::fs::metadata(&node.socket).unwrap().permissions().mode();
    assert_eq!(application & 0o777, 0o600);
    let ask = || {
        let output = Command::new(farlink()).args(["node", "status"]).current_dir(pair.dir.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, said, _) = ask();
    assert!(code == Some(0) && said.contains("ipn:1.0"), "{said}");
    let second = pair.start(2, "");
    let (code, _, said) = ask();
    assert!(code == Some(2) && said.contains("1.control.sock, 2.control.sock") && said.contains("--at"), "{said}");
    assert_eq!((node.terminate(), second.terminate()), (Some(0), Some(0)));
    let (code, _, said) = ask();
    assert!(code == Some(1) && said.contains("no node has its control socket in this folder"), "{said}");
}

#[test]
fn tcp_control_needs_a_token() {
    let pair = Pair::new("tcpclv4", false);
    let api = port();
    let _node = pair.start(1, &format!("[api]\nlisten = \"127.0.0.1:{api}\"\ntoken_file = \"token\""));
    let at = format!("127.0.0.1:{api}");
    assert_eq!(http::request("GET", &at, "/status", "").unwrap().0, 401);
    let file = pair.dir.path().join("token");
    let token = std::fs::read_to_string(&file).unwrap();
    assert_eq!(http::request_with("GET", &at, Some(token.trim()), "/status", "").unwrap().0, 200);
    let asked = run(&["node", "status", "--at", &at, "--token-file", &file.display().to_string()]);
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    // A form on a web page sends a foreign origin; a rebound name sends a foreign host.
    let route = "{\"pattern\":\"*\",\"next_hop\":\"ipn:66.0\"}";
    for (head, code) in [
        (format!("Host: {at}\r\nOrigin: http://evil.example\r\n"), "403"),
        ("Host: rebound.example\r\n".to_string(), "403"),
        (format!("Host: {at}\r\n"), "401"),
    ] {
        let mut page = TcpStream::connect(&at).unwrap();
        let length = route.len();
        write!(page, "POST /routes HTTP/1.1\r\n{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{route}")
            .unwrap();
        let mut answer = String::new();
        let _ = page.read_to_string(&mut answer);
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{head} got {answer}");
    }
    let routes = http::request("GET", &pair.control(1), "/routes", "").unwrap().1;
    assert!(!routes.contains("66"), "{routes}");
}

#[test]
fn half_open_connections_spare_the_operator() {
    let pair = Pair::new("tcpclv4", false);
    let api = port();
    let node = pair.start(1, &format!("[api]\nlisten = \"127.0.0.1:{api}\"\ntoken_file = \"token\""));
    let at = format!("127.0.0.1:{api}");
    let token = std::fs::read_to_string(pair.dir.path().join("token")).unwrap();
    let tcp: Vec<_> = (0..1100).map_while(|_| TcpStream::connect(&at).ok()).collect();
    let unix: Vec<_> = (0..1100).map_while(|_| UnixStream::connect(pair.control(1)).ok()).collect();
    assert!(tcp.len() > 900 && unix.len() > 900, "{} {}", tcp.len(), unix.len());
    for mut half in unix.iter().take(200) {
        let _ = half.write_all(b"GET /status HTTP/1.1\r\nHost:");
    }
    assert_eq!(http::request("GET", &pair.control(1), "/status", "").unwrap().0, 200);
    assert_eq!(http::request_with("GET", &at, Some(token.trim()), "/status", "").unwrap().0, 200);
    let held = std::fs::read_dir(format!("/proc/{}/fd", node.id())).unwrap().count();
    // Connections to the control interface are bounded; the rest are the node's own files and sockets.
    assert!(held < 250, "{held} descriptors");
    // A body longer than the bound is refused before it arrives.
    let mut long = UnixStream::connect(pair.control(1)).unwrap();
    let _ = write!(long, "PUT /contacts HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n");
    let mut answer = [0; 12];
    long.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[test]
fn long_lists_come_in_pages() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "");
    let at = pair.control(1);
    let mut sender = node.client("99", 0);
    for _ in 0..7 {
        let adu = farlink_aap2::proto::BundleAdu { dst_eid: "ipn:2.64".into(), ..Default::default() };
        sender.send(adu, b"waits").unwrap();
        sender.response().unwrap();
    }
    let list =
        |path: &str| -> Vec<Value> { serde_json::from_str(&http::request("GET", &at, path, "").unwrap().1).unwrap() };
    until("all are there", || list("/bundles").len() == 7);
    let first = list("/bundles?limit=4");
    let rest = list(&format!("/bundles?limit=4&after={}", first[3]["bundle"]));
    assert_eq!((first.len(), rest.len()), (4, 3));
    let numbers: Vec<u64> = first.iter().chain(&rest).map(|row| row["bundle"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let said = |limit: &str| {
        let output = run(&["node", "bundles", "--limit", limit, "--at", &at]);
        (String::from_utf8(output.stdout).unwrap().lines().count(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(said("7"), (8, String::new()));
    let (lines, more) = said("5");
    assert!(lines == 6 && more.contains(&format!("more bundles follow: --after {}", numbers[4])), "{more}");
    for n in 0..5 {
        let route = format!("{{\"pattern\":\"ipn:{}.*\",\"next_hop\":\"ipn:2.0\"}}", 100 + n);
        assert_eq!(http::request("POST", &at, "/routes", &route).unwrap().0, 200);
    }
    let all = list("/routes");
    assert_eq!([list("/routes?limit=2"), list("/routes?limit=9&offset=2")].concat(), all);
}

#[test]
fn check_warns_of_unadvised_settings() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.toml");
    let text = "node_ids = [\"ipn:1.0\"]\n[layer.ltp]\nkind = \"ltp\"\n[link.two]\nlayer = \"ltp\"\npeer = \"ipn:2.0\"\n\
                address = \"127.0.0.1:9\"\n[routes]\n\"ipn:2.*\" = \"ipn:2.0\"\n\"ipn:9.*\" = \"ipn:7.0\"\n\
                [store]\ncapacity = \"1 GB\"\nstrangers = \"2 GB\"\nper_source = \"3 GB\"\n[limits]\nmemory = \"900 TiB\"\n";
    std::fs::write(&file, text).unwrap();
    let checked = run(&["node", "--check", "--config", &file.display().to_string()]);
    let said = String::from_utf8(checked.stderr).unwrap();
    assert_eq!((checked.status.code(), said.matches("warning: ").count()), (Some(0), 5), "{said}");
    for part in [
        "node.toml:4: link.two: is LTP and names no `rate`",
        "node.toml:13: store.strangers: 2 GB is more than the capacity of 1 GB: it bounds nobody\nhint: give less",
        "node.toml:14: store.per_source: 3 GB is more than the capacity of 1 GB",
        "node.toml:16: limits.memory: 989.56 TB is more than the",
        "node.toml:10: routes.\"ipn:9.*\": leads to ipn:7.0, and no link does: its bundles wait\nhint: add a [link.NAME]",
    ] {
        assert!(said.contains(part), "`{part}` is not in\n{said}");
    }
}

#[test]
fn route_without_link_warns() {
    let pair = Pair::new("tcpclv4", false);
    let _node = pair.start(1, "");
    let at = pair.control(1);
    let said = |arguments: &[&str]| {
        let output = run(&[&["node", "routes"], arguments, &["--at", &at]].concat());
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(said(&["add", "ipn:9.*", "ipn:2.0"]), "done\n");
    let warning =
        "done\nwarning: no link leads to ipn:7.0: bundles for it wait\nhint: `farlink node links add` adds one\n";
    assert_eq!(said(&["add", "ipn:8.*", "ipn:7.0"]), warning);
    assert_eq!(said(&["replace", "ipn:8.*=ipn:7.0", "ipn:6.*=ipn:7.0", "ipn:2.*=ipn:2.0"]), warning, "once");
    assert_eq!(said(&["remove", "ipn:8.*"]), "done\n");
}

#[test]
fn occupied_socket_path_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    for table in ["app", "api"] {
        let (file, diary) = (dir.path().join("node.toml"), dir.path().join("diary"));
        std::fs::write(&diary, "dear diary").unwrap();
        std::fs::write(&file, format!("node_ids = [\"ipn:1.0\"]\n[{table}]\nsocket = \"diary\"\n")).unwrap();
        let started = run(&["node", "--config", &file.display().to_string()]);
        let said = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(!started.status.success() && said.contains("not a socket") && said.contains("hint:"), "{said}");
        assert_eq!(std::fs::read_to_string(&diary).unwrap(), "dear diary");
    }
}

#[test]
fn links_change_while_running() {
    for layer in ["tcpclv4", "ltp"] {
        let pair = Pair::new(layer, false);
        // Node 1 gets its links over HTTP; node 2 has node 1 in its file.
        let other = pair.start(2, "");
        let alone = pair.start(1, "[events]\nfile = \"1.jsonl\"");
        let at = pair.control(1);
        let change = |method: &str, path: &str, body: &str| http::request(method, &at, path, body).unwrap();
        let links = || -> Vec<Value> {
            let links: Value = serde_json::from_str(&http::request("GET", &at, "/links", "").unwrap().1).unwrap();
            links.as_array().unwrap().iter().filter(|l| l["name"] != "ipn:2.0").cloned().collect()
        };
        assert_eq!(change("DELETE", "/links/peer", "").0, 200);
        assert_eq!(change("DELETE", "/links/peer", "").0, 404);
        assert_eq!(links(), Vec::<Value>::new());
        let mut sender = alone.client("99", 0);
        let send = |sender: &mut farlink_apps::client::Client, payload: &[u8]| {
            let adu = farlink_aap2::proto::BundleAdu { dst_eid: "ipn:2.64".into(), ..Default::default() };
            sender.send(adu, payload).unwrap();
            sender.response().unwrap();
        };
        send(&mut sender, b"waits for a link");

        let (code, why) = change("POST", "/links", "[link.late]\nlayer = \"mein\"\npeer = \"ipn:2.0\"\n");
        assert!(code == 400 && why.contains("did you mean `main`?") && why.contains("line 2"), "{why}");
        // A single bad link among several, or an invalid name, leaves all links as they are.
        let table = |name: &str, peer: &str| format!("[link.{name}]\nlayer = \"main\"\npeer = \"{peer}\"\n");
        for (body, what) in [
            (table("good", "ipn:3.0") + &table("bad", "ipn:3.5"), "ipn:3.0"),
            (table("self", "ipn:1.0"), "this node itself"),
            (table("\"\"", "ipn:3.0"), "not a name"),
            (table("\"dynamic:7\"", "ipn:3.0"), "not a name"),
        ] {
            let (code, why) = change("POST", "/links", &body);
            assert!(code == 400 && why.contains(what), "{why}");
        }
        assert_eq!(links(), Vec::<Value>::new());
        let late =
            format!("[link.late]\nlayer = \"main\"\npeer = \"ipn:2.0\"\naddress = \"127.0.0.1:{}\"\n", pair.ports[1]);
        let file = pair.dir.path().join("late.toml");
        std::fs::write(&file, &late).unwrap();
        let added = run(&["node", "links", "add", &file.display().to_string(), "--at", &at]);
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        assert_eq!((links().len(), &links()[0]["name"]), (1, &"late".into()));
        let mut receiver = other.client("64", 1);
        assert_eq!(receiver.delivery().unwrap().payload, b"waits for a link", "{layer}");
        receiver.taken(true).unwrap();

        // The same table again changes nothing; a changed one restarts the link.
        assert_eq!(change("POST", "/links", &late).0, 200);
        assert!(!alone.log().contains("link late removed"));
        assert_eq!(change("POST", "/links", &format!("{late}one_way_delay = \"1 ms\"\n")).0, 200);
        until("the old one ended", || alone.log().contains("link late removed"));
        let (code, why) = change("POST", "/links", &table("late", "ipn:2.5"));
        assert!(code == 400 && links().len() == 1, "a change that is refused leaves the link: {why}");
        send(&mut sender, b"over the changed link");
        assert_eq!(receiver.delivery().unwrap().payload, b"over the changed link", "{layer}");
        receiver.taken(true).unwrap();

        // A reload removes links that are not in the file.
        let file = pair.dir.path().join("1.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("hop_limit = 9\n{text}")).unwrap();
        let reloaded = change("POST", "/reload", "");
        assert_eq!(reloaded.0, 200, "{}", reloaded.1);
        let answer: Value = serde_json::from_str(&reloaded.1).unwrap();
        assert_eq!(answer["needs_restart"], serde_json::json!(["hop_limit"]));
        assert!(alone.log().contains("changed but needs a restart: hop_limit"));
        assert_eq!((links().len(), &links()[0]["name"]), (1, &"peer".into()));
        send(&mut sender, b"over the link of the file");
        assert_eq!(receiver.delivery().unwrap().payload, b"over the link of the file", "{layer}");
        let events = || std::fs::read_to_string(pair.dir.path().join("1.jsonl")).unwrap();
        let named = |name: &str| events().contains(&format!("\"link\":\"{name}\""));
        until("events name the links", || named("late") && named("peer"));
    }
}

#[test]
fn events_name_bundles_sighup_reloads_routes() {
    let pair = Pair::new("tcpclv4", false);
    let node = pair.start(1, "[events]\nfile = \"events.jsonl\"");
    let mut sender = node.client("99", 0);
    let adu = farlink_aap2::proto::BundleAdu { dst_eid: "ipn:1.64".into(), ..Default::default() };
    sender.send(adu, b"hello").unwrap();
    sender.response().unwrap();
    let mut receiver = node.client("64", 1);
    receiver.delivery().unwrap();
    receiver.taken(true).unwrap();

    let file = pair.dir.path().join("1.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("[routes]\n", "[routes]\n\"ipn:77.*\" = \"ipn:2.0\"\n");
    std::fs::write(&file, text).unwrap();
    node.hang_up();
    let at = pair.control(1);
    until("the new route", || http::request("GET", &at, "/routes", "").unwrap().1.contains("ipn:77.*"));
    assert_eq!(node.terminate(), Some(0));

    let events = std::fs::read_to_string(pair.dir.path().join("events.jsonl")).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| events.iter().find(|event| event["event"] == name).cloned().unwrap_or_default();
    assert_eq!((&of("seen")["source"], &of("seen")["payload"]), (&"ipn:1.99".into(), &5.into()));
    for name in ["created", "delivered", "deleted"] {
        assert_eq!(of(name)["bundle"], of("seen")["bundle"], "{name}");
    }
    assert_eq!(of("deleted")["reason"], "done");
    let times: Vec<_> = events.iter().map(|event| event["time_ns"].as_u64().unwrap()).collect();
    assert!(times.is_sorted());
}

#[test]
fn half_sent_bodies_are_bounded() {
    let pair = Pair::new("tcpclv4", false);
    let _node = pair.start(1, "[limits]\nmemory = \"64 MiB\"");
    let place = pair.control(1);
    let begin = |bytes: usize| {
        let mut stream = UnixStream::connect(&place).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
        stream.set_write_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let head = "PUT /contacts HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n";
        // A refusal in the middle of a body may appear as a closed connection.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&vec![b'#'; bytes]));
        stream
    };
    let mut open: Vec<_> = (0..40).map(|_| begin(900_000)).collect();
    let mut refused = 0;
    for stream in &mut open {
        let mut answer = [0; 12];
        refused += usize::from(stream.read_exact(&mut answer).is_ok() && answer.ends_with(b"503"));
    }
    // A sixteenth of 64 MiB is 4 MiB: four bodies of 900 kB.
    assert!((30..40).contains(&refused), "{refused} of 40 are refused: four fit into a sixteenth of 64 MiB");
    let (code, said) =
        http::request("POST", &place, "/routes", "{\"pattern\": \"ipn:5.*\", \"next_hop\": \"ipn:2.0\"}").unwrap();
    assert_eq!(code, 200, "commands still work: {said}");
    drop(open);
    until("their room is given back", || {
        http::request("PUT", &place, "/contacts", &"#".repeat(1_000_000)).is_ok_and(|(code, _)| code == 200)
    });
}
