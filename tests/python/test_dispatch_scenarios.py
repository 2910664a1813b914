"""The scenarios of the dispatch specification for carriers in RAM and carriers written in Python."""

import itertools

import pytest
from list_carrier import ListHooks

import orlop
from orlop import CPU, Carrier, DependentCarrier, DType, FileBacked, Generic, Layout, Metal, Operation, Shape, Stride, Tensor
from orlop.carriers.base import CLOSED_CARRIER_MESSAGE, reject_carrier_subclass
from orlop.carriers.operation_capability import OperationCapability, register_operation_capabilities
from orlop.carriers.operation_policy import operation_execution_options, registered_operations, resolve_operation_plan
from orlop.operation import execute_lowered_operation, table_operation

FLOAT, INT = DType.Float32, DType.Int32
VIEWS = ["as_strided", "broadcast_to", "permute", "rearrange", "reshape", "squeeze", "unsqueeze", "view"]
PLANNED = [spec.name for spec in registered_operations()]
COMPUTING = [CPU, Generic]


class Store(ListHooks, Carrier):
    """The required hooks and no other."""


class Traced(Operation):
    """An operation that tells whether it ran, and with which options."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def _forward(self, *inputs):
        self.seen.append(self._execution_options)
        return flat(inputs[0].carrier)


def flat(carrier):
    return Tensor(carrier, 0, Layout(Shape(carrier.size()), Stride(1)))


def tensor(kind, given, dtype=FLOAT):
    return flat((CPU(0) if kind is CPU else Generic([], dtype=FLOAT)).new_like(given, dtype=dtype))


def values(result):
    return [result.carrier[i] for i in range(result.carrier.size())]


# --- Dispatch is an instance operation, each time a fresh one ------------------------------------------------


def test_dispatch_dispatch_from_a_legacy_instance():
    class Legacy(Store):
        def _dispatch_op(self, name):
            self.asked = name
            self.made = Traced()
            return self.made

    carrier = Legacy([1.0])
    operation = carrier.dispatch_op("anything at all")
    assert operation is carrier.made and carrier.asked == "anything at all"
    with pytest.raises(NotImplementedError, match="nosuch"):
        Store([1.0]).dispatch_op("nosuch")  # the default hook


@pytest.mark.parametrize("kind", [Carrier, DependentCarrier, CPU, Generic, FileBacked, Metal, Store])
def test_dispatch_reject_class_dispatch(kind):
    for arguments in (("add",), (), (3,), (None, "add"), (CPU, "add")):
        with pytest.raises(TypeError):
            kind.dispatch_op(*arguments)


@pytest.mark.parametrize("name", [None, 3, b"add", ["add"], CPU])
def test_a_dispatch_name_is_a_str(name):
    for carrier in (CPU(1), Store([1.0]), FileBacked(dtype=FLOAT)):
        with pytest.raises(TypeError, match="operation_name"):
            carrier.dispatch_op(name)


@pytest.mark.parametrize("kind", COMPUTING)
def test_dispatch_dispatch_the_same_name_twice(kind):
    x = tensor(kind, [1.0, 2.0])
    one, two = x.carrier.dispatch_op("matmul"), x.carrier.dispatch_op("matmul")
    assert one is not two and one.ctx is not two.ctx
    one.ctx["mine"] = 1
    options = operation_execution_options("matmul", accumulator_dtype=DType.Float64)
    square = Tensor(x.carrier.new_like([1.0, 2.0, 3.0, 4.0]), 0, Layout(Shape([2, 2]), Stride([1, 2])))
    one.forward(square, square, options=options)
    assert one._execution_options == options and two._execution_options is None
    assert "mine" not in two.ctx and two.inputs() == ()


def test_dispatch_reject_a_cached_operation():
    class Caching(Store):
        cached = Traced()

        def _dispatch_op(self, name):
            return self.cached

    class Other(Caching):
        pass

    carrier = Caching([1.0])
    operation = carrier.dispatch_op("first")
    operation.ctx["kept"] = 1
    operation.store_inputs(flat(carrier))
    for again, name in itertools.product((carrier, Other([1.0])), ("first", "second")):
        with pytest.raises(TypeError, match="dispatched before as first.*fresh"):
            again.dispatch_op(name)
    assert operation._operation_name == "first" and operation._dispatch_carrier_class is Caching
    assert operation.ctx == {"kept": 1} and len(operation.inputs()) == 1


@pytest.mark.parametrize("result", [None, 3, "add", Operation, CPU])
def test_a_dispatch_hook_returns_an_operation(result):
    class Wrong(Store):
        def _dispatch_op(self, name):
            return result

    with pytest.raises(TypeError, match="must return an Operation"):
        Wrong([1.0]).dispatch_op("add")


def test_an_error_of_the_dispatch_hook_is_passed_on():
    class Failing(Store):
        def _dispatch_op(self, name):
            raise ZeroDivisionError(name)

    with pytest.raises(ZeroDivisionError, match="add"):
        Failing([1.0]).dispatch_op("add")


def test_dispatch_dispatch_from_a_custom_subclass():
    class Base(Store):
        def _dispatch_op(self, name):
            return Traced()

    class Derived(Base):
        pass

    x = flat(Derived([1], INT))
    operation = x.carrier.dispatch_op("shine")
    for _ in range(2):
        assert operation._operation_name == "shine" and operation._dispatch_carrier_class is Derived
        operation.forward(x)
    assert Base([1.0]).dispatch_op("shine")._dispatch_carrier_class is Base
    for name in ("_operation_name", "_dispatch_carrier_class", "_execution_options"):
        with pytest.raises(AttributeError):
            setattr(operation, name, None)
    undispatched = Traced()
    assert undispatched._operation_name is None and undispatched._dispatch_carrier_class is None


# --- Carrier is open, shipped carriers are closed ---------------------------------------------------------------


def test_dispatch_reject_specialization_of_a_shipped_carrier():
    shipped = [CPU, Generic, FileBacked, Metal, orlop.Evictable, orlop.BlockDeviceCarrier]

    class Mixin:
        def __init_subclass__(cls, **keywords):
            pass

    for kind in shipped:
        name = kind.__name__
        with pytest.raises(TypeError) as caught:
            type("Derived", (kind,), {})
        assert str(caught.value) == CLOSED_CARRIER_MESSAGE.replace("{name}", name)
        assert "closed carrier implementation" in str(caught.value) and "sibling Carrier" in str(caught.value)
        with pytest.raises(TypeError, match="closed carrier implementation"):
            class Derived(kind, tag=1):
                pass
        with pytest.raises(TypeError):
            type("Derived", (Mixin, kind), {})  # the hook is skipped, the class is final all the same
        with pytest.raises(TypeError) as caught:
            reject_carrier_subclass(name)
        assert str(caught.value) == CLOSED_CARRIER_MESSAGE.replace("{name}", name)


def test_outsiders_may_write_sibling_and_dependent_carriers():
    class Dependent(ListHooks, DependentCarrier):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self._finalize_dependent_capabilities()

        def _generate_operation_capabilities(self):
            return [OperationCapability.from_plan(resolve_operation_plan("add", FLOAT, FLOAT))]

        def _dispatch_op(self, name):
            return table_operation(name)

    x = flat(Dependent([1.0, 2.0]))
    assert values(orlop.add(x, x)) == [2.0, 4.0] and type(orlop.add(x, x).carrier) is Dependent
    with pytest.raises(orlop.UnsupportedOperationPlan):
        orlop.mul(x, x)
    with pytest.raises(RuntimeError):
        x.carrier._finalize_dependent_capabilities()


@pytest.mark.filterwarnings("ignore:nanobind")  # which adds a warning about the object that was not initialised
def test_a_class_without_its_hooks_or_its_initializer_is_refused():
    class Bare(Carrier):
        def size(self):
            return 0

    with pytest.raises(TypeError, match="dtype, get_value, new_like, allocate_like, scatter"):
        Bare()

    class Forgetful(Store):
        def __init__(self):
            pass

    with pytest.raises(TypeError):
        Forgetful().version  # noqa: B018
    with pytest.raises(TypeError, match="no arguments"):
        Carrier.__init__(Forgetful(), 3)
    for abstract in (Carrier, DependentCarrier):
        with pytest.raises(TypeError, match="abstract"):
            abstract()


# --- The surface, the gate and the options --------------------------------------------------------------------------


def dispatched(kind, name):
    """Two dispatches of one name; nothing where the carrier does not know the name."""
    carrier = tensor(kind, [1.0]).carrier
    try:
        return carrier.dispatch_op(name), carrier.dispatch_op(name)
    except NotImplementedError as error:
        assert name in str(error)
        return None


@pytest.mark.parametrize("name", [*PLANNED, *VIEWS])
def test_ram_carriers_dispatch_the_same_names(name):
    pairs = {kind: dispatched(kind, name) for kind in COMPUTING}
    if name in (*VIEWS, "add", "mul", "div", "exp", "matmul", "reduce_sum", "gather", "select"):
        assert None not in pairs.values()
    assert len({pair is None for pair in pairs.values()}) == 1
    for kind, pair in pairs.items():
        for operation in pair or ():
            assert isinstance(operation, Operation) and operation._operation_name == name
            assert operation._dispatch_carrier_class is kind
        assert pair is None or pair[0] is not pair[1]


def test_the_specification_names_are_registered():
    names = """add sub mul elementwise_mul div pow neg abs sign recip sqrt rsqrt exp exp2 log log2 sin cos erf floor ceil
        round maximum minimum rem eq ne lt le logical_not relu sigmoid tanh gelu silu softplus elu leaky_relu reduce_sum
        reduce_prod reduce_max reduce_min argmax argmin cumsum matmul conv_general gather scatter scatter_add select
        clamp""".split()
    assert set(names) <= set(PLANNED)


def test_dispatch_dispatch_a_supported_generic_operation():
    x = tensor(Generic, [1.0, 2.0])
    one, two = x.carrier.dispatch_op("add"), x.carrier.dispatch_op("add")
    assert one is not two and type(one) is type(two)
    for operation in (one, two):
        assert operation._operation_name == "add" and operation._dispatch_carrier_class is Generic
        assert values(operation.forward(x, x)) == [2.0, 4.0]


@pytest.mark.parametrize("kind", COMPUTING)
def test_unknown_names_are_not_implemented(kind):
    for name in ("nosuch", "", "Add", "add "):
        with pytest.raises(NotImplementedError):
            tensor(kind, [1.0]).carrier.dispatch_op(name)


def test_the_gate_judges_name_and_dtypes():
    class Adder(Store):
        def _dispatch_op(self, name):
            return table_operation(name)

    plan = resolve_operation_plan("add", FLOAT, FLOAT)
    register_operation_capabilities(Adder, [OperationCapability.from_plan(plan)])
    x, i = flat(Adder([1.0, 2.0])), flat(Adder([1, 2], INT))
    for refused in (lambda: x.carrier.dispatch_op("mul").forward(x, x), lambda: i.carrier.dispatch_op("add").forward(i, i)):
        with pytest.raises(orlop.UnsupportedOperationPlan):
            refused()
        with pytest.raises(NotImplementedError):  # the same error under its built-in name
            refused()
    assert Adder.allocations == 0
    assert values(x.carrier.dispatch_op("add").forward(x, x)) == [2.0, 4.0] and Adder.allocations == 1


def test_planning_refuses_categories_of_every_operation():
    class Opaque(Store):
        def _dispatch_op(self, name):
            return table_operation(name)

    with pytest.raises(ValueError, match="abstract dtype category"):
        flat(Opaque([1, 2], DType.Integer))
    for category in (DType.Any, DType.Floating):
        x = flat(Opaque([1.0, 2.0], category))
        before = Opaque.allocations
        for name in ("add", "mul", "maximum", "eq"):
            with pytest.raises(TypeError):
                x.carrier.dispatch_op(name).forward(x, x)
        for name in ("relu", "exp", "neg"):
            with pytest.raises(TypeError):
                x.carrier.dispatch_op(name).forward(x)
        with pytest.raises(TypeError):
            orlop.add(x, x)
        assert Opaque.allocations == before
    with pytest.raises(TypeError):  # on Generic itself: its own dtype is concrete, the other operand's is not
        Generic([1.0, 2.0], dtype=FLOAT).dispatch_op("add").forward(tensor(Generic, [1.0, 2.0]), x)


def ways(operation):
    """Every way to run an operation, public and lowered."""
    return (operation.forward, operation._execute_lowered, lambda *a, **k: execute_lowered_operation(operation, *a, **k))


class TracedStore(Store):
    def _dispatch_op(self, name):
        return Traced()


def test_options_of_another_operation_are_refused_lowered_or_not():
    options = operation_execution_options("reduce_sum", accumulator_dtype=DType.Float64)
    x = flat(TracedStore([1.0]))
    operation = x.carrier.dispatch_op("matmul")
    for run in ways(operation):
        with pytest.raises(ValueError, match="another operation: reduce_sum"):
            run(x, x, options=options)
    assert operation.seen == [] and operation.inputs() == () and operation._execution_options is None
    for kind in COMPUTING:
        square = Tensor(tensor(kind, [1.0] * 4).carrier, 0, Layout(Shape([2, 2]), Stride([1, 2])))
        for run in ways(square.carrier.dispatch_op("matmul")):
            with pytest.raises(ValueError, match="another operation: reduce_sum"):
                run(square, square, options=options)


def test_forward_takes_options_only():
    x = flat(TracedStore([1.0]))
    operation = x.carrier.dispatch_op("matmul")
    for run in ways(operation):
        for wrong in ({"axis": 1}, {"option": None}, {"options": None, "more": 1}):
            with pytest.raises(TypeError, match="only options is allowed"):
                run(x, **wrong)
        for wrong in (3, "matmul", {}, {"accumulator_dtype": DType.Float64}, DType.Float64):
            with pytest.raises(TypeError):
                run(x, options=wrong)
    assert operation.seen == []


def test_options_reach_the_implementation_and_are_no_inputs():
    x = flat(TracedStore([1], INT))
    options = operation_execution_options("matmul", accumulator_dtype=DType.Float64)
    operation = x.carrier.dispatch_op("matmul")
    for run in ways(operation):
        run(x, options=options)
        run(x, options=None)
        run(x)
    assert operation.seen == [options, None, None] * 3 and operation.inputs() == ()
