//! Running, stopping and resuming: finished cells stay, and results do not depend on the history.

use crate::support;

use crate::support::{CAMPAIGN, Pretend, folder, plan, run, written};
use farlink_campaign::{Campaign, CampaignFolder, CampaignPlan, CellRecord, CellWorld, Results};
use std::fs;

#[test]
fn shared_points_run_once() {
    let source = folder(CAMPAIGN);
    let plan = plan(source.path()).unwrap();
    assert_eq!((plan.configurations.len(), plan.cells().len()), (6, 18), "three delays by two sizes, three seeds");
    let out = CampaignFolder::create(&source.path().join("out"), &plan, &[], false, "test").unwrap();
    let runner = Pretend::default();
    let summary = run(&plan, &out, 4, &runner).unwrap();
    assert_eq!((summary.done, summary.ran, summary.left, summary.failed.len()), (18, 18, 0, 0));
    let text = Results::new(&plan, out.records(&plan).unwrap()).text();
    // Delivered with seeds 10, 11, 12: 5, 6, 5 of 10 bundles with small stores, and 8, 9, 8 with large ones.
    let expected = "\
pair: 6 points, seeds 10 to 12, 18 of 18 cells

ratio: ratio
  delivery ratio, mean and 95 % interval
    delay                    small            large
    1 s              0.533 ± 0.143    0.833 ± 0.143
    2 s              0.533 ± 0.143    0.833 ± 0.143
    3 s              0.533 ± 0.143    0.833 ± 0.143
    1 s, less small              -  0.3 ± 0, g 4.15
    2 s, less small              -  0.3 ± 0, g 4.15
    3 s, less small              -  0.3 ± 0, g 4.15
  confirmed: More room, more delivered.
    1 of 1 in favour

latency: latency
  mean latency (s), mean and 95 % interval
    delay  mean latency
    1 s           1 ± 0
    2 s           2 ± 0
    3 s           3 ± 0
  confirmed: It grows.
    1 of 1 in favour
";
    assert_eq!(text, expected);
    assert_eq!(fs::read_dir(out.path().join("cells")).unwrap().count(), 18);
    assert!(!out.path().join("cells").join(plan.name(plan.cells()[0])).join("bundles.parquet").exists());
}

#[test]
fn resumed_campaign_gives_identical_results() {
    let source = folder(CAMPAIGN);
    // Byte-identical results are the reference for every interruption below.
    let plan = plan(source.path()).unwrap();
    let create = |name: &str| CampaignFolder::create(&source.path().join(name), &plan, &[], false, "test").unwrap();
    let whole = create("whole");
    run(&plan, &whole, 3, &Pretend::default()).unwrap();
    let expected = written(&plan, &whole);
    for after in [0, 1, 7, 17] {
        let out = create(&format!("stopped-{after}"));
        let summary = run(&plan, &out, 2, &Pretend { stop_after: Some(after), ..Pretend::default() }).unwrap();
        assert_eq!((summary.done, summary.left), (after, 18 - after), "what ended stays");
        // A killed process leaves a cell that is running, half written.
        let half = out.path().join("cells").join(format!(".{}", plan.name(plan.cells()[9])));
        fs::create_dir_all(&half).unwrap();
        fs::write(half.join("manifest.json"), "{").unwrap();
        let again = CampaignFolder::open(out.path()).unwrap();
        let runner = Pretend::default();
        let summary = run(&plan, &again, 2, &runner).unwrap();
        assert_eq!((summary.done, summary.ran), (18, 18 - after), "nothing is run twice");
        assert!(!half.exists());
        assert!(written(&plan, &again) == expected, "stopped after {after}");
    }
}

#[test]
fn failed_cell_is_isolated_and_retried() {
    let source = folder(CAMPAIGN);
    let plan = plan(source.path()).unwrap();
    let out = CampaignFolder::create(&source.path().join("out"), &plan, &[], true, "test").unwrap();
    let bad = Pretend { fail: Some("2-s_large_s11"), panic: Some("3-s_small_s12"), ..Pretend::default() };
    let summary = run(&plan, &out, 2, &bad).unwrap();
    assert_eq!((summary.done, summary.failed.len(), summary.left), (16, 2, 0));
    assert!(
        summary.failed[0].1.contains("no room on the moon")
            && summary.failed[1].1.contains("it panicked: a mistake of ours")
    );
    let status = out.status(&plan, "another").unwrap();
    assert_eq!((status.done, status.left, status.failed.len(), status.running), (16, 2, 2, false));
    assert_eq!(status.other_versions, 16);
    let results = Results::new(&plan, out.records(&plan).unwrap());
    assert!(!results.is_whole() && results.text().contains("16 of 18 cells"));
    let summary = run(&plan, &out, 2, &Pretend::default()).unwrap();
    assert_eq!((summary.done, summary.ran, summary.failed.len()), (18, 2, 0));
    assert_eq!(out.status(&plan, "test").unwrap().failed, [], "the reasons are gone");
    assert!(
        out.path().join("cells").join(plan.name(plan.cells()[0])).join("bundles.parquet").exists(),
        "runs are kept"
    );
}

