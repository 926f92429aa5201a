//! Conditions on the symbol alone: evaluated on the symbols of a segment's directory, so rows of other symbols aren't
//! read.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, Int32Array, StringArray};
use splay_store::SegmentIndex;

use crate::error::Result;
use crate::expr::{Expr, InputColumns};
use crate::operators::holds;
use crate::value::Value;

/// A condition on a symbol.
#[derive(Debug, Clone)]
pub(crate) struct SymbolCondition {
    /// All must hold. The only column that they read is the symbol.
    conditions: Vec<Expr>,
    constants: Arc<[ArrayRef]>,
}

impl SymbolCondition {
    pub fn new(conditions: Vec<Expr>, constants: &[ArrayRef]) -> SymbolCondition {
        SymbolCondition { conditions, constants: constants.into() }
    }

    /// Keeps the symbols for which it holds.
    pub fn retain(&self, symbols: &mut Vec<String>) -> Result<()> {
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(symbols.iter()));
        let mut passed = self.passes(&SegmentSymbols::new(&texts, false)?)?.into_iter();
        symbols.retain(|_| passed.next().unwrap_or(false));
        Ok(())
    }

    /// The runs of a segment for whose symbols it holds, ascending.
    pub fn runs(&self, index: &SegmentIndex) -> Result<Vec<usize>> {
        let passed = self.passes(&SegmentSymbols::of(index)?)?;
        Ok(passed.into_iter().enumerate().filter(|(_, passed)| *passed).map(|(run, _)| run).collect())
    }

    /// Whether it holds for each of some symbols.
    fn passes(&self, symbols: &SegmentSymbols) -> Result<Vec<bool>> {
        let mut passed = vec![true; symbols.rows()];
        for condition in &self.conditions {
            let mask = holds(&condition.evaluate(symbols, &self.constants)?.into_array(symbols.rows())?)?;
            passed.iter_mut().zip(mask.values()).for_each(|(passed, holds)| *passed &= holds);
        }
        Ok(passed)
    }
}

/// The symbols of a segment as a column, each once, to evaluate conditions that read nothing else.
pub(crate) struct SegmentSymbols(ArrayRef);

impl SegmentSymbols {
    /// The symbols of a segment's runs. The dictionary is the same array each time, so that results for its texts can be cached by it.
    pub fn of(index: &SegmentIndex) -> Result<SegmentSymbols> {
        SegmentSymbols::new(index.symbol_texts()?, is_first_null(index)?)
    }

    /// The symbols of some runs, at a cost that depends only on their number.
    pub fn of_runs(index: &SegmentIndex, runs: &Range<usize>) -> Result<SegmentSymbols> {
        let texts = index.symbol_texts()?.slice(runs.start, runs.len());
        SegmentSymbols::new(&texts, runs.start == 0 && is_first_null(index)?)
    }

    fn new(texts: &ArrayRef, is_first_null: bool) -> Result<SegmentSymbols> {
        let codes = (0..i32::try_from(texts.len()).unwrap_or(i32::MAX))
            .map(|code| (code > 0 || !is_first_null).then_some(code));
        Ok(SegmentSymbols(Arc::new(DictionaryArray::try_new(codes.collect::<Int32Array>(), Arc::clone(texts))?)))
    }
}

/// Whether the first run is that of rows without a symbol.
fn is_first_null(index: &SegmentIndex) -> Result<bool> {
    Ok(index.symbols()? > 0 && index.symbol(0)?.is_none())
}

impl InputColumns for SegmentSymbols {
    fn rows(&self) -> usize {
        self.0.len()
    }

    fn column(&self, _position: usize) -> Result<Value> {
        Ok(Value::Array(Arc::clone(&self.0)))
    }

    fn may_be_coded(&self, _position: usize) -> bool {
        false
    }
}
