//! Every router by name: one line each.

use crate::direct::Direct;
use crate::epidemic::Epidemic;
use crate::maxprop::MaxProp;
use crate::prophet::Prophet;
use crate::rapid::Rapid;
use crate::router::Router;
use crate::sabr::Sabr;
use crate::spray::Spray;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{ConfigError, NodeId, Param, nearest_name, resolve_params};

/// A router that can be configured.
#[derive(Clone, Copy, Debug)]
pub struct RouterInfo {
    /// Its name in configuration.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Whether it asks for knowledge no node can have: simulators only.
    pub oracle: bool,
    make: fn(&Setup<'_>) -> Box<dyn Router>,
}

/// What a router is made from.
pub(crate) struct Setup<'a> {
    /// Values of its parameters, in their order.
    pub params: &'a [f64],
    /// This node's identifiers.
    pub local_nodes: &'a [NodeId],
    /// Seed of everything random in it.
    pub seed: u64,
}

const ROUTERS: &[RouterInfo] = &[
    RouterInfo {
        name: "sabr",
        help: "Schedule-aware bundle routing over the contact plan (CCSDS 734.3-B-1), volume booked per contact.",
        params: Sabr::PARAMS,
        oracle: false,
        make: |setup| Box::new(Sabr::new(setup.params, setup.local_nodes, setup.seed)),
    },
    RouterInfo {
        name: "static",
        help: "Configured routes only, and neighbours that are up; knows no plan.",
        params: &[],
        oracle: false,
        make: |_| Box::new(Direct::default()),
    },
    RouterInfo {
        name: "epidemic",
        help: "A copy to every neighbour met (Vahdat and Becker, 2000).",
        params: &[],
        oracle: false,
        make: |_| Box::new(Epidemic),
    },
    RouterInfo {
        name: "spray-and-wait",
        help: "So many copies of a bundle and no more (Spyropoulos et al., 2005).",
        params: Spray::PARAMS,
        oracle: false,
        make: |setup| Box::new(Spray::new(setup.params)),
    },
    RouterInfo {
        name: "prophet",
        help: "Copies to whoever meets the destination more often (PRoPHETv2, RFC 6693).",
        params: Prophet::PARAMS,
        oracle: false,
        make: |setup| Box::new(Prophet::new(setup.params)),
    },
    RouterInfo {
        name: "maxprop",
        help: "Copies ordered by hops and likeliest path, acknowledgments flooded (Burgess et al., 2006).",
        params: MaxProp::PARAMS,
        oracle: false,
        make: |setup| Box::new(MaxProp::new(setup.params)),
    },
    RouterInfo {
        name: "rapid",
        help: "Copies where one more shortens delays most, or keeps most deadlines (Balasubramanian et al., 2007).",
        params: Rapid::PARAMS,
        oracle: false,
        make: |setup| Box::new(Rapid::new(setup.params, setup.seed)),
    },
];

/// All routers.
pub fn routers() -> &'static [RouterInfo] {
    ROUTERS
}

/// Makes a router for the node that has these identifiers.
///
/// # Errors
/// An unknown router or parameter (the hint names the nearest), or a value out of range.
pub fn make_router(
    name: &str,
    params: &[(String, f64)],
    local_nodes: &[NodeId],
    seed: u64,
) -> Result<Box<dyn Router>, ConfigError> {
    let Some(info) = ROUTERS.iter().find(|r| r.name == name) else {
        let known = ROUTERS.iter().map(|r| r.name);
        return Err(ConfigError {
            path: "router".into(),
            expected: format!("`{name}` is not a router"),
            hint: match nearest_name(name, known.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("routers: {}", known.collect::<Vec<_>>().join(", ")),
            },
        });
    };
    let params = resolve_params(info.params, params, &format!("router.{name}"))?;
    Ok((info.make)(&Setup { params: &params, local_nodes, seed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_router_is_made_under_its_name() {
        for info in routers() {
            let router = make_router(info.name, &[], &[NodeId(1)], 7).unwrap();
            assert_eq!(router.uses_plan(), info.name == "sabr");
            assert!(info.help.ends_with('.') && !info.oracle);
            assert!(info.params.iter().all(|p| p.min <= p.default && p.default <= p.max && p.help.ends_with('.')));
        }
    }

    #[test]
    fn unknown_names_get_a_hint() {
        let hint = |name| make_router(name, &[], &[], 0).err().unwrap().hint;
        assert_eq!(hint("sbar"), "did you mean `sabr`?");
        assert!(hint("bubble-rap").starts_with("routers: sabr, static, epidemic, "));
        assert!(make_router("sabr", &[("profil".into(), 1.0)], &[], 0).err().unwrap().hint.contains("profile"));
        assert!(make_router("sabr", &[("profile".into(), 9.0)], &[], 0).is_err());
    }
}
