//! Trials of the product: attacks, crashes, overload, soak, mutants, random networks with faults, benchmarks,
//! interoperability, and comparisons of both worlds.
//!
//! It contains no code of the node, which it starts as a program. Chores that only tend the tree are in `xtask`, which
//! runs these by their names (`cargo xtask crash`). Read [`harness`] first, then any trial, each a [`Chore`].
#![forbid(unsafe_code)]

mod agreement;
mod attack;
mod bench;
mod chore;
mod crash;
pub mod harness;
mod interop;
pub mod marks;
pub mod mutants;
mod one_reference;
mod overload;
mod profile;
mod random;
mod sim_speed;
mod simfuzz;
mod soak;
pub mod sources;
pub mod tools;

pub use agreement::CHORE as AGREEMENT;
pub use attack::CHORE as ATTACK;
pub use bench::CHORE as BENCH;
pub use chore::Chore;
pub use crash::CHORE as CRASH;
pub use interop::CHORE as INTEROP;
pub use mutants::CHORE as MUTANTS;
pub use one_reference::CHORE as ONE_REFERENCE;
pub use overload::CHORE as OVERLOAD;
pub use profile::CHORE as PROFILE;
pub use sim_speed::CHORE as SIM_SPEED;
pub use simfuzz::CHORE as SIMFUZZ;
pub use simfuzz::check as simfuzz_check;
pub use soak::CHORE as SOAK;
