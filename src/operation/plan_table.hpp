// The plan table (P60): the only place that states dtype domains and what a name computes. Private.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "orlop/operation/plan.hpp"

namespace orlop::inline v0 {

/// What a weak scalar's value can decide: its kind, its sign, and whether it is an Int32.
enum class ScalarBranch : std::uint8_t { Float, Negative, NonNegative, Wide };

/// Everything a rule may look at.
struct RuleOperand {
  const DType* dtype;  // null for a weak scalar
  ScalarBranch branch = ScalarBranch::Float;
};

inline constexpr std::size_t max_plan_operands = 3;

/// A plan without its name and roles, which the rule cannot change.
struct Outcome {
  std::array<const DType*, max_plan_operands> convert_to;
  Arithmetic compute;
  const DType* output;
  std::optional<Accumulation> accumulation = std::nullopt;
  const DType* accumulator_dtype = nullptr;
};

using PlanRule = Outcome (*)(std::span<const RuleOperand> operands);

/// `operands` has one word per operand: `s` is a weak scalar, letters are a tensor's dtypes (F, I, B), and
/// `=` after them says that all tensors so marked carry one dtype.
struct OverloadEntry {
  std::string_view operands;
  PlanRule rule;
};

/// Who may use a name: everybody; `sort` and `topk`, which dispatch it; or gradient rules only, which are not
/// gated (P65): such a name is not registered, dispatched or advertised.
enum class NameUse : std::uint8_t { Public, Private, Gradient };

struct OperationEntry {
  std::string_view names;  // separated by spaces
  std::vector<OverloadEntry> overloads;
  std::vector<std::size_t> positions{};
  NameUse use = NameUse::Public;
};

std::vector<OperationEntry> plan_table();

/// The specification of a name in the table, registered or not.
const OperationSpec& table_spec(std::string_view name);

/// The number of plans in the registry: the greatest builtin_number().
std::uint32_t builtin_plan_count();
/// The plan whose builtin_number() is `number`.
const OperationPlan& builtin_plan(std::uint32_t number);
/// The builtin_number() of the plan with these fields, or 0.
std::uint32_t find_builtin_number(const OperationPlan& plan);

}  // namespace orlop::inline v0
