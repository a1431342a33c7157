//! The types of a statement's parameters. The client declares them, or their context determines
//! them.

use std::sync::Arc;

use crate::catalog::{Dependencies, Snapshot, TypeDef, ViewDef};
use crate::error::{SqlError, SqlState};
use crate::types::{Type, TypeKind};

/// The known types of the parameters, and the objects that the statement depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParamTypes {
    types: Vec<Type>,
    /// The number of parameters that the client declared; EXECUTE of a prepared statement needs no
    /// more.
    declared: usize,
    /// The types and views that the statement refers to.
    depends: Dependencies,
    /// Whether a privilege was checked that no guard covers; the plan is then valid only for this
    /// version of the catalog.
    watches: bool,
    /// Whether the statement has been bound before. An enum label in a literal may have been
    /// renamed since.
    again: bool,
    /// The lowest number, from 0, of a parameter of the statement.
    first: Option<usize>,
}

impl ParamTypes {
    /// Returns an empty list: no type is known yet.
    pub fn new() -> ParamTypes {
        ParamTypes::default()
    }

    /// Returns the types that the client declared; `Type::UNKNOWN` is left for the binder to infer.
    pub fn declared(types: Vec<Type>) -> ParamTypes {
        ParamTypes {
            declared: types.len(),
            types,
            depends: Dependencies::default(),
            watches: false,
            again: false,
            first: None,
        }
    }

    /// Returns the declared types, with the user-defined ones as this catalog defines them.
    pub fn declared_in(mut types: Vec<Type>, catalog: &Snapshot) -> ParamTypes {
        let mut depends = Dependencies::default();
        for ty in types.iter_mut().filter(|ty| ty.kind.is_users()) {
            ty.kind = catalog.type_kind(ty.oid()).unwrap_or(ty.kind);
            if let Some(ty) = catalog.guarded_type(ty.oid()) {
                depends.add_type(ty);
            }
        }
        ParamTypes {
            depends,
            ..ParamTypes::declared(types)
        }
    }

    /// Marks the statement as bound before. Its literals keep their first values, even if enum
    /// labels have been renamed since.
    pub fn bound_before(self) -> ParamTypes {
        ParamTypes {
            again: true,
            ..self
        }
    }

    /// Returns whether the statement has been bound before.
    pub(super) fn are_bound_before(&self) -> bool {
        self.again
    }

    /// Returns the types for the OIDs of a Parse message; 0 is left for the binder to infer.
    pub fn from_oids(oids: &[u32], catalog: &Snapshot) -> Result<ParamTypes, SqlError> {
        let mut types = Vec::with_capacity(oids.len());
        for oid in oids {
            types.push(match oid {
                0 => Type::UNKNOWN,
                // JDBC declares void for the result of a function; the call omits this parameter.
                2278 => Type::of(TypeKind::Void),
                oid => catalog.type_kind(*oid).map(Type::of).ok_or_else(|| {
                    SqlError::unsupported(format!("a parameter of the type with OID {oid}"))
                })?,
            });
        }
        Ok(ParamTypes::declared_in(types, catalog))
    }

    /// Returns the types; complete after binding.
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// Returns the objects that a plan made with this version of the catalog depends on; complete
    /// after binding.
    pub fn dependencies(&self, version: u64) -> Dependencies {
        let depends = self.depends.clone();
        match self.watches {
            true => depends.watching(version),
            false => depends,
        }
    }

    pub(super) fn watch_catalog(&mut self) {
        self.watches = true;
    }

    pub(super) fn name_type(&mut self, ty: Arc<TypeDef>) {
        self.depends.add_type(ty);
    }

    /// Records that the statement uses a sequence.
    pub(super) fn name_sequence(&mut self, id: u32) {
        self.depends.add_sequence(id);
    }

    /// Records that the statement depends on a view.
    pub(super) fn name_view(&mut self, view: &ViewDef) {
        self.watches |= !self.depends.add_view(view);
    }

    /// Returns the number of parameters.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Returns whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Returns the number of parameters that the client declared.
    pub fn declared_count(&self) -> usize {
        self.declared
    }

    /// Returns the type of a parameter (from 0); unknown until it is inferred.
    pub(super) fn get(&mut self, index: usize) -> Type {
        if index >= self.types.len() {
            self.types.resize(index + 1, Type::UNKNOWN);
        }
        self.types[index]
    }

    /// Records that the statement has a parameter (from 0), and returns its type.
    pub(super) fn note(&mut self, index: usize) -> Type {
        let first = self.first.map_or(index, |first| first.min(index));
        self.first = Some(first);
        self.get(index)
    }

    /// Checks that the statement has no parameters, for statements that allow none; 42P02
    /// otherwise.
    pub(super) fn check_none(&self) -> Result<(), SqlError> {
        match self.first {
            None => Ok(()),
            Some(index) => Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter ${}", index + 1),
            )),
        }
    }

    /// Sets the type that the context of a parameter requires.
    pub(super) fn set(&mut self, index: usize, ty: Type) -> Result<(), SqlError> {
        let known = self.get(index);
        let wanted = Type::of(ty.kind);
        if known == Type::UNKNOWN {
            self.types[index] = wanted;
        } else if known.kind != wanted.kind {
            return Err(SqlError::new(
                SqlState::AMBIGUOUS_PARAMETER,
                format!("inconsistent types deduced for parameter ${}", index + 1),
            )
            .detail(format!("{} versus {}", known.kind, wanted.kind)));
        }
        Ok(())
    }

    /// Sets the type of a parameter (from 0), replacing the type known so far.
    pub(super) fn declare(&mut self, index: usize, ty: Type) {
        self.get(index);
        self.types[index] = ty;
    }

    /// Checks that every parameter has a type; 42P18 otherwise.
    pub(super) fn finish(&self) -> Result<(), SqlError> {
        match self.types.iter().position(|t| *t == Type::UNKNOWN) {
            None => Ok(()),
            Some(index) => Err(SqlError::new(
                SqlState::INDETERMINATE_DATATYPE,
                format!("could not determine data type of parameter ${}", index + 1),
            )),
        }
    }
}
