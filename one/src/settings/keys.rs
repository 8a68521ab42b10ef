//! Tables of keys, from which the reference page and the warning about unknown keys are made.

use super::reporting::is_written;
use super::values::{Value, Values};
use farlink_base::nearest_name;

/// Key that a run reads, with its row of the reference page.
pub struct Key {
    /// Namespace; `N` stands for a number, `<interface>` for the name a group gives its interface.
    pub space: &'static str,
    /// Name of the key in its namespace.
    pub name: &'static str,
    /// Default value; `required` without a default.
    pub default: &'static str,
    /// Explanation for the reference page.
    pub meaning: &'static str,
}

const fn key(space: &'static str, name: &'static str, default: &'static str, meaning: &'static str) -> Key {
    Key { space, name, default, meaning }
}

/// Keys that a run reads, in the order of the reference page.
pub const KEYS: &[Key] = &[
    key("Scenario", "name", "required", "Name of the run, in the names of its reports; `%%Space.key%%` is filled in."),
    key("Scenario", "endTime", "required", "Simulated seconds."),
    key("Scenario", "updateInterval", "required", "Length of a step in seconds. Results depend on it."),
    key(
        "Scenario",
        "simulateConnections",
        "required",
        "Whether interfaces look for each other; `false` where contacts come from a file.",
    ),
    key("Scenario", "nrofHostGroups", "required", "How many groups there are."),
    key("<interface>", "type", "required", "`SimpleBroadcastInterface`."),
    key("<interface>", "transmitRange", "required", "Metres."),
    key("<interface>", "transmitSpeed", "required", "Bytes a second."),
    key(
        "<interface>",
        "transmitSpeeds",
        "none",
        "Bytes a second by distance, of interfaces that only mode fast has: it takes the first.",
    ),
    key("GroupN", "groupID", "required", "First part of the names of its hosts; the second is their number."),
    key("GroupN", "nrofHosts", "required", "How many hosts."),
    key("GroupN", "nrofInterfaces", "0", "How many interfaces each has."),
    key("GroupN", "interfaceK", "required", "Namespace of the interface."),
    key(
        "GroupN",
        "movementModel",
        "required",
        "`RandomWaypoint`, `RandomWalk`, `ClusterMovement`, `StationaryMovement`, `MapBasedMovement`, \
         `ShortestPathMapBasedMovement`, `MapRouteMovement`.",
    ),
    key(
        "GroupN",
        "router",
        "required",
        "`EpidemicRouter`, `SprayAndWaitRouter`, `ProphetRouter` (with `sendQueue = 2`); the same in all groups.",
    ),
    key("GroupN", "bufferSize", "unlimited", "Bytes of messages that a host holds."),
    key("GroupN", "msgTtl", "unlimited", "Minutes that a message lives; it goes one minute early, as there."),
    key("GroupN", "sendQueue", "1", "Which message first: 1 shuffled, 2 the one received first."),
    key("GroupN", "deleteDelivered", "false", "Whether a message goes when its destination says that it has it."),
    key("GroupN", "speed", "1, 1", "Metres a second, least and most."),
    key("GroupN", "waitTime", "0, 0", "Seconds of rest between ways, least and most."),
    key("GroupN", "nodeLocation", "required", "Where hosts of `StationaryMovement` are."),
    key("GroupN", "clusterCenter", "100, 100", "Centre of `ClusterMovement`, metres."),
    key("GroupN", "clusterRange", "100", "Radius of `ClusterMovement`, metres."),
    key("GroupN", "okMaps", "all", "Numbers of the map files whose streets the hosts use."),
    key(
        "GroupN",
        "pois",
        "none",
        "Points of interest of `ShortestPathMapBasedMovement`: number of a `poiFileK`, probability, and so on.",
    ),
    key("GroupN", "routeFile", "required", "Stops of `MapRouteMovement`: a `LINESTRING` each route."),
    key("GroupN", "routeType", "required", "1: after the last stop comes the first; 2: to and fro."),
    key("GroupN", "routeFirstStop", "random", "Stop at which the hosts of `MapRouteMovement` begin, from 0."),
    key("GroupN", "activeTimes", "always", "Seconds between which the hosts move: begin, end, begin, end."),
    key("GroupN", "activePeriods", "always", "Seconds for which hosts move, and do not, in turns."),
    key("GroupN", "activePeriodsOffset", "0", "Seconds of the first period that are over when the run begins."),
    key("GroupN", "applicationK", "none", "Namespace of an application, for a world that has some."),
    key("MovementModel", "worldSize", "required", "Width and height in metres."),
    key("MovementModel", "rngSeed", "0", "Seed of all movement."),
    key("MovementModel", "warmup", "0", "Seconds of movement before the run."),
    key("MapBasedMovement", "nrofMapFiles", "required", "How many map files there are, where a group walks on a map."),
    key("MapBasedMovement", "mapFileK", "required", "Streets: `LINESTRING` and `MULTILINESTRING` in well-known text."),
    key("PointsOfInterest", "poiFileK", "required", "Points of interest: `POINT` in well-known text."),
    key("Events", "nrof", "0", "How many sources of events there are."),
    key("EventsK", "class", "required", "`MessageEventGenerator`, `ExternalEventsQueue`."),
    key("EventsK", "interval", "required", "Whole seconds between messages, least and most; the most is never drawn."),
    key("EventsK", "size", "required", "Bytes of a message, least and most; the most is never drawn."),
    key(
        "EventsK",
        "hosts",
        "required",
        "Numbers of hosts that send (and receive): from the first, less than the second.",
    ),
    key("EventsK", "tohosts", "`hosts`", "Numbers of hosts that receive."),
    key(
        "EventsK",
        "prefix",
        "required",
        "First part of the names of messages, and the only seed of what is drawn here.",
    ),
    key("EventsK", "time", "always", "Seconds between which messages are made."),
    key(
        "EventsK",
        "filePath",
        "required",
        "File of events: lines `TIME CONN HOST HOST up` (or `down`) and `TIME C MESSAGE FROM TO SIZE`.",
    ),
    key("EventsK", "nrofPreload", "500", "Has no effect: the whole file is read."),
    key("Optimization", "cellSizeMult", "5", "Cells of the grid, in ranges; who finds whom first depends on it."),
    key("Optimization", "randomizeUpdateOrder", "true", "Whether hosts are updated in another order each time."),
    key("SprayAndWaitRouter", "nrofCopies", "required", "Copies of a message."),
    key("SprayAndWaitRouter", "binaryMode", "required", "Whether half of the copies are handed on, or one."),
    key("ProphetRouter", "secondsInTimeUnit", "required", "Seconds by which predictabilities age once."),
    key("ProphetRouter", "beta", "0.25", "Weight of what is known through another host."),
    key("ProphetRouter", "gamma", "0.98", "What a time unit leaves of a predictability."),
    key("Report", "nrofReports", "required", "How many reports there are."),
    key("Report", "reportK", "required", "A class; those of the list above are written."),
    key("Report", "reportDir", "reports/", "Folder of reports; `--out` names another."),
    key(
        "Report",
        "warmup",
        "0",
        "What begins in the first so many seconds is not counted. Event logs know no warm-up.",
    ),
    key("Report", "precision", "4", "Decimals of numbers, but for those of event logs and contacts."),
    key("Report", "granularity", "1", "Seconds of a row of `ContactTimesReport` and `InterContactTimesReport`."),
];

