//! A reliable ordered byte stream over the packet link, for stream layers in simulation.
