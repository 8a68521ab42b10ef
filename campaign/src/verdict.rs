//! The rule that judges claims.
//!
//! A claim is a set of comparisons, each of paired differences between runs with the same seed (for `between`, of
//! values). A comparison is decided by the 95 % interval of the mean (Student's t): in favour if the whole interval is
//! on the claim's side, against if it is wholly on the other side, and open if it covers both or if there are fewer
//! than two seeds. The claim is **confirmed** if all its comparisons are in favour, **contradicted** if one is against,
//! and **undecidable** otherwise. By chance one interval in twenty misses a true difference of zero. A claim of many
//! comparisons is therefore harder to confirm than one of few, and the counts are part of the verdict.

use crate::numbers::Interval;
use crate::results::{Results, Spot, differences};
use crate::types::{Claim, ClaimPositions, ClaimRule, Figure};
use farlink_report::Quantity;
use std::collections::BTreeMap;

/// Verdict on a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimVerdict {
    /// All comparisons are in favour.
    Confirmed,
    /// At least one comparison is against.
    Contradicted,
    /// Some comparisons are open, and none is against.
    Undecidable,
}
impl ClaimVerdict {
    /// Word used in texts and tables.
    pub const fn word(self) -> &'static str {
        match self {
            ClaimVerdict::Confirmed => "confirmed",
            ClaimVerdict::Contradicted => "contradicted",
            ClaimVerdict::Undecidable => "undecidable",
        }
    }
}

/// A verdict with its reasons.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// Verdict that follows from the counts.
    pub verdict: ClaimVerdict,
    /// Number of comparisons in favour.
    pub favour: usize,
    /// Number of comparisons against.
    pub against: usize,
    /// Number of open comparisons.
    pub open: usize,
    /// The first comparison against, or else the first open one, in words.
    pub worst: String,
}

