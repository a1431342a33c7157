//! Windows: `(PARTITION BY … ORDER BY … ROWS …)`.

use sqlparser::ast;

use super::super::names;
use super::super::window::exclusion;
use super::tree::{Piece, SortBy, SortKey};
use super::{Deparser, Level};
use crate::bound::Exclude;
use crate::error::SqlError;
use crate::functions::quote_ident as quoted;

impl Deparser<'_, '_> {
    pub(super) fn window(
        &mut self,
        spec: &ast::WindowSpec,
        level: &Level,
    ) -> Result<Vec<Piece>, SqlError> {
        let (spec, exclude) = exclusion(spec);
        let text = |text: &str| Piece::Text(text.to_owned());
        let mut parts: Vec<Vec<Piece>> = Vec::new();
        if let Some(name) = &spec.window_name {
            parts.push(vec![Piece::Text(quoted(&names::fold(name)))]);
        }
        if !spec.partition_by.is_empty() {
            let mut keys = Vec::new();
            for expr in &spec.partition_by {
                keys.push(SortKey {
                    by: SortBy::Tree(self.settled(expr, level)?.tree),
                    suffix: "",
                });
            }
            parts.push(vec![text("PARTITION BY "), Piece::Keys(keys)]);
        }
        if !spec.order_by.is_empty() {
            let keys = self.inner_keys(&spec.order_by, &[], level)?;
            parts.push(vec![text("ORDER BY "), Piece::Keys(keys)]);
        }
        if let Some(frame) = &spec.window_frame {
            let mut pieces = vec![Piece::Text(frame.units.to_string())];
            match &frame.end_bound {
                None => self.bound_of_frame(&frame.start_bound, &mut pieces, level)?,
                Some(end) => {
                    pieces.push(text(" BETWEEN"));
                    self.bound_of_frame(&frame.start_bound, &mut pieces, level)?;
                    pieces.push(text(" AND"));
                    self.bound_of_frame(end, &mut pieces, level)?;
                }
            }
            pieces.extend(match exclude {
                Exclude::NoOthers => None,
                Exclude::Current => Some(text(" EXCLUDE CURRENT ROW")),
                Exclude::Group => Some(text(" EXCLUDE GROUP")),
                Exclude::Ties => Some(text(" EXCLUDE TIES")),
            });
            parts.push(pieces);
        }
        let mut pieces = vec![text("(")];
        for (i, part) in parts.into_iter().enumerate() {
            if i > 0 {
                pieces.push(text(" "));
            }
            pieces.extend(part);
        }
        pieces.push(text(")"));
        Ok(pieces)
    }

    fn bound_of_frame(
        &mut self,
        bound: &ast::WindowFrameBound,
        pieces: &mut Vec<Piece>,
        level: &Level,
    ) -> Result<(), SqlError> {
        use ast::WindowFrameBound as B;
        let (distance, word) = match bound {
            B::CurrentRow => (None, "CURRENT ROW"),
            B::Preceding(None) => (None, "UNBOUNDED PRECEDING"),
            B::Following(None) => (None, "UNBOUNDED FOLLOWING"),
            B::Preceding(Some(distance)) => (Some(distance), "PRECEDING"),
            B::Following(Some(distance)) => (Some(distance), "FOLLOWING"),
        };
        if let Some(distance) = distance {
            pieces.push(Piece::Text(" ".to_owned()));
            pieces.push(Piece::Plain(self.settled(distance, level)?.tree));
        }
        pieces.push(Piece::Text(format!(" {word}")));
        Ok(())
    }
}
