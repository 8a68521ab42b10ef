//! The context of one call of the agent.

use crate::edge::Edge;
use farlink_base::Instant;

/// Current time, edge to wire formats, and sink for outputs; passed to every step that emits outputs.
pub(crate) struct Context<'a, S> {
    pub now: Instant,
    pub edge: &'a mut dyn Edge,
    pub out: &'a mut S,
}
