//! Figures of distributions, stacks and tables, metrics of phases and nodes, and claims that cannot be judged.

use crate::support::{self, SCENARIO, folder, plan};
use anyhow::Result;
use farlink_campaign::{
    CampaignFolder, CampaignOptions, CampaignPlan, CellEnd, CellJob, CellRecord, Figure, Judgement, Results, Runner,
};
use farlink_report::{BaselineFlow, Manifest, PhaseFacts, RoleUse, RunWorld, RunWriter, SampleRow, Spread};
use std::sync::atomic::AtomicBool;

const PHASES: &str = "[[phase]]\nname = \"before\"\nkind = \"baseline\"\nstart = \"0 s\"\nduration = \"4 s\"\n\
    [[phase]]\nname = \"load\"\nkind = \"load\"\nstart = \"4 s\"\nduration = \"10 s\"\n";

/// The usual scenario with phases; its traffic starts after the baseline.
fn scenario() -> String {
    format!("{}{PHASES}", SCENARIO.replace("to = \"b\"", "to = \"b\"\nstart = \"4 s\""))
}

/// A campaign of the testbed with these figures.
fn campaign(figures: &str) -> String {
    format!(
        "name = \"shapes\"\nscenario = \"scenario.toml\"\nworld = \"lab\"\nrepetitions = 3\n\
         [[axis]]\nname = \"delay\"\nkeys = \"link[l].delay\"\nvalues = [\"1 s\", \"2 s\"]\n\
         [[axis]]\nname = \"store\"\nkeys = [\"node[*].store_capacity\"]\nvalues = [\"1 MB\", \"2 MB\"]\nlabels = [\"small\", \"large\"]\n\
         {figures}"
    )
}

/// A stand-in for the testbed, which runs nothing: round trips, processor and memory use follow from the axis values
/// and the seed.
#[derive(Default)]
struct PretendLab {
    /// Part of the names of cells that are disturbed.
    disturb: Option<&'static str>,
    /// Whether a third of the round trips takes 40 ms more.
    nagle: bool,
}

impl Runner for PretendLab {
    fn run(&self, job: &CellJob<'_>) -> Result<CellEnd> {
        let scenario = job.plan.scenario(job.cell).unwrap();
        let seed = scenario.seed;
        let is_large = scenario.nodes[0].settings().store.capacity.bytes() > 1_000_000;
        let slow = job.plan.configurations[job.cell.configuration]
            .values
            .iter()
            .any(|(axis, value)| (*axis, *value) == (0, 1));
        let mut manifest = Manifest::new(RunWorld::Lab, "pair", "", None);
        let flow = |rate| BaselineFlow {
            link: "l".into(),
            transport: "tcp".into(),
            bit_s: Some(rate),
            ..BaselineFlow::default()
        };
        let used = |node: &str, role: &str, cpu: f64| RoleUse {
            node: Some(node.into()),
            role: role.into(),
            cpu_percent: Some(Spread { mean: cpu, sd: 2.0 * cpu, p25: 0.0, p50: 1.0, p75: cpu, samples: 100 }),
            memory_peak_bytes: 5_000_000,
            anonymous_peak_bytes: 3_000_000 + 100_000 * seed,
            shared_peak_bytes: if is_large { 2_000_000 } else { 1_000_000 },
            cache_peak_bytes: 500_000,
            ..RoleUse::default()
        };
        let phase =
            |name: &str, start_s, end_s| PhaseFacts { name: name.into(), start_s, end_s, ..PhaseFacts::default() };
        manifest.phases = vec![
            PhaseFacts { baseline: vec![flow(90e3), flow(110e3)], ..phase("before", 0.0, 4.0) },
            PhaseFacts {
                roles: vec![
                    used("a", "implementation", 20.0),
                    used("b", "implementation", 6.0),
                    used("a", "application", 3.0),
                ],
                ..phase("load", 4.0, 14.0)
            },
        ];
        let mut run = RunWriter::create(job.folder, manifest)?;
        for number in 0..60u64 {
            let later = if self.nagle && number % 3 == 0 { 0.040 } else { 0.0 };
            let value = if slow { 0.004 } else { 0.002 } + 1e-5 * (number + seed) as f64 + later;
            let sample = SampleRow {
                time_ns: 5_000_000_000 + number * 100_000_000,
                node: Some("a".into()),
                link: None,
                metric: farlink_report::schema::ROUND_TRIP_S.into(),
                value,
                phase: None,
            };
            run.sample(&sample)?;
        }
        for sequence in 0..4 {
            run.event(&support::event(sequence, 5_000_000_000 + sequence, "created"))?;
            // The first arrives at 6 s, then one a second, or a little faster.
            let every = if is_large { 800_000_000 } else { 1_000_000_000 + 1_000_000 * seed };
            run.event(&support::event(sequence, 6_000_000_000 + sequence * every, "delivered"))?;
        }
        if self.disturb.is_some_and(|what| job.plan.name(job.cell).contains(what)) {
            run.manifest().validity.disturbances.push("Phase before: two baselines differed by 30 %.".into());
        }
        run.finish()?;
        Ok(CellEnd::Done)
    }
}

