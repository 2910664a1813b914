"""Carriers written in Python: what the framework asks of the hooks, and what it makes of wrong answers (S101-S107)."""

import pytest

import orlop
from orlop import CPU, Carrier, DType, Evictable, Layout, Shape, Stride, Tensor
from orlop.carriers.operation_capability import OperationCapability, register_operation_capabilities
from orlop.carriers.operation_policy import resolve_operation_plan
from orlop.operation import table_operation

FLOAT, INT = DType.Float32, DType.Int32


class Minimal(Carrier):
    """The required hooks and no other; factories without the keywords that they do not need."""

    def __init__(self, values=(), dtype=FLOAT):
        super().__init__()
        self.values, self.kind, self.calls = list(values), dtype, []

    def size(self):
        return len(self.values)

    def dtype(self):
        return self.kind

    def get_value(self, index):
        self.calls.append(index)
        return self.values[index]

    def new_like(self, values, mutable=True):
        return type(self)(values)

    def allocate_like(self, size, mutable=True):
        return type(self)([0.0] * size)

    def scatter(self, to_scatter, scatter_onto, mapping, mapping_offset=0):
        raise NotImplementedError


class Mutable(Minimal):
    def _is_mutable(self):
        return True

    def set_value(self, index, value):
        self.values[index] = value


def flat(carrier):
    return Tensor(carrier, 0, Layout(Shape(carrier.size()), Stride(1)))


def overriding(base, **hooks):
    return type("Overriding", (base,), {name: (lambda self, *a, _r=result, **k: _r) for name, result in hooks.items()})


def test_the_required_hooks_alone_make_an_immutable_carrier():
    carrier = Minimal([1.0, 2.0])
    assert not carrier.is_mutable() and carrier[1] == 2.0
    for write in (lambda: carrier.__setitem__(0, 1.0), lambda: carrier.set_value(0, 1.0)):
        with pytest.raises(RuntimeError, match="not mutable"):
            write()
    for index in (2, -1, 2**70):
        with pytest.raises(IndexError):
            carrier[index]
    assert carrier.calls == [1]  # the hook sees indices in range only
    assert carrier.supports_storage_dtype(FLOAT) and not carrier.supports_storage_dtype(INT)
    with pytest.raises(BufferError):
        carrier.dlpack_info()
    with pytest.raises(NotImplementedError):
        carrier._allocate(3)
    with pytest.raises(NotImplementedError, match="add"):
        carrier.dispatch_op("add")
    assert carrier.release() is None and carrier.is_released()


@pytest.mark.parametrize("bumps", [True, False])
def test_a_write_counts_once_whoever_counts(bumps):
    class Counting(Mutable):
        def set_value(self, index, value):
            if value < 0:
                raise ZeroDivisionError
            self.values[index] = value
            if bumps:
                self._increment_version()

    carrier = Counting([1.0])
    carrier[0] = 2.0
    assert carrier.version == 1
    with pytest.raises(ZeroDivisionError):
        carrier[0] = -1.0
    assert carrier.version == 1
    flat(carrier)[0] = 3.0
    assert carrier.version == 2 and carrier.values == [3.0]


def test_factories_need_no_keywords_they_do_not_use():
    carrier = Mutable([1.0, 2.0])
    hierarchy = Evictable(carrier, CPU(0))
    assert type(hierarchy.allocate_like(2).primary) is Mutable
    assert type(hierarchy.new_like([5.0]).primary) is Mutable


@pytest.mark.parametrize("result, error", [("3", TypeError), (1.5, TypeError), (None, TypeError), (-1, ValueError),
                                           (2**63, OverflowError)])
def test_a_size_is_a_count(result, error):
    carrier = overriding(Mutable, size=result)([1.0])
    for use in (lambda: carrier[0], lambda: carrier.__setitem__(0, 1.0), lambda: Evictable(carrier, CPU(0))):
        with pytest.raises(error):
            use()


