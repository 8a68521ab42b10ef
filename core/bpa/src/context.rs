//! What one call of the agent happens in.

use crate::edge::Edge;
use farlink_base::Instant;

/// The moment of a call, the door to wire formats, and where outputs go; passed to whatever says something.
pub(crate) struct Context<'a, S> {
    pub now: Instant,
    pub edge: &'a mut dyn Edge,
    pub out: &'a mut S,
}
