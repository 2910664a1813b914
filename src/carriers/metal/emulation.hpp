// What stands in for metal_stdlib when the generated kernels are compiled for the CPU: pointers that know
// their extent, the threads of a threadgroup, and the functions and types that the kernels use.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "orlop/base/message.hpp"

namespace orlop::inline v0::emulation {

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
using uint = unsigned;
using uchar = unsigned char;

/// An access outside a buffer or a threadgroup's memory.
struct Outside {
  std::string_view name;
  Index index, count;
};

/// Where a kernel may read or write `count` elements; everything else is `Outside`.
template <class T>
class Pointer {
 public:
  Pointer(T* data, Index count, std::string_view name) noexcept : data_(data), count_(count), name_(name) {}
  T& operator[](Index index) const {
    if (index < 0 || index >= count_) [[unlikely]]
      throw Outside{name_, index, count_};
    return data_[index];
  }

 private:
  T* data_;
  Index count_;
  std::string_view name_;
};
template <class T>
using Shared = Pointer<T>;

/// One dispatch as its kernel sees it.
class Launch {
 public:
  struct Buffer {
    std::byte* data;
    std::size_t bytes;
  };

  Launch(std::span<const Buffer> buffers, std::span<const std::byte> constants) noexcept
      : buffers_(buffers), constants_(constants) {}

  template <class T>
  [[nodiscard]] Pointer<T> buffer(std::string_view name, std::size_t index) const {
    const Buffer& bound = buffers_[index];
    return {reinterpret_cast<T*>(bound.data), static_cast<Index>(bound.bytes / sizeof(T)), name};
  }
  template <class T>
  [[nodiscard]] const T& arguments() const {
    return *reinterpret_cast<const T*>(constants_.data());
  }
  /// Threadgroup memory of the running group, the same for each of its threads.
  template <class T>
  [[nodiscard]] Shared<T> shared(std::string_view name, Index count) {
    return {reinterpret_cast<T*>(shared_memory(name, static_cast<std::size_t>(count) * sizeof(T))), count,
            name};
  }
  /// The other threads of the group run until all have come here.
  void barrier();
  /// Threadgroup memory starts anew.
  void begin_group() noexcept { shared_.clear(); }

 private:
  [[nodiscard]] std::byte* shared_memory(std::string_view name, std::size_t bytes);

  std::span<const Buffer> buffers_;
  std::span<const std::byte> constants_;
  std::vector<std::pair<std::string_view, std::unique_ptr<std::byte[]>>> shared_;
};

struct Entry {
  std::string_view name;
  void (*run)(Launch& launch, uint3 group, uint3 thread);
  bool has_barrier;
};

/// The kernels of kernels/metal/generated.
[[nodiscard]] std::span<const Entry> entries();

// --- metal_stdlib

template <class To, class From>
[[nodiscard]] To as_type(From value) noexcept {
  return std::bit_cast<To>(value);
}
/// Of one type, as Metal's overloads are.
template <class T>
[[nodiscard]] T select(T if_false, T if_true, bool condition) noexcept {
  return condition ? if_true : if_false;
}
template <class T>
  requires std::is_integral_v<T>
[[nodiscard]] T min(T a, T b) noexcept {
  return a < b ? a : b;
}
template <class T>
  requires std::is_integral_v<T>
[[nodiscard]] T max(T a, T b) noexcept {
  return a > b ? a : b;
}
[[nodiscard]] inline float min(float a, float b) noexcept { return std::fmin(a, b); }
[[nodiscard]] inline float max(float a, float b) noexcept { return std::fmax(a, b); }
[[nodiscard]] inline float exp(float x) noexcept { return std::exp(x); }
[[nodiscard]] inline float exp2(float x) noexcept { return std::exp2(x); }
[[nodiscard]] inline float log(float x) noexcept { return std::log(x); }
[[nodiscard]] inline float log2(float x) noexcept { return std::log2(x); }
[[nodiscard]] inline float sin(float x) noexcept { return std::sin(x); }
[[nodiscard]] inline float cos(float x) noexcept { return std::cos(x); }
[[nodiscard]] inline float tanh(float x) noexcept { return std::tanh(x); }
[[nodiscard]] inline float sqrt(float x) noexcept { return std::sqrt(x); }
[[nodiscard]] inline float fabs(float x) noexcept { return std::fabs(x); }
[[nodiscard]] inline float floor(float x) noexcept { return std::floor(x); }
[[nodiscard]] inline float ceil(float x) noexcept { return std::ceil(x); }
[[nodiscard]] inline float rint(float x) noexcept { return std::rint(x); }
[[nodiscard]] inline float fmod(float a, float b) noexcept { return std::fmod(a, b); }
[[nodiscard]] inline float pow(float a, float b) noexcept { return std::pow(a, b); }

}  // namespace orlop::inline v0::emulation
