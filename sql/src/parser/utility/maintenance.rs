//! Maintenance commands: VACUUM, ANALYZE, REINDEX, CLUSTER and LOCK TABLE.

use super::super::cursor::Cursor;
use super::super::lexer::Kind;
use crate::error::{SqlError, SqlState};
use crate::lock_mode::LockMode;

/// A maintenance command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaintenanceCommand {
    /// VACUUM
    Vacuum,
    /// VACUUM with the option ANALYZE.
    VacuumAnalyze,
    /// ANALYZE
    Analyze,
    /// REINDEX TABLE
    ReindexTable,
    /// REINDEX INDEX
    ReindexIndex,
    /// REINDEX SCHEMA
    ReindexSchema,
    /// REINDEX DATABASE, REINDEX SYSTEM
    ReindexDatabase,
    /// CLUSTER
    Cluster,
    /// LOCK TABLE
    Lock {
        /// The lock mode.
        mode: LockMode,
        /// False for NOWAIT.
        waits: bool,
    },
}

/// The syntax tree of a maintenance command.
#[derive(Debug)]
pub struct MaintenanceSyntax {
    /// The command.
    pub command: MaintenanceCommand,
    /// The relations; empty for all.
    pub targets: Vec<MaintenanceTarget>,
    /// CONCURRENTLY
    pub concurrently: bool,
}

/// A relation of a maintenance command.
#[derive(Debug)]
pub struct MaintenanceTarget {
    /// The schema, if it is named.
    pub schema: Option<String>,
    /// The name.
    pub name: String,
    /// The columns, or the index of CLUSTER.
    pub parts: Vec<String>,
    /// ONLY: the relation without its partitions.
    pub only: bool,
}

const OF_VACUUM: [&str; 10] = [
    "full",
    "freeze",
    "verbose",
    "analyze",
    "disable_page_skipping",
    "skip_locked",
    "index_cleanup",
    "process_toast",
    "truncate",
    "parallel",
];
const OF_ANALYZE: [&str; 2] = ["verbose", "skip_locked"];
const OF_REINDEX: [&str; 3] = ["verbose", "concurrently", "tablespace"];
const OF_CLUSTER: [&str; 1] = ["verbose"];

/// The modes of LOCK TABLE. A mode whose words are a prefix of another mode comes later.
const MODES: [(&[&str], LockMode); 8] = [
    (&["access", "share"], LockMode::AccessShare),
    (&["row", "share"], LockMode::RowShare),
    (&["row", "exclusive"], LockMode::RowExclusive),
    (
        &["share", "update", "exclusive"],
        LockMode::ShareUpdateExclusive,
    ),
    (&["share", "row", "exclusive"], LockMode::ShareRowExclusive),
    (&["share"], LockMode::Share),
    (&["exclusive"], LockMode::Exclusive),
    (&["access", "exclusive"], LockMode::AccessExclusive),
];

/// Parses the statement, if it is a maintenance command.
pub(super) fn parse(word: &str, c: &mut Cursor<'_>) -> Result<Option<MaintenanceSyntax>, SqlError> {
    let syntax = match word {
        "vacuum" => vacuum(c)?,
        "analyze" | "analyse" => analyze(c)?,
        "reindex" => reindex(c)?,
        "cluster" => cluster(c)?,
        "lock" => lock(c)?,
        _ => return Ok(None),
    };
    c.end()?;
    Ok(Some(syntax))
}

fn vacuum(c: &mut Cursor<'_>) -> Result<MaintenanceSyntax, SqlError> {
    let mut given = options(c, "VACUUM", &OF_VACUUM)?;
    if given.is_empty() {
        for word in ["full", "freeze", "verbose", "analyze", "analyse"] {
            if c.accept(word) {
                given.push((word.to_owned(), true));
            }
        }
    }
    let targets = targets(c)?;
    let is = |name: &str| given.iter().any(|(given, on)| given == name && *on);
    let analyzes = is("analyze") || is("analyse");
    if !analyzes && targets.iter().any(|target| !target.parts.is_empty()) {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "ANALYZE option must be specified when a column list is provided",
        ));
    }
    let command = if analyzes {
        MaintenanceCommand::VacuumAnalyze
    } else {
        MaintenanceCommand::Vacuum
    };
    Ok(of(command, targets))
}

fn analyze(c: &mut Cursor<'_>) -> Result<MaintenanceSyntax, SqlError> {
    options(c, "ANALYZE", &OF_ANALYZE)?;
    c.accept("verbose");
    Ok(of(MaintenanceCommand::Analyze, targets(c)?))
}

