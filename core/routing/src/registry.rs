//! Registry of routers: one entry per router.

use crate::direct_delivery::DirectDelivery;
use crate::epidemic::Epidemic;
use crate::first_contact::FirstContact;
use crate::maxprop::MaxProp;
use crate::prophet::Prophet;
use crate::rapid::Rapid;
use crate::router::Router;
use crate::sabr::Sabr;
use crate::spray::Spray;
use crate::static_routes::StaticRoutes;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{ConfigError, NodeId, Param, nearest_name, resolve_params};

/// Registered router.
#[derive(Clone, Copy, Debug)]
pub struct RouterInfo {
    /// Name in configuration files.
    pub name: &'static str,
    /// Description in one sentence.
    pub help: &'static str,
    /// The router's parameters, in order.
    pub params: &'static [Param],
    /// Whether the router needs global knowledge, which only simulators have.
    pub oracle: bool,
    make: fn(&RouterSetup<'_>) -> Box<dyn Router>,
}

/// Inputs of a router's constructor.
pub(crate) struct RouterSetup<'a> {
    /// Parameter values, in order.
    pub params: &'a [f64],
    /// Identifiers of this node.
    pub local_nodes: &'a [NodeId],
    /// Seed of the router's randomness.
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
        make: |_| Box::new(StaticRoutes::default()),
    },
    RouterInfo {
        name: "direct-delivery",
        help: "A bundle stays at its source until that node meets the destination (Spyropoulos et al., 2004).",
        params: &[],
        oracle: false,
        make: |_| Box::new(DirectDelivery),
    },
    RouterInfo {
        name: "first-contact",
        help: "One copy, which moves to the first neighbour met and is not given back (Jain et al., 2004).",
        params: &[],
        oracle: false,
        make: |_| Box::new(FirstContact::default()),
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
        help: "A fixed number of copies per bundle (Spyropoulos et al., 2005).",
        params: Spray::PARAMS,
        oracle: false,
        make: |setup| Box::new(Spray::new(setup.params)),
    },
    RouterInfo {
        name: "prophet",
        help: "Copies to neighbours that meet the destination more often (PRoPHETv2, RFC 6693).",
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
        help: "Copies where one more shortens delays most, or meets most deadlines (Balasubramanian et al., 2007).",
        params: Rapid::PARAMS,
        oracle: false,
        make: |setup| Box::new(Rapid::new(setup.params, setup.seed)),
    },
];

/// All registered routers.
pub fn routers() -> &'static [RouterInfo] {
    ROUTERS
}

