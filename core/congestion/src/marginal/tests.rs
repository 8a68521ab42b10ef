//! What the whole control does.
