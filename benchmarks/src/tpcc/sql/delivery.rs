//! Deliveries (clause 2.7.4).

use super::{int, number, small};
use crate::sql::{Arg, SqlFailure, SqlSession, StatementHandle};
use crate::tpcc::mix::District;
use crate::tpcc::population::DISTRICTS;

pub(super) struct Delivery {
    oldest: StatementHandle,
    delete: StatementHandle,
    order: StatementHandle,
    lines: StatementHandle,
    amount: StatementHandle,
    customer: StatementHandle,
}

impl Delivery {
    pub fn prepare(session: &mut dyn SqlSession) -> Result<Delivery, SqlFailure> {
        Ok(Delivery {
            oldest: session.prepare(
                "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 \
                 ORDER BY no_o_id LIMIT 1 FOR UPDATE",
            )?,
            delete: session.prepare(
                "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3",
            )?,
            order: session.prepare(
                "UPDATE orders SET o_carrier_id = $1 WHERE o_w_id = $2 AND o_d_id = $3 \
                 AND o_id = $4 RETURNING o_c_id",
            )?,
            lines: session.prepare(
                "UPDATE order_line SET ol_delivery_d = localtimestamp \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
            )?,
            amount: session.prepare(
                "SELECT sum(ol_amount) FROM order_line \
                 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
            )?,
            customer: session.prepare(
                "UPDATE customer SET c_balance = c_balance + $1, \
                 c_delivery_cnt = c_delivery_cnt + 1 \
                 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4",
            )?,
        })
    }

    /// Delivers the oldest new order of each district. Returns the districts that had one.
    pub fn run(
        &self,
        session: &mut dyn SqlSession,
        warehouse: i64,
        carrier: i64,
    ) -> Result<Vec<District>, SqlFailure> {
        let (w, mut delivered) = (int(warehouse), Vec::new());
        for district in 1..=i64::from(DISTRICTS) {
            let d = small(district);
            let rows = session.query(self.oldest, &[w, d])?;
            let Some(row) = rows.first() else {
                continue;
            };
            let o = int(number(row, 0)?);
            session.execute(self.delete, &[w, d, o])?;
            let row = session.row(self.order, &[small(carrier), w, d, o])?;
            let c = int(number(&row, 0)?);
            session.execute(self.lines, &[w, d, o])?;
            let row = session.row(self.amount, &[w, d, o])?;
            let amount = Arg::cents(super::scaled(&row, 0, 2)?);
            session.execute(self.customer, &[amount, w, d, c])?;
            delivered.push((warehouse, district));
        }
        Ok(delivered)
    }
}
