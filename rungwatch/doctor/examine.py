"""The doctor's whole work: collect the facts of this machine and judge them."""

from pathlib import Path

from rungwatch.backends.cuda.device_check import known_target
from rungwatch.doctor.collect import collect
from rungwatch.doctor.device import judge_device
from rungwatch.doctor.facts import Facts
from rungwatch.doctor.finding import EVERYTHING, ON_CPU, Activity, Finding
from rungwatch.doctor.host import judge_artifacts, judge_host
from rungwatch.doctor.measuring import judge_measuring


def examine(artifacts: Path | None = None, *, gpu_required: bool = False) -> tuple[Finding, ...]:
    """Look at this machine, and at the artifacts folder where one is given.

    Without a GPU it takes a second or two; with one, as long as torch takes to start.
    """
    return judge(collect(artifacts, gpu_required=gpu_required))


def judge(facts: Facts) -> tuple[Finding, ...]:
    """Return the findings that the facts give."""
    found = [*judge_host(facts), *judge_device(facts), *judge_measuring(facts)]
    if facts.artifacts is not None:
        device = facts.gpu.device
        found.append(
            judge_artifacts(facts.artifacts, None if device is None else known_target(device))
        )
    return tuple(found)


def default_activities(facts: Facts) -> tuple[Activity, ...]:
    """Return what is asked of a machine where nothing was named: the GPU's where one must be."""
    return EVERYTHING if facts.has_gpu or facts.variables.gpu_required else ON_CPU
