//! Results as Parquet, for pandas, polars and DuckDB: one table each for flows, goodput over time,
//! links and the counters of nodes, with the keys of a sweep and the seed in front.
//!
//! A column holds what the field of the report of that name holds; fields of a field are joined by
//! `_`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use farhop_proto::stack::SweepValue;
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

/// Rows that are written together, a row group.
const TOGETHER: usize = 65_536;

/// Calls back with each run in turn.
pub(crate) type Each<'a> =
    &'a mut dyn FnMut(&mut dyn FnMut(&Line) -> Result<(), Failure>) -> Result<(), Failure>;

/// The tables of runs.
pub(super) fn tables() -> [Table; 4] {
    [
        Table::new("flows.parquet", flows),
        Table::new("over-time.parquet", over_time),
        Table::new("links.parquet", links),
        Table::new("counters.parquet", counters),
    ]
}

/// Writes the tables of some runs into a folder. All runs are asked for twice: what the columns
/// hold is known only when all have been seen, and only some rows are held in memory. Tables that
/// were there stay as they are until the new ones are whole.
pub(crate) fn write(dir: &Path, each: Each<'_>) -> Result<(), Failure> {
    let mut tables = tables();
    each(&mut |line| {
        for table in &mut tables {
            rows(line, table.of).iter().for_each(|row| table.learn(row));
        }
        Ok(())
    })?;
    let writers = tables.iter().map(|table| Writer::create(dir, table));
    let mut writers = writers.collect::<Result<Vec<_>, Failure>>()?;
    each(&mut |line| writers.iter_mut().try_for_each(|writer| writer.add(line)))?;
    let files: Vec<_> = writers.into_iter().map(Writer::finish).collect::<Result<_, Failure>>()?;
    let keep =
        |(path, file): (PathBuf, NewFile)| file.keep().map_err(|error| failed(&path, &error));
    // One table that cannot have its name keeps no other from it.
    let kept: Vec<_> = files.into_iter().map(keep).collect();
    kept.into_iter().collect()
}

type Row = Map<String, Value>;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Boolean,
    Integer,
    Number,
    Text,
}

impl Kind {
    /// Of a value; nothing of none.
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::Bool(_) => Some(Self::Boolean),
            value if value.is_i64() => Some(Self::Integer),
            value if value.is_number() => Some(Self::Number),
            _ => Some(Self::Text),
        }
    }

    /// What can hold both.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::Integer | Self::Number, Self::Integer | Self::Number) => Self::Number,
            _ => Self::Text,
        }
    }
}

/// A table, and what is known of its columns.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Its rows of a run.
    of: fn(&Line) -> Vec<Row>,
    /// In the order in which their names first come up.
    columns: Vec<(String, Option<Kind>)>,
}

impl Table {
    fn new(name: &'static str, of: fn(&Line) -> Vec<Row>) -> Self {
        Self { name, of, columns: Vec::new() }
    }

    /// Looks what a row has in it.
    fn learn(&mut self, row: &Row) {
        for (place, (name, value)) in row.iter().enumerate() {
            // Rows are alike, so that a name is nearly always found where it stood before.
            let is_it = |column: &(String, Option<Kind>)| column.0 == *name;
            let known = self.columns.get(place).is_some_and(is_it).then_some(place);
            let known = known.or_else(|| self.columns.iter().position(is_it));
            let kind = Kind::of(value);
            match known {
                Some(place) => {
                    let before = &mut self.columns[place].1;
                    let both = before.zip(kind).map(|(before, kind)| before.with(kind));
                    *before = both.or(*before).or(kind);
                }
                None => self.columns.push((name.clone(), kind)),
            }
        }
    }

    /// Every column may have places without a value.
    fn schema(&self) -> Result<Type, ParquetError> {
        let field = |(name, kind): &(String, Option<Kind>)| {
            let (physical, logical) = match kind {
                Some(Kind::Boolean) => (Physical::BOOLEAN, None),
                Some(Kind::Integer) => (Physical::INT64, None),
                Some(Kind::Number) | None => (Physical::DOUBLE, None),
                Some(Kind::Text) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let column = Type::primitive_type_builder(name, physical);
            let column = column.with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
            Ok(Arc::new(column.build()?))
        };
        let fields = self.columns.iter().map(field).collect::<Result<_, ParquetError>>()?;
        Type::group_type_builder("schema").with_fields(fields).build()
    }

    /// A column of rows that wait.
    fn cells(&self) -> Vec<Cells> {
        self.columns.iter().map(|(_, kind)| Cells::of(*kind)).collect()
    }
}

/// Values of a column that wait for their row group.
enum Values {
    Boolean(Vec<bool>),
    Integer(Vec<i64>),
    Number(Vec<f64>),
    Text(Vec<ByteArray>),
}

/// A column of the rows that wait.
struct Cells {
    values: Values,
    /// For each row 1 where it has a value and 0 where not, as Parquet's definition levels.
    has: Vec<i16>,
}

impl Cells {
    fn of(kind: Option<Kind>) -> Self {
        let values = match kind {
            Some(Kind::Boolean) => Values::Boolean(Vec::new()),
            Some(Kind::Integer) => Values::Integer(Vec::new()),
            Some(Kind::Number) | None => Values::Number(Vec::new()),
            Some(Kind::Text) => Values::Text(Vec::new()),
        };
        Self { values, has: Vec::new() }
    }

