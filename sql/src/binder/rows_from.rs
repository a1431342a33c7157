//! ROWS FROM, and WITH ORDINALITY of functions that do not number their rows themselves.
//!
//! ```text
//! ROWS FROM (f(), g())
//!   is  (SELECT f.*, g.* FROM numbered f FULL JOIN numbered g USING (number) ORDER BY number)
//! ```

use sqlparser::ast::{self, TableFactor};

use super::from::lateral;
use super::scope::{Scope, ScopeColumn, ScopeLeaf};
use super::target_rows::is_own;
use super::{Binder, names};
use crate::bound::{
    CompareClass, CompareOp, Exclude, Expr, Frame, FrameBound, FrameUnit, From, Join, JoinKind,
    Leaf, LeafSource, Node, OrderKey, Select, Target, WindowCall, WindowFunction,
};
use crate::error::{SqlError, SqlState};
use crate::types::Type;

/// The rows of a function, with the row number in the last column.
struct NumberedRows {
    select: Select,
    columns: Vec<(String, Type)>,
}

impl Binder<'_> {
    /// Binds ROWS FROM with these calls.
    pub(super) fn rows_from(
        &mut self,
        calls: &[ast::FunctionArg],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        around: (&mut Scope, &[&Scope]),
    ) -> Result<From, SqlError> {
        let mut factors = Vec::with_capacity(calls.len());
        for call in calls {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Function(call))) =
                call
            else {
                let message = "a function call is expected in ROWS FROM";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            };
            let plain =
                call.over.is_none() && call.filter.is_none() && call.within_group.is_empty();
            let args = match &call.args {
                ast::FunctionArguments::List(list)
                    if plain && list.duplicate_treatment.is_none() && list.clauses.is_empty() =>
                {
                    list.args.clone()
                }
                ast::FunctionArguments::None if plain => Vec::new(),
                _ => return Err(SqlError::unsupported("this kind of call in ROWS FROM")),
            };
            factors.push((call.name.clone(), args));
        }
        self.side_by_side(&factors, ordinality, alias, around)
    }

    /// Binds several functions whose rows are joined by number, with a column for the row number if
    /// `ordinality` is set.
    pub(super) fn side_by_side(
        &mut self,
        calls: &[(ast::ObjectName, Vec<ast::FunctionArg>)],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
        (scope, left): (&mut Scope, &[&Scope]),
    ) -> Result<From, SqlError> {
        if let ([(name, args)], false) = (calls, ordinality) {
            let factor = TableFactor::Function {
                lateral: false,
                name: name.clone(),
                args: args.clone(),
                with_ordinality: false,
                alias: alias.cloned(),
            };
            return self.factor(&factor, scope, left);
        }
        // The column of a single function takes the alias, unless that name is one that the binder
        // generates.
        let only = alias.filter(|alias| calls.len() == 1 && !is_own(&alias.name.value));
        let (all, read) = self.beside(left, |binder| {
            let all = calls.iter().map(|call| binder.numbered(call, only));
            all.collect::<Result<Vec<_>, _>>()
        })?;
        let (select, mut columns) = joined(all);
        let mut select = select.ok_or_else(|| {
            let message = "ROWS FROM needs a function";
            SqlError::new(SqlState::SYNTAX_ERROR, message)
        })?;
        if ordinality {
            columns.push(("ordinality".to_owned(), Type::INT8));
            select.visible = columns.len();
        }
        let alias_name = match (alias, calls) {
            (Some(alias), _) => names::fold(&alias.name),
            (None, [(name, _), ..]) => names::table_name(name)?.1,
            (None, []) => String::new(),
        };
        let column = |(name, ty): (String, Type)| ScopeColumn {
            name,
            ty,
            origin: None,
            hidden: false,
        };
        let leaf = ScopeLeaf {
            alias: alias_name,
            table_name: None,
            schema: None,
            first_slot: scope.width,
            columns: columns.into_iter().map(column).collect(),
            key: Vec::new(),
            routed: Vec::new(),
            reads: None,
            row: None,
            is_table: false,
        };
        let source = lateral(read, LeafSource::Subquery(Box::new(select)));
        self.leaf(leaf, source, alias, scope)
    }

    /// Returns the rows of a function with their numbers.
    fn numbered(
        &mut self,
        (name, args): &(ast::ObjectName, Vec<ast::FunctionArg>),
        alias: Option<&ast::TableAlias>,
    ) -> Result<NumberedRows, SqlError> {
        let factor = TableFactor::Function {
            lateral: false,
            name: name.clone(),
            args: args.clone(),
            with_ordinality: false,
            alias: alias.map(|alias| ast::TableAlias {
                columns: Vec::new(),
                ..alias.clone()
            }),
        };
        let mut own = Scope::default();
        let from = self.factor(&factor, &mut own, &[])?;
        let columns = own.leaves.iter().flat_map(|leaf| &leaf.columns);
        let columns: Vec<_> = columns.map(|of| (of.name.clone(), of.ty)).collect();
        let mut targets = targets(&columns, 0);
        targets.push(number(Expr::column(Type::INT8, columns.len())));
        let mut select = Select::over(from, targets);
        select.windows = vec![WindowCall {
            function: WindowFunction::RowNumber,
            args: Vec::new(),
            partition_by: Vec::new(),
            order_by: Vec::new(),
            frame: Frame {
                unit: FrameUnit::Range,
                start: FrameBound::First,
                end: FrameBound::Current,
                exclude: Exclude::NoOthers,
            },
            ty: Type::INT8,
        }];
        Ok(NumberedRows { select, columns })
    }
}

