//! ION's congestion control: accepted bundles are never evicted. The contact plan gives a forecast of occupancy;
//! applications must wait for space, and arrivals without space are refused.
//!
//! S. Burleigh, ION; described in A. P. Silva et al., "Congestion Control in Disruption-Tolerant Networks", section
//! 7. In ION the forecast (`ionwarn`) warns people, and applications are blocked by occupancy alone: that is
//! `horizon` 0. The agent enforces contact rates under any control. Whether a refused application waits or gives up
//! is its own decision.

use crate::control::Control;
use farlink_base::{DataRate, Duration, Instant, Param, PeerId, Refusal};
use farlink_book::{Held, Node, StoreFlow, forecast};

/// Control with admission by forecast.
#[derive(Debug)]
pub struct IonControl {
    outbound: f64,
    horizon: Duration,
    production: DataRate,
    consumption: DataRate,
}

const fn rate(name: &'static str, help: &'static str) -> Param {
    Param { name, help, unit: "bit/s", default: 0.0, min: 0.0, max: 1e15 }
}

impl IonControl {
    /// Parameters of the control.
    pub const PARAMS: &'static [Param] = &[
        Param {
            name: "outbound",
            help: "Share of the store that bundles for other nodes may take (ION: `m outbound`).",
            unit: "",
            default: 1.0,
            min: 0.0,
            max: 1.0,
        },
        Param {
            name: "horizon",
            help: "Forecast horizon when an application sends; 0: only the space free now counts.",
            unit: "s",
            default: 0.0,
            min: 0.0,
            max: 1e9,
        },
        rate("production", "Forecast rate at which local applications send (ION: `m production`)."),
        rate("consumption", "Forecast rate at which local applications consume (ION: `m consumption`)."),
    ];

    /// Control with values of [`IonControl::PARAMS`].
    pub fn new(params: &[f64]) -> Self {
        let param = |index: usize| params.get(index).copied().unwrap_or(Self::PARAMS[index].default);
        IonControl {
            outbound: param(0),
            horizon: Duration::from_nanos((param(1) * 1e9) as u64),
            production: DataRate(param(2) as u64),
            consumption: DataRate(param(3) as u64),
        }
    }

    /// Time at which there will be no space for `more` bytes, given contacts and applications; `None` if that is not
    /// within the horizon.
    fn full(&self, node: &Node<'_>, more: u64, most: u64) -> Option<Instant> {
        let until = node.now + self.horizon;
        let mut flows = node.router.map(|router| router.flows(node, until)).unwrap_or_default();
        for (rate, comes) in [(self.production, true), (self.consumption, false)] {
            if rate.0 > 0 {
                flows.push(StoreFlow { start: node.now, end: until, rate, comes });
            }
        }
        // A store full to the last byte is still acceptable.
        forecast(node.book.bytes().saturating_add(more), most.saturating_add(1), &flows, node.now, until).full
    }
}

