"""The kernels of the Metal carrier, in TileLang: one template for each family, filled in from tables.

Every kernel reads and writes contiguous slots; `copy` is the one that walks a strided layout, and the carrier
runs it first where an operand has one (src/carriers/metal/kernels.cpp). Buffers and scalar arguments reach a
kernel in the alphabetical order of their names. A kernel that may leave Int32 sets `fault[0]`.

Bool slots are bytes; kernels that only move values see 4-byte slots as int32, so that no bit changes.
"""

import math

import tilelang.language as T

THREADS = 256  # of one threadgroup of an elementwise kernel
TILE = 16  # of matmul, in both directions
ROW_THREADS = 128  # that share one row of a reduction

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
}
COMPARISONS = {
    "eq": (lambda a, b: a == b, (FLOAT, INT, BOOL)),
    "ne": (lambda a, b: a != b, (FLOAT, INT, BOOL)),
    "lt": (lambda a, b: a < b, (FLOAT, INT)),
    "le": (lambda a, b: a <= b, (FLOAT, INT)),
}


# --- Templates ----------------------------------------------------------------------------------------------
# A step is 0 for an operand of one slot that is read everywhere, otherwise 1.


def unary(element, source, target):
    n, slots = T.dynamic("n"), T.dynamic("slots")

    @T.prim_func
    def kernel(a: T.Tensor((slots,), source), out: T.Tensor((n,), target), step_a: T.int32):
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding()
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
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding()
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
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding()
            if i < n:
                out[i] = element(a[i * step_a], b[i * step_b], c[i * step_c])

    return kernel


def checked_unary(element):
    n, slots = T.dynamic("n"), T.dynamic("slots")

    @T.prim_func
    def kernel(
        a: T.Tensor((slots,), INT), fault: T.Tensor((1,), INT), out: T.Tensor((n,), INT), step_a: T.int32
    ):
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding()
            if i < n:
                exact = element(T.cast(a[i * step_a], LONG))
                out[i] = T.cast(exact, INT)
                if T.cast(T.cast(exact, INT), LONG) != exact:
                    fault[0] = 1

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
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding()
            if i < n:
                exact = element(T.cast(a[i * step_a], LONG), T.cast(b[i * step_b], LONG))
                out[i] = T.cast(exact, INT)
                if T.cast(T.cast(exact, INT), LONG) != exact:
                    fault[0] = 1

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
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding()
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


# Reductions of `rows` rows of `count` neighbouring elements each.


def row_reduction(dtype, start, combine):
    """A threadgroup for each row: every thread takes each 128th element, then pairs of threads add up."""
    rows, total = T.dynamic("rows"), T.dynamic("total")

    @T.prim_func
    def kernel(a: T.Tensor((total,), dtype), out: T.Tensor((rows,), dtype), count: T.int32):
        with T.Kernel(rows, threads=ROW_THREADS) as row:
            thread = T.get_thread_binding()
            partial = T.alloc_shared((ROW_THREADS,), dtype)
            sum_of_thread = T.alloc_local((1,), dtype)
            sum_of_thread[0] = start
            for j in T.serial(T.truncdiv(count - thread + (ROW_THREADS - 1), ROW_THREADS)):
                sum_of_thread[0] = combine(sum_of_thread[0], a[row * count + j * ROW_THREADS + thread])
            partial[thread] = sum_of_thread[0]
            T.sync_threads()
            for level in T.serial(7):
                if thread < (64 >> level):
                    partial[thread] = combine(partial[thread], partial[thread + (64 >> level)])
                T.sync_threads()
            if thread == 0:
                out[row] = partial[0]

    return kernel


