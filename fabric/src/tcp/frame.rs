//! The frames on a connection of the kind `tcp` after the handshake, in both directions.
//!
//! ```text
//! frame     | length (4) | kind (1) | ...          little-endian; the length of all that follows
//! requests  READ   segment (8) word (8) words (8)
//!           WRITE  segment (8) word (8) words ...
//!           SWAP   segment (8) word (8) expected (8) new (8)
//!           BELL                                    (no reply)
//! replies to requests of the other end, among requests of its own
//!           DONE     count (4)                      the number of writes done, in their order
//!           WORDS    words ...                      the words read
//!           WAS      word (8)                       the previous word
//!           REFUSED  reason (1)                     an operation failed
//! ```
//! # Failure
//! A frame that is too long or invalid is [`Malformed`] and ends the connection. Buffers grow with
//! arrived bytes, never with an announced length.

use std::io::{self, Read};

use crate::direct::BEYOND_THE_END;
use crate::fabric::FabricError;
use crate::registry::{NO_SEGMENT, NOT_THE_WRITER};
use crate::segment::SegmentId;

/// The largest number of words of one operation: 16 MiB.
pub const LONGEST: usize = 1 << 21;

const LENGTH_BYTES: usize = 4;
const PLACE_BYTES: usize = 1 + 8 + 8;
/// The bytes of a reply without the words of a read.
pub(super) const SHORT_REPLY_BYTES: usize = LENGTH_BYTES + 1 + 8;
const MAX_FRAME_BYTES: usize = PLACE_BYTES + LONGEST * 8;
/// The size of one read, and of an idle connection's buffer.
const CHUNK_BYTES: usize = 64 << 10;

const READ: u8 = 1;
const WRITE: u8 = 2;
const SWAP: u8 = 3;
const BELL: u8 = 4;
const DONE: u8 = 5;
const WORDS: u8 = 6;
const WAS: u8 = 7;
const REFUSED: u8 = 8;

/// The reasons for refusals, by their number in a frame.
const REASONS: [FabricError; 4] = [
    FabricError::Refused(NO_SEGMENT),
    FabricError::Refused(NOT_THE_WRITER),
    FabricError::Refused(BEYOND_THE_END),
    FabricError::Unsteady,
];

/// The error for a peer that violates the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed frame")]
pub(super) struct Malformed;

impl From<Malformed> for io::Error {
    fn from(error: Malformed) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

/// The first word of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) segment: SegmentId,
    pub(super) word: usize,
}

/// A frame from either end of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    Request(Request<'a>),
    Reply(Reply<'a>),
}

/// A request of one machine to another.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    Read(Target, usize),
    Write(Target, WordBytes<'a>),
    Swap(Target, u64, u64),
    Bell,
}

/// The reply to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    Done(u32),
    Words(WordBytes<'a>),
    Was(u64),
    Refused(FabricError),
}

/// The words in a frame, as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordBytes<'a>(&'a [u8]);

impl<'a> WordBytes<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let whole = bytes.len().is_multiple_of(8);
        whole.then_some(WordBytes(bytes)).ok_or(Malformed)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u64> + 'a {
        let (words, _) = self.0.as_chunks::<8>();
        words.iter().map(|word| u64::from_le_bytes(*word))
    }
}

pub(super) fn put_read(out: &mut Vec<u8>, target: Target, words: usize) {
    put(out, READ, &place(target), &[words as u64]);
}

pub(super) fn put_write(out: &mut Vec<u8>, target: Target, words: &[u64]) {
    put(out, WRITE, &place(target), words);
}

pub(super) fn put_swap(out: &mut Vec<u8>, target: Target, expected: u64, new: u64) {
    put(out, SWAP, &place(target), &[expected, new]);
}

pub(super) fn put_bell(out: &mut Vec<u8>) {
    put(out, BELL, &[], &[]);
}

/// Appends the reply to `count` writes, and sets `count` to zero.
pub(super) fn put_done(out: &mut Vec<u8>, count: &mut u32) {
    if *count > 0 {
        put_byte_frame(out, DONE, &count.to_le_bytes());
        *count = 0;
    }
}

pub(super) fn put_words(out: &mut Vec<u8>, words: &[u64]) {
    put(out, WORDS, &[], words);
}

pub(super) fn put_was(out: &mut Vec<u8>, was: u64) {
    put(out, WAS, &[], &[was]);
}

pub(super) fn put_refused(out: &mut Vec<u8>, error: &FabricError) {
    let number = REASONS.iter().position(|reason| error == reason);
    let number = number.unwrap_or(REASONS.len()) as u8;
    put_byte_frame(out, REFUSED, &[number]);
}