#[test]
fn retries_bound_repetitions_of_disturbed_cells() {
    let source = folder(&format!("{}[smoke]\nretries = 0\n", CAMPAIGN.replace("seed = 10", "seed = 10\nretries = 1")));
    let full = Campaign::load(source.path()).unwrap();
    for (number, campaign) in [full.clone().smaller(), full].into_iter().enumerate() {
        let plan = CampaignPlan::new(campaign).unwrap();
        let out =
            CampaignFolder::create(&source.path().join(format!("out-{number}")), &plan, &[], false, "test").unwrap();
        let runner = Pretend { disturb: Some(("2-s_large_s11", 9)), ..Pretend::default() };
        run(&plan, &out, 2, &runner).unwrap();
        let records = out.records(&plan).unwrap();
        let (_, record) = records.iter().find(|(_, record)| record.cell.contains("2-s_large_s11")).unwrap();
        assert_eq!((record.tries.len(), record.disturbances.len()), (number, 1));
    }
}

#[test]
fn disturbed_cell_is_repeated_and_kept() {
    let source = folder(CAMPAIGN);
    let plan = plan(source.path()).unwrap();
    for (times, tries, last) in [(1, 1, 0), (2, 2, 0), (9, 2, 1)] {
        let out = source.path().join(format!("out-{times}"));
        let out = CampaignFolder::create(&out, &plan, &[], true, "test").unwrap();
        let runner = Pretend { disturb: Some(("2-s_large_s11", times)), ..Pretend::default() };
        let summary = run(&plan, &out, 2, &runner).unwrap();
        assert_eq!((summary.done, summary.failed.len()), (18, 0), "a disturbed cell is not a failed one");
        let records = out.records(&plan).unwrap();
        let (_, record) = records.iter().find(|(_, record)| record.cell.contains("2-s_large_s11")).unwrap();
        assert_eq!((record.tries.len(), record.disturbances.len()), (tries, last));
        assert!(record.tries.iter().all(|each| each.disturbances == ["Machine: 2-s_large_s11 was loud."]));
        assert_eq!(record.tries[0].metrics, record.numbers.metrics);
        for number in 1..=tries {
            let kept = out.path().join("cells").join(&record.cell).join("tries").join(number.to_string());
            assert!(kept.join("manifest.json").exists(), "{}", kept.display());
        }
        let status = out.status(&plan, "test").unwrap();
        assert_eq!((status.repeated, status.disturbed.len()), (1, last));
        let names = fs::read_dir(out.path().join("cells")).unwrap().flatten().map(|entry| entry.file_name());
        assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with('.')), "nothing is left aside");
    }
}

#[test]
fn failed_repetition_leaves_the_disturbed_run() {
    let source = folder(CAMPAIGN);
    let plan = plan(source.path()).unwrap();
    let out = CampaignFolder::create(&source.path().join("out"), &plan, &[], true, "test").unwrap();
    let cell = Some("2-s_large_s11");
    let runner = Pretend { disturb: cell.map(|cell| (cell, 9)), fail_again: cell, ..Pretend::default() };
    let summary = run(&plan, &out, 1, &runner).unwrap();
    assert_eq!((summary.done, summary.failed.len()), (18, 0));
    let records = out.records(&plan).unwrap();
    let (_, record) = records.iter().find(|(_, record)| record.cell.contains("2-s_large_s11")).unwrap();
    let said = ["Machine: 2-s_large_s11 was loud.", "Machine: a repetition failed: no room on the moon."];
    assert_eq!((record.tries.len(), &record.disturbances[..]), (0, &said.map(String::from)[..]));
    assert!(record.numbers.metrics.values().any(Option::is_some));
    let kept = out.path().join("cells").join(&record.cell);
    assert!(kept.join("bundles.parquet").exists() && !kept.join("tries").exists());
    let names = fs::read_dir(out.path().join("cells")).unwrap().flatten().map(|entry| entry.file_name());
    assert!(names.into_iter().all(|name| !name.to_string_lossy().starts_with('.')), "nothing is left aside");
}