/// A campaign that was run, with its results.
struct Ran {
    source: tempfile::TempDir,
    plan: CampaignPlan,
    folder: CampaignFolder,
}

impl Ran {
    fn of(figures: &str, runner: &PretendLab) -> Ran {
        let source = folder(&campaign(figures));
        std::fs::write(source.path().join("scenario.toml"), scenario()).unwrap();
        let plan = plan(source.path()).unwrap();
        let folder = CampaignFolder::create(&source.path().join("out"), &plan, &[], false, "test").unwrap();
        let stop = AtomicBool::new(false);
        let options = CampaignOptions { jobs: 2, stop: &stop, version: "test" };
        let summary = farlink_campaign::run(&plan, &folder, options, runner, &mut |_| {}).unwrap();
        assert_eq!(summary.failed, []);
        Ran { source, plan, folder }
    }
    fn records(&self) -> Vec<CellRecord> {
        self.folder.records(&self.plan).unwrap().into_iter().map(|(_, record)| record).collect()
    }
    fn results(&self) -> Results<'_> {
        Results::new(&self.plan, self.folder.records(&self.plan).unwrap())
    }
    fn figure(&self, place: usize) -> &Figure {
        &self.plan.campaign.figures[place]
    }
    fn judged(&self, place: usize) -> Judgement {
        let figure = self.figure(place);
        self.results().judge(figure, &figure.claims[0])
    }
    /// Contents of a file that the results were written to.
    fn written(&self, file: &str) -> String {
        self.results().write(&self.folder).unwrap();
        std::fs::read_to_string(self.source.path().join("out").join(file)).unwrap()
    }
}

const ECDF: &str = "[[figure]]\nname = \"trips\"\nmetric = \"rtt_s\"\nphase = \"load\"\nshape = \"ecdf\"\nseries = \"store\"\nfacet = \"delay\"\n\
    [[figure.paper]]\nseries = \"small\"\nquantile = \"66 %\"\nvalues = [0.003]\n\
    [[figure.claim]]\ntext = \"Nine of ten are below 3 ms.\"\nrule = \"between\"\nrange = [0.0, 0.003]\nquantile = \"90 %\"\nfacet = \"1 s\"\n";

