//! The sessions of a database, as functions and views know them: what they do, and how to end that.

use std::fmt::Debug;
use std::net::SocketAddr;

use fencepost_txn::Strength;

use crate::advisory::Asked;

/// What a session is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// To end what it runs.
    Cancel,
    /// To end.
    Terminate,
}

/// What came of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signalled {
    /// The session was told.
    Told,
    /// There is no such session.
    Nobody,
    /// It is another role's.
    OfOthers,
    /// It is a superuser's.
    OfSuperuser,
}

/// What a session does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// It runs a statement.
    Active,
    /// Nothing.
    #[default]
    Idle,
    /// Nothing, in a transaction.
    IdleInTransaction,
    /// Nothing, in a transaction that has failed.
    IdleInFailed,
}

impl Activity {
    /// All of them, in their order.
    pub const ALL: [Activity; 4] = [
        Activity::Active,
        Activity::Idle,
        Activity::IdleInTransaction,
        Activity::IdleInFailed,
    ];

    /// As `pg_stat_activity` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Active => "active",
            Activity::Idle => "idle",
            Activity::IdleInTransaction => "idle in transaction",
            Activity::IdleInFailed => "idle in transaction (aborted)",
        }
    }
}

/// A session at one moment; times are microseconds from 2000-01-01 UTC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// Its number.
    pub session: i32,
    /// The role that it was opened for.
    pub user: String,
    /// The database.
    pub database: String,
    /// What the client calls itself.
    pub application: String,
    /// Where the client is; `None` for one of this process.
    pub client: Option<SocketAddr>,
    /// When it was opened.
    pub opened: i64,
    /// When its transaction began, where it is in one.
    pub transaction: Option<i64>,
    /// When its last statement began, if there was any.
    pub statement: Option<i64>,
    /// When it began to do what it does.
    pub since: i64,
    /// What it does.
    pub activity: Activity,
    /// The text of its last statement.
    pub text: String,
    /// What its transaction is called where rows are waited for.
    pub coordinator: u32,
    /// The tables of its last statement, and whether it changes them.
    pub tables: Vec<(u32, bool)>,
}

/// A place in the line of those who are going to write a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowTurn {
    /// Where the row is.
    pub row: u64,
    /// The session, where that is known.
    pub session: Option<i32>,
    /// What it has, or waits for.
    pub strength: Strength,
    /// It is its turn; the others wait.
    pub granted: bool,
}

/// Whom a session waits for, by the lines of all rows: those who have a row and are in its way; and who wants to write, and
/// has nothing of the row yet, for those before it in line, too.
pub fn waited_for(turns: &[RowTurn], session: i32) -> Vec<i32> {
    let mut all = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        if turn.session != Some(session) || turn.granted {
            continue;
        }
        let before = || turns[..at].iter().filter(|other| other.row == turn.row);
        let stands = turn.strength >= Strength::NoKeyUpdate
            && !before().any(|other| other.session == turn.session && other.granted);
        let ahead = before().filter(|other| {
            other.session != turn.session
                && other.strength.conflicts(turn.strength)
                && (other.granted || stands)
        });
        all.extend(ahead.filter_map(|other| other.session));
    }
    all
}

/// The sessions of a database.
pub trait Sessions: Debug + Send + Sync {
    /// When this machine began: microseconds from 2000-01-01 UTC.
    fn began(&self) -> i64;

    /// Tells a session of any machine something, for a role that may be a superuser.
    fn signal<'a>(
        &'a self,
        session: i32,
        signal: Signal,
        by: (&'a str, bool),
    ) -> Asked<'a, Signalled>;

    /// Whether a session has ended, `within_ms` from now at the latest.
    fn has_ended(&self, session: i32, within_ms: u64) -> Asked<'_, bool>;

    /// Ready in so many microseconds.
    fn sleep(&self, us: u64) -> Asked<'_, ()>;

    /// The lines of all rows of all machines that answer: of each row the one whose turn it is, and then who waits.
    fn row_turns(&self) -> Asked<'_, Vec<RowTurn>>;

    /// All sessions of all machines that answer.
    fn all(&self) -> Asked<'_, Vec<SessionState>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use Strength::{Share, Update};

    #[test]
    fn a_session_waits_for_those_in_its_way() {
        let turn = |session, strength, granted| RowTurn {
            row: 7,
            session: Some(session),
            strength,
            granted,
        };
        let mut turns = vec![
            turn(1, Share, true),
            turn(2, Share, true),
            turn(3, Update, false),
            turn(1, Update, false),
            turn(4, Update, false),
        ];
        assert_eq!(waited_for(&turns, 3), [1, 2]);
        assert_eq!(waited_for(&turns, 1), [2], "it has the row already");
        assert_eq!(waited_for(&turns, 4), [1, 2, 3, 1]);
        turns[0].row = 8;
        assert_eq!(waited_for(&turns, 3), [2]);
        let turns = [
            turn(1, Update, true),
            turn(2, Update, false),
            turn(3, Share, false),
        ];
        assert_eq!(waited_for(&turns, 3), [1], "it may overtake the second");
        assert_eq!(waited_for(&turns, 1), [0; 0]);
    }
}
