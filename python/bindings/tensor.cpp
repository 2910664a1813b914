// The Python face of Tensor: placement, properties, operators and the protocols of Python values.
#include "tensor.hpp"

#include <array>

#include "carrier.hpp"
#include "carrier_class.hpp"
#include "keys.hpp"
#include "layout.hpp"
#include "operation.hpp"
#include "orlop/operation/functional.hpp"
#include "representation.hpp"

namespace orlop::bindings {

TensorObject* try_tensor(nb::handle value) {
  // Exact type first: this is on the path of every call.
  static PyObject* const type = nb::type<TensorObject>().ptr();
  PyObject* object = value.ptr();
  if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != type && !nb::isinstance<TensorObject>(value))
    return nullptr;
  return nb::inst_ready(value) ? nb::inst_ptr<TensorObject>(value) : nullptr;
}

Tensor to_tensor(nb::handle value, std::string_view what, std::string_view name) {
  if (TensorObject* tensor = try_tensor(value)) return handle_of(*tensor);
  raise<TypeError>(what, name, " must be a Tensor: got ", python_type_name(value));
}

Argument python_argument(nb::handle value) {
  return Argument::of(PythonValue{nb::borrow(value)}, python_type_name(value));
}

Argument to_argument(nb::handle value) {
  if (TensorObject* tensor = try_tensor(value)) return Argument(handle_of(*tensor));
  if (const auto scalar = try_scalar(value)) return Argument(*scalar);
  if (nb::isinstance<Shape>(value)) return Argument::of(nb::cast<Shape>(value));
  if (nb::isinstance<Stride>(value)) return Argument::of(nb::cast<Stride>(value));
  if (is_tree(value)) return Argument::of(to_tree(value, "operation", "an argument"));
  // A str that is no text stays the object it is.
  if (PyUnicode_Check(value.ptr()))
    return is_text(value) ? Argument::of(to_text(value), "str") : python_argument(value);
  if (nb::isinstance<Carrier>(value))
    return Argument::of(nb::cast<Ref<Carrier>>(value), python_type_name(value));
  if (value.is_none()) return Argument::of(nullptr, "None");
  if (auto list = try_index_list(value)) return std::move(*list);
  if (auto lists = try_nested_index_list(value)) return std::move(*lists);
  if (PyIndex_Check(value.ptr()) && !PyBool_Check(value.ptr()))
    return Argument(Scalar(to_index<ValueError>(value, "operation", "an argument")));
  return python_argument(value);
}

nb::object from_argument(const Argument& argument) {
  if (const Tensor* tensor = argument.tensor()) return nb::cast(*tensor);
  if (const Scalar* scalar = argument.scalar()) return from_scalar(*scalar);
  if (const auto* value = argument.get<PythonValue>()) return value->value;
  if (const auto* shape = argument.get<Shape>()) return nb::cast(*shape);
  if (const auto* stride = argument.get<Stride>()) return nb::cast(*stride);
  if (const auto* tree = argument.get<Tree>()) return from_tree(*tree);
  if (const auto* words = argument.get<std::string>()) return nb::cast(*words);
  if (const auto* carrier = argument.get<Ref<Carrier>>()) return nb::cast(*carrier);
  if (const auto* keys = argument.get<SliceKeys>()) return from_slice_keys(*keys);
  if (const auto* integers = argument.get<std::vector<Index>>()) return nb::tuple(nb::cast(*integers));
  if (const auto* lists = argument.get<std::vector<std::vector<Index>>>()) return nb::tuple(nb::cast(*lists));
  if (const auto* dtype = argument.get<const DType*>())
    return *dtype == nullptr ? nb::none() : from_dtype(**dtype);
  return nb::none();
}

