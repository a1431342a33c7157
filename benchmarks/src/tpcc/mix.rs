//! The requests of terminals (clauses 2.4.1 to 2.8.1 and 5.2.3).

use fencepost_fabric::random::Random;

use super::draw::{Constants, NAMES, between, last_name};
use super::population::DISTRICTS;
use super::{Scale, TpccOptions};

/// The names of the transactions, in the order of [`Request::kind`].
pub(super) const KINDS: &[&str] = &[
    "new_order",
    "payment",
    "order_status",
    "delivery",
    "stock_level",
];

/// A warehouse and one of its districts.
pub(super) type District = (i64, i64);

/// The identification of a customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CustomerKey {
    Id(i64),
    LastName(String),
}

/// One ordered item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderLine {
    pub item: i64,
    pub supply: i64,
    pub quantity: i64,
}

/// A transaction with its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    New {
        at: District,
        customer: i64,
        lines: Vec<OrderLine>,
    },
    Payment {
        at: District,
        of: District,
        who: CustomerKey,
        cents: i64,
    },
    Status {
        at: District,
        who: CustomerKey,
    },
    Delivery {
        warehouse: i64,
        carrier: i64,
    },
    StockLevel {
        at: District,
        threshold: i64,
    },
}

impl Order {
    /// Returns the warehouse of the requesting terminal.
    pub fn home(&self) -> i64 {
        match self {
            Order::New { at, .. }
            | Order::Payment { at, .. }
            | Order::Status { at, .. }
            | Order::StockLevel { at, .. } => at.0,
            Order::Delivery { warehouse, .. } => *warehouse,
        }
    }
}

/// The request of a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request(pub(super) Order);

impl Request {
    pub(super) fn kind(&self) -> usize {
        match self.0 {
            Order::New { .. } => 0,
            Order::Payment { .. } => 1,
            Order::Status { .. } => 2,
            Order::Delivery { .. } => 3,
            Order::StockLevel { .. } => 4,
        }
    }
}

/// The percentages of accesses to another warehouse than the terminal's; they have no effect with
/// one warehouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteShares {
    /// Order lines supplied by another warehouse (clause 2.4.1.5).
    pub lines: u32,
    /// Payments of customers of another warehouse (clause 2.5.1.2).
    pub payments: u32,
}

impl RemoteShares {
    /// The percentages of the specification.
    pub const SPECIFIED: RemoteShares = RemoteShares {
        lines: 1,
        payments: 15,
    };
}

/// The terminals of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    scale: Scale,
    remote: RemoteShares,
    constants: Constants,
    /// The home warehouses are this one and each `step`th one after it.
    first: u32,
    step: u32,
}

impl Mix {
    /// Creates the terminals of thread `thread`, with its own warehouses, or with a shared one if
    /// there are more threads than warehouses.
    pub fn new(options: &TpccOptions, constants: Constants, thread: usize) -> Mix {
        let scale = options.scale;
        Mix {
            scale,
            remote: options.remote,
            constants,
            first: (thread % scale.warehouses as usize) as u32 + 1,
            step: u32::try_from(options.threads.max(1)).unwrap_or(u32::MAX),
        }
    }

    /// Draws the next request.
    pub fn draw(&self, random: &mut Random) -> Request {
        let homes = (self.scale.warehouses - self.first) / self.step + 1;
        let home = self.first + self.step * between(random, 0, homes - 1);
        let at = (i64::from(home), between(random, 1, DISTRICTS).into());
        Request(match random.below(100) {
            0..45 => self.new_order(random, home, at),
            45..88 => self.payment(random, home, at),
            88..92 => Order::Status {
                at,
                who: self.who(random),
            },
            92..96 => Order::Delivery {
                warehouse: at.0,
                carrier: between(random, 1, 10).into(),
            },
            _ => Order::StockLevel {
                at,
                threshold: between(random, 10, 20).into(),
            },
        })
    }

