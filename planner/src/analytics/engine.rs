//! The execution of a plan of DataFusion's operators, on the helper threads.

use std::sync::Arc;

use datafusion_common::{DataFusionError, Result};
use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_physical_plan::{ExecutionPlan, execute_stream};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::arrow_feed::BATCH_ROWS;
use super::operators::Event;
use super::pool::Pool;
use crate::helper_threads::runtime;

/// A running plan. When it is dropped, the plan ends at its next batch.
pub struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs `plan`, and sends its results as events.
pub fn run(
    plan: Arc<dyn ExecutionPlan>,
    pool: &Arc<Pool>,
    events: mpsc::Sender<Event>,
) -> Result<Task> {
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let environment = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::clone(pool) as _)
        .with_disk_manager_builder(disk)
        .build_arc()?;
    let config = SessionConfig::new()
        .with_batch_size(BATCH_ROWS)
        .with_target_partitions(1);
    let none = Default::default;
    let context = Arc::new(TaskContext::new(
        None,
        String::new(),
        config,
        none(),
        Default::default(),
        Default::default(),
        Default::default(),
        environment,
    ));
    let task = runtime()
        .map_err(DataFusionError::IoError)?
        .spawn(async move {
            let over = give(plan, context, &events).await;
            // The receiver was dropped; ignore the send error.
            let _ = events.send(Event::Over(over)).await;
        });
    Ok(Task(task.abort_handle()))
}

async fn give(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    events: &mpsc::Sender<Event>,
) -> Result<()> {
    let mut rows = execute_stream(plan, context)?;
    while let Some(batch) = rows.next().await {
        if events.send(Event::Rows(batch?)).await.is_err() {
            break;
        }
    }
    Ok(())
}
