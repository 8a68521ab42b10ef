//! `farlink campaign` from the command line: killed and resumed, stopped, in child processes, and with mistakes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const SCENARIO: &str = "\
name = \"crowd\"\nduration = \"15 min\"\nstop_when_delivered = false\nfidelity = \"message\"\n\
[[mobility]]\nname = \"walking\"\nmodel = \"random_waypoint\"\narea = \"300 m\"\nspeed = [\"0.5 m/s\", \"1.5 m/s\"]\n\
[[radio]]\nname = \"wifi\"\nrange = \"60 m\"\nrate = \"1 Mbit/s\"\n\
[[group]]\nname = \"walker\"\ncount = 10\nfirst_id = 1\nmobility = \"walking\"\nradio = \"wifi\"\nrouter = \"epidemic\"\n\
control = \"drop-oldest\"\nstore_capacity = \"500 kB\"\n\
[[traffic]]\nname = \"m\"\nfrom = \"walker\"\nto = \"walker\"\n\
bundles = { count = 1000, size = [\"50 kB\", \"100 kB\"], interval = [\"1 s\", \"30 s\"] }\n";

const CAMPAIGN: &str = "\
name = \"crowd\"\nscenario = \"scenario.toml\"\nrepetitions = 3\n\
[[axis]]\nname = \"control\"\nkeys = \"group[*].control\"\nvalues = [\"drop-oldest\", \"rrcc\"]\n\
[[axis]]\nname = \"router\"\nkeys = \"group[*].router\"\nvalues = [\"epidemic\", \"spray-and-wait\"]\n\
[[figure]]\nname = \"ratio\"\nmetric = \"delivery_ratio\"\nx = \"router\"\nseries = \"control\"\n\
[[figure.claim]]\ntext = \"Control helps.\"\nrule = \"above\"\n\
[[figure]]\nname = \"overhead\"\nmetric = \"overhead\"\nx = \"router\"\nseries = \"control\"\nshape = \"bars\"\n";

