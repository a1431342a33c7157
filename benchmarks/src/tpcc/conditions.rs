//! The consistency conditions of clause 3.3.2.
//!
//! Each is an equation between sums by warehouse, district, order or customer. A *measure* is such
//! a sum, and its *sheet* has the amount under each key. A condition holds if the sheets on its two
//! sides add up to the same amount under every key. Both forms of the benchmark compute each
//! measure: by scans natively, by one query each over SQL.
//!
//! Condition 11 says that 2,100 of a district's orders are delivered, which holds after the load; a
//! run adds its deliveries. Two more conditions compare the data with the commits that the clients
//! observed. Transactions with an unknown outcome may count or not.

use std::collections::HashMap;

use super::done::CommittedCounts;
use super::unpack;
use crate::error::BenchError;

/// The amount under each key; [`super::pack`] encodes the keys.
pub(super) type Amounts = HashMap<u64, i64>;

/// A sum. Money is in cents. A sum by order or customer has no entry for keys without rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// By warehouse: W_YTD.
    WarehouseYtd,
    /// By warehouse: the sum of D_YTD.
    DistrictsYtd,
    /// By warehouse: the sum of H_AMOUNT paid there.
    WarehousePayments,
    /// By district: D_NEXT_O_ID less one.
    LastOrder,
    /// By district: the largest O_ID.
    LargestOrder,
    /// By district: the largest NO_O_ID.
    LargestNewOrder,
    /// By district: the largest less the smallest NO_O_ID, and one.
    NewOrderSpan,
    /// By district: rows of NEW-ORDER.
    NewOrders,
    /// By district: the sum of O_OL_CNT.
    OrderedLines,
    /// By district: rows of ORDER-LINE.
    Lines,
    /// By district: D_YTD.
    DistrictYtd,
    /// By district: the sum of H_AMOUNT paid there.
    DistrictPayments,
    /// By district: rows of ORDER.
    Orders,
    /// By district: rows of HISTORY.
    Payments,
    /// By order: one where O_CARRIER_ID is null.
    OrdersWithoutCarrier,
    /// By order: one where there is a row of NEW-ORDER.
    EachNewOrder,
    /// By order: O_OL_CNT.
    LinesOfOrder,
    /// By order: rows of ORDER-LINE.
    LinesByOrder,
    /// By order: O_OL_CNT where O_CARRIER_ID is null.
    LinesOfUndelivered,
    /// By order: rows of ORDER-LINE where OL_DELIVERY_D is null.
    UndeliveredLines,
    /// By customer: C_BALANCE.
    Balance,
    /// By customer: C_YTD_PAYMENT.
    PaidByCustomer,
    /// By customer: the sum of H_AMOUNT.
    PaymentsOfCustomer,
    /// By customer: the sum of OL_AMOUNT where OL_DELIVERY_D is not null.
    DeliveredAmount,
    /// By district: orders loaded as delivered, and those of deliveries that committed.
    SeenDelivered,
    /// By district: orders loaded, and new orders that committed.
    SeenOrders,
    /// By district: payments loaded, and those that committed.
    SeenPayments,
}

/// A source of sheets.
pub(super) trait AmountSource {
    /// Computes the sheet of a measure from the data.
    fn sheet(&mut self, measure: Measure) -> Result<Amounts, BenchError>;
}

struct Condition {
    name: &'static str,
    left: &'static [Measure],
    right: &'static [Measure],
    /// Whether keys without an entry on the right side are ignored.
    only_right: bool,
}

const fn equal(
    name: &'static str,
    left: &'static [Measure],
    right: &'static [Measure],
) -> Condition {
    Condition {
        name,
        left,
        right,
        only_right: false,
    }
}

