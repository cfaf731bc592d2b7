//! Results as Parquet, for pandas, polars and DuckDB: one table each for flows, goodput over time,
//! links and the counters of nodes, with the keys of a sweep and the seed in front.
//!
//! A column holds what the field of the report of that name holds; fields of a field are joined by
//! `_`.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Failure;
use crate::sweep::Line;

/// Writes the tables of some runs into a folder.
pub(crate) fn write(dir: &Path, lines: &[Line]) -> Result<(), Failure> {
    let tables = [
        ("flows.parquet", rows(lines, flows)),
        ("over-time.parquet", rows(lines, over_time)),
        ("links.parquet", rows(lines, links)),
        ("counters.parquet", rows(lines, counters)),
    ];
    for (name, rows) in tables {
        let path = dir.join(name);
        save(&path, &rows).map_err(|error| {
            Failure::Failed(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    Ok(())
}

type Row = Map<String, Value>;

/// The rows of all runs, each behind the point and the seed of its run.
fn rows(lines: &[Line], of: fn(&Line) -> Vec<Row>) -> Vec<Row> {
    let with_point = |line: &Line| {
        let mut point: Row = line
            .point
            .iter()
            .map(|(key, value)| {
                let value = value.number().map_or_else(|| json!(value.to_string()), |n| json!(n));
                (key.clone(), value)
            })
            .collect();
        point.insert("seed".into(), json!(line.report.seed));
        let join = |row: Row| point.clone().into_iter().chain(row).collect();
        of(line).into_iter().map(join).collect::<Vec<Row>>()
    };
    lines.iter().flat_map(with_point).collect()
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

fn save(path: &Path, rows: &[Row]) -> Result<(), Box<dyn std::error::Error>> {
    let batch = batch(rows)?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(())
}

/// Rows as columns, in the order in which their names first come up.
fn batch(rows: &[Row]) -> Result<RecordBatch, ArrowError> {
    let mut names: Vec<&String> = Vec::new();
    for row in rows {
        // Rows are alike, so that a name is nearly always found where it stood before.
        for (place, name) in row.keys().enumerate() {
            if names.get(place) != Some(&name) && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let columns: Vec<(Field, ArrayRef)> =
        names.into_iter().map(|name| column(rows, name)).collect();
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    if fields.is_empty() {
        return Ok(RecordBatch::new_empty(Arc::new(Schema::empty())));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

fn column(rows: &[Row], name: &str) -> (Field, ArrayRef) {
    let values = || rows.iter().map(|row| row.get(name).filter(|value| !value.is_null()));
    let all = |is: fn(&Value) -> bool| values().flatten().all(is);
    let array: ArrayRef = if all(Value::is_boolean) && values().flatten().count() > 0 {
        Arc::new(values().map(|value| value.and_then(Value::as_bool)).collect::<BooleanArray>())
    } else if all(Value::is_i64) && values().flatten().count() > 0 {
        Arc::new(values().map(|value| value.and_then(Value::as_i64)).collect::<Int64Array>())
    } else if all(Value::is_number) {
        Arc::new(values().map(|value| value.and_then(Value::as_f64)).collect::<Float64Array>())
    } else {
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Arc::new(values().map(|value| value.map(word)).collect::<StringArray>())
    };
    let data_type: DataType = array.data_type().clone();
    (Field::new(name, data_type, true), array)
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
        let batch = batch(&rows).expect("a table");
        let types: Vec<(String, DataType)> = batch
            .schema()
            .fields()
            .iter()
            .map(|field| (field.name().clone(), field.data_type().clone()))
            .collect();
        let expected = [
            ("flow", DataType::Utf8),
            ("bytes", DataType::Int64),
            ("loss", DataType::Float64),
            ("mbps", DataType::Float64),
        ];
        assert_eq!(types, expected.map(|(name, data_type)| (name.to_owned(), data_type)));
        assert_eq!(batch.column(2).null_count(), 1);
    }

    #[test]
    fn fields_of_fields_are_joined_and_lists_left_out() {
        let row =
            flat(&json!({ "delay_ms": { "p50": 3.0 }, "over": [1], "loss": null, "name": "x" }));
        assert_eq!(row.keys().collect::<Vec<_>>(), ["delay_ms_p50", "name"]);
    }
}
