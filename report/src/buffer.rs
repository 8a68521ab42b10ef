//! Column buffers: values collected per row group before they are written to a Parquet file.

use crate::column::{ColumnKind, Text};
use anyhow::{Context, Result};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::writer::SerializedRowGroupWriter;
use std::fs::File;

/// Values of one column of the row group being filled. The second list of each variant has a 1 for each present and a 0
/// for each absent row.
pub enum Buffer {
    Integer(Vec<i64>, Vec<i16>),
    Real(Vec<f64>, Vec<i16>),
    Text(Vec<ByteArray>, Vec<i16>, Recent),
    Flag(Vec<bool>, Vec<i16>),
}

/// Cache of recently written texts in Parquet form, so that a repeated name is copied once.
#[derive(Default)]
pub struct Recent {
    places: Vec<Option<(Text, ByteArray)>>,
}
impl Recent {
    // Slots, chosen by the address of the text: names repeat from row to row, and a run has a few dozen of them.
    const PLACES: usize = 64;

    fn bytes(&mut self, text: &Text) -> ByteArray {
        if self.places.is_empty() {
            self.places.resize(Self::PLACES, None);
        }
        // A cached `Text` keeps its allocation alive, so its address cannot be reused by another
        // text.
        let place = &mut self.places[(text.as_ptr() as usize >> 3) % Self::PLACES];
        match place {
            Some((known, bytes)) if std::ptr::eq(&**known, &**text) => bytes.clone(),
            _ => {
                let bytes = ByteArray::from(&**text);
                *place = Some((text.clone(), bytes.clone()));
                bytes
            }
        }
    }
}

fn put<T>(values: &mut Vec<T>, defined: &mut Vec<i16>, value: Option<T>) {
    defined.push(i16::from(value.is_some()));
    values.extend(value);
}

impl Buffer {
    /// Creates an empty buffer for a column of this type.
    pub fn new(kind: ColumnKind) -> Buffer {
        match kind {
            ColumnKind::Integer => Buffer::Integer(Vec::new(), Vec::new()),
            ColumnKind::Real => Buffer::Real(Vec::new(), Vec::new()),
            ColumnKind::Text => Buffer::Text(Vec::new(), Vec::new(), Recent::default()),
            ColumnKind::Flag => Buffer::Flag(Vec::new(), Vec::new()),
        }
    }
    /// Appends an integer, or its absence. A buffer of another type ignores the call; that never happens, because the
    /// type of a field selects both buffer and call.
    pub fn integer(&mut self, value: Option<i64>) {
        if let Buffer::Integer(values, defined) = self {
            put(values, defined, value);
        }
    }
    /// Appends a floating-point number.
    pub fn real(&mut self, value: Option<f64>) {
        if let Buffer::Real(values, defined) = self {
            put(values, defined, value);
        }
    }
    /// Appends a boolean.
    pub fn flag(&mut self, value: Option<bool>) {
        if let Buffer::Flag(values, defined) = self {
            put(values, defined, value);
        }
    }
    /// Appends a text.
    pub fn text(&mut self, value: Option<&Text>) {
        if let Buffer::Text(values, defined, recent) = self {
            put(values, defined, value.map(|text| recent.bytes(text)));
        }
    }
    /// Writes the collected values as one column chunk and clears the buffer, keeping its memory.
    pub fn flush(&mut self, optional: bool, group: &mut SerializedRowGroupWriter<'_, File>) -> Result<()> {
        fn write<T: DataType>(
            group: &mut SerializedRowGroupWriter<'_, File>,
            values: &mut Vec<T::T>,
            defined: &mut Vec<i16>,
            optional: bool,
        ) -> Result<()> {
            let mut column = group.next_column()?.context("the file has a column less than the schema")?;
            // Parquet stores only present values; the definition levels mark the absent rows.
            column.typed::<T>().write_batch(values, optional.then_some(&defined[..]), None)?;
            column.close()?;
            values.clear();
            defined.clear();
            Ok(())
        }
        match self {
            Buffer::Integer(values, defined) => write::<Int64Type>(group, values, defined, optional),
            Buffer::Real(values, defined) => write::<DoubleType>(group, values, defined, optional),
            Buffer::Text(values, defined, _) => write::<ByteArrayType>(group, values, defined, optional),
            Buffer::Flag(values, defined) => write::<BoolType>(group, values, defined, optional),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_slot_collisions_keep_names_apart() {
        // More names than slots, so that every slot is taken over several times.
        let mut recent = Recent::default();
        let names: Vec<Text> = (0..1000).map(|n| Text::from(format!("node {n}"))).collect();
        for name in names.iter().chain(&names).chain(names.iter().rev()) {
            assert_eq!(recent.bytes(name).data(), name.as_bytes());
        }
        let word: &'static str = "node";
        assert_eq!(recent.bytes(&Text::word(word)).data(), b"node");
        assert_eq!(recent.bytes(&Text::word(&word[..2])).data(), b"no", "the same address, and shorter");
    }
}
