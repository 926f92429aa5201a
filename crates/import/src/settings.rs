//! The settings of an import.

use std::path::PathBuf;

use splay_store::{ColumnType, DayStart, Reference};

use crate::csv::delimiter::Delimiter;
use crate::csv::number_form::NumberForm;
use crate::format::Format;
use crate::recipe::Recipe;

/// What becomes of a row that can't be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum OnError {
    /// The load stops there. The default.
    #[default]
    Stop,
    /// The row goes to a CSV file (`file,line,column,reason,text`) and the load goes on. In Parquet, Arrow and DBN files these are rows with a
    /// value that the column can't hold, or without a time; their line is the number of the row.
    Quarantine {
        /// The file; it is made at the first such row, and an older one is replaced.
        path: PathBuf,
    },
}

/// How files are to be read. `ImportSettings::default()` finds everything out by itself.
#[derive(Debug, Clone, Default)]
pub struct ImportSettings {
    /// A description of the files. Default: none, types are sniffed.
    pub recipe: Option<Recipe>,
    /// The format. Default: by name and content.
    pub format: Option<Format>,
    /// The character between the fields of delimited text. Default: the recipe's or the format's, or sniffed.
    pub delimiter: Option<Delimiter>,
    /// Whether text files begin with column names. Default: sniffed.
    pub header: Option<bool>,
    /// Lines at the beginning of each text file that are passed over. Default: the recipe's, or comments and titles that are recognised before the
    /// header.
    pub skip_lines: Option<u64>,
    /// Texts that mean null, besides the usual ones: in text files every field that isn't quoted and has such a text, in JSON only where a column
    /// holds no text. Default: none.
    pub null_texts: Vec<String>,
    /// Types of columns, by name, in place of the recipe's or the sniffed ones.
    pub types: Vec<(String, ColumnType)>,
    /// The time column. Default: the recipe's, the table's, or the likeliest.
    pub time: Option<String>,
    /// The symbol column; an empty name for a table without one. Default: as for `time`.
    pub symbol: Option<String>,
    /// IANA time zone of the table's dates. Default: the recipe's, the table's, or UTC.
    pub time_zone: Option<String>,
    /// When a date begins by the clock of that zone. Default: the recipe's, the table's, or midnight.
    pub day_start: Option<DayStart>,
    /// Zone of times in the files that are written without one: an IANA name, or an offset such as `-05:00`. Default: the recipe's, or
    /// UTC; for dates as times the table's.
    pub zone: Option<String>,
    /// Patterns of `strftime` in which text files write instants, dates and times of day, besides the usual ones. Default: none.
    pub date_formats: Vec<String>,
    /// How text files write numbers. Default: `1234.5`.
    pub numbers: Option<NumberForm>,
    /// Makes a new table a reference table, with this key and effective date. Default: a table that is there stays what it is, a new one
    /// has a time.
    pub reference: Option<Reference>,
    /// What becomes of malformed rows.
    pub on_error: OnError,
    /// Threads that parse. 0, the default, counts as 1.
    pub threads: usize,
}
