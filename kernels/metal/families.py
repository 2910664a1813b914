"""The kernels of the Metal carrier, in TileLang: one template for each family, filled in from tables.

Every kernel reads and writes contiguous slots; `copy` is the one that walks a strided layout, and the carrier
runs it first where an operand has one (src/carriers/metal/kernels.cpp). Buffers and scalar arguments reach a
kernel in the alphabetical order of their names. A kernel that may leave Int32 sets `fault[0]`.

Bool slots are bytes; kernels that only move values see 4-byte slots as int32, so that no bit changes.
"""

import math

import tilelang.language as T

from sizes import ROW_THREADS, THREADS, TILE

FLOAT, INT, BOOL, LONG = "float32", "int32", "uint8", "int64"


def number(value):
    return T.float32(value)


def where(condition, on_true, on_false):
    return T.Select(condition, on_true, on_false)


def metal(name, *arguments):
    """A function of Metal's standard library that TileLang would write out in a less exact way."""
    return T.call_pure_extern(FLOAT, name, *arguments)


# --- What each elementwise operation does to one element ---------------------------------------------------


def polynomial(function, count, low, high):
    """Coefficients, from the constant on, of the polynomial that meets `function` at the Chebyshev nodes."""
    nodes = [
        (low + high) / 2 + (high - low) / 2 * math.cos(math.pi * (2 * i + 1) / (2 * count)) for i in range(count)
    ]
    differences = [function(node) for node in nodes]
    for order in range(1, count):
        for i in reversed(range(order, count)):
            differences[i] = (differences[i] - differences[i - 1]) / (nodes[i] - nodes[i - order])
    coefficients = [0.0] * count
    for node, difference in zip(reversed(nodes), reversed(differences), strict=True):
        for power in reversed(range(1, count)):
            coefficients[power] = coefficients[power - 1] - node * coefficients[power]
        coefficients[0] = difference - node * coefficients[0]
    return coefficients


def evaluate(coefficients, x):
    total = number(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + number(coefficient)
    return total


# erf(x)/x - 1 in x^2 up to |x| = 1; from there on erfc(x) e^(x^2) in 1/(1 + x/2), up to where erf is 1.
ERF_NEAR = polynomial(lambda square: math.erf(math.sqrt(square)) / math.sqrt(square) - 1, 7, 0, 1)
ERF_FAR = polynomial(lambda t: math.erfc(2 / t - 2) * math.exp((2 / t - 2) ** 2), 7, 1 / 3, 2 / 3)


def erf(x):
    size = T.abs(x)
    near = x + x * evaluate(ERF_NEAR, x * x)
    inside = where(size < number(4), size, number(4))
    far = number(1) - T.exp(-(inside * inside)) * evaluate(ERF_FAR, number(1) / (number(1) + inside * number(0.5)))
    saturated = where(size < number(4), far, number(1))
    beyond_one = where(x < number(0), number(-1) * saturated, saturated)
    return where(T.isnan(x), x, where(size < number(1), near, beyond_one))


def log1p(x):
    """For 0 <= x <= 1: the logarithm of the rounded sum, corrected by what the rounding took away."""
    total = number(1) + x
    return where(total == number(1), x, T.log(total) * (x / metal("orlop_minus_one", total)))


def expm1(x):
    """For x <= 0, by the same correction."""
    power = T.exp(x)
    below = metal("orlop_minus_one", power)
    near_one = where(power == number(1), x, below * (x / T.log(power)))
    return where(below == number(-1), number(-1), near_one)


def sigmoid(x):
    e = T.exp(-T.abs(x))
    return where(x >= number(0), number(1), e) / (number(1) + e)


def extremum(wins, bits_of_equal):
    """The IEEE extremum: of two zeros by the sign, and a NaN wherever there is one."""

    def element(a, b):
        equal = T.reinterpret(FLOAT, bits_of_equal(T.reinterpret(INT, a), T.reinterpret(INT, b)))
        return where(wins(a, b), a, where(wins(b, a), b, where(a == b, equal, a + b)))

    return element


maximum = extremum(lambda a, b: a > b, lambda a, b: a & b)
minimum = extremum(lambda a, b: a < b, lambda a, b: a | b)


def clamp(x, lower, upper):
    return minimum(maximum(x, lower), upper)


def long(value):
    return T.cast(value, LONG)


def product_of_int(a, b):
    """In 64 bits: a product that left Int32 for good stays beyond it, and only a zero brings it back."""
    lost = 2**31 + 1
    return T.min(T.max(a * b, T.int64(-lost)), T.int64(lost))


def rem_of_int(a, b):
    """Of the sign of a; a divisor 0 gives what no Int32 is, and so a fault."""
    return where(b == 0, T.int64(2**31), T.truncmod(a, where(b == 0, T.int64(1), b)))


def order_of_float(x, order_of_nan=2**31 - 1):
    """An Int32 that is ordered as the numbers are, by their bits: a device may take what is below 2^-126 for 0."""
    bits = T.reinterpret(INT, x)
    size = bits & T.int32(0x7FFFFFFF)
    ordered = where(bits < 0, T.int32(0) - size, bits)  # both zeros are 0
    return where(size > T.int32(0x7F800000), T.int32(order_of_nan), ordered)


UNARY_FLOAT = {
    "neg": lambda x: x * number(-1),  # 0 - x would lose the sign of zero
    "abs": lambda x: T.reinterpret(FLOAT, T.reinterpret(INT, x) & T.int32(0x7FFFFFFF)),
    "sign": lambda x: where(x > number(0), number(1), where(x < number(0), number(-1), where(T.isnan(x), x, number(0)))),
    "recip": lambda x: number(1) / x,
    "sqrt": T.sqrt,
    "rsqrt": lambda x: number(1) / T.sqrt(x),
    "exp": T.exp,
    "exp2": T.exp2,
    "log": T.log,
    "log2": T.log2,
    "sin": T.sin,
    "cos": T.cos,
    "erf": erf,
    "floor": T.floor,
    "ceil": T.ceil,
    "round": T.round,  # which MSL gets as rint: ties to even
    "sigmoid": sigmoid,
    "tanh": lambda x: metal("tanh", x),
    "gelu": lambda x: (number(0.5) * x) * (number(1) + erf(x * number(0.70710678))),
    "silu": lambda x: x * sigmoid(x),
    "softplus": lambda x: log1p(T.exp(-T.abs(x))) + where(x < number(0), number(0), x),
    "elu": lambda x: where(x > number(0), x, where(x == number(0), x, expm1(x))),
    "leaky_relu": lambda x: where(x >= number(0), x, number(0.01) * x),
    "relu": lambda x: where(x <= number(0), number(0), x),
}
BINARY_FLOAT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "elementwise_mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: metal("pow", a, b),
    "maximum": maximum,
    "minimum": minimum,
    "rem": lambda a, b: metal("fmod", a, b),
}
TERNARY_FLOAT = {"clamp": clamp}

