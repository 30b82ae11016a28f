"""The executed work of kernels, counted from their lowered TIR."""

import importlib.util
import sys
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st

from rungwatch.artifact.plan import LaunchPlan
from rungwatch.cost.limiter import limiter
from rungwatch.cost.walk import UnwalkableError, walk
from rungwatch.cost.walk.emit import emit
from rungwatch.cost.walk.program import (
    Assign,
    Axis,
    Branch,
    Program,
    Repeat,
    Site,
    Statement,
    Unit,
    Value,
)
from rungwatch.cost.work import Work, mismatches
from rungwatch.declare.problem import Shape
from rungwatch.declare.protocol import Declaration, read_declaration

from ..hazards.mutants import MUTANTS

LADDER = Path(__file__).parents[2] / "kernels" / "hgemm" / "blackwell"
TILED = [f"step{number}" for number in range(3, 10)]
RUNGS = ["step1", "step1_matrix", "step2", *TILED]
# SM counts that divide the tiles of no rung, k tiles that end within every ring, M != N.
UNEVEN = Shape(1024, 1536, 320, 10)
FULL = Shape(4096, 4096, 4096, 148)


def load(path: Path) -> Any:
    name = f"walked_{path.stem}_{abs(hash(path))}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def lowered(function: Any, target: str) -> tuple[Any, LaunchPlan]:
    """Return the device function after SplitHostDevice, and the plan of its launch."""
    from tvm.ir.instrument import pass_instrument

    from rungwatch.artifact.host_plan import read_plan

    split: list[Any] = []

    @pass_instrument
    class KeepSplit:
        def run_after_pass(self, module: Any, info: Any) -> None:
            if info.name == "tirx.SplitHostDevice":
                split.append(module)

    device = tvm.target.Target({"kind": "cuda", "arch": target}, host="llvm")
    pipeline, _, _ = tvm.tirx.get_tir_pipeline("tirx")
    with tvm.transform.PassContext(instruments=[KeepSplit()]), device:
        pipeline(tvm.tirx.transform.BindTarget(device)(tvm.IRModule({"main": function})))
    by_kind = {int((f.attrs or {}).get("calling_conv", 0)): f for f in split[0].functions.values()}
    return by_kind[2], read_plan(by_kind[0])


def shape_for(rung: str, shape: Shape) -> Shape:
    if rung == "step1":
        return Shape(128, 128, 64, 1)
    return Shape(128, 128, shape.k, 1) if rung == "step2" else shape


@cache
def rung_at(rung: str, shape: Shape) -> tuple[Any, LaunchPlan]:
    module = load(LADDER / f"{rung}.py")
    return lowered(module.get_kernel(shape.m, shape.n, shape.k, shape.sm_count), "sm_100a")


def declaration_of(rung: str) -> Declaration:
    module = load(LADDER / f"{rung}.py")
    return read_declaration(module.PROTOCOL, module.KERNEL)


# ---- the ladder ----


@pytest.mark.parametrize("rung", RUNGS)
def test_every_rung_does_exactly_the_work_of_its_problem(rung: str) -> None:
    shape = shape_for(rung, UNEVEN)
    function, plan = rung_at(rung, shape)
    work = walk(function, plan)
    assert mismatches(work, shape) == ()
    assert work.accumulated_k == work.accumulators * shape.k
    assert work == walk(function, plan, collapse=False)


@pytest.mark.parametrize("rung", ["step6", "step7", "step8", "step9"])
def test_ctas_without_a_tile_do_no_work(rung: str) -> None:
    shape = Shape(1024, 512, 64, 148)
    work = walk(*rung_at(rung, shape))
    assert mismatches(work, shape) == ()
    assert work.ctas == 148
    assert work.accumulators_per_cta_min == 0 < work.accumulators_per_cta_max


