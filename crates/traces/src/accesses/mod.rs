//! Page accesses of transactions, as a database's buffer manager sees them.
//!
//! A [`TransactionSource`] gives one whole transaction after the other to whichever client asks. A
//! trace of a recorded load is one ([`AccessTrace`]); [`REGISTRY`] has benchmarks by their
//! specification, whose databases can be of any size, as no page of them exists.

mod file;
mod layout;
mod tatp;
#[cfg(test)]
mod tests;
mod tpcb;
mod tpcc;
mod trace;
mod tree;

use std::sync::Arc;

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use registry::{Args, Info, Param, ParamKind, Spec, SpecError};
use units::{Nanos, SourceError};

pub use file::{COLUMNS, PAGE_BYTES_KEY, RELATION_KEY};
pub use trace::{AccessTrace, TraceCounts};

/// Stands for a row that is not known.
pub const NO_ROW: u32 = u32::MAX;

/// One access to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The page, numbered through the whole database.
    pub page: u32,
    /// The row in it that is meant, numbered through the whole database; [`NO_ROW`] if it is not
    /// known.
    pub row: u32,
    /// The relation that the page is of, by its place in [`Database::relations`].
    pub relation: u16,
    /// It changes the page.
    pub is_write: bool,
    /// A transaction keeps it from others until it ends. Pages of indexes are only latched for the
    /// moment of the access, as databases do; a read that its benchmark allows to be inexact
    /// needs no lock either.
    pub is_locked: bool,
}

/// One transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Kind of the transaction, by its place in [`Database::kinds`].
    pub kind: u8,
    /// Time that the client waits before it, in nanoseconds.
    pub think: Nanos,
    /// Its accesses, in order; there may be none.
    pub accesses: Vec<Access>,
}

/// A table or an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Its name.
    pub name: String,
    /// It is an index.
    pub is_index: bool,
    /// Its first page.
    pub first_page: u32,
    /// Pages, of which a table that grows may not have used all yet.
    pub pages: u32,
}

/// The database that transactions access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Name, as the user gave it.
    pub name: String,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages of all relations.
    pub pages: u32,
    /// Rows that are numbered; 0 if none is.
    pub rows: u32,
    /// Tables and indexes, one after the other. None if the source does not know them.
    pub relations: Vec<Relation>,
    /// Names of the kinds of transaction.
    pub kinds: Vec<&'static str>,
    /// Quantities from which its size follows, such as `warehouses`, for reports.
    pub scale: Vec<(&'static str, u64)>,
}

impl Database {
    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.page_bytes)
    }
}

/// Whoever has transactions.
pub trait TransactionSource: Send {
    /// Gives the database that they access.
    fn database(&self) -> &Database;

    /// Gives their number; `None` if there is no end.
    fn transactions(&self) -> Option<u64> {
        None
    }

    /// Puts the next transaction of this client, counted from 0, into `transaction`. Returns true
    /// if there was one.
    ///
    /// # Errors
    /// [`SourceError`] if it cannot be read.
    fn next(&mut self, client: u32, transaction: &mut Transaction) -> Result<bool, SourceError>;
}

/// A benchmark in the registry.
#[derive(Debug)]
pub struct Benchmark {
    /// Name, parameters, source.
    pub info: Info,
    build: fn(&Built<'_>) -> Box<dyn TransactionSource>,
}

/// All benchmarks.
pub static REGISTRY: &[Benchmark] = &[tpcc::BENCHMARK, tpcb::BENCHMARK, tatp::BENCHMARK];

/// Inputs from which a benchmark is built.
struct Built<'a> {
    name: String,
    args: &'a Args,
    clients: u32,
    seed: u64,
}

/// A benchmark that was asked for by a spec.
#[derive(Clone, Debug)]
pub struct BenchmarkLoad {
    entry: &'static Benchmark,
    args: Arc<Args>,
    name: String,
}

impl BenchmarkLoad {
    /// Reads a spec: `tpcc`, `tpcb(bytes=2200M)`.
    ///
    /// # Errors
    /// [`SpecError`] for an unknown benchmark or key, or a value that is wrong.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let spec = Spec::parse(text)?;
        let entry = registry::find("benchmark", REGISTRY, |entry| &entry.info, &spec)?;
        let args = entry.info.accept(&spec)?;
        if !args.integer("page").is_power_of_two() {
            return Err(SpecError::BadValue {
                name: entry.info.name,
                key: "page".to_owned(),
                value: args.integer("page").to_string(),
                right: "a power of two".to_owned(),
            });
        }
        Ok(Self { entry, args: Arc::new(args), name: spec.to_string() })
    }

    /// Name, parameters, source.
    #[must_use]
    pub fn info(&self) -> &'static Info {
        &self.entry.info
    }

    /// The parameters, defaults filled in.
    #[must_use]
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// The load of `clients` clients, which never ends. What a client draws depends on the seed and
    /// its number alone; which rows its transactions find, on those of the others before, too.
    ///
    /// # Panics
    /// If there is no client.
    #[must_use]
    pub fn source(&self, clients: u32, seed: u64) -> Box<dyn TransactionSource> {
        assert!(clients > 0, "somebody has to ask");
        let name = self.name.clone();
        (self.entry.build)(&Built { name, args: &self.args, clients, seed })
    }
}

const fn bytes(default: &'static str) -> Param {
    Param {
        name: "bytes",
        kind: ParamKind::Bytes { min: 1 << 20, max: 1 << 42 },
        default,
        help: "size of the database, as near as whole units of its scale get; at least one unit",
    }
}

const PAGE: Param = Param {
    name: "page",
    kind: ParamKind::Bytes { min: 1024, max: 65_536 },
    default: "8Ki",
    help: "bytes of a page: a power of two; PostgreSQL's are 8 KiB",
};

const GROWTH: Param = Param {
    name: "growth",
    kind: ParamKind::Number { min: 0.01, max: 10.0 },
    default: "10%",
    help: "room for new rows, as a share of those at the start; when it is full, the oldest rows \
           give way, as if they had been archived",
};

/// A generator for each client, so that what one draws does not depend on when the others did.
fn generators(clients: u32, seed: u64) -> Vec<Pcg64Mcg> {
    use rand::SeedableRng as _;
    (0..u64::from(clients))
        .map(|client| {
            Pcg64Mcg::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(client))
        })
        .collect()
}

/// A whole number of 0 ... `bound` - 1.
#[inline]
fn below(rng: &mut Pcg64Mcg, bound: u32) -> u32 {
    ((u128::from(rng.next_u64()) * u128::from(bound)) >> 64) as u32
}

/// A whole number of `from` ... `to`.
#[inline]
fn within(rng: &mut Pcg64Mcg, from: u32, to: u32) -> u32 {
    from + below(rng, to - from + 1)
}

/// With this probability in a thousand.
#[inline]
fn happens(rng: &mut Pcg64Mcg, in_thousand: u32) -> bool {
    below(rng, 1000) < in_thousand
}

/// TPC-C 2.1.6, also TATP's: a number of 0 ... `bound` - 1, not uniformly.
#[inline]
fn nurand(rng: &mut Pcg64Mcg, a: u32, constant: u32, bound: u32) -> u32 {
    let drawn = u64::from(within(rng, 0, a) | below(rng, bound)) + u64::from(constant);
    (drawn % u64::from(bound)) as u32
}
