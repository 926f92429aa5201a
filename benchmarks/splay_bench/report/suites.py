"""The sections of the other suites: each stores its tables as they are shown."""

ORDER = ("formats", "taq", "frames", "bars", "nysetaq", "compression", "ingest")


def sections(found: dict) -> list[dict]:
    """``title``, ``note`` and ``tables`` of each suite's results, in a fixed order."""
    return [
        parts["tables"]["section"]
        for suite in ORDER
        for engines in found.get(suite, {}).values()
        for name, parts in engines.items()
        if name == "all" and "section" in parts.get("tables", {})
    ]
