//! The procedures of RFC 9171 section 5, one file each: `impl Agent` without state of their own.

mod deliver;
mod depart;
mod dispatch;
mod events;
mod evict;
mod forward;
mod groups;
mod identity;
mod keep;
mod lifetime;
mod mtu;
mod originate;
mod outcome;
mod pieces;
mod policy_events;
mod reassemble;
mod receive;
mod returns;
