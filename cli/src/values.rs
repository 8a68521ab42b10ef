//! Parsers of option values; errors have a reason and a hint.

use farlink_base::{DataRate, DataVolume};
use std::time::Duration;

/// Parses a whole number from 0.
pub fn whole(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number from 0 to {}\nhint: write e.g. 7", u64::MAX))
}

/// Parses a whole number from 1.
pub fn some(text: &str) -> Result<u64, String> {
    match whole(text)? {
        0 => Err("must be at least 1\nhint: write e.g. 1".into()),
        number => Ok(number),
    }
}

/// Number with its noun.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Parses the data rate of a sender: at least 1 bit/s.
pub fn rate(text: &str) -> Result<DataRate, String> {
    match text.parse()? {
        DataRate(0) => Err("a sender of 0 bit/s sends nothing\nhint: write e.g. \"1 Mbit/s\"".into()),
        rate => Ok(rate),
    }
}

/// Parses the lifetime of a bundle: at least 1 ms.
pub fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = farlink_base::parse_duration(text)?;
    if lifetime < Duration::from_millis(1) {
        return Err("bundles with a lifetime below 1 ms expire at once\nhint: \"1 d\" suits most uses".into());
    }
    Ok(lifetime)
}

/// Parses the length of a payload: at least 1 B.
pub fn some_bytes(text: &str) -> Result<DataVolume, String> {
    match text.parse()? {
        DataVolume(0) => Err("must be at least 1 B\nhint: write e.g. \"100 kB\"".into()),
        bytes => Ok(bytes),
    }
}

/// Parses an IP address with a port.
pub fn address(text: &str) -> Result<std::net::SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an IP address with a port\nhint: write e.g. 10.77.0.1:5201"))
}

/// Parses a time to wait: at least 1 ms.
pub fn wait(text: &str) -> Result<Duration, String> {
    let wait = farlink_base::parse_duration(text)?;
    if wait < Duration::from_millis(1) { Err("must be at least 1 ms\nhint: write e.g. 10 s".into()) } else { Ok(wait) }
}

/// Parses a number of seconds, with decimals.
pub fn seconds(text: &str) -> Result<Duration, String> {
    // Refuses negative numbers, NaN and infinity.
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| format!("`{text}` is not a number of seconds\nhint: write e.g. 10 or 0.5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_negative_values_are_refused() {
        assert_eq!((whole("0"), some("3")), (Ok(0), Ok(3)));
        assert_eq!(lifetime("1 ms"), Ok(Duration::from_millis(1)));
        assert_eq!((seconds("0.5"), rate("1 kbit/s")), (Ok(Duration::from_millis(500)), Ok(DataRate(1000))));
        let refused =
            [whole("-1").err(), some("0").err(), rate("0 bit/s").err(), lifetime("0 s").err(), seconds("-1").err()];
        for why in refused.into_iter().chain([seconds("1e30").err(), seconds("nan").err()]) {
            assert!(why.as_ref().is_some_and(|why| why.contains("\nhint: ")), "{why:?}");
        }
    }
}