def row_sum_of_int():
    """Exact: 64 bits hold the sum of every row there is; a sum that Int32 does not hold is a fault."""
    rows, total = T.dynamic("rows"), T.dynamic("total")

    @T.prim_func
    def kernel(
        a: T.Tensor((total,), INT), fault: T.Tensor((1,), INT), out: T.Tensor((rows,), INT), count: T.int32
    ):
        with T.Kernel(rows, threads=ROW_THREADS) as row:
            thread = T.get_thread_binding()
            partial = T.alloc_shared((ROW_THREADS,), LONG)
            sum_of_thread = T.alloc_local((1,), LONG)
            sum_of_thread[0] = T.int64(0)
            for j in T.serial(T.truncdiv(count - thread + (ROW_THREADS - 1), ROW_THREADS)):
                sum_of_thread[0] = sum_of_thread[0] + T.cast(a[row * count + j * ROW_THREADS + thread], LONG)
            partial[thread] = sum_of_thread[0]
            T.sync_threads()
            for level in T.serial(7):
                if thread < (64 >> level):
                    partial[thread] = partial[thread] + partial[thread + (64 >> level)]
                T.sync_threads()
            if thread == 0:
                out[row] = T.cast(partial[0], INT)
                if T.cast(T.cast(partial[0], INT), LONG) != partial[0]:
                    fault[0] = 1

    return kernel


def row_product():
    """One thread for each row: the specification wants the factors in order."""
    rows, total = T.dynamic("rows"), T.dynamic("total")

    @T.prim_func
    def kernel(a: T.Tensor((total,), FLOAT), out: T.Tensor((rows,), FLOAT), count: T.int32):
        with T.Kernel(T.ceildiv(rows, THREADS), threads=THREADS) as block:
            row = block * THREADS + T.get_thread_binding()
            if row < rows:
                product = T.alloc_local((1,), FLOAT)
                product[0] = number(1)
                for j in T.serial(count):
                    product[0] = product[0] * a[row * count + j]
                out[row] = product[0]

    return kernel


def row_position(dtype, precedes, is_nan):
    """The position of the first extremum of each row, or of its first NaN; a threadgroup for each row."""
    rows, total = T.dynamic("rows"), T.dynamic("total")

    def is_before(x, x_at, y, y_at):
        """Whether candidate x at x_at beats y at y_at; position -1 stands for none."""
        same = (T.Not(precedes(x, y)) & T.Not(precedes(y, x))) | (is_nan(x) & is_nan(y))
        better = where(is_nan(x) | is_nan(y), is_nan(x) & T.Not(is_nan(y)), precedes(x, y))
        nan_tie = is_nan(x) & is_nan(y)
        tie = where(is_nan(x) | is_nan(y), nan_tie, same)
        return (x_at >= 0) & ((y_at < 0) | better | (tie & (x_at < y_at)))

    @T.prim_func
    def kernel(a: T.Tensor((total,), dtype), out: T.Tensor((rows,), INT), count: T.int32):
        with T.Kernel(rows, threads=ROW_THREADS) as row:
            thread = T.get_thread_binding()
            best = T.alloc_shared((ROW_THREADS,), dtype)
            best_at = T.alloc_shared((ROW_THREADS,), INT)
            mine = T.alloc_local((1,), dtype)
            mine_at = T.alloc_local((1,), INT)
            mine[0] = T.cast(0, dtype)
            mine_at[0] = -1
            for j in T.serial(T.truncdiv(count - thread + (ROW_THREADS - 1), ROW_THREADS)):
                if is_before(a[row * count + j * ROW_THREADS + thread], j * ROW_THREADS + thread, mine[0], mine_at[0]):
                    mine[0] = a[row * count + j * ROW_THREADS + thread]
                    mine_at[0] = j * ROW_THREADS + thread
            best[thread] = mine[0]
            best_at[thread] = mine_at[0]
            T.sync_threads()
            for level in T.serial(7):
                if thread < (64 >> level):
                    if is_before(
                        best[thread + (64 >> level)],
                        best_at[thread + (64 >> level)],
                        best[thread],
                        best_at[thread],
                    ):
                        best[thread] = best[thread + (64 >> level)]
                        best_at[thread] = best_at[thread + (64 >> level)]
                T.sync_threads()
            if thread == 0:
                out[row] = best_at[0]

    return kernel


