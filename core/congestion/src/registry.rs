//! Registry of congestion controls: one entry per control.

use crate::afner::Afner;
use crate::afner_local::AfnerLocal;
use crate::ccc::Ccc;
use crate::control::Control;
use crate::drop::{DropOrder, DropPolicy};
use crate::gbsd::Gbsd;
use crate::hbsd::Hbsd;
use crate::ion::IonControl;
use crate::marginal::MarginalUtility;
use crate::none::NoControl;
use crate::rrcc::Rrcc;
use crate::storage_routing::StorageRouting;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use farlink_base::{ConfigError, Param, nearest_name, resolve_params};

/// Registered congestion control.
#[derive(Clone, Copy, Debug)]
pub struct ControlInfo {
    /// Name in configuration files.
    pub name: &'static str,
    /// Description in one sentence.
    pub help: &'static str,
    /// The control's parameters, in order.
    pub params: &'static [Param],
    /// Whether the control needs global knowledge, which only simulators have.
    pub oracle: bool,
    make: fn(params: &[f64], seed: u64) -> Box<dyn Control>,
}

const CONTROLS: &[ControlInfo] = &[
    ControlInfo {
        name: "none",
        help: "Accepts bundles that fit and refuses the rest; never evicts.",
        params: &[],
        oracle: false,
        make: |_, _| Box::new(NoControl),
    },
    ControlInfo {
        name: "drop-oldest",
        help: "Evicts the least urgent bundles, longest kept first; can limit the fill level of the store.",
        params: DropPolicy::PARAMS,
        oracle: false,
        make: |params, seed| Box::new(DropPolicy::new(DropOrder::Oldest, params, seed)),
    },
    ControlInfo {
        name: "drop-youngest",
        help: "Like drop-oldest, but the latest arrival first.",
        params: DropPolicy::PARAMS,
        oracle: false,
        make: |params, seed| Box::new(DropPolicy::new(DropOrder::Youngest, params, seed)),
    },
    ControlInfo {
        name: "drop-random",
        help: "Like drop-oldest, but a random one of the least urgent.",
        params: DropPolicy::PARAMS,
        oracle: false,
        make: |params, seed| Box::new(DropPolicy::new(DropOrder::Random, params, seed)),
    },
    ControlInfo {
        name: "drop-largest",
        help: "Like drop-oldest, but the largest first.",
        params: DropPolicy::PARAMS,
        oracle: false,
        make: |params, seed| Box::new(DropPolicy::new(DropOrder::Largest, params, seed)),
    },
    ControlInfo {
        name: "rrcc",
        help: "Limits the copies of an encounter by the drops that nodes report (Retiring Replicants, 2010).",
        params: Rrcc::PARAMS,
        oracle: false,
        make: |params, seed| Box::new(Rrcc::new(params, seed)),
    },
    ControlInfo {
        name: "ccc",
        help: "Copies pay with credit; the poorest are evicted and not accepted again (Leela-amornsin and Esaki, 2010).",
        params: Ccc::PARAMS,
        oracle: false,
        make: |params, _| Box::new(Ccc::new(params)),
    },
    ControlInfo {
        name: "storage-routing",
        help: "Moves the oldest bundles to a neighbour with space and requests them back later (Seligman et al., 2007).",
        params: StorageRouting::PARAMS,
        oracle: false,
        make: |params, _| Box::new(StorageRouting::new(params)),
    },
    ControlInfo {
        name: "marginal-utility",
        help: "Keeps and sends first the copies that add most per byte to the chance of delivery, by plan or by encounters.",
        params: MarginalUtility::PARAMS,
        oracle: false,
        make: |params, _| Box::new(MarginalUtility::new(params)),
    },
    ControlInfo {
        name: "afner",
        help: "Evicts bundles forwarded more often than the mean, with global knowledge; otherwise refuses.",
        params: &[],
        oracle: true,
        make: |_, _| Box::new(Afner),
    },
    ControlInfo {
        name: "afner-local",
        help: "Like afner, with counts that travel with copies and are exchanged by nodes.",
        params: AfnerLocal::PARAMS,
        oracle: false,
        make: |params, _| Box::new(AfnerLocal::new(params)),
    },
    ControlInfo {
        name: "gbsd",
        help: "Keeps and sends first the bundles that gain most from a copy, with global knowledge (Krifa et al., 2008).",
        params: Gbsd::PARAMS,
        oracle: true,
        make: |params, _| Box::new(Gbsd::new(params)),
    },
    ControlInfo {
        name: "hbsd",
        help: "Like gbsd, with the history of past bundles that nodes exchange (Krifa et al., 2008).",
        params: Hbsd::PARAMS,
        oracle: false,
        make: |params, _| Box::new(Hbsd::new(params)),
    },
    ControlInfo {
        name: "ion",
        help: "Never evicts; accepts from applications only as much as the contact plan's forecast leaves space for.",
        params: IonControl::PARAMS,
        oracle: false,
        make: |params, _| Box::new(IonControl::new(params)),
    },
];

