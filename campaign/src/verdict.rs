//! The rule that judges claims.
//!
//! A claim is a set of comparisons, each of a range in which a mean must lie: of paired differences between runs with
//! the same seed, or for `between` of values. An end that follows from the reference series, such as 10 % above it,
//! varies with that series, so that each seed has its own: tested is the distance of a run from the end of its seed.
//! Student's t tests it, and the p-value is adjusted for the number of comparisons of the claim (Holm). At a p-value of
//! at most 5 % (1 % in a figure with intervals of 99 %) the comparison is decided: in favour if the mean is in the
//! range, against if it is not. Otherwise, or with fewer than two seeds, it is open. The claim is **confirmed** if all
//! its comparisons are in favour, **contradicted** if one is against, and **undecidable** otherwise. Disturbed runs
//! decide nothing.
//!
//! Equal runs, or differences, have no deviation, and thus no t. They decide where there are three, at 99 % four
//! ([`equal_runs`]), and fewer do not. A range of one value is about every run: one run that differs contradicts the
//! claim, and as many equal ones confirm it.

use crate::details::{plain, plain_interval};
use crate::judgement::{ClaimCounts, Judgement};
use crate::numbers::{ConfidenceLevel, EQUALITY, Interval, holm};
use crate::results::{Difference, Results, Spot};
use crate::types::{Claim, ClaimPositions, ClaimRule, Figure};
use farlink_report::Quantity;
use std::collections::{BTreeMap, BTreeSet};

/// Least number of equal runs that decide a comparison at this level.
///
/// Of two series with the same distribution, one run of each differs by a given amount and sign with a probability of
/// at most 1/4 (two values, as likely), and n pairs all do so with one of at most 1/4^n. For two pairs these are 6 %,
/// more than the 2.5 % that a test at 95 % has on each side; for three 1.6 %; and for four 0.4 %, less than the 0.5 %
/// at 99 %.
const fn equal_runs(level: ConfidenceLevel) -> usize {
    match level {
        ConfidenceLevel::P95 => 3,
        ConfidenceLevel::P99 => 4,
    }
}

/// Basis of the decision about a comparison.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Basis {
    /// Student's t, with this p-value.
    Test(f64),
    /// Runs without exception, so that no test is needed.
    Certain,
    /// Equal runs, but fewer than [`equal_runs`].
    FewEqual,
    /// Fewer than two runs.
    Few,
}
impl Basis {
    /// Its p-value; `None` if nothing can be decided.
    fn chance(self) -> Option<f64> {
        match self {
            Basis::Test(p) => Some(p),
            Basis::Certain => Some(0.0),
            Basis::FewEqual | Basis::Few => None,
        }
    }
    /// Basis of the decision on which side of an end the mean of these distances lies.
    fn of(distances: &Interval, level: ConfidenceLevel) -> Basis {
        match distances.chance() {
            Some(p) => Basis::Test(p),
            None if !distances.is_constant() => Basis::Few,
            None if distances.count < equal_runs(level) => Basis::FewEqual,
            None => Basis::Certain,
        }
    }
    /// The weaker of two bases.
    fn weaker(self, other: Basis) -> Basis {
        match (self.chance(), other.chance()) {
            (Some(one), Some(two)) if two > one => other,
            (Some(_), None) => other,
            _ => self,
        }
    }
}

/// Position of a comparison's mean relative to its range, and the basis on which that is known.
#[derive(Clone, Copy, PartialEq, Debug)]
struct RangeTest {
    side: ComparisonSide,
    basis: Basis,
}

impl RangeTest {
    const NONE: RangeTest = RangeTest { side: ComparisonSide::Open, basis: Basis::Few };

