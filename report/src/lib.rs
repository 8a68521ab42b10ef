//! farlink-report.
