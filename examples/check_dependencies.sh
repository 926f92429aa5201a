#!/usr/bin/env bash
# The rules between crates that the compiler can't see: who may depend on what, one Arrow in the workspace, and nothing compiled twice.
set -euo pipefail
cd "$(dirname "$0")/.."
tree() { cargo tree --locked --prefix none --edges normal "$@" | sed 's/ .*//' | sort -u; }
refuse() { # package, forbidden pattern, why
    local found
    found=$(tree -p "$1" | sed "/^$1\$/d") # Ends the script if cargo fails.
    found=$(grep -E "$2" <<<"$found" | head -1) || return 0
    echo "splay: $1 depends on $found: $3" >&2
    exit 1
}
network='axum$|hyper$|tonic$|rustls$'
refuse splay-store "^(datafusion|tokio\$|$network)" 'the store knows neither the query engine nor a network'
refuse splay-engine "^(datafusion|tokio\$|$network|splay-sql\$|splay-import\$)" 'the engine knows the store alone'
refuse splay-import "^(datafusion|tokio\$|$network|splay-sql\$|splay-lab\$)" 'importers know only the store'
refuse splay-capture "^(datafusion|tokio\$|$network|splay-sql\$|splay-engine\$|splay-import\$)" 'capture knows the store alone'
refuse splay-functions "^($network|splay-capture\$|splay-import\$|splay-sql\$|splay-server\$)" 'functions know the engine and calendars alone'
refuse splay-sql "^($network|splay-capture\$|splay-server\$)" 'the network stack is for the server alone'
refuse splay-ipc '^(datafusion|splay-store$|parquet$|tokio$)' 'reading Arrow files needs Arrow alone'
refuse splay-calendar '^(datafusion|arrow|splay-store$|tokio$)' 'calendars stand alone'
refuse splay-console '.' 'the console is bytes alone'
refuse splay-lab '^(datafusion|splay-store$|tokio$)' 'the simulator stands alone'
refuse splay-mutate '^(datafusion|arrow|splay-store$|tokio$)' 'the fuzzer knows bytes alone'
versions=$(tree --workspace >/dev/null && cargo tree --locked --workspace --prefix none --edges normal | sed -nE 's/^arrow-array (v[0-9]+).*/\1/p' | sort -u | wc -l)
if [ "$versions" -ne 1 ]; then
    echo "splay: more than one major version of Arrow in the workspace; they don't share types" >&2
    exit 1
fi
# By its manifest: its own dependencies needn't be fetched for it.
if grep -hE '^splay-' feeds/*/Cargo.toml | grep -qvE '^splay-(ipc|records) '; then
    echo "splay: programs of feeds/ speak HTTP with the server, and know splay-ipc alone beside what they have in common" >&2
    exit 1
fi
.ci/compiled_once.py
echo "dependencies between crates are as ARCHITECTURE.md says"