UNARY_INT = {
    "sign": lambda x: T.cast(x > 0, INT) - T.cast(x < 0, INT),
    "relu": lambda x: T.max(x, 0),
}
BINARY_INT = {"maximum": T.max, "minimum": T.min}
TERNARY_INT = {"clamp": lambda x, lower, upper: T.min(T.max(x, lower), upper)}
# These are exact in 64 bits; what does not fit Int32 is a fault.
CHECKED_UNARY = {"neg": lambda x: -x, "abs": lambda x: T.max(x, -x)}
CHECKED_BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "elementwise_mul": lambda a, b: a * b,
    "rem": rem_of_int,
}
COMPARISONS = {
    "eq": (lambda a, b: a == b, (FLOAT, INT, BOOL)),
    "ne": (lambda a, b: a != b, (FLOAT, INT, BOOL)),
    "lt": (lambda a, b: a < b, (FLOAT, INT)),
    "le": (lambda a, b: a <= b, (FLOAT, INT)),
}


# --- Templates ----------------------------------------------------------------------------------------------
# A step is 0 for an operand of one slot that is read everywhere, otherwise 1.


def threads_for(count):
    """Threadgroups with one thread for each of `count`."""
    return T.Kernel(T.ceildiv(count, THREADS), threads=THREADS)


def ordinal(block):
    return block * THREADS + T.get_thread_binding()


@T.macro
def store(out, i, exact, fault):
    """Keeps a number of 64 bits as Int32, and says where it is none."""
    out[i] = T.cast(exact, INT)
    if long(T.cast(exact, INT)) != exact:
        fault[0] = 1


def unary(element, source, target):
    n, slots = T.dynamic("n"), T.dynamic("slots")

    @T.prim_func
    def kernel(a: T.Tensor((slots,), source), out: T.Tensor((n,), target), step_a: T.int32):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                out[i] = T.cast(element(a[i * step_a]), target)

    return kernel


def binary(element, source, target):
    n, slots_a, slots_b = T.dynamic("n"), T.dynamic("slots_a"), T.dynamic("slots_b")

    @T.prim_func
    def kernel(
        a: T.Tensor((slots_a,), source),
        b: T.Tensor((slots_b,), source),
        out: T.Tensor((n,), target),
        step_a: T.int32,
        step_b: T.int32,
    ):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                out[i] = T.cast(element(a[i * step_a], b[i * step_b]), target)

    return kernel


