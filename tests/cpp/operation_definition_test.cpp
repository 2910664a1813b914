// Definitions of operations, and the one path of calls on carrier classes with a definition (X21–X33).
#include "orlop/operation/operation_definition.hpp"

#include <functional>

#include "backends.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/definition_operation.hpp"
#include "orlop/operation/functional.hpp"
#include "orlop/operation/grad_mode.hpp"
#include "orlop/operation/invocation_executor.hpp"

namespace orlop {
namespace {

using testing_support::elements;
using testing_support::expect_refusal;

// --- A carrier class whose executor does what a test asks for --------------------------------------------

/// Float32 or Int32 slots that a test's executor computes on.
class Bench final : public Carrier {
 public:
  Bench(std::vector<float> values, const DType& dtype = dtypes::Float32)
      : values(std::move(values)), dtype_(dtype) {}
  [[nodiscard]] Index size() const override { return is_released() ? 0 : static_cast<Index>(values.size()); }
  [[nodiscard]] const DType& dtype() const override { return dtype_; }
  [[nodiscard]] Scalar get_value(Index index) const override {
    const float value = values[static_cast<std::size_t>(index)];
    if (&dtype_ == &dtypes::Bool) return Scalar(value != 0.0F);
    return &dtype_ == &dtypes::Int32 ? Scalar(static_cast<std::int32_t>(value)) : Scalar(value);
  }
  void set_value(Index index, const Scalar& value) override {
    values[static_cast<std::size_t>(index)] = value.to_binary32();
  }
  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> from, const NewLikeOptions&) const override {
    std::vector<float> copies;
    for (const Scalar& value : from) copies.push_back(value.to_binary32());
    return make_ref<Bench>(std::move(copies), dtype_);
  }
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options) const override {
    return make_ref<Bench>(std::vector<float>(static_cast<std::size_t>(size)),
                           options.dtype ? *options.dtype : dtype_);
  }

  std::vector<float> values;
  int releases = 0;

 protected:
  [[nodiscard]] bool intrinsic_mutable() const override { return true; }
  void on_release() override {
    ++releases;
    values.clear();
  }

 private:
  const DType& dtype_;
};

/// Computes with the references unless a test says otherwise; counts what it is asked.
class Script final : public InvocationExecutor {
 public:
  using Work = std::function<std::vector<Tensor>(const ResolvedInvocation&)>;

  void check_name(const Carrier& carrier, const OperationDefinition& definition) const override {
    if (definition.name() == refused)
      throw UnsupportedOperationPlan(RefusalKind::Operation, carrier.carrier_class(), "[Bench] no kernel");
  }
  void require_plan(const Carrier& carrier, const ResolvedInvocation& invocation) const override {
    ++plans;
    if (refuses_plans)
      throw UnsupportedOperationPlan(RefusalKind::Shape, carrier.carrier_class(), invocation.plan(),
                                     "[Bench] not this plan");
  }
  [[nodiscard]] std::vector<CarrierClass> result_carriers(
      const Carrier& carrier, const ResolvedInvocation& invocation) const override {
    ++questions;
    return InvocationExecutor::result_carriers(carrier, invocation);
  }
  [[nodiscard]] std::function<std::vector<Tensor>()> prepare(
      Carrier&, const ResolvedInvocation& invocation) const override {
    ++preparations;
    if (on_prepare) on_prepare(invocation);
    return [this, invocation] { return work ? work(invocation) : execute_reference(invocation); };
  }

  std::string refused;
  bool refuses_plans = false;
  Work work;
  std::function<void(const ResolvedInvocation&)> on_prepare;
  mutable int plans = 0, questions = 0, preparations = 0;
};

/// The executor of Bench, fresh for each test.
class DefinitionTest : public ::testing::Test {
 protected:
  DefinitionTest() { carrier_class<Bench>().record()->executor.store(&script_); }
  ~DefinitionTest() override { carrier_class<Bench>().record()->executor.store(nullptr); }

  Script script_;
};

Layout row(Index extent) { return Layout::canonical(Shape{extent}); }

Tensor bench(std::vector<float> values) {
  const auto extent = static_cast<Index>(values.size());
  return Tensor(make_ref<Bench>(std::move(values)), 0, row(extent));
}

Bench& bench_of(const Tensor& tensor) { return dynamic_cast<Bench&>(*tensor.carrier()); }

// --- Operations of this file -----------------------------------------------------------------------------

std::shared_ptr<const OperationPlan> plan_for(const BoundOperationCall& call) {
  std::vector<OperandPlan> operands;
  for (std::size_t i = 0; i < call.operands().size(); ++i) {
    if (const Tensor* tensor = call.tensor(i))
      operands.emplace_back(OperandRole::Tensor, &tensor->dtype(), tensor->dtype());
    else if (call.operand_kinds()[i] == OperandKind::weak_scalar)
      operands.emplace_back(OperandRole::WeakScalar, nullptr, dtypes::Float32);
  }
  return std::make_shared<const OperationPlan>(call.definition().name(), operands, Arithmetic::Binary32,
                                               std::nullopt, nullptr, dtypes::Float32);
}

