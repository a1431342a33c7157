//! Subqueries in the expressions of window function calls: their values are computed before the
//! windows.

use fencepost_sql::bound::{Expr, WindowCall};
use fencepost_sql::stop::StatementStop;

use super::super::batch::Batch;
use super::super::cx::Cx;
use super::super::set::give;
use super::{BREATH, WindowRows};

/// Returns whether an expression of the call contains a subquery.
fn has_subquery(call: &WindowCall) -> bool {
    let mut found = false;
    call.for_each_expr(&mut |expr| found |= expr.has_subquery());
    found
}

impl WindowRows {
    /// Computes all calls; the slots of their values begin at `first`.
    pub async fn compute(
        &mut self,
        calls: &[WindowCall],
        cx: &mut Cx<'_>,
        first: usize,
    ) -> Result<(), StatementStop> {
        if !calls.iter().any(has_subquery) {
            return self.compute_values(calls, cx, first).await;
        }
        let calls = self.evaluate_subqueries(calls, cx).await?;
        self.compute_values(&calls, cx, first).await
    }

    /// Stores the values of the expressions with subqueries behind each row. Returns the calls that
    /// read them there.
    async fn evaluate_subqueries(
        &mut self,
        calls: &[WindowCall],
        cx: &mut Cx<'_>,
    ) -> Result<Vec<WindowCall>, StatementStop> {
        let mut calls = calls.to_vec();
        let mut deep: Vec<Expr> = Vec::new();
        for call in &mut calls {
            call.for_each_expr_mut(&mut |expr| {
                if expr.has_subquery() {
                    let known = deep.iter().position(|of| of == expr);
                    let nth = known.unwrap_or(deep.len());
                    let column = Expr::column(expr.ty, self.width + nth);
                    let expr = std::mem::replace(expr, column);
                    if nth == deep.len() {
                        deep.push(expr);
                    }
                }
            });
        }
        let mut wide = Batch::new(self.width + deep.len());
        for i in 0..self.rows.len() {
            cx.breathe().await?;
            let mut values = Vec::with_capacity(deep.len());
            for expr in &deep {
                values.push(cx.deep_value(expr, self.rows.row(i)).await?);
            }
            let row = wide.push();
            give(self.rows.row_mut(i), row);
            for (slot, value) in row[self.width..].iter_mut().zip(values) {
                *slot = value;
            }
            if i % BREATH == BREATH - 1 {
                self.gathered.add_rows(cx, &wide, i + 1 - BREATH)?;
            }
        }
        self.rows = wide;
        Ok(calls)
    }
}
