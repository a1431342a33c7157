//! inet, cidr and macaddr.
//!
//! An inet is the address of a host with the netmask length of its network. A cidr is an address
//! whose host bits are zero. Both are stored as an [`Inet`]. In a row it is the family, the netmask
//! length and the address, highest byte first.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv6Addr};

use crate::error::{SqlError, SqlState};

/// A host address and its netmask length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inet {
    v6: bool,
    bits: u8,
    /// The address; IPv4 uses the first four bytes, and the others are zero.
    bytes: [u8; 16],
}

/// The numbers of IPv4 and IPv6 in the binary form.
const FAMILIES: [u8; 2] = [2, 3];

impl From<IpAddr> for Inet {
    fn from(address: IpAddr) -> Inet {
        let mut bytes = [0; 16];
        let v6 = match address {
            IpAddr::V4(v4) => {
                bytes[..4].copy_from_slice(&v4.octets());
                false
            }
            IpAddr::V6(v6) => {
                bytes = v6.octets();
                true
            }
        };
        let bits = if v6 { 128 } else { 32 };
        Inet { v6, bits, bytes }
    }
}

impl Inet {
    /// Returns the family: 4 or 6.
    pub fn family(&self) -> i32 {
        if self.v6 { 6 } else { 4 }
    }

    /// Returns whether it is an IPv6 address.
    pub fn is_v6(&self) -> bool {
        self.v6
    }

    /// Returns the netmask length in bits.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Returns the number of bits of an address of this family.
    pub fn bits_max(&self) -> u8 {
        if self.v6 { 128 } else { 32 }
    }

    /// Returns the bytes of the address.
    pub fn address(&self) -> &[u8] {
        &self.bytes[..usize::from(self.bits_max() / 8)]
    }

    /// Returns the same address with another netmask length; `None` if it exceeds the address.
    pub fn with_bits(self, bits: u8) -> Option<Inet> {
        (bits <= self.bits_max()).then_some(Inet { bits, ..self })
    }

    /// Returns the same family and netmask length, with each byte of the address changed.
    pub fn map(mut self, change: impl Fn(usize, u8) -> u8) -> Inet {
        for at in 0..self.address().len() {
            self.bytes[at] = change(at, self.bytes[at]);
        }
        self
    }

    /// Returns the netmask for the byte at this index.
    pub fn mask(&self, at: usize) -> u8 {
        let bits = usize::from(self.bits).saturating_sub(at * 8).min(8);
        !(0xFF_u16 >> bits) as u8
    }

    /// Returns the network: the address with zero host bits.
    pub fn network(self) -> Inet {
        self.map(|at, byte| byte & self.mask(at))
    }

    /// Returns the number of leading bits that two addresses of one family have in common.
    pub fn common_bits(&self, other: &Inet) -> u8 {
        let pairs = self.address().iter().zip(other.address());
        let mut common = 0;
        for (a, b) in pairs {
            let same = (a ^ b).leading_zeros();
            common += same as u8;
            if same < 8 {
                break;
            }
        }
        common
    }

    /// Returns whether two addresses agree in their first `bits` bits.
    pub fn agrees(&self, other: &Inet, bits: u8) -> bool {
        self.v6 == other.v6 && self.common_bits(other) >= bits
    }

    /// Returns the sort key: the family, the network, the netmask length, the address.
    fn order(&self) -> (bool, [u8; 16], u8, [u8; 16]) {
        (self.v6, self.network().bytes, self.bits, self.bytes)
    }

