//! `pgcrypto`: digests, HMACs, random bytes and password hashes (see `crypt`). Its encryption
//! functions exist but report that they are not supported.

use ring::digest::{self as legacy, SHA1_FOR_LEGACY_USE_ONLY as SHA1};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use uuid::Builder;

use super::{ExtensionFunction, crypt, random, unnamed};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::functions::{md5, mismatch, pure, volatile};
use crate::types::{Element, TypeKind};
use crate::value::Value;
use TypeKind::{Bytea, Int4, Text, Uuid};

type Outcome = Result<Value, SqlError>;

/// The SQLSTATE `external_routine_invocation_exception`.
const FAILED: SqlState = SqlState::new(b"39000");
const RANDOM_BYTES_MAX: usize = 1024;

pub(super) static FUNCTIONS: &[ExtensionFunction] = &[
    unnamed("pg_digest", pure("digest", &[Text, Text], Bytea, digest)),
    unnamed("pg_digest", pure("digest", &[Bytea, Text], Bytea, digest)),
    unnamed("pg_hmac", pure("hmac", &[Text, Text, Text], Bytea, hmac)),
    unnamed("pg_hmac", pure("hmac", &[Bytea, Bytea, Text], Bytea, hmac)),
    unnamed(
        "pg_random_bytes",
        volatile("gen_random_bytes", &[Int4], Bytea, |args, _| {
            let length = args.first().and_then(Value::as_int);
            let length = length.and_then(|length| usize::try_from(length).ok());
            let length = length.filter(|length| (1..=RANDOM_BYTES_MAX).contains(length));
            let length = length.ok_or_else(|| SqlError::new(FAILED, "Length not in range"))?;
            let mut bytes = vec![0; length];
            random::fill(&mut bytes)?;
            Ok(Value::Bytea(bytes))
        }),
    ),
    unnamed(
        "pg_random_uuid",
        volatile("gen_random_uuid", &[], Uuid, |_, _| {
            let mut bytes = [0; 16];
            random::fill(&mut bytes)?;
            let uuid = Builder::from_random_bytes(bytes).into_uuid();
            Ok(Value::Uuid(uuid.into_bytes()))
        }),
    ),
    unnamed(
        "pg_crypt",
        pure("crypt", &[Text, Text], Text, |args, _| match texts(args) {
            [password, setting] => crypt::crypt(password, setting).map(Value::text),
        }),
    ),
    unnamed(
        "pg_gen_salt",
        volatile("gen_salt", &[Text], Text, |args, _| {
            let [kind, _] = texts(args);
            crypt::salt(kind, 0).map(Value::text)
        }),
    ),
    unnamed(
        "pg_gen_salt_rounds",
        volatile("gen_salt", &[Text, Int4], Text, |args, _| {
            let [kind, _] = texts(args);
            let rounds = args.get(1).and_then(Value::as_int);
            crypt::salt(kind, rounds.unwrap_or(0)).map(Value::text)
        }),
    ),
];

/// Defines functions that only return error 0A000.
macro_rules! refused {
    ($($symbol:literal $name:literal ($($arg:expr),*) $result:expr;)*) => {
        &[$(unnamed(
            $symbol,
            pure($name, &[$($arg),*], $result, |_, _| {
                Err(SqlError::unsupported(concat!("the function ", $name, " of pgcrypto")))
            }),
        )),*]
    };
}

const TEXTS: TypeKind = TypeKind::Array(Element::TEXT);

