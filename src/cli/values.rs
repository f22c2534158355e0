//! Parses the values of flags.

use std::time::Duration;

/// Parses a duration: a number without a unit is seconds, else `ms`, `s`, `m` or `h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; write for example 90, 90s, 1.5h or 500ms");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number = plain_number(number).ok_or_else(wrong)?;
    Duration::try_from_secs_f64(number * factor).map_err(|_| wrong())
}

/// Parses a size: a number without a unit is bytes, else `B`, `KB`, `KiB`, `MB`, `MiB`, `GB` or `GiB`.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size; write for example 65536, 64KiB or 2MB");
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "k" | "kib" => 1 << 10,
        "mb" => 1_000_000,
        "m" | "mib" => 1 << 20,
        "gb" => 1_000_000_000,
        "g" | "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).ok_or_else(wrong)
}

/// Parses a count; `-1` is no limit.
pub fn count(text: &str) -> Result<u64, String> {
    let number = if text == "-1" { Some(u64::MAX) } else { text.parse().ok() };
    number.ok_or_else(|| format!("`{text}` is not a whole number, nor -1 for no limit"))
}

/// Parses a count of at least 1; `-1` is no limit.
pub fn positive(text: &str) -> Result<u64, String> {
    count(text)
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| format!("`{text}` is not a whole number from 1, nor -1 for no limit"))
}

/// Parses a number of US dollars, 0 or more.
pub fn dollars(text: &str) -> Result<f64, String> {
    plain_number(text.strip_prefix('$').unwrap_or(text))
        .ok_or_else(|| format!("`{text}` is not an amount in US dollars; write for example 0.50"))
}

/// Parses a temperature, 0 to 2.
pub fn temperature(text: &str) -> Result<f64, String> {
    plain_number(text).filter(|n| *n <= 2.0).ok_or_else(|| format!("`{text}` is not between 0 and 2"))
}

/// Parses a share, 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    plain_number(text).filter(|n| *n <= 1.0).ok_or_else(|| format!("`{text}` is not between 0 and 1"))
}

/// Parses a range of commits: `A..B` or `A...B`.
pub fn range(text: &str) -> Result<String, String> {
    match text.contains("..") && !text.starts_with('-') {
        true => Ok(text.to_owned()),
        false => Err("write a range as A..B or A...B".to_owned()),
    }
}

/// Parses text that may not be blank.
pub fn not_blank(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("may not be empty".into()) } else { Ok(text.to_owned()) }
}

/// Splits a list at commas outside of parentheses, so that `run_shell_command(a, b),edit` has two entries.
pub fn list(text: &str) -> Vec<String> {
    let mut entries = vec![String::new()];
    let mut depth = 0_u32;
    for c in text.chars() {
        match c {
            ',' if depth == 0 => {
                entries.push(String::new());
                continue;
            }
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if let Some(entry) = entries.last_mut() {
            entry.push(c);
        }
    }
    entries.into_iter().map(|entry| entry.trim().to_owned()).filter(|entry| !entry.is_empty()).collect()
}

/// A decimal number without sign, exponent, `inf` or `nan`.
fn plain_number(text: &str) -> Option<f64> {
    let digits = text.bytes().any(|b| b.is_ascii_digit());
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if digits && plain { text.parse().ok().filter(|n: &f64| n.is_finite()) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_no_unit_and_knows_four() {
        for (text, milliseconds) in
            [("90", 90_000), ("1.5h", 5_400_000), ("500ms", 500), ("0", 0), ("2m", 120_000), ("3s", 3_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "-1", "1d", "s", "1e3", "inf", "nan", "1 s", "99999999999999999999999h", "1.2.3"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_is_bytes_or_names_its_unit() {
        assert_eq!(size("2MiB"), Ok(2 << 20));
        assert_eq!(size("64kb"), Ok(64_000));
        assert_eq!(size("10"), Ok(10));
        for text in ["", "-1", "1.5M", "1TB", "99999999999GiB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn commas_in_a_specifier_do_not_split_it() {
        assert_eq!(list("run_shell_command(git log, x), edit ,,"), ["run_shell_command(git log, x)", "edit"]);
        assert_eq!(list("a)b,c"), ["a)b", "c"]);
    }
}
