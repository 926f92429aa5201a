"""The benchmark's runner, on a month of a few thousand rows with engines that go wrong on purpose.

Nothing is installed, nothing comes from a network, and no time is asserted.
"""

import json

import pytest
import small_crypto

from splay_bench import engine_run, finance, machine
from splay_bench.report import build
from splay_bench.settings import Settings

QUERIES = ["T-VWAP", "O-B1", "C-R"]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with the data of scale 0.001, so that nothing is generated."""
    folder = tmp_path_factory.mktemp("work")
    data = small_crypto.write(folder / "finance-0.001-1", rows=40)
    (data / "raw.json").write_text(json.dumps({"csv_bytes": 1_000_000}))
    return folder


def settings(work, out, engines, **more) -> Settings:
    given = {
        "cold": False,
        "rounds": 2,
        "passes": 2,
        "short_seconds": 0,
        "warm_up_seconds": 0,
        "only": QUERIES,
        "threads": 1,
        "limit_seconds": 60,
        "client_seconds": 0.01,
        "paced_rounds": 2,
        "pace_seconds": 0.001,
    } | more
    names = [f"fake_engines.{name}" for name in engines]
    return Settings(engines=names, out=out, scales=[0.001], work=work, venvs=work / "venvs", **given)


def results(out, engine) -> dict:
    folder = out / "finance" / "scale-0.001" / f"fake_engines.{engine}"
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


def test_right_answers_are_timed_and_loads_counted(work, tmp_path):
    finance.run(settings(work, tmp_path, ["right"], clients=[1, 2]))
    found = results(tmp_path, "right")
    for query in QUERIES:
        assert found[query]["answer"]["state"] == "right" and found[query]["answer"]["detail"] == ""
        assert len(found[query]["warm"]["client_ms"]) == len(found[query]["again"]["client_ms"]) == 2
        assert found[query]["answer"]["kinds"] == {"prepared": "right", "unseen": "right"}
        for part in ("prepared", "unseen", "paced", "prepared_paced", "unseen_paced"):
            assert len(found[query][part]["client_ms"]) == 2
        assert "cold" not in found[query]
    assert found["W"]["state"] == "right" and found["W"]["mb_per_second"] > 0
    assert not (work / "databases-scale-0.001" / "fake_engines.right" / "write").exists()
    assert found["clients"]["2"]["queries"] >= 2 * len(QUERIES)
    assert found["engine"]["bytes"] > 0 and found["engine"]["version"]


def test_wrong_answers_have_no_time_and_are_shown_as_wrong(work, tmp_path):
    finance.run(settings(work, tmp_path, ["right", "wrong"]))
    found = results(tmp_path, "wrong")
    assert found["T-VWAP"]["answer"]["state"] == "wrong" and "warm" not in found["T-VWAP"]
    assert "first vwap: " in found["T-VWAP"]["answer"]["detail"]
    assert found["O-B1"]["answer"]["state"] == "right" and found["O-B1"]["warm"]["client_ms"]
    assert found["W"]["state"] == "wrong" and "mb_per_second" not in found["W"]
    assert found["W"]["detail"] == "trades: 39 instead of 40"
    html, text = build(tmp_path, None, None)
    assert "Wrong, T-VWAP: wrong: " in html.read_text()
    (line,) = [line for line in text.read_text().splitlines() if line.startswith("| T-VWAP | ") and "wrong" in line][:1]
    assert line.split(" | ")[2] == "wrong"


def test_an_engine_that_fails_does_not_stop_the_run(work, tmp_path):
    finance.run(settings(work, tmp_path, ["failing", "absent", "right"]))
    assert "no room at the inn" in results(tmp_path, "failing")["engine"]["failed"]
    assert results(tmp_path, "absent")["engine"]["skipped"] == "its maker is on holiday"
    assert results(tmp_path, "right")["C-R"]["warm"]["client_ms"]
    _, text = build(tmp_path, None, None)
    assert "- Absent: its maker is on holiday" in text.read_text()


def test_an_engine_that_ends_or_hangs_is_started_again_for_the_next_query(work, tmp_path):
    finance.run(settings(work, tmp_path, ["dying"], limit_seconds=5, warm=False))
    found = results(tmp_path, "dying")
    assert found["T-VWAP"]["answer"] == {"state": "error", "detail": "the process ended with 3"}
    assert found["O-B1"]["answer"] == {"state": "error", "detail": "no answer in 5 s"}
    assert found["C-R"]["answer"]["state"] == "right"


def test_a_second_run_measures_only_what_is_missing(work, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "commit", lambda: "one")
    first = settings(work, tmp_path, ["right"])
    finance.run(first)
    folder = tmp_path / "finance" / "scale-0.001" / "fake_engines.right"
    before = {path: path.read_bytes() for path in folder.glob("*.json")}
    starts = []
    opened = engine_run.Installed.opened
    monkeypatch.setattr(
        engine_run.Installed, "opened", lambda self, tables: starts.append(self.name) or opened(self, tables)
    )
    finance.run(first)
    assert starts == [] and {path: path.read_bytes() for path in folder.glob("*.json")} == before
    (folder / "C-R.json").unlink()
    finance.run(first)
    changed = {path.stem for path, content in before.items() if path.read_bytes() != content}
    assert starts and "C-R" in changed and not changed & {"T-VWAP", "O-B1", "W"}
    # A commit while it runs changes nothing: a run belongs to the one that it began at.
    monkeypatch.setattr(machine, "commit", lambda: "two")
    starts.clear()
    finance.run(first)
    assert starts == []
    # Another run at another commit, or --again, measures all of it.
    finance.run(settings(work, tmp_path, ["right"]))
    assert json.loads((folder / "O-B1.json").read_text())["stamp"]["commit"] == "two"


def test_live_rows_answer_all_queries(work, tmp_path):
    finance.run(settings(work, tmp_path, ["live"], only=[], clients=[2], cold=True))
    found = results(tmp_path, "live")
    answers = {query: part["answer"] for query, part in found.items() if "answer" in part}
    assert len(answers) == 14
    assert {query: answer["detail"] for query, answer in answers.items() if answer["state"] != "right"} == {}
    assert all("cold" not in part for part in found.values()) and "W" not in found, "rows in memory have neither"
    assert found["clients"]["2"]["queries"] >= 28
    assert list((work / "databases-scale-0.001" / "fake_engines.live").rglob("db")) == [], "nothing is left"


def test_short_queries_are_asked_more_often_and_slow_ones_less(work, tmp_path):
    finance.run(
        settings(work, tmp_path / "many", ["right"], only=["O-B1"], rounds=2, passes=4, rounds_max=40, short_seconds=60)
    )
    assert len(results(tmp_path / "many", "right")["O-B1"]["warm"]["client_ms"]) == 40
    finance.run(
        settings(work, tmp_path / "few", ["right"], only=["O-B1"], rounds=20, passes=4, rounds_min=3, seconds=0)
    )
    # Five in a pass; after the first pass there are enough, and time is up.
    assert len(results(tmp_path / "few", "right")["O-B1"]["warm"]["client_ms"]) == 5


def test_engines_and_the_two_warm_runs_take_turns(work, tmp_path, monkeypatch):
    """In each sitting every engine has a process of its own; every other sitting goes through the engines backwards."""
    sittings, processes = [], []
    measure, sit = engine_run.EngineRun.slice, engine_run.EngineRun.sit

    def sat(self, number, is_again):
        sittings.append((self.name.removeprefix("fake_engines."), number, is_again))
        sit(self, number, is_again)

    def seen(self, id, part, number, values):
        processes.append(self.up().process.pid)
        measure(self, id, part, number, values)

    monkeypatch.setattr(engine_run.EngineRun, "sit", sat)
    monkeypatch.setattr(engine_run.EngineRun, "slice", seen)
    given = settings(work, tmp_path, ["right", "wrong"], only=["O-B1"], rounds=10, kinds=[], paced_rounds=0)
    finance.run(given)
    assert sittings == [
        ("right", 0, False),
        ("wrong", 0, False),
        ("wrong", 0, True),
        ("right", 0, True),
        ("right", 1, True),
        ("wrong", 1, True),
        ("wrong", 1, False),
        ("right", 1, False),
    ]
    assert len(processes) == len(set(processes)) == 8
    found = results(tmp_path, "right")["O-B1"]
    assert len(found["warm"]["client_ms"]) == len(found["again"]["client_ms"]) == 10
    assert len(found["warm"]["yardstick_ms"]) == len(found["again"]["yardstick_ms"]) == 2, "one before each part of a pass"


def test_a_kind_that_an_engine_has_not_got_is_left_out(work, tmp_path):
    finance.run(settings(work, tmp_path, ["plain"]))
    found = results(tmp_path, "plain")["O-B1"]
    assert found["answer"]["kinds"]["prepared"] == "absent" and "first max_bid" in found["answer"]["kinds"]["unseen"]
    assert found["prepared"]["absent"] and "client_ms" in found["prepared"] and not found["prepared"]["client_ms"]
    assert found["unseen"]["failed"].startswith("wrong: "), "an answer that is wrong has no time, however it was asked"
    assert found["warm"]["client_ms"]


def test_an_interrupted_run_leaves_no_process_and_goes_on_with_its_sitting(work, tmp_path, monkeypatch):
    """The process of the second sitting is up when it happens."""
    children = []
    opened, measure = engine_run.Installed.opened, engine_run.EngineRun.slice

    def seen(self, tables):
        children.append(opened(self, tables))
        return children[-1]

    def interrupted(self, id, part, number, values):
        measure(self, id, part, number, values)
        if len(children) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(machine, "commit", lambda: "one")
    given = settings(work, tmp_path, ["right"], only=["O-B1"], kinds=[], paced_rounds=0)
    with monkeypatch.context() as patch:
        patch.setattr(engine_run.Installed, "opened", seen)
        patch.setattr(engine_run.EngineRun, "slice", interrupted)
        with pytest.raises(KeyboardInterrupt):
            finance.run(given)
    assert [child.alive for child in children] == [False] * 3, "answers, the first sitting, the second"
    half = results(tmp_path, "right")["O-B1"]
    assert half["warm"]["passes"] == 1 and "again" not in half, "a sitting is kept as a whole"
    finance.run(given)
    found = results(tmp_path, "right")["O-B1"]
    assert found["warm"]["client_ms"][:1] == half["warm"]["client_ms"]
    assert found["warm"]["passes"] == found["again"]["passes"] == 2


def test_a_sitting_that_failed_is_made_up_for_by_the_others(work, tmp_path, monkeypatch):
    """The engine doesn't start in the second of four sittings."""
    sat = engine_run.EngineRun.sit
    sittings = []

    def fails_once(self, number, is_again):
        sittings.append(number)
        if len(sittings) == 2:
            raise RuntimeError("no room")
        sat(self, number, is_again)

    monkeypatch.setattr(engine_run.EngineRun, "sit", fails_once)
    finance.run(settings(work, tmp_path, ["right"], only=["O-B1"], rounds=4, kinds=[], paced_rounds=0))
    found = results(tmp_path, "right")
    assert "failed" not in found["engine"] and found["engine"]["version"]
    assert len(found["O-B1"]["warm"]["client_ms"]) == 4 and found["O-B1"]["warm"]["passes"] == 2
    assert len(found["O-B1"]["again"]["client_ms"]) == 2 and found["O-B1"]["again"]["passes"] == 2


