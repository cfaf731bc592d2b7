//! The scenarios of a sweep: the values of each point are put into the scenario as it was written.

use std::collections::BTreeMap;

use farhop_proto::base::counted;
use farhop_proto::stack::{Problem, Scenario, SweepConfig, SweepValue, VaryConfig};
use farhop_sim::engine;
use toml::{Table, Value};

use crate::load::{self, Files, Loaded};
use crate::{Failure, interrupt};

/// Most points whose combination of values is tried before anything runs.
const TRIED: u64 = 1_000;

/// The points of a sweep: combinations of values, each run with every seed.
pub(crate) struct Points {
    base: Table,
    sweep: SweepConfig,
    first_seed: u64,
    /// Length of a run, unless a key of the sweep sets it.
    base_seconds: f64,
    /// The contents of the files that the scenario names.
    files: Files,
}

/// The values of a sweep's keys.
pub(crate) type Values = BTreeMap<String, SweepValue>;

impl Points {
    /// The points of a scenario's sweep. `seed` replaces the scenario's own.
    ///
    /// Fails if a key of the sweep does not exist or a value does not fit there.
    pub(crate) fn build(loaded: &Loaded, seed: Option<u64>) -> Result<Self, Failure> {
        let Loaded { scenario, text, folder, name } = loaded;
        let base = text.parse::<Table>();
        // Seeds may be larger than any other number.
        let mut base = base.map_err(|error| {
            Failure::Input(miette::miette!(
                help = "right would be: whole numbers below 2^63",
                "{name}: the scenario of a sweep: {}",
                error.message()
            ))
        })?;
        base.remove("sweep");
        let sweep = scenario.sweep.clone().expect("a scenario with a sweep");
        let first_seed = seed.unwrap_or(scenario.seed);
        let (base_seconds, files) = (scenario.duration_s, Files::of(folder));
        let points = Self { base, sweep, first_seed, base_seconds, files };
        let problems = points.problems();
        if problems.is_empty() { Ok(points) } else { Err(loaded.refuse(problems)) }
    }

    /// Problems with the keys; if there are none, with the first value of each key; if there are
    /// none, with the other values. Each of these is tried with the first values of the other keys,
    /// as many keys have too many combinations; then some combinations are.
    fn problems(&self) -> Vec<Problem> {
        let first = self.sweep.point(0);
        let mut wrong_keys = self.wrong_keys(&first);
        if wrong_keys.is_empty() {
            wrong_keys = self.hidden_keys(&first);
        }
        if !wrong_keys.is_empty() {
            return wrong_keys;
        }
        if let Err(refusal) = self.scenario_of(&first) {
            let place = self.culprit(&first, &refusal);
            return vec![self.problem(place, 0, refusal)];
        }
        let mut problems = Vec::new();
        for (place, vary) in self.sweep.vary.iter().enumerate() {
            for (index, value) in vary.values.iter().enumerate().skip(1) {
                let mut values = first.clone();
                values[place] = (&vary.key, value);
                if let Err(refusal) = self.scenario_of(&values) {
                    problems.push(self.problem(place, index, refusal));
                }
            }
        }
        if problems.is_empty() { self.wrong_points() } else { problems }
    }

    /// The first point whose values do not fit together, though each fits by itself. Only the first
    /// `TRIED` points are tried; a later one is refused when it is to run.
    fn wrong_points(&self) -> Vec<Problem> {
        let points = self.sweep.points().unwrap_or(u64::MAX).min(TRIED);
        let mut tried = (0..points).take_while(|_| !interrupt::has_come());
        let refused = tried.find_map(|index| {
            let values = self.sweep.point(index);
            let Refusal { message, help, .. } = self.scenario_of(&values).err()?;
            let message = format!("with {}: {message}", written(&values));
            Some(Problem { path: "sweep".into(), message, help })
        });
        refused.into_iter().collect()
    }

