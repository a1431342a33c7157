//! The changes of committed transactions to each district, and the possible changes of transactions
//! with an unknown outcome. The data is compared with both.

use std::sync::{Mutex, MutexGuard};

use super::conditions::Sheet;
use super::mix::{District, Order};
use super::population::DISTRICTS;
use super::{Scale, pack};

/// The counts of a district.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deeds {
    pub new_orders: i64,
    pub payments: i64,
    pub delivered: i64,
}

impl Deeds {
    fn add(&mut self, more: Deeds) {
        self.new_orders += more.new_orders;
        self.payments += more.payments;
        self.delivered += more.delivered;
    }
}

/// The counts of all clients that have ended, by district, including loaded rows.
#[derive(Debug)]
pub(super) struct Done {
    scale: Scale,
    deeds: Mutex<Vec<Deeds>>,
    in_doubt: Mutex<Vec<Deeds>>,
}

/// The counts of one client, added to the total when it ends.
#[derive(Debug)]
pub(super) struct Own<'a> {
    of: &'a Done,
    deeds: Vec<Deeds>,
    in_doubt: Vec<Deeds>,
}

impl Done {
    /// Creates the counts after the load.
    pub fn new(scale: Scale) -> Done {
        let loaded = Deeds {
            new_orders: scale.customers.into(),
            payments: scale.customers.into(),
            delivered: scale.delivered().into(),
        };
        Done {
            scale,
            deeds: Mutex::new(vec![loaded; scale.districts() as usize]),
            in_doubt: Mutex::new(none(scale)),
        }
    }

    /// Creates the counts of one client.
    pub fn own(&self) -> Own<'_> {
        Own {
            of: self,
            deeds: none(self.scale),
            in_doubt: none(self.scale),
        }
    }

    /// Returns one of the counts, by district.
    pub fn sheet(&self, count: impl Fn(&Deeds) -> i64) -> Sheet {
        self.sheet_of(&self.deeds, count)
    }

    /// Returns the possible increase of a count through transactions with an unknown outcome.
    pub fn in_doubt(&self, count: impl Fn(&Deeds) -> i64) -> Sheet {
        self.sheet_of(&self.in_doubt, count)
    }

    fn sheet_of(&self, deeds: &Mutex<Vec<Deeds>>, count: impl Fn(&Deeds) -> i64) -> Sheet {
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

fn none(scale: Scale) -> Vec<Deeds> {
    vec![Deeds::default(); scale.districts() as usize]
}

fn lock(deeds: &Mutex<Vec<Deeds>>) -> MutexGuard<'_, Vec<Deeds>> {
    deeds.lock().expect("nobody panics with the deeds")
}

impl Own<'_> {
    /// Records a transaction that committed, or may have committed. A delivery had an order in each
    /// of the districts `delivered`.
    pub fn record(&mut self, order: &Order, delivered: &[District], in_doubt: bool) {
        let deeds = match in_doubt {
            true => &mut self.in_doubt,
            false => &mut self.deeds,
        };
        let nothing = Deeds::default();
        match order {
            Order::New { at, .. } => add(
                deeds,
                *at,
                Deeds {
                    new_orders: 1,
                    ..nothing
                },
            ),
            Order::Payment { at, .. } => add(
                deeds,
                *at,
                Deeds {
                    payments: 1,
                    ..nothing
                },
            ),
            Order::Delivery { .. } => {
                for at in delivered {
                    add(
                        deeds,
                        *at,
                        Deeds {
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

fn add(all: &mut [Deeds], (warehouse, district): District, deeds: Deeds) {
    let at = (warehouse - 1) * i64::from(DISTRICTS) + district - 1;
    if let Some(own) = all.get_mut(at as usize) {
        own.add(deeds);
    }
}

impl Drop for Own<'_> {
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