use Measure::{
    Balance, DeliveredAmount, DistrictPayments, DistrictYtd, DistrictsYtd, EachNewOrder,
    LargestNewOrder, LargestOrder, LastOrder, Lines, LinesByOrder, LinesOfOrder,
    LinesOfUndelivered, NewOrderSpan, NewOrders, OrderedLines, Orders, OrdersWithoutCarrier,
    PaidByCustomer, Payments, PaymentsOfCustomer, SeenDelivered, SeenOrders, SeenPayments,
    UndeliveredLines, WarehousePayments, WarehouseYtd,
};

const CONDITIONS: &[Condition] = &[
    equal("3.3.2.1", &[WarehouseYtd], &[DistrictsYtd]),
    equal("3.3.2.2", &[LastOrder], &[LargestOrder]),
    Condition {
        // A district whose orders are all delivered has no largest new order.
        only_right: true,
        ..equal("3.3.2.2", &[LastOrder], &[LargestNewOrder])
    },
    equal("3.3.2.3", &[NewOrderSpan], &[NewOrders]),
    equal("3.3.2.4", &[OrderedLines], &[Lines]),
    equal("3.3.2.5", &[OrdersWithoutCarrier], &[EachNewOrder]),
    equal("3.3.2.6", &[LinesOfOrder], &[LinesByOrder]),
    // Together with 3.3.2.6: all lines of an undelivered order are undelivered, and no line of
    // another order is.
    equal("3.3.2.7", &[LinesOfUndelivered], &[UndeliveredLines]),
    equal("3.3.2.8", &[WarehouseYtd], &[WarehousePayments]),
    equal("3.3.2.9", &[DistrictYtd], &[DistrictPayments]),
    equal(
        "3.3.2.10",
        &[Balance, PaymentsOfCustomer],
        &[DeliveredAmount],
    ),
    equal("3.3.2.11", &[Orders], &[NewOrders, SeenDelivered]),
    equal("3.3.2.12", &[Balance, PaidByCustomer], &[DeliveredAmount]),
    equal("committed new orders", &[Orders], &[SeenOrders]),
    equal("committed payments", &[Payments], &[SeenPayments]),
];

/// Returns the names of the conditions, each once.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = CONDITIONS.iter().map(|condition| condition.name).collect();
    names.dedup();
    names
}

/// Returns the violated conditions with their first keys; `None` if there are none.
pub(super) fn broken(
    books: &mut dyn AmountSource,
    done: &CommittedCounts,
) -> Result<Option<String>, BenchError> {
    let mut found = Vec::new();
    for condition in CONDITIONS {
        found.extend(condition.broken(books, done)?);
    }
    Ok((!found.is_empty()).then(|| found.join("; ")))
}

