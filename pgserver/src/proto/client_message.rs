//! Messages of the client, borrowed from the input buffer.
//!
//! A decoded message has been checked completely: the iterators over its parameters and formats
//! cannot meet a missing byte.

use super::ProtoError;
use super::frame::Frame;
use super::reader::Reader;

/// The kind of object that Describe and Close name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A prepared statement (`S`).
    Statement,
    /// A portal (`P`).
    Portal,
}

/// A message of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientMessage<'a> {
    /// Simple query: any number of statements.
    Query(&'a str),
    /// Prepare a statement.
    Parse {
        /// The name of the statement; empty for the unnamed one.
        name: &'a str,
        /// The text of one statement.
        sql: &'a str,
        /// The types of the parameters that the client knows.
        types: Oids<'a>,
    },
    /// Create a portal of a statement and parameters.
    Bind(Bind<'a>),
    /// Ask for the types of a statement or portal.
    Describe(Target, &'a str),
    /// Run a portal.
    Execute {
        /// The name of the portal.
        portal: &'a str,
        /// The largest number of rows to send; 0 for all.
        rows_max: usize,
    },
    /// Drop a statement or portal.
    Close(Target, &'a str),
    /// End of an extended query.
    Sync,
    /// Send the available replies.
    Flush,
    /// A piece of COPY data.
    CopyData(&'a [u8]),
    /// The end of the COPY data.
    CopyDone,
    /// The client cancels the COPY.
    CopyFail(&'a str),
    /// A call of a function by its oid, which is not served.
    FunctionCall,
    /// A password or SASL response.
    Password(&'a [u8]),
    /// The client closes the connection.
    Terminate,
}

/// The body of Bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bind<'a> {
    /// The name of the new portal.
    pub portal: &'a str,
    /// The name of its statement.
    pub statement: &'a str,
    /// The formats of the parameters.
    pub parameter_formats: Formats<'a>,
    /// The parameters.
    pub parameters: Parameters<'a>,
    /// The formats of the result columns.
    pub result_formats: Formats<'a>,
}

/// A list of type oids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Oids<'a>(&'a [u8]);

impl<'a> Oids<'a> {
    /// Returns the oids in order; 0 for a type that the client leaves open.
    pub fn iter(&self) -> impl Iterator<Item = u32> + 'a {
        self.0
            .chunks_exact(4)
            .map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }
}

/// A list of format codes: none for text, one for all columns, or one a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Formats<'a>(&'a [u8]);

impl Formats<'_> {
    /// Returns the number of codes that were sent.
    pub fn count(&self) -> usize {
        self.0.len() / 2
    }

    /// Returns the code of column `index`: 0 for text, 1 for binary, or another value that the
    /// client sent.
    #[inline]
    pub fn code(&self, index: usize) -> i16 {
        let at = if self.0.len() == 2 { 0 } else { index * 2 };
        let code = self.0.get(at..).and_then(|codes| codes.first_chunk());
        code.map_or(0, |code| i16::from_be_bytes(*code))
    }

    /// Returns the first code that is neither text nor binary.
    pub fn unsupported(&self) -> Option<i16> {
        let mut codes = (0..self.count()).map(|index| self.code(index));
        codes.find(|code| !matches!(code, 0 | 1))
    }
}

/// The parameters of a Bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Parameters<'a> {
    /// Returns the number of parameters.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the bytes of each parameter; `None` for NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> + 'a {
        let mut reader = Reader::new(self.bytes);
        (0..self.count).map_while(move |_| parameter(&mut reader).ok())
    }
}

#[inline]
fn parameter<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, ProtoError> {
    match reader.i32()? {
        -1 => Ok(None),
        length => {
            // A negative length is longer than any message.
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            reader.bytes(length).map(Some)
        }
    }
}

fn formats<'a>(reader: &mut Reader<'a>) -> Result<Formats<'a>, ProtoError> {
    let count = usize::from(reader.u16()?);
    Ok(Formats(reader.bytes(count * 2)?))
}