    fn new_order(&self, random: &mut Random, home: u32, at: District) -> Order {
        let count = between(random, 5, 15) as usize;
        let mut lines: Vec<OrderLine> = Vec::with_capacity(count);
        for _ in 0..count {
            let remote = percent(random, self.remote.lines);
            lines.push(OrderLine {
                item: self.constants.item(random, self.scale.items).into(),
                supply: self.warehouse(random, home, remote).into(),
                quantity: between(random, 1, 10).into(),
            });
        }
        // One order in a hundred ends with an item that does not exist, and is rolled back.
        if let (true, Some(last)) = (random.one_in(100), lines.last_mut()) {
            last.item = i64::from(self.scale.items) + 1;
        }
        let customer = self.constants.customer(random, self.scale.customers).into();
        Order::New {
            at,
            customer,
            lines,
        }
    }

    fn payment(&self, random: &mut Random, home: u32, at: District) -> Order {
        let remote = self.scale.warehouses > 1 && percent(random, self.remote.payments);
        let of = if remote {
            let other = self.warehouse(random, home, true);
            (other.into(), between(random, 1, DISTRICTS).into())
        } else {
            at
        };
        Order::Payment {
            at,
            of,
            who: self.who(random),
            cents: between(random, 100, 500_000).into(),
        }
    }

    /// Returns the home warehouse, or another one if `remote` is set and there is one.
    fn warehouse(&self, random: &mut Random, home: u32, remote: bool) -> u32 {
        let all = self.scale.warehouses;
        if !remote || all == 1 {
            return home;
        }
        (home - 1 + between(random, 1, all - 1)) % all + 1
    }

    fn who(&self, random: &mut Random) -> CustomerKey {
        if random.below(100) < 60 {
            let names = NAMES.min(self.scale.customers);
            CustomerKey::LastName(last_name(self.constants.last(random, names)))
        } else {
            CustomerKey::Id(self.constants.customer(random, self.scale.customers).into())
        }
    }
}

/// Returns true with a probability of `share` percent.
fn percent(random: &mut Random, share: u32) -> bool {
    random.below(100) < u64::from(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the second thread of two.
    fn mix(random: &mut Random, remote: RemoteShares) -> Mix {
        let (constants, _) = Constants::draw(random);
        let options = TpccOptions {
            scale: Scale::specified(5),
            remote,
            threads: 2,
            seed: 9,
        };
        Mix::new(&options, constants, 1)
    }

    #[test]
    fn where_nothing_is_remote_a_request_has_one_warehouse() {
        let mut random = Random::new(8);
        let all = |share| RemoteShares {
            lines: share,
            payments: share,
        };
        for (share, local) in [(0, true), (100, false)] {
            let mix = mix(&mut random, all(share));
            for _ in 0..2000 {
                match mix.draw(&mut random).0 {
                    Order::New { at, lines, .. } => {
                        assert!(lines.iter().all(|line| (line.supply == at.0) == local));
                    }
                    Order::Payment { at, of, .. } => assert_eq!(at.0 == of.0, local),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn mix_matches_specification() {
        let mut random = Random::new(9);
        let mix = mix(&mut random, RemoteShares::SPECIFIED);
        let (mut kinds, mut unused, mut items, mut remote_items) = ([0; 5], 0, 0, 0);
        let (mut named, mut remote) = (0, 0);
        const DRAWS: usize = 40_000;
        for _ in 0..DRAWS {
            let request = mix.draw(&mut random);
            kinds[request.kind()] += 1;
            match request.0 {
                Order::New { at, lines, .. } => {
                    assert!(at.0 == 2 || at.0 == 4, "{at:?}");
                    assert!((5..=15).contains(&lines.len()));
                    items += lines.len();
                    remote_items += lines.iter().filter(|line| line.supply != at.0).count();
                    unused += usize::from(lines.iter().any(|line| line.item == 100_001));
                }
                Order::Payment { at, of, who, .. } => {
                    remote += usize::from(at.0 != of.0);
                    named += usize::from(matches!(who, CustomerKey::LastName(_)));
                }
                _ => {}
            }
        }
        let near = |count: usize, of: usize, percent: f64| {
            let found = 100.0 * count as f64 / of as f64;
            assert!(
                (found - percent).abs() < percent.max(4.0) / 8.0,
                "{found} {percent}"
            );
        };
        for (count, percent) in kinds.into_iter().zip([45.0, 43.0, 4.0, 4.0, 4.0]) {
            near(count, DRAWS, percent);
        }
        near(unused, kinds[0], 1.0);
        near(remote_items, items, 1.0);
        near(remote, kinds[1], 15.0);
        near(named, kinds[1], 60.0);
    }
}
