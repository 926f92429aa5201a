"""Compares the reference pages with the program, and writes what they state about it.

    python3 .ci/references.py           prints how the pages differ from the program; exits with 1 if they do
    python3 .ci/references.py --write   rewrites them (`make references`)

| Page of docs/reference | Compared | With |
| --- | --- | --- |
| cli.md | the blocks between `<!-- generated: … -->` and `<!-- end -->` | `splay COMMAND -h` of each command |
| functions.md | the block of all functions, and the functions that headings name | `information_schema.routines` |
| settings.md | keys and default values | a server's answer to an unknown key, and the defaults in the source |
| metrics.md | names and types | `/metrics` of a server that has captured, answered and refused |
| http.md | error codes, statuses, which may be retried | `crates/server/src/problem.rs` |
| errors.md | variants and classes | `error.rs` of the crates, `python/splay/errors.py` |
| python.md | all of it | signatures and docstrings of `python/splay` (`python_reference.py`) |

In tables only the compared cells are rewritten. A row for something new gets what the program says about it, and is to be worded by hand.
The program is the one that SPLAY_BINARY names, or target/release/splay.
"""

import ast
import builtins
import contextlib
import csv
import difflib
import http.client
import importlib.util
import io
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
BINARY = pathlib.Path(os.environ.get("SPLAY_BINARY", ROOT / "target" / "release" / "splay"))
COMMAND = "make references"


def splay(*arguments: object, text: str | None = None) -> str:
    """Standard output of a command."""
    environment = {**os.environ, "COLUMNS": "110"}
    ended = subprocess.run(
        [BINARY, *map(str, arguments)], input=text or "", capture_output=True, text=True, env=environment, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"splay {' '.join(map(str, arguments))}: {ended.stderr}")
    return ended.stdout


def source(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


# Pages.


def replaced_blocks(page: str, contents: Callable[[str], str]) -> str:
    """A page with the content of each generated block replaced by what `contents` gives for its name."""

    def block(found: re.Match[str]) -> str:
        return f"<!-- generated: {found[1]} -->\n{contents(found[1]).rstrip()}\n<!-- end -->"

    return re.sub(r"<!-- generated: (.*?) -->\n(?:(?!<!-- ).*\n)*<!-- end -->", block, page)


class Table:
    """The rows of the table below a heading, as cells."""

    def __init__(self, page: str, heading: str):
        self._lines = page.splitlines()
        start = self._lines.index(heading)
        first = next(number for number in range(start, len(self._lines)) if self._lines[number].startswith("| --- |")) + 1
        end = first
        while end < len(self._lines) and self._lines[end].startswith("|"):
            end += 1
        self._range = (first, end)
        self.rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in self._lines[first:end]]
        for row, line in zip(self.rows, self._lines[first:end], strict=True):
            row[0] = row[0].strip()
            if line.endswith("| |"):
                row[-1] = row[-1].rstrip("| ")

    def names(self, row: list[str]) -> list[str]:
        """What the first cell of a row names in code."""
        return re.findall(r"`([^`]+)`", row[0])

    def page(self) -> str:
        """The page with the rows as they are now."""
        first, end = self._range
        rows = ["| " + " | ".join(row).replace("|  |", "| |") + (" |" if row[-1] else "|") for row in self.rows]
        return "\n".join([*self._lines[:first], *rows, *self._lines[end:]]) + "\n"

    def settle(self, known: dict[str, list[str]], update: Callable[[list[str], str], None] = lambda row, name: None) -> str:
        """The page with a row for each name in `known` and for no other; `update` corrects the row of a name."""
        seen = set()
        for row in list(self.rows):
            names = self.names(row)
            there = [name for name in names if name in known]
            for name in set(names) - set(there):
                row[0] = re.sub(rf"(, )?`{re.escape(name)}`", "", row[0], count=1).removeprefix(", ")
            if names and not there:
                self.rows.remove(row)
                continue
            for name in there:
                update(row, name)
            seen.update(there)
        self.rows += [row for name, row in known.items() if name not in seen]
        return self.page()


# What the program says.


