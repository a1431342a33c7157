//! Runs engine work and watches the client meanwhile.
//!
//! The work is polled first, and work that is ready at once has no further cost. While the work
//! waits, this module sends pieces of a large result from the sink. It sends the replies to earlier
//! requests, because the work may depend on the client's reaction to them. It detects a lost client
//! and the statement timeout; both cancel the work, which then ends by itself.
//!
//! Failure: if the client is lost during some work, the connection ends with that work, so that no
//! later message runs after a cancelled one. Work that does not end within [`CLOSE_LIMIT`] is
//! dropped, which aborts its transaction.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};

use super::CloseReason;
use super::lock_vigil::{LockWaitLog, Outcome};
use super::yielding::YieldingWaker;
use crate::cancel::CancelKey;
use crate::io::Io;
use crate::worker::{Stage, TaskEntry};

/// The time limit for cancelled work of a lost client.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);
/// The delay of replies to earlier requests. In a pipeline, most work takes less time, and its
/// replies are sent together with the earlier ones.
const REPLY_WAIT: Duration = Duration::from_millis(1);
/// The interval between two checks of a client with much unread input.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Pieces of a result on their way from the sink to the socket.
#[derive(Default)]
pub(super) struct Handoff {
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    piece: Vec<u8>,
    sender: Option<Waker>,
}

impl Handoff {
    /// Hands a piece to the sender.
    pub(super) fn give(&self, piece: Vec<u8>) {
        let mut slot = self.slot.lock();
        match slot.piece.is_empty() {
            true => slot.piece = piece,
            false => slot.piece.extend_from_slice(&piece),
        }
    }

    /// Is ready when the piece has been sent.
    pub(super) fn poll_taken(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut slot = self.slot.lock();
        if slot.piece.is_empty() {
            return Poll::Ready(());
        }
        slot.sender = Some(cx.waker().clone());
        Poll::Pending
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.slot.lock().piece)
    }

    fn wait_for(&self, rest: Vec<u8>) {
        self.slot.lock().piece = rest;
    }

    fn wake_sender(&self) {
        if let Some(sender) = self.slot.lock().sender.take() {
            sender.wake();
        }
    }
}

/// The environment of watched work.
pub(super) struct Watch<'a> {
    pub(super) handoff: &'a Handoff,
    pub(super) key: &'a CancelKey,
    pub(super) place: &'a TaskEntry,
    pub(super) timeout: Option<Duration>,
    /// The wait for a lock after which the wait is logged.
    pub(super) lock_waits: Option<Duration>,
}

/// The state that is only needed once work has had to wait.
struct WaitState {
    yielding: YieldingWaker,
    timeout: Option<Pin<Box<Sleep>>>,
    locks: Option<LockWaitLog>,
    /// The delay until replies to earlier requests are sent.
    replies: Option<Pin<Box<Sleep>>>,
    look: Option<Pin<Box<Sleep>>>,
    close_limit: Option<Pin<Box<Sleep>>>,
    stopped: bool,
    sent: usize,
}

