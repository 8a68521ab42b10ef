//! Settings of a node in one table, from which node files and their reload, scenarios for the simulator and the
//! testbed, references, schemas and `--help` are derived.
//!
//! Each row describes one field: its default, range and help text. Read [`NodeSettings`] and [`NodeParam`] first.
//! Names, addresses, files, and lists such as links and rules are not in the table.

use crate::{
    ClockTrust, CrcType, DataVolume, Duration, LinkCrc, LogFormat, LogLevel, Profile, Setting, Unit, exact_volume,
    nanoseconds,
};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Row of the table: a setting of a node, with access to its field of [`NodeSettings`].
#[derive(Debug)]
pub struct NodeParam {
    /// Key in a node file, with its table: `hop_limit`, `limits.bundles`.
    pub path: &'static str,
    /// One sentence about the setting's effect.
    pub help: &'static str,
    range: Range,
    /// Reads the value; `None` for a setting without a default that was not set.
    pub get: fn(&NodeSettings) -> Option<u64>,
    /// Writes a value within the range.
    pub set: fn(&mut NodeSettings, u64),
    /// Computes the default of a setting that depends on other settings.
    follows: Option<fn(&NodeSettings) -> u64>,
    /// Example value for settings without a default.
    example: Option<u64>,
    /// Whether a running node applies a new value when it reads its file again; otherwise a restart is needed.
    pub is_live: bool,
    /// Reason why simulations ignore the setting; `None` if they obey it.
    pub unsimulated: Option<&'static str>,
}

/// Unit of a setting, its smallest and its largest value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range(pub Unit, pub u64, pub u64);

pub(crate) const FLAG: Range = Range(Unit::Flag, 0, 1);
const OFFSET: Range = Range(Unit::Offset, 0, u64::MAX);
pub(crate) const fn count(min: u64, max: u64) -> Range {
    Range(Unit::Count, min, max)
}
const fn bytes(min: u64, max: u64) -> Range {
    Range(Unit::Bytes, min, max)
}
pub(crate) const fn choice(words: &'static [&'static str]) -> Range {
    Range(Unit::Choice(words), 0, words.len() as u64 - 1)
}
/// Durations up to a hundred years.
pub(crate) const DURATION: Range = Range(Unit::Nanoseconds, 0, 36_500 * 86_400 * 1_000_000_000);

impl NodeParam {
    const fn new(
        path: &'static str,
        range: Range,
        help: &'static str,
        get: fn(&NodeSettings) -> Option<u64>,
        set: fn(&mut NodeSettings, u64),
    ) -> Self {
        NodeParam { path, help, range, get, set, follows: None, example: None, is_live: false, unsimulated: None }
    }
    const fn live(self) -> Self {
        NodeParam { is_live: true, ..self }
    }
    const fn unsimulated(self, why: &'static str) -> Self {
        NodeParam { unsimulated: Some(why), ..self }
    }
    const fn example(self, value: u64) -> Self {
        NodeParam { example: Some(value), ..self }
    }
    const fn follows(self, value: fn(&NodeSettings) -> u64) -> Self {
        NodeParam { follows: Some(value), ..self }
    }
    /// Row with this path.
    pub fn named(path: &str) -> Option<&'static NodeParam> {
        params().find(|row| row.path == path)
    }
    /// Table of a node file that contains the setting, such as `limits`; empty for the top of the file.
    pub fn table(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(table, _)| table)
    }
    /// Key of the setting in its table.
    pub fn name(&self) -> &'static str {
        self.path.rsplit_once('.').map_or(self.path, |(_, name)| name)
    }
    /// Fixed default; `None` if the default depends on other settings, or the setting has no default.
    pub fn default(&self) -> Option<u64> {
        if self.follows.is_some() { None } else { (self.get)(&NodeSettings::default()) }
    }
    /// The row as an untyped [`Setting`]. If it has no default, the example takes its place.
    pub fn setting(&self) -> Setting {
        let Range(unit, min, max) = self.range;
        let default = self.default().or(self.example).unwrap_or(min);
        Setting { name: self.name(), help: self.help, unit, default, min, max }
    }
    /// Value of the setting, if it differs from the default.
    pub fn said(&self, settings: &NodeSettings) -> Option<u64> {
        let usual = self.follows.map_or_else(|| self.default(), |follows| Some(follows(settings)));
        (self.get)(settings).filter(|value| Some(*value) != usual)
    }
}

