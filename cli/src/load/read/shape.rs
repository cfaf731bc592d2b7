//! Finds arrays where tables belong, tables where arrays belong, and arrays of the wrong length.
//!
//! serde accepts some of these silently: it also reads a struct from an array of its fields, and a
//! pair from the beginning of a longer array. So they are found by the schema of a scenario, before
//! the document is read.

use std::sync::LazyLock;

use farhop_proto::base::counted;
use farhop_proto::stack::Scenario;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::{COMPLAINTS, Complaint, Path, Step, table_like};

/// The schema of a scenario, built once: a sweep reads thousands of scenarios.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(Scenario).to_value());

/// The first arrays and tables of a document that the schema does not allow, in its order.
pub(super) fn misfits(document: &Spanned<DeTable<'_>>) -> Vec<(Path, Complaint)> {
    let mut look = Look { root: &SCHEMA, here: Path::new(), found: Vec::new() };
    look.table(&SCHEMA, document.get_ref());
    look.found
}

/// The required keys of a table of a document; none if its form is unknown.
pub(super) fn required(document: &Spanned<DeTable<'_>>, path: &[Step]) -> Vec<String> {
    let look = Look { root: &SCHEMA, here: Path::new(), found: Vec::new() };
    let form = look.form_of(&SCHEMA, document.get_ref(), path);
    let keys = form.and_then(|form| form["required"].as_array()).into_iter().flatten();
    keys.filter_map(|key| key.as_str().map(str::to_owned)).collect()
}

/// Where to put a key that belongs at the top level, if this is one.
pub(super) fn place_at_top(key: &str) -> Option<String> {
    let schema = SCHEMA["properties"].get(key)?;
    let look = Look { root: &SCHEMA, here: Path::new(), found: Vec::new() };
    let forms = look.forms(schema);
    let above = "above the first [header]";
    Some(if forms.iter().any(|(_, form)| is(form, "array")) {
        format!("`{key}` stands by itself: [[{key}]] before each, or `{key} = [...]` {above}")
    } else if forms.iter().any(|(_, form)| is(form, "object")) {
        format!("`{key}` stands by itself: [{key}], or `{key} = ...` {above}")
    } else {
        format!("`{key}` goes to the top of the file, {above}")
    })
}

/// A walk through a document in parallel with its schema.
struct Look<'a> {
    root: &'a Value,
    here: Path,
    found: Vec<(Path, Complaint)>,
}

impl<'a> Look<'a> {
    fn value(&mut self, schema: &'a Value, value: &Spanned<DeValue<'_>>) {
        let forms = self.forms(schema);
        match value.get_ref() {
            DeValue::Table(table) => {
                let list = forms.iter().find(|(_, form)| is(form, "array"));
                let is_table = forms.iter().any(|(_, form)| is(form, "object"));
                if let Some((_, form)) = forms.iter().find(|(_, form)| is_of_kind(form, table)) {
                    self.table(form, table);
                } else if let Some((_, list)) = list.filter(|_| !is_table) {
                    let (message, help) = self.list_like(list);
                    self.complain(value, message, help);
                }
            }
            DeValue::Array(array) => {
                let lists = || forms.iter().filter(|(_, form)| is(form, "array"));
                let table = forms.iter().find(|(_, form)| is(form, "object"));
                match (lists().next(), table) {
                    (Some((_, form)), _) => self.array(form, array, value),
                    (None, Some((name, _))) => {
                        let (message, help) = table_like("invalid type: array, expected ", name);
                        self.complain(value, message, help);
                    }
                    (None, None) => {}
                }
            }
            _ => {}
        }
    }

    fn table(&mut self, form: &'a Value, table: &DeTable<'_>) {
        for (key, inside) in table {
            if let Some(schema) = schema_of(form, key.get_ref()) {
                self.inside(Step::Key(key.get_ref().to_string()), schema, inside);
            }
        }
    }

