"""The benchmark's parts: results on disk, the report from fixed results, texts and rows for engines."""

import datetime
import itertools
import json
import re
import xml.etree.ElementTree as ElementTree

import pyarrow as pa
import pytest

import engines
from engine.parameters import CryptoParameters
from engine.suites import crypto14
from engines import rows
from engines.base import Skipped
from splay_bench import __main__ as command
from splay_bench import environment, memory
from splay_bench.report import build, finance, svg, words
from splay_bench.store import Store, read_all

PARAMETERS = CryptoParameters(1)
QUESTIONS = {question.id: question for question in crypto14.questions(PARAMETERS)}


def test_every_engine_says_what_it_is():
    for name in engines.NAMES:
        cls = engines.load(name)
        assert cls.name == name and cls.title and cls.starts and cls.stores in ("disk", "memory")
        assert len(cls.best) > 40 or cls.unavailable({}), name
        assert engines.load(name).__module__.endswith("_engine")
    with pytest.raises(KeyError, match="no engine oracle; there are splay"):
        engines.load("oracle")


def test_engines_that_cannot_be_had_say_why():
    assert "SPLAY_BENCH_CLICKHOUSE" in engines.load("clickhouse-server").unavailable({})
    assert "splay_bench build influxdb2" in engines.load("influxdb2").unavailable({"cache": "/nowhere"})
    assert "SPLAY_BENCH_TIMESCALEDB" in engines.load("timescaledb").unavailable({})
    for name in ("splay", "splay-memory", "splay-http", "splay-flight", "splay-postgres"):
        assert "make wheel" in engines.load(name).unavailable({"wheel": ""})


def test_texts_of_the_dialects_hold_no_word_of_another():
    from engines import clickhouse_engine, datafusion_engine, postgresql_engine

    for module in (clickhouse_engine, datafusion_engine, postgresql_engine):
        for id, question in QUESTIONS.items():
            text = module.DIALECT.text(question, PARAMETERS, question.variant(0), module.OWN.get(id))
            assert "time_bucket" not in text and "arg_max" not in text and "rowid" not in text and "$" not in text
            assert "2022-0" in text


def test_a_text_that_was_never_seen_differs_in_the_name_of_its_table():
    from engines import postgresql_engine
    from engines.translate import never_seen

    for id, question in QUESTIONS.items():
        text = postgresql_engine.DIALECT.text(question, PARAMETERS, question.variant(0), postgresql_engine.OWN.get(id))
        one, other = never_seen(text, 1), never_seen(text, 2)
        assert len({text, one, other}) == 3 and one.replace("seen_1", "seen_2") == other
        assert one.replace(" AS seen_1", "") == text


def test_placeholders_are_numbered_by_name():
    from engine.question import render
    from engines.translate import placeholders

    question = QUESTIONS["O-T"]
    text = question.duckdb
    marks, values = placeholders(text, PARAMETERS, question.variant(3), "${}".format)
    assert values == [question.variant(3)["symbol"], question.variant(3)["instant"]]
    rendered = render(text, PARAMETERS, marks, repr)
    assert rendered.count("$1") == 1 and rendered.count("$2") == 2 and "$s" not in rendered


def test_own_texts_cover_all_queries():
    from engines import influxdb_queries, kdb_engine, questdb_engine

    for texts in (influxdb_queries.TEXTS, questdb_engine.TEXTS, kdb_engine.QUERIES):
        assert set(texts) == set(QUESTIONS)


def test_rows_are_numbered_in_their_order_of_arrival():
    parts = [pa.table({"a": [1, 2]}), pa.table({"a": [3]})]
    assert [part["n"].to_pylist() for part in rows.numbered(parts)] == [[0, 1], [2]]