    /// The keys that lead nowhere.
    fn wrong_keys(&self, first: &[(&str, &SweepValue)]) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (place, (key, value)) in first.iter().enumerate() {
            let value = Value::try_from(value).expect("what a file can hold");
            let mut root = Value::Table(self.base.clone());
            let put = match key.split('.').count() {
                ..=STEPS => put(&mut root, key, &value),
                steps => Err((
                    format!("it has {steps} steps"),
                    "right would be: a key of the scenario, as `farhop schema` prints them".into(),
                )),
            };
            if let Err((message, help)) = put {
                let path = format!("sweep.vary[{place}].key");
                problems.push(Problem { path, message: format!("{key}: {message}"), help });
            }
        }
        problems
    }

    /// The keys whose values have no effect, because a later key overwrites them.
    fn hidden_keys(&self, first: &[(&str, &SweepValue)]) -> Vec<Problem> {
        let root_of = |values: &[(&str, &SweepValue)]| {
            let mut root = Value::Table(self.base.clone());
            for (key, value) in values {
                let value = Value::try_from(value).expect("what a file can hold");
                put(&mut root, key, &value).expect("the caller has tried each key");
            }
            root
        };
        let root = root_of(first);
        let is_hidden = |place: &usize| {
            let mut others = first.to_vec();
            let values = &self.sweep.vary[*place].values;
            values.iter().skip(1).any(|value| {
                others[*place].1 = value;
                root_of(&others) == root
            })
        };
        let problem = |place: usize| Problem {
            path: format!("sweep.vary[{place}].key"),
            message: format!(
                "{}: a later key puts its values in the place of these",
                first[place].0
            ),
            help: "right would be: first the key that means more of the file, or one of them alone"
                .into(),
        };
        (0..first.len()).filter(is_hidden).map(problem).collect()
    }

    /// Which value causes a refusal: the one without which the scenario is not refused in this way.
    fn culprit(&self, values: &[(&str, &SweepValue)], refusal: &Refusal) -> usize {
        let is_at_fault = |place: &usize| {
            let mut others = values.to_vec();
            others.remove(*place);
            self.scenario_of(&others).err().is_none_or(|other| other.message != refusal.message)
        };
        (0..values.len()).find(is_at_fault).unwrap_or(0)
    }

    /// A refused value as a problem, at the place in the file that is wrong.
    fn problem(&self, place: usize, index: usize, refusal: Refusal) -> Problem {
        let Some(VaryConfig { key, values }) = self.sweep.vary.get(place) else {
            let Refusal { message, help, .. } = refusal;
            return Problem { path: "sweep".into(), message, help };
        };
        let Refusal { message, help, is_of_key } = refusal;
        if is_of_key {
            let path = format!("sweep.vary[{place}].key");
            return Problem { path, message: format!("{key}: {message}"), help };
        }
        let path = format!("sweep.vary[{place}].values[{index}]");
        // A key that is missing beside the value belongs into its table, which the file may lack.
        let beside = match (&values[index], key.rsplit_once('.')) {
            (SweepValue::Table(_), _) | (_, None) => None,
            (_, Some((table, _))) => message.starts_with("missing field").then_some(table),
        };
        let help = match beside {
            Some(table) => format!("write `{table}` into the file, with the value that is missing"),
            None => help,
        };
        Problem { path, message: format!("with {key} = {}: {message}", values[index]), help }
    }

    /// How many runs there are.
    pub(crate) fn runs(&self) -> u64 {
        self.sweep.runs().expect("a sweep without problems can be counted")
    }

    /// The number of runs, and of what, as text.
    pub(crate) fn describe(&self) -> String {
        let keys = self.sweep.vary.iter().map(|VaryConfig { key, values }| {
            format!("{} of {key}", counted(values.len(), "value"))
        });
        let seeds = counted(self.sweep.seeds.count(), "seed");
        let of: Vec<String> = keys.chain([seeds]).collect();
        format!("{}: {}", counted(self.runs(), "run"), of.join(", "))
    }

    /// How many runs each point has.
    pub(crate) fn seeds(&self) -> u64 {
        self.sweep.seeds.count()
    }

    /// The values of a run.
    pub(crate) fn values(&self, index: u64) -> Values {
        let values = self.sweep.point(index / self.seeds());
        values.into_iter().map(|(key, value)| (key.into(), value.clone())).collect()
    }

    /// The seed of a run.
    pub(crate) fn seed(&self, index: u64) -> u64 {
        self.sweep.seeds.at(index % self.seeds(), self.first_seed)
    }

    /// The index of the run with these values and this seed, or `None`.
    pub(crate) fn index(&self, values: &Values, seed: u64) -> Option<u64> {
        self.sweep.index(values, seed, self.first_seed)
    }

    /// SHA-256 of each file that the runs read, by its name.
    pub(crate) fn sums(&self) -> BTreeMap<String, String> {
        self.files.sums()
    }

    /// The scenario of a run.
    ///
    /// Fails with what is wrong if the values of the run do not fit together.
    pub(crate) fn scenario(&self, index: u64) -> Result<Scenario, String> {
        let values = self.sweep.point(index / self.sweep.seeds.count());
        self.scenario_of(&values).map_err(|Refusal { message, help, .. }| {
            format!("with {}: {message}; {help}", written(&values))
        })
    }

    /// The length of a run in seconds.
    pub(crate) fn seconds(&self, index: u64) -> f64 {
        let values = self.sweep.point(index / self.sweep.seeds.count());
        let length = values.iter().find(|(key, _)| *key == "duration_s");
        let given = length.and_then(|(_, value)| value.number());
        given.unwrap_or(self.base_seconds)
    }

    fn scenario_of(&self, values: &[(&str, &SweepValue)]) -> Result<Scenario, Refusal> {
        let mut root = Value::Table(self.base.clone());
        for (key, value) in values {
            let value = Value::try_from(value).expect("what a file can hold");
            put(&mut root, key, &value).map_err(|(message, help)| Refusal {
                message: format!("{key}: {message}"),
                help,
                is_of_key: true,
            })?;
        }
        // Read from text, so that it is checked just like a file.
        let text = toml::to_string(&root).expect("a table of what files hold");
        let scenario = load::put_together(&text, &self.files).map_err(|(message, help)| {
            let is_of_key = message.starts_with("unknown field");
            Refusal { message, help, is_of_key }
        })?;
        match engine::refusal(&scenario) {
            None => Ok(scenario),
            Some(Problem { path, message, help }) => {
                Err(Refusal { message: format!("{path}: {message}"), help, is_of_key: false })
            }
        }
    }
}