fn number(expr: Expr) -> Target {
    Target {
        name: "ordinality".to_owned(),
        expr,
        origin: None,
    }
}

fn targets(columns: &[(String, Type)], first_slot: usize) -> Vec<Target> {
    let columns = (first_slot..).zip(columns);
    let targets = columns.map(|(slot, (name, ty))| Target {
        name: name.clone(),
        expr: Expr::column(*ty, slot),
        origin: None,
    });
    targets.collect()
}

/// Joins all functions into one query whose hidden last target is the row number. Returns it with
/// the columns.
fn joined(all: Vec<NumberedRows>) -> (Option<Select>, Vec<(String, Type)>) {
    let (mut from, mut numbers, mut visible_targets) = (None, Vec::new(), Vec::new());
    let mut columns = Vec::new();
    let mut slot = 0;
    for of in all {
        let mine = Expr::column(Type::INT8, slot + of.columns.len());
        let names = of.columns.iter().map(|(name, _)| name.clone());
        let types = of.columns.iter().map(|(_, ty)| *ty);
        let leaf = From::Leaf(Leaf {
            alias: "*ROWS FROM*".to_owned(),
            column_names: names.chain(["ordinality".to_owned()]).collect(),
            column_types: types.chain([Type::INT8]).collect(),
            first_slot: slot,
            source: LeafSource::Subquery(Box::new(of.select)),
        });
        from = Some(match from {
            None => leaf,
            Some(left) => From::Join(Box::new(Join {
                kind: JoinKind::Full,
                left,
                right: leaf,
                on: Some(equal(number_of(&numbers), mine.clone())),
            })),
        });
        visible_targets.extend(targets(&of.columns, slot));
        slot += of.columns.len() + 1;
        columns.extend(of.columns);
        numbers.push(mine);
    }
    let select = from.map(|from| {
        visible_targets.push(number(number_of(&numbers)));
        let mut select = Select::over(from, visible_targets);
        select.visible = columns.len();
        select.order_by = vec![OrderKey {
            target: columns.len(),
            desc: false,
            nulls_first: false,
        }];
        select
    });
    (select, columns)
}

/// Returns the row number, which at least one of the functions provides.
fn number_of(numbers: &[Expr]) -> Expr {
    match numbers {
        [only] => only.clone(),
        all => Expr::new(Type::INT8, Node::Coalesce(all.to_vec())),
    }
}

fn equal(left: Expr, right: Expr) -> Expr {
    Expr::new(
        Type::BOOL,
        Node::Compare {
            op: CompareOp::Eq,
            class: CompareClass::Int,
            left: Box::new(left),
            right: Box::new(right),
        },
    )
}