def ternary(element, first, others):
    n, slots_a, slots_b, slots_c = (T.dynamic(name) for name in ("n", "slots_a", "slots_b", "slots_c"))

    @T.prim_func
    def kernel(
        a: T.Tensor((slots_a,), first),
        b: T.Tensor((slots_b,), others),
        c: T.Tensor((slots_c,), others),
        out: T.Tensor((n,), others),
        step_a: T.int32,
        step_b: T.int32,
        step_c: T.int32,
    ):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                out[i] = element(a[i * step_a], b[i * step_b], c[i * step_c])

    return kernel


def checked_unary(element):
    n, slots = T.dynamic("n"), T.dynamic("slots")

    @T.prim_func
    def kernel(
        a: T.Tensor((slots,), INT), fault: T.Tensor((1,), INT), out: T.Tensor((n,), INT), step_a: T.int32
    ):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                store(out, i, element(long(a[i * step_a])), fault)

    return kernel


def checked_binary(element):
    n, slots_a, slots_b = T.dynamic("n"), T.dynamic("slots_a"), T.dynamic("slots_b")

    @T.prim_func
    def kernel(
        a: T.Tensor((slots_a,), INT),
        b: T.Tensor((slots_b,), INT),
        fault: T.Tensor((1,), INT),
        out: T.Tensor((n,), INT),
        step_a: T.int32,
        step_b: T.int32,
    ):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                store(out, i, element(long(a[i * step_a]), long(b[i * step_b])), fault)

    return kernel


def power_of_int():
    """By squaring; exponents are not negative."""
    n, slots_a, slots_b = T.dynamic("n"), T.dynamic("slots_a"), T.dynamic("slots_b")

    @T.prim_func
    def kernel(
        a: T.Tensor((slots_a,), INT),
        b: T.Tensor((slots_b,), INT),
        fault: T.Tensor((1,), INT),
        out: T.Tensor((n,), INT),
        step_a: T.int32,
        step_b: T.int32,
    ):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                power = T.alloc_local((1,), LONG)
                square = T.alloc_local((1,), LONG)
                power[0] = T.int64(1)
                square[0] = long(a[i * step_a])
                for bit in T.serial(31):
                    if T.bitwise_and(T.shift_right(b[i * step_b], bit), 1) != 0:
                        power[0] = product_of_int(power[0], square[0])
                    square[0] = product_of_int(square[0], square[0])
                store(out, i, power[0], fault)

    return kernel


def copy(source, target):
    """out[i] is the slot of ordinal i of a layout: `layout` holds its extents, then its strides."""
    n, slots, numbers = T.dynamic("n"), T.dynamic("slots"), T.dynamic("numbers")

    @T.prim_func
    def kernel(
        a: T.Tensor((slots,), source),
        layout: T.Tensor((numbers,), INT),
        out: T.Tensor((n,), target),
        rank: T.int32,
    ):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                rest = T.alloc_local((1,), INT)
                at = T.alloc_local((1,), INT)
                rest[0] = i
                at[0] = 0
                for mode in T.serial(rank):
                    at[0] = at[0] + T.truncmod(rest[0], layout[mode]) * layout[rank + mode]
                    rest[0] = T.truncdiv(rest[0], layout[mode])
                out[i] = T.cast(a[at[0]], target)

    return kernel


# Reductions of `rows` rows of `count` neighbouring elements each: a row has a threadgroup, or one thread if it is short
# or its elements must be taken in order.


def same(value, *_):
    return value


def groups_for(rows, is_alone):
    return threads_for(rows) if is_alone else T.Kernel(rows, threads=ROW_THREADS)


