//! Radios: whose turn it is ([`turns`]), and what crosses ([`transfers`]). Both know no stacks; what
//! nodes are told and say is carried by `world/radio.rs`.

pub mod transfers;
pub mod turns;
