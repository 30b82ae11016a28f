"""The project's settings for verdicts: `rungwatch.toml`, always read from base.

Pure: bytes in, a `Settings` out. An unknown key is an error, since a misspelt threshold would
otherwise be no threshold.
"""

import datetime
import math
import tomllib
from typing import Annotated

import msgspec

from rungwatch.cost.static_cost import METRICS, Better

Text = Annotated[str, msgspec.Meta(min_length=1)]
ShapeText = Annotated[str, msgspec.Meta(pattern=r"^[1-9]\d*x[1-9]\d*x[1-9]\d*$")]
Commit = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{7,40}$")]


class SettingsError(ValueError):
    """The settings can't be used; the message names the key."""


class Accepted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A worse cost that is meant: of one metric, in one kernel, from one commit on, for a time.

    `shape` None means every shape. After `expires` the entry counts for nothing, so that it is
    looked at again.
    """

    kernel: Text
    metric: Text
    reason: Text
    commit: Commit
    expires: datetime.date
    shape: ShapeText | None = None


class Removed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel that head may remove."""

    kernel: Text
    reason: Text


class Toolchain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`lock`: the file that pins the compilers, from the root of the project."""

    lock: Text | None = None


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What base says of verdicts.

    `static` holds how much worse than base a metric may get, in the metric's own unit; a metric
    that it does not name is shown and decides nothing.
    """

    static: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}
    accepted: tuple[Accepted, ...] = ()
    removed: tuple[Removed, ...] = ()
    toolchain: Toolchain = Toolchain()


# What holds unless [static] says otherwise, metric by metric: nothing that is known to cost may
# get worse.
DEFAULT_STATIC = {
    "local_store_bytes": 0.0,
    "local_load_bytes": 0.0,
    "stack_bytes": 0.0,
    "smem_bytes": 0.0,
    "resident_ctas": 0.0,
    "waves": 0.0,
    "most_flops_a_cta": 0.0,  # waves believe the tile that is declared; this is counted
}


def read_settings(data: bytes | None) -> Settings:
    """Return the settings in the bytes of a `rungwatch.toml`; the defaults where there is none.

    Raises:
        SettingsError: it is no TOML, or a key is unknown or its value of a wrong type.
    """
    if data is None:
        return Settings(static=DEFAULT_STATIC)
    try:
        table = tomllib.loads(data.decode("utf-8"))
        settings = msgspec.convert(table, Settings)
    except (ValueError, msgspec.ValidationError) as error:
        raise SettingsError(f"rungwatch.toml: {error}") from None
    for metric, allowed in settings.static.items():
        _require_gated(metric, "[static]")
        if not math.isfinite(allowed):
            raise SettingsError(f"rungwatch.toml: [static] {metric} is no finite number")
    for entry in settings.accepted:
        _require_gated(entry.metric, "[[accepted]]")
    return msgspec.structs.replace(settings, static=DEFAULT_STATIC | settings.static)


def _require_gated(metric: str, where: str) -> None:
    known = METRICS.get(metric)
    if known is None:
        raise SettingsError(f"rungwatch.toml: {where} names no metric: '{metric}'")
    if known.better is Better.NEITHER:
        raise SettingsError(f"rungwatch.toml: {where}: '{metric}' is neither better low nor high")
