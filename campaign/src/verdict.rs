//! The rule that judges claims.
//!
//! A claim is a set of comparisons, each of paired differences between runs with the same seed (for `between`, of
//! values). A comparison is tested by Student's t, and its p-value adjusted for the number of comparisons of the claim
//! (Holm). At a p-value of at most 5 % (1 % in a figure with intervals of 99 %) it is decided: in favour if the mean is
//! on the claim's side, against if it is on the other. Otherwise, or with fewer than two seeds, it is open. The claim
//! is **confirmed** if all its comparisons are in favour, **contradicted** if one is against, and **undecidable**
//! otherwise. Disturbed runs decide nothing.

use crate::details::plain_interval;
use crate::judgement::{ClaimCounts, Judgement};
use crate::numbers::{Interval, holm};
use crate::results::{Difference, Results, Spot};
use crate::types::{Claim, ClaimPositions, ClaimRule, Figure};
use farlink_report::Quantity;
use std::collections::{BTreeMap, BTreeSet};

/// Range in which the mean of a comparison must lie.
#[derive(Clone, Copy, PartialEq, Debug)]
struct WantedRange {
    least: f64,
    most: f64,
    /// Whether the ends belong to the range.
    closed: bool,
}

impl WantedRange {
    const ABOVE: WantedRange = WantedRange { least: 0.0, most: f64::INFINITY, closed: false };
    const BELOW: WantedRange = WantedRange { least: f64::NEG_INFINITY, most: 0.0, closed: false };

    /// Range of a series' difference from a reference with this mean; margins are fractions of it.
    fn of(rule: ClaimRule, mean: f64) -> WantedRange {
        let mean = mean.abs();
        match rule {
            ClaimRule::Below(margin) => WantedRange { most: -mean * margin, ..WantedRange::BELOW },
            ClaimRule::Similar(margin) => WantedRange { least: -mean * margin, most: mean * margin, closed: true },
            ClaimRule::Above(margin) => WantedRange { least: mean * margin, ..WantedRange::ABOVE },
            _ => WantedRange::ABOVE,
        }
    }

    fn holds(self, mean: f64) -> bool {
        match self.closed {
            true => (self.least..=self.most).contains(&mean),
            false => self.least < mean && mean < self.most,
        }
    }

    /// Two-sided p-value of the decision whether the mean lies in the range; `None` with fewer than two values.
    fn chance(self, interval: &Interval) -> Option<f64> {
        let inside = self.holds(interval.mean);
        // Equal values leave no doubt, even on an end that belongs to the range.
        if inside && interval.deviation? == 0.0 {
            return Some(0.0);
        }
        // For a mean inside the range, the test must exclude both ends; for a mean outside, only the end next to it.
        let ends = match (inside, interval.mean <= self.least) {
            (true, _) => [self.least, self.most],
            (false, true) => [self.least; 2],
            (false, false) => [self.most; 2],
        };
        let mut chances = ends.into_iter().filter(|end| end.is_finite()).map(|end| interval.chance_of(end));
        chances.try_fold(0.0, |most: f64, p| Some(most.max(p?)))
    }
}