def test_engines_that_compile_are_asked_off_the_clock_before_a_sitting(work, tmp_path, monkeypatch):
    from fake_engines import right
    from splay_bench.child import Child

    asked, ask = [], Child.ask
    monkeypatch.setattr(right.Engine, "settle_seconds", 0.01)
    monkeypatch.setattr(
        Child, "ask", lambda self, do, seconds, **request: asked.append((do, request)) or ask(self, do, seconds, **request)
    )
    finance.run(settings(work, tmp_path, ["right"], only=["O-B1"], passes=1, clients=[1]))
    settled = [place for place, (do, _) in enumerate(asked) if do == "settle"]
    assert len(settled) == 3 and asked[settled[0]][1]["asked"] == [("O-B1", kind) for kind in ("known", "prepared", "unseen")]
    assert [asked[place + 1][0] for place in settled] == ["time", "time", "clients"]


def test_the_first_paced_question_waits_too(monkeypatch):
    from types import SimpleNamespace

    from splay_bench import worker

    waits, clock = [], [0.0]

    def sleep(seconds: float) -> None:
        waits.append(round(seconds, 3))
        clock[0] += seconds

    monkeypatch.setattr(worker, "time", SimpleNamespace(sleep=sleep, perf_counter=lambda: clock[0]))
    asking = worker.Worker(None)
    asking.warm_up = lambda *_: None
    asking.questions = {"Q": SimpleNamespace(variants=())}
    takes = iter([0.01, 0.2, 0.01])

    def do_ask(id, run, kind):
        clock[0] += next(takes)
        return {"client_ms": 1.0, "engine_ms": None}

    asking.do_ask = do_ask
    asking.do_time("Q", 0, 3, 3, 0, 0, pace_seconds=0.05)
    assert waits == [0.05, 0.04, 0.05], "a question that took longer than the pace is followed by a whole one"


