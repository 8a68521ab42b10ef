//! Code compiled for the widest vector instructions of this processor.

/// Runs `f` compiled for AVX-512 or AVX2 if the processor has them. Only code inlined into `f` benefits.
#[inline]
pub fn widest<R>(f: impl Fn() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512dq")
            && std::is_x86_feature_detected!("avx512vl")
        {
            // SAFETY: the processor was just found to have these instructions, and those they are an extension of.
            return unsafe { with_avx512(f) };
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor was just found to have these instructions.
            return unsafe { with_avx2(f) };
        }
    }
    f()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn with_avx512<R>(f: impl Fn() -> R) -> R {
    f()
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn with_avx2<R>(f: impl Fn() -> R) -> R {
    f()
}

#[cfg(test)]
mod tests {
    #[test]
    fn result_matches_plain_call() {
        let numbers: Vec<u64> = (0..1000).collect();
        let sum = || numbers.iter().fold(0u64, |sum, number| sum.wrapping_add(number * number));
        assert_eq!(super::widest(sum), sum());
    }
}
