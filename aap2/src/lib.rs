//! Wire format of µD3TN's Application Agent Protocol 2: its messages, and a decoder of a client's byte stream.
//!
//! It opens no socket and starts no thread. The node's server is in `node/src/apps`, the client in
//! `apps/src/client.rs`; neither links the other. Read [`proto::AapMessage`] and [`decoder::Decoder`] first.
#![forbid(unsafe_code)]

pub mod decoder;
pub mod proto;
