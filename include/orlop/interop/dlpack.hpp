// DLPack: Tensors lent to other array libraries and borrowed from them, without a copy (S701-S710).
//
// Protocol. An export holds the Tensor and its memory until its consumer calls the deleter, once; the carrier
// may be released or moved meanwhile. An import holds the producer's struct until its carrier is released or
// destroyed and the last export of it gone, then calls the producer's deleter, once.
#pragma once

#include <cstdint>

#include "orlop/tensor/tensor.hpp"

namespace orlop::inline v0 {

// The structs of the DLPack interface, version 1.0: field order and types are its ABI. A pointer to one of
// another declaration of the same ABI is passed with reinterpret_cast.

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null: last mode fastest
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

namespace dlpack {
inline constexpr std::int32_t cpu_device = 1;
inline constexpr std::uint8_t int_code = 0;
inline constexpr std::uint8_t float_code = 2;
inline constexpr std::uint8_t bool_code = 6;
inline constexpr std::uint64_t read_only_flag = 1;
}  // namespace dlpack

/// Lends a Float32 or Int32 Tensor of one subtensor; shape and strides are its leaf modes in order. The
/// caller calls `deleter` once. NotImplementedError for a compound Tensor, BufferError where the carrier has
/// no memory to lend or another dtype.
[[nodiscard]] ORLOP_API DLManagedTensor* to_dlpack(const Tensor& tensor);
/// The same in the struct that also says whether the Tensor is read-only.
[[nodiscard]] ORLOP_API DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor);

struct FromDLPackOptions {
  bool copy = false;  ///< own, mutable, compact memory instead of the producer's
};

/// A CPU Tensor of the producer's float32, int32 or bool elements in host memory. Takes `managed` over unless
/// it throws: BufferError, ValueError, OverflowError as in S709.
[[nodiscard]] ORLOP_API Tensor from_dlpack(DLManagedTensor* managed, const FromDLPackOptions& options = {});
[[nodiscard]] ORLOP_API Tensor from_dlpack(DLManagedTensorVersioned* managed,
                                           const FromDLPackOptions& options = {});

namespace detail {
/// The memory that the Tensor's carrier lends. BufferError where it has none, a released CPU among them.
[[nodiscard]] ORLOP_API DLPackInfo dlpack_memory(const Tensor& tensor);
/// BufferError ‹Float32› ‹Int32› for another dtype.
ORLOP_API void check_dlpack_dtype(const Tensor& tensor);
// With the memory asked for already.
[[nodiscard]] ORLOP_API DLManagedTensor* to_dlpack(const Tensor& tensor, const DLPackInfo& memory);
[[nodiscard]] ORLOP_API DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor,
                                                                      const DLPackInfo& memory);
}  // namespace detail

}  // namespace orlop::inline v0
