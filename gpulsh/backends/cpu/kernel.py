"""`@kernel`: a function compiled when it is first called, without the GIL, and kept for the processes that follow."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import llvmlite
from llvmlite.binding import parse_assembly
from numba import config, njit
from numba.core import event
from numba.core.base import BaseContext
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, InTreeCacheLocator
from numba.core.codegen import CodeLibrary
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import nrtdynmod, rtsys

from gpulsh.backends.compiling import COMPILING
from gpulsh.backends.kernel_cache import kernel_cache, sources_digest
from gpulsh.errors import BackendError
from gpulsh.memory_limit import check_room

if config.DISABLE_JIT:
    raise BackendError("NUMBA_DISABLE_JIT is set, and gpulsh's kernels need Numba's compiler; unset it")

_log = logging.getLogger("gpulsh")
# With less memory, LLVM ends the process, and OpenBLAS, which the compiler loads if SciPy is there, never ends.
LOADED_BYTES, COMPILER_BYTES = 16 << 20, 64 << 20
_kernels: set[int] = set()  # by identity; they live as long as the process

# For functions that only kernels call: no wrappers for Python and C, which would take as long to compile. `inlined`
# functions are inserted into each caller before types are inferred, and compiled there.
subroutine = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy")
inlined = njit(inline="always")


def kernel(function: Callable[..., object], nogil: bool = True) -> Callable[..., Any]:
    """The function, compiled at its first call with given types; `nogil=False` if it uses Python's objects."""
    dispatcher = njit(nogil=nogil, no_cfunc_wrapper=True, error_model="numpy")(function)
    if kernel_cache().folder is not None:
        try:
            dispatcher._cache = _Cache(function)
        except (RuntimeError, OSError):  # the source is in no file
            _warn("kernels are compiled in each run, as the package is in an archive; unpack it")
    _kernels.add(id(dispatcher))
    compiled: Callable[..., Any] = dispatcher
    return compiled


class _Locator(InTreeCacheLocator):  # type: ignore[misc]
    """The folder of `kernel_cache`, for the current sources.

    Numba's own locator looks only at the kernel's file, and not at the files of functions that it calls.
    """

    def get_cache_path(self) -> str:
        return str(kernel_cache().folder)

    def ensure_cache_path(self) -> None:
        return None

    def get_source_stamp(self) -> bytes:
        return sources_digest()


class _Impl(CompileResultCacheImpl):  # type: ignore[misc]
    """Keeps no code for other kernels to be compiled with: no kernel calls another, and reading it would take half the
    time of loading one.
    """

    _locator_classes = (_Locator,)

    def reduce(self, compiled: CompileResult) -> tuple[object, ...]:
        (name, kind, (code, _)), *rest = super().reduce(compiled)
        nothing = parse_assembly(str(compiled.codegen._create_empty_module(name)))
        return (name, kind, (code, nothing.as_bitcode())), *rest

    def rebuild(self, context: BaseContext, kept: tuple[Any, ...]) -> CompileResult:
        _, described, *_ = kept
        context.codegen()._engine._defined_symbols.add(described.llvm_cpython_wrapper_name)
        return super().rebuild(context, kept)


class _Cache(FunctionCache):  # type: ignore[misc]
    """Cache failures fall back to compiling and never abort a run."""

    _impl_class = _Impl

    def load_overload(self, sig: object, target_context: object) -> object:
        # Numba's own first prepares the compiler, which takes longer than to load all kernels. A loaded kernel needs
        # only the runtime, and a compiled one prepares the compiler again.
        check_room("load a kernel", LOADED_BYTES)
        found = None
        try:
            _initialize_runtime(target_context, self.cache_path)
            found = self._load_overload(sig, target_context)
        except Exception as error:  # anything that unpickling a damaged file raises
            reason = f"{type(error).__name__}: {error}"
            _warn(f"{self.cache_path}: holds a damaged kernel, which is compiled again: {reason}")
            with suppress(OSError):  # `save_overload` reports it
                self.flush()
        if found is None:
            check_room("compile a kernel", COMPILER_BYTES)
        return found

    def save_overload(self, sig: object, data: object) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn(f"{self.cache_path}: cannot keep compiled kernels: {error.strerror or error}")


@cache  # each once
def _warn(message: str) -> None:
    _log.warning("%s", message)


class _Listener(event.Listener):  # type: ignore[misc]
    """Reports only our kernels: they include the functions that they call."""

    def on_start(self, event: event.Event) -> None:
        if id(event.data["dispatcher"]) in _kernels:
            COMPILING.begin()

    def on_end(self, event: event.Event) -> None:
        if id(event.data["dispatcher"]) in _kernels:
            COMPILING.end()


event.register("numba:compile", _Listener())


def _initialize_runtime(context: BaseContext, folder: str) -> None:
    """Load Numba's runtime, which counts references to arrays, from `folder`, or compile it and keep it there.

    Numba compiles it in every process that has a kernel, and would load most of LLVM's compiler for it alone.
    """

    def kept_or_compiled(context: BaseContext) -> CodeLibrary:
        codegen = context.codegen()
        kept, key = IndexDataCacheFile(folder, "runtime", llvmlite.__version__), codegen.magic_tuple()
        try:
            if (state := kept.load(key)) is not None:
                return codegen.unserialize_library(state)
        except Exception:  # anything that unpickling a damaged file raises
            with suppress(OSError):
                kept.flush()
        module, library = nrtdynmod.create_nrt_module(context)
        library.enable_object_caching()
        library.add_ir_module(module)
        library.finalize()
        with suppress(Exception):  # the next kernels report why the folder cannot be used
            kept.save(key, library.serialize_using_object_code())
        return library

    with global_compiler_lock:
        compiled = nrtdynmod.compile_nrt_functions
        nrtdynmod.compile_nrt_functions = kept_or_compiled
        try:
            rtsys.initialize(context)
        finally:
            nrtdynmod.compile_nrt_functions = compiled
