"""The notebooks of the guide run as they stand, and are kept without outputs. With SPLAY_PLOTS=folder their images stay there."""

import base64
import os
import pathlib
import sys

import nbclient
import nbformat
import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PLOTLY = "application/vnd.plotly.v1+json"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path, tmp_path, monkeypatch):
    # Its cells call the command, which is beside the interpreter.
    monkeypatch.setenv("PATH", f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    work = tmp_path / "work"
    work.mkdir()
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(work)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    said = "".join(output.text for output in outputs if output.output_type == "stream")
    assert "rror" not in said, said
    shown = [output.data for output in outputs if "data" in output]
    assert sum("image/png" in data for data in shown) >= 1
    assert path.stem == "spreads" or any(PLOTLY in data and data[PLOTLY]["data"] for data in shown)
    assert any("text/html" in data for data in shown)
    kept = pathlib.Path(os.environ.get("SPLAY_PLOTS", tmp_path / "images"))
    kept.mkdir(exist_ok=True)
    for place, data in enumerate(data for data in shown if "image/png" in data):
        (kept / f"notebook-{path.stem}-{place}.png").write_bytes(base64.b64decode(data["image/png"]))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_outputs_are_kept(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)


def test_all_notebooks_are_in_the_guide():
    page = (FOLDER.parent / "python-tools.md").read_text(encoding="utf-8")
    assert NOTEBOOKS and all(f"notebooks/{path.name}" in page for path in NOTEBOOKS)
