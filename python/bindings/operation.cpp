// The Python face of Operation, and the trampoline behind operations written in Python.
#include "operation.hpp"

#include <nanobind/trampoline.h>

#include "carrier.hpp"
#include "carrier_class.hpp"
#include "orlop/operation/table_operation.hpp"
#include "plans.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

namespace {

nb::handle operation_type() { return nb::type<Operation>(); }

/// Calls `_forward` and `backward` of the Python class.
class PythonOperation final : public Operation {
 public:
  Gradients backward(const Tensor& gradient) override {
    const InterpreterLock lock;
    if (!overrides("backward")) return Operation::backward(gradient);
    return call_python_backward(*this, gradient);
  }

  [[nodiscard]] std::string implementation_name() const override {
    const InterpreterLock lock;
    return to_text(self().type().attr("__name__"));
  }

 protected:
  Tensor forward_impl(std::span<const Argument> inputs) override {
    const InterpreterLock lock;
    if (!overrides("_forward"))
      raise<TypeError>(implementation_name(),
                       "the class implements no _forward, which an Operation needs; override it");
    return call_python_forward(self(), inputs);
  }

 private:
  [[nodiscard]] nb::handle self() const { return python_object(); }
  [[nodiscard]] bool overrides(const char* name) const {
    return !nb::object(self().type().attr(name)).is(nb::object(operation_type().attr(name)));
  }
};

bool is_python(const Operation& operation) {
  return dynamic_cast<const PythonOperation*>(&operation) != nullptr;
}

/// The validated `options` of a call, or null: the one keyword that forward takes (P42).
const OperationExecutionOptions* keyword_options(const nb::kwargs& kwargs, std::string_view what) {
  const OperationExecutionOptions* options = nullptr;
  for (const auto& [key, value] : kwargs) {
    const auto word = to_text(key);
    if (word != "options")
      raise<TypeError>(what, "unexpected keyword argument '", word, "'; only options is allowed");
    options = to_options(value, what);
  }
  return options;
}

std::string call_name(const Operation& operation) {
  return operation.is_dispatched() ? operation.operation_name() : operation.implementation_name();
}

// The Operation whose method was called: a subclass may have forgotten the constructor of the base.
Operation& to_self(nb::handle self) {
  if (auto* operation = try_native<Operation>(self)) return *operation;
  raise<TypeError>("Operation", "self must be an Operation: got ", python_type_name(self));
}

Tensor forward(nb::handle object, const nb::args& args, const nb::kwargs& kwargs) {
  Operation& self = to_self(object);
  const auto* options = keyword_options(kwargs, call_name(self));
  return self.forward(to_arguments(self, args), options);
}

Tensor execute_lowered(nb::handle object, const nb::args& args, const nb::kwargs& kwargs) {
  Operation& self = to_self(object);
  const auto* options = keyword_options(kwargs, call_name(self));
  return self.execute_lowered(to_arguments(self, args), options);
}

// The instance's dict lives in the C++ context under this key.
constexpr const char* context_key = "python";

nb::dict context(nb::handle self) {
  auto& ctx = to_self(self).ctx();
  auto found = ctx.find(context_key);
  if (found == ctx.end()) found = ctx.emplace(context_key, PythonValue{nb::dict()}).first;
  return nb::borrow<nb::dict>(std::any_cast<PythonValue&>(found->second).value);
}

int traverse_operation(PyObject* self, visitproc visit, void* arg) {
  const auto base = reinterpret_cast<traverseproc>(collector_slots[0].pfunc);
  if (const int result = base(self, visit, arg); result != 0) return result;
  if (!nb::inst_ready(self)) return 0;
  if (const std::any* value = nb::inst_ptr<Operation>(self)->find_context(context_key))
    Py_VISIT(std::any_cast<const PythonValue&>(*value).value.ptr());
  return 0;
}

nb::tuple input_versions(const Operation& self) { return tuple_of(self.input_versions(), token_tuple); }

void store_inputs(nb::handle self, const nb::args& args) {
  std::vector<Tensor> tensors;
  for (nb::handle value : args)
    if (TensorObject* tensor = try_tensor(value)) tensors.emplace_back(Ref<TensorObject>(tensor));
  to_self(self).store_inputs(tensors);
}

}  // namespace

