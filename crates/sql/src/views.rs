//! Inserts the queries of views into the `WITH` of a statement that reads them: `SELECT … FROM v` becomes `WITH "v"
//! AS (query of v) SELECT … FROM v`.
//!
//! - So a view costs as much as its query as a sub-query, and has the same tick plans. A cached plan is never used
//!   after one of its views has changed, because the text differs.
//! - A view that another one reads comes first. A name that the statement's own `WITH` defines means that query.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use splay_store::View;

use crate::error::{Result, fault};
use crate::from_clauses::before_relations;
use crate::limits;
use crate::statements::quoted;
use crate::syntax::{is_word, solid};

/// First words of queries.
const QUERIES: [&str; 6] = ["select", "with", "from", "values", "table", "unpivot"];

/// Most levels of views that read each other.
const NESTED_MAX: usize = 64;

/// Adds the queries of the views that a statement reads, as `query_of` returns them.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) for views that read each other in a circle, for a commit of a view, and for texts that become too long.
pub(crate) fn with_views<'t>(
    views: &[View],
    text: &'t str,
    query_of: &mut dyn FnMut(&View) -> Result<String>,
) -> Result<Cow<'t, str>> {
    if views.is_empty() {
        return Ok(Cow::Borrowed(text));
    }
    let Some(mut tokens) = tokens(text) else { return Ok(Cow::Borrowed(text)) };
    let Some(at) = begin_of_query(&tokens) else { return Ok(Cow::Borrowed(text)) };
    let mut needed = NeededViews::new(views, query_of);
    needed.add_those_of(&mut tokens)?;
    if needed.queries.is_empty() {
        return Ok(Cow::Borrowed(text));
    }
    let queries = needed.text();
    let has_with = is_word(&tokens[at], "with");
    let next = solid(&tokens, at + 1);
    let is_recursive = has_with && tokens.get(next).is_some_and(|token| is_word(token, "recursive"));
    let behind = if is_recursive { next + 1 } else { at + usize::from(has_with) };
    let (before, rest) = (written(&tokens[..behind]), written(&tokens[behind..]));
    let text = match has_with {
        true => format!("{before} {queries},{rest}"),
        false => format!("{before}WITH {queries} {rest}"),
    };
    limits::check_text(&text)?;
    Ok(Cow::Owned(text))
}

/// The uses of a view's name in a text.
#[derive(Debug, Default)]
struct ViewMentions {
    /// The statement has a query of this name in a `WITH`.
    is_defined: bool,
    /// The places where its name is a relation, with the schema before it.
    places: Vec<Range<usize>>,
}

/// The views that a statement needs.
struct NeededViews<'a, 'q> {
    views: &'a [View],
    query_of: &'q mut dyn FnMut(&View) -> Result<String>,
    /// The views that are being resolved, each read by the one before.
    path: Vec<&'a str>,
    /// Name and text of each view, behind the views that it reads.
    queries: Vec<(&'a str, String)>,
}

impl<'a, 'q> NeededViews<'a, 'q> {
    fn new(views: &'a [View], query_of: &'q mut dyn FnMut(&View) -> Result<String>) -> NeededViews<'a, 'q> {
        NeededViews { views, query_of, path: Vec::new(), queries: Vec::new() }
    }

    /// Adds the views that a text reads. Removes the schema before their names, because a query of a `WITH` has none.
    fn add_those_of(&mut self, tokens: &mut Vec<Token>) -> Result<()> {
        let mut removed = Vec::new();
        for (number, mentions) in self.mentions(tokens) {
            let view = &self.views[number];
            if mentions.is_defined || mentions.places.is_empty() {
                continue;
            }
            for place in mentions.places {
                refuse_commits(tokens, place.end, &view.name)?;
                removed.push(place.start..place.end - 1);
            }
            self.add(view)?;
        }
        let removed: HashSet<usize> = removed.into_iter().flatten().collect();
        let mut places = 0..;
        tokens.retain(|_| places.next().is_none_or(|place| !removed.contains(&place)));
        Ok(())
    }

