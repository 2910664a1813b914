// The C++ examples of the recipes in docs/, word for word (tests/python/test_recipes.py compares them).
#include <gtest/gtest.h>

#include <orlop/orlop.hpp>

namespace {

class Cube final : public orlop::Operation {
 public:
  orlop::Gradients backward(const orlop::Tensor& gradient) override {
    const orlop::NoGrad no_grad;
    const orlop::Tensor& x = inputs().front();
    return {gradient * (x * x) * 3.0};
  }

 protected:
  orlop::Tensor forward_impl(std::span<const orlop::Argument> inputs) override {
    const orlop::Tensor& x = tensor_argument(inputs, 0);
    return orlop::mul(orlop::mul(x, x), x);
  }
};

struct CubeSemantics final : orlop::OperationSemantics {
  orlop::ResolvedInvocation resolve(const orlop::BoundOperationCall& call) const override {
    const orlop::Layout layout = orlop::Layout::canonical(call.tensor(0)->layout().shape());
    return orlop::ResolvedInvocation(call, plan,
                                     {orlop::ResultSpec(orlop::dtypes::Float32, layout.shape(), layout)},
                                     {.saved_operands = {0}});
  }
  bool differentiable() const override { return true; }
  orlop::Gradients vjp(const orlop::VJPContext& context, orlop::Cotangents cotangents) const override {
    const orlop::Tensor& x = context.saved_operands().front();
    return {*cotangents[0] * (x * x) * 3.0};
  }

  std::shared_ptr<const orlop::OperationPlan> plan = std::make_shared<const orlop::OperationPlan>(
      "recipe.cube",
      std::vector{
          orlop::OperandPlan(orlop::OperandRole::Tensor, &orlop::dtypes::Float32, orlop::dtypes::Float32)},
      orlop::Arithmetic::Binary32, std::nullopt, nullptr, orlop::dtypes::Float32);
};

class Constant final : public orlop::Carrier {
 public:
  Constant(orlop::Index size, float value) : size_(size), value_(value) {}

  orlop::Index size() const override { return size_; }
  const orlop::DType& dtype() const override { return orlop::dtypes::Float32; }
  orlop::Scalar get_value(orlop::Index) const override { return orlop::Scalar(value_); }
  orlop::Ref<orlop::Carrier> new_like(orlop::Sequence<orlop::Scalar> values,
                                      const orlop::NewLikeOptions&) const override {
    return orlop::make_ref<Constant>(static_cast<orlop::Index>(values.size()), values.front().to_binary32());
  }
  orlop::Ref<orlop::Carrier> allocate_like(orlop::Index size, const orlop::AllocateOptions&) const override {
    return orlop::make_ref<Constant>(size, 0.0F);
  }

 private:
  orlop::Index size_;
  float value_;
};

class Halves final : public orlop::DefinedCarrier {
 public:
  std::vector<std::int16_t> slots;  // in halves

 protected:
  orlop::Ref<orlop::Carrier> make_blank() const override { return orlop::make_ref<Halves>(); }
};

const auto halves_storage = orlop::make_storage({
    .supports_dtype = [](const orlop::Carrier&,
                         const orlop::DType& dtype) { return &dtype == &orlop::dtypes::Float32; },
    .physical_size =
        [](const orlop::Carrier& carrier) {
          return static_cast<orlop::Index>(dynamic_cast<const Halves&>(carrier).slots.size());
        },
    .allocate =
        [](orlop::Carrier& carrier, orlop::Index slots) {
          dynamic_cast<Halves&>(carrier).slots.assign(static_cast<std::size_t>(slots), 0);
        },
    .release = [](orlop::Carrier& carrier) { dynamic_cast<Halves&>(carrier).slots.clear(); },
    .read =
        [](const orlop::Carrier& carrier, orlop::Index index) {
          const auto& slots = dynamic_cast<const Halves&>(carrier).slots;
          return orlop::Scalar(static_cast<float>(slots[static_cast<std::size_t>(index)]) / 2.0F);
        },
    .write =
        [](orlop::Carrier& carrier, orlop::Index index, const orlop::Scalar& value) {
          auto& slots = dynamic_cast<Halves&>(carrier).slots;
          slots[static_cast<std::size_t>(index)] = static_cast<std::int16_t>(value.to_binary32() * 2.0F);
        },
});

}  // namespace

TEST(RecipeTest, AnOperationFromOutsideHasItsOwnGradient) {
  const std::vector<orlop::Scalar> values{1.0F, 2.0F, 3.0F};
  const orlop::Layout layout(orlop::Shape{3}, orlop::Stride{1});
  const orlop::Tensor x = orlop::friendly::tensor(values, layout);
  const std::array<orlop::Argument, 1> arguments{orlop::Argument(x)};
  const orlop::Tensor y = orlop::make_ref<Cube>()->forward(arguments);
  EXPECT_EQ(y.at(1).to_binary32(), 8.0F);
  orlop::backward(y, orlop::friendly::ones(std::array<orlop::Index, 1>{3}));
  EXPECT_EQ(orlop::gradient_of(x).at(1).to_binary32(), 12.0F);
}

TEST(RecipeTest, ACarrierFromOutsideIsImmutableUnlessItSaysOtherwise) {
  const auto carrier = orlop::make_ref<Constant>(3, 2.5F);
  EXPECT_EQ(carrier->at(2).to_binary32(), 2.5F);
  EXPECT_FALSE(carrier->is_mutable());
  EXPECT_THROW(carrier->store(0, orlop::Scalar(1.0F)), orlop::RuntimeError);
  EXPECT_THROW(static_cast<void>(carrier->at(3)), orlop::IndexError);
  EXPECT_EQ(carrier->carrier_class().name(), "Constant");
}

TEST(RecipeTest, ADefinitionFromOutsideSaysWhatACallMeans) {
  const orlop::OperationDefinition& cube = orlop::define_operation(
      "recipe.cube", orlop::OperationSchema({orlop::OperandSpec("x", orlop::OperandKind::tensor, true)}),
      std::make_shared<const CubeSemantics>());
  const std::vector<orlop::Scalar> values{1.0F, 2.0F, 3.0F};
  const orlop::Tensor x = orlop::friendly::tensor(values, orlop::Layout(orlop::Shape{3}, orlop::Stride{1}));
  const orlop::ResolvedInvocation invocation = cube.resolve_call(cube.bind({x}));
  const orlop::VJPContext context(invocation, {x}, {x});
  const std::vector<std::optional<orlop::Tensor>> cotangents{
      orlop::friendly::ones(std::array<orlop::Index, 1>{3})};
  EXPECT_EQ(orlop::call_vjp(context, cotangents)[0]->at(2).to_binary32(), 27.0F);
}

TEST(RecipeTest, ADefinitionKeepsTheSlots) {
  orlop::register_carrier_definition(orlop::carrier_class<Halves>(), {.storage = halves_storage});
  const auto carrier = orlop::make_defined<Halves>(3, {.dtype = orlop::dtypes::Float32});
  carrier->store(1, orlop::Scalar(2.5F));
  EXPECT_EQ(carrier->slots[1], 5);
  EXPECT_EQ(carrier->at(1).to_binary32(), 2.5F);
  EXPECT_EQ(carrier->allocate_like(2)->size(), 2);
}
