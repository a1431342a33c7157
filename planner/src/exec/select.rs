//! The execution of a SELECT: from rows of the source to rows of the select list.

mod groups;

use fencepost_sql::bound::{Grouping, Node};
use fencepost_sql::functions::SortDirection;
use fencepost_sql::stop::StatementStop;
use fencepost_sql::value::Value;

use super::batch::Batch;
use super::cx::Cx;
use super::distinct::Distinct;
use super::gather::{GatherState, Stage, push_rows};
use super::group::{FirstGroups, Groups};
use super::lock::{lock_rows, next_locked};
use super::row_filter::Cutoff;
use super::sort::Sorter;
use super::source::SourceState;
use super::targets::{Limits, deep_target_row, limits, target_row};
use super::window::WindowRows;
use crate::plan::{SelectPlan, Source};
use crate::sink::RowSink;
use crate::split::PartOutput;

const CHUNK: usize = 1024;

/// The state of a SELECT.
pub struct SelectState {
    source: SourceState,
    input: Batch,
    input_more: bool,
    groups: Option<Groups>,
    sorter: Option<Sorter>,
    limits: Option<Limits>,
    /// The rows that DISTINCT has returned.
    distinct: Option<Box<Distinct>>,
    /// The state of gathering, if other machines run parts of the plan.
    gather: Option<Box<GatherState>>,
    /// With window function calls: all rows that the targets read.
    windowed: Option<Box<WindowRows>>,
}

impl SelectState {
    /// Creates the state before the first row.
    pub fn new(plan: &SelectPlan) -> SelectState {
        SelectState {
            source: SourceState::new(&plan.source, plan.width),
            input: Batch::new(plan.width),
            input_more: true,
            groups: None,
            sorter: None,
            limits: None,
            distinct: None,
            gather: None,
            windowed: None,
        }
    }

    /// Adds rows as [`Self::next`] does, for a part of a split plan: only rows that may be among
    /// the first rows of the whole result. If all rows may be, the gathering machine sorts them.
    pub async fn next_of_part(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        if self.limits.is_none() {
            let all = limits(plan, cx)?;
            self.limits = Some(Limits::of_first(all.skip.saturating_add(all.take)));
        }
        match self.limits.is_some_and(|limits| limits.take == u64::MAX) {
            true => self.project(plan, cx, out, max).await,
            false => self.next(plan, cx, out, max).await,
        }
    }

    /// Adds up to `max` rows of all targets to `out`. Returns false when no more rows follow.
    pub async fn next(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        let limits = match self.limits {
            Some(limits) => limits,
            None => {
                if plan.deep || !plan.inits.is_empty() {
                    self.begin_deep(plan, cx).await?;
                }
                *self.limits.insert(limits(plan, cx)?)
            }
        };
        if limits.take == 0 {
            return Ok(false);
        }
        if cx.parts.is_some() && self.gather.is_none() && plan.split.is_some() {
            self.gather = GatherState::begin(cx).map(Box::new);
        }
        if plan.sort.is_empty() {
            return self.next_unsorted(plan, cx, out, max).await;
        }
        if self.sorter.is_none() {
            Box::pin(self.sort(plan, cx, limits)).await?;
        }
        let Some(sorter) = &mut self.sorter else {
            return Ok(false);
        };
        if let Some(lock) = &plan.lock {
            return next_locked(plan, lock, cx, (sorter, &mut self.limits), out, max).await;
        }
        Ok(sorter.next(cx, out, max).await?)
    }

    async fn next_unsorted(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        let target = out.len() + max;
        while out.len() < target {
            let Some(limits) = self.limits else {
                return Ok(false);
            };
            let wanted = limits.skip.saturating_add(limits.take);
            let start = out.len();
            let chunk = (target - start).min(usize::try_from(wanted).unwrap_or(usize::MAX));
            let more = self.project(plan, cx, out, chunk).await?;
            if let Some(lock) = &plan.lock {
                lock_rows(plan, lock, cx, out, start).await?;
            }
            let made = (out.len() - start) as u64;
            let skipped = made.min(limits.skip);
            if skipped > 0 {
                out.remove(start, skipped as usize);
            }
            let kept = (made - skipped).min(limits.take);
            out.truncate(start + kept as usize);
            let take = limits.take - kept;
            self.limits = Some(Limits {
                skip: limits.skip - skipped,
                take,
            });
            if !more || take == 0 {
                return Ok(false);
            }
            if self.input.weight() > 0 {
                // Long rows are passed on before more rows are read.
                break;
            }
        }
        Ok(true)
    }