/// Key that would change the run in an unsupported way.
pub struct Refused {
    /// Namespace, as in [`Key`].
    pub space: &'static str,
    /// Name of the key in its namespace.
    pub name: &'static str,
    /// Value that has no effect and is accepted.
    pub harmless: &'static str,
    /// Feature that the key requests.
    pub what: &'static str,
}

const fn refused(space: &'static str, name: &'static str, harmless: &'static str, what: &'static str) -> Refused {
    Refused { space, name, harmless, what }
}

/// Keys that are refused unless their value has no effect.
pub const REFUSED: &[Refused] = &[
    refused("Optimization", "simulateConnectionsOnce", "false", "contacts looked for once only"),
    refused("GroupN", "nrofApplications", "0", "applications on hosts"),
    refused("GroupN", "mtaPolicy", "", "policies of acceptance"),
    refused("GroupN", "initialEnergy", "", "energy"),
    refused("GroupN", "net.scanInterval", "0", "interfaces that scan at intervals"),
    refused("GroupN", "net.activenessOffsetJitter", "0", "interfaces that are active at times"),
    refused("GroupN", "net.activeTimes", "", "interfaces that are active at times"),
    refused("GroupN", "net.activePeriods", "", "interfaces that are active at times"),
    refused("<interface>", "scanInterval", "0", "interfaces that scan at intervals"),
    refused("<interface>", "activenessOffsetJitter", "0", "interfaces that are active at times"),
    refused("EventsK", "responseSize", "0", "answers to messages"),
    refused("Report", "output", "", "reports in files of another name"),
    refused("Report", "interval", "-1", "reports in several files"),
];

