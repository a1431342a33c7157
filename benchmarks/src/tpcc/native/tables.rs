//! The tables and indexes of each machine.
//!
//! ```text
//! hash    warehouse  district  customer  item  stock  orders  history
//! B-tree  customers by (warehouse, district, last name, first name, id)   to the customer's row
//!         orders by (warehouse, district, customer, id)                   to the order's row
//!         new orders by (warehouse, district, id)                         no row
//!         order lines by (warehouse, district, order, number)             to the line's row
//! ```
//!
//! Keys of hash tables are packed numbers; keys of B-trees are big-endian, so that they are
//! ordered. The numbers of a row are its first words, in the order of the schema.
//!
//! Each machine has a [`MachineTables`] of every table, which it creates and loads itself.
//! Warehouses are distributed over the machines in turn, and all rows of a warehouse are in the
//! part of its home machine. A payment is stored with the warehouse where it was made. Items never
//! change, and every machine has all of them.

use std::sync::Arc;

use fencepost_btree::Direction;
use fencepost_hashtable::IndexError;
use fencepost_txn::{Addr, Coordinator, FatPtr, Machine, Stop, Transaction};

use crate::error::BenchError;
use crate::native::rows::{HashRows, TreeRows};
use crate::native::{Machines, Partitions};
use crate::tpcc::mix::{CustomerKey, District};
use crate::tpcc::population::DISTRICTS;
use crate::tpcc::schema::CUSTOMER;
use crate::tpcc::{Scale, pack};

/// The positions of numbers and texts in rows.
pub(super) mod column {
    pub const W_TAX: usize = 1;
    pub const W_YTD: usize = 2;
    pub const W_NAME: usize = 0;
    pub const D_TAX: usize = 2;
    pub const D_YTD: usize = 3;
    pub const D_NEXT_O_ID: usize = 4;
    pub const D_NAME: usize = 0;
    pub const C_ID: usize = 2;
    pub const C_DISCOUNT: usize = 3;
    pub const C_BALANCE: usize = 5;
    pub const C_YTD_PAYMENT: usize = 6;
    pub const C_PAYMENT_CNT: usize = 7;
    pub const C_DELIVERY_CNT: usize = 8;
    pub const C_FIRST: usize = 0;
    pub const C_LAST: usize = 2;
    pub const C_CREDIT: usize = 9;
    pub const C_DATA: usize = 10;
    pub const I_PRICE: usize = 2;
    pub const I_DATA: usize = 1;
    pub const S_QUANTITY: usize = 2;
    pub const S_YTD: usize = 3;
    pub const S_ORDER_CNT: usize = 4;
    pub const S_REMOTE_CNT: usize = 5;
    pub const S_DATA: usize = 10;
    pub const O_ID: usize = 2;
    pub const O_C_ID: usize = 3;
    pub const O_CARRIER_ID: usize = 4;
    pub const O_OL_CNT: usize = 5;
    pub const OL_I_ID: usize = 4;
    pub const OL_AMOUNT: usize = 7;
    pub const OL_DELIVERY_D: usize = 8;
    pub const H_AMOUNT: usize = 5;
}

/// The length of a name in a key, in bytes.
const NAME_BYTES: usize = 16;

/// The tables of all machines.
pub(super) struct Tables(Partitions<MachineTables>);

impl Tables {
    /// Creates the tables, empty.
    pub fn create(machines: &Machines, scale: Scale) -> Result<Tables, BenchError> {
        let most = machines.share(scale.warehouses.into());
        let part = |machine: &Arc<_>| {
            MachineTables::create(&mut Machine::coordinator(machine), most, scale)
        };
        machines.spread(part).map(Tables)
    }

    /// Returns the index of the home machine of a warehouse.
    #[inline]
    pub fn home(&self, warehouse: i64) -> usize {
        (warehouse - 1) as usize % self.0.parts().len()
    }

    /// Returns the tables that contain a warehouse.
    #[inline]
    pub fn of(&self, warehouse: i64) -> &MachineTables {
        &self.0.parts()[self.home(warehouse)]
    }

    /// Returns the tables of each machine, in the order of the machines.
    pub fn parts(&self) -> &[MachineTables] {
        self.0.parts()
    }
}

