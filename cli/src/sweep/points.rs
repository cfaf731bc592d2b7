//! The scenarios of a sweep: the values of each point put into the text of the file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use farhop_proto::stack::{Scenario, SweepConfig, SweepValue};
use serde::Deserialize as _;
use toml::{Table, Value};

use crate::Failure;
use crate::load::{self, Loaded};

/// The points of a sweep: combinations of values, each run with every seed.
pub(crate) struct Points {
    base: Table,
    sweep: SweepConfig,
    first_seed: u64,
    /// Where files lie that a scenario names.
    folder: PathBuf,
}

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) point: BTreeMap<String, SweepValue>,
    pub(crate) seed: u64,
}

impl Points {
    /// The points of a scenario's sweep. `seed` takes the place of the scenario's own.
    ///
    /// Fails if a key of the sweep does not exist or a value does not fit there.
    pub(crate) fn build(loaded: &Loaded, seed: Option<u64>) -> Result<Self, Failure> {
        let Loaded { scenario, text, folder } = loaded;
        let mut base: Table = text.parse().expect("the text was read before");
        base.remove("sweep");
        let sweep = scenario.sweep.clone().expect("a scenario with a sweep");
        let first_seed = seed.unwrap_or(scenario.seed);
        let points = Self { base, sweep, first_seed, folder: folder.clone() };
        // Each value by itself first: with many keys the combinations are many more.
        for (place, vary) in points.sweep.vary.iter().enumerate() {
            for value in &vary.values {
                let mut values = points.sweep.point(0);
                values[place] = (&vary.key, value);
                points.scenario_of(&values)?;
            }
        }
        Ok(points)
    }

    /// How many runs there are.
    pub(crate) fn runs(&self) -> u64 {
        self.sweep.runs().expect("a sweep without problems can be counted")
    }

    /// What is particular to a run.
    pub(crate) fn run(&self, index: u64) -> Run {
        let seeds = self.sweep.seeds.count();
        let values = self.sweep.point(index / seeds);
        Run {
            point: values.into_iter().map(|(key, value)| (key.into(), value.clone())).collect(),
            seed: self.sweep.seeds.at(index % seeds, self.first_seed),
        }
    }

    /// The scenario of a run.
    pub(crate) fn scenario(&self, index: u64) -> Result<Scenario, Failure> {
        self.scenario_of(&self.sweep.point(index / self.sweep.seeds.count()))
    }

    fn scenario_of(&self, values: &[(&str, &SweepValue)]) -> Result<Scenario, Failure> {
        let wrong = |what: String| {
            let point: Vec<String> =
                values.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            Failure::Input(miette::miette!(
                "the sweep cannot run with {}: {what}",
                point.join(", ")
            ))
        };
        let mut root = Value::Table(self.base.clone());
        for (key, value) in values {
            let value = Value::try_from(value).expect("what a file can hold");
            put(&mut root, key, &value).map_err(|what| wrong(format!("{key}: {what}")))?;
        }
        let mut scenario = Scenario::deserialize(root).map_err(|error| wrong(error.to_string()))?;
        match load::read_files(&mut scenario, &self.folder).first() {
            Some(problem) => Err(wrong(format!(
                "{}: {}; right would be: {}",
                problem.path, problem.message, problem.help
            ))),
            None => Ok(scenario),
        }
    }
}

/// Puts a value where a key leads: `a.b`, `list[0].c`, `list[name].c`, `list[*].c`. Tables on the
/// way that the file leaves out are made.
fn put(at: &mut Value, key: &str, value: &Value) -> Result<(), String> {
    let (step, rest) = match key.split_once('.') {
        Some((step, rest)) => (step, Some(rest)),
        None => (key, None),
    };
    let (name, place) = match step.split_once('[') {
        Some((name, place)) => {
            (name, Some(place.strip_suffix(']').ok_or("a '[' without its ']'")?))
        }
        None => (step, None),
    };
    let table = at.as_table_mut().ok_or_else(|| format!("there is no key '{name}' there"))?;
    let Some(place) = place else {
        return match rest {
            None => {
                table.insert(name.into(), value.clone());
                Ok(())
            }
            Some(rest) => {
                put(table.entry(name).or_insert_with(|| Value::Table(Table::new())), rest, value)
            }
        };
    };
    let list = table.get_mut(name).and_then(Value::as_array_mut);
    let list = list.ok_or_else(|| format!("the scenario has no [[{name}]]"))?;
    let is_meant = |index: usize, element: &Value| {
        place == "*"
            || place.parse() == Ok(index)
            || element.get("name").and_then(Value::as_str) == Some(place)
    };
    let mut found = false;
    for (index, element) in list.iter_mut().enumerate() {
        if is_meant(index, element) {
            found = true;
            match rest {
                Some(rest) => put(element, rest, value)?,
                None => *element = value.clone(),
            }
        }
    }
    if found { Ok(()) } else { Err(format!("the scenario has no {name} '{place}'")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, key: &str, value: &str) -> Result<String, String> {
        let mut root = Value::Table(text.parse().expect("good text"));
        put(&mut root, key, &Value::String(value.into()))?;
        Ok(toml::to_string(&root).expect("a table"))
    }

    #[test]
    fn a_key_leads_through_tables_places_and_names() {
        let text = "[[flow]]\nname = \"a\"\nx = 1\n[[flow]]\nname = \"b\"\nx = 1\n";
        assert!(after("", "radio.phy", "q").expect("made").contains("[radio]\nphy = \"q\""));
        let all = after(text, "flow[*].x", "q").expect("both");
        assert_eq!(all.matches("x = \"q\"").count(), 2);
        for key in ["flow[1].x", "flow[b].x"] {
            let one = after(text, key, "q").expect("one");
            assert!(one.contains("name = \"b\"\nx = \"q\""), "{one}");
            assert_eq!(one.matches("\"q\"").count(), 1);
        }
    }

    #[test]
    fn a_key_that_leads_nowhere_says_what_is_missing() {
        let text = "name = \"x\"\n[[flow]]\nname = \"a\"\n";
        assert_eq!(after(text, "flow[c].x", "q"), Err("the scenario has no flow 'c'".into()));
        assert_eq!(after(text, "link[0].x", "q"), Err("the scenario has no [[link]]".into()));
        assert_eq!(after(text, "name.x", "q"), Err("there is no key 'x' there".into()));
    }
}
