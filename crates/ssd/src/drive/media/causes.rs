//! Causes of the dies' work: one table defines the rows of counters, timeline, shares of time and
//! delays.

use super::command::FlashOp;

/// Makes [`Cause`] and [`Class`] from one line per cause.
macro_rules! causes {
    (
        for requests { $($(#[doc = $request_doc:literal])+ $request:ident $request_name:literal;)+ }
        of the drive itself { $($(#[doc = $own_doc:literal])+ $own:ident $own_name:literal;)+ }
    ) => {
        /// Cause of a command: its time on a die is accounted under this.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Cause {
            $($(#[doc = $request_doc])+ $request,)+
            $($(#[doc = $own_doc])+ $own,)+
        }

        impl Cause {
            /// All, in the order of their numbers.
            pub const ALL: [Self; [$($request_name,)+ $($own_name),+].len()] =
                [$(Self::$request,)+ $(Self::$own),+];

            /// The name in tables and files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$request => $request_name,)+
                    $(Self::$own => $own_name,)+
                }
            }

            /// Description in a sentence.
            #[must_use]
            pub fn summary(self) -> &'static str {
                match self {
                    $(Self::$request => concat!($($request_doc),+),)+
                    $(Self::$own => concat!($($own_doc),+),)+
                }
                .trim()
            }
        }

        /// Work of a die, as classified for commands that wait for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Class {
            /// Reads and programs for requests: of the host, or of mapping pages.
            DieBusy,
            $(#[doc = concat!("Reads and programs of the cause `", $own_name, "`.")] $own,)+
            /// Erases, for any cause.
            Erase,
        }

        impl Class {
            /// All, in the order of their numbers.
            pub const ALL: [Self; [$($own_name),+].len() + 2] =
                [Self::DieBusy, $(Self::$own,)+ Self::Erase];
            /// Number of classes.
            pub const COUNT: usize = Self::ALL.len();

            /// The name in tables and files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    Self::DieBusy => "die_busy",
                    $(Self::$own => $own_name,)+
                    Self::Erase => "erase",
                }
            }

            /// The class of an operation for a cause.
            #[inline]
            pub(super) fn of(op: FlashOp, cause: Cause) -> Self {
                match (op, cause) {
                    (FlashOp::Erase, _) => Self::Erase,
                    (_, $(Cause::$request)|+) => Self::DieBusy,
                    $((_, Cause::$own) => Self::$own,)+
                }
            }
        }
    };
}

// A cause of the drive itself is a delay of its own. New ones go to the end: event hashes contain
// the numbers.
causes! {
    for requests {
        /// A page that the host reads or writes, read-ahead included.
        Host "host";
        /// Translation pages of a mapping that does not fit into DRAM (DFTL).
        Mapping "mapping";
    }
    of the drive itself {
        /// Relocation, merges, and the erases after them.
        Cleaning "cleaning";
        /// Moves that only even out wear.
        WearLevelling "wear_levelling";
        /// Parity of a stripe of dies.
        Parity "parity";
        /// Data moved out of the SLC cache, and the erases after it.
        Folding "folding";
        /// Copies of pages on other dies, written there and read from there.
        Replication "replication";
        /// Pages of a stripe that are read to rebuild one whose die is busy.
        Reconstruction "reconstruction";
    }
}

impl Cause {
    /// Returns true if a request may wait for it, so that its time is recorded part by part.
    #[inline]
    pub(super) const fn may_be_waited_for(self) -> bool {
        matches!(self, Self::Host | Self::Replication | Self::Reconstruction)
    }

    /// Returns true if it may have a die for itself.
    #[inline]
    pub(super) const fn occupies(self) -> bool {
        matches!(self, Self::Cleaning | Self::WearLevelling)
    }
}

// The event hash has four bits for each.
const _: () = assert!(Cause::ALL.len() <= 16 && FlashOp::ALL.len() <= 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_table() {
        assert!(Cause::ALL.iter().enumerate().all(|(number, &cause)| cause as usize == number));
        assert!(Class::ALL.iter().enumerate().all(|(number, &class)| class as usize == number));
        assert_eq!(
            Cause::ALL.map(Cause::name),
            [
                "host",
                "mapping",
                "cleaning",
                "wear_levelling",
                "parity",
                "folding",
                "replication",
                "reconstruction"
            ]
        );
        assert_eq!(
            Class::ALL.map(Class::name),
            [
                "die_busy",
                "cleaning",
                "wear_levelling",
                "parity",
                "folding",
                "replication",
                "reconstruction",
                "erase"
            ]
        );
        assert_eq!(Cause::WearLevelling.summary(), "Moves that only even out wear.");
    }

    /// A table with one line more: that is all that a further cause needs.
    mod one_more {
        use super::super::FlashOp;

        causes! {
            for requests {
                /// The host.
                Host "host";
            }
            of the drive itself {
                /// Cleaning.
                Cleaning "cleaning";
                /// Copies of pages on other dies.
                Replication "replication";
            }
        }

        #[test]
        fn a_line_makes_a_cause_and_a_delay() {
            assert_eq!(Cause::ALL.map(Cause::name), ["host", "cleaning", "replication"]);
            assert_eq!(Cause::Replication.summary(), "Copies of pages on other dies.");
            assert_eq!(Class::of(FlashOp::Program, Cause::Replication), Class::Replication);
            assert_eq!(Class::of(FlashOp::Erase, Cause::Replication), Class::Erase);
            assert_eq!(Class::of(FlashOp::Read, Cause::Host), Class::DieBusy);
            assert_eq!(
                Class::ALL.map(Class::name),
                ["die_busy", "cleaning", "replication", "erase"]
            );
            assert_eq!(Class::COUNT, 4);
        }
    }
}
