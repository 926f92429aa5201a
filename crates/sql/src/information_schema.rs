//! DataFusion's `information_schema`, with a table `views` that lists only views, and a table `commits` of what was done to tables. Sessions of PostgreSQL's clients also have PostgreSQL's `columns`,
//! and its tables that are always empty here.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arrow::array::{ArrayRef, Date32Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{CatalogProviderList, MemTable, SchemaProvider, TableFunction, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use splay_store::{CommitReport, Source};

use crate::postgres::{CatalogueSchema, information_table, is_information};
use crate::tick_schema::TickSchema;

/// The tables that differ.
const VIEWS: &str = "views";
const COMMITS: &str = "commits";
const COLUMNS: &str = "columns";

/// The schema. Its tables are created when a statement names one.
#[derive(Debug)]
pub(crate) struct InformationSchema {
    /// The catalogs that it describes, one of which contains this schema.
    catalogs: Weak<dyn CatalogProviderList>,
    table_functions: HashMap<String, Arc<TableFunction>>,
    tables: Arc<TickSchema>,
    /// The schema `pg_catalog`, in sessions for PostgreSQL's clients.
    catalogue: Option<Arc<CatalogueSchema>>,
}

impl InformationSchema {
    pub(crate) fn new(
        catalogs: &Arc<dyn CatalogProviderList>,
        table_functions: HashMap<String, Arc<TableFunction>>,
        tables: Arc<TickSchema>,
        catalogue: Option<Arc<CatalogueSchema>>,
    ) -> InformationSchema {
        InformationSchema { catalogs: Arc::downgrade(catalogs), table_functions, tables, catalogue }
    }

    /// DataFusion's, as long as there is a session.
    fn provider(&self) -> Option<InformationSchemaProvider> {
        let provider = InformationSchemaProvider::new(self.catalogs.upgrade()?);
        Some(provider.with_table_functions(self.table_functions.clone()))
    }

    /// The views that may be read, with their queries where these are shown.
    fn views(&self) -> Result<Arc<dyn TableProvider>> {
        let views = self.tables.views();
        let shows_queries = self.tables.shows_queries();
        let same = |text| Arc::new(StringArray::from(vec![text; views.len()])) as ArrayRef;
        let names: StringArray = views.iter().map(|view| Some(view.name.as_str())).collect();
        let queries: StringArray = views.iter().map(|view| shows_queries.then_some(view.query.as_str())).collect();
        let columns = [
            ("table_catalog", same("splay"), false),
            ("table_schema", same("public"), false),
            ("table_name", Arc::new(names) as ArrayRef, false),
            ("definition", Arc::new(queries) as ArrayRef, true),
        ];
        let rows = RecordBatch::try_from_iter_with_nullable(columns)?;
        Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
    }
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.provider().map_or_else(Vec::new, |provider| provider.table_names());
        names.push(COMMITS.to_owned());
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if name.eq_ignore_ascii_case(VIEWS) {
            return self.views().map(Some);
        }
        if name.eq_ignore_ascii_case(COMMITS) {
            return commits(&self.tables.histories()).map(Some);
        }
        if let Some(catalogue) = &self.catalogue
            && name.eq_ignore_ascii_case(COLUMNS)
        {
            return catalogue.information_columns().await.map(Some);
        }
        let name = name.to_ascii_lowercase();
        if self.catalogue.is_some()
            && let Some(table) = information_table(&name)?
        {
            return Ok(Some(table));
        }
        match self.provider() {
            Some(provider) => provider.table(&name).await,
            None => Ok(None),
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        Ok(self.table_exist(name).then_some(TableType::View))
    }

    fn table_exist(&self, name: &str) -> bool {
        let is_of_postgres = self.catalogue.is_some() && is_information(&name.to_ascii_lowercase());
        is_of_postgres
            || name.eq_ignore_ascii_case(COMMITS)
            || self.provider().is_some_and(|provider| provider.table_exist(name))
    }
}

/// Texts about the files that a commit loaded.
fn of_files(commit: &CommitReport, text: fn(&Source) -> &str) -> Option<String> {
    let texts: Vec<&str> = commit.sources.iter().map(text).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// The commits of tables as rows, by table and number.
fn commits(histories: &[(String, Vec<CommitReport>)]) -> Result<Arc<dyn TableProvider>> {
    let all: Vec<(&str, &CommitReport)> = histories
        .iter()
        .flat_map(|(name, commits)| commits.iter().rev().map(move |commit| (name.as_str(), commit)))
        .collect();
    let numbers = |of: fn(&CommitReport) -> u64| {
        let values = all.iter().map(|(_, commit)| i64::try_from(of(commit)).unwrap_or(i64::MAX));
        Arc::new(Int64Array::from_iter_values(values)) as ArrayRef
    };
    let texts = |of: fn(&CommitReport) -> Option<String>| {
        Arc::new(all.iter().map(|(_, commit)| of(commit)).collect::<StringArray>()) as ArrayRef
    };
    let dates = |of: fn(&CommitReport) -> Option<&i32>| {
        Arc::new(all.iter().map(|(_, commit)| of(commit).copied()).collect::<Date32Array>()) as ArrayRef
    };
    let same = |text| Arc::new(StringArray::from(vec![text; all.len()])) as ArrayRef;
    let names: StringArray = all.iter().map(|(name, _)| Some(*name)).collect();
    let instants = TimestampNanosecondArray::from_iter_values(all.iter().map(|(_, commit)| commit.at));
    let undoes: Int64Array =
        all.iter().map(|(_, commit)| commit.undoes.and_then(|undone| i64::try_from(undone).ok())).collect();
    let columns = [
        ("table_catalog", same("splay"), false),
        ("table_schema", same("public"), false),
        ("table_name", Arc::new(names) as ArrayRef, false),
        ("commit", numbers(|commit| commit.commit), false),
        ("at", Arc::new(instants.with_timezone("UTC")), false),
        ("operation", texts(|commit| Some(commit.operation.to_owned())), false),
        ("added", numbers(|commit| commit.added), false),
        ("removed", numbers(|commit| commit.removed), false),
        ("duplicates", numbers(|commit| commit.duplicates), false),
        ("first_date", dates(|commit| commit.dates.first()), true),
        ("last_date", dates(|commit| commit.dates.last()), true),
        ("files", texts(|commit| of_files(commit, |source| &source.name)), true),
        ("digests", texts(|commit| of_files(commit, |source| &source.digest)), true),
        ("undoes", Arc::new(undoes), true),
        ("cannot_undo", texts(|commit| commit.cannot_undo.clone()), true),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns)?;
    Ok(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))
}
