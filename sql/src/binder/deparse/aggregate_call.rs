//! Deparsing of aggregate and window function calls, with their clauses.

use sqlparser::ast;

use super::super::aggregate::kind_of;
use super::super::call::plain_argument;
use super::call_pieces::{list_of, suffix};
use super::tree::{Piece, SortBy, SortKey, Tree};
use super::{DeparsedExpr, Deparser, Level};
use crate::bound::{AggregateKind, OrderedSet, Statistic};
use crate::error::SqlError;
use crate::functions::quote_ident as quoted;
use crate::types::{Type, TypeKind};

impl Deparser<'_, '_> {
    pub(super) fn aggregate(
        &mut self,
        name: &str,
        function: &ast::Function,
        list: &ast::FunctionArgumentList,
        (ty, level): (Type, &Level),
    ) -> Result<DeparsedExpr, SqlError> {
        let kind = kind_of(name);
        let mut pieces = vec![Piece::Text(format!("{}(", quoted(name)))];
        if list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct) {
            pieces.push(Piece::Text("DISTINCT ".to_owned()));
        }
        let star = matches!(
            list.args.as_slice(),
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)]
        );
        if star {
            pieces.push(Piece::Text("*".to_owned()));
        } else {
            let mut args = Vec::new();
            for arg in &list.args {
                args.push(self.expr(plain_argument(arg)?, level)?);
            }
            let args = match OrderedSet::of(name).filter(|_| !function.within_group.is_empty()) {
                Some(set) => self.direct(set, args)?,
                None => self.aggregated(kind, args)?,
            };
            pieces.extend(list_of(args));
        }
        for clause in &list.clauses {
            let strings: &[ast::FunctionArg] = match kind {
                Some(AggregateKind::StringAgg) => &list.args,
                _ => &[],
            };
            let ast::FunctionArgumentClause::OrderBy(keys) = clause else {
                return Err(SqlError::unsupported("this clause in a call"));
            };
            pieces.push(Piece::Text(" ORDER BY ".to_owned()));
            pieces.push(Piece::Keys(self.inner_keys(keys, strings, level)?));
        }
        pieces.push(Piece::Text(")".to_owned()));
        if !function.within_group.is_empty() {
            pieces.push(Piece::Text(" WITHIN GROUP (ORDER BY ".to_owned()));
            let set = OrderedSet::of(name);
            pieces.push(Piece::Keys(self.grouped_keys(
                set,
                &function.within_group,
                level,
            )?));
            pieces.push(Piece::Text(")".to_owned()));
        }
        if let Some(filter) = &function.filter {
            pieces.push(Piece::Text(" FILTER (WHERE ".to_owned()));
            pieces.push(Piece::Plain(self.condition(filter, level)?));
            pieces.push(Piece::Text(")".to_owned()));
        }
        if let Some(over) = &function.over {
            pieces.push(Piece::Text(" OVER ".to_owned()));
            match over {
                ast::WindowType::NamedWindow(name) => {
                    let name = super::super::names::fold(name);
                    pieces.push(Piece::Text(quoted(&name)));
                }
                ast::WindowType::WindowSpec(spec) => pieces.extend(self.window(spec, level)?),
            }
        }
        let function = true;
        Ok(DeparsedExpr::new(Tree::Call { pieces, function }, ty))
    }

    /// Casts the arguments of an aggregate or of a window function.
    fn aggregated(
        &mut self,
        kind: Option<AggregateKind>,
        args: Vec<DeparsedExpr>,
    ) -> Result<Vec<DeparsedExpr>, SqlError> {
        use AggregateKind as K;
        let mut all = Vec::new();
        let joins_bytes = args.iter().any(|arg| arg.ty.kind == TypeKind::Bytea);
        for arg in args {
            let is_string = arg.ty.kind.is_string() || arg.ty == Type::UNKNOWN;
            let to = match kind {
                Some(K::StringAgg) if joins_bytes => Some(Type::BYTEA),
                Some(K::StringAgg) => Some(Type::TEXT),
                Some(K::Min | K::Max) if is_string && arg.ty.kind != TypeKind::BpChar => {
                    Some(Type::TEXT)
                }
                Some(K::Statistic(of)) if !Statistic::is_single(of) => Some(Type::FLOAT8),
                Some(K::BoolAnd | K::BoolOr) => Some(Type::BOOL),
                Some(K::Count) | Some(K::JsonObjectAgg | K::JsonbObjectAgg) => None,
                _ if arg.ty == Type::UNKNOWN => Some(Type::TEXT),
                _ => None,
            };
            all.push(match to {
                Some(to) => self.coerced(arg, to, false)?,
                None => arg,
            });
        }
        Ok(all)
    }

    /// Deparses the keys of an ORDER BY that refers to no result column. A string key that is one
    /// of `arguments` is cast to text.
    pub(super) fn inner_keys(
        &mut self,
        keys: &[ast::OrderByExpr],
        arguments: &[ast::FunctionArg],
        level: &Level,
    ) -> Result<Vec<SortKey>, SqlError> {
        let mut all = Vec::new();
        for key in keys {
            let mut deparsed = self.settled(&key.expr, level)?;
            let same = |arg: &ast::Expr| arg.to_string() == key.expr.to_string();
            let is_argument = |arg| plain_argument(arg).is_ok_and(same);
            if deparsed.ty.kind.is_string() && arguments.iter().any(is_argument) {
                deparsed = self.coerced(deparsed, Type::TEXT, false)?;
            }
            all.push(SortKey {
                by: SortBy::Tree(deparsed.tree),
                suffix: suffix(key),
            });
        }
        Ok(all)
    }
}