/// Reads the body of Describe or Close; `message` is its name in errors.
fn target<'a>(
    reader: &mut Reader<'a>,
    message: &'static str,
) -> Result<(Target, &'a str), ProtoError> {
    let subtype = reader.byte()?;
    let name = reader.cstring()?;
    reader.end()?;
    match subtype {
        b'S' => Ok((Target::Statement, name)),
        b'P' => Ok((Target::Portal, name)),
        _ => Err(ProtoError::Subtype { message, subtype }),
    }
}

fn bind<'a>(reader: &mut Reader<'a>) -> Result<Bind<'a>, ProtoError> {
    let portal = reader.cstring()?;
    let statement = reader.cstring()?;
    let parameter_formats = formats(reader)?;
    let count = usize::from(reader.u16()?);
    let start = reader.rest();
    for _ in 0..count {
        parameter(reader)?;
    }
    let bytes = &start[..start.len() - reader.rest().len()];
    let result_formats = formats(reader)?;
    let parameters = Parameters { count, bytes };
    Ok(Bind {
        portal,
        statement,
        parameter_formats,
        parameters,
        result_formats,
    })
}

/// Reads the body of `frame`.
///
/// # Errors
/// [`ProtoError::Format`], [`ProtoError::Subtype`] or [`ProtoError::Encoding`] if the body does not
/// have the fields of its type; [`ProtoError::UnknownType`] for a type that [`super::frame::split`]
/// would not return.
#[inline]
pub fn decode<'a>(frame: &Frame<'a>) -> Result<ClientMessage<'a>, ProtoError> {
    let mut reader = Reader::new(frame.body);
    let message = match frame.tag {
        b'B' => ClientMessage::Bind(bind(&mut reader)?),
        b'E' => {
            let portal = reader.cstring()?;
            ClientMessage::Execute {
                portal,
                rows_max: usize::try_from(reader.i32()?).unwrap_or(0),
            }
        }
        b'S' => ClientMessage::Sync,
        b'Q' => ClientMessage::Query(reader.cstring()?),
        b'P' => {
            let name = reader.cstring()?;
            let sql = reader.cstring()?;
            let count = usize::from(reader.u16()?);
            ClientMessage::Parse {
                name,
                sql,
                types: Oids(reader.bytes(count * 4)?),
            }
        }
        b'D' => {
            let (target, name) = target(&mut reader, "DESCRIBE")?;
            ClientMessage::Describe(target, name)
        }
        b'C' => {
            let (target, name) = target(&mut reader, "CLOSE")?;
            ClientMessage::Close(target, name)
        }
        b'H' => ClientMessage::Flush,
        b'd' => return Ok(ClientMessage::CopyData(frame.body)),
        b'c' => return Ok(ClientMessage::CopyDone),
        b'f' => ClientMessage::CopyFail(reader.cstring()?),
        b'F' => return Ok(ClientMessage::FunctionCall),
        b'p' => return Ok(ClientMessage::Password(frame.body)),
        b'X' => return Ok(ClientMessage::Terminate),
        other => return Err(ProtoError::UnknownType(other)),
    };
    reader.end()?;
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::super::frame::split;
    use super::*;
    use proptest::prelude::*;

    fn framed(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut out = vec![tag];
        out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        out.extend_from_slice(body);
        out
    }

    fn decoded(tag: u8, body: &[u8]) -> Result<ClientMessage<'_>, ProtoError> {
        decode(&Frame { tag, body })
    }

    #[test]
    fn bind_decodes_parameters_and_formats() {
        let body = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x02\0\0\0\x01";
        let Ok(ClientMessage::Bind(bind)) = decoded(b'B', body) else {
            panic!("a Bind")
        };
        assert_eq!((bind.portal, bind.statement), ("p", "s"));
        assert_eq!(
            bind.parameters.iter().collect::<Vec<_>>(),
            [Some(&b"ab"[..]), None]
        );
        let codes = |formats: Formats<'_>| [0, 1, 2].map(|index| formats.code(index));
        assert_eq!(codes(bind.parameter_formats), [1, 1, 1]);
        assert_eq!(codes(bind.result_formats), [0, 1, 0]);
        assert_eq!(bind.result_formats.count(), 2);
        assert_eq!(bind.result_formats.unsupported(), None);
    }

    #[test]
    fn one_format_with_no_parameter_is_taken() {
        let body = b"\0\0\0\x01\0\x01\0\0\0\0";
        assert!(matches!(decoded(b'B', body), Ok(ClientMessage::Bind(_))));
    }

    #[test]
    fn unsupported_format_code_is_kept() {
        let body = b"\0\0\0\x01\0\x07\0\0\0\x02\0\0\xff\xfe";
        let Ok(ClientMessage::Bind(bind)) = decoded(b'B', body) else {
            panic!("a Bind")
        };
        assert_eq!(bind.parameter_formats.unsupported(), Some(7));
        assert_eq!(bind.result_formats.unsupported(), Some(-2));
    }

    #[test]
    fn missing_and_trailing_bytes_are_format_errors() {
        for (tag, body) in [
            (b'Q', &b"no zero"[..]),
            (b'Q', b"a\0b"),
            (b'P', b"\0select 1\0\0\x05\0\0\0\x17"),
            (b'B', b"\0\0\0\0\0\x01\0\0\0\x09ab\0\0"),
            (b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"),
            (b'E', b"\0\0\0"),
            (b'D', b""),
            (b'D', b"Xname"),
            (b'S', b"x"),
        ] {
            assert!(
                matches!(decoded(tag, body), Err(ProtoError::Format(_))),
                "{tag} {body:?}"
            );
        }
    }

    #[test]
    fn unknown_subtype_is_named() {
        let error = |tag| decoded(tag, b"Xname\0").map_err(|error| error.to_string());
        let message = |name| Err(format!("invalid {name} message subtype 88"));
        assert_eq!(error(b'D'), message("DESCRIBE"));
        assert_eq!(error(b'C'), message("CLOSE"));
    }

    #[test]
    fn text_that_is_not_utf8_is_named() {
        let Err(error) = decoded(b'Q', b"select '\xff'\0") else {
            panic!("not UTF-8")
        };
        assert_eq!(error.sqlstate(), "22021");
        assert!(error.to_string().ends_with("0xff 0x27"), "{error}");
    }

    /// Generates frames with plausible and with random bodies.
    fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let tag = prop::sample::select(b"QPBDECSHdcfXpF".to_vec());
        let body = prop::collection::vec(any::<u8>(), 0..60);
        prop::collection::vec((tag, body).prop_map(|(t, b)| framed(t, &b)), 0..12)
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut rest = &input[..];
            while let Ok(Some(frame)) = split(rest, 1 << 20) {
                if let Ok(ClientMessage::Bind(bind)) = decode(&frame) {
                    prop_assert_eq!(bind.parameters.iter().count(), bind.parameters.count());
                }
                rest = &rest[frame.size()..];
            }
        }

        #[test]
        fn random_bodies_never_panic(all in frames()) {
            for one in all {
                let frame = split(&one, 1 << 20).expect("well formed").expect("whole");
                if let Ok(ClientMessage::Bind(bind)) = decode(&frame) {
                    prop_assert_eq!(bind.parameters.iter().count(), bind.parameters.count());
                }
            }
        }

        #[test]
        fn messages_decode_from_any_pieces(all in frames(), cut in any::<prop::sample::Index>()) {
            let whole: Vec<u8> = all.concat();
            let cut = cut.index(whole.len() + 1);
            let mut seen = Vec::new();
            let mut buffer = Vec::new();
            for piece in [&whole[..cut], &whole[cut..]] {
                buffer.extend_from_slice(piece);
                let mut at = 0;
                while let Some(frame) = split(&buffer[at..], 1 << 20).expect("well formed") {
                    seen.push(framed(frame.tag, frame.body));
                    at += frame.size();
                }
                buffer.drain(..at);
            }
            prop_assert_eq!(seen, all);
            prop_assert!(buffer.is_empty());
        }
    }
}