#[test]
fn distribution_is_kept_and_drawn() {
    let ran = Ran::of(ECDF, &PretendLab::default());
    let sample = &ran.records()[0].numbers.samples["rtt_s/load/"];
    assert_eq!((sample.count, sample.values.len()), (60, 60));
    let judged = ran.judged(0);
    assert_eq!((judged.verdict.word(), judged.counts.favour), ("confirmed", 2), "{judged:?}");
    let svg = ran.written("figures/trips_1-s.svg");
    assert!(svg.contains("small: median 2.31 ms") && svg.contains("small in the paper: 66 % at most 3 ms"), "{svg}");
    let text = ran.results().text();
    assert!(
        text.contains("round trip in phase load (s), quantiles of runs, and 95 % interval of their medians"),
        "{text}"
    );
    assert!(text.contains("    small in the paper: 66 % at most 0.003\n"), "{text}");
    assert!(text.contains("small  0.00205  0.00217  0.00231 ± 0.0000248  0.00246  0.00255  0.0026     180"), "{text}");
    let report = ran.written("report.html");
    assert!(report.contains("fraction of values (%)") && !report.contains("NaN"));
}

#[test]
fn facets_keep_files_of_their_own() {
    let source = folder(
        &campaign("[[figure]]\nname = \"trips\"\nmetric = \"rtt_median_s\"\nx = \"store\"\nfacet = \"delay\"\n")
            .replace(
                "values = [\"1 s\", \"2 s\"]",
                "values = [\"1 s\", \"2 s\", \"3 s\"]\nlabels = [\"a-b\", \"a-b-3\", \"a b\"]",
            ),
    );
    std::fs::write(source.path().join("scenario.toml"), scenario()).unwrap();
    let plan = plan(source.path()).unwrap();
    let folder = CampaignFolder::create(&source.path().join("out"), &plan, &[], false, "test").unwrap();
    Results::new(&plan, Vec::new()).write(&folder).unwrap();
    let mut names: Vec<_> = std::fs::read_dir(source.path().join("out/figures"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".svg"))
        .collect();
    names.sort();
    assert_eq!(names, ["trips_a-b-2.svg", "trips_a-b-3.svg", "trips_a-b.svg"]);
}

#[test]
fn added_distribution_is_measured_again() {
    let first =
        "[[figure]]\nname = \"goodput\"\nmetric = \"goodput_received_bit_s\"\nshape = \"table\"\nx = \"store\"\n";
    let more = "[[figure]]\nname = \"trips\"\nmetric = \"rtt_s\"\nshape = \"ecdf\"\nseries = \"store\"\n";
    let ran = Ran::of(first, &PretendLab::default());
    std::fs::write(ran.source.path().join("campaign.toml"), campaign(&format!("{first}{more}"))).unwrap();
    let plan = plan(ran.source.path()).unwrap();
    let status = ran.folder.status(&plan, "test").unwrap();
    assert_eq!((status.done, status.left), (0, 6));
    let stop = AtomicBool::new(false);
    let options = CampaignOptions { jobs: 2, stop: &stop, version: "test" };
    for again in [6, 0] {
        let summary = farlink_campaign::run(&plan, &ran.folder, options, &PretendLab::default(), &mut |_| {}).unwrap();
        assert_eq!((summary.ran, summary.done, &summary.failed[..]), (again, 6, &[][..]));
    }
    let records = ran.folder.records(&plan).unwrap();
    assert!(records.iter().all(|(_, record)| record.numbers.samples["rtt_s"].count == 60));
}

const MEMORY: &str = "[[figure]]\nname = \"memory\"\nmetric = \"memory_peak_implementation_bytes\"\nphase = \"load\"\nnode = \"a\"\n\
    shape = \"stack\"\nx = \"delay\"\nseries = \"store\"\n\
    [[figure.part]]\nlabel = \"anonymous\"\nmetric = \"memory_peak_implementation_anonymous_bytes\"\n\
    [[figure.part]]\nlabel = \"shared\"\nmetric = \"memory_peak_implementation_shared_bytes\"\n";

