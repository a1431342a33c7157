//! Base images: objects of other machines as they were before a transaction changed them, where
//! their memory is not mapped. A commit compares with the base to find the changed ranges.
//!
//! # Invariant
//! * BASES-1: a kept image was the whole payload at the header that it is kept with. No two
//!   versions have one header.

use std::collections::HashMap;

use fencepost_storage::Addr;
use fencepost_storage::header::Header;
use foldhash::fast::FixedState;

/// Most words that are kept for one transaction, 1 MiB. Objects beyond that are sent to replicas
/// whole.
const MOST_WORDS: usize = 1 << 17;

/// The base images and their headers, by address.
#[derive(Default)]
pub(crate) struct Bases {
    images: HashMap<Addr, (Header, Box<[u64]>), FixedState>,
    words: usize,
}

impl Bases {
    /// Keeps the payload of an object at a version, in place of its payload at another version.
    pub fn keep(&mut self, addr: Addr, header: Header, payload: &[u64]) {
        if let Some((_, replaced)) = self.images.remove(&addr) {
            self.words -= replaced.len();
        }
        if self.words + payload.len() <= MOST_WORDS {
            self.words += payload.len();
            self.images.insert(addr, (header, payload.into()));
        }
    }

    /// Returns the payload of an object at a version, if it was kept.
    pub fn get(&self, addr: Addr, header: Header) -> Option<&[u64]> {
        let (of, payload) = self.images.get(&addr)?;
        (*of == header).then_some(payload)
    }

    /// Drops all base images, when another transaction begins.
    #[inline]
    pub fn clear(&mut self) {
        if self.words > 0 {
            self.images.clear();
            self.words = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_that_was_kept_is_found_and_there_is_a_bound() {
        let at = |number: u64| Addr::from_raw(number * 64);
        let mut bases = Bases::default();
        bases.keep(at(1), Header(5), &[1; 40]);
        assert_eq!(bases.get(at(1), Header(5)), Some(&[1; 40][..]));
        bases.keep(at(1), Header(6), &[2; 40]);
        assert_eq!(bases.get(at(1), Header(5)), None);
        assert_eq!(bases.get(at(1), Header(6)), Some(&[2; 40][..]));
        for number in 2..20 {
            bases.keep(at(number), Header(1), &vec![3; MOST_WORDS / 8]);
        }
        assert!(bases.get(at(3), Header(1)).is_some());
        assert!(bases.get(at(19), Header(1)).is_none());
        bases.clear();
        assert!(bases.get(at(3), Header(1)).is_none());
        bases.keep(at(19), Header(1), &vec![3; MOST_WORDS]);
        assert!(bases.get(at(19), Header(1)).is_some());
    }
}
