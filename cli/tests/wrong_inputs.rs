//! Wrong command lines, scenarios, configurations, plans and bundles: each message names the problem and its place and
//! gives a hint; nothing panics.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCENARIO: &str = "name = \"two\"\nduration = \"10 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\n\
    name = \"b\"\nid = \"ipn:2.0\"\n[[link]]\nname = \"ab\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n\
    rate = \"1 Mbit/s\"\n[[traffic]]\nfrom = \"a\"\nto = \"b\"\nbundles = { count = 1, size = \"1 kB\" }\n";

const NODE: &str = "node_ids = [\"ipn:1.0\"]\n[store]\nkind = \"memory\"\n[layer.tcp]\nkind = \"tcpclv4\"\n\
    listen = [\"127.0.0.1:4556\"]\n[link.b]\nlayer = \"tcp\"\npeer = \"ipn:2.0\"\naddress = \"127.0.0.1:4557\"\n\
    [routes]\n\"ipn:2.*\" = \"ipn:2.0\"\n";

const PLAN: &str = "contact 1 2 both +0..+3600 rate 1 Mbit/s delay 1 s\n";

/// Arguments, exit status, part of the message.
const COMMAND_LINES: &[(&str, i32, &str)] = &[
    ("", 2, "Usage: farlink <COMMAND>"),
    ("lab driver nobody", 2, "no driver of `nobody`"),
    ("lab driver toy nothing", 2, "no file nothing in built-in driver toy"),
    ("lab show toy good.toml", 2, "good.toml has no node of toy"),
    ("lab check nobody", 2, "no driver of `nobody`"),
    ("lab check", 2, "required arguments were not provided"),
    ("lab check --with toy", 2, "required arguments were not provided"),
    ("lab check toy --matrix matrix.md", 2, "matrix.md does not end with .json"),
    ("lab check toy --layer nothing", 2, "invalid value 'nothing' for '--layer <LAYER>'"),
    ("launch", 2, "unrecognized subcommand 'launch'"),
    ("run", 2, "--in <WORLD>"),
    ("run good.toml", 2, "--in <WORLD>"),
    ("run good.toml --in mars", 2, "invalid value 'mars' for '--in <WORLD>'"),
    ("run nowhere.toml --in sim", 2, "nowhere.toml cannot be run"),
    ("run folder --in sim", 2, "folder cannot be run"),
    ("run good.toml --in sim --seed x", 2, "invalid value 'x' for '--seed <N>'"),
    ("run good.toml --in lab --fidelity message", 2, "`--fidelity message` in the testbed"),
    ("run good.toml --in sim --out good.plan", 2, "good.plan is a file"),
    ("compare only", 2, "only 1 was provided"),
    ("compare folder folder", 2, "folder is not a run"),
    ("report folder", 2, "folder is not a run"),
    ("report nowhere", 2, "nowhere is not a run"),
    ("ping nonsense", 2, "`nonsense` is not an endpoint"),
    ("send good.plan --to nonsense", 2, "`nonsense` is not an endpoint"),
    ("send nowhere.bin --to ipn:2.64", 2, "nowhere.bin: "),
    ("send good.plan --to ipn:2.64 --at no.sock", 1, "no node at the application socket no.sock"),
    ("send good.plan --to ipn:2.64 --bundle-size 0", 2, "--bundle-size: must be at least 1 B"),
    ("send good.plan --to ipn:2.64 --window 0", 2, "'0' for '--window <WINDOW>': must be at least 1"),
    ("send good.plan --to ipn:2.64 --lifetime 0s", 2, "bundles with a lifetime below 1 ms expire at once"),
    ("send good.plan --to ipn:2.64 --rate -1Mbit/s", 2, "`-1Mbit/s` is not a data rate"),
    ("send good.plan --to ipn:2.64 --rate 0bit/s", 2, "a sender of 0 bit/s sends nothing"),
    ("perf ipn:2.2000 --rate 0bit/s", 2, "a sender of 0 bit/s sends nothing"),
    ("flow 127.0.0.1:5201 --rate 0bit/s", 2, "a sender of 0 bit/s sends nothing"),
    ("send good.plan --to ipn:2.64 --sizes text.bin", 2, "--sizes takes a text file"),
    ("send folder --to ipn:2.64", 2, "folder: is a folder"),
    ("send good.plan --to ipn:2.64", 1, "no node has its application socket in this folder"),
    ("ping ipn:2 --count 0", 2, "'0' for '--count <COUNT>': must be at least 1"),
    ("ping ipn:2 --at localhost:99999", 2, "the port 99999 is out of range"),
    ("recv --files 1", 2, "--files needs --out"),
    ("bench loopback --cla ltp --bundle-size 0B", 2, "must be at least 1 B"),
    ("flow foo", 2, "`foo` is not an IP address with a port"),
    ("app ping --to ipn:2.7 --via programs --at good.plan", 2, "not a file of programs (JSON)"),
    ("recv --timeout 0s", 2, "'0s' for '--timeout <TIMEOUT>': must be at least 1 ms"),
    ("send good.plan --to dtn:none", 2, "`dtn:none` is nobody"),
    ("ping dtn:none", 2, "`dtn:none` is nobody"),
    ("perf ipn:0.0", 2, "`ipn:0.0` is nobody"),
    ("perf ipn:2.2000 --file folder", 2, "folder: Is a directory"),
    ("perf ipn:2.2000 --file /dev/null", 2, "/dev/null: is empty"),
    ("perf ipn:2.2000 --seconds 0", 2, "in no time nothing is sent"),
    ("perf ipn:2.2000 --bundle-size 1B", 2, "--bundle-size: at least 32 B"),
    ("node store check nowhere", 2, "nowhere: No such file"),
    ("node store check good.plan", 2, "good.plan: Not a directory"),
    ("node store check folder", 2, "folder: is empty: there is no store"),
    ("node status --at https://x:1", 2, "is not the address of a control API"),
    ("node status", 1, "no node has its control socket in this folder"),
    ("recv --out good.plan", 2, "good.plan is not a folder"),
    ("recv --out /proc/x", 2, "/proc/x cannot be created: "),
    ("perf ipn:2.2000 --seconds -1", 2, "`-1` is not a number of seconds"),
    ("run good.toml --in sim --out /proc/x", 2, "/proc/x cannot be created: "),
    ("run good.toml --in sim --seed -1", 2, "`-1` is not a whole number"),
    ("init two-nodes --dir good.plan", 2, "good.plan is not a folder"),
    ("init scenario --dir /proc", 2, "/proc/scenario.toml cannot be written: "),
    ("emulate --link geo --mtu 10", 2, "`10` is not a number of bytes from 576"),
    ("emulate --link delay=1s,windows=5s..2s", 2, "a start before its end, not `5 s .. 2 s`"),
    ("recv --service 64 --at no.sock", 1, "no node at the application socket no.sock"),
    ("node", 2, "a configuration file or a subcommand is needed"),
    ("node --config nowhere.toml", 2, "nowhere.toml"),
    ("node --config folder", 2, "folder"),
    ("node status --at http://127.0.0.1:1", 1, "no control API answers at http://127.0.0.1:1"),
    ("plan route --plan good.plan --from 1 --to 9 --size 1kB", 2, "--to: node 9 is not in the plan"),
    ("plan route --plan good.plan --from ipn:77.0 --to 2 --size 1kB", 2, "--from: node ipn:77.0 is not in the plan"),
    ("plan route --plan good.plan --from 2 --to 1 --size 1kB --expires +1", 1, "no route from 2 to 1"),
    ("plan route --plan good.plan --from x --to 2 --size 1kB", 2, "--from: `x` is not a node"),
    ("plan route --plan good.plan --from 1 --to 2 --size huge", 2, "--size: `huge` is not a data volume"),
    ("plan route --plan good.plan --from 1 --to 2 --size 1kB --at noon", 2, "--at: `noon` is not a time"),
    ("plan route --plan good.plan --from 1 --to 2 --size 1kB --priority high", 2, "`high` is not a priority"),
    ("plan check --plan nowhere.plan", 2, "cannot read nowhere.plan"),
    ("plan from-orbits nowhere.toml --for 1d", 2, "nowhere.toml: cannot be read: "),
    ("plan from-orbits good.plan --for 1d", 2, "line 1: not TOML"),
    ("plan from-orbits good.toml --for 1d --from 2026-11-20T09:00:00Z", 2, "unknown key"),
    ("plan from-orbits good.toml --for 0s", 2, "the plan would have no length"),
    ("plan from-orbits good.toml --for 200000d", 2, "is longer than a century"),
    ("plan from-orbits good.toml --for 1d --from noon", 2, "`noon` is not a time in UTC"),
    ("plan from-orbits good.toml", 2, "--for <DURATION>"),
    ("plan convert --plan good.plan --to dtn", 2, "invalid value 'dtn' for '--to <TO>'"),
    ("emulate --link=", 2, "--link: is empty"),
    ("emulate --link rate=fast", 2, "rate: `fast` is not a data rate"),
    ("emulate --link speed=5", 2, "unknown key `speed`"),
    ("bundle decode nowhere.bin", 2, "nowhere.bin: "),
    ("init two-nodes --a nowhere", 2, "invalid value 'nowhere' for '--a <A>'"),
    ("init two-nodes --a 10.0.0.1", 2, "one of two addresses is missing"),
    ("init two-nodes --a 10.0.0.1 --b host", 2, "`host` is not an IP address"),
    ("node --config good.plan", 2, "good.plan: this is a contact plan, not a node file"),
    ("node --config ion.rc", 2, "ion.rc: these are commands of ION"),
    ("node --config hdtn.json", 2, "hdtn.json: this is a configuration file of HDTN"),
    ("send good.plan --to ipn:2.64 --at good.toml", 2, "good.toml is a file, not a socket"),
    ("init planet", 2, "unrecognized subcommand 'planet'"),
    ("completions tcsh", 2, "invalid value 'tcsh' for '<SHELL>'"),
    ("perf", 2, "required arguments were not provided"),
    ("bench --help-me", 2, "unexpected argument '--help-me'"),
    ("doctor now", 2, "unexpected argument 'now'"),
];

