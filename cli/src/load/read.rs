//! Reads a document into a scenario, continuing after errors, so that all are found at once.
//!
//! The parser stops at the first error. It is noted, its cause is removed from the document, and
//! the rest is read again. Settings that are chosen by a `kind` are buffered by serde, which loses
//! their places: there the cause is found by trying which key or element, when removed, changes the
//! error.

use std::ops::Range;

use farhop_proto::stack::Scenario;
use serde::Deserialize as _;
use strsim::osa_distance;
use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue, Deserializer, Error};

mod shape;

/// Most errors that are collected and reported: what is wrong at one of many nodes is often wrong
/// at each.
pub(super) const COMPLAINTS: usize = 20;
/// Most keys or elements that are tried one by one, as each trial reads the whole document.
const TRIED: usize = 200;
/// Most letters by which a mistyped word differs from the one that was meant.
const TYPING_ERROR: usize = 3;

/// An error in a document.
#[derive(Debug)]
pub(super) struct Complaint {
    pub(super) span: Range<usize>,
    pub(super) message: String,
    pub(super) help: String,
}

/// The result of reading a document.
#[derive(Debug)]
pub(super) struct Reading {
    /// The errors; the document is good if there are none.
    pub(super) complaints: Vec<Complaint>,
    /// The scenario without the keys that are unknown; `None` if more was wrong, so that the rest
    /// cannot be judged.
    pub(super) scenario: Option<Scenario>,
    /// Tables from which something was removed: a default in its place may cause false problems.
    pub(super) touched: Vec<String>,
}

/// Reads a document as far as possible.
pub(super) fn read(document: &Spanned<DeTable<'_>>) -> Reading {
    let mut document = document.clone();
    let mut reading = Reading { complaints: Vec::new(), scenario: None, touched: Vec::new() };
    // Whether only unknown keys, and none at the top level, were removed.
    let mut sound = true;
    // Removed keys: that they are missing now is no error of its own.
    let mut removed: Vec<Path> = Vec::new();
    // From last to first, so that indices of the earlier ones stay valid.
    for (path, complaint) in shape::misfits(&document).into_iter().rev() {
        reading.complaints.push(complaint);
        sound = false;
        reading.take_out(&mut document, path, &mut removed);
    }
    while reading.complaints.len() < COMPLAINTS {
        let error = match Scenario::deserialize(Deserializer::from(document.clone())) {
            Ok(scenario) => {
                reading.scenario = sound.then_some(scenario);
                break;
            }
            Err(error) => error,
        };
        let Some((path, span)) = culprit(&document, &error) else {
            // A key is missing at the top level, which serde reports last.
            if !is_consequence(&error, &Path::new(), &removed) {
                reading.complaints.push(complaint(&error, error.span().unwrap_or(0..0)));
            }
            break;
        };
        let is_unknown = error.message().starts_with("unknown field");
        sound &= is_unknown && path.len() > 1;
        if !is_consequence(&error, &path, &removed) {
            let mut complaint = complaint(&error, span);
            if is_unknown {
                complaint.help = help_with_key(&document, &path, &removed, &error);
            }
            reading.complaints.push(complaint);
        }
        if !reading.take_out(&mut document, path, &mut removed) {
            break;
        }
    }
    reading
}

impl Reading {
    /// Removes the value at a path from the document, and notes that. Returns whether it existed.
    fn take_out(
        &mut self,
        document: &mut Spanned<DeTable<'_>>,
        path: Path,
        removed: &mut Vec<Path>,
    ) -> bool {
        if !take_out(document.get_mut(), &path) {
            return false;
        }
        self.touched.push(written(&path[..path.len() - 1]));
        if let [array @ .., Step::Index(_)] = path.as_slice() {
            // The elements after it have new indices.
            removed.retain(|gone| !gone.starts_with(array));
        }
        removed.push(path);
        true
    }
}

/// A step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

type Path = Vec<Step>;

/// A path in the notation of problems: `link[1].between[0]`.
fn written(path: &[Step]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            Step::Key(key) if out.is_empty() => out.push_str(key),
            Step::Key(key) => out = format!("{out}.{key}"),
            Step::Index(index) => out = format!("{out}[{index}]"),
        }
    }
    out
}

