//! Class of service.

/// Class of service of a bundle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Priority {
    /// Lowest: file transfers.
    Bulk,
    /// The default.
    #[default]
    Normal,
    /// Highest: commands.
    Expedited,
}
impl Priority {
    /// All, lowest first.
    pub const ALL: [Priority; 3] = [Priority::Bulk, Priority::Normal, Priority::Expedited];
    /// 0, 1, 2 (the numbers of BPv6 and of ION's QoS block).
    pub const fn number(self) -> u8 {
        self as u8
    }
    /// From 0, 1, 2; larger numbers count as expedited.
    pub const fn from_number(number: u8) -> Priority {
        match number {
            0 => Priority::Bulk,
            1 => Priority::Normal,
            _ => Priority::Expedited,
        }
    }
}
