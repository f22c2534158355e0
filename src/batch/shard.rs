//! Divides a batch among machines that do not talk to each other.

use std::fmt;
use std::str::FromStr;

use super::plan::ShardFacts;

/// The beginning of the name of a shard's directory.
pub const DIRECTORY: &str = "shard-";

/// One of the parts of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: u32,
    of: u32,
}

/// Why there is no such shard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// The text is not K/N.
    #[error("`{0}` is not a shard; write K/N, for example 1/8")]
    Form(String),
    /// There is no such part.
    #[error("there is no shard {number} of {of}: shards count from 1 to {of}")]
    Range { number: u64, of: u64 },
    /// No variable says which shard this machine is.
    #[error("no variable says which shard this is")]
    Nowhere,
    /// A variable does not hold a number.
    #[error("{name} is `{value}`, which is not a whole number")]
    Variable { name: &'static str, value: String },
    /// A variable is missing next to another.
    #[error("{name} is set, and {missing} is not")]
    Alone { name: &'static str, missing: &'static str },
    /// The part of a Slurm array was started without the others, so the number of shards is unknown.
    #[error("this Slurm array has {count} of {span} tasks, so the number of shards is unknown")]
    Array { count: u64, span: u64 },
}

impl Shard {
    /// Reads `K/N`, or `auto`: what the variables of a CI system or scheduler say.
    pub fn named(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Shard, ShardError> {
        match text {
            "auto" => Shard::from_environment(variable),
            text => text.parse(),
        }
    }

    /// Returns shard `number`, from 1, of `of`.
    pub fn new(number: u64, of: u64) -> Result<Shard, ShardError> {
        let wrong = ShardError::Range { number, of };
        match (u32::try_from(number), u32::try_from(of)) {
            (Ok(number @ 1..), Ok(of)) if number <= of => Ok(Shard { number, of }),
            _ => Err(wrong),
        }
    }

    /// Returns number and count, as files have them.
    pub fn facts(self) -> ShardFacts {
        ShardFacts { number: self.number, of: self.of }
    }

    /// Returns which one it is, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Returns the number of shards.
    pub fn of(self) -> u32 {
        self.of
    }

    /// Tells whether item `n`, from 1, is in this shard.
    pub fn has(self, n: u32) -> bool {
        n.wrapping_sub(1) % self.of + 1 == self.number
    }

    /// Returns the share of a total that this shard may use; the shares add up to the total.
    pub fn share(self, total: u64) -> u64 {
        let rest = total % u64::from(self.of);
        total / u64::from(self.of) + u64::from(u64::from(self.number) <= rest)
    }

    /// Returns the name of this shard's directory.
    pub fn directory(self) -> String {
        format!("{DIRECTORY}{}-of-{}", self.number, self.of)
    }

    /// Finds out which shard this machine is from what CI systems and schedulers set. The first variable that is set
    /// decides.
    pub fn from_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Shard, ShardError> {
        let read = |name: &'static str| {
            let value = variable(name).filter(|value| !value.is_empty());
            value.map(|value| value.parse::<u64>().map_err(|_| ShardError::Variable { name, value })).transpose()
        };
        let with =
            |name: &'static str, missing: &'static str| read(missing)?.ok_or(ShardError::Alone { name, missing });
        if let (Some(index), Some(of)) = (read("QWEN_SHARD_INDEX")?, read("QWEN_SHARD_TOTAL")?) {
            return Shard::new(index.saturating_add(1), of);
        }
        if let Some(id) = read("SLURM_ARRAY_TASK_ID")? {
            return match read("QWEN_SHARD_TOTAL")? {
                Some(of) => Shard::new(id.saturating_add(1), of),
                None => of_array(id, &|name| with("SLURM_ARRAY_TASK_ID", name), read("SLURM_ARRAY_TASK_STEP")?),
            };
        }
        if let Some(index) = read("JOB_COMPLETION_INDEX")? {
            return Shard::new(index.saturating_add(1), with("JOB_COMPLETION_INDEX", "QWEN_SHARD_TOTAL")?);
        }
        if let Some(number) = read("CI_NODE_INDEX")? {
            return Shard::new(number, with("CI_NODE_INDEX", "CI_NODE_TOTAL")?);
        }
        if let Some(index) = read("CIRCLE_NODE_INDEX")? {
            return Shard::new(index.saturating_add(1), with("CIRCLE_NODE_INDEX", "CIRCLE_NODE_TOTAL")?);
        }
        Err(ShardError::Nowhere)
    }
}

