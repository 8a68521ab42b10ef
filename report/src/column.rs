//! Cells and columns: conversion between Rust fields and Parquet columns.

use crate::buffer::Buffer;
pub use crate::text::Text;

/// Type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    /// Signed 64-bit integer.
    Integer,
    /// 64-bit floating point number.
    Real,
    /// UTF-8 text.
    Text,
    /// True or false.
    Flag,
}

impl ColumnKind {
    /// Type name shown in the reference, such as `int64`.
    pub const fn name(self) -> &'static str {
        match self {
            ColumnKind::Integer => "int64",
            ColumnKind::Real => "double",
            ColumnKind::Text => "string",
            ColumnKind::Flag => "boolean",
        }
    }
}

/// One value of one row; `None` where the column does not apply.
#[derive(Clone, PartialEq, Debug)]
pub enum CellValue {
    /// Signed 64-bit integer.
    Integer(Option<i64>),
    /// 64-bit floating-point number.
    Real(Option<f64>),
    /// UTF-8 text.
    Text(Option<Text>),
    /// Boolean value.
    Flag(Option<bool>),
}

/// A Rust type that can be stored as a column.
pub trait ColumnField: Sized {
    /// Type of the column that stores values of this Rust type.
    const KIND: ColumnKind;
    /// Whether the column may hold absent values.
    const OPTIONAL: bool;
    /// Appends a value, or its absence, to the column.
    fn put(value: Option<&Self>, column: &mut Buffer);
    /// Converts a cell; `None` if its value is absent or of another type.
    fn from_cell(cell: &CellValue) -> Option<Self>;
}

macro_rules! field {
    ($rust:ty, $kind:ident, $column:ident, $to:expr, $from:expr) => {
        impl ColumnField for $rust {
            const KIND: ColumnKind = ColumnKind::$kind;
            const OPTIONAL: bool = false;
            fn put(value: Option<&Self>, column: &mut Buffer) {
                column.$column(value.map($to));
            }
            fn from_cell(cell: &CellValue) -> Option<Self> {
                match cell {
                    CellValue::$kind(Some(value)) => Some($from(value)),
                    _ => None,
                }
            }
        }
    };
}
// Hashes use all 64 bits and keep their bit pattern in the cast; counters stay below 2^63.
field!(u64, Integer, integer, |v| *v as i64, |v: &i64| *v as u64);
field!(i64, Integer, integer, |v| *v, |v: &i64| *v);
field!(f64, Real, real, |v| *v, |v: &f64| *v);
field!(bool, Flag, flag, |v| *v, |v: &bool| *v);
field!(Text, Text, text, |v| v, |v: &Text| v.clone());

impl<T: ColumnField> ColumnField for Option<T> {
    const KIND: ColumnKind = T::KIND;
    // Absent values are marked by definition levels, which only optional Parquet columns have.
    const OPTIONAL: bool = true;
    fn put(value: Option<&Self>, column: &mut Buffer) {
        // Absence at either level is written as an absent value.
        T::put(value.and_then(Option::as_ref), column);
    }
    fn from_cell(cell: &CellValue) -> Option<Self> {
        Some(T::from_cell(cell))
    }
}
