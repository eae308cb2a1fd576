//! Victim indexes against plain searches: each choice of an exact policy is checked over random
//! histories of closing, invalidation and removal, in several domains.

#![allow(clippy::unwrap_used, reason = "a helper of tests that fails the test")]

use placement::{AnyVictim, Block, Device, Victim, build_victim};
use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64Mcg;
use registry::Spec;
use units::{EraseBlockId, Geometry};

/// Plain tables of the erase blocks, to search in.
struct Plain {
    device: Device,
    domain: Vec<Option<usize>>,
    closed_at: Vec<u64>,
    modified_at: Vec<u64>,
    /// The clock when it was closed; `closed_at` is a unique number for each.
    filled_at: Vec<u64>,
    /// For each domain the members of its window, for Window-Greedy.
    windows: Vec<Vec<u32>>,
    window: usize,
}

impl Plain {
    fn members(&self, domain: usize) -> Vec<u32> {
        (0..self.domain.len() as u32)
            .filter(|&block| self.domain[block as usize] == Some(domain))
            .collect()
    }

    fn valid(&self, block: u32) -> u32 {
        self.device.blocks[block as usize].valid
    }

    fn used(&self, block: u32) -> f64 {
        f64::from(self.valid(block)) / f64::from(self.device.geometry.pages_per_erase_block)
    }

    fn age(&self, policy: &str, block: u32) -> f64 {
        let is_filled = policy.ends_with("(age=closed)") || policy == "lfs_cost_benefit";
        let since = if is_filled { &self.filled_at } else { &self.modified_at };
        (self.device.clock - since[block as usize]) as f64
    }

    fn fill_window(&mut self, domain: usize) {
        let mut oldest = self.members(domain);
        oldest.sort_by_key(|&block| self.closed_at[block as usize]);
        for block in oldest {
            if self.windows[domain].len() < self.window && !self.windows[domain].contains(&block) {
                self.windows[domain].push(block);
            }
        }
    }

    fn forget(&mut self, block: u32) {
        self.domain[block as usize] = None;
        self.windows.iter_mut().for_each(|window| window.retain(|&other| other != block));
    }

    /// Returns true if the policy may choose this block of the domain.
    fn may_choose(&self, policy: &str, domain: usize, chosen: u32) -> bool {
        let members = self.members(domain);
        let is_best = |benefit: &dyn Fn(u32) -> f64| {
            let most =
                members.iter().map(|&block| benefit(block)).fold(f64::NEG_INFINITY, f64::max);
            benefit(chosen) >= most * (1.0 - 1e-12)
        };
        let weighed = |cost: fn(f64) -> f64| {
            is_best(&|block| match self.used(block) {
                0.0 => f64::INFINITY,
                used => self.age(policy, block) * (1.0 - used) / cost(used),
            })
        };
        members.contains(&chosen)
            && match policy.split('(').next().unwrap() {
                "lru" => members.iter().all(|&block| {
                    self.closed_at[block as usize] >= self.closed_at[chosen as usize]
                }),
                "greedy" => members.iter().all(|&block| self.valid(block) >= self.valid(chosen)),
                "window_greedy" => {
                    let window = &self.windows[domain];
                    window.contains(&chosen)
                        && window.iter().all(|&block| self.valid(block) >= self.valid(chosen))
                }
                "cost_benefit" => weighed(|used| 2.0 * used),
                "lfs_cost_benefit" => weighed(|used| 1.0 + used),
                "random" | "d_choices" => true,
                other => panic!("{other} has no plain search here: add one"),
            }
    }
}

fn step(policy: &str, plain: &mut Plain, victim: &mut AnyVictim, random: &mut Pcg64Mcg) {
    let blocks = plain.domain.len() as u32;
    let domains = plain.windows.len();
    let pages = plain.device.geometry.pages_per_erase_block;
    plain.device.clock += random.random_range(0..3);
    let block = random.random_range(0..blocks);
    let index = block as usize;
    match random.random_range(0..10) {
        0..2 if plain.domain[index].is_none() => {
            let domain = random.random_range(0..domains);
            let valid = random.random_range(pages / 2..=pages) as u16;
            plain.device.blocks[index] = Block { valid: valid.into(), stream: domain as u16 };
            plain.domain[index] = Some(domain);
            plain.closed_at[index] = plain.closed_at.iter().max().unwrap() + 1;
            plain.modified_at[index] = plain.device.clock;
            plain.filled_at[index] = plain.device.clock;
            victim.closed(EraseBlockId(block), domain, &plain.device);
        }
        2..8 if plain.valid(block) > 0 => {
            plain.device.blocks[index].valid -= 1;
            plain.modified_at[index] = plain.device.clock;
            victim.invalidated(
                EraseBlockId(block),
                plain.domain[index].unwrap_or(0),
                &plain.device,
            );
        }
        8 => {
            let domain = random.random_range(0..domains);
            plain.fill_window(domain);
            match victim.choose(domain, &plain.device) {
                None => assert!(plain.members(domain).is_empty(), "{policy} finds nothing"),
                Some(EraseBlockId(chosen)) => {
                    assert!(
                        plain.may_choose(policy, domain, chosen),
                        "{policy} chooses erase block {chosen}"
                    );
                    plain.forget(chosen);
                }
            }
        }
        9 if random.random_range(0..4) == 0 => {
            if let Some(domain) = plain.domain[index] {
                victim.remove(EraseBlockId(block), domain, &plain.device);
                plain.forget(block);
            }
        }
        _ => {}
    }
}

#[test]
fn every_choice_is_one_that_a_plain_search_allows() {
    let mut policies: Vec<String> =
        placement::VICTIMS.iter().map(|info| info.name.to_owned()).collect();
    let others = [
        "window_greedy(window=0)",
        "window_greedy(window=1)",
        "cost_benefit(age=closed)",
        "lfs_cost_benefit(age=invalidated)",
    ];
    policies.extend(others.map(str::to_owned));
    for seed in 0..60 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let pages_per_erase_block = [2, 3, 8, 64, 100][random.random_range(0..5)];
        let erase_blocks = random.random_range(4..200);
        let geometry = Geometry {
            page_bytes: 4096,
            pages_per_erase_block,
            logical_pages: pages_per_erase_block * erase_blocks / 2,
            erase_blocks,
        };
        let domains = random.random_range(1..4);
        for policy in &policies {
            let context = placement::Context::new(geometry, seed);
            let spec = Spec::parse(policy).unwrap();
            let mut victim = build_victim(&spec, &context, domains).unwrap();
            let share = spec.given.first().map_or(0.1, |(_, value)| value.parse().unwrap_or(0.1));
            let mut plain = Plain {
                device: Device::new(geometry, domains),
                domain: vec![None; erase_blocks as usize],
                closed_at: vec![0; erase_blocks as usize],
                modified_at: vec![0; erase_blocks as usize],
                filled_at: vec![0; erase_blocks as usize],
                windows: vec![Vec::new(); domains],
                window: ((share * f64::from(erase_blocks)).round() as usize).max(1),
            };
            for _ in 0..2000 {
                step(policy, &mut plain, &mut victim, &mut random);
            }
        }
    }
}
