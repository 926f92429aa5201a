//! The tables of `pg_catalog`, computed when a statement reads them.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::TableType;
use splay_store::{Database, Role};

use super::columns::{EMPTY, WITH_ROWS, columns};
use super::oid_of;
use super::types::{self, LISTED, Type};
use crate::syntax::snapshot_of;
use crate::tick_schema::TickSchema;

const PG_CATALOG: i64 = 11;
const PUBLIC: i64 = 2200;
const INFORMATION_SCHEMA: i64 = 13_000;
/// The role that owns everything.
const ROLE: i64 = 10;
const HEAP: i64 = 2;
const TABLESPACE: i64 = 1663;

/// Settings that clients read as a table.
const SETTINGS: [(&str, &str); 9] = [
    ("DateStyle", "ISO, MDY"),
    ("TimeZone", "UTC"),
    ("max_identifier_length", "128"),
    ("max_index_keys", "32"),
    ("search_path", "public"),
    ("server_encoding", "UTF8"),
    ("server_version", "16.0"),
    ("server_version_num", "160000"),
    ("standard_conforming_strings", "on"),
];

/// A value of a table of the catalogue.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    Number(i64),
    Text(String),
    Truth(bool),
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Truth(truth)
    }
}

/// Values of some columns of a row; the other columns have their neutral value.
pub(super) type Row = Vec<(&'static str, Value)>;

/// `pg_catalog`.
#[derive(Debug)]
pub(crate) struct CatalogueSchema {
    pub(super) database: Database,
    pub(super) public: Arc<TickSchema>,
}

impl CatalogueSchema {
    pub(crate) fn new(database: Database, public: Arc<TickSchema>) -> CatalogueSchema {
        CatalogueSchema { database, public }
    }

    /// Tables and views with their columns.
    async fn relations(&self) -> Vec<(String, bool, SchemaRef)> {
        let mut list = Vec::new();
        for name in self.public.table_names() {
            // A table that can't be read shows no columns. A statement that reads it gets the error.
            if let Ok(snapshot) = snapshot_of(&self.database, &name) {
                let schema = snapshot.spec().shown_arrow();
                // Only tables and columns that the caller's rights show.
                let Ok(Some(table)) = self.public.table(&name).await else { continue };
                let visible = table.schema();
                let is_known = |field: &&Arc<Field>| visible.index_of(&field.name().to_lowercase()).is_ok();
                let fields: Vec<_> = schema.fields().iter().filter(is_known).cloned().collect();
                list.push((name, false, Arc::new(Schema::new(fields))));
            } else if let Ok(Some(view)) = self.public.table(&name).await
                && view.table_type() == TableType::View
            {
                list.push((name, true, view.schema()));
            }
        }
        list
    }

    /// Users and roles, for those who see everything.
    fn roles(&self) -> Vec<Role> {
        let access = self.database.access().ok().filter(|_| self.public.shows_queries());
        access.map_or_else(Vec::new, |access| access.roles.clone())
    }

    async fn rows(&self, table: &str) -> Vec<Row> {
        let owner = Value::from("splay");
        let name = |oid: i64, key: &'static str, name: &str| vec![("oid", oid.into()), (key, name.into())];
        match table {
            "pg_am" => vec![name(HEAP, "amname", "heap")],
            "pg_tablespace" => vec![name(TABLESPACE, "spcname", "pg_default")],
            "pg_namespace" => {
                [(PG_CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION_SCHEMA, "information_schema")]
                    .map(|(oid, schema)| [name(oid, "nspname", schema), vec![("nspowner", ROLE.into())]].concat())
                    .to_vec()
            }
            "pg_database" => vec![vec![
                ("oid", 1.into()),
                ("datname", owner),
                ("datdba", ROLE.into()),
                ("encoding", 6.into()),
                ("datlocprovider", "c".into()),
                ("datallowconn", true.into()),
                ("datconnlimit", (-1).into()),
                ("dattablespace", TABLESPACE.into()),
                ("datcollate", "C".into()),
                ("datctype", "C".into()),
            ]],
            "pg_roles" => {
                let mut rows = vec![vec![
                    ("oid", ROLE.into()),
                    ("rolname", owner),
                    ("rolinherit", true.into()),
                    ("rolcanlogin", true.into()),
                    ("rolconnlimit", (-1).into()),
                ]];
                rows.extend(self.roles().iter().map(role));
                rows
            }
            "pg_user" => {
                let mut rows = vec![vec![("usename", owner), ("usesysid", ROLE.into())]];
                rows.extend(self.roles().iter().filter(|role| role.login).map(user));
                rows
            }
            "pg_settings" => SETTINGS
                .iter()
                .map(|(name, setting)| {
                    vec![("name", (*name).into()), ("setting", (*setting).into()), ("vartype", "string".into())]
                })
                .collect(),
            "pg_type" => LISTED.iter().flat_map(type_rows).collect(),
            "pg_class" => {
                let relations = self.relations().await;
                relations.iter().map(|(name, is_view, schema)| class(name, *is_view, schema)).collect()
            }
            "pg_attribute" => {
                let relations = self.relations().await;
                relations.iter().flat_map(|(name, _, schema)| attributes(name, schema)).collect()
            }
            "pg_tables" => {
                let tables = self.relations().await.into_iter().filter(|(_, is_view, _)| !is_view);
                let row = |(name, _, _): (String, bool, SchemaRef)| {
                    vec![
                        ("schemaname", "public".into()),
                        ("tablename", Value::Text(name)),
                        ("tableowner", owner.clone()),
                    ]
                };
                tables.map(row).collect()
            }
            "pg_views" => {
                let views = self.public.views();
                let shows_queries = self.public.shows_queries();
                let row = |view: &splay_store::View| {
                    vec![
                        ("schemaname", "public".into()),
                        ("viewname", view.name.as_str().into()),
                        ("viewowner", owner.clone()),
                        ("definition", if shows_queries { view.query.as_str().into() } else { Value::Null }),
                    ]
                };
                views.iter().map(row).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn role(role: &Role) -> Row {
    vec![
        ("oid", oid_of(&role.name).into()),
        ("rolname", role.name.as_str().into()),
        ("rolsuper", role.superuser.into()),
        ("rolinherit", true.into()),
        ("rolcanlogin", role.login.into()),
        ("rolconnlimit", (-1).into()),
        ("rolbypassrls", role.bypasses_policies.into()),
    ]
}

fn user(role: &Role) -> Row {
    vec![
        ("usename", role.name.as_str().into()),
        ("usesysid", oid_of(&role.name).into()),
        ("usesuper", role.superuser.into()),
        ("usebypassrls", role.bypasses_policies.into()),
    ]
}

fn type_rows(listed: &types::CatalogueType) -> [Row; 2] {
    let row = |oid: u32, name: String, length: i64, category: &str, element: u32, array: u32| {
        let of = |act: &str| Value::Text(types::function(oid, act));
        vec![
            ("oid", i64::from(oid).into()),
            ("typname", Value::Text(name)),
            ("typnamespace", PG_CATALOG.into()),
            ("typowner", ROLE.into()),
            ("typlen", length.into()),
            ("typbyval", (1..=8).contains(&length).into()),
            ("typtype", "b".into()),
            ("typcategory", category.into()),
            ("typisdefined", true.into()),
            ("typdelim", ",".into()),
            ("typelem", i64::from(element).into()),
            ("typarray", i64::from(array).into()),
            ("typrelid", 0.into()),
            ("typbasetype", 0.into()),
            ("typinput", of("in")),
            ("typoutput", of("out")),
            ("typreceive", of("recv")),
            ("typsend", of("send")),
            ("typtypmod", (-1).into()),
            ("typstorage", storage(length).into()),
        ]
    };
    [
        row(listed.oid, listed.name.to_owned(), listed.length, listed.category, 0, listed.array),
        row(listed.array, format!("_{}", listed.name), -1, "A", listed.oid, 0),
    ]
}

/// The storage of values of a length as PostgreSQL names it: plain, or possibly compressed and stored elsewhere.
fn storage(length: i64) -> &'static str {
    if length < 0 { "x" } else { "p" }
}

fn class(name: &str, is_view: bool, schema: &Schema) -> Row {
    let columns = i64::try_from(schema.fields().len()).unwrap_or(0);
    vec![
        ("oid", oid_of(name).into()),
        ("relname", name.into()),
        ("relnamespace", PUBLIC.into()),
        ("relowner", ROLE.into()),
        ("relam", if is_view { 0 } else { HEAP }.into()),
        ("relfilenode", oid_of(name).into()),
        ("reltuples", (-1).into()),
        ("relpersistence", "p".into()),
        ("relkind", if is_view { "v" } else { "r" }.into()),
        ("relnatts", columns.into()),
        ("relispopulated", true.into()),
        ("relreplident", "d".into()),
    ]
}

fn attributes(name: &str, schema: &Schema) -> Vec<Row> {
    let row = |(at, field): (usize, &Arc<Field>)| {
        let pg_type = Type::of(field.data_type());
        vec![
            ("attrelid", oid_of(name).into()),
            ("attname", field.name().as_str().into()),
            ("atttypid", i64::from(pg_type.oid).into()),
            ("attlen", i64::from(pg_type.size).into()),
            ("attnum", i64::try_from(at + 1).unwrap_or(0).into()),
            ("atttypmod", i64::from(pg_type.modifier).into()),
            ("attndims", i64::from(types::item(field.data_type()).is_some()).into()),
            ("attnotnull", (!field.is_nullable()).into()),
            ("attislocal", true.into()),
            ("attstorage", storage(i64::from(pg_type.size)).into()),
            ("attstattarget", (-1).into()),
        ]
    };
    schema.fields().iter().enumerate().map(row).collect()
}

/// A table of these columns and rows. A column that a row doesn't speak of is 0, false, or, where it is a text, empty or null.
pub(super) fn table(columns: &str, rows: &[Row]) -> Result<MemTable> {
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for (name, kind) in columns.split_whitespace().filter_map(|column| column.split_once(':')) {
        let of_row =
            |row: &Row| row.iter().find(|(key, _)| *key == name).map_or(Value::Null, |(_, value)| value.clone());
        let values = rows.iter().map(of_row);
        let (data_type, array): (DataType, ArrayRef) = match kind {
            "i" => {
                let number = |value| if let Value::Number(number) = value { number } else { 0 };
                (DataType::Int64, Arc::new(values.map(number).map(Some).collect::<Int64Array>()))
            }
            "b" => {
                let truth = |value| matches!(value, Value::Truth(true));
                (DataType::Boolean, Arc::new(values.map(truth).map(Some).collect::<BooleanArray>()))
            }
            "n" => {
                let list = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
                let array = new_null_array(&list, rows.len());
                (list, array)
            }
            // Lists that are always empty.
            _ if name.ends_with("acl") || name.ends_with("options") => {
                let list = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
                let array = new_null_array(&list, rows.len());
                (list, array)
            }
            _ => {
                let is_flag = matches!(name, "attidentity" | "attgenerated" | "attcompression");
                let text = |value| match value {
                    Value::Text(text) => Some(text),
                    _ => is_flag.then(String::new),
                };
                (DataType::Utf8, Arc::new(values.map(text).collect::<StringArray>()))
            }
        };
        fields.push(Field::new(name, data_type, true));
        arrays.push(array);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
    MemTable::try_new(schema, vec![vec![batch]])
}

#[async_trait]
impl SchemaProvider for CatalogueSchema {
    fn table_names(&self) -> Vec<String> {
        WITH_ROWS.iter().chain(EMPTY.iter()).map(|(name, _)| (*name).to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let Some(columns) = columns(name) else { return Ok(None) };
        Ok(Some(Arc::new(table(columns, &self.rows(name).await)?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        columns(name).is_some()
    }
}

/// Whether `pg_catalog` has a table of this name.
pub(crate) fn is_in_catalogue(name: &str) -> bool {
    columns(&name.to_ascii_lowercase()).is_some()
}

/// The tables of `pg_catalog`; behind them, for names that it has no table of, those of the database, as PostgreSQL's search path has them:
/// whoever makes a table `pg_roles` doesn't tell others who the roles are.
#[derive(Debug)]
pub(crate) struct WithCatalogue {
    pub(crate) tables: Arc<TickSchema>,
    pub(crate) catalogue: Arc<CatalogueSchema>,
}

#[async_trait]
impl SchemaProvider for WithCatalogue {
    fn table_names(&self) -> Vec<String> {
        self.tables.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        match self.catalogue.table(name).await? {
            Some(found) => Ok(Some(found)),
            None => self.tables.table(name).await,
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        match self.catalogue.table_exist(name) {
            true => self.catalogue.table_type(name).await,
            false => self.tables.table_type(name).await,
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.table_exist(name) || self.catalogue.table_exist(name)
    }
}