/// Text in [`SCENARIO`], its replacement, part of the message.
const SCENARIOS: &[(&str, &str, &str)] = &[
    ("\"10 s\"", "\"0 s\"", "duration (line 2)"),
    ("\"10 s\"", "\"10\"", "duration (line 2)"),
    ("rate =", "rte =", "link[ab].rte (line 13)"),
    ("\"1 Mbit/s\"", "\"fast\"", "link[ab].rate (line 13)"),
    ("\"b\"]", "\"c\"]", "no node is called `c`"),
    ("\"ltp\"", "\"ftp\"", "link[ab].layer (line 12)"),
    ("\"ipn:1.0\"", "\"ipn:x\"", "node[a].id (line 5)"),
    ("\"ipn:2.0\"", "\"ipn:1.0\"", "node[b].id (line 8)"),
    ("count = 1", "count = -1", "count (line 17)"),
    ("\"two\"", "", "line 1"),
    ("[[traffic]]", "[[trafic]]", "trafic (line 14)"),
];

/// Text in [`NODE`], its replacement, part of the message.
const NODES: &[(&str, &str, &str)] = &[
    ("\"ipn:1.0\"", "\"ipn:x.0\"", "wrong.toml:1: node_ids: "),
    ("\"memory\"", "\"tape\"", "wrong.toml:3: store.kind: "),
    ("listen =", "listn =", "wrong.toml:6: layer.tcp.listn: "),
    ("\"127.0.0.1:4556\"", "\"4556\"", "wrong.toml:6: layer.tcp.listen: "),
    ("layer = \"tcp\"", "layer = \"tpc\"", "wrong.toml:8: link.b.layer: "),
    ("peer = \"ipn:2.0\"", "peer = \"ipn:1.0\"", "wrong.toml:9: link.b.peer: "),
    ("\"ipn:2.*\" =", "\"ipn:x.*\" =", "ipn:x.*"),
    ("[store]", "[store", "wrong.toml:2: not TOML"),
    ("\"127.0.0.1:4557\"", "\"127.0.0.1\"", "wrong.toml:10: link.b.address: "),
];

