//! DataFusion's `information_schema`, with a table `views` that lists only views. Sessions of PostgreSQL's clients also have PostgreSQL's `columns`,
//! and its tables that are always empty here.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{CatalogProviderList, MemTable, SchemaProvider, TableFunction, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;

use crate::postgres::{CatalogueSchema, information_table, is_information};
use crate::provider::TickSchema;

/// Its name.
pub(crate) const NAME: &str = "information_schema";

/// The tables that differ.
const VIEWS: &str = "views";
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
        self.provider().map_or_else(Vec::new, |provider| provider.table_names())
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if name.eq_ignore_ascii_case(VIEWS) {
            return self.views().map(Some);
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
        is_of_postgres || self.provider().is_some_and(|provider| provider.table_exist(name))
    }
}
