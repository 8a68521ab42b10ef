//! farlink-scenario.
