//! DataFusion's session state, with our functions, rules and tables.

use std::sync::Arc;

use datafusion::catalog::information_schema::INFORMATION_SCHEMA;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider};
use datafusion::execution::SessionStateDefaults;
use datafusion::execution::context::{SessionConfig, SessionContext};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::ScalarUDF;
use datafusion::optimizer::Analyzer;
use datafusion::optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;
use splay_functions as functions;
use splay_store::Database;

use super::SessionSettings;
use crate::array_queries;
use crate::bounds::{self, BoundFunctions};
use crate::calendars::CalendarTables;
use crate::coercion::PrepareCoercion;
use crate::correlated::JoinCorrelated;
use crate::dates::ComputeDates;
use crate::error::{Error, Result};
use crate::guard::Guard;
use crate::in_select::JoinInSelect;
use crate::information_schema::InformationSchema;
use crate::intervals::CompareIntervals;
use crate::joins;
use crate::nested_correlation::BindNestedCorrelation;
use crate::null_safe_keys::NullSafeKeys;
use crate::numbers::NumberRule;
use crate::one_nan::OneNan;
use crate::order_once::OrderOnce;
use crate::pivot::PivotPlanner;
use crate::postgres;
use crate::query_planner::TickQueryPlanner;
use crate::query_values::QueryValues;
use crate::resolve::FieldPlanner;
use crate::row_order::TickRowOrder;
use crate::semi_joins::DistinctInnerSide;
use crate::statement_states::StatementStates;
use crate::tick_schema::TickSchema;
use crate::unpivot::UnpivotPlanner;

/// Most keys of a join's small side that narrow the scan of its large side one by one, and their largest size in bytes.
const JOIN_KEYS_MAX: usize = 20_000;
const JOIN_KEYS_BYTES_MAX: usize = 1 << 20;

/// The states for sessions with these settings and the rights of a guard; with PostgreSQL's catalogue if requested.
pub(super) fn states(
    database: &Database,
    settings: &SessionSettings,
    has_catalogue: bool,
    guard: Option<Arc<Guard>>,
) -> Result<Arc<dyn StatementStates>> {
    let (state, tables) = state(database, settings, has_catalogue, guard)?;
    let state = Arc::new(state);
    tables.plan_views_in(&state);
    Ok(Arc::new(state))
}

