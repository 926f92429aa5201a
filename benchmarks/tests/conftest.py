"""Tests find the benchmark's packages wherever they are started."""

import os
import pathlib
import sys

BENCHMARKS = pathlib.Path(__file__).resolve().parents[1]
TESTS = BENCHMARKS / "tests"
sys.path[:0] = [str(BENCHMARKS), str(TESTS)]
# For the workers, which are processes of their own.
os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
