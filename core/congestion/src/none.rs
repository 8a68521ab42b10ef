//! No congestion control: what fits is kept, what does not is refused before it is acknowledged.

use crate::control::Control;

/// The defaults of [`Control`]: everything may come in, nothing is ever given up.
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
    use crate::testing::Site;

    #[test]
    fn nothing_is_given_up() {
        let mut site = Site::new(1000);
        let bundle = site.keep(9, 100);
        assert_eq!(NoControl.worth(&site.node(), site.held(bundle)), None);
        assert_eq!(site.fits(&NoControl, 1000), None);
    }
}
