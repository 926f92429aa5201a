//! A leaf as DataFusion plans with it: a table with the requested columns.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::{TableType, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, col};
use datafusion::physical_plan::ExecutionPlan;

/// Builds the plan of a leaf for the columns that are read.
pub(crate) type PlanLeaf = Box<dyn Fn(Vec<usize>, SchemaRef) -> Result<Arc<dyn ExecutionPlan>> + Send + Sync>;

/// The source of a leaf's plan, set once it is settled.
#[derive(Default)]
pub(crate) struct LeafSource(Mutex<Option<PlanLeaf>>);

impl LeafSource {
    pub(crate) fn set(&self, plan: PlanLeaf) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan);
    }
}

impl std::fmt::Debug for LeafSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LeafSource")
    }
}

#[derive(Debug)]
struct LeafTable {
    schema: SchemaRef,
    source: Arc<LeafSource>,
}

#[async_trait]
impl TableProvider for LeafTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.schema.fields().len()).collect();
        let columns: Vec<usize> = projection.cloned().unwrap_or_else(all);
        let schema = Arc::new(self.schema.project(&columns)?);
        match &*self.source.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(plan) => plan(columns, schema),
            None => datafusion::common::internal_err!("a leaf without a source"),
        }
    }
}

/// A plan that reads a leaf: its columns have the names and qualifiers of `schema`.
pub(super) fn read(number: usize, schema: &DFSchema, source: Arc<LeafSource>) -> Result<LogicalPlan> {
    let name = |position: usize| format!("c{position}");
    let fields = schema.fields().iter().enumerate();
    let fields: Vec<_> = fields.map(|(position, field)| field.as_ref().clone().with_name(name(position))).collect();
    let table = LeafTable { schema: Arc::new(Schema::new(fields)), source };
    let relation = format!("__leaf_{number}");
    let columns = (0..schema.fields().len()).map(|position| {
        let (qualifier, field) = schema.qualified_field(position);
        col(format!("{relation}.{}", name(position))).alias_qualified(qualifier.cloned(), field.name())
    });
    let scan = LogicalPlanBuilder::scan(relation.as_str(), provider_as_source(Arc::new(table)), None)?;
    scan.project(columns.collect::<Vec<_>>())?.build()
}
