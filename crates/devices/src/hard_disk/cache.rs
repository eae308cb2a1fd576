//! Memory of a hard disk: segments that hold what was read and is read ahead, and writes that are
//! acknowledged and not yet on a platter.

use units::Nanos;

use super::arm::Arm;

/// Segments that a disk divides its memory for reads into.
const SEGMENTS: u64 = 16;

/// Bytes that were read side by side.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    /// End of the bytes that are there at `since`.
    end: u64,
    /// End of what is going to be read ahead.
    limit: u64,
    used: u64,
}

/// Segments of reads. The last one that the arm read for goes on growing while the arm rests.
#[derive(Debug)]
pub struct Segments {
    segments: Vec<Segment>,
    bytes_each: u64,
    capacity_bytes: u64,
    /// The growing segment, and when its end was right.
    growing: Option<(usize, Nanos)>,
    uses: u64,
}

impl Segments {
    pub fn new(bytes: u64, capacity_bytes: u64) -> Self {
        Self {
            segments: Vec::new(),
            bytes_each: bytes / SEGMENTS,
            capacity_bytes,
            growing: None,
            uses: 0,
        }
    }

    /// Gives the end of the growing segment at a time.
    fn grown(&self, arm: &Arm, now: Nanos) -> Option<(usize, u64)> {
        let (number, since) = self.growing?;
        let Segment { end, limit, .. } = self.segments[number];
        let more = arm.passed(end, now.saturating_sub(since) as f64);
        Some((number, (end + more).min(limit)))
    }

    /// Stops reading ahead: the arm is needed elsewhere.
    pub fn stop(&mut self, arm: &Arm, now: Nanos) {
        if let Some((number, end)) = self.grown(arm, now) {
            self.segments[number].end = end;
        }
        self.growing = None;
    }

    /// Returns true if all of the bytes are there.
    pub fn holds(&mut self, arm: &Arm, now: Nanos, offset: u64, length: u64) -> bool {
        let grown = self.grown(arm, now);
        let found = (0..self.segments.len()).find(|&number| {
            let Segment { start, end, .. } = self.segments[number];
            let end = grown.filter(|(growing, _)| *growing == number).map_or(end, |(_, end)| end);
            start <= offset && offset + length <= end
        });
        let Some(number) = found else { return false };
        self.uses += 1;
        let segment = &mut self.segments[number];
        segment.used = self.uses;
        if let Some((growing, end)) = grown
            && growing == number
        {
            self.reads_on(arm, now, offset + length, end);
        }
        true
    }

    /// Reads further ahead for who has read the growing segment up to `read`; the head has read up
    /// to `end`.
    fn reads_on(&mut self, arm: &Arm, now: Nanos, read: u64, end: u64) {
        let Some((number, since)) = self.growing else { return };
        let segment = &mut self.segments[number];
        let limit = (read + self.bytes_each / 2).min(self.capacity_bytes);
        if end < segment.limit {
            segment.limit = limit.max(end);
        } else if end < read + self.bytes_each / 4 && limit > end {
            // The head has gone past the place where it stopped.
            let way = arm.positioning(now as f64, arm.place(end), end);
            let from = now.max(since) + way as Nanos;
            (segment.end, segment.limit) = (end, limit);
            self.growing = Some((number, from));
        }
    }

    /// Gives the end of what the head has read, and the time from which it reads on, if these bytes
    /// begin there or before: they come without a movement of the arm.
    pub fn reaches(&self, arm: &Arm, now: Nanos, offset: u64) -> Option<(u64, Nanos)> {
        let (number, end) = self.grown(arm, now)?;
        let (_, since) = self.growing?;
        let Segment { start, limit, .. } = self.segments[number];
        (start <= offset && offset <= end && end < limit).then_some((end, now.max(since)))
    }

    /// Returns true if a read begins within what was read, or where that ends.
    pub fn continues(&self, arm: &Arm, now: Nanos, offset: u64) -> bool {
        let grown = self.grown(arm, now);
        self.segments.iter().enumerate().any(|(number, segment)| {
            let end = match grown {
                Some((growing, end)) if growing == number => end,
                _ => segment.end,
            };
            segment.start < offset && offset <= end
        })
    }

    /// Notes that the arm has read bytes, up to now; it reads ahead from here on.
    pub fn read(&mut self, arm: &Arm, now: Nanos, offset: u64, length: u64) {
        let end = offset + length;
        let limit = (end + self.bytes_each / 2).min(self.capacity_bytes);
        let longest = self.bytes_each.max(length);
        self.uses += 1;
        let grown = self.grown(arm, now);
        let continued = (0..self.segments.len()).find(|&number| {
            let Segment { start, end, .. } = self.segments[number];
            let end = grown.filter(|(growing, _)| *growing == number).map_or(end, |(_, end)| end);
            start <= offset && offset <= end
        });
        // The head may have gone further than was asked for.
        let ahead = grown.filter(|(growing, _)| Some(*growing) == continued);
        let end = ahead.map_or(end, |(_, grown)| grown.max(end));
        self.stop(arm, now);
        let number = continued.unwrap_or_else(|| self.free());
        let start = if continued.is_some() { self.segments[number].start } else { offset };
        self.segments[number] = Segment {
            start: start.max(end.saturating_sub(longest)),
            end,
            limit: limit.max(end),
            used: self.uses,
        };
        self.growing = Some((number, now));
    }

    /// Gives a segment that was not used for long, or a new one.
    fn free(&mut self) -> usize {
        if (self.segments.len() as u64) < SEGMENTS {
            self.segments.push(Segment { start: 0, end: 0, limit: 0, used: 0 });
            return self.segments.len() - 1;
        }
        (0..self.segments.len())
            .min_by_key(|&number| self.segments[number].used)
            .expect("there are several")
    }
}

/// A write that is acknowledged and not yet on a platter.
#[derive(Clone, Copy, Debug)]
pub struct Dirty {
    pub offset: u64,
    pub length: u64,
    pub serial: u64,
}

/// All such writes, the oldest first.
#[derive(Debug, Default)]
pub struct DirtyWrites {
    writes: Vec<Dirty>,
    bytes: u64,
}

impl DirtyWrites {
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Dirty> {
        self.writes.iter()
    }

    /// Returns true if one write holds all of the bytes.
    pub fn holds(&self, offset: u64, length: u64) -> bool {
        self.writes
            .iter()
            .any(|write| write.offset <= offset && offset + length <= write.offset + write.length)
    }

    /// Adds a write; one of the same bytes takes the place of the earlier.
    pub fn add(&mut self, write: Dirty) {
        self.remove_same(write.offset, write.length);
        self.bytes += write.length;
        self.writes.push(write);
    }

    fn remove_same(&mut self, offset: u64, length: u64) {
        let same = |one: &Dirty| one.offset == offset && one.length == length;
        if let Some(at) = self.writes.iter().position(same) {
            self.remove(at);
        }
    }

    /// Takes out the write at a position.
    pub fn remove(&mut self, at: usize) -> Dirty {
        let write = self.writes.remove(at);
        self.bytes -= write.length;
        write
    }

    /// Gives the serial of the oldest.
    pub fn oldest(&self) -> Option<u64> {
        self.writes.iter().map(|write| write.serial).min()
    }
}
