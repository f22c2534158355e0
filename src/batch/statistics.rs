//! Computes how certain a pass rate, and a difference of two, is: intervals, a test stratified by case, and the verdict.

use serde::{Deserialize, Serialize};

/// The quantile of the normal distribution for an interval of 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// The probability below which a difference counts as shown.
const SIGNIFICANT: f64 = 0.05;

/// Passed runs, of so many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Passes {
    /// Runs that passed.
    pub passed: u32,
    /// Runs that happened.
    pub runs: u32,
}

impl Passes {
    /// Returns the share of runs that passed; 0 without runs.
    pub fn rate(self) -> f64 {
        if self.runs == 0 { 0.0 } else { f64::from(self.passed) / f64::from(self.runs) }
    }

    /// Adds the runs of another case.
    #[must_use]
    pub fn plus(self, other: Passes) -> Passes {
        Passes { passed: self.passed + other.passed, runs: self.runs + other.runs }
    }

    /// Returns Wilson's interval; everything is possible without runs.
    pub fn wilson(self) -> Interval {
        if self.runs == 0 {
            return Interval { low: 0.0, high: 1.0 };
        }
        let (runs, rate, square) = (f64::from(self.runs), self.rate(), Z * Z);
        let centre = rate + square / (2.0 * runs);
        let half = Z * (rate * (1.0 - rate) / runs + square / (4.0 * runs * runs)).sqrt();
        let scale = 1.0 + square / runs;
        Interval { low: ((centre - half) / scale).max(0.0), high: ((centre + half) / scale).min(1.0) }
    }
}

/// An interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// What a comparison shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The first passes more often.
    Better,
    /// The first passes less often.
    Worse,
    /// The runs do not tell them apart.
    NoDifferenceShown,
}

impl Verdict {
    /// Returns the words for people.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::NoDifferenceShown => "no difference shown",
        }
    }
}

/// Two series of runs of the same cases, compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Comparison {
    /// The rate of the first less that of the second.
    pub difference: f64,
    /// Newcombe's interval of the difference.
    pub interval: Interval,
    /// The probability of a difference at least as large if there is none.
    pub p: f64,
    /// What that shows.
    pub verdict: Verdict,
}

/// Compares two series of runs, case by case.
pub fn compare(cases: &[(Passes, Passes)]) -> Comparison {
    let sum = |of: fn(&(Passes, Passes)) -> Passes| cases.iter().map(of).fold(Passes::default(), Passes::plus);
    let (first, second) = (sum(|pair| pair.0), sum(|pair| pair.1));
    let Stratified { excess, p } = stratified(cases);
    let verdict = match p < SIGNIFICANT {
        true if excess > 0.0 => Verdict::Better,
        true => Verdict::Worse,
        false => Verdict::NoDifferenceShown,
    };
    Comparison { difference: first.rate() - second.rate(), interval: newcombe(first, second), p, verdict }
}

/// Returns Newcombe's interval of a difference, from the Wilson intervals of both rates.
pub fn newcombe(first: Passes, second: Passes) -> Interval {
    let difference = first.rate() - second.rate();
    let (of_first, of_second) = (first.wilson(), second.wilson());
    let low = (first.rate() - of_first.low).hypot(of_second.high - second.rate());
    let high = (of_first.high - first.rate()).hypot(second.rate() - of_second.low);
    Interval { low: (difference - low).max(-1.0), high: (difference + high).min(1.0) }
}

/// The result of the Cochran-Mantel-Haenszel test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stratified {
    /// How many more runs of the first passed than would have, had both the same rate in each case.
    pub excess: f64,
    /// The probability of at least this if there is no difference.
    pub p: f64,
}

/// Runs the Cochran-Mantel-Haenszel test, continuity corrected: a case is a stratum, so that cases that are hard for both
/// do not blur the comparison.
pub fn stratified(cases: &[(Passes, Passes)]) -> Stratified {
    let (mut excess, mut variance) = (0.0, 0.0);
    for (first, second) in cases {
        let (of_first, of_second) = (f64::from(first.runs), f64::from(second.runs));
        let (passed, all) = (f64::from(first.passed + second.passed), of_first + of_second);
        // One side alone, or a single run, says nothing about a difference.
        if first.runs == 0 || second.runs == 0 {
            continue;
        }
        excess += f64::from(first.passed) - of_first * passed / all;
        variance += of_first * of_second * passed * (all - passed) / (all * all * (all - 1.0));
    }
    if variance == 0.0 {
        return Stratified { excess, p: 1.0 };
    }
    let corrected = (excess.abs() - 0.5).max(0.0);
    Stratified { excess, p: erfc((corrected * corrected / variance / 2.0).sqrt()).min(1.0) }
}

/// Returns the complementary error function for a number from 0 on; its relative error is below 1.2e-7 (Chebyshev
/// fitting).
fn erfc(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 10] = [
        0.170_872_77,
        -0.822_152_23,
        1.488_515_87,
        -1.135_203_98,
        0.278_868_07,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_68,
        -1.265_512_23,
    ];
    let t = 1.0 / (1.0 + 0.5 * x);
    let polynomial = COEFFICIENTS.iter().fold(0.0, |sum, coefficient| sum * t + coefficient);
    t * (polynomial - x * x).exp()
}

/// The middle and the upper end of a quantity over runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The 90th percentile.
    pub p90: f64,
}

