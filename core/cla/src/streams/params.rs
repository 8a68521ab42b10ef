//! Macros for the rows of parameter tables that stream layers share.

/// Greatest value of a parameter that is a duration, ns: ten years.
pub(crate) const LONGEST: u64 = 3650 * 86_400 * 1_000_000_000;

/// Row of a duration from `$min` to `$max` nanoseconds.
macro_rules! duration {
    ($field:ident, $min:expr, $max:expr, $help:expr) => {
        farlink_base::LayerParam {
            name: stringify!($field),
            help: $help,
            unit: farlink_base::Unit::Nanoseconds,
            min: $min,
            max: $max,
            get: |c| farlink_base::nanoseconds(c.$field),
            set: |c, v| c.$field = farlink_base::Duration::from_nanos(v),
        }
    };
}
/// Row of a size from `$min` to `$max` bytes.
macro_rules! bytes {
    ($name:expr, $field:ident, $min:expr, $max:expr, $help:expr) => {
        farlink_base::LayerParam {
            name: $name,
            help: $help,
            unit: farlink_base::Unit::Bytes,
            min: $min,
            max: $max,
            get: |c| c.$field,
            set: |c, v| c.$field = v,
        }
    };
}
/// Row of a boolean.
macro_rules! flag {
    ($field:ident, $help:expr) => {
        farlink_base::LayerParam {
            name: stringify!($field),
            help: $help,
            unit: farlink_base::Unit::Flag,
            min: 0,
            max: 1,
            get: |c| c.$field.into(),
            set: |c, v| c.$field = v != 0,
        }
    };
}
/// Row of the limit on simultaneous streams.
macro_rules! sessions {
    ($help:expr) => {
        farlink_base::LayerParam {
            name: "sessions",
            help: $help,
            unit: farlink_base::Unit::Count,
            min: 1,
            max: 1_000_000,
            get: |c| c.sessions.into(),
            set: |c, v| c.sessions = v as u32,
        }
    };
}
pub(crate) use {bytes, duration, flag, sessions};
