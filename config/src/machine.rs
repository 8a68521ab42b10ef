//! Keys about a node's machine: its sockets, processors and announcements. Node files and scenarios share them;
//! simulations have no machines and ignore them.

use crate::input::Input;
use crate::keys::{Fallback, Key, Kind, key, other};
use crate::reader::Reader;
use farlink_base::Duration;
use std::net::SocketAddr;
use toml::de::DeValue;

use Fallback::{Absent, Is};

/// Shortest and longest interval between announcements: receivers accept no longer one.
pub const INTERVALS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(600)];

/// Key of every `[layer]`: the shard that owns it.
pub const SHARD: Key = key(
    "shard",
    other("number of a shard, from 0", "0"),
    Absent,
    "Which of the node's `shards` owns it, and the links that use it; without it, they are dealt in the order of the file.",
);
/// Key of layers over datagrams: offload by the kernel.
pub const OFFLOAD: Key =
    key("offload", Kind::Flag, Is("true"), "Segmentation offload and receive coalescing where the kernel has them.");

/// Keys of `[discovery]` that a scenario does not derive from its links.
pub const DISCOVERY: &[Key] = &[
    key("interval", Kind::Duration, Is("5 s"), "Time between announcements; a neighbour is gone after three."),
    key("require_tls", Kind::Flag, Is("false"), "Only layers whose sessions must be secured: tls = \"require\"."),
    key("neighbours", Kind::Count(1, 1000), Is("32"), "Most neighbours found at once."),
];

/// Keys of `[app]` about its sockets.
pub const APP: &[Key] = &[
    key(
        "socket_mode",
        other("permission bits", "\"660\""),
        Is("600"),
        "Who may attach: \"660\" lets its group in too.",
    ),
    key(
        "listen",
        other("address with a port", "\"127.0.0.1:4242\""),
        Absent,
        "AAP2 over TCP, open to whoever reaches it; without it, none.",
    ),
];

/// Keys of `[api]` about access over TCP.
pub const API: &[Key] = &[
    key(
        "listen",
        other("address with a port", "\"127.0.0.1:4280\""),
        Absent,
        "HTTP over TCP too; needs a `token_file`. Without it, none.",
    ),
    key(
        "token_file",
        other("file, relative to this one", "\"control.token\""),
        Absent,
        "The token that clients over TCP show; made where it is missing. Only its owner may read it.",
    ),
];

/// Value that a scenario gives to a key of this module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachineKey {
    /// Table in a node's file; for layers, the name of the layer's kind.
    pub table: &'static str,
    /// Key in that table.
    pub key: &'static str,
    /// Value as TOML text.
    pub value: String,
}

/// Reads those of the keys `keys` that are given, for the table `table` of a node's file, and reports values that the
/// node would refuse.
pub fn machine_keys(reader: &Reader<'_>, table: &'static str, keys: &[Key]) -> Vec<MachineKey> {
    let given = keys.iter().filter(|key| reader.given(key.name));
    let read = |key: &Key| Some(MachineKey { table, key: key.name, value: checked(reader, key)? });
    given.filter_map(read).collect()
}

fn checked(reader: &Reader<'_>, key: &Key) -> Option<String> {
    match (key.name, key.kind) {
        (_, Kind::Flag) => reader.flag(key.name).map(|_| ()),
        (_, Kind::Count(..)) => reader.count(key.name).map(|_| ()),
        ("interval", _) => interval(reader).map(|_| ()),
        ("listen", _) => reader.custom(key.name, |input| socket_address(input.text()?)).map(|_| ()),
        ("socket_mode", _) => reader.custom(key.name, |input| permission_bits(input.text()?)).map(|_| ()),
        ("shard", _) => reader.custom(key.name, |input| input.integer()).map(|_| ()),
        _ => reader.text(key.name).map(|_| ()),
    }?;
    // What these keys take is a text, a number or a flag.
    match reader.get(key.name)?.get_ref() {
        DeValue::String(text) => Some(toml::Value::String(text.to_string()).to_string()),
        // A node's file has it in decimal digits, however it was written.
        value @ DeValue::Integer(_) => Some(Input::Given(value).integer().ok()?.to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Interval between announcements, from the key `interval`.
pub fn interval(reader: &Reader<'_>) -> Option<Duration> {
    let interval = reader.duration("interval")?;
    if (INTERVALS[0]..=INTERVALS[1]).contains(&interval) {
        return Some(interval);
    }
    reader.fail("interval", "is not between 1 s and 10 min", "give e.g. \"5 s\"");
    None
}

/// Parses permission bits in octal digits.
///
/// # Errors
/// If the text has other characters, or more bits than a file's permissions.
pub fn permission_bits(text: &str) -> Result<u32, String> {
    // `from_str_radix` would accept a sign.
    let is_octal = text.bytes().all(|digit| digit.is_ascii_digit());
    let bits = u32::from_str_radix(text, 8).ok().filter(|bits| is_octal && *bits <= 0o777);
    bits.ok_or_else(|| format!("`{text}` are not permission bits in octal digits"))
}

/// Parses an IP address with a port.
///
/// # Errors
/// If the text is anything else, such as a host name.
pub fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an address with a port"))
}
