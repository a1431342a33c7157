//! The location of an object: region ids, addresses and fat pointers.
//!
//! ```text
//! Addr    | region id (32) | byte offset in the region (32) |      0 = no object
//! FatPtr  | Addr (64) | incarnation (32) | payload bytes (32) |    two words
//! ```
//! Offset 0 of every region holds the region's own header block, so address 0 never names an
//! object.

pub use fencepost_cluster::RegionId;

/// Address of an object: its region and the byte offset of its header word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Addr(u64);

impl Addr {
    /// The address that names no object.
    pub const NULL: Addr = Addr(0);

    /// Returns the address of byte `offset` of `region`.
    pub const fn new(region: RegionId, offset: u32) -> Self {
        Addr(((region.0 as u64) << 32) | offset as u64)
    }

    /// Decodes the 64 bits that are stored in objects and log records.
    pub const fn from_raw(raw: u64) -> Self {
        Addr(raw)
    }

    /// Returns the 64 bits to store.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Returns the region of the object.
    pub const fn region(self) -> RegionId {
        RegionId((self.0 >> 32) as u32)
    }

    /// Returns the byte offset inside the region.
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }

    /// Returns whether this names no object.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl std::fmt::Debug for Addr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{:#x}", self.region().0, self.offset())
    }
}

impl std::fmt::Display for Addr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// An address, with the size and the incarnation that a lock-free reader needs (NSDI'14 §3.5). If
/// the slot has another incarnation, the object was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FatPtr {
    /// The address of the object.
    pub addr: Addr,
    /// Requested payload bytes, a multiple of 8.
    pub size: u32,
    /// Incarnation of the slot when the object was allocated; a slot counts them modulo 2^16.
    pub incarnation: u32,
}

impl FatPtr {
    /// The fat pointer that names no object.
    pub const NULL: FatPtr = FatPtr {
        addr: Addr::NULL,
        size: 0,
        incarnation: 0,
    };

    /// Returns the two words that are stored in objects.
    pub const fn to_words(self) -> [u64; 2] {
        [
            self.addr.raw(),
            ((self.incarnation as u64) << 32) | self.size as u64,
        ]
    }

    /// Decodes two stored words.
    pub const fn from_words(words: [u64; 2]) -> Self {
        FatPtr {
            addr: Addr::from_raw(words[0]),
            size: words[1] as u32,
            incarnation: (words[1] >> 32) as u32,
        }
    }

    /// Returns whether this names no object.
    pub const fn is_null(self) -> bool {
        self.addr.is_null()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_and_fat_pointer_round_trip() {
        let addr = Addr::new(RegionId(7), 0xFFFF_FFF8);
        assert_eq!((addr.region(), addr.offset()), (RegionId(7), 0xFFFF_FFF8));
        let ptr = FatPtr {
            addr,
            size: 1 << 20,
            incarnation: 65_535,
        };
        assert_eq!(FatPtr::from_words(ptr.to_words()), ptr);
        assert!(FatPtr::from_words([0, 0]).is_null());
    }
}