/// What to remove to resolve this error, and the place to report it at.
fn culprit(document: &Spanned<DeTable<'_>>, error: &Error) -> Option<(Path, Range<usize>)> {
    let span = error.span()?;
    let mut found = None;
    search(document.get_ref(), &span, &mut Vec::new(), &mut found);
    let path = found?;
    let (mut path, mut place) = (path, span);
    while let Some((inner, inside)) = child_at_fault(document, &path, error) {
        (path, place) = (inner, inside);
    }
    Some((path, place))
}

/// The key or element directly below a path whose removal changes the error, and its place.
fn child_at_fault(
    document: &Spanned<DeTable<'_>>,
    path: &[Step],
    error: &Error,
) -> Option<(Path, Range<usize>)> {
    let unknown = word_after(error.message(), "unknown field `");
    let is_unknown = |step: &Step| matches!(step, Step::Key(key) if unknown == Some(key));
    if error.message().starts_with("invalid length") || path.last().is_some_and(is_unknown) {
        return None;
    }
    let mut children: Vec<(Step, Range<usize>)> = match value(document.get_ref(), path)? {
        DeValue::Table(table) => {
            let child = |(key, inside): (&Spanned<DeString<'_>>, &Spanned<_>)| {
                let name: String = key.get_ref().to_string();
                let place = if unknown == Some(&*name) { key.span() } else { inside.span() };
                (Step::Key(name), place)
            };
            table.iter().map(child).collect()
        }
        DeValue::Array(array) => {
            let child = |(index, inside): (_, &Spanned<_>)| (Step::Index(index), inside.span());
            array.iter().enumerate().map(child).collect()
        }
        _ => return None,
    };
    if children.len() > TRIED {
        return None;
    }
    // Removing the `kind` of a table always changes the error, so it is tried last.
    let is_kind = |step: &Step| *step == Step::Key("kind".into());
    children.sort_by_key(|(step, _)| !is_kind(step));
    let inner = |step: &Step| -> Path { path.iter().chain([step]).cloned().collect() };
    let is_missing = |error: &Error| error.message().starts_with("missing field");
    let goes_with = |step: &Step, document: &mut Spanned<DeTable<'_>>| {
        take_out(document.get_mut(), &inner(step));
        let rest = Scenario::deserialize(Deserializer::from(document.clone()));
        // A missing key is not the fault of a child whose removal makes another key missing.
        rest.err().is_none_or(|other| {
            other.message() != error.message() && !(is_missing(error) && is_missing(&other))
        })
    };
    let goes = |step| !is_kind(step) && goes_with(step, &mut document.clone());
    let alone = children.iter().rposition(|(step, _)| goes(step));
    // Several children may have the same error: then remove one after another until it changes.
    let mut less = document.clone();
    let last = || children.iter().rposition(|(step, _)| goes_with(step, &mut less));
    let (step, place) = &children[alone.or_else(last)?];
    Some((inner(step), place.clone()))
}

/// Finds the innermost key or value with a span.
fn search(table: &DeTable<'_>, span: &Range<usize>, here: &mut Path, found: &mut Option<Path>) {
    for (key, inside) in table {
        here.push(Step::Key(key.get_ref().to_string()));
        if key.span() == *span {
            *found = Some(here.clone());
        }
        search_value(inside, span, here, found);
        here.pop();
    }
}

fn search_value(
    inside: &Spanned<DeValue<'_>>,
    span: &Range<usize>,
    here: &mut Path,
    found: &mut Option<Path>,
) {
    if inside.span() == *span {
        *found = Some(here.clone());
    }
    match inside.get_ref() {
        DeValue::Table(table) => search(table, span, here, found),
        DeValue::Array(array) => {
            for (index, element) in array.iter().enumerate() {
                here.push(Step::Index(index));
                search_value(element, span, here, found);
                here.pop();
            }
        }
        _ => {}
    }
}

