//! Division of the host's commands into parts for pages in the buffer, and parts for their
//! destinations.

use units::{IoOp, Lifetime};

use super::layer::{PagePart, Sent, StableBuffer};
use super::settings::Ack;
use super::table::NONE;
use crate::{Actions, Command, Data, Failure, Gather};

impl StableBuffer {
    /// Gives the slot from which a page is read; none if it is read from its destination.
    fn slot_of(&self, number: u64) -> u32 {
        self.table.find(number).map_or(NONE, |page| self.table.page(page).slot)
    }

    /// Gives the parts of a command's range that are pages, or parts of a page.
    fn pages_of(&self, command: &Command) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        let (page, begin, end) = (self.page_bytes(), command.offset, command.end());
        (begin / page..end.div_ceil(page))
            .map(move |number| (number, begin.max(number * page), end.min((number + 1) * page)))
    }

    pub(super) fn read(&mut self, command: &Command, actions: &mut Actions) {
        // Parts of the range: one for each slot, or for each run of bytes at destinations.
        let mut segments = std::mem::take(&mut self.segments);
        segments.clear();
        for (number, begin, end) in self.pages_of(command) {
            let is_buffered = self.slot_of(number) != NONE;
            match segments.last_mut() {
                Some((_, last, false)) if !is_buffered => *last = end,
                _ => segments.push((begin, end, is_buffered)),
            }
        }
        let parent = self.gather.begin(command.id, segments.len() as u32);
        for (place, &(begin, end, is_buffered)) in segments.iter().enumerate() {
            let part = Gather::part(parent, place as u32);
            let slot = if is_buffered { self.slot_of(begin / self.page_bytes()) } else { NONE };
            if is_buffered && self.checks.is_bad(slot) {
                self.gather.ended(part, Err(self.bad_page(slot)), actions);
            } else if is_buffered {
                self.table.read_begins(slot);
                self.counts.slot_read_pages += 1;
                // The whole slot is read: only so the page can be compared with its checksum.
                let range = self.superblock.geometry.slot_range(slot);
                let (from, length) = ((begin % self.page_bytes()) as u32, (end - begin) as u32);
                self.send(Sent::Slot { part, slot, from, length }, IoOp::Read, range, actions);
            } else {
                self.send(Sent::Destination { part }, IoOp::Read, (begin, end), actions);
            }
        }
        self.segments = segments;
    }

    pub(super) fn write(&mut self, command: &Command, actions: &mut Actions) {
        if let Some(reason) = self.reserved_byte(command) {
            let &Command { id, op, offset, length, .. } = command;
            actions.reply(id, Err(Failure::Io { op, offset, length, reason: reason.into() }));
            return;
        }
        let goes_past = self.is_sequential(command);
        let mut segments = std::mem::take(&mut self.segments);
        segments.clear();
        for (number, begin, end) in self.pages_of(command) {
            self.counts.host_write_pages += 1;
            // A page with any version in a slot, needed or not, does not bypass the buffer:
            // recovery would find the older version.
            let is_past = goes_past && self.table.find(number).is_none();
            self.counts.past_pages += u64::from(is_past);
            match segments.last_mut() {
                Some((_, last, true)) if is_past => *last = end,
                _ => segments.push((begin, end, is_past)),
            }
        }
        let parent = self.gather.begin(command.id, segments.len() as u32);
        let waited = self.pending.len();
        for (place, &(begin, end, is_past)) in segments.iter().enumerate() {
            let part = Gather::part(parent, place as u32);
            let data = command
                .data
                .slice((begin - command.offset) as usize..(end - command.offset) as usize);
            if is_past {
                let written = (command.lifetime, data);
                self.write_past(part, (begin, end), command.is_fua, written, actions);
            } else {
                let (page, from) = (begin / self.page_bytes(), (begin % self.page_bytes()) as u32);
                let length = (end - begin) as u32;
                self.pending.push_back(PagePart {
                    part,
                    page,
                    from,
                    length,
                    is_fua: command.is_fua,
                    lifetime: command.lifetime,
                    data,
                });
            }
        }
        self.segments = segments;
        self.serve(actions);
        self.counts.slot_waits += self.pending.len().saturating_sub(waited) as u64;
    }

    fn write_past(
        &mut self,
        part: crate::ParentPart,
        range: (u64, u64),
        is_fua: bool,
        written: (Lifetime, Data),
        actions: &mut Actions,
    ) {
        let (first, last) = (range.0 / self.page_bytes(), (range.1 - 1) / self.page_bytes());
        for number in first..=last {
            let page = self.table.find_or_add(number);
            self.table.page_mut(page).is_locked = true;
        }
        let is_fua = is_fua || self.settings.ack == Ack::Fua;
        let sent = Sent::Past { part, first, last, is_fua };
        self.send_write(sent, range, is_fua, written, actions);
    }

    /// Describes the first non-zero byte of a write where headers are, in a layout that has them
    /// there.
    fn reserved_byte(&self, command: &Command) -> Option<String> {
        let reserved = self.superblock.geometry.reserved_bytes() as u64;
        if reserved == 0 || command.data.is_absent() {
            return None;
        }
        self.pages_of(command).find_map(|(number, begin, end)| {
            let first = ((number + 1) * self.page_bytes() - reserved).max(begin);
            let bytes = command
                .data
                .slice((first.min(end) - command.offset) as usize..(end - command.offset) as usize);
            let is_zero = bytes.pieces().iter().all(|piece| piece.iter().all(|&byte| byte == 0));
            (!is_zero).then(|| {
                format!(
                    "the last {reserved} bytes of page {number} are not zero, and layout=embedded \
                     needs their room for its headers"
                )
            })
        })
    }

    /// Trims pages that are not in the buffer. Those in the buffer are flushed one day, and trimmed
    /// then: before that their destinations hold older content, which must not come back.
    pub(super) fn trim(&mut self, command: &Command, actions: &mut Actions) {
        let page = self.page_bytes();
        let (first, last) = (command.offset / page, (command.end() - 1) / page);
        let mut kept: Vec<u64> = if last - first < self.table.page_count() as u64 {
            (first..=last).filter(|&number| self.slot_of(number) != NONE).collect()
        } else {
            let in_range = self
                .table
                .pages()
                .filter(|entry| entry.slot != NONE && (first..=last).contains(&entry.number));
            in_range.map(|entry| entry.number).collect()
        };
        kept.sort_unstable();
        let mut segments = std::mem::take(&mut self.segments);
        segments.clear();
        let mut begin = command.offset;
        for &number in &kept {
            let (start, end) = (number * page, (number + 1) * page);
            if begin < start {
                segments.push((begin, start, true));
            }
            begin = end;
            self.counts.kept_trim_pages += 1;
            if start >= command.offset && end <= command.end() {
                let entry = self.table.find(number).expect("it is in the buffer");
                self.table.page_mut(entry).is_trimmed = true;
            }
        }
        if begin < command.end() {
            segments.push((begin, command.end(), true));
        }
        // Lengths of commands have 32 bits; that of the trim had, too.
        if segments.is_empty() {
            actions.reply(command.id, Ok(Data::Absent));
        } else {
            let parent = self.gather.begin(command.id, segments.len() as u32);
            for (place, &(begin, end, _)) in segments.iter().enumerate() {
                let part = Gather::part(parent, place as u32);
                self.send(Sent::Destination { part }, IoOp::Trim, (begin, end), actions);
            }
        }
        self.segments = segments;
    }
}
