// The Python face of the friendly functions: extents as arguments, nested lists and arrays as values.
#include "orlop/interop/friendly.hpp"

#include <cstring>

#include "carrier.hpp"
#include "layout.hpp"
#include "orlop/storage/normalize.hpp"
#include "packing.hpp"
#include "tensor.hpp"

namespace orlop::bindings {

namespace {

constexpr std::size_t max_nesting = 64;

SmallVector<Index, 8> to_extents(const nb::args& args) {
  SmallVector<Index, 8> extents;
  for (nb::handle extent : args) {
    if (PyBool_Check(extent.ptr()) || PyIndex_Check(extent.ptr()) == 0)
      raise<ValueError>("friendly", "extents must be positive integers: got ", python_type_name(extent),
                        "; give one argument for each mode, as in zeros(2, 3)");
    extents.push_back(to_index(extent, "friendly", "an extent"));
  }
  return extents;
}

const DType& to_factory_dtype(nb::handle dtype) {
  return dtype.is_none() ? dtypes::Float32 : to_dtype(dtype, "CPU");
}

/// The Tensor behind `value`; anything else raises AttributeError at its first missing attribute (M604).
Tensor to_tensor_like(nb::handle value, std::initializer_list<const char*> attributes) {
  if (TensorObject* tensor = try_tensor(value)) return handle_of(*tensor);
  for (const char* name : attributes) static_cast<void>(nb::object(value.attr(name)));
  return to_tensor(value, "friendly", "tensor");
}

// --- Values

/// Nested lists and tuples, read once into row-major slots.
class NestedValues {
 public:
  NestedValues(nb::handle values, const DType& dtype) : dtype_(dtype) {
    measure(values);
    Index size = 1;
    for (const Index extent : extents_) size = checked_size(size, extent);
    slots_.resize(slots_to_bytes(dtype, size));
    next_ = slots_.data();
    read(values, 0);
  }
  [[nodiscard]] Tensor tensor() const {
    return orlop::detail::cpu_tensor(slots_.data(), friendly::row_major(extents_),
                                     friendly::column_major(extents_), dtype_);
  }

 private:
  static bool is_level(nb::handle value) { return PyList_Check(value.ptr()) || PyTuple_Check(value.ptr()); }
  /// The type, and of an array what its elements are.
  static std::string description(nb::handle values) {
    const std::string type = python_type_name(values);
    if (is_level(values)) return text("an empty ", type);
    if (!nb::hasattr(values, "dtype") || !nb::hasattr(values, "astype")) return type;
    const auto dtype = to_text(nb::str(nb::object(values.attr("dtype"))));
    const bool is_alone = dtype == "float32" || dtype == "int32" || dtype == "bool";
    return text(
        type, " of ", dtype,
        is_alone ? " and no mode; put it in a list" : "; convert it first, as in values.astype(\"float32\")");
  }
  // The entries of the list itself, whatever a subclass says of them.
  static Py_ssize_t length(nb::handle level) {
    return PyList_Check(level.ptr()) ? PyList_GET_SIZE(level.ptr()) : PyTuple_GET_SIZE(level.ptr());
  }
  static nb::handle entry(nb::handle level, Py_ssize_t i) {
    return PyList_Check(level.ptr()) ? PyList_GET_ITEM(level.ptr(), i) : PyTuple_GET_ITEM(level.ptr(), i);
  }
  static Index checked_size(Index size, Index extent) {
    Index result = 0;
    if (__builtin_mul_overflow(size, extent, &result))
      raise<OverflowError>("friendly", "too many values: ", size, " * ", extent, " leave 64 bits");
    return result;
  }
  /// Follows the first entries down to the extents.
  void measure(nb::handle values) {
    if (!is_level(values) || length(values) == 0)
      raise<ValueError>("friendly",
                        "values must be a non-empty list or tuple, or a native float32, int32 or bool "
                        "buffer: got ",
                        description(values));
    for (nb::handle level = values; is_level(level);) {
      const Py_ssize_t extent = length(level);
      if (extent == 0)
        raise<ValueError>("friendly", "values must not have empty levels: one at depth ", extents_.size(),
                          " is; a Tensor has 1 or more elements");
      if (extents_.size() == max_nesting)
        raise<ValueError>("friendly", "values are nested too deep: more than ", max_nesting, " levels");
      extents_.push_back(extent);
      level = entry(level, 0);
    }
  }
  void read(nb::handle values, std::size_t depth) {
    const bool is_inner = depth < extents_.size();
    if (is_level(values) != is_inner || (is_inner && length(values) != extents_[depth]))
      raise<ValueError>("friendly", "values must be rectangular: a level or a length differs at depth ",
                        depth);
    if (!is_inner) {
      const std::vector<std::byte> slot = pack_values(nb::make_tuple(values), dtype_, false, "friendly");
      std::memcpy(next_, slot.data(), slot.size());
      next_ += slot.size();
      return;
    }
    if (depth + 1 == extents_.size()) {
      for (Py_ssize_t i = 0; i < extents_[depth]; ++i)
        if (is_level(entry(values, i)))
          raise<ValueError>("friendly", "values must be rectangular: a level differs at depth ", depth + 1);
      const std::vector<std::byte> row = pack_values(values, dtype_, false, "friendly");
      if (static_cast<Index>(row.size()) != extents_[depth] * dtype_.slot_bytes())
        raise<ValueError>("friendly", "values must be rectangular: a length changed while it was read");
      std::memcpy(next_, row.data(), row.size());
      next_ += row.size();
      return;
    }
    for (Py_ssize_t i = 0; i < extents_[depth]; ++i) {
      if (i >= length(values))
        raise<ValueError>("friendly", "values must be rectangular: a length changed while it was read");
      read(nb::borrow(entry(values, i)), depth + 1);
    }
  }