def test_cold_runs_are_of_the_queries_that_are_named(work, tmp_path, monkeypatch):
    """Nothing is dropped here: the run only has to happen."""
    monkeypatch.setattr(engine_run.caches, "droppable", lambda: None)
    monkeypatch.setattr(engine_run.caches, "drop", lambda: None)
    given = settings(work, tmp_path, ["right"], cold=True, cold_only=["O-B1"], cold_rounds=2)
    finance.run(given)
    found = results(tmp_path, "right")
    assert len(found["O-B1"]["cold"]["client_ms"]) == len(found["O-B1"]["dropped"]["client_ms"]) == 2
    assert all("cold" not in found[query] and "dropped" not in found[query] for query in ("T-VWAP", "C-R"))


def test_the_write_day_may_have_a_scale_of_its_own(work, tmp_path):
    day = small_crypto.write(work / "write-day-0.002-1", rows=70)
    finance.run(settings(work, tmp_path, ["right"], only=["O-B1"], write_scale=0.002, kinds=[], paced_rounds=0))
    found = results(tmp_path, "right")
    assert found["W"]["state"] == "right"
    totals = json.loads((day / "totals.json").read_text())
    assert totals["trades"] == totals["books"] == 70
    run = json.loads((tmp_path / "finance" / "scale-0.001" / "run.json").read_text())
    assert run["write_bytes"] == sum(path.stat().st_size for path in (day / "write").iterdir())
