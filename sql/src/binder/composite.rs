//! CREATE TYPE … AS (…) and ALTER TYPE … ATTRIBUTE.

use sqlparser::ast;

use super::Binder;
use super::ddl::check_column_type;
use crate::bound::{AlterComposite, AttributeChange, CreateComposite, Statement};
use crate::error::{SqlError, SqlState};
use crate::parser::{AttributeSyntax, CompositeAction, CompositeSyntax};
use crate::types::Type;

impl Binder<'_> {
    pub(super) fn composite(&mut self, syntax: &CompositeSyntax) -> Result<Statement, SqlError> {
        let name = &syntax.name;
        match &syntax.does {
            CompositeAction::Create(attributes) => {
                let schema = self.schema_for(syntax.schema.clone())?;
                let mut bound: Vec<(String, Type)> = Vec::with_capacity(attributes.len());
                for (attribute, data_type) in attributes {
                    let ty = self.attribute_type(attribute, data_type)?;
                    if bound.iter().any(|(other, _)| other == attribute) {
                        return Err(SqlError::new(
                            SqlState::DUPLICATE_COLUMN,
                            format!("column \"{attribute}\" specified more than once"),
                        ));
                    }
                    bound.push((attribute.clone(), ty));
                }
                Ok(Statement::CreateComposite(CreateComposite {
                    schema,
                    name: name.clone(),
                    attributes: bound,
                }))
            }
            CompositeAction::Alter(changes) => {
                let schema = syntax.schema.as_deref();
                let found = self.catalog.user_type(schema, name);
                let Some(ty) = found.filter(|ty| ty.as_composite().is_some()) else {
                    return Err(match self.catalog.table(schema, name)? {
                        Some(_) => SqlError::new(
                            SqlState::WRONG_OBJECT_TYPE,
                            format!("\"{name}\" is not a composite type"),
                        ),
                        None => SqlError::new(
                            SqlState::UNDEFINED_TABLE,
                            format!(
                                "relation \"{}\" does not exist",
                                super::names::qualified_name(schema, name)
                            ),
                        ),
                    });
                };
                let mut bound = Vec::with_capacity(changes.len());
                for change in changes {
                    bound.push(match change {
                        AttributeSyntax::Add(name, of) => {
                            AttributeChange::Add(name.clone(), self.attribute_type(name, of)?)
                        }
                        AttributeSyntax::Drop(name, if_exists) => {
                            AttributeChange::Drop(name.clone(), *if_exists)
                        }
                        AttributeSyntax::Type(name, of) => {
                            AttributeChange::Type(name.clone(), self.attribute_type(name, of)?)
                        }
                        AttributeSyntax::Rename(from, to) => {
                            AttributeChange::Rename(from.clone(), to.clone())
                        }
                    });
                }
                Ok(Statement::AlterComposite(AlterComposite {
                    ty,
                    changes: bound,
                }))
            }
        }
    }

    fn attribute_type(&mut self, name: &str, of: &ast::DataType) -> Result<Type, SqlError> {
        let ty = self.type_of(of)?;
        check_column_type(name, ty)?;
        self.check_type_usage(ty)?;
        Ok(ty)
    }
}
