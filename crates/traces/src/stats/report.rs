//! Results of trace statistics: named numbers, and tables of numbers.

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A count.
    Integer(u64),
    /// A share, a mean or a rate.
    Real(f64),
    /// Not told by this trace, such as a rate where there are no times.
    Unknown,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Counts.
    Integers(Vec<u64>),
    /// Shares.
    Reals(Vec<f64>),
}

impl Column {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Reals(values) => values.len(),
        }
    }

    /// Returns true if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A table: named columns of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The name.
    pub name: &'static str,
    /// Name and values of each column.
    pub columns: Vec<(&'static str, Column)>,
}

impl Table {
    pub(super) fn of_integers<const N: usize>(
        name: &'static str,
        names: [&'static str; N],
        rows: impl IntoIterator<Item = [u64; N]>,
    ) -> Self {
        let mut columns: [Vec<u64>; N] = std::array::from_fn(|_| Vec::new());
        for row in rows {
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        Self { name, columns: names.into_iter().zip(columns.map(Column::Integers)).collect() }
    }

    /// A column of counts.
    ///
    /// # Panics
    /// If there is no such column.
    #[must_use]
    pub fn integers(&self, name: &str) -> &[u64] {
        match self.columns.iter().find(|(column, _)| *column == name) {
            Some((_, Column::Integers(values))) => values,
            _ => panic!("table `{}` has no column `{name}` of counts", self.name),
        }
    }
}

/// Everything that was found, always in the same order.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceStatistics {
    /// Name and value of each figure; the name ends in the unit where there is one.
    pub scalars: Vec<(&'static str, Number)>,
    /// Histograms and curves.
    pub tables: Vec<Table>,
}

impl TraceStatistics {
    /// The figure of this name.
    #[must_use]
    pub fn scalar(&self, name: &str) -> Option<Number> {
        self.scalars.iter().find(|(scalar, _)| *scalar == name).map(|(_, value)| *value)
    }

    /// The table of this name.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }
}
