//! Character sets other than UTF-8, for `client_encoding`, `convert_from` and `convert_to`.
//!
//! All text in a database is UTF-8. Text in another encoding is decoded on input and encoded on
//! output.

use encoding_rs as rs;

use crate::error::{SqlError, SqlState};

/// The relation between the bytes and the characters of an encoding.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// UTF-8, and SQL_ASCII, whose text is not converted.
    Utf8,
    /// One byte a character; the byte is the code point.
    Latin1,
    /// ISO 8859-9: windows-1254, except for the control characters 0x80 to 0x9f.
    Latin5,
    /// One byte a character; bytes that the encoding leaves undefined have no character.
    Windows(&'static rs::Encoding),
    /// One byte a character.
    Single(&'static rs::Encoding),
    /// One or more bytes a character.
    Multi(&'static rs::Encoding),
}

/// An encoding that PostgreSQL knows.
#[derive(Clone, Copy, Debug)]
pub struct Encoding {
    name: &'static str,
    form: Form,
}

const fn of(name: &'static str, form: Form) -> Encoding {
    Encoding { name, form }
}

/// All encodings that are converted, by PostgreSQL's names.
static ENCODINGS: [Encoding; 37] = [
    of("UTF8", Form::Utf8),
    of("SQL_ASCII", Form::Utf8),
    of("LATIN1", Form::Latin1),
    of("LATIN2", Form::Single(rs::ISO_8859_2)),
    of("LATIN3", Form::Single(rs::ISO_8859_3)),
    of("LATIN4", Form::Single(rs::ISO_8859_4)),
    of("LATIN5", Form::Latin5),
    of("LATIN6", Form::Single(rs::ISO_8859_10)),
    of("LATIN7", Form::Single(rs::ISO_8859_13)),
    of("LATIN8", Form::Single(rs::ISO_8859_14)),
    of("LATIN9", Form::Single(rs::ISO_8859_15)),
    of("LATIN10", Form::Single(rs::ISO_8859_16)),
    of("ISO_8859_5", Form::Single(rs::ISO_8859_5)),
    of("ISO_8859_6", Form::Single(rs::ISO_8859_6)),
    of("ISO_8859_7", Form::Single(rs::ISO_8859_7)),
    of("ISO_8859_8", Form::Single(rs::ISO_8859_8)),
    of("WIN1250", Form::Windows(rs::WINDOWS_1250)),
    of("WIN1251", Form::Windows(rs::WINDOWS_1251)),
    of("WIN1252", Form::Windows(rs::WINDOWS_1252)),
    of("WIN1253", Form::Windows(rs::WINDOWS_1253)),
    of("WIN1254", Form::Windows(rs::WINDOWS_1254)),
    of("WIN1255", Form::Windows(rs::WINDOWS_1255)),
    of("WIN1256", Form::Windows(rs::WINDOWS_1256)),
    of("WIN1257", Form::Windows(rs::WINDOWS_1257)),
    of("WIN1258", Form::Windows(rs::WINDOWS_1258)),
    of("WIN866", Form::Single(rs::IBM866)),
    of("WIN874", Form::Windows(rs::WINDOWS_874)),
    of("KOI8R", Form::Single(rs::KOI8_R)),
    of("KOI8U", Form::Single(rs::KOI8_U)),
    of("EUC_JP", Form::Multi(rs::EUC_JP)),
    of("SJIS", Form::Multi(rs::SHIFT_JIS)),
    of("EUC_KR", Form::Multi(rs::EUC_KR)),
    of("UHC", Form::Multi(rs::EUC_KR)),
    of("EUC_CN", Form::Multi(rs::GBK)),
    of("GBK", Form::Multi(rs::GBK)),
    of("GB18030", Form::Multi(rs::GB18030)),
    of("BIG5", Form::Multi(rs::BIG5)),
];

/// Aliases, reduced to lower-case letters and digits, and PostgreSQL's names.
const ALIASES: [(&str, &str); 30] = [
    ("unicode", "UTF8"),
    ("iso88591", "LATIN1"),
    ("iso88592", "LATIN2"),
    ("iso88593", "LATIN3"),
    ("iso88594", "LATIN4"),
    ("iso88599", "LATIN5"),
    ("iso885910", "LATIN6"),
    ("iso885913", "LATIN7"),
    ("iso885914", "LATIN8"),
    ("iso885915", "LATIN9"),
    ("iso885916", "LATIN10"),
    ("win", "WIN1251"),
    ("alt", "WIN866"),
    ("koi8", "KOI8R"),
    ("mskanji", "SJIS"),
    ("shiftjis", "SJIS"),
    ("win932", "SJIS"),
    ("windows932", "SJIS"),
    ("win936", "GBK"),
    ("windows936", "GBK"),
    ("win949", "UHC"),
    ("windows949", "UHC"),
    ("win950", "BIG5"),
    ("windows950", "BIG5"),
    ("abc", "WIN1258"),
    ("tcvn", "WIN1258"),
    ("tcvn5712", "WIN1258"),
    ("vscii", "WIN1258"),
    ("windows866", "WIN866"),
    ("windows874", "WIN874"),
];

/// Encodings that PostgreSQL knows but that are not converted here, as lower-case letters and
/// digits.
const NOT_CONVERTED: [&str; 7] = [
    "euctw",
    "eucjis2004",
    "johab",
    "muleinternal",
    "shiftjis2004",
    "latin11",
    "eucjisx0213",
];

impl Encoding {
    /// Returns the encoding of a name, which PostgreSQL compares by its letters and digits alone;
    /// `None` for an unknown one.
    ///
    /// # Errors
    /// 0A000 for an encoding of PostgreSQL that is not converted here.
    pub fn named(name: &str) -> Result<Option<Encoding>, SqlError> {
        let plain = |name: &str| -> String {
            let kept = name.chars().filter(char::is_ascii_alphanumeric);
            kept.map(|c| c.to_ascii_lowercase()).collect()
        };
        let mut wanted = plain(name);
        if NOT_CONVERTED.contains(&wanted.as_str()) {
            return Err(SqlError::unsupported(format!("the encoding {name}")));
        }
        if let Some((_, canonical)) = ALIASES.iter().find(|(alias, _)| *alias == wanted) {
            wanted = plain(canonical);
        }
        if let Some(page) = wanted.strip_prefix("windows125") {
            wanted = format!("win125{page}");
        }
        let mut all = ENCODINGS.iter();
        Ok(all.find(|known| plain(known.name) == wanted).copied())
    }

    /// Returns PostgreSQL's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns true if text in this encoding differs from text in UTF-8.
    pub fn converts(&self) -> bool {
        !matches!(self.form, Form::Utf8)
    }

    /// Decodes bytes of a client into text.
    ///
    /// # Errors
    /// 22021 for bytes that are not a character of the encoding, 22P05 for a byte without a Unicode
    /// character.
    pub fn decode(&self, bytes: &[u8]) -> Result<String, SqlError> {
        let text = match self.form {
            Form::Utf8 => return crate::types::check_utf8(bytes).map(str::to_owned),
            _ if bytes.is_ascii() => None,
            Form::Latin1 => return Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
            Form::Latin5 => return self.decode_bytes(bytes),
            Form::Windows(of) => {
                return match whole(of, bytes) {
                    Some(text) if !text.chars().any(is_control) => Ok(text),
                    _ => self.decode_bytes(bytes),
                };
            }
            Form::Single(of) => match whole(of, bytes) {
                None => return self.decode_bytes(bytes),
                text => text,
            },
            Form::Multi(of) => match whole(of, bytes) {
                None => return Err(self.malformed(of, bytes)),
                text => text,
            },
        };
        Ok(text.unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned()))
    }

    /// Decodes an encoding of one byte a character, byte by byte.
    fn decode_bytes(&self, bytes: &[u8]) -> Result<String, SqlError> {
        let character = |byte: &u8| {
            let decoded = match self.form {
                Form::Latin5 if *byte < 0xa0 => Some(char::from(*byte)),
                Form::Latin5 => one(rs::WINDOWS_1254, *byte),
                Form::Windows(of) => one(of, *byte).filter(|c| !is_control(*c)),
                Form::Single(of) | Form::Multi(of) => one(of, *byte),
                Form::Utf8 | Form::Latin1 => Some(char::from(*byte)),
            };
            decoded.ok_or_else(|| untranslatable(&[*byte], self.name, "UTF8"))
        };
        bytes.iter().map(character).collect()
    }

    /// Returns error 22021 for the first malformed bytes.
    #[cold]
    fn malformed(&self, of: &'static rs::Encoding, bytes: &[u8]) -> SqlError {
        let mut decoder = of.new_decoder_without_bom_handling();
        let capacity = decoder.max_utf8_buffer_length_without_replacement(bytes.len());
        let mut text = String::with_capacity(capacity.unwrap_or(bytes.len()));
        let (result, read) = decoder.decode_to_string_without_replacement(bytes, &mut text, true);
        let start = match result {
            rs::DecoderResult::Malformed(length, behind) => {
                read.saturating_sub(usize::from(length) + usize::from(behind))
            }
            _ => 0,
        };
        let excerpt = &bytes[start..bytes.len().min(start + 2)];
        SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!(
                "invalid byte sequence for encoding \"{}\": {}",
                self.name,
                hex(excerpt)
            ),
        )
    }

    /// Appends text in this encoding.
    ///
    /// # Errors
    /// 22P05 for a character that the encoding does not have.
    pub fn encode(&self, text: &str, out: &mut Vec<u8>) -> Result<(), SqlError> {
        if text.is_ascii() || !self.converts() {
            out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        for c in text.chars() {
            if !self.encode_char(c, out) {
                let bytes = c.encode_utf8(&mut [0; 4]).as_bytes().to_vec();
                return Err(untranslatable(&bytes, "UTF8", self.name));
            }
        }
        Ok(())
    }

    /// Appends text in this encoding, with a question mark for each character that it does not
    /// have.
    pub fn encode_lossy(&self, text: &str, out: &mut Vec<u8>) {
        for c in text.chars() {
            if !self.encode_char(c, out) {
                out.push(b'?');
            }
        }
    }

    /// Appends a character and returns whether the encoding has it.
    fn encode_char(&self, c: char, out: &mut Vec<u8>) -> bool {
        if c.is_ascii() {
            out.push(c as u8);
            return true;
        }
        let of = match self.form {
            Form::Utf8 => {
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return true;
            }
            Form::Latin1 => {
                let byte = u8::try_from(u32::from(c)).ok();
                out.extend(byte);
                return byte.is_some();
            }
            Form::Latin5 if is_control(c) => {
                out.push(c as u8);
                return true;
            }
            Form::Latin5 => rs::WINDOWS_1254,
            Form::Windows(_) if is_control(c) => return false,
            Form::Windows(of) | Form::Single(of) | Form::Multi(of) => of,
        };
        let mut bytes = [0; 8];
        let mut encoder = of.new_encoder();
        let mut utf8 = [0; 4];
        let text = &*c.encode_utf8(&mut utf8);
        let (result, _, written) =
            encoder.encode_from_utf8_without_replacement(text, &mut bytes, true);
        let below = matches!(self.form, Form::Latin5) && bytes[0] < 0xa0;
        if result != rs::EncoderResult::InputEmpty || below {
            return false;
        }
        out.extend_from_slice(&bytes[..written]);
        true
    }
}

/// Returns whether a character is one of the control characters U+0080 to U+009F.
fn is_control(c: char) -> bool {
    ('\u{80}'..='\u{9f}').contains(&c)
}

fn whole(of: &'static rs::Encoding, bytes: &[u8]) -> Option<String> {
    let text = of.decode_without_bom_handling_and_without_replacement(bytes);
    text.map(|text| text.into_owned())
}

fn one(of: &'static rs::Encoding, byte: u8) -> Option<char> {
    whole(of, &[byte])?.chars().next()
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|b| format!("0x{b:02x}")).collect();
    digits.join(" ")
}