/// Makes a router for the node with these identifiers.
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
    Ok((info.make)(&RouterSetup { params: &params, local_nodes, seed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_registered_router_is_made() {
        for info in routers() {
            let router = make_router(info.name, &[], &[NodeId(1)], 7).unwrap();
            assert_eq!(router.uses_plan(), info.name == "sabr");
            // The reference prints descriptions as sentences.
            assert!(info.help.ends_with('.') && !info.oracle);
            assert!(info.params.iter().all(|p| p.min <= p.default && p.default <= p.max && p.help.ends_with('.')));
        }
    }

    #[test]
    fn unknown_names_get_a_hint() {
        let hint = |name| make_router(name, &[], &[], 0).err().unwrap().hint;
        assert_eq!(hint("sbar"), "did you mean `sabr`?");
        assert!(hint("bubble-rap").starts_with("routers: sabr, static, direct-delivery, first-contact, epidemic, "));
        assert!(make_router("sabr", &[("profil".into(), 1.0)], &[], 0).err().unwrap().hint.contains("profile"));
        assert!(make_router("sabr", &[("profile".into(), 9.0)], &[], 0).is_err());
    }

    use crate::testing::RouterSite;
    use farlink_base::{Instant, PeerId};
    use farlink_book::{Action, Actions, Node, PolicyEvent, put_number};

    const NEVER: [f64; 5] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e300];

    /// Runs a node's life: two neighbours, their messages, and a bundle that arrives, fails, is sent and leaves.
    /// Returns the largest number of actions requested by one message.
    fn live(router: &mut dyn Router, words: &[Vec<u8>]) -> usize {
        let mut site = RouterSite::new();
        let (liar, other) = (site.meet(2, 0), site.meet(3, 1));
        let mut most = 0;
        for second in [0, 1, 100_000, u64::MAX / 1_000_000_000] {
            site.now = Instant(second * 1_000_000_000);
            let bundles = [site.keep(2, 100), site.keep(9, 100)];
            let mut on = |node: &Node<'_>, event: PolicyEvent<'_>| {
                let mut out = Actions::default();
                router.on(node, &event, &mut out);
                let said = out.drain().collect::<Vec<Action>>();
                most = most.max(said.len());
            };
            // One of them is unknown to the node.
            [liar, other, PeerId(77)].into_iter().for_each(|peer| on(&site.node(), PolicyEvent::Up { peer }));
            for bytes in words {
                on(&site.node(), PolicyEvent::Heard { from: liar, bytes });
                on(&site.node(), PolicyEvent::Heard { from: PeerId(77), bytes });
            }
            for bundle in bundles {
                for wire in [None, Some(0), Some(u32::MAX)] {
                    on(&site.node(), PolicyEvent::Kept { bundle, wire });
                }
                let (gave, keep) = (u32::MAX, true);
                on(&site.node(), PolicyEvent::Handed { bundle, to: liar, gave, keep });
                on(&site.node(), PolicyEvent::Failed { bundle, to: liar, gave, keep });
                on(&site.node(), PolicyEvent::Sent { bundle, to: other, gave, keep });
            }
            for bundle in bundles {
                for peer in [liar, other] {
                    let _ = router.wants(&site.node(), site.peer(peer), site.held(bundle));
                    let seen = router.prospect(&site.node(), site.held(bundle), Some(site.peer(peer)));
                    assert!(seen.is_none_or(|seen| (0.0..=1.0).contains(&seen.chance)), "{seen:?}");
                }
                let seen = router.prospect(&site.node(), site.held(bundle), None);
                assert!(seen.is_none_or(|seen| (0.0..=1.0).contains(&seen.chance)), "{seen:?}");
                let mut out = Actions::default();
                let _ = router.route(&site.node(), site.held(bundle), &[liar], &mut out);
            }
            let mut out = Actions::default();
            [liar, other].into_iter().for_each(|peer| router.on(&site.node(), &PolicyEvent::Down { peer }, &mut out));
            router.on(&site.node(), &PolicyEvent::Wake, &mut out);
        }
        most
    }

    /// Meaningless messages and floods.
    fn lies() -> Vec<Vec<u8>> {
        let numbers = [
            0,
            1,
            2,
            9,
            u64::MAX,
            1 << 63,
            f64::NAN.to_bits(),
            f64::INFINITY.to_bits(),
            (-1f64).to_bits(),
            1f64.to_bits(),
            f64::MAX.to_bits(),
            f64::MIN_POSITIVE.to_bits(),
            (-0f64).to_bits(),
        ];
        let of = |make: &dyn Fn(u64) -> u64, count: u64| {
            let mut message = Vec::new();
            (0..count).for_each(|n| put_number(&mut message, make(n)));
            message
        };
        let mut all: Vec<_> = numbers.iter().map(|number| of(&|_| *number, 999)).collect();
        let mut rng = farlink_base::Rng::new(5);
        for _ in 0..40 {
            let seed = rng.next_u64();
            all.push(of(&|n| numbers[farlink_base::Rng::stream(seed, n).next_u64() as usize % numbers.len()], 300));
        }
        // More nodes, acknowledgments and rows than any table holds.
        all.push(of(&|n| if n % 2 == 0 { n } else { 1f64.to_bits() }, 131_072));
        all.push(of(&|n| [4096, 0, 2][n.min(2) as usize], 131_072));
        // Numbers have eight bytes each; 13 bytes cut one in two.
        all.push(Vec::from([255; 13]));
        all
    }

    #[test]
    fn parameter_range_is_enforced() {
        for info in routers() {
            for param in info.params {
                let make = |value: f64| make_router(info.name, &[(param.name.into(), value)], &[NodeId(1)], 7);
                for value in NEVER.into_iter().chain([param.min - 1.0, param.max * 2.0 + 1.0]) {
                    let fits = (param.min..=param.max).contains(&value);
                    assert_eq!(make(value).is_ok(), fits, "{} {} {value}", info.name, param.name);
                }
                for value in [param.min, param.max, f64::midpoint(param.min, param.max)] {
                    live(&mut *make(value).unwrap(), &lies()[..20]);
                }
            }
        }
    }

    #[test]
    fn arbitrary_messages_are_survived() {
        for info in routers() {
            // If third parties can ban, each of 4,096 acknowledgments of a message is an action.
            let hearsay = info.params.iter().filter(|param| param.name == "hearsay");
            let params: Vec<(String, f64)> = hearsay.map(|param| (param.name.into(), 1.0)).collect();
            live(&mut *make_router(info.name, &[], &[NodeId(1)], 7).unwrap(), &lies());
            let most = live(&mut *make_router(info.name, &params, &[NodeId(1)], 7).unwrap(), &lies());
            // For each of the eight bundles the neighbour may cause two actions, if it is the destination: deletion and
            // ban. One more action offers it the bundles again.
            assert!(most <= 2 * 8 + 1, "{}: {most} actions for one message", info.name);
        }
    }
}