pub(super) static REFUSED: &[ExtensionFunction] = refused! {
    "pg_encrypt" "encrypt" (Bytea, Bytea, Text) Bytea;
    "pg_decrypt" "decrypt" (Bytea, Bytea, Text) Bytea;
    "pg_encrypt_iv" "encrypt_iv" (Bytea, Bytea, Bytea, Text) Bytea;
    "pg_decrypt_iv" "decrypt_iv" (Bytea, Bytea, Bytea, Text) Bytea;
    "pg_armor" "armor" (Bytea) Text;
    "pg_armor" "armor" (Bytea, TEXTS, TEXTS) Text;
    "pg_dearmor" "dearmor" (Text) Bytea;
    "pgp_key_id_w" "pgp_key_id" (Bytea) Text;
    "pgp_sym_encrypt_text" "pgp_sym_encrypt" (Text, Text) Bytea;
    "pgp_sym_encrypt_text" "pgp_sym_encrypt" (Text, Text, Text) Bytea;
    "pgp_sym_encrypt_bytea" "pgp_sym_encrypt_bytea" (Bytea, Text) Bytea;
    "pgp_sym_encrypt_bytea" "pgp_sym_encrypt_bytea" (Bytea, Text, Text) Bytea;
    "pgp_sym_decrypt_text" "pgp_sym_decrypt" (Bytea, Text) Text;
    "pgp_sym_decrypt_text" "pgp_sym_decrypt" (Bytea, Text, Text) Text;
    "pgp_sym_decrypt_bytea" "pgp_sym_decrypt_bytea" (Bytea, Text) Bytea;
    "pgp_sym_decrypt_bytea" "pgp_sym_decrypt_bytea" (Bytea, Text, Text) Bytea;
    "pgp_pub_encrypt_text" "pgp_pub_encrypt" (Text, Bytea) Bytea;
    "pgp_pub_encrypt_text" "pgp_pub_encrypt" (Text, Bytea, Text) Bytea;
    "pgp_pub_encrypt_bytea" "pgp_pub_encrypt_bytea" (Bytea, Bytea) Bytea;
    "pgp_pub_encrypt_bytea" "pgp_pub_encrypt_bytea" (Bytea, Bytea, Text) Bytea;
    "pgp_pub_decrypt_text" "pgp_pub_decrypt" (Bytea, Bytea) Text;
    "pgp_pub_decrypt_text" "pgp_pub_decrypt" (Bytea, Bytea, Text) Text;
    "pgp_pub_decrypt_text" "pgp_pub_decrypt" (Bytea, Bytea, Text, Text) Text;
    "pgp_pub_decrypt_bytea" "pgp_pub_decrypt_bytea" (Bytea, Bytea) Bytea;
    "pgp_pub_decrypt_bytea" "pgp_pub_decrypt_bytea" (Bytea, Bytea, Text) Bytea;
    "pgp_pub_decrypt_bytea" "pgp_pub_decrypt_bytea" (Bytea, Bytea, Text, Text) Bytea;
};

fn texts(args: &[Value]) -> [&str; 2] {
    let text = |at: usize| args.get(at).and_then(Value::as_text).unwrap_or_default();
    [text(0), text(1)]
}

fn bytes(value: Option<&Value>) -> Result<&[u8], SqlError> {
    match value {
        Some(Value::Bytea(bytes)) => Some(&bytes[..]),
        Some(value) => value.as_text().map(str::as_bytes),
        None => None,
    }
    .ok_or_else(|| mismatch("pgcrypto"))
}

/// A digest algorithm.
#[derive(Clone, Copy, Debug)]
enum Hash {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    /// Returns the algorithm with a name.
    fn named(name: &str) -> Result<Hash, SqlError> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "md5" => Hash::Md5,
            "sha1" | "sha-1" => Hash::Sha1,
            "sha224" | "sha-224" => Hash::Sha224,
            "sha256" | "sha-256" => Hash::Sha256,
            "sha384" | "sha-384" => Hash::Sha384,
            "sha512" | "sha-512" => Hash::Sha512,
            other => {
                let unsupported = [
                    "sha3", "sha512-", "blake2", "rmd160", "ripemd", "sm3", "md4",
                ];
                if unsupported.iter().any(|of| other.starts_with(of)) {
                    let what = format!("the digest \"{name}\" of pgcrypto");
                    return Err(SqlError::unsupported(what));
                }
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("Cannot use \"{name}\": No such hash algorithm"),
                ));
            }
        })
    }

    fn digest(self, data: &[u8]) -> Vec<u8> {
        match self {
            Hash::Md5 => md5(data).to_vec(),
            Hash::Sha1 => legacy::digest(&SHA1, data).as_ref().to_vec(),
            Hash::Sha224 => Sha224::digest(data).to_vec(),
            Hash::Sha256 => Sha256::digest(data).to_vec(),
            Hash::Sha384 => Sha384::digest(data).to_vec(),
            Hash::Sha512 => Sha512::digest(data).to_vec(),
        }
    }

    /// Returns the block size in bytes.
    fn block(self) -> usize {
        match self {
            Hash::Sha384 | Hash::Sha512 => 128,
            _ => 64,
        }
    }

    /// Computes an HMAC (RFC 2104).
    fn keyed(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        let mut block = match key.len() > self.block() {
            true => self.digest(key),
            false => key.to_vec(),
        };
        block.resize(self.block(), 0);
        let with = |pad: u8, data: &[u8]| {
            let mut all: Vec<u8> = block.iter().map(|byte| byte ^ pad).collect();
            all.extend_from_slice(data);
            self.digest(&all)
        };
        with(0x5c, &with(0x36, data))
    }
}

fn digest(args: &[Value], _: &EvalContext) -> Outcome {
    let name = args.get(1).and_then(Value::as_text).unwrap_or_default();
    let hash = Hash::named(name)?;
    Ok(Value::Bytea(hash.digest(bytes(args.first())?)))
}

fn hmac(args: &[Value], _: &EvalContext) -> Outcome {
    let name = args.get(2).and_then(Value::as_text).unwrap_or_default();
    let hash = Hash::named(name)?;
    let (data, key) = (bytes(args.first())?, bytes(args.get(1))?);
    Ok(Value::Bytea(hash.keyed(key, data)))
}
