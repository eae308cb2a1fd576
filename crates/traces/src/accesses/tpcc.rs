//! TPC-C by its specification: the rows that its five transactions touch.
//!
//! Simplifications, beside those of [`Tree`] and [`Appender`]: every last name is that of three
//! customers of a district, where the specification's population has some names more often; a new
//! order that is rolled back (1 %) does all its work and ends like the others; items of past orders
//! are drawn again from the distribution that they were drawn from; a client takes a warehouse at
//! random for each transaction, as there are fewer clients than terminals.

use rand_pcg::Pcg64Mcg;
use registry::Info;
use units::SourceError;

use super::layout::{Appender, Heap, Layout};
use super::tree::Tree;
use super::{
    Access, Benchmark, Built, Database, GROWTH, PAGE, Transaction, TransactionSource, below, bytes,
    generators, happens, nurand, within,
};

pub(super) const BENCHMARK: Benchmark = Benchmark {
    info: Info {
        name: "tpcc",
        aliases: &["tpc_c"],
        summary: "TPC-C: orders of a wholesaler, five kinds of transaction with non-uniform \
                  choices; 45 % are new orders of 5 to 15 lines",
        source: "TPC Benchmark C 5.11, clauses 1.2, 1.3, 2.1.6, 2.4 - 2.8, 4.3, 5.2.3",
        params: &[bytes("2400M"), PAGE, GROWTH],
    },
    build: |built| Box::new(TpcC::new(built)),
};

const KINDS: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];
/// End of each kind's share of the mix, in per cent: the least of clause 5.2.3 for all but new
/// orders.
const MIX_ENDS: [u32; 5] = [45, 88, 92, 96, 100];

const DISTRICTS: u32 = 10;
const CUSTOMERS: u32 = 3000;
const NAMES: u32 = 1000;
const ITEMS: u32 = 100_000;
const ORDERS: u32 = 3000;
const NEW_ORDERS: u32 = 900;
const LEAST_LINES: u32 = 5;
const MOST_LINES: u32 = 15;
/// Orders whose lines a stock level looks at (2.8.2.2).
const RECENT: u32 = 20;
/// C of the three non-uniform choices (2.1.6.1): any constant will do.
const NAME_CONSTANT: u32 = 123;
const CUSTOMER_CONSTANT: u32 = 259;
const ITEM_CONSTANT: u32 = 7911;

/// Place of an order: its row, its lines, its customer.
#[derive(Clone, Copy, Default)]
struct Order {
    row: u32,
    first_line: u32,
    /// Row in its table of orders to be delivered.
    pending: u32,
    customer: u16,
    lines: u8,
}

#[derive(Clone, Copy)]
struct Relations {
    warehouse: Heap,
    warehouse_key: Tree,
    district: Heap,
    district_key: Tree,
    customer: Heap,
    customer_key: Tree,
    customer_name: Tree,
    history: Heap,
    new_order: Heap,
    new_order_key: Tree,
    orders: Heap,
    orders_key: Tree,
    orders_customer: Tree,
    order_line: Heap,
    order_line_key: Tree,
    item: Heap,
    item_key: Tree,
    stock: Heap,
    stock_key: Tree,
}

/// Orders that a district has room for.
fn room(growth: f64) -> u32 {
    (f64::from(ORDERS) * (1.0 + growth)).ceil() as u32
}

/// Rows have the bytes of clause 1.3 as 4.2.2's example counts them; keys four bytes a number.
fn lay_out(warehouses: u64, page_bytes: u32, growth: f64) -> (Layout, Relations) {
    let mut layout = Layout::new(page_bytes);
    let districts = warehouses * u64::from(DISTRICTS);
    let customers = districts * u64::from(CUSTOMERS);
    let orders = districts * u64::from(room(growth));
    let pending = districts * u64::from(NEW_ORDERS) * 2;
    // A page may end before the lines of an order do: then they begin on the next one.
    let per_page = u64::from(Layout::rows_per_page(page_bytes, 54));
    let most = u64::from(MOST_LINES).min(per_page);
    let lines = orders * u64::from(LEAST_LINES.midpoint(MOST_LINES)) * per_page
        / (per_page - most / 2).max(1);
    let stock = warehouses * u64::from(ITEMS);
    let relations = Relations {
        warehouse: layout.heap("warehouse", warehouses, 89),
        warehouse_key: layout.tree("warehouse_key", warehouses, 4),
        district: layout.heap("district", districts, 95),
        district_key: layout.tree("district_key", districts, 8),
        customer: layout.heap("customer", customers, 655),
        customer_key: layout.tree("customer_key", customers, 12),
        customer_name: layout.tree("customer_name", customers, 8 + 16 + 16),
        history: layout.heap("history", (customers as f64 * (1.0 + growth)) as u64, 46),
        new_order: layout.heap("new_order", pending, 8),
        new_order_key: layout.tree("new_order_key", pending, 12),
        orders: layout.heap("orders", orders, 24),
        orders_key: layout.tree("orders_key", orders, 12),
        orders_customer: layout.tree("orders_customer", orders, 16),
        order_line: layout.heap("order_line", lines, 54),
        order_line_key: layout.tree("order_line_key", orders * u64::from(MOST_LINES), 16),
        item: layout.heap("item", u64::from(ITEMS), 82),
        item_key: layout.tree("item_key", u64::from(ITEMS), 4),
        stock: layout.heap("stock", stock, 306),
        stock_key: layout.tree("stock_key", stock, 8),
    };
    (layout, relations)
}

