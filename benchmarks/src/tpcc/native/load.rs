//! The load, in transactions of a few hundred objects, each on the machine that stores them.

use fencepost_hashtable::IndexError;
use fencepost_txn::Transaction;

use super::tables::{MachineTables, Tables, line_key};
use crate::error::BenchError;
use crate::native::Machines;
use crate::tpcc::pack;
use crate::tpcc::population::{DISTRICTS, Population};
use crate::tpcc::schema::{
    CUSTOMER, DISTRICT, HISTORY, ITEM, ORDER_LINE, ORDERS, Row, STOCK, WAREHOUSE,
};

/// The number of rows in one transaction; for orders with their lines, a tenth of that.
const PIECE: u64 = 500;

/// The targets of the load, and its progress report.
pub(super) struct Load<'a> {
    pub machines: &'a Machines,
    pub tables: &'a Tables,
    pub population: &'a Population,
    pub say: &'a dyn Fn(&str),
}

/// Returns the warehouse and the number after it.
fn key(row: &Row) -> (i64, i64) {
    (row.numbers[0], row.numbers[1])
}

impl Load<'_> {
    /// Loads all tables.
    pub fn all(&self) -> Result<(), BenchError> {
        let (scale, population) = (self.population.scale, self.population);
        let (districts, items) = (u64::from(DISTRICTS), u64::from(scale.items));
        let customers = districts * u64::from(scale.customers);
        self.items(items)?;
        self.each((1, "warehouses"), PIECE, async |tx, part, number| {
            let row = WAREHOUSE.pack(&population.warehouse(number));
            part.warehouse.insert(tx, number, &row).await.map(drop)
        })?;
        self.each((districts, "districts"), PIECE, async |tx, part, number| {
            let row = population.district(number);
            let (warehouse, district) = key(&row);
            let at = pack(warehouse, district, 0);
            let row = DISTRICT.pack(&row);
            part.district.insert(tx, at, &row).await.map(drop)
        })?;
        self.each((items, "stocks"), PIECE, async |tx, part, number| {
            let row = population.stock(number);
            let (warehouse, item) = key(&row);
            let at = pack(warehouse, 0, item);
            part.stock.insert(tx, at, &STOCK.pack(&row)).await.map(drop)
        })?;
        self.each(
            (customers, "customers"),
            PIECE / 2,
            async |tx, part, number| {
                let customer = population.customer(number);
                let row = CUSTOMER.pack(&customer.row);
                part.insert_customer(tx, &row).await?;
                let history = HISTORY.pack(&customer.history);
                part.history.insert(tx, number, &history).await.map(drop)
            },
        )?;
        self.each(
            (customers, "orders"),
            PIECE / 10,
            async |tx, part, number| {
                let order = population.order(number);
                let (at, id) = (key(&order.row), order.row.numbers[2]);
                part.insert_order(tx, &ORDERS.pack(&order.row)).await?;
                if order.new_order.is_some() {
                    part.insert_new_order(tx, at, id).await?;
                }
                for (line, number) in order.lines.iter().zip(1..) {
                    let key = line_key(at, id, number);
                    let row = ORDER_LINE.pack(line);
                    part.order_line.insert(tx, &key, &row).await?;
                }
                Ok(())
            },
        )
    }

    /// Loads all items, on each machine.
    fn items(&self, items: u64) -> Result<(), BenchError> {
        let what = (items, "items");
        self.machines
            .load_each(what, PIECE, self.say, async |tx, at, numbers| {
                let part = &self.tables.parts()[at];
                for number in numbers {
                    let row = ITEM.pack(&self.population.item(number));
                    part.item.insert(tx, number, &row).await?;
                }
                Ok(())
            })
    }

    /// Loads `count` of `what` for each warehouse, numbered consecutively, on the home machine of
    /// the warehouse.
    fn each(
        &self,
        (count, what): (u64, &str),
        piece: u64,
        body: impl AsyncFn(&mut Transaction, &MachineTables, u64) -> Result<(), IndexError> + Sync,
    ) -> Result<(), BenchError> {
        let what = (u64::from(self.population.scale.warehouses) * count, what);
        let home = |number: u64| self.tables.home(((number - 1) / count) as i64 + 1);
        self.machines
            .load_each(what, piece, self.say, async |tx, at, numbers| {
                let part = &self.tables.parts()[at];
                for number in numbers.filter(|number| home(*number) == at) {
                    body(tx, part, number).await?;
                }
                Ok(())
            })
    }
}