fn place(target: Target) -> [u64; 2] {
    [target.segment.raw(), target.word as u64]
}

fn put(out: &mut Vec<u8>, kind: u8, head: &[u64], words: &[u64]) {
    let length = 1 + (head.len() + words.len()) * 8;
    out.reserve(LENGTH_BYTES + length);
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.push(kind);
    for word in head.iter().chain(words) {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

fn put_byte_frame(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.extend_from_slice(&(1 + bytes.len() as u32).to_le_bytes());
    out.push(kind);
    out.extend_from_slice(bytes);
}

impl<'a> Frame<'a> {
    /// Decodes a frame.
    ///
    /// # Errors
    /// [`Malformed`].
    pub(super) fn of(frame: &'a [u8]) -> Result<Self, Malformed> {
        let (kind, rest) = frame.split_first().ok_or(Malformed)?;
        match *kind {
            READ..=BELL => Request::of(*kind, rest).map(Frame::Request),
            _ => Reply::of(*kind, rest).map(Frame::Reply),
        }
    }
}

impl<'a> Request<'a> {
    fn of(kind: u8, rest: &'a [u8]) -> Result<Self, Malformed> {
        if kind == BELL {
            return rest.is_empty().then_some(Request::Bell).ok_or(Malformed);
        }
        let (place, rest) = rest.split_first_chunk::<16>().ok_or(Malformed)?;
        let [segment, word] = words_of(place)?;
        let target = Target {
            segment: SegmentId::from_raw(segment),
            // A word index that this machine cannot represent is beyond the end of every segment.
            word: usize::try_from(word).unwrap_or(usize::MAX),
        };
        match kind {
            READ => {
                let [words] = words_of(rest)?;
                let words = usize::try_from(words).map_err(|_| Malformed)?;
                (words <= LONGEST)
                    .then_some(Request::Read(target, words))
                    .ok_or(Malformed)
            }
            WRITE => Ok(Request::Write(target, WordBytes::new(rest)?)),
            SWAP => {
                let [expected, new] = words_of(rest)?;
                Ok(Request::Swap(target, expected, new))
            }
            _ => Err(Malformed),
        }
    }
}

impl<'a> Reply<'a> {
    fn of(kind: u8, rest: &'a [u8]) -> Result<Self, Malformed> {
        match kind {
            DONE => {
                let count = rest.try_into().map_err(|_| Malformed)?;
                Ok(Reply::Done(u32::from_le_bytes(count)))
            }
            WORDS => Ok(Reply::Words(WordBytes::new(rest)?)),
            WAS => {
                let [was] = words_of(rest)?;
                Ok(Reply::Was(was))
            }
            REFUSED => {
                let [number] = *rest else {
                    return Err(Malformed);
                };
                let reason = REASONS.get(usize::from(number)).cloned();
                let unknown = FabricError::Refused("the peer does not do that");
                Ok(Reply::Refused(reason.unwrap_or(unknown)))
            }
            _ => Err(Malformed),
        }
    }
}

fn words_of<const N: usize>(bytes: &[u8]) -> Result<[u64; N], Malformed> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: &[[u8; 8]; N] = words.try_into().map_err(|_| Malformed)?;
    rest.is_empty()
        .then_some(words.map(u64::from_le_bytes))
        .ok_or(Malformed)
}

/// A buffer of received bytes, divided into frames.
#[derive(Debug)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Inbox {
            bytes: vec![0; CHUNK_BYTES],
            taken: 0,
            filled: 0,
        }
    }

    /// Reads once, after [`Self::next`] has returned all frames. Returns whether there were any
    /// bytes.
    ///
    /// # Errors
    /// The error of the system; [`io::ErrorKind::UnexpectedEof`] if the peer has closed the
    /// connection.
    pub(super) fn fill(&mut self, from: &mut impl Read) -> io::Result<bool> {
        self.bytes.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        if self.filled == self.bytes.len() {
            // One frame is longer than the buffer; its checked length bounds the growth.
            self.bytes.resize(2 * self.filled, 0);
        } else if self.filled == 0 && self.bytes.len() > CHUNK_BYTES {
            self.bytes = vec![0; CHUNK_BYTES];
        }
        let read = loop {
            match from.read(&mut self.bytes[self.filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                read => break read?,
            }
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.filled += read;
        Ok(true)
    }

    /// Returns the next frame, if it is complete.
    ///
    /// # Errors
    /// [`Malformed`] if the frame is empty or too long.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, Malformed> {
        let there = &self.bytes[self.taken..self.filled];
        let Some((length, rest)) = there.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > MAX_FRAME_BYTES {
            return Err(Malformed);
        }
        let frame = rest.get(..length);
        if frame.is_some() {
            self.taken += LENGTH_BYTES + length;
        }
        Ok(frame)
    }
}

