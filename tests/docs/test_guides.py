"""The examples of the guides work, and their links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rungwatch.cost.static_cost import METRICS
from rungwatch.declare.problem import Shape
from rungwatch.declare.registry import discover

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]
EXAMPLE = re.compile(r"<!-- test: (\w+) -->\n```python\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?://)([^)#]+)")


def examples(page: str, kind: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = [code for tag, code in EXAMPLE.findall(text) if tag == kind]
    assert found, f"{page} has no example tagged '{kind}'"
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_example_is_tested(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("```python") == len(EXAMPLE.findall(text))
    assert {tag for tag, _ in EXAMPLE.findall(text)} <= {"declaration", "run"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_kernel_of_the_guide_is_found_and_declares_what_it_says(tmp_path: Path) -> None:
    (code,) = examples("add-a-kernel.md", "declaration")
    folder = tmp_path / "gemm" / "mine"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(code, encoding="utf-8")
    (kernel,) = discover(tmp_path)
    assert kernel.error is None
    assert kernel.key == "gemm/mine/mine"
    assert kernel.declaration is not None
    assert kernel.declaration.rules.refusal(Shape(256, 256, 128, 4)) is None
    assert "K must be at least 128" in str(kernel.declaration.rules.refusal(Shape(256, 256, 64, 4)))


def test_the_metric_example_prints_every_metric() -> None:
    (code,) = examples("add-a-metric.md", "run")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(METRICS)
