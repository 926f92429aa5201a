//! The tiers of a database as ways of storing tables.

use std::path::{Path, PathBuf};

use splay_import::{ImportSettings, InputFile};
use splay_lab::Error;
use splay_lab::formats::{Columns, Table, TableLocation, Target};
use splay_sql::{Parameters, Session, SessionSettings};
use splay_store::{Database, LoadOptions, Tier};

/// A tier, and the Arrow file of each table that is loaded into it.
pub struct TierTarget {
    tier: Tier,
    sources: Vec<PathBuf>,
}

/// All tiers.
pub fn all(sources: &[PathBuf]) -> Vec<Box<dyn Target>> {
    let tier = |tier| Box::new(TierTarget { tier, sources: sources.to_vec() }) as Box<dyn Target>;
    Tier::LOCAL.into_iter().map(tier).collect()
}

impl Target for TierTarget {
    fn name(&self) -> String {
        format!("splay {}", self.tier.name())
    }

    fn write(&self, tables: &[Table], folder: &Path) -> splay_lab::Result<TableLocation> {
        let refused = |reason: String| Error::Unsupported {
            scheme: self.name(),
            column: String::new(),
            data_type: String::new(),
            reason,
        };
        let database = Database::create(folder).map_err(|error| refused(error.to_string()))?;
        for (table, source) in tables.iter().zip(&self.sources) {
            let file = InputFile::open(source).map_err(|error| refused(error.to_string()))?;
            let options = LoadOptions { tier: Some(self.tier), ..LoadOptions::default() };
            let settings = ImportSettings { threads: options.threads, ..ImportSettings::default() };
            splay_import::load(&database, &table.name, vec![file], settings, options, &mut |_| Ok(()))
                .map_err(|error| refused(error.to_string()))?;
        }
        Ok(TableLocation::Database(folder.to_path_buf()))
    }

    fn read(&self, tables: &[Table], place: &TableLocation) -> splay_lab::Result<Vec<Table>> {
        let TableLocation::Database(folder) = place else { return Ok(Vec::new()) };
        let failed = |reason: String| Error::Statement { reason };
        let session = Database::open(folder).map_err(|error| failed(error.to_string()))?;
        let session = Session::new(session, SessionSettings::default()).map_err(|error| failed(error.to_string()))?;
        let read = |table: &Table| {
            let text = format!("select {} from \"{}\"", Columns::of(&table.schema).all(), table.name);
            let mut answer = session.sql(&text, Parameters::None).map_err(|error| failed(error.to_string()))?;
            let schema = answer.schema();
            let batches = answer.batches().map_err(|error| failed(error.to_string()))?;
            Ok(Table { name: table.name.clone(), schema, batches })
        };
        tables.iter().map(read).collect()
    }

    fn keeps_order(&self) -> bool {
        false
    }
}
