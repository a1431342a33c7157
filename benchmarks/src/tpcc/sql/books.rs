//! The books of the SQL form: every measure is one query, which runs on Fencepost and PostgreSQL.
//! Its last column is the amount; the columns before it are the key.

use crate::error::BenchError;
use crate::sql::{Cell, SqlSession};
use crate::tpcc::conditions::{AmountSource, Amounts, Measure};
use crate::tpcc::pack;

/// The queries of one session.
pub(super) struct SqlAmounts<'a> {
    pub session: &'a mut dyn SqlSession,
}

const fn query(measure: Measure) -> Option<&'static str> {
    Some(match measure {
        Measure::WarehouseYtd => "SELECT w_id, w_ytd FROM warehouse",
        Measure::DistrictsYtd => "SELECT d_w_id, sum(d_ytd) FROM district GROUP BY d_w_id",
        Measure::WarehousePayments => "SELECT h_w_id, sum(h_amount) FROM history GROUP BY h_w_id",
        Measure::LastOrder => "SELECT d_w_id, d_id, d_next_o_id - 1 FROM district",
        Measure::LargestOrder => {
            "SELECT o_w_id, o_d_id, max(o_id) FROM orders GROUP BY o_w_id, o_d_id"
        }
        Measure::LargestNewOrder => {
            "SELECT no_w_id, no_d_id, max(no_o_id) FROM new_order GROUP BY no_w_id, no_d_id"
        }
        Measure::NewOrderSpan => {
            "SELECT no_w_id, no_d_id, max(no_o_id) - min(no_o_id) + 1 FROM new_order \
             GROUP BY no_w_id, no_d_id"
        }
        Measure::NewOrders => {
            "SELECT no_w_id, no_d_id, count(*) FROM new_order GROUP BY no_w_id, no_d_id"
        }
        Measure::OrderedLines => {
            "SELECT o_w_id, o_d_id, sum(o_ol_cnt) FROM orders GROUP BY o_w_id, o_d_id"
        }
        Measure::Lines => {
            "SELECT ol_w_id, ol_d_id, count(*) FROM order_line GROUP BY ol_w_id, ol_d_id"
        }
        Measure::DistrictYtd => "SELECT d_w_id, d_id, d_ytd FROM district",
        Measure::DistrictPayments => {
            "SELECT h_w_id, h_d_id, sum(h_amount) FROM history GROUP BY h_w_id, h_d_id"
        }
        Measure::Orders => "SELECT o_w_id, o_d_id, count(*) FROM orders GROUP BY o_w_id, o_d_id",
        Measure::Payments => "SELECT h_w_id, h_d_id, count(*) FROM history GROUP BY h_w_id, h_d_id",
        Measure::OrdersWithoutCarrier => {
            "SELECT o_w_id, o_d_id, o_id, 1 FROM orders WHERE o_carrier_id IS NULL"
        }
        Measure::EachNewOrder => "SELECT no_w_id, no_d_id, no_o_id, 1 FROM new_order",
        Measure::LinesOfOrder => "SELECT o_w_id, o_d_id, o_id, o_ol_cnt FROM orders",
        Measure::LinesByOrder => {
            "SELECT ol_w_id, ol_d_id, ol_o_id, count(*) FROM order_line \
             GROUP BY ol_w_id, ol_d_id, ol_o_id"
        }
        Measure::LinesOfUndelivered => {
            "SELECT o_w_id, o_d_id, o_id, o_ol_cnt FROM orders WHERE o_carrier_id IS NULL"
        }
        Measure::UndeliveredLines => {
            "SELECT ol_w_id, ol_d_id, ol_o_id, count(*) FROM order_line \
             WHERE ol_delivery_d IS NULL GROUP BY ol_w_id, ol_d_id, ol_o_id"
        }
        Measure::Balance => "SELECT c_w_id, c_d_id, c_id, c_balance FROM customer",
        Measure::PaidByCustomer => "SELECT c_w_id, c_d_id, c_id, c_ytd_payment FROM customer",
        Measure::PaymentsOfCustomer => {
            "SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) FROM history \
             GROUP BY h_c_w_id, h_c_d_id, h_c_id"
        }
        Measure::DeliveredAmount => {
            "SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) FROM orders, order_line \
             WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
             AND ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id"
        }
        Measure::SeenDelivered | Measure::SeenOrders | Measure::SeenPayments => return None,
    })
}

impl AmountSource for SqlAmounts<'_> {
    fn sheet(&mut self, measure: Measure) -> Result<Amounts, BenchError> {
        let not = |what: &str| BenchError::Load(format!("{measure:?} {what}"));
        let sql = query(measure).ok_or_else(|| not("is not in the data"))?;
        let statement = self.session.prepare(sql)?;
        let mut sheet = Amounts::new();
        for row in self.session.query(statement, &[])? {
            let (amount, key) = row.split_last().ok_or_else(|| not("has no columns"))?;
            let number = |at: usize| key.get(at).map_or(Some(0), Cell::int);
            let (Some(warehouse), Some(district), Some(which), Some(amount)) = (
                number(0),
                number(1),
                number(2),
                amount.int().or_else(|| amount.scaled(2)),
            ) else {
                return Err(not(&format!("answers {row:?}")));
            };
            sheet.insert(pack(warehouse, district, which), amount);
        }
        Ok(sheet)
    }
}
