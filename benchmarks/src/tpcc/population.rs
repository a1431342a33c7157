//! The initial rows (clause 4.3.3.1). Every row depends only on the seed, its table and its number,
//! so rows can be generated in any order and by any thread.

use fencepost_fabric::random::Random;

use super::Scale;
use super::draw::{Constants, NAMES, between, data, digits, last_name, random_letters, zip};
use super::schema::{LOADED, NULL, Row};
use crate::draw::scatter;

/// The number of districts of a warehouse.
pub(super) const DISTRICTS: u32 = 10;
/// The amount of each loaded payment, in cents.
const PAYMENT: i64 = 1000;

/// The rows of a freshly loaded database.
pub(super) struct Population {
    pub scale: Scale,
    seed: u64,
    load: Constants,
    /// The constants of requests.
    pub run: Constants,
    /// The customer of each order: a random permutation of the customers of each district.
    customers: Vec<u32>,
}

/// The tables whose rows are drawn, to distinguish their random numbers.
#[derive(Clone, Copy)]
enum RandomStream {
    Item,
    Warehouse,
    Stock,
    District,
    Customer,
    History,
    Order,
}

/// A customer and its loaded payment.
pub(super) struct Customer {
    pub row: Row,
    pub history: Row,
}

/// An order, its NEW-ORDER row unless it is delivered, and its lines.
pub(super) struct Order {
    pub row: Row,
    pub new_order: Option<Row>,
    pub lines: Vec<Row>,
}

impl Population {
    /// Creates the population of a scale.
    pub fn new(scale: Scale, seed: u64) -> Population {
        let mut random = Random::new(seed);
        let (run, load) = Constants::draw(&mut random);
        let mut customers = Vec::new();
        for _ in 0..scale.districts() {
            let first = customers.len();
            customers.extend(1..=scale.customers);
            for at in (1..scale.customers as usize).rev() {
                let other = random.below(at as u64 + 1) as usize;
                customers.swap(first + at, first + other);
            }
        }
        Population {
            scale,
            seed,
            load,
            run,
            customers,
        }
    }

    /// Reports a population that differs from the specification.
    pub fn announce(&self, say: &dyn Fn(&str)) {
        let Scale {
            customers, items, ..
        } = self.scale;
        if !self.scale.is_specified() {
            say(&format!(
                "not to specification: {customers} customers a district and {items} items"
            ));
        }
    }

    fn random(&self, of: RandomStream, number: u64) -> Random {
        Random::new(scatter(scatter(self.seed ^ of as u64) ^ number))
    }

    /// Returns item `number`, from 1 to the number of items.
    pub fn item(&self, number: u64) -> Row {
        let random = &mut self.random(RandomStream::Item, number);
        let (image, price) = (between(random, 1, 10_000), between(random, 100, 10_000));
        Row {
            numbers: vec![number as i64, image.into(), price.into()],
            texts: vec![random_letters(random, 14, 24), data(random)],
        }
    }

    /// Returns warehouse `number`, from 1.
    pub fn warehouse(&self, number: u64) -> Row {
        let random = &mut self.random(RandomStream::Warehouse, number);
        let ytd = i64::from(DISTRICTS) * self.paid();
        Row {
            numbers: vec![number as i64, between(random, 0, 2000).into(), ytd],
            texts: address(random, random_letters),
        }
    }

    /// Returns district `number`, from 1 to the number of all districts.
    pub fn district(&self, number: u64) -> Row {
        let random = &mut self.random(RandomStream::District, number);
        let (w_id, d_id) = self.scale.split(number, DISTRICTS);
        let (tax, next) = (between(random, 0, 2000), self.scale.customers + 1);
        Row {
            numbers: vec![w_id, d_id, tax.into(), self.paid(), next.into()],
            texts: address(random, random_letters),
        }
    }

    /// Returns the sum that the customers of a district have paid.
    fn paid(&self) -> i64 {
        i64::from(self.scale.customers) * PAYMENT
    }

    /// Returns stock `number`, from 1, in the order of warehouses.
    pub fn stock(&self, number: u64) -> Row {
        let random = &mut self.random(RandomStream::Stock, number);
        let (w_id, i_id) = self.scale.split(number, self.scale.items);
        let mut texts: Vec<String> = (0..DISTRICTS)
            .map(|_| random_letters(random, 24, 24))
            .collect();
        texts.push(data(random));
        Row {
            numbers: vec![w_id, i_id, between(random, 10, 100).into(), 0, 0, 0],
            texts,
        }
    }