/// All registered controls.
pub fn controls() -> &'static [ControlInfo] {
    CONTROLS
}

/// Makes a control with these parameters.
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
    fn every_registered_control_is_made() {
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

    use crate::testing::ControlSite;
    use farlink_base::{DataRate, EndpointId, Instant, NodeId, PeerId};
    use farlink_book::{Actions, CopyOffer, Journey, Journeys, Node, PolicyEvent, Why, put_number};

    const NEVER: [f64; 5] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1e300];

    /// Plan in which all nodes always meet all others.
    struct Always;
    impl Journeys for Always {
        fn edition(&self) -> u64 {
            1
        }
        fn nodes(&self) -> u32 {
            12
        }
        fn place(&self, node: NodeId) -> Option<u32> {
            (1..=12).contains(&node.0).then_some(node.0 as u32 - 1)
        }
        fn journey(&self, _: u32, _: u32, at: Instant, _: u64, _: &[u32]) -> Option<Journey> {
            Some(Journey { departs: at, departs_by: Instant::MAX, arrives: at })
        }
        fn contact_end(&self, _: u32, _: u32, _: Instant) -> Option<Instant> {
            Some(Instant::MAX)
        }
    }

    fn is_number(worth: Option<f64>, what: &str) {
        assert!(worth.is_none_or(|worth| !worth.is_nan()), "{what} is no number");
    }

    /// Runs a node's life, with and without a plan. Returns the largest number of actions requested by one message.
    fn live(control: &mut dyn Control, words: &[Vec<u8>]) -> usize {
        let mut site = ControlSite::new(10_000);
        let (liar, other) = (site.meet(2), site.meet(3));
        site.says(liar, u64::MAX, Some(DataRate(0)));
        let mut most = 0;
        for (round, second) in
            [0, 0, 1, 100_000, u64::MAX / 1_000_000_000, u64::MAX / 1_000_000_000].into_iter().enumerate()
        {
            site.now = Instant(second * 1_000_000_000);
            let lives = |second: u64| Instant(second.saturating_mul(1_000_000_000));
            // Four bundles: expired, expiring soon, never expiring, and one for the neighbour itself.
            let bundles = [(9, 0), (9, second + 100), (99, u64::MAX), (2, second + 1)].map(|(to, until)| {
                site.keep_with(to, 100, |bundle, new| {
                    (new.expires, new.labels) = (lives(until), [u32::MAX; 2]);
                    if until != u64::MAX {
                        (bundle.source, new.from) = (EndpointId::ipn(7, 1), liar);
                    }
                })
            });
            let node = Node { plan: (round % 2 == 1).then_some(&Always), ..site.node() };
            let mut on = |event: PolicyEvent<'_>| {
                let mut out = Actions::default();
                control.on(&node, &event, &mut out);
                most = most.max(out.drain().count());
            };
            [liar, other, PeerId(77)].into_iter().for_each(|peer| on(PolicyEvent::Up { peer }));
            for bytes in words {
                on(PolicyEvent::Heard { from: liar, bytes });
                on(PolicyEvent::Heard { from: PeerId(77), bytes });
            }
            for bundle in bundles {
                for wire in [None, Some(0), Some(u32::MAX)] {
                    on(PolicyEvent::Kept { bundle, wire });
                }
                for keep in [false, true] {
                    on(PolicyEvent::Handed { bundle, to: liar, gave: u32::MAX, keep });
                    on(PolicyEvent::Failed { bundle, to: liar, gave: u32::MAX, keep });
                    on(PolicyEvent::Sent { bundle, to: other, gave: u32::MAX, keep });
                }
            }
            on(PolicyEvent::Wake);
            for bundle in bundles {
                let held = node.get(bundle).unwrap();
                is_number(control.worth(&node, held), "worth");
                is_number(control.admit(&node, held).ok(), "a newcomer's worth");
                for peer in [liar, other] {
                    let peer = node.peers.get(peer).unwrap();
                    for want in [None, Some(CopyOffer::copy(held, 5)), Some(CopyOffer::give(held, 0))] {
                        let _ = control.allow(&node, peer, held, want);
                    }
                }
                let _ = control.rehome(&node, held);
            }
            let mut out = Actions::default();
            for (bundle, why) in
                bundles.into_iter().zip([Why::Overflow, Why::Delivered, Why::Migrated(liar), Why::Acked])
            {
                control.on(&node, &PolicyEvent::Gone { bundle, why }, &mut out);
            }
            [liar, other].into_iter().for_each(|peer| control.on(&node, &PolicyEvent::Down { peer }, &mut out));
        }
        most
    }

    /// Meaningless messages, parts of real messages, and floods.
    fn lies() -> Vec<Vec<u8>> {
        let numbers = [
            0,
            1,
            2,
            9,
            50 << 32 | 60,
            u64::MAX,
            1 << 63,
            f64::NAN.to_bits(),
            f64::INFINITY.to_bits(),
            (-1f64).to_bits(),
            f64::MAX.to_bits(),
        ];
        let of = |make: &dyn Fn(u64) -> u64, count: u64| {
            let mut message = Vec::new();
            (0..count).for_each(|n| put_number(&mut message, make(n)));
            message
        };
        let mut all: Vec<_> = numbers.iter().map(|number| of(&|_| *number, 999)).collect();
        for seed in 0..30 {
            let draw = |n| farlink_base::Rng::stream(seed, n).next_u64() as usize;
            all.push(of(&|n| numbers[draw(n) % numbers.len()], 300));
        }
        all.push(of(&|n| n / 2 % 4096, 131_072));
        // The longest parts with extreme entries, and many short ones.
        for kind in [b'a', b'm', b'g'] {
            for byte in [0, 1, 0xff] {
                let part = [&[kind, 15, 255][..], &[byte; 20 * 4095]].concat();
                all.push(part.repeat(12));
            }
            all.push([[kind, 0, 1].as_slice(), &[0; 15], &[1; 5]].concat().repeat(40_000));
        }
        all
    }

    #[test]
    fn control_parameter_range_is_enforced() {
        for info in controls() {
            for param in info.params {
                let make = |value: f64| make_control(info.name, &[(param.name.into(), value)], 7);
                for value in NEVER.into_iter().chain([param.min - 1.0, param.max * 2.0 + 1.0]) {
                    let fits = (param.min..=param.max).contains(&value);
                    assert_eq!(make(value).is_ok(), fits, "{} {} {value}", info.name, param.name);
                }
                for value in [param.min, param.max, f64::midpoint(param.min, param.max)] {
                    live(&mut *make(value).unwrap(), &lies()[..8]);
                }
            }
            let all = |end: fn(&Param) -> f64| info.params.iter().map(|p| (p.name.into(), end(p))).collect::<Vec<_>>();
            // Every bound is a valid value, so a control must work with all of them at once.
            for values in [all(|param| param.min), all(|param| param.max)] {
                live(&mut *make_control(info.name, &values, 7).unwrap(), &lies()[..8]);
            }
        }
    }

    #[test]
    fn keeps_newest_matches_eviction_order() {
        let mut site = ControlSite::new(10_000);
        [300, 100, 300, 200, 100].into_iter().for_each(|size| _ = site.keep(9, size));
        for info in controls() {
            let control = make_control(info.name, &[], 7).unwrap();
            let worth = |held: &farlink_book::Held| control.worth(&site.node(), held);
            let all: Vec<_> = site.book.ranking(worth).into_iter().flatten().collect();
            let newest: Vec<_> = site.book.ranking_of_newest(worth).into_iter().flatten().collect();
            assert!(!control.keeps_newest() || all == newest, "{}", info.name);
        }
        let keep = controls().iter().filter(|info| make_control(info.name, &[], 7).unwrap().keeps_newest());
        assert_eq!(keep.map(|info| info.name).collect::<Vec<_>>(), ["drop-oldest"]);
    }

    #[test]
    fn arbitrary_messages_are_survived_by_controls() {
        for info in controls() {
            let most = live(&mut *make_control(info.name, &[], 7).unwrap(), &lies());
            // At most one action for each of the 24 bundles held, and a few more.
            assert!(most <= 24 + 4, "{}: {most} actions for one message", info.name);
        }
    }
}
