"""Writes docs/reference/python.md from the signatures and docstrings of the package, which `references.py` compares.

Sources are read and never imported, since classes of the compiled module are described by stubs.
"""

import ast
import dataclasses
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "splay"

GROUPS = {
    "Opening": ("open", "connect", "scan", "calendar", "recipes", "set_memory_limit", "set_progress"),
    "Databases and tables": ("Database", "Table", "Schema", "Prepared", "Answer", "Stats"),
    "Frames": ("Frame", "GroupBy", "GroupedColumns", "Buckets", "Rolling", "Plots", "concat"),
    "Expressions": (
        "col", "lit", "when", "call", "count", "row_number", "coalesce", "concat_str", "max_horizontal", "min_horizontal", "vwap",
        "left", "Expr", "TextNamespace", "TimeNamespace",
    ),
    "Servers": ("Client", "RemoteTable", "RemotePartition", "RemotePrepared", "RemoteAnswer", "Subscription"),
    "Capture and writers": ("Capture", "tick", "TickWriter", "AsyncTickWriter", "WriterStats", "Ack"),
    "Reports": ("LoadReport", "FileReport", "CompactReport", "PublishReport", "Commit", "Partition", "Source", "Problem"),
}
"""What is described, in order. What can't be reached from `splay` is what its methods give."""

MODULES = {"DB-API": "dbapi", "SQLAlchemy": "sqlalchemy_dialect", "narwhals": "narwhals_plugin"}
"""Modules that are described by their first lines and their public names."""

FILES = (
    "_database.pyi", "_table.pyi", "_answer.pyi", "_capture.pyi", "_reports.pyi", "_ack.py", "_answers.py", "remote.py", "writer.py",
    "subscription.py", "frames/*.py",
)


@dataclasses.dataclass
class Found:
    """Definitions of the package by name."""

    classes: dict[str, ast.ClassDef]
    functions: dict[str, ast.FunctionDef]


def found() -> Found:
    """All definitions at the top of the files, those of the first file that has them."""
    told = Found({}, {})
    for pattern in FILES:
        for path in sorted(PACKAGE.glob(pattern)):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    told.classes.setdefault(node.name, node)
                elif isinstance(node, ast.FunctionDef):
                    told.functions.setdefault(node.name, node)
    return told


def page(_: str) -> str:
    """The page."""
    told = found()
    parts = [
        "# Python: all names",
        "Made from the signatures and docstrings of the package by `make references`. Guides: [Python](../guide/python.md), "
        "[lazy frames](../guide/frames.md), [tools](../guide/python-tools.md). Errors: [errors](errors.md).",
        "- " + "\n- ".join(f"[{title}](#{_anchor(title)}): {', '.join(f'[`{name}`](#{_anchor(name)})' for name in names)}" for title, names in GROUPS.items())
        + "\n- " + ", ".join(f"[{title}](#{_anchor(title)})" for title in MODULES),
    ]
    for title, names in GROUPS.items():
        parts.append(f"## {title}")
        for name in names:
            if name in told.classes:
                parts += _class(told, told.classes[name])
            else:
                parts += _function(told.functions[name], "splay.", "###", name)
    for title, module in MODULES.items():
        parts += _module(title, module)
    return "\n\n".join(parts) + "\n"


def _class(told: Found, node: ast.ClassDef) -> list[str]:
    parts = [f"### {node.name}", *_text(node)]
    attributes, methods = [], []
    for member in _members(told, node):
        if isinstance(member, ast.AnnAssign):
            continue
        kinds = {decorator.id for decorator in member.decorator_list if isinstance(decorator, ast.Name)}
        (attributes if "property" in kinds else methods).append(member)
    if rows := [row for member in attributes if (row := _attribute(member))]:
        parts.append("| Attribute | Type | |\n| --- | --- | --- |\n" + "\n".join(rows))
    aliases = _aliases(told, node)
    for member in methods:
        parts += _function(member, f"{node.name}.", "####", member.name)
        if same := [name for name, of in aliases.items() if of == member.name]:
            parts.append(f"Also {', '.join(f'`{name}`' for name in same)}.")
    return parts


def _aliases(told: Found, node: ast.ClassDef) -> dict[str, str]:
    """Other names of methods."""
    found = {}
    for each in _parts(told, node):
        for member in each.body:
            if isinstance(member, ast.Assign) and isinstance(member.value, ast.Name):
                found |= {target.id: member.value.id for target in member.targets if isinstance(target, ast.Name) and target.id[0] != "_"}
    return found


def _parts(told: Found, node: ast.ClassDef) -> list[ast.ClassDef]:
    """A class and those that it is put together from, which have no page of their own."""
    waiting, parts = [node], []
    described = {name for names in GROUPS.values() for name in names}
    while waiting:
        each = waiting.pop(0)
        parts.append(each)
        bases = [base.id for base in each.bases if isinstance(base, ast.Name)]
        waiting += [told.classes[base] for base in bases if base in told.classes and base not in described]
    return parts


def _members(told: Found, node: ast.ClassDef) -> list:
    """Methods of a class and of its parts, its own first."""
    seen: dict[str, ast.FunctionDef] = {}
    for each in _parts(told, node):
        for member in each.body:
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and _is_public(member):
                seen.setdefault(member.name, member)
    return list(seen.values())


