//! Finds the relations in the text of a statement: after `FROM` and `JOIN`, after commas between them, and in brackets there. A word in a
//! bracket or a list of expressions is no relation, even if a table or view has its name.

use datafusion::sql::sqlparser::tokenizer::Token;

use crate::syntax::is_word;

/// Words behind which commas separate expressions instead of relations.
const ENDS: [&str; 10] =
    ["select", "where", "by", "having", "qualify", "limit", "values", "union", "intersect", "except"];

/// The contents of a bracket, or the whole text.
#[derive(Debug, Default)]
struct Level {
    /// Whether commas separate relations.
    has_relations: bool,
    /// Whether a `FROM` belongs to a query, unlike that of `extract(year FROM time)`.
    is_query: bool,
}

/// For each token, whether a relation may follow it. Reads each token once.
pub(crate) fn before_relations(tokens: &[Token]) -> Vec<bool> {
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level { is_query: true, ..Level::default() };
    let mut last: Option<usize> = None;
    let mut is_before_relation = vec![false; tokens.len()];
    for (at, token) in tokens.iter().enumerate() {
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        let is_expected = last.is_some_and(|last| is_before_relation[last]);
        let follows = |word: &str| last.is_some_and(|last| is_word(&tokens[last], word));
        let is_first = last.is_some_and(|last| tokens[last] == Token::LParen);
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                let has_relations = *token == Token::LParen && is_expected;
                is_before_relation[at] = has_relations;
                outer.push(std::mem::replace(&mut level, Level { has_relations, is_query: false }));
            }
            Token::RParen | Token::RBracket | Token::RBrace => level = outer.pop().unwrap_or_default(),
            Token::Comma => is_before_relation[at] = level.has_relations,
            Token::Word(_) if last.is_some_and(|last| tokens[last] == Token::Period) => {}
            Token::Word(_) if is_word(token, "from") => {
                let is_clause = (level.is_query || is_first) && !follows("distinct");
                level.is_query |= is_first;
                level.has_relations |= is_clause;
                is_before_relation[at] = is_clause;
            }
            Token::Word(_) if is_word(token, "join") => {
                (level.has_relations, is_before_relation[at]) = (true, true);
            }
            Token::Word(_) if is_word(token, "lateral") => is_before_relation[at] = is_expected,
            // `PIVOT trade ON …`, and not `FROM trade PIVOT (…)`.
            Token::Word(_) if ["pivot", "unpivot"].iter().any(|word| is_word(token, word)) => {
                is_before_relation[at] = is_first || !level.has_relations;
            }
            Token::Word(_) if is_word(token, "table") => is_before_relation[at] = true,
            Token::Word(_) => {
                let is_one_of = |words: &[&str]| words.iter().any(|word| is_word(token, word));
                level.is_query |= is_one_of(&["select", "with", "union", "intersect", "except"]);
                level.has_relations &= !is_one_of(&ENDS);
            }
            _ => {}
        }
        last = Some(at);
    }
    is_before_relation
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::views::{is_name, tokens};

    /// For each `v` of the text, whether a relation is possible there.
    fn places(text: &str) -> Vec<bool> {
        let tokens = tokens(text).unwrap();
        let before = before_relations(&tokens);
        let is_solid = |at: &usize| !matches!(tokens[*at], Token::Whitespace(_));
        let places = (0..tokens.len()).filter(|at| is_name(&tokens[*at], "v"));
        places.map(|at| (0..at).rev().find(is_solid).is_some_and(|last| before[last])).collect()
    }

    #[test]
    fn relations_are_told_from_words_of_expressions() {
        for text in [
            "select * from v",
            "select 1 from a, v",
            "select 1 from a join b on f(a.x, 1) = b.x, v",
            "select 1 from a join b using (x), v",
            "select 1 from a asof join v on a.x = 1",
            "select 1 from (v)",
            "select 1 from ((v join b on (a = b)))",
            "select 1 from a, (b join c on b.x = c.x, v)",
            "select 1 from (select a, b from c where d in (1, 2) order by a, b) x, v",
            "select 1 from a at commit 3, v",
            "select 1 from a cross join lateral (v)",
            "select 1 from unnest([1, 2]) as x (y, z), v",
            "select 1 from a join b on a.limit = b.limit, v",
            "from v select a",
            "select max(a) from b where c in (select d from e, v)",
            "select exists (from v)",
            "select exists (with x as (select 1) from v)",
            "with x as (select 1 from v) select 1 from x",
            "(select 1 from a) union all (select 1 from v)",
            "select 1 from (values (1), (2)) x, v",
            "table v",
            "pivot v on a",
            "pivot (v) on a",
            "select 1 from (unpivot v on a, b) c",
        ] {
            assert_eq!(places(text), [true], "{text}");
        }
        for text in [
            "select v from a",
            "select a, v from b",
            "select max(v) from a",
            "select max(a, v) from b",
            "select f((v)) from a",
            "select 1 from a where (v = 1)",
            "select 1 from a where b in (v)",
            "select 1 from a where b in (1, v)",
            "select 1 from a join b using (v)",
            "select 1 from a join b using (c, v)",
            "select 1 from a join b on (v = 1)",
            "select 1 from a asof join b match_condition (v >= 1)",
            "select 1 from a group by b, v",
            "select 1 from a group by grouping sets ((b), (v, b))",
            "select 1 from a order by b, v limit 1",
            "select sum(b) over (partition by c, v order by d) from a",
            "select 1 from unnest(v)",
            "select 1 from a, unnest(v)",
            "select 1 from a, unnest([b, v])",
            "select 1 from a as b (v)",
            "select 1 from a as b (c, v)",
            "select extract(year from v) from a",
            "select substring(b from v) from a",
            "select 1 from a where b is distinct from v",
            "select 1 from a where b is not distinct from v",
            "select * except (v) from a",
            "select 1 from (values (1), (v)) x",
            "select 1 from a union select b, v from c",
            "select 1 from a pivot (v for b in (1))",
            "from a select b, v",
            "select 1 from (select max(v) from a) b",
        ] {
            assert_eq!(places(text), [false], "{text}");
        }
    }

    #[test]
    fn brackets_that_do_not_match_are_no_fault() {
        for text in [")))) select 1 from v", "select ((((", "]}) from v"] {
            assert_eq!(before_relations(&tokens(text).unwrap()).len(), tokens(text).unwrap().len());
        }
    }
}
