//! Unicode normalization: NORMALIZE and IS NORMALIZED.

use unicode_normalization::{UnicodeNormalization, is_nfc, is_nfd, is_nfkc, is_nfkd};

use super::library::pure;
use super::{ScalarFunction, mismatch};
use crate::error::{SqlError, SqlState};
use crate::types::TypeKind::{Bool, Text};
use crate::value::Value;

type Outcome = Result<Value, SqlError>;

#[rustfmt::skip]
pub(super) static FUNCTIONS: &[ScalarFunction] = &[
    pure("normalize", &[Text], Text, |a, _| normalize(a)),
    pure("normalize", &[Text, Text], Text, |a, _| normalize(a)),
    pure("is_normalized", &[Text], Bool, |a, _| is_normalized(a)),
    pure("is_normalized", &[Text, Text], Bool, |a, _| is_normalized(a)),
];

/// A Unicode normalization form.
#[derive(Clone, Copy)]
enum Form {
    C,
    D,
    Kc,
    Kd,
}

fn form_of(name: &str) -> Result<Form, SqlError> {
    let known = [
        ("NFC", Form::C),
        ("NFD", Form::D),
        ("NFKC", Form::Kc),
        ("NFKD", Form::Kd),
    ];
    let found = known
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    let message = || format!("invalid normalization form: {name}");
    found
        .map(|(_, form)| *form)
        .ok_or_else(|| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message()))
}

/// Returns the text and the normalization form, which is NFC by default.
fn of<'a>(args: &'a [Value], function: &'static str) -> Result<(&'a str, Form), SqlError> {
    match args {
        [Value::Text(text)] => Ok((text, Form::C)),
        [Value::Text(text), Value::Text(form)] => Ok((text, form_of(form)?)),
        _ => Err(mismatch(function)),
    }
}

fn normalize(args: &[Value]) -> Outcome {
    let (text, form) = of(args, "normalize")?;
    let normal: String = match form {
        Form::C => text.nfc().collect(),
        Form::D => text.nfd().collect(),
        Form::Kc => text.nfkc().collect(),
        Form::Kd => text.nfkd().collect(),
    };
    Ok(Value::text(normal))
}

fn is_normalized(args: &[Value]) -> Outcome {
    let (text, form) = of(args, "is_normalized")?;
    Ok(Value::Bool(match form {
        Form::C => is_nfc(text),
        Form::D => is_nfd(text),
        Form::Kc => is_nfkc(text),
        Form::Kd => is_nfkd(text),
    }))
}
