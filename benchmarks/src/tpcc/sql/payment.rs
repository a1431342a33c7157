//! Payments (clause 2.5.2).

use super::{CustomersByName, int, small, text};
use crate::sql::{Arg, SqlFailure, SqlSession, StatementHandle};
use crate::tpcc::mix::{CustomerKey, District};
use crate::tpcc::{BAD_CREDIT, bad_credit_note};

pub(super) struct Payment {
    warehouse: StatementHandle,
    district: StatementHandle,
    by_name: CustomersByName,
    customer: StatementHandle,
    note: StatementHandle,
    insert_history: StatementHandle,
}

impl Payment {
    pub fn prepare(session: &mut dyn SqlSession) -> Result<Payment, SqlFailure> {
        Ok(Payment {
            warehouse: session.prepare(
                "UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2 \
                 RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
            )?,
            district: session.prepare(
                "UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3 \
                 RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
            )?,
            by_name: CustomersByName::prepare(session)?,
            customer: session.prepare(
                "UPDATE customer SET c_balance = c_balance - $1, \
                 c_ytd_payment = c_ytd_payment + $1, c_payment_cnt = c_payment_cnt + 1 \
                 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4 \
                 RETURNING c_credit, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, \
                 c_state, c_zip, c_phone, c_since, c_credit_lim, c_discount, c_balance",
            )?,
            note: session.prepare(
                "UPDATE customer SET c_data = substr(CAST($1 AS text) || c_data, 1, 500) \
                 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4 RETURNING c_data",
            )?,
            insert_history: session.prepare(
                "INSERT INTO history (h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_amount, \
                 h_date, h_data) VALUES ($1, $2, $3, $4, $5, $6, localtimestamp, $7)",
            )?,
        })
    }

    /// Runs a payment at a district, by a customer of that or another district.
    pub fn run(
        &self,
        session: &mut dyn SqlSession,
        at: District,
        of: District,
        who: &CustomerKey,
        cents: i64,
    ) -> Result<(), SqlFailure> {
        let amount = Arg::cents(cents);
        let (w, d) = (int(at.0), small(at.1));
        let warehouse = session.row(self.warehouse, &[amount, w])?;
        let district = session.row(self.district, &[amount, w, d])?;
        let id = self.by_name.id(session, of, who)?;
        let (c_w, c_d, c) = (int(of.0), small(of.1), int(id));
        let row = session.row(self.customer, &[amount, c_w, c_d, c])?;
        if text(&row, 0)? == BAD_CREDIT {
            let note = bad_credit_note(id, of, at, cents);
            session.row(self.note, &[Arg::Text(&note), c_w, c_d, c])?;
        }
        let data = format!("{}    {}", text(&warehouse, 0)?, text(&district, 0)?);
        let args = [c_w, c_d, c, w, d, amount, Arg::Text(&data)];
        session.execute(self.insert_history, &args)?;
        Ok(())
    }
}
