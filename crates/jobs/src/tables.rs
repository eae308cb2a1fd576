//! Tables of Arrow, column by column.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_select::concat::concat_batches;

use crate::JobError;

/// A value of a column.
pub(crate) trait Cell: Sized {
    fn column(values: impl Iterator<Item = Self>) -> ArrayRef;
}

macro_rules! cells {
    ($($kind:ty => $array:ident :: $from:ident,)+) => {
        $(impl Cell for $kind {
            fn column(values: impl Iterator<Item = Self>) -> ArrayRef {
                Arc::new($array::$from(values))
            }
        })+
    };
}

cells! {
    &str => StringArray::from_iter_values,
    u32 => UInt32Array::from_iter_values,
    u64 => UInt64Array::from_iter_values,
    f64 => Float64Array::from_iter_values,
    Option<f64> => Float64Array::from_iter,
}

/// A column with its name.
pub(crate) fn column<T: Cell>(
    name: &'static str,
    values: impl Iterator<Item = T>,
) -> (&'static str, ArrayRef) {
    (name, T::column(values))
}

/// The columns of a table.
pub(crate) type Columns = Vec<(&'static str, ArrayRef)>;

/// A table of columns of equal length.
pub(crate) fn table(
    columns: impl IntoIterator<Item = (&'static str, ArrayRef)>,
) -> Result<RecordBatch, JobError> {
    RecordBatch::try_from_iter(columns).map_err(|error| JobError::Run(error.to_string()))
}

/// Tables by name; rows of each run follow those of the one before, led by what the run is of.
#[derive(Debug, Default)]
pub(crate) struct Tables(Vec<(&'static str, Vec<RecordBatch>)>);

/// Leading columns of the rows of a run, which tell them from those of others.
pub(crate) struct RowsOf<'a> {
    pub device: &'a str,
    pub stack: &'a str,
    pub pace: &'a str,
}

impl Tables {
    /// Adds the rows of a run; none makes no table.
    pub(crate) fn add(
        &mut self,
        of: &RowsOf<'_>,
        name: &'static str,
        columns: Columns,
    ) -> Result<(), JobError> {
        let rows = columns.first().map_or(0, |(_, column)| column.len());
        if rows == 0 {
            return Ok(());
        }
        let constant = |text: &str| <&str>::column(std::iter::repeat_n(text, rows));
        let leading = [
            ("device", constant(of.device)),
            ("stack", constant(of.stack)),
            ("pace", constant(of.pace)),
        ];
        let batch = table(leading.into_iter().chain(columns))?;
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, batches)) => batches.push(batch),
            None => self.0.push((name, vec![batch])),
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<Vec<(&'static str, RecordBatch)>, JobError> {
        let joined = self.0.into_iter().map(|(name, batches)| {
            let all = concat_batches(&batches[0].schema(), &batches);
            Ok((name, all.map_err(|error| JobError::Run(error.to_string()))?))
        });
        joined.collect()
    }
}