/// A plan, and part of the message.
const PLANS: &[(&str, &str)] = &[
    ("contact 1 2 +0..+5", "line 1: this contact has no rate"),
    ("contact 1 2 +5..+0 rate 1 bit/s", "line 1: error: contact 1 ends at +0 s"),
    ("kontact 1 2", "line 1: `kontact` begins no line of a contact plan"),
    ("contact 1 1 +0..+5 rate 1 bit/s", "line 1: error: contact 1 joins ipn:1 to itself"),
    ("a contact +0 +1 1 2", "line 1: `a contact` wants"),
    ("a contact noon +1 1 2 5", "line 1: `noon` is not a time"),
    ("contact 1 2 +0..+5 rate 1 furlong/s", "line 1: `1 furlong/s` is not a data rate"),
    ("epoch tomorrow", "line 1: `tomorrow` is not a wall time"),
    ("contact 1 2 +0..+5 rate 1 bit/s\ncontact 1 2 +3..+9 rate 1 bit/s", "line 2: error: contact 2 overlaps contact 1"),
];

/// A bundle in hexadecimal, and part of the message.
const BUNDLES: &[(&str, &str)] = &[
    ("", "no bytes at all at byte 0"),
    ("00", "begins with the byte 9f at byte 0"),
    ("9f", "the bytes end too early at byte 1"),
    ("9f88", "the bytes end too early at byte 2"),
    ("9f8907000182028201", "the bytes end too early at byte 9"),
    ("06", "the bundle ends too early at byte 1"),
    ("0690108fffffffffffffff7f", "the primary block is longer than 64 KiB at byte 12"),
    ("06811013090900000000000082fcff8b40019c10026162", "a dictionary that does not end with a zero byte at byte 23"),
    ("this is no hex", "not hexadecimal text at byte 0"),
];

