//! The encoding of a configuration: plain inside messages, sealed where it is stored.
//!
//! ```text
//! plain   | cluster 16 | id 8 | cm 4 | next machine 4 | count 4 | machine ... |
//! machine | id 4 | length 1, address | length 1, failure domain | leaving 1 |
//! ```

use crate::codec::{DecodeError, Reader, Wire, Writer, wire_structs};
use crate::configuration::{Configuration, Machine};
use crate::seal::{seal, unseal};

const MAGIC: [u8; 4] = *b"FpCf";
const VERSION: u16 = 2;

wire_structs!(Machine {
    id,
    address,
    domain,
    leaving
});

impl Wire for Configuration {
    fn put(&self, out: &mut Writer) {
        self.cluster().put(out);
        self.id().put(out);
        self.cm().put(out);
        self.next_machine().put(out);
        // At most MAX_MACHINES, so the cast loses nothing.
        (self.machines().len() as u32).put(out);
        for machine in self.machines() {
            machine.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (cluster, id) = (Wire::take(from)?, Wire::take(from)?);
        let (cm, next_machine) = (Wire::take(from)?, Wire::take(from)?);
        let machines = Wire::take(from)?;
        Configuration::from_parts(cluster, id, machines, cm, next_machine)
            .map_err(|_| DecodeError::Invalid("configuration"))
    }
}

impl Configuration {
    /// Returns the stored form of the configuration: with its format's version and a checksum.
    pub fn seal(&self) -> Vec<u8> {
        seal(MAGIC, VERSION, &self.encode())
    }

    /// Returns the configuration of sealed bytes.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one sealed configuration.
    pub fn unseal(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode(unseal(MAGIC, VERSION, bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use fencepost_fabric::MachineId;
    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    proptest! {
        #[test]
        fn configuration_round_trips(machines in 1u32..40) {
            let configuration = testing::machines(machines).with_leaving(MachineId(1)).unwrap();
            let sealed = configuration.seal();
            prop_assert_eq!(Configuration::unseal(&sealed), Ok(configuration.clone()));
            prop_assert_eq!(Configuration::decode(&configuration.encode()), Ok(configuration));
        }

        #[test]
        fn damage_is_found(machines in 1u32..5, at: prop::sample::Index, bit in 0u8..8, cut: bool) {
            let mut bytes = testing::machines(machines).seal();
            let at = at.index(bytes.len());
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 1 << bit;
            }
            prop_assert!(Configuration::unseal(&bytes).is_err());
        }

        #[test]
        fn garbage_is_refused_without_panic(bytes: Vec<u8>, count in 0u32..9) {
            prop_assert!(Configuration::unseal(&bytes).is_err());
            // A valid header, then a count and random bytes.
            let mut out = Writer::default();
            1u128.put(&mut out);
            1u64.put(&mut out);
            1u32.put(&mut out);
            9u32.put(&mut out);
            count.put(&mut out);
            out.raw(&bytes);
            if let Ok(decoded) = Configuration::decode(out.bytes()) {
                prop_assert_eq!(decoded.encode(), out.into_bytes());
            }
        }
    }

    #[test]
    fn another_format_is_told_from_damage() {
        let mut bytes = testing::machines(2).seal();
        bytes[4] = 3;
        let crc_at = bytes.len() - 4;
        let crc = crc32c::crc32c(&bytes[..crc_at]);
        bytes[crc_at..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Configuration::unseal(&bytes), Err(DecodeError::Version(3)));
        bytes[0] = b'x';
        assert_eq!(Configuration::unseal(&bytes), Err(DecodeError::Foreign));
    }
}
