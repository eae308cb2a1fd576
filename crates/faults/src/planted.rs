//! A small honest layer, and bugs that can be planted in it, which the campaign has to find.

use std::collections::VecDeque;

use block::{Command, Data, Failure, Limits, Reply, Store};
use bytes::{Buf, BufMut};
use layers::{Actions, Layer, LayerError, Stack};
use twox_hash::XxHash3_64;
use units::{IoOp, Nanos};

/// A bug on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// None: the layer keeps the contract.
    None,
    /// A flush is replied to at once.
    FlushIsALie,
    /// FUA is not passed on.
    FuaIsALie,
    /// A page is overwritten where it lies: a cut tears it.
    InPlace,
    /// Recovery takes the older one of two versions.
    TakesOlder,
    /// Recovery does not check that a version is of this volume, except where nothing was written:
    /// an older volume's is taken.
    TakesForeign,
    /// Recovery does not check the checksum: a torn version is taken.
    TakesTorn,
    /// The place of the durable version is written again before the newer one is durable.
    FreesEarly,
    /// Recovery moves versions and erases the old place in one go: a cut meanwhile loses both.
    MovesInRecovery,
    /// Recovery takes what a killed process left in the device's cache for durable.
    TrustsCache,
    /// A failed write is taken for a good one.
    SwallowsErrors,
    /// A write is replied to before reads see it.
    RepliesEarly,
    /// A flush that comes while a write is under way is never replied to.
    Forgets,
    /// A write is replied to, and flushed, when it is in the second slot; it goes to the first one,
    /// which alone recovery reads, with the next write.
    HomeIsLate,
    /// Reads are answered from a copy of the last read, which a write does not invalidate.
    StaleCopy,
}

impl Bug {
    /// All bugs, and none.
    pub const ALL: [Self; 15] = [
        Self::None,
        Self::FlushIsALie,
        Self::FuaIsALie,
        Self::InPlace,
        Self::TakesOlder,
        Self::TakesForeign,
        Self::TakesTorn,
        Self::FreesEarly,
        Self::MovesInRecovery,
        Self::TrustsCache,
        Self::SwallowsErrors,
        Self::RepliesEarly,
        Self::Forgets,
        Self::HomeIsLate,
        Self::StaleCopy,
    ];
}

const MAGIC: u64 = 0x7477_696e_2d70_6167;
const PAGE_SECTORS: usize = 2;
const SLOT_SECTORS: usize = 1 + PAGE_SECTORS;
const FLUSH_ID: u32 = u32::MAX;

/// Sizes on a device with these limits.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    sector: usize,
    pages: usize,
    below: Limits,
}

impl Sizes {
    const fn of(below: Limits) -> Self {
        let sector = below.sector_bytes as usize;
        Self { sector, pages: below.capacity_bytes as usize / sector / (2 * SLOT_SECTORS), below }
    }

    const fn page_bytes(self) -> usize {
        PAGE_SECTORS * self.sector
    }

    const fn slot_bytes(self) -> usize {
        SLOT_SECTORS * self.sector
    }

    const fn slot_at(self, page: usize, slot: usize) -> u64 {
        ((page * 2 + slot) * self.slot_bytes()) as u64
    }

    fn slot(self, identity: u64, page: usize, sequence: u64, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.slot_bytes());
        for word in [MAGIC, identity, page as u64, sequence, XxHash3_64::oneshot(content)] {
            bytes.put_u64_le(word);
        }
        bytes.put_u64_le(XxHash3_64::oneshot(&bytes));
        bytes.resize(self.sector, 0);
        bytes.extend_from_slice(content);
        bytes
    }

    /// Gives the sequence number of a slot, if it is whole and of this page.
    fn sequence(self, bug: Bug, identity: u64, page: usize, slot: &[u8]) -> Option<u64> {
        let (mut words, head) = (slot, XxHash3_64::oneshot(&slot[..40]));
        let [magic, whose, number, sequence, sum, own] = [(); 6].map(|()| words.get_u64_le());
        let is_whole = own == head
            && (bug == Bug::TakesTorn || sum == XxHash3_64::oneshot(&slot[self.sector..]));
        let is_ours = bug == Bug::TakesForeign || whose == identity;
        (magic == MAGIC && number == page as u64 && is_ours && is_whole).then_some(sequence)
    }
}

/// Layer with two slots for each page, written in turn; all content is kept in memory, too. A write
/// goes to the slot that does not hold the durable version. Commands are carried out one after the
/// other: it is made for tests.
struct Twin {
    bug: Bug,
    layout: Sizes,
    identity: u64,
    content: Vec<u8>,
    /// Slot of the newest version of each page, and true if that is durable.
    newest: Vec<(usize, bool)>,
    sequence: u64,
    queue: VecDeque<Command>,
    /// Replies that the first command in the queue waits for.
    waiting: u32,
    is_flushing: bool,
    failure: Option<Failure>,
    poison: Option<Failure>,
    /// Pages that are in the second slot alone.
    late: Vec<usize>,
    /// Offset and data of the last read.
    copy: Option<(u64, Data)>,
}