@pytest.mark.parametrize("result", [None, "Float32", 3, float, DType])
def test_a_dtype_is_a_descriptor(result):
    carrier = overriding(Mutable, dtype=result)([1.0])
    for use in (lambda: Tensor(carrier, 0, Layout(Shape(1), Stride(1))), lambda: Evictable(carrier, CPU(0))):
        with pytest.raises(TypeError):
            use()


@pytest.mark.parametrize("result", [1, 0, None, "yes"])
def test_mutability_and_support_are_bools(result):
    carrier = overriding(Mutable, _is_mutable=result, _supports_storage_dtype=result)([1.0])
    for use in (carrier.is_mutable, lambda: carrier.__setitem__(0, 1.0), lambda: carrier.supports_storage_dtype(FLOAT)):
        with pytest.raises(TypeError):
            use()
    assert carrier.values == [1.0]


def test_support_is_asked_about_dtypes_only():
    class Asked(Mutable):
        def _supports_storage_dtype(self, dtype):
            raise AssertionError(dtype)

    for other in ("Float32", None, 3):
        with pytest.raises(TypeError):
            Asked().supports_storage_dtype(other)


@pytest.mark.parametrize("result", [None, 3, [1.0], CPU])
def test_a_factory_makes_a_carrier(result):
    kind = overriding(Mutable, new_like=result, allocate_like=result)
    hierarchy = Evictable(kind([1.0]), CPU(0))
    with pytest.raises(TypeError):
        hierarchy.new_like([1.0])
    with pytest.raises(TypeError):
        hierarchy.allocate_like(1)


@pytest.mark.parametrize("value", ["text", None, 1j, [1.0]])
def test_a_value_that_is_no_number_is_refused_where_numbers_are_needed(value):
    class Computing(Mutable):
        def _dispatch_op(self, name):
            return table_operation(name)

    register_operation_capabilities(Computing, [OperationCapability.from_plan(resolve_operation_plan("neg", FLOAT))])
    carrier = Computing([value])
    assert carrier[0] == value  # what it holds is its author's matter
    with pytest.raises(TypeError):
        orlop.neg(flat(carrier))
    hierarchy = Evictable(carrier, CPU(0))
    with pytest.raises(TypeError):
        hierarchy.evict()
    assert not hierarchy.is_evicted() and carrier.values == [value]


def test_none_is_a_value_like_any_other():
    carrier = Mutable([1.0, 2.0])
    carrier[0] = None
    assert carrier[0] is None and carrier.values == [None, 2.0] and carrier.version == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: CPU(1),
        lambda: orlop.Generic([0.0], dtype=FLOAT),
        lambda: orlop.FileBacked(dtype=FLOAT).new_like([0.0]),
        lambda: Evictable(CPU(1), orlop.FileBacked(dtype=FLOAT)),
    ],
)
def test_none_is_refused_in_its_turn_and_in_words(make):
    def calls(carrier):
        return {
            "value": [lambda: carrier.set_value(0, None), lambda: carrier.__setitem__(0, None)],
            "index": [lambda: carrier[None], lambda: carrier.get_value(None), lambda: carrier.set_value(None, 1.0)],
            "to_scatter": [lambda: carrier.scatter(None, None, None)],
        }

    def refused(carrier, error, **words):
        for name, group in calls(carrier).items():
            for call in group:
                with pytest.raises(error if name != "index" else TypeError, match=words.get(name, r"^\[")):
                    call()

    carrier = make()
    if type(carrier) is not orlop.FileBacked:
        refused(carrier, TypeError, value="real number: got NoneType", index="integer: got NoneType", to_scatter="Tensor")
    for call in (
        lambda: carrier.new_like(None),
        lambda: carrier.allocate_like(None),
        lambda: carrier.supports_storage_dtype(None),
        lambda: carrier.dispatch_op(None),
    ):
        with pytest.raises(TypeError, match=r"^\[.*NoneType"):
            call()
    frozen = carrier.new_like([0.0], mutable=False)
    refused(frozen, RuntimeError, value="not mutable", to_scatter="not mutable")
    frozen.release()
    refused(frozen, RuntimeError, value="released", to_scatter="released")
    assert carrier[0] == 0.0 and carrier.version == frozen.version == 0


