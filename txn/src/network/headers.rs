//! Headers of the read set at peers whose memory is not mapped, for VALIDATE (SOSP'15 §4 step 2)
//! and for a read refresh.
//!
//! ```text
//! up to T_R objects of a primary   one one-sided read each, without the primary's processors
//! more                             one message and one reply, or several for very many objects
//!
//! VALIDATE    ticket | address | header as it was seen | ...            to the primary
//! VALIDATED   ticket | index, header as it is, if it differs | ...      from the primary
//! ```
//! The primary returns the headers that reads would return, so the coordinator treats both alike.
//! Where peers' memory is mapped, a header is a load from it. That costs less than a message for
//! both sides, however many headers there are.
//!
//! # Failure
//! If there is no space for a request, the headers are read instead. A request to a lost peer ends
//! like a read of its memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_fabric::{Completer, Completion, MachineId};
use fencepost_storage::Addr;
use fencepost_storage::header::Header;

use super::message::WordReader;
use super::{Network, Peer, PeerSender};
use crate::machine::Machine;
use crate::record::BadRecord;
use crate::stop::{AbortReason, Stop};

/// Tags of the messages.
pub(super) const VALIDATE: u8 = 8;
pub(super) const VALIDATED: u8 = 9;

/// Number of objects of one primary whose headers are read; for more the primary is asked.
const T_R: usize = 4;
/// Objects of one message.
const ASKED_AT_ONCE: usize = 512;
/// Flag in the index of an answered object: there is no object.
const NOWHERE: u64 = 1 << 63;

/// A wanted header: its number for the later request, the address, and the expected header.
pub(crate) type ExpectedHeader = (usize, Addr, Header);

/// Headers that were requested.
#[derive(Default)]
pub(crate) struct Headers {
    /// In the order in which they are taken.
    looks: VecDeque<(usize, HeaderSource)>,
    questions: Vec<Question>,
}

/// The source of a header.
enum HeaderSource {
    Read(Completion<Box<[u64]>>),
    /// A request, and the index in it.
    Asked(usize, u64),
}

/// A VALIDATE that waits for its reply; dropping it ends the wait.
struct Question {
    network: Arc<Network>,
    ticket: u64,
    answer: Completion<Box<[u64]>>,
    /// The indexes and headers of the reply.
    others: Option<Box<[u64]>>,
}

/// A pending request: the peer, and the completer of its reply.
pub(super) type HeaderRequest = (MachineId, Completer<Box<[u64]>>);

impl Headers {
    /// Returns the header with this number, if it was not taken yet. Headers are taken in order.
    /// The inner `None` has the meaning of [`Network::fetch`].
    ///
    /// # Errors
    /// The same as of [`Network::fetch`].
    pub async fn take(
        &mut self,
        network: &Network,
        (number, addr, seen): ExpectedHeader,
    ) -> Result<Option<Option<Header>>, Stop> {
        match self.looks.pop_front_if(|(of, _)| *of == number) {
            None => Ok(None),
            Some((_, HeaderSource::Read(read))) => network.header(addr, read).await.map(Some),
            Some((_, HeaderSource::Asked(question, place))) => {
                let others = self.questions[question].others().await?;
                let other = others.chunks_exact(2).find(|at| at[0] & !NOWHERE == place);
                Ok(Some(match other {
                    None => Some(seen),
                    Some(at) if at[0] & NOWHERE != 0 => None,
                    Some(at) => Some(Header(at[1])),
                }))
            }
        }
    }
}

impl Question {
    async fn others(&mut self) -> Result<&[u64], Stop> {
        let others = match self.others.take() {
            Some(others) => others,
            None => match (&mut self.answer).await {
                Ok(others) => others,
                Err(_) => return Err(Stop::Retry(AbortReason::Unreachable)),
            },
        };
        Ok(self.others.insert(others))
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.network.askers.lock().remove(&self.ticket);
    }
}