    /// Produces and sorts all rows. With a limit, only the rows that may be returned are kept.
    async fn sort(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        limits: Limits,
    ) -> Result<(), StatementStop> {
        // The sort cannot know which rows will be left out because of their locks.
        let (skip, keep) = match plan.lock {
            None if !plan.with_ties => (limits.skip, limits.skip.saturating_add(limits.take)),
            None => (limits.skip, u64::MAX),
            Some(_) => (0, u64::MAX),
        };
        let mut sorter = Sorter::new(plan, keep, cx);
        loop {
            let from = sorter.rows().len();
            let more = self.project(plan, cx, sorter.rows(), CHUNK).await?;
            // Rows of other machines come in no order.
            let is_over = self.gather.is_none() && sorter.is_over(plan.presorted, from);
            let has_trimmed = sorter.take(cx, from).await?;
            if !more || is_over {
                break;
            }
            if let Some(last) = sorter.last_of_first().filter(|_| has_trimmed) {
                self.cut_off(plan, last);
            }
        }
        sorter.finish(cx, skip).await?;
        if plan.with_ties {
            sorter.keep_ties(limits.take);
        }
        self.sorter = Some(sorter);
        Ok(())
    }

    /// Leaves out the rows of a scan that the sort would discard: those behind `last`.
    fn cut_off(&mut self, plan: &SelectPlan, last: &Value) {
        let is_plain = plan.grouping.is_none()
            && plan.windows.is_empty()
            && !plan.distinct
            && self.gather.is_none();
        let Some(key) = plan.sort.first().filter(|_| is_plain) else {
            return;
        };
        let direction = SortDirection {
            desc: key.desc,
            nulls_first: key.nulls_first,
        };
        if let (Source::Scan(scan), SourceState::Scan(state)) = (&plan.source, &mut self.source)
            && let Node::Column(slot) = plan.targets[key.target].expr.node
            && let Some(column) = slot.checked_sub(scan.first_slot)
            && let Some(cutoff) = Cutoff::new(&scan.table.layout, column, last, direction)
        {
            state.cut_off(cutoff);
        }
    }

    /// Adds about `max` rows of targets to `out`, before sort and limit.
    async fn project(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        if !plan.distinct {
            return self.project_source(plan, cx, out, max).await;
        }
        let new = || Box::new(Distinct::new(plan, cx));
        let distinct = self.distinct.get_or_insert_with(new);
        if distinct.is_source_over() {
            return Box::pin(distinct.next(plan, cx, out, max)).await;
        }
        let more = self.project_source(plan, cx, out, max).await?;
        let Some(distinct) = &mut self.distinct else {
            return Ok(more);
        };
        Box::pin(distinct.count(cx)).await?;
        Ok(more || distinct.end_source())
    }

    /// Adds about `max` rows of targets that are computed from the source to `out`.
    async fn project_source(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        if !plan.windows.is_empty() {
            return self.project_windows(plan, cx, out, max).await;
        }
        if plan.grouping.is_some() {
            return self.project_groups(plan, cx, out, max).await;
        }
        match &plan.split {
            Some(split) if self.gather.is_some() => match split.order.is_empty() {
                true => self.project_gathered(plan, cx, out, max).await,
                false => self.project_merged(plan, cx, out, max).await,
            },
            _ => self.project_rows(plan, cx, out, max).await,
        }
    }

    /// Projects the from rows.
    async fn project_rows(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        let more = self.next_input(plan, cx, max).await?;
        for i in 0..self.input.len() {
            if cx.is_due() {
                cx.pause().await?;
            }
            let row = self.input.row(i);
            if plan.deep {
                deep_target_row(plan, cx, row, out, self.distinct.as_deref_mut()).await?;
                continue;
            }
            target_row(plan, cx, row, out, self.distinct.as_deref_mut()).await?;
        }
        Ok(more)
    }

    /// Projects the from rows or the groups, after the window function calls are computed.
    async fn project_windows(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        let mut windowed = match self.windowed.take() {
            Some(windowed) => windowed,
            None => Box::pin(self.window(plan, cx)).await?,
        };
        let mut page = Batch::new(windowed.width());
        let more = windowed.give(&mut page, max);
        self.windowed = Some(windowed);
        for i in 0..page.len() {
            cx.breathe().await?;
            let row = page.row(i);
            deep_target_row(plan, cx, row, out, self.distinct.as_deref_mut()).await?;
        }
        Ok(more)
    }

