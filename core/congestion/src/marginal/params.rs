//! Parameters of marginal utility.

use super::MarginalUtility;
use crate::trust::Trust;
use farlink_base::{Duration, Param};

/// Parameter values in use.
#[derive(Debug)]
pub(super) struct MarginalSettings {
    pub hop_s: f64,
    pub ends: f64,
    pub own: f64,
    pub margin: f64,
    pub fails: f64,
    pub later: f64,
    pub wait_s: f64,
    pub hearsay: u8,
    pub trust: Trust,
    pub ids: usize,
    pub tell: usize,
    pub meetings: usize,
    pub remember: Duration,
    pub far: Duration,
    pub by_plan: bool,
    pub by_encounters: bool,
    pub wishes: bool,
}

const fn param(name: &'static str, help: &'static str, default: f64, max: f64) -> Param {
    Param { name, help, unit: "", default, min: 0.0, max }
}
const fn seconds(name: &'static str, help: &'static str, default: f64) -> Param {
    Param { name, help, unit: "s", default, min: 0.0, max: 1e9 }
}

impl MarginalUtility {
    /// Parameters. The values for encounters were found in a simulated town of 50 people, those for plans in a Mars
    /// scenario; both hold elsewhere unchanged (docs/explanation/congestion.md).
    pub const PARAMS: &'static [Param] = &[
        Param { min: 1.0, ..seconds("hop", "Age added to a meeting that was reported by a neighbour.", 600.0) },
        Param {
            // At 0 no copy would ever be lost, so further copies would gain nothing.
            min: 1e-3,
            ..param(
                "ends",
                "Expected losses of a copy per lifetime; more losses make early deliveries count more.",
                16.0,
                1e6,
            )
        },
        param("own", "Share of the store that protects the latest bundles created here.", 0.8, 1.0),
        param("margin", "A newcomer evicts bundles worth less than this share of its own worth.", 0.9, 1.0),
        param("fails", "Chance that a route of the contact plan fails.", 0.1, 1.0),
        param("later", "Factor on a copy while another holder can bring the bundle on after this contact.", 0.2, 1.0),
        seconds("wait", "Delay until departure that halves the worth of a copy; 0: it does not matter.", 10_000.0),
        param(
            "hearsay",
            "Bundles that third parties acknowledge: 0 ignored, 1 are worth nothing, 2 are deleted.",
            1.0,
            2.0,
        ),
        Trust::PARAM,
        param("ids", "Most bundles remembered as delivered.", 4096.0, 1e6),
        param("tell", "Most of them reported at a meeting, the latest.", 256.0, 4096.0),
        param("meetings", "Most nodes reported at a meeting, those met last.", 256.0, 1024.0),
        seconds("remember", "Longest time for which a delivery is remembered.", 604_800.0),
        param("plan", "1: worth by the contact plan where it knows the destination; 0: by encounters alone.", 1.0, 1.0),
        param(
            "encounters",
            "1: a copy at a node that met the destination recently is worth more; 0: all are alike.",
            1.0,
            1.0,
        ),
        param(
            "wish",
            "1: copies that the plan can deliver are also sent where the router would not; 0: the router decides.",
            1.0,
            1.0,
        ),
        seconds("far", "Light time beyond which neighbours get new facts only when they are met.", 60.0),
    ];
}

impl MarginalSettings {
    pub fn of(params: &[f64]) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(MarginalUtility::PARAMS[index].default);
        MarginalSettings {
            hop_s: param(0),
            ends: param(1),
            own: param(2),
            margin: param(3),
            fails: param(4),
            later: param(5),
            wait_s: param(6),
            hearsay: param(7) as u8,
            trust: Trust::of(param(8)),
            ids: param(9) as usize,
            tell: param(10) as usize,
            meetings: param(11) as usize,
            remember: Duration::from_millis((param(12) * 1e3) as u64),
            far: Duration::from_millis((param(16) * 1e3) as u64),
            by_plan: param(13) >= 0.5,
            by_encounters: param(14) >= 0.5,
            wishes: param(15) >= 0.5,
        }
    }
}