namespace {

void construct(nb::pointer_and_handle<TensorObject> self, nb::handle carrier, nb::handle offset,
               nb::handle layout) {
  if (!nb::isinstance<Carrier>(carrier))
    raise<TypeError>("Tensor", "carrier must be a Carrier: got ", python_type_name(carrier),
                     "; friendly.tensor makes a Tensor of values");
  const auto storage = nb::cast<Ref<Carrier>>(carrier);
  storage->require_live();
  const Index slot = to_index<ValueError>(offset, "Tensor", "offset");
  if (slot < 0) raise<ValueError>("Tensor", "Tensor offset must be non-negative: got ", slot);
  if (!nb::isinstance<Layout>(layout))
    raise<TypeError>("Tensor", "placement must be a Layout: got ", python_type_name(layout),
                     "; friendly.column_major(2, 3) makes a compact one");
  const Tensor checked(storage, slot, nb::cast<Layout>(layout));
  static_cast<void>(carrier_class_of_type(carrier.type()));
  new (self.p) TensorObject(checked.carrier(), checked.offset(), checked.layout());
}

// --- Operators (M405)

/// NumPy's bool, a scalar like its others, though no numbers.Real.
bool is_numpy_bool(nb::handle value) {
  const std::string type = python_type_name(value);
  return (type == "numpy.bool" || type == "bool_") && nb::hasattr(value, "__array_interface__");
}

/// An operand of an operator, or nothing where it is neither Tensor nor real number.
std::optional<Argument> operand(nb::handle value) {
  if (TensorObject* tensor = try_tensor(value)) return Argument(handle_of(*tensor));
  if (const auto scalar = try_scalar(value)) return Argument(*scalar);
  if (is_numpy_bool(value)) return Argument(Scalar(nb::cast<bool>(nb::bool_(value))));
  return std::nullopt;
}

Argument require_operand(nb::handle value, const char* symbol) {
  if (auto argument = operand(value)) return std::move(*argument);
  if (nb::hasattr(value, "__array_interface__"))
    raise<TypeError>(symbol, "the other operand must be a Tensor or a real number: got an array, ",
                     python_type_name(value), "; bring it in with orlop.from_dlpack or friendly.tensor");
  raise<TypeError>(symbol, "the other operand must be a Tensor or a real number: got ",
                   python_type_name(value));
}

using BinaryFunction = Tensor (*)(Argument, Argument);

template <BinaryFunction function>
void bind_operator(nb::class_<TensorObject>& bound, const char* name, const char* reflected,
                   const char* symbol) {
  bound.def(
      name,
      [symbol](TensorObject& self, nb::handle other) {
        return function(Argument(handle_of(self)), require_operand(other, symbol));
      },
      "other"_a.none());
  if (reflected == nullptr) return;
  bound.def(
      reflected,
      [symbol](TensorObject& self, nb::handle other) {
        return function(require_operand(other, symbol), Argument(handle_of(self)));
      },
      "other"_a.none());
}

/// `==` and `!=` with anything else are Python's own.
template <BinaryFunction function>
void bind_equality(nb::class_<TensorObject>& bound, const char* name) {
  bound.def(
      name,
      [](TensorObject& self, nb::handle other) -> nb::object {
        auto argument = operand(other);
        if (!argument) return nb::borrow(Py_NotImplemented);
        return nb::cast(function(Argument(handle_of(self)), std::move(*argument)));
      },
      "other"_a.none(), nb::sig(text("def ", name, "(self, other: object) -> Any").c_str()));
}

Tensor matrix_product(TensorObject& self, nb::handle other) {
  return matmul(handle_of(self), to_tensor(other, "@", "the other operand"));
}

// --- Conversions

Scalar single_element(TensorObject& self, const char* what) {
  const Tensor tensor = handle_of(self);
  tensor.require_single_subtensor("indexing");
  if (tensor.size() != 1)
    raise<ValueError>(what, "only a Tensor of exactly one element converts to a number: it has ",
                      tensor.size());
  return tensor.carrier()->at(tensor.offset());
}

/// Of one element as its number, `f"{loss:.3f}"`.
nb::object format(nb::handle self, nb::handle specification) {
  const nb::str as_shown(self);
  if (!PyUnicode_Check(specification.ptr()) || PyUnicode_GetLength(specification.ptr()) == 0) return as_shown;
  auto& tensor = nb::cast<TensorObject&>(self);
  if (handle_of(tensor).size() != 1)
    raise<TypeError>("format", "only a Tensor of exactly one element takes a format: it has ",
                     handle_of(tensor).size(), "; format the numbers of friendly.to_list");
  nb::object formatted =
      nb::steal(PyObject_Format(from_scalar(single_element(tensor, "format")).ptr(), specification.ptr()));
  if (!formatted.is_valid()) throw_python_error();
  return formatted;
}

nb::list implicit_values(TensorObject& self) {
  const Tensor tensor = handle_of(self);
  if (tensor.layout().rank() > 1)
    raise<TypeError>("Tensor", "a Tensor of ", tensor.layout().rank(),
                     " modes is not iterated implicitly; index it, or "
                     "use friendly.to_list");
  nb::list values;
  for (Index i = 0; i < tensor.size(); ++i) values.append(from_scalar(tensor.at(Coordinate(i))));
  return values;
}

void bind_properties(nb::class_<TensorObject>& tensor) {
  tensor
      .def("__init__", &construct, "carrier"_a = nb::none(), "offset"_a = nb::none(), "layout"_a = nb::none(),
           nb::sig("def __init__(self, carrier: Carrier, offset: int, layout: orlop.layout.Layout) -> None"))
      .def_prop_ro(
          "carrier", [](TensorObject& self) { return handle_of(self).carrier(); }, "The storage of plane 0.")
      .def_prop_ro(
          "offset", [](TensorObject& self) { return handle_of(self).offset(); }, "The slot of index 0.")
      .def_prop_ro(
          "layout", [](TensorObject& self) { return handle_of(self).layout(); }, "Where elements lie.")
      .def_prop_ro(
          "version", [](TensorObject& self) { return handle_of(self).version(); }, "The carrier's version.")
      .def_prop_ro(
          "shape", [](TensorObject& self) { return shape_tuple(handle_of(self).layout().shape()); },
          "The extents as nested tuples.")
      .def_prop_ro(
          "ndim", [](TensorObject& self) { return handle_of(self).layout().rank(); }, "Top-level modes.")
      .def(
          "dtype", [](TensorObject& self) { return from_dtype(handle_of(self).dtype()); },
          nb::sig("def dtype(self) -> DType"), R"(The logical dtype.

>>> orlop.friendly.ones(2).dtype()
SimpleDType('Float32'))")
      .def(
          "size", [](TensorObject& self) { return handle_of(self).size(); }, R"(Number of logical elements.

>>> orlop.friendly.ones(2, 3).size()
6)")
      .def(
          "carrier_type",
          [](TensorObject& self) { return nb::borrow(nb::cast(handle_of(self).carrier()).type()); },
          R"(The exact class of the carrier.

>>> orlop.friendly.ones(2).carrier_type().__name__
'CPU')")
      .def(
          "is_mutable", [](TensorObject& self) { return handle_of(self).is_mutable(); },
          R"(Whether elements may be written.

>>> from orlop import CPU, Tensor, friendly
>>> Tensor(CPU(2, mutable=False), 0, friendly.column_major(2)).is_mutable()
False)")
      .def(
          "is_differentiable", [](TensorObject& self) { return handle_of(self).is_differentiable(); },
          R"(Logical dtype Float32 or Floating.

>>> from orlop import DType, friendly
>>> friendly.ones(2).is_differentiable(), friendly.ones(2, dtype=DType.Int32).is_differentiable()
(True, False))");
}

void bind_items(nb::class_<TensorObject>& tensor) {
  tensor
      .def(
          "__getitem__",
          [](TensorObject& self, nb::handle key) { return tensor_getitem(handle_of(self), key); },
          "key"_a.none(), nb::sig("def __getitem__(self, key: object) -> Any"))
      .def(
          "__setitem__",
          [](TensorObject& self, nb::handle key, nb::handle value) {
            tensor_setitem(handle_of(self), key, value);
          },
          "key"_a.none(), "value"_a.none())
      .def("__hash__",
           [](TensorObject& self) { return static_cast<Py_hash_t>(std::hash<const void*>()(&self)); });
}

void bind_arithmetic(nb::class_<TensorObject>& tensor) {
  tensor.def("__neg__", [](TensorObject& self) { return neg(handle_of(self)); })
      .def("__abs__", [](TensorObject& self) { return abs(handle_of(self)); })
      .def("__matmul__", &matrix_product, "other"_a.none())
      .def(
          "__rmatmul__",
          [](TensorObject& self, nb::handle other) {
            return matmul(to_tensor(other, "@", "the other operand"), handle_of(self));
          },
          "other"_a.none());
  tensor.attr("__array_ufunc__") = nb::none();
  bind_operator<&add>(tensor, "__add__", "__radd__", "+");
  bind_operator<&sub>(tensor, "__sub__", "__rsub__", "-");
  bind_operator<&mul>(tensor, "__mul__", "__rmul__", "*");
  bind_operator<&div>(tensor, "__truediv__", "__rtruediv__", "/");
  bind_operator<&lt>(tensor, "__lt__", nullptr, "<");
  bind_operator<&le>(tensor, "__le__", nullptr, "<=");
  bind_operator<&gt>(tensor, "__gt__", nullptr, ">");
  bind_operator<&ge>(tensor, "__ge__", nullptr, ">=");
  bind_equality<&eq>(tensor, "__eq__");
  bind_equality<&ne>(tensor, "__ne__");
  tensor
      .def(
          "__pow__",
          [](TensorObject& self, nb::handle exponent, nb::handle modulus) {
            if (!modulus.is_none())
              raise<TypeError>("**", "a modulus is not supported: got ", python_type_name(modulus),
                               "; leave it out");
            return pow(Argument(handle_of(self)), require_operand(exponent, "**"));
          },
          "exponent"_a.none(), "modulus"_a = nb::none())
      .def(
          "__rpow__",
          [](TensorObject& self, nb::handle base, nb::handle) {
            return pow(require_operand(base, "**"), Argument(handle_of(self)));
          },
          "base"_a.none(), "modulus"_a = nb::none());
}

/// What Python's own functions ask of a value: len, float, int, bool, iter, format, repr, copy and pickle.
void bind_protocols(nb::class_<TensorObject>& tensor) {
  tensor
      .def("__len__",
           [](TensorObject& self) {
             const Layout& layout = handle_of(self).layout();
             if (layout.rank() == 0)
               raise<TypeError>("Tensor", "a Tensor of rank zero has no length; its size is 1");
             return layout.shape().mode(0).size();
           })
      .def("__float__", [](TensorObject& self) { return single_element(self, "float").to_binary64(); })
      .def("__int__",
           [](TensorObject& self) {
             return nb::steal(PyNumber_Long(from_scalar(single_element(self, "int")).ptr()));
           })
      .def("__bool__", [](TensorObject& self) { return single_element(self, "bool").to_binary64() != 0.0; })
      .def("__iter__", [](TensorObject& self) { return nb::iter(implicit_values(self)); })
      .def("__reversed__",
           [](TensorObject& self) {
             nb::list values = implicit_values(self);
             if (PyList_Reverse(values.ptr()) != 0) throw_python_error();
             return nb::iter(values);
           })
      .def("__format__", &format, "format_spec"_a, nb::sig("def __format__(self, format_spec: str) -> str"))
      .def("__repr__", [](TensorObject& self) { return handle_of(self).to_string(); })
      .def(
          "_require_single_subtensor",
          [](TensorObject& self, const std::string& reason) {
            handle_of(self).require_single_subtensor(reason);
          },
          "reason"_a)
      .def("_version_token", [](TensorObject& self) { return token_tuple(handle_of(self).version_token()); });
  for (const char* name : {"__reduce_ex__", "__copy__", "__deepcopy__"})
    tensor.def(name, [](TensorObject&, const nb::args&) {
      raise<TypeError>("Tensor",
                       "a Tensor is not copied or pickled implicitly; use friendly.to_list or DLPack");
    });
}

}  // namespace

