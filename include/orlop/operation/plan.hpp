// Operation plans (P1–P12): what an operation name means for given operand dtypes, decided from dtypes and
// scalars alone, in one table, before anything runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "orlop/base/export.hpp"
#include "orlop/base/scalar.hpp"
#include "orlop/dtype/dtype.hpp"
#include "orlop/operation/options.hpp"

namespace orlop::inline v0 {

// --- P1: enumerations -----------------------------------------------------------------------------------

enum class OperandRole : std::uint8_t { Tensor, WeakScalar };
enum class WeakScalarKind : std::uint8_t { Integer, Float };
/// How each primitive rounds (P9).
enum class Arithmetic : std::uint8_t { Binary32, Int32ExactChecked, Int32Exact };
/// How terms are combined (P10).
enum class Accumulation : std::uint8_t {
  Floating,
  SequentialBinary32,
  SequentialBinary32Product,
  Maximum,
  Minimum,
  Argmax,
  Argmin,
  ExactInteger,
};

/// The lower-case value of P1: "weak_scalar", "binary32", …
ORLOP_API std::string_view value_of(OperandRole role) noexcept;
ORLOP_API std::string_view value_of(WeakScalarKind kind) noexcept;
ORLOP_API std::string_view value_of(Arithmetic arithmetic) noexcept;
ORLOP_API std::string_view value_of(Accumulation accumulation) noexcept;

// --- P3, P20: records -----------------------------------------------------------------------------------
// Plans and capabilities have the same fields but are different types. Records are immutable values: copied
// freely, never assigned.

/// One operand: its role, its dtype (null for a weak scalar) and the dtype it is converted to first.
struct ORLOP_API OperandShape {
  /// TypeError unless a Tensor has a simple dtype and a weak scalar none.
  OperandShape(OperandRole operand_role, const DType* operand_dtype, const DType& operand_convert_to);

  const OperandRole role;
  const DType* const dtype;
  const DType& convert_to;

  friend bool operator==(const OperandShape& a, const OperandShape& b) noexcept {
    return a.role == b.role && a.dtype == b.dtype && &a.convert_to == &b.convert_to;
  }
};

struct OperandPlan : OperandShape {
  using OperandShape::OperandShape;
};
struct OperandCapability : OperandShape {
  using OperandShape::OperandShape;
};

/// The fields a plan and a capability share.
template <class Operand>
class OperationShape {
 public:
  OperationShape(std::string operation_name, std::vector<Operand> operand_shapes, Arithmetic arithmetic,
                 std::optional<Accumulation> combination, const DType* accumulator, const DType& result)
      : operation(std::move(operation_name)),
        operands(std::move(operand_shapes)),
        compute(arithmetic),
        accumulation(combination),
        accumulator_dtype(accumulator),
        output(result) {}

  const std::string operation;
  const std::vector<Operand> operands;
  const Arithmetic compute;
  const std::optional<Accumulation> accumulation;
  const DType* const accumulator_dtype;
  const DType& output;

  /// One more than the position among all plans of the registry; 0 for a value made elsewhere.
  [[nodiscard]] std::uint32_t builtin_number() const noexcept { return builtin_number_; }
  /// Equal fields, equal hash, for plans and capabilities alike.
  [[nodiscard]] std::size_t hash() const noexcept;

 protected:
  std::uint32_t builtin_number_ = 0;
};

extern template class ORLOP_API OperationShape<OperandPlan>;
extern template class ORLOP_API OperationShape<OperandCapability>;

/// Whether every field agrees, dtypes by identity.
template <class A, class B>
[[nodiscard]] bool same_fields(const OperationShape<A>& a, const OperationShape<B>& b) noexcept {
  const auto same_operand = [](const OperandShape& x, const OperandShape& y) { return x == y; };
  return a.operation == b.operation && a.compute == b.compute && a.accumulation == b.accumulation &&
         a.accumulator_dtype == b.accumulator_dtype && &a.output == &b.output &&
         std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), b.operands.end(), same_operand);
}

/// What one operation does for one combination of operand dtypes. Gradients follow from `output` alone.
class ORLOP_API OperationPlan final : public OperationShape<OperandPlan> {
 public:
  using OperationShape::OperationShape;

  friend bool operator==(const OperationPlan& a, const OperationPlan& b) noexcept {
    return same_fields(a, b);
  }