/// The part that grows: orders, and the last order of each customer.
struct Orders {
    /// Orders of a district that there is room for.
    room: u32,
    /// By district and number modulo `room`.
    places: Vec<Order>,
    /// The next number of each district, and the oldest that is not delivered.
    next: Vec<u32>,
    undelivered: Vec<u32>,
    /// The latest order of each customer.
    latest: Vec<u32>,
    orders: Appender,
    lines: Appender,
    pending: Appender,
    history: Appender,
}

struct TpcC {
    database: Database,
    warehouses: u32,
    relations: Relations,
    orders: Orders,
    clients: Vec<Pcg64Mcg>,
}

impl TpcC {
    fn new(built: &Built<'_>) -> Self {
        let (page, growth) = (built.args.integer("page") as u32, built.args.number("growth"));
        // Items are there once, whatever the number of warehouses.
        let size = |warehouses| lay_out(warehouses, page, growth).0.bytes();
        let (of_one, fixed) = ((size(65) - size(1)) / 64, size(1));
        let beyond = built.args.integer("bytes").saturating_sub(fixed);
        let warehouses = 1 + (beyond + of_one / 2) / of_one;
        let (layout, relations) = lay_out(warehouses, page, growth);
        let scale = vec![("warehouses", warehouses)];
        let warehouses = warehouses as u32;
        let mut clients = generators(built.clients + 1, built.seed);
        let mut loader = clients.pop().unwrap_or_else(|| unreachable!("one more than clients"));
        Self {
            database: layout.finish(built.name.clone(), &KINDS, scale),
            warehouses,
            relations,
            orders: Orders::new(
                &relations,
                warehouses * DISTRICTS,
                room(growth),
                built.clients,
                &mut loader,
            ),
            clients,
        }
    }
}

impl Orders {
    fn new(
        relations: &Relations,
        districts: u32,
        room: u32,
        clients: u32,
        rng: &mut Pcg64Mcg,
    ) -> Self {
        // The load is that of a client of its own, which fills page after page.
        let appender = |heap| Appender::new(heap, 0, clients + 1);
        let mut orders = Self {
            room,
            places: vec![Order::default(); (districts * room) as usize],
            next: vec![0; districts as usize],
            undelivered: vec![0; districts as usize],
            latest: vec![0; (districts * CUSTOMERS) as usize],
            orders: appender(relations.orders),
            lines: appender(relations.order_line),
            pending: appender(relations.new_order),
            history: appender(relations.history),
        };
        for district in 0..districts {
            for number in 0..ORDERS {
                // Each customer has ordered once (4.3.3.1): a fixed permutation, as 1009 and 3000
                // have no common factor.
                let customer = (number * 1009 + district * 17) % CUSTOMERS;
                let is_pending = number >= ORDERS - NEW_ORDERS;
                let lines = within(rng, LEAST_LINES, MOST_LINES);
                orders.enter(clients, district, customer, lines, is_pending);
                orders.history.place(clients, 1);
            }
            orders.undelivered[district as usize] = ORDERS - NEW_ORDERS;
        }
        orders
    }

    fn at(&self, district: u32, number: u32) -> usize {
        (district * self.room + number % self.room) as usize
    }

    /// A new order; gives its number.
    fn enter(
        &mut self,
        client: u32,
        district: u32,
        customer: u32,
        lines: u32,
        is_pending: bool,
    ) -> u32 {
        let number = self.next[district as usize];
        self.next[district as usize] += 1;
        let pending = if is_pending { self.pending.place(client, 1) } else { 0 };
        let order = Order {
            row: self.orders.place(client, 1),
            first_line: self.lines.place(client, lines),
            pending,
            customer: customer as u16,
            lines: lines as u8,
        };
        let at = self.at(district, number);
        self.places[at] = order;
        self.latest[(district * CUSTOMERS + customer) as usize] = number;
        // What there is no room for any more counts as delivered.
        let oldest = (number + 1).saturating_sub(2 * NEW_ORDERS);
        let undelivered = &mut self.undelivered[district as usize];
        *undelivered = (*undelivered).max(oldest);
        number
    }

