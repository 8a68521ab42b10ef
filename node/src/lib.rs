//! farlink-node.
