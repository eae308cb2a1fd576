//! TPC-B by its specification.

use rand_pcg::Pcg64Mcg;
use registry::{Info, Param, ParamKind};
use units::SourceError;

use super::layout::{Appender, Heap, Layout, units_of};
use super::tree::Tree;
use super::{
    Benchmark, Built, Database, GROWTH, PAGE, Transaction, TransactionSource, below, bytes,
    generators, happens,
};

pub(super) const BENCHMARK: Benchmark = Benchmark {
    info: Info {
        name: "tpcb",
        aliases: &["tpc_b"],
        summary: "TPC-B: each transaction changes an account, its teller and its branch, and adds \
                  a line of history",
        source: "TPC Benchmark B 2.0, clauses 1.2, 3.2, 4.2, 5.3; rows of 100 and 50 bytes",
        params: &[
            bytes("2200M"),
            PAGE,
            GROWTH,
            Param {
                name: "remote",
                kind: ParamKind::Number { min: 0.0, max: 1.0 },
                default: "15%",
                help: "accounts of another branch than the teller's (clause 5.3.5); pgbench draws \
                       all of any branch, which is nearly 1",
            },
        ],
    },
    build: |built| Box::new(TpcB::new(built)),
};

const ACCOUNTS: u32 = 100_000;
const TELLERS: u32 = 10;
const ROW_BYTES: u32 = 100;
const HISTORY_BYTES: u32 = 50;
/// History for the start: the specification has none then. Here as many rows as accounts, a
/// tenth, lie there, and what comes goes around in that room and [`GROWTH`]'s.
const HISTORY_PER_BRANCH: u64 = 10_000;

struct TpcB {
    database: Database,
    branches: u32,
    remote: u32,
    accounts: (Heap, Tree),
    tellers: (Heap, Tree),
    branch: (Heap, Tree),
    history: Heap,
    appender: Appender,
    clients: Vec<Pcg64Mcg>,
}

struct Relations {
    layout: Layout,
    accounts: (Heap, Tree),
    tellers: (Heap, Tree),
    branch: (Heap, Tree),
    history: Heap,
}

fn lay_out(branches: u64, page_bytes: u32, growth: f64) -> Relations {
    let mut layout = Layout::new(page_bytes);
    let mut keyed = |name: &str, rows: u64| {
        let heap = layout.heap(name, rows, ROW_BYTES);
        (heap, layout.tree(&format!("{name}_key"), rows, 4))
    };
    let accounts = keyed("accounts", branches * u64::from(ACCOUNTS));
    let tellers = keyed("tellers", branches * u64::from(TELLERS));
    let branch = keyed("branches", branches);
    let rows = (branches * HISTORY_PER_BRANCH) as f64 * (1.0 + growth);
    let history = layout.heap("history", rows as u64, HISTORY_BYTES);
    Relations { layout, accounts, tellers, branch, history }
}

impl TpcB {
    fn new(built: &Built<'_>) -> Self {
        let (page, growth) = (built.args.integer("page") as u32, built.args.number("growth"));
        let of_one = lay_out(64, page, growth).layout.bytes() / 64;
        let branches = units_of(built.args.integer("bytes"), of_one);
        let Relations { layout, accounts, tellers, branch, history } =
            lay_out(branches, page, growth);
        let used = (branches * HISTORY_PER_BRANCH) as u32;
        let scale = vec![("branches", branches)];
        Self {
            database: layout.finish(built.name.clone(), &["account_update"], scale),
            branches: branches as u32,
            remote: (built.args.number("remote") * 1000.0).round() as u32,
            accounts,
            tellers,
            branch,
            history,
            appender: Appender::new(history, used, built.clients),
            clients: generators(built.clients, built.seed),
        }
    }
}

impl TransactionSource for TpcB {
    fn database(&self) -> &Database {
        &self.database
    }

    fn next(&mut self, client: u32, transaction: &mut Transaction) -> Result<bool, SourceError> {
        let rng = &mut self.clients[client as usize];
        let teller = below(rng, self.branches * TELLERS);
        let branch = teller / TELLERS;
        let home = if self.branches > 1 && happens(rng, self.remote) {
            let other = below(rng, self.branches - 1);
            other + u32::from(other >= branch)
        } else {
            branch
        };
        let account = home * ACCOUNTS + below(rng, ACCOUNTS);
        (transaction.kind, transaction.think) = (0, 0);
        let out = &mut transaction.accesses;
        out.clear();
        for ((heap, tree), row) in
            [(&self.accounts, account), (&self.tellers, teller), (&self.branch, branch)]
        {
            tree.search(u64::from(row), false, out);
            out.push(heap.access(row, true));
        }
        out.push(self.history.access(self.appender.place(client, 1), true));
        Ok(true)
    }
}
