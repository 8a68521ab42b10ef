#![no_main]

use farlink_tests::fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::in_time(fuzz::bundle_end, data));
