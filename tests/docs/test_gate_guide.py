"""docs/gate.md: its settings can be read, its verdicts exist, its workflow is a safe one."""

import datetime
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from rungwatch.decide.exit_code import EXIT_CODES
from rungwatch.decide.settings import DEFAULT_STATIC, Settings, read_settings
from rungwatch.decide.verdict import Reason, verdict_of
from rungwatch.explain.markdown import MARKER

PAGE = (Path(__file__).parents[2] / "docs" / "gate.md").read_text(encoding="utf-8")


def example(tag: str) -> str:
    (found,) = re.findall(rf"<!-- test: {tag} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_settings_can_be_read_and_hold_every_key() -> None:
    settings = read_settings(example("settings").encode())
    assert settings.static["smem_bytes"] == 1024
    (accepted,) = settings.accepted
    assert accepted.expires == datetime.date(2027, 6, 30)
    given = msgspec.to_builtins(settings)
    assert set(given) == set(Settings.__struct_fields__)
    for name in ("accepted", "removed"):
        (entry,) = given[name]
        assert None not in entry.values()
    assert settings.toolchain.lock is not None


def test_the_settings_name_what_is_gated_without_a_file() -> None:
    assert set(read_settings(example("settings").encode()).static) == set(DEFAULT_STATIC)


def verdict_rows() -> list[list[str]]:
    table = PAGE[PAGE.index("| Verdict | Exit code |") :].partition("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


@pytest.mark.parametrize("row", verdict_rows(), ids=lambda row: row[0][:40])
def test_every_verdict_of_the_table_is_that_of_its_reason(row: list[str]) -> None:
    named = re.findall(r"([A-Z]+)\(`([\w-]+)`\)", row[0])
    assert named
    for verdict, reason in named:
        assert verdict_of(Reason(reason)).value == verdict
        assert EXIT_CODES[verdict_of(Reason(reason))] == int(row[1])


@pytest.fixture
def workflow() -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(example("workflow"))
    return loaded


def test_the_job_that_runs_foreign_code_has_no_token(workflow: dict[Any, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    gate = workflow["jobs"]["gate"]
    assert "permissions" not in gate
    assert "token" not in str(gate).lower()
    assert gate["steps"][0]["with"]["persist-credentials"] is False
    comment = workflow["jobs"]["comment"]
    assert not any("uses" in step for step in comment["steps"])
    assert not any(step["run"].startswith("rungwatch") for step in comment["steps"])


def test_actions_are_pinned_as_in_the_workflow_of_this_project() -> None:
    own = (Path(__file__).parents[2] / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    used = re.findall(r"uses: (.+)", example("workflow"))
    assert used
    assert set(used) <= set(re.findall(r"uses: (.+)", own))


def test_the_comment_is_found_by_the_line_that_it_ends_with(workflow: dict[Any, Any]) -> None:
    assert f'endswith("{MARKER}")' in workflow["jobs"]["comment"]["steps"][-1]["run"]
