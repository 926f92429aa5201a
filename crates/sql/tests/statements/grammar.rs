//! Statements of a seed: made by a small grammar of any function over any arguments, or from those of the corpus by changes to their words.

use splay_mutate::Random;

use crate::corpus::{FRAMES, PIECES};

/// Makes statements.
pub struct Grammar {
    pub corpus: Vec<String>,
    /// Names of functions.
    pub functions: Vec<String>,
}

impl Grammar {
    /// The statement of a seed.
    pub fn statement(&self, seed: u64) -> String {
        let mut random = Random::new(seed);
        match random.below(4) {
            0 => self.changed(&mut random),
            1 => self.nested(&mut random),
            _ => self.framed(&mut random),
        }
    }

    fn framed(&self, random: &mut Random) -> String {
        let depth = random.below(4);
        let expression = self.expression(random, depth);
        pick(random, FRAMES).replace("{}", &expression)
    }

    fn expression(&self, random: &mut Random, depth: usize) -> String {
        if depth == 0 {
            return pick(random, PIECES).to_owned();
        }
        let inner = |random: &mut Random| self.expression(random, depth - 1);
        match random.below(8) {
            0 => format!("({} {} {})", inner(random), operator(random), inner(random)),
            1 => format!(
                "cast({} as {})",
                inner(random),
                pick(random, &["text", "bigint", "double", "date", "timestamp", "decimal(38, 0)", "int[]"])
            ),
            2 => format!("case when {} then {} else {} end", inner(random), inner(random), inner(random)),
            _ => {
                let name = &self.functions[random.below(self.functions.len())];
                let arguments: Vec<String> = (0..random.below(5)).map(|_| inner(random)).collect();
                format!("{name}({})", arguments.join(", "))
            }
        }
    }

    /// The same step many times over.
    fn nested(&self, random: &mut Random) -> String {
        let levels = [2, 8, 30, 60][random.below(4)];
        let start = pick(random, PIECES);
        let step = match random.below(4) {
            0 => format!("x {} x", operator(random)),
            1 => format!("{}(x, x)", self.functions[random.below(self.functions.len())]),
            2 => format!("concat(x, {})", pick(random, PIECES)),
            _ => format!("{}(x)", self.functions[random.below(self.functions.len())]),
        };
        let rest = ["", " where x is not null", " order by x", " group by x"][random.below(4)];
        (0..levels).fold(format!("select {start} as x from tick"), |query, _| {
            format!("select {step} as x from ({query}){rest}")
        })
    }

    /// A statement of the corpus with some words of others, some repeated, some gone.
    fn changed(&self, random: &mut Random) -> String {
        let mut words = words(&self.corpus[random.below(self.corpus.len())]);
        for _ in 0..=random.below(4) {
            let at = random.below(words.len());
            match random.below(5) {
                0 => drop((words.len() > 1).then(|| words.remove(at))),
                1 => words.insert(at, pick(random, PIECES).to_owned()),
                2 => words[at] = pick(random, PIECES).to_owned(),
                3 => {
                    let other = crate::grammar::words(&self.corpus[random.below(self.corpus.len())]);
                    let from = random.below(other.len());
                    let length = 1 + random.below(8.min(other.len() - from));
                    words.splice(at..at, other[from..from + length].iter().cloned());
                }
                _ => {
                    let length = 1 + random.below((words.len() - at).min(10));
                    let repeated = vec![words[at..at + length].to_vec(); [1, 2, 20, 300][random.below(4)]].concat();
                    words.splice(at..at, repeated);
                }
            }
        }
        words.concat()
    }
}

fn operator(random: &mut Random) -> &'static str {
    pick(
        random,
        &["+", "-", "*", "/", "%", "||", "=", "<", "<>", "and", "or", "like", "~", "is distinct from", "&", "<<"],
    )
}

fn pick(random: &mut Random, from: &[&'static str]) -> &'static str {
    from[random.below(from.len())]
}

/// The words of a text, with what is between them.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let kind = |c: char| {
        if c.is_alphanumeric() || c == '_' {
            0
        } else if c.is_whitespace() {
            1
        } else {
            2
        }
    };
    for c in text.chars() {
        match words.last_mut() {
            Some(word) if kind(c) != 2 && word.chars().last().is_some_and(|last| kind(last) == kind(c)) => word.push(c),
            _ => words.push(c.to_string()),
        }
    }
    if words.is_empty() { vec![" ".to_owned()] } else { words }
}