def test_points_of_one_series_and_time_are_kept_apart():
    from engines.influxdb_lines import UniqueTimes, as_lines

    instant = datetime.datetime(2022, 6, 18, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "timestamp": pa.array([instant, instant, instant], pa.timestamp("ns", "UTC")),
            "symbol": ["A", "B", "A"],
            "price": [1.5, 2.0, 1e-7],
            "id": [1, 2, 3],
        }
    )
    start = 1_655_510_400_000_000_000
    assert UniqueTimes().of(table).to_pylist() == [start, start, start + 1]
    assert as_lines("trades", table, UniqueTimes()).to_pylist() == [
        f"trades,symbol=A price=1.5,id=1i {start}",
        f"trades,symbol=B price=2,id=2i {start}",
        f"trades,symbol=A price=1e-7,id=3i {start + 1}",
    ]


def test_points_of_one_time_are_kept_apart_across_pieces():
    """Before, each piece of a file counted anew: rows of one time on both sides of a cut replaced each other in InfluxDB."""
    from engines.influxdb_lines import UniqueTimes

    instants = [datetime.datetime(2022, 6, 18, 0, 0, second, tzinfo=datetime.UTC) for second in (0, 1, 1, 1, 1, 2, 1)]
    table = pa.table(
        {"timestamp": pa.array(instants, pa.timestamp("ns", "UTC")), "symbol": ["A", "A", "A", "A", "A", "A", "B"]}
    )
    whole = UniqueTimes().of(table).to_pylist()
    assert len(set(whole[:6])) == 6
    for cut in range(8):
        times = UniqueTimes()
        pieces = [piece for piece in (table.slice(0, cut), table.slice(cut)) if piece.num_rows]
        assert [time for piece in pieces for time in times.of(piece).to_pylist()] == whole
    times = UniqueTimes()
    assert [time for row in range(7) for time in times.of(table.slice(row, 1)).to_pylist()] == whole


def test_results_count_for_their_commit_only(tmp_path):
    store = Store(tmp_path, {"commit": "one"})
    store.add("duckdb", "T-V1", answer={"state": "right"})
    store.add("duckdb", "T-V1", warm={"client_ms": [1.0]})
    assert set(store.get("duckdb", "T-V1")) == {"answer", "warm", "stamp"}
    assert Store(tmp_path, {"commit": "two"}).get("duckdb", "T-V1") == {}
    assert Store(tmp_path, {"commit": "one"}).get("duckdb", "T-V1") != {}
    again = Store(tmp_path, {"commit": "one"}, again=True)
    assert again.get("duckdb", "T-V1") == {}
    again.add("duckdb", "T-V1", cold={})
    assert set(again.get("duckdb", "T-V1")) == {"cold", "stamp"}
    (tmp_path / "duckdb" / "O-T.json").write_text("{half")
    assert store.get("duckdb", "O-T") == {}


def test_packages_that_cannot_be_installed_are_a_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "TRIES", 1)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(Skipped, match="pip can't install no-such-package-of-splay==1: ERROR"):
        environment.ensure(tmp_path / "venv", ["no-such-package-of-splay==1"], tmp_path / "pip.log")


def test_memory_of_a_process_is_seen():
    import os

    with memory.watched(os.getpid()) as peak:
        data = bytearray(64 << 20)
        data[::4096] = b"x" * len(data[::4096])
    assert peak.peak is None or peak.growth > 32 << 20


def query(state="right", warm=(), cold=(), again=(), growth=2**20, detail="") -> dict:
    times = {"client_ms": list(warm), "engine_ms": []}
    cold_values = {"client_ms": list(cold), "growth_bytes": [growth], "peak_bytes": [growth]}
    values = {"answer": {"state": state, "detail": detail, "growth_bytes": growth}}
    return (
        values
        | ({"warm": times} if warm else {})
        | ({"again": {"client_ms": list(again)}} if again else {})
        | ({"cold": cold_values} if cold else {})
    )


