// Plans, their registry, resolution and execution options (P1–P12).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "orlop/base/error.hpp"
#include "orlop/dtype/compound.hpp"
#include "orlop/operation/plan.hpp"

namespace orlop {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const DType& F = dtypes::Float32;
const DType& I = dtypes::Int32;
const DType& B = dtypes::Bool;
const DType& D = dtypes::Float64;

using Operands = std::vector<PlanOperand>;

const OperationPlan& resolve(std::string_view name, const Operands& operands,
                             const DType* accumulator = nullptr) {
  return resolve_operation_plan(name, operands, {.accumulator_dtype = accumulator});
}

std::vector<const DType*> conversions(const OperationPlan& plan) {
  std::vector<const DType*> dtypes;
  for (const OperandPlan& operand : plan.operands) dtypes.push_back(&operand.convert_to);
  return dtypes;
}

TEST(Plan, ConvertsAMixedPairToFloat32) {
  const OperationPlan& plan = resolve("add", {I, F});
  EXPECT_EQ(plan.operation, "add");
  EXPECT_EQ(plan.operands[0].dtype, &I);
  EXPECT_EQ(plan.operands[1].dtype, &F);
  EXPECT_THAT(conversions(plan), ElementsAre(&F, &F));
  EXPECT_EQ(plan.compute, Arithmetic::Binary32);
  EXPECT_EQ(plan.accumulation, std::nullopt);
  EXPECT_EQ(plan.accumulator_dtype, nullptr);
  EXPECT_EQ(plan.output, F);
}

TEST(Plan, CombinesAConvolutionInFloat32) {
  const OperationPlan& plan = resolve("conv_general", {F, F});
  EXPECT_EQ(plan.accumulation, Accumulation::Floating);
  EXPECT_EQ(plan.accumulator_dtype, &F);
  EXPECT_EQ(plan.output, F);
}

TEST(Plan, ScansInFloat64) {
  EXPECT_EQ(resolve("cumsum", {F}).accumulator_dtype, &D);
  EXPECT_EQ(resolve("cumsum", {F}).accumulation, Accumulation::Floating);
  EXPECT_EQ(resolve("cumsum", {I}).accumulation, Accumulation::ExactInteger);
  EXPECT_THROW((void)resolve("cumsum", {F}, &F), TypeError);
}

TEST(Plan, RefusesTensorsOfTwoDTypesWhereOneIsWanted) {
  EXPECT_THROW((void)resolve("maximum", {F, I}), TypeError);
  EXPECT_THROW((void)resolve("select", {B, F, I}), TypeError);
  EXPECT_THROW((void)resolve("scatter", {F, I, I}), TypeError);
  EXPECT_THROW((void)resolve("clamp", {I, F, 1}), TypeError);
  EXPECT_EQ(resolve("scatter", {B, I, B}).output, B);
}

TEST(Plan, TellsTheDTypeFaultsApart) {
  EXPECT_THROW((void)resolve("add", {B, B}), NotImplementedError);
  EXPECT_THROW((void)resolve("scatter_add", {B, I, B}), NotImplementedError);
  EXPECT_EQ(resolve("eq", {B, B}).output, B);
  EXPECT_THROW((void)resolve("recip", {I}), TypeError);
  EXPECT_THROW((void)resolve("select", {F, F, F}), TypeError);
  EXPECT_THROW((void)resolve("add", {dtypes::Any, F}), TypeError);
  EXPECT_THROW((void)resolve("add", {dtypes::Integer, F}), TypeError);
  EXPECT_THROW((void)resolve("add", {dtypes::Floating, F}), TypeError);
  EXPECT_THROW((void)resolve("add", {D, F}), NotImplementedError);
  EXPECT_THROW((void)resolve("add", {dtypes::MXFP4, F}), NotImplementedError);
}

TEST(Plan, LetsScalarsSelectTheBranch) {
  const std::int64_t beyond = std::int64_t{1} << 31;
  EXPECT_THROW((void)resolve("mul", {I, beyond}), OverflowError);
  EXPECT_THROW((void)resolve("mul", {I, -beyond - 1}), OverflowError);
  EXPECT_THROW((void)resolve("clamp", {I, Scalar(Scalar::BigInteger{1e30F}), 2}), OverflowError);
  EXPECT_EQ(resolve("mul", {I, -beyond}).output, I);
  EXPECT_EQ(resolve("mul", {F, beyond}).output, F);
  EXPECT_EQ(resolve("mul", {I, true}).output, F);
  EXPECT_EQ(resolve("pow", {I, beyond - 1}).output, I);
  EXPECT_EQ(resolve("pow", {I, beyond}).output, F);
  EXPECT_EQ(resolve("pow", {I, -1}).output, F);
  EXPECT_EQ(resolve("pow", {2, I}).output, F);
  EXPECT_EQ(resolve("clamp", {I, 0, 2.5}).output, F);
  EXPECT_EQ(resolve("clamp", {I, 0, 2}).compute, Arithmetic::Int32Exact);
  EXPECT_EQ(resolve("maximum", {I, 0.5}).output, F);
  EXPECT_EQ(resolve("lt", {I, 0.5}).compute, Arithmetic::Binary32);
  EXPECT_EQ(resolve("lt", {2, I}).output, B);
}

TEST(Plan, ChecksTheAccumulatorFirst) {
  EXPECT_THROW((void)resolve("relu", {F}, &D), TypeError);
  EXPECT_THROW((void)resolve("matmul", {I, I}, &D), TypeError);
  EXPECT_THROW((void)resolve("matmul", {I, I}, &F), TypeError);
  EXPECT_THROW((void)resolve("nosuch", {F}, &F), TypeError);
  EXPECT_THROW((void)resolve("matmul", {F, F}, &dtypes::Any), TypeError);
  EXPECT_THROW((void)resolve("matmul", {F, F}, &I), NotImplementedError);
  EXPECT_THROW((void)resolve("nosuch", {F}), NotImplementedError);
  EXPECT_EQ(resolve("matmul", {F, I}, &D).accumulator_dtype, &D);
  EXPECT_EQ(resolve("matmul", {F, I}).accumulator_dtype, &F);
}

TEST(Plan, BindsOptionsToTheirOperation) {
  const OperationExecutionOptions options = operation_execution_options("matmul", {.accumulator_dtype = &D});
  const Operands one{F};
  const Operands two{F, F};
  EXPECT_THROW((void)resolve_operation_plan("reduce_sum", one, {.options = &options}), ValueError);
  EXPECT_THROW((void)resolve_operation_plan("matmul", two, {.accumulator_dtype = &D, .options = &options}),
               TypeError);
  EXPECT_EQ(resolve_operation_plan("matmul", two, {.options = &options}).accumulator_dtype, &D);
  EXPECT_THROW(operation_execution_options("conv_general"), TypeError);
  EXPECT_THROW(operation_execution_options("matmul", {.accumulator_dtype = &dtypes::MXFP4}), TypeError);
  EXPECT_EQ(operation_execution_options("matmul").accumulator_dtype(), nullptr);
  EXPECT_EQ(options, OperationExecutionOptions("matmul", &D));
}

TEST(Plan, RefusesCallsNoOverloadTakes) {
  EXPECT_THROW((void)resolve("add", {F}), TypeError);
  EXPECT_THROW((void)resolve("add", {F, F, F}), TypeError);
  EXPECT_THROW((void)resolve("mul", {2.0, F}), TypeError);
  EXPECT_THROW((void)resolve("add", {1, 2}), TypeError);
  EXPECT_THROW((void)resolve("clamp", {1, F, 2}), TypeError);
  EXPECT_THROW((void)resolve("relu", {}), TypeError);
  EXPECT_THAT([] { (void)resolve("mul", {2.0, F}); },
              ThrowsMessage<TypeError>(HasSubstr("(tensor, tensor) or (tensor, weak_scalar)")));
}

TEST(Plan, IsInterned) {
  EXPECT_EQ(&resolve("add", {I, F}), &resolve("add", {I, F}));
  EXPECT_EQ(&resolve("mul", {F, 2}), &resolve("mul", {F, 0.5}));
  EXPECT_EQ(&resolve("matmul", {F, F}), &resolve("matmul", {F, F}, &F));
  EXPECT_NE(&resolve("matmul", {F, F}), &resolve("matmul", {F, F}, &D));
  EXPECT_EQ(&operation_spec("add").resolve(Operands{I, F}), &resolve("add", {I, F}));
}

TEST(Plan, ListsEveryRegisteredName) {
  std::vector<std::string> names;
  std::vector<std::string> hidden;
  for (const OperationSpec& spec : registered_operations())
    (spec.is_public() ? names : hidden).push_back(spec.name());
  EXPECT_THAT(hidden, ElementsAre("_sort_indices", "_sort_values", "_topk_indices", "_topk_values"));
  EXPECT_THAT(names, ElementsAre("abs", "add", "argmax", "argmin", "ceil", "clamp", "conv_general", "cos",
                                 "cumsum", "div", "elementwise_mul", "elu", "eq", "erf", "exp", "exp2",
                                 "floor", "gather", "gelu", "le", "leaky_relu", "log", "log2", "logical_not",
                                 "lt", "matmul", "maximum", "minimum", "mul", "ne", "neg", "pow", "recip",
                                 "reduce_max", "reduce_min", "reduce_prod", "reduce_sum", "relu", "rem",
                                 "round", "rsqrt", "scatter", "scatter_add", "select", "sigmoid", "sign",
                                 "silu", "sin", "softplus", "sqrt", "sub", "tanh"));
  EXPECT_EQ(find_operation_spec("gt"), nullptr);
  EXPECT_EQ(find_operation_spec("reshape"), nullptr);
  EXPECT_THAT(*operation_spec("scatter").dtype_operand_positions(), ElementsAre(0, 1, 2));
  EXPECT_THAT(*operation_spec("_topk_values").dtype_operand_positions(), ElementsAre(0));
  EXPECT_EQ(operation_spec("add").dtype_operand_positions(), nullptr);
}

TEST(Plan, EnumeratesEveryPlanOnce) {
  const std::vector<const OperationPlan*> plans = resolvable_plans();
  EXPECT_EQ(std::set<const OperationPlan*>(plans.begin(), plans.end()).size(), plans.size());
  for (const OperationPlan* plan : plans)
    for (const OperandPlan& operand : plan->operands) EXPECT_NE(operand.dtype, &B) << plan->operation;
  const std::vector<const DType*> all{&F, &I, &B};
  EXPECT_GT(resolvable_plans(all).size(), plans.size());
  const std::vector<const DType*> integers{&I};
  EXPECT_EQ(resolvable_plans(integers, {}).front()->operation, "_sort_indices");
}

TEST(Plan, VariesTheAccumulator) {
  const std::vector<OperationPlan> variants = plan_accumulator_variants(resolve("reduce_sum", {F}));
  ASSERT_EQ(variants.size(), 2U);
  EXPECT_EQ(variants[0].accumulator_dtype, &F);
  EXPECT_EQ(variants[1], resolve("reduce_sum", {F}, &D));
  EXPECT_EQ(plan_accumulator_variants(variants[1])[0], variants[1]);
  EXPECT_EQ(plan_accumulator_variants(resolve("reduce_sum", {I})).size(), 1U);
  EXPECT_EQ(plan_accumulator_variants(resolve("cumsum", {F})).size(), 1U);
}

TEST(Plan, RecordsCheckTheirRoles) {
  EXPECT_THROW(OperandPlan(OperandRole::Tensor, nullptr, F), TypeError);
  EXPECT_THROW(OperandPlan(OperandRole::Tensor, &dtypes::Any, F), TypeError);
  EXPECT_THROW(OperandPlan(OperandRole::WeakScalar, &F, F), TypeError);
  EXPECT_EQ(OperandPlan(OperandRole::WeakScalar, nullptr, F),
            OperandPlan(OperandRole::WeakScalar, nullptr, F));
}

// Every row of the plan table against a second, independent statement of it: letters are convert_to of each
// operand, compute (b, c, e), accumulation value, accumulator and output.
std::string summary(const OperationPlan& plan) {
  const auto letter = [](const DType* dtype) {
    return dtype == nullptr ? '-' : dtype == &D ? 'D' : dtype->name()[0];
  };
  std::string out;
  for (const OperandPlan& operand : plan.operands) out += letter(&operand.convert_to);
  out += plan.compute == Arithmetic::Binary32 ? " b" : plan.compute == Arithmetic::Int32Exact ? " e" : " c";
  if (plan.accumulation) out += text(' ', value_of(*plan.accumulation));
  if (plan.accumulator_dtype != nullptr) out += text('/', letter(plan.accumulator_dtype));
  return out + ' ' + letter(&plan.output);
}

TEST(Plan, FollowsTheTable) {
  const auto is = [](std::string_view names, const Operands& operands, const std::string& expected) {
    std::string_view rest = names;
    while (!rest.empty()) {
      const std::string_view name = rest.substr(0, rest.find(' '));
      EXPECT_EQ(summary(resolve(name, operands)), expected) << name;
      rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    }
  };
  is("add sub mul elementwise_mul", {I, I}, "II c I");
  is("add sub mul elementwise_mul div pow", {F, I}, "FF b F");
  is("add sub mul", {I, 3}, "II c I");
  is("add sub mul", {F, 3}, "FF b F");
  is("sub", {3, I}, "II c I");
  is("div pow", {3, I}, "FF b F");
  is("div pow", {I, I}, "FF b F");
  is("div", {I, 3}, "FF b F");
  is("pow", {I, 3}, "II c I");
  is("neg abs sign", {F}, "F b F");
  is("neg abs sign", {I}, "I c I");
  is("recip sqrt rsqrt exp2 log log2 sin cos erf floor ceil round", {F}, "F b F");
  is("exp sigmoid tanh gelu silu softplus elu leaky_relu", {I}, "F b F");
  is("relu", {I}, "I e I");
  is("relu", {F}, "F b F");
  is("maximum minimum rem", {F, F}, "FF b F");
  is("maximum minimum rem", {I, I}, "II e I");
  is("maximum minimum", {I, 3}, "II e I");
  is("eq ne lt le", {F, F}, "FF b B");
  is("eq ne lt le", {I, I}, "II e B");
  is("eq ne", {B, B}, "BB e B");
  is("eq ne lt le", {I, 3}, "II e B");
  is("eq ne lt le", {I, 0.5}, "FF b B");
  is("logical_not", {F}, "F b B");
  is("logical_not", {I}, "I e B");
  is("logical_not", {B}, "B e B");
  is("reduce_sum", {F}, "F b floating/F F");
  is("reduce_sum reduce_prod", {I}, "I c exact_integer I");
  is("reduce_prod", {F}, "F b sequential_binary32_product F");
  is("reduce_max", {F}, "F b maximum F");
  is("reduce_min", {I}, "I e minimum I");
  is("argmax", {F}, "F b argmax I");
  is("argmin", {I}, "I e argmin I");
  is("cumsum", {F}, "F b floating/D F");
  is("cumsum", {I}, "I c exact_integer I");
  is("matmul", {I, I}, "II e exact_integer I");
  is("matmul", {I, F}, "FF b floating/F F");
  is("gather", {B, I}, "BI e B");
  is("gather", {F, I}, "FI b F");
  is("scatter", {I, I, I}, "III e I");
  is("scatter", {F, I, F}, "FIF b F");
  is("scatter_add", {F, I, F}, "FIF b sequential_binary32 F");
  is("scatter_add", {I, I, I}, "III c exact_integer I");
  is("select", {B, F, F}, "BFF b F");
  is("select", {B, B, B}, "BBB e B");
  is("clamp", {F, 1, 2}, "FFF b F");
  is("clamp", {I, 1, I}, "III e I");
  is("clamp", {I, I, 0.5}, "FFF b F");
  is("_sort_values _topk_values", {I}, "I e I");
  is("_sort_indices _topk_indices", {F}, "F b I");
}

}  // namespace
}  // namespace orlop
