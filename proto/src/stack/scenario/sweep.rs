//! Sweeps: one scenario run with many values and many seeds.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings that vary from run to run. Every combination of values is run with every seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SweepConfig {
    /// How many seeds, counting up from the scenario's own, or a list of seeds.
    pub seeds: Seeds,
    /// Keys of the scenario with their values; the last key varies fastest.
    pub vary: Vec<VaryConfig>,
}

/// A key of the scenario and its values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VaryConfig {
    /// The key, for example `radio.rate_mbps`, `link[0].distance_km`, `flow[forward].congestion` or
    /// `link[*].loss`.
    pub key: String,
    /// Its values.
    pub values: Vec<SweepValue>,
}

/// Seeds of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Seeds {
    /// This many seeds, counting up from the scenario's own.
    Count(u64),
    /// Exactly these seeds.
    List(Vec<u64>),
}

impl Default for Seeds {
    fn default() -> Self {
        Self::Count(1)
    }
}

impl Seeds {
    /// The number of seeds.
    pub fn count(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::List(seeds) => seeds.len() as u64,
        }
    }

    /// The seed with index `place`, where `first` is the scenario's own.
    pub fn at(&self, place: u64, first: u64) -> u64 {
        match self {
            Self::Count(_) => first.wrapping_add(place),
            Self::List(seeds) => seeds[place as usize],
        }
    }

    /// The index of a seed, if it is one of them.
    fn place(&self, seed: u64, first: u64) -> Option<u64> {
        match self {
            Self::Count(count) => Some(seed.wrapping_sub(first)).filter(|place| place < count),
            Self::List(seeds) => Some(seeds.iter().position(|own| *own == seed)? as u64),
        }
    }
}

/// A value of a key in a sweep: anything that a scenario can contain.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SweepValue {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list of values.
    List(Vec<SweepValue>),
    /// A table, for example `{ kind = "wild", slot_ms = 10 }`.
    Table(BTreeMap<String, SweepValue>),
}

impl SweepValue {
    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Number(value) => Some(*value),
            _ => None,
        }
    }
}

impl fmt::Display for SweepValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
            Self::List(values) => {
                let words: Vec<String> = values.iter().map(Self::to_string).collect();
                write!(f, "[{}]", words.join(", "))
            }
            Self::Table(values) => {
                let word = |(key, value): (&String, &Self)| match key.as_str() {
                    "kind" => value.to_string(),
                    _ => format!("{key} {value}"),
                };
                // The kind comes before its settings.
                let (kind, rest): (Vec<_>, Vec<_>) =
                    values.iter().partition(|(key, _)| *key == "kind");
                let words: Vec<String> = kind.into_iter().chain(rest).map(word).collect();
                f.write_str(&words.join(", "))
            }
        }
    }
}

impl SweepConfig {
    /// The number of runs; `None` if it does not fit into 64 bits.
    pub fn runs(&self) -> Option<u64> {
        let sizes = self.vary.iter().map(|vary| vary.values.len() as u64);
        sizes.chain([self.seeds.count()]).try_fold(1_u64, u64::checked_mul)
    }

    /// The number of points, each of which is run with every seed; `None` as in [`Self::runs`].
    pub fn points(&self) -> Option<u64> {
        self.vary.iter().map(|vary| vary.values.len() as u64).try_fold(1, u64::checked_mul)
    }

    /// The values of a point, in the order of the keys.
    pub fn point(&self, index: u64) -> Vec<(&str, &SweepValue)> {
        let mut rest = index;
        let mut values: Vec<_> = self
            .vary
            .iter()
            .rev()
            .map(|vary| {
                let count = vary.values.len() as u64;
                let value = &vary.values[(rest % count) as usize];
                rest /= count;
                (vary.key.as_str(), value)
            })
            .collect();
        values.reverse();
        values
    }

    /// The index of the run with these values and this seed, where `first` is the scenario's own
    /// seed; `None` if there is no such run. The seeds of one point are adjacent.
    pub fn index(
        &self,
        values: &BTreeMap<String, SweepValue>,
        seed: u64,
        first: u64,
    ) -> Option<u64> {
        let mut index = 0;
        for vary in &self.vary {
            let value = values.get(&vary.key)?;
            let place = vary.values.iter().position(|own| own == value)?;
            index = index * vary.values.len() as u64 + place as u64;
        }
        let is_whole = values.len() == self.vary.len();
        let place = self.seeds.place(seed, first).filter(|_| is_whole)?;
        Some(index * self.seeds.count() + place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep() -> SweepConfig {
        let vary = |key: &str, values: &[i64]| VaryConfig {
            key: key.into(),
            values: values.iter().map(|value| SweepValue::Integer(*value)).collect(),
        };
        SweepConfig {
            seeds: Seeds::Count(5),
            vary: vec![vary("a", &[1, 2]), vary("b", &[7, 8, 9])],
        }
    }

    #[test]
    fn the_last_key_varies_fastest() {
        let sweep = sweep();
        assert_eq!((sweep.points(), sweep.runs()), (Some(6), Some(30)));
        let point = |index| -> Vec<f64> {
            sweep.point(index).iter().filter_map(|(_, value)| value.number()).collect()
        };
        assert_eq!([point(0), point(2), point(3)], [[1.0, 7.0], [1.0, 9.0], [2.0, 7.0]]);
    }

    #[test]
    fn a_run_is_found_by_its_values_and_its_seed() {
        let sweep = sweep();
        let values = |index| -> BTreeMap<String, SweepValue> {
            let point = sweep.point(index);
            point.into_iter().map(|(key, value)| (key.to_owned(), value.clone())).collect()
        };
        for index in 0..30 {
            let seed = sweep.seeds.at(index % 5, 100);
            assert_eq!(sweep.index(&values(index / 5), seed, 100), Some(index));
        }
        let first = values(0);
        assert_eq!([99, 105].map(|seed| sweep.index(&first, seed, 100)), [None; 2]);
        let mut foreign = first.clone();
        foreign.insert("c".into(), SweepValue::Integer(1));
        assert_eq!(sweep.index(&foreign, 100, 100), None);
        foreign.remove("a");
        assert_eq!(sweep.index(&foreign, 100, 100), None);
    }

    #[test]
    fn more_runs_than_can_be_counted_are_none() {
        let mut sweep = sweep();
        sweep.seeds = Seeds::Count(u64::MAX);
        assert_eq!(sweep.runs(), None);
    }
}