/// Keys with their values, in TOML.
fn written(values: &[(&str, &SweepValue)]) -> String {
    let words: Vec<String> = values.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    words.join(", ")
}

/// Why a scenario with some values is refused.
struct Refusal {
    message: String,
    help: String,
    /// Whether the key itself is wrong, whatever its value.
    is_of_key: bool,
}

/// Most steps of a key: far more than a scenario is deep.
const STEPS: usize = 32;

/// The first step of a key and the rest, which begins after a dot. Names in brackets may have dots.
fn first_step(key: &str) -> (&str, Option<&str>) {
    let mut is_inside = false;
    let dot = key.find(|letter| {
        match letter {
            '[' => is_inside = true,
            ']' => is_inside = false,
            _ => {}
        }
        letter == '.' && !is_inside
    });
    dot.map_or((key, None), |dot| (&key[..dot], Some(&key[dot + 1..])))
}

/// Puts a value where a key leads: `a.b`, `list[0].c`, `list[name].c`, `list[*].c`. Tables on the
/// way that are missing are created.
///
/// Fails with what is wrong and what would be right.
fn put(at: &mut Value, key: &str, value: &Value) -> Result<(), (String, String)> {
    let (step, rest) = first_step(key);
    let (name, place) = match step.split_once('[') {
        Some((name, place)) => {
            let place = place.strip_suffix(']').ok_or_else(|| {
                ("a '[' without its ']'".to_owned(), format!("right would be: {step}]"))
            })?;
            (name, Some(place))
        }
        None => (step, None),
    };
    let table = at.as_table_mut().ok_or_else(|| {
        let help = "right would be: a key of the scenario, as `farhop schema` prints them";
        (format!("there is no key '{name}' there"), help.to_owned())
    })?;
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
    if !table.get(name).is_some_and(is_list) {
        return Err(no_list(table, name));
    }
    let list = table.get_mut(name).and_then(Value::as_array_mut).expect("it is one");
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
    if found {
        Ok(())
    } else {
        Err((format!("the scenario has no {name} '{place}'"), places(list)))
    }
}

/// What may be in the brackets after the name of a list.
fn places(list: &[Value]) -> String {
    let names = list.iter().filter_map(|element| element.get("name")?.as_str());
    let mut places: Vec<String> = names.map(str::to_owned).collect();
    match list.len() {
        0 => {}
        1 => places.insert(0, "0".into()),
        count => places.insert(0, format!("0 to {}", count - 1)),
    }
    places.push("* for all".into());
    format!("right would be: in the brackets {}", places.join(", "))
}

/// The error for a list that does not exist, and the lists that do.
fn no_list(table: &Table, name: &str) -> (String, String) {
    let lists = table.iter().filter(|(_, list)| is_list(list)).map(|(name, _)| name.as_str());
    let lists: Vec<&str> = lists.collect();
    let help = match lists.as_slice() {
        [] => "right would be: a key without '[': the scenario has no lists".to_owned(),
        lists => format!("right would be: one of these lists: {}", lists.join(", ")),
    };
    (format!("the scenario has no [[{name}]]"), help)
}

