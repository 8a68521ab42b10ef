//! Words for enumerations, the same in event files, tables and reference pages.

use farlink_base::{DeleteReason, Priority, Refusal};

/// An enumeration with a word for each value.
pub trait Word: Copy + Sized + 'static {
    /// Every value with its word.
    const ALL: &'static [(Self, &'static str)];
    /// Word of this value.
    fn word(self) -> &'static str;
    /// Value of this word.
    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(value, _)| *value)
    }
}

macro_rules! words {
    ($kind:ident: $( $value:ident $word:literal ),* $(,)?) => {
        impl Word for $kind {
            const ALL: &'static [(Self, &'static str)] = &[$( ($kind::$value, $word) ),*];
            fn word(self) -> &'static str {
                match self {
                    $( $kind::$value => $word, )*
                }
            }
        }
    };
}

words!(Priority: Bulk "bulk", Normal "normal", Expedited "expedited");
words!(DeleteReason:
    Done "done",
    Expired "expired",
    Unidirectional "unidirectional",
    Cancelled "cancelled",
    DepletedStorage "depleted_storage",
    DestinationUnavailable "destination_unavailable",
    NoRoute "no_route",
    NoTimelyContact "no_timely_contact",
    BlockUnintelligible "block_unintelligible",
    HopLimit "hop_limit",
    TrafficPared "traffic_pared",
    BlockUnsupported "block_unsupported",
    MissingSecurity "missing_security",
    UnknownSecurity "unknown_security",
    UnexpectedSecurity "unexpected_security",
    FailedSecurity "failed_security",
    ConflictingSecurity "conflicting_security",
);
words!(Refusal:
    NoResources "no_resources",
    Duplicate "duplicate",
    NotAcceptable "not_acceptable",
    Terminating "terminating",
    TooLarge "too_large",
    Expired "expired",
    Unknown "unknown",
    StoreFailed "store_failed",
    NotOpen "not_open",
    Damaged "damaged",
);

#[cfg(test)]
mod tests {
    use super::*;

    fn inverse<T: Word + PartialEq + std::fmt::Debug>() {
        for (value, word) in T::ALL {
            assert_eq!((value.word(), T::from_word(word)), (*word, Some(*value)));
        }
        assert_eq!(T::from_word("no such word"), None);
    }

    #[test]
    fn words_and_values_are_inverse() {
        inverse::<Priority>();
        inverse::<DeleteReason>();
        inverse::<Refusal>();
    }
}