/// Returns the shard of a task of a whole Slurm array.
fn of_array(
    id: u64,
    read: &dyn Fn(&'static str) -> Result<u64, ShardError>,
    step: Option<u64>,
) -> Result<Shard, ShardError> {
    let (min, max, count) =
        (read("SLURM_ARRAY_TASK_MIN")?, read("SLURM_ARRAY_TASK_MAX")?, read("SLURM_ARRAY_TASK_COUNT")?);
    let step = step.unwrap_or(1).max(1);
    let span = max.saturating_sub(min) / step + 1;
    // `sbatch --array=3` alone: one task of an array that is not known.
    if span != count || (count == 1 && id > 0) {
        return Err(ShardError::Array { count, span: span.max(id.saturating_add(1)) });
    }
    Shard::new(id.saturating_sub(min) / step + 1, count)
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Shard, ShardError> {
        let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        let (number, of) = numbers.ok_or_else(|| ShardError::Form(text.to_owned()))?;
        Shard::new(number, of)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn from(set: &[(&str, &str)]) -> Result<String, ShardError> {
        let of = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Shard::from_environment(&of).map(|shard| shard.to_string())
    }

    #[test]
    fn engines_say_which_shard_this_is() {
        for (set, shard) in [
            (&[("QWEN_SHARD_INDEX", "0"), ("QWEN_SHARD_TOTAL", "8"), ("CI_NODE_INDEX", "3")][..], "1/8"),
            (&[("SLURM_ARRAY_TASK_ID", "3"), ("QWEN_SHARD_TOTAL", "8")], "4/8"),
            (&[("JOB_COMPLETION_INDEX", "7"), ("QWEN_SHARD_TOTAL", "8")], "8/8"),
            (&[("CI_NODE_INDEX", "2"), ("CI_NODE_TOTAL", "5")], "2/5"),
            (&[("CIRCLE_NODE_INDEX", "0"), ("CIRCLE_NODE_TOTAL", "2")], "1/2"),
        ] {
            assert_eq!(from(set), Ok(shard.to_owned()), "{set:?}");
        }
        assert_eq!(from(&[]), Err(ShardError::Nowhere));
        assert!(matches!(from(&[("CI_NODE_INDEX", "2")]), Err(ShardError::Alone { .. })));
        assert!(matches!(from(&[("CI_NODE_INDEX", "x")]), Err(ShardError::Variable { .. })));
        assert!(matches!(
            from(&[("SLURM_ARRAY_TASK_ID", "8"), ("QWEN_SHARD_TOTAL", "8")]),
            Err(ShardError::Range { number: 9, of: 8 })
        ));
    }

    #[test]
    fn one_task_of_a_slurm_array_alone_is_no_shard() {
        let array = |id, min, max, count, step| {
            from(&[
                ("SLURM_ARRAY_TASK_ID", id),
                ("SLURM_ARRAY_TASK_MIN", min),
                ("SLURM_ARRAY_TASK_MAX", max),
                ("SLURM_ARRAY_TASK_COUNT", count),
                ("SLURM_ARRAY_TASK_STEP", step),
            ])
        };
        assert_eq!(array("9", "1", "13", "4", "4"), Ok("3/4".to_owned()));
        assert_eq!(array("0", "0", "0", "1", "1"), Ok("1/1".to_owned()));
        assert!(matches!(array("3", "3", "3", "1", "1"), Err(ShardError::Array { .. })));
        assert!(matches!(array("1", "0", "7", "3", "1"), Err(ShardError::Array { count: 3, span: 8 })));
    }

    #[test]
    fn a_shard_that_is_not_there_is_refused() {
        for text in ["0/4", "5/4", "1/0", "1", "a/b", "-1/2", "1/99999999999"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_item_is_in_one_shard_and_the_shares_add_up(of in 1_u64..40, n in 1_u32..2_000_000, total in 0..u64::MAX) {
            let shards: Vec<Shard> = (1..=of).map(|number| Shard::new(number, of).unwrap()).collect();
            prop_assert_eq!(shards.iter().filter(|shard| shard.has(n)).count(), 1);
            prop_assert_eq!(shards.iter().map(|shard| shard.share(total)).sum::<u64>(), total);
            prop_assert!(shards.iter().all(|shard| shard.to_string().parse() == Ok(*shard)));
        }
    }
}
