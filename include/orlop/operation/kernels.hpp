// What a backend supplies: one kernel per operation name, over host memory and strided operands.
//
// A kernel sees only legal requests: the definition has resolved dtypes and shapes, the capability gate has
// passed, and the result's storage exists. It never decides a dtype, a shape, an alias or a gradient.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "orlop/layout/layout.hpp"
#include "orlop/operation/plan.hpp"

namespace orlop::inline v0 {

/// An operand in memory: element i is at `data + slot_bytes * layout(i)`. Elementwise kernels read a leaf of
/// extent one at coordinate 0 wherever the result is wider.
struct KernelOperand {
  const std::byte* data;
  StorageType stored;    ///< how the slots are encoded
  StorageType computed;  ///< what each element is converted to before the arithmetic
  const Layout* layout;
};

/// Integers that belong to a call: the axis of a gather, the number of kept leaves of a reduction, and alike.
struct KernelParameters {
  Index axis = 0;
  bool is_descending = false;  ///< an order: from the greatest to the least
  bool is_backward = false;    ///< a scan: from the last ordinal to the first
  bool is_exclusive = false;   ///< a scan: without the element itself
};

struct KernelCall {
  const OperationPlan& plan;
  std::span<const KernelOperand> operands;
  std::byte* result;     ///< slots of `plan.output`
  const Layout& layout;  ///< of the result
  const KernelParameters& parameters;
};

using Kernel = void (*)(const KernelCall&);
using KernelEntry = std::pair<std::string_view, Kernel>;
/// The kernels of one file.
using KernelList = std::span<const KernelEntry>;

/// A backend's kernels by operation name.
class ORLOP_API KernelTable {
 public:
  /// Everything in `lists`, which name each operation once.
  KernelTable(std::initializer_list<KernelList> lists);
  /// The kernel, or null.
  [[nodiscard]] Kernel find(std::string_view name) const noexcept;

 private:
  std::vector<KernelEntry> kernels_;  // ascending by name
};

/// The reference kernels: plain loops in ordinal order. Generic computes with them, and so does, by way of
/// host copies, any carrier that brings no kernels of its own.
[[nodiscard]] ORLOP_API const KernelTable& reference_kernels();

}  // namespace orlop::inline v0
