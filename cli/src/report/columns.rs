//! Results as Parquet, for pandas, polars and DuckDB: one table each for flows, goodput over time,
//! links and the counters of nodes, with the keys of a sweep and the seed in front.
//!
//! A column has the name and the value of a field of the report; nested fields are joined by `_`.
//! The columns and their types do not depend on what was measured: only the keys of a sweep vary,
//! so that files of several runs can be concatenated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use farhop_proto::base::Name;
use farhop_proto::stack::SweepValue;
use farhop_sim::engine::{
    AirReport, Distribution, FlowReport, LinkReport, ObjectsReport, VoipReport,
};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Failure;
use crate::sweep::Line;
use crate::whole::NewFile;

/// Buffered rows from which on they are written as a row group.
const TOGETHER: usize = 65_536;

/// Calls back with each run in turn.
pub(crate) type Each<'a> =
    &'a mut dyn FnMut(&mut dyn FnMut(&Line) -> Result<(), Failure>) -> Result<(), Failure>;

/// The tables of runs.
pub(super) fn tables() -> [Table; 4] {
    [
        Table { name: "flows.parquet", of: flows, like: flat(&any_flow()) },
        Table { name: "over-time.parquet", of: over_time, like: bin("", 0.0, 0.0) },
        Table { name: "links.parquet", of: links, like: flat(&any_link()) },
        Table { name: "counters.parquet", of: counters, like: counter("", "", "", 0) },
    ]
}

/// The names of the tables.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    tables().into_iter().map(|table| table.name)
}

/// Writes the tables of some runs into a folder. `each` is called twice: the types of the sweep's
/// keys are known only after all runs, and few rows are held in memory. Existing tables stay until
/// the new ones are complete.
pub(crate) fn write(dir: &Path, each: Each<'_>) -> Result<(), Failure> {
    let mut point = Point::new();
    each(&mut |line| {
        for (key, value) in &line.point {
            let kind = Kind::of(&plain(value));
            point.entry(key.clone()).and_modify(|all| *all = all.with(kind)).or_insert(kind);
        }
        Ok(())
    })?;
    let tables = tables();
    let writers = tables.iter().map(|table| Writer::create(dir, table, &point));
    let mut writers = writers.collect::<Result<Vec<_>, Failure>>()?;
    each(&mut |line| writers.iter_mut().try_for_each(|writer| writer.add(line)))?;
    let files: Vec<_> = writers.into_iter().map(Writer::finish).collect::<Result<_, Failure>>()?;
    let keep =
        |(path, file): (PathBuf, NewFile)| file.keep().map_err(|error| failed(&path, &error));
    // If one table cannot be renamed, the others still are.
    let kept: Vec<_> = files.into_iter().map(keep).collect();
    kept.into_iter().collect()
}

type Row = Map<String, Value>;

/// The keys of a sweep, each with a type that can hold all its values.
type Point = BTreeMap<String, Kind>;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Boolean,
    Integer,
    /// A seed, which may be too large for a signed integer.
    Unsigned,
    Number,
    Text,
}

impl Kind {
    /// The type of a value.
    fn of(value: &Value) -> Self {
        match value {
            Value::Bool(_) => Self::Boolean,
            value if value.is_i64() => Self::Integer,
            value if value.is_number() => Self::Number,
            _ => Self::Text,
        }
    }

    /// A type that can hold both.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            _ => Self::Text,
        }
    }
}

/// A table.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// The rows of a run.
    of: fn(&Line) -> Vec<Row>,
    /// A row with a value in each column, which gives their names and types.
    like: Row,
}

impl Table {
    /// The columns in order: the point and the seed of a run, then the table's own. A sweep's key
    /// with the name of another column gets the prefix `sweep.`.
    fn columns(&self, point: &Point) -> Vec<(String, Kind)> {
        let key = |(key, kind): (&String, &Kind)| match self.like.contains_key(key) {
            true => (format!("sweep.{key}"), *kind),
            false => (key.clone(), *kind),
        };
        let own = self.like.iter().map(|(name, value)| (name.clone(), Kind::of(value)));
        point.iter().map(key).chain([("seed".into(), Kind::Unsigned)]).chain(own).collect()
    }
}

