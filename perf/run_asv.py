"""Count the static cost of the current commit with asv, check the numbers, write the page.

Runs in the environment it is started from. Ends with 0 when every kernel has a number for every
metric, with 4 (nothing can be said) when not: asv itself records a missing number as null and
ends with 0.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from rungwatch.cost.static_cost import TRACKED_BY_ASV
from rungwatch.decide.exit_code import ExitCode
from rungwatch.declare.registry import discover

ROOT = Path(__file__).parents[1]
STORE = ROOT / ".asv"
BENCHMARK = "static_cost.StaticCosts.track_cost"
# Counts are the same on every machine: one name for all, so that a history is one line.
MACHINE = "any"


class AsvError(RuntimeError):
    """asv, or git, could not do its part."""


def main() -> int:
    """Run asv on the current commit and return the exit code."""
    try:
        commit = _output("git", "rev-parse", "HEAD")
        if _output("git", "status", "--porcelain", "--", "kernels", "rungwatch"):
            print("note: files differ from the commit that the numbers are stored under")
        _asv("machine", "--yes", *_machine())
        _asv("run", "--environment", "existing:same", "--set-commit-hash", commit)
        missing = sorted(missing_numbers(commit))
        if missing:
            raise AsvError(f"no number for {', '.join(missing)}")
        _asv("publish")
    except AsvError as error:
        print(f"asv-cpu: {error}", file=sys.stderr)
        return ExitCode.INVALID
    print(f"{len(list(wanted()))} numbers stored for {commit[:12]}; page: .asv/html/index.html")
    return ExitCode.PASS


def wanted() -> Iterator[tuple[str, str]]:
    """Yield each kernel and metric that must have a number."""
    kernels = discover(ROOT / "kernels")
    yield from product((kernel.key for kernel in kernels), TRACKED_BY_ASV)


def missing_numbers(commit: str) -> set[str]:
    """Return what the results of `commit` lack: no result, null, NaN or infinite."""
    found: dict[tuple[str, ...], float | None] = {}
    for path in (STORE / "results" / MACHINE).glob(f"{commit[:8]}-*.json"):
        stored = json.loads(path.read_text(encoding="utf-8"))
        row = stored["results"].get(BENCHMARK)
        if row is None:
            continue
        result = dict(zip(stored["result_columns"], row, strict=False))
        # asv stores the parameters as Python source: 'step1', quotes included.
        names = [[text.strip("'") for text in values] for values in result["params"]]
        found.update(zip(product(*names), result["result"] or [], strict=False))
    return {
        f"{kernel} {metric}"
        for kernel, metric in wanted()
        if not _is_number(found.get((kernel, metric)))
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _machine() -> list[str]:
    facts = dict.fromkeys(("machine", "os", "arch", "cpu", "num_cpu", "ram"), MACHINE)
    return [word for name, value in facts.items() for word in (f"--{name}", value)]


def _asv(*arguments: str) -> None:
    """Run asv, with its machine file in the store and not in the user's home.

    Raises:
        AsvError: it ended with an exit code other than 0.
    """
    home = STORE / "home"
    home.mkdir(parents=True, exist_ok=True)
    own_git_config = {"GIT_CONFIG_GLOBAL": str(Path.home() / ".gitconfig")}
    environment = own_git_config | os.environ | {"HOME": str(home)}
    options = ["--machine", MACHINE, "--show-stderr"] if arguments[0] == "run" else []
    command = [sys.executable, "-m", "asv", *arguments, *options]
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if code != 0:
        raise AsvError(f"`asv {arguments[0]}` ended with exit code {code}")


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise AsvError(f"{command[0]} is not installed") from None
    if done.returncode != 0:
        raise AsvError(f"needs a git checkout: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
