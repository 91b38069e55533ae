"""`@lowered`: what kernels call and Python has no words for, written in the instructions of LLVM."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core.typing.templates import Signature
from numba.extending import intrinsic


def lowered(types: Signature) -> Callable[[Callable[..., ir.Value | list[ir.Value] | None]], Any]:
    """Makes of `emit(builder, *arguments)`, which writes instructions and gives their value, what kernels can call.

    A list of values is a tuple to the kernel, None is nothing.
    """

    def of(emit: Callable[..., ir.Value | list[ir.Value] | None]) -> Any:
        def typed(typing_context: Any, *arguments: Any) -> Any:
            return types, generate

        def generate(
            context: Any, builder: ir.IRBuilder, types: Signature, arguments: tuple[ir.Value, ...]
        ) -> ir.Value:
            value = emit(builder, *arguments)
            if isinstance(value, list):
                return context.make_tuple(builder, types.return_type, value)
            return context.get_dummy_value() if value is None else value

        typed.__name__ = emit.__name__
        typed.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]  # the builder where Numba has a context
        return intrinsic(typed)

    return of