    /// Appends bytes that sort as the values do, none of which is a prefix of another.
    pub fn push_key(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.v6));
        out.extend_from_slice(self.network().address());
        out.push(self.bits);
        out.extend_from_slice(self.address());
    }

    /// Returns the size in a row, in bytes.
    pub fn row_bytes(&self) -> usize {
        2 + self.address().len()
    }

    /// Writes the value into a row.
    pub fn put(&self, out: &mut [u8]) {
        out[0] = FAMILIES[usize::from(self.v6)];
        out[1] = self.bits;
        out[2..self.row_bytes()].copy_from_slice(self.address());
    }

    /// Reads a value from a row; `None` for invalid bytes.
    pub fn get(bytes: &[u8]) -> Option<Inet> {
        let (head, address) = bytes.split_first_chunk::<2>()?;
        let v6 = head[0] == FAMILIES[1];
        if !v6 && head[0] != FAMILIES[0] {
            return None;
        }
        let mut inet = Inet {
            v6,
            bits: head[1],
            bytes: [0; 16],
        };
        if address.len() != inet.address().len() || inet.bits > inet.bits_max() {
            return None;
        }
        inet.bytes[..address.len()].copy_from_slice(address);
        Some(inet)
    }

    /// Returns the text of the address without the netmask length.
    pub fn host(&self) -> String {
        match self.v6 {
            false => self.dotted(4, 0),
            true => self.colons(),
        }
    }

    fn dotted(&self, count: usize, from: usize) -> String {
        let bytes = self.bytes[from..from + count].iter();
        bytes.map(u8::to_string).collect::<Vec<_>>().join(".")
    }

    /// Returns the text of an IPv6 address. The first one of the longest runs of zeros is omitted.
    /// Addresses that contain an IPv4 address end with that address.
    fn colons(&self) -> String {
        let words = Ipv6Addr::from(self.bytes).segments();
        let (mut start, mut len) = (0, 0);
        let mut at = 0;
        while at < words.len() {
            let run = words[at..].iter().take_while(|word| **word == 0).count();
            if run > len && run > 1 {
                (start, len) = (at, run);
            }
            at += run.max(1);
        }
        let stands = start == 0 && (len == 6 || (len == 5 && words[5] == 0xFFFF));
        let hex = |words: &[u16]| {
            let words = words.iter().map(|word| format!("{word:x}"));
            words.collect::<Vec<_>>().join(":")
        };
        match (stands, len) {
            (true, 5) => format!("::ffff:{}", self.dotted(4, 12)),
            (true, _) => format!("::{}", self.dotted(4, 12)),
            (false, 0) => hex(&words),
            (false, len) => format!("{}::{}", hex(&words[..start]), hex(&words[start + len..])),
        }
    }

    /// Returns the text with the netmask length.
    pub fn with_its_bits(&self) -> String {
        format!("{}/{}", self.host(), self.bits)
    }

    /// Returns the shortest text of a network.
    pub fn abbreviated(&self) -> String {
        let bytes = usize::from(self.bits).div_ceil(8);
        match (self.v6, bytes) {
            (true, _) => self.shortest(),
            (false, 0) => "0/0".to_owned(),
            (false, bytes) => format!("{}/{}", self.dotted(bytes, 0), self.bits),
        }
    }

    /// Omits the words of an IPv6 network after its netmask.
    fn shortest(&self) -> String {
        let words = Ipv6Addr::from(self.bytes).segments();
        let count = usize::from(self.bits).div_ceil(16);
        if count == 0 || words[..count].contains(&0) {
            return self.with_its_bits();
        }
        let words = words[..count].iter().map(|word| format!("{word:x}"));
        format!("{}/{}", words.collect::<Vec<_>>().join(":"), self.bits)
    }
}

impl PartialOrd for Inet {
    fn partial_cmp(&self, other: &Inet) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Inet {
    fn cmp(&self, other: &Inet) -> Ordering {
        self.order().cmp(&other.order())
    }
}

pub(super) fn parse(text: &str, is_cidr: bool) -> Result<Inet, SqlError> {
    let name = if is_cidr { "cidr" } else { "inet" };
    let read = match text.contains(':') {
        true => read_v6(text),
        false => read_v4(text, is_cidr),
    };
    let inet = read.ok_or_else(|| super::invalid_input(name, text))?;
    if is_cidr && inet.network() != inet {
        return Err(SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid cidr value: \"{text}\""),
        )
        .detail("Value has bits set to right of mask."));
    }
    Ok(inet)
}

fn read_bits(text: &str, max: u8) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let bits = text.parse().ok().filter(|bits| *bits <= max);
    bits.filter(|_| digits)
}

fn read_v6(text: &str) -> Option<Inet> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, read_bits(bits, 128)?),
        None => (text, 128),
    };
    let address: Ipv6Addr = address.parse().ok()?;
    Some(Inet {
        bits,
        ..Inet::from(IpAddr::V6(address))
    })
}

/// Reads an IPv4 address. With fewer than four numbers it is a network, and the netmask can extend
/// at most into the next number. The default netmask of a cidr is that of its address class.
fn read_v4(text: &str, is_cidr: bool) -> Option<Inet> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(read_bits(bits, 32)?)),
        None => (text, None),
    };
    let mut bytes = [0; 16];
    let mut count = 0;
    for number in address.split('.') {
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        *bytes.get_mut(count).filter(|_| count < 4 && digits)? = number.parse().ok()?;
        count += 1;
    }
    let given = count as u8 * 8;
    let bits = match bits {
        Some(bits) if is_cidr || usize::from(bits / 8) <= count => bits,
        None if is_cidr => class_bits(bytes[0]).max(given),
        None if count == 4 => 32,
        _ => return None,
    };
    // `224` alone is a class D network.
    let bits = match (is_cidr, text) {
        (true, "224") => 4,
        _ => bits,
    };
    Some(Inet {
        v6: false,
        bits,
        bytes,
    })
}