/// The Parquet schema; every column may lack values.
fn schema(columns: &[(String, Kind)]) -> Result<Type, ParquetError> {
    let field = |(name, kind): &(String, Kind)| {
        let (physical, logical) = match kind {
            Kind::Boolean => (Physical::BOOLEAN, None),
            Kind::Integer => (Physical::INT64, None),
            Kind::Unsigned => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Number => (Physical::DOUBLE, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let column = Type::primitive_type_builder(name, physical);
        let column = column.with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
        Ok(Arc::new(column.build()?))
    };
    let fields = columns.iter().map(field).collect::<Result<_, ParquetError>>()?;
    Type::group_type_builder("schema").with_fields(fields).build()
}

/// Buffered values of a column.
enum Values {
    Boolean(Vec<bool>),
    Integer(Vec<i64>),
    Number(Vec<f64>),
    Text(Vec<ByteArray>),
}

/// A column of the buffered rows.
struct Cells {
    values: Values,
    /// Parquet's definition levels: 1 for each row with a value, 0 for one without.
    has: Vec<i16>,
}

impl Cells {
    fn of(kind: Kind) -> Self {
        let values = match kind {
            Kind::Boolean => Values::Boolean(Vec::new()),
            Kind::Integer | Kind::Unsigned => Values::Integer(Vec::new()),
            Kind::Number => Values::Number(Vec::new()),
            Kind::Text => Values::Text(Vec::new()),
        };
        Self { values, has: Vec::new() }
    }

    /// Empty cells for these columns.
    fn of_all(columns: &[(String, Kind)]) -> Vec<Self> {
        columns.iter().map(|(_, kind)| Self::of(*kind)).collect()
    }

    fn push(&mut self, value: Option<&Value>) {
        let value = value.filter(|value| !value.is_null());
        self.has.push(value.is_some().into());
        match &mut self.values {
            Values::Boolean(all) => all.extend(value.and_then(Value::as_bool)),
            // An unsigned value keeps its bits.
            Values::Integer(all) => {
                all.extend(value.and_then(|value| {
                    value.as_i64().or_else(|| value.as_u64().map(u64::cast_signed))
                }))
            }
            Values::Number(all) => all.extend(value.and_then(Value::as_f64)),
            Values::Text(all) => all.extend(value.map(|value| match value.as_str() {
                Some(word) => ByteArray::from(word),
                None => ByteArray::from(value.to_string().into_bytes()),
            })),
        }
    }

    fn write(&self, mut column: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let has = Some(&self.has[..]);
        match (&self.values, column.untyped()) {
            (Values::Boolean(all), ColumnWriter::BoolColumnWriter(to)) => {
                to.write_batch(all, has, None)?
            }
            (Values::Integer(all), ColumnWriter::Int64ColumnWriter(to)) => {
                to.write_batch(all, has, None)?
            }
            (Values::Number(all), ColumnWriter::DoubleColumnWriter(to)) => {
                to.write_batch(all, has, None)?
            }
            (Values::Text(all), ColumnWriter::ByteArrayColumnWriter(to)) => {
                to.write_batch(all, has, None)?
            }
            _ => unreachable!("the schema is made of the same kinds"),
        };
        column.close()
    }
}

/// The file of a table.
struct Writer<'a> {
    table: &'a Table,
    point: &'a Point,
    columns: Vec<(String, Kind)>,
    path: PathBuf,
    writer: SerializedFileWriter<NewFile>,
    waiting: Vec<Cells>,
    /// The number of buffered rows.
    rows: usize,
}

impl<'a> Writer<'a> {
    fn create(dir: &Path, table: &'a Table, point: &'a Point) -> Result<Self, Failure> {
        let path = dir.join(table.name);
        let columns = table.columns(point);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let create = || -> Result<SerializedFileWriter<NewFile>, Box<dyn std::error::Error>> {
            let (schema, file) = (Arc::new(schema(&columns)?), NewFile::create(&path)?);
            Ok(SerializedFileWriter::new(file, schema, Arc::new(properties))?)
        };
        let writer = create().map_err(|error| failed(&path, &*error))?;
        let waiting = Cells::of_all(&columns);
        Ok(Self { table, point, columns, path, writer, waiting, rows: 0 })
    }

    fn add(&mut self, line: &Line) -> Result<(), Failure> {
        let point = self.point.keys().map(|key| line.point.get(key).map(plain));
        let run: Vec<_> = point.chain([Some(json!(line.report.seed))]).collect();
        for row in (self.table.of)(line) {
            let own = self.table.like.keys().map(|name| row.get(name));
            let values = run.iter().map(Option::as_ref).chain(own);
            self.waiting.iter_mut().zip(values).for_each(|(cells, value)| cells.push(value));
            self.rows += 1;
        }
        if self.rows >= TOGETHER { self.write() } else { Ok(()) }
    }

    /// Writes the buffered rows as a row group.
    fn write(&mut self) -> Result<(), Failure> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let waiting = std::mem::replace(&mut self.waiting, Cells::of_all(&self.columns));
        let mut write = || -> Result<(), ParquetError> {
            let mut group = self.writer.next_row_group()?;
            for cells in &waiting {
                cells.write(group.next_column()?.expect("a column for each of the table's"))?;
            }
            group.close()?;
            Ok(())
        };
        write().map_err(|error| failed(&self.path, &error))
    }

    /// The complete file, not yet renamed.
    fn finish(mut self) -> Result<(PathBuf, NewFile), Failure> {
        self.write()?;
        let Self { writer, path, .. } = self;
        let file = writer.into_inner().map_err(|error| failed(&path, &error))?;
        Ok((path, file))
    }
}

