//! TATP's seven transactions, their shares, and the distribution of their parameters.

use fencepost_fabric::random::Random;

/// One transaction with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// 35 %: reads one row by id.
    GetSubscriberData {
        /// The subscriber.
        s_id: u32,
    },
    /// 10 %: reads an active facility and the forwardings at a time of day.
    GetNewDestination {
        /// The subscriber.
        s_id: u32,
        /// The facility type.
        sf_type: u8,
        /// The forwardings must have begun by then: 0, 8 or 16.
        start_time: u8,
        /// The forwardings must end after it: 1 to 24.
        end_time: u8,
    },
    /// 35 %: reads one row by id and type.
    GetAccessData {
        /// The subscriber.
        s_id: u32,
        /// The access type, 1 to 4.
        ai_type: u8,
    },
    /// 2 %: updates two rows.
    UpdateSubscriberData {
        /// The subscriber.
        s_id: u32,
        /// The new `bit_1`.
        bit: u8,
        /// The facility type.
        sf_type: u8,
        /// The new `data_a`.
        data_a: u8,
    },
    /// 14 %: updates one row, found by the number.
    UpdateLocation {
        /// The subscriber; the transaction knows only the number.
        s_id: u32,
        /// The new `vlr_location`.
        location: u32,
    },
    /// 2 %: inserts a forwarding.
    InsertCallForwarding {
        /// The subscriber; the transaction knows only the number.
        s_id: u32,
        /// The facility type.
        sf_type: u8,
        /// The start time: 0, 8 or 16.
        start_time: u8,
        /// The end time: 1 to 24.
        end_time: u8,
        /// The subscriber whose number is called instead.
        to: u32,
    },
    /// 2 %: deletes a forwarding.
    DeleteCallForwarding {
        /// The subscriber; the transaction knows only the number.
        s_id: u32,
        /// The facility type.
        sf_type: u8,
        /// The start time: 0, 8 or 16.
        start_time: u8,
    },
}

impl Request {
    /// Returns the subscriber that the request concerns.
    pub const fn s_id(&self) -> u32 {
        match *self {
            Request::GetSubscriberData { s_id }
            | Request::GetNewDestination { s_id, .. }
            | Request::GetAccessData { s_id, .. }
            | Request::UpdateSubscriberData { s_id, .. }
            | Request::UpdateLocation { s_id, .. }
            | Request::InsertCallForwarding { s_id, .. }
            | Request::DeleteCallForwarding { s_id, .. } => s_id,
        }
    }
}

/// Draws requests for ids `1..=subscribers`.
#[derive(Clone, Debug)]
pub struct Mix {
    subscribers: u64,
    /// The constant A of the specification.
    spread: u64,
}

impl Mix {
    /// Creates the distribution for this number of subscribers.
    pub fn new(subscribers: u32) -> Mix {
        let spread = match subscribers {
            0..=1_000_000 => 65_535,
            1_000_001..=10_000_000 => 1_048_575,
            _ => 2_097_151,
        };
        Mix {
            subscribers: u64::from(subscribers.max(1)),
            spread,
        }
    }

    /// Draws a non-uniform id: the bits of A are set more often than not.
    #[inline]
    fn id(&self, random: &mut Random) -> u32 {
        let any = random.below(self.subscribers) | random.below(self.spread + 1);
        (any % self.subscribers) as u32 + 1
    }

    /// Draws the next request.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> Request {
        let share = random.below(100);
        let s_id = self.id(random);
        let kind = random.below(4) as u8 + 1;
        match share {
            0..35 => Request::GetSubscriberData { s_id },
            35..45 => Request::GetNewDestination {
                s_id,
                sf_type: kind,
                start_time: start_time(random),
                end_time: end_time(random),
            },
            45..80 => Request::GetAccessData {
                s_id,
                ai_type: kind,
            },
            80..82 => Request::UpdateSubscriberData {
                s_id,
                bit: random.below(2) as u8,
                sf_type: kind,
                data_a: random.below(256) as u8,
            },
            82..96 => Request::UpdateLocation {
                s_id,
                location: random.next_u64() as u32 >> 1,
            },
            96..98 => Request::InsertCallForwarding {
                s_id,
                sf_type: kind,
                start_time: start_time(random),
                end_time: end_time(random),
                to: self.id(random),
            },
            _ => Request::DeleteCallForwarding {
                s_id,
                sf_type: kind,
                start_time: start_time(random),
            },
        }
    }
}

fn start_time(random: &mut Random) -> u8 {
    random.below(3) as u8 * 8
}

fn end_time(random: &mut Random) -> u8 {
    random.below(24) as u8 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_matches_specification() {
        let mix = Mix::new(100_000);
        let mut random = Random::new(3);
        let mut counts = [0u32; 7];
        for _ in 0..100_000 {
            let at = match mix.draw(&mut random) {
                Request::GetSubscriberData { .. } => 0,
                Request::GetNewDestination { .. } => 1,
                Request::GetAccessData { .. } => 2,
                Request::UpdateSubscriberData { .. } => 3,
                Request::UpdateLocation { .. } => 4,
                Request::InsertCallForwarding { .. } => 5,
                Request::DeleteCallForwarding { .. } => 6,
            };
            counts[at] += 1;
        }
        for (count, percent) in counts.into_iter().zip([35, 10, 35, 2, 14, 2, 2]) {
            assert!(count.abs_diff(percent * 1000) < 500, "{counts:?}");
        }
    }

    #[test]
    fn ids_are_of_the_population_and_not_uniform() {
        let mix = Mix::new(1_000_000);
        let mut random = Random::new(4);
        let ids: Vec<u32> = (0..100_000).map(|_| mix.id(&mut random)).collect();
        assert!(ids.iter().all(|id| (1..=1_000_000).contains(id)));
        let bit_set = ids.iter().filter(|id| (**id - 1) & 0x8000 != 0).count();
        assert!(
            bit_set > 60_000,
            "a bit of A is set three times in four, but {bit_set}"
        );
    }
}
