//! Tables as Parquet files, written in row groups so that memory stays bounded. Arrow is not used: the columns are
//! flat, and the low-level column writer compiles in seconds.

use crate::buffer::Buffer;
use crate::column::{CellValue, ColumnKind, Text};
use crate::schema::TableRow;
use anyhow::{Context, Result, ensure};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

// Rows per row group; a row of the widest table takes about 400 bytes in memory.
const GROUP_ROWS: usize = 32_768;

fn parquet_schema<R: TableRow>() -> Result<Type> {
    let mut fields = Vec::new();
    for column in R::SCHEMA.columns {
        let physical = match column.kind {
            ColumnKind::Integer => PhysicalType::INT64,
            ColumnKind::Real => PhysicalType::DOUBLE,
            ColumnKind::Text => PhysicalType::BYTE_ARRAY,
            ColumnKind::Flag => PhysicalType::BOOLEAN,
        };
        let repetition = if column.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let logical = (column.kind == ColumnKind::Text).then_some(LogicalType::String);
        let field = Type::primitive_type_builder(column.name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()?;
        fields.push(Arc::new(field));
    }
    Ok(Type::group_type_builder(R::SCHEMA.name).with_fields(fields).build()?)
}

/// Writes the file of one table.
pub struct TableWriter<R: TableRow> {
    path: PathBuf,
    file: SerializedFileWriter<File>,
    buffers: Vec<Buffer>,
    buffered: usize,
    rows: u64,
    row: PhantomData<R>,
}

impl<R: TableRow> TableWriter<R> {
    /// Creates `<folder>/<table>.parquet`, replacing an existing file.
    pub fn create(folder: &Path) -> Result<Self> {
        let path = folder.join(format!("{}.parquet", R::SCHEMA.name));
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("farlink ", env!("CARGO_PKG_VERSION")).to_string());
        // Times and counters hardly repeat, but grow: their differences are small, and a dictionary
        // of them would be wasted.
        for column in R::SCHEMA.columns.iter().filter(|column| column.kind == ColumnKind::Integer) {
            let place = ColumnPath::from(column.name);
            properties = properties
                .set_column_dictionary_enabled(place.clone(), false)
                .set_column_encoding(place, Encoding::DELTA_BINARY_PACKED);
        }
        Ok(TableWriter {
            file: SerializedFileWriter::new(file, Arc::new(parquet_schema::<R>()?), Arc::new(properties.build()))?,
            path,
            buffers: R::SCHEMA.columns.iter().map(|c| Buffer::new(c.kind)).collect(),
            buffered: 0,
            rows: 0,
            row: PhantomData,
        })
    }
    /// Appends a row; a full row group is written at once.
    pub fn push(&mut self, row: &R) -> Result<()> {
        row.put(&mut self.buffers);
        self.buffered += 1;
        self.rows += 1;
        if self.buffered >= GROUP_ROWS { self.flush() } else { Ok(()) }
    }
    fn flush(&mut self) -> Result<()> {
        if self.buffered == 0 {
            return Ok(());
        }
        self.write_group().map_err(|why| unwritten(&self.path, &why))?;
        self.buffered = 0;
        Ok(())
    }
    fn write_group(&mut self) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for (buffer, column) in self.buffers.iter_mut().zip(R::SCHEMA.columns) {
            buffer.flush(column.optional, &mut group)?;
        }
        group.close()?;
        Ok(())
    }
    /// Writes the remaining rows and the footer; returns the number of rows.
    pub fn finish(mut self) -> Result<u64> {
        self.flush()?;
        self.file.close().map_err(|why| unwritten(&self.path, &why.into()))?;
        Ok(self.rows)
    }
}

