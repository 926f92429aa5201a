//! Names of fields, and the columns that their values go to.
//!
//! Records of a topic or a feed have their fields in one order. So the search for a name begins after the last one that was found, and takes one
//! comparison of texts for each field.

/// A tree of names: `data.price` is the field `price` of the field `data`.
#[derive(Debug, Default)]
pub struct Fields {
    entries: Vec<Entry>,
    is_folded: bool,
}

#[derive(Debug)]
struct Entry {
    name: String,
    node: Field,
}

/// The columns that a field fills, itself or by its own fields.
#[derive(Debug, Default)]
pub struct Field {
    /// The columns that its value goes to.
    pub columns: Vec<usize>,
    /// The fields within it that columns take.
    pub inner: Fields,
}

impl Fields {
    /// Adds a path of names between dots, whose value goes to a column.
    ///
    /// # Errors
    /// A path with an empty name.
    pub fn add(&mut self, path: &str, column: usize) -> Result<(), String> {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        if name.is_empty() {
            return Err(format!("{path:?} is no name of a field"));
        }
        let place = match self.entries.iter().position(|entry| entry.name == name) {
            Some(place) => place,
            None => {
                self.entries.push(Entry { name: name.to_owned(), node: Field::default() });
                self.entries.len() - 1
            }
        };
        let node = &mut self.entries[place].node;
        match rest {
            Some(rest) => node.inner.add(rest, column),
            None => {
                node.columns.push(column);
                Ok(())
            }
        }
    }

    /// Makes names match without regard to case, as those of columns do.
    pub fn fold_case(&mut self) {
        self.is_folded = true;
    }

    /// A field by its name, with its place. The search begins at `next`, which is then set to the place after the field.
    pub fn find(&self, name: &str, next: &mut usize) -> Option<(usize, &Field)> {
        let count = self.entries.len();
        for step in 0..count {
            let place = (*next + step) % count;
            let entry = &self.entries[place];
            if entry.name == name || (self.is_folded && entry.name.eq_ignore_ascii_case(name)) {
                *next = place + 1;
                return Some((place, &entry.node));
            }
        }
        None
    }

    /// The field at a place that [`Fields::find`] gave.
    #[must_use]
    pub fn at(&self, place: usize) -> &Field {
        &self.entries[place].node
    }

    /// The number of fields at this level.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
