// What a backend supplies: one kernel per operation name, over host memory and strided operands.
//
// A kernel sees only legal requests: the definition has resolved dtypes and shapes, the capability gate has
// passed, and the result's storage exists. It never decides a dtype, a shape, an alias or a gradient.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
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

/// One spatial mode of conv_general. Kernel position k of result position r lies over lhs position
/// (r · stride + k · kernel_dilation - low) / lhs_dilation; where that is no position of the lhs is a hole.
struct ConvolutionMode {
  Index lhs, kernel, result;  ///< extents
  Index stride, low, lhs_dilation, kernel_dilation;
};

/// What a kernel of conv_general adds up (P67).
enum class ConvolutionSum {
  result,           ///< of lhs and kernel; a hole contributes 0.0 · kernel
  lhs_gradient,     ///< of cotangent and kernel; a hole contributes nothing
  kernel_gradient,  ///< of lhs and cotangent; a hole contributes 0.0 · cotangent
};

/// The parameters of conv_general.
struct Convolution {
  ConvolutionSum sum = ConvolutionSum::result;
  Index feature_groups = 1;
  std::vector<ConvolutionMode> modes;
  /// For each operand the mode in each role: batch and feature, or kernel's out and in feature, then spatial.
  std::array<std::vector<std::size_t>, 2> roles;
};

/// Integers that belong to a call: the axis of a gather, the number of kept leaves of a reduction, and alike.
struct KernelParameters {
  Index axis = 0;
  bool is_descending = false;                        ///< an order: from the greatest to the least
  bool is_backward = false;                          ///< a scan: from the last ordinal to the first
  bool is_exclusive = false;                         ///< a scan: without the element itself
  std::shared_ptr<const Convolution> convolution{};  ///< of conv_general only
};

/// What the ordinals of a call are in the whole that it computes a part of: `first + layout(ordinal)`.
struct ResultPlace {
  Index first;
  const Layout& layout;
};

struct KernelCall {
  const OperationPlan& plan;
  std::span<const KernelOperand> operands;
  std::byte* result;     ///< slots of `plan.output`
  const Layout& layout;  ///< of the result
  const KernelParameters& parameters;
  const ResultPlace* place = nullptr;  ///< for errors that name an element; null: the call is the whole
};

using KernelFunction = void (*)(const KernelCall&);
using KernelEntry = std::pair<std::string_view, KernelFunction>;
/// The kernels of one file.
using KernelList = std::span<const KernelEntry>;

/// A backend's kernels by operation name.
class ORLOP_API KernelTable {
 public:
  /// Everything in `lists`, which name each operation once.
  KernelTable(std::initializer_list<KernelList> lists);
  /// The kernel, or null.
  [[nodiscard]] KernelFunction find(std::string_view name) const noexcept;

 private:
  std::vector<KernelEntry> kernels_;  // ascending by name
};

/// The reference kernels: plain loops in ordinal order. Generic computes with them, and so does, by way of
/// host copies, any carrier that brings no kernels of its own.
[[nodiscard]] ORLOP_API const KernelTable& reference_kernels();

}  // namespace orlop::inline v0
