//! The parser of jsonpath.
//!
//! ```text
//! truth    = and { "||" and }                and      = operand { "&&" operand }
//! operand  = "!" grouped | sum [ == | < | … sum | starts with … | like_regex … ]
//! sum      = product { + | - product }       product  = signed { * | / | % signed }
//! signed   = [ + | - ] signed | primary { step }
//! ```
//! Parentheses contain a value or a condition; the parser checks which one where it matters.

use super::lexer::{Token, Word, unexpected, words};
use super::{Chain, Comparison, DEPTH_MAX, Head, Method, Operator, Path, Predicate, Step};
use crate::error::{SqlError, SqlState};
use crate::functions::check_path_regex;
use crate::stack;

/// Parses a path.
pub fn parse(text: &str) -> Result<Path, SqlError> {
    let words = words(text)?;
    if words.is_empty() {
        return Err(SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type jsonpath: \"{text}\""),
        ));
    }
    let mut parser = Parser {
        text,
        words,
        at: 0,
        depth: 0,
    };
    let lax = match () {
        () if parser.keyword("strict") => false,
        () => {
            parser.keyword("lax");
            true
        }
    };
    let root = parser.either()?.into_chain();
    if parser.at < parser.words.len() {
        return Err(parser.unexpected());
    }
    check(&root, (false, false))?;
    Ok(Path { lax, root })
}

/// The contents of parentheses: a value or a condition.
enum ParenthesizedItem {
    Value(Chain),
    Truth(Predicate),
}

impl ParenthesizedItem {
    fn into_chain(self) -> Chain {
        match self {
            ParenthesizedItem::Value(chain) => chain,
            ParenthesizedItem::Truth(predicate) => alone(Head::Truth(Box::new(predicate))),
        }
    }
}

fn alone(head: Head) -> Chain {
    Chain {
        head,
        steps: Vec::new(),
    }
}

