//! Contacts of satellites and ground stations, computed from their positions.
//!
//! Positions, lines of sight and the search for their beginnings and ends are in the orbits crate
//! (`farlink_orbits::sight`, `edges`); this module selects the pairs of a scenario and turns the results into passes:
//! contacts of a radio, and of the plan for routers.

use super::trace::{Encounter, Recorded};
use farlink_base::{ConfigError, DataRate, Duration, Instant, NodeId};
use farlink_orbits::beams::{Claim, serve};
use farlink_orbits::edges::{SightWindow, windows};
use farlink_orbits::moment::SECOND;
use farlink_orbits::place::{GroundSite, Trajectory};
use farlink_orbits::sight::{LIGHT, Limits, Sight};
use farlink_orbits::sky::Sky;
use farlink_orbits::walker::{self, WalkerPattern};
use farlink_routing::PlanTime;
use farlink_routing::contact_plan::Contact;
use farlink_scenario::Scenario;
use farlink_scenario::motion::sky::{self, Neighbours};
use farlink_scenario::motion::{Mobility, Model, Radio, Reach};
use std::sync::Arc;

/// Largest number of node pairs examined, and of passes kept: more indicates a mistake in the scenario and would fill
/// memory.
const PAIRS_MAX: usize = 2_000_000;
const PASSES_MAX: usize = 4_000_000;
/// Evaluations of the line of sight granted to each pair, in addition to one per second of the run. Most orbits need
/// one in some minutes, but two nodes at the very edge of visibility need one each millisecond.
const LOOKS_MIN: i64 = 200_000;
const ON_EDGE: &str = "two nodes stay at the very edge of what a range, a mask or a clearance allows";
/// Rate in the plan for a radio without a limit, as for an unlimited link.
const UNLIMITED: DataRate = DataRate(10_000_000_000);

/// Interval in which two nodes see each other and, if the radio's beams are limited, both have a beam for the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pass {
    /// Index of the radio in the scenario.
    pub radio: u16,
    /// Indices of the nodes in the scenario, the lower first.
    pub nodes: [u32; 2],
    /// Start of the pass.
    pub start: Instant,
    /// End of the pass.
    pub end: Instant,
}

/// Satellites and ground stations of a scenario, with all their passes.
pub struct Ephemeris {
    sky: Sky,
    /// Trajectories by node index.
    places: Vec<Option<Trajectory>>,
    /// All passes, grouped by radio, then by pair.
    passes: Vec<Pass>,
}

impl Ephemeris {
    /// Computes the passes of a scenario; `None` if no radio needs a line of sight.
    ///
    /// # Errors
    /// Fails on an invalid orbit, or too many pairs, passes or evaluations.
    pub fn of(scenario: &Scenario) -> Result<Option<Arc<Ephemeris>>, ConfigError> {
        if !scenario.radios.iter().any(|radio| matches!(radio.reach, Reach::Sight(_))) {
            return Ok(None);
        }
        let sky = Sky::new(scenario.epoch.unwrap_or(crate::naming::DEFAULT_EPOCH));
        let mut places = vec![None; scenario.nodes.len()];
        for mobility in &scenario.mobilities {
            let found = of_mobility(&sky, mobility).map_err(|why| error("mobility", &mobility.name, why))?;
            mobility.nodes.iter().zip(found).for_each(|(node, place)| places[*node] = Some(place));
        }
        let mut ephemeris = Ephemeris { sky, places, passes: Vec::new() };
        for (index, radio) in scenario.radios.iter().enumerate() {
            if let Reach::Sight(sight) = &radio.reach {
                let found = ephemeris.of_radio(scenario, radio, sight);
                let found = found.map_err(|why| error("radio", &radio.name, why))?;
                ephemeris.passes.extend(found.into_iter().map(|(nodes, window)| Pass {
                    radio: index as u16,
                    nodes,
                    start: instant(window.start),
                    end: instant(window.end),
                }));
                if ephemeris.passes.len() > PASSES_MAX {
                    return Err(error("radio", &radio.name, format!("more than {PASSES_MAX} contacts")));
                }
            }
        }
        Ok(Some(Arc::new(ephemeris)))
    }

