#!/usr/bin/env bash
# The rules between crates that the compiler can't see: who may depend on what, and one Arrow in the workspace.
set -euo pipefail
cd "$(dirname "$0")/.."
tree() { cargo tree --locked --prefix none --edges normal "$@" | sed 's/ .*//' | sort -u; }
refuse() { # package, forbidden pattern, why
    if tree -p "$1" | grep -Eq "$2"; then
        echo "splay: $1 depends on $(tree -p "$1" | grep -E "$2" | head -1): $3" >&2
        exit 1
    fi
}
refuse splay-store '^(datafusion|tokio$|tonic$|axum$)' 'the store knows neither the query engine nor a network'
refuse splay-engine '^(datafusion|tokio$|splay-sql$|splay-import$)' 'the engine knows the store alone'
refuse splay-import '^(datafusion|tokio$|splay-sql$|splay-lab$)' 'importers know only the store'
refuse splay-sql '^(splay-capture$|splay-server$|axum$|hyper$|tonic$|rustls$)' 'the network stack is for the server alone'
refuse splay-lab '^(datafusion|splay-store$|tokio$)' 'the simulator stands alone'
versions=$(cargo tree --locked --workspace --prefix none --edges normal | sed -nE 's/^arrow-array (v[0-9]+).*/\1/p' | sort -u | wc -l)
if [ "$versions" -ne 1 ]; then
    echo "splay: more than one major version of Arrow in the workspace; they don't share types" >&2
    exit 1
fi
echo "dependencies between crates are as ARCHITECTURE.md says"
