// Normalization and the native slot encoding.
#include "orlop/storage/normalize.hpp"

#include <cstring>
#include <limits>

#include "orlop/base/checked.hpp"

namespace orlop::inline v0 {

namespace {

template <class T>
void put(void* slot, T value) {
  std::memcpy(slot, &value, sizeof value);
}

template <class T>
T take(const void* slot) {
  T value;
  std::memcpy(&value, slot, sizeof value);
  return value;
}

[[noreturn]] void refuse_encoding(const DType& dtype) {
  raise<NotImplementedError>(dtype.name(), "has no native slot encoding; use get_value and set_value");
}

}  // namespace

Scalar normalize(const DType& dtype, const Scalar& value) {
  switch (dtype.storage_type()) {
    case StorageType::float32:
      return Scalar(value.to_binary32());
    case StorageType::int32: {
      if (!value.is_integer())
        raise<TypeError>("Int32", "a slot takes an integer: got ", value, "; convert it explicitly");
      const auto integer = value.as_integer();
      using Limits = std::numeric_limits<std::int32_t>;
      if (!integer || *integer < Limits::min() || *integer > Limits::max())
        raise<OverflowError>("Int32", "the value is out of range: ", value,
                             "; a slot holds -2147483648 to 2147483647");
      return value;
    }
    case StorageType::bool8:
      if (!value.is_bool())
        raise<TypeError>("Bool", "a slot takes a bool: got ", value, "; use True or False");
      return value;
    case StorageType::other:
      break;
  }
  return value;
}

void encode_slot(const DType& dtype, const Scalar& value, void* slot) {
  if (dtype.storage_type() == StorageType::float32)
    return put(slot, value.to_binary32());  // one rounding is all
  const Scalar stored = normalize(dtype, value);
  switch (dtype.storage_type()) {
    case StorageType::int32:
      return put(slot, static_cast<std::int32_t>(*stored.as_integer()));
    case StorageType::bool8:
      return put(slot, static_cast<std::uint8_t>(stored.as_bool() ? 1 : 0));
    case StorageType::float32:
    case StorageType::other:
      break;
  }
  refuse_encoding(dtype);
}

Scalar decode_slot(const DType& dtype, const void* slot) {
  switch (dtype.storage_type()) {
    case StorageType::float32:
      return Scalar(take<float>(slot));
    case StorageType::int32:
      return Scalar(take<std::int32_t>(slot));
    case StorageType::bool8:
      return Scalar(take<std::uint8_t>(slot) != 0);
    case StorageType::other:
      break;
  }
  refuse_encoding(dtype);
}

std::size_t slots_to_bytes(const DType& dtype, Index count) {
  return static_cast<std::size_t>(checked_multiply(count, dtype.slot_bytes(), dtype.name()));
}

}  // namespace orlop::inline v0