def cli(page: str) -> str:
    """Help of each command."""
    known = set(commands())

    def block(name: str) -> str:
        path = name.removeprefix("splay ").removesuffix(" -h").split()
        if tuple(path) not in known:
            raise RuntimeError(f"cli.md: there is no command {name!r}: remove its block")
        lines = [line.rstrip() for line in splay(*path, "-h").splitlines()]
        # Each command has --help; some have no other option.
        text = "\n".join(line for line in lines if "Print help" not in line).strip()
        return "```text\n" + text.removesuffix("Options:").strip() + "\n```"

    described = set(re.findall(r"<!-- generated: splay (.*?) -h -->", page))
    for name in (" ".join(path) for path in commands()):
        if name not in described:
            page += f"\n## splay {name}\n\n<!-- generated: splay {name} -h -->\n<!-- end -->\n"
    return replaced_blocks(page, block)


def commands(*path: str) -> list[tuple[str, ...]]:
    """All commands that take arguments of their own, by asking each for its help."""
    found = re.search(r"^Commands:\n((?:  .*\n|\n(?=  ))+)", splay(*path, "-h"), re.M)
    names = re.findall(r"^  (\S+)", found[1], re.M) if found else []
    inner = [command for name in names if name != "help" for command in commands(*path, name)]
    return inner or [path]


def functions(page: str) -> str:
    """All functions by kind."""
    with database() as folder:
        question = "select distinct routine_name, function_type from information_schema.routines order by 1"
        rows = list(csv.DictReader(io.StringIO(splay("sql", folder, question, "--format", "csv"))))
    kinds: dict[str, list[str]] = {"SCALAR": [], "AGGREGATE": [], "WINDOW": [], "TABLE": []}
    for row in rows:
        if re.fullmatch(r"\w+", row["routine_name"]) and not row["routine_name"].startswith("_"):
            kinds[row["function_type"]].append(row["routine_name"])
    names = {name for of_kind in kinds.values() for name in of_kind}
    headings = {name for line in re.findall(r"^### (`.*)$", page, re.M) for name in re.findall(r"`([a-z_0-9]+)\(", line)}
    if missing := headings - names:
        raise RuntimeError(f"functions.md has headings for functions that there aren't: {', '.join(sorted(missing))}")
    parts = [f"{kind.capitalize()}: {', '.join(f'`{name}`' for name in of_kind)}." for kind, of_kind in kinds.items()]
    return replaced_blocks(page, lambda _: "\n\n".join(wrapped(part) for part in parts))


def wrapped(text: str) -> str:
    lines = [""]
    for word in text.split(" "):
        if len(lines[-1]) + len(word) > 140:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


# Tables of settings: heading of the table, file and type of the settings, their section, and what stands before each key on the page.
# The sections of a database's own file begin with a slash.
SETTINGS = (
    ("## Of a database", "crates/store/src/settings.rs", "Settings", "/", ""),
    ("### Object store", "crates/store/src/object/settings.rs", "ObjectSettings", "/tier.object", ""),
    ("### Encryption", "crates/store/src/encryption/settings.rs", "EncryptionSettings", "/encryption", ""),
    ("## Of capture", "crates/capture/src/settings.rs", "CaptureSettings", "capture", ""),
    ("### Calendars", "crates/capture/src/settings/calendar.rs", "CalendarSettings", "capture.calendars.t", ""),
    ("### Duplicates", "crates/capture/src/settings/dedupe.rs", "DedupeSettings", "capture.dedupe.t", ""),
    ("### Quality of feeds", "crates/capture/src/settings/quality.rs", "QualitySettings", "capture.quality.t", ""),
    ("## Of a server", "crates/server/src/settings.rs", "Limits", "limits", "limits."),
    ("## Of a server", "crates/server/src/settings.rs", "Views", "views", "views."),
    ("## Of a server", "crates/server/src/settings.rs", "Log", "log", "log."),
    ("## Of a server", "crates/server/src/settings.rs", "Auth", "auth", "auth."),
    ("### Provider", "crates/server/src/settings/oidc.rs", "Oidc", "auth.oidc", "auth.oidc."),
    ("## Of a server", "crates/server/src/settings/audit.rs", "Audit", "audit", "audit."),
    ("## Of a server", "crates/server/src/settings.rs", "Http", "http", "http."),
    ("## Of a server", "crates/server/src/settings.rs", "Flight", "flight", "flight."),
    ("## Of a server", "crates/server/src/settings.rs", "Postgres", "postgres", "postgres."),
    ("## Of a server", "crates/server/src/settings.rs", "Line", "line", "line."),
    ("## Of a server", "crates/server/src/settings.rs", "Tls", "tls", "tls."),
)
# Types in the same files whose keys aren't rows of a table: sections alone, and a token, which the row of `auth.tokens` describes.
SECTIONS_ALONE = {
    ("crates/store/src/settings.rs", "TierSettings"),
    ("crates/server/src/settings.rs", "Settings"),
    ("crates/server/src/settings.rs", "Token"),
}


