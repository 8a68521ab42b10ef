//! Results as an HTML page, and as files in the campaign's folder.

use crate::details::DetailTable;
use crate::folder::CampaignFolder;
use crate::judgement::ClaimVerdict;
use crate::numbers::ConfidenceLevel;
use crate::results::{Results, Spot};
use crate::text::{numbers_text, titled};
use crate::types::{CellWorld, Figure};
use anyhow::{Context, Result};
use farlink_report::{counted, escape, shell};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

// Width in px of a plot that is drawn once more for narrow screens: the wide plot would shrink there together with its
// text.
const NARROW: f64 = 360.0;

impl Results<'_> {
    /// Writes all results to the campaign's folder: `report.html`, `results.txt`, the tables `cells` and `points` as
    /// Parquet and CSV, and `figures/`. Returns the path of the report.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, folder: &CampaignFolder) -> Result<PathBuf> {
        let path = folder.path();
        let write = |name: &str, text: &str| {
            let file = path.join(name);
            crate::folder::whole(&file, text).map(|()| file)
        };
        for (name, sheet) in [("cells", self.cells()), ("points", self.points())] {
            write(&format!("{name}.csv"), &sheet.csv())?;
            sheet.write_parquet(&path.join(format!("{name}.parquet")))?;
        }
        write("results.txt", &self.text())?;
        let figures = path.join("figures");
        fs::create_dir_all(&figures).with_context(|| format!("cannot make {}", figures.display()))?;
        let mut names = BTreeSet::new();
        for figure in &self.plan.campaign.figures {
            for (facet, plot) in self.plots(figure) {
                let (title, name) = match facet.is_empty() {
                    true => (figure.title.clone(), figure.name.clone()),
                    false => (format!("{}: {facet}", figure.title), format!("{}_{}", figure.name, file_name(&facet))),
                };
                let name = free_name(&mut names, name);
                write(&format!("figures/{name}.svg"), &plot.file(&title, 640.0, 320.0))?;
                write(&format!("figures/{name}.pdf"), &plot.pdf(&title, 640.0, 320.0))?;
            }
        }
        write("report.html", &self.html(folder))
    }

    /// Renders the report as one HTML document.
    pub fn html(&self, folder: &CampaignFolder) -> String {
        let campaign = &self.plan.campaign;
        let mut out = format!("<header><h1>{}</h1>", escape(&campaign.name));
        if !campaign.description.is_empty() {
            let _ = write!(out, "<p class=\"lead\">{}</p>", escape(&campaign.description));
        }
        let (ended, all) = self.count();
        let small = if campaign.small { "<li><b>the small size</b>: for a first look</li>" } else { "" };
        let left_out = match self.plan.left_out.join(", ") {
            names if names.is_empty() => names,
            names => format!("<li>left out, for they are of the other world: {}</li>", escape(&names)),
        };
        let _ = write!(
            out,
            "<ul class=\"facts\"><li><b>{ended}</b> of {}</li><li>{}, {} each</li>{small}\
             <li>world: {}</li>{left_out}</ul></header>\n<main>\n",
            counted(all as u64, "run"),
            counted(self.plan.configurations.len() as u64, "point"),
            counted(campaign.repetitions, "seed"),
            campaign.world.name()
        );
        self.claims(&mut out);
        self.findings_section(&mut out);
        for figure in &campaign.figures {
            self.figure(&mut out, figure);
        }
        let levels: Vec<&str> = ConfidenceLevel::ALL
            .into_iter()
            .filter(|level| campaign.figures.iter().any(|figure| figure.level == *level))
            .map(ConfidenceLevel::word)
            .collect();
        let _ = writeln!(
            out,
            "<section><h2>How it was made</h2><p>Intervals are {} (Student's t over seeds). Mobility, traffic and losses \
             follow from the seed alone{}: differences are taken seed by seed. Beside each stands Hedges' g: the difference in units of the standard deviation of runs.</p>\
             <p>A claim is a set of comparisons, each decided by such an interval, with Holm's correction for their number: \
             however many there are, all are right with the confidence of one interval. Equal runs decide where there are \
             three (at 99 % four); a claim about one value is about every run. It is confirmed when all are \
             decided in its favour, contradicted when one is decided against it, and undecidable otherwise. Disturbed runs \
             are drawn, and decide nothing.</p>\
             <pre>farlink campaign run {}{}</pre></section></main>",
            levels.join(" or "),
            match campaign.world {
                CellWorld::Sim => ", so runs of one seed differ in nothing but what is compared",
                CellWorld::Lab => "; times, processors and the emulator do not",
            },
            escape(&match campaign.folder.as_os_str().is_empty() {
                true => ".".into(),
                false => campaign.folder.display().to_string(),
            }),
            escape(&campaign.asked)
        );
        shell(&campaign.name, &out, &format!("<code>{}</code>.", escape(&folder.path().display().to_string())))
    }

    fn claims(&self, out: &mut String) {
        let figures = &self.plan.campaign.figures;
        if figures.iter().all(|figure| figure.claims.is_empty()) {
            return;
        }
        // Every claim is judged once for the counts and again for its row, which is cheap.
        let judged =
            |figure: &Figure| figure.claims.iter().map(|claim| self.judge(figure, claim).verdict).collect::<Vec<_>>();
        let verdicts: Vec<ClaimVerdict> = figures.iter().flat_map(judged).collect();
        let count = |wanted: ClaimVerdict| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        let _ = write!(
            out,
            "<section><h2>Claims and verdicts</h2><p class=\"caption\">{} confirmed, {} contradicted, {} undecidable.</p>",
            counted(count(ClaimVerdict::Confirmed) as u64, "claim"),
            count(ClaimVerdict::Contradicted),
            count(ClaimVerdict::Undecidable)
        );
        out.push_str("<div class=\"scroll\"><table><thead><tr><th>figure</th><th class=\"claim\">claim</th><th>verdict</th></tr></thead><tbody>");
        for figure in figures {
            for claim in &figure.claims {
                let word = self.judge(figure, claim).verdict.word();
                let (name, text) = (escape(&figure.name), escape(&claim.text));
                let _ = write!(
                    out,
                    "<tr><td><a href=\"#{name}\">{name}</a></td><td class=\"claim\">{text}</td><td class=\"verdict {word}\">{word}</td></tr>"
                );
            }
        }
        out.push_str("</tbody></table></div></section>\n");
    }

    fn findings_section(&self, out: &mut String) {
        let findings = self.findings();
        if findings.is_empty() {
            return;
        }
        out.push_str("<section><h2>Findings</h2><ul class=\"findings\">");
        for (point, finding) in findings {
            let _ = write!(out, "<li class=\"note\"><b>{}</b>: {}</li>", escape(&point), escape(&finding));
        }
        out.push_str("</ul></section>\n");
    }

    fn figure(&self, out: &mut String, figure: &Figure) {
        let name = escape(&figure.name);
        let title =
            if figure.title == figure.name { name.clone() } else { format!("{name}: {}", escape(&figure.title)) };
        let _ = write!(out, "<section id=\"{name}\"><h2>{title}</h2>");
        let fixed = self.plan.campaign.point_text(&figure.fixed);
        let scenario = escape(&figure.scenario.display().to_string());
        let _ = write!(out, "<p class=\"caption\">{}, {}; {scenario}", escape(&titled(figure)), numbers_text(figure));
        let _ = if fixed.is_empty() { write!(out, "</p>") } else { write!(out, "; {}</p>", escape(&fixed)) };
        let plots = self.plots(figure);
        // One legend serves all facets, so it comes from the facet with most series.
        let legend = plots.iter().max_by_key(|(_, plot)| plot.entries().len());
        if let Some((_, plot)) = legend.filter(|(_, plot)| plot.entries().len() > 1 || !plot.note().is_empty()) {
            out.push_str(&plot.legend());
        }
        // Two facets fit side by side on a wide page.
        let wide = if plots.len() > 1 { 500.0 } else { 1000.0 };
        out.push_str("<div class=\"runs\">");
        for (facet, plot) in &plots {
            let [wide, narrow] = [wide, NARROW].map(|width| plot.draw(width, 280.0));
            let facet = escape(facet);
            let _ = write!(
                out,
                "<div><h3>{facet}</h3><div class=\"wide\">{wide}</div><div class=\"narrow\">{narrow}</div></div>"
            );
        }
        out.push_str("</div>");
        for note in self.notes(figure) {
            let _ = write!(out, "<p>{}.</p>", escape(&note));
        }
        let facets = self.kept(figure.facet);
        let shows_table = plots.is_empty();
        if shows_table {
            facets.iter().for_each(|facet| self.details_table(out, figure, *facet));
        }
        for claim in &figure.claims {
            let judgement = self.judge(figure, claim);
            let word = judgement.verdict.word();
            let _ = write!(
                out,
                "<p>Claim: {}<br><span class=\"verdict {word}\">{word}</span>, {}.</p>",
                escape(&claim.text),
                escape(&judgement.full_text())
            );
        }
        out.push_str("<details><summary>The same as a table</summary>");
        for facet in facets {
            self.table(out, figure, facet);
            if !shows_table {
                self.details_table(out, figure, facet);
            }
        }
        out.push_str("</details></section>\n");
    }

    fn details_table(&self, out: &mut String, figure: &Figure, facet: Option<usize>) {
        let Some(DetailTable { head, rows }) = self.details(figure, facet) else { return };
        let _ = write!(out, "<h3>{}</h3>", escape(self.label(figure.facet, facet)));
        out.push_str("<div class=\"scroll\"><table><thead><tr>");
        out.extend(head.iter().map(|cell| format!("<th>{}</th>", escape(cell))));
        out.push_str("</tr></thead><tbody>");
        for row in rows {
            let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            let _ = write!(out, "<tr>{cells}</tr>");
        }
        out.push_str("</tbody></table></div>");
    }

    fn table(&self, out: &mut String, figure: &Figure, facet: Option<usize>) {
        let quantity = figure.measured.metric.quantity;
        let series = self.series(figure, facet);
        let (name, x_title) = (self.label(figure.facet, facet), self.title(figure.x));
        let _ = write!(out, "<div class=\"scroll\"><table><thead><tr><th>{} {}</th>", escape(name), escape(x_title));
        for one in &series {
            let label = match self.label(figure.series, *one) {
                "" => figure.measured.metric.title,
                label => label,
            };
            let _ = write!(out, "<th>{}</th>", escape(label));
        }
        out.push_str("</tr></thead><tbody>");
        for x in self.places(figure) {
            let _ = write!(out, "<tr><td>{}</td>", escape(self.label(figure.x, x)));
            for one in &series {
                let spot = Spot { x, series: *one, facet };
                let mean = self.interval(figure, spot).map_or("-".into(), |found| found.estimate().text(quantity));
                let less = self.difference(figure, spot).map_or(String::new(), |found| {
                    format!(
                        "<br><span class=\"caption\">less {}: {}{}</span>",
                        escape(self.label(figure.series, Some(figure.against))),
                        escape(&found.interval.estimate().text(quantity)),
                        found.effect_text()
                    )
                });
                let paper = self.paper(figure, spot).map_or(String::new(), |paper| {
                    format!("<br><span class=\"caption\">paper: {}</span>", quantity.text(paper))
                });
                let _ = write!(out, "<td>{}{less}{paper}</td>", escape(&mean));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>");
    }
}

/// Makes a file name differ from those in `names`, and adds it: two labels may give the same one.
fn free_name(names: &mut BTreeSet<String>, name: String) -> String {
    let others = (2..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.clone()).chain(others).find(|name| names.insert(name.clone()));
    free.unwrap_or(name)
}

/// Turns a label into a part of a file name.
fn file_name(label: &str) -> String {
    label.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.') { c } else { '-' }).collect()
}