/// Returns the number of whole frames that a peer has sent with `bytes`.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] where one of them is malformed.
pub fn count_frames(mut bytes: &[u8]) -> io::Result<usize> {
    let (mut inbox, mut frames) = (Inbox::new(), 0);
    while !bytes.is_empty() {
        inbox.fill(&mut bytes)?;
        while let Some(frame) = inbox.next()? {
            Frame::of(frame)?;
            frames += 1;
        }
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const TARGET: Target = Target {
        segment: SegmentId::new(3, 2, 1),
        word: 77,
    };

    /// Returns the frames of `bytes`, which arrive in random parts.
    fn frames(bytes: &[u8], random: &mut Random) -> Result<Vec<Vec<u8>>, Malformed> {
        let (mut inbox, mut rest, mut frames) = (Inbox::new(), bytes, Vec::new());
        while !rest.is_empty() {
            let (mut now, later) =
                rest.split_at(rest.len().min(random.below(100_000) as usize + 1));
            while !now.is_empty() {
                inbox.fill(&mut now).expect("not at its end");
                while let Some(frame) = inbox.next()? {
                    frames.push(frame.to_vec());
                }
            }
            rest = later;
        }
        Ok(frames)
    }

    #[test]
    fn frames_are_reassembled_from_any_pieces() {
        let long: Vec<u64> = (0..100_000).collect();
        let mut out = Vec::new();
        put_read(&mut out, TARGET, 5);
        put_write(&mut out, TARGET, &long);
        put_swap(&mut out, TARGET, 8, u64::MAX);
        put_bell(&mut out);
        for seed in 0..20 {
            let frames = frames(&out, &mut Random::new(seed)).expect("well-formed");
            let requests: Vec<_> = frames.iter().map(|frame| Frame::of(frame)).collect();
            let [
                Ok(Frame::Request(read)),
                Ok(Frame::Request(Request::Write(target, words))),
                Ok(Frame::Request(swap)),
                Ok(Frame::Request(bell)),
            ] = &requests[..]
            else {
                panic!("{requests:?}")
            };
            assert_eq!(*read, Request::Read(TARGET, 5));
            assert_eq!((*target, words.iter().collect()), (TARGET, long.clone()));
            assert_eq!(*swap, Request::Swap(TARGET, 8, u64::MAX));
            assert_eq!(*bell, Request::Bell);
        }
    }

    #[test]
    fn replies_come_back() {
        let mut out = Vec::new();
        put_done(&mut out, &mut 0);
        assert!(out.is_empty(), "nothing is done");
        put_done(&mut out, &mut 7);
        put_words(&mut out, &[1, 2]);
        put_was(&mut out, 9);
        let refused = FabricError::Refused(NOT_THE_WRITER);
        put_refused(&mut out, &refused);
        let frames = frames(&out, &mut Random::new(1)).expect("well-formed");
        let replies: Vec<_> = frames.iter().map(|frame| Frame::of(frame)).collect();
        let words: Vec<u8> = [1u64, 2]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let expected = [
            Reply::Done(7),
            Reply::Words(WordBytes(&words)),
            Reply::Was(9),
            Reply::Refused(refused),
        ];
        let expected = expected.map(|reply| Ok(Frame::Reply(reply)));
        assert_eq!(replies, expected);
    }

    #[test]
    fn too_long_frame_is_detected_by_its_length() {
        for length in [0, MAX_FRAME_BYTES as u32 + 1, u32::MAX] {
            let bytes = length.to_le_bytes();
            assert_eq!(frames(&bytes, &mut Random::new(2)), Err(Malformed));
        }
        let mut inbox = Inbox::new();
        let length = (MAX_FRAME_BYTES as u32).to_le_bytes();
        inbox.fill(&mut &length[..]).expect("there is something");
        assert_eq!(inbox.next(), Ok(None));
        assert_eq!(inbox.bytes.len(), CHUNK_BYTES, "no room for a promise");
    }

    #[test]
    fn any_bytes_are_a_frame_or_malformed() {
        let mut random = Random::new(4);
        for _ in 0..100_000 {
            let mut frame = vec![0; random.below(40) as usize];
            random.fill(&mut frame);
            if let Some(kind) = frame.first_mut() {
                *kind %= 10;
            }
            // Decoding must not panic.
            let _ = Frame::of(&frame);
        }
        let mut read = Vec::new();
        put_read(&mut read, TARGET, LONGEST + 1);
        assert_eq!(Frame::of(&read[LENGTH_BYTES..]), Err(Malformed));
    }
}