#[test]
fn folder_is_locked_and_foreign_refused() {
    let source = folder(CAMPAIGN);
    let plan = plan(source.path()).unwrap();
    let path = source.path().join("out");
    let out = CampaignFolder::create(&path, &plan, &[], false, "test").unwrap();
    // Stands for another process, which would hold the same lock.
    let lock = out.lock().unwrap();
    let error = run(&plan, &out, 1, &Pretend::default()).unwrap_err().to_string();
    assert!(error.contains("another farlink is at work") && error.contains("hint: "), "{error}");
    assert!(out.status(&plan, "test").unwrap().running);
    drop(lock);
    run(&plan, &out, 1, &Pretend::default()).unwrap();
    let error = format!("{:#}", CampaignFolder::create(&path, &plan, &[], false, "test").unwrap_err());
    assert!(error.contains("is not empty") && error.contains("campaign resume"), "{error}");
    for (name, text) in [("nothing", None), ("damaged", Some("{")), ("foreign", Some("{\"name\": 7}"))] {
        let path = source.path().join(name);
        fs::create_dir(&path).unwrap();
        text.into_iter().for_each(|text| fs::write(path.join("campaign.json"), text).unwrap());
        let error = format!("{:#}", CampaignFolder::open(&path).unwrap_err());
        assert!(error.contains("is no campaign that ran") && error.contains("hint: "), "{error}");
    }
}

