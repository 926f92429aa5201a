//! Names that are nearly another, for errors that say what may have been meant.

/// Names that an error lists.
const LISTED_MAX: usize = 10;

/// The name that is nearest to a word, if at most a third of the word's letters differ. Upper and lower case are the same letters.
pub fn nearest_name<T: AsRef<str>>(word: &str, names: impl IntoIterator<Item = T>) -> Option<T> {
    let word = letters(word);
    let differences_max = word.len() / 3;
    let distance = |name: T| {
        let other = letters(name.as_ref());
        // Words of so different lengths aren't compared, however long they are.
        let may_be_near = word.len().abs_diff(other.len()) <= differences_max;
        let distance = if may_be_near { differences(&word, &other) } else { usize::MAX };
        (distance <= differences_max).then_some((distance, name))
    };
    let nearest = names.into_iter().filter_map(distance).min_by_key(|(distance, _)| *distance);
    nearest.map(|(_, name)| name)
}

/// The question about the name that is nearest to a word.
pub fn did_you_mean<T: AsRef<str>>(word: &str, names: impl IntoIterator<Item = T>) -> Option<String> {
    nearest_name(word, names).map(|name| format!("did you mean {}?", name.as_ref()))
}

/// The end of an error about a name that a database doesn't have: the nearest name, and some of those that it has.
pub fn names_instead<T: AsRef<str>>(word: &str, existing: &[T]) -> String {
    match did_you_mean(word, existing) {
        Some(question) => format!("{question} This database has {}", list(existing)),
        None => format!("this database has {}", list(existing)),
    }
}

fn list<T: AsRef<str>>(names: &[T]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let shown: Vec<&str> = names.iter().take(LISTED_MAX).map(AsRef::as_ref).collect();
    let rest = match names.len().saturating_sub(LISTED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{rest}", shown.join(", "))
}

fn letters(word: &str) -> Vec<char> {
    word.to_lowercase().chars().collect()
}

/// Letters to insert, to leave out or to replace until two words are equal; two neighbours that changed places are one difference (optimal string
/// alignment).
fn differences(word: &[char], other: &[char]) -> usize {
    // Distances from the beginnings of `word` that are two letters shorter, one letter shorter, and the present one, to all beginnings of `other`.
    let mut before_last = vec![0; other.len() + 1];
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for row in 1..=word.len() {
        let mut present = vec![row];
        for column in 1..=other.len() {
            let replaced = last[column - 1] + usize::from(word[row - 1] != other[column - 1]);
            let mut distance = replaced.min(last[column] + 1).min(present[column - 1] + 1);
            if row > 1 && column > 1 && word[row - 2..row] == [other[column - 1], other[column - 2]] {
                distance = distance.min(before_last[column - 2] + 1);
            }
            present.push(distance);
        }
        (before_last, last) = (last, present);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_of_letters_and_of_neighbours_that_changed_places() {
        let of = |word: &str, other: &str| differences(&letters(word), &letters(other));
        for (word, other, expected) in [
            ("trade", "trade", 0),
            ("trade", "TRADE", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("trad", "trade", 1),
            ("from", "form", 1),
            ("kitten", "sitting", 3),
            ("größe", "grösse", 2),
        ] {
            assert_eq!(of(word, other), expected, "{word} {other}");
            assert_eq!(of(other, word), expected, "{other} {word}");
        }
    }

    #[test]
    fn the_nearest_name_is_near() {
        assert_eq!(nearest_name("trad", ["quote", "tread", "trade"]), Some("tread"));
        assert_eq!(nearest_name("Trades", ["quote", "trade"]), Some("trade"));
        assert_eq!(nearest_name("ab", ["abc"]), None);
        assert_eq!(nearest_name("nothing", ["quote", "trade"]), None);
        assert_eq!(nearest_name("bar_5m", ["bar_1h", "bar_5s", "bar_5min"]), Some("bar_5s"));
    }

    #[test]
    fn a_long_list_is_cut() {
        let names: Vec<String> = (10..70).map(|number| format!("bar_{number}")).collect();
        let said = names_instead("bar_7", &names);
        assert!(said.starts_with("did you mean bar_17? This database has bar_10, bar_11"), "{said}");
        assert!(said.ends_with("bar_19 and 50 more"), "{said}");
        assert_eq!(names_instead("x", &names[..1]), "this database has bar_10");
        assert_eq!(names_instead::<&str>("x", &[]), "this database has none");
    }
}
