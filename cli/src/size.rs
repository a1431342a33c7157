//! Sizes on the command line, such as `8G`, `512M`, `64MiB`, `1048576`.

/// Parses a number of bytes; units are powers of 1024.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err("a number with K, M, G or T".to_string()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| "a number with K, M, G or T".to_string())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "too large".to_string())
}

/// Parses the size of a region: a power of two from 16 MiB to 2 GiB.
pub fn region_bytes(text: &str) -> Result<usize, String> {
    match usize::try_from(bytes(text)?) {
        Ok(size) if size.is_power_of_two() && (16 << 20..=2 << 30).contains(&size) => Ok(size),
        _ => Err("a power of two from 16M to 2G".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("1048576"), Ok(1 << 20));
        assert_eq!(bytes("8G"), Ok(8 << 30));
        assert_eq!(bytes("64MiB"), Ok(64 << 20));
        for wrong in ["", "G", "8X", "-1", "1.5G", "99999999999999T"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(region_bytes("32M"), Ok(32 << 20));
        assert!(region_bytes("33M").is_err() && region_bytes("8M").is_err());
    }
}
