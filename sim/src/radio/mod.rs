//! Shared radios: their table ([`radios`]), turns ([`turns`]) and transfers ([`transfers`]). These modules know no
//! stacks; `world/radio.rs` connects them to nodes.

pub mod radios;
pub mod transfers;
pub mod turns;
