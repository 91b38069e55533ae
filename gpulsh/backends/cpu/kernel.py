"""`@kernel`: a function compiled when it is first called, without the GIL, and kept for the processes that follow."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import llvmlite
from llvmlite.binding import parse_assembly
from numba import njit
from numba.core import event
from numba.core.base import BaseContext
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, InTreeCacheLocator
from numba.core.codegen import CodeLibrary
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import nrtdynmod, rtsys

from gpulsh.backends.compiling import COMPILING
from gpulsh.backends.kernel_cache import kernel_cache, sources_digest

_log = logging.getLogger("gpulsh")
_kernels: set[int] = set()  # by identity; they live as long as the process
_told: set[str] = set()

# What only kernels call: without the wrappers for Python and C, which would take as long to compile. `inlined` is put
# in each place where it is called before types are looked for, and compiled anew in each.
subroutine = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy")
inlined = njit(inline="always")


def kernel(function: Callable[..., object], nogil: bool = True) -> Callable[..., Any]:
    """The function, compiled for the types that it is called with; `nogil=False` where it asks Python's objects."""
    dispatcher = njit(nogil=nogil, no_cfunc_wrapper=True, error_model="numpy")(function)
    if kernel_cache().folder is not None:
        try:
            dispatcher._cache = _Cache(function)
        except (RuntimeError, OSError) as error:  # the source lies in no file of its own
            _tell(f"kernels are compiled in each run: {error}")
    _kernels.add(id(dispatcher))
    compiled: Callable[..., Any] = dispatcher
    return compiled


class _Locator(InTreeCacheLocator):  # type: ignore[misc]
    """In the folder that `kernel_cache` found, and made; for the sources as they are now.

    Numba's own looks only at the file that a kernel stands in, and not at those of what it calls.
    """

    def get_cache_path(self) -> str:
        return str(kernel_cache().folder)

    def ensure_cache_path(self) -> None:
        return None

    def get_source_stamp(self) -> bytes:
        return sources_digest()


class _Impl(CompileResultCacheImpl):  # type: ignore[misc]
    """Without the code that others would be compiled with: no kernel calls another, and to read it takes half the time
    of loading one.
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
    """What it cannot read is compiled, what it cannot keep is not kept, and neither ends a run."""

    _impl_class = _Impl

    def load_overload(self, sig: object, target_context: object) -> object:
        # Numba's own has the compiler know first what it can compile, which takes longer than to load all kernels, and
        # is done once more where one is compiled. Of that, a kernel that is loaded needs the memory of arrays alone.
        try:
            _initialize_runtime(target_context, self.cache_path)
            return self._load_overload(sig, target_context)
        except Exception as error:  # whatever unpickling raises of a file that a power cut left
            told = f"{type(error).__name__}: {error}"
            _tell(f"{self.cache_path}: holds a damaged kernel, which is compiled again: {told}")
            with suppress(OSError):  # told when it is to be kept
                self.flush()
            return None

    def save_overload(self, sig: object, data: object) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _tell(f"{self.cache_path}: cannot keep compiled kernels: {error.strerror or error}")


def _tell(message: str) -> None:
    if message not in _told:
        _told.add(message)
        _log.warning("%s", message)


class _Listener(event.Listener):  # type: ignore[misc]
    """Tells of kernels alone: the functions that they call are compiled within, and others' are not ours."""

    def on_start(self, event: event.Event) -> None:
        if id(event.data["dispatcher"]) in _kernels:
            COMPILING.begin()

    def on_end(self, event: event.Event) -> None:
        if id(event.data["dispatcher"]) in _kernels:
            COMPILING.end()


event.register("numba:compile", _Listener())


def _initialize_runtime(context: BaseContext, folder: str) -> None:
    """Have it ready for kernels that are loaded; it is compiled where it is not in `folder`, or damaged there."""

    def kept_or_compiled(context: BaseContext) -> CodeLibrary:
        codegen = context.codegen()
        kept, key = IndexDataCacheFile(folder, "runtime", llvmlite.__version__), codegen.magic_tuple()
        try:
            if (state := kept.load(key)) is not None:
                return codegen.unserialize_library(state)
        except Exception:  # whatever unpickling raises of a file that a power cut left
            with suppress(OSError):
                kept.flush()
        module, library = nrtdynmod.create_nrt_module(context)
        library.enable_object_caching()
        library.add_ir_module(module)
        library.finalize()
        with suppress(Exception):  # kernels, which are kept beside it, tell why it cannot be
            kept.save(key, library.serialize_using_object_code())
        return library

    with global_compiler_lock:
        compiled = nrtdynmod.compile_nrt_functions
        nrtdynmod.compile_nrt_functions = kept_or_compiled
        try:
            rtsys.initialize(context)
        finally:
            nrtdynmod.compile_nrt_functions = compiled
