"""Load a kernel's source and build its PrimFunc, in the worker: this runs foreign code.

Every way in which that can go wrong ends as a `JobError` that names the line.
"""

import hashlib
import importlib
import importlib.util
import inspect
import linecache
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rungwatch.backends.job import Failure, KernelSource, Stage
from rungwatch.declare.problem import Shape
from rungwatch.load.failures import JobError, describe
from rungwatch.load.outside import OutsideWatch
from rungwatch.trusted.buffers import extents

# The names that make a module one of the tirx-kernels protocol.
_FOREIGN_PROTOCOL = ("KERNEL_META", "CONFIGS", "get_kernel")
_OWN_PROTOCOL = "PROTOCOL"
_DTYPE = "fp16"


@dataclass(frozen=True)
class Kernel:
    """A built kernel: its PrimFunc, and the names of its buffers in the order A, B, D."""

    func: Any
    buffers: tuple[str, str, str]
    self_contained: bool


def build_kernel(source: KernelSource, shape: Shape, enter: Callable[[Stage], None]) -> Kernel:
    """Load `source` and build it for `shape`, calling `enter` before each of the two stages.

    Raises:
        JobError: the file or its factory failed, or what it gave is not a GEMM's PrimFunc.
    """
    import tvm  # noqa: F401  # before the watch: what the toolchain itself reads is in the key

    watch = OutsideWatch(Path(source.path)) if source.path is not None else None
    if watch is not None:
        watch.start()
    try:
        func = _load_and_build(source, shape, enter)
    finally:
        if watch is not None:
            watch.stop()
    self_contained = watch is not None and watch.touched is None
    return Kernel(func, _buffer_names(func, shape), self_contained)


def _load_and_build(source: KernelSource, shape: Shape, enter: Callable[[Stage], None]) -> object:
    enter(Stage.LOAD)
    module = _guarded(Failure.KERNEL_LOAD, Stage.LOAD, source, lambda: _load(source))
    factory = _factory(module, source)
    enter(Stage.BUILD)
    return _guarded(Failure.KERNEL_BUILD, Stage.BUILD, source, lambda: factory(shape))


def _guarded[T](failure: Failure, stage: Stage, source: KernelSource, run: Callable[[], T]) -> T:
    """Call foreign code; also SystemExit and KeyboardInterrupt are its failures, not ours."""
    try:
        return run()
    except JobError:
        raise
    except BaseException as error:
        missing = _missing_package(error, source)
        if missing is not None:
            message = f"the kernel imports '{missing}', which is not installed"
            raise JobError(Failure.MISSING_DEPENDENCY, stage, message) from error
        raise JobError(failure, stage, describe(error, _file_of(source))) from error


def _load(source: KernelSource) -> ModuleType:
    if source.module is not None:
        return importlib.import_module(source.module)
    if source.path is None:
        raise ValueError("a kernel source needs a path or a module")
    path = Path(source.path)
    data = path.read_bytes()
    if source.sha256 is not None and hashlib.sha256(data).hexdigest() != source.sha256:
        raise JobError(Failure.KERNEL_LOAD, Stage.LOAD, f"{path.name} changed during the run")
    # A name of its own: another `kernels` package may be installed, and base and head of one
    # file must never be taken for each other.
    module = ModuleType(
        f"_rungwatch_kernel_{hashlib.sha256(source.path.encode()).hexdigest()[:12]}"
    )
    module.__file__ = source.path
    sys.modules[module.__name__] = module  # dataclasses and TVMScript look a module up there
    # TVMScript reads a function's source again, by its file's name: give it these bytes, the
    # ones that were hashed, whatever becomes of the file. No .pyc takes part either.
    text = importlib.util.decode_source(data)
    linecache.cache[source.path] = (len(text), None, text.splitlines(keepends=True), source.path)
    exec(compile(data, source.path, "exec"), module.__dict__)
    return module


