//! The random numbers and texts of the specification (clauses 2.1.6 and 4.3.2).

use fencepost_fabric::random::Random;

/// The syllables of last names.
const SYLLABLES: [&str; 10] = [
    "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
];
/// The number of different last names.
pub(super) const NAMES: u32 = 1000;
const ALPHANUMERIC: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const DIGITS: &[u8; 10] = b"0123456789";

/// Returns the last name of a number below [`NAMES`].
pub(super) fn last_name(number: u32) -> String {
    let syllable = |at: u32| SYLLABLES[(number / at % 10) as usize];
    [syllable(100), syllable(10), syllable(1)].concat()
}

/// Draws a number from `low` to `high`.
pub(super) fn between(random: &mut Random, low: u32, high: u32) -> u32 {
    low + random.below(u64::from(high.saturating_sub(low)) + 1) as u32
}

/// The constants C of NURand, for last names, customers and items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constants {
    last: u32,
    customer: u32,
    item: u32,
}

impl Constants {
    /// Draws the constants of the run and those of the load. The constants of last names differ as
    /// clause 2.1.6.1 requires.
    pub fn draw(random: &mut Random) -> (Constants, Constants) {
        let load = Constants {
            last: between(random, 0, 255),
            customer: between(random, 0, 1023),
            item: between(random, 0, 8191),
        };
        loop {
            let last = between(random, 0, 255);
            let distance = load.last.abs_diff(last);
            if matches!(distance, 65..=119) && distance != 96 && distance != 112 {
                return (Constants { last, ..load }, load);
            }
        }
    }

    /// Draws the number of a last name, below `names`.
    pub fn last(&self, random: &mut Random, names: u32) -> u32 {
        nu_rand(random, 255, self.last, 0, names - 1)
    }

    /// Draws a customer of a district with `customers` customers.
    pub fn customer(&self, random: &mut Random, customers: u32) -> u32 {
        nu_rand(random, 1023, self.customer, 1, customers)
    }

    /// Draws one of `items` items.
    pub fn item(&self, random: &mut Random, items: u32) -> u32 {
        nu_rand(random, 8191, self.item, 1, items)
    }
}

/// Draws NURand(A, x, y) with the constant C.
fn nu_rand(random: &mut Random, a: u32, c: u32, x: u32, y: u32) -> u32 {
    let drawn = between(random, 0, a) | between(random, x, y);
    (drawn + c) % (y - x + 1) + x
}

fn string(random: &mut Random, letters: &[u8], low: u32, high: u32) -> String {
    let length = between(random, low, high);
    let letter = |_| char::from(letters[random.below(letters.len() as u64) as usize]);
    (0..length).map(letter).collect()
}

/// Draws `low` to `high` letters and digits.
pub(super) fn random_letters(random: &mut Random, low: u32, high: u32) -> String {
    string(random, ALPHANUMERIC, low, high)
}

/// Draws `count` digits.
pub(super) fn digits(random: &mut Random, count: u32) -> String {
    string(random, DIGITS, count, count)
}

/// Draws a zip code: four digits and five ones.
pub(super) fn zip(random: &mut Random) -> String {
    digits(random, 4) + "11111"
}

/// Draws 26 to 50 letters; one text in ten contains "ORIGINAL".
pub(super) fn data(random: &mut Random) -> String {
    let mut text = random_letters(random, 26, 50);
    if random.one_in(10) {
        let at = random.below(text.len() as u64 - 7) as usize;
        text.replace_range(at..at + 8, "ORIGINAL");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_match_specification() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        let mut random = Random::new(1);
        for _ in 0..50 {
            let (run, load) = Constants::draw(&mut random);
            let delta = run.last.abs_diff(load.last);
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112);
            for _ in 0..50 {
                assert!((1..=3000).contains(&run.customer(&mut random, 3000)));
                assert!((1..=30).contains(&run.customer(&mut random, 30)));
                assert!(run.last(&mut random, 7) < 7);
                assert!((1..=100_000).contains(&load.item(&mut random, 100_000)));
            }
        }
    }

    #[test]
    fn one_text_in_ten_is_original() {
        let mut random = Random::new(2);
        let texts: Vec<String> = (0..5000).map(|_| data(&mut random)).collect();
        assert!(texts.iter().all(|text| (26..=50).contains(&text.len())));
        let original = texts.iter().filter(|text| text.contains("ORIGINAL"));
        assert!((400..600).contains(&original.count()));
    }
}
