// Element keys and slice keys.
#include "keys.hpp"

#include <limits>

#include "carrier.hpp"
#include "layout.hpp"

namespace orlop::bindings {

namespace {

/// The entries of a tuple, or those that a list has now: user code may run while they are read.
nb::tuple entries_of(nb::handle nest) {
  nb::object entries = nb::steal(PySequence_Tuple(nest.ptr()));
  if (!entries.is_valid()) throw_python_error();
  return nb::borrow<nb::tuple>(entries);
}

bool is_nest(nb::handle value) { return PyTuple_Check(value.ptr()) || PyList_Check(value.ptr()); }

/// Looks for a slice anywhere in a nest of tuples and lists.
class SliceSearch {
 public:
  bool finds(nb::handle key, std::size_t depth = 1) {
    if (PySlice_Check(key.ptr())) return true;
    if (!is_nest(key)) return false;
    if (depth > max_nesting_depth) raise_nested_too_deeply();
    for (const nb::handle entry : entries_of(key)) {
      if (++seen_ > most_entries)
        raise<ValueError>("Tensor", "Key is not in domain of shape: it has too many entries");
      if (finds(entry, depth + 1)) return true;
    }
    return false;
  }

 private:
  static constexpr int most_entries = 1'000'000;  // a list may hold itself many times
  int seen_ = 0;
};

bool is_integer(nb::handle value) { return PyIndex_Check(value.ptr()) && !PyBool_Check(value.ptr()); }

/// The integer, or the nearest one of 64 bits.
Index clipped(nb::handle integer) {
  const Py_ssize_t value = PyNumber_AsSsize_t(integer.ptr(), nullptr);
  if (value == -1 && PyErr_Occurred() != nullptr) throw_python_error();
  return value;
}

/// A Python slice. Bounds are read only behind a positive step, as Python reads them.
SliceRange to_range(nb::handle value) {
  const auto* slice = reinterpret_cast<const PySliceObject*>(value.ptr());
  SliceRange range;
  if (slice->step != Py_None) {
    if (!is_integer(slice->step))
      raise<TypeError>("view", "the step of a slice must be an integer: got ", python_type_name(slice->step));
    range.step = clipped(slice->step);
    if (*range.step <= 0) return range;
  }
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(value.ptr(), &start, &stop, &step) < 0) throw_python_error();
  if (slice->start != Py_None) range.start = start;
  if (slice->stop != Py_None) range.stop = stop;
  return range;
}

/// For a nested mode: the whole range for exactly `:` or `::1`, otherwise one that views refuse.
SliceRange to_whole_range(nb::handle value) {
  const auto* slice = reinterpret_cast<const PySliceObject*>(value.ptr());
  const bool is_unit_step = slice->step == Py_None || (is_integer(slice->step) && clipped(slice->step) == 1);
  if (slice->start == Py_None && slice->stop == Py_None && is_unit_step) return {};
  return {.start = 0};
}

/// One key per top-level mode, each converted and checked before the next is looked at.
SliceKeys to_slice_keys(const Layout& layout, nb::handle key) {
  const nb::tuple entries = PyTuple_Check(key.ptr()) ? nb::borrow<nb::tuple>(key) : nb::make_tuple(key);
  return checked_slice_keys(layout, entries.size(), [&](std::size_t mode, bool is_leaf) -> SliceKey {
    const nb::handle entry = entries[mode];
    if (PySlice_Check(entry.ptr())) return is_leaf ? to_range(entry) : to_whole_range(entry);
    if (is_integer(entry)) return clipped(entry);
    raise<TypeError>("view", "a key must be an integer or slice: got ", python_type_name(entry), " for mode ",
                     mode);
  });
}

}  // namespace

nb::object tensor_getitem(const Tensor& tensor, nb::handle key) {
  if (SliceSearch().finds(key)) return nb::cast(tensor.slice(to_slice_keys(tensor.layout(), key)));
  tensor.require_single_subtensor("indexing");
  const Index slot = tensor.offset() + layout_index(tensor.layout(), key, "Tensor");
  return carrier_item(*tensor.carrier(), slot);
}

void tensor_setitem(const Tensor& tensor, nb::handle key, nb::handle value) {
  tensor.require_single_subtensor("mutation");
  if (SliceSearch().finds(key))
    raise<TypeError>("Tensor",
                     "a slice cannot be assigned: write single elements, or scatter a Tensor of values");
  const Index slot = tensor.offset() + layout_index(tensor.layout(), key, "Tensor");
  set_carrier_item(*tensor.carrier(), slot, value);
}

std::optional<Argument> try_index_list(nb::handle value) {
  if (PySlice_Check(value.ptr())) return Argument::of(SliceKeys{to_range(value)});
  if (!is_nest(value)) return std::nullopt;
  SliceKeys keys;
  std::vector<Index> integers;
  for (const nb::handle entry : entries_of(value)) {
    if (PySlice_Check(entry.ptr())) {
      keys.emplace_back(to_range(entry));
    } else if (is_integer(entry)) {
      integers.push_back(clipped(entry));
      keys.emplace_back(integers.back());
    } else {
      return std::nullopt;
    }
  }
  if (integers.size() == keys.size()) return Argument::of(std::move(integers));
  return Argument::of(std::move(keys));
}

std::optional<Argument> try_nested_index_list(nb::handle value) {
  if (!is_nest(value)) return std::nullopt;
  std::vector<std::vector<Index>> lists;
  for (const nb::handle entry : entries_of(value)) {
    if (!is_nest(entry)) return std::nullopt;
    std::vector<Index> integers;
    for (const nb::handle item : entries_of(entry)) {
      if (!is_integer(item)) return std::nullopt;
      integers.push_back(clipped(item));
    }
    lists.push_back(std::move(integers));
  }
  return Argument::of(std::move(lists));
}

nb::object from_slice_keys(std::span<const SliceKey> keys) {
  const auto bound = [](const std::optional<Index>& value) {
    return value ? nb::object(nb::int_(*value)) : nb::none();
  };
  nb::list entries;
  for (const SliceKey& key : keys) {
    if (const auto* range = std::get_if<SliceRange>(&key))
      entries.append(nb::slice(bound(range->start), bound(range->stop), bound(range->step)));
    else
      entries.append(std::get<Index>(key));
  }
  return nb::tuple(entries);
}

}  // namespace orlop::bindings
