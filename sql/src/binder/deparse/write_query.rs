//! Writes queries as text, clause by clause.

use super::tree::{Body, CteText, FromItem, Group, Query, Select, Set, Side, Source, Target};
use super::write::{CLAUSE, JOIN, VAR, Writer};
use crate::functions::quote_ident as quoted;

impl Writer {
    /// Writes a query. `names` are its column names if they differ from its own. Without `named`,
    /// no reader sees the names of unnamed columns.
    pub(super) fn query(&mut self, query: &Query, names: Option<&[String]>, named: bool) {
        let level = self.level;
        self.with(query.recursive, &query.with);
        match &query.body {
            Body::Set(set) => self.set(set, names, named),
            Body::Select(select) => {
                self.begin();
                self.select(select, names, named);
            }
            Body::Values(rows) => {
                self.begin();
                self.put("VALUES ");
                for (i, row) in rows.iter().enumerate() {
                    self.put(if i > 0 { ", (" } else { "(" });
                    for (at, value) in row.iter().enumerate() {
                        if at > 0 {
                            self.put(",");
                        }
                        self.tree(value, false);
                    }
                    self.put(")");
                }
            }
        }
        if !query.order.is_empty() {
            self.line(" ORDER BY ", -CLAUSE, CLAUSE, 1);
            self.keys(&query.order);
        }
        if let Some(offset) = &query.offset {
            self.line(" OFFSET ", -CLAUSE, CLAUSE, 0);
            self.tree(offset, false);
        }
        if let Some(limit) = &query.limit {
            match query.ties {
                true => {
                    self.line(" FETCH FIRST (", -CLAUSE, CLAUSE, 0);
                    self.tree(limit, false);
                    self.put(") ROWS WITH TIES");
                }
                false => {
                    self.line(" LIMIT ", -CLAUSE, CLAUSE, 0);
                    self.tree(limit, false);
                }
            }
        }
        for lock in &query.locks {
            self.line(lock, -CLAUSE, CLAUSE, 0);
        }
        self.level = level;
    }

    fn begin(&mut self) {
        if self.style.indented {
            self.level += CLAUSE;
            self.put(" ");
        }
    }

    fn with(&mut self, recursive: bool, all: &[CteText]) {
        if all.is_empty() {
            return;
        }
        self.begin();
        let mut before = match recursive {
            true => "WITH RECURSIVE ",
            false => "WITH ",
        };
        for with in all {
            self.put(before);
            before = ", ";
            self.put(&format!("{} AS {}(", with.name, with.materialized));
            if self.style.indented {
                self.line("", 0, 0, 0);
            }
            self.query(&with.query, None, true);
            if self.style.indented {
                self.line("", 0, 0, 0);
            }
            self.put(&format!("){}", with.clauses));
        }
        match self.style.indented {
            true => {
                self.level -= CLAUSE;
                self.line("", 0, 0, 0);
            }
            false => self.put(" "),
        }
    }

    fn set(&mut self, set: &Set, names: Option<&[String]>, named: bool) {
        let alike = matches!(&set.left, Side::Set(left) if left.words == set.words);
        let parentheses = matches!(set.left, Side::Set(_)) && !alike;
        let deeper = if parentheses { CLAUSE } else { 0 };
        if parentheses {
            self.put("(");
            self.line("", deeper, 0, 0);
        }
        self.side(&set.left, names, named);
        match (parentheses, self.style.indented) {
            (true, _) => self.line(") ", -deeper, 0, 0),
            (false, true) => self.line("", -deeper, 0, 0),
            (false, false) => self.put(" "),
        }
        self.put(&set.words);
        self.put(" ");
        let parentheses = matches!(set.right, Side::Set(_));
        let deeper = if parentheses { CLAUSE } else { 0 };
        if parentheses {
            self.put("(");
        }
        self.line("", deeper, 0, 0);
        self.side(&set.right, names, false);
        if self.style.indented {
            self.level -= deeper;
        }
        if parentheses {
            self.line(")", 0, 0, 0);
        }
    }

    fn side(&mut self, side: &Side, names: Option<&[String]>, named: bool) {
        match side {
            Side::Set(set) => self.set(set, names, named),
            Side::Query(query) => {
                let parentheses = !query.with.is_empty()
                    || !query.order.is_empty()
                    || query.limit.is_some()
                    || query.offset.is_some()
                    || !query.locks.is_empty();
                if parentheses {
                    self.put("(");
                }
                self.query(query, names, named);
                if parentheses {
                    self.put(")");
                }
            }
        }
    }