/// Runs a command that must fail; the error is its output if it does not fail as expected.
fn refused(folder: &Path, arguments: &str, code: i32, says: &str) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farlink"));
    command.current_dir(folder).args(arguments.split_whitespace()).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    let talk = String::from_utf8_lossy(&output.stderr);
    // Findings in a plan are data, on standard output.
    let said = format!("{}{talk}", String::from_utf8_lossy(&output.stdout));
    // clap words its own hints.
    let hint = ["hint: ", "--help", "tip: "].iter().any(|hint| said.contains(hint));
    // A panic is a bug, whatever the input.
    let calm = !said.contains("panicked") && !said.contains("backtrace");
    let fine = output.status.code() == Some(code) && !talk.is_empty() && said.contains(says) && hint && calm;
    if fine {
        Ok(())
    } else {
        Err(format!("`farlink {arguments}` ({:?}), wanted {code}, {says}\n{said}", output.status))
    }
}

#[test]
fn wrong_input_gets_place_and_hint() {
    let folder: PathBuf = std::env::temp_dir().join(format!("farlink-cli-wrong-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("folder")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("good.toml", SCENARIO);
    write("good.plan", PLAN);
    std::fs::write(folder.join("text.bin"), [0xff, 0xfe]).unwrap();
    write("ion.rc", "## begin ionadmin\n1 1 node.ionconfig\ns\nm horizon +0\n");
    write("hdtn.json", "{ \"hdtnConfigName\": \"node 10\", \"inductsConfig\": {} }");
    let mut found = Vec::new();
    for (arguments, code, says) in COMMAND_LINES {
        found.push(refused(&folder, arguments, *code, says));
    }
    let replaced = |base: &str, from: &str, to: &str| {
        assert!(base.contains(from), "{from}");
        base.replacen(from, to, 1)
    };
    for (from, to, says) in SCENARIOS {
        write("wrong.toml", &replaced(SCENARIO, from, to));
        found.push(refused(&folder, "run wrong.toml --in sim --out never", 2, says));
    }
    for (from, to, says) in NODES {
        write("wrong.toml", &replaced(NODE, from, to));
        found.push(refused(&folder, "node --config wrong.toml --check", 2, says));
    }
    for (plan, says) in PLANS {
        write("wrong.plan", plan);
        found.push(refused(&folder, "plan check --plan wrong.plan", 2, says));
    }
    for (bundle, says) in BUNDLES {
        write("wrong.hex", bundle);
        found.push(refused(&folder, "bundle decode --hex wrong.hex", 2, says));
    }
    let wrong: Vec<String> = found.iter().filter_map(|found| found.clone().err()).collect();
    assert!(found.len() >= 60 && wrong.is_empty(), "{} of {}\n{}", wrong.len(), found.len(), wrong.join("\n"));
    assert!(!folder.join("never").exists());
    std::fs::remove_dir_all(&folder).unwrap();
}
