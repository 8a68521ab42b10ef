//! farlink-tests.
