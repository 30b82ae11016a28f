"""Run the mutants: `python -m tests.mutants --help`, from the root of the checkout."""

import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import click

from rungwatch.backends.job import BackendUnavailableError
from rungwatch.backends.simulator.backend import SimulatorBackend
from rungwatch.cache import cache_dir
from rungwatch.check.verdict_cache import VerdictCache
from rungwatch.explain.words import duration
from rungwatch.record.surroundings import code_digest
from rungwatch.trusted.matrix import Depth

from .equivalent import EQUIVALENT, UNSEEN, claim_for
from .hazards import hazards_of
from .mutant import RUNGS, Mutant
from .operators import OPERATORS
from .results import COMMITTED, Outcome, Result, read_results, write_results
from .run import HurriedBackend, NothingLearntError, by_source_rules, check_unchanged, run
from .suite import all_mutants, sample
from .table import write_page

# Between batches no worker runs, and the cache can be pruned to its limit.
_BATCH = 60


@click.command()
@click.option("--rung", "rungs", multiple=True, type=click.Choice(RUNGS), help="Only this rung.")
@click.option("--operator", "operators", multiple=True, type=click.Choice(sorted(OPERATORS)))
@click.option(
    "--sample",
    "per_operator",
    type=click.IntRange(1),
    help="At most so many mutants of each operator, and those of every hazard. [all]",
)
@click.option("--seed", default=0, help="Seed of the sample.")
@click.option("--full", is_flag=True, help="Try survivors on the whole required matrix as well.")
@click.option(
    "--results",
    "path",
    type=click.Path(path_type=Path),
    default=COMMITTED,
    help="What is known already, added to after each mutant. [tests/mutants/results.json]",
)
@click.option("--any-tool", is_flag=True, help="Also keep results of other versions of the tool.")
@click.option("--jobs", default=2, type=click.IntRange(1), help="Mutants at once.")
@click.option("--list", "only_list", is_flag=True, help="List the mutants with their changes.")
def main(
    rungs: Sequence[str],
    operators: Sequence[str],
    per_operator: int | None,
    seed: int,
    full: bool,
    path: Path,
    any_tool: bool,
    jobs: int,
    only_list: bool,
) -> None:
    """Make wrong kernels and see whether `rungwatch check` refuses them.

    Ends with 1 where a mutant survives that is neither shown equivalent nor of a class that the
    simulator is known not to see, with 4 where nothing could be learnt.
    """
    mutants = all_mutants()
    if per_operator is not None:
        kept = {mutant.key for mutant in mutants if hazards_of(mutant)}
        kept |= {mutant.key for mutant in sample(mutants, per_operator, seed)}
        mutants = [mutant for mutant in mutants if mutant.key in kept]
    mutants = [
        mutant
        for mutant in mutants
        if (not rungs or mutant.rung in rungs) and (not operators or mutant.operator in operators)
    ]
    if only_list:
        for mutant in mutants:
            click.echo(f"{mutant.name}\n  {mutant.diff.replace('\n', '\n  ')}")
        click.echo(f"{len(mutants)} mutants")
        return
    tool = code_digest()[:12]
    made = {mutant.key for mutant in all_mutants()}
    known = {
        key: result
        for key, result in read_results(path).items()
        if key in made and (any_tool or result.tool == tool)
    }
    for mutant in mutants:
        result = known.get(mutant.key)
        if result is not None and result.outcome is Outcome.SURVIVED:
            known[mutant.key] = by_source_rules(mutant) or result  # the rules may be newer
    waiting = sorted(
        (mutant for mutant in mutants if _is_open(mutant, known.get(mutant.key), full)),
        key=lambda mutant: not hazards_of(mutant),
    )
    write_results(path, known.values())
    try:
        _run_all(waiting, known, full, path, jobs)
    except (BackendUnavailableError, NothingLearntError) as error:
        click.echo(f"nothing was learnt: {error}", err=True)
        sys.exit(4)
    if path == COMMITTED:
        write_page()
    survivors = [
        mutant
        for mutant in mutants
        if known[mutant.key].outcome is Outcome.SURVIVED
        and claim_for(mutant, EQUIVALENT + UNSEEN) is None
    ]
    click.echo(f"{len(mutants)} mutants, {len(survivors)} survive unexplained")
    for mutant in survivors:
        click.echo(f"{mutant.name}\n  {mutant.diff.replace('\n', '\n  ')}")
    sys.exit(1 if survivors else 0)


def _is_open(mutant: Mutant, result: Result | None, full: bool) -> bool:
    """Say whether a mutant is still to be run; claimed ones are not run on the full matrix."""
    if result is None:
        return True
    survived_quick = result.outcome is Outcome.SURVIVED and result.depth is Depth.QUICK
    return full and survived_quick and claim_for(mutant, EQUIVALENT + UNSEEN) is None


def _depths(mutant: Mutant, result: Result | None, full: bool) -> list[Depth]:
    if result is not None:
        return [Depth.FULL]
    deep = full and claim_for(mutant, EQUIVALENT + UNSEEN) is None
    return [Depth.QUICK, Depth.FULL] if deep else [Depth.QUICK]


def _run_all(
    waiting: list[Mutant], known: dict[str, Result], full: bool, path: Path, jobs: int
) -> None:
    begun = time.monotonic()
    stop = threading.Event()
    done = 0
    for first in range(0, len(waiting), _BATCH):
        batch = waiting[first : first + _BATCH]
        # A new one prunes the cache before its first job.
        backend = HurriedBackend(SimulatorBackend(lambda text: click.echo(text, err=True)), stop)
        rungs = sorted({mutant.rung for mutant in batch}, key=RUNGS.index)
        click.echo(f"first the unchanged kernels: {', '.join(rungs)}", err=True)
        check_unchanged(rungs, backend, VerdictCache(cache_dir() / "verdicts"), jobs)
        with ThreadPoolExecutor(jobs) as pool:
            futures = {
                pool.submit(
                    run, mutant, _depths(mutant, known.get(mutant.key), full), backend
                ): mutant
                for mutant in batch
            }
            try:
                pending: set[Future[Result]] = set(futures)
                while pending:
                    ended, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
                    for future in ended:
                        result = future.result()
                        known[result.key] = result
                        write_results(path, known.values())
                        done += 1
                        _say(result, done, len(waiting), time.monotonic() - begun)
            except BaseException:
                stop.set()
                for future in futures:
                    future.cancel()
                raise


def _say(result: Result, done: int, total: int, seconds: float) -> None:
    left = duration(seconds / done * (total - done))
    how = f"{result.outcome} {result.reason} {result.case}".rstrip()
    click.echo(f"[{done}/{total}] {result.name}: {how}, {left} left", err=True)


if __name__ == "__main__":
    main()
