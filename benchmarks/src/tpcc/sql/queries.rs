//! Order status and stock level (clauses 2.6.2 and 2.8.2).

use super::{CustomersByName, int, number, small};
use crate::sql::{SqlFailure, SqlSession, StatementHandle};
use crate::tpcc::LATEST_ORDERS;
use crate::tpcc::mix::{CustomerKey, District};

pub(super) struct OrderStatus {
    by_name: CustomersByName,
    customer: StatementHandle,
    newest: StatementHandle,
    lines: StatementHandle,
}

impl OrderStatus {
    pub fn prepare(session: &mut dyn SqlSession) -> Result<OrderStatus, SqlFailure> {
        Ok(OrderStatus {
            by_name: CustomersByName::prepare(session)?,
            customer: session.prepare(
                "SELECT c_balance, c_first, c_middle, c_last FROM customer \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
            newest: session.prepare(
                "SELECT o_id, o_entry_d, o_carrier_id FROM orders \
                 WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
            )?,
            lines: session.prepare(
                "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
                 FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
            )?,
        })
    }

    /// Reads a customer's newest order, with its lines.
    pub fn run(
        &self,
        session: &mut dyn SqlSession,
        at: District,
        who: &CustomerKey,
    ) -> Result<(), SqlFailure> {
        let id = self.by_name.id(session, at, who)?;
        let (w, d) = (int(at.0), small(at.1));
        session.row(self.customer, &[w, d, int(id)])?;
        let rows = session.query(self.newest, &[w, d, int(id)])?;
        if let Some(row) = rows.first() {
            session.query(self.lines, &[w, d, int(number(row, 0)?)])?;
        }
        Ok(())
    }
}

pub(super) struct StockLevel {
    district: StatementHandle,
    low: StatementHandle,
}

impl StockLevel {
    pub fn prepare(session: &mut dyn SqlSession) -> Result<StockLevel, SqlFailure> {
        Ok(StockLevel {
            district: session
                .prepare("SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2")?,
            low: session.prepare(
                "SELECT count(DISTINCT s_i_id) FROM order_line, stock \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 \
                 AND s_w_id = $1 AND s_i_id = ol_i_id AND s_quantity < $5",
            )?,
        })
    }

    /// Counts the items of a district's latest orders whose stock is below `threshold`.
    pub fn run(
        &self,
        session: &mut dyn SqlSession,
        (warehouse, district): District,
        threshold: i64,
    ) -> Result<i64, SqlFailure> {
        let (w, d) = (int(warehouse), small(district));
        let row = session.row(self.district, &[w, d])?;
        let next = number(&row, 0)?;
        let args = [w, d, int(next - LATEST_ORDERS), int(next), small(threshold)];
        number(&session.row(self.low, &args)?, 0)
    }
}