    /// Finds the mentions of views, by the view's number.
    fn mentions(&self, tokens: &[Token]) -> BTreeMap<usize, ViewMentions> {
        let numbers = self.views.iter().enumerate().map(|(number, view)| (view.name.to_lowercase(), number));
        mentions(tokens, &numbers.collect())
    }

    fn add(&mut self, view: &'a View) -> Result<()> {
        if self.path.contains(&view.name.as_str()) {
            return fault(format!("the view {} reads itself: {} -> {0}", view.name, self.path.join(" -> ")));
        }
        if self.path.len() == NESTED_MAX {
            return fault(format!("more than {NESTED_MAX} views read one another: {}", self.path.join(" -> ")));
        }
        if self.queries.iter().any(|(name, _)| *name == view.name) {
            return Ok(());
        }
        let Some(mut tokens) = tokens(&(self.query_of)(view)?) else {
            return fault(format!("the query of the view {} can't be read", view.name));
        };
        // A materialized view reads only tables, and no table has the name of a view.
        if view.materialized.is_none() {
            self.path.push(&view.name);
            self.add_those_of(&mut tokens)?;
            self.path.pop();
        }
        self.queries.push((&view.name, as_query(view, &tokens)));
        Ok(())
    }

    /// The queries for a `WITH`.
    fn text(&self) -> String {
        self.queries.iter().map(|(_, query)| query.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// Finds the mentions of names in lower case, by their numbers, in one pass over the tokens.
fn mentions(tokens: &[Token], numbers: &HashMap<String, usize>) -> BTreeMap<usize, ViewMentions> {
    let before_relations = before_relations(tokens);
    let is_relation = |place: &Range<usize>| before(tokens, place.start).is_some_and(|(at, _)| before_relations[at]);
    let mut by_number: BTreeMap<usize, ViewMentions> = BTreeMap::new();
    for (at, token) in tokens.iter().enumerate() {
        let Token::Word(word) = token else { continue };
        let Some(number) = numbers.get(&word.value.to_lowercase()) else { continue };
        let mentions = by_number.entry(*number).or_default();
        mentions.is_defined |= is_defined(tokens, at);
        mentions.places.extend(relation(tokens, at).filter(is_relation));
    }
    by_number
}

/// A view as a query of a `WITH`.
fn as_query(view: &View, query: &[Token]) -> String {
    let columns: Vec<String> = view.columns.iter().map(|name| quoted(name)).collect();
    let columns = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
    // The query stands on a line of its own, because it may end with a comment.
    format!("{}{columns} AS ({}\n)", quoted(&view.name), written(query))
}

/// A select of all rows of a new view, or of an existing one with a new query, among other views.
///
/// # Errors
/// [`Error::Statement`](crate::Error::Statement) if it would read itself.
pub(crate) fn select_all(views: &[View], view: &View) -> Result<String> {
    let mut query_of = as_written;
    let mut needed = NeededViews::new(views, &mut query_of);
    let Some(mut tokens) = tokens(&view.query) else { return fault("the query of the view can't be read") };
    needed.add_those_of(&mut tokens)?;
    if needed.queries.iter().any(|(name, _)| name.eq_ignore_ascii_case(&view.name)) {
        return fault(format!("the view {} would read itself", view.name));
    }
    needed.queries.push((&view.name, as_query(view, &tokens)));
    Ok(format!("WITH {} SELECT * FROM \"{}\"", needed.text(), view.name))
}

/// Whether a query reads a table or a view of a name, as far as the words around the name tell. No query that does is missed. One that has a
/// column of the name in a list, or a query of the name in a `WITH`, is taken for one that does.
pub(crate) fn reads(query: &str, name: &str) -> bool {
    let Some(tokens) = tokens(query) else { return true };
    let mut named = tokens.iter().enumerate().filter(|(_, token)| is_name(token, name)).map(|(at, _)| at);
    named.any(|at| relation(&tokens, at).is_some())
}

/// Whether a query names a table or view in the place of a relation, and has no query of that name in a `WITH`.
pub(crate) fn reads_relation(query: &str, name: &str) -> bool {
    let Some(tokens) = tokens(query) else { return true };
    let by_number = mentions(&tokens, &HashMap::from([(name.to_lowercase(), 0)]));
    by_number.values().any(|mentions| !mentions.is_defined && !mentions.places.is_empty())
}

/// Whether a name is among the words of a query.
pub(crate) fn names(query: &str, name: &str) -> bool {
    tokens(query).is_none_or(|tokens| tokens.iter().any(|token| is_name(token, name)))
}

/// The query of a view over all rows of its tables.
#[expect(clippy::unnecessary_wraps, reason = "another way to give a query may fail")]
pub(crate) fn as_written(view: &View) -> Result<String> {
    Ok(view.query.clone())
}

pub(crate) fn written(tokens: &[Token]) -> String {
    tokens.iter().map(ToString::to_string).collect()
}

pub(crate) fn tokens(text: &str) -> Option<Vec<Token>> {
    Tokenizer::new(&GenericDialect {}, text).with_unescape(false).tokenize().ok()
}

/// The position of the first token of a statement's query.
pub(crate) fn begin_of_query(tokens: &[Token]) -> Option<usize> {
    let first = solid(tokens, 0);
    let begins = |token: &Token| QUERIES.iter().any(|word| is_word(token, word));
    let token = tokens.get(first)?;
    if begins(token) || *token == Token::LParen {
        return Some(first);
    }
    let explains = ["explain", "describe", "desc"].iter().any(|word| is_word(token, word));
    let query = (first..tokens.len()).find(|at| begins(&tokens[*at]))?;
    explains.then_some(query)
}

pub(crate) fn is_name(token: &Token, name: &str) -> bool {
    matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case(name))
}

/// The last token before a position that isn't white space, and its position.
fn before(tokens: &[Token], at: usize) -> Option<(usize, &Token)> {
    tokens[..at].iter().enumerate().rev().find(|(_, token)| !matches!(token, Token::Whitespace(_)))
}

/// Whether a position has the name of a query in a `WITH`.
pub(crate) fn is_defined(tokens: &[Token], at: usize) -> bool {
    let is_item = before(tokens, at).is_some_and(|(_, token)| {
        *token == Token::Comma || ["with", "recursive"].iter().any(|word| is_word(token, word))
    });
    let mut next = solid(tokens, at + 1);
    if tokens.get(next) == Some(&Token::LParen) {
        let is_listed = |token: &&Token| matches!(token, Token::Word(_) | Token::Comma | Token::Whitespace(_));
        let columns = tokens[next + 1..].iter().take_while(is_listed).count();
        if tokens.get(next + 1 + columns) != Some(&Token::RParen) {
            return false;
        }
        next = solid(tokens, next + columns + 2);
    }
    let is_query =
        |token: &Token| *token == Token::LParen || ["materialized", "not"].iter().any(|word| is_word(token, word));
    is_item
        && tokens.get(next).is_some_and(|token| is_word(token, "as"))
        && tokens.get(solid(tokens, next + 1)).is_some_and(is_query)
}

/// The range of the name at a position, including its schema, if the words around it allow a relation there.
pub(crate) fn relation(tokens: &[Token], at: usize) -> Option<Range<usize>> {
    if matches!(tokens.get(solid(tokens, at + 1)), Some(Token::LParen | Token::Period)) {
        return None;
    }
    let mut start = at;
    // At most a catalog and a schema.
    for schema in ["public", "splay"] {
        let Some((period, Token::Period)) = before(tokens, start) else { break };
        match before(tokens, period) {
            Some((place, token)) if is_name(token, schema) => start = place,
            _ => return None,
        }
    }
    let (_, token) = before(tokens, start)?;
    let begins = matches!(token, Token::Comma | Token::LParen)
        || ["from", "join", "table", "pivot", "unpivot"].iter().any(|word| is_word(token, word));
    begins.then_some(start..at + 1)
}

fn refuse_commits(tokens: &[Token], behind: usize, name: &str) -> Result<()> {
    let at = solid(tokens, behind);
    let what = solid(tokens, at + 1);
    let is_at = tokens.get(at).is_some_and(|token| is_word(token, "at"));
    if is_at && tokens.get(what).is_some_and(|token| is_word(token, "commit") || is_word(token, "time")) {
        return fault(format!("{name} is a view, which has no commits: write AT behind the tables of its query"));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use splay_store::Database;

    use super::*;

    fn expanded(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::create(folder.path().join("db")).unwrap();
        for (name, query) in [("v", "select 1 as a"), ("w", "select * from V -- all"), ("other", "select 2")] {
            let view = View::new(name, Vec::new(), query);
            database.create_view(view, false).unwrap();
        }
        with_views(&database.views().unwrap(), text, &mut as_written).unwrap().into_owned()
    }

    #[test]
    fn queries_stand_in_the_with_of_those_who_read_them() {
        let (v, w) = ("\"v\" AS (select 1 as a\n)", "\"w\" AS (select * from V -- all\n)");
        for (text, expected) in [
            ("select * from v", format!("WITH {v} select * from v")),
            ("-- why\nselect a from W", format!("-- why\nWITH {v}, {w} select a from W")),
            (
                "with x as (select * from v) select 1 from x",
                format!("with {v}, x as (select * from v) select 1 from x"),
            ),
            (
                "with recursive x as (select 1) select 1 from x, v",
                format!("with recursive {v}, x as (select 1) select 1 from x, v"),
            ),
            ("explain analyze select * from splay . public.v", format!("explain analyze WITH {v} select * from v")),
            ("(select 1) union (select a from \"V\")", format!("WITH {v} (select 1) union (select a from \"V\")")),
            ("describe select * from v", format!("describe WITH {v} select * from v")),
        ] {
            assert_eq!(expanded(text), expected);
        }
        for text in [
            "select v from t",
            "select 'from v' as w",
            "select t.v, v.x from t as v",
            "select * from v(1)",
            "select * from schema.v",
            "with v as (select 3 as a) select * from v",
            "with x as (select 1), v (a) as materialized (select 3) select * from v",
            // A column with the name of a view.
            "select max(v) from t",
            "select a, v from t where b in (v, 1) group by a, v order by (v), v",
            "select a from t join u using (a, v)",
            "select extract(hour from v) from t where a is distinct from v",
            "show columns from v",
            "describe v",
            "select * from 'v",
            "delete from v",
            "",
        ] {
            assert_eq!(expanded(text), text);
        }
    }

    #[test]
    fn what_a_query_reads_is_found() {
        for query in [
            "select * from Trade",
            "select 1 from quote q asof join \"trade\" t on q.time >= t.time",
            "select 1 from x, splay.public.trade where 1 = 1",
            "with x as (select * from trade at commit 3) select * from x",
            "select (select max(price) from trade) as most",
            "with trade as (select * from trade where size > 1) select * from trade",
            "select time, trade from deal",
        ] {
            assert!(reads(query, "trade"), "{query}");
        }
        for query in [
            "select trade.price from trades as trade",
            "select 'from trade' as text from trades -- trade",
            "select trade(1) from other.trade",
        ] {
            assert!(!reads(query, "trade"), "{query}");
        }
    }

    /// A text that another user may send is scanned once, whatever its form.
    #[test]
    fn long_texts_are_looked_at_once() {
        for (begin, part, end) in [
            ("v ", ",v(", ""),
            ("v ", ",v ", ""),
            ("v ", "from v ", ""),
            ("v ", "with v(a,", ""),
            ("", "(", "v"),
            ("v ", " ", "v"),
        ] {
            let text = format!("select 1 from {begin}{}{end}", part.repeat(100_000));
            assert!(expanded(&text).contains("AS (select 1 as a"));
        }
    }
}