PyType_Slot operation_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_operation)},
                                 {Py_tp_clear, collector_slots[1].pfunc},
                                 {0, nullptr}};

Tensor call_python_forward(nb::handle operation, std::span<const Argument> inputs) {
  nb::list arguments;
  for (const Argument& input : inputs) arguments.append(from_argument(input));
  const nb::object result = operation.attr("_forward")(*nb::tuple(arguments));
  return to_tensor(result, python_type_name(operation), "the result of _forward");
}

Gradients call_python_backward(const Operation& operation, const Tensor& gradient) {
  const nb::handle self = operation.python_object();
  const std::string name = python_type_name(self);
  const nb::object result = self.attr("backward")(gradient);
  if (!PyTuple_Check(result.ptr()) && !PyList_Check(result.ptr()))
    raise<TypeError>(name, "backward must return a tuple with one Tensor or None per saved input: got ",
                     python_type_name(result));
  const auto& inputs = operation.inputs();
  Gradients gradients;
  for (nb::handle entry : result) {
    const std::size_t i = gradients.size();
    if (entry.is_none() || (i < inputs.size() && !inputs[i].is_differentiable()))
      gradients.emplace_back();  // P85: whatever it is
    else
      gradients.emplace_back(to_tensor(entry, name, "a gradient"));
  }
  return gradients;
}

nb::tuple gradients_tuple(const Gradients& gradients) {
  return tuple_of(gradients,
                  [](const auto& gradient) { return gradient ? nb::cast(*gradient) : nb::none(); });
}

nb::tuple token_tuple(const VersionToken& token) {
  return tuple_of(token.entries(), [](const auto& entry) {
    return nb::make_tuple(reinterpret_cast<std::uintptr_t>(entry.first), entry.second);
  });
}

std::vector<Argument> to_arguments(const Operation& operation, nb::handle args) {
  const bool verbatim = is_python(operation);
  std::vector<Argument> arguments;
  arguments.reserve(nb::len(args));
  for (nb::handle value : args) {
    if (TensorObject* tensor = try_tensor(value))
      arguments.emplace_back(handle_of(*tensor));
    else if (verbatim)
      arguments.push_back(python_argument(value));
    else
      arguments.push_back(to_argument(value));
  }
  return arguments;
}

