//! Messages for mistakes of a node file: all at once, with their lines and hints.

use crate::node_support::run;
use std::path::Path;

const LINK: &str = "[layer.tcp]\nkind = \"tcpclv4\"\nlisten = \"127.0.0.1:4556\"\n[link.b]\nlayer = \"tcp\"\n\
                    peer = \"ipn:2.0\"\naddress = \"127.0.0.1:4557\"\n";

/// Exit status and messages for a file with this text, by `--check` or at start.
fn node(dir: &Path, text: &str, check: bool) -> (Option<i32>, String) {
    let file = dir.join("n.toml");
    std::fs::write(&file, format!("node_ids = \"ipn:1.0\"\n{text}")).unwrap();
    let file = file.display().to_string();
    let output = run(&[&["node", "--config", &file][..], if check { &["--check"] } else { &[] }].concat());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[track_caller]
fn contains(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "`{part}` is not in\n{said}");
    }
}

#[test]
fn all_mistakes_are_listed_by_line() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[plan]\nfile = \"no.plan\"\n[router]\ncopies = 3\n[control]\nfull = 3\n[link.b]\nlayer = \"tpc\"\n\
                peer = \"ipn:2.0\"\n[routes]\n\"ipn:9.*\" = \"ipn:7.0\"\n[store]\nkind = \"durable\"\n";
    let (code, said) = node(dir.path(), text, true);
    assert_eq!((code, said.matches("hint: ").count()), (Some(2), 6), "{said}");
    contains(
        &said,
        &[
            "5 mistakes in the configuration",
            "no.plan cannot be read: No such file or directory (os error 2)\nhint: relative paths start at the folder",
            "n.toml:5: router.copies: `sabr` has no such parameter\nhint: ",
            "n.toml:7: control.full: `none` has no such parameter\nhint: it takes no parameters",
            "n.toml:9: link.b.layer: there is no layer `tpc`\nhint: ",
            "n.toml:12: routes.\"ipn:9.*\": leads to ipn:7.0, and no link does",
            "n.toml:13: store.dir: missing: a durable store needs a folder\nhint: ",
        ],
    );
    let lines: Vec<u32> = said
        .lines()
        .filter(|line| !line.contains("warning"))
        .filter_map(|line| line.split_once("n.toml:")?.1.split(':').next()?.parse().ok())
        .collect();
    assert_eq!(lines, [3, 5, 7, 9, 13], "{said}");
}

#[test]
fn policy_mistakes_name_their_lines() {
    let dir = tempfile::tempdir().unwrap();
    let (_, said) =
        node(dir.path(), "[router]\nname = \"sbar\"\nx = 1\n[control]\nname = \"drop-oldest\"\nfull = 300\n", true);
    contains(
        &said,
        &[
            "n.toml:3: router.name: `sbar` is not a router\nhint: did you mean `sabr`?",
            "n.toml:7: control.full: 300 is not between",
        ],
    );
    assert!(!said.contains("router.x"), "nobody knows what an unknown router takes\n{said}");
}

#[test]
fn invalid_plan_is_reported_by_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("odd.plan"), b"# plan\n\xff\n").unwrap();
    std::fs::write(dir.path().join("bad.plan"), "kontact 1 2\n").unwrap();
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    // A byte that is no UTF-8, a folder, and a line that is no contact.
    for (plan, wanted) in [
        ("odd.plan", "odd.plan is not UTF-8 text: byte 7, in line 2\nhint: "),
        ("folder", "folder cannot be read: Is a directory (os error 21)\nhint: "),
        ("bad.plan", "bad.plan line 1: `kontact` begins no line of a contact plan\nhint: "),
    ] {
        let (code, said) = node(dir.path(), &format!("[plan]\nfile = \"{plan}\"\n"), true);
        assert_eq!(code, Some(2));
        contains(&said, &["n.toml:3: plan.file: ", wanted]);
    }
}