fn failed(path: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::Failed(format!("cannot write {}: {error}", path.display()))
}

/// A value of a sweep in a table: a number, or its text.
fn plain(value: &SweepValue) -> Value {
    value.number().map_or_else(|| json!(value.to_string()), |number| json!(number))
}

fn flows(line: &Line) -> Vec<Row> {
    line.report.flows.iter().map(flat).collect()
}

fn links(line: &Line) -> Vec<Row> {
    line.report.links.iter().map(flat).collect()
}

fn over_time(line: &Line) -> Vec<Row> {
    let bins = line.report.flows.iter().flat_map(|flow| {
        let bins = flow.over_time_mbps.iter().enumerate();
        bins.map(move |(place, mbps)| bin(&flow.name, place as f64 * flow.bin_s, *mbps))
    });
    bins.collect()
}

fn bin(flow: &str, t_s: f64, mbps: f64) -> Row {
    object(json!({ "flow": flow, "t_s": t_s, "goodput_mbps": mbps }))
}

fn counters(line: &Line) -> Vec<Row> {
    let of_node = line.report.nodes.iter().flat_map(|node| {
        let drops = [("drops".into(), node.drops.clone())];
        node.layers.clone().into_iter().chain(drops).flat_map(move |(layer, counters)| {
            let row = move |(name, value): (Name, u64)| counter(&node.name, &layer, &name, value);
            counters.into_iter().map(row)
        })
    });
    of_node.collect()
}

fn counter(node: &str, layer: &str, counter: &str, value: u64) -> Row {
    object(json!({ "node": node, "layer": layer, "counter": counter, "value": value }))
}

/// A flow with every measurement, for the columns of its table.
fn any_flow() -> FlowReport {
    let some = Some(Distribution::default());
    let objects =
        ObjectsReport { count: 0, failed: 0, completion_ms: some, pages: 0, page_ms: some };
    FlowReport {
        name: String::new(),
        from: String::new(),
        to: String::new(),
        transport: String::new(),
        sent_bytes: 0,
        delivered_bytes: 0,
        goodput_mbps: 0.0,
        loss: Some(0.0),
        delay_ms: some,
        jitter_ms: some,
        retransmissions: Some(0),
        file_bytes: Some(0),
        completed_s: Some(0.0),
        objects: Some(objects),
        voip: Some(VoipReport::default()),
        start_s: 0.0,
        bin_s: 0.0,
        over_time_mbps: Vec::new(),
    }
}

/// A link with every measurement, for the columns of its table.
fn any_link() -> LinkReport {
    LinkReport {
        from: String::new(),
        to: String::new(),
        protocol: String::new(),
        loss: Some(0.0),
        sync_error_us: Some(0.0),
        slot_error_us: Some(0.0),
        air: AirReport::default(),
    }
}

fn object(value: Value) -> Row {
    match value {
        Value::Object(row) => row,
        _ => unreachable!("only objects come here"),
    }
}

/// The plain fields of a value, and those of its nested fields.
fn flat(value: &impl Serialize) -> Row {
    let value = serde_json::to_value(value).expect("reports are plain data");
    let mut row = Row::new();
    flatten("", value, &mut row);
    row
}

