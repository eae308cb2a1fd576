//! Commands from an FTL to the media, and reports of their ends.

use units::Ppn;

use super::causes::{Cause, Class};
use crate::drive::time::Picos;

/// Operation of a die.
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

/// Receiver of the report when a command is done. The highest bit is set if that is the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub u32);

impl Tag {
    const SCHEME: u32 = 1 << 31;

    /// Tag of a command of the drive: host pages, write-back, read-ahead. Below 2^31.
    #[inline]
    #[must_use]
    pub const fn drive(number: u32) -> Self {
        assert!(number < Self::SCHEME, "a tag is below 2^31");
        Self(number)
    }

    /// Tag of a command of the scheme, which is reported to
    /// [`crate::drive::schemes::Scheme::completed`]. Below 2^31.
    #[inline]
    #[must_use]
    pub const fn scheme(number: u32) -> Self {
        assert!(number < Self::SCHEME, "a tag is below 2^31");
        Self(number | Self::SCHEME)
    }

    /// Returns true if the end is reported to the scheme.
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

/// A command to a die.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The operation.
    pub op: FlashOp,
    /// The cause.
    pub cause: Cause,
    /// The page; for an erase, the first page of the erase block; for a copy-back, the page to
    /// program.
    pub page: Ppn,
    /// The page that a copy-back reads; for a read that is part of rebuilding a page, that page.
    /// Otherwise ignored.
    pub from: Ppn,
    /// Bytes sent over the channel: a read may transfer part of a page.
    pub bytes: u32,
    /// Receiver of the report.
    pub tag: Tag,
}

impl Command {
    /// Returns true if it is one of several reads that together rebuild another page.
    #[inline]
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.op == FlashOp::Read && matches!(self.cause, Cause::Reconstruction)
    }
}

/// Delays of a command, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Wait while the die was busy with this, in the order of [`Class::ALL`].
    pub die: [Picos; Class::COUNT],
    /// Wait for the channel.
    pub channel: Picos,
    /// Time of retries of failed reads.
    pub retry: Picos,
    /// The command's own time: command transfer, array and data transfer.
    pub service: Picos,
}

impl Delays {
    /// Sum of the delays.
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
    /// Time at which it was given.
    pub issued_at: Picos,
    /// Its delays, which add up to the time since then. Only for [`Cause::Host`]: zero for others.
    pub delays: Delays,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of hybrid schemes, which leave `from` unchanged, were once taken for parts.
    #[test]
    fn only_reads_for_reconstruction_are_parts_of_a_page() {
        for cause in Cause::ALL {
            let read = Command::read(Ppn(3), 4096, cause, Tag::drive(1));
            assert_eq!(read.is_part(), cause == Cause::Reconstruction, "{}", cause.name());
            assert!(!Command::program(Ppn(3), 4096, cause, Tag::drive(1)).is_part());
        }
    }
}