    /// Tests the distances from each end of a range, which are positive inside it. Ends belong to a `closed` range.
    fn of(ends: &[Interval], closed: bool, level: ConfidenceLevel) -> RangeTest {
        let holds = |end: &&Interval| end.mean > 0.0 || (closed && end.mean == 0.0);
        let passed: Vec<&Interval> = ends.iter().filter(|end| !holds(end)).collect();
        // Inside the range, all ends must be excluded; outside, only the end that was passed.
        let (side, tested) = match passed.is_empty() {
            true => (ComparisonSide::Favour, ends.iter().collect()),
            false => (ComparisonSide::Against, passed),
        };
        let basis = tested.iter().map(|end| Basis::of(end, level)).reduce(Basis::weaker);
        // Equal runs on an end that does not belong to the range are on neither side, however many there are.
        if side == ComparisonSide::Against && tested.iter().all(|end| end.is_constant() && end.mean == 0.0) {
            return RangeTest { side: ComparisonSide::Open, basis: Basis::Certain };
        }
        basis.map_or(RangeTest::NONE, |basis| RangeTest { side, basis })
    }

    /// Tests whether every run has this value, or one that differs from it by rounding.
    fn every(values: &BTreeMap<u64, f64>, value: f64, level: ConfidenceLevel) -> RangeTest {
        match values.values().all(|found| is_equal(*found, value)) {
            false => RangeTest { side: ComparisonSide::Against, basis: Basis::Certain },
            true if values.len() >= equal_runs(level) => {
                RangeTest { side: ComparisonSide::Favour, basis: Basis::Certain }
            }
            true if values.len() > 1 => RangeTest { side: ComparisonSide::Favour, basis: Basis::FewEqual },
            true => RangeTest::NONE,
        }
    }

    /// Decision at a p-value: open if it is unknown or exceeds `error`.
    fn decided(self, chance: Option<f64>, error: f64) -> ComparisonSide {
        match chance {
            Some(chance) if chance <= error => self.side,
            _ => ComparisonSide::Open,
        }
    }
}

fn is_equal(one: f64, other: f64) -> bool {
    (one - other).abs() <= EQUALITY * one.abs().max(other.abs())
}

/// Distances of runs from the two ends of a range, by seed: `low` from the lower and `high` from the upper. The ends
/// lie
/// `margin` below and above `theirs`, as a fraction of it.
fn margin_ends(mine: &BTreeMap<u64, f64>, theirs: &BTreeMap<u64, f64>, margin: f64) -> [Vec<f64>; 2] {
    let both: Vec<(f64, f64)> = mine.iter().filter_map(|(seed, mine)| Some((*mine, *theirs.get(seed)?))).collect();
    // A fraction of a negative reference is taken of its magnitude.
    let sign = if both.iter().map(|(_, theirs)| theirs).sum::<f64>() < 0.0 { -1.0 } else { 1.0 };
    let width = |theirs: f64| sign * margin * theirs;
    let low = both.iter().map(|(mine, theirs)| mine - theirs + width(*theirs)).collect();
    let high = both.iter().map(|(mine, theirs)| theirs + width(*theirs) - mine).collect();
    [low, high]
}