/// The tables of one machine.
pub(super) struct MachineTables {
    pub warehouse: HashRows,
    pub district: HashRows,
    pub customer: HashRows,
    pub item: HashRows,
    pub stock: HashRows,
    pub orders: HashRows,
    pub history: HashRows,
    pub customers_by_name: TreeRows,
    pub orders_by_customer: TreeRows,
    pub new_order: TreeRows,
    pub order_line: TreeRows,
}

impl MachineTables {
    /// Creates the tables, empty, with capacity for `warehouses` warehouses.
    fn create(
        coordinator: &mut Coordinator,
        warehouses: u64,
        scale: Scale,
    ) -> Result<MachineTables, BenchError> {
        let districts = warehouses * u64::from(DISTRICTS);
        let (customers, items) = (u64::from(scale.customers), u64::from(scale.items));
        let mut rows = |rows| HashRows::create(coordinator, rows);
        let (warehouse, district) = (rows(warehouses)?, rows(districts)?);
        let (customer, orders) = (rows(districts * customers)?, rows(districts * customers)?);
        let history = rows(districts * customers)?;
        let (item, stock) = (rows(items)?, rows(warehouses * items)?);
        let mut tree = || TreeRows::create(coordinator);
        Ok(MachineTables {
            warehouse,
            district,
            customer,
            item,
            stock,
            orders,
            history,
            customers_by_name: tree()?,
            orders_by_customer: tree()?,
            new_order: tree()?,
            order_line: tree()?,
        })
    }

    /// Returns the row of a customer; of customers with one last name, the middle one by first
    /// name.
    pub async fn customer_row(
        &self,
        tx: &mut Transaction,
        (warehouse, district): District,
        who: &CustomerKey,
    ) -> Result<Addr, IndexError> {
        match who {
            CustomerKey::Id(id) => {
                let key = pack(warehouse, district, *id);
                self.customer.must_find(tx, key).await
            }
            CustomerKey::LastName(last) => {
                let low = name_prefix((warehouse, district), last.as_bytes());
                let mut high = low.clone();
                high.extend([0xff; NAME_BYTES + 4]);
                let mut found = Vec::new();
                self.customers_by_name
                    .range(tx, (&low, &high), &mut found)
                    .await?;
                let middle = found.len().div_ceil(2).saturating_sub(1);
                Ok(*found.get(middle).ok_or(Stop::Damaged)?)
            }
        }
    }

    /// Returns the newest order of a customer.
    pub async fn newest_order(
        &self,
        tx: &mut Transaction,
        (warehouse, district): District,
        customer: i64,
    ) -> Result<Option<Addr>, IndexError> {
        let key = |customer| pack(warehouse, district, customer).to_be_bytes();
        let range = (&key(customer)[..], &key(customer + 1)[..]);
        let found = self
            .orders_by_customer
            .edge(tx, range, Direction::Backward)
            .await?;
        Ok(found.map(|(_, row)| row))
    }

    /// Adds an order to its table and to the index by customer.
    pub async fn insert_order(&self, tx: &mut Transaction, row: &[u64]) -> Result<(), IndexError> {
        let number = |at: usize| row[at] as i64;
        let (warehouse, district, id) = (number(0), number(1), number(column::O_ID));
        let order = pack(warehouse, district, id);
        let ptr = self.orders.insert(tx, order, row).await?;
        let customer = pack(warehouse, district, number(column::O_C_ID));
        let mut key = customer.to_be_bytes().to_vec();
        key.extend((id as u32).to_be_bytes());
        self.orders_by_customer.point(tx, &key, ptr).await
    }

    /// Adds a new order.
    pub async fn insert_new_order(
        &self,
        tx: &mut Transaction,
        (warehouse, district): District,
        id: i64,
    ) -> Result<(), IndexError> {
        let key = pack(warehouse, district, id).to_be_bytes();
        self.new_order.point(tx, &key, FatPtr::NULL).await
    }

