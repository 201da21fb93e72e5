//! Numbers as people write them: `20M`, `4Mi`, `2^22`, and back.

/// Parses a number with an optional SI (`k M G T`, powers of 1000; `m u n` below one) or binary
/// suffix (`Ki Mi Gi Ti`, powers of 1024), or a power such as `2^22`.
///
/// # Errors
/// One sentence that says what would be right.
pub fn number(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let bad = || format!("'{text}' is not a number; write 1500, 1.5e3, 1.5k, 4Mi (4·2^20) or 2^22");
    if let Some((base, exponent)) = text.split_once('^') {
        let base: f64 = base.parse().map_err(|_| bad())?;
        let exponent: i32 = exponent.parse().map_err(|_| bad())?;
        return finite(base.powi(exponent), bad);
    }
    const SUFFIXES: [(&str, f64); 12] = [
        ("Ki", 1024.0),
        ("Mi", 1048576.0),
        ("Gi", 1073741824.0),
        ("Ti", 1099511627776.0),
        ("k", 1e3),
        ("K", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("m", 1e-3),
        ("u", 1e-6),
        ("n", 1e-9),
    ];
    for (suffix, scale) in SUFFIXES {
        if let Some(digits) = text.strip_suffix(suffix) {
            return finite(digits.trim_end().parse::<f64>().map_err(|_| bad())? * scale, bad);
        }
    }
    finite(text.parse::<f64>().map_err(|_| bad())?, bad)
}

fn finite(value: f64, bad: impl Fn() -> String) -> Result<f64, String> {
    // "nan" and "inf" parse as floats but mean nothing as a length, a rate or a frequency.
    if value.is_finite() { Ok(value) } else { Err(bad()) }
}

/// Parses a whole number that is not negative, with suffixes as in [`number`].
///
/// # Errors
/// One sentence that says what would be right.
pub fn count(text: &str) -> Result<u64, String> {
    if let Ok(exact) = text.trim().parse::<u64>() {
        return Ok(exact);
    }
    let value = number(text)?;
    if value > EXACT {
        return Err(too_large(text));
    }
    if value < 0.0 || value.fract() != 0.0 {
        return Err(format!("'{text}' must be a whole number, 0 or more"));
    }
    Ok(value as u64)
}

/// Where doubles stop being exact: 2^53.
const EXACT: f64 = 9007199254740992.0;

fn too_large(text: &str) -> String {
    format!("'{text}' is too large; whole numbers in this form go up to 2^53")
}

/// Parses a whole number of at least 1.
///
/// # Errors
/// One sentence that says what would be right.
pub fn positive(text: &str) -> Result<u64, String> {
    match count(text) {
        Err(_) if number(text).is_ok_and(|value| value > EXACT) => Err(too_large(text)),
        Ok(0) | Err(_) => Err("it must be a whole number of at least 1".into()),
        ok => ok,
    }
}

/// Parses a sample rate: a positive number.
///
/// # Errors
/// One sentence that says what would be right.
pub fn rate(text: &str) -> Result<f64, String> {
    let value = number(text)?;
    if value > 0.0 { Ok(value) } else { Err(format!("'{text}' must be greater than 0")) }
}

/// Parses a time such as `10s`, `500ms`, `2min` or `1h`; a number alone means seconds.
///
/// # Errors
/// One sentence that says what would be right.
pub fn time(text: &str) -> Result<std::time::Duration, String> {
    let text = text.trim();
    let units = [("ms", 1e-3), ("us", 1e-6), ("min", 60.0), ("h", 3600.0), ("s", 1.0)];
    let split = |(unit, scale): (&str, f64)| text.strip_suffix(unit).map(|number| (number, scale));
    let (number, scale) = units.into_iter().find_map(split).unwrap_or((text, 1.0));
    let value = number.trim().parse::<f64>().map(|v| v * scale).ok();
    // Up to thirty years clocks do not overflow.
    let value = value.filter(|v| *v > 0.0 && *v <= 1e9);
    value
        .map(std::time::Duration::from_secs_f64)
        .ok_or_else(|| format!("'{text}' is no time; write 10s, 500ms, 2min or 1h"))
}

/// Parses a seed: a whole number, or `random` for one that nobody can foresee.
///
/// # Errors
/// One sentence that says what would be right, or that the system gives no random numbers.
pub fn seed(text: &str) -> Result<u64, String> {
    match text.trim() {
        "random" => random_seed(),
        text => text.parse().map_err(|_| {
            format!("'{text}' is no seed; write a whole number below 2^64, or random")
        }),
    }
}

/// A seed from the system's entropy. It has 53 bits, so that readers of JSON that know doubles only
/// keep all of them.
fn random_seed() -> Result<u64, String> {
    let drawn = getrandom::u64();
    drawn.map(|bits| bits >> 11).map_err(|e| format!("the system gives no random numbers: {e}"))
}

/// A value with an SI prefix and a unit: `12.5 MHz`.
pub fn si(value: f64, unit: &str, digits: usize) -> String {
    const PREFIXES: [(f64, &str); 9] = [
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
        (1.0, ""),
        (1e-3, "m"),
        (1e-6, "µ"),
        (1e-9, "n"),
        (1e-12, "p"),
    ];
    let (scale, prefix) =
        PREFIXES.into_iter().find(|(scale, _)| value.abs() >= *scale).unwrap_or((1.0, ""));
    format!("{:.digits$} {prefix}{unit}", value / scale)
}

/// A duration in the unit that fits: `1.84 ms`.
pub fn seconds(seconds: f64) -> String {
    if seconds == 0.0 { "0 s".into() } else { si(seconds, "s", 2) }
}

/// A number of bytes: `512.0 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A whole number in groups of three digits: `67 108 864`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// 20·log10, with a floor that keeps zero printable.
pub fn decibels(amplitude: f64) -> f64 {
    20.0 * amplitude.max(1e-200).log10()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_mean_what_they_say() {
        assert_eq!(count("4M"), Ok(4_000_000));
        assert_eq!(count("4Mi"), Ok(1 << 22));
        assert_eq!(count("2^22"), Ok(1 << 22));
        assert_eq!(count("1.5k"), Ok(1500));
        assert_eq!(number("20M"), Ok(20e6));
        assert_eq!(number("-1.5e3"), Ok(-1500.0));
        assert_eq!(number("250m"), Ok(0.25));
        assert_eq!(rate("2.4M"), Ok(2.4e6));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "k", "1.5", "-1", "nan", "inf", "4MM", "2^", "1e400"] {
            assert!(count(text).is_err(), "{text}");
        }
        for text in ["0", "-3", "x"] {
            assert!(positive(text).is_err(), "{text}");
        }
        assert!(rate("0").is_err());
    }

    #[test]
    fn seeds() {
        assert_eq!(seed("7"), Ok(7));
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        for text in ["", "-1", "1.5", "Random", "18446744073709551616"] {
            assert!(seed(text).unwrap_err().contains("random"), "{text}");
        }
        let drawn: Vec<u64> = (0..8).map(|_| seed("random").unwrap()).collect();
        assert!(drawn.windows(2).all(|w| w[0] != w[1]), "{drawn:?}");
        assert!(drawn.iter().all(|&s| s < 1 << 53), "{drawn:?}");
    }

    #[test]
    fn times() {
        for (text, seconds) in
            [("10s", 10.0), ("0.5", 0.5), ("500ms", 0.5), (" 2 min", 120.0), ("1h", 3600.0)]
        {
            assert_eq!(time(text).map(|t| t.as_secs_f64()), Ok(seconds), "{text}");
        }
        for bad in ["", "s", "-1s", "0", "inf", "nan", "1d", "1e300h"] {
            assert!(time(bad).is_err_and(|e| e.contains("10s")), "{bad}");
        }
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(si(12_500_000.0, "Hz", 1), "12.5 MHz");
        assert_eq!(seconds(0.001_84), "1.84 ms");
        assert_eq!(bytes(1 << 29), "512.0 MiB");
        assert_eq!(bytes(17), "17 bytes");
        assert_eq!(grouped(67_108_864), "67 108 864");
        assert_eq!(grouped(7), "7");
    }
}