@pytest.fixture
def fixed(tmp_path):
    """Results as two engines and an absent one leave them, at two scales."""
    for scale, times in (("scale-0.01", 1.0), ("scale-0.1", 3.0)):
        folder = tmp_path / "finance" / scale
        parts = {
            "splay/engine": {
                "title": "SplayDB",
                "stores": "disk",
                "version": "1",
                "bytes": 800,
                "best": "b",
                "starts": "s",
            },
            "splay/T-V1": query(warm=[2 * times, times, 9 * times] * 3, cold=[8.0] * 9, again=[2 * times]),
            "splay/O-T": query(warm=[4.0], cold=[4.0], again=[8.0]),
            "splay/W": {"state": "right", "mb_per_second": 300.0, "seconds": 1.0, "detail": ""},
            "splay/clients": {"1": {"per_second": 100.0}, "4": {"per_second": 150.0}},
            "duckdb/engine": {"title": "DuckDB <2>", "stores": "disk", "version": "2", "bytes": 200},
            "duckdb/T-V1": query(warm=[8 * times], cold=[2.0], again=[8 * times], growth=2**22),
            "duckdb/O-T": query("wrong", detail="1 of 1 rows, first b1p: 2 instead of 1"),
            "duckdb/W": {"state": "right", "mb_per_second": 100.0, "seconds": 3.0, "detail": ""},
            "duckdb/clients": {"1": {"per_second": 200.0}, "4": {"per_second": 60.0}},
            "duckdb/SE": {"stamp": {"commit": "older", "rules": {}}},
            "kdb/engine": {"title": "kdb+", "skipped": "no licence"},
        }
        run = {
            "rules": {"rounds": 3, "threads": 2},
            "raw_bytes": 1000,
            "rows": {"trades": 5},
            "commit": "abc",
            "command": "c",
        }
        for name, values in (parts | {"run": run}).items():
            path = folder / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values))
    section = {"title": "formats", "note": "n", "tables": [{"title": "t", "head": ["a", "b"], "rows": [["1|2", "3"]]}]}
    path = tmp_path / "formats" / "smoke" / "all" / "tables.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"section": section}))
    return tmp_path


def test_the_report_counts_what_is_right_and_says_what_others_do_better(fixed):
    one = finance.FinanceSet("scale-0.01", read_all(fixed)["finance"]["scale-0.01"])
    assert one.one("splay", "T-V1").warm == 2.0 and one.factor("T-V1", "warm") == ("duckdb", 4.0)
    assert one.one("duckdb", "O-T").warm is None and one.factor("O-T", "warm") is None
    assert one.mean("duckdb", "warm") == (pytest.approx(8.0), 1)
    assert one.size_share("splay") == 0.8
    assert one.agreement()[:2] == (2, 3)
    said = {(loss.what, loss.rival): loss.factor for loss in one.losses()}
    assert said == {
        ("T-V1, cold start: page cache dropped, in a fresh process", "DuckDB <2>"): 4.0,
        ("SE, size on disk", "DuckDB <2>"): 4.0,
        ("1 clients", "DuckDB <2>"): 2.0,
    }
    assert one.absent() == [("kdb+", "no licence")]
    assert one.stale() == ["DuckDB <2>, SE: measured at commit older"]
    assert one.failures() == ["DuckDB <2>, O-T: wrong: 1 of 1 rows, first b1p: 2 instead of 1"]


def test_the_page_is_whole_and_needs_no_network(fixed):
    html, text = build(fixed, None, None)
    page = html.read_text()
    assert "<script" not in page and "src=" not in page and "url(" not in page and "@import" not in page
    links = re.findall(r'href="([^"]*)"', page)
    assert links and all(f'id="{link.removeprefix("#")}"' in page for link in links), "links stay within the page"
    assert "DuckDB &lt;2&gt;" in page and "DuckDB <2>" not in page
    ElementTree.fromstring(page.removeprefix("<!doctype html>").replace('<meta charset="utf-8">', "").replace(
        '<meta name="viewport" content="width=device-width, initial-scale=1">', ""))  # fmt: skip
    # At both scales means, the best rival warm and cold, two queries, clients; and the scaling.
    assert page.count("<svg") == 2 * (1 + 2 + 2 + 1) + 1
    assert "against the fastest rival: first in 1 of 1 queries warm, level in 0; first in 0 of 1 queries at a cold start" in page
    assert "level in 0. 3 of 4 answers" in page
    lines = text.read_text().splitlines()
    assert "| T-V1 | 2.00 | 8.00 | 4 times faster than DuckDB <2> |" in lines
    assert "| on disk, share of CSV | 80% | 20% |  |" in lines
    assert "| T-V1 | 1.00 to 9.00 |" in lines
    assert "| O-T | 4.00 | wrong |  |" in lines
    assert "| 1\\|2 | 3 |" in lines
    assert any(line.startswith("Two runs' medians agree within 15 % in 2 of 3 cells (67%).") for line in lines)


