//! Host groups and the features they name: interfaces, movement, maps, routers.

use super::mistake::Mistake;
use super::movement;
use super::setup::{Group, RadioKind, Router, Setup, above_zero, at_least_one, not_covered, parts, refuse};
use super::values::{Value, Values};
use crate::map::Town;
use std::sync::Arc;

/// Largest number of hosts in a run.
const MOST_HOSTS: u64 = 100_000;
/// Largest number of hosts with tables of predictabilities, which hold one number for each pair.
const MOST_PREDICTED: u64 = 5_000;
/// Classes of interfaces whose speed varies, which Farlink's own world replaces.
const VARYING: [&str; 2] = ["DistanceCapacityInterface", "InterferenceLimitedInterface"];
/// Largest range, metres.
const FARTHEST: f64 = 1e9;

impl Setup {
    pub(super) fn add_groups(&mut self, values: &Values) -> Result<(), Mistake> {
        let groups = values.need(&["Scenario"], "nrofHostGroups")?;
        let mut town = None;
        let mut first: Option<(String, Router)> = None;
        // Group keys fall back to the namespace `Group`.
        let mut hosts = 0;
        for number in 1..=parts(&groups)? {
            let own = format!("Group{number}");
            let spaces = [own.as_str(), "Group"];
            refuse(values, "GroupN", &spaces)?;
            let router = values.need(&spaces, "router")?;
            let group = self.group(values, &spaces, &mut town)?;
            hosts += u64::from(group.hosts);
            if hosts > MOST_HOSTS {
                return Err(values.need(&spaces, "nrofHosts")?.wrong(
                    format!("more than {MOST_HOSTS} hosts together"),
                    "write fewer; larger networks are simulated by `farlink run`",
                ));
            }
            let kind = routing(values, &router, group.fifo)?;
            // A table for each pair of hosts: memory grows with the square of their number.
            if matches!(kind, Router::Prophet { .. }) && hosts > MOST_PREDICTED {
                return Err(router.wrong(format!("of more than {MOST_PREDICTED} hosts"), "write fewer hosts"));
            }
            if first.as_ref().is_some_and(|(name, _)| *name != router.text) {
                return Err(router.wrong("another router than that of the first group", "give all groups one router"));
            }
            first.get_or_insert((router.text, kind));
            self.groups.push(group);
        }
        if let Some((_, router)) = first {
            self.router = router;
        }
        Ok(())
    }

    // The map is read once and shared by all groups.
    fn group(&mut self, values: &Values, spaces: &[&str], town: &mut Option<Arc<Town>>) -> Result<Group, Mistake> {
        let get = |key: &str| values.find(spaces, key);
        let model = values.need(spaces, "movementModel")?;
        let mut radios = Vec::new();
        for number in 1..=get("nrofInterfaces").map_or(Ok(0), |value| parts(&value))? {
            let interface = values.need(spaces, &format!("interface{number}"))?;
            let kind = self.radio(values, &interface)?;
            if radios.contains(&kind) {
                return Err(not_covered(&interface, "give a host each interface once"));
            }
            radios.push(kind);
        }
        let queue = get("sendQueue");
        let word = queue.as_ref().map_or(String::new(), |queue| queue.text.to_ascii_uppercase());
        let fifo = match word.as_str() {
            "RANDOM" => false,
            "FIFO" => true,
            _ => match queue.as_ref().map_or(Ok(1), Value::whole)? {
                1 => false,
                2 => true,
                _ => {
                    let hint = "write 1 (shuffled) or 2 (first in, first out)";
                    return Err(
                        queue.map_or_else(|| Mistake::new("no queue", hint), |queue| queue.wrong("no queue", hint))
                    );
                }
            },
        };
        let lifetime = get("msgTtl").map(|value| {
            let minutes = value.whole()?;
            let fits = (-1..=35_791_394).contains(&minutes);
            if fits { Ok(minutes) } else { Err(value.wrong("not 0 to 35791394 minutes", "leave it out for no end")) }
        });
        Ok(Group {
            id: values.need(spaces, "groupID")?.text,
            hosts: values.need(spaces, "nrofHosts")?.count()?,
            radios,
            model: self.model(values, spaces, &model, town)?,
            active: movement::active(values, spaces)?,
            speed: get("speed").map_or(Ok([1.0; 2]), |value| value.range())?,
            wait: get("waitTime").map_or(Ok([0.0; 2]), |value| value.range())?,
            buffer: get("bufferSize").map_or(Ok(i64::from(i32::MAX)), |value| value.long())?,
            // -1 is The ONE's own value for no end.
            lifetime: lifetime.transpose()?.filter(|&minutes| minutes >= 0),
            fifo,
            delete_delivered: get("deleteDelivered").map_or(Ok(false), |value| value.truth())?,
        })
    }

