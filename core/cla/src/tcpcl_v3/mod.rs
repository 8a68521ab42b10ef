//! TCP convergence layer, version 3 (RFC 7242): its messages, and the differences from version 4.
//!
//! In every other respect a session is one of [`TcpclV4`](crate::tcpcl_v4::TcpclV4): links, admission, deadlines and
//! transfers are the same state machine, and [`Versions`](crate::tcpcl_v4::Versions) selects the version. In version 3,
//! both sides introduce themselves in the contact header, without TLS; transfers have no numbers, so answers are
//! matched to transfers in the order sent; acknowledgments and refusals are used only if both sides support them.

mod params;
pub(crate) mod reading;
mod session;
pub(crate) mod wire;

pub use params::PARAMS;
pub(crate) use session::{Terms, V3State};
pub(crate) use wire::{VERSION, put_ack, put_length, put_refuse, put_segment};

use crate::tcpcl_v4::wire::refuse_code;
use farlink_base::Refusal;

/// Result that the sender sees when its bundle is refused for this reason; `Ok` if it may treat the bundle as kept.
/// REFUSE_BUNDLE has few codes, so reasons lose detail.
///
/// # Errors
///
/// The reason as the code conveys it.
pub fn sender_result(why: Refusal) -> Result<(), Refusal> {
    let heard = wire::refusal_of(wire::refusal_code(refuse_code(why)));
    heard.filter(|heard| *heard != Refusal::Duplicate).map_or(Ok(()), Err)
}
