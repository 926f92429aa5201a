#!/usr/bin/env bash
# Simulates a day of US equities, loads it, and asks it the questions of examples/queries. Everything goes to demo-db/.
set -euo pipefail
splay=$(realpath "${1:-target/release/splay}")
cd "$(dirname "$0")/.."
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '$ splay %s\n' "$*"; "$splay" "$@"; }

rm -rf demo-db
say '1. A simulated trading day, in the shape of NYSE Daily TAQ files'
run gen taq --out demo-db/files --date 2019-10-07 --symbols 100 --quotes 1000000 --trades 200000 --seed 1

say '2. Loaded: ordered by symbol and time, memory-mapped, safe against crashes'
run load demo-db/market trade 'demo-db/files/EQY_US_ALL_TRADE_*.gz' --recipe nyse-taq-trade 2>/dev/null
run load demo-db/market quote 'demo-db/files/SPLITS_US_ALL_BBO_*.gz' --recipe nyse-taq-quote 2>/dev/null
run tables demo-db/market

say '3. Questions, with the time and the memory that each took'
for query in examples/queries/*.sql; do
    printf '\n'
    cat "$query"
    printf '\n'
    "$splay" sql demo-db/market --file "$query" --rows 6 --stats
done

say '4. Every byte checked'
run verify demo-db/market
printf '\nThe database is in demo-db/market. Ask it something yourself:\n'
printf '  %s sql demo-db/market "select Symbol, count(*) n from trade group by 1 order by n desc limit 5"\n' "${splay#"$PWD"/}"
