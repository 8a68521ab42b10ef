//! Tests of the codecs, in one program that is linked once.

mod bpsec_vectors;
mod common;
mod custody_734_6;
mod hop_crc;
mod indefinite;
mod properties;
mod v6_properties;
mod v6_vectors;
mod v7_properties;
mod v7_rules;
mod v7_types;
mod vectors;
