//! Distribution of page writes over the pages.

use super::histogram::Octaves;
use super::report::{Column, Table};

/// Writes of a page below this are counted in a flat table, above in a list.
const FEW: usize = 1 << 16;
/// Points of the skew curve at equal steps of pages; besides, there is one at every half power of
/// two.
const STEPS: u64 = 128;

/// Pages by their number of writes, most written first.
pub(super) struct UpdateFrequency {
    /// Number of writes and how many pages have it, in descending order of writes.
    groups: Vec<(u64, u64)>,
    pages: u64,
    writes: u64,
    octaves: Octaves,
    octave_writes: [u64; 64],
}

impl UpdateFrequency {
    pub(super) fn new(write_counts: impl Iterator<Item = u32>) -> Self {
        let (mut few, mut many) = (vec![0u64; FEW], Vec::new());
        let (mut octaves, mut octave_writes) = (Octaves::new(), [0; 64]);
        for writes in write_counts {
            match few.get_mut(writes as usize) {
                Some(count) => *count += 1,
                None => many.push(writes),
            }
            octaves.add(u64::from(writes));
            octave_writes[writes.ilog2() as usize] += u64::from(writes);
        }
        many.sort_unstable_by(|a, b| b.cmp(a));
        let mut groups: Vec<(u64, u64)> = many
            .chunk_by(|a, b| a == b)
            .map(|same| (u64::from(same[0]), same.len() as u64))
            .collect();
        groups.extend(
            few.iter()
                .enumerate()
                .rev()
                .filter(|(_, count)| **count > 0)
                .map(|(writes, &count)| (writes as u64, count)),
        );
        let pages = groups.iter().map(|(_, count)| count).sum();
        let writes = groups.iter().map(|(writes, count)| writes * count).sum();
        Self { groups, pages, writes, octaves, octave_writes }
    }

    /// Writes of the `pages` most written pages, for ascending numbers of pages.
    fn cumulative(&self, pages: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let (mut groups, mut before, mut writes_before) = (self.groups.iter().peekable(), 0, 0);
        let mut up_to = |pages: u64| {
            while let Some(&&(writes, count)) =
                groups.peek().filter(|(_, count)| before + count <= pages)
            {
                (before, writes_before) = (before + count, writes_before + writes * count);
                groups.next();
            }
            writes_before + groups.peek().map_or(0, |(writes, _)| writes * (pages - before))
        };
        pages.into_iter().map(&mut up_to).collect()
    }

    /// Share of all page writes that goes to this share of the written pages, those written most.
    pub(super) fn share_of_hottest(&self, share: f64) -> Option<f64> {
        let pages = (share * self.pages as f64).round() as u64;
        (self.writes > 0).then(|| self.cumulative([pages])[0] as f64 / self.writes as f64)
    }

    /// The skew plot (MULTILOG figure 6): cumulative share of page writes against share of the
    /// written pages, most written first.
    pub(super) fn skew(&self) -> Table {
        let halves = (0..2 * self.pages.max(1).ilog2() + 2)
            .map(|half| 2f64.powf(f64::from(half) / 2.0).round() as u64);
        let steps = (0..=STEPS)
            .map(|step| (u128::from(self.pages) * u128::from(step) / u128::from(STEPS)) as u64);
        let mut points: Vec<u64> =
            halves.chain(steps).filter(|&point| point <= self.pages).collect();
        points.sort_unstable();
        points.dedup();
        let writes = self.cumulative(points.iter().copied());
        let share = |values: &[u64], of: u64| {
            Column::Reals(values.iter().map(|&v| v as f64 / of.max(1) as f64).collect())
        };
        let columns = vec![
            ("page_share", share(&points, self.pages)),
            ("update_share", share(&writes, self.writes)),
            ("pages", Column::Integers(points)),
            ("page_writes", Column::Integers(writes)),
        ];
        Table { name: "skew", columns }
    }

    /// Pages by the number of their writes, in powers of two.
    pub(super) fn histogram(&self) -> Table {
        let rows = Octaves::rows([&self.octaves]).map(|(lower, upper, [pages])| {
            [lower, upper, pages, self.octave_writes[lower.ilog2() as usize]]
        });
        Table::of_integers(
            "updates_per_page",
            ["updates_from", "updates_to", "pages", "page_writes"],
            rows,
        )
    }
}