  const DType& dtype_;
  SmallVector<Index, 8> extents_;
  std::vector<std::byte> slots_;
  std::byte* next_ = nullptr;
};

/// A native buffer of exactly the slots of `dtype`, any number of dimensions and strides; nothing where it is
/// another.
std::optional<Tensor> tensor_from_buffer(nb::handle values, const DType& dtype) {
  NativeBuffer buffer(values);
  const auto storage = buffer.storage_type();
  if (storage == StorageType::other || buffer.view().ndim == 0) return std::nullopt;
  const Py_buffer& view = buffer.view();
  if (storage != dtype.storage_type()) {
    // Another native dtype counts as the nested list of its items, with its conversions and refusals.
    const nb::object memory = nb::steal(PyMemoryView_FromObject(values.ptr()));
    if (!memory.is_valid()) throw_python_error();
    return NestedValues(memory.attr("tolist")(), dtype).tensor();
  }
  SmallVector<Index, 8> extents, strides;
  const std::byte* first = static_cast<const std::byte*>(view.buf);
  bool is_plain = true;
  for (int i = 0; i < view.ndim; ++i) {
    extents.push_back(view.shape[i]);
    if (view.shape[i] == 0)
      raise<ValueError>("friendly", "values must not have empty levels: an extent is 0");
    is_plain = is_plain && view.strides[i] >= 0 && view.strides[i] % view.itemsize == 0;
    strides.push_back(view.strides[i] / view.itemsize);
  }
  if (!is_plain) return NestedValues(nb::object(nb::handle(values).attr("tolist")()), dtype).tensor();
  const Layout source(Shape::flat(extents), Stride::flat(strides));
  return orlop::detail::cpu_tensor(first, source, friendly::column_major(extents), dtype);
}

Tensor make_tensor(nb::handle values, nb::handle layout, nb::handle dtype) {
  if (layout.is_none()) {
    const DType& stored = to_factory_dtype(dtype);
    static_cast<void>(
        friendly::zeros(std::array<Index, 1>{1}, stored));  // refuses a dtype that CPU does not store
    if (PyObject_CheckBuffer(values.ptr()) != 0)
      if (auto tensor = tensor_from_buffer(values, stored)) return std::move(*tensor);
    return NestedValues(values, stored).tensor();
  }
  const Layout& placement = to_layout(layout, "friendly", "layout");
  // Whoever only iterates is consumed once, and counted before a value is looked at.
  const nb::object listed = PyObject_CheckBuffer(values.ptr()) != 0
                                ? nb::borrow(values)
                                : nb::steal(PySequence_List(to_iterator(values, "friendly", "values").ptr()));
  if (!listed.is_valid()) throw_python_error();
  const Py_ssize_t count = PyObject_Length(listed.ptr());
  if (count < 0) throw_python_error();
  if (count != placement.size())
    raise<ValueError>("friendly", "the number of values must be the layout logical size ", placement.size(),
                      ": got ", count);
  const DType& stored = to_factory_dtype(dtype);
  static_cast<void>(friendly::zeros(std::array<Index, 1>{1}, stored));
  const std::vector<std::byte> slots = pack_values(listed, stored, false, "friendly");
  if (static_cast<Index>(slots.size()) != count * stored.slot_bytes())
    raise<ValueError>("friendly", "the number of values changed while they were read; leave them alone");
  return orlop::detail::cpu_tensor(slots.data(), Layout::canonical(placement.shape()), placement, stored);
}

template <class T, class Make>
nb::list list_of(const std::vector<std::byte>& slots, Make make) {
  const std::size_t count = slots.size() / sizeof(T);
  nb::object list = nb::steal(PyList_New(static_cast<Py_ssize_t>(count)));
  if (!list.is_valid()) throw_python_error();
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, slots.data() + i * sizeof(T), sizeof(T));
    PyObject* const item = make(value);
    if (item == nullptr) throw_python_error();
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), item);
  }
  return nb::borrow<nb::list>(list);
}

