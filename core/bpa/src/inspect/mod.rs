//! What operators and tests are shown: nothing here changes what a node does, but what an operator asks for.

#[cfg(feature = "audit")]
pub(crate) mod audit;
mod causes;
mod status;