void bind_operation(nb::module_& module) {
  nb::class_<Operation, PythonOperation> operation(
      module, "Operation", counted<Operation>(), nb::type_slots(operation_slots), nb::is_weak_referenceable(),
      nb::dynamic_attr(), R"(One stateful invocation; subclass it with `_forward` and `backward`.

>>> from orlop import Operation, friendly
>>> class Triple(Operation):
...     def _forward(self, tensor):
...         return tensor * 3.0
...
...     def backward(self, gradient):
...         return (gradient * 3.0,)
>>> x, operation = friendly.ones(2), Triple()
>>> y = operation.forward(x)
>>> operation.inputs()[0] is x, len(operation.input_versions())
(True, 1)
>>> y.backward(friendly.ones(2))
>>> friendly.to_list(x.grad)
[3.0, 3.0])");
  operation.def(nb::init<>())
      .def("forward", &forward, "inputs"_a, "kwargs"_a,
           "Runs the operation on positional inputs; options= is the only keyword.")
      .def("_execute_lowered", &execute_lowered, "inputs"_a, "kwargs"_a, "forward without recording a node.")
      .def(
          "_forward",
          [](Operation& self, const nb::args&) {
            raise<TypeError>(call_name(self), "_forward is a hook; call forward");
          },
          "inputs"_a)
      .def(
          "backward",
          [](nb::handle object, nb::handle gradient) {
            Operation& self = to_self(object);
            if (is_python(self)) return gradients_tuple(self.Operation::backward(Tensor()));
            return gradients_tuple(self.backward(to_tensor(gradient, call_name(self), "gradient")));
          },
          "gradient"_a.none(), "One Tensor or None per saved input.")
      .def_prop_ro("ctx", &context, "The instance's own dict.")
      .def("store_inputs", &store_inputs, "inputs"_a,
           R"(Keeps the Tensors among the arguments with fresh version tokens.

>>> from orlop import Operation, friendly
>>> operation, x = Operation(), friendly.ones(2)
>>> operation.store_inputs(x, 3.0)
>>> operation.inputs() == (x,), len(operation.input_versions())
(True, 1))")
      .def(
          "inputs", [](nb::handle self) { return tuple_of(to_self(self).inputs()); }, "The kept Tensors.")
      .def("input_versions", &input_versions, "One version token per kept Tensor.")
      .def("validate_input_versions", &Operation::validate_input_versions,
           R"(RuntimeError when a kept Tensor was mutated since.

>>> from orlop import Operation, friendly
>>> operation, x = Operation(), friendly.ones(2)
>>> operation.store_inputs(x)
>>> operation.validate_input_versions()
>>> x[0] = 5
>>> operation.validate_input_versions()
Traceback (most recent call last):
    ...
RuntimeError: [Operation] saved input 0 was modified in-place since the forward call: its version ...)")
      .def("_release_autograd_state", &Operation::release_autograd_state)
      .def_prop_ro("_autograd_state_freed", &Operation::autograd_state_freed)
      .def_prop_ro("_operation_name",
                   [](const Operation& self) -> nb::object {
                     if (!self.is_dispatched()) return nb::none();
                     return nb::str(self.operation_name().c_str(), self.operation_name().size());
                   })
      .def_prop_ro("_dispatch_carrier_class",
                   [](const Operation& self) { return python_class(self.dispatch_carrier_class()); })
      .def_prop_ro("_execution_options", [](const Operation& self) -> nb::object {
        return self.execution_options() == nullptr ? nb::none() : nb::cast(*self.execution_options());
      });
  nb::class_<TableOperation, Operation>(module, "TableOperation", counted<TableOperation>(),
                                        nb::type_slots(operation_slots), nb::is_final(),
                                        "The one class of all built-in operations (P45).");
  module.def(
      "execute_lowered_operation",
      [](nb::handle operation, const nb::args& args, const nb::kwargs& kwargs) {
        return execute_lowered(operation, args, kwargs);
      },
      nb::sig("def execute_lowered_operation(operation: Operation, *inputs, **kwargs) -> Tensor"),
      "operation"_a, "inputs"_a, "kwargs"_a,
      R"(The base path of `_execute_lowered`, whatever a subclass shadows.

>>> from orlop import friendly
>>> from orlop.operation import execute_lowered_operation
>>> tensor = friendly.tensor([3, -2])
>>> friendly.to_list(execute_lowered_operation(tensor.carrier.dispatch_op("relu"), tensor))
[3.0, 0.0])");
  module.def(
      "table_operation",
      [](nb::handle name) {
        if (!PyUnicode_Check(name.ptr()))
          raise<TypeError>("table_operation", "name must be a str: got ", python_type_name(name));
        return table_operation(to_text(name));
      },
      "name"_a.none(),
      R"(A fresh undispatched built-in operation, for a carrier's `_dispatch_op`. NotImplementedError for another
name.

>>> from orlop import friendly
>>> from orlop.operation import table_operation
>>> friendly.to_list(table_operation("relu").forward(friendly.tensor([3, -2])))
[3.0, 0.0])");
}

}  // namespace orlop::bindings