/// Returns median and 90th percentile (nearest rank); `None` without values.
pub fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_by(f64::total_cmp);
    let upper = values.len() / 2;
    let median = match values.len() % 2 {
        _ if values.is_empty() => return None,
        0 => f64::midpoint(values[upper - 1], values[upper]),
        _ => values[upper],
    };
    let rank = (values.len() * 9).div_ceil(10);
    Some(Spread { median, p90: values[rank - 1] })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(passed: u32, runs: u32) -> Passes {
        Passes { passed, runs }
    }

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 0.000_05, "{found} is not {wanted}");
    }

    #[test]
    fn intervals_are_those_of_the_textbooks() {
        for (passes, low, high) in [
            (of(0, 5), 0.0, 0.4345),
            (of(4, 5), 0.3755, 0.9638),
            (of(5, 5), 0.5655, 1.0),
            (of(40, 50), 0.6696, 0.8876),
            (of(30, 50), 0.4618, 0.7239),
        ] {
            near(passes.wilson().low, low);
            near(passes.wilson().high, high);
        }
        for (first, second, low, high) in
            [(of(40, 50), of(30, 50), 0.0201, 0.3636), (of(45, 50), of(40, 50), -0.0434, 0.2421)]
        {
            near(newcombe(first, second).low, low);
            near(newcombe(first, second).high, high);
        }
        assert_eq!(of(0, 0).wilson(), Interval { low: 0.0, high: 1.0 });
    }

    #[test]
    fn the_stratified_test_gives_the_known_probability() {
        let cases = [(5, 3), (5, 5), (4, 1), (2, 0)].map(|(first, second)| (of(first, 5), of(second, 5)));
        near(stratified(&cases).p, 0.0171);
        assert_eq!(compare(&cases).verdict, Verdict::Better);
        let turned = cases.map(|(first, second)| (second, first));
        assert_eq!(compare(&turned).verdict, Verdict::Worse);
        near(erfc(0.0), 1.0);
        near(erfc(1.959_964 / std::f64::consts::SQRT_2), 0.05);
    }

    #[test]
    fn what_is_not_known_shows_no_difference() {
        for cases in [vec![], vec![(of(0, 0), of(5, 5))], vec![(of(5, 5), of(5, 5)), (of(0, 5), of(0, 5))]] {
            let compared = compare(&cases);
            assert_eq!((compared.verdict, compared.p), (Verdict::NoDifferenceShown, 1.0), "{cases:?}");
        }
    }

    #[test]
    fn a_median_lies_between_two_and_the_percentile_is_a_value() {
        assert_eq!(spread(Vec::new()), None);
        assert_eq!(spread(vec![4.0]), Some(Spread { median: 4.0, p90: 4.0 }));
        assert_eq!(spread(vec![4.0, 1.0, 2.0, 3.0]), Some(Spread { median: 2.5, p90: 4.0 }));
        let ten = (1..=10).map(f64::from).collect();
        assert_eq!(spread(ten), Some(Spread { median: 5.5, p90: 9.0 }));
    }

    /// A sequence of numbers from 0 to 1 that is always the same.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn runs(&mut self, rate: f64, runs: u32) -> Passes {
            let passed = (0..runs).filter(|_| self.roll() < rate).count();
            of(u32::try_from(passed).unwrap(), runs)
        }
    }

    /// Ten cases, from hopeless to certain.
    const RATES: [f64; 10] = [0.05, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.0, 1.0];

    /// Simulates comparisons, and returns the share of them in which the first is worse, and in which it is better.
    fn simulate(drop: f64, runs: u32) -> (f64, f64) {
        const TIMES: u32 = 1_000;
        let mut dice = Dice(1);
        let (mut worse, mut better) = (0, 0);
        for _ in 0..TIMES {
            let cases = RATES.map(|rate| (dice.runs(rate * (1.0 - drop), runs), dice.runs(rate, runs)));
            match compare(&cases).verdict {
                Verdict::Worse => worse += 1,
                Verdict::Better => better += 1,
                Verdict::NoDifferenceShown => {}
            }
        }
        (f64::from(worse) / f64::from(TIMES), f64::from(better) / f64::from(TIMES))
    }

    #[test]
    fn the_same_recipe_is_seldom_called_better_or_worse() {
        for runs in [3, 5, 10] {
            let (worse, better) = simulate(0.0, runs);
            assert!(worse + better <= 0.05, "{runs} runs: {worse} worse, {better} better");
        }
    }

    #[test]
    fn a_drop_by_a_fifth_is_found_more_often_with_more_runs() {
        let ((few, wrong), (many, _)) = (simulate(0.2, 5), simulate(0.2, 10));
        assert!(few > 0.25 && many > 0.6 && wrong == 0.0, "{few} with 5 runs, {many} with 10, {wrong} wrong");
    }

    proptest! {
        #[test]
        fn a_rate_is_inside_its_interval_and_turning_a_comparison_turns_its_verdict(
            cases in prop::collection::vec((0_u32..8, 0_u32..8, 0_u32..8, 0_u32..8), 0..9),
        ) {
            let cases: Vec<_> =
                cases.into_iter().map(|(a, b, c, d)| (of(a.min(b), b), of(c.min(d), d))).collect();
            for passes in cases.iter().flat_map(|(first, second)| [first, second]).filter(|passes| passes.runs > 0) {
                let Interval { low, high } = passes.wilson();
                prop_assert!(0.0 <= low && low <= passes.rate() + 1e-9 && passes.rate() <= high + 1e-9 && high <= 1.0);
            }
            let turned: Vec<_> = cases.iter().map(|(first, second)| (*second, *first)).collect();
            let (one, other) = (compare(&cases), compare(&turned));
            prop_assert!((one.p - other.p).abs() < 1e-9 && (0.0..=1.0).contains(&one.p));
            prop_assert_eq!(one.verdict == Verdict::Better, other.verdict == Verdict::Worse);
            prop_assert!((one.difference + other.difference).abs() < 1e-9);
            prop_assert!((one.interval.low + other.interval.high).abs() < 1e-9);
        }
    }
}
