//! The output of EXPLAIN in each of its formats: lines of text, or a document with PostgreSQL's
//! keys.

use std::fmt::Write;

use fencepost_sql::bound::ExplainFormat;

/// An entry of a plan's description, in the order of the text format.
#[derive(Debug)]
pub(super) enum Entry {
    /// A node.
    Node { depth: usize, text: String },
    /// A property of the last node.
    Detail {
        depth: usize,
        name: String,
        text: String,
    },
    /// The output columns of the last node.
    Output { depth: usize, columns: Vec<String> },
    /// The next node is the root of a subquery in an expression.
    SubPlan(usize),
}

/// The description of a plan.
#[derive(Debug)]
pub struct PlanDescription(pub(super) Vec<Entry>);

/// Information besides the plan.
#[derive(Clone, Debug, PartialEq)]
pub enum RunInformation {
    /// The number of rows that the root node returned.
    ActualRows(usize),
    /// A property of the whole statement.
    Whole(&'static str, String),
    /// A time of the whole statement, in milliseconds.
    Time(&'static str, f64),
}

/// A value of a document.
enum Doc {
    Text(String),
    Number(String),
    Bool(bool),
    List(Vec<Doc>),
    Map(Vec<(String, Doc)>),
}

impl PlanDescription {
    /// Returns the lines of the text format: the root is bare, each child has an arrow.
    pub fn lines(&self) -> Vec<String> {
        let line = |entry: &Entry| match entry {
            Entry::Node { depth: 0, text } => text.clone(),
            Entry::Node { depth, text } => format!("{}->  {text}", " ".repeat(6 * depth - 4)),
            Entry::Detail { depth, name, text } => {
                format!("{}{name}: {text}", " ".repeat(6 * depth + 2))
            }
            Entry::Output { depth, columns } => {
                format!(
                    "{}Output: {}",
                    " ".repeat(6 * depth + 2),
                    columns.join(", ")
                )
            }
            Entry::SubPlan(number) => format!("  SubPlan {number}"),
        };
        self.0.iter().map(line).collect()
    }

    /// Returns the document in JSON, YAML or XML.
    pub fn document(&self, format: ExplainFormat, extras: &[RunInformation]) -> String {
        let mut at = 0;
        let mut plan = self.node(&mut at, None, extras);
        // Subqueries in expressions come after the plan; the document shows them as children of the
        // root node.
        let mut queries = Vec::new();
        while let Some(entry) = self.0.get(at) {
            let number = match entry {
                Entry::SubPlan(number) => Some(*number),
                _ => None,
            };
            at += usize::from(number.is_some());
            if !matches!(self.0.get(at), Some(Entry::Node { .. })) {
                at += 1;
                continue;
            }
            let mut query = self.node(&mut at, Some("SubPlan"), &[]);
            if let Some(number) = number {
                query.push((
                    "Subplan Name".into(),
                    Doc::Text(format!("SubPlan {number}")),
                ));
            }
            queries.push(Doc::Map(query));
        }
        match plan.iter_mut().find(|(name, _)| name == "Plans") {
            Some((_, Doc::List(plans))) => plans.extend(queries),
            _ if !queries.is_empty() => plan.push(("Plans".into(), Doc::List(queries))),
            _ => {}
        }
        let mut whole = vec![("Plan".to_owned(), Doc::Map(plan))];
        for extra in extras {
            match extra {
                RunInformation::ActualRows(_) => {}
                RunInformation::Whole(name, text) => {
                    whole.push(((*name).to_owned(), Doc::Text(text.clone())));
                }
                RunInformation::Time(name, ms) => {
                    whole.push(((*name).to_owned(), Doc::Number(format!("{ms:.3}"))));
                }
            }
        }
        let whole = Doc::Map(whole);
        let mut out = String::new();
        match format {
            ExplainFormat::Xml => {
                out.push_str("<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n");
                whole.xml("Query", 1, &mut out);
                out.push_str("</explain>");
            }
            ExplainFormat::Yaml => {
                whole.yaml_item(0, &mut out);
                out.truncate(out.trim_end().len());
            }
            ExplainFormat::Json | ExplainFormat::Text => Doc::List(vec![whole]).json(0, &mut out),
        }
        out
    }

    /// Converts the node at `at` with everything below it, and moves `at` behind it.
    fn node(
        &self,
        at: &mut usize,
        relationship: Option<&str>,
        extras: &[RunInformation],
    ) -> Vec<(String, Doc)> {
        let Some(Entry::Node { depth, text }) = self.0.get(*at) else {
            return Vec::new();
        };
        *at += 1;
        let mut map = properties(text);
        if let Some(relationship) = relationship {
            let place = ("Parent Relationship".into(), Doc::Text(relationship.into()));
            map.insert(1, place);
        }
        for extra in extras {
            if let RunInformation::ActualRows(rows) = extra {
                map.push(("Actual Rows".into(), Doc::Number(rows.to_string())));
            }
        }
        let mut plans = Vec::new();
        let is_append = text == "Append";
        loop {
            match self.0.get(*at) {
                Some(Entry::Detail { name, text, .. }) => {
                    map.push((name.clone(), detail(name, text)));
                    *at += 1;
                }
                Some(Entry::Output { columns, .. }) => {
                    let columns = columns.iter().cloned().map(Doc::Text).collect();
                    map.push(("Output".into(), Doc::List(columns)));
                    *at += 1;
                }
                Some(Entry::Node { depth: below, .. }) if below > depth => {
                    let relationship = match (is_append, plans.len()) {
                        (true, _) => "Member",
                        (false, 0) => "Outer",
                        (false, _) => "Inner",
                    };
                    plans.push(Doc::Map(self.node(at, Some(relationship), &[])));
                }
                _ => break,
            }
        }
        if !plans.is_empty() {
            map.push(("Plans".into(), Doc::List(plans)));
        }
        map
    }
}

/// Converts a property to a list if PostgreSQL has a list.
fn detail(name: &str, text: &str) -> Doc {
    match name {
        "Sort Key" | "Group Key" => Doc::List(
            text.split(", ")
                .map(|key| Doc::Text(key.to_owned()))
                .collect(),
        ),
        _ => Doc::Text(text.to_owned()),
    }
}

/// Splits the text of a node into properties with PostgreSQL's keys.
fn properties(text: &str) -> Vec<(String, Doc)> {
    let mut map: Vec<(String, Doc)> = Vec::new();
    let mut put =
        |name: &str, value: &str| map.push((name.to_owned(), Doc::Text(value.to_owned())));
    let (what, on) = match text.split_once(" on ") {
        Some((what, on)) => (what, Some(on)),
        None => (text, None),
    };
    let (what, index) = match what.split_once(" using ") {
        Some((what, index)) => (what, Some(index)),
        None => (what, None),
    };
    if let Some(operation) = ["Insert", "Update", "Delete", "Merge"]
        .into_iter()
        .find(|verb| on.is_some() && *verb == what)
    {
        put("Node Type", "ModifyTable");
        put("Operation", operation);
    } else if let Some(scan) = what.strip_suffix(" Backward") {
        put("Node Type", scan);
        put("Scan Direction", "Backward");
    } else if what == "Index Scan" {
        put("Node Type", what);
        put("Scan Direction", "Forward");
    } else if let Some(share) = what.strip_suffix("HashAggregate") {
        put("Node Type", "Aggregate");
        put("Strategy", "Hashed");
        put("Partial Mode", mode(share));
    } else if let Some(share) = what.strip_suffix("Aggregate") {
        put("Node Type", "Aggregate");
        put("Strategy", "Plain");
        put("Partial Mode", mode(share));
    } else if let Some(rest) = what.strip_prefix("HashSetOp ") {
        put("Node Type", "SetOp");
        put("Strategy", "Hashed");
        put("Command", rest);
    } else if let Some(kind) = joined(what, "Hash", "Join") {
        put("Node Type", "Hash Join");
        put("Join Type", kind);
    } else if let Some(kind) = joined(what, "Nested Loop", "Join") {
        put("Node Type", "Nested Loop");
        put("Join Type", kind);
    } else {
        put("Node Type", what);
    }
    if let Some(index) = index {
        put("Index Name", index);
    }
    if let Some(on) = on {
        let (name, alias) = on.split_once(' ').unwrap_or((on, on));
        match what {
            "Function Scan" => put("Function Name", name),
            "CTE Scan" | "WorkTable Scan" => put("CTE Name", name),
            "Subquery Scan" | "Values Scan" => {}
            _ => put("Relation Name", name),
        }
        put("Alias", alias);
    }
    for name in ["Parallel Aware", "Async Capable"] {
        map.push((name.to_owned(), Doc::Bool(false)));
    }
    map
}

fn mode(share: &str) -> &'static str {
    match share.trim() {
        "Partial" => "Partial",
        "Finalize" => "Finalize",
        _ => "Simple",
    }
}

/// Returns the join type in the text `method [type] [Join]`.
fn joined<'a>(what: &'a str, method: &str, join: &str) -> Option<&'a str> {
    let rest = what.strip_prefix(method)?.trim();
    let loops = method == "Nested Loop";
    match rest.strip_suffix(join) {
        Some(kind) => Some(match kind.trim() {
            "" => "Inner",
            kind => kind,
        }),
        None if rest.is_empty() && loops => Some("Inner"),
        None => None,
    }
}