def settings(page: str) -> str:
    """Keys and defaults of a server, of capture, of a database."""
    check_settings_types()
    for heading, path, name, section, prefix in SETTINGS:
        values = defaults(path, name)
        keys = {prefix + key: values.get(key) for key in expected_keys(section)}
        table = Table(page, heading)
        # `calendars.TABLE`, `dedupe.TABLE` and `quality.TABLE` have tables of their own, `capture.…` too.
        shown = {f"{key}.TABLE" if key in ("calendars", "dedupe", "quality") else key: value for key, value in keys.items()}
        others = {name: [] for row in table.rows for name in table.names(row) if prefix and not name.startswith(prefix)}

        def update(row: list[str], key: str, shown: dict[str, object] = shown) -> None:
            value = shown.get(key)
            if isinstance(value, (bool, int)) and parsed(row[1]) != value:
                row[1] = formatted(value)

        known = {key: [f"`{key}`", formatted(value) if value is not None else "", ""] for key, value in shown.items()}
        page = table.settle({**known, **others}, update)
    return page


def check_settings_types() -> None:
    """Fails unless SETTINGS names all types of settings, each in the file that defines it."""
    listed = {(path, name) for _, path, name, _, _ in SETTINGS} | SECTIONS_ALONE
    defined = set()
    for folder in ("store", "capture", "server"):
        for file in (ROOT / "crates" / folder / "src").rglob("*.rs"):
            path = file.relative_to(ROOT).as_posix()
            names = re.findall(r"deny_unknown_fields\)\]\n(?:\s*#\[.*\]\n)*\s*pub struct (\w+)", source(path))
            is_settings_file = "settings" in path or any(path == other for other, _ in listed)
            defined.update((path, name) for name in names if is_settings_file or name.endswith("Settings"))
    if listed != defined:
        problems = [f"{path} doesn't define {name}" for path, name in sorted(listed - defined)]
        problems += [f"SETTINGS lacks {name} of {path}" for path, name in sorted(defined - listed)]
        raise RuntimeError("; ".join(problems))


def expected_keys(section: str) -> list[str]:
    """The keys of a section of settings, as the error about an unknown one lists them."""
    with database() as folder:
        name = section.removeprefix("/")
        text = (f"[{name}]\n" if name else "") + "unknown_key = 1\n"
        if section.startswith("/"):
            with open(folder / "splay.toml", "a", encoding="utf-8") as file:
                file.write(text)
            command = [BINARY, "tables", folder]
        else:
            config = folder.parent / "server.toml"
            config.write_text(text, encoding="utf-8")
            command = [BINARY, "serve", folder, "--config", config, *ports()]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    listed = re.search(r"unknown field `unknown_key`, expected (.*)", ended.stderr)
    if not listed:
        raise RuntimeError(f"an unknown key in [{section}] is answered without a list of keys: {ended.stderr}")
    return re.findall(r"`([^`]+)`", listed[1])


def defaults(path: str, name: str) -> dict[str, bool | int]:
    """The numbers and booleans of `impl Default for NAME`, and those of functions that serde calls for single fields."""
    text = source(path)
    body = re.search(rf"impl Default for {name} \{{.*?\b{name} \{{(.*?)\}}", text, re.S)
    values = dict(re.findall(r"(\w+): ([^,]+?)\s*(?:,|$)", body[1] if body else ""))
    for function, key in re.findall(rf'#\[serde\(default = "{name}::(\w+)"\)\]\n\s*pub (\w+):', text):
        values[key] = re.search(rf"fn {function}\(\) -> \w+ \{{\n\s*(.*?)\n", text)[1]
    found: dict[str, bool | int] = {}
    for key, value in values.items():
        value = {"splay_store::COLUMNS_MAX": "4096", "SLOW_STATEMENT_MILLISECONDS": "1000", "REFRESH_SECONDS": "60", "LAYOUT_VERSION": "1"}.get(value, value)
        if value in ("true", "false"):
            found[key] = value == "true"
        elif shifted := re.fullmatch(r"([\d_]+)(?: << (\d+))?", value):
            found[key] = int(shifted[1]) << int(shifted[2] or 0)
    return found


