//! Differences between two servers, and the report of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::known::KnownDifferences;
use crate::stage::{OutputLine, Record, StepRecord};
use crate::variable;

/// The first difference between two records.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The kind:
    /// * `waits`: whether a step waits;
    /// * `completed`: when a waiting step is done;
    /// * `rows`, `notice`;
    /// * `conflict`: only one server has a serialization failure;
    /// * `error`: another SQLSTATE, or only one server has an error;
    /// * `text`: the text of an error with the same SQLSTATE;
    /// * `setup`, `teardown`;
    /// * `stuck`: no end.
    pub kind: &'static str,
    /// The place, and the lines of both servers.
    pub text: String,
}

/// Returns the first difference between the records of this server and of PostgreSQL.
pub fn difference(ours: &Record, theirs: &Record) -> Option<Difference> {
    let found = |kind, text| Some(Difference { kind, text });
    let is_lenient = variable("ISOLATION_LENIENT").is_some();
    if !is_lenient && let Some((kind, text)) = of_lines(&ours.setup, &theirs.setup) {
        return found("setup", format!("{kind}: {text}"));
    }
    for (ours, theirs) in ours.steps.iter().zip(&theirs.steps) {
        if let Some((kind, text)) = of_steps(ours, theirs) {
            return found(kind, format!("{}: {text}", ours.step));
        }
    }
    if ours.is_stuck != theirs.is_stuck || ours.steps.len() != theirs.steps.len() {
        let said = |record: &Record| {
            if record.is_stuck {
                format!("stuck after {} steps", record.steps.len())
            } else {
                "comes to its end".to_owned()
            }
        };
        return found("stuck", pair(&said(ours), &said(theirs)));
    }
    if is_lenient {
        return None;
    }
    let (kind, text) = of_lines(&ours.teardown, &theirs.teardown)?;
    found("teardown", format!("{kind}: {text}"))
}

/// Returns whether differences of this kind are ignored.
fn ignores(kind: &str) -> bool {
    let kinds = variable("ISOLATION_IGNORE").unwrap_or_default();
    kinds.split(',').any(|ignored| ignored == kind)
}

fn pair(ours: &str, theirs: &str) -> String {
    format!("here {ours}, there {theirs}")
}

fn of_steps(ours: &StepRecord, theirs: &StepRecord) -> Option<(&'static str, String)> {
    if ours.waited != theirs.waited {
        let said = |done: &StepRecord| match (done.waited, done.reported) {
            (false, _) => "done at once",
            (true, None) => "waits for ever",
            (true, Some(_)) => "waits",
        };
        return Some(("waits", pair(said(ours), said(theirs))));
    }
    if let Some(found) = of_lines(&ours.lines, &theirs.lines) {
        return Some(found);
    }
    (ours.reported != theirs.reported && !ignores("completed")).then(|| {
        let said = |done: &StepRecord| match done.reported {
            None => "never".to_owned(),
            Some(steps) => format!("after {steps} steps"),
        };
        ("completed", pair(&said(ours), &said(theirs)))
    })
}

fn of_lines(ours: &[OutputLine], theirs: &[OutputLine]) -> Option<(&'static str, String)> {
    let count = |line: &&OutputLine| !(matches!(line, OutputLine::Notice(_)) && ignores("notice"));
    let ours: Vec<&OutputLine> = ours.iter().filter(count).collect();
    let theirs: Vec<&OutputLine> = theirs.iter().filter(count).collect();
    let length = ours.len().max(theirs.len());
    for at in 0..length {
        let (ours, theirs) = (ours.get(at).copied(), theirs.get(at).copied());
        if ours == theirs || is_serialization_failure(ours) && is_serialization_failure(theirs) {
            continue;
        }
        let kind = match (ours, theirs) {
            (Some(OutputLine::Error(state, _)), Some(OutputLine::Error(other, _)))
                if state == other =>
            {
                "text"
            }
            (Some(OutputLine::Error(..)), Some(OutputLine::Error(..))) => "error",
            (Some(OutputLine::Error(state, _)), _) | (_, Some(OutputLine::Error(state, _)))
                if state == "40001" =>
            {
                "conflict"
            }
            (Some(OutputLine::Error(..)), _) | (_, Some(OutputLine::Error(..))) => "error",
            (Some(OutputLine::Notice(_)), _) | (_, Some(OutputLine::Notice(_))) => "notice",
            _ => "rows",
        };
        if kind == "text" && ignores(kind) {
            continue;
        }
        let said = |line: Option<&OutputLine>| match line {
            None => "nothing".to_owned(),
            Some(OutputLine::Result(text)) => format!("«{text}»"),
            Some(OutputLine::Notice(text)) => text.clone(),
            Some(OutputLine::Error(state, text)) => format!("{state} {text}"),
        };
        return Some((kind, pair(&said(ours), &said(theirs))));
    }
    None
}

/// Returns whether a line is an error that asks for a retry of the transaction. Its text depends on
/// how the conflict was detected.
fn is_serialization_failure(line: Option<&OutputLine>) -> bool {
    matches!(line, Some(OutputLine::Error(state, _)) if state == "40001")
}

