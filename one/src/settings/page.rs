//! Reference page: supported features in prose, and the tables of keys.

use super::keys;

/// Prose before the tables.
const WORDS: &str = "# Settings files of The ONE

<!-- Made from one/src/settings/. Change that, then: FARLINK_BLESS=1 cargo test -p farlink-one --lib -->

`farlink one` runs settings files of The ONE, version 1.6, as they are. `--mode exact` imitates that simulator's own world: all
hosts move by equal steps, are updated in shuffled order, and take part in one transfer at a time. The reports are the same byte for
byte. It is there to repeat and to check old studies; it holds nothing of Farlink's engine, so it says nothing about Farlink's
routers. Settings that it does not cover run [in Farlink's own world](#in-farlinks-own-world) (`--mode fast`), and a line says which
of them it was; `--mode exact` refuses them instead. [Coming from The ONE](../how-to/coming-from-the-one.md) tells how a study
becomes a scenario of Farlink's own.

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
is in, then beside the settings file and in the folder above. All is checked before anything is run. Keys that nobody reads are
warned of. Settings are read in ISO 8859-1, as Java reads them: write other letters as `\\u00e9`; `--set` takes them as typed.

`--mode exact` also refuses what The ONE runs though it can hardly be meant: a second message of one name, event files out of order,
sizes, copies, speeds and time units of 0, one report or interface twice.

## What is covered

| | covered | not |
|---|---|---|
| routers | `EpidemicRouter`; `SprayAndWaitRouter`, binary and not; `DirectDeliveryRouter`; `FirstContactRouter`; `ProphetRouter` with `sendQueue = 2` | PRoPHET with a shuffled queue: there the order of equals is that of objects in Java's memory, and differs from start to start; all other routers |
| movement | `RandomWaypoint`, `RandomWalk`, `ClusterMovement`, `StationaryMovement`; `MapBasedMovement`, `ShortestPathMapBasedMovement` with points of interest, `MapRouteMovement`, each on some or all of the map files; active times of hosts | buses, cars, working days, recorded movement |
| interfaces | `SimpleBroadcastInterface`, several kinds on a host | others; scanning at intervals, active times, energy |
| events | `MessageEventGenerator`; files with `CONN` and `C` lines | other lines; binary files; answers |
| reports | `MessageStatsReport`, `EventLogReport`, `ConnectivityONEReport`, `ContactTimesReport`, `InterContactTimesReport`, `CreatedMessagesReport`, `DeliveredMessagesReport`, `MessageDeliveryReport`, `MessageDelayReport` | others are left out, and a line says so |

Of what The ONE ships, `default_settings.txt` and the settings of epidemic routing, of spray and wait, of their comparison and of
clusters run exactly; those of PRoPHET, of pings and of an interface whose speed depends on the distance run in Farlink's own world,
without pings and at one speed.

## How far it was compared

With reports that The ONE wrote, all equal. `cargo xtask one-reference --make CHECKOUT` runs settings of ours in a checkout of it:
65 runs over cells of 1 to 10 ranges, one to three interfaces, up to four groups, all movements, routers and reports above; the
tests compare the SHA-256 of each report. It compares files of yours, too. `--reference DIR` compares six other runs with their whole
event logs, and the figures of 298 runs of up to 2.3 million transfers.

Where The ONE ends with an error in the middle of a run, so does this: a host outside the world, a message deleted twice
(`deleteDelivered` with two contacts to its destination).

## In Farlink's own world

`--mode fast` writes a scenario (`NAME.toml`, with `NAME.contacts` where contacts come from a file, and `NAME.GROUP.positions` where a
group moves in a way that no scenario has) into the folder of reports, and runs it with `fidelity = \"message\"`: `farlink run` and `farlink report` take it from there.

| | |
|---|---|
| the same in kind | hosts and their groups, models of movement and their ranges of speed and rest, streets, ranges and rates of interfaces, contacts of a file, buffers and lifetimes, who sends how much to whom how often, dropping the oldest |
| the same | the ways of hosts on maps, on routes, in clusters and with active times: those of The ONE, step by step |
| more | `MaxPropRouter` and `ProphetV2Router`; PRoPHET with a shuffled queue; settings that name any reports, which are not written: there are the run's tables |
| different | time goes from event to event, without steps; each radio sends or receives one bundle at a time, where The ONE has one transfer a host, whatever its interfaces; neighbours tell each other in bundles what they hold, which take their turn; bundles leave by priority and age; PRoPHET is version 2; lifetimes end when they end, not a minute early; bundles weigh their headers and those of TCPCLv4; all random numbers |
| refused | messages from a file (`C` lines); messages of a part of a group; contacts from a file among several kinds of interfaces; hosts that never meet; messages that cease before the run ends (`EventsK.time`) |
| without effect | `Report.warmup`, `deleteDelivered`; `MovementModel.warmup` but for the ways above; the keys that are refused below; a speed that depends on the distance. Each is told |

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
