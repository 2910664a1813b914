// Sums that a kernel stores as results, or keeps in the plan's accumulator from one call to the next: for
// operands that come in parts (X110). The two private kernels add a part's terms to the kept sums.
#pragma once

#include <memory>
#include <string_view>

#include "operation/arrival.hpp"
#include "operation/exact_integer.hpp"
#include "orlop/operation/kernels.hpp"

namespace orlop::inline v0::kept_sums {

// Called as the operations are, but that `result` holds kept sums, at any layout of the result's modes; and
// always with a Call.
constexpr std::string_view reduce_sum = "_add_to_kept_reduce_sum";
constexpr std::string_view matmul = "_add_to_kept_matmul";

struct Call : KernelCall {
  Arrival* arrival = nullptr;  ///< of reduce_sum: what its operand is to be read through, if not null
};

/// What the operand of a kept reduce_sum is to be read through, or null.
[[nodiscard]] inline Arrival* arrival_of(const KernelCall& call) {
  return static_cast<const Call&>(call).arrival;
}

/// The kernel of this name, or the reference one where the backend has none.
[[nodiscard]] inline KernelFunction kernel_of(const KernelTable& table, std::string_view name) {
  const KernelFunction own = table.find(name);
  return own != nullptr ? own : reference_kernels().find(name);
}

/// A slot for a kept sum.
template <class Accumulator>
struct Kept {
  Accumulator value;
};

template <class Slot>
constexpr bool is_kept = false;
template <class Accumulator>
constexpr bool is_kept<Kept<Accumulator>> = true;

/// What a finished sum is as a result: rounded once, or an Int32; OverflowError beyond it.
[[nodiscard]] inline float as_result(std::string_view, float sum) { return sum; }
[[nodiscard]] inline float as_result(std::string_view, double sum) { return static_cast<float>(sum); }
[[nodiscard]] inline std::int32_t as_result(std::string_view operation, std::int64_t sum) {
  return checked_int32(operation, sum);
}
[[nodiscard]] inline std::int32_t as_result(std::string_view operation, Int128 sum) {
  return checked_int32(operation, sum);
}

/// Stores a sum of some terms, or adds it to the kept one.
template <class Slot, class Sum>
void store(std::string_view operation, Slot& slot, Sum sum) {
  if constexpr (is_kept<Slot>)
    slot.value += sum;
  else
    slot = as_result(operation, sum);
}

/// What a sum that goes through all its terms in order begins with.
template <class Accumulator, class Slot>
[[nodiscard]] Accumulator start(const Slot& slot) {
  if constexpr (is_kept<Slot>)
    return slot.value;
  else
    return Accumulator{0};
}
/// What such a sum leaves.
template <class Slot, class Accumulator>
[[nodiscard]] Slot finish(std::string_view operation, Accumulator sum) {
  if constexpr (is_kept<Slot>)
    return {sum};
  else
    return as_result(operation, sum);
}

/// The kept sums of one call of an operation that comes in parts.
class Sums {
 public:
  /// `count` zeros. `result`: slots of the plan's output, all zero, where the sums will be stored; where
  /// these are of the accumulator's type they are kept right there.
  Sums(const OperationPlan& plan, Index count, std::byte* result);

  /// What the kernels take as the result.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] Index slot_bytes() const noexcept { return slot_bytes_; }
  /// Every sum becomes a result; OverflowError.
  void store() const;

 private:
  template <class Accumulator, class Result>
  void store_all() const;

  const OperationPlan& plan_;
  Index count_;
  std::byte* result_;
  std::unique_ptr<double[]> doubles_;
  std::unique_ptr<Int128[]> integers_;
  std::byte* data_;
  Index slot_bytes_;
};

}  // namespace orlop::inline v0::kept_sums