impl Control for IonControl {
    fn asks_for_room_only(&self) -> bool {
        self.horizon == Duration::ZERO && self.outbound >= 1.0
    }
    fn admit(&self, node: &Node<'_>, new: &Held) -> Result<f64, Refusal> {
        // Bundles for applications here are not outbound.
        let most = (node.capacity as f64 * self.outbound) as u64;
        if new.destination() != node.me && self.outbound < 1.0 {
            if new.size() > most {
                return Err(Refusal::TooLarge);
            }
            if node.book.bytes().saturating_add(new.size()) > most {
                return Err(Refusal::NoResources);
            }
        }
        // Administrative records and hellos of this node do not wait for a forecast.
        let sent = new.from == PeerId::NONE && !new.bundle.is_administrative() && new.destination() != node.me;
        if sent && self.horizon > Duration::ZERO && self.full(node, new.size(), most).is_some() {
            return Err(Refusal::NoResources);
        }
        Ok(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ControlSite;
    use alloc::vec::Vec;
    use farlink_book::DeliveryForecast;

    /// Flows of 10 B/s: in from 100 s to 200 s, out from 300 s to 400 s.
    struct PlannedFlows;
    impl DeliveryForecast for PlannedFlows {
        fn flows(&self, _node: &Node<'_>, until: Instant) -> Vec<StoreFlow> {
            let flow = |start: u64, end: u64, comes| StoreFlow {
                start: Instant(start * 1_000_000_000),
                end: Instant(end * 1_000_000_000),
                rate: DataRate::from_bytes_per_second(10),
                comes,
            };
            [flow(100, 200, true), flow(300, 400, false)].into_iter().filter(|flow| flow.start < until).collect()
        }
    }
    fn admits(
        control: &IonControl,
        site: &ControlSite,
        size: usize,
        change: impl Fn(&mut Held),
    ) -> Result<f64, Refusal> {
        let mut new = site.newcomer(size);
        change(&mut new);
        control.admit(&Node { router: Some(&PlannedFlows), ..site.node() }, &new)
    }
    const IN: Result<f64, Refusal> = Ok(f64::INFINITY);
    const OUT: Result<f64, Refusal> = Err(Refusal::NoResources);

    #[test]
    fn room_alone_decides_admission() {
        let mut site = ControlSite::new(1000);
        let bundle = site.keep(9, 300);
        let control = IonControl::new(&[]);
        assert!(control.asks_for_room_only());
        assert_eq!(control.worth(&site.node(), site.held(bundle)), None);
        assert_eq!(admits(&control, &site, 700, |_| ()), IN);
        assert_eq!(site.fits(&control, 701), None);
    }

    #[test]
    fn applications_wait_for_planned_congestion() {
        let mut site = ControlSite::new(1500);
        let control = IonControl::new(&[1.0, 1000.0]);
        assert!(!control.asks_for_room_only());
        // 1,000 B will arrive until 200 s.
        assert_eq!(admits(&control, &site, 500, |_| ()), IN);
        assert_eq!(admits(&control, &site, 501, |_| ()), OUT);
        assert_eq!(
            admits(&control, &site, 501, |new| new.from = PeerId(1)),
            IN,
            "from a neighbour: only space decides"
        );
        let near = IonControl::new(&[1.0, 100.0]);
        assert_eq!(admits(&near, &site, 1500, |_| ()), IN, "no inflow within the horizon");
        let site_later = |site: &mut ControlSite, second: u64| site.now = Instant(second * 1_000_000_000);
        site_later(&mut site, 150);
        assert_eq!((admits(&control, &site, 1000, |_| ()), admits(&control, &site, 1001, |_| ())), (IN, OUT));
        site_later(&mut site, 200);
        assert_eq!(admits(&control, &site, 1500, |_| ()), IN, "only outflow from now on");
    }

    #[test]
    fn local_production_and_consumption_count() {
        let site = ControlSite::new(2000);
        // 8 bit/s for 1,000 s besides the plan's 1,000 B.
        let makes = IonControl::new(&[1.0, 1000.0, 8.0]);
        // At 300 s, 1,000 B have arrived and 300 B were produced; at 1,000 s the former are gone, and 1,000 B were
        // produced.
        assert_eq!((admits(&makes, &site, 700, |_| ()), admits(&makes, &site, 701, |_| ())), (IN, OUT));
        // Applications consume 100 B/s: the full store is empty before the first bytes arrive, and then bytes leave
        // faster than they arrive.
        let takes = IonControl::new(&[1.0, 1000.0, 0.0, 800.0]);
        assert_eq!(admits(&takes, &site, 2000, |_| ()), IN);
    }

    #[test]
    fn transit_traffic_keeps_to_its_share() {
        let mut site = ControlSite::new(1000);
        site.keep(9, 300);
        let control = IonControl::new(&[0.5]);
        assert!(!control.asks_for_room_only());
        assert_eq!((admits(&control, &site, 200, |_| ()), admits(&control, &site, 201, |_| ())), (IN, OUT));
        assert_eq!(admits(&control, &site, 501, |_| ()), Err(Refusal::TooLarge));
        let node = Node { me: farlink_base::NodeId(9), ..site.node() };
        assert_eq!(control.admit(&node, &site.newcomer(501)), IN, "for an application here");
    }
}