nb::list to_list(nb::handle value) {
  const Tensor tensor = to_tensor_like(value, {"layout"});
  tensor.require_single_subtensor("indexing");
  switch (tensor.carrier()->dtype().storage_type()) {
    case StorageType::float32:
      return list_of<float>(orlop::detail::dense_slots(tensor),
                            [](float x) { return PyFloat_FromDouble(x); });
    case StorageType::int32:
      return list_of<std::int32_t>(orlop::detail::dense_slots(tensor),
                                   [](std::int32_t x) { return PyLong_FromLong(x); });
    case StorageType::bool8:
      return list_of<std::uint8_t>(orlop::detail::dense_slots(tensor),
                                   [](std::uint8_t x) { return PyBool_FromLong(x); });
    case StorageType::other:
      break;
  }
  nb::list values;
  for (Index i = 0; i < tensor.size(); ++i)
    values.append(carrier_item(*tensor.carrier(), tensor.offset() + tensor.layout().index_ordinal(i)));
  return values;
}

void bind_layouts(nb::module_& module) {
  module.def(
      "column_major", [](const nb::args& extents) { return friendly::column_major(to_extents(extents)); },
      nb::sig("def column_major(*extents: int) -> Layout"), "extents"_a,
      R"(Compact strides, first mode fastest: column_major(3, 2, 5) has strides (1, 3, 6).
ValueError unless there are extents, all positive integers (M601).

>>> from orlop import friendly
>>> friendly.column_major(3, 2, 5)
Layout( Shape<(3, 2, 5)>, Stride<(1, 3, 6)>))");
  module.def(
      "row_major", [](const nb::args& extents) { return friendly::row_major(to_extents(extents)); },
      nb::sig("def row_major(*extents: int) -> Layout"), "extents"_a,
      R"(Compact strides, last mode fastest: row_major(3, 2, 5) has strides (10, 5, 1).
ValueError unless there are extents, all positive integers (M601).

>>> from orlop import friendly
>>> friendly.row_major(3, 2, 5)
Layout( Shape<(3, 2, 5)>, Stride<(10, 5, 1)>))");
}

