//! PostgreSQL's own compression (`pg_lzcompress.c`) with its default strategy: what it makes of a
//! page, in bytes, and back.

/// Longest match that a tag can tell.
const MOST_MATCHED: usize = 273;
/// Positions that are looked back at; entry 0 stands for none.
const HISTORY: usize = 4096;
/// Offsets from here on are in no tag.
const TOO_FAR: usize = 0xfff;
const NONE: u16 = 0;
const SHORTEST_INPUT: usize = 32;
/// Share that has to be left out, in percent.
const LEAST_SAVED: usize = 25;
/// Bytes of output within which a first match has to be found.
const FIRST_SUCCESS: usize = 1024;
/// A match of so many bytes ends the search; each entry looked at lowers it by a tenth.
const GOOD_MATCH: usize = 128;
/// Tags of longer matches have a third byte.
const LONG_MATCH: usize = 17;
const MOST_LISTS: usize = 8192;

/// Entry of the history: a position of the input, in the list of those with the same hash.
#[derive(Clone, Copy, Default)]
struct Entry {
    next: u16,
    before: u16,
    list: u16,
    at: u16,
}

/// Finds what compression would leave.
pub(super) struct Encoder {
    lists: Vec<u16>,
    entries: Vec<Entry>,
    /// Entry that is written next.
    next: usize,
    is_full: bool,
}

impl Default for Encoder {
    fn default() -> Self {
        let entries = vec![Entry::default(); HISTORY + 1];
        Self { lists: vec![NONE; MOST_LISTS], entries, next: 1, is_full: false }
    }
}

/// The list of a position. Bytes are signed, as `char` is on x86.
fn list_of(input: &[u8], at: usize, mask: i32) -> usize {
    let byte = |more: usize| i32::from(input[at + more].cast_signed());
    let hash = if input.len() - at < 4 {
        byte(0)
    } else {
        (byte(0) << 6) ^ (byte(1) << 4) ^ (byte(2) << 2) ^ byte(3)
    };
    (hash & mask) as usize
}

impl Encoder {
    /// Bytes that compression leaves of at most 64 KiB; `None` where it is given up.
    pub fn compress(&mut self, input: &[u8]) -> Option<usize> {
        if input.len() < SHORTEST_INPUT {
            return None;
        }
        let lists = match input.len() {
            ..128 => 512,
            128..256 => 1024,
            256..512 => 2048,
            512..1024 => 4096,
            _ => MOST_LISTS,
        };
        let mask = lists as i32 - 1;
        self.lists[..lists].fill(NONE);
        (self.next, self.is_full) = (1, false);
        let most = input.len() * (100 - LEAST_SAVED) / 100;
        // A control byte leads each eight items.
        let (mut at, mut items, mut bytes, mut has_match) = (0, 0_usize, 0, false);
        while at < input.len() {
            let written = bytes + items.div_ceil(8);
            if written >= most || (!has_match && written >= FIRST_SUCCESS) {
                return None;
            }
            let matched = self.longest(input, at, mask);
            let taken = if matched > 2 {
                bytes += if matched > LONG_MATCH { 3 } else { 2 };
                has_match = true;
                matched
            } else {
                bytes += 1;
                1
            };
            items += 1;
            for _ in 0..taken {
                self.add(input, at, mask);
                at += 1;
            }
        }
        let written = bytes + items.div_ceil(8);
        (written < most).then_some(written)
    }

    fn longest(&self, input: &[u8], at: usize, mask: i32) -> usize {
        let (mut best, mut good) = (0, GOOD_MATCH);
        let here = &input[at..input.len().min(at + MOST_MATCHED)];
        let mut number = self.lists[list_of(input, at, mask)];
        while number != NONE {
            let entry = self.entries[usize::from(number)];
            let there = usize::from(entry.at);
            if at - there >= TOO_FAR {
                break;
            }
            let pairs = here.iter().zip(&input[there..]);
            // Less than the best so far is no use.
            if best < 16 || input[there..there + best] == here[..best] {
                best = best.max(pairs.take_while(|(a, b)| a == b).count());
            }
            number = entry.next;
            if number != NONE {
                if best >= good {
                    break;
                }
                good -= good / 10;
            }
        }
        best
    }

    fn add(&mut self, input: &[u8], at: usize, mask: i32) {
        let number = self.next;
        if self.is_full {
            let old = self.entries[number];
            match old.before {
                NONE => self.lists[usize::from(old.list)] = old.next,
                before => self.entries[usize::from(before)].next = old.next,
            }
            self.entries[usize::from(old.next)].before = old.before;
        }
        let list = list_of(input, at, mask);
        let next = self.lists[list];
        self.entries[number] = Entry { next, before: NONE, list: list as u16, at: at as u16 };
        self.entries[usize::from(next)].before = number as u16;
        self.lists[list] = number as u16;
        self.next = if number == HISTORY { 1 } else { number + 1 };
        self.is_full |= number == HISTORY;
    }
}

/// Decompresses into a buffer that it has to fill; the bytes written, or `None` if the input is
/// none that this method makes.
pub(super) fn decompress(input: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut from, mut to) = (0, 0);
    while from < input.len() && to < out.len() {
        let mut control = input[from];
        from += 1;
        for _ in 0..8 {
            if from >= input.len() || to >= out.len() {
                break;
            }
            if control & 1 == 0 {
                out[to] = input[from];
                (from, to) = (from + 1, to + 1);
            } else {
                let (a, b) = (*input.get(from)?, *input.get(from + 1)?);
                from += 2;
                let mut length = usize::from(a & 0x0f) + 3;
                let back = usize::from(a & 0xf0) << 4 | usize::from(b);
                if length == LONG_MATCH + 1 {
                    length += usize::from(*input.get(from)?);
                    from += 1;
                }
                if back == 0 || back > to {
                    return None;
                }
                for _ in 0..length.min(out.len() - to) {
                    out[to] = out[to - back];
                    to += 1;
                }
            }
            control >>= 1;
        }
    }
    (from == input.len()).then_some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_gets_short_and_what_does_not_is_left() {
        let mut encoder = Encoder::default();
        // A literal, 30 tags of 273 bytes, a literal; 32 items have 4 control bytes.
        assert_eq!(encoder.compress(&[7; 8192]), Some(1 + 30 * 3 + 1 + 4));
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        assert_eq!(encoder.compress(&noise.take(8192).collect::<Vec<_>>()), None);
        assert_eq!(encoder.compress(&[0; 31]), None);
    }

    #[test]
    fn a_tag_copies_also_what_it_writes() {
        let mut out = [0; 10];
        // Two literals, then nine bytes from two back, of which eight have room.
        assert_eq!(decompress(&[0b100, b'a', b'b', 0x06, 2], &mut out), Some(10));
        assert_eq!(&out, b"ababababab");
        assert_eq!(decompress(&[0b1, 0x06, 1], &mut out), None, "it goes back before the start");
        assert_eq!(decompress(&[0b1, 0x06], &mut out), None, "half a tag");
    }
}
