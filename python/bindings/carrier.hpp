// Carriers across the language border: class identity, packing of Python values, the trampoline for Python
// authors.
#pragma once

#include <string_view>
#include <vector>

#include "dtype.hpp"
#include "orlop/storage/carrier.hpp"
#include "support.hpp"

namespace orlop::bindings {

/// The identity of a Python carrier class, native or written in Python; null where `type` is no Carrier
/// class.
CarrierClass carrier_class_of_type(nb::handle type);
/// The Python class of an identity.
nb::object python_class(CarrierClass carrier_class);

/// The slots of a buffer: Float32, Int32 or Bool in native byte order, or other.
StorageType storage_type_of(const Py_buffer& view);

/// A held buffer of an exporter, with format and strides; of no use where the exporter refused.
class NativeBuffer {
 public:
  explicit NativeBuffer(nb::handle exporter);
  NativeBuffer(const NativeBuffer&) = delete;
  NativeBuffer& operator=(const NativeBuffer&) = delete;
  ~NativeBuffer();
  /// The kind of slots; other where no buffer is held.
  [[nodiscard]] StorageType storage_type() const {
    return is_held_ ? storage_type_of(view_) : StorageType::other;
  }
  /// One contiguous dimension of exactly the slots of `dtype`.
  [[nodiscard]] bool holds(const DType& dtype) const;
  [[nodiscard]] const Py_buffer& view() const { return view_; }

 private:
  Py_buffer view_{};
  bool is_held_ = false;
};

/// Values of an iterable as native slots of `dtype` (Float32, Int32 or Bool). A buffer of that very encoding
/// is copied in bulk. None is zero where `holes_are_zero`, otherwise a TypeError.
std::vector<std::byte> pack_values(nb::handle values, const DType& dtype, bool holes_are_zero,
                                   std::string_view what);

/// A number of slots by Python's integer-index protocol; ValueError for a negative one, OverflowError beyond
/// 64 bits.
Index to_size(nb::handle value, std::string_view what, bool allow_bool = false);

/// The carrier in `value`, or TypeError ‹<name> must be a Carrier›.
Ref<Carrier> to_carrier(nb::handle value, std::string_view what, std::string_view name);

/// Fresh storage of the prototype's kind holding `values`: what `new_like` and the constructors over values
/// do.
Ref<Carrier> new_like(const Carrier& prototype, nb::handle values, bool is_mutable, DTypeRef dtype);

/// `carrier[slot]` and `carrier[slot] = value` with the checks of S104.
nb::object carrier_item(Carrier& carrier, Index slot);
void set_carrier_item(Carrier& carrier, Index slot, nb::handle value);

/// `carrier.scatter(…)` with the checks of S112.
void scatter(Carrier& carrier, nb::handle to_scatter, nb::handle scatter_onto, nb::handle mapping,
             nb::handle offset);

/// The keyword and positional arguments of a constructor, matched as Python does it and with Python's
/// messages.
class CallArguments {
 public:
  /// `positional` then keyword-only `keywords`; the first `required` positional ones must be given.
  CallArguments(const char* name, const nb::args& args, const nb::kwargs& kwargs,
                std::initializer_list<const char*> positional, std::size_t required,
                std::initializer_list<const char*> keywords);
  /// The argument, or nothing where it was left out.
  [[nodiscard]] nb::object get(std::string_view name) const;
  /// The keyword-only argument, or TypeError ‹missing 1 required keyword-only argument›.
  [[nodiscard]] nb::object require_keyword(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name, bool otherwise) const;
  [[nodiscard]] bool has(std::string_view name) const { return get(name).is_valid(); }

 private:
  const char* name_;
  std::vector<std::pair<std::string_view, nb::object>> values_;
};

void reject_subclasses(nb::handle bound, const char* name);
/// Remembers the Python class of a native carrier class.
template <class T>
void name_carrier_class(nb::handle bound) {
  carrier_class<T>().record()->python_type = bound.ptr();
}

}  // namespace orlop::bindings