/// A folder with the campaign, removed on drop.
struct CampaignFixture(PathBuf);
impl Drop for CampaignFixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn place(name: &str) -> CampaignFixture {
    // Tests run in threads of one process: the name keeps their folders apart.
    let folder = std::env::temp_dir().join(format!("farlink-cli-campaign-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("crowd")).unwrap();
    fs::write(folder.join("crowd/scenario.toml"), SCENARIO).unwrap();
    fs::write(folder.join("crowd/campaign.toml"), CAMPAIGN).unwrap();
    CampaignFixture(folder)
}

fn command(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farlink"));
    command.current_dir(folder).args(arguments.split(' ')).stdin(Stdio::null());
    command
}

fn farlink(folder: &Path, arguments: &str) -> (Option<i32>, String, String) {
    let output: Output = command(folder, arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Contents of all result files that depend on the campaign only, not on time or machine.
fn results(folder: &Path) -> Vec<Vec<u8>> {
    let files = ["results.txt", "cells.csv", "points.csv", "cells.parquet", "points.parquet", "figures/ratio.svg"];
    files.iter().map(|file| fs::read(folder.join(file)).unwrap_or_else(|why| panic!("{file}: {why}"))).collect()
}

fn ended(folder: &Path) -> usize {
    let entries = fs::read_dir(folder.join("cells")).into_iter().flatten().flatten();
    entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count()
}

/// Waits until this many cells are complete.
fn until_ended(folder: &Path, count: usize, child: &mut Child) {
    let begun = Instant::now();
    while ended(folder) < count {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be stopped");
        assert!(begun.elapsed() < Duration::from_secs(120), "{} cells ended", ended(folder));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn killed_and_resumed_campaign_matches_exactly() {
    let place = place("killed");
    let folder = &place.0;
    let (code, printed, said) = farlink(folder, "campaign run crowd --jobs 2 --out whole");
    assert_eq!(code, Some(0), "{said}");
    assert!(printed.starts_with("crowd: 4 points, seeds 1 to 3, 12 of 12 cells\n"), "{printed}");
    assert!(said.contains("whole/report.html"), "{said}");
    let expected = results(&folder.join("whole"));

    // SIGKILL: the process cannot clean up.
    let mut child = command(folder, "campaign run crowd --jobs 2 --out killed").spawn().unwrap();
    until_ended(&folder.join("killed"), 3, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let there = ended(&folder.join("killed"));
    // Some cells must be left, or nothing was resumed.
    assert!((3..12).contains(&there), "{there} cells");
    let (_, status, _) = farlink(folder, "campaign status killed");
    assert!(
        status.starts_with(&format!("crowd: {there} of 12 cells done")) && status.contains("running    no"),
        "{status}"
    );
    let (code, printed, said) = farlink(folder, "campaign resume killed --jobs 2 --json");
    assert_eq!(code, Some(0), "{said}");
    let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
    // Only the missing cells may run again: done ones have cost their time.
    assert_eq!((json["done"].as_u64(), json["ran"].as_u64()), (Some(12), Some(12 - there as u64)), "{json}");
    assert!(results(&folder.join("killed")) == expected);

    // A cell's result must not depend on the kind of process that computes it.
    let (code, _, said) = farlink(folder, "campaign run crowd --isolate --out children");
    assert_eq!(code, Some(0), "{said}");
    assert!(results(&folder.join("children")) == expected);
    let (code, _, said) = farlink(folder, "campaign resume children");
    assert_eq!((code, said.contains("warning")), (Some(0), false), "nothing is left to do: {said}");
    assert!(results(&folder.join("children")) == expected);
}

#[test]
fn repetitions_extend_a_moved_campaign() {
    let place = place("more");
    let folder = &place.0;
    let (code, _, said) = farlink(folder, "campaign run crowd --repetitions 2 --out few");
    assert_eq!(code, Some(0), "{said}");
    let (code, printed, said) = farlink(folder, "campaign resume few --repetitions 3 --json");
    assert_eq!(code, Some(0), "{said}");
    let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((json["done"].as_u64(), json["ran"].as_u64()), (Some(12), Some(4)), "one seed more: {json}");
    assert_eq!(farlink(folder, "campaign run crowd --out whole").0, Some(0));
    assert!(results(&folder.join("few")) == results(&folder.join("whole")));

    // The results record the campaign's folder; --campaign of `resume` updates it.
    fs::rename(folder.join("crowd"), folder.join("moved")).unwrap();
    for command in ["status", "report", "resume"] {
        let (code, _, said) = farlink(folder, &format!("campaign {command} few"));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("does not exist any more\nhint: --campaign names its folder"), "{said}");
    }
    assert_eq!(farlink(folder, "campaign report few --campaign moved").0, Some(0));
    assert_eq!(farlink(folder, "campaign resume few --campaign moved").0, Some(0));
    let (code, status, said) = farlink(folder, "campaign status few");
    assert_eq!(code, Some(0), "from now on it is known: {said}");
    assert!(status.starts_with("crowd: 12 of 12 cells done"), "{status}");
    assert!(results(&folder.join("few")) == results(&folder.join("whole")));
}

#[test]
fn other_campaign_keeps_results() {
    let place = place("other");
    let folder = &place.0;
    assert_eq!(farlink(folder, "campaign run crowd --repetitions 2 --out out").0, Some(0));
    let before = results(&folder.join("out"));
    fs::create_dir(folder.join("town")).unwrap();
    fs::write(folder.join("town/scenario.toml"), SCENARIO).unwrap();
    fs::write(folder.join("town/campaign.toml"), CAMPAIGN.replacen("\"crowd\"", "\"town\"", 1)).unwrap();
    for command in ["status", "report", "resume"] {
        let (code, _, said) = farlink(folder, &format!("campaign {command} out --campaign town"));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("town is campaign `town`, and out has results of `crowd`\nhint: "), "{said}");
    }
    assert!(results(&folder.join("out")) == before);
    // Runs beyond fewer repetitions are kept.
    let (code, _, said) = farlink(folder, "campaign resume out --repetitions 1");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("4 cells have seeds after the last repetition"), "{said}");
    assert!(said.contains("they are kept; `farlink campaign resume out --repetitions 2`"), "{said}");
    let (_, printed, said) = farlink(folder, "campaign resume out --repetitions 2 --json");
    let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((json["done"].as_u64(), json["ran"].as_u64(), said.contains("warning")), (Some(8), Some(0), false));
    assert!(results(&folder.join("out")) == before);
}

#[test]
fn figures_are_svg_and_pdf() {
    let place = place("figures");
    assert_eq!(farlink(&place.0, "campaign run crowd --repetitions 2 --out out").0, Some(0));
    let mut names: Vec<String> = fs::read_dir(place.0.join("out/figures"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["overhead.pdf", "overhead.svg", "ratio.pdf", "ratio.svg"]);
    let pdf = fs::read_to_string(place.0.join("out/figures/ratio.pdf")).unwrap();
    assert!(pdf.starts_with("%PDF-1.4\n") && pdf.contains("(epidemic) Tj") && pdf.contains("(drop-oldest) Tj"));
    let points = fs::read_to_string(place.0.join("out/points.csv")).unwrap();
    assert!(points.lines().next().unwrap().ends_with("difference_p,difference_p_adjusted,difference_g,paper"));
}

#[test]
fn interrupt_keeps_finished_cells_with_hint() {
    let place = place("stopped");
    let folder = &place.0;
    // Threads stop at a flag; child processes are killed.
    for how in ["", " --isolate"] {
        let out = folder.join("out");
        let mut child = command(folder, &format!("campaign run crowd --jobs 1 --out out{how}"))
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        until_ended(&out, 2, &mut child);
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("cells left\nhint: `farlink campaign resume out` continues"), "{said}");
        let names: Vec<_> = fs::read_dir(out.join("cells")).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(names.len() >= 2 && names.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{names:?}");
        let text = fs::read_to_string(out.join("results.txt")).unwrap();
        assert!(text.contains(&format!("{} of 12 cells", names.len())), "the report is of what there is: {text}");
        fs::remove_dir_all(out).unwrap();
    }
}

#[test]
fn mistakes_are_bad_input_with_hints() {
    let place = place("mistakes");
    let folder = &place.0;
    fs::create_dir(folder.join("other")).unwrap();
    fs::write(folder.join("other/dear.txt"), "dear").unwrap();
    for (arguments, says) in [
        ("campaign run nowhere", "nowhere cannot be run"),
        ("campaign run crowd --only ratios", "there is no figure `ratios`"),
        ("campaign run crowd --jobs 0", "must be at least 1"),
        ("campaign run crowd --repetitions 1001", "more than 1000 runs per point"),
        ("campaign run crowd --out other", "other is not empty"),
        ("campaign run crowd --out other/dear.txt", "dear.txt is no folder"),
        ("campaign run crowd/scenario.toml", "scenario.toml: is a scenario, and no campaign"),
        ("campaign status other", "other is no campaign that ran"),
        ("campaign resume nowhere", "nowhere is no campaign that ran"),
        ("campaign report other", "other is no campaign that ran"),
    ] {
        let (code, _, said) = farlink(folder, arguments);
        assert_eq!(code, Some(2), "{arguments}: {said}");
        assert!(said.contains(says) && said.contains("hint: "), "{arguments}: {said}");
    }
    fs::write(folder.join("crowd/campaign.toml"), CAMPAIGN.replace("\"rrcc\"", "\"rrc\"")).unwrap();
    let (code, _, said) = farlink(folder, "campaign run crowd --out out");
    assert_eq!(code, Some(2));
    assert!(
        said.contains("campaign.toml:7: axis[control]: `rrc`: group[walker].control") && said.contains("rrcc"),
        "{said}"
    );
    assert!(!folder.join("out").exists(), "nothing was begun");
}

#[test]
fn selected_figures_with_kept_runs() {
    let place = place("part");
    let folder = &place.0;
    let arguments = "campaign run crowd --only overhead --repetitions 2 --keep-runs --out out --json";
    let (code, printed, said) = farlink(folder, arguments);
    assert_eq!(code, Some(0), "{said}");
    let json: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((json["cells"].as_u64(), json["claims"].as_array().map(Vec::len)), (Some(8), Some(0)), "{json}");
    let points = json["points"].as_array().unwrap();
    assert_eq!(
        (points.len(), points[0]["runs"].as_u64(), points[0]["series"].as_str()),
        (4, Some(2), Some("drop-oldest"))
    );
    assert!(points.iter().all(|point| point["mean"].is_f64() && point["half_interval"].is_f64()), "{points:?}");
    let cell = fs::read_dir(folder.join("out/cells")).unwrap().flatten().next().unwrap().path();
    let cell = cell.display().to_string();
    assert_eq!(farlink(folder, &format!("report {cell}")).0, Some(0), "a cell is a run");
    let (code, printed, _) = farlink(folder, "campaign report out");
    assert_eq!((code, printed.trim()), (Some(0), "out/report.html"));
    let page = fs::read_to_string(folder.join("out/report.html")).unwrap();
    let again = "farlink campaign run CROWD --only overhead --repetitions 2</pre>";
    let crowd = folder.join("crowd").canonicalize().unwrap().display().to_string();
    assert!(page.contains(&again.replace("CROWD", &crowd)), "the command that makes it again");
    assert!(page.contains("4 points, 2 seeds each") && page.contains("<svg") && !page.contains("<script"));
}

#[test]
fn unmeasured_metric_is_told_first() {
    let place = place("unmeasured");
    let folder = place.0.join("crowd");
    let figure = "[[figure]]\nname = \"cpu\"\nmetric = \"cpu_percent\"\nx = \"router\"\n";
    fs::write(folder.join("campaign.toml"), format!("{CAMPAIGN}{figure}")).unwrap();
    let (_, _, told) = farlink(&folder, "campaign run campaign.toml --repetitions 1 --only cpu --out out");
    let first = told.lines().next().unwrap_or_default();
    assert!(first.contains("figure cpu: no simulated run has `cpu_percent`"), "{told}");
    let (_, _, told) = farlink(&folder, "campaign run campaign.toml --repetitions 1 --only overhead --out other");
    assert!(!told.contains("no simulated run"), "{told}");
}
