//! Errors of campaign files: every mistake is reported with its line and a hint.

use crate::support;

use crate::support::{CAMPAIGN, folder, plan};
use farlink_campaign::Campaign;

/// Errors of the test campaign with the text `from` replaced by `to`.
fn said(from: &str, to: &str) -> String {
    assert!(CAMPAIGN.contains(from), "{from}");
    let source = folder(&CAMPAIGN.replacen(from, to, 1));
    let list = plan(source.path()).map(|_| ()).expect_err(to);
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn campaign_errors_name_line_and_hint() {
    for (from, to, line, says, hint) in [
        ("name = \"pair\"", "nam = \"pair\"", 1, "unknown key", "did you mean `name`?"),
        ("scenario.toml", "scenari.toml", 2, "is no file", "relative to the folder"),
        ("repetitions = 3", "repetitions = 0", 3, "is not between 1 and 1000", "write e.g."),
        ("seed = 10", "seed = 9223372036854775000", 4, "more than 2^63", "a smaller one"),
        ("link[l].delay", "link[m].delay", 8, "the scenario has no link `m`; there are: l", "mend"),
        ("link[l].delay", "link[l.delay", 7, "is not a key path", "write e.g."),
        ("\"2 s\"", "\"2 sec\"", 8, "`2 sec`: link[l].delay", "write e.g."),
        ("\"2 s\"", "\"1 s\"", 8, "two values labelled `1 s`", "labels"),
        ("labels = [\"small\", \"large\"]", "labels = [\"small\"]", 13, "1 labels of 2 values", "one for each"),
        ("metric = \"delivery_ratio\"", "metric = \"delivery\"", 16, "`delivery`", "delivery_ratio"),
        ("x = \"delay\"", "x = \"dela\"", 17, "there is no axis `dela`", "did you mean `delay`?"),
        ("series = \"size\"", "series = \"delay\"", 18, "drawn already", "an axis of its own"),
        ("rule = \"above\"", "rule = \"over\"", 21, "`over`", "above"),
        (
            "rule = \"above\"",
            "rule = \"above\"\nseries = \"smal\"",
            22,
            "no value labelled `smal`",
            "did you mean `small`?",
        ),
        ("rule = \"above\"", "rule = \"between\"", 19, "range: missing", "range = ["),
        ("rule = \"rises\"", "rule = \"above\"", 29, "the figure has none", "rises"),
        (
            "rule = \"rises\"",
            "rule = \"rises\"\nmargin = 0.2",
            30,
            "a key of `above`, `below` and `similar`",
            "take it out",
        ),
        ("size = \"small\"", "size = \"tiny\"", 26, "no value labelled `tiny`", "small, large"),
        ("size = \"small\"", "delay = \"1 s\"", 26, "is drawn", "take it out"),
        ("name = \"size\"", "name = \"delivered\"", 10, "`delivered` is another column of the tables", "another name"),
        (
            "rule = \"above\"",
            "rule = \"above\"\nthan = \"large\"\nseries = \"large\"",
            22,
            "with itself alone",
            "others",
        ),
        ("repetitions = 3", "repetitions = 3\nskip = [{ size = \"small\" }, 7]", 4, "no points are named", "[[skip]]"),
        ("rule = \"above\"", "rule = \"above\"\nseries = []", 22, "it names none", "take it out"),
        ("rule = \"above\"", "rule = \"above\"\nat = []", 22, "it names none", "take it out"),
        ("rule = \"above\"", "rule = \"below\"\nmargin = 1.0", 22, "nothing is below none", "0.8"),
        ("rule = \"above\"", "rule = \"similar\"\nmargin = 1.5", 22, "between 0 and 1", "margin = 0.1"),
        ("rule = \"above\"", "rule = \"above\"\nmargin = -1.5", 22, "between 0 and 1", "margin = 0.1"),
        ("rule = \"above\"", "rule = \"between\"\nrange = [0, 1]", 22, "always in this range", "narrower"),
        ("name = \"latency\"", "name = \"ratio\"", 23, "a second figure called `ratio`", "its own name"),
    ] {
        let said = said(from, to);
        assert!(said.contains(says) && said.contains(hint), "{from} -> {to}: {said}");
        assert!(said.contains(&format!("campaign.toml:{line}: ")), "{from} -> {to}, line {line}: {said}");
    }
}

#[test]
fn shape_errors_name_line_and_hint() {
    let part = |label: &str, metric: &str| format!("[[figure.part]]\nlabel = \"{label}\"\nmetric = \"{metric}\"\n");
    let (created, delivered) = (part("a", "created"), part("b", "delivered"));
    for (keys, line, says, hint) in [
        ("metric = \"delivered\"\n", 30, "x: missing", "drawn horizontally"),
        ("metric = \"rtt_s\"\nx = \"delay\"\n", 32, "`rtt_s` is a distribution", "shape = \"ecdf\""),
        ("metric = \"created\"\nshape = \"ecdf\"\n", 32, "no distribution", "such as `rtt_s`"),
        (
            "metric = \"relayed\"\nx = \"delay\"\nphase = \"load\"\n",
            34,
            "`relayed` is of the whole run",
            "take `phase` out",
        ),
        ("metric = \"created\"\nx = \"delay\"\nnode = \"a\"\n", 34, "`created` is not of one node", "take `node` out"),
        (
            "metric = \"created\"\nx = \"delay\"\nphase = \"load\"\n",
            30,
            "the scenario has no phase `load`",
            "it has no phases",
        ),
        ("metric = \"cpu_percent\"\nx = \"delay\"\nnode = \"c\"\n", 30, "no node `c`", "there are: a, b"),
        ("metric = \"created\"\nx = \"delay\"\ninterval = \"90 %\"\n", 34, "`90 %`", "99 %"),
        ("metric = \"created\"\nx = \"delay\"\nreference = \"baseline_bit_s\"\n", 34, "does not fit", "same unit"),
        (
            "metric = \"created\"\nshape = \"table\"\nreference = \"delivered\"\n",
            34,
            "only `lines` and `bars`",
            "take it out",
        ),
        ("metric = \"created\"\nshape = \"stack\"\nx = \"delay\"\n", 33, "fewer than two parts", "[[figure.part]]"),
        (&format!("metric = \"created\"\nx = \"delay\"\n{created}"), 34, "only stacks and tables", "take it out"),
        (
            &format!("metric = \"created\"\nx = \"delay\"\nshape = \"stack\"\n{created}{}", part("b", "relayed_")),
            40,
            "`relayed_`",
            "relayed",
        ),
        (
            &format!("metric = \"created\"\nx = \"delay\"\nshape = \"stack\"\n{created}{}", part("a", "delivered")),
            39,
            "a second part called `a`",
            "its own label",
        ),
        (
            &format!("metric = \"goodput_bit_s\"\nx = \"delay\"\nshape = \"stack\"\n{created}{delivered}"),
            37,
            "`created` has another unit than `goodput_bit_s`",
            "one unit",
        ),
        (
            "metric = \"latency_s\"\nshape = \"ecdf\"\n[[figure.claim]]\ntext = \"x\"\nrule = \"rises\"\n",
            36,
            "the figure has none",
            "add `x`",
        ),
        (
            "metric = \"created\"\nx = \"delay\"\n[[figure.claim]]\ntext = \"x\"\nrule = \"rises\"\nquantile = 0.9\n",
            37,
            "`created` is no distribution",
            "take it out",
        ),
    ] {
        let source = folder(&format!("{CAMPAIGN}[[figure]]\nname = \"more\"\n{keys}"));
        let list = plan(source.path()).map(|_| ()).expect_err(keys);
        let said = list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(said.contains(says) && said.contains(hint), "{keys}: {said}");
        assert!(said.contains(&format!("campaign.toml:{line}: ")), "{keys}, line {line}: {said}");
    }
}

#[test]
fn scenario_error_names_scenario_file() {
    let source = folder(CAMPAIGN);
    std::fs::write(source.path().join("scenario.toml"), support::SCENARIO.replace("ipn:2.0", "ipn:two")).unwrap();
    let list = plan(source.path()).unwrap_err();
    let said = list[0].to_string();
    assert!(said.contains("scenario.toml: node[b].id (line 8)"), "{said}");
    let nowhere = Campaign::load(std::path::Path::new("/nowhere/at/all")).unwrap_err();
    assert!(nowhere[0].to_string().contains("hint: give the folder of a campaign"), "{nowhere:?}");
}

#[test]
fn scenario_file_is_no_campaign() {
    let source = folder(CAMPAIGN);
    let list = Campaign::load(&source.path().join("scenario.toml")).unwrap_err();
    let said = list[0].to_string();
    assert_eq!(list.len(), 1, "{list:?}");
    assert!(said.contains("is a scenario, and no campaign\nhint: `farlink run "), "{said}");
    let missing = Campaign::parse("name = \"x\"\n", source.path(), "x").unwrap_err()[0].to_string();
    assert!(missing.contains("hint: add `scenario = \"scenario.toml\"`"), "{missing}");
}

#[test]
fn margin_above_one_is_of_above() {
    for (margin, expected) in [("1.5", 1.5), ("\"150 %\"", 1.5), ("\"10 %\"", 0.1)] {
        let source = folder(&CAMPAIGN.replace("rule = \"above\"", &format!("rule = \"above\"\nmargin = {margin}")));
        let plan = plan(source.path()).unwrap();
        assert_eq!(plan.campaign.figures[0].claims[0].rule, farlink_campaign::ClaimRule::Above(expected));
    }
}

#[test]
fn left_out_figure_is_checked() {
    let source =
        folder(&CAMPAIGN.replace("name = \"latency\"\n", "name = \"latency\"\nworld = \"lab\"\nphase = \"load\"\n"));
    let said = plan(source.path()).unwrap_err()[0].to_string();
    assert!(said.contains("figure[latency]: the scenario has no phase `load`"), "{said}");
}

#[test]
fn conflicting_values_are_reported_at_figure() {
    // Each bound alone is valid together with the scenario's other bound.
    let contacts = "[[axis]]\nname = \"end\"\n[[axis.value]]\nlabel = \"early\"\nset = { \"contact[1].end\" = \"3 s\" }\n\
        [[axis]]\nname = \"start\"\n[[axis.value]]\nlabel = \"late\"\nset = { \"contact[1].start\" = \"5 s\" }\n\
        [[figure]]\nname = \"both\"\nmetric = \"delivered\"\nx = \"end\"\nseries = \"start\"\n";
    let source = folder(&format!("{CAMPAIGN}{contacts}"));
    let scenario = format!("{}[[contact]]\nlink = \"l\"\nstart = \"1 s\"\nend = \"9 s\"\n", support::SCENARIO);
    std::fs::write(source.path().join("scenario.toml"), scenario).unwrap();
    let said = plan(source.path()).unwrap_err()[0].to_string();
    assert!(said.contains(":40: figure: its point end early, start late: contact[1].end"), "{said}");
}

#[test]
fn smoke_only_and_skip_reduce_plan() {
    let more = "[[skip]]\nsize = \"large\"\ndelay = [\"2 s\", \"3 s\"]\n\
        [smoke]\nrepetitions = 1\nset = { duration = \"5 s\" }\nvalues = { delay = [\"1 s\", \"3 s\"] }\nfigures = \"ratio\"\n";
    let source = folder(&format!("{CAMPAIGN}{more}"));
    let whole = plan(source.path()).unwrap();
    assert_eq!(whole.configurations.len(), 4);
    let campaign = Campaign::load(source.path()).unwrap();
    let small = farlink_campaign::CampaignPlan::new(campaign.clone().smaller()).unwrap();
    assert_eq!((small.configurations.len(), small.cells().len()), (3, 3));
    assert!(small.configurations.iter().all(|one| one.text.contains("duration = \"5 s\"")));
    assert_ne!(small.name(small.cells()[0]), whole.name(whole.cells()[0]), "another text, another cell");
    let only = farlink_campaign::CampaignPlan::new(campaign.clone().only(&["latency".into()]).unwrap()).unwrap();
    assert_eq!(only.configurations.len(), 3);
    let both = "[smoke]\nset = { \"link[l].delay\" = \"9 s\", \"group[x].count\" = 1 }\n";
    let part = folder(&format!("{CAMPAIGN}{both}"));
    let part = Campaign::load(part.path()).unwrap().smaller().only(&["ratio".into()]).unwrap();
    farlink_campaign::CampaignPlan::new(part).expect("what other figures' scenarios have is no mistake");
    let source = folder(&format!("{CAMPAIGN}[smoke]\nset = {{ \"group[x].count\" = 1 }}\n"));
    let said = farlink_campaign::CampaignPlan::new(Campaign::load(source.path()).unwrap().smaller()).unwrap_err()[0]
        .to_string();
    assert!(said.contains("smoke.set: no scenario has `group[x].count`"), "{said}");
    assert!(campaign.only(&["x".into()]).unwrap_err().contains("hint: its figures are ratio, latency"));
}

#[test]
fn campaign_without_points_is_refused() {
    let said = |more: &str, small: bool| {
        let source = folder(&format!("{CAMPAIGN}{more}"));
        let campaign = Campaign::load(source.path());
        let plan =
            campaign.and_then(|one| farlink_campaign::CampaignPlan::new(if small { one.smaller() } else { one }));
        plan.map(|_| ()).expect_err(more).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let skip = "[[skip]]\nsize = [\"small\", \"large\"]\n";
    let all = said(skip, false);
    assert!(all.contains(":14: figure[ratio]: all its points are skipped") && all.contains("figure[latency]"), "{all}");
    assert!(said(skip, true).contains("no point of any figure is left"));
    // An axis without values would leave every figure empty.
    let none = said("[smoke]\nvalues = { delay = [] }\n", true);
    assert!(none.contains("smoke.values: no value of axis `delay` is kept"), "{none}");
}

#[test]
fn ineffective_axis_is_refused() {
    let axis = |keys: &str| {
        let more = format!(
            "[[axis]]\nname = \"other\"\nkeys = \"{keys}\"\nvalues = [\"4 s\"]\n\
             [[figure]]\nname = \"both\"\nmetric = \"delivered\"\nx = \"delay\"\nseries = \"other\"\n"
        );
        let list = plan(folder(&format!("{CAMPAIGN}{more}")).path()).map(|_| ()).expect_err(keys);
        list.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let both = axis("link[l].delay");
    assert!(both.contains("axes `delay` and `other` both set `link[l].delay`"), "{both}");
    let seed = axis("seed");
    assert!(seed.contains("axis[other].keys: `seed` belongs to each repetition"), "{seed}");
}

#[test]
fn unknown_rule_is_reported_once() {
    let said = said("rule = \"above\"", "rule = \"over\"\nthan = \"large\"");
    assert!(said.contains("`over` is none of") && !said.contains("than"), "{said}");
}

#[test]
fn figure_outside_small_size_is_refused() {
    let source = folder(&format!("{CAMPAIGN}[smoke]\nfigures = \"ratio\"\n"));
    let small = Campaign::load(source.path()).unwrap().smaller();
    let said = small.only(&["latency".into()]).unwrap_err();
    assert!(said.contains("the small size leaves figure `latency` out\nhint: its figures are ratio"), "{said}");
}

#[test]
fn unsupported_world_is_refused_before_run() {
    let radio = "[[mobility]]\nname = \"m\"\nmodel = \"stationary\"\narea = \"50 m\"\n\
        [[radio]]\nname = \"wifi\"\nrange = \"60 m\"\n\
        [[group]]\nname = \"g\"\ncount = 2\nfirst_id = 7\nmobility = \"m\"\nradio = \"wifi\"\nrouter = \"epidemic\"\n";
    let said = |world: &str, scenario: String| {
        let source = folder(&CAMPAIGN.replace("seed = 10", &format!("world = \"{world}\"")));
        std::fs::write(source.path().join("scenario.toml"), scenario + radio).unwrap();
        plan(source.path()).map(|_| ()).expect_err(world)
    };
    let packets = said("sim", support::SCENARIO.into());
    assert_eq!(packets.len(), 1, "{packets:?}");
    let told = packets[0].to_string();
    assert!(told.contains("scenario: radio[wifi]: ") && told.contains("hint: write fidelity = \"message\""), "{told}");
    let lab = said("lab", format!("fidelity = \"message\"\n{}", support::SCENARIO));
    assert!(
        lab.len() == 1 && lab[0].to_string().contains("the testbed has no radios\nhint: run it in simulation"),
        "{lab:?}"
    );
}