#[test]
fn stack_has_parts_of_phase_and_node() {
    let ran = Ran::of(MEMORY, &PretendLab::default());
    let svg = ran.written("figures/memory.svg");
    // Seeds 1 to 3: 3.1, 3.2 and 3.3 MB.
    assert!(svg.contains("large, 1 s, anonymous: 3.2 MB") && svg.contains("large, 1 s, shared: 2 MB"), "{svg}");
    assert!(svg.contains("bars from the left: 1 small, 2 large"));
    let text = ran.results().text();
    assert!(text.contains("peak memory of the implementation in phase load at a (B)"), "{text}");
    assert!(text.contains("small, 1 s    3200000 ± 248414") && text.contains("2000000 ± 0"), "{text}");
    let cells = ran.written("cells.csv");
    assert!(cells.lines().next().unwrap().contains("memory_peak_implementation_shared_bytes/load/a"), "{cells}");
}

const PROCESSORS: &str = "[[figure]]\nname = \"processors\"\nmetric = \"cpu_percent_implementation\"\nphase = \"load\"\nshape = \"table\"\nseries = \"store\"\n\
    [[figure.part]]\nlabel = \"sender\"\nmetric = \"cpu_percent_implementation\"\nnode = \"a\"\n\
    [[figure.part]]\nlabel = \"receiver\"\nmetric = \"cpu_percent_implementation\"\nnode = \"b\"\n\
    [[figure]]\nname = \"goodput\"\nmetric = \"goodput_received_bit_s\"\nphase = \"load\"\nshape = \"table\"\nx = \"store\"\n";

#[test]
fn table_has_spread_within_or_over_runs() {
    let ran = Ran::of(PROCESSORS, &PretendLab::default());
    let text = ran.results().text();
    let expected = "\
    store            runs    mean  sd  25 %  50 %  75 %
    small    sender     3  20 ± 0  40     0     1    20
    small  receiver     3   6 ± 0  12     0     1     6
";
    assert!(text.contains(expected), "{text}");
    // The runs deliver 3000 B in 3.003, 3.006 and 3.009 s. The metric has no samples, so the spread is that of the
    // runs.
    assert!(text.contains("small     3  7984 ± 19.8  7.97   7980   7984   7988"), "{text}");
    let report = ran.written("report.html");
    assert!(report.contains("<th>75 %</th>") && report.contains("<td>receiver</td>"), "{report}");
}

const GOODPUT: &str = "interval = \"99 %\"\n[[figure]]\nname = \"goodput\"\nmetric = \"goodput_received_bit_s\"\nphase = \"load\"\nx = \"delay\"\nseries = \"store\"\n\
    reference = \"baseline_bit_s\"\n\
    [[figure.claim]]\ntext = \"A larger store is faster.\"\nrule = \"above\"\nat = \"*\"\n\
    [[figure]]\nname = \"usual\"\nmetric = \"goodput_of_baseline\"\nphase = \"load\"\nx = \"delay\"\nfixed = { store = \"small\" }\ninterval = \"95 %\"\n";

/// Runs the campaign [`GOODPUT`], whose first line is a key of the file's top level.
fn goodput(runner: &PretendLab) -> Ran {
    let (level, figures) = GOODPUT.split_once('\n').unwrap();
    let source = folder(&campaign(figures).replace("repetitions = 3", &format!("repetitions = 3\n{level}")));
    std::fs::write(source.path().join("scenario.toml"), scenario()).unwrap();
    let text = std::fs::read_to_string(source.path().join("campaign.toml")).unwrap();
    let plan = CampaignPlan::new(farlink_campaign::Campaign::parse(&text, source.path(), "x").unwrap()).unwrap();
    let out = CampaignFolder::create(&source.path().join("out"), &plan, &[], false, "test").unwrap();
    let stop = AtomicBool::new(false);
    farlink_campaign::run(&plan, &out, CampaignOptions { jobs: 2, stop: &stop, version: "test" }, runner, &mut |_| {})
        .unwrap();
    Ran { source, plan, folder: out }
}