void bind_factories(nb::module_& module) {
  module.def(
      "full",
      [](const nb::args& extents, nb::handle value, nb::handle dtype) {
        const DType& stored = to_factory_dtype(dtype);
        const Layout layout = friendly::column_major(to_extents(extents));
        const Tensor one = friendly::zeros(std::array<Index, 1>{1}, stored);
        set_carrier_item(*one.carrier(), 0, value);
        return friendly::full(layout.extents(), one.carrier()->at(0), stored);
      },
      nb::sig("def full(*extents: int, value: float, dtype: DType | None = None) -> Tensor"), "extents"_a,
      nb::kw_only(), "value"_a.none(), "dtype"_a = nb::none(),
      R"(A CPU Tensor, first mode fastest, every element `value`; dtype is Float32, the default, Int32 or Bool (M601).
ValueError for extents that are no positive integers or another dtype; TypeError, OverflowError for the value.

>>> from orlop import friendly
>>> friendly.to_list(friendly.full(2, value=0.5))
[0.5, 0.5])");
  module.def(
      "zeros",
      [](const nb::args& extents, nb::handle dtype) {
        return friendly::zeros(to_extents(extents), to_factory_dtype(dtype));
      },
      nb::sig("def zeros(*extents: int, dtype: DType | None = None) -> Tensor"), "extents"_a, nb::kw_only(),
      "dtype"_a = nb::none(), R"(A CPU Tensor of zeros; extents, dtype and errors as in full.

>>> from orlop import DType, friendly
>>> friendly.to_list(friendly.zeros(2, dtype=DType.Bool))
[False, False])");
  module.def(
      "ones",
      [](const nb::args& extents, nb::handle dtype) {
        return friendly::ones(to_extents(extents), to_factory_dtype(dtype));
      },
      nb::sig("def ones(*extents: int, dtype: DType | None = None) -> Tensor"), "extents"_a, nb::kw_only(),
      "dtype"_a = nb::none(), R"(A CPU Tensor of ones: 1.0, 1 or True; extents, dtype and errors as in full.

>>> from orlop import friendly
>>> friendly.ones(2, 3).shape
(2, 3)
>>> friendly.ones((2, 3))
Traceback (most recent call last):
    ...
ValueError: [friendly] extents must be positive integers: got tuple; give one argument for each ...)");
  module.def(
      "arange",
      [](nb::handle count, nb::handle dtype) {
        nb::list extents;
        extents.append(count);
        return friendly::arange(to_extents(nb::borrow<nb::args>(nb::tuple(extents)))[0],
                                to_factory_dtype(dtype));
      },
      nb::sig("def arange(count: int, *, dtype: DType | None = None) -> Tensor"), "count"_a.none(),
      nb::kw_only(), "dtype"_a = nb::none(),
      R"(A CPU Tensor of one mode, 0 to count - 1, in Float32, the default, or Int32. TypeError for Bool; ValueError for a
count that is no positive integer.

>>> from orlop import DType, friendly
>>> friendly.to_list(friendly.arange(3, dtype=DType.Int32))
[0, 1, 2])");
  module.def(
      "tensor", &make_tensor,
      nb::sig("def tensor(values: object, *, layout: Layout | None = None, dtype: DType | None = None) -> "
              "Tensor"),
      "values"_a.none(), nb::kw_only(), "layout"_a = nb::none(), "dtype"_a = nb::none(),
      R"(A CPU Tensor of nested lists or a native buffer, values[i][j] at [i, j]; or, with a layout, of an iterable by
ordinal, one value for each. dtype is Float32, the default, Int32 or Bool (M602).
ValueError for values that are no rectangle, for another number of them or another dtype; TypeError for a value that is
no number, or that an Int32 slot would round; OverflowError for one that leaves Int32.

>>> from orlop import friendly
>>> friendly.tensor([[1, 2, 3], [4, 5, 6]])[1, 0]
4.0
>>> friendly.tensor(range(4), layout=friendly.row_major(2, 2))[1]
1.0
>>> friendly.tensor([[1, 2], [3]])
Traceback (most recent call last):
    ...
ValueError: [friendly] values must be rectangular: a level or a length differs at depth 1)");
}

void bind_values(nb::module_& module) {
  module.def(
      "sum", [](nb::handle tensor) { return friendly::sum(to_tensor_like(tensor, {"layout"})); },
      nb::sig("def sum(tensor: Tensor) -> Tensor"), "tensor"_a.none(),
      R"(The sum of all elements, of shape (1), where the Tensor is. ValueError for nested modes or more than 26 (M603).

>>> from orlop import friendly
>>> total = friendly.sum(friendly.tensor([[1, 2], [3, 6]]))
>>> total.shape, friendly.item(total)
((1,), 12.0))");
  module.def(
      "mean", [](nb::handle tensor) { return friendly::mean(to_tensor_like(tensor, {"layout", "size"})); },
      nb::sig("def mean(tensor: Tensor) -> Tensor"), "tensor"_a.none(),
      R"(The mean of all elements, of shape (1), where the Tensor is. ValueError for nested modes or more than 26 (M603).

>>> from orlop import friendly
>>> friendly.item(friendly.mean(friendly.tensor([[1, 2], [3, 6]])))
3.0)");
  module.def(
      "item",
      [](nb::handle value) {
        const Tensor tensor = to_tensor_like(value, {"size", "layout"});
        if (tensor.size() == 1 && tensor.is_single_subtensor())
          return carrier_item(*tensor.carrier(), tensor.offset());
        return from_scalar(friendly::item(tensor));
      },
      nb::sig("def item(tensor: Tensor) -> Any"), "tensor"_a.none(),
      R"(The value of a Tensor of exactly one element, as a Python number. ValueError for another size.

>>> from orlop import friendly
>>> friendly.item(friendly.full(1, value=0.5))
0.5
>>> friendly.item(friendly.zeros(2))
Traceback (most recent call last):
    ...
ValueError: [friendly] item takes a Tensor of exactly one element: it has 2)");
  module.def("to_list", &to_list, nb::sig("def to_list(tensor: Tensor) -> list[Any]"), "tensor"_a.none(),
             R"(A new list of all values in ordinal order.

>>> from orlop import friendly
>>> friendly.to_list(friendly.tensor([[1, 2], [3, 4]]))
[1.0, 3.0, 2.0, 4.0])");
}

}  // namespace

void bind_friendly(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("_friendly");
  bind_layouts(module);
  bind_factories(module);
  bind_values(module);
}

}  // namespace orlop::bindings