/// Wraps a write error with the path, and with a hint if the disk is full.
fn unwritten(path: &Path, error: &anyhow::Error) -> anyhow::Error {
    // The root cause alone: parquet's own context repeats the message of the system.
    let why = error.root_cause();
    let full = why.downcast_ref().is_some_and(|why: &std::io::Error| why.kind() == std::io::ErrorKind::StorageFull);
    let hint = if full { "\nhint: make room there, or choose another folder with `--out`" } else { "" };
    anyhow::anyhow!("cannot write {}: {why}{hint}", path.display())
}

/// Whether a table was written to its end: a complete Parquet file ends with its magic number.
pub fn is_whole<R: TableRow>(folder: &Path) -> bool {
    let end = || -> std::io::Result<[u8; 4]> {
        let mut file = File::open(folder.join(format!("{}.parquet", R::SCHEMA.name)))?;
        // A file of 4 bytes would end with the magic number it begins with.
        let end = file.seek(SeekFrom::End(-4))?;
        let mut letters = [0; 4];
        if end >= 4 {
            file.read_exact(&mut letters)?;
        }
        Ok(letters)
    };
    end().is_ok_and(|letters| letters == *b"PAR1")
}

/// Reads one table, one row group at a time, and calls `each` with every row. A missing file is an empty table. Columns
/// are found by name, so additional columns are allowed.
pub fn read_table<R: TableRow>(folder: &Path, each: &mut dyn FnMut(R) -> Result<()>) -> Result<()> {
    let path = folder.join(format!("{}.parquet", R::SCHEMA.name));
    if !path.exists() {
        return Ok(());
    }
    let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let damaged = || format!("{} is damaged, or its run did not finish", path.display());
    let reader = SerializedFileReader::new(file).with_context(damaged)?;
    for index in 0..reader.num_row_groups() {
        let group = reader.get_row_group(index).with_context(damaged)?;
        read_group::<R>(&*group, each).with_context(damaged)?;
    }
    Ok(())
}

fn read_group<R: TableRow>(group: &dyn RowGroupReader, each: &mut dyn FnMut(R) -> Result<()>) -> Result<()> {
    let rows = usize::try_from(group.metadata().num_rows())?;
    let descriptors = group.metadata().columns();
    let mut columns: Vec<std::vec::IntoIter<CellValue>> = Vec::new();
    for column in R::SCHEMA.columns {
        let place = descriptors.iter().position(|d| d.column_descr().name() == column.name);
        let cells = match place {
            Some(place) => read_column(group.get_column_reader(place)?, column.optional, rows)?,
            // The column was added to the schema after this run was written.
            None if column.optional => vec![absent(column.kind); rows],
            None => anyhow::bail!("column `{}` is missing", column.name),
        };
        ensure!(cells.len() == rows, "column `{}` has {} of {rows} rows", column.name, cells.len());
        columns.push(cells.into_iter());
    }
    for _ in 0..rows {
        let mut cells = columns.iter_mut().filter_map(Iterator::next);
        each(R::from_cells(&mut cells).context("a value that must be there is absent")?)?;
    }
    Ok(())
}

fn absent(kind: ColumnKind) -> CellValue {
    match kind {
        ColumnKind::Integer => CellValue::Integer(None),
        ColumnKind::Real => CellValue::Real(None),
        ColumnKind::Text => CellValue::Text(None),
        ColumnKind::Flag => CellValue::Flag(None),
    }
}

