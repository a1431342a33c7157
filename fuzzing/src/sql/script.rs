//! The script of a round: a function of the seed and the number of the round.

use super::client::{Message, Request};
use super::corpus::{Corpus, File};
use super::grammar::Grammar;
use super::mutate::Mutator;
use super::words::{AFTER, LITERALS, TRANSACTIONS};
use crate::random::Random;

/// The number of sessions of a round.
pub const SESSIONS: usize = 3;

/// Words of statements that would end the run or disable its limits without finding a fault.
const BANNED: [&str; 5] = [
    "statement_timeout",
    "lock_timeout",
    "pg_terminate_backend",
    "idle_session_timeout",
    "transaction_session_timeout",
];

/// A statement of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The number of the session.
    pub session: usize,
    /// The statement and its messages.
    pub request: Request,
    /// The data for COPY FROM STDIN.
    pub copy: String,
}

/// Returns the steps of a round.
pub fn script(corpus: &Corpus, seed: u64, round: u64, count: usize) -> Vec<Step> {
    let mut random = Random::new(seed, round);
    let none = File {
        statements: Vec::new(),
        words: Vec::new(),
    };
    let file = random.pick(&corpus.files).unwrap_or(&none);
    let mut maker = Maker {
        mutator: Mutator::new(corpus, file, Random::new(seed, round ^ 1 << 40)),
        grammar: Grammar::new(Random::new(seed, round ^ 1 << 41)),
        next: 0,
        setup: random.below(file.statements.len().min(count / 3)),
        file,
        // A round uses mostly one file, or mostly the tables of the grammar.
        file_share: [2, 7, 9][random.below(3)],
        random,
    };
    let mut steps = Vec::new();
    while steps.len() < count {
        let sql = maker.statement();
        let lower = sql.to_lowercase();
        if sql.trim().is_empty() || BANNED.iter().any(|word| lower.contains(word)) {
            maker.random.number();
            continue;
        }
        steps.push(maker.step(sql));
    }
    steps
}

struct Maker<'a> {
    mutator: Mutator<'a>,
    grammar: Grammar,
    random: Random,
    file: &'a File,
    /// The position of the next statement of the file.
    next: usize,
    /// The number of statements at the start of the file that are sent unchanged.
    setup: usize,
    /// The share of statements from the file or derived from it, in tenths.
    file_share: usize,
}

impl Maker<'_> {
    fn statement(&mut self) -> String {
        match self.random.below(30) {
            0 | 1 => return self.random.word(&TRANSACTIONS).to_owned(),
            2 => return self.random.word(&AFTER).to_owned(),
            _ => {}
        }
        let is_of_file =
            self.random.below(10) < self.file_share && !self.file.statements.is_empty();
        if !is_of_file {
            let sql = self.grammar.statement();
            return match self.random.below(4) {
                0 => self.mutator.mutate(&sql),
                _ => sql,
            };
        }
        let count = self.file.statements.len();
        let is_early = self.next < self.setup;
        if self.next < count && self.random.is_one_in(if is_early { 1 } else { 4 }) {
            self.next += 1;
            return self.file.statements[self.next - 1].clone();
        }
        // Mostly a statement whose tables have been created by now.
        let at = match self.random.below(4) {
            0 => self.random.below(count),
            _ => self.random.below(self.next.max(1)),
        };
        self.mutator.mutate(&self.file.statements[at])
    }

    fn step(&mut self, sql: String) -> Step {
        let session = [0, 0, 0, 0, 1, 2][self.random.below(6)];
        let is_body = ["$$", "$p$", "$fuzz$"]
            .iter()
            .any(|quote| sql.contains(quote));
        let has_parameters = sql.contains("$1") && !is_body && !sql.starts_with("PREPARE");
        let is_extended = has_parameters || self.random.is_one_in(6);
        let request = match is_extended {
            _ if !is_extended => Request::Simple(sql),
            _ if self.random.is_one_in(2) => Request::Pipeline(self.messages(sql)),
            _ => {
                let most = (1..9)
                    .rev()
                    .find(|number| sql.contains(&format!("${number}")));
                let count = if has_parameters { most.unwrap_or(0) } else { 0 };
                Request::Extended {
                    parameters: (0..count).map(|_| self.parameter()).collect(),
                    format: u16::from(self.random.is_one_in(4)),
                    rows: [0, 1, 3][self.random.below(3)],
                    sql,
                }
            }
        };
        let copy = self.copy();
        Step {
            session,
            request,
            copy,
        }
    }

    /// Returns messages about named statements and portals, some of them from earlier steps.
    fn messages(&mut self, sql: String) -> Vec<Message> {
        const NAMES: [&str; 4] = ["", "n1", "n2", "s1"];
        let mut messages = Vec::new();
        let mut rest = Some(sql);
        for _ in 0..2 + self.random.below(7) {
            let name = self.random.word(&NAMES).to_owned();
            let portal = self.random.word(&["", "", "o1", "k1"]).to_owned();
            messages.push(match self.random.below(12) {
                0..=2 if rest.is_some() => Message::Parse {
                    name,
                    sql: rest.take().unwrap_or_default(),
                },
                0 => Message::Parse {
                    name,
                    sql: self.grammar.statement(),
                },
                1..=4 => Message::Bind {
                    portal,
                    name,
                    parameters: (0..self.random.below(3))
                        .map(|_| self.parameter())
                        .collect(),
                    format: u16::from(self.random.is_one_in(4)),
                },
                5..=8 => Message::Execute {
                    portal,
                    rows: [0, 1, 3][self.random.below(3)],
                },
                9 => Message::Describe(b'P', portal),
                10 => Message::Describe(b'S', name),
                _ if self.random.is_one_in(3) => Message::Close(b'S', name),
                _ => Message::Close(b'P', portal),
            });
        }
        messages
    }

    fn parameter(&mut self) -> Option<Vec<u8>> {
        match self.random.below(6) {
            0 => None,
            1 => {
                let length = [0, 1, 2, 4, 8, 16, 21][self.random.below(7)];
                Some((0..length).map(|_| self.random.number() as u8).collect())
            }
            2 => Some(vec![0, 0, 0, self.random.below(5) as u8]),
            _ => Some(
                self.random
                    .word(&LITERALS)
                    .trim_matches('\'')
                    .as_bytes()
                    .to_vec(),
            ),
        }
    }

    fn copy(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..self.random.below(4) {
            let separator = self.random.word(&["\t", "\t", ",", "|"]);
            let cells = (0..1 + self.random.below(5)).map(|_| match self.random.below(3) {
                0 => "\\N",
                1 => self
                    .random
                    .word(&["1", "2", "a", "", "\"x\ny\"", "\\x41", "\\."]),
                _ => self.random.word(&LITERALS).trim_matches('\''),
            });
            text += &cells.collect::<Vec<&str>>().join(separator);
            text += self.random.word(&["\n", "\n", "\n", "\r\n", ""]);
        }
        text
    }
}
