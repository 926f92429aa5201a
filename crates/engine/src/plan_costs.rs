//! The costs of the steps of a plan, by the step.

use std::time::Duration;

use crate::plan::Plan;
use crate::steps::{StepCost, StepCosts};

impl StepCosts {
    /// The cost of a step; `None` if another step did its work.
    #[must_use]
    pub fn of(&self, plan: &Plan) -> Option<StepCost> {
        self.get(plan.step_id())
    }

    /// A step's own duration, without its inputs.
    #[must_use]
    pub fn own(&self, plan: &Plan) -> Option<Duration> {
        let inputs = plan.inputs().iter().filter_map(|input| self.of(input)).map(|cost| cost.elapsed);
        self.of(plan).map(|cost| cost.elapsed.saturating_sub(inputs.sum()))
    }

    /// Most bytes that the rows of a step and of its inputs took together; 0 if that wasn't measured.
    #[must_use]
    pub fn peak_memory_bytes(&self, plan: &Plan) -> u64 {
        let bytes = |step: &Plan| self.of(step).and_then(|cost| cost.memory_bytes).unwrap_or(0);
        let here = bytes(plan) + plan.inputs().iter().map(bytes).sum::<u64>();
        plan.inputs().iter().map(|input| self.peak_memory_bytes(input)).fold(here, u64::max)
    }
}
