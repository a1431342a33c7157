//! What stands for DataFusion where it is left out.

use fencepost_sql::bound::{Expr, Grouping};
use fencepost_sql::error::SqlError;
use fencepost_sql::stop::Halt;

use super::Shape;
use crate::exec::{Batch, Cx, Groups};
use crate::plan::Source;

/// Nothing runs.
#[derive(Default)]
pub struct Running;

impl Running {
    /// No SELECT is eligible, so this is never asked for.
    pub async fn rows(
        &mut self,
        _source: (&Source, &Shape),
        _cx: &mut Cx<'_>,
        _out: &mut Batch,
        _max: usize,
    ) -> Result<bool, Halt> {
        Err(left_out())
    }

    /// As [`Self::rows`].
    pub async fn group(
        &self,
        _source: (&Source, &Shape),
        _filter: Option<&Expr>,
        _grouping: &Grouping,
        _cx: &mut Cx<'_>,
        _groups: &mut Groups,
    ) -> Result<(), Halt> {
        Err(left_out())
    }
}

fn left_out() -> Halt {
    SqlError::internal("built without the feature \"analytics\"").into()
}
