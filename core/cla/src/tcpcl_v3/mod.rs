//! The TCP convergence layer, version 3 (RFC 7242): its words, and what it means by them.
//!
//! A session is one of [`TcpclV4`](crate::tcpcl_v4::TcpclV4) in every other respect: links, doors, deadlines and transfers
//! are the same machine, told by [`Versions`](crate::tcpcl_v4::Versions) which version to speak. What differs: both sides
//! introduce themselves in the contact header, without TLS; transfers have no numbers, so that answers are matched
//! in the order sent; acknowledgments and refusals are used where both sides can.

mod params;
mod session;
mod wire;

pub use params::PARAMS;
pub(crate) use session::{Terms, V3State};
pub(crate) use wire::{VERSION, put_ack, put_length, put_refuse, put_segment};

use crate::tcpcl_v4::wire::refuse_code;
use farlink_base::Refusal;

/// What the sender of a bundle hears when it is refused for this reason: REFUSE_BUNDLE has few words.
///
/// # Errors
/// The reason that they stand for.
pub fn told(why: Refusal) -> Result<(), Refusal> {
    let heard = wire::refusal_of(wire::refusal_code(refuse_code(why)));
    heard.filter(|heard| *heard != Refusal::Duplicate).map_or(Ok(()), Err)
}