/// One comparison of a claim, before its decision.
struct ClaimComparison {
    wanted: WantedRange,
    /// Mean with its interval and effect size; `None` without runs.
    difference: Option<Difference>,
    /// Facet, position and series that are compared, in words.
    what: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ComparisonSide {
    Favour,
    Against,
    Open,
}

impl ClaimComparison {
    fn chance(&self) -> Option<f64> {
        self.wanted.chance(&self.difference?.interval)
    }
    /// Decision of the comparison: open if the p-value `chance` is unknown or exceeds `error`.
    fn side(&self, chance: Option<f64>, error: f64) -> ComparisonSide {
        match (self.difference, chance) {
            (Some(found), Some(chance)) if chance <= error => match self.wanted.holds(found.interval.mean) {
                true => ComparisonSide::Favour,
                false => ComparisonSide::Against,
            },
            _ => ComparisonSide::Open,
        }
    }
    /// The comparison in words, with its adjusted p-value where there are several.
    fn text(&self, figure: &Figure, adjusted: Option<f64>) -> String {
        let Some(found) = self.difference else { return format!("{} no runs", self.what) };
        let plain = |value: f64| Quantity::Ratio.text(value);
        let chance = self.chance().map_or(String::new(), |p| match adjusted {
            Some(adjusted) => format!(", p {} ({} corrected)", plain(p), plain(adjusted)),
            None => format!(", p {}", plain(p)),
        });
        let number = plain_interval(&found.interval, figure.measured.metric.quantity);
        format!("{} {number}{}{chance}", self.what, found.effect_text())
    }
}

impl Results<'_> {
    /// Judges a claim about a figure.
    pub fn judge(&self, figure: &Figure, claim: &Claim) -> Judgement {
        let comparisons = self.comparisons(figure, claim);
        let (error, chances) = (figure.level.error(), comparisons.iter().map(ClaimComparison::chance));
        let known: Vec<f64> = chances.clone().flatten().collect();
        let mut adjusted = holm(&known).into_iter();
        let adjusted: Vec<Option<f64>> = chances.clone().map(|p| p.and_then(|_| adjusted.next())).collect();
        let count = |chances: &mut dyn Iterator<Item = Option<f64>>| {
            let mut counts = [0, 0, 0];
            comparisons.iter().zip(chances).for_each(|(one, p)| counts[one.side(p, error) as usize] += 1);
            let [favour, against, open] = counts;
            ClaimCounts { favour, against, open }
        };
        let counts = count(&mut adjusted.iter().copied());
        let uncorrected = count(&mut chances.clone());
        let wanted = if counts.against > 0 { ComparisonSide::Against } else { ComparisonSide::Open };
        let worst = comparisons.iter().zip(&adjusted).find(|(one, p)| one.side(**p, error) == wanted);
        let several = known.len() > 1;
        let worst = worst.map_or(String::new(), |(one, p)| one.text(figure, p.filter(|_| several)));
        let mut reasons = Vec::new();
        let few = chances.filter(Option::is_none).count();
        if few > 0 {
            reasons.push(format!("{few} of {} comparisons have fewer than two runs", comparisons.len()));
        }
        reasons.extend(self.lacks(figure, claim));
        Judgement { verdict: counts.verdict(), counts, uncorrected, worst, reasons }
    }

    /// Runs that a claim lacks, in words: disturbed, missing, and without a value.
    fn lacks(&self, figure: &Figure, claim: &Claim) -> Vec<String> {
        let mut series = claim.series.clone();
        series.extend(claim.than.iter().filter(|_| claim.rule.compares_series()));
        let (mut all, mut missing, mut absent) = (0, 0, 0);
        let mut disturbed: BTreeMap<&str, &str> = BTreeMap::new();
        let mut points = BTreeSet::new();
        for spot in self.spots(figure, claim, &series) {
            // Figures may show one point at several places.
            if !points.insert(self.plan.at(figure, spot.x, spot.series, spot.facet)) {
                continue;
            }
            let seeds = self.plan.campaign.repetitions as usize;
            let runs: Vec<_> = self.runs(figure, spot).collect();
            (all, missing) = (all + seeds, missing + seeds - runs.len());
            for (_, run) in runs {
                match run.disturbances.first() {
                    Some(why) => drop(disturbed.insert(&run.cell, why)),
                    None => absent += usize::from(run.numbers.value(&figure.measured, claim.quantile).is_none()),
                }
            }
        }
        let mut reasons = Vec::new();
        if let Some(why) = disturbed.values().next() {
            let why = why.trim_end_matches('.');
            reasons.push(format!("{} of {all} runs are left out as disturbed, such as by: {why}", disturbed.len()));
        }
        if missing > 0 {
            reasons.push(format!("{missing} of {all} runs are missing"));
        }
        if absent > 0 {
            reasons.push(format!("{absent} of {all} runs have no value"));
        }
        reasons
    }

    /// Positions that a claim is about.
    fn positions(&self, figure: &Figure, claim: &Claim) -> Vec<Option<usize>> {
        let mut xs = self.places(figure);
        match (&claim.at, claim.rule) {
            // Trends compare the ends only.
            (_, ClaimRule::Rises | ClaimRule::Falls) if xs.len() > 2 => drop(xs.drain(1..xs.len() - 1)),
            (ClaimPositions::Mean, _) => {}
            (ClaimPositions::Each(each), _) => xs.retain(|x| x.is_some_and(|x| each.contains(&x))),
        }
        xs
    }

    /// Points of these series that a claim is about.
    fn spots(&self, figure: &Figure, claim: &Claim, series: &[usize]) -> Vec<Spot> {
        let xs = self.positions(figure, claim);
        let mut spots = Vec::new();
        for facet in self.kept(figure.facet).into_iter().filter(|facet| claim.facets.contains(&facet.unwrap_or(0))) {
            for series in self.kept(figure.series).into_iter().filter(|one| series.contains(&one.unwrap_or(0))) {
                let here = xs.iter().map(|x| Spot { x: *x, series, facet });
                spots.extend(here.filter(|spot| self.has(figure, *spot)));
            }
        }
        spots
    }

