//! Counters of layers.

/// A counter of a layer, in the order of [`crate::Layer::count`].
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// Name in tables, with its unit last.
    pub name: &'static str,
    /// Description, in one line.
    pub help: &'static str,
    /// True if it is a level that goes up and down, not a sum.
    pub is_level: bool,
}

/// Declares the counters of a layer, each in one line: the field, its name in tables and its help.
/// A layer adds to `sum` fields, and fills in `level` fields when it is asked.
macro_rules! counters {
    ($($kind:ident $field:ident: $help:literal;)+) => {
        /// All counters, in the order of [`Counts::list`].
        pub const COUNTERS: &[crate::Counter] = &[$(crate::Counter {
            name: stringify!($field),
            help: $help,
            is_level: crate::counter::is_level(stringify!($kind)),
        },)+];

        /// Sums since the layer was opened, and levels.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Counts {
            $(#[doc = $help] pub $field: u64,)+
        }

        impl Counts {
            /// Adds all in the order of [`COUNTERS`].
            pub fn list(&self, into: &mut Vec<u64>) {
                into.extend([$(self.$field,)+]);
            }
        }
    };
}
pub(crate) use counters;

/// Returns true if a kind of counter is a level.
///
/// # Panics
/// If it is no kind, when the crate is built.
pub const fn is_level(kind: &str) -> bool {
    match kind.as_bytes() {
        b"sum" => false,
        b"level" => true,
        _ => panic!("a counter is a sum or a level"),
    }
}
