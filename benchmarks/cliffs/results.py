"""What is kept: a line of JSON for each statement, written when it was asked. A run that was stopped goes on behind them."""

import json
import pathlib
from dataclasses import asdict

from .statement import Statement


class Results:
    """The records of a file by the statements' keys."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.records = {}
        if path.exists():
            text = path.read_text()
            for line in text.splitlines():
                self.read(line)
            if not text.endswith("\n"):
                path.write_text(text[: text.rfind("\n") + 1])

    def read(self, line: str) -> None:
        """Takes a line; one that a stopped run left half written is left out."""
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            return
        self.records[record["key"]] = record

    def __contains__(self, key: str) -> bool:
        return key in self.records

    def add(self, statement: Statement, number: int, record: dict) -> None:
        """Keeps a statement's record."""
        whole = {
            "key": statement.key,
            "number": number,
            **asdict(statement.share),
            "kind": statement.kind,
            "sql": statement.sql(),
            **record,
        }
        self.records[statement.key] = whole
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(whole) + "\n")

    def of(self, statements: list[Statement]) -> list[dict]:
        """The records of statements, each once."""
        return list({one.key: self.records[one.key] for one in statements if one.key in self.records}.values())