/// Runs `work` to its end. The caller pins `work`: a statement's future is large, and moving it
/// costs more than a short statement.
#[inline]
pub(super) async fn drive<F: Future<Output: Outcome>>(
    io: &mut Io,
    watch: Watch<'_>,
    mut work: Pin<&mut F>,
) -> Result<F::Output, CloseReason> {
    let mut vigil: Option<Box<WaitState>> = None;
    let answer = poll_fn(|cx| {
        loop {
            let polled = match &vigil {
                None => work.as_mut().poll(cx),
                Some(vigil) => vigil.yielding.poll(cx, |cx| work.as_mut().poll(cx)),
            };
            if let Poll::Ready(answer) = polled {
                return Poll::Ready(Ok(answer));
            }
            let start = || Box::new(WaitState::start(io, &watch, cx.waker()));
            let vigil = vigil.get_or_insert_with(start);
            match vigil.poll(cx, io, &watch) {
                Poll::Ready(ClientAction::Work) => continue,
                Poll::Ready(ClientAction::GiveUp) => {
                    return Poll::Ready(Err(CloseReason::ClientLost));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await?;
    if let Some(vigil) = &mut vigil {
        if vigil.close_limit.is_some() {
            return Err(CloseReason::ClientLost);
        }
        if let Some(locks) = vigil.locks.as_ref().filter(|_| answer.is_well()) {
            locks.acquired(&io.client);
        }
        vigil.send_rest(io, watch.handoff).await?;
    }
    Ok(answer)
}

/// The action after the client was checked.
enum ClientAction {
    Work,
    GiveUp,
}

impl WaitState {
    fn start(io: &Io, watch: &Watch<'_>, task: &Waker) -> WaitState {
        WaitState {
            yielding: YieldingWaker::new(task),
            timeout: watch.timeout.map(|limit| Box::pin(sleep(limit))),
            locks: watch.lock_waits.map(|patience| {
                let database = &watch.place.worker.shared.database;
                LockWaitLog::start(patience, database, io.client.pid)
            }),
            replies: io.has_finished().then(|| Box::pin(sleep(REPLY_WAIT))),
            look: None,
            close_limit: None,
            stopped: false,
            sent: 0,
        }
    }

    #[cold]
    fn poll(&mut self, cx: &mut Context<'_>, io: &mut Io, watch: &Watch<'_>) -> Poll<ClientAction> {
        watch.place.watch(cx.waker());
        watch.key.token().watch(cx.waker());
        if let Some(locks) = &mut self.locks {
            locks.poll(cx, &io.client);
        }
        if self.close_limit.is_none() && self.client_has_closed(cx, io) {
            watch.key.token().cancel();
            self.close_limit = Some(Box::pin(sleep(CLOSE_LIMIT)));
        }
        if let Some(limit) = &mut self.close_limit {
            return match watch.handoff.take().is_empty() {
                true => limit.as_mut().poll(cx).map(|()| ClientAction::GiveUp),
                false => {
                    watch.handoff.wake_sender();
                    Poll::Ready(ClientAction::Work)
                }
            };
        }
        if self.must_stop(cx, watch) {
            return Poll::Ready(ClientAction::Work);
        }
        self.poll_send(cx, io, watch.handoff)
    }

    /// Sends the piece from the sink. Earlier replies are sent before it, or after their delay.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut Io,
        handoff: &Handoff,
    ) -> Poll<ClientAction> {
        if let Some(wait) = &mut self.replies
            && wait.as_mut().poll(cx).is_ready()
        {
            self.replies = None;
        }
        let mut piece = handoff.take();
        if piece.is_empty() {
            if self.replies.is_none() && matches!(io.poll_finished(cx), Poll::Ready(Err(_))) {
                return Poll::Ready(ClientAction::GiveUp);
            }
            return Poll::Pending;
        }
        match self.poll_piece(cx, io, &mut piece) {
            Poll::Ready(Ok(())) => {
                handoff.wake_sender();
                Poll::Ready(ClientAction::Work)
            }
            Poll::Ready(Err(_)) => Poll::Ready(ClientAction::GiveUp),
            Poll::Pending => {
                handoff.wait_for(piece);
                Poll::Pending
            }
        }
    }

    /// Sends earlier replies, then `piece`.
    fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut Io,
        piece: &mut Vec<u8>,
    ) -> Poll<io::Result<()>> {
        ready!(io.poll_finished(cx))?;
        io.poll_drain(cx, piece, &mut self.sent)
    }

    /// Sends the piece that completed work has left.
    async fn send_rest(&mut self, io: &mut Io, handoff: &Handoff) -> Result<(), CloseReason> {
        let mut piece = handoff.take();
        if piece.is_empty() {
            return Ok(());
        }
        Ok(poll_fn(|cx| self.poll_piece(cx, io, &mut piece)).await?)
    }

    /// Reads ahead, because only reading detects the end of a stream. Returns whether the client is
    /// lost.
    fn client_has_closed(&mut self, cx: &mut Context<'_>, io: &mut Io) -> bool {
        while io.may_read_ahead() {
            match io.poll_fill(cx) {
                Poll::Ready(Ok(0) | Err(_)) => return true,
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => return false,
            }
        }
        loop {
            let look = self.look.get_or_insert_with(|| Box::pin(sleep(LOOK_AGAIN)));
            if look.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.look = None;
            if matches!(pin!(io.socket.is_closed()).poll(cx), Poll::Ready(true)) {
                return true;
            }
        }
    }

    /// Returns whether the work must be polled so that it ends: the server stops, or the statement
    /// timeout has passed, which the work checks itself.
    fn must_stop(&mut self, cx: &mut Context<'_>, watch: &Watch<'_>) -> bool {
        if watch.place.worker.stage() == Stage::Stopping && !self.stopped {
            watch.key.token().shut_down();
            self.stopped = true;
            return true;
        }
        match self
            .timeout
            .as_mut()
            .map(|timeout| timeout.as_mut().poll(cx))
        {
            Some(Poll::Ready(())) => {
                self.timeout = None;
                true
            }
            _ => false,
        }
    }
}
