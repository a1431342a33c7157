//! The column list of `ON DELETE SET { NULL | DEFAULT }`, which sqlparser does not read.
//!
//! ```text
//! REFERENCES p (a, b) ON DELETE SET NULL (y)
//!     is REFERENCES p (a, b, "$delete y") ON DELETE SET NULL
//! REFERENCES p ON DELETE SET DEFAULT (y)
//!     is REFERENCES p ("$delete y") ON DELETE SET DEFAULT
//! ```
//! The listed columns become the last of the referenced columns, from where the binder takes them.

use sqlparser::ast::Ident;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::retoken::{is, is_at};
use crate::error::{SqlError, SqlState};

/// Prefix of the name of a column in an ON DELETE list.
const DELETE: &str = "$delete ";
/// Prefix of the action and name of a column in an ON UPDATE list, which is not allowed.
const UPDATE: &str = "$update ";

/// Moves the column lists of a CREATE TABLE or ALTER TABLE to the referenced columns.
pub(super) fn move_lists(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if let Some((mark, open)) = list_at(tokens, at) {
            move_list(tokens, at, &mark, open);
        }
        at += 1;
    }
}

/// Returns the prefix for the columns and the opening parenthesis of the list, if its ON is at
/// `at`.
fn list_at(tokens: &[TokenWithSpan], at: usize) -> Option<(String, usize)> {
    if !is_at(tokens, at, Keyword::ON) || !is_at(tokens, at + 2, Keyword::SET) {
        return None;
    }
    let action = if is_at(tokens, at + 3, Keyword::NULL) {
        "NULL"
    } else if is_at(tokens, at + 3, Keyword::DEFAULT) {
        "DEFAULT"
    } else {
        return None;
    };
    let mark = if is_at(tokens, at + 1, Keyword::DELETE) {
        DELETE.to_owned()
    } else if is_at(tokens, at + 1, Keyword::UPDATE) {
        format!("{UPDATE}{action} ")
    } else {
        return None;
    };
    let opens = tokens.get(at + 4)?.token == Token::LParen;
    opens.then_some((mark, at + 4))
}

/// Moves the list between `open` and its closing parenthesis; leaves anything else to the parser.
fn move_list(tokens: &mut Vec<TokenWithSpan>, on: usize, mark: &str, open: usize) {
    let Some(close) = (open..tokens.len()).find(|i| tokens[*i].token == Token::RParen) else {
        return;
    };
    let mut moved = Vec::new();
    for (nth, token) in tokens[open + 1..close].iter().enumerate() {
        match &token.token {
            Token::Word(word) if nth % 2 == 0 => {
                let name = match word.quote_style {
                    Some(_) => word.value.clone(),
                    None => word.value.to_lowercase(),
                };
                let token = Token::Word(Word {
                    value: format!("{mark}{name}"),
                    quote_style: Some('"'),
                    keyword: Keyword::NoKeyword,
                });
                let span = tokens[open].span;
                moved.push(TokenWithSpan { token, span });
            }
            Token::Comma if nth % 2 == 1 => moved.push(token.clone()),
            _ => return,
        }
    }
    let Some(at) = referenced_end(tokens, on).filter(|_| moved.len() % 2 == 1) else {
        return;
    };
    let extra = |token: Token| TokenWithSpan {
        token,
        span: tokens[open].span,
    };
    if tokens[at].token == Token::RParen {
        moved.insert(0, extra(Token::Comma));
    } else {
        moved.insert(0, extra(Token::LParen));
        moved.push(extra(Token::RParen));
    }
    tokens.drain(open..=close);
    tokens.splice(at..at, moved);
}

/// Returns the token after the last referenced column, or after the table's name if no columns are
/// given.
fn referenced_end(tokens: &[TokenWithSpan], on: usize) -> Option<usize> {
    let references = (0..on)
        .rev()
        .find(|i| is(&tokens[*i], Keyword::REFERENCES))?;
    let mut at = references + 2;
    while tokens.get(at)?.token == Token::Period {
        at += 2;
    }
    match tokens.get(at)?.token {
        Token::LParen => (at..on).find(|i| tokens[*i].token == Token::RParen),
        _ => Some(at),
    }
}

/// Splits a list of referenced columns into those that are referenced and the columns of ON DELETE.
///
/// # Errors
/// 0A000 if ON UPDATE has a list.
pub(crate) fn split_columns(list: &[Ident]) -> Result<(&[Ident], Vec<Ident>), SqlError> {
    let marked = |ident: &&Ident| {
        let quoted = ident.quote_style.is_some();
        quoted && (ident.value.starts_with(DELETE) || ident.value.starts_with(UPDATE))
    };
    let count = list.iter().rev().take_while(marked).count();
    let (referenced, marked) = list.split_at(list.len() - count);
    let mut columns = Vec::new();
    for ident in marked {
        if let Some(update) = ident.value.strip_prefix(UPDATE) {
            let action = update.split(' ').next().unwrap_or_default();
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("a column list with SET {action} is only supported for ON DELETE actions"),
            ));
        }
        let name = ident.value.strip_prefix(DELETE);
        columns.extend(name.map(|name| Ident::with_quote('"', name)));
    }
    Ok((referenced, columns))
}
