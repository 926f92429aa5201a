//! Conditions on the symbol alone: evaluated on the symbols of a segment's directory, so rows of other symbols aren't
//! read.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, Int32Array, StringArray};
use splay_store::SegmentIndex;

use crate::error::Result;
use crate::expr::{Columns, Expr, Value, holds};

/// What must hold of a symbol.
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
        let passed = self.passes(symbols.iter().map(|symbol| Some(symbol.as_str())))?;
        let mut passed = passed.into_iter();
        symbols.retain(|_| passed.next().unwrap_or(false));
        Ok(())
    }

    /// The runs of a segment for whose symbols it holds, ascending.
    pub fn runs(&self, index: &SegmentIndex) -> Result<Vec<usize>> {
        let symbols = (0..index.symbols()?).map(|run| index.symbol(run)).collect::<Result<Vec<_>, _>>()?;
        let passed = self.passes(symbols.into_iter())?;
        Ok(passed.into_iter().enumerate().filter(|(_, passed)| *passed).map(|(run, _)| run).collect())
    }

    /// Whether it holds for each of some symbols.
    fn passes<'a>(&self, symbols: impl Iterator<Item = Option<&'a str>>) -> Result<Vec<bool>> {
        let (mut codes, mut texts) = (Vec::new(), Vec::new());
        for symbol in symbols {
            codes.push(symbol.and_then(|_| i32::try_from(texts.len()).ok()));
            texts.extend(symbol);
        }
        let symbols = DictionaryArray::try_new(Int32Array::from(codes), Arc::new(StringArray::from(texts)))?;
        let symbols = Symbols(Arc::new(symbols));
        let mut passed = vec![true; symbols.rows()];
        for condition in &self.conditions {
            let mask = holds(&condition.evaluate(&symbols, &self.constants)?.into_array(symbols.rows())?)?;
            passed.iter_mut().zip(mask.values()).for_each(|(passed, holds)| *passed &= holds);
        }
        Ok(passed)
    }
}

/// Symbols as the only column that is asked for, each once.
struct Symbols(ArrayRef);

impl Columns for Symbols {
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
