//! Results as a text table, as checked in in `expected.txt`.

use crate::results::{Results, Spot};
use crate::types::Figure;
use farlink_report::Quantity;
use farlink_report::plot::Estimate;
use std::fmt::Write;

/// Formats an estimate without unit, because the title holds it.
fn number(estimate: Estimate, quantity: Quantity) -> String {
    estimate.text(if quantity == Quantity::Count { Quantity::Count } else { Quantity::Ratio })
}

/// Title of a metric with its unit.
pub(crate) fn titled(figure: &Figure) -> String {
    let unit = figure.metric.quantity.unit();
    if unit.is_empty() { figure.metric.title.to_string() } else { format!("{} ({unit})", figure.metric.title) }
}

impl Results<'_> {
    /// Formats all figures with their claims: means with 95 % intervals, then paired differences.
    pub fn text(&self) -> String {
        let campaign = &self.plan.campaign;
        let (ended, all) = self.count();
        let seeds = campaign.seeds();
        let small = if campaign.small { ", small size" } else { "" };
        let mut out = format!(
            "{}{small}: {} points, seeds {} to {}, {ended} of {all} cells\n",
            campaign.name,
            self.plan.configurations.len(),
            seeds.first().copied().unwrap_or_default(),
            seeds.last().copied().unwrap_or_default()
        );
        for figure in &campaign.figures {
            let _ = writeln!(out, "\n{}: {}\n  {}, mean and 95 % interval", figure.name, figure.title, titled(figure));
            self.figure_text(&mut out, figure);
            for claim in &figure.claims {
                let judgement = self.judge(figure, claim);
                let _ = writeln!(out, "  {}: {}\n    {}", judgement.verdict.word(), claim.text, judgement.text());
            }
        }
        out
    }

    fn figure_text(&self, out: &mut String, figure: &Figure) {
        let quantity = figure.metric.quantity;
        for facet in self.kept(figure.facet) {
            let series = self.series(figure, facet);
            let mut lines = Vec::new();
            let mut head = vec![self.title(Some(figure.x)).to_string()];
            head.extend(series.iter().map(|one| self.label(figure.series, *one).to_string()));
            // A figure without series has one column, titled with the metric.
            if head.len() == 2 && head[1].is_empty() {
                head[1] = figure.metric.title.to_string();
            }
            lines.push(head);
            let against = self.label(figure.series, figure.series.map(|_| figure.against)).to_string();
            for less in [false, true] {
                // Without a second series there is nothing to compare.
                if less && series.len() < 2 {
                    continue;
                }
                for x in self.places(figure) {
                    let what = self.label(Some(figure.x), Some(x));
                    let mut line = vec![if less { format!("{what}, less {against}") } else { what.to_string() }];
                    line.extend(series.iter().map(|one| {
                        let spot = Spot { x, series: *one, facet };
                        let found = if less { self.difference(figure, spot) } else { self.interval(figure, spot) };
                        found.map_or("-".into(), |found| number(found.estimate(), quantity))
                    }));
                    lines.push(line);
                }
            }
            if figure.facet.is_some() {
                let _ = writeln!(out, "  {} {}", self.title(figure.facet), self.label(figure.facet, facet));
            }
            columns(out, &lines);
        }
    }

    /// Series that have a point in a facet.
    pub(crate) fn series(&self, figure: &Figure, facet: Option<usize>) -> Vec<Option<usize>> {
        let xs = self.kept(Some(figure.x));
        let drawn = |series: &Option<usize>| {
            xs.iter().flatten().any(|x| self.has(figure, Spot { x: *x, series: *series, facet }))
        };
        self.kept(figure.series).into_iter().filter(drawn).collect()
    }
}

/// Writes lines in columns: the first aligned left, the others right.
fn columns(out: &mut String, lines: &[Vec<String>]) {
    let count = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|c| c.chars().count()).max().unwrap_or(0);
    // Widths count characters, so that signs such as ± align.
    let widths: Vec<usize> = (0..count).map(width).collect();
    for line in lines {
        let mut text = String::from("   ");
        for (column, cell) in line.iter().enumerate() {
            let wide = widths[column];
            let _ = if column == 0 { write!(text, " {cell:<wide$}") } else { write!(text, "  {cell:>wide$}") };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
}