def test_charts_stand_by_themselves(fixed):
    _, text = build(fixed, None, None)
    means = ElementTree.parse(text.parent / "benchmarks-means.svg").getroot()
    assert means.tag.endswith("svg") and means[0].tag.endswith("style")
    assert "DuckDB <2>" in "".join(means.itertext()) and (text.parent / "benchmarks-known.svg").exists()
    assert not (text.parent / "benchmarks-never-seen.svg").exists(), "nothing was asked like that"


def test_what_fails_in_one_way_has_its_other_times(fixed):
    path = fixed / "finance" / "scale-0.01" / "splay" / "T-V1.json"
    path.write_text(json.dumps(query(warm=[2.0] * 9) | {"cold": {"client_ms": [1.0], "failed": "it didn't start"}}))
    one = finance.FinanceSet("scale-0.01", read_all(fixed)["finance"]["scale-0.01"])
    cell = one.one("splay", "T-V1")
    assert cell.state == "right" and cell.warm == 2.0 and cell.cold is None
    assert cell.text("", "cold") == "error" and cell.text("2.00", "warm") == "2.00"
    assert "it didn't start" in "".join(one.failures())


def test_servers_are_set_beside_our_server(fixed):
    """Times of a library are no measure for an answer that travels, nor the other way round."""
    folder = fixed / "finance" / "scale-0.01"
    for name, title, time, transport in (("splay-http", "SplayDB, HTTP", 3.0, "HTTP, Arrow"), ("questdb", "QuestDB", 1.5, "HTTP, CSV")):
        about = {"title": title, "stores": "disk", "is_server": True, "transport": transport, "bytes": 500}
        for part, values in (("engine", about), ("T-V1", query(warm=[time] * 9) | {"prepared": {"client_ms": [time / 2]}})):
            path = folder / name / f"{part}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(values))
    one = finance.FinanceSet("scale-0.01", read_all(fixed)["finance"]["scale-0.01"])
    assert one.factor("T-V1", "warm") == ("duckdb", 4.0), "the faster QuestDB is a server"
    assert one.factor("T-V1", "warm", servers=True) == ("questdb", 0.5)
    assert one.against("questdb", "warm") == pytest.approx(0.5) and one.against("duckdb", "warm") == pytest.approx(4.0)
    assert "As a server SplayDB against the fastest rival: first in 0 of 1 queries warm, level in 0." in words.lead(one)
    # A prepared answer of many rows is no part of means over servers.
    for name, time in (("splay-http", 3.0), ("questdb", 1.5)):
        large = query(warm=[time] * 9) | {"prepared": {"client_ms": [time / 2]}}
        large["answer"]["rows"] = 10_001
        (folder / name / "T-V1.json").write_text(json.dumps(large))
    one = finance.FinanceSet("scale-0.01", read_all(fixed)["finance"]["scale-0.01"])
    assert one.left_out("prepared", True) == ["T-V1"] and one.left_out("warm", True) == [] and one.left_out("prepared", False) == []
    assert one.mean("questdb", "prepared") == (None, 0) and one.mean("questdb", "warm") == (pytest.approx(1.5), 1)
    _, text = build(fixed, None, None)
    lines = text.read_text().splitlines()
    assert "| by | HTTP, Arrow | HTTP, CSV |  |" in lines and "| T-V1 | 3.00 | 1.50 | 2 times slower than QuestDB |" in lines
    assert any(line.startswith("**Servers: prepared, tight loop; ms. No part of the means: T-V1, since over") for line in lines)
    assert "**In process: prepared, tight loop; ms**" not in lines


