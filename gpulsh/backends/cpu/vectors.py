"""Instructions of LLVM for kernels: `@lowered`, vectors of eight 64-bit words, memory at an address; and `mix64`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import reduce

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.core.base import BaseContext
from numba.core.codegen import get_host_cpu_features
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from gpulsh.backends import protocol
from gpulsh.backends.cpu.kernel import subroutine

Emit = Callable[..., ir.Value | list[ir.Value] | None]


def llvm(types: Signature) -> Callable[[Emit], Callable[..., object]]:
    """Make a function for kernels of `emit(builder, *arguments)`, which writes instructions and returns their value.

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


LANES = 8  # 64-bit words of a vector; as many may be read or written after the end


def width(features: str) -> int:
    """The bits of a register, by the features that LLVM compiles for; a longer vector takes several."""
    has = set(features.split(","))
    return 512 if "+avx512f" in has else 256 if "+avx2" in has else 128


# Numba keys the kernels that it keeps by these features, so none is loaded where the width would be another.
REGISTER = width(get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES)

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
WORDS = ir.VectorType(I64, LANES)
HALVES = ir.VectorType(I32, 2 * LANES)


def load(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type = WORDS) -> ir.Value:
    """The value at an address, aligned or not."""
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 1
    return value


def store(builder: ir.IRBuilder, value: ir.Value, address: ir.Value) -> None:
    """Store a value, a vector or one word, at an address, aligned or not."""
    builder.store(value, builder.inttoptr(address, value.type.as_pointer())).align = 1


def splat(number: int, kind: ir.VectorType = WORDS) -> ir.Constant:
    """A vector with the number in each lane."""
    return ir.Constant(kind, [number] * kind.count)


def broadcast(builder: ir.IRBuilder, value: ir.Value, kind: ir.VectorType = WORDS) -> ir.Value:
    """A vector with the value in each lane."""
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, one, splat(0, ir.VectorType(I32, kind.count)))


def sum_lanes(builder: ir.IRBuilder, vectors: Iterable[ir.Value]) -> ir.Value:
    """The sum over all lanes of all vectors."""
    add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(I64, [WORDS]), "llvm.vector.reduce.add.v8i64")
    return builder.call(add, [reduce(builder.add, vectors)])


class Products:
    """A running sum of products of 64-bit lanes.

    AVX2 has no 64-bit product: three 32-bit ones make it, with two shifts and two sums. So the products that only count
    in the upper half have a sum of their own, which is shifted once.
    """

    def __init__(self, builder: ir.IRBuilder, start: ir.Value) -> None:
        self._builder = builder
        self._total = cgutils.alloca_once_value(builder, start)
        self._upper = cgutils.alloca_once_value(builder, splat(0, HALVES)) if REGISTER == 256 else None

    def add(self, a: ir.Value, b: ir.Value) -> None:
        """Add a * b."""
        builder = self._builder
        if self._upper is not None:
            swapped = ir.Constant(HALVES, [lane ^ 1 for lane in range(HALVES.count)])
            one, two = (builder.bitcast(x, HALVES) for x in (a, b))
            cross = builder.mul(one, builder.shuffle_vector(two, two, swapped))
            builder.store(builder.add(builder.load(self._upper), cross), self._upper)
            a, b = (builder.and_(x, splat(0xFFFFFFFF)) for x in (a, b))
        builder.store(builder.add(builder.load(self._total), builder.mul(a, b)), self._total)

    def sum(self) -> ir.Value:
        """The sum so far."""
        builder, total = self._builder, self._builder.load(self._total)
        if self._upper is None:
            return total
        cross = builder.bitcast(builder.load(self._upper), WORDS)
        upper = builder.add(builder.shl(cross, splat(32)), builder.and_(cross, splat(0xFFFFFFFF00000000)))
        return builder.add(total, upper)


def mix64_lanes(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """mix64 of each lane."""
    for shift, factor in ((27, protocol.MIX_1), (33, protocol.MIX_2)):
        x = builder.mul(builder.xor(x, builder.lshr(x, splat(shift))), splat(factor))
    return builder.xor(x, builder.lshr(x, splat(27)))


@llvm(types.int64(types.uint64))
def lowest_bit(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """The place of the lowest bit that is set, 64 if there is none."""
    return builder.cttz(bits, ir.Constant(I1, 0))


@llvm(types.uint64(types.uint64))
def leading_zeros(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """How many bits above the highest set one are not set, 64 if none is set."""
    return builder.ctlz(bits, ir.Constant(I1, 0))


@llvm(types.int64(types.uint64))
def popcount(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """How many bits are set."""
    return builder.ctpop(bits)


@llvm(types.int64(types.int64))
def get_byte(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """The byte at an address."""
    return builder.zext(load(builder, address, I8), I64)


@llvm(types.uint64(types.int64))
def get_word(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    """The word at an address."""
    return load(builder, address, I64)


@llvm(types.void(types.int64, types.uint64))
def put_word(builder: ir.IRBuilder, address: ir.Value, value: ir.Value) -> None:
    """Store a word at an address; an index into an array would cost a look at its sign."""
    store(builder, value, address)


@llvm(types.void(types.int64))
def prefetch(builder: ir.IRBuilder, address: ir.Value) -> None:
    """Bring the memory at an address, valid or not, to the cache."""
    kind = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    place = builder.inttoptr(address, I8.as_pointer())
    builder.call(prefetch, [place, *(ir.Constant(I32, number) for number in (0, 3, 1))])


@llvm(types.void(types.int64, types.int64, types.int64))
def copy(builder: ir.IRBuilder, source: ir.Value, target: ir.Value, size: ir.Value) -> None:
    """Copy `size` bytes from an address to another."""
    places = (builder.inttoptr(address, I8.as_pointer()) for address in (target, source))
    cgutils.raw_memcpy(builder, *places, size, I64(1))


_MIX_1, _MIX_2 = np.uint64(protocol.MIX_1), np.uint64(protocol.MIX_2)
_S27, _S33 = np.uint64(27), np.uint64(33)


@subroutine
def mix64(x):
    """`mix64` of a uint64."""
    x = (x ^ x >> _S27) * _MIX_1
    x = (x ^ x >> _S33) * _MIX_2
    return x ^ x >> _S27
