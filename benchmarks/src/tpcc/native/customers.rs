//! Payments, order status and stock level (clauses 2.5.2, 2.6.2 and 2.8.2).

use fencepost_hashtable::IndexError;
use fencepost_txn::Transaction;

use super::now;
use super::tables::{MachineTables, Tables, column, line_key};
use crate::native::rows::{copy, words};
use crate::tpcc::mix::{CustomerKey, District};
use crate::tpcc::schema::{CUSTOMER, DISTRICT, HISTORY, Row, WAREHOUSE};
use crate::tpcc::{BAD_CREDIT, LATEST_ORDERS, bad_credit_note, pack};

impl Tables {
    /// Runs a payment at a district, by a customer of that or another district, in cents. `number`
    /// is the key of the new history row.
    pub async fn payment(
        &self,
        tx: &mut Transaction,
        (at, of, who, cents): (District, District, &CustomerKey, i64),
        number: u64,
    ) -> Result<(), IndexError> {
        let (warehouse, district) = at;
        let add = |row: &mut [u64], column: usize, cents: i64| {
            row[column] = (row[column] as i64 + cents) as u64;
        };
        let home = self.of(warehouse);
        let mut data = Vec::new();
        let place = home.warehouse.must_find(tx, pack(0, 0, warehouse)).await?;
        tx.update(place, |row| {
            add(row, column::W_YTD, cents);
            data.extend(WAREHOUSE.text(row, column::W_NAME));
        })
        .await?;
        data.extend(b"    ");
        let place = home
            .district
            .must_find(tx, pack(warehouse, district, 0))
            .await?;
        tx.update(place, |row| {
            add(row, column::D_YTD, cents);
            data.extend(DISTRICT.text(row, column::D_NAME));
        })
        .await?;
        let place = self.of(of.0).customer_row(tx, of, who).await?;
        let customer = tx
            .update(place, |row| {
                add(row, column::C_BALANCE, -cents);
                add(row, column::C_YTD_PAYMENT, cents);
                row[column::C_PAYMENT_CNT] += 1;
                let id = row[column::C_ID] as i64;
                if CUSTOMER.text(row, column::C_CREDIT) == BAD_CREDIT.as_bytes() {
                    let mut note = bad_credit_note(id, of, at, cents).into_bytes();
                    note.extend(CUSTOMER.text(row, column::C_DATA));
                    CUSTOMER.set_text(row, column::C_DATA, &note);
                }
                id
            })
            .await?;
        let mut row = HISTORY.pack(&Row {
            numbers: vec![of.0, of.1, customer, warehouse, district, cents, now()],
            texts: Vec::new(),
        });
        HISTORY.set_text(&mut row, 0, &data);
        home.history.insert(tx, number, &row).await?;
        Ok(())
    }
}

impl MachineTables {
    /// Reads a customer's newest order, with its lines.
    pub async fn order_status(
        &self,
        tx: &mut Transaction,
        at: District,
        who: &CustomerKey,
    ) -> Result<(), IndexError> {
        let (mut row, mut lines) = (Vec::new(), Vec::new());
        let place = self.customer_row(tx, at, who).await?;
        copy(tx, place, &mut row).await?;
        let customer = row[column::C_ID] as i64;
        let Some(place) = self.newest_order(tx, at, customer).await? else {
            return Ok(());
        };
        copy(tx, place, &mut row).await?;
        let order = row[column::O_ID] as i64;
        let range = (
            &line_key(at, order, 0)[..],
            &line_key(at, order, u8::MAX)[..],
        );
        self.order_line.range(tx, range, &mut lines).await?;
        for line in &lines {
            copy(tx, *line, &mut row).await?;
        }
        Ok(())
    }

    /// Counts the items of a district's latest orders whose stock is below `threshold`.
    pub async fn stock_level(
        &self,
        tx: &mut Transaction,
        at: District,
        threshold: i64,
    ) -> Result<usize, IndexError> {
        let (warehouse, district) = at;
        let place = self
            .district
            .must_find(tx, pack(warehouse, district, 0))
            .await?;
        let [next] = words(tx, place, [column::D_NEXT_O_ID]).await?;
        let from = (next - LATEST_ORDERS).max(0);
        let range = (&line_key(at, from, 0)[..], &line_key(at, next, 0)[..]);
        let (mut lines, mut items) = (Vec::new(), Vec::new());
        self.order_line.range(tx, range, &mut lines).await?;
        for line in &lines {
            let [item] = words(tx, *line, [column::OL_I_ID]).await?;
            items.push(item);
        }
        items.sort_unstable();
        items.dedup();
        let mut low = 0;
        for item in items {
            let place = self.stock.must_find(tx, pack(warehouse, 0, item)).await?;
            let [quantity] = words(tx, place, [column::S_QUANTITY]).await?;
            low += usize::from(quantity < threshold);
        }
        Ok(low)
    }
}
