//! Rewrites our join syntax for the SQL parser.
//!
//! The parser knows one of the spellings and DataFusion none. So, before parsing, each of our joins is rewritten to a
//! plain join followed by a cross join with a *marker*, a table function whose arguments carry the clauses:
//!
//! ```text
//! a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) USING (sym)
//! a LEFT JOIN b USING (sym) CROSS JOIN __asof_join('left', 'compare', NULL, a.ts >= b.ts)
//! ```
//!
//! - The parser's own expression parser finds where clauses end; nothing is guessed.
//! - Joins are rewritten from the last to the first, so the text parsed here contains no join of ours any more.
//! - A statement without the keywords isn't changed: its text is scanned once, byte by byte.

use datafusion::sql::sqlparser::ast::JoinConstraint;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::durations;
use crate::syntax::{is_word, solid};

/// Marks the as-of join before it.
pub(super) const ASOF_MARKER: &str = "__asof_join";

/// Marks the window join before it.
pub(super) const WINDOW_MARKER: &str = "__window_join";

type ParseResult<T> = Result<T, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Asof,
    Window,
    Horizon,
}

/// The statement with our joins rewritten; `None` if it has none.
///
/// # Errors
/// What is wrong with the spelling of a join.
pub(crate) fn rewrite(text: &str) -> ParseResult<Option<String>> {
    if !mentions_joins(text) {
        return Ok(None);
    }
    // The parser will say what is wrong with text that has no tokens.
    let Ok(mut tokens) = Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize() else {
        return Ok(None);
    };
    let mut rewritten = false;
    for at in (0..tokens.len()).rev() {
        if let Some((kind, flavour, behind)) = join_at(&tokens, at)? {
            let (text, end) = match kind {
                Kind::Asof => asof(&tokens, behind, flavour)?,
                Kind::Window => window(&tokens, behind)?,
                Kind::Horizon => horizon(&tokens, behind)?,
            };
            tokens.splice(at..end, [Token::make_word(&text, None)]);
            // The words of the new text must be tokens for the joins before it.
            tokens = retokenized(&tokens)?;
            rewritten = true;
        }
    }
    Ok(rewritten.then(|| tokens.iter().map(ToString::to_string).collect()))
}

fn retokenized(tokens: &[Token]) -> ParseResult<Vec<Token>> {
    let text: String = tokens.iter().map(ToString::to_string).collect();
    Tokenizer::new(&GenericDialect {}, &text).with_unescape(false).tokenize().map_err(|error| error.to_string())
}

/// Whether one of the words stands anywhere in the text.
fn mentions_joins(text: &str) -> bool {
    let has = |word: &[u8]| text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    has(b"join") && (has(b"asof") || has(b"window") || has(b"horizon"))
}

/// Whether rows of the left without a match are kept, where the join says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JoinType {
    Plain,
    Left,
    Inner,
    /// Rows of the left that have a match, and those that have none, without columns of the right.
    Semi,
    Anti,
}

/// A join of ours that begins at a token: its kind, and where its right relation begins.
fn join_at(tokens: &[Token], at: usize) -> ParseResult<Option<(Kind, JoinType, usize)>> {
    let kinds = [("asof", Kind::Asof), ("window", Kind::Window), ("horizon", Kind::Horizon)];
    let Some((word, kind)) = kinds.into_iter().find(|(word, _)| is_word(&tokens[at], word)) else { return Ok(None) };
    let mut next = solid(tokens, at + 1);
    let named = |next: usize, word: &str| tokens.get(next).is_some_and(|token| is_word(token, word));
    let mut flavour = JoinType::Plain;
    for (side, of) in
        [("left", JoinType::Left), ("inner", JoinType::Inner), ("semi", JoinType::Semi), ("anti", JoinType::Anti)]
    {
        if named(next, side) {
            flavour = of;
            next = solid(tokens, next + 1);
        }
    }
    if flavour == JoinType::Left && named(next, "outer") {
        next = solid(tokens, next + 1);
    }
    if named(next, "join") {
        if kind != Kind::Asof && !matches!(flavour, JoinType::Plain | JoinType::Left) {
            return Err(format!(
                "{} JOIN keeps every left row; there is no INNER, SEMI or ANTI form of it",
                word.to_uppercase()
            ));
        }
        return Ok(Some((kind, flavour, next + 1)));
    }
    let is_other_side = ["right", "full", "cross"].iter().any(|side| named(next, side));
    let is_outer = named(solid(tokens, next + 1), "outer") && named(solid(tokens, solid(tokens, next + 1) + 1), "join");
    if kind == Kind::Asof
        && !named(next, "cross")
        && is_other_side
        && (is_outer || named(solid(tokens, next + 1), "join"))
    {
        return Err("ASOF RIGHT JOIN and ASOF FULL JOIN aren't supported: number the rows of the right, (SELECT *, row_number() OVER () AS n FROM b) AS b, \
                    write ASOF JOIN or ASOF LEFT JOIN, and add the rows whose n has no match by UNION ALL BY NAME"
            .to_owned());
    }
    if is_other_side && named(solid(tokens, next + 1), "join") {
        return Err(format!("{} JOIN has the forms LEFT, INNER, SEMI and ANTI only", word.to_uppercase()));
    }
    Ok(None)
}

