"""The workflow grants no more than it must, pins what it runs, and runs what runs at home too."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
COMMAND = re.compile(r"python3 -m (pip install tox|tox run -e [\w-]+( -- [\w ./=-]+)?)")


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.name)
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def workflow(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


# The gate runs base's tool, not a tox environment of head; its comment is all that may write.
GATE, COMMENT = "gate", "comment"


def steps_of(workflow: dict[Any, Any], *but: str) -> list[dict[str, Any]]:
    jobs = workflow["jobs"].items()
    return [step for name, job in jobs if name not in but for step in job["steps"]]


def commands_of(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def test_there_is_a_workflow() -> None:
    assert WORKFLOWS


def test_every_action_is_pinned_by_commit_and_names_its_version(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.fullmatch(r" *(- )?uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_it_may_read_the_repository_and_nothing_else(workflow: dict[Any, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    assert [name for name, job in workflow["jobs"].items() if "permissions" in job] == [COMMENT]


def test_no_step_sees_a_secret_or_keeps_the_token(path: Path, workflow: dict[Any, Any]) -> None:
    assert "secrets." not in path.read_text(encoding="utf-8")
    for name, job in workflow["jobs"].items():
        checkouts = [s for s in job["steps"] if s.get("uses", "").startswith("actions/checkout@")]
        assert len(checkouts) == (name != COMMENT)
        assert all(step["with"]["persist-credentials"] is False for step in checkouts)
        assert ("github.token" in str(job)) is (name == COMMENT)


def test_the_job_that_may_write_comments_and_runs_nothing_of_a_pull_request(
    workflow: dict[Any, Any],
) -> None:
    job = workflow["jobs"][COMMENT]
    assert job["permissions"] == {"actions": "read", "pull-requests": "write"}
    assert "github.event.pull_request.head.repo.full_name == github.repository" in job["if"]
    assert not any("uses" in step for step in job["steps"])
    for command in commands_of(job):
        assert "${{" not in command  # a title or a branch name must not become a command
        assert not re.search(r"python|tox|rungwatch (?!gate -->)", command)


def test_the_gate_is_that_of_base(workflow: dict[Any, Any]) -> None:
    job = workflow["jobs"][GATE]
    assert job["if"] == "github.event_name == 'pull_request'"
    assert job["steps"][0]["with"]["fetch-depth"] == 0
    install, judge, _ = commands_of(job)
    assert install.splitlines() == [
        "git worktree add ../base HEAD^1",
        "python3 -P -m pip install -c ../base/constraints.txt '../base[sim,build]'",
    ]
    assert judge.startswith("rungwatch gate --base HEAD^1 --head HEAD ")


def test_the_gate_and_its_comment_are_those_of_the_guide(workflow: dict[Any, Any]) -> None:
    guide = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"<!-- test: workflow -->\n```yaml\n(.*?)```", guide, re.DOTALL)
    told = yaml.safe_load(example)["jobs"]
    assert commands_of(workflow["jobs"][GATE])[1:] == commands_of(told[GATE])[1:]
    assert commands_of(workflow["jobs"][COMMENT]) == commands_of(told[COMMENT])


def test_pull_requests_run_on_hosted_machines_in_their_own_context(
    workflow: dict[Any, Any],
) -> None:
    triggers = workflow[True]  # YAML 1.1 reads the key `on` as true
    assert "pull_request_target" not in triggers
    assert "workflow_run" not in triggers
    for job in workflow["jobs"].values():
        assert re.fullmatch(r"ubuntu-\d\d\.\d\d", job["runs-on"])


def test_only_tox_is_run_but_by_the_gate(workflow: dict[Any, Any]) -> None:
    commands = [step["run"] for step in steps_of(workflow, GATE, COMMENT) if "run" in step]
    assert commands
    for command in commands:
        assert COMMAND.fullmatch(command), command


def test_no_failure_is_ignored_and_no_job_hangs(workflow: dict[Any, Any]) -> None:
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 45
        assert "continue-on-error" not in job
        assert not any("continue-on-error" in step for step in job["steps"])


def test_what_a_failed_job_found_is_kept(workflow: dict[Any, Any]) -> None:
    for name in ("tests", "check", "asv-cpu", GATE):
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
