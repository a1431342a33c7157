//! Deparsing of functions with SQL keywords between their arguments, such as EXTRACT and TRIM.

use sqlparser::ast;

use super::call_pieces::call;
use super::tree::{Piece, Tree};
use super::{DeparsedExpr, Deparser, Level};
use crate::error::SqlError;
use crate::types::{Type, TypeKind};

impl Deparser<'_, '_> {
    /// Deparses a function with SQL keywords instead of commas, such as EXTRACT.
    pub(super) fn worded(
        &mut self,
        expr: &ast::Expr,
        level: &Level,
    ) -> Result<DeparsedExpr, SqlError> {
        use ast::Expr as E;
        let ty = self.bound(expr, level)?.ty;
        let text = |text: &str| Piece::Text(text.to_owned());
        let mut pieces = Vec::new();
        match expr {
            E::Extract { field, expr, .. } => {
                let field = field.to_string().to_ascii_lowercase();
                pieces.push(Piece::Text(format!(
                    "EXTRACT({} FROM ",
                    field.trim_matches('\'')
                )));
                pieces.push(Piece::Plain(self.expr(expr, level)?.tree));
                pieces.push(text(")"));
            }
            E::AtTimeZone {
                timestamp,
                time_zone,
            } => {
                let input = self.expr(timestamp, level)?;
                let input = match input.ty == Type::UNKNOWN {
                    true => self.coerced(input, Type::TIMESTAMPTZ, false)?,
                    false => input,
                };
                pieces.push(text("("));
                pieces.push(Piece::Operand(input.tree));
                pieces.push(text(" AT TIME ZONE "));
                pieces.push(Piece::Operand(self.settled(time_zone, level)?.tree));
                pieces.push(text(")"));
            }
            E::Position { expr, r#in } => {
                pieces.push(text("POSITION(("));
                let [part, whole] = self.strings([expr, r#in], level)?;
                pieces.push(Piece::Plain(part));
                pieces.push(text(") IN ("));
                pieces.push(Piece::Plain(whole));
                pieces.push(text("))"));
            }
            E::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } => {
                let [whole, part] = self.strings([expr, overlay_what], level)?;
                pieces.push(text("OVERLAY("));
                pieces.push(Piece::Plain(whole));
                pieces.push(text(" PLACING "));
                pieces.push(Piece::Plain(part));
                pieces.push(text(" FROM "));
                pieces.push(Piece::Plain(self.expr(overlay_from, level)?.tree));
                if let Some(length) = overlay_for {
                    pieces.push(text(" FOR "));
                    pieces.push(Piece::Plain(self.expr(length, level)?.tree));
                }
                pieces.push(text(")"));
            }
            E::Substring {
                expr,
                substring_from,
                substring_for,
                special,
                shorthand,
            } => {
                let name = match (special, shorthand) {
                    (_, true) => Some("substr"),
                    (true, false) => Some("substring"),
                    (false, false) => None,
                };
                return self.substring(expr, substring_from, substring_for, (name, ty, level));
            }
            E::Trim {
                trim_where,
                trim_what,
                expr,
                trim_characters,
            } => {
                let side = match trim_where {
                    Some(ast::TrimWhereField::Leading) => "LEADING",
                    Some(ast::TrimWhereField::Trailing) => "TRAILING",
                    _ => "BOTH",
                };
                pieces.push(Piece::Text(format!("TRIM({side} ")));
                let extra = trim_characters.iter().flatten();
                let whole = match trim_what.as_deref().into_iter().chain(extra).next() {
                    Some(what) => {
                        let [what, whole] = self.strings([what, expr], level)?;
                        pieces.push(Piece::Plain(what));
                        pieces.push(text(" "));
                        whole
                    }
                    None => {
                        let [whole] = self.strings([expr], level)?;
                        whole
                    }
                };
                pieces.push(text("FROM "));
                pieces.push(Piece::Plain(whole));
                pieces.push(text(")"));
            }
            E::Ceil { expr, .. } => return self.rounded("ceil", expr, (ty, level)),
            E::Floor { expr, .. } => return self.rounded("floor", expr, (ty, level)),
            _ => return Err(SqlError::unsupported("this kind of expression")),
        }
        let function = true;
        Ok(DeparsedExpr::new(Tree::Call { pieces, function }, ty))
    }

    fn rounded(
        &mut self,
        name: &str,
        input: &ast::Expr,
        (ty, level): (Type, &Level),
    ) -> Result<DeparsedExpr, SqlError> {
        let args = vec![self.expr(input, level)?];
        let args = self.arguments(name, args)?;
        Ok(DeparsedExpr::new(call(name, args), ty))
    }

    fn substring(
        &mut self,
        input: &ast::Expr,
        from: &Option<Box<ast::Expr>>,
        length: &Option<Box<ast::Expr>>,
        (name, ty, level): (Option<&str>, Type, &Level),
    ) -> Result<DeparsedExpr, SqlError> {
        let parts = std::iter::once(input);
        let parts = parts.chain(from.as_deref()).chain(length.as_deref());
        let args = self.exprs(parts, level)?;
        let args = self.arguments("substring", args)?;
        if let Some(name) = name {
            return Ok(DeparsedExpr::new(call(name, args), ty));
        }
        let mut words = vec!["SUBSTRING("];
        words.extend(from.as_ref().map(|_| " FROM "));
        words.extend(length.as_ref().map(|_| " FOR "));
        let mut pieces = Vec::new();
        for (word, arg) in words.into_iter().zip(args) {
            pieces.push(Piece::Text(word.to_owned()));
            pieces.push(Piece::Plain(arg.tree));
        }
        pieces.push(Piece::Text(")".to_owned()));
        let function = true;
        Ok(DeparsedExpr::new(Tree::Call { pieces, function }, ty))
    }

    /// Converts strings to one type: bytea if one of them is bytea, else text.
    fn strings<const N: usize>(
        &mut self,
        exprs: [&ast::Expr; N],
        level: &Level,
    ) -> Result<[Tree; N], SqlError> {
        let all = self.exprs(exprs, level)?;
        let are_bytes = all.iter().any(|expr| expr.ty.kind == TypeKind::Bytea);
        let ty = if are_bytes { Type::BYTEA } else { Type::TEXT };
        let trees = all
            .into_iter()
            .map(|deparsed| Ok(self.coerced(deparsed, ty, false)?.tree));
        let trees = trees.collect::<Result<Vec<Tree>, SqlError>>()?;
        <[Tree; N]>::try_from(trees).map_err(|_| SqlError::internal("strings are missing"))
    }
}
