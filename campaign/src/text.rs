//! Results as a text table, the form in which `expected.txt` keeps them.

use crate::details::{DetailTable, plain, plain_interval};
use crate::folder::CellRecord;
use crate::results::{Results, Spot};
use crate::types::{CellWorld, Figure, FigureShape};
use farlink_report::{Quantity, counted};
use std::fmt::Write;

/// Title of a figure's metric with its unit.
pub(crate) fn titled(figure: &Figure) -> String {
    let (title, unit) = (figure.measured.title(), figure.measured.metric.quantity.unit());
    if unit.is_empty() { title } else { format!("{title} ({unit})") }
}

/// Description of the numbers in a figure's tables, such as `mean and 95 % interval`.
pub(crate) fn numbers_text(figure: &Figure) -> String {
    let level = figure.level.word();
    match figure.shape {
        FigureShape::Ecdf => format!("quantiles of runs, and {level} interval of their medians"),
        FigureShape::Table => format!("mean and {level} interval, standard deviation, quartiles"),
        _ => format!("mean and {level} interval"),
    }
}

impl Results<'_> {
    /// Formats all figures with their claims: means with intervals, then paired differences with effect sizes.
    pub fn text(&self) -> String {
        let campaign = &self.plan.campaign;
        let (ended, all) = self.count();
        let seeds = campaign.seeds();
        let small = if campaign.small { ", small size" } else { "" };
        let mut out = format!(
            "{}{small}: {}, seeds {} to {}, {ended} of {}\n",
            campaign.name,
            counted(self.plan.configurations.len() as u64, "point"),
            seeds.first().copied().unwrap_or_default(),
            seeds.last().copied().unwrap_or_default(),
            counted(all as u64, "cell")
        );
        if !self.plan.left_out.is_empty() {
            let _ = writeln!(
                out,
                "left out, for they are not of world {}: {}",
                campaign.world.name(),
                self.plan.left_out.join(", ")
            );
        }
        for figure in &campaign.figures {
            let _ =
                writeln!(out, "\n{}: {}\n  {}, {}", figure.name, figure.title, titled(figure), numbers_text(figure));
            self.figure_text(&mut out, figure);
            for note in self.notes(figure) {
                let _ = writeln!(out, "  {note}");
            }
            for claim in &figure.claims {
                let judgement = self.judge(figure, claim);
                let _ = writeln!(out, "  {}: {}\n    {}", judgement.verdict.word(), claim.text, judgement.text());
            }
        }
        let findings = self.findings();
        if !findings.is_empty() {
            let _ = writeln!(out, "\nfindings");
        }
        for (point, finding) in findings {
            let _ = writeln!(out, "  {point}\n    {finding}");
        }
        out
    }

    /// Reasons why a figure shows nothing, or lacks its reference line, though there are runs.
    pub(crate) fn notes(&self, figure: &Figure) -> Vec<String> {
        let mut notes = Vec::new();
        for shown in figure.shown() {
            let name = shown.metric.name;
            let mut runs = self.figure_runs(figure).peekable();
            // Nothing is missing where nothing ran.
            if runs.peek().is_none() || runs.any(|run| run.numbers.has_value(shown)) {
                continue;
            }
            notes.push(match shown.metric.is_of_testbed() && self.plan.campaign.world == CellWorld::Sim {
                true => format!("no run has `{name}`: only the testbed measures it (`world = \"lab\"` in the figure)"),
                false => format!("no run has `{}`", shown.key()),
            });
        }
        notes.dedup();
        notes
    }

    /// Records of the runs at all points of a figure.
    fn figure_runs<'r>(&'r self, figure: &'r Figure) -> impl Iterator<Item = &'r CellRecord> {
        let facets = self.kept(figure.facet).into_iter();
        let spots = facets.flat_map(move |facet| self.rows(figure, facet).into_iter().map(|(spot, _)| spot));
        spots.flat_map(move |spot| self.runs(figure, spot).map(|(_, run)| run))
    }

    /// Findings about the runs of each point: the point with the number of its runs, and the first finding.
    pub(crate) fn findings(&self) -> Vec<(String, String)> {
        let mut found: Vec<(usize, usize, String)> = Vec::new();
        for (configuration, record) in self.records() {
            let Some(finding) = record.numbers.findings.first() else { continue };
            match found.last_mut().filter(|(known, ..)| *known == configuration) {
                Some((_, count, _)) => *count += 1,
                None => found.push((configuration, 1, finding.clone())),
            }
        }
        let named = |(configuration, count, finding): (usize, usize, String)| {
            let configuration = &self.plan.configurations[configuration];
            let point = match self.plan.campaign.point_text(&configuration.values) {
                point if point.is_empty() => configuration.scenario.display().to_string(),
                point => point,
            };
            (format!("{point}: {count} of {}", counted(self.plan.campaign.repetitions, "run")), finding)
        };
        found.into_iter().map(named).collect()
    }

    fn figure_text(&self, out: &mut String, figure: &Figure) {
        for facet in self.kept(figure.facet) {
            if figure.facet.is_some() {
                let _ = writeln!(out, "  {} {}", self.title(figure.facet), self.label(figure.facet, facet));
            }
            let means = self.means(figure, facet);
            // Figures without positions have their numbers in the details.
            if !means.rows.is_empty() {
                columns(out, &means);
            }
            if let Some(details) = self.details(figure, facet) {
                columns(out, &details);
            }
            if !figure.shape.has_positions() {
                self.papers_text(out, figure, facet);
            }
        }
    }

    /// Writes the values that papers give for a figure without positions.
    fn papers_text(&self, out: &mut String, figure: &Figure, facet: Option<usize>) {
        for (spot, label) in self.rows(figure, facet) {
            for (value, quantile) in self.papers(figure, spot) {
                let quantile = match figure.measured.metric.is_sample() {
                    true => format!("{} at most ", Quantity::Share.text(quantile)),
                    false => String::new(),
                };
                let value = plain(value, figure.measured.metric.quantity);
                let _ = writeln!(out, "    {label} in the paper: {quantile}{value}");
            }
        }
    }

    /// Table of means and differences of a facet by series and position, with the values that papers give.
    fn means(&self, figure: &Figure, facet: Option<usize>) -> DetailTable {
        let quantity = figure.measured.metric.quantity;
        let series = self.series(figure, facet);
        let mut head = vec![self.title(figure.x).to_string()];
        head.extend(series.iter().map(|one| self.label(figure.series, *one).to_string()));
        // A figure without series has one column, titled with the metric.
        if head.len() == 2 && head[1].is_empty() {
            head[1] = figure.measured.metric.title.to_string();
        }
        let against = self.label(figure.series, figure.series.map(|_| figure.against)).to_string();
        let mean =
            |spot: Spot| self.interval(figure, spot).map_or("-".into(), |found| plain_interval(&found, quantity));
        let less = |spot: Spot| {
            self.difference(figure, spot).map_or("-".into(), |found| {
                format!("{}{}", plain_interval(&found.interval, quantity), found.effect_text())
            })
        };
        let row = |label: String, x: Option<usize>, of: &dyn Fn(Spot) -> String| {
            std::iter::once(label).chain(series.iter().map(|one| of(Spot { x, series: *one, facet }))).collect()
        };
        let mut rows = Vec::new();
        if figure.shape.has_positions() {
            for x in self.places(figure) {
                rows.push(row(self.label(figure.x, x).into(), x, &mean));
            }
            let paper = |spot: Spot| self.paper(figure, spot).map_or("-".into(), |value| plain(value, quantity));
            let has_paper = |x: &Option<usize>| {
                series.iter().any(|series| self.paper(figure, Spot { x: *x, series: *series, facet }).is_some())
            };
            for x in self.places(figure).into_iter().filter(has_paper) {
                rows.push(row(format!("{}, paper", self.label(figure.x, x)), x, &paper));
            }
        }
        // Without a second series there is nothing to compare.
        if series.len() > 1 {
            for x in self.places(figure) {
                let less_than = match figure.measured.metric.is_sample() {
                    true => format!("median less {against}"),
                    false => format!("less {against}"),
                };
                let label = match self.label(figure.x, x) {
                    "" => less_than,
                    place => format!("{place}, {less_than}"),
                };
                rows.push(row(label, x, &less));
            }
        }
        DetailTable { head, rows }
    }

    /// Series that have a point in a facet.
    pub(crate) fn series(&self, figure: &Figure, facet: Option<usize>) -> Vec<Option<usize>> {
        let xs = self.kept(figure.x);
        let drawn =
            |series: &Option<usize>| xs.iter().any(|x| self.has(figure, Spot { x: *x, series: *series, facet }));
        self.kept(figure.series).into_iter().filter(drawn).collect()
    }
}

/// Writes a table in columns: the first aligned left, the others right.
fn columns(out: &mut String, table: &DetailTable) {
    let lines = || std::iter::once(&table.head).chain(&table.rows);
    let width =
        |column: usize| lines().filter_map(|line| line.get(column)).map(|c| c.chars().count()).max().unwrap_or(0);
    // Widths count characters, so that signs such as ± align.
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    for line in lines() {
        let mut text = String::from("   ");
        for (column, cell) in line.iter().enumerate() {
            let wide = widths[column];
            let _ = if column == 0 { write!(text, " {cell:<wide$}") } else { write!(text, "  {cell:>wide$}") };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
}
