//! farlink-sim.
