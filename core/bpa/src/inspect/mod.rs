//! Views for operators and tests. Nothing here changes the node's behaviour except on an operator's request.

#[cfg(feature = "audit")]
pub(crate) mod audit;
mod causes;
mod status;