/// A parser over the tokens from a position on.
struct Clauses<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl Clauses<'_> {
    fn take_word(&mut self, word: &str) -> bool {
        let next = solid(self.tokens, self.at);
        let is_next = self.tokens.get(next).is_some_and(|token| is_word(token, word));
        if is_next {
            self.at = next + 1;
        }
        is_next
    }

    fn take(&mut self, expected: &Token) -> bool {
        let next = solid(self.tokens, self.at);
        let is_next = self.tokens.get(next) == Some(expected);
        if is_next {
            self.at = next + 1;
        }
        is_next
    }

    fn expect(&mut self, expected: &Token, clause: &str) -> ParseResult<()> {
        if self.take(expected) {
            return Ok(());
        }
        let found = self.tokens.get(solid(self.tokens, self.at)).map_or("the end".to_owned(), ToString::to_string);
        Err(format!("expected {expected} in {clause}, found {found}"))
    }

    /// The text of what `parse` takes.
    fn text_of<T>(&mut self, parse: impl FnOnce(&mut Parser) -> Result<T, ParserError>) -> ParseResult<(T, String)> {
        let rest = self.tokens[self.at..].to_vec();
        let dialect = GenericDialect {};
        let mut parser = Parser::new(&dialect).with_tokens(rest);
        let parsed = parse(&mut parser).map_err(|error| error.to_string())?;
        let end = (self.at + parser.index()).min(self.tokens.len());
        let text = self.tokens[self.at..end].iter().map(ToString::to_string).collect();
        self.at = end;
        Ok((parsed, text))
    }

    fn expression(&mut self) -> ParseResult<String> {
        self.text_of(|parser| parser.parse_expr()).map(|(_, text)| text.trim().to_owned())
    }

    fn relation(&mut self) -> ParseResult<String> {
        self.text_of(|parser| parser.parse_table_factor()).map(|(_, text)| text.trim().to_owned())
    }

    /// `ON …` or `USING (…)` as text.
    fn constraint(&mut self) -> ParseResult<Option<String>> {
        let (constraint, text) = self.text_of(|parser| parser.parse_join_constraint(false))?;
        Ok((constraint != JoinConstraint::None).then(|| text.trim().to_owned()))
    }

    /// A tolerance or an offset: `5s`, `-500ms`, or an expression.
    fn duration(&mut self) -> ParseResult<String> {
        if let Some((nanoseconds, end)) = durations::literal(self.tokens, solid(self.tokens, self.at)) {
            self.at = end;
            return Ok(durations::interval(nanoseconds));
        }
        self.expression()
    }
}

fn asof(tokens: &[Token], at: usize, flavour: JoinType) -> ParseResult<(String, usize)> {
    let mut clauses = Clauses { tokens, at };
    let relation = clauses.relation()?;
    let mut tolerance = None;
    let condition = match_condition(&mut clauses, &mut tolerance)?;
    take_tolerance(&mut clauses, &mut tolerance)?;
    let constraint = clauses.constraint()?;
    take_tolerance(&mut clauses, &mut tolerance)?;
    if condition.is_none() && constraint.is_none() {
        return Err("ASOF JOIN needs MATCH_CONDITION (…), ON or USING".to_owned());
    }
    // Snowflake keeps every left row, DuckDB's plain form only those with a match.
    let left_rows = match flavour {
        JoinType::Left => "left",
        JoinType::Inner => "inner",
        JoinType::Semi => "semi",
        JoinType::Anti => "anti",
        JoinType::Plain => {
            if condition.is_some() {
                "left"
            } else {
                "inner"
            }
        }
    };
    let condition = condition.unwrap_or_else(|| "'constraint', NULL".to_owned());
    let tolerance = tolerance.unwrap_or_else(|| "NULL".to_owned());
    let constraint = constraint.unwrap_or_default();
    let text =
        format!("LEFT JOIN {relation} {constraint} CROSS JOIN {ASOF_MARKER}('{left_rows}', {tolerance}, {condition}) ");
    Ok((text, clauses.at))
}