void bind_tensor(nb::module_& module) {
  nb::class_<TensorObject> tensor(module, "Tensor", counted<TensorObject>(), nb::type_slots(tensor_slots()),
                                  nb::is_weak_referenceable(),
                                  R"(Tensor(carrier, offset, layout)

A layout placed on a carrier from slot `offset` (M401). TypeError for other types, RuntimeError for a released
carrier, ValueError for a negative offset or where the layout reaches beyond the carrier.

>>> from orlop import CPU, Layout, Shape, Stride, Tensor
>>> carrier = CPU(0).new_like([1, 2, 3, 4, 5, 6])
>>> tensor = Tensor(carrier, 1, Layout(Shape(2, 2), Stride(1, 2)))
>>> tensor[0, 1], tensor[3], tensor[1, :].shape
(4.0, 5.0, (2,))
>>> Tensor(carrier, 3, Layout(Shape(2, 2), Stride(1, 2)))
Traceback (most recent call last):
    ...
ValueError: [Tensor] Tensor storage exceeds carrier size: offset 3 plus span 4; the carrier has 6 slots)");
  bind_properties(tensor);
  bind_items(tensor);
  bind_arithmetic(tensor);
  bind_protocols(tensor);
  bind_tensor_exchange(tensor);
  bind_autograd(module, tensor);
  bind_representation(module, tensor);
}

}  // namespace orlop::bindings