fn flatten(name: &str, value: Value, row: &mut Row) {
    match value {
        // A list makes no column, and a missing measurement no value.
        Value::Array(_) | Value::Null => {}
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() { field } else { format!("{name}_{field}") };
                flatten(&name, value, row);
            }
        }
        plain => {
            row.insert(name.into(), plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use farhop_sim::engine::Report;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    use super::*;

    /// Reads the tables of some runs back: for each its columns with their types, and its rows.
    fn tables_of(lines: &[Line]) -> Vec<(Vec<String>, Vec<String>)> {
        let dir = tempfile::tempdir().expect("a folder");
        let written = write(dir.path(), &mut |on| lines.iter().try_for_each(&mut *on));
        assert!(written.is_ok());
        let read = |table: Table| {
            let file = File::open(dir.path().join(table.name)).expect("a table");
            let file = SerializedFileReader::new(file).expect("a table");
            let schema = file.metadata().file_metadata().schema_descr();
            let columns = schema.columns().iter().map(|column| {
                let logical = column.logical_type_ref();
                format!("{} {:?} {logical:?}", column.name(), column.physical_type())
            });
            let rows = file.get_row_iter(None).expect("rows");
            let rows = rows.map(|row| row.expect("a row").to_string()).collect();
            (columns.collect(), rows)
        };
        tables().into_iter().map(read).collect()
    }

    fn line(point: &[(&str, SweepValue)], flow: FlowReport, link: LinkReport) -> Line {
        let point = point.iter().map(|(key, value)| ((*key).into(), value.clone())).collect();
        let report = Report { flows: vec![flow], links: vec![link], ..Report::default() };
        Line { point, report }
    }

    #[test]
    fn columns_are_the_same_whatever_was_measured() {
        let least = line(&[], FlowReport::default(), LinkReport::default());
        let seed = u64::MAX;
        let none = Line { point: BTreeMap::new(), report: Report { seed, ..Report::default() } };
        let all = line(&[], any_flow(), any_link());
        let columns = |lines: &[Line]| -> Vec<_> {
            tables_of(lines).into_iter().map(|(columns, _)| columns).collect()
        };
        let expected = columns(std::slice::from_ref(&all));
        for lines in [&[least.clone()][..], &[none], &[], &[least, all]] {
            assert_eq!(columns(lines), expected);
        }
        let has = |name: &str| expected[0].iter().any(|column| column == name);
        for name in ["loss DOUBLE None", "objects_page_ms_p95 DOUBLE None", "sent_bytes INT64 None"]
        {
            assert!(has(name), "{name} in {expected:?}");
        }
    }

    #[test]
    fn what_a_run_has_no_value_of_is_null_and_the_largest_seed_is_whole() {
        let flow = FlowReport { name: "a".into(), loss: Some(0.25), ..FlowReport::default() };
        let mut line = line(&[("name", SweepValue::Integer(3))], flow, LinkReport::default());
        line.report.seed = u64::MAX;
        let rows = tables_of(&[line]).swap_remove(0).1;
        for words in [
            "{sweep.name: 3.0, seed: 18446744073709551615, name: \"a\", ",
            ", loss: 0.25, delay_ms_mean: null, ",
        ] {
            assert!(rows[0].contains(words), "{rows:?}");
        }
    }

    #[test]
    fn a_key_of_a_sweep_has_the_type_that_holds_all_its_values() {
        let of = |value| line(&[("x", value)], FlowReport::default(), LinkReport::default());
        let column = |lines: &[Line]| tables_of(lines).swap_remove(0).0.swap_remove(0);
        let (whole, word) = (SweepValue::Integer(3), SweepValue::Text("many".into()));
        let numbers = [of(whole.clone()), of(SweepValue::Number(0.5))];
        assert_eq!(column(&numbers), "x DOUBLE None");
        assert_eq!(column(&[of(whole), of(word)]), "x BYTE_ARRAY Some(String)");
    }

    #[test]
    fn fields_of_fields_are_joined_and_lists_left_out() {
        let row =
            flat(&json!({ "delay_ms": { "p50": 3.0 }, "over": [1], "loss": null, "name": "x" }));
        assert_eq!(row.keys().collect::<Vec<_>>(), ["delay_ms_p50", "name"]);
    }
}
