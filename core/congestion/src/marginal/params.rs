//! What can be set of marginal utility.

use super::MarginalUtility;
use crate::trust::Trust;
use farlink_base::{Duration, Param};

/// The parameters as they are used.
#[derive(Debug)]
pub(super) struct Settings {
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
    /// Parameters. The numbers of the encounters' half were found in a town of 50 people, those of the plan's
    /// half on Mars; both hold elsewhere as they are (docs/explanation/congestion.md).
    pub const PARAMS: &'static [Param] = &[
        Param { min: 1.0, ..seconds("hop", "A meeting told of by somebody counts as so much older.", 600.0) },
        Param {
            // With none at all a copy would be worth nothing by nothing.
            min: 1e-3,
            ..param(
                "ends",
                "How often a copy is expected to be lost within its lifetime: what it can still do counts sooner.",
                16.0,
                1e6,
            )
        },
        param("own", "Share of the store in which a node keeps the newest of what it made.", 0.8, 1.0),
        param("margin", "A newcomer makes room of what is worth less than this share of it.", 0.9, 1.0),
        param("fails", "Chance that a way of the contact plan comes to nothing.", 0.1, 1.0),
        param("later", "Factor on a copy while another holder can bring the bundle on after this contact.", 0.2, 1.0),
        seconds("wait", "A copy that leaves only so much later is worth half; 0: as much.", 10_000.0),
        param("hearsay", "What others say arrived: 0 is not listened to, 1 is worth nothing, 2 is deleted.", 1.0, 2.0),
        Trust::PARAM,
        param("ids", "Bundles remembered as arrived.", 4096.0, 1e6),
        param("tell", "Of those, told at a meeting, the newest.", 256.0, 4096.0),
        param("meetings", "Nodes told of at a meeting, those met last.", 256.0, 1024.0),
        seconds("remember", "How long what arrived is remembered at most.", 604_800.0),
        param("plan", "1: worth by the contact plan where it knows the destination; 0: by encounters alone.", 1.0, 1.0),
        param("encounters", "1: who met the destination lately is worth more; 0: all are alike.", 1.0, 1.0),
        param(
            "wish",
            "1: what the plan says can make it goes also where the router would not; 0: the router decides.",
            1.0,
            1.0,
        ),
        seconds("far", "Neighbours farther away by the plan are told what is new as they are met only.", 60.0),
    ];
}

impl Settings {
    pub fn of(params: &[f64]) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(MarginalUtility::PARAMS[index].default);
        Settings {
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
