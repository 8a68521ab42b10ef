//! Run-length compression of samples: a constant value is recorded only at its start and end.

use farlink_base::Instant;

/// Samples of one value over time.
#[derive(Clone, Copy, Default)]
struct Series {
    /// Value written last.
    value: Option<u64>,
    /// Last time at which this value was seen again but not written.
    unwritten: Option<Instant>,
}

/// Compressed samples of a fixed number of values.
pub(crate) struct Changes {
    series: Vec<Series>,
}

impl Changes {
    pub fn new(count: usize) -> Changes {
        Changes { series: vec![Series::default(); count] }
    }

    /// Points to write for a new sample: none while the value is constant; on a change first the end of the constant
    /// stretch, so that the line through the points equals the line through all samples.
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

    /// Points to write at the end: the last sample of each value that was still constant.
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