struct Parser<'a> {
    text: &'a str,
    words: Vec<Word>,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn token(&self) -> Option<&Token> {
        self.words.get(self.at).map(|word| &word.token)
    }

    fn unexpected(&self) -> SqlError {
        let end = self.text.len();
        let place = self.words.get(self.at);
        let (from, to) = place.map_or((end, end), |word| (word.from, word.to));
        unexpected(self.text, from, to)
    }

    fn sign(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.token(), Some(Token::Sign(s)) if *s == sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, sign: &str) -> Result<(), SqlError> {
        match self.sign(sign) {
            true => Ok(()),
            false => Err(self.unexpected()),
        }
    }

    fn is_keyword(&self, after: usize, word: &str) -> bool {
        let token = self.words.get(self.at + after).map(|word| &word.token);
        matches!(token, Some(Token::Name(name)) if name.eq_ignore_ascii_case(word))
    }

    fn keyword(&mut self, word: &str) -> bool {
        let is_next = self.is_keyword(0, word);
        self.at += usize::from(is_next);
        is_next
    }

    fn text(&mut self) -> Result<String, SqlError> {
        match self.token() {
            Some(Token::Text(text)) => {
                let text = text.clone();
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Parses an expression one nesting level deeper.
    fn deeper(
        &mut self,
        read: fn(&mut Self) -> Result<ParenthesizedItem, SqlError>,
    ) -> Result<ParenthesizedItem, SqlError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(crate::stack::too_deep());
        }
        let inner = stack::enough(|| read(self))?;
        self.depth -= 1;
        Ok(inner)
    }

    /// Parses a condition or a value.
    fn either(&mut self) -> Result<ParenthesizedItem, SqlError> {
        self.deeper(Self::disjunction)
    }

    fn disjunction(&mut self) -> Result<ParenthesizedItem, SqlError> {
        let mut left = self.conjunction()?;
        while matches!(left, ParenthesizedItem::Truth(_)) && self.sign("||") {
            let right = self.conjunction()?;
            left = ParenthesizedItem::Truth(Predicate::Or(
                Box::new(self.truth_of(left)?),
                Box::new(self.truth_of(right)?),
            ));
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<ParenthesizedItem, SqlError> {
        let mut left = self.operand()?;
        while matches!(left, ParenthesizedItem::Truth(_)) && self.sign("&&") {
            let right = self.operand()?;
            left = ParenthesizedItem::Truth(Predicate::And(
                Box::new(self.truth_of(left)?),
                Box::new(self.truth_of(right)?),
            ));
        }
        Ok(left)
    }

    fn truth_of(&self, either: ParenthesizedItem) -> Result<Predicate, SqlError> {
        match either {
            ParenthesizedItem::Truth(predicate) => Ok(predicate),
            ParenthesizedItem::Value(_) => Err(self.unexpected()),
        }
    }

    fn value_of(&self, either: ParenthesizedItem) -> Result<Chain, SqlError> {
        match either {
            ParenthesizedItem::Value(chain) => Ok(chain),
            ParenthesizedItem::Truth(_) => Err(self.unexpected()),
        }
    }

    /// Parses `(condition)`.
    fn grouped(&mut self) -> Result<Predicate, SqlError> {
        self.expect("(")?;
        let inner = self.either()?;
        let inner = self.truth_of(inner)?;
        self.expect(")")?;
        Ok(inner)
    }

    fn operand(&mut self) -> Result<ParenthesizedItem, SqlError> {
        if self.sign("!") {
            let inner = match self.is_keyword(0, "exists") {
                true => self.exists()?,
                false => self.grouped()?,
            };
            return Ok(ParenthesizedItem::Truth(Predicate::Not(Box::new(inner))));
        }
        if self.is_keyword(0, "exists") {
            return Ok(ParenthesizedItem::Truth(self.exists()?));
        }
        let left = match self.sum()? {
            ParenthesizedItem::Truth(inner)
                if self.is_keyword(0, "is") && self.is_keyword(1, "unknown") =>
            {
                self.at += 2;
                return Ok(ParenthesizedItem::Truth(Predicate::IsUnknown(Box::new(
                    inner,
                ))));
            }
            ParenthesizedItem::Truth(inner) => return Ok(ParenthesizedItem::Truth(inner)),
            ParenthesizedItem::Value(chain) => chain,
        };
        if self.is_keyword(0, "starts") && self.is_keyword(1, "with") {
            self.at += 2;
            let initial = match self.token() {
                Some(Token::Text(text)) => Head::Text(text.clone()),
                Some(Token::Variable(name)) => Head::Variable(name.clone()),
                _ => return Err(self.unexpected()),
            };
            self.at += 1;
            return Ok(ParenthesizedItem::Truth(Predicate::StartsWith(
                left,
                alone(initial),
            )));
        }
        if self.keyword("like_regex") {
            let pattern = self.text()?;
            let flags = match self.keyword("flag") {
                true => known_flags(&self.text()?)?,
                false => String::new(),
            };
            check_path_regex(&pattern, &flags)?;
            return Ok(ParenthesizedItem::Truth(Predicate::LikeRegex(
                left, pattern, flags,
            )));
        }
        let comparison = match self.token() {
            Some(Token::Sign("==")) => Comparison::Equal,
            Some(Token::Sign("!=" | "<>")) => Comparison::NotEqual,
            Some(Token::Sign("<")) => Comparison::Less,
            Some(Token::Sign("<=")) => Comparison::LessOrEqual,
            Some(Token::Sign(">")) => Comparison::Greater,
            Some(Token::Sign(">=")) => Comparison::GreaterOrEqual,
            _ => return Ok(ParenthesizedItem::Value(left)),
        };
        self.at += 1;
        let right = self.sum()?;
        let right = self.value_of(right)?;
        Ok(ParenthesizedItem::Truth(Predicate::Compare(
            comparison, left, right,
        )))
    }

    fn exists(&mut self) -> Result<Predicate, SqlError> {
        self.at += 1;
        self.expect("(")?;
        let inner = self.sum()?;
        let inner = self.value_of(inner)?;
        self.expect(")")?;
        Ok(Predicate::Exists(inner))
    }

    fn sum(&mut self) -> Result<ParenthesizedItem, SqlError> {
        let mut left = self.product()?;
        loop {
            let operator = match self.token() {
                Some(Token::Sign("+")) => Operator::Add,
                Some(Token::Sign("-")) => Operator::Sub,
                _ => return Ok(left),
            };
            left = self.binary(left, operator, Self::product)?;
        }
    }

    fn product(&mut self) -> Result<ParenthesizedItem, SqlError> {
        let mut left = self.signed()?;
        loop {
            let operator = match self.token() {
                Some(Token::Sign("*")) => Operator::Mul,
                Some(Token::Sign("/")) => Operator::Div,
                Some(Token::Sign("%")) => Operator::Mod,
                _ => return Ok(left),
            };
            left = self.binary(left, operator, Self::signed)?;
        }
    }

    fn binary(
        &mut self,
        left: ParenthesizedItem,
        operator: Operator,
        next: impl FnOnce(&mut Self) -> Result<ParenthesizedItem, SqlError>,
    ) -> Result<ParenthesizedItem, SqlError> {
        let left = self.value_of(left)?;
        self.at += 1;
        let right = next(self)?;
        let right = self.value_of(right)?;
        let both = Head::Binary(operator, Box::new(left), Box::new(right));
        Ok(ParenthesizedItem::Value(alone(both)))
    }

    fn signed(&mut self) -> Result<ParenthesizedItem, SqlError> {
        let negative = match self.token() {
            Some(Token::Sign("+")) => false,
            Some(Token::Sign("-")) => true,
            _ => return self.primary(),
        };
        self.at += 1;
        let arg = self.deeper(Self::signed)?;
        let arg = self.value_of(arg)?;
        Ok(ParenthesizedItem::Value(
            match (&arg.head, arg.steps.is_empty()) {
                (Head::Number(text), true) => alone(Head::Number(match text.strip_prefix('-') {
                    _ if !negative => text.clone(),
                    Some(text) => text.to_owned(),
                    None if text.bytes().all(|b| matches!(b, b'0' | b'.')) => text.clone(),
                    None => format!("-{text}"),
                })),
                _ => alone(Head::Sign(negative, Box::new(arg))),
            },
        ))
    }

    /// Parses a primary expression and its steps.
    fn primary(&mut self) -> Result<ParenthesizedItem, SqlError> {
        if self.sign("(") {
            let inner = self.either()?;
            self.expect(")")?;
            if !self.sees_step() {
                return Ok(inner);
            }
            // The steps continue the chain in the parentheses.
            let mut chain = inner.into_chain();
            self.steps(&mut chain.steps)?;
            return Ok(ParenthesizedItem::Value(chain));
        }
        let head = match self.token() {
            Some(Token::Sign("$")) => Head::Root,
            Some(Token::Sign("@")) => Head::Current,
            Some(Token::Variable(name)) => Head::Variable(name.clone()),
            Some(Token::Text(text)) => Head::Text(text.clone()),
            Some(Token::Number(text)) => Head::Number(text.clone()),
            Some(Token::Name(name)) => match name.as_str() {
                "null" => Head::Null,
                "true" => Head::Bool(true),
                "false" => Head::Bool(false),
                name if name.eq_ignore_ascii_case("last") => Head::Last,
                _ => return Err(self.unexpected()),
            },
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        let mut chain = alone(head);
        self.steps(&mut chain.steps)?;
        Ok(ParenthesizedItem::Value(chain))
    }

    fn sees_step(&self) -> bool {
        matches!(self.token(), Some(Token::Sign("." | "[" | "?")))
    }

    fn steps(&mut self, out: &mut Vec<Step>) -> Result<(), SqlError> {
        loop {
            if self.sign("?") {
                out.push(Step::Filter(self.grouped()?));
            } else if self.sign("[") {
                out.push(self.elements()?);
            } else if self.sign(".") {
                out.push(self.member()?);
            } else {
                return Ok(());
            }
        }
    }

    fn elements(&mut self) -> Result<Step, SqlError> {
        if self.sign("*") {
            self.expect("]")?;
            return Ok(Step::AnyElement);
        }
        let mut list = Vec::new();
        loop {
            let from = self.sum()?;
            let from = self.value_of(from)?;
            let to = match self.keyword("to") {
                true => {
                    let to = self.sum()?;
                    Some(self.value_of(to)?)
                }
                false => None,
            };
            list.push((from, to));
            if !self.sign(",") {
                break;
            }
        }
        self.expect("]")?;
        Ok(Step::Elements(list))
    }

    fn member(&mut self) -> Result<Step, SqlError> {
        if self.sign("*") {
            return Ok(Step::AnyKey);
        }
        if self.sign("**") {
            if !self.sign("{") {
                return Ok(Step::Deep(0, u32::MAX));
            }
            let from = self.level()?;
            let to = match self.keyword("to") {
                true => self.level()?,
                false => from,
            };
            self.expect("}")?;
            return Ok(Step::Deep(from, to));
        }
        let (key, quoted) = match self.token() {
            Some(Token::Name(name)) => (name.clone(), false),
            Some(Token::Text(text)) => (text.clone(), true),
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        let lower = key.to_ascii_lowercase();
        let method = Method::NAMES.iter().find(|(name, _)| *name == lower);
        if let Some((_, method)) = method.filter(|_| !quoted)
            && self.sign("(")
        {
            if *method == Method::Datetime && matches!(self.token(), Some(Token::Text(_))) {
                self.at += 1;
            }
            self.expect(")")?;
            return Ok(Step::Method(*method));
        }
        Ok(Step::Key(key))
    }

    fn level(&mut self) -> Result<u32, SqlError> {
        if self.keyword("last") {
            return Ok(u32::MAX);
        }
        let level = match self.token() {
            Some(Token::Number(text)) if text.bytes().all(|b| b.is_ascii_digit()) => {
                text.parse::<i32>().map_err(|_| {
                    SqlError::new(
                        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                        format!("value \"{text}\" is out of range for type integer"),
                    )
                })?
            }
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(level.unsigned_abs())
    }
}

/// Returns the flags of like_regex without duplicates, in the order in which they are shown.
fn known_flags(given: &str) -> Result<String, SqlError> {
    if let Some(wrong) = given.chars().find(|c| !"ismxq".contains(*c)) {
        return Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "invalid input syntax for type jsonpath",
        )
        .detail(format!(
            "Unrecognized flag character \"{wrong}\" in LIKE_REGEX predicate."
        )));
    }
    let has = |flag: char| given.contains(flag);
    if has('x') && !has('q') {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "XQuery \"x\" flag (expanded regular expressions) is not implemented",
        ));
    }
    Ok("ismxq".chars().filter(|flag| has(*flag)).collect())
}

/// Checks the use of `@` and `last`.
///
/// # Errors
/// 42601 for `@` outside a filter, or `last` outside a subscript.
fn check(chain: &Chain, (filtered, subscript): (bool, bool)) -> Result<(), SqlError> {
    let wrong = |what: &str| Err(SqlError::new(SqlState::SYNTAX_ERROR, what));
    match &chain.head {
        Head::Current if !filtered => return wrong("@ is not allowed in root expressions"),
        Head::Last if !subscript => return wrong("LAST is allowed only in array subscripts"),
        Head::Binary(_, left, right) => {
            check(left, (filtered, subscript))?;
            check(right, (filtered, subscript))?;
        }
        Head::Sign(_, arg) => check(arg, (filtered, subscript))?,
        Head::Truth(truth) => check_truth(truth, (filtered, subscript))?,
        _ => {}
    }
    for step in &chain.steps {
        match step {
            Step::Filter(truth) => check_truth(truth, (true, subscript))?,
            Step::Elements(list) => {
                for (from, to) in list {
                    check(from, (filtered, true))?;
                    to.iter().try_for_each(|to| check(to, (filtered, true)))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_truth(truth: &Predicate, within: (bool, bool)) -> Result<(), SqlError> {
    match truth {
        Predicate::And(left, right) | Predicate::Or(left, right) => {
            check_truth(left, within)?;
            check_truth(right, within)
        }
        Predicate::Not(inner) | Predicate::IsUnknown(inner) => check_truth(inner, within),
        Predicate::Exists(inner) | Predicate::LikeRegex(inner, ..) => check(inner, within),
        Predicate::Compare(_, left, right) | Predicate::StartsWith(left, right) => {
            check(left, within)?;
            check(right, within)
        }
    }
}
