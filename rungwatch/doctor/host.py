"""What is good and bad about a machine, its GPU apart: from facts to findings. Pure."""

from collections.abc import Iterator

from rungwatch.doctor.facts import ArtifactFacts, DiskFacts, Facts, SimulatorFacts
from rungwatch.doctor.finding import (
    EVERYTHING,
    ON_CPU,
    ON_GPU,
    Activity,
    Finding,
    note,
    ok,
    trouble,
)
from rungwatch.doctor.packages import split

_GB = 10**9
# The simulator's engines and its workers; the C++ and Rust compilers need as much memory.
_LEAST_MEMORY_BYTES = 2 * _GB
# Engines and compiled kernels; a build keeps up to 1 GB of artifacts.
_LEAST_CACHE_BYTES = 2 * _GB
# A problem of 8192 x 8192 x 8192 in files: A, B and D, before and after. One of 16384 takes more.
_LEAST_TEMPORARY_BYTES = 1 * _GB
_AMPLE_TEMPORARY_BYTES = 4 * _GB
_NAMED = 3


def judge_host(facts: Facts) -> Iterator[Finding]:
    """Say what the machine is, what is installed, and what room there is."""
    yield _system(facts)
    yield _memory(facts)
    yield from _disk(facts.disk)
    yield from _simulator(facts.simulator)
    yield _build(facts)
    yield _report(facts)
    yield _git(facts)


def judge_artifacts(artifacts: ArtifactFacts, target: str | None) -> Finding:
    """Say whether a folder holds what the GPU runs; `target` None: there is no GPU to ask for."""
    name, build = "artifacts", "make them with `rungwatch build --for device --out DIR`"
    if artifacts.problem:
        return trouble(name, artifacts.problem, build, ON_GPU)
    if artifacts.damaged:
        return trouble(name, f"artifacts missing or altered: {artifacts.damaged}", build, ON_GPU)
    cases = [f"{count} for {name}" for name, count in sorted(artifacts.cases_by_target.items())]
    seen = ", ".join(cases) or "none"
    if target is not None and target not in artifacts.cases_by_target:
        return trouble(
            name,
            f"no artifacts for this GPU's {target} (there are: {seen})",
            f"make them with `rungwatch build --target {target} --for device --out DIR`",
            ON_GPU,
        )
    if artifacts.unbuilt:
        refused = f"{seen}; {artifacts.unbuilt} cases could not be built"
        return note(name, refused, "the output of `rungwatch build` says why", ON_GPU)
    return ok(name, seen, ON_GPU)


def _system(facts: Facts) -> Finding:
    seen = f"{facts.system}, {facts.cores} cores, Python {facts.python}"
    if not facts.system.startswith("Linux"):
        other = f"the system is {facts.system}"
        return trouble("system", other, "use Linux: workers are watched by its means", EVERYTHING)
    return ok("system", seen, EVERYTHING)


def _memory(facts: Facts) -> Finding:
    free, total = gigabytes(facts.memory_free_bytes), gigabytes(facts.memory_bytes)
    seen = f"{free} of {total} of memory are free"
    if facts.memory_free_bytes < _LEAST_MEMORY_BYTES:
        next_step = f"free memory: at least {gigabytes(_LEAST_MEMORY_BYTES)} is needed"
        return trouble("memory", f"only {seen}", next_step, EVERYTHING)
    return ok("memory", seen, EVERYTHING)


def _disk(disk: DiskFacts) -> Iterator[Finding]:
    size = "its size is not known" if disk.cache_bytes is None else gigabytes(disk.cache_bytes)
    seen = f"{size}, {gigabytes(disk.cache_free_bytes)} of its disk are free"
    elsewhere = "set RUNGWATCH_CACHE_DIR to a folder that can be written"
    if disk.limit_problem:
        what, _, next_step = disk.limit_problem.rpartition(": ")
        yield trouble("cache", what, next_step, (Activity.CHECK,))
    elif not disk.cache_writable:
        yield trouble("cache", "the cache folder can't be written", elsewhere, ON_CPU)
    elif disk.cache_free_bytes < _LEAST_CACHE_BYTES:
        next_step = f"free {gigabytes(_LEAST_CACHE_BYTES)}, or {elsewhere}"
        low = f"the disk of the cache folder has only {gigabytes(disk.cache_free_bytes)} free"
        yield trouble("cache", low, next_step, ON_CPU)
    else:
        yield ok("cache", seen, ON_CPU)
    seen = f"{gigabytes(disk.temporary_free_bytes)} free for temporary files"
    if disk.temporary_free_bytes < _LEAST_TEMPORARY_BYTES:
        yield trouble(
            "temporary", f"only {seen}", "free some, or set TMPDIR to another folder", EVERYTHING
        )
    elif disk.temporary_free_bytes < _AMPLE_TEMPORARY_BYTES:
        next_step = f"problems of 16384x16384x16384 need {gigabytes(_AMPLE_TEMPORARY_BYTES)}"
        yield note("temporary", seen, next_step, EVERYTHING)
    else:
        yield ok("temporary", seen, EVERYTHING)


def _simulator(simulator: SimulatorFacts) -> Iterator[Finding]:
    affects = (Activity.CHECK,)
    for number, problem in enumerate(simulator.problems, 1):
        what, _, next_step = problem.rpartition(": ")
        name = "simulator" if number == 1 else f"simulator-{number}"  # a row's name is its own
        yield trouble(name, what, next_step, affects)
    if simulator.problems:
        return
    yield ok("simulator", ", ".join(simulator.parts), affects)
    if simulator.engines_to_build:
        names = ", ".join(simulator.engines_to_build)
        next_step = "the first `rungwatch check` builds them: minutes, and cargo's registry"
        yield note("engines", f"not built yet: {names}", next_step, affects)
    else:
        yield ok("engines", "built", affects)


def _build(facts: Facts) -> Finding:
    there, missing = split("build", facts.packages)
    if missing:
        return trouble("build", not_installed(missing), pip_install("build"), (Activity.BUILD,))
    compilers = [text for text in there if text.startswith(("apache-tvm", "nvidia-cuda-nvrtc"))]
    return ok("build", ", ".join(compilers), (Activity.BUILD,))


def _report(facts: Facts) -> Finding:
    there, missing = split("report", facts.packages)
    if missing:
        return note("report", "no matplotlib: plots can't be drawn", pip_install("report"))
    return ok("report", ", ".join(there))


def _git(facts: Facts) -> Finding:
    if facts.git is None:
        seen = "not found: commits can't be compared (gate, diff, bisect)"
        return note("git", seen, "install git")
    return ok("git", facts.git.removeprefix("git version "))


def not_installed(missing: list[str]) -> str:
    """Return "not installed: a, b, c and 2 more"."""
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f"not installed: {', '.join(missing[:_NAMED])}{more}"


def pip_install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'rungwatch[{extra}]'"


def gigabytes(size_bytes: int) -> str:
    """Return a size for people: "0.4 GB", "64 GB"."""
    size = size_bytes / _GB
    return f"{size:.0f} GB" if size >= 9.95 else f"{size:.1f} GB"
