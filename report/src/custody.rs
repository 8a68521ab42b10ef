//! Custody counters of a run, counted from its events.

use serde::{Deserialize, Serialize};

/// Custody counters, summed over all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CustodyUse {
    /// Bundles of which a node accepted custody.
    pub taken: u64,
    /// Bundles released after another node accepted custody.
    pub released: u64,
    /// Custodial retransmissions: bundles sent again because no custody signal arrived.
    pub repeated: u64,
    /// Custody signals sent, each about one bundle or several.
    pub signals: u64,
    /// Custody signals ignored because their sender had no authority over the bundle.
    pub signals_ignored: u64,
}

impl CustodyUse {
    /// Counter that an event of this name increments; `None` for other events.
    fn of(&mut self, event: &str) -> Option<&mut u64> {
        Some(match event {
            "custody_taken" => &mut self.taken,
            "custody_released" => &mut self.released,
            "custody_repeated" => &mut self.repeated,
            "custody_signalled" => &mut self.signals,
            "custody_signal_ignored" => &mut self.signals_ignored,
            _ => return None,
        })
    }
    /// Counts an event about custody. `counted` stays `None` until the first event whose name begins with `custody_`.
    pub(crate) fn count(counted: &mut Option<CustodyUse>, event: &str) {
        // A run without custody events has no counters, so that reports omit them instead of showing zeros.
        if event.starts_with("custody_")
            && let Some(counter) = counted.get_or_insert_default().of(event)
        {
            *counter += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_events::info;

    #[test]
    fn only_custody_events_are_counted() {
        let mut counted = None;
        CustodyUse::count(&mut counted, "delivered");
        assert_eq!(counted, None);
        let samples = farlink_events::schema::samples();
        let mut names: Vec<&str> = samples.iter().map(|event| info(event).name).collect();
        names.sort_unstable();
        names.dedup();
        let about = names.iter().filter(|name| name.starts_with("custody_")).count();
        names.iter().for_each(|name| CustodyUse::count(&mut counted, name));
        let once = CustodyUse { taken: 1, released: 1, repeated: 1, signals: 1, signals_ignored: 1 };
        assert_eq!((about, counted), (5, Some(once)));
    }
}