UNITS = {"KiB": 10, "MiB": 20, "GiB": 30}


def parsed(cell: str) -> bool | int | None:
    """The value that a cell begins with."""
    cell = cell.strip("`")
    if cell in ("true", "false"):
        return cell == "true"
    number = re.match(r"([\d,]+)(?: (KiB|MiB|GiB))?", cell)
    return int(number[1].replace(",", "")) << UNITS.get(number[2], 0) if number else None


def formatted(value: object) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if not isinstance(value, int):
        return ""
    unit = next((name for name, bits in reversed(UNITS.items()) if value and value % (1 << bits) == 0), None)
    return f"{value >> UNITS[unit]} {unit}" if unit else f"{value:,}" if value >= 1_000_000 else str(value)


def metrics(page: str) -> str:
    """Names and types."""
    kinds, helps = scraped()
    known = {name.removeprefix("splay_"): kind for name, kind in kinds.items()}
    sections = {"feed_": "## Quality of feeds", "capture_": "## Capture"}
    headings = ("## Requests", "## Rows in", "## Capture", "## Quality of feeds")
    placed: dict[str, str] = {}
    for heading in headings:
        table = Table(page, heading)
        placed.update({name: heading for row in table.rows for name in table.names(row)})
    for heading in headings:
        table = Table(page, heading)
        here = {}
        for name, kind in known.items():
            home = placed.get(name) or next((place for prefix, place in sections.items() if name.startswith(prefix)), "## Requests")
            if home == heading:
                here[name] = [f"`{name}`", kind, "", "", helps.get(f"splay_{name}", "")]

        def update(row: list[str], name: str) -> None:
            if not row[1].startswith(known[name]):
                row[1] = known[name]

        page = table.settle(here, update)
    return page


def scraped() -> tuple[dict[str, str], dict[str, str]]:
    """Types and help of a server's metrics, by name. Families without a sample aren't sent, so everything happens once before."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as opened:
        config = pathlib.Path(folder) / "server.toml"
        config.write_text("[limits]\nline_connections_max = 1\n", encoding="utf-8")
        command = [BINARY, "serve", pathlib.Path(folder) / "db", "--config", config, *ports()]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        opened.callback(lambda: (server.terminate(), server.wait(), server.stdout.close()))
        at = {}
        while "line" not in at:
            name, _, address = server.stdout.readline().partition(" ")
            at[name] = re.sub(r"^\s*\w+://", "", address.strip())
            if not name:
                raise RuntimeError("splay serve did not start")

        def request(path: str, body: str | None = None) -> str:
            connection = http.client.HTTPConnection(at["http"])
            connection.request("POST" if body else "GET", path, body)
            answer = connection.getresponse().read().decode()
            connection.close()
            return answer

        request("/api/v2/write", "t,symbol=A,venue=V sequence=1i,bid=1.0,ask=2.0")
        request("/query", "select count(*) from t where symbol = 'A'")
        for _ in range(2):
            host, port = at["line"].split(":")
            opened.enter_context(socket.create_connection((host, int(port))))
        deadline = time.monotonic() + 60
        while "splay_connections_refused_total" not in (text := request("/metrics")):
            if time.monotonic() > deadline:
                raise RuntimeError("a connection beyond the limit wasn't counted")
    kinds, helps = {}, {}
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M):
        full = f"{name}_total" if kind == "counter" else name
        kinds[full] = kind
        helps[full] = re.search(rf"^# HELP {name} (.*?)\.?$", text, re.M)[1]
    return kinds, helps


def http_codes(page: str) -> str:
    """Codes, statuses, and which may be retried."""
    text = source("crates/server/src/problem.rs")
    numbers = {
        "BAD_REQUEST": 400, "UNAUTHORIZED": 401, "FORBIDDEN": 403, "NOT_FOUND": 404, "REQUEST_TIMEOUT": 408, "CONFLICT": 409, "GONE": 410,
        "PAYLOAD_TOO_LARGE": 413, "UNPROCESSABLE_ENTITY": 422, "INTERNAL_SERVER_ERROR": 500, "NOT_IMPLEMENTED": 501,
        "SERVICE_UNAVAILABLE": 503, "GATEWAY_TIMEOUT": 504,
    }  # fmt: skip
    codes = dict(re.findall(r'Code::(\w+) => "(\w+)"', text))
    body = re.search(r"fn status\(self\).*?match self \{(.*?)\n        \}\n", text, re.S)[1]
    statuses = {}
    for variants, status in re.findall(r"((?:Code::\w+[\s|]*)+)=> \{?\s*StatusCode::(\w+)", body):
        statuses.update({codes[variant]: numbers[status] for variant in re.findall(r"Code::(\w+)", variants)})
    table = Table(page, "## Failures")

    def update(row: list[str], name: str) -> None:
        if not row[1].startswith(str(statuses[name])):
            row[1] = str(statuses[name])

    page = table.settle({name: [f"`{name}`", str(statuses[name]), ""] for name in codes.values()}, update)
    retried = re.search(r"fn is_retryable.*?matches!\(self, (.*?)\)", text, re.S)[1]
    names = {codes[variant] for variant in re.findall(r"Code::(\w+)", retried)}
    stated = re.search(r"^`retryable` is true for (.*)$", page, re.M)
    if stated is None or set(re.findall(r"`(\w+)`", stated[1])) != names:
        wanted = f"`retryable` is true for {', '.join(f'`{name}`' for name in sorted(names))}."
        page = page.replace(stated[0], wanted) if stated else page + wanted + "\n"
    return page


def errors(page: str) -> str:
    """Variants of the libraries' errors, and the classes of Python."""
    for heading, crate in (("## Of the store", "store"), ("## Of statements", "sql"), ("## Of files", "import"), ("## Of capture", "capture")):
        variants = error_variants(f"crates/{crate}/src/error.rs")
        page = Table(page, heading).settle({name: [f"`{name}`", "", text, ""] for name, text in variants.items()})
    tree = ast.parse(source("python/splay/errors.py"))
    classes = {node.name: (ast.get_docstring(node) or "").splitlines()[0] for node in tree.body if isinstance(node, ast.ClassDef)}
    for name, text in classes.items():
        if f"`{name}`" not in page and name != "Error":
            table = Table(page, "## Of a server, in Python")
            table.rows.append([f"`{name}`", text, ""])
            page = table.page()
    for name in set(re.findall(r"`(\w+Error)`", page)) - set(classes) - set(vars(builtins)):
        raise RuntimeError(f"errors.md names {name}, which is no class of splay.errors")
    return page


