//! Values of columns on their way into a file.

use crate::column::{Kind, Text};
use anyhow::{Context, Result};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::writer::SerializedRowGroupWriter;
use std::fs::File;

/// Values of one column of the group being filled; `defined` holds 1 for present, 0 for absent.
pub enum Buffer {
    Integer(Vec<i64>, Vec<i16>),
    Real(Vec<f64>, Vec<i16>),
    Text(Vec<ByteArray>, Vec<i16>, Recent),
    Flag(Vec<bool>, Vec<i16>),
}

/// Texts seen lately as the file wants them: names repeat, and need to be copied once.
#[derive(Default)]
pub struct Recent {
    places: Vec<Option<(Text, ByteArray)>>,
}
impl Recent {
    const PLACES: usize = 64;

    fn bytes(&mut self, text: &Text) -> ByteArray {
        if self.places.is_empty() {
            self.places.resize(Self::PLACES, None);
        }
        // Shared text lies still while it is kept here: its address names it.
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

/// A value put where its kind belongs.
fn put<T>(values: &mut Vec<T>, defined: &mut Vec<i16>, value: Option<T>) {
    defined.push(i16::from(value.is_some()));
    values.extend(value);
}

impl Buffer {
    /// Empty.
    pub fn new(kind: Kind) -> Buffer {
        match kind {
            Kind::Integer => Buffer::Integer(Vec::new(), Vec::new()),
            Kind::Real => Buffer::Real(Vec::new(), Vec::new()),
            Kind::Text => Buffer::Text(Vec::new(), Vec::new(), Recent::default()),
            Kind::Flag => Buffer::Flag(Vec::new(), Vec::new()),
        }
    }
    /// Appends a value to a column of integers. Values of another kind than the column's, here and
    /// below, do not exist: both follow from the type of the row's field.
    pub fn integer(&mut self, value: Option<i64>) {
        if let Buffer::Integer(values, defined) = self {
            put(values, defined, value);
        }
    }
    /// Appends a value to a column of numbers.
    pub fn real(&mut self, value: Option<f64>) {
        if let Buffer::Real(values, defined) = self {
            put(values, defined, value);
        }
    }
    /// Appends a value to a column of flags.
    pub fn flag(&mut self, value: Option<bool>) {
        if let Buffer::Flag(values, defined) = self {
            put(values, defined, value);
        }
    }
    /// Appends a value to a column of texts.
    pub fn text(&mut self, value: Option<&Text>) {
        if let Buffer::Text(values, defined, recent) = self {
            put(values, defined, value.map(|text| recent.bytes(text)));
        }
    }
    /// Writes what was collected and starts again, keeping the memory.
    pub fn flush(&mut self, optional: bool, group: &mut SerializedRowGroupWriter<'_, File>) -> Result<()> {
        fn write<T: DataType>(
            group: &mut SerializedRowGroupWriter<'_, File>,
            values: &mut Vec<T::T>,
            defined: &mut Vec<i16>,
            optional: bool,
        ) -> Result<()> {
            let mut column = group.next_column()?.context("the file has a column less than the schema")?;
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
    fn names_that_share_a_place_do_not_mix() {
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
