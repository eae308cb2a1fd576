//! What an FTL asks of the media, and what it is told when that is done.

use units::Ppn;

use super::causes::{Cause, Class};
use crate::drive::time::Picos;

/// What a die does for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FlashOp {
    /// A page is read and sent over the channel.
    Read = 0,
    /// A page is sent over the channel and programmed.
    Program = 1,
    /// An erase block is erased.
    Erase = 2,
    /// A page is read and programmed into another page of the same plane, without the channel.
    CopyBack = 3,
}

impl FlashOp {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Read, Self::Program, Self::Erase, Self::CopyBack];

    /// The name in tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Program => "program",
            Self::Erase => "erase",
            Self::CopyBack => "copy_back",
        }
    }
}

/// Who is told when a command is done. The highest bit says whether that is the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub u32);

impl Tag {
    const SCHEME: u32 = 1 << 31;

    /// A command of the drive's: host pages, write-back, read-ahead. Below 2^31.
    #[inline]
    #[must_use]
    pub const fn drive(number: u32) -> Self {
        assert!(number < Self::SCHEME, "a tag is below 2^31");
        Self(number)
    }

    /// A command of the scheme's own, which is told in
    /// [`crate::drive::schemes::Scheme::completed`]. Below 2^31.
    #[inline]
    #[must_use]
    pub const fn scheme(number: u32) -> Self {
        assert!(number < Self::SCHEME, "a tag is below 2^31");
        Self(number | Self::SCHEME)
    }

    /// Whether the scheme is told.
    #[inline]
    #[must_use]
    pub const fn is_scheme(self) -> bool {
        self.0 & Self::SCHEME != 0
    }

    /// The number without the bit.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0 & !Self::SCHEME
    }
}

/// One command to a die.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// What the die does.
    pub op: FlashOp,
    /// For what.
    pub cause: Cause,
    /// The page; of an erase, the first page of the erase block; of a copy-back, the page that is
    /// programmed.
    pub page: Ppn,
    /// The page that a copy-back reads; of a read that is part of rebuilding a page, that page.
    /// Otherwise not looked at.
    pub from: Ppn,
    /// Bytes sent over the channel: a read may fetch part of a page.
    pub bytes: u32,
    /// Who is told.
    pub tag: Tag,
}

impl Command {
    /// Whether it is one of several reads that bring another page together.
    #[inline]
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.op == FlashOp::Read && matches!(self.cause, Cause::Reconstruction)
    }
}

/// Where the time of a command went, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Waited while the die was busy with this, in the order of [`Class::ALL`].
    pub die: [Picos; Class::COUNT],
    /// Waited for the channel.
    pub channel: Picos,
    /// Held up by reads that failed and were tried again.
    pub retry: Picos,
    /// The command's own time: commands, array and transfer.
    pub service: Picos,
}

impl Delays {
    /// The whole time.
    #[inline]
    #[must_use]
    pub fn total(&self) -> Picos {
        self.die.iter().sum::<Picos>() + self.channel + self.retry + self.service
    }
}

/// A command that is done.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The command.
    pub command: Command,
    /// When it was given.
    pub issued_at: Picos,
    /// Where the time since then went. The sum is the whole time. Only for [`Cause::Host`]: zero
    /// for others.
    pub delays: Delays,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of hybrid schemes, which leave `from` as it is, were taken for parts once.
    #[test]
    fn only_reads_for_reconstruction_are_parts_of_a_page() {
        for cause in Cause::ALL {
            let read = Command::read(Ppn(3), 4096, cause, Tag::drive(1));
            assert_eq!(read.is_part(), cause == Cause::Reconstruction, "{}", cause.name());
            assert!(!Command::program(Ppn(3), 4096, cause, Tag::drive(1)).is_part());
        }
    }
}
