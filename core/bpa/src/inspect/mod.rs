//! Views for operators and tests. Only requests of operators change the node's behaviour here.

#[cfg(feature = "audit")]
pub(crate) mod audit;
mod causes;
mod status;