/// Makes the layer's empty form.
///
/// # Errors
/// [`LayerError`] of the device.
pub fn format(bug: Bug, seed: u64, below: &mut Store<'_>) -> Result<(), LayerError> {
    let layout = Sizes::of(below.limits());
    let zeros = vec![0; layout.page_bytes()];
    for page in 0..layout.pages {
        below.write(layout.slot_at(page, 0), &layout.slot(seed, page, 0, &zeros))?;
        // The identity is the seed alone: remains of a volume of the same one have to go.
        if bug != Bug::TakesForeign {
            below.write(layout.slot_at(page, 1), &vec![0; layout.sector])?;
        }
    }
    Ok(below.flush()?)
}

/// Opens the layer, as a stack of its own.
///
/// # Errors
/// [`LayerError`] of the device, or if it cannot be recovered.
pub fn open(bug: Bug, seed: u64, below: &mut Store<'_>) -> Result<Stack, LayerError> {
    if bug != Bug::TrustsCache {
        below.flush()?;
    }
    let layout = Sizes::of(below.limits());
    let mut twin = Twin {
        bug,
        layout,
        identity: seed,
        content: vec![0; layout.pages * layout.page_bytes()],
        newest: vec![(0, true); layout.pages],
        sequence: 0,
        queue: VecDeque::new(),
        waiting: 0,
        is_flushing: false,
        failure: None,
        poison: None,
        late: Vec::new(),
        copy: None,
    };
    let mut slots = vec![0; 2 * layout.slot_bytes()];
    let mut is_new = true;
    for page in 0..layout.pages {
        below.read(layout.slot_at(page, 0), &mut slots)?;
        is_new &= layout.sequence(Bug::None, seed, page, &slots[..layout.slot_bytes()]) == Some(0);
        let halves = [&slots[..layout.slot_bytes()], &slots[layout.slot_bytes()..]];
        let mut sequences = halves.map(|slot| layout.sequence(bug, seed, page, slot));
        if bug == Bug::TakesForeign && is_new {
            sequences[1] = None;
        }
        let newest = match sequences {
            _ if bug == Bug::HomeIsLate => 0,
            [Some(one), Some(two)] => usize::from((two > one) != (bug == Bug::TakesOlder)),
            [None, Some(_)] => 1,
            _ => 0,
        };
        if sequences[newest].is_some() {
            let size = layout.page_bytes();
            twin.content[page * size..(page + 1) * size]
                .copy_from_slice(&halves[newest][layout.sector..]);
        }
        twin.newest[page] = (newest, true);
        twin.sequence = twin.sequence.max(sequences.into_iter().flatten().max().unwrap_or(0));
        if bug == Bug::MovesInRecovery && newest == 1 {
            below.write(layout.slot_at(page, 0), halves[1])?;
            below.write(layout.slot_at(page, 1), &vec![0; layout.sector])?;
            twin.newest[page] = (0, true);
        }
    }
    if bug == Bug::MovesInRecovery {
        below.flush()?;
    }
    let mut stack = Stack::new(below.limits());
    stack.push(Box::new(twin));
    Ok(stack)
}

impl Twin {
    fn pages(&self, command: &Command) -> std::ops::Range<usize> {
        let size = self.layout.page_bytes() as u64;
        (command.offset / size) as usize..command.end().div_ceil(size) as usize
    }

    fn send(
        &mut self,
        op: IoOp,
        id: u32,
        offset: u64,
        data: Vec<u8>,
        is_fua: bool,
        actions: &mut Actions,
    ) {
        self.waiting += 1;
        let length = data.len() as u32;
        let data = if op == IoOp::Write { Data::Whole(data.into()) } else { Data::Absent };
        actions.send(Command { is_fua, data, ..Command::new(id, op, offset, length) });
    }

    /// Carries out commands until something has to be waited for.
    fn go_on(&mut self, actions: &mut Actions) {
        while self.waiting == 0 {
            let Some(command) = self.queue.front().cloned() else { return };
            if let Some(poison) = &self.poison {
                actions.reply(command.id, Err(poison.clone()));
                self.queue.pop_front();
                continue;
            }
            match command.op {
                IoOp::Read => {
                    let data = self.read(&command);
                    actions.reply(command.id, Ok(data));
                    self.queue.pop_front();
                }
                IoOp::Trim => {
                    actions.reply(command.id, Ok(Data::Absent));
                    self.queue.pop_front();
                }
                IoOp::Flush if self.bug == Bug::FlushIsALie => {
                    actions.reply(command.id, Ok(Data::Absent));
                    self.queue.pop_front();
                }
                IoOp::Flush => self.flush(actions),
                IoOp::Write => self.write(&command, actions),
            }
        }
    }

