//! Congestion forecast of a node if all contacts of a plan are used at their rates, as in ION and in `farlink plan
//! forecast`.

use super::{Contact, ContactPlan, PlanTime, decimal};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use farlink_base::{DataRate, DataVolume, Instant, NodeId};
use farlink_book::{Forecast, StoreFlow};

/// Parameters of a forecast.
#[derive(Clone, Copy, Debug)]
pub struct ForecastRequest {
    /// Node to forecast.
    pub node: NodeId,
    /// Bytes in its store at the start.
    pub occupied: u64,
    /// Capacity of its store, bytes.
    pub capacity: u64,
    /// Rate at which its applications produce.
    pub production: DataRate,
    /// Rate at which its applications consume from the store.
    pub consumption: DataRate,
    /// Start of the forecast.
    pub from: PlanTime,
    /// End of the forecast.
    pub until: PlanTime,
}

/// Forecasts a node's store; instants of the result are plan times. As in ION, light time is ignored: otherwise
/// bundles would seem to leave over a contact in both directions before any arrive.
pub fn forecast(plan: &ContactPlan, question: &ForecastRequest) -> Forecast {
    let ForecastRequest { node, from, until, .. } = *question;
    // Applications are assumed to produce and consume all the time.
    let always = |rate, comes| StoreFlow { start: Instant(from.0), end: Instant(until.0), rate, comes };
    let flow = |contact: &Contact| {
        let (start, end) = (Instant(contact.start.0), Instant(contact.end.0));
        StoreFlow { start, end, rate: contact.rate, comes: contact.to == node }
    };
    // A contact of a node with itself moves nothing in or out.
    let mine = plan.contacts.iter().filter(|c| (c.from == node) != (c.to == node) && c.start < c.end);
    let mut flows: Vec<StoreFlow> = mine.map(flow).collect();
    flows.extend([always(question.production, true), always(question.consumption, false)]);
    farlink_book::forecast(question.occupied, question.capacity, &flows, Instant(from.0), Instant(until.0))
}

/// Height of the drawing in rows.
const ROWS: u64 = 10;

/// Draws a forecast `width` columns wide (at least 40): `#` up to the level, `-` at the capacity. Empty for an empty
/// forecast.
pub fn draw(forecast: &Forecast, capacity: Option<u64>, width: usize) -> String {
    let (Some(first), Some(last), Some(peak)) = (forecast.levels.first(), forecast.levels.last(), forecast.peak())
    else {
        return String::new();
    };
    // 14 columns are for the labels and the axis.
    let columns = width.clamp(40, 400) - 14;
    let span = u128::from(last.at.0 - first.at.0);
    let moment = |column: usize| first.at.0 + (span * column as u128 / columns as u128) as u64;
    let heights: Vec<u64> = (0..columns).map(|column| highest(forecast, moment(column), moment(column + 1))).collect();
    // A capacity far above the peak would flatten the drawing.
    let top = capacity.filter(|full| full / 4 <= peak.bytes).unwrap_or(0).max(peak.bytes).max(1);
    let row_of = |bytes: u64| (u128::from(bytes) * u128::from(ROWS)).div_ceil(u128::from(top)) as u64;
    let full = capacity.map(row_of).unwrap_or(u64::MAX);
    let mut text = String::new();
    for row in (1..=ROWS).rev() {
        let label = match row {
            ROWS => format!("{}", DataVolume(top)),
            _ if row == full => format!("{}", DataVolume(capacity.unwrap_or(0))),
            _ => String::new(),
        };
        let bar: String = heights
            .iter()
            .map(|height| match row_of(*height) >= row {
                true => '#',
                false if row == full => '-',
                false => ' ',
            })
            .collect();
        let _ = writeln!(text, "{label:>12} |{}", bar.trim_end());
    }
    let (left, right) =
        (format!("+{} s", decimal(PlanTime(first.at.0))), format!("+{} s", decimal(PlanTime(last.at.0))));
    let gap = columns.saturating_sub(left.chars().count());
    let _ = writeln!(text, "{:>12} +{left}{right:>gap$}", "0 B");
    text
}

/// Highest level between two times, both included.
fn highest(forecast: &Forecast, from: u64, until: u64) -> u64 {
    let inner = forecast.levels.iter().filter(|level| (from..=until).contains(&level.at.0)).map(|level| level.bytes);
    inner.chain([between(forecast, from), between(forecast, until)]).max().unwrap_or(0)
}

