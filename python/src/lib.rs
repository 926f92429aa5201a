//! The Rust half of the Python package `splay`: databases, tables, answers, and the way of rows in and out as Arrow.
//!
//! - Every call that may block lets other Python threads run; queries and loads look for Ctrl-C while they wait.
//! - Rows cross by the Arrow C data interface, without a copy.
//! - Each variant of the Rust errors has its class in `splay.errors`.

mod answer;
mod capture;
mod columns;
mod database;
mod dates;
mod error;
mod fit;
mod frame_stream;
mod lab;
mod load;
mod parameters;
mod prepared;
mod reader;
mod reports;
mod schema;
mod signals;
mod stats;
mod table;
mod write;

use std::ffi::OsString;

use pyo3::prelude::*;

/// Names of the recipes that come with SplayDB, and what each is for.
#[pyfunction]
fn recipes() -> Vec<(String, String)> {
    let described = |name: &str| {
        let recipe = splay_import::Recipe::builtin(name)?;
        Some((name.to_owned(), recipe.description().to_owned()))
    };
    splay_import::Recipe::names().into_iter().filter_map(described).collect()
}

/// Does what the command line `arguments` says, the command's name first, and gives the exit code. For the script `splay` of the wheel,
/// which ends with it.
#[pyfunction]
fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| splay_cli::run_with(arguments))
}

/// The compiled half of `splay`.
#[pymodule]
fn _splay(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(database::open, module)?)?;
    module.add_function(wrap_pyfunction!(recipes, module)?)?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_generate, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_compression, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_load, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_save, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_totals, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_extremes, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_best, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_choose, module)?)?;
    module.add_function(wrap_pyfunction!(lab::lab_front, module)?)?;
    module.add_class::<database::PyDatabase>()?;
    module.add_class::<capture::PyCapture>()?;
    module.add_class::<prepared::PyPrepared>()?;
    module.add_class::<table::PyTable>()?;
    module.add_class::<schema::PySchema>()?;
    module.add_class::<answer::PyAnswer>()?;
    module.add_class::<answer::Batches>()?;
    module.add_class::<stats::Stats>()?;
    module.add_class::<stats::Kept>()?;
    module.add_class::<reports::LoadReport>()?;
    module.add_class::<reports::FileReport>()?;
    module.add_class::<reports::Commit>()?;
    module.add_class::<reports::CompactReport>()?;
    module.add_class::<reports::PublishReport>()?;
    module.add_class::<reports::Partition>()?;
    module.add_class::<reports::Problem>()?;
    module.add_class::<reports::Source>()?;
    Ok(())
}
