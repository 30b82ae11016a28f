"""The operators: each a systematic change, at every site of a kernel where it fits."""

from ..mutant import Operator
from . import barriers, data, order, tiles

OPERATORS: dict[str, Operator] = {
    **barriers.OPERATORS,
    **order.OPERATORS,
    **data.OPERATORS,
    **tiles.OPERATORS,
}