#[test]
fn level_and_reference_follow_file() {
    let ran = goodput(&PretendLab::default());
    assert_eq!([0, 1].map(|place| ran.figure(place).level.word()), ["99 %", "95 %"]);
    let text = ran.results().text();
    // Three runs: half intervals differ by t(2), 9.925 over 4.303.
    assert!(text.contains("mean and 99 % interval") && text.contains("7984 ± 45.7"), "{text}");
    assert!(text.contains("mean and 95 % interval") && text.contains("0.0798 ± 0.000198"), "{text}");
    let svg = ran.written("figures/goodput.svg");
    assert!(svg.contains(">dashed: plain TCP<") && svg.contains("plain TCP: 100 kbit/s ± 0 bit/s"), "{svg}");
    let points = ran.written("points.csv");
    let head = points.lines().next().unwrap();
    assert!(head.contains("difference_p,difference_p_adjusted,difference_g,paper"), "{head}");
}

#[test]
fn disturbed_runs_decide_nothing() {
    let all = goodput(&PretendLab::default());
    assert_eq!((all.judged(0).verdict.word(), all.judged(0).reasons.len()), ("confirmed", 0));
    let some = goodput(&PretendLab { disturb: Some("1-s_large_s2"), ..PretendLab::default() }).judged(0);
    let expected = ["1 of 12 runs are left out as disturbed, such as by: Phase before: two baselines differed by 30 %"];
    assert_eq!((some.verdict.word(), &some.reasons[..]), ("confirmed", &expected.map(String::from)[..]), "{some:?}");
    let most = goodput(&PretendLab { disturb: Some("_large_"), ..PretendLab::default() }).judged(0);
    assert_eq!((most.verdict.word(), most.counts.open), ("undecidable", 2));
    assert_eq!(most.reasons[0], "comparisons with fewer than two usable runs: 2 of 2", "{most:?}");
    assert!(most.text().contains("6 of 12 runs are left out as disturbed"), "{}", most.text());
}

#[test]
fn missing_runs_are_named() {
    let ran = goodput(&PretendLab::default());
    let few: Vec<_> = ran.folder.records(&ran.plan).unwrap().into_iter().filter(|(cell, _)| cell.seed == 1).collect();
    let judged = Results::new(&ran.plan, few).judge(ran.figure(0), &ran.figure(0).claims[0]);
    assert_eq!(judged.reasons, ["comparisons with fewer than two usable runs: 2 of 2", "8 of 12 runs are missing"]);
    let mut without = ran.folder.records(&ran.plan).unwrap();
    without.iter_mut().for_each(|(_, record)| record.numbers.narrowed.clear());
    let judged = Results::new(&ran.plan, without).judge(ran.figure(0), &ran.figure(0).claims[0]);
    assert_eq!(judged.reasons, ["comparisons with fewer than two usable runs: 2 of 2", "12 of 12 runs have no value"]);
}

#[test]
fn one_value_is_about_every_run() {
    let figure = "[[figure]]\nname = \"ratio\"\nmetric = \"delivery_ratio\"\nx = \"delay\"\nfixed = { store = \"large\" }\n\
        [[figure.paper]]\nvalues = [0.99, 0.5]\n\
        [[figure.claim]]\ntext = \"None is lost.\"\nrule = \"between\"\nrange = [0.4, 0.4]\nat = \"*\"\n\
        [[figure.claim]]\ntext = \"Little is lost.\"\nrule = \"between\"\nrange = [0.35, 1.0]\nat = \"1 s\"\n";
    let ran = Ran::of(figure, &PretendLab::default());
    assert_eq!(ran.judged(0).verdict.word(), "confirmed");
    let text = ran.results().text();
    assert!(text.contains("\n    1 s, paper            0.99\n    2 s, paper             0.5\n"), "{text}");
    let mut records = ran.folder.records(&ran.plan).unwrap();
    let seed = records.iter_mut().find(|(_, record)| record.seed == 3).unwrap();
    seed.1.numbers.metrics.insert("delivery_ratio".into(), Some(0.375));
    let results = Results::new(&ran.plan, records);
    let judged = results.judge(ran.figure(0), &ran.figure(0).claims[0]);
    let expected = "1 of 2 in favour, 1 against, 0 open: 1 s 0.392 ± 0.0359, wanted 0.4 in every run, \
                    1 of 3 runs is different, first 0.375 with seed 3";
    assert_eq!(judged.text(), expected);
    // The upper end is the limit of the metric, and needs no test.
    assert_eq!(results.judge(ran.figure(0), &ran.figure(0).claims[1]).verdict.word(), "confirmed");
}

