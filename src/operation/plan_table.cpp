// The plan table (P60). A new operation is one entry here.
#include "operation/plan_table.hpp"

#include <algorithm>

#include "orlop/dtype/dtype.hpp"

namespace orlop::inline v0 {

namespace {

using Operands = std::span<const RuleOperand>;

const DType* const float32 = &dtypes::Float32;
const DType* const int32 = &dtypes::Int32;
const DType* const boolean = &dtypes::Bool;

Arithmetic exact_unless_float(const DType* dtype) {
  return dtype == float32 ? Arithmetic::Binary32 : Arithmetic::Int32Exact;
}

// Every operand converted to `dtype`.
Outcome converted(const DType* dtype, Arithmetic compute, const DType* output) {
  return {.convert_to = {dtype, dtype, dtype}, .compute = compute, .output = output};
}

// Every operand kept as it is.
Outcome kept(Operands operands, Arithmetic compute, const DType* output) {
  Outcome outcome{.convert_to = {}, .compute = compute, .output = output};
  std::ranges::transform(operands, outcome.convert_to.begin(), &RuleOperand::dtype);
  return outcome;
}

Outcome accumulating(Outcome outcome, Accumulation accumulation, const DType* accumulator = nullptr) {
  outcome.accumulation = accumulation;
  outcome.accumulator_dtype = accumulator;
  return outcome;
}

// Int32 tensors and integer scalars only.
bool all_integer(Operands operands) {
  return std::ranges::all_of(operands, [](const RuleOperand& operand) {
    return operand.dtype != nullptr ? operand.dtype == int32 : operand.branch != ScalarBranch::Float;
  });
}

Outcome binary32(Operands) { return converted(float32, Arithmetic::Binary32, float32); }

Outcome checked_or_binary32(Operands operands) {
  return all_integer(operands) ? converted(int32, Arithmetic::Int32ExactChecked, int32) : binary32(operands);
}

Outcome exact_or_binary32(Operands operands) {
  return all_integer(operands) ? converted(int32, Arithmetic::Int32Exact, int32) : binary32(operands);
}

// The Int32 arithmetic needs an exponent in [0, 2^31 - 1], known before any element is read.
Outcome integer_power(Operands operands) {
  const bool exact = operands[0].dtype == int32 && operands[1].branch == ScalarBranch::NonNegative;
  return exact ? converted(int32, Arithmetic::Int32ExactChecked, int32) : binary32(operands);
}

Outcome predicate(Operands operands) {
  const auto is_bool = [](const RuleOperand& operand) { return operand.dtype == boolean; };
  const DType* dtype = std::ranges::all_of(operands, is_bool) ? boolean
                       : all_integer(operands)                ? int32
                                                              : float32;
  return converted(dtype, exact_unless_float(dtype), boolean);
}

// The named operand decides the output; nothing is converted.
template <std::size_t Data>
Outcome moves_values(Operands operands) {
  return kept(operands, exact_unless_float(operands[Data].dtype), operands[Data].dtype);
}

Outcome to_indices(Operands operands) { return kept(operands, exact_unless_float(operands[0].dtype), int32); }

Outcome sum(Operands operands) {
  const Outcome outcome = checked_or_binary32(operands);
  return outcome.output == int32 ? accumulating(outcome, Accumulation::ExactInteger)
                                 : accumulating(outcome, Accumulation::Floating, float32);
}

// Each prefix is carried in binary64 and rounded once; not configurable.
Outcome prefix_sum(Operands operands) {
  const Outcome outcome = sum(operands);
  return outcome.output == int32 ? outcome : accumulating(outcome, Accumulation::Floating, &dtypes::Float64);
}

Outcome product(Operands operands) {
  const Outcome outcome = checked_or_binary32(operands);
  return accumulating(outcome, outcome.output == int32 ? Accumulation::ExactInteger
                                                       : Accumulation::SequentialBinary32Product);
}

template <Accumulation Which>
Outcome extremum(Operands operands) {
  return accumulating(exact_or_binary32(operands), Which);
}

template <Accumulation Which>
Outcome extremum_position(Operands operands) {
  return accumulating(to_indices(operands), Which);
}

Outcome contraction(Operands operands) {
  const Outcome outcome = exact_or_binary32(operands);
  return outcome.output == int32 ? accumulating(outcome, Accumulation::ExactInteger)
                                 : accumulating(outcome, Accumulation::Floating, float32);
}

Outcome scattered_sum(Operands operands) {
  const bool exact = operands[0].dtype == int32;
  return accumulating(
      kept(operands, exact ? Arithmetic::Int32ExactChecked : Arithmetic::Binary32, operands[0].dtype),
      exact ? Accumulation::ExactInteger : Accumulation::SequentialBinary32);
}

}  // namespace

std::vector<OperationEntry> plan_table() {
  return {
      {"add", {{"FI FI", checked_or_binary32}, {"FI s", checked_or_binary32}}},
      {"sub", {{"FI FI", checked_or_binary32}, {"FI s", checked_or_binary32}, {"s FI", checked_or_binary32}}},
      {"mul", {{"FI FI", checked_or_binary32}, {"FI s", checked_or_binary32}}},
      {"elementwise_mul", {{"FI FI", checked_or_binary32}}},
      {"div", {{"FI FI", binary32}, {"FI s", binary32}, {"s FI", binary32}}},
      {"pow", {{"FI FI", binary32}, {"FI s", integer_power}, {"s FI", binary32}}},
      {"neg abs sign", {{"FI", checked_or_binary32}}},
      {"recip sqrt rsqrt exp2 log log2 sin cos erf floor ceil round", {{"F", binary32}}},
      {"exp sigmoid tanh gelu silu softplus elu leaky_relu", {{"FI", binary32}}},
      {"relu", {{"FI", exact_or_binary32}}},
      {"maximum minimum", {{"FI= FI=", exact_or_binary32}, {"FI s", exact_or_binary32}}},
      {"rem", {{"FI= FI=", exact_or_binary32}}},
      {"eq ne", {{"FIB= FIB=", predicate}, {"FI s", predicate}, {"s FI", predicate}}},
      {"lt le", {{"FI= FI=", predicate}, {"FI s", predicate}, {"s FI", predicate}}},
      {"logical_not", {{"FIB", predicate}}},
      {"reduce_sum", {{"FI", sum}}},
      {"reduce_prod", {{"FI", product}}},
      {"reduce_max", {{"FI", extremum<Accumulation::Maximum>}}},
      {"reduce_min", {{"FI", extremum<Accumulation::Minimum>}}},
      {"argmax", {{"FI", extremum_position<Accumulation::Argmax>}}},
      {"argmin", {{"FI", extremum_position<Accumulation::Argmin>}}},
      {"cumsum", {{"FI", prefix_sum}}, {0}},
      {"matmul", {{"FI FI", contraction}}},
      {"conv_general", {{"F F", contraction}}, {0, 1}},
      {"gather", {{"FIB I", moves_values<0>}}, {0, 1}},
      {"scatter", {{"FIB= I FIB=", moves_values<0>}}, {0, 1, 2}},
      {"scatter_add", {{"FI= I FI=", scattered_sum}}, {0, 1, 2}},
      {"select", {{"B FIB= FIB=", moves_values<1>}}},
      {"clamp",
       {{"FI= FI= FI=", exact_or_binary32},
        {"FI= FI= s", exact_or_binary32},
        {"FI= s FI=", exact_or_binary32},
        {"FI s s", exact_or_binary32}}},
      {"_sort_values _topk_values", {{"FI", moves_values<0>}}, {0}, NameUse::Private},
      {"_sort_indices _topk_indices", {{"FI", to_indices}}, {0}, NameUse::Private},
      {"_rem_quotient", {{"F F", binary32}}, {}, NameUse::Gradient},
  };
}

}  // namespace orlop::inline v0
