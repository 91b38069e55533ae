"""Numba's runtime, which counts who holds the memory of an array, kept beside the kernels.

Numba compiles it in every process that has a kernel, though that compiles nothing else: it is what most of LLVM's
compiler would be read into memory for.
"""

from __future__ import annotations

from contextlib import suppress

import llvmlite
from numba.core.base import BaseContext
from numba.core.caching import IndexDataCacheFile
from numba.core.codegen import CodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime import nrtdynmod, rtsys

NAME = "runtime"


def initialize(context: BaseContext, folder: str) -> None:
    """Have it ready for kernels that are loaded; it is compiled where it is not in `folder`, or damaged there."""

    def kept_or_compiled(context: BaseContext) -> CodeLibrary:
        codegen = context.codegen()
        kept, key = IndexDataCacheFile(folder, NAME, llvmlite.__version__), codegen.magic_tuple()
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
