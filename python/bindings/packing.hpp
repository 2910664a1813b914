// Python values as native slots: buffers of other libraries, and iterables of numbers.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "orlop/dtype/dtype.hpp"
#include "support.hpp"

namespace orlop::bindings {

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

}  // namespace orlop::bindings