    fn read(&mut self, command: &Command) -> Data {
        let data = Data::copy_of(&self.content[command.offset as usize..command.end() as usize]);
        if self.bug != Bug::StaleCopy {
            return data;
        }
        match &self.copy {
            Some((offset, copy)) if *offset == command.offset && copy.len() == data.len() => {
                copy.clone()
            }
            _ => {
                self.copy = Some((command.offset, data.clone()));
                data
            }
        }
    }

    fn flush(&mut self, actions: &mut Actions) {
        self.is_flushing = true;
        self.send(IoOp::Flush, FLUSH_ID, 0, Vec::new(), false, actions);
    }

    fn write(&mut self, command: &Command, actions: &mut Actions) {
        let pages = self.pages(command);
        let is_safe = matches!(self.bug, Bug::FreesEarly | Bug::InPlace);
        if !is_safe && pages.clone().any(|page| !self.newest[page].1) {
            return self.flush(actions);
        }
        command.data.copy_to(&mut self.content[command.offset as usize..command.end() as usize]);
        let size = self.layout.page_bytes();
        let late = std::mem::take(&mut self.late).into_iter().map(|page| (page, Some(0)));
        // No page is written twice at once.
        let late: Vec<_> = late.filter(|(page, _)| !pages.contains(page)).collect();
        let all: Vec<_> = pages.map(|page| (page, None)).chain(late).collect();
        for (number, (page, home)) in all.into_iter().enumerate() {
            let slot = match (self.bug, home) {
                (_, Some(home)) => home,
                (Bug::InPlace, None) => 0,
                (Bug::HomeIsLate, None) => {
                    self.late.push(page);
                    1
                }
                _ => 1 - self.newest[page].0,
            };
            self.sequence += 1;
            let bytes = self.layout.slot(
                self.identity,
                page,
                self.sequence,
                &self.content[page * size..(page + 1) * size],
            );
            let is_fua = command.is_fua && self.bug != Bug::FuaIsALie;
            self.newest[page] = (slot, is_fua);
            self.send(
                IoOp::Write,
                number as u32,
                self.layout.slot_at(page, slot),
                bytes,
                is_fua,
                actions,
            );
        }
    }
}

impl Layer for Twin {
    fn name(&self) -> &'static str {
        "twin"
    }

    fn limits(&self) -> Limits {
        Limits { capacity_bytes: self.content.len() as u64, ..self.layout.below }
    }

    fn submit(&mut self, command: Command, _now: Nanos, actions: &mut Actions) {
        command.check(self.limits());
        if self.bug == Bug::Forgets && command.op == IoOp::Flush && self.waiting > 1 {
            return;
        }
        if self.bug == Bug::RepliesEarly
            && command.op == IoOp::Write
            && !command.is_fua
            && self.queue.len() == 1
            && self.poison.is_none()
        {
            actions.reply(command.id, Ok(Data::Absent));
            self.queue.push_back(Command { id: FLUSH_ID, ..command });
        } else if self.bug == Bug::RepliesEarly && command.op == IoOp::Read {
            let range = command.offset as usize..command.end() as usize;
            actions.reply(command.id, Ok(Data::copy_of(&self.content[range])));
        } else {
            self.queue.push_back(command);
        }
        self.go_on(actions);
    }

    fn replied(&mut self, reply: Reply, _now: Nanos, actions: &mut Actions) {
        self.waiting -= 1;
        if self.bug != Bug::SwallowsErrors {
            self.failure = self.failure.take().or(reply.outcome.err());
        }
        if self.waiting > 0 {
            return;
        }
        if let Some(failure) = self.failure.take() {
            self.poison =
                Some(Failure::Poisoned { layer: "twin", cause: failure.to_string().into() });
        } else if std::mem::take(&mut self.is_flushing) {
            self.newest.iter_mut().for_each(|newest| newest.1 = true);
            if self.queue.front().is_some_and(|command| command.op == IoOp::Flush) {
                self.end(actions);
            }
        } else {
            self.end(actions);
        }
        self.go_on(actions);
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }
}

impl Twin {
    fn end(&mut self, actions: &mut Actions) {
        let command = self.queue.pop_front().expect("the command that waited");
        if self.bug != Bug::RepliesEarly || command.id != FLUSH_ID {
            actions.reply(command.id, Ok(Data::Absent));
        }
    }
}