#[test]
fn only_own_remains_are_removed() {
    let source = folder(CAMPAIGN);
    let plan = plan(source.path()).unwrap();
    let path = source.path().join("out");
    let out = CampaignFolder::create(&path, &plan, &[], false, "test").unwrap();
    let cell = plan.name(plan.cells()[0]);
    for own in [format!("cells/.{cell}"), format!("cells/.{cell}.try1")] {
        fs::create_dir(path.join(own)).unwrap();
    }
    fs::write(path.join(format!("failed/{cell}.txt")), "why\n").unwrap();
    for other in ["cells/.x", "cells/.git", "failed/sub"] {
        fs::create_dir(path.join(other)).unwrap();
    }
    fs::write(path.join("failed/notes.txt"), "dear").unwrap();
    assert_eq!(out.status(&plan, "test").unwrap().failed, [(cell.clone(), "why".to_string())]);
    out.clean().unwrap();
    let left = |part: &str| {
        let entries = fs::read_dir(path.join(part)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(
        (left("cells"), left("failed")),
        (vec![".git".into(), ".x".into()], vec!["notes.txt".into(), "sub".into()])
    );
    fs::create_dir(path.join(format!("failed/{cell}.txt"))).unwrap();
    let error = format!("{:#}", out.clean().unwrap_err());
    assert!(error.contains(&format!("failed/{cell}.txt\nhint: move it elsewhere")), "{error}");
    let file = source.path().join("afile");
    fs::write(&file, "").unwrap();
    let error = format!("{:#}", CampaignFolder::create(&file, &plan, &[], false, "test").unwrap_err());
    assert!(error.contains("afile is no folder\nhint: --out"), "{error}");
}

#[test]
fn surplus_seeds_are_no_strangers() {
    let source = folder(CAMPAIGN);
    let plan = plan(source.path()).unwrap();
    let out = CampaignFolder::create(&source.path().join("out"), &plan, &[], false, "test").unwrap();
    run(&plan, &out, 2, &Pretend::default()).unwrap();
    let fewer = CampaignPlan::new(Campaign::load(source.path()).unwrap().repeated(1)).unwrap();
    let status = out.status(&fewer, "test").unwrap();
    assert_eq!((status.done, status.surplus, status.surplus_repetitions, status.strangers), (6, 12, 3, 0));
    fs::create_dir(out.path().join("cells/other_s1_0123abcd")).unwrap();
    assert_eq!(out.status(&fewer, "test").unwrap().strangers, 1);
}

#[test]
fn campaign_resumes_in_its_world() {
    let source = folder(CAMPAIGN);
    let campaign = Campaign::load(source.path()).unwrap().inside(CellWorld::Lab);
    assert_eq!((campaign.world, campaign.asked.as_str()), (CellWorld::Lab, " --in lab"));
    let plan = CampaignPlan::new(campaign).unwrap();
    let path = source.path().join("out");
    CampaignFolder::create(&path, &plan, &[], false, "test").unwrap();
    assert_eq!(CampaignFolder::open(&path).unwrap().about().world, Some(CellWorld::Lab));
    let text = fs::read_to_string(path.join("campaign.json")).unwrap();
    fs::write(path.join("campaign.json"), text.replace("\"world\": \"lab\",", "")).unwrap();
    assert_eq!(CampaignFolder::open(&path).unwrap().about().world, None, "a folder of an older version");
}

#[test]
fn changed_scenario_is_run_again() {
    let source = folder(CAMPAIGN);
    let before = plan(source.path()).unwrap();
    let out = CampaignFolder::create(&source.path().join("out"), &before, &[], false, "test").unwrap();
    run(&before, &out, 2, &Pretend::default()).unwrap();
    fs::write(source.path().join("scenario.toml"), support::SCENARIO.replace("20 s", "30 s")).unwrap();
    let after = plan(source.path()).unwrap();
    let status = out.status(&after, "test").unwrap();
    assert_eq!((status.done, status.left, status.strangers), (0, 18, 18));
    fs::write(out.path().join("cells").join(before.name(before.cells()[0])).join("cell.json"), "{").unwrap();
    let error = format!("{:#}", out.records(&before).unwrap_err());
    assert!(error.contains("is damaged") && error.contains("hint: remove "), "{error}");
}

#[test]
fn record_of_other_cell_is_refused() {
    let source = folder(CAMPAIGN);
    let plan = plan(source.path()).unwrap();
    let out = CampaignFolder::create(&source.path().join("out"), &plan, &[], false, "test").unwrap();
    run(&plan, &out, 2, &Pretend::default()).unwrap();
    let file = |cell: usize| out.path().join("cells").join(plan.name(plan.cells()[cell])).join("cell.json");
    fs::copy(file(0), file(7)).unwrap();
    let error = format!("{:#}", out.records(&plan).unwrap_err());
    assert!(error.contains(&format!("is of {}\nhint: remove ", plan.name(plan.cells()[0]))), "{error}");
}

#[test]
fn named_file_changes_cell_name() {
    let source = folder(CAMPAIGN);
    let contact = |end: u32| format!("contact 1 2 +0..+{end} rate 1 Mbit/s\n");
    fs::write(source.path().join("scenario.toml"), format!("plan = \"contacts\"\n{}", support::SCENARIO)).unwrap();
    let named = |end| {
        fs::write(source.path().join("contacts"), contact(end)).unwrap();
        let plan = plan(source.path()).unwrap();
        plan.name(plan.cells()[0])
    };
    assert_ne!(named(10), named(15), "another plan is another cell");
}

#[test]
fn imported_cells_give_identical_results() {
    let source = folder(CAMPAIGN);
    let plan = plan(source.path()).unwrap();
    let create = |name: &str| CampaignFolder::create(&source.path().join(name), &plan, &[], false, "test").unwrap();
    let here = create("here");
    run(&plan, &here, 2, &Pretend::default()).unwrap();
    let there = create("there");
    let lock = there.lock().unwrap();
    for (cell, record) in here.records(&plan).unwrap() {
        let again = CellRecord::of(&plan, cell, record.numbers.metrics.clone(), record.wall_s, "test");
        assert_eq!(again, record);
        there.put(&again).unwrap();
        assert!(there.put(&again).is_err(), "a finished cell is not overwritten");
    }
    drop(lock);
    assert!(written(&plan, &there) == written(&plan, &here));
    let summary = run(&plan, &there, 2, &Pretend::default()).unwrap();
    assert_eq!((summary.done, summary.ran), (18, 0));
}

#[test]
fn files_are_relative_to_their_scenario() {
    let source = folder(&CAMPAIGN.replace("\"scenario.toml\"", "\"../there/scenario.toml\""));
    let there = source.path().join("there");
    let campaign = source.path().join("here");
    fs::create_dir_all(&there).unwrap();
    fs::create_dir_all(&campaign).unwrap();
    fs::rename(source.path().join("campaign.toml"), campaign.join("campaign.toml")).unwrap();
    fs::write(there.join("x.plan"), "a contact +0 +20 1 2 125000\na range +0 +20 1 2 1\n").unwrap();
    fs::write(there.join("scenario.toml"), format!("plan = \"x.plan\"\n{}", support::SCENARIO)).unwrap();
    let plan = plan(&campaign).unwrap();
    let cell = plan.cells()[0];
    assert_eq!(plan.files(cell), ["x.plan"]);
    assert!(plan.folder(cell).join("x.plan").exists());
    // Drivers are looked for there, too.
    assert_eq!(plan.scenario(cell).unwrap().folder, plan.folder(cell));
}

#[test]
fn cell_lists_its_files() {
    let source = folder(CAMPAIGN);
    fs::write(source.path().join("x.plan"), "a contact +0 +20 1 2 125000\na range +0 +20 1 2 1\n").unwrap();
    fs::write(source.path().join("scenario.toml"), format!("plan = \"x.plan\"\n{}", support::SCENARIO)).unwrap();
    let plan = plan(source.path()).unwrap();
    assert_eq!(plan.files(plan.cells()[0]), ["x.plan"]);
}

#[test]
fn symbolic_links_are_never_followed() {
    let source = folder(CAMPAIGN);
    let plan = plan(source.path()).unwrap();
    let path = source.path().join("out");
    let out = CampaignFolder::create(&path, &plan, &[], false, "test").unwrap();
    run(&plan, &out, 1, &Pretend::default()).unwrap();
    let home = source.path().join("home");
    fs::create_dir_all(home.join(".keys")).unwrap();
    fs::write(home.join("dear"), "dear").unwrap();
    let link = |part: &str, to: &str| {
        let (part, aside) = (path.join(part), path.join("aside"));
        let there = fs::rename(&part, &aside).is_ok();
        std::os::unix::fs::symlink(home.join(to), &part).unwrap();
        let refused =
            |error: Option<anyhow::Error>| error.is_some_and(|why| format!("{why:#}").contains("symbolic link"));
        let looked = CampaignFolder::open(&path).and_then(|open| open.clean().and_then(|()| open.records(&plan)));
        assert!(refused(looked.err()), "{} is followed", part.display());
        fs::remove_file(&part).unwrap();
        if there {
            fs::rename(&aside, &part).unwrap();
        }
    };
    let cell = plan.name(plan.cells()[0]);
    for (part, to) in [("cells", ""), ("failed", ""), ("campaign.json", "dear"), ("lock", "dear")] {
        link(part, to);
    }
    link(&format!("cells/{cell}"), "");
    link(&format!("cells/{cell}/cell.json"), "dear");
    // A link under the name of the temporary file with which `campaign.json` is replaced; the link must not be
    // followed.
    std::os::unix::fs::symlink(home.join("dear"), path.join("campaign.new")).unwrap();
    CampaignFolder::open(&path).unwrap().change(None, Some(3)).unwrap();
    assert_eq!(fs::read_to_string(home.join("dear")).unwrap(), "dear");
    assert!(home.join(".keys").is_dir());
}

#[test]
fn figure_of_other_world_is_left_out() {
    let source = folder(&CAMPAIGN.replace("name = \"latency\"\n", "name = \"latency\"\nworld = \"lab\"\n"));
    let loaded = Campaign::load(source.path()).unwrap();
    let names = |campaign: Campaign| {
        let plan = CampaignPlan::new(campaign).unwrap();
        let figures: Vec<_> = plan.campaign.figures.iter().map(|figure| figure.name.clone()).collect();
        (figures.join(" "), plan.left_out.join(" "))
    };
    assert_eq!(names(loaded.clone()), ("ratio".into(), "latency".into()));
    assert_eq!(names(loaded.clone().inside(CellWorld::Lab)), ("ratio latency".into(), String::new()));
    let plan = CampaignPlan::new(loaded.clone()).unwrap();
    let text = Results::new(&plan, Vec::new()).text();
    assert!(text.contains("left out, for they are not of world sim: latency\n"), "{text}");
    let alone = CampaignPlan::new(loaded.only(&["latency".into()]).unwrap()).unwrap_err();
    let said = alone[0].to_string();
    assert!(said.contains("no figure is left for the simulation: only the testbed has latency"), "{said}");
    assert!(said.contains("campaign.toml:22: figure[latency]") && said.contains("hint: `--in lab`"), "{said}");
}
