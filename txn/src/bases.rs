//! What objects of other machines were before a transaction changed them, where their memory is not mapped: the
//! base that the ranges it has changed are found by at commit.
//!
//! # Invariant
//! * BASES-1: what is kept was the whole payload at the header that it is kept with; no two versions have one header.

use std::collections::HashMap;

use fencepost_storage::Addr;
use fencepost_storage::header::Header;
use foldhash::fast::FixedState;

/// Words that are kept of one transaction, 1 MiB: of what is beyond that the whole goes to replicas.
const MOST_WORDS: usize = 1 << 17;

/// What is kept, by address.
#[derive(Default)]
pub(crate) struct Bases {
    kept: HashMap<Addr, (Header, Box<[u64]>), FixedState>,
    words: usize,
}

impl Bases {
    /// Keeps what an object is at a version, in place of what it was at another.
    pub fn keep(&mut self, addr: Addr, header: Header, payload: &[u64]) {
        if let Some((_, replaced)) = self.kept.remove(&addr) {
            self.words -= replaced.len();
        }
        if self.words + payload.len() <= MOST_WORDS {
            self.words += payload.len();
            self.kept.insert(addr, (header, payload.into()));
        }
    }

    /// What an object was at a version.
    pub fn get(&self, addr: Addr, header: Header) -> Option<&[u64]> {
        let (of, payload) = self.kept.get(&addr)?;
        (*of == header).then_some(payload)
    }

    /// Another transaction begins.
    #[inline]
    pub fn clear(&mut self) {
        if self.words > 0 {
            self.kept.clear();
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