/// Level at a time, interpolated.
fn between(forecast: &Forecast, at: u64) -> u64 {
    let next = forecast.levels.partition_point(|level| level.at.0 < at);
    let (Some(before), Some(after)) = (forecast.levels.get(next.saturating_sub(1)), forecast.levels.get(next)) else {
        return 0;
    };
    let (time, whole) = (at.saturating_sub(before.at.0), (after.at.0 - before.at.0).max(1));
    let change = u128::from(after.bytes.abs_diff(before.bytes)) * u128::from(time) / u128::from(whole);
    if after.bytes > before.bytes { before.bytes + change as u64 } else { before.bytes - change as u64 }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use farlink_book::StoreLevel;

    fn question(capacity: u64, until: u64) -> ForecastRequest {
        ForecastRequest {
            node: NodeId(2),
            occupied: 0,
            capacity,
            production: DataRate(0),
            consumption: DataRate(0),
            from: PlanTime(0),
            until: PlanTime::from_secs(until),
        }
    }
    /// Second in which node 2 is full.
    fn full(plan: &str, question: ForecastRequest) -> Option<u64> {
        forecast(&parse(plan).unwrap().plan, &question).full.map(|at| at.0 / 1_000_000_000)
    }

    #[test]
    fn growing_plan_congests_as_in_ion() {
        // The steps of ION's own regression test of its forecast, number 306: the limit is set, the plan grows, the
        // horizon shrinks and grows, the limit is raised. 1,009 MB fill at 100 kB/s within 10,090 s.
        const EMPTY: &str = "";
        const UNEVEN: &str =
            "a contact +0 +1000000 2 3 1000000\na contact +0 +1000000 3 2 1100000\na range +0 +1000000 2 3 1";
        let (limit, more) = (1_009_000_000, 100_009_000_000);
        assert_eq!(full(EMPTY, question(u64::MAX, 2_000_000)), None);
        assert_eq!(full(EMPTY, question(limit, 2_000_000)), None);
        assert_eq!(full(UNEVEN, question(limit, 2_000_000)), Some(10_090));
        assert_eq!(full(UNEVEN, question(limit, 0)), None);
        assert_eq!(full(UNEVEN, question(limit, 1_000)), None);
        assert_eq!(full(UNEVEN, question(limit, 200_000)), Some(10_090));
        assert_eq!(full(UNEVEN, question(more, 200_000)), None);
        assert_eq!(
            full(UNEVEN, ForecastRequest { node: NodeId(3), ..question(limit, 200_000) }),
            None,
            "it sends more than it receives"
        );
    }

    #[test]
    fn contacts_and_applications_change_the_level() {
        let plan = parse("contact 1 2 +0..+10 rate 100 B/s delay 5 s\ncontact 2 3 +20..+30 rate 30 B/s").unwrap().plan;
        let at = |s: u64| Instant(s * 1_000_000_000);
        let levels = |question: ForecastRequest| forecast(&plan, &question).levels;
        let level = |s, bytes| StoreLevel { at: at(s), bytes };
        let expected = [level(0, 0), level(10, 1000), level(20, 1000), level(30, 700), level(40, 700)];
        assert_eq!(levels(question(9_999, 40)), expected);
        let (production, consumption) = (DataRate::from_bytes_per_second(3), DataRate::from_bytes_per_second(1));
        let last = levels(ForecastRequest { production, consumption, occupied: 7, ..question(9_999, 40) }).pop();
        // 7 B at the start, 700 B from contacts, and 2 B/s for 40 s.
        assert_eq!(last, Some(level(40, 7 + 700 + 80)));
        assert_eq!(
            levels(ForecastRequest { from: PlanTime::from_secs(15), ..question(9_999, 20) }),
            [level(15, 0), level(20, 0)]
        );
    }

    #[test]
    fn forecast_is_drawn_within_capacity() {
        let plan = parse("contact 1 2 +0..+13 rate 100 B/s\ncontact 2 3 +13..+26 rate 50 B/s").unwrap().plan;
        // The peak is twice the capacity, so the line of the capacity is in the middle.
        let seen = forecast(&plan, &question(650, 26));
        let drawn = draw(&seen, Some(650), 40);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines.len(), 11, "{drawn}");
        assert_eq!(lines[0], "      1.3 kB |           #####", "more than 1.17 kB from 11.7 s to 15.6 s");
        assert_eq!(lines[5], "       650 B |-----#####################");
        assert_eq!(lines[9], "             |##########################");
        assert_eq!(lines[10], "         0 B ++0 s                 +26 s");
        assert_eq!(draw(&Forecast::default(), None, 80), "");
        let nothing = forecast(&plan, &question(650, 0));
        assert_eq!(draw(&nothing, Some(650), 0).lines().count(), 11, "no time");
        let huge = Forecast {
            levels: [(0, 0), (u64::MAX, u64::MAX)].map(|(at, bytes)| StoreLevel { at: Instant(at), bytes }).into(),
            full: None,
        };
        assert_eq!(draw(&huge, Some(u64::MAX), 500).lines().count(), 11);
    }
}