#[test]
fn unusable_paths_are_mistakes() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    let (code, said) = node(dir.path(), "[events]\nfile = \"folder\"\n[store]\ndir = \"n.toml\"\n", true);
    assert_eq!(code, Some(2));
    contains(&said, &["n.toml:3: events.file: ", "folder is a folder, and a file is wanted\nhint: "]);
    contains(&said, &["n.toml:5: store.dir: ", "n.toml is a file, and a folder is wanted\nhint: "]);
    // `/proc` takes no new files, whoever asks: also root, as which tests may run.
    for (text, wanted) in [
        ("[store]\ndir = \"/proc/nope\"\n", "store /proc/nope: "),
        ("[events]\nfile = \"/proc/nope\"\n", "events file /proc/nope: "),
    ] {
        let (code, said) = node(dir.path(), text, false);
        assert_eq!(code, Some(1), "{said}");
        contains(&said, &[wanted, "\nhint: give a path that this user may write to"]);
    }
}

#[test]
fn folder_of_memory_store_warns() {
    let dir = tempfile::tempdir().unwrap();
    let (code, said) = node(dir.path(), &format!("[store]\nkind = \"memory\"\ndir = \"s\"\n{LINK}"), true);
    assert_eq!(code, Some(0), "{said}");
    contains(&said, &["warning: ", "n.toml:4: store.dir: does nothing: the store is in memory\nhint: ", "no mistakes"]);
}

#[test]
fn check_names_unusable_places() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plain"), "").unwrap();
    for (text, part) in [
        ("[app]\nsocket = \"no/a.sock\"\n", "app.socket: "),
        ("[app]\nsocket = \"plain\"\n", "plain exists, and is not a socket\nhint: "),
        (
            "[events]\nfile = \"no/e.jsonl\"\n",
            "no/e.jsonl cannot be made or written: its folder does not exist\nhint: ",
        ),
        ("[store]\ndir = \"plain/x\"\n", "plain/x cannot be made or written: not a directory\nhint: "),
    ] {
        let (code, said) = node(dir.path(), text, true);
        assert!(code == Some(2) && said.contains(part), "{text}: {code:?} {said}");
    }
    let (code, said) = node(dir.path(), "[store]\ndir = \"new/x\"\n[app]\nsocket = \"a.sock\"\n", true);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = node(dir.path(), &LINK.replace(":4556", ":0"), true);
    assert!(code == Some(0) && said.contains("layer.tcp.listen: port 0: "), "{said}");
    for (ids, part) in [("[\"ipn:1\"]", "`ipn:1` is not"), ("[\"ipn:1.0\", \"ipn:1.0\"]", "is given twice")] {
        let file = dir.path().join("ids.toml");
        std::fs::write(&file, format!("node_ids = {ids}\n[layer.ltp]\nkind = \"ltp\"\n")).unwrap();
        let output = run(&["node", "--check", "--config", &file.display().to_string()]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(part) && said.matches("hint: ").count() == 1, "{said}");
    }
}

#[test]
fn start_warns_as_check_does() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("n.toml");
    std::fs::write(&file, "node_ids = \"ipn:1.0\"\n[routes]\n\"ipn:9.*\" = \"ipn:7.0\"\n[app]\nsocket = \"n.sock\"\n")
        .unwrap();
    let node = crate::node_support::Node::start(&file, dir.path().join("n.sock"));
    contains(
        &node.log(),
        &[" WARN ", "n.toml:3: routes.\"ipn:9.*\": leads to ipn:7.0, and no link does", "hint: add a [link"],
    );
}

#[test]
fn swapped_file_kinds_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).display().to_string();
    let (scenario, file) = (place("s.toml"), place("n.toml"));
    std::fs::write(&scenario, farlink_scenario::EXAMPLE).unwrap();
    std::fs::write(&file, format!("node_ids = \"ipn:1.0\"\n{LINK}")).unwrap();
    for (arguments, wanted) in [
        (
            vec!["node", "--config", &scenario, "--check"],
            format!("this is a scenario file, not a node file\nhint: `farlink run {scenario}"),
        ),
        (
            vec!["run", &file, "--in", "sim"],
            format!("this is a node file, not a scenario file\nhint: `farlink node --config {file}`"),
        ),
    ] {
        let output = run(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(&wanted), "{said}");
        assert_eq!(said.matches("hint: ").count(), 1, "said once\n{said}");
    }
}