impl Condition {
    fn broken(
        &self,
        books: &mut dyn AmountSource,
        done: &CommittedCounts,
    ) -> Result<Option<String>, BenchError> {
        let mut sheet = |measure: Measure| match measure {
            Measure::SeenDelivered => Ok(done.sheet(|deeds| deeds.delivered)),
            Measure::SeenOrders => Ok(done.sheet(|deeds| deeds.new_orders)),
            Measure::SeenPayments => Ok(done.sheet(|deeds| deeds.payments)),
            measure => books.sheet(measure),
        };
        // Transactions with an unknown outcome may add up to that much.
        let in_doubt = match self.right.last() {
            Some(SeenDelivered) => done.in_doubt(|deeds| deeds.delivered),
            Some(SeenOrders) => done.in_doubt(|deeds| deeds.new_orders),
            Some(SeenPayments) => done.in_doubt(|deeds| deeds.payments),
            _ => Amounts::new(),
        };
        let mut side = |measures: &[Measure]| -> Result<Amounts, BenchError> {
            let mut sums = Amounts::new();
            for measure in measures {
                for (key, amount) in sheet(*measure)? {
                    *sums.entry(key).or_default() += amount;
                }
            }
            Ok(sums)
        };
        let (mut left, right) = (side(self.left)?, side(self.right)?);
        if self.only_right {
            left.retain(|key, _| right.contains_key(key));
        }
        let amount = |sheet: &Amounts, key: &u64| sheet.get(key).copied().unwrap_or(0);
        let differs = |key: &&u64| {
            let more = amount(&left, key) - amount(&right, key);
            !(0..=amount(&in_doubt, key)).contains(&more)
        };
        let wrong: Vec<u64> = left
            .keys()
            .chain(right.keys())
            .filter(differs)
            .copied()
            .collect();
        Ok(wrong.iter().min().map(|key| {
            let (warehouse, district, which) = unpack(*key);
            let place = format!("warehouse {warehouse}, district {district}, number {which}");
            let (left, right) = (amount(&left, key), amount(&right, key));
            format!(
                "{} does not hold: at {place} {:?} is {left} and {:?} is {right}",
                self.name, self.left, self.right
            )
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::mix::{District, Order};
    use crate::tpcc::{Scale, pack};

    /// Books in which every amount is one, but two for one measure.
    struct SkewedAmounts(Option<Measure>);

    impl AmountSource for SkewedAmounts {
        fn sheet(&mut self, measure: Measure) -> Result<Amounts, BenchError> {
            let amount = match measure {
                odd if Some(odd) == self.0 => 2,
                Balance => 0,
                Orders | Payments => 30,
                NewOrders | NewOrderSpan => 9,
                _ => 1,
            };
            let keys = (1..=10).map(|district| (pack(1, district, 0), amount));
            Ok(keys.collect())
        }
    }

    #[test]
    fn each_measure_breaks_its_condition() {
        let done = CommittedCounts::new(Scale::small(1));
        let clean = broken(&mut SkewedAmounts(None), &done).expect("it looks");
        assert_eq!(clean, None);
        for (measure, name) in [
            (DistrictsYtd, "3.3.2.1 "),
            (LargestOrder, "3.3.2.2 "),
            (LargestNewOrder, "3.3.2.2 "),
            (NewOrderSpan, "3.3.2.3 "),
            (Lines, "3.3.2.4 "),
            (EachNewOrder, "3.3.2.5 "),
            (LinesByOrder, "3.3.2.6 "),
            (UndeliveredLines, "3.3.2.7 "),
            (WarehousePayments, "3.3.2.8 "),
            (DistrictPayments, "3.3.2.9 "),
            (PaymentsOfCustomer, "3.3.2.10 "),
            (NewOrders, "3.3.2.11 "),
            (PaidByCustomer, "3.3.2.12 "),
            (Orders, "committed new orders "),
            (Payments, "committed payments "),
        ] {
            let found = broken(&mut SkewedAmounts(Some(measure)), &done).expect("it looks");
            assert!(found.is_some_and(|text| text.contains(name)), "{measure:?}");
        }
        assert_eq!(names().len(), 14);
    }

    /// Books with this number of committed deliveries.
    struct DeliveryAmounts(i64);

    impl AmountSource for DeliveryAmounts {
        fn sheet(&mut self, measure: Measure) -> Result<Amounts, BenchError> {
            let amount = match measure {
                Orders => 30,
                NewOrders => 9 - self.0,
                _ => 0,
            };
            let keys = (1..=10).map(|district| (pack(1, district, 0), amount));
            Ok(keys.collect())
        }
    }

    #[test]
    fn in_doubt_changes_may_exist_and_committed_must() {
        let done = CommittedCounts::new(Scale::small(1));
        let deliver = |in_doubt: bool| {
            let order = Order::Delivery {
                warehouse: 1,
                carrier: 1,
            };
            let all: Vec<District> = (1..=10).map(|district| (1, district)).collect();
            done.own().record(&order, &all, in_doubt);
        };
        deliver(false);
        deliver(true);
        deliver(true);
        let condition = CONDITIONS.iter().find(|one| one.name == "3.3.2.11");
        let condition = condition.expect("it is there");
        let holds = |delivered| {
            let broken = condition.broken(&mut DeliveryAmounts(delivered), &done);
            broken.expect("it looks").is_none()
        };
        assert_eq!([0, 1, 2, 3, 4].map(holds), [false, true, true, true, false]);
    }
}
