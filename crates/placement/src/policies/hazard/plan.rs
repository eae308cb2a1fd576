//! The plan of the streams: their number, the hazards that each takes, and the price of space.

/// Number of ages at which a stream may be cleaned, four per octave, from one tick on.
const AGES: usize = 72;

/// Cells whose hazards differ by a smaller factor are planned as one.
const ALIKE: f64 = 1.12;

/// Pages of about the same hazard.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub pages: f64,
    /// Mean deaths per page and tick.
    pub hazard: f64,
}

/// The streams, from the lowest hazard to the highest.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Mean hazard of the pages of each stream.
    pub hazards: Vec<f64>,
    /// The least hazard of each stream but the first.
    pub from: Vec<f64>,
    /// Price of a page of space, in writes per tick.
    pub price: f64,
}

/// The space to be planned.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// Number of pages that may be filled.
    pub pages: f64,
    pub pages_per_erase_block: f64,
    pub most_streams: usize,
}

/// Cells in ascending order of hazard; similar ones are joined.
pub fn groups(cells: &mut [Group]) -> Vec<Group> {
    cells.sort_unstable_by(|a, b| a.hazard.total_cmp(&b.hazard));
    let mut groups: Vec<Group> = Vec::new();
    let mut first = 0.0;
    for cell in cells.iter().filter(|cell| cell.pages > 0.0) {
        match groups.last_mut() {
            Some(last) if cell.hazard <= first * ALIKE => {
                let deaths = last.pages * last.hazard + cell.pages * cell.hazard;
                last.pages += cell.pages;
                last.hazard = deaths / last.pages;
            }
            _ => {
                first = cell.hazard;
                groups.push(*cell);
            }
        }
    }
    groups
}

/// Divides the groups into contiguous streams so that the sum of writes and the price of space is
/// least, at the price at which the space is just filled.
///
/// A stream whose erase blocks are cleaned at age a, with groups of n pages and hazard h, is
/// written W = sum of n h / (1 - exp(-h a)) pages per tick, including relocations: n pages are
/// alive of those written within a. It takes W a pages, and half an erase block that is open. The
/// sum over the streams of W (1 + price a) + price S / 2 is least for contiguous streams, found by
/// dynamic programming.
pub fn plan(groups: &[Group], space: Space, last_price: f64) -> Plan {
    let table = Table::new(groups);
    let mut price = if last_price > 0.0 { last_price } else { 1e-3 };
    let mut divided = table.divide(price, space);
    // If more space is used than there is, the price must rise. The used space falls with the
    // price.
    let (mut low, mut high) = (0.0, f64::INFINITY);
    for _ in 0..40 {
        let used = divided.used;
        if used > space.pages {
            low = price;
        } else {
            high = price;
        }
        if (used / space.pages - 1.0).abs() < 0.002 || (high / low - 1.0) < 0.002 {
            break;
        }
        price = if low == 0.0 {
            high / 2.0
        } else if high.is_infinite() {
            low * 2.0
        } else {
            (low * high).sqrt()
        };
        if !(1e-9..1e3).contains(&price) {
            break;
        }
        divided = table.divide(price, space);
    }
    let means = divided.ends.iter().scan(0, |start, &end| {
        let groups = &groups[std::mem::replace(start, end)..end];
        let pages: f64 = groups.iter().map(|group| group.pages).sum();
        Some(groups.iter().map(|group| group.pages * group.hazard).sum::<f64>() / pages)
    });
    let between = divided.ends[..divided.ends.len() - 1].iter();
    Plan {
        hazards: means.collect(),
        from: between.map(|&end| (groups[end - 1].hazard * groups[end].hazard).sqrt()).collect(),
        price,
    }
}

/// Writes per tick of the first N groups, by the age at which they are cleaned.
struct Table {
    ages: Vec<f64>,
    /// Indexed by group, then age.
    sums: Vec<f64>,
    groups: usize,
}

struct Divided {
    /// Index of the group after the last one of each stream.
    ends: Vec<usize>,
    /// Number of pages that the streams take.
    used: f64,
}

impl Table {
    fn new(groups: &[Group]) -> Self {
        let ages: Vec<f64> = (0..AGES).map(|step| (step as f64 / 4.0).exp2()).collect();
        let mut sums = vec![0.0; (groups.len() + 1) * AGES];
        for (number, group) in groups.iter().enumerate() {
            for (step, age) in ages.iter().enumerate() {
                let dies = -(-group.hazard * age).exp_m1();
                let writes = group.pages * group.hazard / dies;
                sums[(number + 1) * AGES + step] = sums[number * AGES + step] + writes;
            }
        }
        Self { ages, sums, groups: groups.len() }
    }

    /// The least cost of one stream of groups, and its space.
    fn stream(&self, from: usize, to: usize, factors: &[f64]) -> (f64, usize) {
        let low = &self.sums[from * AGES..(from + 1) * AGES];
        let high = &self.sums[to * AGES..(to + 1) * AGES];
        let mut best = (f64::INFINITY, 0);
        for step in 0..AGES {
            let cost = (high[step] - low[step]) * factors[step];
            if cost < best.0 {
                best = (cost, step);
            }
        }
        best
    }

    fn divide(&self, price: f64, space: Space) -> Divided {
        let factors: Vec<f64> = self.ages.iter().map(|age| 1.0 + price * age).collect();
        let mut each = price * space.pages_per_erase_block / 2.0;
        let mut costs = vec![(0.0, 0); (self.groups + 1) * (self.groups + 1)];
        for to in 1..=self.groups {
            for from in 0..to {
                costs[from * (self.groups + 1) + to] = self.stream(from, to, &factors);
            }
        }
        loop {
            let mut best = vec![(0.0, 0); self.groups + 1];
            for to in 1..=self.groups {
                best[to] = (f64::INFINITY, 0);
                for from in 0..to {
                    let cost = best[from].0 + costs[from * (self.groups + 1) + to].0 + each;
                    if cost < best[to].0 {
                        best[to] = (cost, from);
                    }
                }
            }
            let (mut ends, mut to, mut used) = (Vec::new(), self.groups, 0.0);
            while to > 0 {
                let from = best[to].1;
                let step = costs[from * (self.groups + 1) + to].1;
                let writes = self.sums[to * AGES + step] - self.sums[from * AGES + step];
                used += writes * self.ages[step] + space.pages_per_erase_block / 2.0;
                ends.push(to);
                to = from;
            }
            ends.reverse();
            if ends.len() <= space.most_streams {
                return Divided { ends, used };
            }
            each *= 1.5;
        }
    }
}