fn value<'a, 'i>(root: &'a DeTable<'i>, path: &[Step]) -> Option<&'a DeValue<'i>> {
    let (first, rest) = path.split_first()?;
    let Step::Key(key) = first else { return None };
    let mut inside = root.get(key.as_str())?.get_ref();
    for step in rest {
        inside = match (step, inside) {
            (Step::Key(key), DeValue::Table(table)) => table.get(key.as_str())?.get_ref(),
            (Step::Index(index), DeValue::Array(array)) => array.get(*index)?.get_ref(),
            _ => return None,
        };
    }
    Some(inside)
}

/// Removes the value at a path from the document. Returns whether it existed.
fn take_out(root: &mut DeTable<'_>, path: &[Step]) -> bool {
    let Some((Step::Key(first), rest)) = path.split_first() else { return false };
    let [deeper @ .., last] = rest else { return root.remove(first.as_str()).is_some() };
    let Some(mut inside) = root.get_mut(first.as_str()).map(Spanned::get_mut) else {
        return false;
    };
    for step in deeper {
        let next = match (step, inside) {
            (Step::Key(key), DeValue::Table(table)) => table.get_mut(key.as_str()),
            (Step::Index(index), DeValue::Array(array)) => array.get_mut(*index),
            _ => None,
        };
        let Some(next) = next else { return false };
        inside = next.get_mut();
    }
    match (last, inside) {
        (Step::Key(key), DeValue::Table(table)) => table.remove(key.as_str()).is_some(),
        (Step::Index(index), DeValue::Array(array)) if *index < array.len() => {
            let elements = std::mem::replace(array, DeArray::new());
            *array = elements
                .into_iter()
                .enumerate()
                .filter_map(|(at, element)| (at != *index).then_some(element))
                .collect();
            true
        }
        _ => false,
    }
}

/// Whether a key is missing only because it, or a mistyped form of it, was removed.
fn is_consequence(error: &Error, path: &Path, removed: &[Path]) -> bool {
    let Some(missing) = word_after(error.message(), "missing field `") else { return false };
    removed.iter().any(|gone| match gone.split_last() {
        Some((Step::Key(key), table)) => {
            table == path.as_slice() && osa_distance(key, missing) <= TYPING_ERROR
        }
        _ => false,
    })
}

/// The word between `start`, with which a message begins, and the next backquote.
fn word_after<'a>(message: &'a str, start: &str) -> Option<&'a str> {
    message.strip_prefix(start)?.split('`').next()
}

/// Names of Rust types, and what to say instead.
const TYPES: [(&str, &str); 8] = [
    (" as i128, ", ", "),
    ("expected f64", "expected a number"),
    ("expected u8", "expected a whole number from 0 to 255"),
    ("expected u16", "expected a whole number from 0 to 65535"),
    ("expected u64", "expected a whole number from 0"),
    ("expected usize", "expected a whole number from 0"),
    ("floating point `", "number `"),
    ("integer `", "whole number `"),
];

/// An example for each type that is read from a table, by the name of the Rust type.
const TABLES: [(&str, &str); 7] = [
    ("LinkConfig", "{ kind = \"wild\" }"),
    ("RoutingConfig", "{ kind = \"olsr\" }"),
    ("DeviceConfig", "{ kind = \"monitor\", interface = \"mon0\" }"),
    ("RadioConfig", "{ phy = \"802.11b\" }"),
    ("NodeConfig", "{ name = \"hill\" }"),
    ("QueueConfig", "{ kind = \"red\" }"),
    ("Subnet", "{ ipv4 = \"10.66.0.0\" }, without a prefix length"),
];

/// A message that expects a table's Rust type, reworded, and what would be right.
fn table_of(message: &str) -> Option<(String, String)> {
    let named = ["internally tagged enum ", "struct "].into_iter().find_map(|start| {
        let (before, name) = message.split_once(start)?;
        Some((before, name.split([' ', ',']).next()?))
    });
    let (before, name) = named?;
    Some(table_like(before, name))
}

/// The same, given what the message says before the name.
fn table_like(before: &str, name: &str) -> (String, String) {
    let example = TABLES.iter().find(|(of, _)| *of == name).map(|(_, example)| *example);
    let help = example.map_or("`farhop schema` says what it holds".into(), |example| {
        format!("right would be: {example}")
    });
    (format!("{before}a table in braces"), help)
}

