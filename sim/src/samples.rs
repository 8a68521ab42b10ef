//! Samples without repetition: of a value that stands still, only where it begins and ends to.

use farlink_base::Instant;

/// One value over time.
#[derive(Clone, Copy, Default)]
struct Series {
    /// The value written last.
    value: Option<u64>,
    /// When it was seen again since and not written.
    unwritten: Option<Instant>,
}

/// What was seen of each of a fixed number of values.
pub(crate) struct Changes {
    series: Vec<Series>,
}

impl Changes {
    /// For so many values.
    pub fn new(count: usize) -> Changes {
        Changes { series: vec![Series::default(); count] }
    }

    /// What is to be written now that this value is seen: nothing while it stands still; when it
    /// changes, first until when it stood still, so that a line through the points is the line
    /// through all.
    pub fn see(&mut self, series: usize, at: Instant, value: u64) -> impl Iterator<Item = (Instant, u64)> + use<> {
        let series = &mut self.series[series];
        if series.value == Some(value) {
            series.unwritten = Some(at);
            return [None, None].into_iter().flatten();
        }
        let before = series.unwritten.take().zip(series.value);
        series.value = Some(value);
        [before, Some((at, value))].into_iter().flatten()
    }

    /// What is to be written at the end: the last point of each value that still stood still.
    pub fn rest(&self) -> impl Iterator<Item = (usize, Instant, u64)> + '_ {
        let open = |(index, series): (usize, &Series)| Some((index, series.unwritten?, series.value?));
        self.series.iter().enumerate().filter_map(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinned_samples_keep_the_line() {
        let mut changes = Changes::new(2);
        let mut written = Vec::new();
        for (at, value) in [5, 5, 5, 7, 8, 8, 2, 2, 2].into_iter().enumerate() {
            written.extend(changes.see(1, Instant(at as u64), value).map(|(at, value)| (at.0, value)));
        }
        assert_eq!(written, [(0, 5), (2, 5), (3, 7), (4, 8), (5, 8), (6, 2)]);
        assert_eq!(changes.rest().collect::<Vec<_>>(), [(1, Instant(8), 2)]);
    }
}