def scan_of_int():
    """The sums of the first elements of each row, in 64 bits; one thread for each row."""
    rows, total = T.dynamic("rows"), T.dynamic("total")

    @T.prim_func
    def kernel(
        a: T.Tensor((total,), INT), fault: T.Tensor((1,), INT), out: T.Tensor((total,), INT),
        count: T.int32, rows: T.int32,
    ):
        with T.Kernel(T.ceildiv(rows, THREADS), threads=THREADS) as block:
            row = block * THREADS + T.get_thread_binding()
            if row < rows:
                prefix = T.alloc_local((1,), LONG)
                prefix[0] = T.int64(0)
                for j in T.serial(count):
                    prefix[0] = prefix[0] + T.cast(a[row * count + j], LONG)
                    out[row * count + j] = T.cast(prefix[0], INT)
                    if T.cast(T.cast(prefix[0], INT), LONG) != prefix[0]:
                        fault[0] = 1

    return kernel


def matmul():
    """out[n, m] = sum over k of a[n, k] b[m, k], first mode fastest, in tiles of threadgroup memory.

    `offset_*` are where the matrices begin, so that one buffer may hold several.
    """
    slots_a, slots_b, slots_out = T.dynamic("slots_a"), T.dynamic("slots_b"), T.dynamic("slots_out")

    @T.prim_func
    def kernel(
        a: T.Tensor((slots_a,), FLOAT),
        b: T.Tensor((slots_b,), FLOAT),
        out: T.Tensor((slots_out,), FLOAT),
        count_k: T.int32,
        count_m: T.int32,
        count_n: T.int32,
    ):
        with T.Kernel(T.ceildiv(count_n, TILE), T.ceildiv(count_m, TILE), threads=TILE * TILE) as (block_n, block_m):
            thread = T.get_thread_binding()
            across = T.truncmod(thread, TILE)
            down = T.truncdiv(thread, TILE)
            tile_a = T.alloc_shared((TILE * TILE,), FLOAT)
            tile_b = T.alloc_shared((TILE * TILE,), FLOAT)
            total = T.alloc_local((1,), FLOAT)
            total[0] = number(0)
            n = block_n * TILE + across
            m = block_m * TILE + down
            for step in T.serial(T.truncdiv(count_k + (TILE - 1), TILE)):
                tile_a[thread] = number(0)
                tile_b[thread] = number(0)
                if n < count_n:
                    if step * TILE + down < count_k:
                        tile_a[thread] = a[(step * TILE + down) * count_n + n]
                if block_m * TILE + across < count_m:
                    if step * TILE + down < count_k:
                        tile_b[thread] = b[(step * TILE + down) * count_m + block_m * TILE + across]
                T.sync_threads()
                for k in T.serial(TILE):
                    if step * TILE + k < count_k:
                        total[0] = total[0] + tile_a[k * TILE + across] * tile_b[k * TILE + down]
                T.sync_threads()
            if n < count_n:
                if m < count_m:
                    out[m * count_n + n] = total[0]

    return kernel