def test_step5_counted_by_hand() -> None:
    shape = Shape(1024, 512, 320, 4)
    work = walk(*rung_at("step5", shape))
    tiles, k_tiles, threads, warps = 8 * 4, 5, 128, 4
    assert work.ctas == work.accumulators == tiles
    assert work.tma_in_bytes == work.tma_delivered_bytes == tiles * k_tiles * 2 * 128 * 64 * 2
    assert work.tma_out_bytes == 1024 * 512 * 2
    assert work.mma_instructions == tiles * k_tiles * 64 // 16
    # One elected thread waits for the loads, all threads for the MMA.
    assert work.barrier_waits == tiles * k_tiles * (1 + threads)
    # expect_tx by the producer, one commit a k tile.
    assert work.barrier_arrivals == tiles * k_tiles * 2
    # One a k tile, after the barriers are initialised and before the store.
    assert work.cta_barriers == tiles * warps * (k_tiles + 2)


def test_step9_counted_by_hand() -> None:
    shape = Shape(1536, 512, 576, 6)
    work = walk(*rung_at("step9", shape))
    tiles, k_tiles, clusters, ring = 3 * 2, 9, 3, 4
    assert work.ctas == 2 * clusters
    # Two CTAs hold half of each of two consumers' accumulators.
    assert work.accumulators == tiles * 2 * 2
    assert work.accumulators_per_cta_min == work.accumulators_per_cta_max == 4
    assert work.mma_instructions == tiles * k_tiles * 2 * 64 // 16
    assert work.tma_in_bytes == tiles * k_tiles * (512 + 256) * 64 * 2
    producers = 2 * (tiles * k_tiles + clusters * ring)
    issuers = 2 * tiles * (1 + k_tiles)
    writeback = 2 * tiles * 256
    assert work.barrier_waits == producers + issuers + writeback
    # expect_tx, two issuers' multicast commits a k tile and a tile, 256 threads in both CTAs.
    assert work.barrier_arrivals == tiles * (k_tiles + 2 * 2 * (k_tiles + 1) + 2 * 256)
    assert work.cluster_barriers == work.ctas * 12 * 2
    # Twice a chunk of 64 columns.
    assert work.named_barriers == tiles * 2 * 8 * 4 * 2


def test_uneven_tiles_show_in_the_busiest_and_the_idlest_cta() -> None:
    work = walk(*rung_at("step7", UNEVEN))
    assert (work.accumulators_per_cta_min, work.accumulators_per_cta_max) == (9, 10)  # 96 on 10
    assert work.flops_per_cta_max == 10 * 2 * 128 * 128 * UNEVEN.k


# ---- what counts see of a broken kernel, and what not ----