    fn array(&mut self, form: &'a Value, array: &DeArray<'_>, value: &Spanned<DeValue<'_>>) {
        let [least, most] = ["minItems", "maxItems"].map(|key| form[key].as_u64());
        let count = array.len() as u64;
        if let Some(most) = most.filter(|most| count > *most) {
            let message = format!("an array of {} is too long", counted(count, "element"));
            self.complain(value, message, format!("right would be: {most} elements"));
        } else if let Some(least) = least.filter(|least| count < *least) {
            let message = format!("an array of {} is too short", counted(count, "element"));
            self.complain(value, message, format!("right would be: {least} elements"));
        } else if let Some(schema) = form.get("items") {
            for (index, element) in array.iter().enumerate() {
                self.inside(Step::Index(index), schema, element);
            }
        }
    }

    /// The message and the hint for a single table where a list belongs.
    fn list_like(&self, list: &'a Value) -> (String, String) {
        let keys = self.here.iter().map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        });
        let keys: Option<Vec<&str>> = keys.collect();
        let items = list.get("items").map(|items| self.forms(items)).unwrap_or_default();
        match keys.filter(|_| items.iter().any(|(_, form)| is(form, "object"))) {
            Some(keys) => {
                let message = "a single table where there may be several";
                (message.into(), format!("right would be: [[{}]] before each", keys.join(".")))
            }
            None => ("a table where there is to be a list".into(), "right would be: [...]".into()),
        }
    }

    fn inside(&mut self, step: Step, schema: &'a Value, value: &Spanned<DeValue<'_>>) {
        self.here.push(step);
        self.value(schema, value);
        self.here.pop();
    }

    fn complain(&mut self, value: &Spanned<DeValue<'_>>, message: String, help: String) {
        if self.found.len() < COMPLAINTS {
            let complaint = Complaint { span: value.span(), message, help };
            self.found.push((self.here.clone(), complaint));
        }
    }

    /// The form (a resolved schema) of the table at a path that starts in a table of another form.
    fn form_of(&self, form: &'a Value, table: &DeTable<'_>, path: &[Step]) -> Option<&'a Value> {
        let Some((Step::Key(key), mut rest)) = path.split_first() else { return Some(form) };
        let mut value = table.get(key.as_str())?.get_ref();
        let mut forms = self.forms(schema_of(form, key)?);
        while let (DeValue::Array(array), Some((Step::Index(index), behind))) =
            (value, rest.split_first())
        {
            (value, rest) = (array.get(*index)?.get_ref(), behind);
            let (_, list) = forms.into_iter().find(|(_, form)| is(form, "array"))?;
            forms = self.forms(list.get("items")?);
        }
        let DeValue::Table(table) = value else { return None };
        let (_, form) = forms.into_iter().find(|(_, form)| is_of_kind(form, table))?;
        self.form_of(form, table, rest)
    }

    /// All forms that a schema allows, each with the name of its type.
    fn forms(&self, schema: &'a Value) -> Vec<(&'a str, &'a Value)> {
        let mut forms = Vec::new();
        let mut open = vec![("", schema)];
        while let Some((name, schema)) = open.pop() {
            let choices = ["anyOf", "oneOf"].into_iter().find_map(|key| schema[key].as_array());
            if let Some(reference) = schema["$ref"].as_str() {
                let name = reference.rsplit('/').next().unwrap_or_default();
                open.push((name, &self.root["$defs"][name]));
            } else if let Some(choices) = choices {
                open.extend(choices.iter().rev().map(|choice| (name, choice)));
            } else {
                forms.push((name, schema));
            }
        }
        forms
    }
}

/// The schema of a key of a table.
fn schema_of<'a>(form: &'a Value, key: &str) -> Option<&'a Value> {
    form["properties"].get(key).or_else(|| form.get("additionalProperties"))
}

/// Whether a form allows this JSON type.
fn is(form: &Value, kind: &str) -> bool {
    match &form["type"] {
        Value::Array(kinds) => kinds.iter().any(|one| one == kind),
        one => one == kind,
    }
}