    /// The order of this number, if it was not archived.
    fn find(&self, district: u32, number: u32) -> Option<Order> {
        let is_there = self.next[district as usize] - number <= self.room;
        is_there.then(|| self.places[self.at(district, number)])
    }

    /// The oldest that is not delivered; it is from now on.
    fn deliver(&mut self, district: u32) -> Option<u32> {
        let number = self.undelivered[district as usize];
        (number < self.next[district as usize]).then(|| {
            self.undelivered[district as usize] += 1;
            number
        })
    }

    /// Entries of indexes: a district's lie side by side.
    fn entry(&self, district: u32, number: u32) -> u64 {
        u64::from(district) * u64::from(self.room) + u64::from(number % self.room)
    }

    fn line_entry(&self, district: u32, number: u32, line: u32) -> u64 {
        self.entry(district, number) * u64::from(MOST_LINES) + u64::from(line)
    }
}

impl TransactionSource for TpcC {
    fn database(&self) -> &Database {
        &self.database
    }

    fn next(&mut self, client: u32, transaction: &mut Transaction) -> Result<bool, SourceError> {
        let rng = &mut self.clients[client as usize];
        let drawn = below(rng, 100);
        let kind = MIX_ENDS.iter().position(|&end| drawn < end).unwrap_or(KINDS.len() - 1);
        (transaction.kind, transaction.think) = (kind as u8, 0);
        transaction.accesses.clear();
        let warehouse = below(rng, self.warehouses);
        let mut step = Step {
            relations: &self.relations,
            orders: &mut self.orders,
            warehouses: self.warehouses,
            client,
            warehouse,
            district: warehouse * DISTRICTS + below(rng, DISTRICTS),
            rng,
            out: &mut transaction.accesses,
        };
        match kind {
            0 => step.new_order(),
            1 => step.payment(),
            2 => step.order_status(),
            3 => step.delivery(),
            _ => step.stock_level(),
        }
        Ok(true)
    }
}

/// A transaction that is being made.
struct Step<'a> {
    relations: &'a Relations,
    orders: &'a mut Orders,
    warehouses: u32,
    client: u32,
    warehouse: u32,
    /// Numbered through all warehouses.
    district: u32,
    rng: &'a mut Pcg64Mcg,
    out: &'a mut Vec<Access>,
}