    fn comparisons(&self, figure: &Figure, claim: &Claim) -> Vec<ClaimComparison> {
        let xs = self.positions(figure, claim);
        let places: Vec<Vec<Option<usize>>> = match (&claim.at, claim.rule) {
            (_, ClaimRule::Rises | ClaimRule::Falls) => vec![Vec::new()],
            (ClaimPositions::Mean, _) => vec![xs.clone()],
            (ClaimPositions::Each(_), _) => xs.iter().map(|x| vec![*x]).collect(),
        };
        let mut found = Vec::new();
        for facet in self.kept(figure.facet).into_iter().filter(|facet| claim.facets.contains(&facet.unwrap_or(0))) {
            for series in self.kept(figure.series).into_iter().filter(|one| claim.series.contains(&one.unwrap_or(0))) {
                for place in &places {
                    found.extend(self.compare(figure, claim, SeriesSpan { series, facet, xs: place }, &xs));
                }
            }
        }
        found
    }

    /// Comparisons of one series at one position.
    fn compare(
        &self,
        figure: &Figure,
        claim: &Claim,
        here: SeriesSpan<'_>,
        xs: &[Option<usize>],
    ) -> Vec<ClaimComparison> {
        let level = figure.level;
        let at = |span: SeriesSpan<'_>| self.at(figure, claim, span);
        let comparison = |what: &str, difference: Option<Difference>, wanted| ClaimComparison {
            wanted,
            difference,
            what: self.told(figure, claim, here, what),
        };
        match claim.rule {
            ClaimRule::Above(_) | ClaimRule::Below(_) | ClaimRule::Similar(_) => {
                let than = self
                    .kept(figure.series)
                    .into_iter()
                    .filter(|one| *one != here.series && one.is_some_and(|one| claim.than.contains(&one)));
                let one = |than: Option<usize>| {
                    // Only positions that both series have: means over different positions cannot be compared.
                    let has = |x: Option<usize>, series| self.has(figure, Spot { x, series, facet: here.facet });
                    let both = |x: &&Option<usize>| has(**x, here.series) && has(**x, than);
                    let shared: Vec<Option<usize>> = here.xs.iter().filter(both).copied().collect();
                    let of = |series| at(SeriesSpan { series, facet: here.facet, xs: &shared });
                    let (mine, theirs) = (of(here.series)?, of(than)?);
                    let reference = Interval::of(&theirs.values().copied().collect::<Vec<_>>());
                    let wanted = WantedRange::of(claim.rule, reference.map_or(0.0, |reference| reference.mean));
                    let less = format!("less {}", self.label(figure.series, than));
                    Some(comparison(&less, Difference::of(&mine, &theirs, level), wanted))
                };
                than.filter_map(one).collect()
            }
            ClaimRule::Rises | ClaimRule::Falls => {
                let (Some(first), Some(last)) = (xs.first(), xs.last()) else { return Vec::new() };
                let of = |x: &Option<usize>| at(SeriesSpan { xs: std::slice::from_ref(x), ..here });
                let (Some(before), Some(after)) = (of(first), of(last)) else { return Vec::new() };
                // A single position has no trend.
                if first == last {
                    return Vec::new();
                }
                let falls = claim.rule == ClaimRule::Falls;
                let wanted = if falls { WantedRange::BELOW } else { WantedRange::ABOVE };
                vec![comparison("last less first", Difference::of(&after, &before, level), wanted)]
            }
            ClaimRule::Between(least, most) => {
                let Some(values) = at(here) else { return Vec::new() };
                let interval = Interval::at(&values.into_values().collect::<Vec<_>>(), level);
                let wanted = WantedRange { least, most, closed: true };
                let difference = interval.map(|interval| Difference { interval, effect: None });
                vec![comparison("", difference, wanted)]
            }
        }
    }

    /// Metric of undisturbed runs by seed, as the mean over these positions of the horizontal axis; `None` if this size
    /// contains none of them.
    fn at(&self, figure: &Figure, claim: &Claim, place: SeriesSpan<'_>) -> Option<BTreeMap<u64, f64>> {
        let spots: Vec<Spot> =
            place.xs.iter().map(|x| Spot { x: *x, series: place.series, facet: place.facet }).collect();
        // Positions left out by this size or by `skip` do not count.
        let spots: Vec<Spot> = spots.into_iter().filter(|spot| self.has(figure, *spot)).collect();
        let values = |spot: &Spot| -> BTreeMap<u64, f64> {
            let runs = self.runs(figure, *spot).filter(|(_, run)| run.disturbances.is_empty());
            runs.filter_map(|(seed, run)| Some((seed, run.numbers.value(&figure.measured, claim.quantile)?))).collect()
        };
        let (first, others) = spots.split_first()?;
        let mut sums = values(first);
        for spot in others {
            let values = values(spot);
            // A seed that lacks a value at any position has no mean.
            sums = sums.into_iter().filter_map(|(seed, sum)| Some((seed, sum + values.get(&seed)?))).collect();
        }
        Some(sums.into_iter().map(|(seed, sum)| (seed, sum / spots.len() as f64)).collect())
    }