/// Whether a form is that of a table with this table's `kind`, if forms have one.
fn is_of_kind(form: &Value, table: &DeTable<'_>) -> bool {
    let kind = table.get("kind").and_then(|kind| kind.get_ref().as_str());
    is(form, "object")
        && form["properties"]["kind"]["const"].as_str().is_none_or(|one| Some(one) == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts at the places of the misfits, and the messages.
    fn found(text: &str) -> Vec<(String, String)> {
        let document = DeTable::parse(text).expect("well-formed");
        let found = misfits(&document).into_iter();
        found.map(|(_, each)| (text[each.span].to_owned(), each.message)).collect()
    }

    #[test]
    fn a_table_where_there_may_be_several_is_told_how_to_write_it() {
        let help = |text: &str| {
            let document = DeTable::parse(text).expect("well-formed");
            misfits(&document).into_iter().map(|(_, each)| each.help).collect::<Vec<String>>()
        };
        assert_eq!(help("[link]\nbetween = 3"), ["right would be: [[link]] before each"]);
        let classes = "[stack.link]\nkind = \"wild\"\n[stack.link.class]\nname = \"v\"";
        assert_eq!(help(classes), ["right would be: [[stack.link.class]] before each"]);
        assert_eq!(help("[[node]]\nposition_m = { x = 1 }"), ["right would be: [...]"]);
        assert_eq!(help("[[node]]\nname = \"a\"\n[radio]\nphy = 3"), [""; 0]);
        assert_found("[link]\nbetween = 3", "[link]", "there may be several");
    }

    /// Asserts that there is one misfit, with this text and message.
    fn assert_found(text: &str, place: &str, what: &str) {
        let found = found(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(found[0].0, place);
        assert!(found[0].1.contains(what), "{found:?}");
    }

    #[test]
    fn arrays_that_are_too_long_are_found_wherever_they_stand() {
        for (text, place) in [
            ("link = [{ between = [\"a\", \"b\", \"c\"] }]", "[\"a\", \"b\", \"c\"]"),
            ("fault = [{ link = [\"a\", \"b\", \"c\"] }]", "[\"a\", \"b\", \"c\"]"),
            ("area = { size_m = [1, 2, 3] }", "[1, 2, 3]"),
            ("mobility.pause_s = [1, 2, 3]", "[1, 2, 3]"),
            ("propagation.loss_spread = [1, 2, 3]", "[1, 2, 3]"),
            ("radio.departure = [[0.5, 50], [1, 100, 3]]", "[1, 100, 3]"),
            ("layout = [{ kind = \"random\", area_m = [1, 2, 3] }]", "[1, 2, 3]"),
            ("link = [{ loss = { kind = \"runs\", errors = [[1, 2, 3]] } }]", "[1, 2, 3]"),
        ] {
            assert_found(text, place, "too long");
        }
    }

    #[test]
    fn arrays_that_are_too_short_are_found_with_what_would_be_right() {
        for (text, place) in [
            ("link = [{ between = [\"a\"] }]", "[\"a\"]"),
            ("mobility.pause_s = []", "[]"),
            ("node = [{ name = \"a\", position_m = [1] }]", "[1]"),
        ] {
            assert_found(text, place, "too short");
        }
        let document = DeTable::parse("mobility.pause_s = [1]").expect("well-formed");
        assert_eq!(misfits(&document)[0].1.help, "right would be: 2 elements");
    }

    #[test]
    fn arrays_in_place_of_tables_are_found() {
        for (text, place) in [
            ("node = [[\"a\"], { name = \"b\" }]", "[\"a\"]"),
            ("radio = [\"802.11a\"]", "[\"802.11a\"]"),
            ("stack.link = [\"plain\"]", "[\"plain\"]"),
            ("link = [{ radio = [\"802.11a\"] }]", "[\"802.11a\"]"),
        ] {
            assert_found(text, place, "a table");
        }
    }

    #[test]
    fn arrays_where_they_belong_are_left_alone() {
        let text = "link = [{ between = [\"a\", \"b\"] }]\nradio.departure = [[0.5, 50]]\n\
                    node = [{ name = \"a\", position_m = [1, 2, 3], path_m = [[1, 2, 3]] }]\n\
                    sweep = { seeds = [1, 2, 3], vary = [{ key = \"x\", values = [[1], 2] }] }\n";
        assert_eq!(found(text), []);
    }
}
