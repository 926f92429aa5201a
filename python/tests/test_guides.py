"""Every block of the README and the guides that can run does, in page order (how: `pages.py`).

Two pages have tests of their own: the statements of market-recipes.md, whose answers test_recipes.py recomputes, and frames.md, which
test_frames_guide.py runs over data of its own.
"""

import pathlib
import re
import shutil

import pages
import pytest

ROOT = pages.ROOT
GUIDES = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = [ROOT / "README.md", *(page for page in GUIDES if page.name not in ("market-recipes.md", "frames.md"))]
WITH_BLOCKS = [page for page in PAGES if any(block.language in pages.RUNNABLE for block in pages.blocks(page))]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """Working folders as pages leave them, by page: made once, for the pages that go on from there."""
    folders: dict[pathlib.Path, pathlib.Path] = {}

    def of(page: pathlib.Path) -> pathlib.Path:
        if page not in folders:
            folder = tmp_path_factory.mktemp(page.stem)
            with pages.Runner(folder) as runner:
                for block in pages.blocks(page):
                    if block.not_run is None:
                        runner.run(page, block)
            folders[page] = folder
        return folders[page]

    return of


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.name)
def test_blocks_of_the_page_run(page, prepared, tmp_path, subtests):
    if earlier := pages.before(page):
        pages.copied(prepared((page.parent / earlier).resolve()), tmp_path)
    with pages.Runner(tmp_path) as runner:
        for block in pages.blocks(page):
            with subtests.test(f"{page.name}:{block.line} {block.language}"):
                reason = block.not_run
                if reason is None and re.search(r"^curl ", block.text, re.M) and not shutil.which("curl"):
                    reason = "needs curl, which is not installed"
                if reason is not None:
                    pytest.skip(f"{page.name}:{block.line}: {reason}")
                try:
                    runner.run(page, block)
                except pages.PageError as error:
                    pytest.fail(f"{page.relative_to(ROOT)}:{block.line}\n{error}", pytrace=False)


def test_every_block_names_its_language():
    plain = [
        f"{page.relative_to(ROOT)}:{block.line}" for page in [*PAGES, *GUIDES] for block in pages.blocks(page) if block.language == ""
    ]
    assert not plain, f"write ```text where a block is no code: {plain}"


def test_the_questions_of_getting_started_are_those_of_the_examples():
    def words(text: str) -> list[str]:
        return re.sub(r"^--.*$", "", text, flags=re.M).strip().rstrip(";").split()

    page = ROOT / "docs" / "guide" / "getting-started.md"
    asked = [words(block.text) for block in pages.blocks(page) if block.language == "sql"]
    assert asked == [words(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "examples" / "queries").glob("*.sql"))]
