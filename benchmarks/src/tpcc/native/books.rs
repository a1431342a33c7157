//! The books of the native form: every measure is a scan of its table, on all machines.

use std::collections::HashMap;

use fencepost_txn::Coordinator;

use super::tables::{MachineTables, Tables, column};
use crate::error::BenchError;
use crate::native::rows::{HashRows, TreeRows};
use crate::tpcc::conditions::{AmountSource, Amounts, Measure};
use crate::tpcc::schema::NULL;
use crate::tpcc::{pack, unpack};

/// Scans of all parts of the tables, each on the machine that has it.
pub(super) struct NativeAmounts<'a> {
    pub coordinators: Vec<Coordinator>,
    pub tables: &'a Tables,
}

/// The key under which an amount is counted.
#[derive(Clone, Copy)]
enum AmountKey {
    Warehouse,
    District,
    /// The warehouse, the district and the third number of the row: an order or a customer.
    Third,
}

impl AmountKey {
    fn key(self, row: &[u64]) -> u64 {
        let number = |at: usize| row[at] as i64;
        match self {
            AmountKey::Warehouse => pack(number(0), 0, 0),
            AmountKey::District => pack(number(0), number(1), 0),
            AmountKey::Third => pack(number(0), number(1), number(2)),
        }
    }
}

/// The function that combines the amounts of one key.
type Fold = fn(i64, i64) -> i64;
const ADD: Fold = |sum, more| sum + more;
const LARGEST: Fold = i64::max;
const SMALLEST: Fold = i64::min;

fn enter(sheet: &mut Amounts, key: u64, amount: i64, fold: Fold) {
    let entry = sheet.entry(key);
    entry
        .and_modify(|known| *known = fold(*known, amount))
        .or_insert(amount);
}

impl NativeAmounts<'_> {
    /// Passes all rows of a table to `show`, with the index of their machine.
    fn each_row(
        &mut self,
        table: impl Fn(&MachineTables) -> HashRows,
        mut show: impl FnMut(usize, &[u64]),
    ) -> Result<(), BenchError> {
        let parts = self.tables.parts().iter().zip(&mut self.coordinators);
        for (at, (part, coordinator)) in parts.enumerate() {
            table(part).each(coordinator, |row| show(at, row))?;
        }
        Ok(())
    }

    /// Passes all keys of a tree and their rows to `show`, with the index of their machine.
    fn each_key(
        &mut self,
        tree: impl Fn(&MachineTables) -> TreeRows,
        mut show: impl FnMut(usize, &[u8], &[u64]),
    ) -> Result<(), BenchError> {
        let parts = self.tables.parts().iter().zip(&mut self.coordinators);
        for (at, (part, coordinator)) in parts.enumerate() {
            tree(part).each(coordinator, |key, row| show(at, key, row))?;
        }
        Ok(())
    }

    /// Returns a row that is not on the machine of its warehouse, where transactions would never
    /// find it.
    pub fn misplaced(&mut self) -> Result<Option<String>, BenchError> {
        let (tables, mut found) = (self.tables, None);
        let mut see = |name: &str, at: usize, warehouse: i64| {
            if tables.home(warehouse) != at {
                let text = || format!("{name} of warehouse {warehouse} is in part {at}");
                found.get_or_insert_with(text);
            }
        };
        self.each_row(
            |part| part.warehouse,
            |at, row| see("the row", at, row[0] as i64),
        )?;
        self.each_row(
            |part| part.district,
            |at, row| see("a district", at, row[0] as i64),
        )?;
        self.each_row(
            |part| part.customer,
            |at, row| see("a customer", at, row[0] as i64),
        )?;
        self.each_row(
            |part| part.stock,
            |at, row| see("a stock", at, row[0] as i64),
        )?;
        self.each_row(
            |part| part.orders,
            |at, row| see("an order", at, row[0] as i64),
        )?;
        // A payment is stored at the warehouse where it was made, not at that of its customer.
        self.each_row(
            |part| part.history,
            |at, row| see("a payment", at, row[3] as i64),
        )?;
        self.each_key(
            |part| part.order_line,
            |at, _, row| see("a line", at, row[0] as i64),
        )?;
        self.each_key(
            |part| part.new_order,
            |at, key, _| see("a new order", at, number(key).0),
        )?;
        Ok(found)
    }

    fn rows(
        &mut self,
        table: impl Fn(&MachineTables) -> HashRows,
        fold: Fold,
        amount: impl Fn(&[u64]) -> Option<(u64, i64)>,
    ) -> Result<Amounts, BenchError> {
        let mut sheet = Amounts::new();
        self.each_row(table, |_, row| {
            if let Some((key, amount)) = amount(row) {
                enter(&mut sheet, key, amount, fold);
            }
        })?;
        Ok(sheet)
    }

    /// Sums word `which` of the rows of a table.
    fn sum(
        &mut self,
        table: impl Fn(&MachineTables) -> HashRows,
        by: AmountKey,
        which: usize,
    ) -> Result<Amounts, BenchError> {
        self.rows(table, ADD, |row| Some((by.key(row), row[which] as i64)))
    }

    fn count(
        &mut self,
        table: impl Fn(&MachineTables) -> HashRows,
        by: impl Fn(&[u64]) -> u64,
    ) -> Result<Amounts, BenchError> {
        self.rows(table, ADD, |row| Some((by(row), 1)))
    }

    fn lines(
        &mut self,
        fold: Fold,
        amount: impl Fn(&[u64]) -> Option<(u64, i64)>,
    ) -> Result<Amounts, BenchError> {
        let mut sheet = Amounts::new();
        self.each_key(
            |part| part.order_line,
            |_, _, row| {
                if let Some((key, amount)) = amount(row) {
                    enter(&mut sheet, key, amount, fold);
                }
            },
        )?;
        Ok(sheet)
    }

    /// Combines `amount` of the number of each new order, by district or by order.
    fn new_orders(
        &mut self,
        by_order: bool,
        fold: Fold,
        amount: impl Fn(i64) -> i64,
    ) -> Result<Amounts, BenchError> {
        let mut sheet = Amounts::new();
        self.each_key(
            |part| part.new_order,
            |_, key, _| {
                let (warehouse, district, id) = number(key);
                let under = if by_order { id } else { 0 };
                enter(
                    &mut sheet,
                    pack(warehouse, district, under),
                    amount(id),
                    fold,
                );
            },
        )?;
        Ok(sheet)
    }

    fn delivered_amount(&mut self) -> Result<Amounts, BenchError> {
        let customers: HashMap<u64, i64> =
            self.sum(|part| part.orders, AmountKey::Third, column::O_C_ID)?;
        self.lines(ADD, |row| {
            if row[column::OL_DELIVERY_D] as i64 == NULL {
                return None;
            }
            // A line without an order belongs to no customer; another condition detects it.
            let customer = customers
                .get(&AmountKey::Third.key(row))
                .copied()
                .unwrap_or(0);
            let key = pack(row[0] as i64, row[1] as i64, customer);
            Some((key, row[column::OL_AMOUNT] as i64))
        })
    }
}

