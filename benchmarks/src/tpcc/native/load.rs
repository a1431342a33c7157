//! The load, in transactions of a few hundred objects.

use std::sync::Arc;

use fencepost_txn::Machine;

use super::tables::{Tables, line_key};
use crate::error::BenchError;
use crate::native::load_in_pieces;
use crate::tpcc::pack;
use crate::tpcc::population::Population;
use crate::tpcc::schema::{
    CUSTOMER, DISTRICT, HISTORY, ITEM, ORDER_LINE, ORDERS, Row, STOCK, WAREHOUSE,
};

/// Rows of one transaction; orders with their lines are a tenth of that.
const PIECE: u64 = 500;

/// Fills the tables.
pub(super) fn load(
    machine: &Arc<Machine>,
    tables: &Tables,
    population: &Population,
    say: &dyn Fn(&str),
) -> Result<(), BenchError> {
    let scale = population.scale;
    let (warehouses, districts) = (u64::from(scale.warehouses), scale.districts());
    let items = u64::from(scale.items);
    let customers = districts * u64::from(scale.customers);
    let key = |row: &Row| (row.numbers[0], row.numbers[1]);
    load_in_pieces(
        machine,
        (items, "items"),
        PIECE,
        say,
        async |tx, numbers| {
            for number in numbers {
                let row = ITEM.pack(&population.item(number));
                tables.item.insert(tx, number, &row).await?;
            }
            Ok(())
        },
    )?;
    load_in_pieces(
        machine,
        (warehouses, "warehouses"),
        PIECE,
        say,
        async |tx, numbers| {
            for number in numbers {
                let row = WAREHOUSE.pack(&population.warehouse(number));
                tables.warehouse.insert(tx, number, &row).await?;
            }
            Ok(())
        },
    )?;
    load_in_pieces(
        machine,
        (districts, "districts"),
        PIECE,
        say,
        async |tx, numbers| {
            for number in numbers {
                let row = population.district(number);
                let (warehouse, district) = key(&row);
                let at = pack(warehouse, district, 0);
                tables.district.insert(tx, at, &DISTRICT.pack(&row)).await?;
            }
            Ok(())
        },
    )?;
    load_in_pieces(
        machine,
        (warehouses * items, "stocks"),
        PIECE,
        say,
        async |tx, numbers| {
            for number in numbers {
                let row = population.stock(number);
                let (warehouse, item) = key(&row);
                let at = pack(warehouse, 0, item);
                tables.stock.insert(tx, at, &STOCK.pack(&row)).await?;
            }
            Ok(())
        },
    )?;
    load_in_pieces(
        machine,
        (customers, "customers"),
        PIECE / 2,
        say,
        async |tx, numbers| {
            for number in numbers {
                let customer = population.customer(number);
                let row = CUSTOMER.pack(&customer.row);
                tables.insert_customer(tx, &row).await?;
                let history = HISTORY.pack(&customer.history);
                tables.history.insert(tx, number, &history).await?;
            }
            Ok(())
        },
    )?;
    load_in_pieces(
        machine,
        (customers, "orders"),
        PIECE / 10,
        say,
        async |tx, numbers| {
            for number in numbers {
                let order = population.order(number);
                let (at, id) = (key(&order.row), order.row.numbers[2]);
                tables.insert_order(tx, &ORDERS.pack(&order.row)).await?;
                if order.new_order.is_some() {
                    tables.insert_new_order(tx, at, id).await?;
                }
                for (line, number) in order.lines.iter().zip(1..) {
                    let key = line_key(at, id, number);
                    let row = ORDER_LINE.pack(line);
                    tables.order_line.insert(tx, &key, &row).await?;
                }
            }
            Ok(())
        },
    )
}