    /// Returns customer `number`, from 1, in the order of districts.
    pub fn customer(&self, number: u64) -> Customer {
        let random = &mut self.random(RandomStream::Customer, number);
        let (district, c_id) = self.scale.split(number, self.scale.customers);
        let (w_id, d_id) = self.scale.split(district as u64, DISTRICTS);
        let name = match c_id as u32 {
            c_id @ ..=NAMES => c_id - 1,
            _ => self.load.last(random, NAMES),
        };
        let credit = if random.one_in(10) { "BC" } else { "GC" };
        let mut texts = vec![random_letters(random, 8, 16), "OE".to_string()];
        texts.extend(address(random, |_, _, _| last_name(name)));
        texts.extend([
            digits(random, 16),
            credit.to_string(),
            random_letters(random, 300, 500),
        ]);
        let (discount, limit) = (between(random, 0, 5000), 5_000_000);
        let mut row = vec![w_id, d_id, c_id, discount.into(), limit];
        row.extend([-PAYMENT, PAYMENT, 1, 0, LOADED]);
        let random = &mut self.random(RandomStream::History, number);
        let history = Row {
            numbers: vec![w_id, d_id, c_id, w_id, d_id, PAYMENT, LOADED],
            texts: vec![random_letters(random, 12, 24)],
        };
        Customer {
            row: Row {
                numbers: row,
                texts,
            },
            history,
        }
    }

    /// Returns order `number`, from 1, in the order of districts; there are as many as customers.
    pub fn order(&self, number: u64) -> Order {
        let random = &mut self.random(RandomStream::Order, number);
        let (district, o_id) = self.scale.split(number, self.scale.customers);
        let (w_id, d_id) = self.scale.split(district as u64, DISTRICTS);
        let c_id = self.customers[number as usize - 1].into();
        let delivered = o_id <= i64::from(self.scale.delivered());
        let carrier = if delivered {
            between(random, 1, 10).into()
        } else {
            NULL
        };
        let lines = between(random, 5, 15).into();
        let line = |ol_number| {
            let i_id = between(random, 1, self.scale.items).into();
            let (amount, delivery) = if delivered {
                (0, LOADED)
            } else {
                (between(random, 1, 999_999).into(), NULL)
            };
            let mut numbers = vec![w_id, d_id, o_id, ol_number];
            numbers.extend([i_id, w_id, 5, amount, delivery]);
            Row {
                numbers,
                texts: vec![random_letters(random, 24, 24)],
            }
        };
        Order {
            lines: (1..=lines).map(line).collect(),
            new_order: (!delivered).then(|| Row {
                numbers: vec![w_id, d_id, o_id],
                texts: Vec::new(),
            }),
            row: Row {
                numbers: vec![w_id, d_id, o_id, c_id, carrier, lines, 1, LOADED],
                texts: Vec::new(),
            },
        }
    }
}

/// Returns a name, two streets, a city, a state and a zip code.
fn address(random: &mut Random, name: impl FnOnce(&mut Random, u32, u32) -> String) -> Vec<String> {
    vec![
        name(random, 6, 10),
        random_letters(random, 10, 20),
        random_letters(random, 10, 20),
        random_letters(random, 10, 20),
        random_letters(random, 2, 2),
        zip(random),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::schema::{CUSTOMER, DISTRICT, ORDER_LINE, ORDERS, STOCK, WAREHOUSE};

    #[test]
    fn rows_have_all_columns_and_orders_cover_customers() {
        let scale = Scale {
            warehouses: 2,
            customers: 30,
            items: 100,
        };
        let population = Population::new(scale, 5);
        for (table, row) in [
            (&WAREHOUSE, population.warehouse(2)),
            (&DISTRICT, population.district(20)),
            (&STOCK, population.stock(200)),
            (&CUSTOMER, population.customer(600).row),
            (&ORDERS, population.order(600).row),
            (&ORDER_LINE, population.order(600).lines.remove(4)),
        ] {
            assert_eq!(row.numbers[0], 2, "{}", table.name);
            assert_eq!(row.numbers.len(), table.numbers.len(), "{}", table.name);
            assert_eq!(row.texts.len(), table.texts.len(), "{}", table.name);
            for (text, (name, width, fixed)) in row.texts.iter().zip(table.texts) {
                assert!(text.len() <= *width, "{name}");
                assert!(!fixed || text.len() == *width, "{name}");
            }
        }
        let orders: Vec<Order> = (31..=60).map(|number| population.order(number)).collect();
        let mut customers: Vec<i64> = orders.iter().map(|order| order.row.numbers[3]).collect();
        customers.sort_unstable();
        assert_eq!(customers, (1..=30).collect::<Vec<i64>>());
        let new = orders.iter().filter(|order| order.new_order.is_some());
        assert_eq!(new.count(), 9);
    }
}