/// Returns the warehouse, the district and the number of a new order.
fn number(key: &[u8]) -> (i64, i64, i64) {
    unpack(key.try_into().map_or(0, u64::from_be_bytes))
}

impl AmountSource for NativeAmounts<'_> {
    fn sheet(&mut self, measure: Measure) -> Result<Amounts, BenchError> {
        use AmountKey::{District, Third, Warehouse};

        let undelivered = |row: &[u64]| row[column::O_CARRIER_ID] as i64 == NULL;
        // The first numbers of a history row are those of the customer; the place of payment
        // follows.
        let paid_at = |row: &[u64], district: bool| {
            let district = if district { row[4] as i64 } else { 0 };
            pack(row[3] as i64, district, 0)
        };
        let paid = |row: &[u64]| row[column::H_AMOUNT] as i64;
        match measure {
            Measure::WarehouseYtd => self.sum(|part| part.warehouse, Warehouse, column::W_YTD),
            Measure::DistrictsYtd => self.sum(|part| part.district, Warehouse, column::D_YTD),
            Measure::DistrictYtd => self.sum(|part| part.district, District, column::D_YTD),
            Measure::LastOrder => self.rows(
                |part| part.district,
                ADD,
                |row| Some((District.key(row), row[column::D_NEXT_O_ID] as i64 - 1)),
            ),
            Measure::LargestOrder => self.rows(
                |part| part.orders,
                LARGEST,
                |row| Some((District.key(row), row[column::O_ID] as i64)),
            ),
            Measure::LargestNewOrder => self.new_orders(false, LARGEST, |id| id),
            Measure::NewOrderSpan => {
                let smallest = self.new_orders(false, SMALLEST, |id| id)?;
                let mut span = self.new_orders(false, LARGEST, |id| id + 1)?;
                for (key, smallest) in smallest {
                    *span.entry(key).or_default() -= smallest;
                }
                Ok(span)
            }
            Measure::NewOrders => self.new_orders(false, ADD, |_| 1),
            Measure::EachNewOrder => self.new_orders(true, ADD, |_| 1),
            Measure::Orders => self.count(|part| part.orders, |row| District.key(row)),
            Measure::OrderedLines => self.sum(|part| part.orders, District, column::O_OL_CNT),
            Measure::LinesOfOrder => self.sum(|part| part.orders, Third, column::O_OL_CNT),
            Measure::OrdersWithoutCarrier => self.rows(
                |part| part.orders,
                ADD,
                |row| undelivered(row).then(|| (Third.key(row), 1)),
            ),
            Measure::LinesOfUndelivered => self.rows(
                |part| part.orders,
                ADD,
                |row| {
                    let lines = row[column::O_OL_CNT] as i64;
                    undelivered(row).then(|| (Third.key(row), lines))
                },
            ),
            Measure::Lines => self.lines(ADD, |row| Some((District.key(row), 1))),
            Measure::LinesByOrder => self.lines(ADD, |row| Some((Third.key(row), 1))),
            Measure::UndeliveredLines => self.lines(ADD, |row| {
                (row[column::OL_DELIVERY_D] as i64 == NULL).then(|| (Third.key(row), 1))
            }),
            Measure::Balance => self.sum(|part| part.customer, Third, column::C_BALANCE),
            Measure::PaidByCustomer => self.sum(|part| part.customer, Third, column::C_YTD_PAYMENT),
            Measure::PaymentsOfCustomer => self.sum(|part| part.history, Third, column::H_AMOUNT),
            Measure::WarehousePayments => self.rows(
                |part| part.history,
                ADD,
                |row| Some((paid_at(row, false), paid(row))),
            ),
            Measure::DistrictPayments => self.rows(
                |part| part.history,
                ADD,
                |row| Some((paid_at(row, true), paid(row))),
            ),
            Measure::Payments => self.count(|part| part.history, |row| paid_at(row, true)),
            Measure::DeliveredAmount => self.delivered_amount(),
            Measure::SeenDelivered | Measure::SeenOrders | Measure::SeenPayments => {
                Err(BenchError::Load(format!("{measure:?} is not in the data")))
            }
        }
    }
}
