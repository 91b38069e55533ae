"""`@lowered`: what kernels call and Python has no words for, written in the instructions of LLVM."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from llvmlite import ir
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

Emit = Callable[..., ir.Value | list[ir.Value] | None]


def lowered(types: Signature) -> Callable[[Emit], Callable[..., object]]:
    """Make what kernels can call of `emit(builder, *arguments)`, which writes instructions and returns their value.

    A list of values is a tuple to the kernel, None is nothing.
    """

    def of(emit: Emit) -> Callable[..., object]:
        def typed(typing_context: object, *arguments: object) -> tuple[Signature, Callable[..., ir.Value]]:
            return types, generate

        def generate(
            context: BaseContext, builder: ir.IRBuilder, types: Signature, arguments: tuple[ir.Value, ...]
        ) -> ir.Value:
            value = emit(builder, *arguments)
            if isinstance(value, list):
                return context.make_tuple(builder, types.return_type, value)
            return context.get_dummy_value() if value is None else value

        typed.__name__ = emit.__name__
        typed.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]  # the builder where Numba has a context
        made: Callable[..., object] = intrinsic(typed)
        return made

    return of
