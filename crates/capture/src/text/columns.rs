//! Columns that grow by rows of cells.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Decimal128Builder, FixedSizeListBuilder, Float64Builder, Int64Builder, StringBuilder,
    StringDictionaryBuilder, UInt64Builder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use arrow::error::ArrowError;
use splay_store::ColumnType;

use super::cell::TextCell;

/// A column. What is narrower than 64 bits is gathered wide, and was checked to fit.
pub(super) enum TextColumn {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    UInt(UInt64Builder),
    Float(Float64Builder),
    Decimal(Decimal128Builder),
    Text(StringBuilder),
    Symbol(StringDictionaryBuilder<Int32Type>),
    Levels(FixedSizeListBuilder<Float64Builder>, usize),
}

impl TextColumn {
    pub(super) fn new(column_type: &ColumnType) -> TextColumn {
        use ColumnType as T;
        match column_type {
            T::Bool => TextColumn::Bool(BooleanBuilder::new()),
            T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::Date | T::Time | T::Timestamp => {
                TextColumn::Int(Int64Builder::new())
            }
            T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => TextColumn::UInt(UInt64Builder::new()),
            T::Float32 | T::Float64 => TextColumn::Float(Float64Builder::new()),
            T::Decimal { .. } => TextColumn::Decimal(Decimal128Builder::new().with_data_type(column_type.arrow())),
            T::Text => TextColumn::Text(StringBuilder::new()),
            T::Symbol => TextColumn::Symbol(StringDictionaryBuilder::new()),
            T::Levels { size } => {
                let builder = FixedSizeListBuilder::new(Float64Builder::new(), *size);
                let builder = match column_type.arrow() {
                    DataType::FixedSizeList(item, _) => builder.with_field(item),
                    _ => builder,
                };
                TextColumn::Levels(builder, usize::try_from(*size).unwrap_or(0))
            }
        }
    }

    /// Appends a value, which was made for a column of this type.
    pub(super) fn push(&mut self, cell: &TextCell<'_>) {
        match (self, cell) {
            (TextColumn::Bool(column), TextCell::Bool(value)) => column.append_value(*value),
            (TextColumn::Int(column), TextCell::Int(value)) => column.append_value(*value),
            (TextColumn::UInt(column), TextCell::UInt(value)) => column.append_value(*value),
            (TextColumn::Float(column), TextCell::Float(value)) => column.append_value(*value),
            (TextColumn::Decimal(column), TextCell::Decimal(value)) => column.append_value(*value),
            (TextColumn::Text(column), TextCell::Text(value)) => column.append_value(value),
            (TextColumn::Symbol(column), TextCell::Text(value)) => column.append_value(value),
            (TextColumn::Levels(column, _), TextCell::Levels(items)) => {
                items.iter().for_each(|item| column.values().append_option(*item));
                column.append(true);
            }
            (column, _) => column.push_null(),
        }
    }

    fn push_null(&mut self) {
        match self {
            TextColumn::Bool(column) => column.append_null(),
            TextColumn::Int(column) => column.append_null(),
            TextColumn::UInt(column) => column.append_null(),
            TextColumn::Float(column) => column.append_null(),
            TextColumn::Decimal(column) => column.append_null(),
            TextColumn::Text(column) => column.append_null(),
            TextColumn::Symbol(column) => column.append_null(),
            TextColumn::Levels(column, size) => {
                column.values().append_nulls(*size);
                column.append(false);
            }
        }
    }

    pub(super) fn finish(mut self, column_type: &ColumnType) -> Result<ArrayRef, ArrowError> {
        let wide: ArrayRef = match &mut self {
            TextColumn::Bool(column) => Arc::new(column.finish()),
            TextColumn::Int(column) => Arc::new(column.finish()),
            TextColumn::UInt(column) => Arc::new(column.finish()),
            TextColumn::Float(column) => Arc::new(column.finish()),
            TextColumn::Decimal(column) => Arc::new(column.finish()),
            TextColumn::Text(column) => Arc::new(column.finish()),
            TextColumn::Symbol(column) => Arc::new(column.finish()),
            TextColumn::Levels(column, _) => Arc::new(column.finish()),
        };
        if *column_type == ColumnType::Date {
            cast(&cast(&wide, &DataType::Int32)?, &column_type.arrow())
        } else {
            cast(&wide, &column_type.arrow())
        }
    }
}
