//! The types of a statement's parameters: given by the client, or told by where they stand.

use crate::error::{SqlError, SqlState};
use crate::types::{Type, TypeKind};

/// What is known of the parameters' types.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParamTypes {
    types: Vec<Type>,
    /// How many the client declared; EXECUTE of PREPARE needs no more than it declares.
    declared: usize,
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
        }
    }

    /// From the OIDs of a Parse message; 0 is for us to find out.
    pub fn from_oids(oids: &[u32]) -> Result<ParamTypes, SqlError> {
        let mut types = Vec::with_capacity(oids.len());
        for oid in oids {
            types.push(match oid {
                0 => Type::UNKNOWN,
                oid => TypeKind::from_oid(*oid).map(Type::of).ok_or_else(|| {
                    SqlError::unsupported(format!("a parameter of the type with OID {oid}"))
                })?,
            });
        }
        Ok(ParamTypes::declared(types))
    }

    /// The types, after binding.
    pub fn types(&self) -> &[Type] {
        &self.types
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