fn class_bits(first: u8) -> u8 {
    match first {
        240.. => 32,
        224.. => 8,
        192.. => 24,
        128.. => 16,
        _ => 8,
    }
}

pub(super) fn format(inet: &Inet, is_cidr: bool, out: &mut Vec<u8>) {
    let text = match is_cidr || inet.bits != inet.bits_max() {
        true => inet.with_its_bits(),
        false => inet.host(),
    };
    out.extend_from_slice(text.as_bytes());
}

/// Appends the family, the netmask length, whether it is a cidr, the number of address bytes, and
/// the address.
pub(super) fn to_binary(inet: &Inet, is_cidr: bool, out: &mut Vec<u8>) {
    let address = inet.address();
    out.push(FAMILIES[usize::from(inet.v6)]);
    out.extend_from_slice(&[inet.bits, u8::from(is_cidr), address.len() as u8]);
    out.extend_from_slice(address);
}

pub(super) fn from_binary(bytes: &[u8], is_cidr: bool) -> Result<Inet, SqlError> {
    let read = bytes
        .split_first_chunk::<4>()
        .filter(|(head, address)| usize::from(head[3]) == address.len())
        .and_then(|(head, address)| Inet::get(&[&head[..2], address].concat()));
    let inet = read.ok_or_else(super::invalid_binary)?;
    if is_cidr && inet.network() != inet {
        return Err(SqlError::new(
            SqlState::INVALID_BINARY_REPRESENTATION,
            "invalid external \"cidr\" value",
        )
        .detail("Value has bits set to right of mask."));
    }
    Ok(inet)
}

/// Reads a macaddr: six groups with colons or hyphens, two or three longer groups, or all digits
/// without separators.
pub(super) fn parse_mac(text: &str) -> Result<[u8; 6], SqlError> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
    let text = text.trim();
    let shape = |separator: char, groups: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let fits = parts.len() == groups && parts.iter().all(|part| digits(part));
        fits.then_some(parts)
    };
    let invalid = || super::invalid_input("macaddr", text);
    if let Some(parts) = shape(':', 6).or_else(|| shape('-', 6)) {
        let mut mac = [0; 6];
        for (byte, part) in mac.iter_mut().zip(parts) {
            *byte = u8::from_str_radix(part, 16).map_err(|_| {
                SqlError::new(
                    SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!("invalid octet value in \"macaddr\" value: \"{text}\""),
                )
            })?;
        }
        return Ok(mac);
    }
    let forms = [(':', 2, 6), ('-', 2, 6), ('.', 3, 4), ('-', 3, 4)];
    let grouped = forms.iter().find_map(|(separator, groups, width)| {
        let parts = shape(*separator, *groups)?;
        let fits = parts.iter().all(|part| part.len() == *width);
        fits.then(|| parts.concat())
    });
    let all = grouped.or_else(|| (text.len() == 12 && digits(text)).then(|| text.to_owned()));
    let number = u64::from_str_radix(&all.ok_or_else(invalid)?, 16).map_err(|_| invalid())?;
    let mut mac = [0; 6];
    mac.copy_from_slice(&number.to_be_bytes()[2..]);
    Ok(mac)
}

pub(super) fn format_mac(mac: &[u8; 6], out: &mut Vec<u8>) {
    let text = mac.map(|byte| format!("{byte:02x}")).join(":");
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inet(text: &str) -> Inet {
        parse(text, false).expect("an address")
    }

    #[test]
    fn keys_sort_as_addresses_do() {
        let texts = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.0.0.1/8",
            "10.0.0.0/16",
            "10.1.0.0/16",
            "10.1.2.3",
            "192.168.1.0/24",
            "192.168.1.5/24",
            "192.168.1.5",
            "::/0",
            "::1",
            "2001:db8::/32",
        ];
        for pair in texts.map(inet).windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
            let key = |inet: &Inet| {
                let mut out = Vec::new();
                inet.push_key(&mut out);
                out
            };
            assert!(key(&pair[0]) < key(&pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_address_are_refused() {
        let mut row = vec![0; inet("10.1.2.3/8").row_bytes()];
        inet("10.1.2.3/8").put(&mut row);
        assert_eq!(Inet::get(&row), Some(inet("10.1.2.3/8")));
        assert_eq!(Inet::get(&row[..5]), None);
        row[1] = 33;
        assert_eq!(Inet::get(&row), None);
        assert_eq!(Inet::get(&[]), None);
        assert!(from_binary(&[2, 32, 0, 16, 1, 2, 3, 4], false).is_err());
    }
}
