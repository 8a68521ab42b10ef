#![no_main]

use farlink_tests::fuzz;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::in_time(fuzz::bundle, data));

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let size = libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    // Code behind a CRC is reached only with a correct one; the check itself needs wrong ones as well.
    if seed % 4 > 0 {
        farlink_tests::mend::mend(&mut data[..size]);
    }
    size
});
