//! New orders (clause 2.4.2).

use super::{int, number, scaled, small, text};
use crate::harness::Attempt;
use crate::sql::{Arg, SqlFailure, SqlSession, StatementHandle};
use crate::tpcc::mix::{District, OrderLine};
use crate::tpcc::population::DISTRICTS;
use crate::tpcc::{UNUSED_ITEM, restocked};

pub(super) struct NewOrder {
    warehouse: StatementHandle,
    district: StatementHandle,
    customer: StatementHandle,
    insert_order: StatementHandle,
    insert_new_order: StatementHandle,
    item: StatementHandle,
    /// One statement for each district, because each district has its own text column.
    stock: Vec<StatementHandle>,
    update_stock: StatementHandle,
    insert_line: StatementHandle,
}

impl NewOrder {
    pub fn prepare(session: &mut dyn SqlSession) -> Result<NewOrder, SqlFailure> {
        Ok(NewOrder {
            warehouse: session.prepare("SELECT w_tax FROM warehouse WHERE w_id = $1")?,
            district: session.prepare(
                "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 \
                 RETURNING d_next_o_id - 1, d_tax",
            )?,
            customer: session.prepare(
                "SELECT c_discount, c_last, c_credit FROM customer \
                 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
            )?,
            insert_order: session.prepare(
                "INSERT INTO orders \
                 (o_w_id, o_d_id, o_id, o_c_id, o_ol_cnt, o_all_local, o_entry_d) \
                 VALUES ($1, $2, $3, $4, $5, $6, localtimestamp)",
            )?,
            insert_new_order: session
                .prepare("INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)")?,
            item: session.prepare("SELECT i_price, i_name, i_data FROM item WHERE i_id = $1")?,
            stock: (1..=DISTRICTS)
                .map(|district| {
                    session.prepare(&format!(
                        "SELECT s_quantity, s_dist_{district:02}, s_data FROM stock \
                         WHERE s_w_id = $1 AND s_i_id = $2 FOR UPDATE"
                    ))
                })
                .collect::<Result<_, _>>()?,
            update_stock: session.prepare(
                "UPDATE stock SET s_quantity = $1, s_ytd = s_ytd + $2, \
                 s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $3 \
                 WHERE s_w_id = $4 AND s_i_id = $5",
            )?,
            insert_line: session.prepare(
                "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, \
                 ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            )?,
        })
    }

    /// Runs a new order; [`UNUSED_ITEM`] if it names an item that does not exist.
    pub fn run(
        &self,
        session: &mut dyn SqlSession,
        (warehouse, district): District,
        customer: i64,
        lines: &[OrderLine],
    ) -> Result<Attempt, SqlFailure> {
        let (w, d) = (int(warehouse), small(district));
        let row = session.row(self.district, &[w, d])?;
        let (id, d_tax) = (number(&row, 0)?, scaled(&row, 1, 4)?);
        let o = int(id);
        let row = session.row(self.customer, &[w, d, int(customer)])?;
        let discount = scaled(&row, 0, 4)?;

        let all_local = lines.iter().all(|line| line.supply == warehouse);
        let (count, all_local) = (small(lines.len() as i64), small(all_local.into()));
        let args = [w, d, o, int(customer), count, all_local];
        session.execute(self.insert_order, &args)?;
        session.execute(self.insert_new_order, &[w, d, o])?;

        let mut sum = 0;
        for (line, ol_number) in lines.iter().zip(1..) {
            let item = int(line.item);
            let rows = session.query(self.item, &[item])?;
            let Some(row) = rows.first() else {
                return Ok(Attempt::Failed(UNUSED_ITEM));
            };
            let amount = line.quantity * scaled(row, 0, 2)?;
            sum += amount;
            let supply = int(line.supply);
            let statement = self.stock[district as usize - 1];
            let row = session.row(statement, &[supply, item])?;
            let left = restocked(number(&row, 0)?, line.quantity);
            let remote = i64::from(line.supply != warehouse);
            let args = [small(left), int(line.quantity), int(remote), supply, item];
            session.execute(self.update_stock, &args)?;
            let info = Arg::Text(text(&row, 1)?);
            let (ol_number, quantity) = (small(ol_number), small(line.quantity));
            let args = [
                w,
                d,
                o,
                ol_number,
                item,
                supply,
                quantity,
                Arg::cents(amount),
                info,
            ];
            session.execute(self.insert_line, &args)?;
        }
        // This row comes last, because every payment writes it.
        let row = session.row(self.warehouse, &[w])?;
        let w_tax = scaled(&row, 0, 4)?;
        let total = sum * (10_000 - discount) * (10_000 + w_tax + d_tax);
        std::hint::black_box(total);
        Ok(Attempt::Committed)
    }
}
