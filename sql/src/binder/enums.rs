//! `enum_first`, `enum_last`, `enum_range` and `pg_typeof`: their results depend on the types of
//! their arguments.

use super::Binder;
use super::call::no_function;
use crate::bound::{Expr, Node};
use crate::error::SqlError;
use crate::functions::{CastContext, ENUM_RANGE, quote_ident};
use crate::types::{Type, TypeKind};
use crate::value::{Array, Object, Value};

impl Binder<'_> {
    /// Binds a call of `pg_typeof`.
    pub(super) fn type_of_value(&mut self, args: Vec<Expr>) -> Result<Expr, SqlError> {
        let [arg] = <[Expr; 1]>::try_from(args).map_err(|args| {
            let types: Vec<Type> = args.iter().map(|arg| arg.ty).collect();
            no_function("pg_typeof", &types)
        })?;
        let kind = arg.ty.kind;
        let name = match self.catalog.user_type_by_id(kind.oid()) {
            Some(ty) if self.path.contains(&ty.schema) => {
                let end = if ty.id == kind.oid() { "" } else { "[]" };
                quote_ident(&ty.name) + end
            }
            _ => kind.name().to_owned(),
        };
        let object = Object {
            oid: kind.oid(),
            name: name.into(),
        };
        let value = Value::Object(Box::new(object));
        Ok(Expr::constant(Type::of(TypeKind::RegType), value))
    }

    /// Binds a call of `enum_first`, `enum_last` or `enum_range`.
    pub(super) fn enum_call(&mut self, name: &str, args: Vec<Expr>) -> Result<Expr, SqlError> {
        let types: Vec<Type> = args.iter().map(|arg| arg.ty).collect();
        let fits = args.len() == 1 || (args.len() == 2 && name == "enum_range");
        let mut enums = types.iter().filter_map(|ty| match ty.kind {
            TypeKind::Enum(of) => Some(of),
            _ => None,
        });
        let Some(of) = enums.next().filter(|_| fits) else {
            return Err(no_function(name, &types));
        };
        let ty = Type::of(TypeKind::Enum(of));
        let same = |given: &Type| *given == ty || *given == Type::UNKNOWN;
        if !types.iter().all(same) {
            return Err(no_function(name, &types));
        }
        let ends = |value: Option<_>| Expr::constant(ty, value.map_or(Value::Null, Value::Enum));
        match name {
            "enum_first" => return Ok(ends(of.values().next())),
            "enum_last" => return Ok(ends(of.values().next_back())),
            _ => {}
        }
        let Some(array) = ty.array() else {
            return Err(SqlError::internal("an enum without arrays"));
        };
        let all = Array::of(of.values().map(Value::Enum).collect());
        let all = Expr::constant(array, all.into());
        if args.len() == 1 {
            return Ok(all);
        }
        let mut given = vec![all];
        for arg in args {
            given.push(self.coerce(arg, ty, CastContext::Implicit)?);
        }
        Ok(self.fold(Expr::new(
            array,
            Node::Call {
                function: &ENUM_RANGE,
                args: given,
            },
        )))
    }
}
