//! The random selection of keys.

use fencepost_fabric::random::Random;

/// Scatters a number over all 64 bits; different numbers stay different.
#[inline]
pub fn scatter(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A distribution of the numbers `0..n`: uniform or Zipf's law.
#[derive(Clone, Debug)]
pub enum Draw {
    /// The uniform distribution.
    Uniform(u64),
    /// Zipf's law: the k-th most frequent number has a share proportional to 1/k^θ.
    Zipf(Zipf),
}

impl Draw {
    /// Creates a uniform distribution for `None`, otherwise Zipf's law with that θ.
    pub fn new(n: u64, theta: Option<f64>) -> Draw {
        theta.map_or(Draw::Uniform(n), |theta| Draw::Zipf(Zipf::new(n, theta)))
    }

    /// Draws the next number.
    #[inline]
    pub fn next(&self, random: &mut Random) -> u64 {
        match self {
            Draw::Uniform(n) => random.below(*n),
            // Numbers of similar frequency must not be neighbours.
            Draw::Zipf(zipf) => scatter(zipf.rank(random)) % zipf.n,
        }
    }
}

/// Zipf's law over `0..n`, by the method of Gray et al. (SIGMOD'94) that YCSB uses.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: u64,
    alpha: f64,
    zeta_n: f64,
    eta: f64,
    half_pow: f64,
}

impl Zipf {
    /// Creates the distribution, for `0 < theta < 1`.
    pub fn new(n: u64, theta: f64) -> Zipf {
        let n = n.max(2);
        let zeta = |to: u64| (1..=to).map(|k| (k as f64).powf(-theta)).sum::<f64>();
        let (zeta_2, zeta_n) = (zeta(2), zeta(n));
        Zipf {
            n,
            alpha: 1.0 / (1.0 - theta),
            zeta_n,
            eta: (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - zeta_2 / zeta_n),
            half_pow: 1.0 + 0.5f64.powf(theta),
        }
    }

    /// Draws a rank; 0 is the most frequent.
    #[inline]
    pub fn rank(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta_n;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.half_pow {
            return 1;
        }
        let rank = self.n as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.n - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hottest_key_has_share_of_zipf_law() {
        let zipf = Zipf::new(1_000_000, 0.99);
        let mut random = Random::new(1);
        let mut counts = [0u32; 3];
        const DRAWS: u32 = 200_000;
        for _ in 0..DRAWS {
            if let Some(count) = counts.get_mut(zipf.rank(&mut random) as usize) {
                *count += 1;
            }
        }
        let share = |count: u32| f64::from(count) / f64::from(DRAWS);
        assert!(
            (share(counts[0]) - 1.0 / zipf.zeta_n).abs() < 0.003,
            "{counts:?}"
        );
        assert!(counts[0] > counts[1] && counts[1] > counts[2], "{counts:?}");
    }

    #[test]
    fn draws_stay_in_range_and_reach_both_halves() {
        let mut random = Random::new(2);
        for draw in [Draw::new(10, None), Draw::new(10, Some(0.99))] {
            let seen: Vec<u64> = (0..1000).map(|_| draw.next(&mut random)).collect();
            assert!(seen.iter().all(|n| *n < 10));
            assert!(seen.iter().any(|n| *n < 5) && seen.iter().any(|n| *n >= 5));
        }
    }
}
