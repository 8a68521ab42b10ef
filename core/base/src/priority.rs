//! Priority classes (RFC 5050 4.2, ION's QoS block).

/// Class of service of a bundle, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Priority {
    /// Lowest class, for file transfers.
    Bulk,
    /// Default class of service.
    #[default]
    Normal,
    /// Highest class, for commands.
    Expedited,
}
impl Priority {
    /// All classes, lowest first.
    pub const ALL: [Priority; 3] = [Priority::Bulk, Priority::Normal, Priority::Expedited];
    /// Number of the class: 0, 1 or 2, as in BPv6 and ION's QoS block.
    pub const fn number(self) -> u8 {
        self as u8
    }
    /// Class with this number; numbers above 2 count as expedited.
    pub const fn from_number(number: u8) -> Priority {
        match number {
            0 => Priority::Bulk,
            1 => Priority::Normal,
            _ => Priority::Expedited,
        }
    }
}
