//! Zones that are written as wholes, as by software that was made for zoned drives.

use rand_pcg::Pcg64Mcg;
use registry::{Info, Param, ParamKind, SpecError};

use super::{Entry, Inputs, Offsets, below, params};

pub(super) const ENTRY: Entry = Entry {
    info: Info {
        name: "zones",
        aliases: &["zns"],
        summary: "some zones at a time, each written in order; a full one is followed by another \
                  drawn at random, which is trimmed first",
        source: "Haas, Lee, Bonnet & Leis (SSD-iq), VLDB 2025: the pattern `zns`",
        params: params![
            Param {
                name: "zone",
                kind: ParamKind::Bytes { min: 512, max: u32::MAX as u64 - 511 },
                default: "64Mi",
                help: "bytes of a zone, below 4 GiB; what does not hold a whole request is left",
            },
            Param {
                name: "active",
                kind: ParamKind::Integer { min: 1, max: 1 << 20 },
                default: "1",
                help: "zones that are written at a time",
            },
            Param {
                name: "next",
                kind: ParamKind::Choice(&["random", "turns"]),
                default: "random",
                help: "to which of them the next request goes: drawn, or each in turn",
            },
        ],
    },
    build,
};

fn build(inputs: &Inputs<'_>) -> Result<Box<dyn Offsets>, SpecError> {
    let step = inputs.step();
    let zone = inputs.args.integer("zone") / step * step;
    if zone == 0 {
        return Err(inputs.bad("zone", format!("at least {step}, a request")));
    }
    let (zones, active) = (inputs.length / zone, inputs.args.integer("active"));
    if active >= zones {
        return Err(inputs.bad("active", format!("below {zones}, the zones of the range")));
    }
    let mut found = Zones {
        step,
        zone,
        zones,
        takes_turns: inputs.args.text("next") == "turns",
        turn: 0,
        active: Vec::with_capacity(active as usize),
        rng: inputs.random(),
    };
    for _ in 0..active {
        let fresh = found.draw();
        found.active.push(fresh);
    }
    Ok(Box::new(found))
}

#[derive(Clone, Copy)]
struct Active {
    zone: u64,
    /// Bytes written of it.
    written: u64,
}

#[derive(Clone)]
struct Zones {
    /// From the start of a request to that of the next.
    step: u64,
    zone: u64,
    zones: u64,
    takes_turns: bool,
    turn: usize,
    active: Vec<Active>,
    rng: Pcg64Mcg,
}

impl Zones {
    /// A zone that is not written now.
    fn draw(&mut self) -> Active {
        loop {
            let zone = below(&mut self.rng, self.zones);
            if self.active.iter().all(|active| active.zone != zone) {
                return Active { zone, written: 0 };
            }
        }
    }
}

impl Offsets for Zones {
    fn fill(&mut self, buffer: &mut [u64]) {
        for offset in buffer {
            let chosen = if self.takes_turns {
                self.turn = (self.turn + 1) % self.active.len();
                self.turn
            } else {
                below(&mut self.rng, self.active.len() as u64) as usize
            };
            let Active { zone, written } = self.active[chosen];
            *offset = zone * self.zone + written;
            self.active[chosen].written += self.step;
            if self.active[chosen].written == self.zone {
                self.active[chosen] = self.draw();
            }
        }
    }

    fn copy(&self) -> Box<dyn Offsets> {
        Box::new(self.clone())
    }

    fn trimmed_zones(&self) -> Option<u64> {
        Some(self.zone)
    }
}
