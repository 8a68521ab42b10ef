//! µD3TN's Application Agent Protocol 2, as it is on the wire: the messages, and a client's bytes cut
//! into requests.
//!
//! It opens no socket and starts no thread: the node serves it (`node/src/apps`), applications speak
//! it (`apps/src/client.rs`), and neither is linked into the other. Read [`proto::AapMessage`] and
//! [`decoder::Decoder`] first.
#![forbid(unsafe_code)]

pub mod decoder;
pub mod proto;