    /// Returns all rows that the targets read, with the values of the window function calls.
    async fn window(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
    ) -> Result<Box<WindowRows>, StatementStop> {
        let calls = plan.windows.len();
        let Some(grouping) = &plan.grouping else {
            let mut windowed = WindowRows::new(plan.width);
            loop {
                let more = self.next_input(plan, cx, CHUNK).await?;
                windowed.add(cx, &self.input, plan.width - calls)?;
                if !more {
                    break;
                }
            }
            let first = plan.width - calls;
            windowed.compute(&plan.windows, cx, first).await?;
            return Ok(Box::new(windowed));
        };
        let width = grouping.keys.len() + grouping.aggregates.len();
        let mut windowed = WindowRows::new(width + calls);
        let mut groups = self.group(plan, grouping, cx).await?;
        groups.finish(grouping, cx).await?;
        loop {
            let (rows, more) = groups.next_rows(grouping, cx, CHUNK).await?;
            let mut kept = Batch::new(width);
            for i in 0..rows.len() {
                cx.breathe().await?;
                if cx.deep_holds(plan.having.as_ref(), rows.row(i)).await? {
                    kept.push().clone_from_slice(rows.row(i));
                }
            }
            windowed.add(cx, &kept, width)?;
            if !more {
                break;
            }
        }
        windowed.compute(&plan.windows, cx, width).await?;
        Ok(Box::new(windowed))
    }

    /// Accumulates all groups.
    pub async fn group(
        &mut self,
        plan: &SelectPlan,
        grouping: &Grouping,
        cx: &mut Cx<'_>,
    ) -> Result<Groups, StatementStop> {
        let mut groups = Groups::new(grouping, cx);
        if let (SourceState::Analytics(running), Source::Analytics { input, shape }) =
            (&mut self.source, &plan.source)
        {
            let (source, filter) = ((&**input, shape), plan.filter.as_ref());
            let all = running.group(source, filter, grouping, cx, &mut groups);
            Box::pin(all).await?;
            return Ok(groups);
        }
        self.group_input(plan, (grouping, &mut groups), cx).await?;
        if let (Some(split), Some(mut gather)) = (&plan.split, self.gather.take()) {
            while let Some(mut values) = gather.next(cx).await? {
                if split.gives == PartOutput::Groups {
                    let theirs = (values.as_slice(), split.columns.len());
                    groups.merge(grouping, cx, theirs).await?;
                    continue;
                }
                self.input.clear();
                if let Some(scan) = plan.split_scan() {
                    for row in values.chunks_exact_mut(scan.columns.len().max(1)) {
                        let slots = &mut self.input.push()[scan.first_slot..];
                        for (column, value) in scan.columns.iter().zip(row) {
                            slots[*column] = std::mem::take(value);
                        }
                    }
                }
                groups.add(grouping, cx, &self.input).await?;
            }
            if gather.begin_rest(cx) {
                self.restart(plan);
                self.group_input(plan, (grouping, &mut groups), cx).await?;
            }
            self.gather = Some(gather);
        }
        Ok(groups)
    }

    /// Passes the columns of the scan, of all from rows, to the sink. Returns the number of rows.
    pub async fn give_columns(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        sink: &mut dyn RowSink,
    ) -> Result<u64, StatementStop> {
        let Some(scan) = plan.split_scan() else {
            return Ok(0);
        };
        let mut row = Vec::with_capacity(scan.columns.len());
        let mut given = 0;
        loop {
            let more = self.next_input(plan, cx, CHUNK).await?;
            for i in 0..self.input.len() {
                cx.breathe().await?;
                let slots = &self.input.row(i)[scan.first_slot..];
                row.clear();
                row.extend(scan.columns.iter().map(|column| slots[*column].clone()));
                sink.row(&row)?;
            }
            given += self.input.len() as u64;
            if !more {
                return Ok(given);
            }
        }
    }