    fn radio(&mut self, values: &Values, interface: &Value) -> Result<usize, Mistake> {
        // Interfaces connect only within a kind, so groups that name the same one must share its index.
        let name = interface.text.as_str();
        if let Some(place) = self.radios.iter().position(|kind| kind.name == name) {
            return Ok(place);
        }
        refuse(values, "<interface>", &[name])?;
        let Some(kind) = values.find(&[name], "type") else {
            let hint =
                format!("name an interface that has one, or add a line `{name}.type = SimpleBroadcastInterface`");
            return Err(interface.wrong(format!("{name}.type is missing"), hint));
        };
        let (range, mut speed) = (values.need(&[name], "transmitRange")?, values.need(&[name], "transmitSpeed")?);
        if kind.text != "SimpleBroadcastInterface" {
            if !values.translated || !VARYING.contains(&kind.text.as_str()) {
                return Err(not_covered(&kind, "exact is SimpleBroadcastInterface"));
            }
            // The speeds by distance, the first one for no distance; The ONE ignores the other speed.
            if let Some(speeds) = values.find(&[name], "transmitSpeeds") {
                speed = speeds.first();
            }
            self.left_out.push(kind.wrong(format!("its speed is always {} here", speed.text), "").told());
        }
        let metres = range.positive()?;
        if metres > FARTHEST {
            return Err(range.wrong("too far", format!("write up to {FARTHEST} metres")));
        }
        self.radios.push(RadioKind { name: name.into(), range: metres, speed: at_least_one(&speed)? });
        Ok(self.radios.len() - 1)
    }
}

/// Routers that are reproduced, for hints.
const ROUTERS: &str =
    "exact are EpidemicRouter, SprayAndWaitRouter, ProphetRouter, DirectDeliveryRouter and FirstContactRouter";

fn routing(values: &Values, router: &Value, fifo: bool) -> Result<Router, Mistake> {
    let own = [router.text.as_str()];
    match router.text.as_str() {
        "EpidemicRouter" => Ok(Router::Epidemic),
        "SprayAndWaitRouter" => {
            let copies = at_least_one(&values.need(&own, "nrofCopies")?)? as u32;
            Ok(Router::Spray { copies, binary: values.need(&own, "binaryMode")?.truth()? })
        }
        "ProphetRouter" if !fifo && !values.translated => Err(router.wrong(
            "with sendQueue = 1 the order of equals depends on where Java's objects lie in memory, and changes with \
             each start of The ONE",
            "--set Group.sendQueue=2 makes it repeatable, here and there",
        )
        .of_uncovered()),
        "ProphetRouter" => {
            let unit = values.need(&own, "secondsInTimeUnit")?;
            let number = |key: &str, default: f64| values.find(&own, key).map_or(Ok(default), |value| value.positive());
            Ok(Router::Prophet {
                unit: above_zero(&unit, unit.whole()?.into())?,
                beta: number("beta", 0.25)?,
                gamma: number("gamma", 0.98)?,
            })
        }
        "DirectDeliveryRouter" => Ok(Router::Direct),
        "FirstContactRouter" => Ok(Router::FirstContact),
        "ProphetV2Router" if values.translated => Ok(Router::Farlink("prophet")),
        "MaxPropRouter" if values.translated => Ok(Router::Farlink("maxprop")),
        "MaxPropRouter" | "ProphetV2Router" => {
            Err(not_covered(router, &format!("{ROUTERS}; `--mode fast` has this one, too")))
        }
        _ => Err(not_covered(router, ROUTERS)),
    }
}