    fn push(&mut self, value: Option<&Value>) {
        let value = value.filter(|value| !value.is_null());
        self.has.push(value.is_some().into());
        match &mut self.values {
            Values::Boolean(all) => all.extend(value.and_then(Value::as_bool)),
            Values::Integer(all) => all.extend(value.and_then(Value::as_i64)),
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
    path: PathBuf,
    writer: SerializedFileWriter<NewFile>,
    waiting: Vec<Cells>,
    /// Rows that wait.
    rows: usize,
}

impl<'a> Writer<'a> {
    fn create(dir: &Path, table: &'a Table) -> Result<Self, Failure> {
        let path = dir.join(table.name);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let create = || -> Result<SerializedFileWriter<NewFile>, Box<dyn std::error::Error>> {
            let (schema, file) = (Arc::new(table.schema()?), NewFile::create(&path)?);
            Ok(SerializedFileWriter::new(file, schema, Arc::new(properties))?)
        };
        let writer = create().map_err(|error| failed(&path, &*error))?;
        Ok(Self { table, path, writer, waiting: table.cells(), rows: 0 })
    }

    fn add(&mut self, line: &Line) -> Result<(), Failure> {
        for row in rows(line, self.table.of) {
            for ((name, _), cells) in self.table.columns.iter().zip(&mut self.waiting) {
                cells.push(row.get(name));
            }
            self.rows += 1;
        }
        if self.rows >= TOGETHER { self.write() } else { Ok(()) }
    }

    /// Writes what waits.
    fn write(&mut self) -> Result<(), Failure> {
        if self.rows == 0 {
            return Ok(());
        }
        self.rows = 0;
        let waiting = std::mem::replace(&mut self.waiting, self.table.cells());
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

    /// Its file, whole.
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

/// The rows of a run, each behind its point and its seed. A key of the sweep that has the name of a
/// column gets `sweep.` in front.
fn rows(line: &Line, of: fn(&Line) -> Vec<Row>) -> Vec<Row> {
    let value = |value: &SweepValue| {
        value.number().map_or_else(|| json!(value.to_string()), |number| json!(number))
    };
    let mut point: Row = line.point.iter().map(|(key, own)| (key.clone(), value(own))).collect();
    point.insert("seed".into(), json!(line.report.seed));
    let join = |row: Row| {
        let named = point.iter().map(|(key, value)| match row.contains_key(key) {
            true => (format!("sweep.{key}"), value.clone()),
            false => (key.clone(), value.clone()),
        });
        named.collect::<Vec<_>>().into_iter().chain(row).collect()
    };
    of(line).into_iter().map(join).collect()
}

fn flows(line: &Line) -> Vec<Row> {
    line.report.flows.iter().map(flat).collect()
}

fn links(line: &Line) -> Vec<Row> {
    line.report.links.iter().map(flat).collect()
}

fn over_time(line: &Line) -> Vec<Row> {
    let bins = line.report.flows.iter().flat_map(|flow| {
        flow.over_time_mbps.iter().enumerate().map(move |(bin, mbps)| {
            let t_s = bin as f64 * flow.bin_s;
            object(json!({ "flow": flow.name, "t_s": t_s, "goodput_mbps": mbps }))
        })
    });
    bins.collect()
}

fn counters(line: &Line) -> Vec<Row> {
    let of_node = line.report.nodes.iter().flat_map(|node| {
        let drops = [("drops".into(), node.drops.clone())];
        node.layers.clone().into_iter().chain(drops).flat_map(move |(layer, counters)| {
            counters.into_iter().map(move |(counter, value)| {
                object(json!({
                    "node": node.name, "layer": layer, "counter": counter, "value": value
                }))
            })
        })
    });
    of_node.collect()
}

fn object(value: Value) -> Row {
    match value {
        Value::Object(row) => row,
        _ => unreachable!("only objects come here"),
    }
}

/// The plain fields of something, and those of its fields.
fn flat(value: &impl Serialize) -> Row {
    let value = serde_json::to_value(value).expect("reports are plain data");
    let mut row = Row::new();
    flatten("", value, &mut row);
    row
}

fn flatten(name: &str, value: Value, row: &mut Row) {
    match value {
        // A field of fields that was not measured would make a column of its own name.
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
    use super::*;

    #[test]
    fn columns_have_the_type_of_what_they_hold() {
        let rows = [
            object(json!({ "flow": "a", "bytes": 3, "loss": null, "mbps": 1.5 })),
            object(json!({ "flow": "b", "bytes": 4, "loss": 0.25, "mbps": 2 })),
        ];
        let mut table = Table::new("flows.parquet", flows);
        rows.iter().for_each(|row| table.learn(row));
        let schema = table.schema().expect("a table");
        let types: Vec<(&str, Physical)> = schema
            .get_fields()
            .iter()
            .map(|field| (field.name(), field.get_physical_type()))
            .collect();
        let expected = [
            ("flow", Physical::BYTE_ARRAY),
            ("bytes", Physical::INT64),
            ("loss", Physical::DOUBLE),
            ("mbps", Physical::DOUBLE),
        ];
        assert_eq!(types, expected);
        let mut loss = Cells::of(Some(Kind::Number));
        rows.iter().for_each(|row| loss.push(row.get("loss")));
        assert_eq!(loss.has, [0, 1]);
    }

    #[test]
    fn fields_of_fields_are_joined_and_lists_left_out() {
        let row =
            flat(&json!({ "delay_ms": { "p50": 3.0 }, "over": [1], "loss": null, "name": "x" }));
        assert_eq!(row.keys().collect::<Vec<_>>(), ["delay_ms_p50", "name"]);
    }
}
