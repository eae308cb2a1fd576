//! TATP, formerly TM-1, by its description.

use rand_pcg::Pcg64Mcg;
use registry::Info;
use units::SourceError;

use super::layout::{Heap, Layout, units_of};
use super::tree::Tree;
use super::{
    Access, Benchmark, Built, Database, PAGE, Transaction, TransactionSource, below, bytes,
    generators, nurand,
};
use crate::synth::Permutation;

pub(super) const BENCHMARK: Benchmark = Benchmark {
    info: Info {
        name: "tatp",
        aliases: &["tm_1", "tm1"],
        summary: "TATP (TM-1): a mobile network's register of subscribers, 80 % of whose \
                  transactions read",
        source: "TATP Benchmark Description 1.0, chapters 2 and 3; Nokia's Network Database \
                 Benchmark",
        params: &[bytes("2400M"), PAGE],
    },
    build: |built| Box::new(Tatp::new(built)),
};

const KINDS: [&str; 7] = [
    "get_subscriber_data",
    "get_new_destination",
    "get_access_data",
    "update_subscriber_data",
    "update_location",
    "insert_call_forwarding",
    "delete_call_forwarding",
];
/// End of each kind's share of the mix, in per cent.
const MIX_ENDS: [u32; 7] = [35, 45, 80, 82, 96, 98, 100];
/// In a hundred thousand: a subscriber has each of the four types with 5/8.
const HAS_TYPE: u32 = 62_500;
/// A forwarding of one given start is there: 5/8 of a facility, 1/2 of a start.
const HAS_FORWARDING: u32 = 31_250;
const MOST_TYPES: u32 = 4;

/// Bytes of the columns, as PostgreSQL stores them with alignment.
const SUBSCRIBER_BYTES: u32 = 4 + 16 + 30 * 2 + 2 + 8;
const ACCESS_BYTES: u32 = 4 + 2 + 2 + 2 + 4 + 6;
const FACILITY_BYTES: u32 = 4 + 2 + 2 + 2 + 2 + 6;
const FORWARDING_BYTES: u32 = 4 + 2 + 2 + 2 + 16;

/// A subscriber's rows of a table lie side by side: 2.5 accesses and facilities and 3.75
/// forwardings on average, at that many times its own place. A subscriber's place is by a
/// permutation, as the description's loader has it. Rows of forwardings that are deleted make room
/// for those that are inserted, so that the table does not grow.
struct Tatp {
    database: Database,
    subscribers: u32,
    skew: u32,
    place: Permutation,
    relations: Relations,
    clients: Vec<Pcg64Mcg>,
}

#[derive(Clone, Copy)]
struct Relations {
    subscriber: Heap,
    subscriber_key: Tree,
    number_key: Tree,
    access: Heap,
    access_key: Tree,
    facility: Heap,
    facility_key: Tree,
    forwarding: Heap,
    forwarding_key: Tree,
}

fn lay_out(subscribers: u64, page_bytes: u32) -> (Layout, Relations) {
    let mut layout = Layout::new(page_bytes);
    let (halves, quarters) = (subscribers * 5 / 2 + 4, subscribers * 15 / 4 + 4);
    let relations = Relations {
        subscriber: layout.heap("subscriber", subscribers, SUBSCRIBER_BYTES),
        subscriber_key: layout.tree("subscriber_key", subscribers, 4),
        number_key: layout.tree("subscriber_number", subscribers, 16),
        access: layout.heap("access_info", halves, ACCESS_BYTES),
        access_key: layout.tree("access_info_key", halves, 6),
        facility: layout.heap("special_facility", halves, FACILITY_BYTES),
        facility_key: layout.tree("special_facility_key", halves, 6),
        forwarding: layout.heap("call_forwarding", quarters, FORWARDING_BYTES),
        forwarding_key: layout.tree("call_forwarding_key", quarters, 8),
    };
    (layout, relations)
}

impl Tatp {
    fn new(built: &Built<'_>) -> Self {
        let page = built.args.integer("page") as u32;
        const SAMPLE: u64 = 1 << 20;
        let wanted = built.args.integer("bytes") as f64;
        let of_all = lay_out(SAMPLE, page).0.bytes() as f64;
        let subscribers = units_of((wanted * SAMPLE as f64 / of_all) as u64, 1);
        let (layout, relations) = lay_out(subscribers, page);
        let scale = vec![("subscribers", subscribers)];
        let subscribers = subscribers as u32;
        Self {
            database: layout.finish(built.name.clone(), &KINDS, scale),
            subscribers,
            skew: match subscribers {
                ..=1_000_000 => 65_535,
                1_000_001..=10_000_000 => 1_048_575,
                _ => 2_097_151,
            },
            place: Permutation::new(subscribers, built.seed ^ 0x7461_7470),
            relations,
            clients: generators(built.clients, built.seed),
        }
    }
}

