//! Deparsing of constants, and of explicit and implicit casts.

use super::super::coerce::common_type;
use super::tree::Tree;
use super::{DeparsedExpr, Deparser};
use crate::bound::{Expr, Node};
use crate::error::SqlError;
use crate::functions::{CastContext, eval, quote_ident};
use crate::pg_catalog;
use crate::types::{self, Type, TypeKind};
use crate::value::{Object, Value};

impl Deparser<'_, '_> {
    /// Returns the name of a type.
    pub(super) fn type_name(&self, ty: Type) -> String {
        let reader = self.reader;
        if ty == Type::of(TypeKind::BpChar) {
            // `character` without a length would mean `character(1)`.
            return "bpchar".to_owned();
        }
        match reader.snapshot.types().with_oid(ty.oid()) {
            Some(_) => pg_catalog::type_name(reader.snapshot, ty.oid(), reader.cx),
            None => None,
        }
        .unwrap_or_else(|| ty.name())
    }

    /// Returns a value as a constant.
    pub(super) fn value(&self, value: &Value, ty: Type) -> DeparsedExpr {
        let settings = &self.reader.cx.settings;
        let plain = Type::of(ty.kind);
        let text = match value {
            Value::Null => None,
            Value::Object(object) if ty.kind == TypeKind::RegClass => {
                Some(self.object_name(object))
            }
            value => Some(types::to_text(value, &plain, settings)),
        };
        DeparsedExpr::new(
            Tree::Const {
                text,
                kind: ty.kind,
                label: self.type_name(plain),
            },
            plain,
        )
    }

    /// Returns the name of a relation; with its schema if the text is stored in the catalog.
    fn object_name(&self, object: &Object) -> String {
        let snapshot = self.reader.snapshot;
        let qualified = || {
            let renaming = self.reader.renaming?;
            let (schema, name) = snapshot.place_of_relation(object.oid)?;
            let name = renaming.of_relation(object.oid).unwrap_or(&name);
            Some(format!("{}.{}", quote_ident(&schema), quote_ident(name)))
        };
        qualified().unwrap_or_else(|| object.name.to_string())
    }

    /// Evaluates the expression to a constant.
    pub(super) fn evaluated(&self, expr: &Expr) -> Result<DeparsedExpr, SqlError> {
        let value = match &expr.node {
            Node::Const(value) => value.clone(),
            _ => eval(expr, &[], &[], self.reader.cx)?,
        };
        Ok(self.value(&value, expr.ty))
    }

    /// Converts the expression to another type.
    pub(super) fn coerced(
        &mut self,
        deparsed: DeparsedExpr,
        to: Type,
        explicit: bool,
    ) -> Result<DeparsedExpr, SqlError> {
        if to.kind == TypeKind::Unknown {
            return Ok(deparsed);
        }
        let base = to.plain();
        let deparsed = match deparsed.ty == Type::UNKNOWN {
            true => self.typed_constant(deparsed, base)?,
            false => deparsed,
        };
        let same_length = to.typmod == deparsed.ty.typmod || (to.typmod == -1 && !explicit);
        if deparsed.ty.kind == to.kind && same_length {
            return Ok(deparsed);
        }
        Ok(DeparsedExpr::new(
            Tree::Cast {
                input: Box::new(match (deparsed.tree, explicit) {
                    // The conversion and the cast to a length are displayed as one cast.
                    (
                        Tree::Cast {
                            input,
                            implicit: true,
                            ..
                        },
                        true,
                    ) if deparsed.ty.kind == base.kind => *input,
                    (tree, _) => tree,
                }),
                kind: to.kind,
                label: self.type_name(to),
                implicit: !explicit,
            },
            to,
        ))
    }

    /// Converts a literal or NULL of unknown type to this type.
    fn typed_constant(
        &mut self,
        deparsed: DeparsedExpr,
        to: Type,
    ) -> Result<DeparsedExpr, SqlError> {
        let plain = Type::of(to.kind);
        let Tree::Const { text, .. } = deparsed.tree else {
            return Ok(DeparsedExpr::new(deparsed.tree, plain));
        };
        let Some(text) = text else {
            return Ok(self.value(&Value::Null, plain));
        };
        if to.kind.is_string() && to.kind != TypeKind::JsonPath {
            return Ok(self.value(&Value::text(text), plain));
        }
        let literal = Expr::constant(Type::UNKNOWN, Value::text(text));
        let cast = self.binder.coerce(literal, plain, CastContext::Explicit)?;
        self.evaluated(&cast)
    }

    /// Converts an expression that is still of unknown type to text.
    pub(super) fn as_known(&mut self, deparsed: DeparsedExpr) -> Result<DeparsedExpr, SqlError> {
        match deparsed.ty == Type::UNKNOWN {
            true => self.coerced(deparsed, Type::TEXT, false),
            false => Ok(deparsed),
        }
    }

    /// Converts all expressions to their common type.
    pub(super) fn unified(
        &mut self,
        all: Vec<DeparsedExpr>,
    ) -> Result<(Type, Vec<DeparsedExpr>), SqlError> {
        let types: Vec<Type> = all.iter().map(|deparsed| deparsed.ty).collect();
        let ty = Type::of(self.common(&types)?.kind);
        let all = all
            .into_iter()
            .map(|deparsed| self.coerced(deparsed, ty, false));
        Ok((ty, all.collect::<Result<_, _>>()?))
    }

    /// Returns the common type of these types.
    pub(super) fn common(&self, types: &[Type]) -> Result<Type, SqlError> {
        let nulls: Vec<Expr> = types
            .iter()
            .map(|ty| Expr::constant(*ty, Value::Null))
            .collect();
        common_type(&nulls, "these")
    }
}
