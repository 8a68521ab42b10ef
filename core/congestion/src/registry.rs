//! Every congestion control by name: one line each.

use crate::afner::Afner;
use crate::ccc::Ccc;
use crate::control::Control;
use crate::drop_oldest::DropOldest;
use crate::gbsd::Gbsd;
use crate::hbsd::Hbsd;
use crate::ion::Ion;
use crate::marginal::MarginalUtility;
use crate::none::NoControl;
use crate::rrcc::Rrcc;
use crate::storage_routing::StorageRouting;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{ConfigError, Param, nearest_name, resolve_params};

/// A congestion control that can be configured.
#[derive(Clone, Copy, Debug)]
pub struct ControlInfo {
    /// Its name in configuration.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Whether it asks for knowledge no node can have: simulators only.
    pub oracle: bool,
    make: fn(params: &[f64], seed: u64) -> Box<dyn Control>,
}

const CONTROLS: &[ControlInfo] = &[
    ControlInfo {
        name: "none",
        help: "Takes what fits and refuses the rest: nothing accepted is ever given up.",
        params: &[],
        oracle: false,
        make: |_, _| Box::new(NoControl),
    },
    ControlInfo {
        name: "drop-oldest",
        help: "Makes room by deleting the least urgent bundles, longest kept first; limits how full the store gets.",
        params: DropOldest::PARAMS,
        oracle: false,
        make: |params, _| Box::new(DropOldest::new(params)),
    },
    ControlInfo {
        name: "rrcc",
        help: "Limits the copies of an encounter by the drops nodes tell of (Retiring Replicants, 2010).",
        params: Rrcc::PARAMS,
        oracle: false,
        make: |params, seed| Box::new(Rrcc::new(params, seed)),
    },
    ControlInfo {
        name: "ccc",
        help: "Copies pay with credit; the poorest make room and are not taken again (Leela-amornsin and Esaki, 2010).",
        params: Ccc::PARAMS,
        oracle: false,
        make: |params, _| Box::new(Ccc::new(params)),
    },
    ControlInfo {
        name: "storage-routing",
        help: "Moves the oldest bundles to a neighbour with room and asks them back (Seligman et al., 2007).",
        params: StorageRouting::PARAMS,
        oracle: false,
        make: |params, _| Box::new(StorageRouting::new(params)),
    },
    ControlInfo {
        name: "marginal-utility",
        help: "Keeps and gives first what adds most per byte to the chance of arrival, by plan or by encounters.",
        params: MarginalUtility::PARAMS,
        oracle: false,
        make: |params, _| Box::new(MarginalUtility::new(params)),
    },
    ControlInfo {
        name: "afner",
        help: "Gives up what was forwarded more often than the mean, by knowledge of the whole network; else refuses.",
        params: &[],
        oracle: true,
        make: |_, _| Box::new(Afner),
    },
    ControlInfo {
        name: "gbsd",
        help: "Sends first and keeps what one more copy helps most, by knowledge of the whole network (Krifa et al., 2008).",
        params: Gbsd::PARAMS,
        oracle: true,
        make: |params, _| Box::new(Gbsd::new(params)),
    },
    ControlInfo {
        name: "hbsd",
        help: "The same by what nodes tell each other of bundles of the past (Krifa et al., 2008).",
        params: Hbsd::PARAMS,
        oracle: false,
        make: |params, _| Box::new(Hbsd::new(params)),
    },
    ControlInfo {
        name: "ion",
        help: "Gives nothing up; takes from applications only what the contact plan's forecast leaves room for.",
        params: Ion::PARAMS,
        oracle: false,
        make: |params, _| Box::new(Ion::new(params)),
    },
];

/// All controls.
pub fn controls() -> &'static [ControlInfo] {
    CONTROLS
}

/// Makes a control.
///
/// # Errors
/// An unknown control or parameter (the hint names the nearest), or a value out of range.
pub fn make_control(name: &str, params: &[(String, f64)], seed: u64) -> Result<Box<dyn Control>, ConfigError> {
    let Some(info) = CONTROLS.iter().find(|c| c.name == name) else {
        let known = CONTROLS.iter().map(|c| c.name);
        return Err(ConfigError {
            path: "control".into(),
            expected: format!("`{name}` is not a congestion control"),
            hint: match nearest_name(name, known.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("controls: {}", known.collect::<Vec<_>>().join(", ")),
            },
        });
    };
    let params = resolve_params(info.params, params, &format!("control.{name}"))?;
    Ok((info.make)(&params, seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_is_made_under_its_name() {
        for info in controls() {
            let control = make_control(info.name, &[], 7).unwrap();
            assert!(info.help.ends_with('.'));
            assert_eq!(control.wishes(), info.name == "marginal-utility");
            assert_eq!(info.oracle, ["afner", "gbsd"].contains(&info.name));
            assert!(info.params.iter().all(|p| p.min <= p.default && p.default <= p.max && p.help.ends_with('.')));
        }
    }

    #[test]
    fn unknown_names_get_a_hint() {
        let hint = |name| make_control(name, &[], 0).err().unwrap().hint;
        assert_eq!(hint("drop_oldest"), "did you mean `drop-oldest`?");
        assert!(hint("retiring").starts_with("controls: none, drop-oldest, "));
        let unknown = make_control("drop-oldest", &[("ful".into(), 1.0)], 0);
        assert!(unknown.err().unwrap().hint.contains("full"));
    }
}
