//! The tests of the store, in one program: it is linked once.

mod bounds;
mod calls_deletes;
mod churn;
mod common;
mod compaction;
mod damage;
mod disk_errors;
mod full_disk;
mod model;
mod power_cut;
mod reserve;
mod restart;
mod spill;
mod unreadable;
mod waits;