impl Step<'_> {
    /// A row by a tree whose entries are in its table's order.
    fn row(&mut self, heap: Heap, tree: Tree, row: u32, is_write: bool) {
        tree.search(u64::from(row), false, self.out);
        self.out.push(heap.access(row, is_write));
    }

    fn other_warehouse(&mut self) -> u32 {
        let other = below(self.rng, self.warehouses - 1);
        other + u32::from(other >= self.warehouse)
    }

    fn item(&mut self) -> u32 {
        nurand(self.rng, 8191, ITEM_CONSTANT, ITEMS)
    }

    /// Reads a customer of a district, 60 % by last name (2.5.1.2), changes it if `is_write`, and
    /// gives its number in the district.
    fn customer(&mut self, district: u32, is_write: bool) -> u32 {
        let (heap, tree) = (self.relations.customer, self.relations.customer_key);
        if !happens(self.rng, 600) {
            let customer = nurand(self.rng, 1023, CUSTOMER_CONSTANT, CUSTOMERS);
            self.row(heap, tree, district * CUSTOMERS + customer, is_write);
            return customer;
        }
        let name = nurand(self.rng, 255, NAME_CONSTANT, NAMES);
        let entry = u64::from(district) * u64::from(CUSTOMERS) + u64::from(name * 3);
        self.relations.customer_name.search(entry, false, self.out);
        self.relations.customer_name.scan_on(entry, entry + 2, self.out);
        // In the order of their first names: the one in the middle is meant (2.5.2.2).
        let of_name =
            [name, NAMES + name * 389 % NAMES, 2 * NAMES + (name * 617 + district) % NAMES];
        let middle = of_name[((name + district) % 3) as usize];
        for customer in of_name {
            let is_changed = is_write && customer == middle;
            self.out.push(heap.access(district * CUSTOMERS + customer, is_changed));
        }
        middle
    }

    fn new_order(&mut self) {
        let Relations { warehouse, warehouse_key, district, district_key, .. } = *self.relations;
        self.row(warehouse, warehouse_key, self.warehouse, false);
        self.row(district, district_key, self.district, true);
        let customer = nurand(self.rng, 1023, CUSTOMER_CONSTANT, CUSTOMERS);
        let place = self.district * CUSTOMERS + customer;
        self.row(self.relations.customer, self.relations.customer_key, place, false);
        let lines = within(self.rng, LEAST_LINES, MOST_LINES);
        let number = self.orders.enter(self.client, self.district, customer, lines, true);
        let order = self.orders.places[self.orders.at(self.district, number)];
        let entry = self.orders.entry(self.district, number);
        self.out.push(self.relations.orders.access(order.row, true));
        self.relations.orders_key.search(entry, true, self.out);
        self.relations.orders_customer.search(self.by_customer(customer), true, self.out);
        self.out.push(self.relations.new_order.access(order.pending, true));
        self.relations.new_order_key.search(self.pending_entry(number), true, self.out);
        for line in 0..lines {
            self.order_one(order, number, line);
        }
    }

    fn order_one(&mut self, order: Order, number: u32, line: u32) {
        let Relations { item: heap, item_key, stock, stock_key, .. } = *self.relations;
        let item = self.item();
        self.row(heap, item_key, item, false);
        let is_remote = self.warehouses > 1 && happens(self.rng, 10);
        let from = if is_remote { self.other_warehouse() } else { self.warehouse };
        self.row(stock, stock_key, from * ITEMS + item, true);
        self.out.push(self.relations.order_line.access(order.first_line + line, true));
        let entry = self.orders.line_entry(self.district, number, line);
        self.relations.order_line_key.search(entry, true, self.out);
    }

    fn payment(&mut self) {
        let Relations { warehouse, warehouse_key, district, district_key, .. } = *self.relations;
        self.row(warehouse, warehouse_key, self.warehouse, true);
        self.row(district, district_key, self.district, true);
        let is_remote = self.warehouses > 1 && happens(self.rng, 150);
        let home = if is_remote {
            self.other_warehouse() * DISTRICTS + below(self.rng, DISTRICTS)
        } else {
            self.district
        };
        self.customer(home, true);
        let row = self.orders.history.place(self.client, 1);
        self.out.push(self.relations.history.access(row, true));
    }

    /// The place of a customer's orders in their index: his latest stands for all.
    fn by_customer(&self, customer: u32) -> u64 {
        let district = u64::from(self.district) * u64::from(self.orders.room);
        district + u64::from(customer) * u64::from(self.orders.room) / u64::from(CUSTOMERS)
    }

    fn pending_entry(&self, number: u32) -> u64 {
        let room = 2 * NEW_ORDERS;
        u64::from(self.district) * u64::from(room) + u64::from(number % room)
    }

    fn lines_of(&mut self, order: Order, number: u32, is_write: bool) {
        let first = self.orders.line_entry(self.district, number, 0);
        let last = first + u64::from(order.lines) - 1;
        self.relations.order_line_key.search(first, false, self.out);
        self.relations.order_line_key.scan_on(first, last, self.out);
        for line in 0..u32::from(order.lines) {
            self.out.push(self.relations.order_line.access(order.first_line + line, is_write));
        }
    }

    fn order_status(&mut self) {
        let customer = self.customer(self.district, false);
        self.relations.orders_customer.search(self.by_customer(customer), false, self.out);
        let number = self.orders.latest[(self.district * CUSTOMERS + customer) as usize];
        if let Some(order) = self.orders.find(self.district, number) {
            self.out.push(self.relations.orders.access(order.row, false));
            self.lines_of(order, number, false);
        }
    }

    fn delivery(&mut self) {
        for district in self.warehouse * DISTRICTS..(self.warehouse + 1) * DISTRICTS {
            self.district = district;
            let Some(number) = self.orders.deliver(district) else { continue };
            let order = self.orders.places[self.orders.at(district, number)];
            self.relations.new_order_key.search(self.pending_entry(number), true, self.out);
            self.out.push(self.relations.new_order.access(order.pending, true));
            let entry = self.orders.entry(district, number);
            self.relations.orders_key.search(entry, false, self.out);
            self.out.push(self.relations.orders.access(order.row, true));
            self.lines_of(order, number, true);
            let customer = district * CUSTOMERS + u32::from(order.customer);
            self.row(self.relations.customer, self.relations.customer_key, customer, true);
        }
    }

    /// Its reads may be of any committed state (2.8.2.3), so that it takes no locks.
    fn stock_level(&mut self) {
        let Relations { district, district_key, stock, stock_key, .. } = *self.relations;
        self.row(district, district_key, self.district, false);
        let next = self.orders.next[self.district as usize];
        let mut lines = 0;
        for number in next.saturating_sub(RECENT)..next {
            let order = self.orders.places[self.orders.at(self.district, number)];
            self.lines_of(order, number, false);
            lines += u32::from(order.lines);
        }
        for _ in 0..lines {
            let item = self.item();
            self.row(stock, stock_key, self.warehouse * ITEMS + item, false);
        }
        self.out.iter_mut().for_each(|access| access.is_locked = false);
    }
}
