//! Requests that several commands may answer, where the first answer counts: the calls of
//! algorithms 1 and 2 that had to wait.

use units::{Lpn, Ppn};

use super::super::watch::Watch;
use crate::drive::media::{Cause, Command, CommandId, Content, Loser, Media, Stage, Tag};

/// Most commands of a call.
const MOST: usize = 8;

/// A read or write that may be blocked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub lpn: u32,
    pub is_read: bool,
    pub bytes: u32,
    /// Tag of the request that waits for it.
    pub tag: Tag,
    /// Content that it writes, for runs that follow contents.
    pub content: Content,
    /// True if it counts as blocked: another place was wanted.
    pub is_blocked: bool,
    /// True if the page was written or trimmed since.
    pub is_stale: bool,
    /// True if it has asked for a copy, though none may have been given to a die.
    pub has_asked_for_copy: bool,
    /// Number of places asked for, including its own.
    pub ios: u8,
    /// Dies of these places.
    dies: [u32; MOST],
    ids: [Option<CommandId>; MOST],
    given: u8,
    is_open: bool,
    generation: u32,
    /// True for a write that has found no room at its own place yet.
    waits_for_room: bool,
    /// True if its copy was given with its tag: its own program then has a tag of the scheme.
    is_retagged: bool,
}

/// Name of a call, valid after its end, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallId {
    pub number: u32,
    generation: u32,
}

#[cfg(test)]
impl CallId {
    pub fn of_number(number: u32) -> Self {
        Self { number, generation: 0 }
    }
}

impl Call {
    pub fn tries(&self, die: u32) -> bool {
        self.dies[..usize::from(self.ios)].contains(&die)
    }

    /// Records that another die is asked.
    pub fn asks(&mut self, die: u32) {
        self.dies[usize::from(self.ios)] = die;
        self.ios += 1;
    }

    pub fn last_die(&self) -> Option<u32> {
        self.dies[..usize::from(self.ios)].last().copied().filter(|&die| die != u32::MAX)
    }

    pub fn waits_for_room(&self) -> bool {
        self.waits_for_room
    }

    fn ids(&self) -> impl Iterator<Item = CommandId> {
        self.ids.into_iter().take(usize::from(self.given)).flatten()
    }

    fn gave(&mut self, id: CommandId) {
        self.ids[usize::from(self.given)] = Some(id);
        self.given += 1;
    }

    /// Returns true if the request that waits has its answer.
    pub fn is_answered(&self, media: &Media) -> bool {
        self.ids().any(|id| media.stage(id) == Stage::Ended)
    }

    /// Returns true if a die has begun one of its commands.
    pub fn is_begun(&self, media: &Media) -> bool {
        self.ids().any(|id| media.stage(id) != Stage::Waiting)
    }

    /// Gives a command that may answer it.
    fn give(&mut self, command: Command, loses: Loser, media: &mut Media) {
        let command = Command { tag: self.tag, ..command };
        let rival = self.ids().next();
        let id = match rival {
            Some(first) => media.submit_rival(first, loses, command, loses),
            None => media.submit_named(command),
        };
        self.gave(id);
    }
}

/// Purpose of the program of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub call: Option<u32>,
    pub content: Content,
}

/// The calls under way. As a [`Watch`] it gives the programs of the scheme below.
#[derive(Debug)]
pub(super) struct Calls {
    calls: Vec<Call>,
    free: Vec<u32>,
    /// Calls whose own place has no room yet.
    waiting: Vec<u32>,
    /// The last program for the host: its tag, its name and its place.
    last: Option<(Tag, CommandId, Ppn)>,
    /// The copy that is being placed.
    pub copy: Option<Copy>,
    host_pages: u32,
    /// Tags from here on belong to calls: the first is that of commands that nobody waits for.
    first_tag: u32,
    pub copies_written: u64,
    /// Number of open calls.
    open: u32,
}

impl Calls {
    pub fn new(host_pages: u32, first_tag: u32) -> Self {
        Self {
            calls: Vec::new(),
            free: Vec::new(),
            waiting: Vec::new(),
            last: None,
            copy: None,
            host_pages,
            first_tag,
            copies_written: 0,
            open: 0,
        }
    }

    pub fn open(&self) -> u32 {
        self.open
    }

    pub fn get(&self, id: CallId) -> Option<&Call> {
        let call = &self.calls[id.number as usize];
        (call.is_open && call.generation == id.generation).then_some(call)
    }

    pub fn get_mut(&mut self, id: CallId) -> Option<&mut Call> {
        let call = &mut self.calls[id.number as usize];
        (call.is_open && call.generation == id.generation).then_some(call)
    }

