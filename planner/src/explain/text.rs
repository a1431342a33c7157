//! Expressions as text, as EXPLAIN shows them.

use fencepost_sql::bound::{
    AggregateKind, BoolTest, Expr, Grouping, LikeKind, Node, Subquery, SubqueryKind,
};
use fencepost_sql::settings::Settings;
use fencepost_sql::types::to_text;

/// The names of the slots.
#[derive(Clone, Debug, Default)]
pub struct Names(pub Vec<String>);

impl Names {
    /// Returns the text of `expr`.
    pub fn text(&self, expr: &Expr) -> String {
        match &expr.node {
            Node::Const(value) if value.is_null() => format!("NULL::{}", expr.ty.name()),
            Node::Const(value) => {
                let text = to_text(value, &expr.ty, &Settings::new());
                let plain = expr.ty.kind.is_integer() || text == "t" || text == "f";
                match (plain, text.as_str()) {
                    (true, "t") => "true".to_owned(),
                    (true, "f") => "false".to_owned(),
                    (true, _) => text,
                    (false, _) => {
                        format!("'{}'::{}", text.replace('\'', "''"), expr.ty.kind.name())
                    }
                }
            }
            Node::Column(slot) => self.0.get(*slot).cloned().unwrap_or_default(),
            Node::Param(n) => format!("${}", n + 1),
            Node::Outer(slot) => format!(":{slot}"),
            Node::Routine(call) => {
                format!("{}({})", call.routine.name, self.list(&call.args))
            }
            Node::Subquery(sub) => self.query(sub),
            Node::Compare {
                op, left, right, ..
            } => self.binary(left, op.symbol(), right),
            Node::Arith {
                op, left, right, ..
            } => self.binary(left, op.symbol(), right),
            Node::Distinct {
                negated,
                left,
                right,
            } => self.binary(left, &format!("IS {}DISTINCT FROM", not(*negated)), right),
            Node::And(parts) => self.joined(parts, " AND "),
            Node::Or(parts) => self.joined(parts, " OR "),
            Node::Not(input) => format!("(NOT {})", self.text(input)),
            Node::IsNull { negated, input } => {
                format!("({} IS {}NULL)", self.text(input), not(*negated))
            }
            Node::BoolTest {
                test,
                negated,
                input,
            } => {
                let name = match test {
                    BoolTest::True => "TRUE",
                    BoolTest::False => "FALSE",
                    BoolTest::Unknown => "UNKNOWN",
                };
                format!("({} IS {}{name})", self.text(input), not(*negated))
            }
            Node::Negate { input, .. } => format!("(- {})", self.text(input)),
            Node::Cast { input, .. } => format!("({})::{}", self.text(input), expr.ty.name()),
            Node::Between {
                negated,
                symmetric,
                input,
                low,
                high,
                ..
            } => format!(
                "({} {}BETWEEN {}{} AND {})",
                self.text(input),
                not(*negated),
                if *symmetric { "SYMMETRIC " } else { "" },
                self.text(low),
                self.text(high)
            ),
            Node::InList {
                negated,
                input,
                list,
                ..
            } => {
                let operator = if *negated { "<> ALL" } else { "= ANY" };
                format!("({} {operator} ({}))", self.text(input), self.list(list))
            }
            Node::Like {
                kind,
                negated,
                input,
                pattern,
                ..
            } => {
                let operator = match (kind, negated) {
                    (LikeKind::Like, false) => "~~",
                    (LikeKind::Like, true) => "!~~",
                    (LikeKind::ILike, false) => "~~*",
                    (LikeKind::ILike, true) => "!~~*",
                };
                self.binary(input, operator, pattern)
            }
            Node::Case { .. } => "CASE ... END".to_owned(),
            Node::Coalesce(args) => format!("COALESCE({})", self.list(args)),
            Node::NullIf { left, right, .. } => {
                format!("NULLIF({}, {})", self.text(left), self.text(right))
            }
            Node::Extreme { greatest, args, .. } => {
                let name = if *greatest { "GREATEST" } else { "LEAST" };
                format!("{name}({})", self.list(args))
            }
            Node::Quantified {
                op,
                all,
                left,
                array,
            } => format!(
                "({} {} {} ({}))",
                self.text(left),
                op.symbol(),
                if *all { "ALL" } else { "ANY" },
                self.text(array)
            ),
            Node::Call { function, args } if is_symbol(function.name) => match args.as_slice() {
                [input] => format!("({} {})", function.name, self.text(input)),
                [left, right] => format!(
                    "({} {} {})",
                    self.text(left),
                    function.name,
                    self.text(right)
                ),
                args => format!("{}({})", function.name, self.list(args)),
            },
            Node::Call { function, args } if function.name == "ARRAY" => {
                format!("ARRAY[{}]", self.list(args))
            }
            Node::Call { function, args } => format!("{}({})", function.name, self.list(args)),
        }
    }

    fn query(&self, sub: &Subquery) -> String {
        let name = format!("SubPlan {}", sub.id + 1);
        match &sub.kind {
            SubqueryKind::Scalar { .. } => format!("({name})"),
            SubqueryKind::Array => format!("ARRAY({name})"),
            SubqueryKind::Exists => format!("EXISTS({name})"),
            SubqueryKind::Any { all, .. } => {
                format!("({} {name})", if *all { "ALL" } else { "ANY" })
            }
        }
    }

    fn binary(&self, left: &Expr, operator: &str, right: &Expr) -> String {
        format!("({} {operator} {})", self.text(left), self.text(right))
    }

    fn joined(&self, parts: &[Expr], between: &str) -> String {
        let parts: Vec<String> = parts.iter().map(|p| self.text(p)).collect();
        format!("({})", parts.join(between))
    }

    /// Returns the texts of expressions, separated by commas.
    pub fn list(&self, parts: &[Expr]) -> String {
        let parts: Vec<String> = parts.iter().map(|p| self.text(p)).collect();
        parts.join(", ")
    }

    /// Returns the names of the slots of the group row.
    pub fn grouped(&self, grouping: &Grouping) -> Names {
        let mut names: Vec<String> = grouping.keys.iter().map(|k| self.text(k)).collect();
        for aggregate in &grouping.aggregates {
            let name = match aggregate.kind {
                AggregateKind::CountStar | AggregateKind::Count => "count",
                AggregateKind::Sum => "sum",
                AggregateKind::Avg => "avg",
                AggregateKind::Min => "min",
                AggregateKind::Max => "max",
                AggregateKind::BoolAnd => "bool_and",
                AggregateKind::BoolOr => "bool_or",
                AggregateKind::StringAgg => "string_agg",
                AggregateKind::ArrayAgg => "array_agg",
                AggregateKind::JsonAgg => "json_agg",
                AggregateKind::JsonbAgg => "jsonb_agg",
                AggregateKind::JsonObjectAgg => "json_object_agg",
                AggregateKind::JsonbObjectAgg => "jsonb_object_agg",
                AggregateKind::BitAnd => "bit_and",
                AggregateKind::BitOr => "bit_or",
                AggregateKind::BitXor => "bit_xor",
                AggregateKind::Statistic(statistic) => statistic.name(),
                AggregateKind::OrderedSet(kind) => kind.name(),
            };
            let args = match aggregate.kind {
                AggregateKind::CountStar => "*".to_owned(),
                _ => self.list(&aggregate.args),
            };
            let distinct = if aggregate.distinct { "DISTINCT " } else { "" };
            names.push(format!("{name}({distinct}{args})"));
        }
        Names(names)
    }
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

/// Returns whether it is the name of an operator.
fn is_symbol(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_punctuation()) && !name.starts_with('[')
}