/// The state in which statements are planned, with the tables that they find.
fn state(
    database: &Database,
    settings: &SessionSettings,
    has_catalogue: bool,
    guard: Option<Arc<Guard>>,
) -> Result<(SessionState, Arc<TickSchema>)> {
    let files = settings.files.clone().map(|files| (files, settings.threads));
    let tables = Arc::new(TickSchema::new(database.clone(), files, guard));
    let mut config = SessionConfig::new()
        .with_extension(Arc::new(functions::OwnCalendars(Arc::new(CalendarTables::new(Arc::clone(&tables))))))
        .with_target_partitions(settings.threads.max(1))
        .with_batch_size(settings.batch_rows.max(1))
        .with_default_catalog_and_schema("splay", "public")
        .with_create_default_catalog_and_schema(false)
        // Merging sorted streams is cheaper than sorting again.
        .with_prefer_existing_sort(true);
    config.options_mut().sql_parser.map_string_types_to_utf8view = false;
    // `now()`, `x::timestamptz` and `to_timestamp` are instants, as the times of tables are.
    config.options_mut().execution.time_zone = Some("UTC".to_owned());
    // Whether a column may be null is told otherwise of a plan than of its operators, which is no reason to refuse it.
    config.options_mut().execution.skip_physical_aggregate_schema_check = true;
    // The keys of a join's small side, of which a scan makes a list of symbols.
    config.options_mut().optimizer.hash_join_inlist_pushdown_max_size = JOIN_KEYS_BYTES_MAX;
    config.options_mut().optimizer.hash_join_inlist_pushdown_max_distinct_values = JOIN_KEYS_MAX;
    let wrap = |error| Error::from_datafusion(error, settings.memory_bytes);
    // DataFusion's defaults without its file formats and table factories: a statement reads tables and nothing else.
    let table_functions = SessionStateDefaults::default_table_functions();
    let mut analyzer_rules = Analyzer::new().rules;
    analyzer_rules.insert(0, Arc::new(PrepareCoercion));
    analyzer_rules.insert(0, Arc::new(JoinInSelect));
    analyzer_rules.insert(0, Arc::new(JoinCorrelated));
    analyzer_rules.insert(0, Arc::new(QueryValues));
    analyzer_rules.insert(0, Arc::new(BindNestedCorrelation));
    analyzer_rules.insert(0, Arc::new(ComputeDates));
    // Before keys of grouping sets are rewritten, which `grouping` finds by their text.
    analyzer_rules.insert(0, Arc::new(ResolveGroupingFunction));
    let mut expr_planners = SessionStateDefaults::default_expr_planners();
    // DataFusion's own answers for every aggregate.
    expr_planners.insert(0, Arc::new(functions::FramePlanner));
    expr_planners.insert(0, Arc::new(functions::SpanPlanner));
    expr_planners.insert(0, Arc::new(functions::TimePlanner));
    expr_planners.insert(0, Arc::new(FieldPlanner));
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_expr_planners(expr_planners)
        .with_scalar_functions(SessionStateDefaults::default_scalar_functions())
        .with_higher_order_functions(SessionStateDefaults::default_higher_order_functions())
        .with_aggregate_functions(SessionStateDefaults::default_aggregate_functions())
        .with_window_functions(SessionStateDefaults::default_window_functions())
        .with_table_functions(table_functions.into_iter().map(|f| (f.name().to_owned(), f)).collect())
        .with_analyzer_rules(analyzer_rules)
        .with_query_planner(Arc::new(TickQueryPlanner))
        .build();
    let state = joins::register(state, Arc::new(TickRowOrder)).map_err(wrap)?;
    let context = SessionContext::new_with_state(state);
    let catalog = Arc::new(MemoryCatalogProvider::new());
    let pg_catalog =
        has_catalogue.then(|| Arc::new(postgres::CatalogueSchema::new(database.clone(), Arc::clone(&tables))));
    if let Some(pg_catalog) = &pg_catalog {
        let public = postgres::WithCatalogue { tables: Arc::clone(&tables), catalogue: Arc::clone(pg_catalog) };
        catalog.register_schema("public", Arc::new(public)).map_err(wrap)?;
        catalog.register_schema("pg_catalog", Arc::clone(pg_catalog) as Arc<_>).map_err(wrap)?;
    } else {
        catalog.register_schema("public", Arc::clone(&tables) as Arc<_>).map_err(wrap)?;
    }
    context.register_catalog("splay", Arc::clone(&catalog) as Arc<_>);
    functions::register(&context);
    context.register_udf(array_queries::marker());
    if has_catalogue {
        postgres::functions(&tables).into_iter().for_each(|function| context.register_udf(ScalarUDF::clone(&function)));
    }
    context.add_analyzer_rule(Arc::new(CompareIntervals));
    let planned = context.register_relation_planner(Arc::new(PivotPlanner));
    planned.map_err(wrap)?;
    context.register_relation_planner(Arc::new(UnpivotPlanner)).map_err(wrap)?;
    functions::register_row_order(&context, Arc::new(TickRowOrder));
    context.add_analyzer_rule(Arc::new(NullSafeKeys));
    context.add_analyzer_rule(Arc::new(NumberRule));
    context.add_analyzer_rule(Arc::new(OneNan));
    context.add_analyzer_rule(Arc::new(BoundFunctions));
    context.add_optimizer_rule(Arc::new(DistinctInnerSide));
    context.add_optimizer_rule(Arc::new(OrderOnce));
    let state = bounds::register(context.state());
    let information =
        InformationSchema::new(state.catalog_list(), state.table_functions().clone(), Arc::clone(&tables), pg_catalog);
    catalog.register_schema(INFORMATION_SCHEMA, Arc::new(information)).map_err(wrap)?;
    Ok((state, tables))
}
