// Capabilities of carrier classes and the gate (P20–P31).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "orlop/base/error.hpp"
#include "orlop/movement/move.hpp"
#include "orlop/operation/capability.hpp"

namespace orlop {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using testing::ThrowsMessage;

const DType& F = dtypes::Float32;
const DType& I = dtypes::Int32;
const DType& B = dtypes::Bool;

const OperationPlan& plan(std::string_view name, const std::vector<PlanOperand>& operands) {
  return resolve_operation_plan(name, operands);
}

OperationCapability capability(std::string_view name, const std::vector<PlanOperand>& operands) {
  return OperationCapability::from_plan(plan(name, operands));
}

CarrierClass fresh_class(const std::string& name, bool dependent = false) {
  return detail::python_carrier_class(nullptr, name, dependent);
}

std::vector<OperationCapability> all_of(std::initializer_list<OperationCapability> entries) {
  return entries;
}

TEST(Capability, CopiesEveryFieldOfEveryPlan) {
  const std::array<const DType*, 3> every{&F, &I, &B};
  for (const OperationPlan* each : resolvable_plans(every)) {
    const OperationCapability entry = OperationCapability::from_plan(*each);
    EXPECT_TRUE(entry.matches(*each)) << each->operation;
    EXPECT_EQ(CapabilitySet::of_every_plan()->find(*each)->hash(), each->hash());
  }
}

TEST(Capability, MatchesOnlyWhereEveryFieldAgrees) {
  const OperationPlan& sum = plan("reduce_sum", {F});
  const OperationCapability entry = OperationCapability::from_plan(sum);
  const std::vector<OperandPlan> operands = sum.operands;
  const std::vector<OperandPlan> integers{OperandPlan(OperandRole::Tensor, &I, F)};
  const std::vector<OperandPlan> converted{OperandPlan(OperandRole::Tensor, &F, I)};
  const std::vector<OperandPlan> scalar{OperandPlan(OperandRole::WeakScalar, nullptr, F)};
  const std::vector<OperandPlan> two{operands[0], operands[0]};
  const auto floating = std::optional(Accumulation::Floating);
  const auto with = [&](const std::string& name, const std::vector<OperandPlan>& given, Arithmetic compute,
                        std::optional<Accumulation> accumulation, const DType* accumulator,
                        const DType& output) {
    return entry.matches(OperationPlan(name, given, compute, accumulation, accumulator, output));
  };
  EXPECT_TRUE(with("reduce_sum", operands, Arithmetic::Binary32, floating, &F, F));
  EXPECT_FALSE(with("reduce_prod", operands, Arithmetic::Binary32, floating, &F, F));
  for (const auto& other : {integers, converted, scalar, two, std::vector<OperandPlan>{}})
    EXPECT_FALSE(with("reduce_sum", other, Arithmetic::Binary32, floating, &F, F));
  EXPECT_FALSE(with("reduce_sum", operands, Arithmetic::Int32Exact, floating, &F, F));
  EXPECT_FALSE(with("reduce_sum", operands, Arithmetic::Binary32, std::nullopt, &F, F));
  EXPECT_FALSE(with("reduce_sum", operands, Arithmetic::Binary32, Accumulation::Maximum, &F, F));
  EXPECT_FALSE(with("reduce_sum", operands, Arithmetic::Binary32, floating, &dtypes::Float64, F));
  EXPECT_FALSE(with("reduce_sum", operands, Arithmetic::Binary32, floating, nullptr, F));
  EXPECT_FALSE(with("reduce_sum", operands, Arithmetic::Binary32, floating, &F, I));
}

TEST(Capability, NeedsAnOperand) {
  EXPECT_THROW(OperationCapability("add", {}, Arithmetic::Binary32, std::nullopt, nullptr, F), ValueError);
}

TEST(Capability, NoClassHasNoFactsAndSupportsNothing) {
  const CarrierClass none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.to_string(), "no carrier class");
  EXPECT_FALSE(none.is_shipped() || none.is_dependent() || none.is_defined());
  EXPECT_TRUE(capabilities_for_carrier_class(none, std::nullopt).empty());
}

TEST(Capability, BelongsToOneClassOnce) {
  const CarrierClass mine = fresh_class("Mine");
  register_operation_capabilities(mine, all_of({capability("relu", {F}), capability("add", {F, F})}));
  EXPECT_TRUE(supports_operation_plan(mine, plan("add", {F, F})));
  EXPECT_FALSE(supports_operation_plan(mine, plan("add", {I, F})));
  EXPECT_FALSE(supports_operation_plan(fresh_class("Other"), plan("add", {F, F})));
  EXPECT_THAT([&] { register_operation_capabilities(mine, all_of({})); },
              ThrowsMessage<TypeError>(HasSubstr("already declared")));
  EXPECT_EQ(&require_capability(mine, plan("relu", {F})), matching_capability(mine, plan("relu", {F})));
}