/// Semantics of functions, for short tests.
struct Functions final : OperationSemantics {
  using Resolve = std::function<ResolvedInvocation(const BoundOperationCall&)>;
  using Rule = std::function<Gradients(const VJPContext&, Cotangents)>;

  explicit Functions(Resolve resolver, Rule gradient = nullptr)
      : resolver_(std::move(resolver)), gradient_(std::move(gradient)) {}
  [[nodiscard]] ResolvedInvocation resolve(const BoundOperationCall& call) const override {
    return resolver_(call);
  }
  [[nodiscard]] bool differentiable() const override { return static_cast<bool>(gradient_); }
  [[nodiscard]] Gradients vjp(const VJPContext& context, Cotangents cotangents) const override {
    return gradient_(context, cotangents);
  }

 private:
  Resolve resolver_;
  Rule gradient_;
};

ResultSpec like(const Tensor& tensor, std::optional<std::size_t> alias = std::nullopt) {
  const Layout layout = alias ? tensor.layout() : Layout::canonical(tensor.layout().shape());
  return {dtypes::Float32, layout.shape(), layout, alias};
}

const OperandSpec x_operand("x", OperandKind::tensor, true);

/// (x, factor): x · factor, and x + factor.
const OperationDefinition& scale_and_shift() {
  static Gradients last;
  static const OperationDefinition& definition = define_operation(
      "test.scale_and_shift", OperationSchema({x_operand, OperandSpec("factor", OperandKind::weak_scalar)}),
      std::make_shared<const Functions>(
          [](const BoundOperationCall& call) {
            const ResultSpec result = like(*call.tensor(0));
            return ResolvedInvocation(call, plan_for(call), {result, result}, {.saved_operands = {0}});
          },
          [](const VJPContext& context, Cotangents cotangents) -> Gradients {
            const Scalar factor = *context.invocation().operands()[1].scalar();
            if (!cotangents[0]) return {*cotangents[1]};
            const Tensor& g = *cotangents[0];
            std::vector<float> values;
            for (const float value : elements<float>(g)) values.push_back(value * factor.to_binary32());
            return {bench(values)};
          }));
  return definition;
}

std::vector<Tensor> compute_scale_and_shift(const ResolvedInvocation& invocation) {
  const float factor = invocation.operands()[1].scalar()->to_binary32();
  std::vector<float> scaled, shifted;
  for (const float value : elements<float>(*invocation.tensor(0))) {
    scaled.push_back(value * factor);
    shifted.push_back(value + factor);
  }
  return {bench(scaled), bench(shifted)};
}

/// x itself, without gradient.
const OperationDefinition& identity() {
  static const OperationDefinition& definition =
      define_operation("test.identity", OperationSchema({x_operand}),
                       std::make_shared<const Functions>([](const BoundOperationCall& call) {
                         return ResolvedInvocation(call, plan_for(call), {like(*call.tensor(0), 0)});
                       }));
  return definition;
}

/// x itself, with one.
const OperationDefinition& differentiable_identity() {
  static const OperationDefinition& definition = define_operation(
      "test.differentiable_identity", OperationSchema({x_operand}),
      std::make_shared<const Functions>(
          [](const BoundOperationCall& call) {
            return ResolvedInvocation(call, plan_for(call), {like(*call.tensor(0), 0)});
          },
          [](const VJPContext&, Cotangents cotangents) -> Gradients { return {*cotangents[0]}; }));
  return definition;
}

/// Adds one to x in place and gives its sum of nothing: a result of zeros.
const OperationDefinition& increment() {
  static const OperationDefinition& definition = define_operation(
      "test.increment", OperationSchema({x_operand}),
      std::make_shared<const Functions>([](const BoundOperationCall& call) {
        return ResolvedInvocation(call, plan_for(call), {like(*call.tensor(0))}, {.mutated_operands = {0}});
      }));
  return definition;
}

// --- Schemas (X21) ---------------------------------------------------------------------------------------

TEST(SchemaTest, NamesAreIdentifiersAndUnique) {
  expect_refusal<ValueError>([] { OperandSpec("2x", OperandKind::tensor); }, "identifier");
  expect_refusal<ValueError>([] { OptionSpec("a b"); }, "identifier");
  expect_refusal<ValueError>([] { OperandSpec("x", OperandKind::structural, true); }, "only a Tensor");
  expect_refusal<ValueError>([] { OperationSchema({}); }, "must not be empty");
  expect_refusal<ValueError>([] { OperationSchema({x_operand}, {OptionSpec("x")}); }, "unique");
}

TEST(SchemaTest, AResultHasTheShapeOfItsLayoutAndSensibleTolerances) {
  expect_refusal<ValueError>([] { ResultSpec(dtypes::Float32, Shape{2}, row(3)); }, "layout.shape");
  expect_refusal<ValueError>([] { ResultSpec(dtypes::Float32, Shape{3}, row(3), {}, -1.0); }, "tolerance");
}

// --- Binding and resolving (X22–X24) ---------------------------------------------------------------------

