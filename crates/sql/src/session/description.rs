//! What a statement would give, without running it.

use datafusion::error::DataFusionError;
use splay_engine::Stop;

use super::planning::learn_columns;
use super::{Description, Parameters, Session};
use crate::access::ShowStatement;
use crate::bounds::Bounds;
use crate::error::{Error, Result};
use crate::joins;
use crate::limits;
use crate::pivot_statement::PivotStatement;
use crate::provider::TickRowOrder;
use crate::show_create::ShowCreate;
use crate::summary::Summary;

impl Session {
    /// What a statement would give and which values it takes, without running it.
    ///
    /// # Errors
    /// [`Error::Statement`] for text that can't be planned, [`Error::ReadOnly`] for a statement that would change something.
    pub fn describe(&self, text: &str) -> Result<Description> {
        self.describe_until(text, Stop::NEVER)
    }

    /// The same, which gives up when `stop` says so.
    ///
    /// # Errors
    /// Those of [`Session::describe`], and [`Error::Cancelled`].
    pub fn describe_until(&self, text: &str, stop: Stop<'_>) -> Result<Description> {
        limits::check_text(text)?;
        let session = self.clone();
        let mut text = self.prepared(text)?.into_owned();
        if let Some(shown) = ShowStatement::of(&text) {
            return Ok(Description { schema: shown.schema()?, parameters: Vec::new() });
        }
        if ShowCreate::of(&text)?.is_some() {
            return Ok(Description { schema: ShowCreate::schema(), parameters: Vec::new() });
        }
        if let Some(summary) = Summary::of(&text) {
            let Description { parameters, .. } = self.describe_until(&summary.source(), stop)?;
            return Ok(Description { schema: Summary::schema(), parameters });
        }
        if let Some(statement) = PivotStatement::of(&text)? {
            text = self.with_values(&statement, &Parameters::None, stop)?;
        }
        let text = self.with_views(&self.views(), &text, stop)?.0.into_owned();
        let described = async move { session.plan_to_describe(&text).await };
        self.wait_for(&Bounds::new(self.pool().0), stop, described)?
    }

    async fn plan_to_describe(&self, text: &str) -> Result<Description> {
        let limit = self.settings.memory_bytes;
        let wrap = |error: DataFusionError| Error::from_datafusion(error, limit);
        let (plan, mut spellings, has_joins) = self.plan_logically(&self.states.shared(), text).await?;
        let mut parameters: Vec<_> = plan.get_parameter_types().map_err(wrap)?.into_iter().collect();
        // `$10` comes behind `$9`.
        parameters.sort_by_key(|(name, _)| (name.len(), name.clone()));
        learn_columns(&plan, &mut spellings).map_err(wrap)?;
        let plan = if has_joins { joins::convert(plan, &TickRowOrder).map_err(wrap)? } else { plan };
        let schema = spellings.restore(plan.schema().as_arrow());
        Ok(Description { schema, parameters })
    }
}
