"""A fresh database for every test."""

import os
import pathlib

import pandas as pd
import pytest

import splay


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A failure is told at once, so that it's known also of a run that doesn't come to its end."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\n{report.nodeid} failed in its {report.when}:\n{report.longreprtext}", flush=True)


@pytest.fixture
def db(tmp_path: pathlib.Path) -> "splay.Database":
    """One thread reads, so that rows come in the order of the table."""
    return splay.open(tmp_path / "db", threads=1)


@pytest.fixture
def trades() -> pd.DataFrame:
    """Four trades of two symbols on two dates, with a tie in time and a null."""
    return pd.DataFrame(
        {
            "time": pd.to_datetime(
                ["2024-01-02 15:00:00.000000001", "2024-01-02 15:00:00.000000001", "2024-01-02 14:00", "2024-01-03 09:30"],
                format="ISO8601",
                utc=True,
            ),
            "sym": ["IBM", "IBM", "AIG", "IBM"],
            "price": [180.5, 180.25, None, 181.0],
            "size": [100, 200, 300, 400],
        }
    )
