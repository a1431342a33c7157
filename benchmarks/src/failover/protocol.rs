//! The messages between the measuring process and those of the machines: lines on their standard
//! streams.
//!
//! ```text
//!   machine                          measuring process
//!     roots 4096 8192 …     ──►
//!                           ◄──      roots 4096 8192 …;1052672 …;…      of all machines
//!     loaded                ──►
//!                           ◄──      go 1234567890                      start of the first bucket
//!                                    … kill -9 …
//!                           ◄──      stop
//!     stopped               ──►
//!                           ◄──      check
//!     mark 2 commit 98765   ──►      one for each step
//!     leases 1 0            ──►
//!     checked ok            ──►
//! ```

use std::fmt;

use fencepost_txn::network::Step;

/// A message to a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The roots of the tables of all machines, in order.
    Roots(Vec<Vec<u64>>),
    /// Start the clients; the first bucket begins at this time of the host's clock.
    Go(u64),
    /// Stop the clients.
    Stop,
    /// Check the data.
    Check,
}

/// A message of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MachineMessage {
    /// The roots of its tables.
    Roots(Vec<u64>),
    Loaded,
    Stopped,
    /// A step to a configuration, and its time.
    Mark(u64, Step, u64),
    /// The number of other machines' leases that expired there, and how many of these machines had
    /// not failed.
    Leases(u64, u64),
    /// The result of the check: the violated condition, if there is one.
    Checked(Option<String>),
    /// The error with which it ends.
    Failed(String),
}

fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split_whitespace()
        .map(|word| word.parse().ok())
        .collect()
}

fn join(numbers: &[u64]) -> String {
    let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
    words.join(" ")
}

/// Splits a line into its first word and the rest.
fn split(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}

/// Replaces line breaks by spaces.
fn flat(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Roots(all) => {
                let all: Vec<String> = all.iter().map(|roots| join(roots)).collect();
                write!(f, "roots {}", all.join(";"))
            }
            Order::Go(origin) => write!(f, "go {origin}"),
            Order::Stop => f.write_str("stop"),
            Order::Check => f.write_str("check"),
        }
    }
}

impl Order {
    /// Parses a message; `None` if it is invalid.
    pub fn parse(line: &str) -> Option<Order> {
        let (word, rest) = split(line);
        match word {
            "roots" => {
                let all: Option<Vec<_>> = rest.split(';').map(numbers).collect();
                all.map(Order::Roots)
            }
            "go" => rest.parse().ok().map(Order::Go),
            "stop" => Some(Order::Stop),
            "check" => Some(Order::Check),
            _ => None,
        }
    }
}

impl fmt::Display for MachineMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MachineMessage::Roots(roots) => write!(f, "roots {}", join(roots)),
            MachineMessage::Loaded => f.write_str("loaded"),
            MachineMessage::Stopped => f.write_str("stopped"),
            MachineMessage::Mark(configuration, step, at) => {
                write!(f, "mark {configuration} {} {at}", step.name())
            }
            MachineMessage::Leases(expired, returned) => write!(f, "leases {expired} {returned}"),
            MachineMessage::Checked(None) => f.write_str("checked ok"),
            MachineMessage::Checked(Some(broken)) => write!(f, "checked broken {}", flat(broken)),
            MachineMessage::Failed(why) => write!(f, "failed {}", flat(why)),
        }
    }
}

impl MachineMessage {
    /// Parses a message; `None` if it is invalid.
    pub fn parse(line: &str) -> Option<MachineMessage> {
        let (word, rest) = split(line);
        match word {
            "roots" => numbers(rest).map(MachineMessage::Roots),
            "loaded" => Some(MachineMessage::Loaded),
            "stopped" => Some(MachineMessage::Stopped),
            "mark" => {
                let mut words = rest.split(' ');
                let configuration = words.next()?.parse().ok()?;
                let name = words.next()?;
                let step = Step::ALL.into_iter().find(|step| step.name() == name)?;
                let at = words.next()?.parse().ok()?;
                Some(MachineMessage::Mark(configuration, step, at))
            }
            "leases" => match numbers(rest)?[..] {
                [expired, returned] => Some(MachineMessage::Leases(expired, returned)),
                _ => None,
            },
            "checked" => match split(rest) {
                ("ok", _) => Some(MachineMessage::Checked(None)),
                ("broken", what) => Some(MachineMessage::Checked(Some(what.to_string()))),
                _ => None,
            },
            "failed" => Some(MachineMessage::Failed(rest.to_string())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip() {
        let orders = [
            Order::Roots(vec![vec![1, 2], vec![u64::MAX, 0]]),
            Order::Go(17),
            Order::Stop,
            Order::Check,
        ];
        for order in orders {
            assert_eq!(Order::parse(&order.to_string()), Some(order));
        }
        let said = [
            MachineMessage::Roots(vec![3, 4, 5]),
            MachineMessage::Loaded,
            MachineMessage::Stopped,
            MachineMessage::Leases(2, 1),
            MachineMessage::Checked(None),
            MachineMessage::Checked(Some("subscriber 5: is gone".to_string())),
            MachineMessage::Failed("no memory".to_string()),
        ];
        let marks = Step::ALL.map(|step| MachineMessage::Mark(2, step, 99));
        for said in said.into_iter().chain(marks) {
            assert_eq!(MachineMessage::parse(&said.to_string()), Some(said));
        }
    }

    #[test]
    fn multi_line_text_becomes_one_line() {
        let said = MachineMessage::Failed("one\ntwo".to_string()).to_string();
        assert_eq!(said, "failed one two");
    }

    #[test]
    fn malformed_message_is_refused() {
        for line in ["", "gone", "go", "go x", "roots 1 x", "mark 2 leap 5"] {
            assert_eq!(Order::parse(line), None, "{line}");
        }
        for line in ["", "mark 2 leap 5", "mark 2 apply", "leases 1", "checked"] {
            assert_eq!(MachineMessage::parse(line), None, "{line}");
        }
    }
}
