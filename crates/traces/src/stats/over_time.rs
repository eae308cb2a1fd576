//! Windows of time that double in width as the trace grows, and what is counted in each.

/// Most windows; once the trace is long enough there are never fewer than half as many.
pub(super) const MOST_WINDOWS: usize = 400;
/// Most rows of addresses in the picture.
pub(super) const MOST_ROWS: usize = 200;
/// Powers of two of a width in nanoseconds.
const WIDTHS: usize = 64;

/// Counts of one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedWindow {
    /// Requests of each kind, as `IoOp` numbers them.
    pub(super) requests: [u64; 4],
    /// Bytes of each kind.
    pub(super) bytes: [u64; 4],
    /// Touches of pages by the widest windows (as an exponent of two) for which they are the first
    /// in their window. Windows of 2^e ns have as many distinct pages as touches of classes e and
    /// above, which is how distinct pages stay exact when two windows become one.
    pub(super) first_touches: [u64; WIDTHS],
}

const EMPTY: CountedWindow =
    CountedWindow { requests: [0; 4], bytes: [0; 4], first_touches: [0; WIDTHS] };

impl CountedWindow {
    fn absorb(&mut self, other: &Self) {
        let add = |to: &mut [u64], from: &[u64]| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        };
        add(&mut self.requests, &other.requests);
        add(&mut self.bytes, &other.bytes);
        add(&mut self.first_touches, &other.first_touches);
    }
}

/// Counts over time, and where in the address space requests start.
#[derive(Debug)]
pub(super) struct OverTime {
    /// Windows are 2^shift nanoseconds wide.
    pub(super) shift: u32,
    pub(super) windows: Vec<CountedWindow>,
    pub(super) picture: Picture,
}

impl OverTime {
    pub(super) fn new() -> Self {
        Self { shift: 0, windows: Vec::with_capacity(MOST_WINDOWS), picture: Picture::new() }
    }

    /// The window of this time (never before the latest so far), made if it is not there.
    #[inline]
    pub(super) fn window(&mut self, now_ns: u64) -> usize {
        let index = now_ns >> self.shift;
        if index >= self.windows.len() as u64 {
            self.grow(now_ns);
        }
        (now_ns >> self.shift) as usize
    }

    #[cold]
    fn grow(&mut self, now_ns: u64) {
        while now_ns >> self.shift >= MOST_WINDOWS as u64 {
            let merged = self.windows.chunks(2).map(|pair| {
                let mut sum = pair[0];
                pair[1..].iter().for_each(|second| sum.absorb(second));
                sum
            });
            self.windows = merged.collect();
            self.picture.merge_windows();
            self.shift += 1;
        }
        self.windows.resize((now_ns >> self.shift) as usize + 1, EMPTY);
    }

    /// Distinct pages touched in each window.
    pub(super) fn distinct_pages(&self) -> impl Iterator<Item = u64> {
        self.windows.iter().map(|window| window.first_touches[self.shift as usize..].iter().sum())
    }
}

/// Numbers of reads and writes that start in each stretch of addresses in each window (STABLEBUFFER
/// figure 3).
///
/// Stretches are 2^shift bytes and double when the addresses do not fit into `MOST_ROWS` of them.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) shift: u32,
    /// Stretch of the first row.
    pub(super) base: u64,
    rows: u64,
    /// Reads and writes, window by window, `MOST_ROWS` each.
    cells: Vec<[u32; 2]>,
}

impl Picture {
    fn new() -> Self {
        Self { shift: 9, base: 0, rows: 0, cells: vec![[0; 2]; MOST_WINDOWS * MOST_ROWS] }
    }

    #[inline]
    pub(super) fn add(&mut self, window: usize, offset: u64, is_write: bool) {
        // Below the first row it wraps around, and is far beyond the last.
        if (offset >> self.shift).wrapping_sub(self.base) >= self.rows {
            self.reach(offset);
        }
        let row = ((offset >> self.shift) - self.base) as usize;
        let cell = &mut self.cells[window * MOST_ROWS + row][usize::from(is_write)];
        *cell = cell.saturating_add(1);
    }

    /// Makes rows up to this address, in wider stretches if need be.
    #[cold]
    fn reach(&mut self, offset: u64) {
        if self.rows == 0 {
            (self.base, self.rows) = (offset >> self.shift, 1);
            return;
        }
        let (old_shift, old_base, old_rows) = (self.shift, self.base, self.rows);
        let (lowest, highest) = (old_base, old_base + old_rows - 1);
        let range = |shift: u32| {
            let more = shift - old_shift;
            ((lowest >> more).min(offset >> shift), (highest >> more).max(offset >> shift))
        };
        let (mut first, mut last) = range(self.shift);
        while last - first >= MOST_ROWS as u64 {
            self.shift += 1;
            (first, last) = range(self.shift);
        }
        (self.base, self.rows) = (first, last - first + 1);
        if self.shift == old_shift && self.base == old_base {
            return;
        }
        let more = self.shift - old_shift;
        for window in self.cells.chunks_exact_mut(MOST_ROWS) {
            let mut moved = [[0; 2]; MOST_ROWS];
            for (row, cell) in window[..old_rows as usize].iter().enumerate() {
                merge(&mut moved[(((old_base + row as u64) >> more) - first) as usize], *cell);
            }
            window.copy_from_slice(&moved);
        }
    }

    fn merge_windows(&mut self) {
        let mut merged = vec![[0; 2]; self.cells.len()];
        for (window, cells) in self.cells.chunks_exact(MOST_ROWS).enumerate() {
            let to = &mut merged[window / 2 * MOST_ROWS..][..MOST_ROWS];
            to.iter_mut().zip(cells).for_each(|(to, cell)| merge(to, *cell));
        }
        self.cells = merged;
    }

    /// Window, first byte, reads and writes of every cell that is not empty.
    pub(super) fn filled(&self) -> impl Iterator<Item = (u64, u64, [u32; 2])> {
        let address = |row: usize| (self.base + row as u64) << self.shift;
        let filled = self.cells.iter().enumerate().filter(|(_, cell)| **cell != [0; 2]);
        filled.map(move |(index, cell)| {
            ((index / MOST_ROWS) as u64, address(index % MOST_ROWS), *cell)
        })
    }
}

fn merge(to: &mut [u32; 2], from: [u32; 2]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = to.saturating_add(from));
}