    /// All passes, grouped by radio, then by pair; those of a pair in time order.
    pub fn passes(&self) -> &[Pass] {
        &self.passes
    }

    /// Contacts of one radio.
    pub fn contacts(&self, radio: u16) -> Recorded {
        let own = self.passes.iter().filter(|pass| pass.radio == radio);
        Recorded::new(
            radio,
            own.map(|pass| {
                let Pass { nodes: [a, b], start, end, .. } = *pass;
                Encounter { a, b, start, end }
            }),
        )
    }

    /// Light time between two nodes at a given time; zero if a node has no position.
    pub fn light(&self, nodes: [u32; 2], at: Instant) -> Duration {
        let time = i64::try_from(at.0).unwrap_or(i64::MAX);
        let place = |node: u32| self.places.get(node as usize)?.as_ref()?.state(&self.sky, time).ok();
        let [Some(one), Some(other)] = nodes.map(place) else { return Duration::ZERO };
        let seconds = (other.position - one.position).length() / LIGHT;
        Duration::from_nanos((seconds * 1e9).ceil() as u64)
    }

    /// Contacts for the contact plan: each pass in both directions, with the radio's delay, or if it has none, the
    /// light time at the start.
    pub fn plan<'a>(&'a self, scenario: &'a Scenario) -> impl Iterator<Item = Contact> + 'a {
        let number = |node: u32| scenario.nodes.get(node as usize).map_or(NodeId::NULL, |node| node.number);
        self.passes.iter().flat_map(move |pass| {
            let radio = scenario.radios.get(usize::from(pass.radio));
            let delay = radio.and_then(|radio| radio.delay).unwrap_or_else(|| self.light(pass.nodes, pass.start));
            let [one, other] = pass.nodes.map(number);
            [(one, other), (other, one)].map(|(from, to)| Contact {
                from,
                to,
                link: None,
                start: PlanTime(pass.start.0),
                end: PlanTime(pass.end.0),
                rate: radio.and_then(|radio| radio.rate).unwrap_or(UNLIMITED),
                one_way_delay: delay,
                confidence: 1.0,
            })
        })
    }

    fn of_radio(
        &self,
        scenario: &Scenario,
        radio: &Radio,
        wanted: &sky::Sight,
    ) -> Result<Vec<([u32; 2], SightWindow)>, String> {
        // The orbits crate counts in kilometres and nanoseconds, scenarios in metres.
        let limits = Limits { range_km: wanted.range.map(|m| m / 1e3), clearance_km: wanted.clearance / 1e3 };
        let duration = i64::try_from(scenario.duration.as_nanos()).unwrap_or(i64::MAX / 2);
        let span = SightWindow { start: 0, end: duration };
        let mut found = Vec::new();
        for pair in self.pairs(scenario, radio, wanted.neighbours)? {
            let [Some(one), Some(other)] = pair.map(|node| self.places[node as usize].as_ref()) else { continue };
            let sight = Sight::new(&self.sky, [one, other], [wanted.mask; 2], &limits);
            let mut left = LOOKS_MIN + duration / SECOND;
            let look = &mut |time| {
                left -= 1;
                if left > 0 { sight.look(time).map_err(|lost| lost.why) } else { Err(ON_EDGE.to_string()) }
            };
            let seen = windows(span, look)?;
            found.extend(seen.into_iter().map(|window| (pair, window)));
            if found.len() > PASSES_MAX {
                return Err(format!("more than {PASSES_MAX} contacts"));
            }
        }
        let Some(beams) = radio.sharing.beams else { return Ok(found) };
        // Beams are assigned here, to the passes that last longest, so that the contact plan and the contacts agree.
        let claims: Vec<Claim> = found.iter().map(|(ends, window)| Claim { ends: *ends, window: *window }).collect();
        let served = serve(&claims, [Some(beams); 2], 1);
        let kept = found.into_iter().zip(served);
        Ok(kept.filter_map(|((pair, window), from)| Some((pair, SightWindow { start: from?, ..window }))).collect())
    }

