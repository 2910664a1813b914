// The Python face of moving: `move`, the registry of routes, and the trampoline behind moves written in
// Python.
#include "orlop/movement/move.hpp"

#include <array>

#include "carrier.hpp"
#include "carrier_class.hpp"
#include "operation.hpp"
#include "orlop/carriers/block_device/block_device.hpp"
#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/carriers/file_backed/file_backed.hpp"
#include "orlop/carriers/metal/metal.hpp"
#include "orlop/carriers/routes.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

namespace {

/// A bound class and what Python subclasses of it replace: `_forward`, `_copy`, `backward` and the two pins.
template <class Native>
class PythonMove final : public Native {
 public:
  [[nodiscard]] CarrierClass source_class() const override { return pin("source_class"); }
  [[nodiscard]] CarrierClass destination_class() const override { return pin("destination_class"); }
  [[nodiscard]] std::string implementation_name() const override {
    const InterpreterLock lock;
    return python_type_name(self());
  }
  Gradients backward(const Tensor& gradient) override {
    const InterpreterLock lock;
    return overrides("backward") ? call_python_backward(*this, gradient) : Native::backward(gradient);
  }
  /// What `super()._forward` and `super()._copy` reach.
  Tensor native_transfer(const Tensor& tensor, const Ref<Carrier>& destination) {
    this->check_move(tensor, destination);
    return Native::transfer(tensor, destination);
  }
  void native_copy(const Tensor& tensor, const Ref<Carrier>& destination, const Tensor& output) {
    this->check_move(tensor, destination);
    if (output.carrier() != destination || !(output.layout() == tensor.layout()))
      raise<ValueError>(implementation_name(), "output must be the Tensor's layout on the destination: got ",
                        output.layout());
    Native::copy(tensor, *destination, output, tensor.layout().cosize());
  }

 protected:
  Tensor transfer(const Tensor& tensor, const Ref<Carrier>& destination) override {
    const InterpreterLock lock;
    if (!overrides("_forward")) return Native::transfer(tensor, destination);
    const std::array<Argument, 2> arguments{Argument(tensor), Argument::of(destination)};
    return call_python_forward(self(), arguments);
  }
  void copy(const Tensor& tensor, Carrier& destination, const Tensor& output, Index element_count) override {
    const InterpreterLock lock;
    if (!overrides("_copy")) return Native::copy(tensor, destination, output, element_count);
    const nb::object result = self().attr("_copy")(tensor, Ref<Carrier>(&destination), output, element_count);
    if (!result.is_none())
      raise<TypeError>(implementation_name(), "_copy must return None: got ", python_type_name(result));
  }

