"""`splay man` and `splay completions`: what `man` and the shells make of them."""

import pathlib
import re
import shlex
import shutil
import subprocess

import pages
import pytest


def output(*command: object) -> str:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout


def commands(*path: str) -> list[tuple[str, ...]]:
    """All commands, those that only have others below them too."""
    found = re.search(r"^Commands:\n((?:  .*\n|\n(?=  ))+)", output(pages.BINARY, *path, "-h"), re.M)
    names = [name for name in re.findall(r"^  (\S+)", found[1], re.M) if name != "help"] if found else []
    return [path, *(inner for name in names for inner in commands(*path, name))]


def test_there_is_a_page_of_the_manual_for_each_command(tmp_path):
    subprocess.run([pages.BINARY, "man", "--out", tmp_path / "man"], check=True)
    assert {path.name for path in (tmp_path / "man").iterdir()} == {"-".join(["splay", *path]) + ".1" for path in commands()}
    load = (tmp_path / "man" / "splay-load.1").read_text()
    assert ".TH splay-load 1" in load
    assert r"\-\-recipe" in load and "created if absent" in load
    if shutil.which("man"):
        for page in (tmp_path / "man").iterdir():
            shown = subprocess.run(["man", "--warnings", "--local-file", page], capture_output=True, text=True, check=False)
            assert (shown.returncode, shown.stderr) == (0, ""), page.name


def completed(shell: str, script: pathlib.Path, line: str) -> str:
    """What a shell offers behind a line."""
    if shell == "bash":
        words = line.split(" ")
        return output("bash", "-c", f'. {script}; COMP_WORDS=({line} ""); COMP_CWORD={len(words)}; _splay splay "" ""; echo "${{COMPREPLY[@]}}"')
    return output("fish", "--no-config", "-c", f"source {script}; complete --do-complete {shlex.quote(line + ' ')}")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_reads_its_completions(shell, tmp_path):
    script = tmp_path / "completions"
    script.write_text(output(pages.BINARY, "completions", shell))
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    subprocess.run([shell, "-n", script], check=True)
    if shell == "zsh":
        assert script.read_text().startswith("#compdef splay")
        return
    offered = completed(shell, script, "splay").split()
    assert {"load", "serve", "completions"} <= set(offered)
    assert {"status", "write"} <= set(completed(shell, script, "splay tick").split())
