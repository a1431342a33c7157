//! Batches: bound statements up to a Sync that have all arrived, and may run as a whole on another
//! machine.
//!
//! ```text
//!   Bind [Describe] Execute  Bind [Describe] Execute  …  Sync
//!   └── all of the unnamed portal, to its end ──┘
//! ```
//! The machine that has their data runs them as one transaction, for one message. Other input is
//! handled message by message.

use std::time::Instant;

use super::CloseReason;
use super::extended::{OpenPortal, describe_rows};
use super::sink::WireSink;
use super::state_machine::{ClientSession, watched};
use crate::engine::{self, LONG_BYTES, Portal, SqlError, Tag};
use crate::io::{Io, SEND_BYTES};
use crate::proto::client_message::{self, Bind, ClientMessage, Target};
use crate::proto::encode;
use crate::proto::frame;

/// One statement of a batch.
struct Step<'a> {
    bind: Bind<'a>,
    described: bool,
}

/// Splits a batch at the start of `input`. Returns its statements and its size in bytes, without
/// the Sync. Returns `None` if `input` does not begin with a batch of at least two statements.
fn split(input: &[u8], bytes_max: usize) -> Option<(Vec<Step<'_>>, usize)> {
    let mut steps = Vec::new();
    let mut open: Option<Step<'_>> = None;
    let mut at = 0;
    loop {
        let frame = frame::split(&input[at..], bytes_max).ok()??;
        let size = frame.size();
        match client_message::decode(&frame).ok()? {
            // Long parameters are parsed on separate threads.
            ClientMessage::Bind(_) if frame.body.len() >= LONG_BYTES => return None,
            ClientMessage::Bind(bind) if open.is_none() && bind.portal.is_empty() => {
                open = Some(Step {
                    bind,
                    described: false,
                });
            }
            ClientMessage::Describe(Target::Portal, "") => {
                let step = open.as_mut().filter(|step| !step.described)?;
                step.described = true;
            }
            ClientMessage::Execute {
                portal: "",
                rows_max: 0,
            } => steps.push(open.take()?),
            ClientMessage::Sync if open.is_none() && steps.len() > 1 => return Some((steps, at)),
            _ => return None,
        }
        at += size;
    }
}

impl ClientSession<'_> {
    /// Ships the batch at the start of `input` to the machine that has its data. Returns the number
    /// of input bytes that were handled; 0 if there is no such batch or machine.
    pub(super) async fn ship_batch(
        &mut self,
        io: &mut Io,
        input: &[u8],
    ) -> Result<usize, CloseReason> {
        let bytes_max = self.place.worker.shared.options.message_bytes_max;
        let Some((steps, size)) = split(input, bytes_max) else {
            return Ok(0);
        };
        // A statement that cannot be bound reports its error when it is handled on its own.
        let opened = steps.iter().map(|step| self.open_portal(&step.bind));
        let Ok(opened) = opened.collect::<Result<Vec<OpenPortal>, SqlError>>() else {
            return Ok(0);
        };
        let (mut portals, formats_of_steps): (Vec<Portal>, Vec<_>) = opened
            .into_iter()
            .map(|open| (open.portal, (open.prepared, open.formats)))
            .unzip();
        let was = engine::ready(&self.session);
        let began = Instant::now();
        let shipped = watched!(
            self,
            io,
            engine::ship_batch(&mut self.session, &mut portals)
        )?;
        let mut results = match shipped {
            Ok(None) => return Ok(0),
            Ok(Some(results)) => results,
            Err(error) => {
                self.fail(io, &error, None)?;
                return Ok(size);
            }
        };
        for (at, (step, (prepared, formats))) in steps.iter().zip(&formats_of_steps).enumerate() {
            let columns = engine::columns(prepared).unwrap_or_default();
            let before = io.out.len();
            encode::bind_complete(&mut io.out);
            if step.described {
                describe_rows(&mut io.out, prepared, formats);
            }
            let out = std::mem::take(&mut io.out);
            let mut sink = WireSink::new(out, columns, formats, &self.style, &self.handoff);
            let given = watched!(self, io, results.give(at, &mut sink))?;
            io.out = sink.into_out();
            match given {
                Some(Ok(tag)) => {
                    let counts = &self.place.worker.counts;
                    counts.statement(prepared.kind(), began.elapsed());
                    encode::command_complete(&mut io.out, |out| Tag::write(tag, out));
                }
                Some(Err(error)) => {
                    self.fail(io, &error, Some(prepared.source()))?;
                    break;
                }
                None => {
                    io.out.truncate(before);
                    break;
                }
            }
            if io.out.len() > SEND_BYTES {
                io.send().await?;
            }
        }
        self.report_notices(io);
        self.after_command(was);
        Ok(size)
    }
}