 private:
  [[nodiscard]] nb::handle self() const { return this->python_object(); }
  [[nodiscard]] bool overrides(const char* name) const {
    return !nb::object(self().type().attr(name)).is(nb::object(nb::type<Native>().attr(name)));
  }
  [[nodiscard]] CarrierClass pin(const char* name) const {
    const InterpreterLock lock;
    const nb::object value = self().type().attr(name);
    if (value.is_none()) return {};
    if (const CarrierClass pinned = carrier_class_of_type(value)) return pinned;
    raise<TypeError>(implementation_name(), name, " must be a Carrier class or None: got ",
                     python_type_name(value));
  }
};

/// The object behind a hook that `super()` reached.
template <class Native>
PythonMove<Native>& trampoline_of(MoveOperation& operation, std::string_view hook) {
  if (auto* python = dynamic_cast<PythonMove<Native>*>(&operation)) return *python;
  raise<TypeError>(operation.implementation_name(), hook, " is a hook for subclasses; call forward");
}

/// Rows 1 to 5 of S403: what is wrong with the Tensor comes before the type of the destination.
Ref<Carrier> to_destination(const Tensor& tensor, nb::handle value) {
  if (auto* carrier = try_native<Carrier>(value)) return Ref<Carrier>(carrier);
  orlop::detail::check_move_source(tensor);
  orlop::detail::refuse_destination(python_type_name(value));
}

template <class Native, class Base>
void bind_move(nb::module_& module, const char* name, nb::handle source_class, nb::handle destination_class,
               const char* doc) {
  nb::class_<Native, Base, PythonMove<Native>> bound(module, name, counted<Native>(),
                                                     nb::type_slots(operation_slots), doc);
  bound.def(nb::init<>())
      .def(
          "_forward",
          [](Native& self, nb::handle tensor, nb::handle destination) {
            const Tensor source = to_tensor(tensor, "move", "tensor");
            return trampoline_of<Native>(self, "_forward")
                .native_transfer(source, to_destination(source, destination));
          },
          "tensor"_a.none(), "destination"_a.none(), "Hook: makes the result, by default from `_copy`.")
      .def(
          "_copy",
          [](Native& self, nb::handle tensor, nb::handle destination, nb::handle output, nb::handle) {
            const Tensor source = to_tensor(tensor, "move", "tensor");
            trampoline_of<Native>(self, "_copy")
                .native_copy(source, to_destination(source, destination),
                             to_tensor(output, "move", "output"));
          },
          "tensor"_a.none(), "destination"_a.none(), "output"_a.none(), "element_count"_a.none(),
          "Hook: copies the values of `tensor` onto `output`, which lies on `destination`; returns None.")
      .def(
          "backward",
          [](Native& self, nb::handle gradient) {
            return gradients_tuple(self.MoveOperation::backward(to_tensor(gradient, "move", "gradient")));
          },
          "gradient"_a.none(), "The cotangent, moved back by the route that was kept at the forward call.");
  nb::setattr(bound, "source_class", source_class);
  nb::setattr(bound, "destination_class", destination_class);
}

// --- The registry

/// A Python object that may outlive the interpreter and be dropped on any thread.
std::shared_ptr<void> held(nb::handle object) {
  return {nb::borrow(object).release().ptr(), [](void* owned) {
            if (Py_IsInitialized() == 0) return;
            const InterpreterLock lock;
            Py_DECREF(static_cast<PyObject*>(owned));
          }};
}

CarrierClass to_carrier_class(nb::handle value, std::string_view what, std::string_view name) {
  if (const CarrierClass carrier_class = carrier_class_of_type(value)) return carrier_class;
  raise<TypeError>(what, name, " must be a Carrier class: got ", python_type_name(value));
}

MoveRoute to_route(nb::handle operation_class, std::string_view what) {
  const int is_move = PyType_Check(operation_class.ptr())
                          ? PyObject_IsSubclass(operation_class.ptr(), nb::type<MoveOperation>().ptr())
                          : 0;
  if (is_move < 0) throw_python_error();
  if (is_move == 0)
    raise<TypeError>(what, "operation_class must be a MoveOperation class: got ",
                     PyType_Check(operation_class.ptr()) ? to_text(operation_class.attr("__name__"))
                                                         : python_type_name(operation_class));
  MoveRoute route;
  route.name = to_text(operation_class.attr("__name__"));
  route.python_class = held(operation_class);
  route.make = [python_class = route.python_class, name = route.name] {
    const InterpreterLock lock;
    const nb::object operation = nb::handle(static_cast<PyObject*>(python_class.get()))();
    if (auto* move = try_native<MoveOperation>(operation)) return Ref<MoveOperation>(move);
    raise<TypeError>(name, "the class must make a MoveOperation: got ", python_type_name(operation));
  };
  return route;
}

/// The Python class of a route; the name of a native one that Python does not know.
nb::object operation_class_of(const MoveRoute& route) {
  if (route.python_class != nullptr) return nb::borrow(static_cast<PyObject*>(route.python_class.get()));
  if (route.native_class != nullptr)
    if (PyObject* type = NB_CALL(nb_type_lookup)(NB_CTX, route.native_class)) return nb::borrow(type);
  return nb::str(route.name.c_str(), route.name.size());
}

void bind_move_classes(nb::module_& module) {
  bind_move<MoveOperation, Operation>(
      module, "MoveOperation", nb::none(), nb::none(),
      R"(One way to move between two carriers; subclass it with `_copy(tensor, destination, output, element_count)`.

The class attributes source_class and destination_class pin exact classes; None takes any. `_copy` runs after
all checks, with both carriers owned by the move; `output` is the Tensor's layout on `destination` from slot 0
and `element_count` its span. forward(tensor, destination) is the whole move.

>>> from orlop import CPU, friendly
>>> from orlop.carriers.move import MoveOperation
>>> class Doubling(MoveOperation):
...     source_class = CPU
...
...     def _copy(self, tensor, destination, output, element_count):
...         for slot in range(element_count):
...             destination[slot] = 2 * tensor.carrier[tensor.offset + slot]
>>> friendly.to_list(Doubling().forward(friendly.tensor([1, 2]), CPU(2)))
[2.0, 4.0])");
  bind_move<ElementwiseMoveOperation, MoveOperation>(
      module, "ElementwiseMoveOperation", nb::none(), nb::none(),
      R"(Moves the logical values in ascending order; holes stay untouched. The route of every unregistered pair.

>>> from orlop import CPU, Generic
>>> from orlop.carriers import move
>>> move.dispatch_move(CPU, Generic) is move.ElementwiseMoveOperation
True)");
  bind_move<CpuToFileBackedMoveOperation, MoveOperation>(
      module, "CpuToFileBackedMoveOperation", python_class(carrier_class<CPU>()),
      python_class(carrier_class<FileBacked>()),
      R"(Writes the span of a CPU into a file from byte 0, in one transfer.

>>> from orlop import CPU, FileBacked
>>> from orlop.carriers import move
>>> move.dispatch_move(CPU, FileBacked) is move.CpuToFileBackedMoveOperation
True)");
  bind_move<FileBackedToCpuMoveOperation, MoveOperation>(
      module, "FileBackedToCpuMoveOperation", python_class(carrier_class<FileBacked>()),
      python_class(carrier_class<CPU>()),
      R"(Reads the span of a file into a CPU from slot 0, in one transfer.

>>> from orlop import CPU, FileBacked
>>> from orlop.carriers import move
>>> move.dispatch_move(FileBacked, CPU) is move.FileBackedToCpuMoveOperation
True)");
  bind_move<CpuToBlockDeviceMoveOperation, MoveOperation>(
      module, "CpuToBlockDeviceMoveOperation", python_class(carrier_class<CPU>()),
      python_class(carrier_class<BlockDeviceCarrier>()),
      R"(Writes the span of a CPU to a block device from slot 0, in one transfer.

>>> from orlop import CPU, BlockDeviceCarrier
>>> from orlop.carriers import move
>>> move.dispatch_move(CPU, BlockDeviceCarrier) is move.CpuToBlockDeviceMoveOperation
True)");
  bind_move<BlockDeviceToCpuMoveOperation, MoveOperation>(
      module, "BlockDeviceToCpuMoveOperation", python_class(carrier_class<BlockDeviceCarrier>()),
      python_class(carrier_class<CPU>()),
      R"(Reads the span of a block device carrier into a CPU from slot 0, in one transfer.

>>> from orlop import CPU, BlockDeviceCarrier
>>> from orlop.carriers import move
>>> move.dispatch_move(BlockDeviceCarrier, CPU) is move.BlockDeviceToCpuMoveOperation
True)");
  const nb::object metal = python_class(carrier_class<Metal>());
  bind_move<CpuToMetalMoveOperation, MoveOperation>(
      module, "CpuToMetalMoveOperation", python_class(carrier_class<CPU>()), metal,
      R"(Copies the span of a CPU into a Metal carrier from slot 0.

>>> from orlop import CPU, Metal
>>> from orlop.carriers import move
>>> move.dispatch_move(CPU, Metal) is move.CpuToMetalMoveOperation
True)");
  bind_move<MetalToCpuMoveOperation, MoveOperation>(
      module, "MetalToCpuMoveOperation", metal, python_class(carrier_class<CPU>()),
      R"(Copies the span of a Metal carrier into a CPU from slot 0.

>>> from orlop import CPU, Metal
>>> from orlop.carriers import move
>>> move.dispatch_move(Metal, CPU) is move.MetalToCpuMoveOperation
True)");
  bind_move<MetalToMetalMoveOperation, MoveOperation>(module, "MetalToMetalMoveOperation", metal, metal,
                                                      R"(Copies the span of a Metal carrier into another one.

>>> from orlop import Metal
>>> from orlop.carriers import move
>>> move.dispatch_move(Metal, Metal) is move.MetalToMetalMoveOperation
True)");
}

void bind_moves(nb::module_& module) {
  module.def(
      "move",
      [](nb::handle tensor, nb::handle destination) {
        const Tensor source = to_tensor(tensor, "move", "tensor");
        return move(source, to_destination(source, destination));
      },
      nb::sig("def move(tensor: Tensor, destination: Carrier) -> Tensor"), "tensor"_a.none(),
      "destination"_a.none(),
      R"(Moves `tensor` to the carrier `destination` and releases its own: the result has the same layout at
offset 0. The destination must be live, mutable, of the same dtype and large enough, or empty and able to
grow. Where gradients are recorded they are moved back the same way. A failed move leaves the source
as it was (S403, S406).

>>> from orlop import DType, FileBacked, friendly
>>> moved = orlop.move(friendly.arange(3), FileBacked(dtype=DType.Float32))
>>> type(moved.carrier).__name__, friendly.to_list(moved)
('FileBacked', [0.0, 1.0, 2.0]))");
  module.def(
      "move_async",
      [](nb::handle tensor, nb::handle destination) {
        const Tensor source = to_tensor(tensor, "move", "tensor");
        return move_async(source, to_destination(source, destination)).move_task();
      },
      nb::sig("def move_async(tensor: Tensor, destination: Carrier) -> AwaitMove"), "tensor"_a.none(),
      "destination"_a.none(),
      R"(Starts to move `tensor` to the carrier `destination` and returns the handle: its wait() gives what move()
returns. Checks are done at once and raise here; what fails later is raised by wait(). Until the move has
ended both carriers are owned by it: they can be read, not written, moved or released.

>>> from orlop import CPU, friendly
>>> handle = orlop.move_async(friendly.arange(3), CPU(3))
>>> friendly.to_list(handle.wait())
[0.0, 1.0, 2.0])");
}

void bind_registry(nb::module_& module) {
  module.def(
      "register_move_operation",
      [](nb::handle source_class, nb::handle destination_class, nb::handle operation_class) {
        constexpr std::string_view what = "register_move_operation";
        const CarrierClass source = to_carrier_class(source_class, what, "source_class");
        const CarrierClass destination = to_carrier_class(destination_class, what, "destination_class");
        register_move_operation(source, destination, to_route(operation_class, what));
      },
      "source_class"_a.none(), "destination_class"_a.none(), "operation_class"_a.none(),
      R"(Makes `operation_class` the route of the exact pair; ValueError where the pair has one.

>>> from orlop import CPU, Generic
>>> from orlop.carriers import move
>>> class Counting(move.MoveOperation):
...     def _copy(self, tensor, destination, output, element_count): ...
>>> move.register_move_operation(Generic, CPU, Counting)
>>> move.unregister_move_operation(Generic, CPU) is Counting
True)");
  module.def(
      "unregister_move_operation",
      [](nb::handle source_class, nb::handle destination_class) {
        constexpr std::string_view what = "unregister_move_operation";
        const CarrierClass source = to_carrier_class(source_class, what, "source_class");
        return operation_class_of(unregister_move_operation(
            source, to_carrier_class(destination_class, what, "destination_class")));
      },
      "source_class"_a.none(), "destination_class"_a.none(),
      R"(Takes the route of the exact pair away and returns its class; KeyError.

>>> from orlop import CPU, Generic
>>> from orlop.carriers.move import unregister_move_operation
>>> unregister_move_operation(Generic, CPU)
Traceback (most recent call last):
    ...
KeyError: '[unregister_move_operation] no move operation is registered for (Generic, CPU); ...)");
  module.def(
      "dispatch_move",
      [](nb::handle source_class, nb::handle destination_class) {
        constexpr std::string_view what = "dispatch_move";
        const CarrierClass source = to_carrier_class(source_class, what, "source_class");
        return operation_class_of(
            dispatch_move(source, to_carrier_class(destination_class, what, "destination_class")));
      },
      "source_class"_a.none(), "destination_class"_a.none(),
      R"(The class that moves the exact pair: its entry, or the elementwise one. TypeError for what is no
Carrier class.

>>> from orlop import CPU, FileBacked, Generic
>>> from orlop.carriers.move import dispatch_move
>>> dispatch_move(CPU, FileBacked).__name__, dispatch_move(CPU, Generic).__name__
('CpuToFileBackedMoveOperation', 'ElementwiseMoveOperation'))");
}

}  // namespace

void bind_movement(nb::module_& module) {
  bind_move_classes(module);
  bind_moves(module);
  bind_registry(module);
  at_exit(&orlop::detail::forget_python_routes);
}

}  // namespace orlop::bindings
