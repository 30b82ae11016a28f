"""Static costs are judged by base's settings, and what is not known is never equal."""

import datetime
import math

import pytest

from rungwatch.decide.settings import DEFAULT_STATIC, Accepted, Settings, SettingsError
from rungwatch.decide.settings import read_settings as read
from rungwatch.decide.static import changes, describe, judge_static
from rungwatch.decide.verdict import Reason

TODAY = datetime.date(2030, 5, 17)
DEFAULTS = Settings(static=DEFAULT_STATIC)
COST = dict.fromkeys(DEFAULT_STATIC, 10.0) | {"registers": 100.0, "threads": 128.0}


def judge(settings: Settings = DEFAULTS, **head: float) -> Reason:
    return judge_static("f/k", "1x1x1", COST, COST | head, settings, TODAY)[0]


def accept(**changes: object) -> Settings:
    fields: dict[str, object] = {
        "kernel": "f/k",
        "metric": "smem_bytes",
        "reason": "meant",
        "commit": "0" * 40,
        "expires": TODAY,
        **changes,
    }
    return Settings(static=DEFAULT_STATIC, accepted=(Accepted(**fields),))  # type: ignore[arg-type]


def test_the_same_cost_is_no_news() -> None:
    assert judge() is Reason.OK
    assert judge(registers=200.0) is Reason.OK  # shown, and decides nothing
    assert judge(threads=256.0) is Reason.OK


@pytest.mark.parametrize("metric", DEFAULT_STATIC)
def test_each_gated_metric_can_get_worse_and_better(metric: str) -> None:
    worse, better = (9.0, 11.0) if metric == "resident_ctas" else (11.0, 9.0)
    assert judge(**{metric: worse}) is Reason.STATIC_WORSE
    assert judge(**{metric: better}) is Reason.STATIC_BETTER
    allowed = Settings(static=DEFAULT_STATIC | {metric: 1.0})
    assert judge(allowed, **{metric: worse}) is Reason.OK


def test_worse_outranks_better() -> None:
    assert judge(smem_bytes=11.0, waves=1.0) is Reason.STATIC_WORSE


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_unknown(value: float) -> None:
    assert judge(smem_bytes=value) is Reason.COST_UNKNOWN
    assert judge(registers=value) is Reason.COST_UNKNOWN


def test_a_metric_of_one_side_only_is_unknown() -> None:
    short = {name: value for name, value in COST.items() if name != "waves"}
    for base, head in ((COST, short), (short, COST)):
        settings = Settings(static=DEFAULT_STATIC)
        assert judge_static("f/k", "1x1x1", base, head, settings, TODAY)[0] is Reason.COST_UNKNOWN


def test_a_gated_metric_that_nobody_counted_is_unknown() -> None:
    settings = Settings(static=DEFAULT_STATIC)
    assert judge_static("f/k", "1x1x1", {}, {}, settings, TODAY)[0] is Reason.COST_UNKNOWN


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (accept(), Reason.ACCEPTED),
        (accept(shape="1x1x1"), Reason.ACCEPTED),
        (accept(shape="2x1x1"), Reason.STATIC_WORSE),
        (accept(kernel="f/other"), Reason.STATIC_WORSE),
        (accept(metric="waves"), Reason.STATIC_WORSE),
        (accept(expires=TODAY - datetime.timedelta(days=1)), Reason.STATIC_WORSE),
    ],
)
def test_an_entry_accepts_what_it_names_until_it_expires(
    settings: Settings, reason: Reason
) -> None:
    assert judge(settings, smem_bytes=11.0) is reason
    assert judge(settings, smem_bytes=11.0, stack_bytes=11.0) is Reason.STATIC_WORSE


def test_changes_are_told_with_their_units() -> None:
    [change] = changes(COST, COST | {"smem_bytes": 99_328.0})
    assert describe(change) == "smem_bytes 10 -> 99,328 B"


def test_settings_are_read_over_the_defaults() -> None:
    assert read(None).static == DEFAULT_STATIC
    assert read(b"").static == DEFAULT_STATIC
    assert read(b"[static]\n").static == DEFAULT_STATIC
    assert read(b"[static]\nwaves = 2\n").static == DEFAULT_STATIC | {"waves": 2.0}
    assert read(b"[static]\nregisters = 8\n").static["registers"] == 8.0
    assert read(b"[toolchain]\nlock = 'x'\n").toolchain.lock == "x"


@pytest.mark.parametrize(
    "text",
    [
        "[static]\nwavs = 1",
        "[static]\nthreads = 1",  # neither way is better
        "[static]\nwaves = -1",
        "[static]\nwaves = nan",
        "[static]\nwaves = inf",
        "[static]\nwaves = '1'",
        "[statics]",
        "[toolchain]\nlok = 'x'",
        "[[accepted]]\nkernel = 'k'",
        "[[accepted]]\nkernel='k'\nmetric='wavs'\nreason='r'\ncommit='0123456'\nexpires=2030-01-01",
        "[[accepted]]\nkernel='k'\nmetric='waves'\nreason=''\ncommit='0123456'\nexpires=2030-01-01",
        "[[accepted]]\nkernel='k'\nmetric='waves'\nreason='r'\ncommit='main'\nexpires=2030-01-01",
        "[[accepted]]\nkernel='k'\nmetric='waves'\nreason='r'\ncommit='0123456'\nexpires='soon'",
        "[[removed]]\nkernel = 'k'",
        "[",
        "\x00",
    ],
)
def test_settings_with_anything_unknown_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"rungwatch\.toml"):
        read(text.encode())
    with pytest.raises(SettingsError):
        read(b"\xff")
