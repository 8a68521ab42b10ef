#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| farlink_tests::fuzz::tcpcl_v4_session(data));