    fn select(&mut self, select: &Select, names: Option<&[String]>, named: bool) {
        self.put("SELECT");
        match select.distinct.as_deref() {
            None => {}
            Some([]) => self.put(" DISTINCT"),
            Some(keys) => {
                self.put(" DISTINCT ON (");
                self.keys(keys);
                self.put(")");
            }
        }
        self.targets(&select.targets, names, named);
        self.from(&select.from);
        if let Some(filter) = &select.filter {
            self.line(" WHERE ", -CLAUSE, CLAUSE, 1);
            self.tree(filter, false);
        }
        if !select.groups.is_empty() {
            self.line(" GROUP BY ", -CLAUSE, CLAUSE, 1);
            self.groups(&select.groups);
        }
        if let Some(having) = &select.having {
            self.line(" HAVING ", -CLAUSE, CLAUSE, 0);
            self.tree(having, false);
        }
        for (i, (name, pieces)) in select.windows.iter().enumerate() {
            match i {
                0 => self.line(" WINDOW ", -CLAUSE, CLAUSE, 1),
                _ => self.put(", "),
            }
            self.put(&format!("{name} AS "));
            self.pieces(pieces);
        }
    }

    fn group(&mut self, group: &Group) {
        match group {
            Group::Key(key) => self.key(key),
            Group::Set(keys) => {
                self.put("(");
                self.keys(keys);
                self.put(")");
            }
            Group::Sets(words, groups) => {
                self.put(words);
                self.put("(");
                self.groups(groups);
                self.put(")");
            }
        }
    }

    fn groups(&mut self, groups: &[Group]) {
        for (i, group) in groups.iter().enumerate() {
            if i > 0 {
                self.put(", ");
            }
            self.group(group);
        }
    }

    fn targets(&mut self, targets: &[Target], names: Option<&[String]>, named: bool) {
        let unnamed = (!named).then_some("?column?");
        for (i, target) in targets.iter().enumerate() {
            self.put(if i > 0 { ", " } else { " " });
            let name = names.and_then(|names| names.get(i)).unwrap_or(&target.name);
            let deparsed = self.apart(|writer| {
                writer.tree(&target.tree, true);
                if target.column.as_deref().or(unnamed) != Some(name) {
                    writer.put(&format!(" AS {}", quoted(name)));
                }
            });
            if self.style.indented {
                match deparsed.starts_with('\n') {
                    true => self.trim(),
                    false if i > 0 => self.line("", -CLAUSE, CLAUSE, VAR),
                    false => {}
                }
            }
            self.put(&deparsed);
        }
    }

    /// Returns the text that `write` writes, without adding it to the output.
    fn apart(&mut self, write: impl FnOnce(&mut Writer)) -> String {
        let outer = std::mem::take(&mut self.text);
        write(self);
        std::mem::replace(&mut self.text, outer)
    }

    fn from(&mut self, all: &[FromItem]) {
        for (i, from) in all.iter().enumerate() {
            if i == 0 {
                self.line(" FROM ", -CLAUSE, CLAUSE, 2);
                self.item(from);
                continue;
            }
            self.put(", ");
            let deparsed = self.apart(|writer| writer.item(from));
            if self.style.indented {
                match deparsed.starts_with('\n') {
                    true => self.trim(),
                    false => self.line("", -CLAUSE, CLAUSE, VAR),
                }
            }
            self.put(&deparsed);
        }
    }

    fn item(&mut self, from: &FromItem) {
        match from {
            FromItem::Leaf {
                lateral,
                source,
                alias,
            } => {
                if *lateral {
                    self.put("LATERAL ");
                }
                match source {
                    Source::Name(name) => self.put(name),
                    Source::Query(query) => {
                        self.put("(");
                        self.query(query, None, true);
                        self.put(")");
                    }
                    Source::Call { call, ordinality } => {
                        self.tree(call, true);
                        if *ordinality {
                            self.put(" WITH ORDINALITY");
                        }
                    }
                }
                if !alias.is_empty() {
                    self.put(" ");
                    self.put(alias);
                }
            }
            FromItem::Join {
                words,
                left,
                right,
                using,
                alias,
                on,
            } => {
                let pretty = self.style.pretty;
                let inner = pretty && matches!(**right, FromItem::Join { .. });
                if !pretty {
                    self.put("(");
                }
                self.item(left);
                self.line(&format!(" {words} "), -CLAUSE, CLAUSE, JOIN);
                if inner {
                    self.put("(");
                }
                self.item(right);
                if inner {
                    self.put(")");
                }
                match on {
                    _ if !using.is_empty() => self.put(&format!(" USING ({})", using.join(", "))),
                    Some(on) => {
                        self.put(if pretty { " ON " } else { " ON (" });
                        self.tree(on, false);
                        self.put(if pretty { "" } else { ")" });
                    }
                    None if *words != "CROSS JOIN" => self.put(" ON TRUE"),
                    None => {}
                }
                if let Some(alias) = alias {
                    self.put(&format!(" AS {alias}"));
                }
                if !pretty {
                    self.put(")");
                }
            }
        }
    }
}
