// What tests of operations share: two kernel backends, Tensors from plain lists, comparisons, refusals.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/operation/operation.hpp"

namespace orlop::testing_support {

/// A carrier without kernels and without host memory: it computes with the reference kernels.
class Slots final : public Carrier {
 public:
  Slots(Index size, const DType& dtype)
      : values_(static_cast<std::size_t>(size), zero(dtype)), dtype_(dtype) {}
  [[nodiscard]] Index size() const override { return static_cast<Index>(values_.size()); }
  [[nodiscard]] const DType& dtype() const override { return dtype_; }
  [[nodiscard]] Scalar get_value(Index index) const override {
    return values_[static_cast<std::size_t>(index)];
  }
  void set_value(Index index, const Scalar& value) override {
    values_[static_cast<std::size_t>(index)] = value;
  }
  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values, const NewLikeOptions&) const override {
    Ref<Slots> result = make_ref<Slots>(static_cast<Index>(values.size()), dtype_);
    result->values_.assign(values.begin(), values.end());
    return result;
  }
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options) const override {
    return make_ref<Slots>(size, options.dtype ? *options.dtype : dtype_);
  }

 protected:
  [[nodiscard]] bool intrinsic_mutable() const override { return true; }
  [[nodiscard]] Ref<Operation> make_operation(std::string_view name) override {
    return table_operation(name);
  }

 private:
  static Scalar zero(const DType& dtype) {
    if (&dtype == &dtypes::Bool) return Scalar(false);
    return &dtype == &dtypes::Int32 ? Scalar(0) : Scalar(0.0F);
  }
  std::vector<Scalar> values_;
  const DType& dtype_;
};

enum class Backend { cpu, reference };
inline constexpr Backend backends[] = {Backend::cpu, Backend::reference};

inline Ref<Carrier> allocate(Backend backend, Index size, const DType& dtype) {
  if (backend == Backend::cpu) return CPU::make(size, {.dtype = dtype});
  static const bool is_declared = [] {
    const auto every = CapabilitySet::of_every_plan()->sorted();
    register_operation_capabilities(carrier_class<Slots>(), {every.begin(), every.end()});
    return true;
  }();
  EXPECT_TRUE(is_declared);
  return make_ref<Slots>(size, dtype);
}

template <class T>
const DType& dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return dtypes::Bool;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return dtypes::Int32;
  else
    return dtypes::Float32;
}

/// The slots of a carrier of the backend, and a layout on them.
template <class T>
Tensor place(Backend backend, const std::vector<T>& slots, const Layout& layout, Index offset = 0) {
  Ref<Carrier> carrier = allocate(backend, static_cast<Index>(slots.size()), dtype_of<T>());
  for (std::size_t i = 0; i < slots.size(); ++i) carrier->set_value(static_cast<Index>(i), Scalar(slots[i]));
  return Tensor(std::move(carrier), offset, layout);
}

/// The values in ordinal order, in the canonical layout of a shape.
template <class T>
Tensor make_tensor(Backend backend, const std::vector<T>& values, const Shape& shape) {
  return place(backend, values, Layout::canonical(shape));
}

template <class T>
std::vector<T> elements(const Tensor& tensor) {
  std::vector<T> values;
  for (Index i = 0; i < tensor.size(); ++i) {
    const Scalar value = tensor.at(i);
    if constexpr (std::is_same_v<T, bool>)
      values.push_back(value.as_bool());
    else if constexpr (std::is_same_v<T, float>)
      values.push_back(value.to_binary32());
    else
      values.push_back(static_cast<std::int32_t>(*value.as_integer()));
  }
  return values;
}

/// Expects an `E` whose message contains `words`.
template <class E>
void expect_refusal(const std::function<void()>& call, const std::string& words) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown; expected ‹" << words << "›";
  } catch (const E& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(words));
  }
}

/// The bits of each value, one pattern for every NaN.
inline std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values)
    result.push_back(std::isnan(value) ? 0x7fc00000U : std::bit_cast<std::uint32_t>(value));
  return result;
}

/// A random layout of `shape` without aliases: its leaves in any order in memory, with gaps.
inline Layout random_layout(const Shape& shape, std::mt19937& random) {
  std::vector<std::size_t> order(shape.leaves().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  detail::Nest strides = shape.nest();
  Index step = 1;
  for (const std::size_t leaf : order) {
    step += static_cast<Index>(random() % 2);
    strides.leaves[leaf] = step;
    step *= shape.leaves()[leaf];
  }
  return {shape, Stride(std::move(strides))};
}

/// The same with about a third of the leaves in one place.
inline Layout random_aliased_layout(const Shape& shape, std::mt19937& random) {
  detail::Nest strides = random_layout(shape, random).stride().nest();
  for (Index& stride : strides.leaves)
    if (random() % 3 == 0) stride = 0;
  return {shape, Stride(std::move(strides))};
}

}  // namespace orlop::testing_support