#[test]
fn texts_name_bound_and_reason() {
    let skip = "[[skip]]\nstore = \"large\"\ndelay = \"2 s\"\n";
    let figure = "[[figure]]\nname = \"goodput\"\nmetric = \"goodput_received_bit_s\"\nx = \"delay\"\nseries = \"store\"\n\
        [[figure.claim]]\ntext = \"Half as fast again.\"\nrule = \"above\"\nmargin = 0.5\nat = \"1 s\"\n\
        [[figure.claim]]\ntext = \"Faster.\"\nrule = \"above\"\nat = \"2 s\"\n";
    let ran = Ran::of(&format!("{skip}{figure}"), &PretendLab::default());
    let results = ran.results();
    let text = |claim: usize| results.judge(ran.figure(0), &ran.figure(0).claims[claim]).text();
    assert!(
        text(0).contains("less small 2016 ± 19.8, g ") && text(0).contains(", wanted above 3992 (50 % of small), p "),
        "{}",
        text(0)
    );
    assert_eq!(text(1), "its points are left out by [[skip]]: delay 2 s, store large");
}

#[test]
fn empty_figure_has_reason() {
    let figures = "[[figure]]\nname = \"processors\"\nmetric = \"cpu_percent\"\nx = \"delay\"\n\
        [[figure]]\nname = \"trips\"\nmetric = \"rtt_median_s\"\nx = \"delay\"\n\
        [[figure.claim]]\ntext = \"Short.\"\nrule = \"between\"\nrange = [0.0, 1.0]\nat = \"1 s\"\n";
    let source = folder(&format!("{}{figures}", support::CAMPAIGN));
    let plan = plan(source.path()).unwrap();
    let out = CampaignFolder::create(&source.path().join("out"), &plan, &[], false, "test").unwrap();
    support::run(&plan, &out, 2, &support::Pretend::default()).unwrap();
    let results = Results::new(&plan, out.records(&plan).unwrap());
    let text = results.text();
    assert!(
        text.contains("\n  no run has `cpu_percent`: only the testbed measures it (`world = \"lab\"` in the figure)\n"),
        "{text}"
    );
    assert!(text.contains("\n  no run has `rtt_median_s`\n") && text.contains("open: 1 s no value; "), "{text}");
    assert!(results.html(&out).contains("<p>no run has `cpu_percent`: only the testbed"));
    assert!(!Results::new(&plan, Vec::new()).text().contains("no run has"));
}

#[test]
fn trend_lacks_only_its_ends() {
    let source = folder(support::CAMPAIGN);
    let plan = plan(source.path()).unwrap();
    let out = CampaignFolder::create(&source.path().join("out"), &plan, &[], false, "test").unwrap();
    support::run(&plan, &out, 2, &support::Pretend::default()).unwrap();
    let figure = &plan.campaign.figures[1];
    let reasons = |missing: &str| {
        let mut records = out.records(&plan).unwrap();
        records.retain(|(_, record)| record.values["delay"] != missing);
        Results::new(&plan, records).judge(figure, &figure.claims[0]).reasons
    };
    assert_eq!(reasons("2 s"), [""; 0], "nothing is compared there");
    assert_eq!(reasons("3 s"), ["comparisons with fewer than two usable runs: 1 of 1", "3 of 6 runs are missing"]);
}

