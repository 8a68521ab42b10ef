//! Student's t distribution, by the incomplete beta and gamma functions.

/// Two-sided tail: probability that the magnitude of t exceeds this value.
pub fn two_sided(t: f64, freedom: usize) -> f64 {
    let n = freedom as f64;
    beta_share(n / (n + t * t), n / 2.0, 0.5)
}

/// Value that the magnitude of t exceeds with this probability; infinite without a degree of freedom.
pub fn critical(freedom: usize, tail: f64) -> f64 {
    if freedom == 0 {
        return f64::INFINITY;
    }
    let n = freedom as f64;
    let front = (ln_gamma((n + 1.0) / 2.0) - ln_gamma(n / 2.0)).exp() / (n * std::f64::consts::PI).sqrt();
    let density = |t: f64| front * (1.0 + t * t / n).powf(-(n + 1.0) / 2.0);
    // The tail is convex and falling, so Newton's method from below never passes the solution.
    let mut t = 0.0;
    for _ in 0..200 {
        let step = (two_sided(t, freedom) - tail) / (2.0 * density(t));
        t += step;
        if step <= 1e-14 * t {
            break;
        }
    }
    t
}

/// Factor by which Hedges (1981) corrects the bias of a standardized difference with this number of degrees of freedom,
/// at least 2.
pub fn hedges_factor(freedom: usize) -> f64 {
    let half = freedom as f64 / 2.0;
    (ln_gamma(half) - ln_gamma(half - 0.5)).exp() / half.sqrt()
}

/// The regularized incomplete beta function I_x(a, b) (NIST Digital Library of Mathematical Functions, 8.17).
fn beta_share(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The continued fraction converges quickly for x below this bound (8.17.22); above it, the symmetry 8.17.4 applies.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// Evaluates the continued fraction 8.17.22, from its first numerator on, by Lentz's method.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const LEAST: f64 = 1e-300;
    // Lentz's method replaces denominators of zero by a tiny number.
    let held = |value: f64| if value.abs() < LEAST { LEAST } else { value };
    let (mut c, mut d) = (1.0, 1.0 / held(1.0 - (a + b) * x / (a + 1.0)));
    let mut found = d;
    for n in 1..300 {
        let m = f64::from(n);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / held(1.0 + term * d);
            c = held(1.0 + term / c);
            change *= c * d;
        }
        found *= change;
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    found
}

/// Logarithm of the gamma function for x > 0: Stirling's series (5.11.1) above 12, and the recurrence (5.5.1) below.
fn ln_gamma(x: f64) -> f64 {
    // At 12 the four terms of the series are accurate to about 1e-13.
    let steps = (12.0 - x).ceil().max(0.0) as u32;
    let below: f64 = (0..steps).map(|n| (x + f64::from(n)).ln()).sum();
    let z = x + f64::from(steps);
    let series = 1.0 / (12.0 * z) - 1.0 / (360.0 * z.powi(3)) + 1.0 / (1260.0 * z.powi(5)) - 1.0 / (1680.0 * z.powi(7));
    (z - 0.5) * z.ln() - z + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_match_closed_forms() {
        // Solutions of the closed forms of the distribution (Abramowitz and Stegun, 26.7.3 and 26.7.4) by bisection.
        for (freedom, t95, t99) in [
            (1, 12.706204736174676, 63.65674116287124),
            (2, 4.302652729749459, 9.924843200918259),
            (3, 3.182446305283706, 5.84090930973332),
            (4, 2.776445105197793, 4.604094871349982),
            (9, 2.262157162798204, 3.2498355415921187),
            (30, 2.0422724563012378, 2.749995653567217),
            (101, 1.983731002955602, 2.625385964668442),
            (999, 1.9623414611334742, 2.5807596372675286),
        ] {
            for (tail, expected) in [(0.05, t95), (0.01, t99)] {
                let found = critical(freedom, tail);
                assert!((found / expected - 1.0).abs() < 1e-9, "{freedom}, {tail}: {found} is not {expected}");
                assert!((two_sided(expected, freedom) - tail).abs() < 1e-10);
            }
        }
        assert_eq!(critical(0, 0.05), f64::INFINITY);
    }

    #[test]
    fn bias_factor_matches_gamma_ratio() {
        // By hand: 1 / sqrt(pi) for 2, and sqrt(2 / pi) for 4; the others by the gamma function of Python.
        let pi = std::f64::consts::PI;
        for (freedom, expected) in [
            (2, 1.0 / pi.sqrt()),
            (3, 0.7236012545582676),
            (4, (2.0 / pi).sqrt()),
            (18, 0.9576464270237166),
            (48, 0.9842794262959235),
        ] {
            assert!((hedges_factor(freedom) - expected).abs() < 1e-11, "{freedom}");
        }
    }
}