def _is_public(member: ast.FunctionDef) -> bool:
    is_shown = member.name in ("__getitem__", "__setitem__", "__contains__", "__len__", "__iter__", "__arrow_c_stream__")
    kinds = {ast.unparse(decorator) for decorator in member.decorator_list}
    return (is_shown or not member.name.startswith("_")) and bool(ast.get_docstring(member)) and "overload" not in kinds and not any(
        kind.endswith(".setter") for kind in kinds
    )


def _attribute(member: ast.FunctionDef) -> str:
    text = " ".join(_paragraphs(ast.get_docstring(member) or ""))
    return f"| `{member.name}` | {_cell(_code(_annotation(member.returns)))} | {_cell(text)} |"


def _function(node: ast.FunctionDef, owner: str, level: str, name: str) -> list[str]:
    return [f"{level} {owner.removeprefix('splay.')}{name}", f"```text\n{owner}{name}{_signature(node, owner != 'splay.')}\n```", *_text(node)]


def _module(title: str, module: str) -> list[str]:
    tree = ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
    parts = [f"## {title}", f"`splay.{module}`:", *_documented(ast.get_docstring(tree) or "")]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            parts += _function(node, f"{module}.", "###", node.name)
        elif isinstance(node, ast.ClassDef) and node.name in ("Connection", "Cursor"):
            parts += _class(Found({node.name: node}, {}), node)
    return parts


def _signature(node: ast.FunctionDef, is_method: bool) -> str:
    arguments = node.args
    given = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(given) - len(arguments.defaults)) + list(arguments.defaults)
    words = [_argument(one, default) for one, default in zip(given, defaults, strict=True)]
    if is_method and given and given[0].arg in ("self", "cls"):
        words = words[1:]
    if arguments.vararg:
        words.append(f"*{_argument(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        words.append("*")
    words += [_argument(one, default) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg:
        words.append(f"**{arguments.kwarg.arg}")
    inside = ", ".join(words)
    if len(inside) > 100:
        inside = "\n    " + ",\n    ".join(words) + ",\n"
    gives = _annotation(node.returns)
    return f"({inside})" + (f" -> {gives}" if gives else "")


def _argument(one: ast.arg, default: ast.expr | None) -> str:
    kind = _annotation(one.annotation)
    told = f"{one.arg}: {kind}" if kind and kind != "Any" else one.arg
    if default is None:
        return told
    return f"{told} = {ast.unparse(default)}" if ":" in told else f"{told}={ast.unparse(default)}"


def _annotation(node: ast.expr | None) -> str:
    if node is None:
        return ""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node).replace("'", "")


def _text(node: ast.AST) -> list[str]:
    return _documented(ast.get_docstring(node) or "")


_SECTION = re.compile(r"^(Parameters|Returns|Raises|Yields|Attributes)\n-+\n", re.M)


def _documented(text: str) -> list[str]:
    """A docstring in numpy's style as Markdown."""
    parts = _SECTION.split(text)
    made = _blocks(parts[0])
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        rows, rest = _items(body)
        made.append(f"**{title}**" + ("\n\n" + "\n".join(rows) if rows else ""))
        made += _blocks(rest)
    return made


def _items(body: str) -> tuple[list[str], str]:
    """Items of a section as a list, and what stands behind them."""
    rows: list[str] = []
    lines = body.splitlines()
    while lines:
        line = lines[0]
        if not line.strip():
            lines.pop(0)
            continue
        # A further paragraph that isn't indented, or an example, ends the section.
        if line.startswith(">>>") or (rows and not line[0].isspace() and not _is_item(lines)):
            break
        name = lines.pop(0).strip()
        described = []
        while lines and (not lines[0].strip() or lines[0][0].isspace()):
            described.append(lines.pop(0))
        told = " ".join(_paragraphs(textwrap.dedent("\n".join(described))))
        rows.append(f"- {_code(name)}" + (f": {told}" if told else "") if _is_name(name) else f"- {_inline(name)}" + (f" {told}" if told else ""))
    return rows, "\n".join(lines)


def _is_item(lines: list[str]) -> bool:
    return len(lines) > 1 and bool(lines[1].strip()) and lines[1][0].isspace()


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[*\w]+( of [\w() ,]+)?([ ,|]+[*\w]+)*", text) is not None


def _blocks(text: str) -> list[str]:
    """Paragraphs, lists and examples."""
    made = []
    for block in re.split(r"\n\s*\n", text.strip()):
        if not block.strip():
            continue
        if block.lstrip().startswith(">>>"):
            lines = [line.replace("  # doctest: +SKIP", "").rstrip() for line in textwrap.dedent(block).splitlines()]
            made.append("```pycon\n" + "\n".join(lines) + "\n```")
        elif block.lstrip().startswith("- "):
            made.append(_inline(block))
        else:
            made.append(_inline(" ".join(line.strip() for line in block.splitlines())))
    return made


def _paragraphs(text: str) -> list[str]:
    return [_inline(" ".join(line.strip() for line in block.splitlines())) for block in re.split(r"\n\s*\n", text.strip()) if block.strip()]


def _inline(text: str) -> str:
    """Roles and literals of docstrings as Markdown's code."""
    text = re.sub(r":\w+:`~?(?:splay\.)?([^`]+)`", r"`\1`", text)
    return re.sub(r"``(.+?)``", lambda code: f"`{code[1]}`", text)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
