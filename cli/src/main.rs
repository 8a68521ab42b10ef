//! The `farlink` command.
fn main() {}
