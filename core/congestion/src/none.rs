//! No congestion control: bundles that fit are kept, others are refused before they are acknowledged.

use crate::control::Control;

/// Control with the defaults of [`Control`]: every bundle may enter, and no bundle is ever evicted.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoControl;

impl Control for NoControl {
    fn asks_for_room_only(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ControlSite;

    #[test]
    fn nothing_is_given_up() {
        let mut site = ControlSite::new(1000);
        let bundle = site.keep(9, 100);
        assert_eq!(NoControl.worth(&site.node(), site.held(bundle)), None);
        // 900 B are free.
        assert_eq!(site.fits(&NoControl, 1000), None);
    }
}
