"""Libraries of interactive plots: seconds until the HTML of a line is there, its bytes, and those of the library.

    pip install plotly altair bokeh && PYTHONPATH=benchmarks python -m frames renderers
"""

import importlib.metadata
import json
import pathlib
import statistics
import time

import numpy as np

POINTS = (1_000, 100_000, 1_000_000)
RUNS = 3


def plotly(times: np.ndarray, prices: np.ndarray) -> str:
    from plotly import graph_objects

    figure = graph_objects.Figure()
    # Numbers go as binary, times as text: an axis of dates takes milliseconds.
    figure.add_scattergl(x=times.astype("datetime64[us]").astype(float) / 1_000, y=prices, mode="lines")
    figure.update_xaxes(type="date")
    return figure.to_html(include_plotlyjs=False)


def altair(times: np.ndarray, prices: np.ndarray) -> str:
    import altair
    import pyarrow

    altair.data_transformers.disable_max_rows()
    chart = altair.Chart(pyarrow.table({"time": times, "price": prices})).mark_line().encode(x="time:T", y="price:Q")
    return json.dumps(chart.to_dict())


def bokeh(times: np.ndarray, prices: np.ndarray) -> str:
    from bokeh.embed import json_item
    from bokeh.plotting import figure

    drawn = figure(x_axis_type="datetime", output_backend="webgl")
    drawn.line(times, prices)
    return json.dumps(json_item(drawn))


LIBRARIES = {"plotly": plotly, "altair": altair, "bokeh": bokeh}


def run(options) -> None:
    rng = np.random.default_rng(1)
    print("| Library | " + " | ".join(f"{points:,} points" for points in POINTS) + " | JavaScript |")
    print("| --- |" + " --- |" * (len(POINTS) + 1))
    for name, draw in LIBRARIES.items():
        cells = []
        for points in POINTS:
            times = np.datetime64("2024-01-02", "ns") + np.arange(points) * np.timedelta64(20_000, "ns") * (1_000_000 // points)
            prices = 100 + np.cumsum(rng.normal(0, 0.01, points))
            seconds, text = [], ""
            for _ in range(RUNS):
                start = time.perf_counter()
                text = draw(times, prices)
                seconds.append(time.perf_counter() - start)
            cells.append(f"{statistics.median(seconds):.3f} s, {len(text) / 1e6:.2f} MB")
        print(f"| {name} {importlib.metadata.version(name)} | " + " | ".join(cells) + f" | {script_mb(name)} |")


def script_mb(name: str) -> str:
    """What a notebook loads once, where the package ships it."""
    module = importlib.import_module(name)
    folder = pathlib.Path(module.__file__).parent
    files = {"plotly": ["package_data/plotly.min.js"], "bokeh": ["server/static/js/bokeh.min.js", "server/static/js/bokeh-gl.min.js"], "altair": []}
    sizes = [(folder / file).stat().st_size for file in files[name]]
    return f"{sum(sizes) / 1e6:.1f} MB" if sizes else "from the network, or vl-convert"