/// An error of the parser, reworded for users.
pub(super) fn complaint(error: &Error, span: Range<usize>) -> Complaint {
    let mut message = error.message().to_owned();
    for (name, plain) in TYPES {
        message = message.replace(name, plain);
    }
    match table_of(&message) {
        Some((message, help)) => Complaint { span, message, help },
        None => Complaint { span, message, help: help(error.message()) },
    }
}

/// A hint for an error of the parser.
fn help(message: &str) -> String {
    if let Some(missing) = word_after(message, "missing field `") {
        return format!("add `{missing} = ...` here");
    }
    if message == "duplicate key" {
        return "keep one of the two".into();
    }
    if message.contains("invalid IPv4 address syntax") {
        return "right would be: an address alone, for example 10.66.0.0".into();
    }
    if message.contains("invalid socket address") {
        return "right would be: ADDRESS:PORT, for example 192.0.2.7:4800 or [2001:db8::7]:4800"
            .into();
    }
    if message.starts_with("string values must be quoted") {
        return "right would be: a number without its unit, or a text in quotes".into();
    }
    if message.contains(", expected f64") {
        let share = if message.contains("%\"") { "; 5% is 0.05" } else { "" };
        return format!("right would be: a number like 12 or 0.5, without a unit{share}");
    }
    if let Some(known) = code_point(message) {
        return format!("right would be: the number of that code point, {known}");
    }
    let ranges = [("u8", u8::MAX.into()), ("u16", u16::MAX.into()), ("u", i64::MAX)];
    let is_of = |(of, _): &&(&str, i64)| message.contains(&format!(", expected {of}"));
    if let Some((_, most)) = ranges.iter().find(is_of) {
        return format!("right would be: a whole number from 0 to {most}, without quotes");
    }
    if !message.starts_with("unknown field") && !message.starts_with("unknown variant") {
        return "`farhop schema` prints all that a scenario may say".into();
    }
    let (unknown, known) = words(message);
    help_with_word(unknown, &known, &[])
}

/// The number of a DSCP code point that was given by name where a number is expected (RFC 2474,
/// 2597, 3246).
fn code_point(message: &str) -> Option<u8> {
    if !message.contains(", expected u8") {
        return None;
    }
    let word = message.split('"').nth(1)?.to_ascii_uppercase();
    let digit = |at: usize, most| {
        let digit = word.as_bytes().get(at)?.checked_sub(b'0')?;
        (digit <= most).then_some(digit)
    };
    match word.get(..2)? {
        "EF" if word.len() == 2 => Some(46),
        "CS" if word.len() == 3 => Some(8 * digit(2, 7)?),
        "AF" if word.len() == 4 => Some(8 * digit(2, 4)? + 2 * digit(3, 3)?),
        _ => None,
    }
}

/// The unknown word in a message, and the words that are accepted.
fn words(message: &str) -> (&str, Vec<&str>) {
    // serde puts each in backquotes.
    let mut words = message.split('`').skip(1).step_by(2);
    (words.next().unwrap_or_default(), words.collect())
}

/// A hint for an unknown key at a path.
fn help_with_key(
    document: &Spanned<DeTable<'_>>,
    path: &[Step],
    removed: &[Path],
    error: &Error,
) -> String {
    let (unknown, mut known) = words(error.message());
    // If the key could not be located, the path is that of its table.
    let table = match path.split_last() {
        Some((Step::Key(key), table)) if key == unknown => table,
        _ => path,
    };
    let is_new = |key: &str| {
        let place: Path = table.iter().cloned().chain([Step::Key(key.into())]).collect();
        value(document.get_ref(), &place).is_none() && !removed.contains(&place)
    };
    let mut lacking = shape::required(document, table);
    lacking.retain(|key| is_new(key));
    // In TOML all lines below a header belong to its table.
    let is_below = !table.is_empty() && lacking.is_empty();
    let is_new_there = document.get_ref().get(unknown).is_none();
    if let (true, Some(place)) = (is_below && is_new_there, shape::place_at_top(unknown)) {
        return place;
    }
    // If keys are missing, one that exists already was not meant.
    known.retain(|key| lacking.is_empty() || is_new(key));
    help_with_word(unknown, &known, &lacking)
}

