//! Syntax that sqlparser reads after its tokens are changed.
//!
//! ```text
//! t.order, 1 AS table                     is   t."order", 1 AS "table"
//! FOR UPDATE SKIP LOCKED LIMIT 1          is   LIMIT 1 FOR UPDATE SKIP LOCKED
//! MERGE INTO t USING a JOIN b ON … ON …   is   MERGE INTO t USING (a JOIN b ON …) ON …
//! CREATE TABLE t (CHECK (…) NOT VALID)    is   CREATE TABLE t (CHECK (…)), as t has no rows yet
//! SELECT WHERE true                       is   SELECT "" WHERE true, until the tree is made
//! ```
//! The tokens keep their positions in the text, which errors report.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::delete_columns::move_lists;
use super::{is_reserved, no_targets};

/// Changes the tokens of one statement.
pub(super) fn retoken(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    quote_labels(&mut tokens);
    no_targets::insert(&mut tokens);
    if tokens.iter().any(|token| is(token, Keyword::FOR)) {
        limit_before_locks(&mut tokens);
    }
    if starts(&tokens, &[Keyword::MERGE]) {
        enclose_source(&mut tokens);
    }
    if starts(&tokens, &[Keyword::CREATE]) {
        drop_not_valid(&mut tokens);
    }
    if starts(&tokens, &[Keyword::CREATE]) || starts(&tokens, &[Keyword::ALTER]) {
        move_lists(&mut tokens);
    }
    tokens
}

/// Returns whether the token is the keyword, quoted or not.
pub(super) fn is(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == keyword)
}

/// Returns whether the token at `at` exists and is the keyword.
pub(super) fn is_at(tokens: &[TokenWithSpan], at: usize, keyword: Keyword) -> bool {
    tokens.get(at).is_some_and(|token| is(token, keyword))
}

fn starts(tokens: &[TokenWithSpan], keywords: &[Keyword]) -> bool {
    let pairs = keywords.iter().enumerate();
    pairs.fold(true, |all, (at, keyword)| {
        all && is_at(tokens, at, *keyword)
    })
}

/// Quotes the keywords that are names by their position.
///
/// After a dot each keyword is a name, unless it is called. After AS, a reserved keyword is a name
/// unless the tokens after it continue the construct that the keyword would begin.
fn quote_labels(tokens: &mut [TokenWithSpan]) {
    let queries = [
        Keyword::SELECT,
        Keyword::WITH,
        Keyword::INSERT,
        Keyword::UPDATE,
        Keyword::DELETE,
    ];
    let in_query = queries.iter().any(|first| is_at(tokens, 0, *first));
    for at in 1..tokens.len() {
        let after_dot = tokens[at - 1].token == Token::Period;
        let after_as = is(&tokens[at - 1], Keyword::AS);
        let next = tokens.get(at + 1).map(|next| &next.token);
        let called = next == Some(&Token::LParen);
        let ends = match next {
            None | Some(Token::Comma | Token::RParen | Token::SemiColon | Token::EOF) => true,
            Some(Token::Word(word)) => matches!(word.keyword, Keyword::FROM | Keyword::INTO),
            _ => false,
        };
        let Token::Word(word) = &mut tokens[at].token else {
            continue;
        };
        if word.quote_style.is_some() || word.keyword == Keyword::NoKeyword {
            continue;
        }
        let name = word.value.to_lowercase();
        if (after_dot && !called) || (after_as && ends && in_query && is_reserved(&name)) {
            word.value = name;
            word.quote_style = Some('"');
            word.keyword = Keyword::NoKeyword;
        }
    }
}

/// Moves the LIMIT, OFFSET and FETCH that follow locking clauses before them.
fn limit_before_locks(tokens: &mut [TokenWithSpan]) {
    let limits = [Keyword::LIMIT, Keyword::OFFSET, Keyword::FETCH];
    let mut at = 0;
    while at < tokens.len() {
        let Some(mut end) = lock_end(tokens, at) else {
            at += 1;
            continue;
        };
        while let Some(next) = lock_end(tokens, end) {
            end = next;
        }
        let mut limited = end;
        if limits.iter().any(|limit| is_at(tokens, end, *limit)) {
            limited = limit_end(tokens, end);
            tokens[at..limited].rotate_left(end - at);
        }
        at = limited.max(at + 1);
    }
}

