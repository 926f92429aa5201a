"""The benchmark in the box: the finance queries and file formats, asked of every engine that can be installed.

``python -m splay_bench run finance`` makes the data, gets the engines into virtual environments of their own, checks every
answer, and only then measures. benchmarks/README.md tells how to use it, engines/README.md how to add an engine.
"""