/// One comparison of a claim, before its decision.
struct ClaimComparison {
    test: RangeTest,
    /// Mean with its interval and effect size; `None` without runs.
    difference: Option<Difference>,
    /// Facet, position and series that are compared, in words.
    what: String,
    /// Range in which the mean must lie, in words.
    wanted: String,
    /// Run that contradicts a claim about every run, in words; else empty.
    exception: String,
    /// Whether there are runs, though none with a value.
    has_runs: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ComparisonSide {
    Favour,
    Against,
    Open,
}

/// Formats a p-value; `p < 0.0001` for a smaller one, as 0 would be impossible.
fn chance_text(p: f64) -> String {
    if p < 1e-4 { "< 0.0001".into() } else { Quantity::Ratio.text(p) }
}

impl ClaimComparison {
    fn chance(&self) -> Option<f64> {
        self.test.basis.chance()
    }
    /// The comparison in words, with its adjusted p-value where there are several.
    fn text(&self, figure: &Figure, adjusted: Option<f64>) -> String {
        let start = |end: &str| match self.what.as_str() {
            "" => end.to_string(),
            what => format!("{what} {end}"),
        };
        let Some(found) = self.difference else {
            return start(if self.has_runs { "no value" } else { "no runs" });
        };
        let count = found.interval.count;
        let basis = match (self.test.basis, adjusted) {
            _ if !self.exception.is_empty() => format!(", {}", self.exception),
            (Basis::Test(p), Some(adjusted)) => format!(", p {} ({} corrected)", chance_text(p), chance_text(adjusted)),
            (Basis::Test(p), None) => format!(", p {}", chance_text(p)),
            (Basis::Certain | Basis::FewEqual, _) => format!(", the same in all {count} runs"),
            (Basis::Few, _) => String::new(),
        };
        let number = plain_interval(&found.interval, figure.measured.metric.quantity);
        format!("{}{}, wanted {}{basis}", start(&number), found.effect_text(), self.wanted)
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
            comparisons.iter().zip(chances).for_each(|(one, p)| counts[one.test.decided(p, error) as usize] += 1);
            let [favour, against, open] = counts;
            ClaimCounts { favour, against, open }
        };
        let counts = count(&mut adjusted.iter().copied());
        let uncorrected = count(&mut chances.clone());
        let wanted = if counts.against > 0 { ComparisonSide::Against } else { ComparisonSide::Open };
        let worst = comparisons.iter().zip(&adjusted).find(|(one, p)| one.test.decided(**p, error) == wanted);
        let several = known.len() > 1;
        let worst = worst.map_or(String::new(), |(one, p)| one.text(figure, p.filter(|_| several)));
        let mut reasons = Vec::new();
        let count = |basis: Basis| comparisons.iter().filter(|one| one.test.basis == basis).count();
        let (few, equal) = (count(Basis::Few), count(Basis::FewEqual));
        if comparisons.is_empty() {
            reasons.push(self.nothing(figure, claim));
        }
        if few > 0 {
            reasons.push(format!("comparisons with fewer than two usable runs: {few} of {}", comparisons.len()));
        }
        if equal > 0 {
            let (all, least) = (comparisons.len(), equal_runs(figure.level));
            reasons.push(format!(
                "comparisons with equal runs, of which fewer than {least} decide nothing: {equal} of {all}"
            ));
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
        let number = |value: f64| plain(value, figure.measured.metric.quantity);
        let at = |span: SeriesSpan<'_>| self.at(figure, claim, span);
        let has_runs = here.xs.iter().chain(xs).any(|x| {
            let spot = Spot { x: *x, series: here.series, facet: here.facet };
            self.runs(figure, spot).any(|(_, run)| run.disturbances.is_empty())
        });
        let comparison = |what: &str, difference: Option<Difference>, test: RangeTest, wanted: String| {
            let what = self.told(figure, claim, here, what);
            ClaimComparison { test, difference, what, wanted, exception: String::new(), has_runs }
        };
        match claim.rule {
            ClaimRule::Above(margin) | ClaimRule::Below(margin) | ClaimRule::Similar(margin) => {
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
                    let scale = largest(&mine).max(largest(&theirs));
                    let end = |distances: &[f64]| Interval::of_scale(distances, level, scale);
                    let reference = Interval::of(&theirs.values().copied().collect::<Vec<_>>());
                    let width = margin * reference.map_or(0.0, |reference| reference.mean.abs());
                    let label = self.label(figure.series, than);
                    let part = match margin {
                        0.0 => String::new(),
                        _ => format!(" ({} of {label})", Quantity::Share.text(margin)),
                    };
                    let (ends, wanted) = match claim.rule {
                        ClaimRule::Above(_) => {
                            // The lower end lies above the reference.
                            let [low, _] = margin_ends(&mine, &theirs, -margin);
                            (vec![end(&low)], format!("above {}{part}", number(width)))
                        }
                        ClaimRule::Below(_) => {
                            let [_, high] = margin_ends(&mine, &theirs, -margin);
                            (vec![end(&high)], format!("below {}{part}", number(-width)))
                        }
                        _ => {
                            let ends = margin_ends(&mine, &theirs, margin);
                            let wanted = format!("{} to {}{part}", number(-width), number(width));
                            (ends.iter().map(|distances| end(distances)).collect(), wanted)
                        }
                    };
                    let is_closed = matches!(claim.rule, ClaimRule::Similar(_));
                    let ends: Option<Vec<Interval>> = ends.into_iter().collect();
                    let test = ends.map_or(RangeTest::NONE, |ends| RangeTest::of(&ends, is_closed, level));
                    Some(comparison(&format!("less {label}"), Difference::of(&mine, &theirs, level), test, wanted))
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
                let (less, more) = if falls { (&after, &before) } else { (&before, &after) };
                let change = Difference::of(more, less, level);
                let test = change.map_or(RangeTest::NONE, |change| RangeTest::of(&[change.interval], false, level));
                let wanted = if falls { "below 0" } else { "above 0" };
                vec![comparison("last less first", Difference::of(&after, &before, level), test, wanted.into())]
            }
            ClaimRule::Between(least, most) => {
                let Some(values) = at(here) else { return Vec::new() };
                let of = |values: Vec<f64>, scale| Interval::of_scale(&values, level, scale);
                let interval = Interval::at(&values.values().copied().collect::<Vec<_>>(), level);
                let difference = interval.map(|interval| Difference { interval, effect: None });
                if is_equal(least, most) {
                    let wanted = format!("{} in every run", number(least));
                    let other = values.iter().filter(|(_, value)| !is_equal(**value, least));
                    let count = other.clone().count();
                    let exception = other.take(1).map(|(seed, value)| {
                        let are = if count == 1 { "is" } else { "are" };
                        format!("{count} of {} runs {are} different, first {value} with seed {seed}", values.len())
                    });
                    let exception = exception.collect::<String>();
                    let test = RangeTest::every(&values, least, level);
                    return vec![ClaimComparison { exception, ..comparison("", difference, test, wanted) }];
                }
                let scale = |end: f64| largest(&values).max(end.abs());
                let (lowest, highest) = figure.measured.metric.limits();
                // An end at a limit of the metric needs no test: no value is beyond it.
                let passes = |beyond: &dyn Fn(f64) -> bool| values.values().any(|value| beyond(*value));
                let mut ends = Vec::new();
                if least > lowest || passes(&|value| value < least) {
                    ends.push(of(values.values().map(|value| value - least).collect(), scale(least)));
                }
                if most < highest || passes(&|value| value > most) {
                    ends.push(of(values.values().map(|value| most - value).collect(), scale(most)));
                }
                let ends: Option<Vec<Interval>> = ends.into_iter().collect();
                let test = ends.map_or(RangeTest::NONE, |ends| RangeTest::of(&ends, true, level));
                vec![comparison("", difference, test, format!("{} to {}", number(least), number(most)))]
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

    /// Reason why a claim compares nothing, in words.
    fn nothing(&self, figure: &Figure, claim: &Claim) -> String {
        let campaign = &self.plan.campaign;
        // Points of the whole campaign that the claim is about, by whether this size keeps their values.
        let all = |axis: Option<usize>, named: &dyn Fn(usize) -> bool| -> Vec<Option<usize>> {
            axis.map_or(vec![None], |axis| {
                (0..campaign.axes[axis].values.len()).filter(|at| named(*at)).map(Some).collect()
            })
        };
        let named_x = |x: usize| match &claim.at {
            ClaimPositions::Each(each) => each.contains(&x),
            ClaimPositions::Mean => true,
        };
        let compared: &[usize] = if claim.rule.compares_series() { &claim.than } else { &[] };
        let mut skips: Vec<String> = Vec::new();
        for x in all(figure.x, &named_x) {
            for series in all(figure.series, &|one| claim.series.contains(&one) || compared.contains(&one)) {
                for facet in all(figure.facet, &|one| claim.facets.contains(&one)) {
                    let skip = self.plan.campaign.skip_of(figure, x, series, facet);
                    skips.extend(skip.filter(|skip| !skips.contains(skip)));
                }
            }
        }
        let trend = matches!(claim.rule, ClaimRule::Rises | ClaimRule::Falls);
        match skips.first() {
            _ if campaign.small => "none of its points is in this size".into(),
            Some(skip) => format!("its points are left out by [[skip]]: {skip}"),
            None if trend => "fewer than two positions: nothing rises or falls".into(),
            None => "none of its points is run".into(),
        }
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

/// Largest magnitude of these values.
fn largest(values: &BTreeMap<u64, f64>) -> f64 {
    values.values().fold(0.0, |most, value| most.max(value.abs()))
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

    // Level of all tests here.
    const LEVEL: ConfidenceLevel = ConfidenceLevel::P95;

    fn word(test: RangeTest) -> &'static str {
        match test.decided(test.basis.chance(), LEVEL.error()) {
            ComparisonSide::Favour => "favour",
            ComparisonSide::Against => "against",
            ComparisonSide::Open => "open",
        }
    }
    /// Decision whether the mean of these differences is above 0.
    fn above(values: &[f64]) -> &'static str {
        word(Interval::at(values, LEVEL).map_or(RangeTest::NONE, |found| RangeTest::of(&[found], false, LEVEL)))
    }
    fn by_seed(values: &[f64]) -> BTreeMap<u64, f64> {
        (1..).zip(values.iter().copied()).collect()
    }
    /// Decision whether `mine` is similar to `theirs`.
    fn similar(mine: &[f64], theirs: &[f64], margin: f64) -> &'static str {
        let ends = margin_ends(&by_seed(mine), &by_seed(theirs), margin);
        let scale = mine.iter().chain(theirs).fold(0.0f64, |most, value| most.max(value.abs()));
        let ends = ends.map(|distances| Interval::of_scale(&distances, LEVEL, scale).unwrap());
        word(RangeTest::of(&ends, true, LEVEL))
    }

    #[test]
    fn interval_across_zero_decides_nothing() {
        assert_eq!([above(&[1.0, 1.1, 0.9]), above(&[-1.0, -1.1, -0.9])], ["favour", "against"]);
        assert_eq!(above(&[1.0, -1.0, 0.5]), "open");
        assert_eq!([above(&[1.0]), above(&[])], ["open"; 2], "no interval");
        assert_eq!([above(&[0.0; 2]), above(&[0.0; 3])], ["open"; 2], "no difference at all");
    }

    #[test]
    fn equal_runs_decide_from_three_on() {
        assert_eq!([above(&[0.1; 2]), above(&[0.1; 3]), above(&[-0.1; 3])], ["open", "favour", "against"]);
        let of = |count: usize, level| Basis::of(&Interval::of(&vec![0.1; count]).unwrap(), level);
        assert_eq!([of(2, LEVEL), of(3, ConfidenceLevel::P99)], [Basis::FewEqual; 2]);
        assert_eq!([of(3, LEVEL), of(4, ConfidenceLevel::P99)], [Basis::Certain; 2]);
        // Runs of two values, as likely: three of a kind in both series come once in 64 times a side.
        let mut random = Lehmer(7);
        let mut decided = [0, 0];
        for _ in 0..20_000 {
            let mut run = || f64::from(u8::from(random.uniform() < 0.5));
            let differences = [0; 3].map(|_| run() - run());
            match above(&differences) {
                "favour" => decided[0] += 1,
                "against" => decided[1] += 1,
                _ => {}
            }
        }
        assert!(decided.iter().all(|count| (200..500).contains(count)), "1 to 2.5 % a side: {decided:?}");
    }

    #[test]
    fn rounding_decides_nothing() {
        let (sums, plain) = ([0.1 + 0.2; 3], [0.3; 3]);
        let difference = Difference::of(&by_seed(&plain), &by_seed(&sums), LEVEL).unwrap();
        assert_eq!((difference.interval.mean, difference.interval.deviation), (0.0, Some(0.0)));
        assert_eq!(word(RangeTest::of(&[difference.interval], false, LEVEL)), "open");
        assert_eq!(similar(&sums, &plain, 0.0), "favour", "equal but for rounding");
    }

    #[test]
    fn margin_varies_with_reference() {
        assert_eq!(
            [similar(&[1.0, 1.01, 1.02], &[1.0; 3], 0.1), similar(&[1.2, 1.21, 1.22], &[1.0; 3], 0.1)],
            ["favour", "against"]
        );
        // One seed is four times the reference, the other 3 %: the difference of 3 is a tenth of nothing.
        assert_eq!(similar(&[4.0, 103.0], &[1.0, 100.0], 0.1), "open");
        // A fifth of the reference and a little more, seed by seed.
        let [_, high] = margin_ends(&by_seed(&[2.2, 4.3, 8.5]), &by_seed(&[10.0, 20.0, 40.0]), -0.8);
        assert!(
            high.iter().zip([-0.2, -0.3, -0.5]).all(|(found, expected)| (found - expected).abs() < 1e-12),
            "{high:?}"
        );
        // Of a negative reference, the margin is a fraction of the magnitude.
        let [low, high] = margin_ends(&by_seed(&[-10.0]), &by_seed(&[-10.0]), 0.1);
        assert_eq!((low[0], high[0]), (1.0, 1.0));
    }

    #[test]
    fn claims_on_bound_are_rarely_decided() {
        // References around 100, and series that are 10 % more in truth: the claim of a similarity within 10 % is on
        // its bound, and each decision is an error.
        let mut random = Lehmer(1);
        for spread in [5.0, 20.0] {
            let mut decided = [0, 0];
            for _ in 0..4000 {
                let theirs = [0; 5].map(|_| 100.0 + spread * random.normal());
                let mine = [0; 5].map(|_| 110.0 + spread * random.normal());
                match similar(&mine, &theirs, 0.1) {
                    "favour" => decided[0] += 1,
                    "against" => decided[1] += 1,
                    _ => {}
                }
            }
            // 2.5 % of 4000 are 100; the standard deviation is 10.
            assert!(decided.iter().all(|count| *count < 140), "spread {spread}: {decided:?}");
            assert!(decided[1] > 60, "spread {spread}: {decided:?}");
        }
    }

    #[test]
    fn range_needs_both_ends_excluded() {
        let within = |values: &[f64], least: f64, most: f64| {
            let of = |distance: &dyn Fn(f64) -> f64| {
                Interval::of_scale(&values.iter().map(|v| distance(*v)).collect::<Vec<_>>(), LEVEL, 1.0).unwrap()
            };
            word(RangeTest::of(&[of(&|value| value - least), of(&|value| most - value)], true, LEVEL))
        };
        let near = |values: &[f64]| within(values, -0.1, 0.1);
        assert_eq!([near(&[0.0, 0.0, 0.01]), near(&[0.5, 0.51])], ["favour", "against"]);
        assert_eq!([near(&[-0.5, -0.51]), near(&[0.1, 0.2])], ["against", "open"]);
        assert_eq!(near(&[-0.09, 0.09, 0.0]), "open", "inside, but too wide");
        assert_eq!(within(&[0.0; 3], 0.0, 0.4), "favour", "the end belongs to it");
        assert_eq!(within(&[0.1 + 0.2; 3], 0.0, 0.3), "favour", "rounding passes no end");
        assert_eq!(within(&[0.5; 3], 0.0, 0.4), "against");
    }

    #[test]
    fn one_value_is_about_every_run() {
        let every = |values: &[f64]| word(RangeTest::every(&by_seed(values), 1.0, LEVEL));
        let mut runs = [1.0; 20];
        assert_eq!(every(&runs), "favour");
        runs[7] = 0.5;
        assert_eq!(every(&runs), "against");
        assert_eq!([every(&[0.99]), every(&[1.0; 2]), every(&[1.0])], ["against", "open", "open"]);
        assert_eq!(every(&[1.0, 1.0 - 1e-12, 1.0]), "favour", "rounding");
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
            assert_eq!(above(&values), expected, "{shift}");
        }
        assert_eq!([chance_text(0.05), chance_text(1e-9)], ["0.05", "< 0.0001"]);
    }

    /// Random numbers of the multiplicative congruential generator of Park and Miller (1988), with 48271.
    struct Lehmer(u64);
    impl Lehmer {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0 * 48271 % 2_147_483_647;
            self.0 as f64 / 2_147_483_647.0
        }
        /// Normally distributed number (Box and Muller).
        fn normal(&mut self) -> f64 {
            let (radius, angle) = (self.uniform(), self.uniform());
            (-2.0 * radius.ln()).sqrt() * (2.0 * std::f64::consts::PI * angle).cos()
        }
    }
}