TEST(BindingTest, RefusesWhatDoesNotFitTheSchema) {
  const OperationDefinition& definition = scale_and_shift();
  const Tensor x = bench({1, 2});
  expect_refusal<TypeError>([&] { static_cast<void>(definition.bind({x})); }, "expects 2 operands");
  expect_refusal<TypeError>(
      [&] {
        OperationOptions options;
        options.emplace("speed", Scalar(1));
        static_cast<void>(definition.bind({x, Scalar(1)}, options));
      },
      "unknown option 'speed'");
  expect_refusal<TypeError>([&] { static_cast<void>(definition.bind({Scalar(1), Scalar(1)})); },
                            "must be a Tensor");
  expect_refusal<TypeError>([&] { static_cast<void>(definition.bind({x, x})); }, "weak scalar");
}

TEST(BindingTest, AStructuralOperandIsBoundByItsValue) {
  const OperationDefinition& mul = operation_definition("mul");
  const Tensor x = bench({1, 2});
  const BoundOperationCall call = mul.bind({Scalar(2.0F), x});
  EXPECT_THAT(call.operand_kinds(), testing::ElementsAre(OperandKind::weak_scalar, OperandKind::tensor));
  const ResolvedInvocation invocation = mul.resolve_call(call);
  EXPECT_EQ(invocation.plan().operands[0].role, OperandRole::WeakScalar);
  EXPECT_EQ(invocation.plan().operands[1].role, OperandRole::Tensor);
  EXPECT_TRUE(invocation.saved_operands().empty());
}

TEST(BindingTest, AnInvocationFitsItsCall) {
  const OperationDefinition& definition = scale_and_shift();
  const Tensor x = bench({1, 2});
  const BoundOperationCall call = definition.bind({x, Scalar(2)});
  const ResultSpec result = like(x);
  using Effects = ResolvedInvocation::Effects;
  const auto refused = [&](const std::vector<ResultSpec>& results, const Effects& effects,
                           const std::string& words) {
    expect_refusal<ValueError>([&] { ResolvedInvocation(call, plan_for(call), results, effects); }, words);
  };
  refused({}, {}, "must not be empty");
  refused({result}, {.mutated_operands = {0, 0}}, "twice");
  refused({result}, {.saved_operands = {1}}, "Tensor operands");
  refused({result}, {.saved_operands = {7}}, "out-of-range");
  refused({like(x, 1)}, {}, "Tensor operands");
  const auto other = share_builtin_plan(
      operation_definition("relu").resolve_call(operation_definition("relu").bind({x})).plan());
  expect_refusal<ValueError>([&] { ResolvedInvocation(call, other, {result}); }, "plan.operation");
  const auto roles = std::make_shared<const OperationPlan>(
      definition.name(), std::vector{OperandPlan(OperandRole::Tensor, &dtypes::Float32, dtypes::Float32)},
      Arithmetic::Binary32, std::nullopt, nullptr, dtypes::Float32);
  expect_refusal<ValueError>([&] { ResolvedInvocation(call, roles, {result}); }, "roles");
  EXPECT_EQ(ResolvedInvocation(call, plan_for(call), {result}).kernel_id(), definition.name());
}

TEST(BindingTest, ResolveMustReturnTheCallItWasGiven) {
  static const OperationDefinition& definition =
      define_operation("test.other_call", OperationSchema({x_operand}),
                       std::make_shared<const Functions>([](const BoundOperationCall& call) {
                         const BoundOperationCall other = call.definition().bind({*call.tensor(0)});
                         return ResolvedInvocation(other, plan_for(other), {like(*call.tensor(0))});
                       }));
  expect_refusal<ValueError>(
      [] { static_cast<void>(definition.resolve_call(definition.bind({bench({1})}))); },
      "bound-call identity");
}

TEST(RegistryTest, ANameIsNamespacedFreeAndForGood) {
  const auto semantics = std::make_shared<const Functions>([](const BoundOperationCall& call) {
    return ResolvedInvocation(call, plan_for(call), {like(*call.tensor(0))});
  });
  const auto refused = [&](const std::string& name, const std::string& words) {
    expect_refusal<ValueError>([&] { define_operation(name, OperationSchema({x_operand}), semantics); },
                               words);
  };
  refused("plain", "namespaced");
  refused("acme.", "namespaced");
  refused("acme.2", "namespaced");
  refused("orlop.x", "reserved");
  refused("add.x", "reserved");
  refused("permute.x", "reserved");
  define_operation("test.once", OperationSchema({x_operand}), semantics);
  refused("test.once", "already defined");
  expect_refusal<TypeError>([&] { define_operation("test.null", OperationSchema({x_operand}), nullptr); },
                            "null");
  EXPECT_EQ(find_operation_definition("test.null"), nullptr);
  EXPECT_EQ(find_operation_definition("permute"), nullptr);
  expect_refusal<LookupError>([] { static_cast<void>(operation_definition("nobody")); }, "nobody");
}

// --- Calls (X25–X27) -------------------------------------------------------------------------------------

