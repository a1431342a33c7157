//! Identifiers of clusters and configurations, and names of addresses and failure domains.

use std::fmt;
use std::sync::Arc;

use fencepost_fabric::Random;
use thiserror::Error;

/// The identity of a cluster: drawn at random when the cluster is founded, and never changed. A
/// machine or a store of another cluster is recognised by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u128);

impl ClusterId {
    /// Returns a random id for a new cluster.
    pub fn draw(random: &mut Random) -> Self {
        Self((u128::from(random.next_u64()) << 64) | u128::from(random.next_u64()))
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterId({self})")
    }
}

/// The number of a configuration; consecutive configurations have consecutive numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigurationId(pub u64);

impl ConfigurationId {
    /// The number of a cluster's first configuration.
    pub const FIRST: Self = Self(1);

    /// Returns the number of the next configuration.
    pub fn next(self) -> Self {
        // A cluster never reaches 2^64 configurations, but bytes from outside may hold such a
        // number.
        Self(self.0.saturating_add(1))
    }

    /// Returns the number of the previous configuration; 0 stays 0.
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for ConfigurationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// The reason why a text is not a valid name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// The text is empty, or longer than 255 bytes.
    #[error("a name has 1 to 255 bytes")]
    Length,
    /// The text has white space or control characters.
    #[error("a name has no white space and no control characters")]
    Character,
}

fn checked(name: &str) -> Result<Arc<str>, NameError> {
    if name.is_empty() || name.len() > usize::from(u8::MAX) {
        return Err(NameError::Length);
    }
    if name.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(NameError::Character);
    }
    Ok(name.into())
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Makes a name of a text.
            ///
            /// # Errors
            /// [`NameError`] if the text is not a valid name.
            pub fn new(name: &str) -> Result<Self, NameError> {
                checked(name).map(Self)
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// The address at which the fabric reaches a machine: 1 to 255 bytes that only the fabric
    /// interprets.
    Address

    /// A group of machines that fail together, such as a rack: machines of different domains are
    /// expected to fail independently.
    FailureDomain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_printable() {
        assert!(Address::new("10.0.0.1:5433").is_ok());
        assert_eq!(Address::new(""), Err(NameError::Length));
        assert_eq!(FailureDomain::new(&"x".repeat(256)), Err(NameError::Length));
        assert_eq!(FailureDomain::new("rack 7"), Err(NameError::Character));
        assert_eq!(FailureDomain::new("rack\n"), Err(NameError::Character));
    }

    #[test]
    fn clusters_are_told_apart() {
        let mut random = Random::new(1);
        let (a, b) = (ClusterId::draw(&mut random), ClusterId::draw(&mut random));
        assert_ne!(a, b);
        assert_eq!(a.to_string().len(), 32);
    }
}
