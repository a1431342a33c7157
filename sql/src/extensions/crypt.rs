//! Password hashes of `crypt`: bcrypt (`$2a$`) and the MD5 form (`$1$`). The DES forms are not
//! supported.

use blowfish::Blowfish;

use super::random;
use crate::error::{SqlError, SqlState};
use crate::functions::md5;

/// The 64 characters that encode six bits each.
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The same characters in the order of bcrypt.
const BCRYPT_ALPHABET: &[u8; 64] =
    b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// The length of a password that bcrypt uses, in bytes; the rest is ignored.
const BCRYPT_KEY_BYTES: usize = 72;
const BCRYPT_SALT_CHARS: usize = 22;
/// The default cost of `gen_salt`.
const BCRYPT_COST: u32 = 6;
/// The maximum cost. A higher one takes longer than about a second, blocks other sessions, and
/// cannot be canceled.
const BCRYPT_COST_MAX: u32 = 14;
const MD5_ROUNDS: usize = 1000;
const MD5_SALT_CHARS: usize = 8;

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Returns a new salt for [`crypt`]; 0 rounds mean the default of the kind.
pub(super) fn salt(kind: &str, rounds: i64) -> Result<String, SqlError> {
    let in_range =
        |least: i64, greatest: i64| match rounds == 0 || (least..=greatest).contains(&rounds) {
            true => Ok(()),
            false => Err(invalid("gen_salt: Incorrect number of rounds")),
        };
    match kind.to_ascii_lowercase().as_str() {
        "bf" => {
            in_range(4, 31)?;
            let mut bytes = [0; 16];
            random::fill(&mut bytes)?;
            let rounds = u32::try_from(rounds).ok().filter(|rounds| *rounds != 0);
            let rounds = rounds.unwrap_or(BCRYPT_COST);
            Ok(format!("$2a${rounds:02}${}", to_bcrypt(&bytes)))
        }
        "md5" => {
            in_range(MD5_ROUNDS as i64, MD5_ROUNDS as i64)?;
            let mut bytes = [0; MD5_SALT_CHARS];
            random::fill(&mut bytes)?;
            let salt = bytes.map(|byte| char::from(ALPHABET[usize::from(byte % 64)]));
            Ok(format!("$1${}", salt.iter().collect::<String>()))
        }
        "des" | "xdes" => Err(of_des()),
        _ => Err(invalid("gen_salt: Unknown salt algorithm")),
    }
}

/// Hashes a password with a salt, or with the salt of an existing hash.
pub(super) fn crypt(password: &str, setting: &str) -> Result<String, SqlError> {
    if let Some(rest) = setting.strip_prefix("$2a$") {
        return bcrypt(password, rest);
    }
    if let Some(rest) = setting.strip_prefix("$1$") {
        let salt = rest.split('$').next().unwrap_or_default();
        let end = salt.floor_char_boundary(MD5_SALT_CHARS);
        return Ok(md5_crypt(password.as_bytes(), &salt[..end]));
    }
    match setting.len() < 2 {
        true => Err(invalid("invalid salt")),
        false => Err(of_des()),
    }
}

fn of_des() -> SqlError {
    SqlError::unsupported("crypt and gen_salt with other than bf and md5")
}

fn bcrypt(password: &str, setting: &str) -> Result<String, SqlError> {
    let invalid = || invalid("invalid salt");
    let (rounds, salt) = setting.split_at_checked(3).ok_or_else(invalid)?;
    let digits = rounds.strip_suffix('$').ok_or_else(invalid)?;
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    let cost: u32 = digits.parse().map_err(|_| invalid())?;
    let salt = salt.get(..BCRYPT_SALT_CHARS).and_then(from_bcrypt);
    let salt = salt.filter(|_| all_digits && (4..=31).contains(&cost));
    let salt = salt.ok_or_else(invalid)?;
    if cost > BCRYPT_COST_MAX {
        let what = format!("crypt with more than 2^{BCRYPT_COST_MAX} rounds");
        return Err(SqlError::unsupported(what));
    }
    let mut key = [password.as_bytes(), &[0]].concat();
    key.truncate(BCRYPT_KEY_BYTES);
    let mut state: Blowfish = Blowfish::bc_init_state();
    state.salted_expand_key(&salt, &key);
    for _ in 0..1u64 << cost {
        state.bc_expand_key(&key);
        state.bc_expand_key(&salt);
    }
    // "OrpheanBeholderScryDoubt"
    let mut text = [
        0x4f72_7068,
        0x6561_6e42,
        0x6568_6f6c,
        0x6465_7253,
        0x6372_7944,
        0x6f75_6274,
    ];
    for pair in text.as_chunks_mut::<2>().0 {
        for _ in 0..64 {
            *pair = state.bc_encrypt(*pair);
        }
    }
    let mut bytes: Vec<u8> = text
        .iter()
        .flat_map(|word: &u32| word.to_be_bytes())
        .collect();
    bytes.pop();
    Ok(format!(
        "$2a${rounds}{}{}",
        to_bcrypt(&salt),
        to_bcrypt(&bytes)
    ))
}

/// Encodes six bits a character, highest bits first.
fn to_bcrypt(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let of = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = of(0) << 16 | of(1) << 8 | of(2);
        for character in 0..=three.len() {
            let six = bits >> (18 - 6 * character) & 0x3f;
            text.push(char::from(BCRYPT_ALPHABET[six as usize]));
        }
    }
    text
}

/// Decodes the 16 bytes of a salt.
fn from_bcrypt(text: &str) -> Option<[u8; 16]> {
    let (mut bits, mut held) = (0u32, 0);
    let mut bytes = Vec::with_capacity(BCRYPT_SALT_CHARS);
    for character in text.bytes() {
        let six = BCRYPT_ALPHABET.iter().position(|of| *of == character)?;
        bits = bits << 6 | six as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes.first_chunk().copied()
}

/// Computes the MD5 form, as FreeBSD defines it.
fn md5_crypt(password: &[u8], salt: &str) -> String {
    let salt = salt.as_bytes();
    let other = md5(&[password, salt, password].concat());
    let mut first = [password, b"$1$", salt].concat();
    let repeated = other.iter().cycle().take(password.len());
    first.extend(repeated);
    let mut left = password.len();
    while left > 0 {
        first.push(match left % 2 {
            1 => 0,
            _ => password[0],
        });
        left /= 2;
    }
    let mut hash = md5(&first);
    for round in 0..MD5_ROUNDS {
        let own = round % 2 == 1;
        let mut text = Vec::new();
        text.extend_from_slice(if own { password } else { &hash });
        if round % 3 != 0 {
            text.extend_from_slice(salt);
        }
        if round % 7 != 0 {
            text.extend_from_slice(password);
        }
        text.extend_from_slice(if own { &hash } else { password });
        hash = md5(&text);
    }
    let mut encoded = format!("$1${}$", String::from_utf8_lossy(salt));
    let mut put = |bits: u32, characters: usize| {
        for at in 0..characters {
            let six = bits >> (6 * at) & 0x3f;
            encoded.push(char::from(ALPHABET[six as usize]));
        }
    };
    let of = |at: usize| u32::from(hash[at]);
    for (a, b, c) in [(0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5)] {
        put(of(a) << 16 | of(b) << 8 | of(c), 4);
    }
    put(of(11), 2);
    encoded
}
