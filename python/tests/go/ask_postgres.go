// Asks a server by pgx and by lib/pq: types, placeholders, arrays, COPY, a batch, an error. A line for each answer.
//
//	go run . HOST:PORT
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	place := fmt.Sprintf("postgres://any@%s/market?sslmode=disable", os.Args[1])
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, place)
	must(err)
	var at time.Time
	var sym string
	var price float64
	var size int64
	must(connection.QueryRow(ctx, "select time, sym, price, size from trade where size = $1", 7).Scan(&at, &sym, &price, &size))
	fmt.Println("pgx row", at.UTC().Format(time.RFC3339Nano), sym, price, size)
	var count int64
	must(connection.QueryRow(ctx, "select count(*) from trade where sym = any($1)", []string{"IBM", "no"}).Scan(&count))
	fmt.Println("pgx among", count)
	rows := [][]any{{time.Unix(1767225600, 5).UTC(), "GO", 1.5, int64(1)}, {time.Unix(1767225601, 0).UTC(), "GO", nil, int64(2)}}
	copied, err := connection.CopyFrom(ctx, pgx.Identifier{"trade"}, []string{"time", "sym", "price", "size"}, pgx.CopyFromRows(rows))
	must(err)
	must(connection.QueryRow(ctx, "select count(*) from trade where sym = 'GO'").Scan(&count))
	fmt.Println("pgx copied", copied, count)
	batch := &pgx.Batch{}
	for n := range 3 {
		batch.Queue("select $1::bigint + 1", n)
	}
	results := connection.SendBatch(ctx, batch)
	for range 3 {
		must(results.QueryRow().Scan(&count))
		fmt.Println("pgx batch", count)
	}
	must(results.Close())
	_, err = connection.Exec(ctx, "select nothing from trade")
	var refused *pgconn.PgError
	fmt.Println("pgx refused", errors.As(err, &refused), refused.Code)
	must(connection.Close(ctx))

	database, err := sql.Open("postgres", place)
	must(err)
	must(database.QueryRow("select count(*) from trade where sym = any($1) and size < $2", pq.Array([]string{"IBM"}), 10).Scan(&count))
	fmt.Println("pq among", count)
	statement, err := database.Prepare("select sym, price from trade where size = $1 and sym <> 'GO'")
	must(err)
	for n := range 2 {
		must(statement.QueryRow(n).Scan(&sym, &price))
		fmt.Println("pq row", sym, price)
	}
	must(database.Close())
}
