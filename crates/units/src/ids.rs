//! Addresses. Each is a plain `u32`, so that tables of them are flat arrays of four bytes an entry.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// No address: the value of an empty table entry.
            pub const NONE: Self = Self(u32::MAX);

            /// The address as an index into a flat table.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// Returns true if this is an address, not [`Self::NONE`].
            #[inline]
            #[must_use]
            pub const fn is_some(self) -> bool {
                self.0 != u32::MAX
            }
        }
    };
}

id! {
    /// Logical page number: a page as the host addresses it, 0 ... logical pages - 1.
    Lpn
}
id! {
    /// Physical page number: erase block x pages per erase block + page within the erase block.
    Ppn
}
id! {
    /// Number of an erase block, 0 ... erase blocks - 1.
    EraseBlockId
}
id! {
    /// A write stream: pages of one stream fill the same open erase block, so that they are erased
    /// together.
    StreamId
}