impl Refused {
    /// Whether a value asks for what is refused.
    pub fn concerns(&self, text: &str) -> bool {
        // Values are also compared as numbers: `0.0` is as harmless as `0`.
        let number = |text: &str| text.parse::<f64>().ok();
        text != self.harmless && (number(text) != number(self.harmless) || number(text).is_none())
    }
}

/// Refused keys that a file sets, each with what it asks for, for a world that leaves them out.
pub fn left_out(values: &Values) -> Vec<String> {
    let line = |value: Value| {
        let (space, name) = value.key.split_once('.')?;
        let fits = |key: &&Refused| is_space(key.space, space) && key.name == name && key.concerns(&value.text);
        let key = REFUSED.iter().find(fits)?;
        Some(value.wrong(format!("{} are left out", key.what), "").told())
    };
    values.all().filter_map(line).collect()
}

/// Namespaces that concern only a screen, a debugger, or unsupported routers and models.
const IGNORED: &[&str] = &["GUI", "DTNSim"];

/// Whether a key of a file is in one of the tables, or has no effect on a run.
pub fn is_known(key: &str) -> bool {
    let Some((space, name)) = key.split_once('.') else { return false };
    if IGNORED.contains(&space) || key == "Optimization.realtime" {
        return true;
    }
    rows().any(|(known, known_name)| is_space(known, space) && numbered(known_name, name))
}

/// Namespaces of applications and reports that a world leaves out, whose keys nobody reads.
pub fn foreign_spaces(values: &Values) -> Vec<String> {
    let named = |value: &Value| {
        let (space, name) = value.key.split_once('.')?;
        let application = is_space("GroupN", space) && name != "applicationK" && numbered("applicationK", name);
        let report = space == "Report" && numbered("reportK", name) && name != "reportK";
        (application || report && !is_written(&value.text)).then(|| value.text.clone())
    };
    values.all().filter_map(|value| named(&value)).collect()
}

/// Closest known key to an unknown one, for a hint.
pub fn nearest(key: &str) -> Option<String> {
    let (space, name) = key.split_once('.')?;
    let names = rows().filter(|(known, _)| is_space(known, space)).map(|(_, name)| name);
    nearest_name(name, names).map(|name| format!("{space}.{name}"))
}

fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    // Refused keys count as known: they have an error of their own and need no warning.
    KEYS.iter().map(|key| (key.space, key.name)).chain(REFUSED.iter().map(|key| (key.space, key.name)))
}

fn is_space(known: &str, space: &str) -> bool {
    // Any name may be that of an interface, and every report has a namespace of its own.
    let any = known == "<interface>" || (known == "Report" && space.ends_with("Report"));
    any || known.strip_suffix('N') == Some(space) || numbered(known, space)
}

fn numbered(known: &str, text: &str) -> bool {
    // The last letter `N` or `K` stands for a number; `EventsN` is no namespace, events use `EventsK`.
    let stem = known.strip_suffix(['N', 'K']).filter(|_| known != "EventsN");
    let digits = stem.and_then(|stem| text.strip_prefix(stem));
    known == text || digits.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
pub(super) fn tables() -> String {
    let mut text = String::from("## Keys that are read\n\n| key | default | meaning |\n|---|---|---|\n");
    for key in KEYS {
        text += &format!("| `{}.{}` | {} | {} |\n", key.space, key.name, key.default, key.meaning);
    }
    text += "\n## Keys that are refused\n\nThey would change the run in a way that is not covered.\n\n";
    text += "| key | asks for | may stand there |\n|---|---|---|\n";
    for key in REFUSED {
        let harmless = if key.harmless.is_empty() { "nothing".into() } else { format!("`{}`", key.harmless) };
        text += &format!("| `{}.{}` | {} | {harmless} |\n", key.space, key.name, key.what);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_and_report_keys_are_known() {
        for key in [
            "Group.speed",
            "Group12.speed",
            "Events1.hosts",
            "Events.nrof",
            "Report.report3",
            "radio.transmitRange",
            "MessageStatsReport.warmup",
            "GUI.anything",
            "Optimization.realtime",
            "Group1.interface2",
            "Group.okMaps",
            "MapBasedMovement.mapFile4",
        ] {
            assert!(is_known(key), "{key}");
        }
        for key in ["Group.sped", "Groupx.speed", "Scenario.", "", "nothing", "Events1.nrof", "Report.reportx"] {
            assert!(!is_known(key), "{key}");
        }
    }

    #[test]
    fn every_key_is_documented() {
        let text = tables();
        for key in KEYS {
            assert!(key.meaning.ends_with('.') && text.contains(&format!("`{}.{}`", key.space, key.name)));
        }
        assert!(REFUSED.iter().all(|key| text.contains(key.what)));
    }
}