    /// Adds a customer to its table and to the index by last name.
    pub async fn insert_customer(
        &self,
        tx: &mut Transaction,
        row: &[u64],
    ) -> Result<(), IndexError> {
        let number = |at: usize| row[at] as i64;
        let at = (number(0), number(1));
        let id = number(column::C_ID);
        let ptr = self.customer.insert(tx, pack(at.0, at.1, id), row).await?;
        let mut key = name_prefix(at, CUSTOMER.text(row, column::C_LAST));
        put_name(&mut key, CUSTOMER.text(row, column::C_FIRST));
        key.extend((id as u32).to_be_bytes());
        self.customers_by_name.point(tx, &key, ptr).await
    }
}

/// Returns the key of an order line.
pub(super) fn line_key((warehouse, district): District, order: i64, line: u8) -> [u8; 9] {
    let mut key = [line; 9];
    key[..8].copy_from_slice(&pack(warehouse, district, order).to_be_bytes());
    key
}

fn name_prefix((warehouse, district): District, last: &[u8]) -> Vec<u8> {
    let place = pack(warehouse, district, 0) >> 32;
    let mut key = (place as u32).to_be_bytes().to_vec();
    put_name(&mut key, last);
    key
}

fn put_name(key: &mut Vec<u8>, name: &[u8]) {
    let end = key.len() + NAME_BYTES;
    key.extend(&name[..name.len().min(NAME_BYTES)]);
    key.resize(end, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::schema::{
        DISTRICT, HISTORY, ITEM, ORDER_LINE, ORDERS, STOCK, Table, WAREHOUSE,
    };

    #[test]
    fn columns_are_where_the_schema_has_them() {
        let number = |table: &Table, at: usize| table.numbers[at].0;
        let text = |table: &Table, at: usize| table.texts[at].0;
        for (found, name) in [
            (number(&WAREHOUSE, column::W_TAX), "w_tax"),
            (number(&WAREHOUSE, column::W_YTD), "w_ytd"),
            (text(&WAREHOUSE, column::W_NAME), "w_name"),
            (number(&DISTRICT, column::D_TAX), "d_tax"),
            (number(&DISTRICT, column::D_YTD), "d_ytd"),
            (number(&DISTRICT, column::D_NEXT_O_ID), "d_next_o_id"),
            (text(&DISTRICT, column::D_NAME), "d_name"),
            (number(&CUSTOMER, column::C_ID), "c_id"),
            (number(&CUSTOMER, column::C_DISCOUNT), "c_discount"),
            (number(&CUSTOMER, column::C_BALANCE), "c_balance"),
            (number(&CUSTOMER, column::C_YTD_PAYMENT), "c_ytd_payment"),
            (number(&CUSTOMER, column::C_PAYMENT_CNT), "c_payment_cnt"),
            (number(&CUSTOMER, column::C_DELIVERY_CNT), "c_delivery_cnt"),
            (text(&CUSTOMER, column::C_FIRST), "c_first"),
            (text(&CUSTOMER, column::C_LAST), "c_last"),
            (text(&CUSTOMER, column::C_CREDIT), "c_credit"),
            (text(&CUSTOMER, column::C_DATA), "c_data"),
            (number(&ITEM, column::I_PRICE), "i_price"),
            (text(&ITEM, column::I_DATA), "i_data"),
            (number(&STOCK, column::S_QUANTITY), "s_quantity"),
            (number(&STOCK, column::S_YTD), "s_ytd"),
            (number(&STOCK, column::S_ORDER_CNT), "s_order_cnt"),
            (number(&STOCK, column::S_REMOTE_CNT), "s_remote_cnt"),
            (text(&STOCK, column::S_DATA), "s_data"),
            (number(&ORDERS, column::O_ID), "o_id"),
            (number(&ORDERS, column::O_C_ID), "o_c_id"),
            (number(&ORDERS, column::O_CARRIER_ID), "o_carrier_id"),
            (number(&ORDERS, column::O_OL_CNT), "o_ol_cnt"),
            (number(&ORDER_LINE, column::OL_I_ID), "ol_i_id"),
            (number(&ORDER_LINE, column::OL_AMOUNT), "ol_amount"),
            (number(&ORDER_LINE, column::OL_DELIVERY_D), "ol_delivery_d"),
            (number(&HISTORY, column::H_AMOUNT), "h_amount"),
        ] {
            assert_eq!(found, name);
        }
    }
}