def test_of_few_runs_nothing_is_claimed(fixed):
    path = fixed / "finance" / "scale-0.01" / "splay" / "T-V1.json"
    path.write_text(json.dumps(query(warm=[2.0] * 8, cold=[8.0] * 9)))
    one = finance.FinanceSet("scale-0.01", read_all(fixed)["finance"]["scale-0.01"])
    assert "nothing is claimed warm, of fewer than 9 runs; first in 0 of 1 queries at a cold start" in words.lead(one)


def test_a_report_needs_results(tmp_path):
    with pytest.raises(SystemExit, match="no results"):
        build(tmp_path, None, None)


def test_the_report_says_whether_the_machine_was_quiet(fixed):
    def said(cores: float, yardstick: tuple = (2.0, 2.1)) -> str:
        path = fixed / "finance" / "scale-0.01" / "splay" / "T-V1.json"
        values = json.loads(path.read_text())
        values["warm"] |= {"others_cores": cores, "yardstick_ms": yardstick}
        path.write_text(json.dumps(values))
        return words.agreement(finance.FinanceSet("scale-0.01", read_all(fixed)["finance"]["scale-0.01"]))

    assert "0.02 at most: the machine was quiet. Furthest apart: splay O-T 100%." in said(0.02, ())
    taken = "a fixed piece of work on all cores took from 2.0 to {} ms (5th to 95th percentile): the machine was {}"
    assert f"0.02 at most, and {taken.format(2.1, 'quiet.')}" in said(0.02)
    assert f"1.50 at most, and {taken.format(2.1, 'not quiet')}" in said(1.5)
    assert taken.format(3.0, "not quiet") in said(0.02, (3.0, 2.0)), "its speed changed"


def test_labels_do_not_cover_each_other():
    assert svg.apart([5, 6, 100], 0, 200) == [5, 18, 100]
    crowded = svg.apart([90, 95, 99], 0, 100)
    assert crowded[-1] == 100 and all(b - a >= svg.LABEL_LINE for a, b in itertools.pairwise(crowded))


def test_bars_go_to_both_sides_of_one():
    root = ElementTree.fromstring(svg.both_sides([("T-V1", 4.0, "4 DuckDB"), ("O-T", 0.25, "1/4 DuckDB")]))
    better, worse = [node for node in root.iter() if node.tag.endswith("rect")]
    assert float(better.get("x")) == pytest.approx(float(worse.get("x")) + float(worse.get("width")), abs=0.2)
    assert (better.get("class"), worse.get("class")) == ("good", "bad")


def test_charts_show_failures_as_words():
    root = ElementTree.fromstring(
        svg.bars([("splay", "SplayDB", [1.0, 20.0], "1 / 20"), ("duckdb", "D", [None, None], "wrong")], 0, 2)
    )
    texts = ["".join(node.itertext()) for node in root.iter() if node.tag.endswith("text")]
    assert "wrong" in texts and len([node for node in root.iter() if node.tag.endswith("rect")]) == 2


def test_the_command_line_reads_lists(capsys):
    arguments = command.parser().parse_args(
        ["run", "finance", "--scale", "0.005,0.02", "--engines", "splay,duckdb", "--clients", "1,4", "--warm"]
    )
    given = command.settings_of(arguments)
    assert given.scales == [0.005, 0.02] and given.clients == [1, 4] and given.warm and not given.cold
    with pytest.raises(KeyError):
        command.settings_of(command.parser().parse_args(["run", "finance", "--engines", "oracle"]))
    with pytest.raises(KeyError, match="no kind planned; there are prepared, unseen"):
        command.settings_of(command.parser().parse_args(["run", "finance", "--kinds", "planned"]))
    command.show()
    assert "questdb" in capsys.readouterr().out


def test_what_is_nearly_equal_is_called_level():
    said = [words.against(value, "DuckDB") for value in (1.14, 0.88, 1.5, 0.25, 40)]
    level = "level with DuckDB"
    assert said == [
        level,
        level,
        "1.5 times faster than DuckDB",
        "4 times slower than DuckDB",
        "40 times faster than DuckDB",
    ]
