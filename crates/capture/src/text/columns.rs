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
pub(super) enum Column {
    Bool(BooleanBuilder),
    Int(Int64Builder),
    UInt(UInt64Builder),
    Float(Float64Builder),
    Decimal(Decimal128Builder),
    Text(StringBuilder),
    Symbol(StringDictionaryBuilder<Int32Type>),
    Levels(FixedSizeListBuilder<Float64Builder>, usize),
}

impl Column {
    pub(super) fn new(column_type: &ColumnType) -> Column {
        use ColumnType as T;
        match column_type {
            T::Bool => Column::Bool(BooleanBuilder::new()),
            T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::Date | T::Time | T::Timestamp => {
                Column::Int(Int64Builder::new())
            }
            T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => Column::UInt(UInt64Builder::new()),
            T::Float32 | T::Float64 => Column::Float(Float64Builder::new()),
            T::Decimal { .. } => Column::Decimal(Decimal128Builder::new().with_data_type(column_type.arrow())),
            T::Text => Column::Text(StringBuilder::new()),
            T::Symbol => Column::Symbol(StringDictionaryBuilder::new()),
            T::Levels { size } => {
                let builder = FixedSizeListBuilder::new(Float64Builder::new(), *size);
                let builder = match column_type.arrow() {
                    DataType::FixedSizeList(item, _) => builder.with_field(item),
                    _ => builder,
                };
                Column::Levels(builder, usize::try_from(*size).unwrap_or(0))
            }
        }
    }

    /// Appends a value, which was made for a column of this type.
    pub(super) fn push(&mut self, cell: &TextCell<'_>) {
        match (self, cell) {
            (Column::Bool(column), TextCell::Bool(value)) => column.append_value(*value),
            (Column::Int(column), TextCell::Int(value)) => column.append_value(*value),
            (Column::UInt(column), TextCell::UInt(value)) => column.append_value(*value),
            (Column::Float(column), TextCell::Float(value)) => column.append_value(*value),
            (Column::Decimal(column), TextCell::Decimal(value)) => column.append_value(*value),
            (Column::Text(column), TextCell::Text(value)) => column.append_value(value),
            (Column::Symbol(column), TextCell::Text(value)) => column.append_value(value),
            (Column::Levels(column, _), TextCell::Levels(items)) => {
                items.iter().for_each(|item| column.values().append_option(*item));
                column.append(true);
            }
            (column, _) => column.push_null(),
        }
    }

    fn push_null(&mut self) {
        match self {
            Column::Bool(column) => column.append_null(),
            Column::Int(column) => column.append_null(),
            Column::UInt(column) => column.append_null(),
            Column::Float(column) => column.append_null(),
            Column::Decimal(column) => column.append_null(),
            Column::Text(column) => column.append_null(),
            Column::Symbol(column) => column.append_null(),
            Column::Levels(column, size) => {
                column.values().append_nulls(*size);
                column.append(false);
            }
        }
    }

    pub(super) fn finish(mut self, column_type: &ColumnType) -> Result<ArrayRef, ArrowError> {
        let wide: ArrayRef = match &mut self {
            Column::Bool(column) => Arc::new(column.finish()),
            Column::Int(column) => Arc::new(column.finish()),
            Column::UInt(column) => Arc::new(column.finish()),
            Column::Float(column) => Arc::new(column.finish()),
            Column::Decimal(column) => Arc::new(column.finish()),
            Column::Text(column) => Arc::new(column.finish()),
            Column::Symbol(column) => Arc::new(column.finish()),
            Column::Levels(column, _) => Arc::new(column.finish()),
        };
        if *column_type == ColumnType::Date {
            cast(&cast(&wide, &DataType::Int32)?, &column_type.arrow())
        } else {
            cast(&wide, &column_type.arrow())
        }
    }
}
