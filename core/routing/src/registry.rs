//! Every router by name: one line each.

use crate::direct::Direct;
use crate::epidemic::Epidemic;
use crate::router::Router;
use crate::sabr::Sabr;
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
        make: |setup| Box::new(Sabr::new(setup.params, setup.local_nodes, setup.seed)),
    },
    RouterInfo {
        name: "static",
        help: "Configured routes only, and neighbours that are up; knows no plan.",
        params: &[],
        make: |_| Box::new(Direct::new()),
    },
    RouterInfo {
        name: "epidemic",
        help: "A copy to every neighbour met (Vahdat and Becker, 2000).",
        params: &[],
        make: |_| Box::new(Epidemic::new()),
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
            assert_eq!((router.name(), router.params()), (info.name, info.params));
            assert!(info.help.ends_with('.'));
        }
    }

    #[test]
    fn unknown_names_get_a_hint() {
        let hint = |name| make_router(name, &[], &[], 0).err().unwrap().hint;
        assert_eq!(hint("sbar"), "did you mean `sabr`?");
        assert_eq!(hint("prophet"), "routers: sabr, static, epidemic");
        assert!(make_router("sabr", &[("profil".into(), 1.0)], &[], 0).err().unwrap().hint.contains("profile"));
        assert!(make_router("sabr", &[("profile".into(), 9.0)], &[], 0).is_err());
    }
}
