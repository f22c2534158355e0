//! Finds where a text that does not occur was most likely meant.

use std::collections::HashMap;

/// The lines of a text that are most similar to another text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The first line, from 1.
    pub first: usize,
    /// The last line.
    pub last: usize,
    /// How like, in percent.
    pub similarity: u8,
}

/// Returns the region most similar to `old`, the first of equals; `None` if nothing is similar to a third.
///
/// It only helps the model to find its way; no edit is ever made there.
pub fn nearest(text: &str, old: &str) -> Option<Region> {
    /// Maximum lines and characters that are compared: bounds the work on huge files.
    const LINES: usize = 20_000;
    const OLD_LINES: usize = 40;
    const CHARS: usize = 200;
    let pairs = |line: &str| -> Vec<(char, char)> {
        let chars: Vec<char> = line.trim().chars().take(CHARS).collect();
        let mut pairs: Vec<(char, char)> = chars.windows(2).map(|pair| (pair[0], pair[1])).collect();
        if let [only] = chars[..] {
            pairs.push((only, '\0'));
        }
        pairs.sort_unstable();
        pairs
    };
    let old: Vec<&str> = old.trim_matches(['\n', '\r']).lines().collect();
    let length = old.len();
    let old: Vec<Vec<(char, char)>> = old.into_iter().take(OLD_LINES).map(pairs).collect();
    let text: Vec<Vec<(char, char)>> = text.lines().take(LINES).map(pairs).collect();
    if text.is_empty() || old.iter().all(Vec::is_empty) {
        return None;
    }
    // Weighing lines by their length keeps closing brackets from deciding.
    let weight: usize = old.iter().map(Vec::len).sum();
    let mut known: HashMap<(usize, usize), usize> = HashMap::new();
    let mut best: Option<(usize, usize)> = None;
    for start in 0..text.len() {
        let mut common = 0;
        let mut there = 0;
        for (index, line) in old.iter().enumerate() {
            let Some(other) = text.get(start + index) else { continue };
            there += other.len();
            if line.len().min(other.len()) > 0 {
                common += *known.entry((index, start + index)).or_insert_with(|| common_items(line, other));
            }
        }
        let similarity = 200 * common / (weight + there).max(1);
        if best.is_none_or(|(_, other)| similarity > other) {
            best = Some((start, similarity));
        }
    }
    let (start, similarity) = best.filter(|(_, similarity)| *similarity >= 33)?;
    let last = (start + length).min(text.len());
    Some(Region { first: start + 1, last, similarity: u8::try_from(similarity.min(100)).unwrap_or(100) })
}

/// Counts what two sorted lists have in common.
fn common_items(a: &[(char, char)], b: &[(char, char)]) -> usize {
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
        }
    }
    common
}
