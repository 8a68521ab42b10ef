//! Choices that files write as words.

/// An enumeration whose variants files write as words, in one order.
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
    /// CRC type codes (RFC 9171 4.2.1).
    CrcType {
        /// No CRC.
        None = "none",
        /// CRC-16/X-25.
        Crc16 = "crc16",
        /// CRC-32C.
        #[default]
        Crc32c = "crc32c",
    }
}

impl CrcType {
    /// Its code on the wire.
    pub const fn code(self) -> u8 {
        match self {
            CrcType::None => 0,
            CrcType::Crc16 => 1,
            CrcType::Crc32c => 2,
        }
    }
    /// Bytes of its value.
    pub const fn width(self) -> usize {
        match self {
            CrcType::None => 0,
            CrcType::Crc16 => 2,
            CrcType::Crc32c => 4,
        }
    }
}

words! {
    /// How strictly to read. Both refuse what has no meaning or would cost others: an anonymous bundle that
    /// may be fragmented or is a fragment (RFC 9171 4.2.3), a fragment without payload or one that reaches
    /// beyond the whole (4.3.1, 5.8). Requests for reports by anonymous and administrative bundles are read
    /// by the permissive, and void: no report is ever made about such a bundle, so that none answers another.
    Profile {
        /// Every MUST of RFC 9171, deterministic encoding included; of RFC 5050 in version 6.
        Strict = "strict",
        /// What peers in the field send: no CRC on the primary block, non-shortest integers; in version 6 no last block
        /// that says so.
        #[default]
        Permissive = "permissive",
    }
}

words! {
    /// Whether a node believes the clock of its machine.
    ClockTrust {
        /// It does.
        #[default]
        Trusted = "trusted",
        /// Never: bundles are created with time 0 and an age block.
        Untrusted = "untrusted",
    }
}

words! {
    /// Least important lines that a log shows.
    LogLevel {
        /// Failures.
        Error = "error",
        /// What somebody should look at.
        Warn = "warn",
        /// What happens seldom.
        #[default]
        Info = "info",
        /// One line for each event of a bundle.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

words! {
    /// How lines of a log are written.
    LogFormat {
        /// For people.
        #[default]
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}
