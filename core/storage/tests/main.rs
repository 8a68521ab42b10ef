//! Tests of the store, linked as one program.

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
