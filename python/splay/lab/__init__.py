"""The laboratory of compression: how small columns become by which scheme, and what writing and reading them costs.

>>> from splay import lab
>>> results = lab.compression(lab.generate("longs:1000"), schemes="q", budget=1)
>>> results.choose(min_factor=2, max_write_ms=50, order_by="write").num_rows >= 0
True

``compression`` measures, and gives :class:`Results`: extremes, the best by each metric, a choice within limits, the Pareto front, plots.
"""

from splay.lab.measure import compression, generate, lists
from splay.lab.results import Results, load
from splay.lab.vortex import vortex

__all__ = ["Results", "compression", "generate", "lists", "load", "vortex"]
