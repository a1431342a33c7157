//! Adjacent string literals. With a line break between them they are one literal; without one they
//! are an error.

use super::lexer::{Kind, Token, syntax_error};
use crate::error::SqlError;

/// Joins adjacent literals, if there are any. Later text keeps its line and column. The character
/// positions of errors after a joined literal are larger than in the original text.
pub(super) fn joined(sql: &str, tokens: &[Token]) -> Result<Option<String>, SqlError> {
    let follows = |i: usize| {
        let is_first = matches!(tokens[i].kind, Kind::String) || is_escaped(sql, &tokens[i]);
        is_first
            && tokens
                .get(i + 1)
                .is_some_and(|next| next.kind == Kind::String)
    };
    if !(0..tokens.len()).any(follows) {
        return Ok(None);
    }
    let (mut out, mut copied, mut i) = (String::with_capacity(sql.len()), 0, 0);
    while i < tokens.len() {
        if !follows(i) {
            i += 1;
            continue;
        }
        // Copies the literal without its closing quote; the next literals continue it.
        out.push_str(&sql[copied..tokens[i].end - 1]);
        let mut rest = String::new();
        while let Some(next) = tokens.get(i + 1).filter(|next| next.kind == Kind::String) {
            let between = &sql[tokens[i].end..next.start];
            if !between.contains('\n') {
                return Err(syntax_error(sql, Some(*next)));
            }
            out.push_str(&sql[next.start + 1..next.end - 1]);
            let kept = sql[tokens[i].end..next.end].chars();
            rest.extend(kept.map(|c| if c == '\n' { c } else { ' ' }));
            i += 1;
        }
        out.push('\'');
        out.push_str(&rest);
        copied = tokens[i].end;
        i += 1;
    }
    out.push_str(&sql[copied..]);
    Ok(Some(out))
}

/// Returns whether the token is a quoted literal with a prefix, such as `E'…'`, and not
/// dollar-quoted.
fn is_escaped(sql: &str, token: &Token) -> bool {
    token.kind == Kind::OtherString && token.text(sql).ends_with('\'')
}