@T.macro
def reduce_together(a, row, count, held, start, combine, load, result):
    """A thread takes each ROW_THREADS-th element, then pairs of threads combine."""
    thread = T.get_thread_binding()
    partial = T.alloc_shared((ROW_THREADS,), held)
    result[0] = start
    for j in T.serial(T.truncdiv(count - thread + (ROW_THREADS - 1), ROW_THREADS)):
        result[0] = combine(result[0], load(a[row * count + j * ROW_THREADS + thread], j * ROW_THREADS + thread))
    partial[thread] = result[0]
    T.sync_threads()
    for level in T.serial(ROW_THREADS.bit_length() - 1):
        if thread < (ROW_THREADS // 2 >> level):
            partial[thread] = combine(partial[thread], partial[thread + (ROW_THREADS // 2 >> level)])
        T.sync_threads()
    result[0] = partial[0]


@T.macro
def reduce_rows(a, fault, out, block, rows, count, held, start, combine, load, finish, is_alone):
    row = ordinal(block) if is_alone else block
    result = T.alloc_local((1,), held)
    if is_alone:
        if row < rows:
            result[0] = start
            for j in T.serial(count):
                result[0] = combine(result[0], load(a[row * count + j], j))
    else:
        reduce_together(a, row, count, held, start, combine, load, result)
    if (row < rows) if is_alone else (T.get_thread_binding() == 0):
        if fault is None:
            out[row] = T.cast(finish(result[0]), out.dtype)
        else:
            store(out, row, result[0], fault)


def row_reduction(dtype, start, combine, is_alone, *, held=None, target=None, load=same, finish=same):
    """`load` makes of an element and its position what is combined, in `held`; `finish` the result of it."""
    rows, total = T.dynamic("rows"), T.dynamic("total")
    held, target = held or dtype, target or dtype

    @T.prim_func
    def kernel(a: T.Tensor((total,), dtype), out: T.Tensor((rows,), target), count: T.int32):
        with groups_for(rows, is_alone) as block:
            reduce_rows(a, None, out, block, rows, count, held, start, combine, load, finish, is_alone)

    return kernel


def checked_row_reduction(start, combine, is_alone):
    """Exact: 64 bits hold the sum of every row there is, and what is kept of a product."""
    rows, total = T.dynamic("rows"), T.dynamic("total")

    @T.prim_func
    def kernel(
        a: T.Tensor((total,), INT), fault: T.Tensor((1,), INT), out: T.Tensor((rows,), INT), count: T.int32
    ):
        with groups_for(rows, is_alone) as block:
            reduce_rows(a, fault, out, block, rows, count, LONG, start, combine, lambda x, at: long(x), same, is_alone)

    return kernel


def row_position(dtype, is_greatest, is_alone):
    """The position of the first extremum of each row, or of its first NaN: the least of order and position."""

    def load(x, at):
        # A NaN comes first either way; -2^31 itself would be a literal of 64 bits.
        order = order_of_float(x, 2**31 - 1 if is_greatest else 1 - 2**31) if dtype == FLOAT else x
        if is_greatest:
            order = order ^ T.int32(-1)
        return T.bitwise_or(T.shift_left(long(order), T.int64(32)), long(at))

    return row_reduction(
        dtype, T.int64(2**63 - 1), T.min, is_alone, held=LONG, target=INT, load=load,
        finish=lambda least: T.bitwise_and(least, T.int64(0x7FFFFFFF)),
    )


def scan_of_int():
    """The sums of the first elements of each row, in 64 bits; one thread for each row."""
    rows, total = T.dynamic("rows"), T.dynamic("total")

    @T.prim_func
    def kernel(
        a: T.Tensor((total,), INT), fault: T.Tensor((1,), INT), out: T.Tensor((total,), INT),
        count: T.int32, rows: T.int32,
    ):
        with threads_for(rows) as block:
            row = ordinal(block)
            if row < rows:
                prefix = T.alloc_local((1,), LONG)
                prefix[0] = T.int64(0)
                for j in T.serial(count):
                    prefix[0] = prefix[0] + long(a[row * count + j])
                    store(out, row * count + j, prefix[0], fault)

    return kernel


def scan_of_products():
    """The products of the first elements of each row, or of the last, with the element itself or without."""
    rows, total = T.dynamic("rows"), T.dynamic("total")

    @T.prim_func
    def kernel(
        a: T.Tensor((total,), FLOAT), out: T.Tensor((total,), FLOAT),
        backward: T.int32, count: T.int32, exclusive: T.int32, rows: T.int32,
    ):
        with threads_for(rows) as block:
            row = ordinal(block)
            if row < rows:
                product = T.alloc_local((2,), FLOAT)
                product[0] = number(1)
                for j in T.serial(count):
                    at = row * count + where(backward != 0, count - 1 - j, j)
                    product[1] = product[0] * a[at]
                    out[at] = where(exclusive != 0, product[0], product[1])
                    product[0] = product[1]

    return kernel


# Products of matrices: out[n, m] is the sum over k of a[n, k] b[m, k], first mode fastest, in tiles of threadgroup
# memory. From k to k + 1 it is `pitch_a` and `pitch_b` slots. In the result, number n counts from `first`; `inner` of
# them are neighbours, and the next begin `pitch_outer` further; from m to m + 1 it is `pitch_m`.


@T.macro
def multiply(
    a, b, fault, out, block_n, block_m, count_k, count_m, count_n, first, inner, pitch_a, pitch_b, pitch_m, pitch_outer
):
    dtype = INT if fault is not None else FLOAT
    thread = T.get_thread_binding()
    across = T.truncmod(thread, TILE)
    down = T.truncdiv(thread, TILE)
    tiles = T.alloc_shared((2 * TILE * TILE,), dtype)
    n = block_n * TILE + across
    m = block_m * TILE + down
    # Of integers the low and the high halves of the products are summed up apart, so that 64 bits hold both sums.
    total = T.alloc_local((2,), LONG) if fault is not None else T.alloc_local((1,), FLOAT)
    total[0] = T.cast(0, total.dtype)
    if fault is not None:
        total[1] = T.int64(0)
    for step in T.serial(T.truncdiv(count_k + (TILE - 1), TILE)):
        tiles[thread] = T.cast(0, dtype)
        tiles[TILE * TILE + thread] = T.cast(0, dtype)
        if n < count_n:
            if step * TILE + down < count_k:
                tiles[thread] = a[(step * TILE + down) * pitch_a + n]
        if block_m * TILE + across < count_m:
            if step * TILE + down < count_k:
                tiles[TILE * TILE + thread] = b[(step * TILE + down) * pitch_b + block_m * TILE + across]
        T.sync_threads()
        for k in T.serial(TILE):
            if step * TILE + k < count_k:
                x = tiles[k * TILE + across]
                y = tiles[TILE * TILE + k * TILE + down]
                if fault is not None:
                    total[0] = total[0] + T.bitwise_and(long(x) * long(y), T.int64(0xFFFFFFFF))
                    total[1] = total[1] + T.shift_right(long(x) * long(y), T.int64(32))
                else:
                    total[0] = total[0] + x * y
        T.sync_threads()
    if n < count_n:
        if m < count_m:
            at = T.truncmod(first + n, inner) + T.truncdiv(first + n, inner) * pitch_outer + m * pitch_m
            if fault is not None:
                total[1] = total[1] + T.shift_right(total[0], T.int64(32))  # what the low halves carry over
                total[0] = T.bitwise_and(total[0], T.int64(0xFFFFFFFF))
                # Beyond Int32 unless the high half is but a sign.
                negative = where(total[1] == T.int64(-1), total[0] - T.int64(2**32), T.int64(2**31))
                store(out, at, where(total[1] == T.int64(0), total[0], negative), fault)
            else:
                out[at] = total[0]


def matmul():
    slots_a, slots_b, slots_out = T.dynamic("slots_a"), T.dynamic("slots_b"), T.dynamic("slots_out")

    @T.prim_func
    def kernel(
        a: T.Tensor((slots_a,), FLOAT),
        b: T.Tensor((slots_b,), FLOAT),
        out: T.Tensor((slots_out,), FLOAT),
        count_k: T.int32,
        count_m: T.int32,
        count_n: T.int32,
        first: T.int32,
        inner: T.int32,
        pitch_a: T.int32,
        pitch_b: T.int32,
        pitch_m: T.int32,
        pitch_outer: T.int32,
    ):
        with T.Kernel(T.ceildiv(count_n, TILE), T.ceildiv(count_m, TILE), threads=TILE * TILE) as (block_n, block_m):
            multiply(
                a, b, None, out, block_n, block_m, count_k, count_m, count_n, first, inner, pitch_a, pitch_b, pitch_m,
                pitch_outer,
            )

    return kernel


def matmul_of_int():
    """Exact; a sum that Int32 does not hold is a fault."""
    slots_a, slots_b, slots_out = T.dynamic("slots_a"), T.dynamic("slots_b"), T.dynamic("slots_out")

    @T.prim_func
    def kernel(
        a: T.Tensor((slots_a,), INT),
        b: T.Tensor((slots_b,), INT),
        fault: T.Tensor((1,), INT),
        out: T.Tensor((slots_out,), INT),
        count_k: T.int32,
        count_m: T.int32,
        count_n: T.int32,
        first: T.int32,
        inner: T.int32,
        pitch_a: T.int32,
        pitch_b: T.int32,
        pitch_m: T.int32,
        pitch_outer: T.int32,
    ):
        with T.Kernel(T.ceildiv(count_n, TILE), T.ceildiv(count_m, TILE), threads=TILE * TILE) as (block_n, block_m):
            multiply(
                a, b, fault, out, block_n, block_m, count_k, count_m, count_n, first, inner, pitch_a, pitch_b, pitch_m,
                pitch_outer,
            )

    return kernel


# Convolutions. `geometry` holds, for each spatial mode, what a window of src/operation/convolution.hpp does: how many
# positions it has, its taps, the step of a position, that of a tap, the origin, the divisor, the source's extent.
WINDOW = 7


@T.macro
def find_source(geometry, modes, position, tap, stride, at):
    """Adds to at[0] where the source lies under `tap` of the window at `position`; -1 for a hole.

    `stride` is that of the first spatial mode, and all three are used up.
    """
    over = T.alloc_local((1,), INT)
    for mode in T.serial(modes):
        over[0] = (
            T.truncmod(position[0], geometry[mode * WINDOW]) * geometry[mode * WINDOW + 2]
            + T.truncmod(tap[0], geometry[mode * WINDOW + 1]) * geometry[mode * WINDOW + 3]
            + geometry[mode * WINDOW + 4]
        )
        position[0] = T.truncdiv(position[0], geometry[mode * WINDOW])
        tap[0] = T.truncdiv(tap[0], geometry[mode * WINDOW + 1])
        if over[0] < 0:
            at[0] = -1
        if T.truncmod(over[0], geometry[mode * WINDOW + 5]) != 0:
            at[0] = -1
        over[0] = T.truncdiv(over[0], geometry[mode * WINDOW + 5])
        if over[0] >= geometry[mode * WINDOW + 6]:
            at[0] = -1
        if at[0] >= 0:
            at[0] = at[0] + over[0] * stride[0]
        stride[0] = stride[0] * geometry[mode * WINDOW + 6]


def patches():
    """What each tap of a convolution lies over at each position; 0 in holes.

    A position counts (batch, spatial result positions), a tap (feature of the group, spatial kernel positions), first
    fastest, from `first_position` and `first_tap`; from one to the next it is `position_pitch` and `tap_pitch` slots
    of `out`. `a` is (batch, feature, spatial...) of all features; the group begins at feature `first`.
    """
    slots, numbers, n = T.dynamic("slots"), T.dynamic("numbers"), T.dynamic("n")

    @T.prim_func
    def kernel(
        a: T.Tensor((slots,), FLOAT),
        geometry: T.Tensor((numbers,), INT),
        out: T.Tensor((n,), FLOAT),
        batch: T.int32,
        features: T.int32,
        first: T.int32,
        first_position: T.int32,
        first_tap: T.int32,
        group: T.int32,
        modes: T.int32,
        position_pitch: T.int32,
        positions: T.int32,
        tap_pitch: T.int32,
        taps: T.int32,
    ):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                position = T.alloc_local((1,), INT)
                tap = T.alloc_local((1,), INT)
                at = T.alloc_local((1,), INT)
                stride = T.alloc_local((1,), INT)
                position[0] = first_position + T.truncmod(T.truncdiv(i, position_pitch), positions)
                tap[0] = first_tap + T.truncmod(T.truncdiv(i, tap_pitch), taps)
                at[0] = T.truncmod(position[0], batch) + (first + T.truncmod(tap[0], group)) * batch
                position[0] = T.truncdiv(position[0], batch)
                tap[0] = T.truncdiv(tap[0], group)
                stride[0] = batch * features
                find_source(geometry, modes, position, tap, stride, at)
                out[i] = number(0)
                if at[0] >= 0:
                    out[i] = a[at[0]]

    return kernel


def lhs_gradient():
    """One thread for each slot of the lhs, out features fastest, then taps; a hole contributes nothing.

    `a` is the cotangent (batch, out feature, result positions...), `b` the kernel (out, in, kernel positions...).
    """
    slots_a, slots_b, numbers, n = (T.dynamic(name) for name in ("slots_a", "slots_b", "numbers", "n"))

    @T.prim_func
    def kernel(
        a: T.Tensor((slots_a,), FLOAT),
        b: T.Tensor((slots_b,), FLOAT),
        geometry: T.Tensor((numbers,), INT),
        out: T.Tensor((n,), FLOAT),
        batch: T.int32,
        features: T.int32,
        group: T.int32,
        group_outs: T.int32,
        modes: T.int32,
        outs: T.int32,
        taps: T.int32,
    ):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                position = T.alloc_local((1,), INT)
                tap = T.alloc_local((1,), INT)
                at = T.alloc_local((1,), INT)
                stride = T.alloc_local((1,), INT)
                total = T.alloc_local((1,), FLOAT)
                feature = T.truncmod(T.truncdiv(i, batch), features)
                first = T.truncdiv(feature, group) * group_outs
                total[0] = number(0)
                for t in T.serial(taps):
                    position[0] = T.truncdiv(T.truncdiv(i, batch), features)
                    tap[0] = t
                    at[0] = T.truncmod(i, batch) + first * batch
                    stride[0] = batch * outs
                    find_source(geometry, modes, position, tap, stride, at)
                    if at[0] >= 0:
                        for o in T.serial(group_outs):
                            total[0] = total[0] + a[at[0] + o * batch] * b[
                                first + o + outs * (T.truncmod(feature, group) + group * t)
                            ]
                out[i] = total[0]

    return kernel


# Tables are (before, axis, after), items (before, index, after), first fastest.


def table_slot(i, index, axis, before, items):
    """Where the item number i lies in the table."""
    rest = T.truncdiv(i, before)
    return T.truncmod(i, before) + before * (index[T.truncmod(rest, items)] + axis * T.truncdiv(rest, items))


def gather(dtype):
    slots, indices, n = T.dynamic("slots"), T.dynamic("indices"), T.dynamic("n")

    @T.prim_func
    def kernel(
        a: T.Tensor((slots,), dtype),
        index: T.Tensor((indices,), INT),
        out: T.Tensor((n,), dtype),
        axis: T.int32,
        before: T.int32,
        items: T.int32,
    ):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                out[i] = a[table_slot(i, index, axis, before, items)]

    return kernel


def scatter(dtype):
    """Indices are distinct, so that every update has a slot of its own."""
    slots, indices, n = T.dynamic("slots"), T.dynamic("indices"), T.dynamic("n")

    @T.prim_func
    def kernel(
        a: T.Tensor((n,), dtype),
        index: T.Tensor((indices,), INT),
        out: T.Tensor((slots,), dtype),
        axis: T.int32,
        before: T.int32,
        items: T.int32,
        n: T.int32,
    ):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                out[table_slot(i, index, axis, before, items)] = a[i]

    return kernel


@T.macro
def add_items(a, index, sums, column, axis, before, items):
    """The updates of one (before, after), in the order of the indices."""
    inner = T.truncmod(column, before)
    outer = T.truncdiv(column, before)
    for item in T.serial(items):
        at = inner + before * (index[item] + axis * outer)
        sums[at] = sums[at] + T.cast(a[inner + before * (item + items * outer)], sums.dtype)


def scatter_add():
    """One thread for each (before, after); `out` holds the table already."""
    slots, indices, updates = T.dynamic("slots"), T.dynamic("indices"), T.dynamic("updates")

    @T.prim_func
    def kernel(
        a: T.Tensor((updates,), FLOAT),
        index: T.Tensor((indices,), INT),
        out: T.Tensor((slots,), FLOAT),
        axis: T.int32,
        before: T.int32,
        columns: T.int32,
        items: T.int32,
    ):
        with threads_for(columns) as block:
            column = ordinal(block)
            if column < columns:
                add_items(a, index, out, column, axis, before, items)

    return kernel


def scatter_add_of_int():
    """The same with sums of 64 bits, of which only what a slot ends as must be an Int32."""
    slots, indices, updates = T.dynamic("slots"), T.dynamic("indices"), T.dynamic("updates")

    @T.prim_func
    def kernel(
        a: T.Tensor((updates,), INT),
        fault: T.Tensor((1,), INT),
        index: T.Tensor((indices,), INT),
        out: T.Tensor((slots,), INT),
        sums: T.Tensor((slots,), LONG),
        axis: T.int32,
        before: T.int32,
        columns: T.int32,
        items: T.int32,
    ):
        with threads_for(columns) as block:
            column = ordinal(block)
            if column < columns:
                first = T.truncmod(column, before) + before * axis * T.truncdiv(column, before)
                for place in T.serial(axis):
                    sums[first + before * place] = long(out[first + before * place])
                add_items(a, index, sums, column, axis, before, items)
                for place in T.serial(axis):
                    store(out, first + before * place, sums[first + before * place], fault)

    return kernel


# A sort is bitonic over (key, position) pairs, padded to a power of two; equal keys keep their order by the
# position, so that it is stable. `flip` is -1 for descending orders, which turns every key around, else 0.


def sort_keys(dtype):
    n, slots = T.dynamic("n"), T.dynamic("slots")
    key_of = order_of_float if dtype == FLOAT else (lambda x: x)

    @T.prim_func
    def kernel(
        a: T.Tensor((slots,), dtype),
        key: T.Tensor((n,), INT),
        place: T.Tensor((n,), INT),
        count: T.int32,
        flip: T.int32,
        padded: T.int32,
    ):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                position = T.truncmod(i, padded)
                place[i] = position
                key[i] = T.int32(0x7FFFFFFF)
                if position < count:
                    key[i] = key_of(a[T.truncdiv(i, padded) * count + position]) ^ flip

    return kernel


def sort_step():
    """One exchange of the bitonic network: each pair `distance` apart, upwards where bit `size` is clear."""
    n = T.dynamic("n")

    @T.prim_func
    def kernel(
        key: T.Tensor((n,), INT), place: T.Tensor((n,), INT), distance: T.int32, padded: T.int32, size: T.int32
    ):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                position = T.truncmod(i, padded)
                if T.bitwise_and(position, distance) == 0:
                    other = i + distance
                    is_after = (key[i] > key[other]) | ((key[i] == key[other]) & (place[i] > place[other]))
                    upwards = T.bitwise_and(position, size) == 0
                    if is_after == upwards:
                        old_key = T.alloc_local((1,), INT)
                        old_place = T.alloc_local((1,), INT)
                        old_key[0] = key[i]
                        old_place[0] = place[i]
                        key[i] = key[other]
                        place[i] = place[other]
                        key[other] = old_key[0]
                        place[other] = old_place[0]

    return kernel


def sort_take(dtype):
    """The first `kept` of every row in order: the elements themselves."""
    n, slots, places = T.dynamic("n"), T.dynamic("slots"), T.dynamic("places")

    @T.prim_func
    def kernel(
        a: T.Tensor((slots,), dtype),
        out: T.Tensor((n,), dtype),
        place: T.Tensor((places,), INT),
        count: T.int32,
        kept: T.int32,
        padded: T.int32,
    ):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                row = T.truncdiv(i, kept)
                out[i] = a[row * count + place[row * padded + T.truncmod(i, kept)]]

    return kernel


def sort_places():
    """The first `kept` positions of every row."""
    n, places = T.dynamic("n"), T.dynamic("places")

    @T.prim_func
    def kernel(out: T.Tensor((n,), INT), place: T.Tensor((places,), INT), kept: T.int32, padded: T.int32):
        with threads_for(n) as block:
            i = ordinal(block)
            if i < n:
                out[i] = place[T.truncdiv(i, kept) * padded + T.truncmod(i, kept)]

    return kernel


LETTER = {FLOAT: "float", INT: "int", BOOL: "bool"}


def elementwise_kernels():
    for name, element in UNARY_FLOAT.items():
        yield f"{name}_float", unary(element, FLOAT, FLOAT)
    for name, element in BINARY_FLOAT.items():
        yield f"{name}_float", binary(element, FLOAT, FLOAT)
    for name, element in TERNARY_FLOAT.items():
        yield f"{name}_float", ternary(element, FLOAT, FLOAT)
    for name, element in UNARY_INT.items():
        yield f"{name}_int", unary(element, INT, INT)
    for name, element in BINARY_INT.items():
        yield f"{name}_int", binary(element, INT, INT)
    for name, element in TERNARY_INT.items():
        yield f"{name}_int", ternary(element, INT, INT)
    for name, element in CHECKED_UNARY.items():
        yield f"{name}_int", checked_unary(element)
    for name, element in CHECKED_BINARY.items():
        yield f"{name}_int", checked_binary(element)
    yield "pow_int", power_of_int()
    for name, (element, dtypes) in COMPARISONS.items():
        for dtype in dtypes:
            yield f"{name}_{LETTER[dtype]}", binary(element, dtype, BOOL)
    for dtype in (FLOAT, INT, BOOL):
        yield f"logical_not_{LETTER[dtype]}", unary(lambda x, zero=T.cast(0, dtype): x == zero, dtype, BOOL)
    for dtype in (INT, BOOL):
        yield f"select_{LETTER[dtype]}", ternary(lambda condition, x, y: where(condition != 0, x, y), BOOL, dtype)
    yield "copy_int", copy(INT, INT)
    yield "copy_bool", copy(BOOL, BOOL)
    yield "copy_int_to_float", copy(INT, FLOAT)


def reduction_kernels():
    lowest, highest = T.int32(-(2**31)), T.int32(2**31 - 1)
    for suffix, is_alone in (("", False), ("_short", True)):
        yield f"reduce_sum_float{suffix}", row_reduction(FLOAT, number(0), lambda a, b: a + b, is_alone)
        yield f"reduce_sum_int{suffix}", checked_row_reduction(T.int64(0), lambda a, b: a + b, is_alone)
        yield f"reduce_prod_int{suffix}", checked_row_reduction(T.int64(1), product_of_int, is_alone)
        yield f"reduce_max_float{suffix}", row_reduction(FLOAT, number(float("-inf")), maximum, is_alone)
        yield f"reduce_min_float{suffix}", row_reduction(FLOAT, number(float("inf")), minimum, is_alone)
        yield f"reduce_max_int{suffix}", row_reduction(INT, lowest, T.max, is_alone)
        yield f"reduce_min_int{suffix}", row_reduction(INT, highest, T.min, is_alone)
        for name, is_greatest in (("argmax", True), ("argmin", False)):
            for dtype in (FLOAT, INT):
                yield f"{name}_{LETTER[dtype]}{suffix}", row_position(dtype, is_greatest, is_alone)
    yield "reduce_prod_float", row_reduction(FLOAT, number(1), lambda a, b: a * b, True)  # the factors in order
    yield "cumsum_int", scan_of_int()
    yield "scan_products", scan_of_products()


def contraction_kernels():
    yield "matmul_float", matmul()
    yield "matmul_int", matmul_of_int()
    yield "conv_general_patches", patches()
    yield "conv_general_lhs_gradient", lhs_gradient()


def indexing_kernels():
    for dtype in (INT, BOOL):
        yield f"gather_{LETTER[dtype]}", gather(dtype)
        yield f"scatter_{LETTER[dtype]}", scatter(dtype)
    yield "scatter_add_float", scatter_add()
    yield "scatter_add_int", scatter_add_of_int()


def ordering_kernels():
    for dtype in (FLOAT, INT):
        yield f"sort_keys_{LETTER[dtype]}", sort_keys(dtype)
    yield "sort_step", sort_step()
    yield "sort_take", sort_take(INT)
    yield "sort_places", sort_places()


FAMILIES = {
    "elementwise": elementwise_kernels,
    "reduction": reduction_kernels,
    "contraction": contraction_kernels,
    "indexing": indexing_kernels,
    "ordering": ordering_kernels,
}
