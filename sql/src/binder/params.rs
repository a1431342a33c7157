//! The types of a statement's parameters: given by the client, or told by where they stand.

use std::sync::Arc;

use crate::catalog::{Dependencies, Snapshot, TypeDef, ViewDef};
use crate::error::{SqlError, SqlState};
use crate::types::{Type, TypeKind};

/// What is known of the parameters' types.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParamTypes {
    types: Vec<Type>,
    /// How many the client declared; EXECUTE of PREPARE needs no more than it declares.
    declared: usize,
    /// The types and views that the statement names.
    depends: Dependencies,
    /// It was allowed something by what has no guard of its own: it holds for this catalog alone.
    watches: bool,
    /// The statement was bound before: a literal may be an enum's label that has another name since.
    again: bool,
    /// The first parameter, from 0, that the statement has.
    first: Option<usize>,
}

impl ParamTypes {
    /// Nothing is known yet.
    pub fn new() -> ParamTypes {
        ParamTypes::default()
    }

    /// The client has told these; `Type::UNKNOWN` is for us to find out.
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

    /// The same, where those that users made are as the catalog has them.
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

    /// The same of a statement that was bound before and is kept: its literals are the values that they were then, whatever
    /// the labels of enums are called by now.
    pub fn bound_before(self) -> ParamTypes {
        ParamTypes {
            again: true,
            ..self
        }
    }

    /// Was the statement bound before?
    pub(super) fn are_bound_before(&self) -> bool {
        self.again
    }

    /// From the OIDs of a Parse message; 0 is for us to find out.
    pub fn from_oids(oids: &[u32], catalog: &Snapshot) -> Result<ParamTypes, SqlError> {
        let mut types = Vec::with_capacity(oids.len());
        for oid in oids {
            types.push(match oid {
                0 => Type::UNKNOWN,
                // What JDBC declares for what a function gives back; a call leaves it out.
                2278 => Type::of(TypeKind::Void),
                oid => catalog.type_kind(*oid).map(Type::of).ok_or_else(|| {
                    SqlError::unsupported(format!("a parameter of the type with OID {oid}"))
                })?,
            });
        }
        Ok(ParamTypes::declared_in(types, catalog))
    }

    /// The types, after binding.
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// The objects that a plan made with a version of the catalog depends on, after binding.
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

    /// Notes that the statement draws from a sequence.
    pub(super) fn name_sequence(&mut self, id: u32) {
        self.depends.add_sequence(id);
    }

    /// Notes that the statement depends on a view.
    pub(super) fn name_view(&mut self, view: &ViewDef) {
        self.watches |= !self.depends.add_view(view);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// How many the client declared.
    pub fn declared_count(&self) -> usize {
        self.declared
    }

    /// The type of a parameter (from 0), unknown where nothing has told it.
    pub(super) fn get(&mut self, index: usize) -> Type {
        if index >= self.types.len() {
            self.types.resize(index + 1, Type::UNKNOWN);
        }
        self.types[index]
    }

    /// Notes that the statement has a parameter (from 0), and returns its type.
    pub(super) fn note(&mut self, index: usize) -> Type {
        let first = self.first.map_or(index, |first| first.min(index));
        self.first = Some(first);
        self.get(index)
    }

    /// 42P02 where a statement has a parameter that can have none.
    pub(super) fn check_none(&self) -> Result<(), SqlError> {
        match self.first {
            None => Ok(()),
            Some(index) => Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter ${}", index + 1),
            )),
        }
    }

    /// A place tells the type.
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

    /// The type of a parameter (from 0) is this.
    pub(super) fn declare(&mut self, index: usize, ty: Type) {
        self.get(index);
        self.types[index] = ty;
    }

    /// 42P18 for one whose type nothing has told.
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
