//! Tables whose columns are known only at run time, such as those of a campaign, written as Parquet, CSV and JSON.

use crate::buffer::Buffer;
use crate::column::{ColumnKind, Text};
use anyhow::{Result, anyhow};
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Values of one column, one per row; `None` where absent.
#[derive(Clone, PartialEq, Debug)]
pub enum ColumnValues {
    /// UTF-8 texts.
    Text(Vec<Option<String>>),
    /// 64-bit floating-point numbers.
    Real(Vec<Option<f64>>),
    /// Signed 64-bit integers.
    Integer(Vec<Option<i64>>),
}

impl ColumnValues {
    fn len(&self) -> usize {
        match self {
            ColumnValues::Text(values) => values.len(),
            ColumnValues::Real(values) => values.len(),
            ColumnValues::Integer(values) => values.len(),
        }
    }
    fn kind(&self) -> (ColumnKind, PhysicalType) {
        match self {
            ColumnValues::Text(_) => (ColumnKind::Text, PhysicalType::BYTE_ARRAY),
            ColumnValues::Real(_) => (ColumnKind::Real, PhysicalType::DOUBLE),
            ColumnValues::Integer(_) => (ColumnKind::Integer, PhysicalType::INT64),
        }
    }
    fn put(&self, buffer: &mut Buffer) {
        match self {
            ColumnValues::Text(values) => {
                values.iter().for_each(|v| buffer.text(v.as_deref().map(Text::from).as_ref()));
            }
            ColumnValues::Real(values) => values.iter().for_each(|v| buffer.real(*v)),
            ColumnValues::Integer(values) => values.iter().for_each(|v| buffer.integer(*v)),
        }
    }
    /// Formats a CSV cell, empty if absent. Ambiguous texts are quoted (RFC 4180).
    fn csv(&self, row: usize) -> String {
        fn cell<T>(values: &[Option<T>], row: usize, text: impl Fn(&T) -> String) -> String {
            values.get(row).and_then(Option::as_ref).map(text).unwrap_or_default()
        }
        match self {
            ColumnValues::Text(values) => cell(values, row, |text| quoted(text)),
            ColumnValues::Real(values) => cell(values, row, f64::to_string),
            ColumnValues::Integer(values) => cell(values, row, i64::to_string),
        }
    }
}

fn quoted(text: &str) -> String {
    // An empty text is quoted so that it differs from an absent value.
    let plain = !text.is_empty() && !text.contains([',', '"', '\n', '\r']) && text.trim() == text;
    if plain { text.to_string() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

/// A table held by columns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sheet {
    /// Column names with their values; all columns have the same length.
    pub columns: Vec<(String, ColumnValues)>,
}

impl Sheet {
    /// Number of rows in the longest column.
    pub fn rows(&self) -> usize {
        self.columns.iter().map(|(_, values)| values.len()).max().unwrap_or(0)
    }
    /// Formats the table as CSV: a header line, then one line per row.
    pub fn csv(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|(name, _)| quoted(name)).collect();
        let mut out = names.join(",") + "\n";
        for row in 0..self.rows() {
            let cells: Vec<String> = self.columns.iter().map(|(_, values)| values.csv(row)).collect();
            let _ = writeln!(out, "{}", cells.join(","));
        }
        out
    }
    /// Formats the table as JSON: one object per row, absent values as null.
    pub fn json(&self) -> serde_json::Value {
        let cell = |values: &ColumnValues, row: usize| match values {
            ColumnValues::Text(values) => serde_json::json!(values.get(row).cloned().flatten()),
            ColumnValues::Real(values) => serde_json::json!(values.get(row).copied().flatten()),
            ColumnValues::Integer(values) => serde_json::json!(values.get(row).copied().flatten()),
        };
        let row = |row: usize| -> serde_json::Map<String, serde_json::Value> {
            self.columns.iter().map(|(name, values)| (name.clone(), cell(values, row))).collect()
        };
        (0..self.rows()).map(row).collect()
    }
    /// Writes a Parquet file with Snappy compression, replacing an existing file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_parquet(&self, path: &Path) -> Result<()> {
        self.put_parquet(path).map_err(|why| anyhow!("cannot write {}: {}", path.display(), why.root_cause()))
    }
    fn put_parquet(&self, path: &Path) -> Result<()> {
        let mut fields = Vec::new();
        for (name, values) in &self.columns {
            let (kind, physical) = values.kind();
            let field = Type::primitive_type_builder(name, physical)
                // Every column is optional, because a campaign may lack any value.
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type((kind == ColumnKind::Text).then_some(LogicalType::String))
                .build()?;
            fields.push(Arc::new(field));
        }
        let schema = Type::group_type_builder("table").with_fields(fields).build()?;
        let file = File::create(path)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("farlink ", env!("CARGO_PKG_VERSION")).to_string());
        let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))?;
        let mut group = writer.next_row_group()?;
        for (_, values) in &self.columns {
            let mut buffer = Buffer::new(values.kind().0);
            values.put(&mut buffer);
            buffer.flush(true, &mut group)?;
        }
        group.close()?;
        writer.close()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    fn sheet() -> Sheet {
        let text = |t: &str| Some(t.to_string());
        Sheet {
            columns: vec![
                ("cell".into(), ColumnValues::Text(vec![text("a,b"), None, text("say \"x\""), text("")])),
                ("ratio".into(), ColumnValues::Real(vec![Some(0.1), None, Some(1e-9), Some(3.0)])),
                ("seed".into(), ColumnValues::Integer(vec![Some(1), Some(-2), None, Some(i64::MAX)])),
            ],
        }
    }

    #[test]
    fn csv_quotes_texts_and_omits_absent() {
        let expected =
            "cell,ratio,seed\n\"a,b\",0.1,1\n,,-2\n\"say \"\"x\"\"\",0.000000001,\n\"\",3,9223372036854775807\n";
        assert_eq!(sheet().csv(), expected);
        // The header line is there even without columns, and empty.
        assert_eq!(Sheet::default().csv(), "\n");
        let json = sheet().json();
        assert_eq!(json[1], serde_json::json!({"cell": null, "ratio": null, "seed": -2}));
        assert_eq!((json[0]["cell"].as_str(), json.as_array().map(Vec::len)), (Some("a,b"), Some(4)));
    }

    #[test]
    fn parquet_keeps_types_rows_and_absences() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        sheet().write_parquet(&path).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 4);
        assert!(rows[0].contains("\"a,b\"") && rows[1].contains("cell: null, ratio: null, seed: -2"), "{rows:?}");
        assert!(sheet().write_parquet(Path::new("/nowhere/t.parquet")).is_err());
    }
}
