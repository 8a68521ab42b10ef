//! farlink-os.