impl TransactionSource for Tatp {
    fn database(&self) -> &Database {
        &self.database
    }

    fn next(&mut self, client: u32, transaction: &mut Transaction) -> Result<bool, SourceError> {
        let rng = &mut self.clients[client as usize];
        let drawn = below(rng, 100);
        let kind = MIX_ENDS.iter().position(|&end| drawn < end).unwrap_or(KINDS.len() - 1);
        let id = nurand(rng, self.skew, 0, self.subscribers);
        let kind_of_row = below(rng, MOST_TYPES);
        let chance = below(rng, 100_000);
        (transaction.kind, transaction.think) = (kind as u8, 0);
        let out = &mut transaction.accesses;
        out.clear();
        let one = One { relations: &self.relations, id, place: self.place.apply(id), kind_of_row };
        match kind {
            0 => one.subscriber(false, out),
            1 => one.new_destination(chance, out),
            2 => one.access_data(chance < HAS_TYPE, out),
            3 => {
                one.subscriber(true, out);
                one.facility(true, chance < HAS_TYPE, out);
            }
            4 => one.by_number(true, out),
            5 => {
                one.by_number(false, out);
                one.facility(false, true, out);
                one.forwarding(chance < HAS_FORWARDING, out);
            }
            _ => {
                one.by_number(false, out);
                one.forwarding(chance < HAS_FORWARDING, out);
            }
        }
        Ok(true)
    }
}

/// A transaction's subscriber.
struct One<'a> {
    relations: &'a Relations,
    id: u32,
    place: u32,
    kind_of_row: u32,
}

impl One<'_> {
    /// The number, in order, of the row of a kind, of `five` rows for `two` subscribers.
    fn child(of: u32, five: u32, two: u32, kind_of_row: u32) -> u32 {
        let first = u64::from(of) * u64::from(five) / u64::from(two);
        first as u32 + kind_of_row * five / (two * MOST_TYPES)
    }

    fn subscriber(&self, is_write: bool, out: &mut Vec<Access>) {
        self.relations.subscriber_key.search(u64::from(self.id), false, out);
        out.push(self.relations.subscriber.access(self.place, is_write));
    }

    fn by_number(&self, is_write: bool, out: &mut Vec<Access>) {
        self.relations.number_key.search(u64::from(self.id), false, out);
        out.push(self.relations.subscriber.access(self.place, is_write));
    }

    fn access_data(&self, is_there: bool, out: &mut Vec<Access>) {
        let entry = Self::child(self.id, 5, 2, self.kind_of_row);
        self.relations.access_key.search(u64::from(entry), false, out);
        if is_there {
            let row = Self::child(self.place, 5, 2, self.kind_of_row);
            out.push(self.relations.access.access(row, false));
        }
    }

    fn facility(&self, is_write: bool, is_there: bool, out: &mut Vec<Access>) {
        let entry = Self::child(self.id, 5, 2, self.kind_of_row);
        self.relations.facility_key.search(u64::from(entry), false, out);
        if is_there {
            let row = Self::child(self.place, 5, 2, self.kind_of_row);
            out.push(self.relations.facility.access(row, is_write));
        }
    }

    /// The facility, and if it is there and active (0.85) its forwardings: one row in two cases of
    /// three, whatever its times.
    fn new_destination(&self, chance: u32, out: &mut Vec<Access>) {
        self.facility(false, chance < HAS_TYPE, out);
        if chance < HAS_TYPE * 85 / 100 {
            let entry = Self::child(self.id, 15, 4, self.kind_of_row);
            self.relations.forwarding_key.search(u64::from(entry), false, out);
            if chance.is_multiple_of(3) {
                return;
            }
            let row = Self::child(self.place, 15, 4, self.kind_of_row);
            out.push(self.relations.forwarding.access(row, false));
        }
    }

    /// Inserted or deleted, if that is possible; otherwise only looked for.
    fn forwarding(&self, is_possible: bool, out: &mut Vec<Access>) {
        let entry = Self::child(self.id, 15, 4, self.kind_of_row);
        self.relations.forwarding_key.search(u64::from(entry), is_possible, out);
        if is_possible {
            let row = Self::child(self.place, 15, 4, self.kind_of_row);
            out.push(self.relations.forwarding.access(row, true));
        }
    }
}
