//! TATP's population: the rows of every subscriber as a function of seed and id.
//!
//! So any part of it can be generated again. The load is done in pieces, and the check after a run
//! generates the expected rows without having stored them.

use fencepost_fabric::random::Random;

use crate::draw::scatter;

/// The facility and access types.
pub const TYPES: std::ops::RangeInclusive<u8> = 1..=4;
/// The start times of forwardings.
pub const START_TIMES: [u8; 3] = [0, 8, 16];

/// A subscriber with its dependent rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// The id.
    pub s_id: u32,
    /// `bit_1` (lowest) to `bit_10`.
    pub bits: u16,
    /// `hex_1` to `hex_10`, each 0 to 15.
    pub hex: [u8; 10],
    /// `byte2_1` to `byte2_10`.
    pub byte2: [u8; 10],
    /// `msc_location`.
    pub msc_location: u32,
    /// `vlr_location`.
    pub vlr_location: u32,
    /// One to four access rows of different types.
    pub access: Vec<Access>,
    /// One to four facilities of different types.
    pub facilities: Vec<Facility>,
}

/// A row of ACCESS_INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The type, 1 to 4.
    pub ai_type: u8,
    /// `data1`.
    pub data1: u8,
    /// `data2`.
    pub data2: u8,
    /// `data3`: three letters.
    pub data3: [u8; 3],
    /// `data4`: five letters.
    pub data4: [u8; 5],
}

/// A row of SPECIAL_FACILITY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facility {
    /// The type, 1 to 4.
    pub sf_type: u8,
    /// Whether the facility is active; 85 % are.
    pub is_active: bool,
    /// `error_cntrl`.
    pub error_cntrl: u8,
    /// `data_a`.
    pub data_a: u8,
    /// `data_b`: five letters.
    pub data_b: [u8; 5],
    /// None to three forwardings, with different start times.
    pub forwardings: Vec<Forwarding>,
}

/// A row of CALL_FORWARDING.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// The start time: 0, 8 or 16.
    pub start_time: u8,
    /// The end time, one to eight hours later.
    pub end_time: u8,
    /// The subscriber whose number is called instead.
    pub to: u32,
}

/// A generator of subscribers.
#[derive(Clone, Copy, Debug)]
pub struct Population {
    /// The number of subscribers.
    pub subscribers: u32,
    /// The seed of all rows.
    pub seed: u64,
}

impl Population {
    /// Returns the subscriber with that id, which must be in `1..=subscribers`.
    pub fn subscriber(&self, s_id: u32) -> Subscriber {
        let mut random = Random::new(self.seed ^ scatter(u64::from(s_id)));
        let random = &mut random;
        Subscriber {
            s_id,
            bits: random.below(1 << 10) as u16,
            hex: std::array::from_fn(|_| random.below(16) as u8),
            byte2: std::array::from_fn(|_| random.below(256) as u8),
            msc_location: random.next_u64() as u32 >> 1,
            vlr_location: random.next_u64() as u32 >> 1,
            access: some_of(&[1, 2, 3, 4], 1, random, access),
            facilities: some_of(&[1, 2, 3, 4], 1, random, |sf_type, random| {
                facility(sf_type, self.subscribers, random)
            }),
        }
    }
}

/// Draws at least `least` of `kinds`, in order; each count is equally likely.
fn some_of<T>(
    kinds: &[u8],
    least: usize,
    random: &mut Random,
    mut make: impl FnMut(u8, &mut Random) -> T,
) -> Vec<T> {
    let count = least + random.below((kinds.len() - least + 1) as u64) as usize;
    let mut wanted = count;
    let mut made = Vec::with_capacity(count);
    for (at, kind) in kinds.iter().enumerate() {
        // Each of the remaining kinds is equally likely to be selected.
        if random.below((kinds.len() - at) as u64) < wanted as u64 {
            wanted -= 1;
            made.push(make(*kind, random));
        }
    }
    made
}

fn random_letters<const N: usize>(random: &mut Random) -> [u8; N] {
    std::array::from_fn(|_| b'A' + random.below(26) as u8)
}

fn access(ai_type: u8, random: &mut Random) -> Access {
    Access {
        ai_type,
        data1: random.below(256) as u8,
        data2: random.below(256) as u8,
        data3: random_letters(random),
        data4: random_letters(random),
    }
}

fn facility(sf_type: u8, subscribers: u32, random: &mut Random) -> Facility {
    Facility {
        sf_type,
        is_active: random.below(100) < 85,
        error_cntrl: random.below(256) as u8,
        data_a: random.below(256) as u8,
        data_b: random_letters(random),
        forwardings: some_of(&START_TIMES, 0, random, |start_time, random| Forwarding {
            start_time,
            end_time: start_time + 1 + random.below(8) as u8,
            to: random.below(u64::from(subscribers)) as u32 + 1,
        }),
    }
}

/// The numbers of rows of a population.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// The rows of ACCESS_INFO.
    pub access: u64,
    /// The rows of SPECIAL_FACILITY.
    pub facilities: u64,
    /// The rows of CALL_FORWARDING.
    pub forwardings: u64,
}

impl Sizes {
    /// Adds the rows of one subscriber.
    pub fn add(&mut self, subscriber: &Subscriber) {
        self.access += subscriber.access.len() as u64;
        self.facilities += subscriber.facilities.len() as u64;
        let each = subscriber
            .facilities
            .iter()
            .map(|facility| facility.forwardings.len() as u64);
        self.forwardings += each.sum::<u64>();
    }

    /// Returns the sum of both.
    pub fn plus(self, other: Sizes) -> Sizes {
        Sizes {
            access: self.access + other.access,
            facilities: self.facilities + other.facilities,
            forwardings: self.forwardings + other.forwardings,
        }
    }
}

/// Returns a subscriber's number: its id in fifteen digits.
pub fn number(s_id: u32) -> String {
    format!("{s_id:015}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn population_has_averages_of_specification() {
        let population = Population {
            subscribers: 20_000,
            seed: 9,
        };
        let mut sizes = Sizes::default();
        let mut active = 0;
        for s_id in 1..=population.subscribers {
            let subscriber = population.subscriber(s_id);
            assert_eq!(subscriber, population.subscriber(s_id), "made again alike");
            assert!((1..=4).contains(&subscriber.access.len()));
            assert!(subscriber.access.is_sorted_by_key(|access| access.ai_type));
            sizes.add(&subscriber);
            active += subscriber
                .facilities
                .iter()
                .filter(|facility| facility.is_active)
                .count();
        }
        let near = |count: u64, each: f64| {
            (count as f64 / f64::from(population.subscribers) - each).abs() < 0.05 * each
        };
        assert!(
            near(sizes.access, 2.5) && near(sizes.facilities, 2.5),
            "{sizes:?}"
        );
        assert!(near(sizes.forwardings, 2.5 * 1.5), "{sizes:?}");
        assert!(near(active as u64, 2.5 * 0.85), "{active}");
    }
}
