//! `farlink bench suite --against`: every row measured with two versions of `farlink`, run alternately.

use super::rows::{BenchRow, RowFigures};
use super::stats::Runs;
use serde_json::{Value, json};

/// Difference tolerated beyond the spread of the runs, as a fraction.
const MARGIN: f64 = 0.05;

/// One figure of a row, measured with both programs.
struct Compared {
    ours: Runs,
    theirs: Runs,
    more_is_better: bool,
}
impl Compared {
    fn new(
        ours: &[RowFigures],
        theirs: &[RowFigures],
        more_is_better: bool,
        of: impl Fn(&RowFigures) -> f64,
    ) -> Compared {
        Compared { ours: Runs::new(ours.iter().map(&of)), theirs: Runs::new(theirs.iter().map(&of)), more_is_better }
    }
    /// Relative difference of the medians: 0.1 if ours is 10 % larger.
    fn difference(&self) -> f64 {
        self.ours.median / self.theirs.median - 1.0
    }
    /// Wider spread of the two programs' runs, as a fraction of the median.
    fn spread(&self) -> f64 {
        self.ours.spread().max(self.theirs.spread())
    }
    /// Whether ours is worse by more than the spread and the margin together.
    fn worse(&self) -> bool {
        let worse = if self.more_is_better { -self.difference() } else { self.difference() };
        worse > self.spread() + MARGIN
    }
    fn text(&self, digits: usize) -> String {
        let (ours, theirs) = (self.ours.text(digits), self.theirs.text(digits));
        let percent = |part: f64| part * 100.0;
        let verdict = if self.worse() { "WORSE" } else { "no worse" };
        let (difference, spread) = (percent(self.difference()), percent(self.spread()));
        format!("{theirs} -> {ours}: {difference:+.1} %, spread {spread:.1} %: {verdict}")
    }
    fn json(&self) -> Value {
        json!({ "ours": self.ours.median, "theirs": self.theirs.median, "difference": self.difference(),
            "spread": self.spread(), "worse": self.worse() })
    }
}

/// Compares the runs of a row. Returns the comparison as text and as JSON, and whether cost or speed is worse.
pub fn compare(row: &BenchRow, ours: &[Value], theirs: &[Value]) -> (String, Value, bool) {
    let figures = |runs: &[Value]| runs.iter().map(|run| row.figures(run)).collect::<Vec<RowFigures>>();
    let (mine, other) = (figures(ours), figures(theirs));
    // Index 0 is the node's figure; index 1 is the baseline's, which does not depend on the programs.
    let cost = Compared::new(&mine, &other, false, |figures| figures.cost[0]);
    let unit = row.unit();
    let speed = Compared::new(&mine, &other, unit.more_is_better, |figures| figures.speed[0]);
    let (title, name) = (row.title(), unit.name);
    let text = format!("{title}\n  cost, s/GB: {}\n  {name}: {}", cost.text(2), speed.text(unit.digits));
    let worse = cost.worse() || speed.worse();
    let json = json!({ "name": row.name, "bundles_of": row.size, "cost_s_per_gb": cost.json(), "speed": speed.json(),
        "unit": unit.name, "more_is_better": unit.more_is_better, "ours": ours, "theirs": theirs });
    (text, json, worse)
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;

    fn runs(costs: [f64; 3]) -> Vec<Value> {
        costs.iter().map(|cost| json!({ "cpu_s_per_gb": cost, "goodput_bit_s": 1e9 / cost })).collect()
    }

    #[test]
    fn worse_means_beyond_spread_and_margin() {
        // 1.08 is 8 % worse: the spread of 4 % and the margin of 5 % cover it.
        let before = runs([1.0, 0.98, 1.02]);
        assert!(!compare(&ROWS[0], &runs([1.08, 1.07, 1.09]), &before).2, "8 % is 4 % of spread and less than 5 more");
        assert!(compare(&ROWS[0], &runs([1.2, 1.19, 1.21]), &before).2);
        assert!(!compare(&ROWS[0], &runs([0.5, 0.5, 0.5]), &before).2, "better is not worse");
        let (text, json, _) = compare(&ROWS[0], &runs([1.2, 1.2, 1.2]), &before);
        assert!(text.contains("+20.0 %, spread 4.0 %: WORSE"), "{text}");
        assert_eq!((&json["cost_s_per_gb"]["worse"], &json["speed"]["worse"]), (&json!(true), &json!(true)));
    }
}