def _factory(module: ModuleType, source: KernelSource) -> Callable[[Shape], Any]:
    """Return a function of the shape that calls the kernel's factory as its protocol says."""
    function = getattr(module, source.factory, None)
    if not callable(function):
        raise JobError(Failure.PROTOCOL, Stage.LOAD, f"there is no function '{source.factory}'")
    foreign = all(hasattr(module, name) for name in _FOREIGN_PROTOCOL)
    if foreign and not hasattr(module, _OWN_PROTOCOL) and source.factory == "get_kernel":
        return lambda shape: function(**_config(module, function, shape))
    signature = _signature(function)
    if "sm_count" in signature.parameters:
        return lambda shape: function(shape.m, shape.n, shape.k, sm_count=shape.sm_count)
    if _takes(signature, 3):
        return lambda shape: function(shape.m, shape.n, shape.k)
    if _takes(signature, 4):
        return lambda shape: function(shape.m, shape.n, shape.k, shape.sm_count)
    message = f"{source.factory}{signature} does not take (M, N, K) or (M, N, K, sm_count)"
    raise JobError(Failure.PROTOCOL, Stage.LOAD, message)


def _config(module: ModuleType, function: Callable[..., Any], shape: Shape) -> Mapping[str, object]:
    """Return the keywords for a tirx-kernels factory: its own entry for the shape, or bare."""
    wanted: dict[str, object] = {"dtype": _DTYPE, "M": shape.m, "N": shape.n, "K": shape.k}
    for config in module.CONFIGS:
        if all(config.get(name, _DTYPE) == value for name, value in wanted.items()):
            return {name: value for name, value in config.items() if name != "label"}
    parameters = _signature(function).parameters
    if all(name in parameters for name in ("M", "N", "K")):
        return {name: value for name, value in wanted.items() if name in parameters}
    message = f"CONFIGS has no {_DTYPE} entry for {shape.m}x{shape.n}x{shape.k}"
    raise JobError(Failure.PROTOCOL, Stage.BUILD, message)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        message = "the factory does not say which parameters it takes"
        raise JobError(Failure.PROTOCOL, Stage.LOAD, message) from None


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _buffer_names(func: object, shape: Shape) -> tuple[str, str, str]:
    """Check that `func` is a PrimFunc of A (M, K), B (N, K), D (M, N) in fp16; return the names."""
    from tvm import tirx

    def refuse(message: str) -> JobError:
        return JobError(Failure.PROTOCOL, Stage.BUILD, message)

    if not isinstance(func, tirx.PrimFunc):
        raise refuse(f"the factory gave a {type(func).__name__}, not one PrimFunc")
    params = list(func.params)
    if len(params) != 3 or not all(map(tirx.is_buffer_var, params)):
        names = ", ".join(str(param.name) for param in params)
        raise refuse(f"the kernel takes ({names}), not the three buffers A, B and D")
    for param, (name, extent) in zip(params, extents(shape).items(), strict=True):
        found = tuple(map(_constant, param.shape))
        if found != extent or str(param.dtype) != "float16":
            raise refuse(
                f"buffer '{param.name}' is {param.dtype} {_show(found)},"
                f" {name} must be float16 {_show(extent)}"
            )
    a, b, d = (str(param.name) for param in params)
    return a, b, d


def _constant(extent: Any) -> int | str:
    value = getattr(extent, "value", extent)
    return int(value) if isinstance(value, int) else str(extent)


def _show(extent: tuple[int | str, ...]) -> str:
    return f"({', '.join(map(str, extent))})"


def _missing_package(error: BaseException, source: KernelSource) -> str | None:
    """Return the package that an import did not find, unless it is the kernel's own fault."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return None
    package = error.name.partition(".")[0]
    own = source.module is not None and source.module.partition(".")[0] == package
    neighbour = source.path is not None and any(
        Path(source.path).with_name(name).exists() for name in (package, f"{package}.py")
    )
    if (own and error.name != package) or neighbour or package in sys.stdlib_module_names:
        return None
    # Found, but without the submodule that was asked for: a wrong version, not an absence.
    return None if importlib.util.find_spec(package) is not None else package


def _file_of(source: KernelSource) -> str | None:
    if source.path is not None:
        return source.path
    module = sys.modules.get(source.module or "")
    if module is not None:
        return getattr(module, "__file__", None)
    try:
        spec = importlib.util.find_spec(source.module or "")
    except BaseException:  # finding a submodule imports its package: foreign code again
        return None
    return spec.origin if spec is not None else None
