//! The join messages as nodes of a ZooKeeper ensemble.
//!
//! ```text
//! PATH/00c3….ask        one message per node, stored completely or not at all
//! PATH/00c3….answer
//! ```
//!
//! The CM looks for messages on its serving thread, which must not block. So a background task
//! fetches messages, and the CM gets those that have arrived since its last look. The task that
//! deletes a node has its message, so each message is taken once.
//!
//! *Failure.* While the ensemble does not answer, no message arrives or leaves, and no error is
//! reported. A joiner without an answer tries again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use zookeeper_client::Error;

use super::{Shared, options};
use crate::join::JoinMessageStore;

/// The interval between two reads of the nodes.
const EVERY: Duration = Duration::from_millis(50);

/// The join messages in an ensemble.
pub struct ZookeeperJoinMessages {
    fetching: Arc<MessageFetcher>,
    runtime: Handle,
}

struct MessageFetcher {
    shared: Arc<Shared>,
    /// The node whose children are messages.
    path: String,
    come: Mutex<Vec<(String, Vec<u8>)>>,
    /// Whether a task is reading the nodes.
    looks: AtomicBool,
}

impl ZookeeperJoinMessages {
    pub(super) fn new(shared: Arc<Shared>, path: &str, runtime: Handle) -> ZookeeperJoinMessages {
        let fetching = MessageFetcher {
            shared,
            path: path.to_owned(),
            come: Mutex::default(),
            looks: AtomicBool::new(false),
        };
        ZookeeperJoinMessages {
            fetching: Arc::new(fetching),
            runtime,
        }
    }

    /// Starts a task that reads messages whose names end with `end`, unless one is running.
    fn fetch(&self, end: &str) {
        if self.fetching.looks.swap(true, Ordering::AcqRel) {
            return;
        }
        let (fetching, end) = (Arc::clone(&self.fetching), end.to_owned());
        self.runtime.spawn(async move {
            // Messages missed after an error are read by the next task.
            let _ = fetching.look(&end).await;
            tokio::time::sleep(EVERY).await;
            fetching.looks.store(false, Ordering::Release);
        });
    }
}

impl MessageFetcher {
    fn node(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    async fn look(&self, end: &str) -> Result<(), Error> {
        let names = self
            .shared
            .ask(|client| async move { client.list_children(&self.path).await });
        let names = names.await?;
        for name in names.into_iter().filter(|name| name.ends_with(end)) {
            let node = self.node(&name);
            let node = &node;
            let taken = self.shared.ask(|client| async move {
                let (letter, stat) = client.get_data(node).await?;
                client.delete(node, Some(stat.version)).await?;
                Ok(letter)
            });
            match taken.await {
                Ok(letter) => self.come.lock().push((name, letter)),
                // Another process has taken the message, or has replaced it by now.
                Err(Error::NoNode | Error::BadVersion) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn leave(&self, name: &str, message: &[u8]) -> Result<(), Error> {
        let node = self.node(name);
        let node = &node;
        let left = self.shared.ask(|client| async move {
            client.mkdir(&self.path, &options()).await?;
            match client.create(node, message, &options()).await {
                Err(Error::NodeExists) => client.set_data(node, message, None).await.map(drop),
                created => created.map(drop),
            }
        });
        left.await
    }
}

impl JoinMessageStore for ZookeeperJoinMessages {
    fn take_all(&self, end: &str) -> Vec<(String, Vec<u8>)> {
        self.fetch(end);
        let mut come = self.fetching.come.lock();
        come.extract_if(.., |(name, _)| name.ends_with(end))
            .collect()
    }

    fn leave(&self, name: &str, letter: &[u8]) -> io::Result<()> {
        let fetching = Arc::clone(&self.fetching);
        let (name, letter) = (name.to_owned(), letter.to_owned());
        self.runtime.spawn(async move {
            let _ = fetching.leave(&name, &letter).await;
        });
        Ok(())
    }

    fn remove(&self, name: &str) {
        let fetching = Arc::clone(&self.fetching);
        let node = fetching.node(name);
        self.runtime.spawn(async move {
            let node = &node;
            let removed = fetching
                .shared
                .ask(|client| async move { client.delete(node, None).await });
            // Mostly the message has already been taken.
            let _ = removed.await;
        });
    }
}
