//! farlink-lab.