/// The results of all specifications.
pub struct Report {
    known: KnownDifferences,
    /// The number of permutations that ran, by file.
    ran: BTreeMap<String, usize>,
    differ: BTreeMap<(String, String), Difference>,
    /// The titles of permutations that agree.
    agree: BTreeSet<(String, String)>,
    unreadable: Vec<String>,
}

impl Report {
    /// Returns an empty report, with the list of known differences.
    pub fn new(known: KnownDifferences) -> Report {
        Report {
            known,
            ran: BTreeMap::new(),
            differ: BTreeMap::new(),
            agree: BTreeSet::new(),
            unreadable: Vec::new(),
        }
    }

    /// Records that a file is not a valid specification.
    pub fn unreadable(&mut self, name: &str, why: &str) {
        self.unreadable.push(format!("{name}: {why}"));
    }

    /// Returns whether a permutation is known to differ. A known difference on one machine also
    /// covers three machines.
    pub fn knows(&self, name: &str, title: &str) -> bool {
        let of = |name: &str, title: &str| self.known.contains_key(&(name.into(), title.into()));
        let alone = alone(name).unwrap_or(name);
        [name, alone]
            .iter()
            .any(|name| of(name, title) || of(name, "*"))
    }

    /// Adds the records of both servers.
    pub fn add(&mut self, name: &str, title: &str, ours: &Record, theirs: &Record) {
        let found = difference(ours, theirs);
        if found.is_some()
            && let Some(alone) = alone(name)
            && self.knows(alone, title)
        {
            return;
        }
        let shows = variable("ISOLATION_SHOW");
        if shows.is_some() && found.is_some() || shows.as_deref() == Some("all") {
            println!("==== {name}, here\n{}", ours.text);
            println!("---- {name}, on PostgreSQL\n{}", theirs.text);
        }
        *self.ran.entry(name.into()).or_default() += 1;
        let key = (name.to_owned(), title.to_owned());
        match found {
            None => drop(self.agree.insert(key)),
            Some(difference) => {
                let Difference { kind, text } = &difference;
                println!("{name} | {title} | {kind} | {text}");
                self.differ.insert(key, difference);
            }
        }
    }

    /// Prints how many permutations of each file differ, by kind.
    pub fn print(&self) {
        println!("\npermutations that differ, of all, by file:");
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        let mut of_file: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for ((name, _), Difference { kind, .. }) in &self.differ {
            *kinds.entry(kind).or_default() += 1;
            *of_file.entry(name).or_default().entry(kind).or_default() += 1;
        }
        for (name, ran) in &self.ran {
            let none = BTreeMap::new();
            let found = of_file.get(&**name).unwrap_or(&none);
            let count: usize = found.values().sum();
            println!("{count:4} / {ran:4}  {name}  {}", counts(found));
        }
        let ran: usize = self.ran.values().sum();
        println!("{:4} / {ran:4}  all  {}", self.differ.len(), counts(&kinds));
        for line in &self.unreadable {
            println!("not read: {line}");
        }
    }

    /// Returns the updated list of known differences: the current differences, with their known
    /// reasons. Files that did not run keep their lines.
    pub fn known_anew(&self) -> String {
        let mut known = self.known.clone();
        known.retain(|(name, _), _| !self.ran.contains_key(name));
        let on_one = |(name, title): &(String, String)| {
            let alone = alone(name).map(|name| (name.to_owned(), title.clone()));
            alone.is_some_and(|key| self.differ.contains_key(&key))
        };
        for (key, Difference { kind, text }) in &self.differ {
            if on_one(key) {
                continue;
            }
            let every = (key.0.clone(), "*".to_owned());
            let reason = self.known.get(key).cloned();
            match (reason, self.known.get(&every)) {
                (None, Some(reason)) => drop(known.insert(every, reason.clone())),
                (reason, _) => {
                    let reason = reason.unwrap_or_else(|| format!("{kind}: {text}"));
                    known.insert(key.clone(), reason);
                }
            }
        }
        let line = |((name, title), reason): (&(String, String), &String)| {
            let reason: String = reason.chars().take(120).collect();
            format!("{name} | {title} | {}\n", reason.replace('\n', " "))
        };
        known.iter().map(line).collect()
    }

    /// Returns the permutations that differ without being known, and known ones that no longer
    /// differ. If only some permutations ran, `*` in the list is not checked.
    pub fn unexpected(&self, is_partial: bool) -> Vec<String> {
        let mut found = self.unreadable.clone();
        for ((name, title), Difference { kind, text }) in &self.differ {
            if !self.knows(name, title) {
                found.push(format!("differs: {name} | {title} | {kind}: {text}"));
            }
        }
        for (name, title) in self.known.keys() {
            let differs = self.differ.keys().any(|(of, _)| of == name);
            let is_over = match &**title {
                "*" => !is_partial && self.ran.contains_key(name) && !differs,
                _ => self.agree.contains(&(name.clone(), title.clone())),
            };
            if is_over {
                found.push(format!("does not differ any more: {name} | {title}"));
            }
        }
        found
    }
}

/// Returns the name of a file that ran on three machines, without its suffix.
fn alone(name: &str) -> Option<&str> {
    name.strip_suffix("/3")
}

fn counts(kinds: &BTreeMap<&str, usize>) -> String {
    let each = kinds.iter().map(|(kind, count)| format!("{kind} {count}"));
    each.collect::<Vec<_>>().join(", ")
}