/// All rows: first those of the top of a node file, then table by table.
pub fn params() -> impl Iterator<Item = &'static NodeParam> {
    [TOP, AGENT, STORE, SHARES, MORE_LIMITS, LIMITS, SECURITY, APP, LOG].into_iter().flatten()
}

/// Rows of one table of a node file; the empty name stands for the top.
pub fn params_of(table: &str) -> impl Iterator<Item = &'static NodeParam> {
    params().filter(move |row| row.table() == table)
}

/// Type of a field that a row reads and writes as a number.
pub(crate) trait Plain {
    fn value(&self) -> Option<u64>;
    fn of(value: u64) -> Self;
}

macro_rules! plain {
    ($($type:ty: |$self:ident| $value:expr, |$number:ident| $of:expr;)*) => {$(
        impl Plain for $type {
            fn value(&self) -> Option<u64> {
                let $self = *self;
                Some($value)
            }
            fn of($number: u64) -> Self {
                $of
            }
        }
    )*};
}
macro_rules! plain_words {
    ($($type:ident)*) => { plain!($($type: |own| own as u64, |place| *<$type>::ALL.get(place as usize).unwrap_or(&<$type>::ALL[0]);)*); };
}
plain! {
    bool: |own| u64::from(own), |value| value != 0;
    u8: |own| own.into(), |value| value as u8;
    u32: |own| own.into(), |value| value as u32;
    u64: |own| own, |value| value;
    usize: |own| own as u64, |value| value as usize;
    i64: |own| own.cast_unsigned(), |value| value.cast_signed();
    Duration: |own| nanoseconds(own), |value| Duration::from_nanos(value);
    DataVolume: |own| own.bytes(), |value| DataVolume(value);
}
plain_words!(ClockTrust CrcType LinkCrc LogFormat LogLevel Profile);
impl<T: Plain> Plain for Option<T> {
    fn value(&self) -> Option<u64> {
        self.as_ref().and_then(Plain::value)
    }
    fn of(value: u64) -> Self {
        Some(T::of(value))
    }
}

