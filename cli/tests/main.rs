//! Tests of the command line, in one program so that it is linked once.

mod app;
mod bench;
mod bisect;
mod campaign;
mod containers;
mod documentation;
mod foreign;
mod lab;
mod lab_flows;
mod lab_retention;
mod messages;
mod nagle;
mod one;
mod outside;
mod phases;
mod plan_forecast;
mod plan_from_orbits;
mod runs;
mod ssh;
mod testbed;
mod wrong_inputs;