impl Network {
    /// Requests headers of objects of peers.
    pub fn look_at(self: &Arc<Self>, wanted: &[ExpectedHeader]) -> Headers {
        let mut asked: Vec<Option<HeaderSource>> = wanted.iter().map(|_| None).collect();
        let mut questions = Vec::new();
        for peer in &self.peers {
            let is_its = |(_, addr, _): &ExpectedHeader| self.primary(*addr) == Some(peer.id);
            let its: Vec<usize> = (0..wanted.len())
                .filter(|at| is_its(&wanted[*at]))
                .collect();
            if its.len() <= T_R {
                continue;
            }
            for part in its.chunks(ASKED_AT_ONCE) {
                let Some(question) = self.question(peer, wanted, part) else {
                    break;
                };
                for (place, at) in part.iter().enumerate() {
                    asked[*at] = Some(HeaderSource::Asked(questions.len(), place as u64));
                }
                questions.push(question);
            }
        }
        let looks = asked.into_iter().zip(wanted);
        let looks = looks.map(|(asked, (number, addr, _))| {
            (
                *number,
                asked.unwrap_or_else(|| HeaderSource::Read(self.post_header(*addr))),
            )
        });
        Headers {
            looks: looks.collect(),
            questions,
        }
    }

    /// Asks a peer; `None` if there is no space for the request now.
    fn question(
        self: &Arc<Self>,
        peer: &Peer,
        wanted: &[ExpectedHeader],
        part: &[usize],
    ) -> Option<Question> {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let mut words = vec![ticket];
        words.extend(part.iter().flat_map(|at| {
            let (_, addr, seen) = wanted[*at];
            [addr.raw(), seen.0]
        }));
        let (completer, answer) = Completion::pending();
        self.askers.lock().insert(ticket, (peer.id, completer));
        let question = Question {
            network: Arc::clone(self),
            ticket,
            answer,
            others: None,
        };
        let sent = peer.sender.send(VALIDATE, &words);
        sent.ok().map(|()| question)
    }

    /// Handles VALIDATED: takes the headers that a peer has found.
    pub(super) fn take_headers(&self, peer: MachineId, words: &[u64]) -> Result<(), BadRecord> {
        let mut reader = WordReader(words);
        let ticket = reader.word()?;
        if !reader.0.len().is_multiple_of(2) {
            return Err(BadRecord("a header without its place"));
        }
        self.tell_asker(peer, ticket, reader.0);
        Ok(())
    }

    /// Passes a reply to the request that waits for it.
    pub(super) fn tell_asker(&self, peer: MachineId, ticket: u64, words: &[u64]) {
        let mut askers = self.askers.lock();
        if askers.get(&ticket).is_some_and(|(asked, _)| *asked == peer)
            && let Some((_, asker)) = askers.remove(&ticket)
        {
            drop(askers);
            asker.complete(Ok(words.into()));
        }
    }

    /// Ends the requests to lost peers.
    pub(super) fn forget_lost_questions(&self) {
        let lost = |id: &MachineId| self.peer(*id).is_some_and(|peer| peer.channel.is_broken());
        let mut askers = self.askers.lock();
        let ended: Vec<_> = askers.extract_if(|_, (peer, _)| lost(peer)).collect();
        // A woken task may take the lock.
        drop(askers);
        drop(ended);
    }
}

/// Handles VALIDATE: tells a peer which headers differ from those it has seen.
pub(super) fn answer(
    machine: &Machine,
    sender: &PeerSender,
    words: &[u64],
) -> Result<(), BadRecord> {
    let mut reader = WordReader(words);
    let mut answer = vec![reader.word()?];
    for place in 0.. {
        if reader.0.is_empty() {
            break;
        }
        let (addr, seen) = (Addr::from_raw(reader.word()?), Header(reader.word()?));
        let object = machine.regions().own_object(addr);
        match object.map(|object| object.header()) {
            Some(header) if header == seen => {}
            Some(header) => answer.extend([place, header.0]),
            None => answer.extend([place | NOWHERE, 0]),
        }
    }
    sender.send_surely(VALIDATED, &answer);
    Ok(())
}
