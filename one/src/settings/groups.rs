//! Host groups and the features they name: interfaces, movement, maps, routers.

use super::mistake::Mistake;
use super::setup::{Group, Model, RadioKind, Router, Setup, above_zero, at_least_one, not_covered, parts, refuse};
use super::values::{Value, Values};
use crate::map::Town;
use std::sync::Arc;

/// Largest number of hosts in a run.
const MOST_HOSTS: u64 = 100_000;
/// Largest number of hosts with tables of predictabilities, which hold one number for each pair.
const MOST_PREDICTED: u64 = 5_000;
/// Largest range and coordinate, metres.
const FARTHEST: f64 = 1e9;
const LONGEST_MAP: u64 = 256 << 20;

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
                return Err(not_covered(Some(&interface), "give a host each interface once"));
            }
            radios.push(kind);
        }
        let queue = get("sendQueue");
        let fifo = match queue.as_ref().map_or(Ok(1), Value::whole)? {
            1 => false,
            2 => true,
            _ => return Err(not_covered(queue.as_ref(), "write 1 (shuffled) or 2 (first in, first out)")),
        };
        let lifetime = get("msgTtl").map(|value| {
            let minutes = value.whole()?;
            let fits = (0..=35_791_394).contains(&minutes);
            if fits { Ok(minutes) } else { Err(value.wrong("not 0 to 35791394 minutes", "leave it out for no end")) }
        });
        Ok(Group {
            id: values.need(spaces, "groupID")?.text,
            hosts: values.need(spaces, "nrofHosts")?.count()?,
            radios,
            model: self.model(values, spaces, &model, town)?,
            speed: get("speed").map_or(Ok([1.0; 2]), |value| value.range())?,
            wait: get("waitTime").map_or(Ok([0.0; 2]), |value| value.range())?,
            buffer: get("bufferSize").map_or(Ok(i64::from(i32::MAX)), |value| value.long())?,
            lifetime: lifetime.transpose()?,
            fifo,
            delete_delivered: get("deleteDelivered").map_or(Ok(false), |value| value.truth())?,
        })
    }

    fn model(
        &mut self,
        values: &Values,
        spaces: &[&str],
        name: &Value,
        town: &mut Option<Arc<Town>>,
    ) -> Result<Model, Mistake> {
        match name.text.as_str() {
            "RandomWaypoint" => Ok(Model::Waypoint),
            "RandomWalk" => Ok(Model::Walk),
            "StationaryMovement" => {
                let place = values.need(spaces, "nodeLocation")?;
                let at = place.pair()?;
                if at.iter().any(|length| length.abs() > FARTHEST) {
                    return Err(place.wrong("too far out", format!("write up to {FARTHEST} metres")));
                }
                Ok(Model::Stationary(at))
            }
            "ShortestPathMapBasedMovement" => {
                let read = match town.take() {
                    Some(read) => read,
                    None => Arc::new(self.map(values)?),
                };
                *town = Some(Arc::clone(&read));
                Ok(Model::Map(read))
            }
            _ => Err(not_covered(
                Some(name),
                "exact are RandomWaypoint, RandomWalk, ShortestPathMapBasedMovement and StationaryMovement",
            )),
        }
    }

    fn map(&mut self, values: &Values) -> Result<Town, Mistake> {
        let files = values.need(&["MapBasedMovement"], "nrofMapFiles")?;
        let mut texts = Vec::new();
        for number in 1..=parts(&files)? {
            let named = values.need(&["MapBasedMovement"], &format!("mapFile{number}"))?;
            let (file, bytes) = values.file(&named, LONGEST_MAP)?;
            self.maps.push(file.clone());
            texts.push((file, String::from_utf8_lossy(&bytes).into_owned()));
        }
        Town::read(&texts, self.area)
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
        if kind.text != "SimpleBroadcastInterface" {
            return Err(not_covered(Some(&kind), "exact is SimpleBroadcastInterface"));
        }
        let (range, speed) = (values.need(&[name], "transmitRange")?, values.need(&[name], "transmitSpeed")?);
        let metres = above_zero(&range, range.number()?)?;
        if metres > FARTHEST {
            return Err(range.wrong("too far", format!("write up to {FARTHEST} metres")));
        }
        self.radios.push(RadioKind { name: name.into(), range: metres, speed: at_least_one(&speed)? });
        Ok(self.radios.len() - 1)
    }
}

/// Router classes of The ONE that are not reproduced, each with the name of Farlink's own router for it.
const FARLINK: [(&str, &str); 3] = [
    ("DirectDeliveryRouter", "direct-delivery"),
    ("FirstContactRouter", "first-contact"),
    ("MaxPropRouter", "maxprop"),
];

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
        )),
        "ProphetRouter" => {
            let unit = values.need(&own, "secondsInTimeUnit")?;
            let number = |key: &str, default: f64| values.find(&own, key).map_or(Ok(default), |value| value.positive());
            Ok(Router::Prophet {
                unit: above_zero(&unit, unit.whole()?.into())?,
                beta: number("beta", 0.25)?,
                gamma: number("gamma", 0.98)?,
            })
        }
        name => match FARLINK.iter().find(|(other, _)| *other == name) {
            Some((_, ours)) if values.translated => Ok(Router::Farlink(ours)),
            Some(_) => Err(not_covered(
                Some(router),
                "exact are EpidemicRouter, SprayAndWaitRouter and ProphetRouter; `--mode fast` has this one, too",
            )),
            None => Err(not_covered(Some(router), "exact are EpidemicRouter, SprayAndWaitRouter and ProphetRouter")),
        },
    }
}
