//! Domains: casts to domains, domain constraints, and the statements that define domains.

use std::sync::Arc;

use sqlparser::ast;

use super::ddl::text_of;
use super::expr::Clause;
use super::path::PathView;
use super::rules::TypesView;
use super::scope::{Scope, ScopeColumn, ScopeLeaf};
use super::{Binder, ParamTypes, names};
use crate::bound::{
    AlterDomain, CreateDomain, DomainChange, Expr, NewDomainCheck, Node, Statement,
};
use crate::catalog::{CatalogView, ColumnDef, ColumnMore, PUBLIC_SCHEMA, TypeDef};
use crate::context::EvalContext;
use crate::error::{SqlError, SqlState};
use crate::functions::CastContext;
use crate::parser::lexer::{self, Kind};
use crate::parser::{DomainCheckSyntax, DomainRule, DomainRuleChange, DomainSyntax};
use crate::settings::Settings;
use crate::stack::with_plain_limits;
use crate::types::domains::DomainDef;
use crate::types::{Domain, Type, TypeCategory, TypeKind};

/// The name by which a domain constraint refers to the value.
const VALUE: &str = "value";

impl Binder<'_> {
    /// Converts the expression to a value of the domain. The result has the root base type of the
    /// domain.
    pub(super) fn as_value_of(
        &mut self,
        expr: Expr,
        domain: Domain,
        context: CastContext,
    ) -> Result<Expr, SqlError> {
        let root = domain.root();
        let plain = self.coerce(expr, Type::of(root.kind), context)?;
        let checked = Expr::new(
            Type::of(TypeKind::Domain(domain)),
            Node::Cast {
                explicit: false,
                input: Box::new(plain),
            },
        );
        // The outer cast only relabels the checked value with the root type.
        Ok(Expr::new(
            root,
            Node::Cast {
                explicit: false,
                input: Box::new(checked),
            },
        ))
    }

    /// Binds a condition over VALUE. A condition that needs anything but types, such as a
    /// user-defined function, is refused.
    fn domain_check(&mut self, base: Type, check: &ast::Expr) -> Result<String, SqlError> {
        let condition = self.scalar(check, &value_scope(base)?, Clause::Check)?;
        self.condition(condition, "CHECK")?;
        let text = with_value(text_of(super::ddl::bare(check)));
        // Bind it once more without the statement, as each use of the domain does.
        let alone = conditions_of(base, [text.as_str()].into_iter(), self.catalog, self.path);
        match alone {
            Ok(_) => Ok(text),
            Err(error) if error.sqlstate() == SqlState::STATEMENT_TOO_COMPLEX => Err(error),
            Err(_) => Err(SqlError::unsupported(
                "a function of users in a constraint of a domain",
            )),
        }
    }

    pub(super) fn domain(&mut self, syntax: &DomainSyntax) -> Result<Statement, SqlError> {
        match syntax {
            DomainSyntax::Create {
                schema,
                name,
                base,
                rules,
            } => {
                let schema = self.schema_for(schema.clone())?;
                let ty = self.type_of(base)?;
                self.check_type_usage(ty)?;
                self.create_domain((schema, name), ty, rules)
            }
            DomainSyntax::Alter {
                schema,
                name,
                change,
            } => {
                let ty = self.domain_named(schema.as_deref(), name)?;
                let change = self.domain_change(&ty, change)?;
                Ok(Statement::AlterDomain(AlterDomain { ty, change }))
            }
        }
    }

    fn create_domain(
        &mut self,
        (schema, name): (String, &str),
        base: Type,
        rules: &[DomainRule],
    ) -> Result<Statement, SqlError> {
        let element = base.kind.element().unwrap_or(base.kind);
        let categories = [TypeCategory::Pseudo, TypeCategory::Unknown];
        if base.kind.is_object() || categories.contains(&element.category()) {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("\"{}\" is not a valid base type for a domain", base.kind),
            ));
        }
        let root = base.plain();
        super::ddl::check_rows_of_tables(root)?;
        let mut create = CreateDomain {
            schema,
            name: name.to_owned(),
            base,
            not_null: false,
            default: None,
            checks: Vec::new(),
        };
        let (mut said_null, mut said_default) = (None, false);
        for rule in rules {
            match rule {
                DomainRule::NotNull(not_null) => {
                    if said_null.is_some_and(|said| said != *not_null) {
                        return Err(SqlError::new(
                            SqlState::SYNTAX_ERROR,
                            "conflicting NULL/NOT NULL constraints",
                        ));
                    }
                    said_null = Some(*not_null);
                    create.not_null = *not_null;
                }
                DomainRule::Default(expr) => {
                    if said_default {
                        return Err(SqlError::new(
                            SqlState::SYNTAX_ERROR,
                            "multiple default expressions",
                        ));
                    }
                    said_default = true;
                    create.default = self.domain_default(name, base, Some(&**expr))?;
                }
                DomainRule::Collate(collation) => {
                    let plain = collation.to_ascii_lowercase();
                    if !root.kind.is_string() {
                        return Err(SqlError::new(
                            SqlState::DATATYPE_MISMATCH,
                            format!("collations are not supported by type {}", root.kind),
                        ));
                    }
                    if !matches!(plain.as_str(), "c" | "posix" | "default") {
                        return Err(SqlError::unsupported(format!("collation {collation}")));
                    }
                }
                DomainRule::Check(check) => {
                    let check = self.new_domain_check(root, check)?;
                    create.checks.push(check);
                }
                DomainRule::Refused(what) => {
                    let state = match what.as_str() {
                        "exclusion" | "unique" | "primary key" | "foreign key" => {
                            SqlState::SYNTAX_ERROR
                        }
                        _ => SqlState::FEATURE_NOT_SUPPORTED,
                    };
                    let message = format!("{what} constraints not possible for domains");
                    return Err(SqlError::new(state, message));
                }
            }
        }
        Ok(Statement::CreateDomain(create))
    }

    fn new_domain_check(
        &mut self,
        root: Type,
        check: &DomainCheckSyntax,
    ) -> Result<NewDomainCheck, SqlError> {
        Ok(NewDomainCheck {
            name: check.name.clone(),
            text: self.domain_check(root, &check.condition)?,
            validate: check.validate,
        })
    }

    /// Checks that a default has the base type, and returns its text.
    fn domain_default(
        &mut self,
        name: &str,
        base: Type,
        expr: Option<&ast::Expr>,
    ) -> Result<Option<String>, SqlError> {
        let Some(expr) = expr else {
            return Ok(None);
        };
        let bound = self.scalar(expr, &Scope::default(), Clause::Default)?;
        if matches!(bound.node, Node::Const(crate::value::Value::Null)) {
            return Ok(None);
        }
        let column = ColumnDef {
            name: name.to_owned(),
            ty: base.plain(),
            not_null: false,
            default: None,
            attnum: 1,
            more: ColumnMore::default(),
        };
        self.assign(bound, &column)
            .map_err(super::ddl::default_error)?;
        Ok(Some(self.default_text(expr)))
    }

    fn domain_named(&self, schema: Option<&str>, name: &str) -> Result<Arc<TypeDef>, SqlError> {
        let qualified = names::qualified_name(schema, name);
        let ty = match self.type_named(schema, name) {
            Ok(ty) => ty,
            Err(error) if error.sqlstate() == SqlState::WRONG_OBJECT_TYPE => {
                return Err(not_a_domain(
                    error.message().trim_end_matches(" is not an enum"),
                ));
            }
            Err(error) => return Err(error),
        };
        match ty.as_domain() {
            Some(_) => Ok(ty),
            None => Err(not_a_domain(&qualified)),
        }
    }

    fn domain_change(
        &mut self,
        ty: &TypeDef,
        change: &DomainRuleChange,
    ) -> Result<DomainChange, SqlError> {
        let Some(domain) = ty.as_domain() else {
            return Err(not_a_domain(&ty.name));
        };
        let base = domain.definition().base;
        Ok(match change {
            DomainRuleChange::Default(expr) => {
                DomainChange::Default(self.domain_default(&ty.name, base, expr.as_deref())?)
            }
            DomainRuleChange::Bound(change) => {
                if let DomainChange::SetSchema(to) = change {
                    self.schema_for(Some(to.clone()))?;
                }
                change.clone()
            }
            DomainRuleChange::Add(DomainRule::Check(check)) => {
                DomainChange::AddCheck(self.new_domain_check(domain.root(), check)?)
            }
            DomainRuleChange::Add(DomainRule::Refused(what)) => {
                let message = format!("{what} constraints not possible for domains");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            DomainRuleChange::Add(_) => {
                return Err(SqlError::unsupported("this constraint of a domain"));
            }
        })
    }
}

