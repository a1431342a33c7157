//! The replacement of this module's parts in a build without DataFusion.

use fencepost_sql::bound::{Expr, Grouping};
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::StatementStop;

use super::Shape;
use crate::exec::{Batch, Cx, Groups};
use crate::plan::Source;

/// A state that never exists, because no SELECT is eligible.
#[derive(Default)]
pub struct AnalyticExecution;

impl AnalyticExecution {
    /// Returns an internal error, because no SELECT is eligible.
    pub async fn rows(
        &mut self,
        _source: (&Source, &Shape),
        _cx: &mut Cx<'_>,
        _out: &mut Batch,
        _max: usize,
    ) -> Result<bool, StatementStop> {
        Err(left_out())
    }

    /// Returns an internal error, as [`Self::rows`] does.
    pub async fn group(
        &self,
        _source: (&Source, &Shape),
        _filter: Option<&Expr>,
        _grouping: &Grouping,
        _cx: &mut Cx<'_>,
        _groups: &mut Groups,
    ) -> Result<(), StatementStop> {
        Err(left_out())
    }
}

fn left_out() -> StatementStop {
    SqlError::internal("built without the feature \"analytics\"").into()
}