    async fn group_input(
        &mut self,
        plan: &SelectPlan,
        (grouping, groups): (&Grouping, &mut Groups),
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        let limits = self.limits.filter(|_| self.gather.is_none());
        let first = limits
            .and_then(|limits| FirstGroups::of(plan, limits.skip.saturating_add(limits.take)));
        if let (Source::Scan(scan), SourceState::Scan(state)) = (&plan.source, &mut self.source)
            && plan.filter.is_none()
            && plan.computed.is_empty()
            && self.input_more
            && groups
                .add_encoded(grouping, (scan, state), first, cx)
                .await?
        {
            self.input_more = false;
            return Ok(());
        }
        while self.next_input(plan, cx, CHUNK).await? {
            groups.add(grouping, cx, &self.input).await?;
        }
        groups.add(grouping, cx, &self.input).await
    }

    /// Projects the from rows of this machine, and adds the target rows of other machines.
    async fn project_gathered(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        let stage = self.gather.as_ref().map(|gather| gather.stage);
        if stage != Some(Stage::Others) {
            let more = self.project_rows(plan, cx, out, max).await?;
            if let Some(gather) = self.gather.as_mut().filter(|_| !more)
                && stage == Some(Stage::Own)
            {
                gather.stage = Stage::Others;
                return Ok(true);
            }
            return Ok(more);
        }
        let Some(gather) = &mut self.gather else {
            return Ok(false);
        };
        let Some(mut values) = gather.next(cx).await? else {
            let more = gather.begin_rest(cx);
            self.restart(plan);
            return Ok(more);
        };
        if !plan.distinct {
            push_rows(&mut values, out);
            return Ok(true);
        }
        for row in values.chunks_exact_mut(out.width().max(1)) {
            cx.breathe().await?;
            push_rows(row, out);
            if let Some(distinct) = &mut self.distinct {
                distinct.keep_new(plan, out)?;
            }
        }
        Ok(true)
    }

    /// Projects as [`Self::project_gathered`] does, in the order of the index.
    async fn project_merged(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        out: &mut Batch,
        max: usize,
    ) -> Result<bool, StatementStop> {
        let (Some(split), Some(mut gather)) = (&plan.split, self.gather.take()) else {
            return Ok(false);
        };
        let target = out.len() + max;
        let mut more = false;
        if let Some(merging) = gather.merging(cx, (&split.order, out.width())).await? {
            more = true;
            while more && out.len() < target {
                if let Some(ours) = merging.wants() {
                    let more_of_ours = self.project_rows(plan, cx, ours, max).await?;
                    merging.added(more_of_ours);
                }
                more = merging.give(&split.order, out, target);
            }
        }
        self.gather = Some(gather);
        Ok(more)
    }

    /// Restarts the source, for other partitions.
    fn restart(&mut self, plan: &SelectPlan) {
        self.source = SourceState::new(&plan.source, plan.width);
        self.input_more = true;
    }

    /// Reads the next from rows that pass WHERE into `input`.
    async fn next_input(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
        max: usize,
    ) -> Result<bool, StatementStop> {
        self.input.clear();
        if !self.input_more {
            return Ok(false);
        }
        let next = self.source.next(&plan.source, cx, &mut self.input, max);
        self.input_more = next.await?;
        if let Some(filter) = &plan.filter {
            let mut kept = 0;
            let deep = filter.has_subquery();
            for i in 0..self.input.len() {
                if cx.is_due() {
                    cx.pause().await?;
                }
                let row = self.input.row(i);
                let holds = match deep {
                    true => cx.deep_holds(Some(filter), row).await?,
                    false => cx.value(filter, row).await?.as_bool() == Some(true),
                };
                if holds {
                    self.input.swap(kept, i);
                    kept += 1;
                }
            }
            self.input.truncate(kept);
        }
        if !plan.computed.is_empty() {
            for i in 0..self.input.len() {
                cx.breathe().await?;
                for (nth, expr) in plan.computed.iter().enumerate() {
                    let value = cx.deep_value(expr, self.input.row(i)).await?;
                    let slot = plan.width - plan.computed.len() + nth;
                    self.input.row_mut(i)[slot] = value;
                }
            }
        }
        Ok(self.input_more)
    }

    /// Runs the subqueries that the keys of scans and the limits read.
    async fn begin_deep(
        &mut self,
        plan: &SelectPlan,
        cx: &mut Cx<'_>,
    ) -> Result<(), StatementStop> {
        for init in &plan.inits {
            cx.run_init(init).await?;
        }
        for count in plan.limit.iter().chain(&plan.offset) {
            if count.has_subquery() {
                cx.deep_value(count, &[]).await?;
            }
        }
        Ok(())
    }
}