TEST_F(DefinitionTest, DispatchChecksReleaseThenTheDefinitionThenTheExecutor) {
  const Tensor x = bench({1, 2});
  script_.refused = "relu";
  expect_refusal<UnsupportedOperationPlan>([&] { static_cast<void>(x.carrier()->dispatch_op("relu")); },
                                           "no kernel");
  expect_refusal<NotImplementedError>([&] { static_cast<void>(x.carrier()->dispatch_op("nobody")); },
                                      "no operation definition");
  const Ref<Operation> first = x.carrier()->dispatch_op("add");
  EXPECT_NE(first, x.carrier()->dispatch_op("add"));
  EXPECT_EQ(first->operation_name(), "add");
  EXPECT_EQ(first->dispatch_carrier_class(), carrier_class<Bench>());
  x.carrier()->release();
  try {
    static_cast<void>(x.carrier()->dispatch_op("nobody"));
    ADD_FAILURE() << "a released carrier dispatches nothing";
  } catch (const RuntimeError& error) {
    EXPECT_STREQ(error.what(), "Bench is released");
  }
}

TEST_F(DefinitionTest, ACallRunsOnTheCarrierOfItsFirstTensor) {
  script_.work = compute_scale_and_shift;
  const std::vector<Tensor> results = scale_and_shift().call({bench({1, 2}), Scalar(3.0F)});
  EXPECT_EQ(elements<float>(results[0]), (std::vector<float>{3, 6}));
  EXPECT_EQ(elements<float>(results[1]), (std::vector<float>{4, 5}));
  expect_refusal<UnsupportedOperationPlan>(
      [] { static_cast<void>(operation_definition("mul").call({Scalar(1), Scalar(2)})); }, "Tensor");
  expect_refusal<TypeError>(
      [] {
        const Tensor other(CPU::make(2, {}), 0, row(2));
        static_cast<void>(operation_definition("add").call({bench({1, 2}), other}));
      },
      "one exact carrier class");
}

TEST_F(DefinitionTest, TheFunctionsOfTheLibraryTakeTheSamePath) {
  const Tensor x = bench({1, -2});
  EXPECT_EQ(elements<float>(add(x, x)), (std::vector<float>{2, -4}));
  EXPECT_EQ(elements<float>(mul(Scalar(2.0F), x)), (std::vector<float>{2, -4}));
  EXPECT_EQ(script_.preparations, 2);
}

TEST_F(DefinitionTest, OptionsReachTheInvocation) {
  const DType* accumulator = nullptr;
  script_.on_prepare = [&](const ResolvedInvocation& invocation) {
    accumulator = invocation.plan().accumulator_dtype;
  };
  const Tensor x(make_ref<Bench>(std::vector<float>{1, 2, 3, 4}), 0, Layout::canonical(Shape{2, 2}));
  OperationOptions options;
  options.emplace("accumulator_dtype", Argument::of<const DType*>(&dtypes::Float64));
  const std::vector<Tensor> sums = operation_definition("reduce_sum").call({x}, options);
  EXPECT_EQ(elements<float>(sums[0]), (std::vector<float>{4, 6}));
  EXPECT_EQ(accumulator, &dtypes::Float64);
  const OperationExecutionOptions execution("reduce_sum", &dtypes::Float64);
  const std::vector<Argument> arguments{x};
  static_cast<void>(x.carrier()->dispatch_op("reduce_sum")->forward(arguments, &execution));
  EXPECT_EQ(script_.preparations, 2);
}

TEST_F(DefinitionTest, AnOperationIsBoundToTheCarrierThatDispatchedIt) {
  const Tensor x = bench({1, 2});
  const std::vector<Argument> others{bench({1, 2})};
  expect_refusal<TypeError>([&] { static_cast<void>(x.carrier()->dispatch_op("relu")->forward(others)); },
                            "first Tensor");
  const Tensor elsewhere(CPU::make(2, {}), 0, row(2));
  const std::vector<Argument> mixed{x, elsewhere};
  expect_refusal<TypeError>([&] { static_cast<void>(x.carrier()->dispatch_op("add")->forward(mixed)); },
                            "dispatching class");
  EXPECT_EQ(script_.plans, 0);
}

TEST_F(DefinitionTest, APlanIsRequiredBeforeAnyoneIsAsked) {
  script_.refuses_plans = true;
  expect_refusal<UnsupportedOperationPlan>([] { static_cast<void>(relu(bench({1}))); }, "not this plan");
  EXPECT_EQ(script_.questions, 0);
  EXPECT_EQ(script_.preparations, 0);
}

TEST_F(DefinitionTest, AReleasedOperandIsRefusedWhileResolving) {
  const Tensor x = bench({1});
  const Tensor gone = bench({1});
  gone.carrier()->release();
  const std::vector<Argument> arguments{x, gone};
  expect_refusal<RuntimeError>(
      [&] { static_cast<void>(x.carrier()->dispatch_op("add")->forward(arguments)); }, "carrier is released");
}

TEST_F(DefinitionTest, LoweredExecutionRecordsNothing) {
  const Tensor x = bench({1, -1});
  const std::vector<Argument> arguments{x};
  const Tensor y = x.carrier()->dispatch_op("relu")->execute_lowered(arguments);
  EXPECT_EQ(elements<float>(y), (std::vector<float>{1, 0}));
  EXPECT_FALSE(autograd_node(y));
}

