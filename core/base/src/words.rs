//! Enumerations that files write as words.

/// Defines an enumeration whose variants are words in files, in the order of the variants.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        pub enum $name {
            $($(#[$of])* $variant,)*
        }
        impl $name {
            /// Words of the variants, in their order.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
            /// Variants in the order of their words.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
            /// Word of this variant.
            pub fn word(self) -> &'static str {
                Self::WORDS[self as usize]
            }
        }
    };
}

words! {
    /// CRC types of blocks (RFC 9171 4.2.1).
    CrcType {
        /// No CRC.
        None = "none",
        /// CRC-16/X.25.
        Crc16 = "crc16",
        /// CRC-32C.
        #[default]
        Crc32c = "crc32c",
    }
}

impl CrcType {
    /// Code of the type on the wire (RFC 9171 4.2.1).
    pub const fn code(self) -> u8 {
        match self {
            CrcType::None => 0,
            CrcType::Crc16 => 1,
            CrcType::Crc32c => 2,
        }
    }
    /// Length of the CRC value, bytes.
    pub const fn width(self) -> usize {
        match self {
            CrcType::None => 0,
            CrcType::Crc16 => 2,
            CrcType::Crc32c => 4,
        }
    }
}

words! {
    /// CRC of the bundles that leave over one link.
    LinkCrc {
        /// The node's own `crc` setting applies.
        #[default]
        Node = "node",
        /// No CRC.
        None = "none",
        /// CRC-16/X.25.
        Crc16 = "crc16",
        /// CRC-32C.
        Crc32c = "crc32c",
    }
}

impl LinkCrc {
    /// CRC type that the link names; `None`: the node's setting applies.
    pub const fn kind(self) -> Option<CrcType> {
        match self {
            LinkCrc::Node => None,
            LinkCrc::None => Some(CrcType::None),
            LinkCrc::Crc16 => Some(CrcType::Crc16),
            LinkCrc::Crc32c => Some(CrcType::Crc32c),
        }
    }
}

words! {
    /// Strictness of parsing. Both profiles refuse an anonymous bundle that may be fragmented or is a fragment (RFC
    /// 9171 4.2.3), and a fragment without payload or beyond the original (4.3.1, 5.8). The permissive one accepts
    /// report requests of anonymous and administrative bundles, but no report is made about such a bundle, so that no
    /// report answers another.
    Profile {
        /// Requires every MUST of RFC 9171, deterministic encoding included; in version 6, of RFC 5050.
        Strict = "strict",
        /// Accepts common deviations of peers: no CRC on the primary block, integers not in shortest form; in version 6
        /// a last block without its flag.
        #[default]
        Permissive = "permissive",
    }
}

words! {
    /// Trust of a node in the clock of its machine.
    ClockTrust {
        /// The clock is believed.
        #[default]
        Trusted = "trusted",
        /// The clock is not believed: bundles are created with time 0 and an age block.
        Untrusted = "untrusted",
    }
}

words! {
    /// Level of the least important lines that a log contains.
    LogLevel {
        /// Failures.
        Error = "error",
        /// Conditions that need attention.
        Warn = "warn",
        /// Rare events.
        #[default]
        Info = "info",
        /// One line for each event of a bundle.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

words! {
    /// Format of log lines.
    LogFormat {
        /// Text for people.
        #[default]
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}
