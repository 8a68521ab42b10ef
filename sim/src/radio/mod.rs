//! Radios: which there are ([`radios`]), whose turn it is ([`turns`]), and what crosses ([`transfers`]). They know no stacks; what
//! nodes are told and say is carried by `world/radio.rs`.

pub mod radios;
pub mod transfers;
pub mod turns;