// --- Aliases (X28) ---------------------------------------------------------------------------------------

TEST_F(DefinitionTest, AnAliasComesBackAsTheVeryOperandWhereNoGradientFlows) {
  const Tensor x = relu(bench({1, 2}));
  script_.work = [](const ResolvedInvocation& invocation) {
    return std::vector<Tensor>{*invocation.tensor(0)};
  };
  const Ref<Operation> node = autograd_node(x);
  EXPECT_EQ(identity().call({x})[0], x);
  EXPECT_EQ(autograd_node(x), node);
  const NoGrad no_grad;
  EXPECT_EQ(differentiable_identity().call({x})[0], x);
  EXPECT_EQ(autograd_node(x), node);
}

TEST_F(DefinitionTest, ADifferentiableAliasIsRefusedBeforeAnyCallback) {
  const Tensor x = bench({1, 2});
  expect_refusal<ValueError>([&] { static_cast<void>(differentiable_identity().call({x})); },
                             "exact-object aliased");
  EXPECT_EQ(script_.plans + script_.questions + script_.preparations, 0);
}

// --- Publication (X29) -----------------------------------------------------------------------------------

TEST_F(DefinitionTest, ResultsThatDoNotFitAreRefusedByField) {
  const Tensor x = bench({1, 2});
  const auto refused = [&](const std::vector<Tensor>& results, const std::string& words) {
    script_.work = [&](const ResolvedInvocation&) { return results; };
    expect_refusal<ProviderContractError>([&] { static_cast<void>(relu(x)); }, words);
    EXPECT_EQ(x.version(), 0);
  };
  refused({}, "count");
  refused({Tensor(make_ref<Bench>(std::vector<float>{1, 2}, dtypes::Int32), 0, row(2))}, "dtype");
  refused({bench({1, 2, 3})}, "shape");
  refused({Tensor(make_ref<Bench>(std::vector<float>{1, 2, 3}), 0, Layout(Shape{2}, Stride{2}))}, "layout");
  refused({Tensor(CPU::make(2, {}), 0, row(2))}, "carrier role");
  refused({x}, "aliases operand 0");
  refused({Tensor(make_ref<Bench>(std::vector<float>{0, 1, 2}), 1, row(2))}, "offset");
  refused({Tensor(make_ref<Bench>(std::vector<float>{1, 2, 3}), 0, row(2))}, "size");
  refused({Tensor()}, "no Tensor");
  script_.work = [](const ResolvedInvocation&) {
    const Tensor one = bench({1, 2});
    return std::vector<Tensor>{one, one};
  };
  expect_refusal<ProviderContractError>([&] { static_cast<void>(scale_and_shift().call({x, Scalar(1)})); },
                                        "aliases result 0");
}

TEST_F(DefinitionTest, AViewOnTheOperandsStorageIsNoAlias) {
  const Tensor x = bench({1, 2});
  script_.work = [](const ResolvedInvocation& invocation) {
    const Tensor& operand = *invocation.tensor(0);
    return std::vector<Tensor>{Tensor(operand.carrier(), 0, operand.layout())};
  };
  EXPECT_EQ(relu(x).carrier(), x.carrier());
}

TEST_F(DefinitionTest, WhatAProviderRecordsInsideIsNotOnTheResult) {
  script_.work = [](const ResolvedInvocation& invocation) {
    const GradMode grad(true);
    const Tensor y = execute_reference(invocation)[0];
    set_autograd_node(y, table_operation("relu"));
    return std::vector<Tensor>{y};
  };
  const NoGrad no_grad;
  EXPECT_FALSE(autograd_node(relu(bench({1}))));
}

// --- Effects (X30) ---------------------------------------------------------------------------------------

TEST_F(DefinitionTest, AnUnauthorizedWriteIsUndone) {
  const Tensor x = bench({1, 2});
  bench_of(x).increment_version();
  script_.work = [](const ResolvedInvocation& invocation) {
    bench_of(*invocation.tensor(0)).store(1, Scalar(7.0F));
    return execute_reference(invocation);
  };
  expect_refusal<ProviderContractError>([&] { static_cast<void>(relu(x)); }, "unauthorized operand");
  EXPECT_EQ(elements<float>(x), (std::vector<float>{1, 2}));
  EXPECT_EQ(x.version(), 1);
}

TEST_F(DefinitionTest, AnUnauthorizedReleaseIsUndone) {
  const Tensor x = bench({1, 2});
  script_.on_prepare = [](const ResolvedInvocation& invocation) {
    invocation.tensor(0)->carrier()->release();
  };
  script_.work = [](const ResolvedInvocation&) { return std::vector<Tensor>{bench({1, 2})}; };
  expect_refusal<ProviderContractError>([&] { static_cast<void>(relu(x)); }, "unauthorized operand");
  EXPECT_FALSE(x.carrier()->is_released());
  EXPECT_EQ(elements<float>(x), (std::vector<float>{1, 2}));
  EXPECT_EQ(bench_of(x).releases, 0);
  x.carrier()->release();
  EXPECT_EQ(bench_of(x).releases, 1);
}