fn read_column(reader: ColumnReader, optional: bool, rows: usize) -> Result<Vec<CellValue>> {
    fn read<T: DataType>(mut reader: ColumnReaderImpl<T>, optional: bool, rows: usize) -> Result<Vec<Option<T::T>>> {
        let (mut values, mut defined) = (Vec::new(), Vec::new());
        let mut read = 0;
        while read < rows {
            let (records, ..) =
                // A call may return fewer rows than asked for, at the end of a page.
                reader.read_records(rows - read, optional.then_some(&mut defined), None, &mut values)?;
            // A damaged file could otherwise cause an endless loop.
            ensure!(records > 0, "a column ends early");
            read += records;
        }
        let mut values = values.into_iter();
        // Required columns have no definition levels.
        if !optional {
            return Ok(values.map(Some).collect());
        }
        Ok(defined.into_iter().map(|d| if d == 1 { values.next() } else { None }).collect())
    }
    let text = |value: ByteArray| Text::from(String::from_utf8_lossy(value.data()));
    Ok(match reader {
        ColumnReader::Int64ColumnReader(r) => read(r, optional, rows)?.into_iter().map(CellValue::Integer).collect(),
        ColumnReader::DoubleColumnReader(r) => read(r, optional, rows)?.into_iter().map(CellValue::Real).collect(),
        ColumnReader::BoolColumnReader(r) => read(r, optional, rows)?.into_iter().map(CellValue::Flag).collect(),
        ColumnReader::ByteArrayColumnReader(r) => {
            // Names repeat in consecutive rows, so one shared copy serves them.
            let mut last: Option<(ByteArray, Text)> = None;
            let mut shared = |value: ByteArray| match &last {
                Some((bytes, known)) if *bytes == value => known.clone(),
                _ => {
                    let known = text(value.clone());
                    last = Some((value, known.clone()));
                    known
                }
            };
            read(r, optional, rows)?.into_iter().map(|v| CellValue::Text(v.map(&mut shared))).collect()
        }
        _ => anyhow::bail!("a column of a type that no table has"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{EventRow, SampleRow};

    #[test]
    fn rows_read_back_across_groups() {
        let folder = tempfile::tempdir().unwrap();
        let row = |i: u64| SampleRow {
            time_ns: i,
            node: (!i.is_multiple_of(3)).then(|| format!("node {}", i % 5).into()),
            link: None,
            metric: "stored_bytes".into(),
            value: i as f64 / 7.0,
            phase: (i % 4 == 1).then(|| "load".into()),
        };
        // Two full groups and a partial one.
        let count = GROUP_ROWS as u64 * 2 + 17;
        let mut writer = TableWriter::<SampleRow>::create(folder.path()).unwrap();
        for i in 0..count {
            writer.push(&row(i)).unwrap();
        }
        assert_eq!(writer.finish().unwrap(), count);
        let mut next = 0;
        read_table::<SampleRow>(folder.path(), &mut |read| {
            assert_eq!(read, row(next));
            next += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(next, count);
    }

    #[test]
    fn full_disk_error_names_file() {
        let folder = tempfile::tempdir().unwrap();
        // Writes to /dev/full fail with ENOSPC.
        std::os::unix::fs::symlink("/dev/full", folder.path().join("samples.parquet")).unwrap();
        let row =
            SampleRow { time_ns: 1, node: None, link: None, metric: "stored_bytes".into(), value: 1.0, phase: None };
        let mut writer = TableWriter::<SampleRow>::create(folder.path()).unwrap();
        let written = (0..=GROUP_ROWS).try_for_each(|_| writer.push(&row));
        let error = format!("{:#}", written.and_then(|()| writer.finish().map(drop)).unwrap_err());
        assert!(error.contains("samples.parquet: No space left on device"), "{error}");
        assert!(error.contains("\nhint: ") && error.matches("No space").count() == 1, "{error}");
    }

    #[test]
    fn empty_missing_and_damaged_tables_differ() {
        let folder = tempfile::tempdir().unwrap();
        let read = || {
            let mut rows = 0;
            read_table::<EventRow>(folder.path(), &mut |_| {
                rows += 1;
                Ok(())
            })
            .map(|()| rows)
        };
        assert_eq!(read().unwrap(), 0, "missing");
        TableWriter::<EventRow>::create(folder.path()).unwrap().finish().unwrap();
        assert_eq!(read().unwrap(), 0, "empty");
        // The magic number without a footer, as after a crash.
        std::fs::write(folder.path().join("events.parquet"), b"PAR1 but not really").unwrap();
        assert!(format!("{:#}", read().unwrap_err()).contains("did not finish"));
    }
}
