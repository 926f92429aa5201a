//! No function takes a name of one of DataFusion's.

use std::collections::HashSet;

use datafusion::execution::SessionStateDefaults;

use crate::{aggregates, scalar, window};

/// All names of a function.
fn names(name: &str, aliases: &[String]) -> Vec<String> {
    std::iter::once(name).chain(aliases.iter().map(String::as_str)).map(str::to_owned).collect()
}

#[test]
fn names_of_datafusions_functions_stay_theirs() {
    let mut theirs: Vec<Vec<String>> = Vec::new();
    theirs.extend(SessionStateDefaults::default_scalar_functions().iter().map(|of| names(of.name(), of.aliases())));
    theirs.extend(SessionStateDefaults::default_aggregate_functions().iter().map(|of| names(of.name(), of.aliases())));
    theirs.extend(SessionStateDefaults::default_window_functions().iter().map(|of| names(of.name(), of.aliases())));
    let mut ours: Vec<Vec<String>> = Vec::new();
    ours.extend(scalar().iter().map(|of| names(of.name(), of.aliases())));
    ours.extend(aggregates().iter().map(|of| names(of.name(), of.aliases())));
    ours.extend(window().iter().map(|of| names(of.name(), of.aliases())));
    for names in ours {
        // One of theirs under another name, or with other answers for what was wrong, may have its own.
        let own: HashSet<&String> = theirs.iter().filter(|their| their.first() == names.first()).flatten().collect();
        let conflict = names.iter().find(|name| !own.contains(name) && theirs.iter().any(|their| their.contains(name)));
        assert_eq!(conflict, None, "of {names:?}");
    }
    for name in ["arg_max", "argmax", "max_by", "arg_min", "argmin", "min_by", "strftime"] {
        // Written otherwise before DataFusion sees them.
        assert!(!theirs.iter().flatten().any(|their| their == name), "{name}");
    }
}