impl Judgement {
    /// Describes the counts and the worst comparison.
    pub fn text(&self) -> String {
        let all = self.favour + self.against + self.open;
        if all == 0 {
            return "none of its points is in this size".into();
        }
        let worst = if self.worst.is_empty() { String::new() } else { format!(": {}", self.worst) };
        match self.verdict {
            ClaimVerdict::Confirmed => format!("{} of {all} in favour", self.favour),
            _ => format!("{} of {all} in favour, {} against, {} open{worst}", self.favour, self.against, self.open),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IntervalSide {
    Favour,
    Against,
    Open,
}

/// Position of an interval relative to the range that the claim requires.
fn side(interval: Option<Interval>, wanted: (f64, f64)) -> IntervalSide {
    let Some((low, high)) = interval.and_then(|interval| interval.ends()) else { return IntervalSide::Open };
    // `above` is strict: an interval that touches zero is not above it.
    let (inside, outside) = if wanted == (0.0, f64::INFINITY) {
        (low > 0.0, high < 0.0)
    } else {
        (wanted.0 <= low && high <= wanted.1, high < wanted.0 || wanted.1 < low)
    };
    match (inside, outside) {
        (true, _) => IntervalSide::Favour,
        (_, true) => IntervalSide::Against,
        _ => IntervalSide::Open,
    }
}

impl Results<'_> {
    /// Judges a claim about a figure.
    pub fn judge(&self, figure: &Figure, claim: &Claim) -> Judgement {
        let mut counts = [0, 0, 0];
        let mut worst: Option<(IntervalSide, String)> = None;
        for (side, text) in self.comparisons(figure, claim) {
            counts[side as usize] += 1;
            // Comparisons in favour need no explanation.
            let graver = match (&worst, side) {
                // Only an open comparison can be replaced, and only by one that is against.
                (_, IntervalSide::Favour) => false,
                (None, _) => true,
                (Some((known, _)), side) => *known == IntervalSide::Open && side == IntervalSide::Against,
            };
            if graver {
                worst = Some((side, text));
            }
        }
        let [favour, against, open] = counts;
        let verdict = match (favour, against, open) {
            (_, 1.., _) => ClaimVerdict::Contradicted,
            (1.., 0, 0) => ClaimVerdict::Confirmed,
            _ => ClaimVerdict::Undecidable,
        };
        Judgement { verdict, favour, against, open, worst: worst.map(|(_, text)| text).unwrap_or_default() }
    }

    fn comparisons(&self, figure: &Figure, claim: &Claim) -> Vec<(IntervalSide, String)> {
        let xs = self.places(figure);
        let places: Vec<Vec<usize>> = match (&claim.at, claim.rule) {
            (_, ClaimRule::Rises | ClaimRule::Falls) => vec![Vec::new()],
            (ClaimPositions::Mean, _) => vec![xs.clone()],
            (ClaimPositions::Each(each), _) => xs.iter().filter(|x| each.contains(x)).map(|x| vec![*x]).collect(),
        };
        let mut found = Vec::new();
        for facet in self.kept(figure.facet).into_iter().filter(|facet| claim.facets.contains(&facet.unwrap_or(0))) {
            for series in self.kept(figure.series).into_iter().filter(|one| claim.series.contains(&one.unwrap_or(0))) {
                for place in &places {
                    let at = |series: Option<usize>| SeriesSpan { series, facet, xs: place };
                    found.extend(self.compare(figure, claim, at(series), &xs));
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
        xs: &[usize],
    ) -> Vec<(IntervalSide, String)> {
        let text = |what: &str, interval: Option<Interval>| self.told(figure, here, what, interval);
        match claim.rule {
            ClaimRule::Above | ClaimRule::Below | ClaimRule::Similar(_) => {
                let than = self
                    .kept(figure.series)
                    .into_iter()
                    .filter(|one| *one != here.series && one.is_some_and(|one| claim.than.contains(&one)));
                let one = |than: Option<usize>| {
                    let (mine, theirs) =
                        (self.at(figure, here)?, self.at(figure, SeriesSpan { series: than, ..here })?);
                    let difference = Interval::of(&differences(&mine, &theirs));
                    let wanted = match claim.rule {
                        ClaimRule::Below => (f64::NEG_INFINITY, 0.0),
                        ClaimRule::Similar(margin) => {
                            let around = Interval::of(&theirs.into_values().collect::<Vec<_>>());
                            // The margin is relative to the reference series' mean.
                            let room = around.map_or(0.0, |around| around.mean.abs() * margin);
                            (-room, room)
                        }
                        _ => (0.0, f64::INFINITY),
                    };
                    let lies = match claim.rule {
                        // `side` is strict only for `above`, so `below` tests the negated difference.
                        ClaimRule::Below => side(difference.map(negative), (0.0, f64::INFINITY)),
                        _ => side(difference, wanted),
                    };
                    Some((lies, text(&format!("less {}", self.label(figure.series, than)), difference)))
                };
                than.filter_map(one).collect()
            }
            ClaimRule::Rises | ClaimRule::Falls => {
                let (Some(first), Some(last)) = (xs.first(), xs.last()) else { return Vec::new() };
                let of = |x: &usize| self.at(figure, SeriesSpan { xs: std::slice::from_ref(x), ..here });
                let (Some(before), Some(after)) = (of(first), of(last)) else { return Vec::new() };
                // A single position has no trend.
                if first == last {
                    return Vec::new();
                }
                let difference = Interval::of(&differences(&after, &before));
                let towards = if claim.rule == ClaimRule::Falls { difference.map(negative) } else { difference };
                vec![(side(towards, (0.0, f64::INFINITY)), text("last less first", difference))]
            }
            ClaimRule::Between(least, most) => {
                let Some(values) = self.at(figure, here) else { return Vec::new() };
                let mean = Interval::of(&values.into_values().collect::<Vec<_>>());
                vec![(side(mean, (least, most)), text("", mean))]
            }
        }
    }

    /// Metric by seed, as the mean over these positions of the horizontal axis; `None` if the current size contains
    /// none of them.
    fn at(&self, figure: &Figure, place: SeriesSpan<'_>) -> Option<BTreeMap<u64, f64>> {
        let spots: Vec<Spot> =
            place.xs.iter().map(|x| Spot { x: *x, series: place.series, facet: place.facet }).collect();
        // Positions left out by this size or by `skip` do not count.
        let spots: Vec<Spot> = spots.into_iter().filter(|spot| self.has(figure, *spot)).collect();
        let (first, others) = spots.split_first()?;
        let mut sums = self.values(figure, *first);
        for spot in others {
            let values = self.values(figure, *spot);
            // A mean needs a value of the seed at every position.
            sums = sums.into_iter().filter_map(|(seed, sum)| Some((seed, sum + values.get(&seed)?))).collect();
        }
        Some(sums.into_iter().map(|(seed, sum)| (seed, sum / spots.len() as f64)).collect())
    }

    fn told(&self, figure: &Figure, here: SeriesSpan<'_>, what: &str, interval: Option<Interval>) -> String {
        let place = if let [x] = here.xs { self.label(Some(figure.x), Some(*x)) } else { "" };
        let words = [self.label(figure.facet, here.facet), place, self.label(figure.series, here.series), what];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let number =
            interval.map_or("no runs".to_string(), |interval| interval.estimate().text(plain(figure.metric.quantity)));
        format!("{} {number}", words.join(" "))
    }
}

/// Quantity without unit: differences are written as plain numbers in the metric's unit.
fn plain(quantity: Quantity) -> Quantity {
    if quantity == Quantity::Count { Quantity::Count } else { Quantity::Ratio }
}

fn negative(interval: Interval) -> Interval {
    Interval { mean: -interval.mean, ..interval }
}

/// A series in a facet, and the positions over which it is averaged.
#[derive(Clone, Copy)]
struct SeriesSpan<'x> {
    series: Option<usize>,
    facet: Option<usize>,
    xs: &'x [usize],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64], wanted: (f64, f64)) -> IntervalSide {
        side(Interval::of(values), wanted)
    }

    #[test]
    fn interval_across_zero_decides_nothing() {
        let above = (0.0, f64::INFINITY);
        let named = [IntervalSide::Favour, IntervalSide::Against, IntervalSide::Open].map(|side| side as u8);
        let found = [
            of(&[1.0, 1.1, 0.9], above),
            of(&[-1.0, -1.1, -0.9], above),
            of(&[1.0, -1.0, 0.5], above),
            // A single seed has no interval, and equal seeds have an interval of zero width at zero.
            of(&[1.0], above),
            of(&[0.0, 0.0, 0.0], above),
            side(None, above),
        ];
        let expected = [named[0], named[1], named[2], named[2], named[2], named[2]];
        assert_eq!(found.map(|side| side as u8), expected, "one value, or no difference at all, decides nothing");
        let within = (-0.1, 0.1);
        assert!(of(&[0.0, 0.0, 0.01], within) == IntervalSide::Favour, "alike");
        assert!(of(&[0.5, 0.51], within) == IntervalSide::Against);
        assert!(of(&[0.1, 0.2], within) == IntervalSide::Open);
    }

    #[test]
    fn verdict_text_has_counts() {
        let judged = |verdict, favour, against, open, worst: &str| {
            Judgement { verdict, favour, against, open, worst: worst.into() }.text()
        };
        assert_eq!(judged(ClaimVerdict::Confirmed, 3, 0, 0, ""), "3 of 3 in favour");
        let told = judged(ClaimVerdict::Contradicted, 1, 1, 2, "city CCC less none -0.1 ± 0.01");
        assert_eq!(told, "1 of 4 in favour, 1 against, 2 open: city CCC less none -0.1 ± 0.01");
        assert_eq!(judged(ClaimVerdict::Undecidable, 0, 0, 0, ""), "none of its points is in this size");
    }
}