/// Defines a struct of settings with their defaults, and a table with a row for each field.
macro_rules! settings {
    (
        $(#[$doc:meta])*
        $name:ident, $rows:ident: $prefix:literal, |$node:ident| $place:expr;
        $($(#[$about:meta])* $field:ident: $type:ty = $default:expr, $range:expr, $help:literal $(, .$option:ident($($value:expr)?))*;)*
        $(+ $(#[$inner_doc:meta])* $inner:ident: $inner_type:ty = $inner_default:expr;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name {
            $($(#[$about])* #[doc = $help] pub $field: $type,)*
            $($(#[$inner_doc])* pub $inner: $inner_type,)*
        }
        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* $($inner: $inner_default,)* }
            }
        }
        const $rows: &[NodeParam] = &[$(
            NodeParam::new(
                concat!($prefix, stringify!($field)),
                $range,
                $help,
                |$node| Plain::value(&$place.$field),
                |$node, value| $place.$field = Plain::of(value),
            )
            $(.$option($($value)?))*
        ),*];
    };
}

/// Most shards of a node.
pub const SHARDS_MAX: u8 = 64;

/// Smallest memory of a node, bytes.
pub const MEMORY_MIN: u64 = 64 << 20;

settings! {
    /// Every plain setting of a node.
    NodeSettings, TOP: "", |node| node;
    clock: ClockTrust = ClockTrust::Trusted, choice(ClockTrust::WORDS),
        "Whether the machine's clock is believed: \"untrusted\" gives bundles time 0 and an age block.";
    clock_error: Duration = Duration::from_millis(100), DURATION, "Bound on the error of a trusted clock.";
    downtime_max: Duration = Duration::from_secs(720 * 3600), DURATION,
        "Longest time the node may be down: a clock that says more at a start is doubted until it is set right or confirmed.",
        .unsimulated("a simulated node knows how long it was down");
    clock_offset: i64 = 0, OFFSET, "Added to the machine's clock, to try what a wrong one does; without it, nothing.",
        .follows(|_| 0), .example((-3_600_000_000_000_i64).cast_unsigned()), .live();
    bundle_version: u8 = 7, count(6, 7),
        "Version of the bundle protocol of bundles made here: 7, or 6. Both are taken, and passed on as they came.";
    profile: Profile = Profile::Permissive, choice(Profile::WORDS),
        "How arriving bundles are read: by the letter of the standard, or as peers in the field send them.";
    shards: u8 = 1, count(1, SHARDS_MAX as u64),
        "Owner threads, each with a part of the layers, of the store and of the memory: one for each core that busy layers may use.",
        .unsimulated("a simulated node is one stack");
    seed: Option<u64> = None, count(0, u64::MAX), "Of everything random; without it, different at every start.", .example(1);
    shutdown_timeout: Duration = Duration::from_secs(10), DURATION, "How long SIGTERM waits for sessions and disk.",
        .unsimulated("simulated nodes are not shut down");
    + /// Settings of the agent.
    agent: AgentSettings = AgentSettings::default();
    + /// Memory that the node may use; `None`: half of the machine's.
    memory: Option<DataVolume> = None;
    + /// Settings of the store.
    store: StoreSettings = StoreSettings::default();
    + /// Bounds of tables and buffers.
    limits: Limits = Limits::default();
    + /// Settings of bundle security.
    security: SecuritySettings = SecuritySettings::default();
    + /// Settings of the application interface.
    app: AppSettings = AppSettings::default();
    + /// Settings of the log.
    log: LogSettings = LogSettings::default();
}

settings! {
    /// Plain settings that the agent keeps. The others are dropped after the start, so that thousands of nodes fit in
    /// one process.
    AgentSettings, AGENT: "", |node| node.agent;
    crc: CrcType = CrcType::Crc32c, choice(CrcType::WORDS),
        "CRC on blocks made here, where their link gives no other; a primary block always has one.";
    status_reports: bool = false, FLAG, "Whether status reports are generated, of bundles that ask for them.";
    previous_node_block: bool = true, FLAG, "Whether what is forwarded says which node it leaves.";
    hop_limit: u8 = 64, count(0, 255), "Hop limit of bundles created here; 0 puts no hop count block.";
    hand_over_ahead: Duration = Duration::from_millis(20), DURATION,
        "Work a layer is handed ahead of time, at the link's rate: more where this process gets the processor late, at the price of urgent bundles waiting as long.";
}

settings! {
    /// Capacity of the store, and the length from which arriving bundles go to disk.
    StoreSettings, STORE: "store.", |node| node.store;
    capacity: DataVolume = DataVolume(10_000_000_000), bytes(0, 1 << 60),
        "Most bytes the store may keep; beyond it the control decides.";
    spill_from: DataVolume = DataVolume(16 << 20), bytes(0, 1 << 60),
        "Longer bundles go to a durable store while they arrive; \"0 B\": none.";
}

/// Settings of the shares of the store. Their fields are in [`Limits`]; [`NodeSettings::settle`] computes those that
/// are not given.
const SHARES: &[NodeParam] = &[
    NodeParam::new(
        "store.strangers",
        bytes(0, 1 << 60),
        "What neighbours without a link may fill of it together; without it, half.",
        |node| Some(node.limits.stranger_bytes),
        |node, value| node.limits.stranger_bytes = value,
    )
    .follows(|node| node.store.capacity.bytes() / 2)
    .example(100_000),
    NodeParam::new(
        "store.per_source",
        bytes(0, 1 << 60),
        "What one source may fill of it; without it, all.",
        |node| Some(node.limits.source_bytes),
        |node, value| node.limits.source_bytes = value,
    )
    .follows(|_| u64::MAX)
    .example(100_000),
    NodeParam::new(
        "store.reserved",
        bytes(0, 1 << 60),
        "What only expedited bundles and those that applications here wait for may fill; without it, a sixteenth. Where there is some, no neighbour and no application fills the rest alone, unless the control gives bundles up.",
        |node| Some(node.limits.reserved_bytes),
        |node, value| node.limits.reserved_bytes = value,
    )
    .follows(|node| node.store.capacity.bytes() / 16)
    .example(100_000),
];

/// Usual memory of a bundle's head, bytes; only what exceeds it counts towards [`Limits::head_bytes`].
pub const SHORT_HEAD_BYTES: u64 = 256;

/// Largest value of a bound.
const LARGE: u64 = 1 << 50;

/// Bounds that need a conversion or are not fields of [`Limits`].
const MORE_LIMITS: &[NodeParam] = &[
    NodeParam::new(
        "limits.memory",
        bytes(MEMORY_MIN, LARGE),
        "What the node may use of it; each bound here and of the layers is lowered to its share. Without it, half of what there is.",
        |node| node.memory.map(DataVolume::bytes),
        |node, value| node.memory = Some(DataVolume(value)),
    )
    .example(2 << 30)
    .unsimulated("simulated nodes share the memory of one process"),
    NodeParam::new(
        "limits.lifetime",
        Range(Unit::Nanoseconds, 0, u32::MAX as u64 * 1_000_000_000),
        "How long a bundle is kept here at most, in whole seconds, whatever lifetime it has (RFC 9171 4.3.1); \"0 s\": as long as that.",
        |node| Some(u64::from(node.limits.lifetime_s) * 1_000_000_000),
        |node, value| node.limits.lifetime_s = value.div_ceil(1_000_000_000) as u32,
    ),
];

settings! {
    /// Bounds of all tables and buffers.
    Limits, LIMITS: "limits.", |node| node.limits;
    bundle_bytes: u64 = 4 << 30, bytes(1, LARGE), "Largest bundle taken.";
    memory_bytes: u64 = 1 << 30, bytes(1, LARGE), "Payload kept in memory before stored bundles stay on disk.";
    arriving_bytes: u64 = 1 << 30, bytes(1, LARGE), "Bundles that are still arriving, where they are in memory.";
    head_bytes: u64 = 1 << 30, bytes(1, LARGE),
        "What blocks before payloads take in memory beyond 256 B of each bundle kept; those of neighbours nobody configured may be half.";
    bundles: u64 = 10_000_000, count(1, LARGE), "Bundles kept.";
    remembered: usize = 1_000_000, count(1, LARGE), "Deliveries remembered, at 56 bytes each.";
    registrations: usize = 10_000, count(1, LARGE), "Endpoints registered by applications.";
    fragments: usize = 100_000, count(1, LARGE),
        "Fragments waiting to be joined, of which those that nobody vouches for may be half.";
    dynamic_links: usize = 10_000, count(1, LARGE), "Links opened by unconfigured peers.";
    reports_per_second: u32 = 1000, count(1, u32::MAX as u64), "Status reports made a second; beyond it, compressed ones wait and others are not made.";
    + /// Longest time that a bundle is kept here, s, whatever its lifetime (RFC 9171 4.3.1); 0: its whole lifetime.
    lifetime_s: u32 = 0;
    + /// Most bytes held for all unconfigured neighbours together; they may have half of all bundles.
    stranger_bytes: u64 = u64::MAX;
    + /// Most bytes kept of one source.
    source_bytes: u64 = u64::MAX;
    + /// Bytes of the store reserved for expedited bundles and for bundles that applications here wait for; 0: none.
    /// With a reserve, no previous node fills the rest alone.
    reserved_bytes: u64 = 0;
}

settings! {
    /// Settings of bundle security.
    SecuritySettings, SECURITY: "security.", |node| node.security;
    longest: DataVolume = DataVolume(64 << 20), bytes(0, LARGE),
        "Longest payload whose operations are made or checked, in memory; longer bundles are refused where a rule fits.";
}

/// Reason why simulations ignore settings of the application interface.
const TRAFFIC: &str = "the applications of a simulation are its traffic";

settings! {
    /// Settings of the application interface.
    AppSettings, APP: "app.", |node| node.app;
    window: u32 = 256, count(1, 65_536),
        "Deliveries that a subscriber may leave unanswered, however many it asks for; their bytes are bounded besides, by a quarter of limits.memory_bytes.",
        .unsimulated(TRAFFIC);
    links: bool = false, FLAG, "Whether applications may enable and disable links (`link` messages).", .unsimulated(TRAFFIC);
    echo: bool = true, FLAG, "Answer pings on ipn services 128, 7, 2047 and dtn /echo.", .unsimulated(TRAFFIC);
    echo_rate: u64 = 1000, count(1, 10_000_000), "Answers per second at most.", .unsimulated(TRAFFIC);
}

/// Reason why simulations ignore settings of the log.
const NO_LOG: &str = "a simulated node has events and no log";

settings! {
    /// Settings of the log.
    LogSettings, LOG: "log.", |node| node.log;
    level: LogLevel = LogLevel::Info, choice(LogLevel::WORDS),
        "error, warn, info, debug (one line per bundle event), trace.", .live(), .unsimulated(NO_LOG);
    format: LogFormat = LogFormat::Text, choice(LogFormat::WORDS), "Lines for people, or JSON.", .unsimulated(NO_LOG);
}

/// Values that a file gives: path of the row, and value.
pub type Given = Vec<(&'static str, u64)>;

/// Contradiction between settings: the path of one of them, an explanation, and a suggested remedy.
pub type Contradiction = (&'static str, String, &'static str);

impl NodeSettings {
    /// Applies the values of a file. Paths without a row are ignored.
    pub fn apply(&mut self, given: &[(&'static str, u64)]) {
        for (path, value) in given {
            if let Some(row) = NodeParam::named(path) {
                (row.set)(self, *value);
            }
        }
    }
    /// Computes the settings that depend on others, except those that were given explicitly (`is_said`).
    pub fn settle(&mut self, is_said: impl Fn(&str) -> bool) {
        for row in params().filter(|row| !is_said(row.path)) {
            if let Some(follows) = row.follows {
                let value = follows(self);
                (row.set)(self, value);
            }
        }
        // A bundle that arrives in memory must fit as a whole into the room for arriving bundles.
        if self.longest_in_memory() > self.limits.arriving_bytes {
            self.limits.bundle_bytes = self.limits.bundle_bytes.min(self.limits.arriving_bytes);
        }
    }
    /// Length of the longest bundle that arrives in memory, bytes.
    fn longest_in_memory(&self) -> u64 {
        match self.store.spill_from.bytes() {
            0 => self.limits.bundle_bytes,
            longer => self.limits.bundle_bytes.min(longer),
        }
    }
    /// Finds contradictions between settings before [`NodeSettings::settle`]; `is_said`: whether a path was given
    /// explicitly.
    pub fn contradictions(&self, is_said: impl Fn(&str) -> bool) -> Vec<Contradiction> {
        let mut found: Vec<Contradiction> = Vec::new();
        let capacity = self.store.capacity.bytes();
        if capacity == 0 {
            found.push(("store.capacity", "leaves no room for any bundle".into(), "give e.g. \"10 GB\""));
        } else if is_said("store.reserved") && self.limits.reserved_bytes >= capacity {
            let what = "leaves nothing of the capacity to others".into();
            found.push(("store.reserved", what, "reserve less than `store.capacity`"));
        }
        let (longest, arriving) = (self.longest_in_memory(), self.limits.arriving_bytes);
        if longest > arriving && (is_said("limits.bundle_bytes") || self.store.spill_from.bytes() > 0) {
            let path = if is_said("limits.arriving_bytes") { "limits.arriving_bytes" } else { "limits.bundle_bytes" };
            let (longest, arriving) = (DataVolume(longest), DataVolume(arriving));
            let what = format!("bundles of {longest} arrive in memory, and arriving_bytes is {arriving}: none would");
            let hint = "raise `limits.arriving_bytes`, lower `limits.bundle_bytes`, or let long bundles go to disk: `store.spill_from`";
            found.push((path, what, hint));
        }
        let least = MEMORY_MIN * u64::from(self.shards);
        if let Some(memory) = self.memory.filter(|memory| self.shards > 1 && memory.bytes() < least) {
            let (least, memory) = (exact_volume(least), exact_volume(memory.bytes()));
            let what = format!("{} shards need a memory of {least}, it is {memory}", self.shards);
            found.push(("shards", what, "raise `limits.memory`, or lower `shards`"));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn every_row_reads_back_what_it_set() {
        for row in params() {
            let (mut settings, setting) = (NodeSettings::default(), row.setting());
            assert!(setting.check(setting.default).is_ok(), "{}", row.path);
            let ends = [setting.min, setting.max].into_iter().filter(|end| *end < LARGE << 11);
            for value in ends.chain([setting.default]) {
                (row.set)(&mut settings, value);
                assert_eq!((row.get)(&settings), Some(value), "{}", row.path);
                assert_eq!(setting.parse(&setting.text(value)), Ok(value), "{}", row.path);
            }
            assert_eq!(NodeParam::named(row.path).map(|found| found.path), Some(row.path));
            let (table, name) = (row.table(), row.name());
            assert_eq!(row.path.replacen(&format!("{table}."), "", 1), name);
            assert!(row.help.ends_with('.'), "{}: a sentence", row.path);
        }
        let mut paths: Vec<&str> = params().map(|row| row.path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), params().count(), "no path twice");
    }

    #[test]
    fn what_follows_from_others_is_set_unless_said() {
        let mut settings = NodeSettings::default();
        settings.apply(&[("store.capacity", 1600), ("store.strangers", 7), ("none", 1)]);
        settings.settle(|path| path == "store.strangers");
        let limits = &settings.limits;
        assert_eq!((limits.stranger_bytes, limits.source_bytes, limits.reserved_bytes), (7, u64::MAX, 100));
        let said: Vec<_> = params().filter_map(|row| row.said(&settings).map(|value| (row.path, value))).collect();
        assert_eq!(said, [("store.capacity", 1600), ("store.strangers", 7)]);
    }

    #[test]
    fn bundles_that_cannot_arrive_are_refused_or_lowered() {
        let with = |given: &[(&'static str, u64)]| {
            let mut settings = NodeSettings::default();
            settings.apply(given);
            let is_said = |path: &str| given.iter().any(|(known, _)| *known == path);
            let found: Vec<&str> = settings.contradictions(is_said).into_iter().map(|(path, ..)| path).collect();
            settings.settle(is_said);
            (found, settings.limits.bundle_bytes)
        };
        assert_eq!(with(&[]), (vec![], 4 << 30), "longer ones go to disk");
        assert_eq!(with(&[("store.spill_from", 0)]), (vec![], 1 << 30), "no longer than what may arrive");
        assert_eq!(with(&[("store.spill_from", 0), ("limits.bundle_bytes", 2 << 30)]).0, ["limits.bundle_bytes"]);
        assert_eq!(with(&[("limits.arriving_bytes", 1 << 20)]).0, ["limits.arriving_bytes"]);
        assert_eq!(with(&[("shards", 2), ("limits.memory", 100 << 20)]).0, ["shards"]);
        assert_eq!(with(&[("store.capacity", 5), ("store.reserved", 5)]).0, ["store.reserved"]);
    }
}
