//! Static wear levelling: cold data is moved onto worn erase blocks.

use placement::{Placement, Victim};
use units::EraseBlockId;

use crate::drive::profile::{StaticRule, WearLevellingConfig};
use ftl::PageMapped;

/// The rules of REPLICATION 5.1: an erase block is migrated when it "is with less than 85 percent
/// remaining lifetime or the variance of the remaining lifetime among all blocks is above 20
/// percent". The simulator that the paper uses takes the first relative to the mean of all erase
/// blocks (Agrawal et al., USENIX ATC 2008, section 3.4), as we do: a fixed limit, once passed by
/// all, would make it move data for ever. The second is the standard deviation over the mean.
///
/// It moves the data of the least worn closed erase block of the plane, which is cold since it was
/// not reclaimed; that hardly worn erase block becomes free, and is written next.
#[derive(Debug)]
pub(super) struct StaticWear {
    rule: StaticRule,
    life_below: f64,
    spread_above: f64,
    /// Mean number of erases that an erase block endures.
    life: f64,
    /// Number of cleanings since the last check of a lane: a check takes time in proportion to its
    /// erase blocks.
    since: u32,
}

/// Cleanings between two checks.
const EVERY: u32 = 16;

impl StaticWear {
    pub fn new(config: &WearLevellingConfig, endurance: &[u32]) -> Self {
        let good = endurance.iter().filter(|&&endurance| endurance > 0);
        let (count, sum) = good
            .fold((0u32, 0.0), |(count, sum), &endurance| (count + 1, sum + f64::from(endurance)));
        let life = if count == 0 { f64::INFINITY } else { sum / f64::from(count) };
        Self {
            rule: config.static_rule,
            life_below: config.life_below,
            spread_above: config.spread_above,
            life,
            since: 0,
        }
    }

    /// The closed erase block whose data is to be moved now, if the rules require it.
    pub fn cold_block<P: Placement, V: Victim>(
        &mut self,
        ftl: &PageMapped<P, V>,
        lane: u32,
    ) -> Option<EraseBlockId> {
        if matches!(self.rule, StaticRule::None | StaticRule::Age) || self.life.is_infinite() {
            return None;
        }
        self.since += 1;
        if self.since < EVERY {
            return None;
        }
        self.since = 0;
        let worn = self.worn_share(ftl, lane)?;
        if !worn {
            return None;
        }
        let erased = ftl.erase_counts();
        let coldest =
            ftl.closed_blocks(lane, None).into_iter().min_by_key(|block| erased[block.index()])?;
        let most = ftl.lanes().blocks_of(lane).map(|block| erased[block as usize]).max()?;
        // An erase block as worn as the most worn one has nothing to give.
        (erased[coldest.index()] < most).then_some(coldest)
    }

    /// Decides whether the wear of a lane requires a move.
    fn worn_share<P: Placement, V: Victim>(
        &self,
        ftl: &PageMapped<P, V>,
        lane: u32,
    ) -> Option<bool> {
        let erased = ftl.erase_counts();
        let left = |block: u32| (self.life - f64::from(erased[block as usize])).max(0.0);
        let blocks = ftl.lanes().blocks_of(lane);
        let count = blocks.len() as f64;
        let mean = blocks.clone().map(left).sum::<f64>() / count;
        if mean <= 0.0 {
            return None;
        }
        let least = blocks.clone().map(left).fold(f64::INFINITY, f64::min);
        let variance = blocks.map(|block| (left(block) - mean).powi(2)).sum::<f64>() / count;
        let by_life = least < self.life_below * mean;
        let by_spread = variance.sqrt() > self.spread_above * mean;
        Some(match self.rule {
            // The FTL itself moves data that has lain for long.
            StaticRule::None | StaticRule::Age => false,
            StaticRule::Life => by_life,
            StaticRule::Spread => by_spread,
            StaticRule::LifeOrSpread => by_life || by_spread,
        })
    }
}
