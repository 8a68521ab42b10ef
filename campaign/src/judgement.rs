//! Verdicts with their reasons, in words.

use std::fmt::Write;

/// Verdict on a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimVerdict {
    /// All comparisons are in favour.
    Confirmed,
    /// At least one comparison is against.
    Contradicted,
    /// Some comparisons are open and none is against, or there are no comparisons.
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

/// Comparisons of a claim by their result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClaimCounts {
    /// Number of comparisons in favour.
    pub favour: usize,
    /// Number of comparisons against.
    pub against: usize,
    /// Number of comparisons that are neither in favour nor against, as their p-value is too large or unknown.
    pub open: usize,
}
impl ClaimCounts {
    /// Number of all comparisons.
    pub const fn all(self) -> usize {
        self.favour + self.against + self.open
    }
    /// Verdict that follows from the counts.
    pub const fn verdict(self) -> ClaimVerdict {
        match self {
            ClaimCounts { against: 1.., .. } => ClaimVerdict::Contradicted,
            ClaimCounts { favour: 1.., open: 0, .. } => ClaimVerdict::Confirmed,
            _ => ClaimVerdict::Undecidable,
        }
    }
    /// Describes the counts.
    fn text(self) -> String {
        let favour = format!("{} of {} in favour", self.favour, self.all());
        match self.verdict() {
            ClaimVerdict::Confirmed => favour,
            _ => format!("{favour}, {} against, {} open", self.against, self.open),
        }
    }
}

/// A verdict with its reasons.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// Verdict that follows from the counts.
    pub verdict: ClaimVerdict,
    /// Comparisons by their result; p-values are corrected for the number of comparisons (Holm).
    pub counts: ClaimCounts,
    /// Comparisons by their result; p-values are not corrected.
    pub uncorrected: ClaimCounts,
    /// The first comparison against, or else the first open one, in words.
    pub worst: String,
    /// Reasons why there are no comparisons, why some could not be decided, or rest on fewer runs, in words.
    pub reasons: Vec<String>,
}

impl Judgement {
    /// Describes the counts, the worst comparison and the reasons; the counts without correction only where they
    /// differ.
    pub fn text(&self) -> String {
        let mut text = self.corrected_text();
        if self.uncorrected != self.counts {
            let _ = write!(text, "; {}", self.without_correction());
        }
        text
    }
    /// As [`Judgement::text`], but with the counts without correction whenever there are several comparisons.
    pub fn full_text(&self) -> String {
        match self.counts.all() {
            0 | 1 => self.corrected_text(),
            _ => format!("{}; {}", self.corrected_text(), self.without_correction()),
        }
    }

    fn corrected_text(&self) -> String {
        if self.counts.all() == 0 {
            return self.reasons.join("; ");
        }
        let mut text = self.counts.text();
        if self.verdict != ClaimVerdict::Confirmed && !self.worst.is_empty() {
            let _ = write!(text, ": {}", self.worst);
        }
        for reason in &self.reasons {
            let _ = write!(text, "; {reason}");
        }
        text
    }
    fn without_correction(&self) -> String {
        let word = self.uncorrected.verdict().word();
        format!("without correction for {} comparisons {word}: {}", self.counts.all(), self.uncorrected.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(favour: usize, against: usize, open: usize) -> ClaimCounts {
        ClaimCounts { favour, against, open }
    }
    fn judged(counts: ClaimCounts, uncorrected: ClaimCounts, worst: &str, reasons: &[&str]) -> Judgement {
        let reasons = reasons.iter().map(|reason| reason.to_string()).collect();
        Judgement { verdict: counts.verdict(), counts, uncorrected, worst: worst.into(), reasons }
    }

    #[test]
    fn verdict_follows_from_counts() {
        let verdicts = [(3, 0, 0), (3, 1, 2), (3, 0, 1), (0, 0, 0)].map(|(f, a, o)| counts(f, a, o).verdict());
        let [confirmed, contradicted, undecidable] =
            [ClaimVerdict::Confirmed, ClaimVerdict::Contradicted, ClaimVerdict::Undecidable];
        assert_eq!(verdicts, [confirmed, contradicted, undecidable, undecidable]);
    }

    #[test]
    fn verdict_text_has_counts() {
        let all = counts(3, 0, 0);
        assert_eq!(judged(all, all, "", &[]).text(), "3 of 3 in favour");
        let some = counts(1, 1, 2);
        let told = judged(some, some, "city CCC less none -0.1 ± 0.01", &[]).text();
        assert_eq!(told, "1 of 4 in favour, 1 against, 2 open: city CCC less none -0.1 ± 0.01");
        let none = counts(0, 0, 0);
        let size = "none of its points is in this size";
        assert_eq!(judged(none, none, "", &[size]).full_text(), size);
    }

    #[test]
    fn text_has_both_counts_if_they_differ() {
        let judgement = judged(counts(1, 0, 2), counts(3, 0, 0), "a less b 1 ± 2", &["2 of 9 runs are missing"]);
        let told = "1 of 3 in favour, 0 against, 2 open: a less b 1 ± 2; 2 of 9 runs are missing; \
                    without correction for 3 comparisons confirmed: 3 of 3 in favour";
        assert_eq!(judgement.text(), told);
        let equal = judged(counts(3, 0, 0), counts(3, 0, 0), "", &[]);
        let told = "3 of 3 in favour; without correction for 3 comparisons confirmed: 3 of 3 in favour";
        assert_eq!(equal.full_text(), told);
    }
}
