//! New orders and their delivery (clauses 2.4.2 and 2.7.4).

use fencepost_btree::Direction;
use fencepost_hashtable::IndexError;
use fencepost_txn::{Stop, Transaction};

use super::now;
use super::tables::{MachineTables, Tables, column, line_key};
use crate::harness::Attempt;
use crate::native::rows::{copy, words};
use crate::tpcc::mix::{District, OrderLine};
use crate::tpcc::population::DISTRICTS;
use crate::tpcc::schema::{CUSTOMER, ITEM, NULL, ORDER_LINE, ORDERS, Row, STOCK};
use crate::tpcc::{UNUSED_ITEM, pack, restocked};

/// The text that both the item and its stock must contain for the item to be "brand".
const ORIGINAL: &[u8] = b"ORIGINAL";

fn is_original(data: &[u8]) -> bool {
    data.windows(ORIGINAL.len()).any(|part| part == ORIGINAL)
}

impl Tables {
    /// Runs a new order; [`UNUSED_ITEM`] if it names an item that does not exist.
    pub async fn new_order(
        &self,
        tx: &mut Transaction,
        at: District,
        customer: i64,
        lines: &[OrderLine],
    ) -> Result<Attempt, IndexError> {
        let (warehouse, district) = at;
        let home = self.of(warehouse);
        let place = home
            .district
            .must_find(tx, pack(warehouse, district, 0))
            .await?;
        let (d_tax, id) = tx
            .update(place, |row| {
                let id = row[column::D_NEXT_O_ID];
                row[column::D_NEXT_O_ID] += 1;
                (row[column::D_TAX] as i64, id as i64)
            })
            .await?;
        let mut row = Vec::new();
        let key = pack(warehouse, district, customer);
        let place = home.customer.must_find(tx, key).await?;
        copy(tx, place, &mut row).await?;
        let discount = row[column::C_DISCOUNT] as i64;
        let mut read_bytes = CUSTOMER.text(&row, column::C_LAST).len();
        read_bytes += CUSTOMER.text(&row, column::C_CREDIT).len();

        let all_local = lines.iter().all(|line| line.supply == warehouse);
        let (count, carrier) = (lines.len() as i64, NULL);
        let order = Row {
            numbers: vec![
                warehouse,
                district,
                id,
                customer,
                carrier,
                count,
                all_local.into(),
                now(),
            ],
            texts: Vec::new(),
        };
        home.insert_order(tx, &ORDERS.pack(&order)).await?;
        home.insert_new_order(tx, at, id).await?;

        let mut sum = 0;
        for (line, number) in lines.iter().zip(1u8..) {
            let Some(place) = home.item.find(tx, line.item as u64).await? else {
                return Ok(Attempt::Failed(UNUSED_ITEM));
            };
            copy(tx, place, &mut row).await?;
            let amount = line.quantity * row[column::I_PRICE] as i64;
            sum += amount;
            let original = is_original(ITEM.text(&row, column::I_DATA));
            let (info, brand) = self.of(line.supply).take_stock(tx, at, line).await?;
            read_bytes += usize::from(original && brand);
            let mut row = ORDER_LINE.pack(&Row {
                numbers: vec![
                    warehouse,
                    district,
                    id,
                    number.into(),
                    line.item,
                    line.supply,
                    line.quantity,
                    amount,
                    NULL,
                ],
                texts: Vec::new(),
            });
            ORDER_LINE.set_text(&mut row, 0, &info);
            let key = line_key(at, id, number);
            home.order_line.insert(tx, &key, &row).await?;
        }
        // This row comes last, because every payment writes it.
        let place = home.warehouse.must_find(tx, pack(0, 0, warehouse)).await?;
        let [w_tax] = words(tx, place, [column::W_TAX]).await?;
        let total = sum * (10_000 - discount) * (10_000 + w_tax + d_tax);
        std::hint::black_box((total, read_bytes));
        Ok(Attempt::Committed)
    }
}

impl MachineTables {
    /// Takes a line's quantity from the supplying stock. Returns the district's text, and whether
    /// the stock is original.
    async fn take_stock(
        &self,
        tx: &mut Transaction,
        (home, district): District,
        line: &OrderLine,
    ) -> Result<([u8; 24], bool), IndexError> {
        let place = self
            .stock
            .must_find(tx, pack(line.supply, 0, line.item))
            .await?;
        let remote = u64::from(line.supply != home);
        let taken = tx
            .update(place, |row| {
                let left = restocked(row[column::S_QUANTITY] as i64, line.quantity);
                row[column::S_QUANTITY] = left as u64;
                row[column::S_YTD] += line.quantity as u64;
                row[column::S_ORDER_CNT] += 1;
                row[column::S_REMOTE_CNT] += remote;
                let info = STOCK.text(row, district as usize - 1);
                let brand = is_original(STOCK.text(row, column::S_DATA));
                info.try_into().ok().map(|info| (info, brand))
            })
            .await?;
        Ok(taken.ok_or(Stop::Damaged)?)
    }

    /// Delivers the oldest new order of each district. Returns the districts that had one.
    pub async fn delivery(
        &self,
        tx: &mut Transaction,
        warehouse: i64,
        carrier: i64,
    ) -> Result<Vec<District>, IndexError> {
        let (time, mut lines, mut delivered) = (now(), Vec::new(), Vec::new());
        for district in 1..=i64::from(DISTRICTS) {
            let key = |district| pack(warehouse, district, 0).to_be_bytes();
            let range = (&key(district)[..], &key(district + 1)[..]);
            let oldest = self.new_order.edge(tx, range, Direction::Forward).await?;
            let Some((key, _)) = oldest else {
                continue;
            };
            self.new_order.remove(tx, &key).await?;
            let order = u64::from_be_bytes(key.try_into().map_err(|_| Stop::Damaged)?);
            let place = self.orders.must_find(tx, order).await?;
            let customer = tx
                .update(place, |row| {
                    row[column::O_CARRIER_ID] = carrier as u64;
                    row[column::O_C_ID] as i64
                })
                .await?;
            let range = (&order.to_be_bytes()[..], &(order + 1).to_be_bytes()[..]);
            self.order_line.range(tx, range, &mut lines).await?;
            let mut amount = 0;
            for line in &lines {
                amount += tx
                    .update(*line, |row| {
                        row[column::OL_DELIVERY_D] = time as u64;
                        row[column::OL_AMOUNT] as i64
                    })
                    .await?;
            }
            let key = pack(warehouse, district, customer);
            let place = self.customer.must_find(tx, key).await?;
            tx.update(place, |row| {
                row[column::C_BALANCE] = (row[column::C_BALANCE] as i64 + amount) as u64;
                row[column::C_DELIVERY_CNT] += 1;
            })
            .await?;
            delivered.push((warehouse, district));
        }
        Ok(delivered)
    }
}