fn reindex(c: &mut Cursor<'_>) -> Result<MaintenanceSyntax, SqlError> {
    let given = options(c, "REINDEX", &OF_REINDEX)?;
    let command = match () {
        () if c.accept("table") => MaintenanceCommand::ReindexTable,
        () if c.accept("index") => MaintenanceCommand::ReindexIndex,
        () if c.accept("schema") => MaintenanceCommand::ReindexSchema,
        () if c.accept("database") || c.accept("system") => MaintenanceCommand::ReindexDatabase,
        () => return Err(c.unexpected()),
    };
    let concurrently = c.accept("concurrently");
    let target = target(c)?;
    let of_option = |(name, on): &(String, bool)| name == "concurrently" && *on;
    Ok(MaintenanceSyntax {
        concurrently: concurrently || given.iter().any(of_option),
        ..of(command, vec![target])
    })
}

fn cluster(c: &mut Cursor<'_>) -> Result<MaintenanceSyntax, SqlError> {
    options(c, "CLUSTER", &OF_CLUSTER)?;
    c.accept("verbose");
    if c.peek().is_none() {
        return Ok(of(MaintenanceCommand::Cluster, Vec::new()));
    }
    let mut first = target(c)?;
    if c.accept("on") {
        let mut table = target(c)?;
        table.parts.push(first.name);
        first = table;
    } else if c.accept("using") {
        first.parts.push(c.identifier()?);
    }
    Ok(of(MaintenanceCommand::Cluster, vec![first]))
}

fn lock(c: &mut Cursor<'_>) -> Result<MaintenanceSyntax, SqlError> {
    c.accept("table");
    let mut targets = Vec::new();
    loop {
        let only = c.accept("only");
        targets.push(MaintenanceTarget { only, ..target(c)? });
        c.accept_operator("*");
        if c.accept_kind(Kind::Comma).is_none() {
            break;
        }
    }
    let mut mode = LockMode::AccessExclusive;
    if c.accept("in") {
        let mut modes = MODES.iter();
        let said = modes.find(|(words, _)| c.accept_all(words) && c.sees("mode"));
        mode = said.ok_or_else(|| c.unexpected())?.1;
        c.expect("mode")?;
    }
    let waits = !c.accept("nowait");
    Ok(of(MaintenanceCommand::Lock { mode, waits }, targets))
}

fn of(command: MaintenanceCommand, targets: Vec<MaintenanceTarget>) -> MaintenanceSyntax {
    MaintenanceSyntax {
        command,
        targets,
        concurrently: false,
    }
}

/// Reads options in parentheses with their values. Only the options in `known` are valid.
fn options(
    c: &mut Cursor<'_>,
    statement: &str,
    known: &[&str],
) -> Result<Vec<(String, bool)>, SqlError> {
    let mut given = Vec::new();
    if c.accept_kind(Kind::Open).is_none() {
        return Ok(given);
    }
    loop {
        let name = c.identifier()?;
        let name = if name == "analyse" { "analyze" } else { &name }.to_owned();
        if !known.contains(&name.as_str()) {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("unrecognized {statement} option \"{name}\""),
            ));
        }
        let mut on = true;
        if let Some(value) = c
            .peek()
            .filter(|t| !matches!(t.kind, Kind::Comma | Kind::Close))
        {
            let value = value.text(c.sql).trim_matches('\'').to_ascii_lowercase();
            on = !["false", "off", "0"].contains(&value.as_str());
            c.next_token();
        }
        given.push((name, on));
        if c.accept_kind(Kind::Comma).is_none() {
            break;
        }
    }
    c.expect_kind(Kind::Close)?;
    Ok(given)
}

fn targets(c: &mut Cursor<'_>) -> Result<Vec<MaintenanceTarget>, SqlError> {
    let mut targets = Vec::new();
    while c.peek().is_some() {
        let mut target = target(c)?;
        if c.accept_kind(Kind::Open).is_some() {
            loop {
                target.parts.push(c.identifier()?);
                if c.accept_kind(Kind::Comma).is_none() {
                    break;
                }
            }
            c.expect_kind(Kind::Close)?;
        }
        targets.push(target);
        if c.accept_kind(Kind::Comma).is_none() {
            break;
        }
        if c.peek().is_none() {
            return Err(c.unexpected());
        }
    }
    Ok(targets)
}

fn target(c: &mut Cursor<'_>) -> Result<MaintenanceTarget, SqlError> {
    let (schema, name) = c.qualified()?;
    Ok(MaintenanceTarget {
        schema,
        name,
        parts: Vec::new(),
        only: false,
    })
}
