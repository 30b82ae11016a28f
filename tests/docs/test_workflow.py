"""The workflow grants nothing, pins what it runs, and runs only what a person can run at home."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOWS = sorted((Path(__file__).parents[2] / ".github" / "workflows").glob("*.y*ml"))
COMMAND = re.compile(r"python3 -m (pip install tox|tox run -e [\w-]+( -- [\w ./=-]+)?)")


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.name)
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def workflow(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps_of(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_there_is_a_workflow() -> None:
    assert WORKFLOWS


def test_every_action_is_pinned_by_commit_and_names_its_version(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.fullmatch(r" *(- )?uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_it_may_read_the_repository_and_nothing_else(workflow: dict[Any, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in workflow["jobs"].values())


def test_no_step_sees_a_secret_or_keeps_the_token(path: Path, workflow: dict[Any, Any]) -> None:
    assert "secrets." not in path.read_text(encoding="utf-8")
    checkouts = [s for s in steps_of(workflow) if s.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) == len(workflow["jobs"])
    for step in checkouts:
        assert step["with"]["persist-credentials"] is False


def test_pull_requests_run_on_hosted_machines_in_their_own_context(
    workflow: dict[Any, Any],
) -> None:
    triggers = workflow[True]  # YAML 1.1 reads the key `on` as true
    assert "pull_request_target" not in triggers
    assert "workflow_run" not in triggers
    for job in workflow["jobs"].values():
        assert re.fullmatch(r"ubuntu-\d\d\.\d\d", job["runs-on"])


def test_only_tox_is_run(workflow: dict[Any, Any]) -> None:
    commands = [step["run"] for step in steps_of(workflow) if "run" in step]
    assert commands
    for command in commands:
        assert COMMAND.fullmatch(command), command


def test_no_failure_is_ignored_and_no_job_hangs(workflow: dict[Any, Any]) -> None:
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 45
        assert "continue-on-error" not in job
        assert not any("continue-on-error" in step for step in job["steps"])


def test_what_a_failed_job_found_is_kept(workflow: dict[Any, Any]) -> None:
    for name in ("tests", "check", "asv-cpu"):
        uploads = [
            step
            for step in workflow["jobs"][name]["steps"]
            if step.get("uses", "").startswith("actions/upload-artifact@")
        ]
        assert [step["if"] for step in uploads] == ["always()"]
        assert uploads[0]["with"]["if-no-files-found"] == "error"


def test_a_newer_push_replaces_the_run(workflow: dict[Any, Any]) -> None:
    assert workflow["concurrency"]["cancel-in-progress"] is True
    assert "github.ref" in workflow["concurrency"]["group"]
