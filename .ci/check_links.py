"""Checks that each relative link of the Markdown files leads to a file that is there and, behind a #, to one of its headings.

python3 .ci/check_links.py [FILE...]: without files, all that git knows. Prints the links that lead nowhere, and exits with 1.
"""

import re
import subprocess
import sys
from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*(```|~~~)")
HEADING = re.compile(r"^#+\s+(.*?)\s*#*$")


def prose(path):
    """Number and text of each line outside of code blocks."""
    inside = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(path):
    """Anchors of a file's headings, as GitHub makes them; headings of one text are numbered."""
    seen = {}
    for _, line in prose(path):
        heading = HEADING.match(line)
        if not heading:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1))
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        yield anchor if count == 0 else f"{anchor}-{count}"


def faults(path):
    for number, line in prose(path):
        # What stands between backquotes is text.
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            there = path if not name else path.parent / name
            if not there.exists():
                yield number, f"{target}: there is no such file"
            elif anchor and there.suffix == ".md" and anchor not in anchors(there):
                yield number, f"{target}: there is no such heading"


def main():
    names = sys.argv[1:] or subprocess.run(
        ["git", "ls-files", "*.md"], check=True, capture_output=True, text=True
    ).stdout.split()
    found = [f"{name}:{number}: {fault}" for name in names for number, fault in faults(Path(name))]
    print("\n".join(found) if found else f"links of {len(names)} files lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