    fn told(&self, figure: &Figure, claim: &Claim, here: SeriesSpan<'_>, what: &str) -> String {
        let place = if let [x] = here.xs { self.label(figure.x, *x) } else { "" };
        let quantile = match figure.measured.metric.is_sample() {
            true => format!("{} quantile", Quantity::Share.text(claim.quantile)),
            false => String::new(),
        };
        let words =
            [self.label(figure.facet, here.facet), place, self.label(figure.series, here.series), &quantile, what];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// A series in a facet, and the positions over which it is averaged.
#[derive(Clone, Copy)]
struct SeriesSpan<'x> {
    series: Option<usize>,
    facet: Option<usize>,
    xs: &'x [Option<usize>],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(values: &[f64], wanted: WantedRange) -> &'static str {
        let difference = Interval::of(values).map(|interval| Difference { interval, effect: None });
        let comparison = ClaimComparison { wanted, difference, what: String::new() };
        match comparison.side(comparison.chance(), 0.05) {
            ComparisonSide::Favour => "favour",
            ComparisonSide::Against => "against",
            ComparisonSide::Open => "open",
        }
    }

    #[test]
    fn interval_across_zero_decides_nothing() {
        let (above, below) = (WantedRange::ABOVE, WantedRange::BELOW);
        assert_eq!([side(&[1.0, 1.1, 0.9], above), side(&[-1.0, -1.1, -0.9], above)], ["favour", "against"]);
        assert_eq!([side(&[1.0, 1.1, 0.9], below), side(&[-1.0, -1.1, -0.9], below)], ["against", "favour"]);
        assert_eq!(side(&[1.0, -1.0, 0.5], above), "open");
        assert_eq!([side(&[1.0], above), side(&[], above)], ["open"; 2], "no interval");
        assert_eq!(side(&[0.0, 0.0, 0.0], above), "open", "no difference at all");
        assert_eq!(side(&[0.1, 0.1], above), "favour", "no doubt at all");
    }

    #[test]
    fn margin_asks_for_a_multiple() {
        let fifth = WantedRange::of(ClaimRule::Below(0.8), 10.0);
        assert_eq!([side(&[-8.3, -8.4, -8.5], fifth), side(&[-7.5, -7.6, -7.7], fifth)], ["favour", "against"]);
        let half_more = WantedRange::of(ClaimRule::Above(0.5), 2.0);
        assert_eq!([side(&[1.3, 1.4, 1.5], half_more), side(&[0.5, 0.6, 0.7], half_more)], ["favour", "against"]);
        assert_eq!(WantedRange::of(ClaimRule::Above(0.0), 7.0), WantedRange::ABOVE);
        assert_eq!(WantedRange::of(ClaimRule::Below(0.0), -7.0).most, 0.0);
    }

    #[test]
    fn range_needs_both_ends_excluded() {
        let within = |least, most| WantedRange { least, most, closed: true };
        let near = within(-0.1, 0.1);
        assert_eq!([side(&[0.0, 0.0, 0.01], near), side(&[0.5, 0.51], near)], ["favour", "against"]);
        assert_eq!([side(&[-0.5, -0.51], near), side(&[0.1, 0.2], near)], ["against", "open"]);
        assert_eq!(side(&[-0.09, 0.09, 0.0], near), "open", "inside, but too wide");
        assert_eq!(side(&[0.0, 0.0], within(0.0, 0.4)), "favour", "the end belongs to it");
        assert_eq!(side(&[0.4; 3], within(0.0, 0.4)), "favour", "rounding passes no end");
        assert_eq!(side(&[0.5, 0.5], within(0.0, 0.4)), "against");
    }

    #[test]
    fn p_value_agrees_with_interval() {
        // The test must agree with the 95 % interval: a decision if the interval excludes zero, else open.
        for shift in [-0.3, -0.1, 0.0, 0.1, 0.2, 0.35] {
            let values: Vec<f64> = [0.1, -0.2, 0.15, -0.05].iter().map(|value| value + shift).collect();
            let (low, high) = Interval::of(&values).unwrap().ends().unwrap();
            let expected = if low > 0.0 {
                "favour"
            } else if high < 0.0 {
                "against"
            } else {
                "open"
            };
            assert_eq!(side(&values, WantedRange::ABOVE), expected, "{shift}");
        }
    }
}
