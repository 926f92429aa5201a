//! Values derived from a constant, computed once per run.
//!
//! A plan stays in a cache of plans, and so do its look-up tables, which may be many times as large as the statement. What was made of the
//! constants of a run is dropped at its end ([`release`]), or with the plan, if that owns the constant.

use std::any::Any;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use arrow::array::{Array, ArrayRef};

use crate::error::Result;

/// Most runs whose values are cached at a time.
const RUNS_MAX: usize = 16;

/// The caches that hold values.
static CACHES: LazyLock<Mutex<Vec<Weak<dyn Cache>>>> = LazyLock::new(Mutex::default);

/// Values derived from constants, cached as long as the constants live.
#[derive(Debug)]
pub(crate) struct PerRun<T>(Arc<RunValues<T>>);

#[derive(Debug)]
struct RunValues<T>(Mutex<Vec<(Weak<dyn Array>, Arc<T>)>>);

/// A cache that gives away what nobody will ask for any more.
trait Cache: Send + Sync {
    /// Moves the values of constants that are gone to `unused`. Whether any are left.
    fn take_unused(&self, unused: &mut Vec<Arc<dyn Any + Send + Sync>>) -> bool;
}

impl<T: Send + Sync + 'static> Cache for RunValues<T> {
    fn take_unused(&self, unused: &mut Vec<Arc<dyn Any + Send + Sync>>) -> bool {
        // One that is making a value belongs to a run, whose end comes by again.
        let mut values = match self.0.try_lock() {
            Ok(values) => values,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return true,
        };
        for (_, value) in values.extract_if(.., |(of, _)| of.strong_count() == 0) {
            unused.push(value);
        }
        !values.is_empty()
    }
}

/// Drops the constants of a run that has ended, and all that was derived from them.
pub fn release(constants: Vec<ArrayRef>) {
    let have_values = constants.iter().any(|constant| Arc::weak_count(constant) > 0);
    drop(constants);
    if have_values {
        // Large ones take a while to be dropped, which is when nobody waits for the lock.
        let mut unused = Vec::new();
        let mut caches = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
        caches.retain(|cache| cache.upgrade().is_some_and(|cache| cache.take_unused(&mut unused)));
    }
}

impl<T> Default for PerRun<T> {
    fn default() -> PerRun<T> {
        PerRun(Arc::new(RunValues(Mutex::default())))
    }
}

impl<T: Send + Sync + 'static> PerRun<T> {
    /// The cached result for a constant; computed by `make` the first time.
    pub fn get(&self, of: &ArrayRef, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut values = self.values();
        // An array that is weakly held keeps its address.
        if let Some((_, value)) = values.iter().find(|(one, _)| std::ptr::addr_eq(one.as_ptr(), Arc::as_ptr(of))) {
            return Ok(Arc::clone(value));
        }
        let value = Arc::new(make()?);
        let is_first = values.is_empty();
        values.truncate(RUNS_MAX - 1);
        values.insert(0, (Arc::downgrade(of), Arc::clone(&value)));
        // A release locks in the other order.
        drop(values);
        if is_first {
            let cache = Arc::clone(&self.0) as Arc<dyn Cache>;
            CACHES.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&cache));
        }
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
        self.values().iter().any(|(one, _)| std::ptr::addr_eq(one.as_ptr(), Arc::as_ptr(of)))
    }

    fn values(&self) -> MutexGuard<'_, Vec<(Weak<dyn Array>, Arc<T>)>> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.values().len()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    #[test]
    fn what_was_made_of_the_constants_of_a_run_goes_with_it() {
        let of = |value: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![value])) };
        let (cache, own, run, other) = (PerRun::default(), of(0), of(1), of(2));
        let values: Vec<Arc<i32>> =
            [&own, &run, &other].map(|of| cache.get(of, || Ok(7)).expect("a value")).into_iter().collect();
        assert_eq!(cache.len(), 3);
        release(vec![Arc::clone(&own), run]);
        assert_eq!(cache.len(), 2, "the plan has its constant, and another run isn't over");
        assert_eq!(values.iter().map(Arc::strong_count).collect::<Vec<_>>(), [2, 1, 2]);
        assert!(cache.has(&own) && cache.has(&other));
        release(vec![other]);
        release(vec![own]);
        assert_eq!(cache.len(), 0);
        let again = of(3);
        cache.get(&again, || Ok(8)).expect("a value");
        release(vec![again]);
        assert_eq!(cache.len(), 0, "it is known again");
    }
}
