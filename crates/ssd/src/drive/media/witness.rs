//! Contents of pages and commands to them, for tests: the oracle beside the media.

use std::collections::BTreeMap;

use units::{EraseBlockId, Ppn};

use super::command::{Command, FlashOp};
use crate::drive::layout::Layout;
use crate::drive::time::Picos;

/// Content of a page: a number that has meaning only to the one who set it.
pub type Content = u32;

/// Content of an erased page.
pub const NOTHING: Content = 0;

/// Content of a page that was written before contents were followed.
pub const INITIAL: Content = 1;

/// Content of a translation page: it belongs to the scheme, and its entries are not followed.
pub const TRANSLATION: Content = 2;

/// A command that is done.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// The command.
    pub command: Command,
    /// Time at which it was given.
    pub issued_at: Picos,
    /// Time at which it was done.
    pub done_at: Picos,
    /// Content that was read, programmed or copied; for an erase [`NOTHING`].
    pub content: Content,
}

/// Follows the content of each physical page, command by command, and keeps a list of the commands.
///
/// A program for the host writes the content that [`Witness::brings`] set for its tag. One of the
/// scheme's own writes what was read from the page that it names as its source, so that page must
/// have been read before; one without a source writes a translation page. The witness knows nothing
/// of the tables of the FTL, so it can contradict them.
#[derive(Clone, Debug)]
pub struct Witness {
    pages: Vec<Content>,
    /// Contents of programs to come, by tag.
    brought: BTreeMap<u32, Content>,
    /// Contents of programs that have no owner any more, or another one, by page.
    left: BTreeMap<u32, Content>,
    /// Contents that the scheme has read, by page.
    read: BTreeMap<u32, Content>,
    /// Contents of pages when they were last rebuilt from others: by the end of that they may be
    /// erased.
    rebuilt: BTreeMap<u32, Content>,
    commands: Vec<Carried>,
    most_commands: usize,
}

impl Witness {
    /// Witness of erased media. Only the first `most_commands` are kept: each takes some 60 bytes.
    #[must_use]
    pub fn new(layout: &Layout, most_commands: usize) -> Self {
        Self {
            pages: vec![NOTHING; layout.physical_pages() as usize],
            brought: BTreeMap::new(),
            left: BTreeMap::new(),
            read: BTreeMap::new(),
            rebuilt: BTreeMap::new(),
            commands: Vec::new(),
            most_commands,
        }
    }

    /// Sets the content that the program with this tag writes.
    pub fn brings(&mut self, tag: u32, content: Content) {
        self.brought.insert(tag, content);
    }

    /// Sets the content that a program of this page writes, whoever receives its report.
    pub fn brings_to(&mut self, page: Ppn, content: Content) {
        self.left.insert(page.0, content);
    }

    /// Content that the program with this tag will write, if it was set.
    #[must_use]
    pub fn brought(&self, tag: u32) -> Option<Content> {
        self.brought.get(&tag).copied()
    }

    /// Content of a page.
    #[must_use]
    pub fn content(&self, page: Ppn) -> Content {
        self.pages[page.index()]
    }

    /// Content that a read returns.
    #[must_use]
    pub fn brought_by(&self, read: &Command) -> Content {
        if read.is_part() { self.rebuilt[&read.from.0] } else { self.content(read.page) }
    }

    /// Records that a page is rebuilt from others from now on.
    ///
    /// # Panics
    /// If it holds nothing.
    pub(super) fn is_rebuilt(&mut self, page: Ppn) {
        let content = self.content(page);
        assert!(content != NOTHING, "page {} is rebuilt, and is erased", page.0);
        self.rebuilt.insert(page.0, content);
    }

    /// Contents of all pages.
    #[must_use]
    pub fn contents(&self) -> &[Content] {
        &self.pages
    }

    /// The commands that are done, in the order of their ends.
    #[must_use]
    pub fn commands(&self) -> &[Carried] {
        &self.commands
    }

    pub(super) fn preset(&mut self, block: EraseBlockId, pages: u32, layout: &Layout) {
        let first = layout.page_at(block, 0).index();
        self.pages[first..first + pages as usize].fill(INITIAL);
    }

    /// Records that a command was given up by its owner, who may reuse the tag.
    pub(super) fn lost_owner(&mut self, command: &Command, is_running: bool) {
        if let Some(content) = Self::host_tag(command).and_then(|tag| self.brought.remove(&tag))
            && is_running
        {
            self.left.insert(command.page.0, content);
        }
    }

    /// Records that another command with the same tag is done: this one writes the same under
    /// another tag, or under none.
    pub(super) fn lost_race(&mut self, command: &Command) {
        if let Some(&content) = Self::host_tag(command).and_then(|tag| self.brought.get(&tag)) {
            self.left.insert(command.page.0, content);
        }
    }

    fn host_tag(command: &Command) -> Option<u32> {
        (command.op == FlashOp::Program && !command.tag.is_scheme()).then(|| command.tag.number())
    }

    /// Records that a command is done.
    ///
    /// # Panics
    /// If a page is programmed that is not erased, or read or copied though it holds nothing, or a
    /// copy's source was not read.
    pub(super) fn done(
        &mut self,
        command: &Command,
        layout: &Layout,
        issued_at: Picos,
        done_at: Picos,
    ) {
        let page = command.page.index();
        let content = match command.op {
            FlashOp::Read => {
                // The padding of a program is part of a stripe.
                let may_be_padding = command.is_part();
                assert!(
                    may_be_padding || self.pages[page] != NOTHING,
                    "page {page} is read, and is erased"
                );
                if command.tag.is_scheme() {
                    self.read.insert(command.page.0, self.pages[page]);
                }
                self.pages[page]
            }
            FlashOp::Program => {
                let content = if let Some(content) = self.left.remove(&command.page.0) {
                    content
                } else if !command.tag.is_scheme() {
                    self.brought
                        .remove(&command.tag.number())
                        .expect("a program for the host brings something")
                } else if command.from == Ppn::NONE {
                    TRANSLATION
                } else {
                    self.read.remove(&command.from.0).expect("a page is read before it is copied")
                };
                self.program(page, content);
                content
            }
            FlashOp::CopyBack => {
                let content = self.content(command.from);
                assert!(content != NOTHING, "page {} is copied, and is erased", command.from.0);
                let plane = |page| layout.plane_of(layout.block_of(page));
                assert!(
                    plane(command.from) == plane(command.page),
                    "a copy-back from page {} leaves its plane",
                    command.from.0
                );
                self.program(page, content);
                content
            }
            FlashOp::Erase => {
                assert!(
                    page.is_multiple_of(layout.pages_per_block as usize),
                    "an erase names the first page of its erase block"
                );
                self.pages[page..page + layout.pages_per_block as usize].fill(NOTHING);
                NOTHING
            }
        };
        if self.commands.len() < self.most_commands {
            self.commands.push(Carried { command: *command, issued_at, done_at, content });
        }
    }

    fn program(&mut self, page: usize, content: Content) {
        assert!(self.pages[page] == NOTHING, "page {page} is programmed, and is not erased");
        self.pages[page] = content;
    }
}