impl Doc {
    fn json(&self, depth: usize, out: &mut String) {
        let indent = |depth: usize| "  ".repeat(depth);
        match self {
            Doc::Text(text) => quoted(text, out),
            Doc::Number(number) => out.push_str(number),
            Doc::Bool(yes) => out.push_str(if *yes { "true" } else { "false" }),
            Doc::List(items) if items.iter().all(|item| matches!(item, Doc::Text(_))) => {
                out.push('[');
                for (nth, item) in items.iter().enumerate() {
                    out.push_str(if nth > 0 { ", " } else { "" });
                    item.json(depth, out);
                }
                out.push(']');
            }
            Doc::List(items) => {
                out.push('[');
                for (nth, item) in items.iter().enumerate() {
                    out.push_str(if nth > 0 { ",\n" } else { "\n" });
                    out.push_str(&indent(depth + 1));
                    item.json(depth + 1, out);
                }
                out.push('\n');
                out.push_str(&indent(depth));
                out.push(']');
            }
            Doc::Map(items) => {
                out.push('{');
                for (nth, (name, value)) in items.iter().enumerate() {
                    out.push_str(if nth > 0 { ",\n" } else { "\n" });
                    out.push_str(&indent(depth + 1));
                    quoted(name, out);
                    out.push_str(": ");
                    value.json(depth + 1, out);
                }
                out.push('\n');
                out.push_str(&indent(depth));
                out.push('}');
            }
        }
    }

