//! The spelling of columns in the tables that a plan reads.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use splay_functions::walk::WalkPlan;

use super::Spellings;
use crate::files::FileTable;
use crate::provider::TickTable;

/// Records the spelling of columns in the tables that a plan reads.
pub(crate) fn learn_columns(plan: &LogicalPlan, spellings: &mut Spellings) -> Result<(), DataFusionError> {
    plan.walk_steps(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
        {
            let name = scan.table_name.table();
            if let Some(table) = provider.downcast_ref::<TickTable>() {
                spellings.add_table(name, table.spec().columns.iter().map(|column| column.name.as_str()));
            } else if let Some(files) = provider.downcast_ref::<FileTable>() {
                spellings.add_table(name, files.names());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(|_| ())
}