def mutated(name: str, folder: Path) -> tuple[Work, Work, Shape]:
    """Return the work of a mutant and of the right kernel, and their shape."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    path = folder / "mutant.py"
    path.write_text(mutant.source(), encoding="utf-8")
    shape = mutant.shape
    broken = load(path).get_kernel(shape.m, shape.n, shape.k, shape.sm_count)
    return walk(*lowered(broken, "sm_100a")), walk(*rung_at(mutant.kernel, shape)), shape


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("step7-last-k-dropped", ["its MMAs do 25,165,824 FLOP, 2 x M x N x K is 31,457,280"]),
        ("step8-stride-of-all-sms", ["its MMAs do", "it writes 262,144 B of D, which has 393,216"]),
    ],
)
def test_work_that_is_left_out_is_a_mismatch(name: str, words: list[str], tmp_path: Path) -> None:
    work, _, shape = mutated(name, tmp_path)
    found = mismatches(work, shape)
    assert len(found) == len(words)
    assert all(word in message for word, message in zip(words, found, strict=True))


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("step8-cta-mask-1", "barrier_arrivals"),
        ("step1-no-wait", "barrier_waits"),
        ("step1-accumulate-first", "accumulators"),
    ],
)
def test_other_faults_change_a_count_and_are_no_mismatch(
    name: str, field: str, tmp_path: Path
) -> None:
    work, right, shape = mutated(name, tmp_path)
    assert mismatches(work, shape) == ()
    assert getattr(work, field) < getattr(right, field)


def test_counts_know_no_coordinates(tmp_path: Path) -> None:
    work, right, shape = mutated("step7-swapped-coordinates", tmp_path)
    assert shape.m != shape.n
    assert work == right


# ---- Hopper ----


def test_wgmma_multicast_and_remote_arrivals(tmp_path: Path) -> None:
    work = walk_text(
        tmp_path,
        """
        rank, _ = T.cta_id_in_cluster([2, 1])
        T.cta_id([2])
        T.warpgroup_id([1])
        warp = T.warp_id_in_wg([4])
        lane = T.lane_id([32])
        pool = T.SMEMPool()
        full = TMABar(pool, 1)
        empty = MBarrier(pool, 1)
        pool.move_base_to(1024)
        A_smem = pool.alloc((64, 64), "float16")
        B_smem = pool.alloc((8, 64), "float16")
        full.init(1)
        empty.init(8)
        pool.commit()
        description: T.uint64
        description = T.uint64(0)
        acc = T.alloc_local((4,), "float32")
        T.cuda.cluster_sync()
        if warp == 0:
            if T.cuda.elect_sync():
                full.arrive(0, 9216)
                Tx.copy_async(A_smem[:, :], A[rank * 64 : rank * 64 + 64, 0:64],
                              dispatch="tma_auto", mbar=full.ptr_to([0]))
                if rank == 0:
                    Tx.copy_async(B_smem[:, :], B[0:8, 0:64], dispatch="tma_auto",
                                  mbar=full.ptr_to([0]), cta_mask=3)
        full.wait(0, 0)
        for ki in T.serial(4):
            T.ptx["wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"](
                acc[0], acc[1], acc[2], acc[3], description, description, ki > 0, 1, 1, 0, 0)
        if lane < 2:
            empty.arrive(0, remote=lane)
        T.ptx.setmaxnreg.dec.sync.aligned.u32(40)
        for i in T.serial(4):
            D[rank * 64 + warp * 16 + lane // 2, lane % 2 * 4 + i] = T.Cast("float16", acc[i])
        """,
        target="sm_90a",
        shapes=((128, 64), (8, 64), (128, 8)),
    )
    assert mismatches(work, Shape(128, 8, 64, 2)) == ()
    assert work.mma_instructions == 2 * 4
    assert (work.accumulators, work.accumulated_k) == (2, 2 * 64)
    assert work.tma_in_bytes == (128 + 8) * 64 * 2
    assert work.tma_delivered_bytes == (128 + 2 * 8) * 64 * 2
    assert (work.stored_bytes, work.tma_out_bytes) == (128 * 8 * 2, 0)
    assert work.barrier_waits == 2 * 128
    # expect_tx of both producers, then two lanes of four warps of two CTAs.
    assert work.barrier_arrivals == 2 + 2 * 4 * 2
    assert work.cluster_barriers == 2 * 4


# ---- small kernels: what is walked, and what is refused by name ----

HEAD = """
from tvm.backend.cuda.lang.pipeline import MBarrier, TMABar
from tvm.script import tirx as T
from tvm.script.tirx import tile as Tx


@T.prim_func
def kernel(A: T.Buffer({}, "float16"), B: T.Buffer({}, "float16"), D: T.Buffer({}, "float16")):
    T.device_entry()
"""


def walk_text(
    folder: Path,
    body: str,
    target: str = "sm_100a",
    shapes: tuple[tuple[int, int], ...] = ((64, 64),) * 3,
) -> Work:
    """Walk a kernel of this body, collapsed and not, and return its work."""
    path = folder / "kernel.py"
    text = HEAD.format(*shapes) + textwrap.indent(textwrap.dedent(body), "    ")
    path.write_text(text, encoding="utf-8")
    function, plan = lowered(load(path).kernel, target)
    work = walk(function, plan)
    assert work == walk(function, plan, collapse=False)
    return work


def test_loads_and_stores_of_all_threads_and_lanes(tmp_path: Path) -> None:
    work = walk_text(
        tmp_path,
        """
        cta = T.cta_id([3])
        T.warp_id([2])
        lane = T.lane_id([32])
        for i in T.serial(5):
            if lane < i + cta:
                D[i, lane] = A[i, lane] + B[cta, lane]
        """,
    )
    rounds = 2 * sum(i + cta for i in range(5) for cta in range(3))
    assert (work.loaded_bytes, work.stored_bytes) == (rounds * 2 * 2, rounds * 2)


def test_vectors_count_by_their_width(tmp_path: Path) -> None:
    work = walk_text(
        tmp_path,
        """
        T.cta_id([1])
        T.warp_id([1])
        lane = T.lane_id([32])
        for i in T.vectorized(2):
            D[0, lane * 2 + i] = A[0, lane * 2 + i]
        """,
    )
    assert (work.loaded_bytes, work.stored_bytes) == (32 * 4, 32 * 4)


def test_only_the_side_that_is_taken_is_loaded(tmp_path: Path) -> None:
    work = walk_text(
        tmp_path,
        """
        T.cta_id([1])
        T.warp_id([1])
        lane = T.lane_id([32])
        D[0, lane] = T.if_then_else(lane < 3, A[0, lane], T.float16(0))
        """,
    )
    assert (work.loaded_bytes, work.stored_bytes) == (3 * 2, 32 * 2)


def test_local_integers_steer_loops(tmp_path: Path) -> None:
    work = walk_text(
        tmp_path,
        """
        cta = T.cta_id([4])
        T.warp_id([1])
        lane = T.lane_id([32])
        count: T.int32
        count = cta
        while count < 10:
            if count % 2 == 0:
                T.cuda.cta_sync()
            count = count + 3
        D[0, lane] = T.Cast("float16", count)
        """,
    )
    assert work.cta_barriers == sum(i % 2 == 0 for cta in range(4) for i in range(cta, 10, 3))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "if A[0, 0] > T.float16(0):\n    D[0, lane] = A[0, lane]",
            "depends on floating-point numbers",
        ),
        (
            "count: T.int32\ncount = T.Cast('int32', A[0, lane])\nfor i in T.serial(count):\n"
            "    D[i, lane] = A[i, lane]",
            "depends on floating-point numbers",
        ),
        (
            "pool = T.SMEMPool()\nflag = pool.alloc((1,), 'int32')\npool.commit()\n"
            "if flag[0] > 0:\n    D[0, lane] = A[0, lane]",
            r"depends on memory: 'flag' \(shared.dyn\)",
        ),
        ("T.cuda.nano_sleep(T.uint64(20))", "the call 'tirx.cuda.nano_sleep' is not known"),
        ("T.ptx.cp.async_.wait_all()", "the instruction 'cp_async_wait_all' is not known"),
        ("if lane == 3:\n    T.cuda.cta_sync()", "by some threads of a warp and not by others"),
        ("if lane > 3:\n    if T.cuda.elect_sync():\n        D[0, 0] = A[0, 0]", "'elect.sync'"),
        (
            "count: T.int32\ncount = 0\nwhile count < 5:\n    count = count * 2\n"
            "    D[0, lane] = A[0, lane]",
            "goes on for more than",
        ),
        (
            "count: T.int32\nif count < 5:\n    D[0, lane] = A[0, lane]",
            "a local that is not set",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused_by_name(tmp_path: Path, body: str, words: str) -> None:
    head = "T.cta_id([1])\nT.warp_id([1])\nlane = T.lane_id([32])\n"
    with pytest.raises(UnwalkableError, match=words):
        walk_text(tmp_path, head + body)


def test_a_plan_of_another_launch_is_refused() -> None:
    function, plan = rung_at("step3", Shape(256, 128, 64, 1))
    _, other = rung_at("step3", Shape(384, 128, 64, 1))
    with pytest.raises(
        UnwalkableError, match=r"blockIdx.x runs to 2, but the plan says \(3, 1, 1\)"
    ):
        walk(function, other)
    assert walk(function, plan).ctas == 2


# ---- slicing and collapsing are exact, for any program ----

INTEGERS = st.integers(0, 3)
NAMES = ("a", "b")


def _value(source: str, *reads: str) -> Value:
    return Value(source, Axis.RUN, frozenset(reads))


@st.composite
def values(draw: st.DrawFn, loops: tuple[str, ...]) -> Value:
    names = draw(st.lists(st.sampled_from((*NAMES, *loops)), max_size=2))
    return _value(" + ".join([*names, str(draw(INTEGERS))]), *names)


@st.composite
def blocks(
    draw: st.DrawFn, program: Program, depth: int, loops: tuple[str, ...]
) -> list[Statement]:
    made: list[Statement] = []
    for kind in draw(st.lists(st.sampled_from("hhabr" if depth else "hha"), max_size=3)):
        if kind == "h":
            made.append(program.hit(Site("site", Unit.THREAD, {})))
        elif kind == "a":
            made.append(Assign(draw(st.sampled_from(NAMES)), None, draw(values(loops))))
        elif kind == "b":
            tested = draw(values(loops))
            condition = _value(f"({tested.source}) % 2 == 0", *tested.reads)
            then, other = (draw(blocks(program, depth - 1, loops)) for _ in range(2))
            made.append(Branch(condition, then, other))
        else:
            name = f"i{depth}"
            extent = draw(values(loops))
            body = draw(blocks(program, depth - 1, (*loops, name)))
            wrapped = _value(f"({extent.source}) % 4", *extent.reads)
            made.append(Repeat(name, _value("0"), wrapped, _value("1"), body))
    return made


def interpreted(body: list[Statement], state: dict[str, int], hits: list[int]) -> None:
    """Run every statement of a program, one by one."""

    def known(value: Value) -> int:
        return int(eval(value.source, {}, state))

    for statement in body:
        match statement:
            case Assign(target, _, value):
                state[target] = known(value)
            case Branch(condition, then, otherwise):
                interpreted(then if known(condition) else otherwise, state, hits)
            case Repeat(variable, _, extent, _, inner):
                for number in range(known(extent)):
                    state[variable] = number
                    interpreted(inner, state, hits)
            case _:
                hits[statement.site] += 1  # type: ignore[union-attr]


@given(st.data())
def test_slicing_and_collapsing_change_no_count(data: st.DataObject) -> None:
    program = Program()
    start: list[Statement] = [Assign(name, None, _value("0")) for name in NAMES]
    program.body = [*start, *data.draw(blocks(program, 3, ()))]
    hits = [0] * len(program.sites)
    interpreted(program.body, {}, hits)
    counters: list[Callable[..., tuple[int, ...]]] = [
        emit(program, collapse=collapse)[0] for collapse in (True, False)
    ]
    assert [counter() for counter in counters] == [tuple(hits)] * 2


# ---- what limits the ladder: the table of docs/executed-work.md ----


@pytest.mark.parametrize("rung", RUNGS)
def test_the_documented_rows_are_what_the_tool_says(rung: str, checkout: Path) -> None:
    text = (checkout / "docs" / "executed-work.md").read_text(encoding="utf-8")
    shape, declaration = shape_for(rung, FULL), declaration_of(rung)
    work = walk(*rung_at(rung, shape))
    limit = limiter(work, shape, declaration, "sm_100a")
    share = f"{limit.second_share:.2f}"
    assert f"| {declaration.name} | {limit.limiter} | {limit.second} | {share} |" in text
    counts = f"| {work.barrier_waits:,} | {work.barrier_arrivals:,} | {work.cta_barriers:,} |"
    start = f"| {declaration.name} | {work.ctas:,} | {work.mma_instructions:,} |"
    [row] = [line for line in text.splitlines() if line.startswith(start)]
    assert f"{counts} {work.cluster_barriers:,} | {work.named_barriers:,} |" in row