def test_a_release_that_fails_can_be_repeated():
    class Failing(Mutable):
        fails = 2

        def _release(self):
            if self.fails:
                self.fails -= 1
                raise ZeroDivisionError

    carrier = Failing([1.0])
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            carrier.release()
        assert not carrier.is_released() and carrier[0] == 1.0
    carrier.release()
    carrier.release()
    assert carrier.is_released()


def test_release_runs_its_hook_once():
    class Counting(Mutable):
        count = 0

        def _release(self):
            self.count += 1
            self.release()  # again from within: nothing happens twice

    carrier = Counting([1.0])
    carrier.release()
    carrier.release()
    assert carrier.count == 1


def test_the_base_owns_its_rules():
    """An override of these is reached by a direct call alone; the framework asks the base (S103)."""

    class Lying(Mutable):
        def is_released(self):
            return True

        def is_mutable(self):
            return False

        def __getitem__(self, index):
            return 99.0

    carrier = Lying([1.0])
    assert carrier.is_released() and not carrier.is_mutable() and carrier[0] == 99.0
    tensor = flat(carrier)
    assert float(tensor[0]) == 1.0
    tensor[0] = 2.0
    assert carrier.values == [2.0]


# --- Factories that make something else -----------------------------------------------------------------------


class Deceiving(Minimal):
    """Computes mul; its factory makes what the test says."""

    made = None

    def allocate_like(self, size, mutable=True):
        return self.made(size)

    def _dispatch_op(self, operation_name):
        return table_operation(operation_name)


register_operation_capabilities(
    Deceiving, [OperationCapability.from_plan(resolve_operation_plan("mul", FLOAT, FLOAT))]
)


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (lambda size: CPU(1), TypeError, "of its own exact class: got CPU"),
        (lambda size: CPU(size), TypeError, "of its own exact class: got CPU"),
        (lambda size: Deceiving([0.0] * (size - 1)), ValueError, "too few slots: 300000 asked for, 299999 returned"),
        (lambda size: Deceiving([0] * size, INT), TypeError, "must return slots of Float32: got Int32"),
        (lambda size: size, TypeError, "must return a Carrier: got int"),
    ],
)
def test_what_a_factory_makes_is_checked_before_a_kernel_writes(made, error, words):
    x = Tensor(Deceiving([1.0] * 300_000), 0, Layout(Shape(300_000), Stride(1)))
    Deceiving.made = staticmethod(made)
    with pytest.raises(error, match=words):
        x * x
    with pytest.raises(error, match=words):
        x.backward(x)  # the stored gradient is a copy
    assert x.grad is None and x.version == 0


def test_a_hierarchy_over_a_factory_that_makes_too_little_writes_nothing():
    x = Tensor(Evictable(Deceiving([1.0] * 300_000), CPU(0)), 0, Layout(Shape(300_000), Stride(1)))
    Deceiving.made = staticmethod(lambda size: CPU(1))
    with pytest.raises(TypeError, match="of its own exact class: got CPU"):
        x * x
    with pytest.raises((TypeError, ValueError)):
        x.backward(x)
    assert x.grad is None


def test_a_carrier_is_released_at_the_end_of_its_scope():
    with Minimal([1.0]) as carrier:
        assert not carrier.is_released()
    assert carrier.is_released()
    with pytest.raises(ArithmeticError, match="mine"), CPU(2) as cpu:
        cpu.release()
        raise ArithmeticError("mine")
    with pytest.raises(RuntimeError, match="owned"), CPU(2) as tier:
        hierarchy = Evictable(tier, CPU(0))
    assert not tier.is_released() and hierarchy.primary is tier
