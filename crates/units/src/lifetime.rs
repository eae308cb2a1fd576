//! Expected lifetime of written data.

/// Time after which the host expects to overwrite or trim the data of a write, relative to its
/// other data: the classes of `fcntl(F_SET_RW_HINT)`, in their order. It is a hint: it affects only
/// where data is placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lifetime {
    /// No hint.
    #[default]
    NotSet = 0,
    /// Short: a journal.
    Short = 1,
    /// Longer than short.
    Medium = 2,
    /// Longer than medium: a database's own pages.
    Long = 3,
    /// Practically for ever: an archive.
    Extreme = 4,
}

impl Lifetime {
    /// All of them, in order.
    pub const ALL: [Self; 5] = [Self::NotSet, Self::Short, Self::Medium, Self::Long, Self::Extreme];

    /// The name: `none`, `short`, `medium`, `long` or `extreme`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotSet => "none",
            Self::Short => "short",
            Self::Medium => "medium",
            Self::Long => "long",
            Self::Extreme => "extreme",
        }
    }

    /// The class with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lifetime| lifetime.name() == name)
    }

    /// Its index in [`Lifetime::ALL`]: the placement handle of such writes
    /// ([`crate::IoRequest::handle`]).
    #[must_use]
    pub const fn handle(self) -> u8 {
        self as u8
    }

    /// The class with this placement handle.
    #[must_use]
    pub fn of_handle(handle: u8) -> Option<Self> {
        Self::ALL.get(usize::from(handle)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_handles_lead_back() {
        for (place, lifetime) in Lifetime::ALL.into_iter().enumerate() {
            assert_eq!(Lifetime::of_name(lifetime.name()), Some(lifetime));
            assert_eq!(usize::from(lifetime.handle()), place);
            assert_eq!(Lifetime::of_handle(lifetime.handle()), Some(lifetime));
        }
        assert_eq!(Lifetime::of_name("forever"), None);
        assert_eq!(Lifetime::of_handle(5), None);
    }
}
