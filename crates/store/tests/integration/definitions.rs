//! Changes of what tables are, and of whether they are there, for the tests of crashes and faults: see `scenario.rs`.

use splay_store::Period;

use crate::model::{self, Model, open};
use crate::scenario::{self, Scenario, changing, loaded};

/// All of them.
pub(crate) fn all() -> Vec<Scenario> {
    vec![drop_table(), return_of_a_table(), rename_column(), drop_column(), return_of_a_column(), set_partition()]
}

fn drop_table() -> Scenario {
    let old = Model::new(model::rows(50, 90, 0..3, 4));
    changing("drop table", old, None, |table| table.drop_table().map(drop))
}

/// A table that was dropped comes back.
fn return_of_a_table() -> Scenario {
    let new = Model::new(model::rows(51, 90, 0..3, 4));
    let base = loaded(&new.rows);
    let dropped = open(&base).unwrap().table("trade").unwrap().drop_table().unwrap();
    Scenario::of("return of a table", &base, (None, Some(new)), move |database| {
        database.dropped_table("trade")?.undo(dropped).map(drop)
    })
}

/// The same rows without their notes.
fn without_notes(model: &Model) -> Model {
    let mut without = model.clone();
    without.spec.columns.retain(|column| column.name != "note");
    without
}

fn rename_column() -> Scenario {
    let old = Model::new(model::rows(56, 90, 0..3, 4));
    let mut new = old.clone();
    new.spec.columns[3].name = "quantity".to_owned();
    new.spec.columns[3].formerly = vec!["size".to_owned()];
    changing("rename column", old, Some(new), |table| table.rename_column("size", "quantity"))
}

fn drop_column() -> Scenario {
    let old = Model::new(model::rows(52, 90, 0..3, 4));
    let new = without_notes(&old);
    changing("drop column", old, Some(new), |table| table.drop_column("note"))
}

/// A column that was dropped comes back, null in the rows that came since.
fn return_of_a_column() -> Scenario {
    let (first, mut later) = (model::rows(54, 60, 0..2, 4), model::rows(55, 30, 5..6, 4));
    later.iter_mut().for_each(|row| row.note = None);
    let base = loaded(&first);
    let table = open(&base).unwrap().table("trade").unwrap();
    table.drop_column("note").unwrap();
    model::load(&open(&base).unwrap(), &later, scenario::options()).unwrap();
    let new = Model::new(first).plus(&later);
    Scenario::of("return of a column", &base, (Some(without_notes(&new)), Some(new)), |database| {
        database.table("trade")?.undo(2).map(drop)
    })
}

fn set_partition() -> Scenario {
    let old = Model::new(model::rows(53, 90, 30..33, 4));
    let mut new = old.clone();
    new.spec.partition = Period::Month;
    changing("set partition", old, Some(new), |table| table.set_partition(Period::Month, scenario::options()).map(drop))
}
