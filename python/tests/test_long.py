"""Short forms of the long tests over `splay serve` (docs/reliability.md): a soak of seconds, a few kills."""

import pathlib

import kills
import pytest
import soak
from long_server import SPLAY


@pytest.fixture(autouse=True)
def binary() -> None:
    if not pathlib.Path(SPLAY).exists():
        pytest.skip(f"there is no {SPLAY}: cargo build --release, or set SPLAY")


def test_a_soak_of_seconds_ends_with_the_rows_that_were_sent(tmp_path: pathlib.Path) -> None:
    times = ["--seconds", "6", "--restart-seconds", "2.5", "--backup-seconds", "2", "--sample-seconds", "1", "--date-seconds", "1"]
    told = soak.main([*times, "--live-rows", "1000", "--seed", "5", "--folder", str(tmp_path / "soak")])
    assert told["problems"] == []
    # How many restarts fit into seconds is the machine's matter.
    assert told["rows"] > 1_000 and told["kills"] + told["stops"] >= 1


def test_kills_of_a_server_lose_no_acknowledged_row(tmp_path: pathlib.Path) -> None:
    told = kills.main(["--kills", "4", "--restore-every", "2", "--seed", "5", "--folder", str(tmp_path)])
    assert told["kills"] == 4 and told["acknowledged"] > 0 and told["restores"] >= 2
