//! The changes of committed transactions to each district, and the possible changes of transactions
//! with an unknown outcome. The data is compared with both.

use std::sync::{Mutex, MutexGuard};

use super::conditions::Amounts;
use super::mix::{District, Order};
use super::population::DISTRICTS;
use super::{Scale, pack};

/// The counts of a district.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DistrictCounts {
    pub new_orders: i64,
    pub payments: i64,
    pub delivered: i64,
}

impl DistrictCounts {
    fn add(&mut self, more: DistrictCounts) {
        self.new_orders += more.new_orders;
        self.payments += more.payments;
        self.delivered += more.delivered;
    }
}

/// The counts of all clients that have ended, by district, including loaded rows.
#[derive(Debug)]
pub(super) struct CommittedCounts {
    scale: Scale,
    deeds: Mutex<Vec<DistrictCounts>>,
    in_doubt: Mutex<Vec<DistrictCounts>>,
}

/// The counts of one client, added to the total when it ends.
#[derive(Debug)]
pub(super) struct ClientCounts<'a> {
    of: &'a CommittedCounts,
    deeds: Vec<DistrictCounts>,
    in_doubt: Vec<DistrictCounts>,
}

impl CommittedCounts {
    /// Creates the counts after the load.
    pub fn new(scale: Scale) -> CommittedCounts {
        let loaded = DistrictCounts {
            new_orders: scale.customers.into(),
            payments: scale.customers.into(),
            delivered: scale.delivered().into(),
        };
        CommittedCounts {
            scale,
            deeds: Mutex::new(vec![loaded; scale.districts() as usize]),
            in_doubt: Mutex::new(none(scale)),
        }
    }

    /// Creates the counts of one client.
    pub fn own(&self) -> ClientCounts<'_> {
        ClientCounts {
            of: self,
            deeds: none(self.scale),
            in_doubt: none(self.scale),
        }
    }

    /// Returns one of the counts, by district.
    pub fn sheet(&self, count: impl Fn(&DistrictCounts) -> i64) -> Amounts {
        self.sheet_of(&self.deeds, count)
    }

    /// Returns the possible increase of a count through transactions with an unknown outcome.
    pub fn in_doubt(&self, count: impl Fn(&DistrictCounts) -> i64) -> Amounts {
        self.sheet_of(&self.in_doubt, count)
    }

    fn sheet_of(
        &self,
        deeds: &Mutex<Vec<DistrictCounts>>,
        count: impl Fn(&DistrictCounts) -> i64,
    ) -> Amounts {
        let deeds = lock(deeds);
        let numbered = deeds.iter().zip(1..);
        numbered
            .map(|(deeds, number)| {
                let (warehouse, district) = self.scale.split(number, DISTRICTS);
                (pack(warehouse, district, 0), count(deeds))
            })
            .collect()
    }
}

fn none(scale: Scale) -> Vec<DistrictCounts> {
    vec![DistrictCounts::default(); scale.districts() as usize]
}

fn lock(deeds: &Mutex<Vec<DistrictCounts>>) -> MutexGuard<'_, Vec<DistrictCounts>> {
    deeds.lock().expect("no thread panics with the deeds")
}

impl ClientCounts<'_> {
    /// Records a transaction that committed, or may have committed. A delivery had an order in each
    /// of the districts `delivered`.
    pub fn record(&mut self, order: &Order, delivered: &[District], in_doubt: bool) {
        let deeds = match in_doubt {
            true => &mut self.in_doubt,
            false => &mut self.deeds,
        };
        let nothing = DistrictCounts::default();
        match order {
            Order::New { at, .. } => add(
                deeds,
                *at,
                DistrictCounts {
                    new_orders: 1,
                    ..nothing
                },
            ),
            Order::Payment { at, .. } => add(
                deeds,
                *at,
                DistrictCounts {
                    payments: 1,
                    ..nothing
                },
            ),
            Order::Delivery { .. } => {
                for at in delivered {
                    add(
                        deeds,
                        *at,
                        DistrictCounts {
                            delivered: 1,
                            ..nothing
                        },
                    );
                }
            }
            Order::Status { .. } | Order::StockLevel { .. } => {}
        }
    }
}

fn add(all: &mut [DistrictCounts], (warehouse, district): District, deeds: DistrictCounts) {
    let at = (warehouse - 1) * i64::from(DISTRICTS) + district - 1;
    if let Some(own) = all.get_mut(at as usize) {
        own.add(deeds);
    }
}

impl Drop for ClientCounts<'_> {
    fn drop(&mut self) {
        for (all, own) in [
            (&self.of.deeds, &self.deeds),
            (&self.of.in_doubt, &self.in_doubt),
        ] {
            for (all, own) in lock(all).iter_mut().zip(own) {
                all.add(*own);
            }
        }
    }
}