/// Returns error 22P05 for a character without an equivalent in the target encoding.
#[cold]
fn untranslatable(bytes: &[u8], from: &str, to: &str) -> SqlError {
    SqlError::new(
        SqlState::UNTRANSLATABLE_CHARACTER,
        format!(
            "character with byte sequence {} in encoding \"{from}\" has no equivalent in encoding \
             \"{to}\"",
            hex(bytes)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str) -> Encoding {
        let found = Encoding::named(name).expect("a converted encoding");
        found.unwrap_or_else(|| panic!("no encoding {name}"))
    }

    #[test]
    fn encoding_names_match_by_letters_and_digits() {
        for (said, name) in [
            ("iso-8859-1", "LATIN1"),
            ("Windows-1252", "WIN1252"),
            ("utf_8", "UTF8"),
            ("EUC-JP", "EUC_JP"),
            ("koi8", "KOI8R"),
        ] {
            assert_eq!(known(said).name(), name);
        }
        assert!(Encoding::named("klingon").expect("no error").is_none());
        assert!(Encoding::named("EUC_TW").is_err());
    }

    #[test]
    fn decoding_reverses_encoding() {
        for (name, text) in [
            ("LATIN1", "caf\u{e9} \u{85}"),
            ("LATIN5", "\u{11f}\u{e9}\u{85}"),
            ("WIN1252", "\u{20ac}\u{e9}"),
            ("WIN1251", "\u{44f}"),
            ("EUC_JP", "\u{65e5}\u{672c}"),
            ("SJIS", "\u{8868}"),
            ("GB18030", "\u{1f600}\u{4e2d}"),
        ] {
            let mut bytes = Vec::new();
            known(name).encode(text, &mut bytes).expect(name);
            assert_ne!(bytes, text.as_bytes());
            assert_eq!(known(name).decode(&bytes).expect(name), text);
        }
    }

    #[test]
    fn missing_characters_are_named() {
        let error = known("LATIN1").encode("\u{20ac}", &mut Vec::new());
        let error = error.expect_err("LATIN1 has no euro sign");
        assert_eq!(error.sqlstate(), SqlState::UNTRANSLATABLE_CHARACTER);
        assert_eq!(
            error.message(),
            "character with byte sequence 0xe2 0x82 0xac in encoding \"UTF8\" has no equivalent \
             in encoding \"LATIN1\""
        );
        let error = known("WIN1252").decode(b"a\x81").expect_err("undefined");
        assert_eq!(error.sqlstate(), SqlState::UNTRANSLATABLE_CHARACTER);
        let error = known("SJIS").decode(b"a\x81 ").expect_err("cut");
        assert_eq!(error.sqlstate(), SqlState::CHARACTER_NOT_IN_REPERTOIRE);
        assert!(
            error.message().ends_with("0x81 0x20"),
            "{}",
            error.message()
        );
    }
}