TEST(Capability, IsSealedEmptyByTheFirstQuery) {
  const CarrierClass seen = fresh_class("Seen");
  EXPECT_FALSE(supports_operation_plan(seen, plan("add", {F, F})));
  EXPECT_THAT([&] { register_operation_capabilities(seen, all_of({})); },
              ThrowsMessage<TypeError>(HasSubstr("already observed")));
}

TEST(Capability, LeavesTheClassOpenAfterARejectedDeclaration) {
  const CarrierClass open = fresh_class("Open");
  const OperationCapability relu = capability("relu", {F});
  EXPECT_THROW(register_operation_capabilities(open, all_of({relu, relu})), ValueError);
  EXPECT_THROW(register_operation_capabilities(open, std::vector<CapabilitySet::Entry>{nullptr}), TypeError);
  register_operation_capabilities(open, all_of({relu}));
  EXPECT_TRUE(supports_operation_plan(open, plan("relu", {F})));
}

TEST(Capability, IsNotDeclaredForDependentOrNoClasses) {
  const CarrierClass dependent = fresh_class("Dependent", true);
  EXPECT_THROW(register_operation_capabilities(dependent, all_of({})), TypeError);
  EXPECT_THROW(register_operation_capabilities(CarrierClass(), all_of({})), TypeError);
  EXPECT_THAT(capabilities_for_carrier_class(dependent), IsEmpty());
  EXPECT_FALSE(supports_operation_plan(CarrierClass(), plan("relu", {F})));
  EXPECT_NE(unsupported_plan_reason(CarrierClass(), plan("relu", {F})), std::nullopt);
  EXPECT_THROW(require_capability(CarrierClass(), plan("relu", {F})), UnsupportedOperationPlan);
}

TEST(Capability, TellsTheTwoReasonsApart) {
  const CarrierClass mine = fresh_class("Picky");
  register_operation_capabilities(mine, all_of({capability("add", {F, F})}));
  const auto kind = [&](const OperationPlan& refused) {
    try {
      require_capability(mine, refused);
    } catch (const UnsupportedOperationPlan& error) {
      EXPECT_EQ(error.plan(), refused);
      EXPECT_EQ(error.carrier_class(), mine);
      EXPECT_EQ(error.what(), *unsupported_plan_reason(mine, refused));
      return value_of(error.kind());
    }
    return std::string_view("supported");
  };
  EXPECT_EQ(kind(plan("add", {F, F})), "supported");
  EXPECT_EQ(kind(plan("add", {I, F})), "shape");
  EXPECT_EQ(kind(plan("mul", {I, F})), "operation");
  EXPECT_NE(unsupported_plan_reason(mine, plan("add", {I, F})),
            unsupported_plan_reason(mine, plan("add", {F, I})));
  EXPECT_EQ(unsupported_plan_reason(mine, plan("mul", {I, F})),
            unsupported_plan_reason(mine, plan("mul", {F, F})));
  EXPECT_EQ(unsupported_plan_reason(mine, plan("add", {F, F})), std::nullopt);
  EXPECT_THAT(*unsupported_plan_reason(mine, plan("add", {I, F})),
              testing::AllOf(HasSubstr("Picky"), HasSubstr("tensor:Int32:Float32|tensor:Float32:Float32"),
                             HasSubstr("binary32"), HasSubstr("output Float32")));
}

TEST(Capability, IsListedInOrder) {
  const CarrierClass mine = fresh_class("Sorted");
  register_operation_capabilities(
      mine, all_of({capability("relu", {I}), capability("add", {I, I}), capability("relu", {F}),
                    capability("add", {F, F}), capability("_topk_values", {F})}));
  std::vector<std::string> order;
  for (const CapabilitySet::Entry& entry : capabilities_for_carrier_class(mine))
    order.push_back(entry->operation + ' ' + entry->operands[0].dtype->name());
  EXPECT_THAT(order,
              ElementsAre("_topk_values Float32", "add Float32", "add Int32", "relu Float32", "relu Int32"));
  EXPECT_EQ(capabilities_for_carrier_class(mine, "relu").size(), 2U);
  EXPECT_THAT(capabilities_for_carrier_class(mine, "mul"), IsEmpty());
}

