//! What committed transactions did to each district, to hold the data against.

use std::sync::{Mutex, MutexGuard};

use super::conditions::Sheet;
use super::mix::{District, Order};
use super::population::DISTRICTS;
use super::{Scale, pack};

/// What is counted of a district.
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

/// The deeds of all clients that have ended, by district; loaded rows count as deeds too.
#[derive(Debug)]
pub(super) struct Done {
    scale: Scale,
    deeds: Mutex<Vec<Deeds>>,
}

/// The deeds of one client, handed over when it ends.
#[derive(Debug)]
pub(super) struct Own<'a> {
    of: &'a Done,
    deeds: Vec<Deeds>,
}

impl Done {
    /// After the load.
    pub fn new(scale: Scale) -> Done {
        let loaded = Deeds {
            new_orders: scale.customers.into(),
            payments: scale.customers.into(),
            delivered: scale.delivered().into(),
        };
        Done {
            scale,
            deeds: Mutex::new(vec![loaded; scale.districts() as usize]),
        }
    }

    /// The part of one client.
    pub fn own(&self) -> Own<'_> {
        Own {
            of: self,
            deeds: vec![Deeds::default(); self.scale.districts() as usize],
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Deeds>> {
        self.deeds.lock().expect("nobody panics with the deeds")
    }

    /// One of the counts, by district.
    pub fn sheet(&self, count: impl Fn(&Deeds) -> i64) -> Sheet {
        let deeds = self.lock();
        let numbered = deeds.iter().zip(1..);
        numbered
            .map(|(deeds, number)| {
                let (warehouse, district) = self.scale.split(number, DISTRICTS);
                (pack(warehouse, district, 0), count(deeds))
            })
            .collect()
    }
}

impl Own<'_> {
    /// A transaction committed; a delivery had an order in each of the districts `delivered`.
    pub fn record(&mut self, order: &Order, delivered: &[District]) {
        let nothing = Deeds::default();
        match order {
            Order::New { at, .. } => self.add(
                *at,
                Deeds {
                    new_orders: 1,
                    ..nothing
                },
            ),
            Order::Payment { at, .. } => self.add(
                *at,
                Deeds {
                    payments: 1,
                    ..nothing
                },
            ),
            Order::Delivery { .. } => {
                for at in delivered {
                    self.add(
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

    fn add(&mut self, (warehouse, district): District, deeds: Deeds) {
        let at = (warehouse - 1) * i64::from(DISTRICTS) + district - 1;
        if let Some(own) = self.deeds.get_mut(at as usize) {
            own.add(deeds);
        }
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        for (all, own) in self.of.lock().iter_mut().zip(&self.deeds) {
            all.add(*own);
        }
    }
}