/// Returns the error 42809 for a type that is not a domain.
pub(super) fn not_a_domain(name: &str) -> SqlError {
    SqlError::new(
        SqlState::WRONG_OBJECT_TYPE,
        format!("{name} is not a domain"),
    )
}

/// Returns the text with VALUE in upper case, as PostgreSQL displays it.
fn with_value(text: String) -> String {
    let Ok(tokens) = lexer::tokens(&text) else {
        return text;
    };
    let mut out = text.clone();
    for token in tokens.iter().filter(|token| token.kind == Kind::Word) {
        if token.text(&text).eq_ignore_ascii_case(VALUE) {
            out.replace_range(token.start..token.end, "VALUE");
        }
    }
    out
}

/// Returns the scope of a domain constraint: one column, VALUE.
fn value_scope(ty: Type) -> Result<Scope, SqlError> {
    let mut scope = Scope::default();
    scope.push(ScopeLeaf {
        alias: String::new(),
        table_name: None,
        schema: None,
        first_slot: 0,
        columns: vec![ScopeColumn {
            name: VALUE.to_owned(),
            ty,
            origin: None,
            hidden: false,
        }],
        key: Vec::new(),
        routed: Vec::new(),
        reads: None,
        row: None,
        is_table: false,
    })?;
    Ok(scope)
}

/// Binds the conditions of a domain's constraints in a scope that contains nothing but VALUE and
/// types.
pub fn domain_conditions<'a>(
    definition: &DomainDef,
    texts: impl Iterator<Item = &'a str>,
    catalog: &dyn CatalogView,
) -> Result<Vec<Expr>, SqlError> {
    let path = [definition.schema.clone(), PUBLIC_SCHEMA.to_owned()];
    conditions_of(definition.base.plain(), texts, catalog, &path)
}

fn conditions_of<'a>(
    root: Type,
    texts: impl Iterator<Item = &'a str>,
    catalog: &dyn CatalogView,
    path: &[String],
) -> Result<Vec<Expr>, SqlError> {
    let cx = EvalContext::new(Arc::new(Settings::new()), 0, 0);
    let along = PathView {
        catalog: &TypesView(catalog),
        path,
    };
    let mut conditions = Vec::new();
    for text in texts {
        let mut none = ParamTypes::new();
        let mut binder = Binder::of(text, (&along, path), &mut none, (&cx, 0));
        let scope = value_scope(Type::of(root.kind))?;
        // The domain is read by threads with a plain stack.
        let condition = with_plain_limits(|| {
            let parsed = crate::parser::parse_expression(text)?;
            let bound = binder.scalar(&parsed, &scope, Clause::Check)?;
            binder.condition(bound, "CHECK")
        })?;
        conditions.push(condition);
    }
    Ok(conditions)
}