    fn pairs(&self, scenario: &Scenario, radio: &Radio, wanted: Neighbours) -> Result<Vec<[u32; 2]>, String> {
        // Each pair occurs once, with the lower node first.
        let mut has = vec![false; scenario.nodes.len()];
        radio.nodes.iter().for_each(|node| has[*node] = true);
        let stands = |node: usize| self.places[node].as_ref().is_some_and(Trajectory::is_ground);
        let ordered = |[a, b]: [usize; 2]| [a.min(b) as u32, a.max(b) as u32];
        let (ground, orbit): (Vec<usize>, Vec<usize>) = radio.nodes.iter().partition(|node| stands(**node));
        let many = match wanted {
            Neighbours::Ground => ground.len().saturating_mul(orbit.len()),
            Neighbours::All => radio.nodes.len().saturating_mul(orbit.len()),
            Neighbours::Ring | Neighbours::Grid => 2 * orbit.len(),
        };
        // Counted before the list is built, which could exhaust memory.
        if many > PAIRS_MAX {
            return Err(format!("more than {PAIRS_MAX} pairs of nodes"));
        }
        let mut pairs: Vec<[u32; 2]> = Vec::new();
        if matches!(wanted, Neighbours::Ground | Neighbours::All) {
            pairs.extend(ground.iter().flat_map(|one| orbit.iter().map(move |other| ordered([*one, *other]))));
        }
        if wanted == Neighbours::All {
            let after = |(at, one): (usize, &usize)| {
                let one = *one;
                orbit[at + 1..].iter().map(move |other| ordered([one, *other]))
            };
            pairs.extend(orbit.iter().enumerate().flat_map(after));
        }
        let kind = match wanted {
            Neighbours::Ring => walker::WalkerNeighbours::Ring,
            Neighbours::Grid => walker::WalkerNeighbours::Grid,
            Neighbours::Ground | Neighbours::All => return Ok(pairs),
        };
        for mobility in &scenario.mobilities {
            let Model::Orbit(shape) = &mobility.model else { continue };
            let node = |place: u32| mobility.nodes.get(place as usize).copied().filter(|node| has[*node]);
            let both = |[a, b]: [u32; 2]| Some(ordered([node(a)?, node(b)?]));
            pairs.extend(constellation(shape, 0.0).pairs(kind).into_iter().filter_map(both));
        }
        Ok(pairs)
    }
}

fn error(what: &str, name: &str, why: String) -> ConfigError {
    let hint = "fewer nodes, a shorter run, a higher `mask` or a `range` make fewer; orbits are above the ground";
    ConfigError { path: format!("{what}[{name}]"), expected: why, hint: hint.into() }
}

fn instant(time: i64) -> Instant {
    Instant(u64::try_from(time).unwrap_or(0))
}

fn constellation(shape: &sky::Walker, radius_km: f64) -> WalkerPattern {
    // The radius is that of the central body, kilometres.
    WalkerPattern {
        planes: shape.planes,
        per_plane: shape.per_plane,
        inclination: shape.inclination,
        radius_km: radius_km + shape.altitude / 1e3,
        phasing: shape.phasing,
        star: shape.star,
        node: 0.0,
        anomaly: 0.0,
        at: 0,
    }
}

fn of_mobility(sky: &Sky, mobility: &Mobility) -> Result<Vec<Trajectory>, String> {
    // In the order of the mobility's nodes; none for mobility on a plane.
    let earth = sky.find("earth").ok_or("a sky without an Earth")?;
    match &mobility.model {
        Model::Orbit(shape) => {
            let walker = constellation(shape, sky.body(earth).radius_km);
            let orbits = walker.orbits().take(mobility.nodes.len());
            orbits.map(|elements| Trajectory::orbit(sky, earth, &elements)).collect()
        }
        Model::Ground(sites) => {
            let place = |site: &sky::Site| {
                let sky::Site { latitude, longitude, altitude } = *site;
                let site = GroundSite { latitude, longitude, altitude_km: altitude / 1e3 };
                Trajectory::ground(sky, earth, site).ok_or_else(|| "the Earth has no ground".to_string())
            };
            sites.iter().take(mobility.nodes.len()).map(place).collect()
        }
        _ => Ok(Vec::new()),
    }
}
