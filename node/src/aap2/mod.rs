//! µD3TN's Application Agent Protocol 2: messages, the server's half of a connection as a state
//! machine over bytes, and a blocking client.

pub mod client;
pub mod decoder;
pub mod proto;
