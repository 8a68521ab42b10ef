//! Reference page: supported features in prose, and the tables of keys.

use super::keys;

/// Prose before the tables.
const WORDS: &str = "# Settings files of The ONE

<!-- Made from one/src/settings/. Change that, then: FARLINK_BLESS=1 cargo test -p farlink-one --lib -->

`farlink one` runs settings files of The ONE, version 1.6, as they are, in that simulator's own world: all hosts move by equal
steps, are updated in shuffled order, and take part in one transfer at a time. The reports are the same byte for byte. It is there
to repeat and to check old studies; it holds nothing of Farlink's engine, so it says nothing about Farlink's routers.
[Coming from The ONE](../how-to/coming-from-the-one.md) tells how a study becomes a scenario of Farlink's own.

<!-- reader: sed -n '/^Scenario.name = meeting/,/^```$/p' docs/tutorials/from-the-one.md | grep -v '```' > base.txt -->
<!-- reader: echo 'MovementModel.rngSeed = [1; 2; 3; 4; 5]' > overlay.txt -->
```sh
farlink one base.txt overlay.txt                      # a later file overrides an earlier one
farlink one base.txt -b 5 --out reports               # five runs: each takes its element of [a; b; c]
farlink one base.txt -b 2:4                           # its runs 2, 3 and 4
farlink one base.txt --set Group.bufferSize=1000k     # over what the files say
farlink one base.txt --json                           # for scripts
```

`default_settings.txt` of the folder one is in is read first, as there. Files that settings name are looked for from the folder one
is in, then beside the settings file and in the folder above. What is not covered is refused with the line it stands in, before
anything is run. Keys that nobody reads are warned of.

## What is covered

| | covered | not |
|---|---|---|
| routers | `EpidemicRouter`; `SprayAndWaitRouter`, binary and not; `ProphetRouter` with `sendQueue = 2` | PRoPHET with a shuffled queue: there the order of equals is that of objects in Java's memory, and differs from start to start; all other routers |
| movement | `RandomWaypoint`, `RandomWalk`, `ShortestPathMapBasedMovement` on maps whose every street all may use, `StationaryMovement` | buses, routes, working days, points of interest |
| interfaces | `SimpleBroadcastInterface`, several kinds on a host | others; scanning at intervals, energy |
| events | `MessageEventGenerator`; files with `CONN` and `C` lines | other lines; binary files; answers |
| reports | `MessageStatsReport`, `EventLogReport`, `ConnectivityONEReport` | others |

## How far it was compared

With reports that The ONE wrote (`cargo xtask one-reference --reference DIR` does it again): six runs with their whole event logs,
and the figures of 298 runs of up to 2.3 million transfers, all equal: the three routers, random waypoint, random walk, streets,
contacts from a file, steps of 1 and 0.1 s. Described, but not compared with reports: `MovementModel.warmup`, `Report.warmup`,
`deleteDelivered`, `binaryMode = false`, several groups that move, several interfaces of a host, `EventsK.time`, lifetimes that end,
`ConnectivityONEReport`, `C` lines in files, maps whose lines share a street, and maps of which two shortest ways are equally long.

## In Farlink's own world

`--mode fast` writes a scenario (`NAME.toml`, and `NAME.contacts` where contacts come from a file) into the folder of reports, and
runs it with `fidelity = \"message\"`: `farlink run` and `farlink report` take it from there.

| | |
|---|---|
| the same in kind | hosts and their groups, models of movement and their ranges of speed and rest, streets, ranges and rates of interfaces, contacts of a file, buffers and lifetimes, who sends how much to whom how often, dropping the oldest |
| more | `DirectDeliveryRouter`, `FirstContactRouter` and `MaxPropRouter`; PRoPHET with a shuffled queue; settings that name any reports, which are not written: there are the run's tables |
| different | time goes from event to event, without steps; each radio sends or receives one bundle at a time, where The ONE has one transfer a host, whatever its interfaces; neighbours tell each other in bundles what they hold, which take their turn; bundles leave by priority and age; PRoPHET is version 2; lifetimes end when they end, not a minute early; bundles weigh their headers and those of TCPCLv4; all random numbers |
| refused | messages from a file (`C` lines); messages of a part of a group; a map of several files; contacts from a file among several kinds of interfaces; hosts that never meet; messages that cease before the run ends (`EventsK.time`) |
| without effect | `MovementModel.warmup`, `Report.warmup`, `deleteDelivered`, which is told |

Messages from or to several groups are drawn for each two groups by themselves, as often on average.

## How it runs

The runs of a batch follow one another, in one thread; the maps of The ONE are not part of Farlink.

";

/// The page as Markdown.
pub fn page() -> String {
    WORDS.to_string() + &keys::tables()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/one.md");
        if std::env::var_os("FARLINK_BLESS").is_some() {
            std::fs::write(path, page()).expect("docs/reference can be written");
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(there, page(), "run `cargo xtask docs`");
    }
}