TEST(Capability, FindsPlansThatAreNotInterned) {
  const CarrierClass mine = fresh_class("Foreign");
  const std::vector<OperandCapability> operands{OperandCapability(OperandRole::Tensor, &dtypes::Int8, F)};
  const OperationCapability own("acme.decode", operands, Arithmetic::Binary32, std::nullopt, nullptr, F);
  const OperationPlan& relu = plan("relu", {F});
  // The same fields as relu's plan, given one by one.
  const std::vector<OperandCapability> float_operands{OperandCapability(OperandRole::Tensor, &F, F)};
  const OperationCapability by_hand("relu", float_operands, Arithmetic::Binary32, std::nullopt, nullptr, F);
  register_operation_capabilities(mine, all_of({own, by_hand}));
  const std::vector<OperandPlan> plan_operands{OperandPlan(OperandRole::Tensor, &dtypes::Int8, F)};
  EXPECT_TRUE(supports_operation_plan(
      mine, OperationPlan("acme.decode", plan_operands, Arithmetic::Binary32, std::nullopt, nullptr, F)));
  EXPECT_TRUE(supports_operation_plan(mine, relu));
  EXPECT_TRUE(
      supports_operation_plan(mine, OperationPlan("relu", relu.operands, relu.compute, relu.accumulation,
                                                  relu.accumulator_dtype, relu.output)));
}

/// A definition that can execute every plan.
class Everything final : public detail::DefinedClass {
 public:
  explicit Everything(int& asked) : asked_(asked) {}
  std::shared_ptr<const CapabilitySet> freeze() override {
    ++asked_;
    return CapabilitySet::of_every_plan();
  }
  [[nodiscard]] MoveRoute route_to(CarrierClass) const override { return {}; }
  [[nodiscard]] bool copies_elementwise() const noexcept override { return false; }
  [[nodiscard]] const CarrierFacet* facet(const std::type_info&) const noexcept override { return nullptr; }

 private:
  int& asked_;
};

TEST(Capability, OfDefinedClassesIsFrozenByTheFirstQuery) {
  const CarrierClass defined = fresh_class("Defined");
  int asked = 0;
  detail::define_class(defined, std::make_unique<Everything>(asked));
  EXPECT_THAT([&] { register_operation_capabilities(defined, all_of({})); },
              ThrowsMessage<TypeError>(HasSubstr("CarrierDefinition")));
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(supports_operation_plan(defined, plan("add", {F, F})));
  EXPECT_TRUE(supports_operation_plan(defined, plan("eq", {B, B})));
  EXPECT_EQ(asked, 1);
  EXPECT_THAT([&] { detail::define_class(defined, std::make_unique<Everything>(asked)); },
              ThrowsMessage<TypeError>(HasSubstr("already observed")));
  const CarrierClass observed = fresh_class("ObservedFirst");
  EXPECT_THAT(capabilities_for_carrier_class(observed), IsEmpty());
  EXPECT_THROW(detail::define_class(observed, std::make_unique<Everything>(asked)), TypeError);
  EXPECT_EQ(asked, 1);
}

TEST(Capability, HasOneWinnerAmongRacingDeclarations) {
  for (int round = 0; round < 20; ++round) {
    const CarrierClass raced = fresh_class("Raced");
    std::atomic<int> winners{0};
    std::atomic<bool> torn{false};
    const auto declare = [&](const char* name) {
      try {
        register_operation_capabilities(raced, all_of({capability(name, {F}), capability("add", {F, F})}));
        ++winners;
      } catch (const TypeError&) {
        const std::size_t seen = capabilities_for_carrier_class(raced).size();
        if (seen != 2) torn = true;
      }
    };
    std::thread first(declare, "relu");
    std::thread second(declare, "neg");
    first.join();
    second.join();
    EXPECT_EQ(winners, 1);
    EXPECT_FALSE(torn);
  }
}

TEST(Capability, SetsAreFilteredByOutput) {
  const std::shared_ptr<const CapabilitySet>& every = CapabilitySet::of_every_plan();
  int asked = 0;
  EXPECT_EQ(every->where_output([&](const DType&) { return ++asked > 0; }), every);
  EXPECT_EQ(asked, 3);
  const auto integers = every->where_output([](const DType& dtype) { return &dtype == &I; });
  EXPECT_EQ(integers, every->where_output([](const DType& dtype) { return &dtype == &I; }));
  EXPECT_LT(integers->sorted().size(), every->sorted().size());
  for (const CapabilitySet::Entry& entry : integers->sorted()) EXPECT_EQ(&entry->output, &I);
  EXPECT_NE(integers->find(plan("add", {I, I})), nullptr);
  EXPECT_EQ(integers->find(plan("add", {I, F})), nullptr);
}

TEST(Capability, SurvivesDetaching) {
  const CarrierClass mine = fresh_class("Detached");
  const auto entry = std::make_shared<const OperationCapability>(capability("relu", {F}));
  register_operation_capabilities(mine, std::vector<CapabilitySet::Entry>{entry});
  EXPECT_EQ(matching_capability(mine, plan("relu", {F})), entry.get());
  detail::detach_capabilities();
  EXPECT_EQ(entry.use_count(), 1);
  EXPECT_TRUE(supports_operation_plan(mine, plan("relu", {F})));
}

}  // namespace
}  // namespace orlop