 private:
  friend class PlanRegistry;
};

// --- P4–P8: the registry and resolution -------------------------------------------------------------------

/// A tensor operand is its storage dtype, a weak scalar its value.
using PlanOperand = std::variant<std::reference_wrapper<const DType>, Scalar>;

/// The keyword part of `resolve_operation_plan`; at most one of the two may be given.
struct ResolveOptions {
  const DType* accumulator_dtype = nullptr;
  const OperationExecutionOptions* options = nullptr;
};

/// One way to call an operation: roles, and for each tensor role its dtypes in the order F, I, B.
struct OperationOverload {
  std::vector<OperandRole> roles;
  std::vector<std::vector<const DType*>> tensor_domains;
  /// Ordinals among the tensor roles that must carry one descriptor; empty where they are free.
  std::vector<std::size_t> same_dtype;
};

/// One registered operation name. Lives forever.
class ORLOP_API OperationSpec {
 public:
  OperationSpec(OperationSpec&&) noexcept = default;
  ~OperationSpec() = default;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// In declaration order.
  [[nodiscard]] std::span<const OperationOverload> overloads() const noexcept { return overloads_; }
  /// False for the four names behind `sort` and `topk`.
  [[nodiscard]] bool is_public() const noexcept { return public_; }
  /// Which positional arguments of `forward` the plan's operands are; null: all of them.
  [[nodiscard]] const std::vector<std::size_t>* dtype_operand_positions() const noexcept {
    return positions_.empty() ? nullptr : &positions_;
  }

  /// Checks 4–7 of P6 and P11. The plan is interned: one address per distinct plan, valid forever. A repeated
  /// call costs a table look-up.
  [[nodiscard]] const OperationPlan& resolve(std::span<const PlanOperand> operands,
                                             const DType* accumulator_dtype = nullptr) const;

 private:
  friend class PlanRegistry;
  OperationSpec() = default;
  const OperationPlan* look_up(std::span<const PlanOperand> operands, const DType* accumulator_dtype) const;
  [[noreturn]] void refuse(std::span<const PlanOperand> operands, const DType* accumulator_dtype) const;

  std::string name_;
  std::vector<OperationOverload> overloads_;
  bool public_ = true;
  std::vector<std::size_t> positions_;
  // Every plan of this name, by operand codes and accumulator; null where the combination is refused.
  std::vector<const OperationPlan*> plans_;
};

/// All registered operations, ascending by name (P4).
ORLOP_API std::span<const OperationSpec> registered_operations();
/// The specification of `name`, or null.
ORLOP_API const OperationSpec* find_operation_spec(std::string_view name);
/// The specification of `name`, or NotImplementedError.
ORLOP_API const OperationSpec& operation_spec(std::string_view name);

/// Checks 1 and 2 of P6: the accumulator that `options` ask of `operation`, or null.
ORLOP_API const DType* requested_accumulator(std::string_view operation, const ResolveOptions& options);

/// P6: the plan of `operation` for `operands`. It reads no element. The result is interned and lives forever.
/// `resolve_operation_plan("add", std::array<PlanOperand, 2>{dtypes::Float32, 2.0})`.
ORLOP_API const OperationPlan& resolve_operation_plan(std::string_view operation,
                                                      std::span<const PlanOperand> operands,
                                                      const ResolveOptions& options = {});

/// P2: Float32 and Int32.
ORLOP_API std::span<const DType* const> supported_tensor_dtypes();
/// P2: Float32 and Float64.
ORLOP_API std::span<const DType* const> supported_accumulator_dtypes();
/// P2: 3, -1 and 0.5, which reach every branch a weak scalar can select.
ORLOP_API std::span<const Scalar> weak_scalar_probes();

/// P5: every plan reachable with `tensor_dtypes` and `weak_scalars`, in registry order, without repeats.
ORLOP_API std::vector<const OperationPlan*> resolvable_plans(
    std::span<const DType* const> tensor_dtypes = supported_tensor_dtypes(),
    std::span<const Scalar> weak_scalars = weak_scalar_probes());

/// P12: `plan`, then its variants for the other accumulators where the operation has them.
ORLOP_API std::vector<OperationPlan> plan_accumulator_variants(const OperationPlan& plan);

}  // namespace orlop::inline v0