TEST_F(DefinitionTest, AnUnauthorizedClaimIsUndone) {
  const Tensor x = bench({1, 2});
  script_.work = [](const ResolvedInvocation& invocation) {
    static_cast<void>(invocation.tensor(0)->carrier()->claim_ownership());
    return execute_reference(invocation);
  };
  expect_refusal<ProviderContractError>([&] { static_cast<void>(relu(x)); }, "ownership");
  EXPECT_FALSE(x.carrier()->is_owned());
}

TEST_F(DefinitionTest, AnAuthorizedCarrierEndsOneVersionFurther) {
  const Tensor x = bench({1, 2});
  script_.work = [](const ResolvedInvocation& invocation) {
    for (int i = 0; i < 3; ++i) bench_of(*invocation.tensor(0)).store(0, Scalar(9.0F));
    return std::vector<Tensor>{bench({0, 0})};
  };
  static_cast<void>(increment().call({x}));
  EXPECT_EQ(elements<float>(x), (std::vector<float>{9, 2}));
  EXPECT_EQ(x.version(), 1);
}

TEST_F(DefinitionTest, ALaterFailureUndoesAuthorizedWritesToo) {
  const Tensor x = bench({1, 2});
  script_.work = [](const ResolvedInvocation& invocation) -> std::vector<Tensor> {
    bench_of(*invocation.tensor(0)).store(0, Scalar(9.0F));
    raise<ValueError>("test", "no more");
  };
  expect_refusal<ValueError>([&] { static_cast<void>(increment().call({x})); }, "no more");
  EXPECT_EQ(elements<float>(x), (std::vector<float>{1, 2}));
  EXPECT_EQ(x.version(), 0);
}

// --- References (X31) ------------------------------------------------------------------------------------

TEST_F(DefinitionTest, AReferenceIsNeverAFallback) {
  const OperationDefinition& definition = scale_and_shift();
  const ResolvedInvocation invocation = definition.resolve_call(definition.bind({bench({1}), Scalar(2)}));
  expect_refusal<UnsupportedOperationPlan>([&] { static_cast<void>(execute_reference(invocation)); },
                                           "no reference");
  const OperationDefinition& relu = operation_definition("relu");
  const std::vector<Tensor> results = execute_reference(relu.resolve_call(relu.bind({bench({-1, 1})})));
  EXPECT_EQ(elements<float>(results[0]), (std::vector<float>{0, 1}));
}

TEST_F(DefinitionTest, AReferenceComputesThePlanOfTheTableAlone) {
  const OperationDefinition& definition = operation_definition("add");
  const Tensor x = bench({1, 2});
  const BoundOperationCall call = definition.bind({x, x});
  const auto strange = std::make_shared<const OperationPlan>(
      "add",
      std::vector{OperandPlan(OperandRole::Tensor, &dtypes::Float32, dtypes::Int32),
                  OperandPlan(OperandRole::Tensor, &dtypes::Float32, dtypes::Bool)},
      Arithmetic::Int32Exact, Accumulation::Argmax, nullptr, dtypes::Bool);
  expect_refusal<UnsupportedOperationPlan>(
      [&] { static_cast<void>(execute_reference(ResolvedInvocation(call, strange, {like(x)}))); }, "table");
}

TEST_F(DefinitionTest, ABuiltinRuleTakesACotangentOfTheTrueResult) {
  const OperationDefinition& definition = operation_definition("reduce_sum");
  const Tensor x(make_ref<Bench>(std::vector<float>(6)), 0, Layout::canonical(Shape{2, 3}));
  const BoundOperationCall call = definition.bind({x});
  const auto plan = definition.resolve_call(call).shared_plan();
  const Tensor claimed = bench({1});
  const ResolvedInvocation invocation(call, plan, {like(claimed)});
  const std::vector<std::optional<Tensor>> cotangents{claimed};
  expect_refusal<ValueError>(
      [&] { static_cast<void>(call_vjp(VJPContext(invocation, {claimed}, {}), cotangents)); }, "shape");
}

// --- Gradients (X32) -------------------------------------------------------------------------------------

TEST_F(DefinitionTest, EachResultHasItsOwnNode) {
  script_.work = compute_scale_and_shift;
  const Tensor x = bench({1, 2});
  const std::vector<Tensor> results = scale_and_shift().call({x, Scalar(3.0F)});
  EXPECT_NE(autograd_node(results[0]), autograd_node(results[1]));
  EXPECT_EQ(autograd_node(results[1])->operation_name(), "test.scale_and_shift");
  backward(results[1], bench({1, 1}));
  EXPECT_EQ(elements<float>(gradient_of(x)), (std::vector<float>{1, 1}));
  backward(results[0], bench({1, 1}));
  EXPECT_EQ(elements<float>(gradient_of(x)), (std::vector<float>{4, 4}));
}

