//! What became of custody in a run, counted from its events.

use serde::{Deserialize, Serialize};

/// How often nodes did what, of all nodes together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CustodyUse {
    /// Bundles a node took custody of.
    pub taken: u64,
    /// Bundles another node had custody of from then on.
    pub released: u64,
    /// Bundles sent again, for nobody said that it took custody.
    pub repeated: u64,
    /// Signals sent, each about one bundle or many.
    pub signals: u64,
    /// Signals of somebody who has no say.
    pub signals_ignored: u64,
}

impl CustodyUse {
    /// The counter of an event of this name.
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
    /// Counts an event; where it is the first about custody, counting begins.
    pub(crate) fn count(counted: &mut Option<CustodyUse>, event: &str) {
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
    fn every_event_about_custody_is_counted_and_no_other() {
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