/// The arguments of the marker that say which rows match.
fn match_condition(clauses: &mut Clauses, tolerance: &mut Option<String>) -> ParseResult<Option<String>> {
    if !clauses.take_word("match_condition") {
        return Ok(None);
    }
    clauses.expect(&Token::LParen, "MATCH_CONDITION")?;
    let condition = if clauses.take_word("nearest") {
        let left = clauses.expression()?;
        clauses.expect(&Token::Comma, "MATCH_CONDITION (NEAREST …)")?;
        format!("'nearest', {left}, {}", clauses.expression()?)
    } else {
        format!("'compare', {}", clauses.expression()?)
    };
    if clauses.take(&Token::Comma) {
        if !clauses.take_word("tolerance") {
            return Err("expected TOLERANCE behind the comma in MATCH_CONDITION".to_owned());
        }
        *tolerance = Some(clauses.duration()?);
    }
    clauses.expect(&Token::RParen, "MATCH_CONDITION")?;
    Ok(Some(condition))
}

fn take_tolerance(clauses: &mut Clauses, tolerance: &mut Option<String>) -> ParseResult<()> {
    if !clauses.take_word("tolerance") {
        return Ok(());
    }
    if tolerance.is_some() {
        return Err("ASOF JOIN has two tolerances".to_owned());
    }
    *tolerance = Some(clauses.duration()?);
    Ok(())
}

fn window(tokens: &[Token], at: usize) -> ParseResult<(String, usize)> {
    let mut clauses = Clauses { tokens, at };
    let relation = clauses.relation()?;
    let Some(constraint) = clauses.constraint()?.filter(|text| !text.to_lowercase().starts_with("using")) else {
        return Err(
            "WINDOW JOIN needs ON with the bounds of the window, as in b.ts BETWEEN a.ts - … AND a.ts".to_owned()
        );
    };
    let mut prevailing = "exclude";
    for (word, of) in [("include", "include"), ("exclude", "exclude")] {
        if clauses.take_word(word) {
            if !clauses.take_word("prevailing") {
                return Err(format!("expected PREVAILING behind {}", word.to_uppercase()));
            }
            prevailing = of;
        }
    }
    let text = format!("LEFT JOIN {relation} {constraint} CROSS JOIN {WINDOW_MARKER}('{prevailing}') ");
    Ok((text, clauses.at))
}

fn horizon(tokens: &[Token], at: usize) -> ParseResult<(String, usize)> {
    let mut clauses = Clauses { tokens, at };
    let relation = clauses.relation()?;
    let mut tolerance = None;
    let condition = match_condition(&mut clauses, &mut tolerance)?.unwrap_or_else(|| "'constraint', NULL".to_owned());
    let constraint = clauses.constraint()?.ok_or("HORIZON JOIN needs ON or USING behind its relation")?;
    take_tolerance(&mut clauses, &mut tolerance)?;
    let offsets = offsets(&mut clauses)?;
    let alias = if clauses.take_word("as") {
        clauses.text_of(|parser| parser.parse_identifier())?.1.trim().to_owned()
    } else {
        "h".to_owned()
    };
    let rows: Vec<String> = offsets.iter().map(|offset| format!("({})", durations::interval(*offset))).collect();
    let tolerance = tolerance.unwrap_or_else(|| "NULL".to_owned());
    let text = format!(
        "CROSS JOIN (VALUES {}) AS {alias}(\"offset\") LEFT JOIN {relation} {constraint} \
         CROSS JOIN {ASOF_MARKER}('left', {tolerance}, {condition}, {alias}.\"offset\") ",
        rows.join(", ")
    );
    Ok((text, clauses.at))
}

/// Offsets of a horizon join at most.
const OFFSETS_MAX: usize = 10_000;