    /// Writes the value as an item of a YAML list.
    fn yaml_item(&self, depth: usize, out: &mut String) {
        let indent = "  ".repeat(depth);
        match self {
            Doc::Map(items) => {
                for (nth, (name, value)) in items.iter().enumerate() {
                    let dash = if nth == 0 { "- " } else { "  " };
                    let _ = write!(out, "{indent}{dash}{name}: ");
                    value.yaml(depth + 1, out);
                }
            }
            other => {
                let _ = write!(out, "{indent}- ");
                other.yaml(depth + 1, out);
            }
        }
    }

    /// Writes the value of a key in YAML.
    fn yaml(&self, depth: usize, out: &mut String) {
        match self {
            Doc::Text(_) | Doc::Number(_) | Doc::Bool(_) => {
                self.json(depth, out);
                out.push('\n');
            }
            Doc::List(items) => {
                out.push('\n');
                items.iter().for_each(|item| item.yaml_item(depth + 1, out));
            }
            Doc::Map(items) => {
                out.push('\n');
                for (name, value) in items {
                    let _ = write!(out, "{}{name}: ", "  ".repeat(depth + 1));
                    value.yaml(depth + 1, out);
                }
            }
        }
    }

    fn xml(&self, name: &str, depth: usize, out: &mut String) {
        let tag = name.replace([' ', '/'], "-");
        let indent = "  ".repeat(depth);
        let value = match self {
            Doc::Text(text) => {
                let text = text.replace('&', "&amp;").replace('<', "&lt;");
                text.replace('>', "&gt;")
            }
            Doc::Number(number) => number.clone(),
            Doc::Bool(yes) => yes.to_string(),
            Doc::List(_) | Doc::Map(_) => {
                let _ = writeln!(out, "{indent}<{tag}>");
                match self {
                    Doc::List(items) => {
                        let item = if name == "Plans" { "Plan" } else { "Item" };
                        items.iter().for_each(|one| one.xml(item, depth + 1, out));
                    }
                    Doc::Map(items) => {
                        items
                            .iter()
                            .for_each(|(name, one)| one.xml(name, depth + 1, out));
                    }
                    _ => {}
                }
                let _ = writeln!(out, "{indent}</{tag}>");
                return;
            }
        };
        let _ = writeln!(out, "{indent}<{tag}>{value}</{tag}>");
    }
}

/// Appends a JSON string.
fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