/// A hint for an unknown word, given the known words and those of them that are missing: a known
/// word that is nearly the same, else most likely a missing one.
fn help_with_word(unknown: &str, known: &[&str], lacking: &[String]) -> String {
    // Two letters in the wrong order are one error, as is an end that was left out.
    let distance = |known: &str| match known.strip_prefix(unknown) {
        Some(rest) if rest.starts_with('_') && !unknown.is_empty() => 1,
        _ => osa_distance(unknown, known),
    };
    let nearest = known.iter().copied().min_by_key(|known| (distance(known), known.len()));
    // A short word is within a few letters of almost any other.
    let most = TYPING_ERROR.min(unknown.chars().count() / 2);
    let nearest = nearest.filter(|known| distance(known) <= most);
    let is_lacking = |known: &str| lacking.iter().any(|key| key == known);
    let meant: Vec<&str> = match nearest {
        Some(known) if lacking.is_empty() || !is_lacking(known) => vec![known],
        _ => lacking.iter().map(String::as_str).collect(),
    };
    match (meant.as_slice(), known) {
        ([], []) => "remove it: nothing is accepted here".into(),
        ([], _) => "take one of those; `farhop schema` says what each means".into(),
        ([one], _) if is_of_another_unit(one, unknown) => {
            format!("did you mean `{one}`? Its unit is another")
        }
        (meant, _) => format!("did you mean `{}`?", meant.join("` or `")),
    }
}

/// Whether both keys end in units, and these differ.
fn is_of_another_unit(one: &str, other: &str) -> bool {
    unit(one).zip(unit(other)).is_some_and(|(one, other)| one != other)
}