def patches():
    """What each kernel position of a convolution lies over at each result position; 0 in holes.

    Element (position, tap) of `out`, position fastest: position counts (batch, spatial result positions), tap
    counts (feature of the group, spatial kernel positions), first fastest. `geometry` holds, for each spatial
    mode, the extents of lhs, kernel and result, stride, low padding, lhs dilation and kernel dilation. `a` is
    (batch, feature, spatial...) of all features; the group begins at feature `first`.
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
        group: T.int32,
        modes: T.int32,
        positions: T.int32,
    ):
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding()
            if i < n:
                position = T.alloc_local((1,), INT)
                tap = T.alloc_local((1,), INT)
                at = T.alloc_local((1,), INT)
                width = T.alloc_local((1,), INT)
                over = T.alloc_local((1,), INT)
                position[0] = T.truncmod(i, positions)
                tap[0] = T.truncdiv(i, positions)
                at[0] = T.truncmod(position[0], batch) + (first + T.truncmod(tap[0], group)) * batch
                position[0] = T.truncdiv(position[0], batch)
                tap[0] = T.truncdiv(tap[0], group)
                width[0] = batch * features
                for mode in T.serial(modes):
                    over[0] = (
                        T.truncmod(position[0], geometry[mode * 7 + 2]) * geometry[mode * 7 + 3]
                        + T.truncmod(tap[0], geometry[mode * 7 + 1]) * geometry[mode * 7 + 6]
                        - geometry[mode * 7 + 4]
                    )
                    position[0] = T.truncdiv(position[0], geometry[mode * 7 + 2])
                    tap[0] = T.truncdiv(tap[0], geometry[mode * 7 + 1])
                    if over[0] < 0:
                        at[0] = -1
                    if T.truncmod(over[0], geometry[mode * 7 + 5]) != 0:
                        at[0] = -1
                    over[0] = T.truncdiv(over[0], geometry[mode * 7 + 5])
                    if over[0] >= geometry[mode * 7]:
                        at[0] = -1
                    if at[0] >= 0:
                        at[0] = at[0] + over[0] * width[0]
                    width[0] = width[0] * geometry[mode * 7]
                out[i] = number(0)
                if at[0] >= 0:
                    out[i] = a[at[0]]

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
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding()
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
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding()
            if i < n:
                out[table_slot(i, index, axis, before, items)] = a[i]

    return kernel


def scatter_add():
    """One thread for each (before, after), which adds its updates in the order of the indices."""
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
        with T.Kernel(T.ceildiv(columns, THREADS), threads=THREADS) as block:
            column = block * THREADS + T.get_thread_binding()
            if column < columns:
                inner = T.truncmod(column, before)
                outer = T.truncdiv(column, before)
                for item in T.serial(items):
                    at = inner + before * (index[item] + axis * outer)
                    out[at] = out[at] + a[inner + before * (item + items * outer)]

    return kernel


# A sort is bitonic over (key, position) pairs, padded to a power of two; equal keys keep their order by the
# position, so that it is stable. `flip` is -1 for descending orders, which turns every key around, else 0.


def sort_keys(dtype):
    n, slots, key_of = T.dynamic("n"), T.dynamic("slots"), None

    def key_of_float(x):
        bits = T.reinterpret(INT, where(x == number(0), number(0), x))
        ordered = where(bits < 0, bits ^ T.int32(0x7FFFFFFF), bits)
        return where(T.isnan(x), T.int32(0x7FFFFFFF), ordered)

    key_of = key_of_float if dtype == FLOAT else (lambda x: x)

    @T.prim_func
    def kernel(
        a: T.Tensor((slots,), dtype),
        key: T.Tensor((n,), INT),
        place: T.Tensor((n,), INT),
        count: T.int32,
        flip: T.int32,
        padded: T.int32,
    ):
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding()
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
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding()
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
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding()
            if i < n:
                row = T.truncdiv(i, kept)
                out[i] = a[row * count + place[row * padded + T.truncmod(i, kept)]]

    return kernel


def sort_places():
    """The first `kept` positions of every row."""
    n, places = T.dynamic("n"), T.dynamic("places")

    @T.prim_func
    def kernel(out: T.Tensor((n,), INT), place: T.Tensor((places,), INT), kept: T.int32, padded: T.int32):
        with T.Kernel(T.ceildiv(n, THREADS), threads=THREADS) as block:
            i = block * THREADS + T.get_thread_binding()
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
    yield "reduce_sum_float", row_reduction(FLOAT, number(0), lambda a, b: a + b)
    yield "reduce_sum_int", row_sum_of_int()
    yield "reduce_prod_float", row_product()
    yield "reduce_max_float", row_reduction(FLOAT, number(float("-inf")), maximum)
    yield "reduce_min_float", row_reduction(FLOAT, number(float("inf")), minimum)
    yield "reduce_max_int", row_reduction(INT, lowest, T.max)
    yield "reduce_min_int", row_reduction(INT, highest, T.min)
    for name, precedes in (("argmax", lambda x, y: x > y), ("argmin", lambda x, y: x < y)):
        yield f"{name}_float", row_position(FLOAT, precedes, T.isnan)
        yield f"{name}_int", row_position(INT, precedes, lambda x: T.bool(False))
    yield "cumsum_int", scan_of_int()


def contraction_kernels():
    yield "matmul_float", matmul()
    yield "conv_general_patches", patches()


def indexing_kernels():
    for dtype in (INT, BOOL):
        yield f"gather_{LETTER[dtype]}", gather(dtype)
        yield f"scatter_{LETTER[dtype]}", scatter(dtype)
    yield "scatter_add_float", scatter_add()


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