#[test]
fn claim_of_one_series_lacks_no_other() {
    let figure = "[[figure]]\nname = \"trips\"\nmetric = \"rtt_median_s\"\nx = \"delay\"\nseries = \"store\"\n\
        [[figure.claim]]\ntext = \"It is short.\"\nrule = \"between\"\nrange = [0.0, 1.0]\nseries = \"large\"\n";
    let ran = Ran::of(figure, &PretendLab::default());
    let reasons = |missing: &str| {
        let mut records = ran.folder.records(&ran.plan).unwrap();
        records.retain(|(_, record)| record.values["store"] != missing);
        Results::new(&ran.plan, records).judge(ran.figure(0), &ran.figure(0).claims[0]).reasons.len()
    };
    assert_eq!([reasons("small"), reasons("large")], [0, 2]);
}

#[test]
fn mean_is_over_positions_of_both_series() {
    let skip = "[[skip]]\nstore = \"large\"\ndelay = \"2 s\"\n";
    let figure = "[[figure]]\nname = \"trips\"\nmetric = \"rtt_median_s\"\nx = \"delay\"\nseries = \"store\"\n\
        [[figure.claim]]\ntext = \"The store does not matter.\"\nrule = \"similar\"\nmargin = 0.01\n";
    // A delay of 2 s doubles the round trips, and stores change none.
    let judged = Ran::of(&format!("{skip}{figure}"), &PretendLab::default()).judged(0);
    assert_eq!((judged.verdict.word(), judged.counts.all()), ("confirmed", 1), "{judged:?}");
}

#[test]
fn correction_changes_verdict_of_many() {
    let claims = "[[figure]]\nname = \"goodput\"\nmetric = \"goodput_received_bit_s\"\nphase = \"load\"\nx = \"delay\"\nseries = \"store\"\n\
        [[figure.claim]]\ntext = \"Faster everywhere.\"\nrule = \"above\"\nat = \"*\"\n";
    let ran = Ran::of(claims, &PretendLab::default());
    let mut records = ran.folder.records(&ran.plan).unwrap();
    for (cell, record) in &mut records {
        // Differences of 2, 3 and 4: t is 3 sqrt(3), and p 0.0351.
        let is_large = record.values["store"] == "large";
        let more = if is_large { cell.seed as f64 + 1.0 } else { 0.0 };
        record.numbers.narrowed.insert("goodput_received_bit_s/load/".into(), 100.0 + more);
    }
    let results = Results::new(&ran.plan, records);
    let judged = results.judge(ran.figure(0), &ran.figure(0).claims[0]);
    assert_eq!((judged.verdict.word(), judged.uncorrected.verdict().word()), ("undecidable", "confirmed"));
    let text = judged.text();
    assert!(text.contains("p 0.0351 (0.0702 corrected)") && text.contains("g 3.39"), "{text}");
    assert!(text.ends_with("; without correction for 2 comparisons confirmed: 2 of 2 in favour"), "{text}");
    assert!(results.html(&ran.folder).contains("without correction for 2 comparisons confirmed"));
}

#[test]
fn findings_are_listed_by_point() {
    let ran = Ran::of(ECDF, &PretendLab { nagle: true, ..PretendLab::default() });
    let text = ran.results().text();
    let expected =
        "findings\n  delay 1 s, store small: 3 of 3 runs\n    Nagle's algorithm is suspected: 33.3 % of 60 round trips";
    assert!(text.contains(expected) && text.contains("no link was captured"), "{text}");
    let report = ran.written("report.html");
    assert!(report.contains("<h2>Findings</h2>") && report.contains("Nagle&#39;s algorithm is suspected"));
    let without = Ran::of(ECDF, &PretendLab::default());
    assert!(!without.results().text().contains("findings"));
}

#[test]
fn record_of_older_version_reads() {
    let ran = goodput(&PretendLab::default());
    let path = ran.folder.path().join("cells").join(&ran.records()[0].cell).join("cell.json");
    let mut json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for key in ["narrowed", "spreads", "samples", "findings"] {
        json.as_object_mut().unwrap().remove(key);
    }
    std::fs::write(&path, json.to_string()).unwrap();
    let record = &ran.records()[0];
    assert!(record.numbers.narrowed.is_empty() && record.numbers.metrics["baseline_bit_s"] == Some(100e3));
}
