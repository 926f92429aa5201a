//! Values derived from a constant, computed once per run.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use arrow::array::{Array, ArrayRef};

use crate::error::Result;

/// Most runs whose values are cached at a time.
const RUNS_MAX: usize = 16;

/// Values derived from constants, cached as long as the constants live.
#[derive(Debug)]
pub(crate) struct PerRun<T>(Mutex<Vec<(Weak<dyn Array>, Arc<T>)>>);

impl<T> Default for PerRun<T> {
    fn default() -> PerRun<T> {
        PerRun(Mutex::default())
    }
}

impl<T> PerRun<T> {
    /// The cached result for a constant; computed by `make` the first time.
    pub fn get(&self, of: &ArrayRef, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An array that is weakly held keeps its address.
        if let Some((_, value)) = cache.iter().find(|(one, _)| std::ptr::addr_eq(one.as_ptr(), Arc::as_ptr(of))) {
            return Ok(Arc::clone(value));
        }
        cache.retain(|(one, _)| one.strong_count() > 0);
        cache.truncate(RUNS_MAX - 1);
        let value = Arc::new(make()?);
        cache.insert(0, (Arc::downgrade(of), Arc::clone(&value)));
        Ok(value)
    }

    /// The cached result for a constant. Without one `make` computes it and holds no lock meanwhile, so that it may
    /// wait for other threads: they may be at work on another run that asks for its own result.
    pub fn prepare(&self, of: &ArrayRef, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        if !self.has(of) {
            let made = make()?;
            return self.get(of, || Ok(made));
        }
        self.get(of, make)
    }

    /// Whether something was made of a constant.
    pub fn has(&self, of: &ArrayRef) -> bool {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.iter().any(|(one, _)| std::ptr::addr_eq(one.as_ptr(), Arc::as_ptr(of)))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