TEST_F(DefinitionTest, NothingIsKeptWithoutAGradient) {
  script_.work = compute_scale_and_shift;
  const Tensor x = bench({1, 2});
  const auto holders = x.object()->reference_count();
  const NoGrad no_grad;
  const std::vector<Tensor> results = scale_and_shift().call({x, Scalar(3.0F)});
  EXPECT_FALSE(autograd_node(results[0]));
  EXPECT_EQ(x.object()->reference_count(), holders);
}

TEST_F(DefinitionTest, AGraphIsFreeOfLoops) {
  script_.work = compute_scale_and_shift;
  const Tensor x = bench({1, 2});
  const auto holders = x.object()->reference_count();
  static_cast<void>(scale_and_shift().call({x, Scalar(3.0F)}));
  EXPECT_EQ(x.object()->reference_count(), holders);
}

TEST_F(DefinitionTest, ALongGraphIsReleasedWithoutRecursion) {
  const Tensor x = bench({1});
  Tensor y = x;
  for (int i = 0; i < 100'000; ++i) y = relu(y);
  backward(y, bench({3}));
  EXPECT_EQ(elements<float>(gradient_of(x)), (std::vector<float>{3}));
}

TEST_F(DefinitionTest, LoweredExecutionGoesBackwardWithTheTensorsPutInItsPlace) {
  const Tensor x = bench({1, 2});
  const Tensor promoted = bench({1, -2});
  const std::vector<Argument> arguments{x, Scalar(3.0F)};
  const Ref<Operation> nested = x.carrier()->dispatch_op("mul");
  static_cast<void>(nested->execute_lowered(arguments));
  expect_refusal<RuntimeError>([&] { static_cast<void>(nested->backward(bench({1, 1}))); },
                               "nothing was saved");
  nested->store_inputs(std::vector{promoted});
  const Gradients gradients = nested->backward(bench({1, 2}));
  ASSERT_EQ(gradients.size(), 1U);
  EXPECT_EQ(elements<float>(*gradients[0]), (std::vector<float>{3, 6}));
}

TEST_F(DefinitionTest, AChangedSavedOperandStopsBackwardAndAnUnsavedOneDoesNot) {
  const Tensor x = bench({1, 2});
  const Tensor y = elementwise_mul(x, bench({3, 4}));
  const Tensor sum = add(x, x);
  x.carrier()->store(0, Scalar(5.0F));
  expect_refusal<RuntimeError>([&] { backward(y, bench({1, 1})); }, "modified in-place");
  backward(sum, bench({1, 1}));
  EXPECT_EQ(elements<float>(gradient_of(x)), (std::vector<float>{2, 2}));
}

TEST_F(DefinitionTest, TheBuiltinGradientsAreThoseOfTheTable) {
  const std::vector<float> values{1, -2, 3, 4};
  const std::vector<float> weights{1, 0, 2, 1};
  const auto gradients = [&](const std::function<Ref<Carrier>(const std::vector<float>&)>& make) {
    const Tensor x(make(values), 0, Layout::canonical(Shape{2, 2}));
    const Tensor w(make(weights), 0, Layout(Shape{2, 2}, Stride{2, 1}));
    const Tensor y = mul(relu(matmul(x, w)), Scalar(2.0F));
    backward(operation_definition("reduce_sum").call({y})[0], Tensor(make({1, 2}), 0, row(2)));
    EXPECT_EQ(gradient_of(w).layout(), w.layout());
    return std::pair(elements<float>(gradient_of(x)), elements<float>(gradient_of(w)));
  };
  const auto on_bench = gradients([](const std::vector<float>& slots) { return make_ref<Bench>(slots); });
  const auto on_cpu = gradients([](const std::vector<float>& slots) {
    const Ref<CPU> carrier = CPU::make(static_cast<Index>(slots.size()), {});
    carrier->write_span(0, carrier->size(), slots.data());
    return carrier;
  });
  EXPECT_EQ(on_bench, on_cpu);
  EXPECT_NE(on_bench.first, std::vector<float>(4));
}

TEST_F(DefinitionTest, ACalledRuleIsCheckedOnBothSides) {
  const OperationDefinition& definition = scale_and_shift();
  const Tensor x = bench({1, 2});
  const ResolvedInvocation invocation = definition.resolve_call(definition.bind({x, Scalar(3.0F)}));
  const std::vector<Tensor> outputs = compute_scale_and_shift(invocation);
  expect_refusal<ValueError>([&] { VJPContext(invocation, outputs, {}); }, "save recipe");
  expect_refusal<ValueError>([&] { VJPContext(invocation, outputs, {bench({1, 2})}); }, "save recipe");
  const VJPContext context(invocation, outputs, {x});
  const auto call = [&](const std::vector<std::optional<Tensor>>& cotangents) {
    return call_vjp(context, cotangents);
  };
  EXPECT_EQ(elements<float>(*call({bench({1, 1}), std::nullopt})[0]), (std::vector<float>{3, 3}));
  expect_refusal<ValueError>([&] { call({std::nullopt}); }, "one entry per result");
  expect_refusal<TypeError>(
      [&] {
        call({Tensor(make_ref<Bench>(std::vector<float>{1, 1}, dtypes::Int32), 0, row(2)), std::nullopt});
      },
      "dtype");
  expect_refusal<ValueError>([&] { call({bench({1, 1, 1}), std::nullopt}); }, "shape");
  const ResolvedInvocation plain = identity().resolve_call(identity().bind({x}));
  const std::vector<std::optional<Tensor>> one{bench({1, 1})};
  expect_refusal<RuntimeError>([&] { static_cast<void>(call_vjp(VJPContext(plain, {x}, {}), one)); },
                               "no VJP");
}

// --- Built-in definitions (X33) --------------------------------------------------------------------------

TEST(BuiltinDefinitionTest, EveryPlannedNameHasOne) {
  for (const OperationSpec& spec : registered_operations()) {
    const OperationDefinition* definition = find_operation_definition(spec.name());
    ASSERT_NE(definition, nullptr) << spec.name();
    EXPECT_EQ(definition->name(), spec.name());
    EXPECT_TRUE(definition->semantics().has_reference());
    EXPECT_EQ(definition, &operation_definition(spec.name()));
  }
  EXPECT_FALSE(operation_definition("argmax").semantics().differentiable());
  EXPECT_TRUE(operation_definition("sigmoid").semantics().differentiable());
}

TEST(BuiltinDefinitionTest, OperandsOfTheSix) {
  const auto kinds = [](std::string_view name) {
    std::string out;
    for (const OperandSpec& operand : operation_definition(name).schema().operands)
      out += text(operand.name, ':', value_of(operand.kind), operand.differentiable ? "! " : " ");
    return out;
  };
  EXPECT_EQ(kinds("add"), "lhs:tensor! rhs:tensor! ");
  EXPECT_EQ(kinds("elementwise_mul"), "lhs:tensor! rhs:tensor! ");
  EXPECT_EQ(kinds("mul"), "lhs:structural rhs:structural ");
  EXPECT_EQ(kinds("relu"), "tensor:tensor! ");
  EXPECT_EQ(kinds("reduce_sum"), "tensor:tensor! ");
  EXPECT_EQ(kinds("matmul"), "lhs:tensor! rhs:tensor! ");
  EXPECT_EQ(kinds("gather"), "tensor:tensor! indices:tensor axis:structural ");
  EXPECT_EQ(kinds("cumsum"), "tensor:tensor! dimension:structural ");
  EXPECT_EQ(kinds("argmax"), "tensor:tensor ");
}

TEST(BuiltinDefinitionTest, TheResultIsDenseAndTheSaveRecipeIsThatOfTheRule) {
  const Tensor x(CPU::make(6, {}), 0, Layout(Shape{2, 3}, Stride{3, 1}));
  const auto saved = [&](std::string_view name, std::vector<Argument> operands) {
    const OperationDefinition& definition = operation_definition(name);
    const ResolvedInvocation invocation = definition.resolve_call(definition.bind(std::move(operands)));
    EXPECT_TRUE(invocation.results()[0].layout.is_canonical());
    return std::vector<std::size_t>(invocation.saved_operands().begin(), invocation.saved_operands().end());
  };
  using List = std::vector<std::size_t>;
  EXPECT_EQ(saved("add", {x, x}), List{});
  EXPECT_EQ(saved("elementwise_mul", {x, x}), (List{0, 1}));
  EXPECT_EQ(saved("mul", {x, x}), (List{0, 1}));
  EXPECT_EQ(saved("mul", {x, Scalar(3)}), List{});
  EXPECT_EQ(saved("relu", {x}), List{0});
  EXPECT_EQ(saved("reduce_sum", {x}), List{});
  EXPECT_EQ(saved("matmul", {x, x}), (List{0, 1}));
}

TEST_F(DefinitionTest, EitherFactorOfMulMayBeANumber) {
  const OperationDefinition& definition = operation_definition("mul");
  for (const bool is_first : {true, false}) {
    const Tensor x = bench({1, 2});
    const std::vector<Argument> operands{is_first ? Argument(Scalar(3.0F)) : Argument(x),
                                         is_first ? Argument(x) : Argument(Scalar(3.0F))};
    const Tensor y = definition.call(operands)[0];
    EXPECT_EQ(elements<float>(y), (std::vector<float>{3, 6}));
    backward(y, bench({1, 1}));
    EXPECT_EQ(elements<float>(gradient_of(x)), (std::vector<float>{3, 3}));
    const Tensor on_cpu(CPU::make(2, {}), 0, row(2));
    std::vector<Argument> ordinary(operands);
    ordinary[is_first ? 1 : 0] = on_cpu;
    EXPECT_EQ(elements<float>(definition.call(ordinary)[0]), (std::vector<float>{0, 0}));
  }
}

TEST_F(DefinitionTest, AnAxisIsNoOperandOfThePlan) {
  const Tensor x = bench({3, 1, 2});
  const Tensor sums = cumsum(x, 0);
  EXPECT_EQ(elements<float>(sums), (std::vector<float>{3, 4, 6}));
  backward(sums, bench({1, 1, 1}));
  EXPECT_EQ(elements<float>(gradient_of(x)), (std::vector<float>{3, 2, 1}));
}

}  // namespace
}  // namespace orlop
