"""The search for cliffs: generated statements, each asked of SplayDB, DuckDB and Polars on the same rows.

``make bench-cliffs`` runs it; benchmarks/README.md says what the grammar is and what the report holds. One room per job:

- ``columns``: the columns that all tables have, one or more of each type; ``data``: the tables; ``profile``: what constants are drawn from
- ``shares``: how forms, selectivities, widths, types and tables are dealt out; ``draw``: what a statement is drawn with
- ``expressions``, ``aggregates``: parts of statements; ``forms/``: whole ones, a file each; ``generator``: all of it, by number and seed
- ``systems``: who is asked; ``answers``: whether they agree; ``worker``: the process that asks; ``run``: who starts it and keeps time
- ``results``: what is kept of each statement; ``report``: what is made of all
"""
