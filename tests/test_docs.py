"""The documentation is true: examples print what the page shows, programs run, links lead somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
from compilers import HAS_COMPILER

ROOT = Path(__file__).resolve().parents[1]
PRIMITIVES = sorted((ROOT / "docs" / "primitives").glob("*.md"))
REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), *PRIMITIVES, *REFERENCE]
# Whole programs, in contrast to fragments and to examples with prompts.
PROGRAMS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"^```python\n(.+?)^```$", page.read_text(), flags=re.M | re.S))
    if re.match(r"import pegbox|from pegbox import te|from pegbox.plugins import tvm", block)
]


def anchors(page: Path) -> set[str]:
    """The names by which the headings of a page can be linked."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


EXAMPLES = ["compute.md", "sketch.md", "templates.md", "script.md", "features.md"]
EXAMPLES += [f"primitives/{page.name}" for page in PRIMITIVES if page.name != "index.md"]


@pytest.mark.parametrize("page", EXAMPLES)
def test_examples_of_a_page_are_true(page: str) -> None:
    if page == "primitives/tensorize.md" and not HAS_COMPILER:
        pytest.skip("an example compiles C source")
    result = doctest.testfile(str(ROOT / "docs" / page), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_in_pages_run(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(program, "<page>", "exec"), {"__name__": "page"})
    capsys.readouterr()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_and_headings_lead_somewhere(page: Path) -> None:
    for link, heading in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
        if "://" in link:
            continue
        target = page.parent / link if link else page
        assert target.exists(), f"{page.name} links to {link}"
        if heading:
            assert heading in anchors(target), (
                f"{page.name} links to {link}#{heading}; there is {sorted(anchors(target))}"
            )


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_every_page_can_be_reached_from_the_index(page: Path) -> None:
    assert page.name == "index.md" or f"({page.name}" in (ROOT / "docs" / "index.md").read_text()


@pytest.mark.parametrize("page", PRIMITIVES, ids=lambda page: page.name)
def test_every_page_of_primitives_can_be_reached_from_their_index(page: Path) -> None:
    assert page.name == "index.md" or f"({page.name}" in (ROOT / "docs" / "primitives" / "index.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_that_a_page_names_are_there(page: Path) -> None:
    """Paths of the source are written from the root of the checkout, or from `core/`."""
    rooms = "|".join(path.name for path in (ROOT / "core").iterdir() if path.is_dir())
    named = rf"`((?:core/|templates/|tuners/|plugins/|(?:{rooms})/)[\w/]+(?:\.py|/))`"
    for path in re.findall(named, page.read_text()):
        assert (ROOT / path).exists() or (ROOT / "core" / path).exists(), f"{page.name} names {path}"


@pytest.mark.parametrize(
    "part", [r"^\| µs a call .+\n(?:\|.+\n)+", r"^```python\n(?s:.+?)^```$"], ids=["table", "program"]
)
def test_the_readme_and_the_site_begin_with_the_same(part: str) -> None:
    readme, site = (re.findall(part, (ROOT / name).read_text(), re.M)[0] for name in ("README.md", "docs/index.md"))
    assert readme == site