/// `RANGE FROM a TO b STEP c` or `LIST (a, b, …)`, in nanoseconds.
fn offsets(clauses: &mut Clauses) -> ParseResult<Vec<i64>> {
    if clauses.take_word("list") {
        clauses.expect(&Token::LParen, "LIST")?;
        let mut offsets = vec![offset(clauses)?];
        while clauses.take(&Token::Comma) {
            offsets.push(offset(clauses)?);
        }
        clauses.expect(&Token::RParen, "LIST")?;
        let mut sorted = offsets.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("LIST names an offset twice".to_owned());
        }
        return Ok(offsets);
    }
    if !(clauses.take_word("range") && clauses.take_word("from")) {
        return Err("HORIZON JOIN needs RANGE FROM … TO … STEP …, or LIST (…)".to_owned());
    }
    let from = offset(clauses)?;
    if !clauses.take_word("to") {
        return Err("expected TO in RANGE FROM … TO … STEP …".to_owned());
    }
    let to = offset(clauses)?;
    if !clauses.take_word("step") {
        return Err("expected STEP in RANGE FROM … TO … STEP …".to_owned());
    }
    let step = offset(clauses)?;
    if step <= 0 || from > to {
        return Err("RANGE needs a positive STEP and an end at or behind its begin".to_owned());
    }
    let mut offsets = Vec::new();
    let mut next = Some(from);
    while let Some(offset) = next.filter(|offset| *offset <= to) {
        if offsets.len() == OFFSETS_MAX {
            return Err(format!("a HORIZON JOIN has at most {OFFSETS_MAX} offsets"));
        }
        offsets.push(offset);
        next = offset.checked_add(step);
    }
    Ok(offsets)
}

fn offset(clauses: &mut Clauses) -> ParseResult<i64> {
    let at = solid(clauses.tokens, clauses.at);
    let (nanoseconds, end) = durations::literal(clauses.tokens, at)
        .or_else(|| durations::interval_literal(clauses.tokens, at))
        .ok_or("expected an offset such as -500ms, 0s or INTERVAL '5 seconds'")?;
    clauses.at = end;
    Ok(nanoseconds)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> String {
        rewrite(text).unwrap().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn statements_without_our_joins_are_left_alone() {
        for text in [
            "select * from a join b using (x)",
            "select sum(x) over w from a join b on true window w as (order by t)",
            "select 'asof join' from a",
            "select asof, window from a join b on a.asof = b.asof",
            "select 'unfinished asof join",
        ] {
            assert_eq!(rewrite(text).unwrap(), None, "{text}");
        }
    }

    #[test]
    fn both_spellings_become_marked_joins() {
        assert_eq!(
            rewritten("select * from a asof join b match_condition (a.t >= b.t) on a.k = b.k where a.x = 'It''s'"),
            "select * from a LEFT JOIN b on a.k = b.k CROSS JOIN __asof_join('left', NULL, 'compare', a.t >= b.t) \
             where a.x = 'It''s'"
        );
        assert_eq!(
            rewritten("select * from a asof join b using (k, t) tolerance 5s"),
            "select * from a LEFT JOIN b using (k, t) CROSS JOIN \
             __asof_join('inner', INTERVAL '5000000000 nanoseconds', 'constraint', NULL)"
        );
    }

    #[test]
    fn joins_within_joins_are_rewritten() {
        assert_eq!(
            rewritten("select 1 from a asof left join (select * from b asof join c using (t)) d using (t)"),
            "select 1 from a LEFT JOIN (select * from b LEFT JOIN c using (t) CROSS JOIN \
             __asof_join('inner', NULL, 'constraint', NULL) ) d using (t) CROSS JOIN \
             __asof_join('left', NULL, 'constraint', NULL)"
        );
    }

    #[test]
    fn offsets_are_listed() {
        let text = rewritten("select 1 from a horizon join b on a.t >= b.t range from -1s to 1s step 1s as m");
        let lists = "(VALUES (INTERVAL '-1000000000 nanoseconds'), (INTERVAL '0 nanoseconds'), \
                     (INTERVAL '1000000000 nanoseconds')) AS m(\"offset\") LEFT JOIN b on a.t >= b.t";
        assert!(text.contains(lists), "{text}");
    }

    #[test]
    fn what_is_misspelled_is_said() {
        let error = |text: &str| rewrite(text).unwrap_err();
        assert!(error("select 1 from a asof join b").contains("needs MATCH_CONDITION"));
        assert!(error("select 1 from a asof right join b using (t)").contains("UNION ALL BY NAME"));
        assert!(error("select 1 from a asof full outer join b using (t)").contains("UNION ALL BY NAME"));
        assert!(error("select 1 from a asof cross join b").contains("LEFT, INNER"));
        assert!(error("select 1 from a window join b using (t)").contains("needs ON"));
        assert!(error("select 1 from a window join b on a.t = b.t include").contains("PREVAILING"));
        assert!(error("select 1 from a horizon join b using (t)").contains("RANGE"));
    }
}