def error_variants(path: str) -> dict[str, str]:
    """Variants of `pub enum Error` with the first line of what is said of each."""
    body = re.search(r"pub enum Error \{\n(.*?)\n\}", source(path), re.S)[1]
    found: dict[str, str] = {}
    comment = ""
    for line in body.splitlines():
        if text := re.match(r"    /// (.*)", line):
            comment = comment or text[1]
        elif variant := re.match(r"    (\w+)[ ({,]", line):
            found[variant[1]], comment = comment, ""
    return found


def python(page: str) -> str:
    """All names of the Python package."""
    spec = importlib.util.spec_from_file_location("python_reference", pathlib.Path(__file__).with_name("python_reference.py"))
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look for their module.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.page(page)


# Databases and servers to ask.


def ports() -> list[str]:
    return [word for listener in ("http", "flight", "line") for word in (f"--{listener}", "127.0.0.1:0")]


@contextlib.contextmanager
def database() -> Iterator[pathlib.Path]:
    """A database of one row."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / "db"
        types = ["--type", "time=timestamp", "--type", "sym=symbol"]
        splay("tick", "write", place, "t", "--format", "csv", *types, text="time,sym\n1700000000000000000,A\n")
        yield place


PAGES: dict[str, Callable[[str], str]] = {
    "cli.md": cli,
    "functions.md": functions,
    "settings.md": settings,
    "metrics.md": metrics,
    "http.md": http_codes,
    "errors.md": errors,
    "python.md": python,
}


def difference(name: str) -> str:
    """How a page would change; empty if it says what the program says."""
    page = source(f"docs/reference/{name}")
    wanted = PAGES[name](page)
    return "".join(
        difflib.unified_diff(page.splitlines(True), wanted.splitlines(True), f"docs/reference/{name}", "the program", n=0)
    )


def main() -> int:
    if sys.argv[1:] not in ([], ["--write"]):
        print(__doc__, file=sys.stderr)
        return 2
    differences = 0
    for name, written in PAGES.items():
        path = ROOT / "docs" / "reference" / name
        if sys.argv[1:]:
            path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
        elif found := difference(name):
            differences += 1
            print(found)
    if differences:
        print(f"{differences} pages differ from the program: {COMMAND}", file=sys.stderr)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
