//! EXPLAIN: shows the plan of a statement, and with ANALYZE also its execution.

use std::sync::Arc;
use std::time::Instant;

use fencepost_planner::{
    ExplainContext, MemorySink, PartStatistics, Plan, PlanDescription, RowSink, RunInformation,
    Tag, explain,
};
use fencepost_sql::bound::{ExplainFormat, ExplainOptions, Expr};
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;
use fencepost_txn::{FarCounts, MachineId, Mode, Transaction, Work};

use super::protocol::Completion;
use super::{Block, Session};
use crate::prepared::{Body, PlannedStatement, Portal, PreparedStatement};

impl Session {
    /// Executes EXPLAIN EXECUTE.
    pub(super) fn explain_execute<'a>(
        &'a mut self,
        (name, args): (&'a str, &'a [Expr]),
        options: ExplainOptions,
        portal: &'a Portal,
        sink: &'a mut dyn RowSink,
        last: bool,
    ) -> Work<'a, Result<Completion, StatementStop>> {
        Box::pin(async move {
            let (prepared, mut params) = self.arguments(name, args, &portal.params)?;
            params.extend(prepared.literals.iter().cloned());
            let planned = prepared.current();
            let explained = match planned.body {
                Body::Plan(..) => Some(&planned),
                _ => None,
            };
            self.run_explain(explained, &params, options, sink, last)
                .await
        })
    }

    pub(super) fn run_explain<'a>(
        &'a mut self,
        planned: Option<&'a Arc<PlannedStatement>>,
        params: &'a [Value],
        options: ExplainOptions,
        sink: &'a mut dyn RowSink,
        last: bool,
    ) -> Work<'a, Result<Completion, StatementStop>> {
        Box::pin(async move {
            let analyze = options.analyze;
            let text = options.format == ExplainFormat::Text;
            let (mut lines, explained) = match planned.map(|planned| (planned, &planned.body)) {
                Some((planned, Body::Plan(plan, _))) => {
                    let known = self.explained(planned, plan, params, options, last);
                    let explained = known.await;
                    (explained.lines(), Some(explained))
                }
                _ => {
                    let nothing = "Utility statements have no plan structure";
                    (vec![nothing.to_owned()], None)
                }
            };
            let mut extras = Vec::new();
            if let Some(planned) = planned {
                let prepared = PreparedStatement::new(Arc::clone(planned), Vec::new());
                let mut inner = Portal::new(prepared, params.to_vec());
                if !analyze && let Some(home) = self.home_of(planned, &inner) {
                    extras.push(RunInformation::Whole("Shipped to", home.to_string()));
                }
                if analyze {
                    let run = self.run_explained(&mut inner, options, &mut lines).await?;
                    tell_returned(&mut lines, &self.came);
                    extras.extend(run);
                }
            }
            match explained.filter(|_| !text) {
                Some(explained) => {
                    let document = explained.document(options.format, &extras);
                    sink.row(&[match options.format {
                        ExplainFormat::Json => Value::Json(document.into()),
                        _ => Value::text(document),
                    }])?;
                }
                None if options.format == ExplainFormat::Json => {
                    let document = format!("[\n  \"{}\"\n]", lines.concat());
                    sink.row(&[Value::Json(document.into())])?;
                }
                None => {
                    lines.extend(extras.iter().filter_map(|extra| match extra {
                        RunInformation::ActualRows(_) => None,
                        RunInformation::Whole(name, text) => Some(format!("{name}: {text}")),
                        RunInformation::Time(name, ms) => Some(format!("{name}: {ms:.3} ms")),
                    }));
                    for line in lines {
                        sink.row(&[Value::text(line)])?;
                    }
                }
            }
            Ok(Completion::Complete(Tag::plain("EXPLAIN")))
        })
    }

    /// Runs an explained statement. Adds the number of its rows to `lines`, and returns the
    /// information.
    async fn run_explained(
        &mut self,
        portal: &mut Portal,
        options: ExplainOptions,
        lines: &mut [String],
    ) -> Result<Vec<RunInformation>, StatementStop> {
        let started = Instant::now();
        let mut rows = MemorySink::default();
        let before = self.far_counts();
        let scans_before = self.scratch.parallel_scans;
        self.came.clear();
        self.run_plan(portal, 0, &mut rows, false).await?;
        if let Some(first) = lines.first_mut() {
            first.push_str(&format!(" (actual rows={})", rows.rows.len()));
        }
        let mut run = vec![RunInformation::ActualRows(rows.rows.len())];
        if self.db.machine.number() != 0 {
            run.push(fabric_operations(before, self.far_counts()));
        }
        let scans = self.scratch.parallel_scans - scans_before;
        if scans > 0 {
            run.push(RunInformation::Whole("Parallel Scans", scans.to_string()));
        }
        if options.summary != Some(false) {
            let elapsed = started.elapsed().as_secs_f64() * 1000.0;
            run.push(RunInformation::Time("Execution Time", elapsed));
        }
        Ok(run)
    }

    /// Returns the plan, with the known locations of its data.
    async fn explained(
        &mut self,
        planned: &PlannedStatement,
        plan: &Plan,
        params: &[Value],
        options: ExplainOptions,
        last: bool,
    ) -> PlanDescription {
        let only_reads = self.would_only_read(plan, last);
        if only_reads && options.analyze {
            self.enter();
            self.begin_transaction(true, true);
        }
        if let Some(roots) = plan.split_roots() {
            // If the locations are unknown now, the plan omits them.
            let _ = self.db.machine.meet(&roots).await;
        }
        let spread = self.spread_of(planned, only_reads);
        let parts = spread.map_or_else(Vec::new, |s| s.machines(&self.db.machine));
        let analytics = (params, self.eval.settings.analytics);
        // If this is unknown now, the plan omits it.
        let bulk = plan.is_bulk(&self.db.machine, analytics).await;
        let known = ExplainContext {
            params,
            eval: &self.eval,
            machine: &self.db.machine,
            bulk: parts.is_empty() && bulk.unwrap_or(false),
            parts,
        };
        explain(plan, &known, options.verbose)
    }

    /// Returns whether an explained statement's transaction would be read-only: the statement's own
    /// transaction, or that of the block.
    fn would_only_read(&self, plan: &Plan, last: bool) -> bool {
        match &self.tx {
            Some(tx) => tx.mode() == Mode::ReadOnly,
            None if self.block == Block::Explicit => self.modes.read_only,
            None => {
                last && (self.block == Block::Idle || self.statements == 0)
                    && plan.is_snapshot_read()
            }
        }
    }

    /// Returns the counts of operations that the open transaction has posted to other machines.
    fn far_counts(&self) -> FarCounts {
        self.tx
            .as_ref()
            .map(Transaction::far_counts)
            .unwrap_or_default()
    }
}

/// Returns the operations between two counts.
fn fabric_operations(before: FarCounts, after: FarCounts) -> RunInformation {
    let reads = after.reads.saturating_sub(before.reads);
    let messages = after.messages.saturating_sub(before.messages);
    RunInformation::Whole("Fabric", format!("reads={reads} messages={messages}"))
}

const MACHINES: &str = "Machines: ";

/// Adds the results of a statement's parts, if there are any.
fn tell_returned(lines: &mut Vec<String>, came: &[PartStatistics]) {
    let described = |came: &PartStatistics| {
        let machine = MachineId(came.machine);
        match came.rows {
            Some((rows, bytes)) => format!("{machine} rows={rows} bytes={bytes}"),
            None => format!("{machine} none, run here"),
        }
    };
    let returned: Vec<String> = came.iter().map(described).collect();
    let gather = (0..).zip(lines.iter()).find_map(|(at, line)| {
        let (indent, _) = line.split_once(MACHINES)?;
        indent
            .trim()
            .is_empty()
            .then(|| (at + 1, indent.to_owned()))
    });
    if let Some((at, indent)) = gather.filter(|_| !returned.is_empty()) {
        lines.insert(at, format!("{indent}Returned: {}", returned.join(", ")));
    }
}
