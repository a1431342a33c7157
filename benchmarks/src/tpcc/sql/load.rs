//! The schema and the population, loaded by COPY; the two secondary indexes are created afterwards.

use crate::error::BenchError;
use crate::sql::{SqlSession, copy_numbered};
use crate::tpcc::population::Population;
use crate::tpcc::schema::{
    CUSTOMER, DISTRICT, HISTORY, ITEM, NEW_ORDER, ORDER_LINE, ORDERS, Row, STOCK, Table, WAREHOUSE,
};

const INDEXES: [&str; 2] = [
    "CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first)",
    "CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
];

/// Drops, creates and loads the tables.
pub(super) fn load(
    session: &mut dyn SqlSession,
    population: &Population,
    say: &dyn Fn(&str),
) -> Result<(), BenchError> {
    let scale = population.scale;
    let (warehouses, districts) = (u64::from(scale.warehouses), scale.districts());
    let items = u64::from(scale.items);
    let customers = districts * u64::from(scale.customers);
    let mut fill = |table: &Table, last: u64, rows: &dyn Fn(u64) -> Vec<Row>| {
        let name = table.name;
        session.script(&format!("DROP TABLE IF EXISTS {name}"))?;
        session.script(&table.ddl())?;
        copy_numbered(session, name, last, say, |text, number| {
            rows(number).iter().for_each(|row| table.copy(text, row));
        })
    };
    fill(&ITEM, items, &|at| vec![population.item(at)])?;
    fill(&WAREHOUSE, warehouses, &|at| vec![population.warehouse(at)])?;
    fill(&DISTRICT, districts, &|at| vec![population.district(at)])?;
    fill(&STOCK, warehouses * items, &|at| vec![population.stock(at)])?;
    fill(&CUSTOMER, customers, &|at| {
        vec![population.customer(at).row]
    })?;
    fill(&HISTORY, customers, &|at| {
        vec![population.customer(at).history]
    })?;
    fill(&ORDERS, customers, &|at| vec![population.order(at).row])?;
    fill(&NEW_ORDER, customers, &|at| {
        population.order(at).new_order.into_iter().collect()
    })?;
    fill(&ORDER_LINE, customers, &|at| population.order(at).lines)?;
    for index in INDEXES {
        session.script(index)?;
    }
    session.script("VACUUM ANALYZE")?;
    Ok(())
}