/// The unit at the end of a key.
fn unit(key: &str) -> Option<&str> {
    const UNITS: [&str; 14] = [
        "us", "ms", "s", "m", "km", "bps", "kbps", "mbps", "gbps", "hz", "khz", "mhz", "db", "dbm",
    ];
    let (_, end) = key.rsplit_once('_')?;
    UNITS.contains(&end).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts at the places of the errors, and the messages.
    fn complaints(text: &str) -> Vec<(String, String)> {
        let document = DeTable::parse(text).expect("well-formed");
        let found = read(&document).complaints.into_iter();
        found.map(|each| (text[each.span].to_owned(), each.message)).collect()
    }

    fn places(text: &str) -> Vec<String> {
        complaints(text).into_iter().map(|(place, _)| place).collect()
    }

    #[test]
    fn a_good_document_gives_its_scenario() {
        let document = DeTable::parse("name = \"x\"\nnode = [{ name = \"a\" }]").expect("toml");
        let reading = read(&document);
        assert!(reading.complaints.is_empty());
        assert_eq!(reading.scenario.expect("it is good").node[0].name, "a");
    }

    #[test]
    fn settings_behind_a_kind_are_found_at_their_own_place() {
        let text = "name = \"x\"\n[stack.link]\nkind = \"wild\"\nslot_mss = 20\nguard_ms = \"a\"\n";
        let mut found = places(text);
        found.sort();
        assert_eq!(found, ["\"a\"", "slot_mss"]);
        assert_eq!(places("name = \"x\"\n[stack.link]\nkind = \"wired\"\n"), ["\"wired\""]);
        let text = "name = \"x\"\n[[node]]\nname = \"a\"\n\
                    device = { kind = \"monitor\", interfac = \"mon0\" }\n";
        assert_eq!(places(text), ["interfac"]);
    }

    #[test]
    fn all_that_cannot_be_read_is_found_in_one_look() {
        let text = "name = 3\nlenght = 4\n[radio]\nphyy = 1\nrate_mbps = \"fast\"\n\
                    [[node]]\nname = \"a\"\n[[flow]]\nkind = \"tcpp\"\n[[link]]\nloss = 0\n";
        let mut found = places(text);
        found.sort();
        assert_eq!(found, ["\"fast\"", "\"tcpp\"", "3", "[[link]]", "lenght", "phyy"]);
    }

    #[test]
    fn what_was_taken_out_is_not_missed() {
        let text = "name = \"x\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\nkind = 7\n";
        assert_eq!(places(text), ["7"]);
    }

    #[test]
    fn what_the_next_of_a_list_lacks_is_missed_all_the_same() {
        let text = "name = \"x\"\n[[link]]\nbetween = 3\n[[link]]\nloss = 0\n";
        assert_eq!(places(text), ["3", "[[link]]"]);
    }

    #[test]
    fn an_array_that_does_not_fit_is_not_missed_beside_what_else_is_wrong() {
        let text = "name = \"x\"\nlenght = 4\nnode = [[\"a\"], { name = \"b\" }]\n\
                    link = [{ between = [\"a\", \"b\", \"c\"] }]\n";
        let mut found = places(text);
        found.sort();
        assert_eq!(found, ["[\"a\", \"b\", \"c\"]", "[\"a\"]", "lenght"]);
    }

    #[test]
    fn a_loss_is_a_number_or_a_table() {
        let text = "name = \"x\"\n[[link]]\nbetween = [\"a\", \"b\"]\nloss = { kind = \
                    \"bernoulli\", pp = 0.1 }\n";
        assert_eq!(places(text)[0], "pp");
        let text = "name = \"x\"\n[[link]]\nbetween = [\"a\", \"b\"]\nloss = \"much\"\n";
        let found = complaints(text);
        assert_eq!(found[0].0, "\"much\"");
        assert!(found[0].1.contains("a loss between 0 and 1"), "{found:?}");
    }

    #[test]
    fn two_that_are_wrong_in_the_same_way_have_each_its_place() {
        let node = |device: &str| {
            let text = format!("name = \"x\"\n[[node]]\nname = \"a\"\ndevice = {{ {device} }}\n");
            let mut found = places(&text);
            found.sort();
            found
        };
        let udp = "kind = \"udp\", bind = \"1.2.3.4\", peers = { b = \"1.2.3.5\" }";
        assert_eq!(node(udp), ["\"1.2.3.4\"", "\"1.2.3.5\""]);
        let udp = "kind = \"udp\", bind = \"1.2.3.4:5\", peers = { b = \"x\", c = \"y\" }";
        assert_eq!(node(udp), ["\"x\"", "\"y\""]);
        let udp = "kind = \"udp\", bind = 1, peers = 2, paced = 3";
        assert_eq!(node(udp), ["1", "2", "3"]);
        let text = "name = \"x\"\n[stack.link]\nkind = \"wild\"\nclass = [{ name = \"v\", dscp = \
                    46 }, { name = \"w\", dscpp = 3 }, { name = \"x\", dscpp = 4 }]\n";
        assert_eq!(places(text), ["dscpp", "dscpp"]);
        let mut found = places(&text.replace("name = \"v\"", "nme = \"v\""));
        found.sort();
        assert_eq!(found, ["dscpp", "dscpp", "nme"]);
    }

    #[test]
    fn an_address_without_its_port_is_told_what_it_lacks() {
        let text = "name = \"x\"\n[[node]]\nname = \"a\"\ndevice = { kind = \"udp\", \
                    bind = \"127.0.0.1:1\", peers = { b = \"127.0.0.1\" } }\n";
        let document = DeTable::parse(text).expect("well-formed");
        let found = read(&document).complaints;
        assert!(found[0].help.contains("ADDRESS:PORT"), "{found:?}");
    }

    #[test]
    fn types_are_called_what_people_call_them() {
        let text = "name = \"x\"\nduration_s = \"long\"\nseed = -1\n";
        let messages: Vec<String> = complaints(text).into_iter().map(|each| each.1).collect();
        assert!(messages[0].contains("expected a number"), "{messages:?}");
        assert!(!messages[1].contains("u64"), "{messages:?}");
    }

    #[test]
    fn a_key_below_a_header_that_belongs_above_it_is_told_so() {
        let text = "name = \"x\"\n[stack.hop]\nnode = [{ name = \"a\" }]\n";
        let document = DeTable::parse(text).expect("well-formed");
        let found = read(&document).complaints;
        let right = "`node` stands by itself: [[node]] before each, or `node = [...]` above the \
                     first [header]";
        assert_eq!(found[0].help, right);
        let help = |text: &str| {
            let document = DeTable::parse(text).expect("well-formed");
            read(&document).complaints.remove(0).help
        };
        assert!(help("name = \"x\"\n[stack.radio]\nphy = \"wire\"").contains(": [radio], or"));
        assert!(help("name = \"x\"\n[radio]\nseed = 3").contains("goes to the top"));
        // A key that exists at the top level already was not meant.
        assert!(!help("name = \"x\"\nseed = 3\n[radio]\nseed = 3").contains("top"));
    }

    #[test]
    fn the_nearest_word_is_proposed() {
        let key = "unknown field `distanc_km`, expected one of `between`, `distance_km`";
        assert_eq!(help(key), "did you mean `distance_km`?");
        let word = "unknown variant `wildd`, expected `plain` or `wild`";
        assert_eq!(help(word), "did you mean `wild`?");
        let short = "unknown variant `tpc`, expected one of `udp`, `tcp`, `voip`";
        assert_eq!(help(short), "did you mean `tcp`?");
        let end = "unknown field `slot`, expected one of `slot_least_ms`, `slot_ms`, `guard_ms`";
        assert_eq!(help(end), "did you mean `slot_ms`?");
        let rate = "unknown field `rate_kbps`, expected one of `kind`, `rate_mbps`";
        assert_eq!(help(rate), "did you mean `rate_mbps`? Its unit is another");
        let other = "unknown field `delay_m`, expected one of `between`, `relay`";
        assert_eq!(help(other), "did you mean `relay`?");
        assert!(help("unknown field `zzzzzzzz`, expected `plain`").starts_with("take one"));
    }

    #[test]
    fn a_key_that_is_lacking_is_proposed_before_one_that_is_there_or_as_near() {
        let help = |table: &str| {
            let text = format!("name = \"x\"\n{table}");
            let document = DeTable::parse(&text).expect("well-formed");
            let mut found = read(&document).complaints.into_iter();
            let unknown = found.find(|each| each.message.starts_with("unknown field"));
            unknown.expect("a key that nobody knows").help
        };
        let fault = |keys: &str| help(&format!("fault = [{{ node = \"a\" }}, {{ {keys} }}]"));
        assert_eq!(fault("at_s = 3, to_s = 4"), "did you mean `from_s`?");
        assert_eq!(fault("at_s = 3"), "did you mean `from_s` or `to_s`?");
        assert_eq!(fault("at_s = 3, from_s = 4"), "did you mean `to_s`?");
        assert_eq!(fault("from_s = \"late\", zo_s = 4"), "did you mean `to_s`?");
        assert_eq!(fault("nodes = \"a\", from_s = 3"), "did you mean `node`?");
        assert_eq!(help("link = [{ los = 0.1 }]"), "did you mean `loss`?");
        let link = "stack.link = { kind = \"wild\", class = [{ nam = \"v\" }] }";
        assert_eq!(help(link), "did you mean `name`?");
    }

    #[test]
    fn a_document_of_nothing_but_rubbish_ends_the_search() {
        let text: String = (0..100).map(|n| format!("key{n} = 1\n")).collect();
        assert_eq!(complaints(&text).len(), COMPLAINTS);
    }

    #[test]
    fn names_of_code_points_are_told_as_numbers() {
        let told = |name: &str| {
            let text = format!("name = \"x\"\nflow = [{{ dscp = \"{name}\" }}]");
            let document = DeTable::parse(&text).expect("well-formed");
            let found = read(&document).complaints.into_iter();
            found.map(|each| each.help).find(|help| help.contains("number")).unwrap_or_default()
        };
        for (name, number) in [("EF", 46), ("ef", 46), ("CS6", 48), ("AF41", 34), ("AF11", 10)] {
            assert!(told(name).ends_with(&format!("that code point, {number}")), "{}", told(name));
        }
        for name in ["EFX", "AF4", "AF91", "CS8", "", "ä", "best"] {
            assert!(told(name).ends_with("without quotes"), "{name}: {}", told(name));
        }
    }
}