    /// Opens a call whose first command was given to this die, or waits for room.
    pub fn open_call(
        &mut self,
        lpn: Lpn,
        read: Option<u32>,
        tag: Tag,
        content: Content,
        first: Option<(CommandId, u32)>,
    ) -> CallId {
        let number = self.free.pop().unwrap_or(self.calls.len() as u32);
        let generation =
            self.calls.get(number as usize).map_or(0, |call| call.generation.wrapping_add(1));
        let mut call = Call {
            lpn: lpn.0,
            is_read: read.is_some(),
            bytes: read.unwrap_or(0),
            tag,
            content,
            is_blocked: false,
            is_stale: false,
            has_asked_for_copy: false,
            ios: 0,
            dies: [u32::MAX; MOST],
            ids: [None; MOST],
            given: 0,
            is_open: true,
            generation,
            waits_for_room: first.is_none(),
            is_retagged: false,
        };
        match first {
            Some((id, die)) => {
                call.gave(id);
                call.asks(die);
            }
            None => {
                call.asks(u32::MAX);
                self.waiting.push(number);
            }
        }
        if let Some(place) = self.calls.get_mut(number as usize) {
            *place = call;
        } else {
            self.calls.push(call);
        }
        self.open += 1;
        CallId { number, generation }
    }

    pub fn close(&mut self, id: CallId) {
        self.calls[id.number as usize].is_open = false;
        self.free.push(id.number);
        self.open -= 1;
    }

    /// Marks the calls of a page that was written or trimmed: they make no more copies.
    pub fn make_stale(&mut self, lpn: Lpn) {
        self.calls
            .iter_mut()
            .filter(|call| call.is_open && call.lpn == lpn.0)
            .for_each(|call| call.is_stale = true);
    }

    /// Takes the name and place of the program with this tag, if it was given just now.
    pub fn take_last(&mut self, tag: Tag) -> Option<(CommandId, Ppn)> {
        let last = self.last.take().filter(|&(of, ..)| of == tag);
        last.map(|(_, id, page)| (id, page))
    }

    /// The tag of commands that nobody waits for.
    pub fn nobody(&self) -> Tag {
        Tag::scheme(self.first_tag)
    }

    fn tag_of(&self, number: u32) -> Tag {
        Tag::scheme(self.first_tag + 1 + number)
    }

    /// Gives the old and the new tag of a call whose own program needs another one, since its copy
    /// was given with its tag.
    pub fn take_retagged(&mut self, number: u32) -> Option<(Tag, Tag)> {
        let tag = self.tag_of(number);
        let call = &mut self.calls[number as usize];
        (call.waits_for_room && !call.is_retagged && call.given > 0).then(|| {
            call.is_retagged = true;
            (call.tag, tag)
        })
    }

    /// Reads another place for a call.
    pub fn read(&mut self, id: CallId, command: Command, media: &mut Media) {
        if let Some(call) = self.get_mut(id) {
            call.give(command, Loser::IsGivenUp, media);
        }
    }

    fn program_copy(&mut self, copy: Copy, command: Command, media: &mut Media) {
        self.copies_written += 1;
        let nobody = self.nobody();
        match copy.call.map(|number| &mut self.calls[number as usize]) {
            Some(call) if !call.is_answered(media) => {
                call.give(command, Loser::GoesOn(nobody), media);
            }
            _ => {
                bring(copy.content, command.page, media);
                media.submit(Command { tag: nobody, ..command });
            }
        }
    }

    /// Handles a program that waited for room and is now given. Returns true if it belongs to a
    /// call.
    #[cold]
    fn found_room(&mut self, command: Command, media: &mut Media) -> bool {
        let nobody = self.nobody();
        let is_of = |number: u32| {
            let call = &self.calls[number as usize];
            command.tag == if call.is_retagged { self.tag_of(number) } else { call.tag }
        };
        let Some(place) = self.waiting.iter().position(|&number| is_of(number)) else {
            return false;
        };
        let call = &mut self.calls[self.waiting.swap_remove(place) as usize];
        call.waits_for_room = false;
        if call.is_answered(media) {
            bring(call.content, command.page, media);
            media.submit(Command { tag: nobody, ..command });
        } else {
            call.give(command, Loser::GoesOn(nobody), media);
        }
        true
    }
}

/// Sets the content of a program without an owner, if contents are followed.
fn bring(content: Content, page: Ppn, media: &mut Media) {
    if let Some(witness) = media.witness_mut() {
        witness.brings_to(page, content);
    }
}

impl Watch for Calls {
    #[inline]
    fn cause_of(&self, lpn: Lpn) -> Cause {
        if lpn.0 < self.host_pages { Cause::Host } else { Cause::Replication }
    }

    #[inline]
    fn submit(&mut self, command: Command, media: &mut Media) {
        if command.cause == Cause::Replication {
            let copy = self.copy.take().expect("a copy is placed for a reason");
            return self.program_copy(copy, command, media);
        }
        if !self.waiting.is_empty() && self.found_room(command, media) {
            return;
        }
        let id = media.submit_named(command);
        self.last = Some((command.tag, id, command.page));
    }

    fn map_writes(&self) -> u64 {
        self.copies_written
    }
}
