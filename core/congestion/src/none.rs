//! No congestion control: what fits is kept, what does not is refused before it is acknowledged.

use crate::control::Control;

/// The default of [`Control`]: admit while there is room, refuse when there is none.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoControl;

impl Control for NoControl {
    fn name(&self) -> &'static str {
        "none"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Overflow;
    use alloc::vec::Vec;
    use farlink_base::Instant;

    #[test]
    fn a_full_store_refuses() {
        let mut out = Vec::new();
        NoControl.on_overflow(Instant(0), 100, &mut core::iter::empty(), &mut out);
        assert_eq!(out, [Overflow::Refuse]);
    }
}