/// Returns the end of the limits that begin at a token. ON CONFLICT and RETURNING of an INSERT can
/// follow.
fn limit_end(tokens: &[TokenWithSpan], from: usize) -> usize {
    let level = level_end(tokens, from);
    let mut behind = top_level(&tokens[from..level])
        .filter(|(_, token)| is(token, Keyword::ON) || is(token, Keyword::RETURNING));
    behind.next().map_or(level, |(at, _)| from + at)
}

/// Returns the end of the locking clause that begins at a token, if there is one.
fn lock_end(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let strength = [Keyword::UPDATE, Keyword::SHARE];
    if !is_at(tokens, at, Keyword::FOR) || !strength.iter().any(|of| is_at(tokens, at + 1, *of)) {
        return None;
    }
    let mut end = at + 2;
    if is_at(tokens, end, Keyword::OF) {
        end += 1;
        while matches!(tokens.get(end).map(|t| &t.token), Some(Token::Word(_)))
            && matches!(
                tokens.get(end + 1).map(|t| &t.token),
                Some(Token::Comma | Token::Period)
            )
        {
            end += 2;
        }
        end += 1;
    }
    if is_at(tokens, end, Keyword::NOWAIT) {
        end += 1;
    } else if is_at(tokens, end, Keyword::SKIP) && is_at(tokens, end + 1, Keyword::LOCKED) {
        end += 2;
    }
    Some(end.min(tokens.len()))
}

/// Returns the end of the enclosing parentheses of a token, or of the statement.
fn level_end(tokens: &[TokenWithSpan], from: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return at,
            Token::RParen => depth -= 1,
            Token::SemiColon | Token::EOF if depth == 0 => return at,
            _ => {}
        }
    }
    tokens.len()
}

/// Returns the tokens outside parentheses and their indexes.
fn top_level(tokens: &[TokenWithSpan]) -> impl Iterator<Item = (usize, &TokenWithSpan)> {
    let mut depth = 0usize;
    tokens.iter().enumerate().filter(move |(_, token)| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// Adds parentheses around the joins of the source of a MERGE.
fn enclose_source(tokens: &mut Vec<TokenWithSpan>) {
    let find = |from: usize, to: usize, keyword: Keyword| {
        let mut within = top_level(tokens).filter(|(at, _)| (from..to).contains(at));
        within
            .find(|(_, token)| is(token, keyword))
            .map(|(at, _)| at)
    };
    let Some(using) = find(0, tokens.len(), Keyword::USING) else {
        return;
    };
    let Some(when) = find(using, tokens.len(), Keyword::WHEN) else {
        return;
    };
    let within = top_level(tokens).filter(|(at, _)| (using..when).contains(at));
    let on = within.filter(|(_, token)| is(token, Keyword::ON)).last();
    let Some((on, _)) = on.filter(|(on, _)| find(using, *on, Keyword::JOIN).is_some()) else {
        return;
    };
    let bracket = |token: Token, at: usize| TokenWithSpan {
        token,
        span: tokens[at].span,
    };
    let (open, close) = (
        bracket(Token::LParen, using + 1),
        bracket(Token::RParen, on),
    );
    tokens.insert(on, close);
    tokens.insert(using + 1, open);
}

/// Removes NOT VALID from the table constraints of a CREATE TABLE.
fn drop_not_valid(tokens: &mut Vec<TokenWithSpan>) {
    let table = (1..4).find(|at| is_at(tokens, *at, Keyword::TABLE));
    let opens = |from: usize| (from..tokens.len()).find(|at| tokens[*at].token == Token::LParen);
    let Some(open) = table.and_then(opens) else {
        return;
    };
    let end = level_end(tokens, open + 1);
    let constraints = [Keyword::CONSTRAINT, Keyword::CHECK, Keyword::FOREIGN];
    let (mut depth, mut first, mut found) = (0usize, open + 1, Vec::new());
    for at in open + 1..end {
        match tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => first = at + 1,
            _ if depth == 0
                && is(&tokens[at], Keyword::NOT)
                && is_at(tokens, at + 1, Keyword::VALID)
                && constraints.iter().any(|of| is_at(tokens, first, *of)) =>
            {
                found.push(at);
            }
            _ => {}
        }
    }
    for at in found.into_iter().rev() {
        tokens.drain(at..at + 2);
    }
}
