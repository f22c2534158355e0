//! Compares versions with the ranges that a recipe names.

/// Reads `1.2.3`.
pub fn parse(text: &str) -> Option<[u64; 3]> {
    let parts: Vec<u64> = text.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    <[u64; 3]>::try_from(parts).ok()
}

/// A part of a range of versions that is not one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a range; write for example `>=0.1, <2`")]
pub struct NotARange(String);

/// Tells whether a version is in a range: comparisons with `>=`, `>`, `<=`, `<`, `=`, joined by commas.
pub fn satisfies(range: &str, version: &str) -> Result<bool, NotARange> {
    let wrong = |part: &str| NotARange(part.to_owned());
    let own = parse(version).ok_or_else(|| wrong(version))?;
    let mut all = true;
    for part in range.split(',').map(str::trim) {
        let (operator, number) = ["<=", ">=", "<", ">", "="]
            .iter()
            .find_map(|operator| Some((*operator, part.strip_prefix(operator)?.trim())))
            .unwrap_or((">=", part));
        let padded = match number.matches('.').count() {
            0 => format!("{number}.0.0"),
            1 => format!("{number}.0"),
            _ => number.to_owned(),
        };
        let bound = parse(&padded).ok_or_else(|| wrong(part))?;
        all &= match operator {
            "<=" => own <= bound,
            ">=" => own >= bound,
            "<" => own < bound,
            ">" => own > bound,
            _ => own == bound,
        };
    }
    Ok(all)
}
