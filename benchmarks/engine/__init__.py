"""The query benchmark: the same questions to SplayDB, DuckDB and Polars, in one run, on the same rows.

``make bench-engine`` runs it; docs/benchmarks.md says what the rules are. One room per job:

- ``generate``: data, made by ``splay gen`` and loaded by ``splay load``; ``tables``: the same rows as Parquet
- ``question``, ``parameters``: what is asked; ``suites/``, ``taq84/``: the questions
- ``systems/``: who is asked, one file each
- ``compare``: whether answers are equal; ``measure``: how long they take; ``report``: what is printed
"""