/// Whether a value is a list of tables.
fn is_list(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Value::is_table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, key: &str, value: &str) -> Result<String, String> {
        let mut root = Value::Table(text.parse().expect("good text"));
        put(&mut root, key, &Value::String(value.into())).map_err(|(message, _)| message)?;
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
        let dotted = after("[[flow]]\nname = \"a.b\"\nx = 1\n", "flow[a.b].x", "q");
        assert!(dotted.expect("a name with a dot").contains("x = \"q\""));
    }

    #[test]
    fn a_key_that_leads_nowhere_says_what_is_missing() {
        let text = "name = \"x\"\n[[flow]]\nname = \"a\"\n";
        assert_eq!(after(text, "flow[c].x", "q"), Err("the scenario has no flow 'c'".into()));
        assert_eq!(after(text, "link[0].x", "q"), Err("the scenario has no [[link]]".into()));
        assert_eq!(after(text, "name.x", "q"), Err("there is no key 'x' there".into()));
    }

    /// The problems of a scenario with this sweep: the text at each place, what is wrong, and what
    /// would be right.
    fn said(vary: &str) -> String {
        let text = format!(
            "name = \"x\"\nnode = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\n\
             between = [\"a\", \"b\"]\ndistance_km = 1\n{vary}"
        );
        let (program, thread) = (std::process::id(), std::thread::current().id());
        let file = std::env::temp_dir().join(format!("farhop-sweep-{program}-{thread:?}.toml"));
        std::fs::write(&file, text).expect("a file");
        let loaded = load::load(&file).ok().expect("all but the sweep is good");
        std::fs::remove_file(&file).expect("it was made");
        match Points::build(&loaded, None) {
            Ok(points) => points.describe(),
            // Long lines are broken at the width of the terminal, with a mark at the side.
            Err(Failure::Input(report)) => {
                let text = format!("{report:?}");
                text.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ")
            }
            Err(_) => "another failure".into(),
        }
    }

    #[test]
    fn what_is_wrong_with_a_sweep_has_its_place_and_what_would_be_right() {
        let vary = |key: &str, values: &str| {
            said(&format!("[[sweep.vary]]\nkey = \"{key}\"\nvalues = {values}\n"))
        };
        let good = vary("link[0].loss", "[0, 0.1]");
        assert_eq!(good, "2 runs: 2 values of link[0].loss, 1 seed");
        for (key, values, words) in [
            ("link[3].loss", "[0]", ["no link '3'", "in the brackets 0, * for all"]),
            ("link[0].los", "[0]", ["unknown field `los`", "did you mean `loss`?"]),
            (&"a.".repeat(40), "[0]", ["it has 41 steps", "a key of the scenario"]),
            ("lonk.loss", "[0]", ["unknown field `lonk`", "did you mean `link`?"]),
            ("lonk[0].loss", "[0]", ["no [[lonk]]", "one of these lists: link, node"]),
            ("link[0].loss", "[0, 5]", ["with link[0].loss = 5: ", "right would be"]),
            ("link[0].loss", "[5, 0]", ["with link[0].loss = 5: ", "right would be"]),
            ("mobility.pause_s", "[[1, 2, 3]]", ["an array of 3 elements", "right would be: 2"]),
            ("stack.link", "[[\"plain\"]]", ["expected a table", "{ kind = \"wild\" }"]),
            ("stack.link", "[{ slot_ms = 9 }]", ["missing field `kind`", "add `kind = ...` here"]),
            ("stack.link.slot_ms", "[9]", ["missing field `kind`", "write `stack.link` into the"]),
            ("radio", "[{ phy = \"802.11b\" }, [1]]", ["with radio = [1]", "a table in braces"]),
        ] {
            let said = vary(key, values);
            for word in words.into_iter().chain(["here"]) {
                assert!(said.contains(word), "no '{word}' in {said}");
            }
        }
    }

    #[test]
    fn values_that_do_not_fit_together_are_refused_though_each_fits_by_itself() {
        let said = said(
            "[stack.link]\nkind = \"wild\"\nslot_ms = 20\n\
             [[sweep.vary]]\nkey = \"stack.link.slot_ms\"\nvalues = [20, 5]\n\
             [[sweep.vary]]\nkey = \"stack.link.guard_ms\"\nvalues = [1.5, 8]\n",
        );
        let words = "with stack.link.slot_ms = 5, stack.link.guard_ms = 8: ";
        assert!(said.contains(words), "{said}");
    }

    #[test]
    fn a_key_whose_values_a_later_one_replaces_is_refused() {
        let both = |first: &str, second: &str| {
            said(&format!(
                "[[sweep.vary]]\nkey = \"{first}.loss\"\nvalues = [0, 0.1]\n\
                 [[sweep.vary]]\nkey = \"{second}.loss\"\nvalues = [0, 0.2]\n"
            ))
        };
        // There is only one link, so both keys mean it.
        for (first, second) in [("link[0]", "link[*]"), ("link[*]", "link[0]")] {
            let said = both(first, second);
            let words = format!("{first}.loss: a later key puts its values");
            assert!(said.contains(&words), "{said}");
        }
    }

    #[test]
    fn of_several_first_values_the_one_at_fault_is_named() {
        let said = said(
            "[[sweep.vary]]\nkey = \"duration_s\"\nvalues = [1, 2]\n\
             [[sweep.vary]]\nkey = \"link[0].loss\"\nvalues = [7, 0]\n",
        );
        assert!(said.contains("with link[0].loss = 7: "), "{said}");
    }
}
