//! Counters: one line each defines the field, its name in files, and the difference between two
//! times.

/// Makes a struct of `u64` counters.
macro_rules! counters {
    ($(#[$of_struct:meta])* $visibility:vis struct $name:ident {
        $($(#[$of_field:meta])+ $field:ident,)+
    }) => {
        $(#[$of_struct])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $visibility struct $name {
            $($(#[$of_field])+ pub $field: u64,)+
        }

        impl $name {
            /// The increase since `before`.
            #[must_use]
            pub fn since(&self, before: &Self) -> Self {
                Self { $($field: self.$field - before.$field,)+ }
            }

            /// Each counter, with its name in files.
            #[must_use]
            pub fn named(&self) -> [(&'static str, u64); [$(stringify!($field)),+].len()] {
                [$((stringify!($field), self.$field),)+]
            }
        }
    };
}

pub(in crate::drive) use counters;

#[cfg(test)]
mod tests {
    counters! {
        /// Two.
        struct Two {
            /// One.
            one,
            /// Another.
            another,
        }
    }

    #[test]
    fn a_line_is_a_counter() {
        let before = Two { one: 1, another: 20 };
        let after = Two { one: 5, ..before };
        assert_eq!(after.since(&before), Two { one: 4, another: 0 });
        assert_eq!(after.named(), [("one", 5), ("another", 20)]);
    }
}
