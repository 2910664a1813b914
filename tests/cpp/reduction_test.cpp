// Reductions and their gradients on CPU and on the reference kernels (P10, P64).
#include "backends.hpp"

#include <limits>
#include <string>

#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"

namespace orlop {
namespace {

using namespace testing_support;
using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int32_t int32_max = std::numeric_limits<std::int32_t>::max();

Tensor run(std::string_view name, const Tensor& tensor, const OperationExecutionOptions* options = nullptr) {
  const Argument argument(tensor);
  return apply_operation(name, {argument}, options);
}

template <class T>
Tensor one_fibre(Backend backend, const std::vector<T>& values) {
  return make_tensor(backend, values, Shape{1, static_cast<Index>(values.size())});
}

float sum_of(Backend backend, const std::vector<float>& values, const DType& accumulator = dtypes::Float32) {
  const OperationExecutionOptions options("reduce_sum", &accumulator);
  return elements<float>(run("reduce_sum", one_fibre(backend, values), &options)).front();
}

TEST(ReduceSum, AddsInTheAccumulatorDType) {
  const std::vector<float> values{16777216.0F, 1.0F, 1.0F, -16777216.0F};
  EXPECT_EQ(sum_of(Backend::reference, values), 0.0F);
  for (const Backend backend : backends) EXPECT_EQ(sum_of(backend, values, dtypes::Float64), 2.0F);
}

TEST(ReduceSum, IsExactOverTheIntegers) {
  for (const Backend backend : backends) {
    const Tensor fits = one_fibre<std::int32_t>(backend, {int32_max, int32_max, -int32_max});
    EXPECT_THAT(elements<std::int32_t>(run("reduce_sum", fits)), ElementsAre(int32_max));
    EXPECT_THAT([&] { run("reduce_sum", one_fibre<std::int32_t>(backend, {int32_max, 1})); },
                ThrowsMessage<OverflowError>(HasSubstr("2147483648")));
  }
}

TEST(ReduceSum, CountsAStrideZeroModeOncePerCoordinate) {
  for (const Backend backend : backends) {
    const Tensor tensor = place<float>(backend, {2.0F, 5.0F}, Layout(Shape{2, {3, 4}}, Stride{1, {0, 0}}));
    EXPECT_THAT(elements<float>(run("reduce_sum", tensor)), ElementsAre(24.0F, 60.0F));
  }
}

TEST(ReduceSum, IsExactForManyOnesOnCPU) {
  constexpr Index many = Index{1} << 25;
  const Tensor fibre = place<float>(Backend::cpu, {1.0F}, Layout(Shape{1, many}, Stride{0, 0}));
  EXPECT_THAT(elements<float>(run("reduce_sum", fibre)), ElementsAre(static_cast<float>(many)));
  const std::vector<float> ones(16, 1.0F);
  const Tensor rows = place<float>(Backend::cpu, ones, Layout(Shape{16, {8, many / 8}}, Stride{1, {0, 0}}));
  EXPECT_THAT(elements<float>(run("reduce_sum", rows)), Each(static_cast<float>(many)));
}

TEST(ReduceSum, FollowsTheSpecialValues) {
  for (const Backend backend : backends) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(sum_of(backend, {-0.0F, -0.0F})), 0U);
    EXPECT_TRUE(std::isnan(sum_of(backend, {1.0F, nan, 2.0F})));
    EXPECT_TRUE(std::isnan(sum_of(backend, {infinity, 1.0F, -infinity})));
    EXPECT_EQ(sum_of(backend, {1.0F, -infinity, 5.0F}), -infinity);
  }
}

TEST(ReduceSum, GivesTheKeptModesShape) {
  for (const Backend backend : backends) {
    const std::vector<float> values(2 * 3 * 5, 1.0F);
    const Tensor nested = make_tensor(backend, values, Shape{{2, 3}, 5});
    EXPECT_EQ(run("reduce_sum", nested).layout(), Layout::canonical(Shape{2, 3}));
    const Tensor deeper = make_tensor(backend, values, Shape{{2, {3, 1}}, 5});
    EXPECT_EQ(run("reduce_sum", deeper).layout(), Layout::canonical(Shape{2, {3, 1}}));
    const Tensor flat = make_tensor(backend, values, Shape{6, 5});
    EXPECT_EQ(run("reduce_sum", flat).layout(), Layout::canonical(Shape{6}));
  }
}

TEST(Reductions, RefuseWrongOperands) {
  for (const std::string_view name : {"reduce_sum", "reduce_max", "reduce_min", "argmax", "argmin"}) {
    const Tensor vector = make_tensor<float>(Backend::cpu, {1, 2, 3}, Shape{3});
    EXPECT_THAT([&] { run(name, vector); }, ThrowsMessage<ValueError>(HasSubstr("two top-level modes")))
        << name;
    const std::vector<Argument> two{vector, vector};
    EXPECT_THROW(apply_operation(name, two), TypeError) << name;
    const std::vector<Argument> with_number{vector, Scalar(1)};
    EXPECT_THROW(apply_operation(name, with_number), TypeError) << name;
  }
  const Tensor long_fibre =
      place<float>(Backend::cpu, {1.0F}, Layout(Shape{1, Index{1} << 31}, Stride{0, 0}));
  EXPECT_THROW(run("argmax", long_fibre), OverflowError);
}

template <class T>
T extremum_of(std::string_view name, Backend backend, const std::vector<T>& values) {
  return elements<T>(run(name, one_fibre(backend, values))).front();
}

std::int32_t position_of(std::string_view name, Backend backend, const std::vector<float>& values) {
  return elements<std::int32_t>(run(name, one_fibre(backend, values))).front();
}

TEST(ReduceMax, PrefersPositiveZeroAndReduceMinNegativeZero) {
  for (const Backend backend : backends) {
    const auto sign_of = [&](std::string_view name, const std::vector<float>& values) {
      return std::signbit(extremum_of<float>(name, backend, values));
    };
    EXPECT_FALSE(sign_of("reduce_max", {-0.0F, 0.0F, -1.0F, -0.0F}));
    EXPECT_FALSE(sign_of("reduce_max", {0.0F, -0.0F}));
    EXPECT_TRUE(sign_of("reduce_max", {-0.0F, -0.0F}));
    EXPECT_TRUE(sign_of("reduce_min", {0.0F, -0.0F, 1.0F, 0.0F}));
    EXPECT_FALSE(sign_of("reduce_min", {0.0F, 0.0F}));
  }
}

TEST(ReduceMax, ReturnsTheFirstNaN) {
  const auto first = std::bit_cast<float>(0x7fc00001U);
  const auto second = std::bit_cast<float>(0xffc00002U);
  for (const Backend backend : backends)
    for (const std::string_view name : {"reduce_max", "reduce_min"}) {
      const float result = extremum_of<float>(name, backend, {1.0F, first, infinity, second});
      if (backend == Backend::cpu)
        EXPECT_EQ(std::bit_cast<std::uint32_t>(result), 0x7fc00001U) << name;
      else
        EXPECT_TRUE(std::isnan(result)) << name;
    }
}

TEST(ReduceMax, TakesInfinitiesAndIntegerLimits) {
  for (const Backend backend : backends) {
    EXPECT_EQ(extremum_of<float>("reduce_max", backend, {-infinity, -infinity}), -infinity);
    EXPECT_EQ(extremum_of<float>("reduce_min", backend, {infinity, 3.0F, infinity}), 3.0F);
    EXPECT_EQ(extremum_of<std::int32_t>("reduce_max", backend, {-int32_max - 1, -int32_max}), -int32_max);
    EXPECT_EQ(extremum_of<std::int32_t>("reduce_min", backend, {5, -int32_max - 1, 7}), -int32_max - 1);
  }
}

TEST(Argmax, NamesTheFirstWinner) {
  for (const Backend backend : backends) {
    EXPECT_EQ(position_of("argmax", backend, {4.0F, nan, 9.0F, nan}), 1);
    EXPECT_EQ(position_of("argmax", backend, {4.0F, 9.0F, 9.0F}), 1);
    EXPECT_EQ(position_of("argmax", backend, {-0.0F, 0.0F}), 0);
    EXPECT_EQ(position_of("argmin", backend, {2.0F, 0.0F, -0.0F}), 1);
    EXPECT_EQ(position_of("argmin", backend, {2.0F, nan, 0.0F}), 1);
    EXPECT_EQ(position_of("argmax", backend, {-infinity, -infinity}), 0);
  }
}

/// Shapes that take every way through the kernels: fibres and rows, long and short, nested.
std::vector<Shape> shapes() {
  return {Shape{1, 1},
          Shape{5, 7},
          Shape{{2, 3}, {4, 5}},
          Shape{40, 3},
          Shape{3, 2500},
          Shape{1500, 2},
          Shape{70, 300},
          Shape{{30, 2}, {3, 50}},
          Shape{{2, {2, 2}}, {{3, 2}, 7}},
          Shape{2, {11, 13}}};
}

/// Values with ties, and with zeros of both signs.
float small_value(std::mt19937& random) {
  const float value = static_cast<float>(random() % 9) - 4.0F;
  return value == 0.0F && random() % 2 == 0 ? -0.0F : value;
}

template <class Body>
void for_random_layouts(Body body) {
  std::mt19937 random(7);
  for (const Shape& shape : shapes())
    for (int repeat = 0; repeat < 6; ++repeat)
      body(repeat % 2 == 0 ? random_layout(shape, random) : random_aliased_layout(shape, random), random);
}

/// The fibre of `kept` as its elements in ordinal order.
template <class T>
std::vector<T> fibre_of(const std::vector<T>& slots, const Layout& layout, Index kept) {
  const Layout first = layout.mode(0);
  const Layout second = layout.mode(1);
  std::vector<T> values;
  for (Index i = 0; i < second.size(); ++i)
    values.push_back(slots[static_cast<std::size_t>(first(kept) + second(i))]);
  return values;
}

TEST(Reductions, AgreeWithTheReferenceOnAnyLayout) {
  for_random_layouts([](const Layout& layout, std::mt19937& random) {
    std::vector<float> floats(static_cast<std::size_t>(layout.cosize()));
    std::vector<std::int32_t> integers(floats.size());
    for (float& value : floats) value = random() % 200 == 0 ? nan : small_value(random);
    for (std::int32_t& value : integers) value = static_cast<std::int32_t>(random() % 2001) - 1000;
    for (const std::string_view name : {"reduce_sum", "reduce_max", "reduce_min", "argmax", "argmin"}) {
      SCOPED_TRACE(text(name, " of ", layout));
      const Tensor cpu = run(name, place(Backend::cpu, floats, layout));
      const Tensor reference = run(name, place(Backend::reference, floats, layout));
      if (&cpu.dtype() == &dtypes::Float32)  // small integers: any order of adding is exact
        EXPECT_THAT(bits(elements<float>(cpu)), ElementsAreArray(bits(elements<float>(reference))));
      else
        EXPECT_THAT(elements<std::int32_t>(cpu), ElementsAreArray(elements<std::int32_t>(reference)));
      EXPECT_THAT(
          elements<std::int32_t>(run(name, place(Backend::cpu, integers, layout))),
          ElementsAreArray(elements<std::int32_t>(run(name, place(Backend::reference, integers, layout)))));
    }
  });
}

TEST(Reductions, AgreeWithAModelOnAnyLayout) {
  for_random_layouts([](const Layout& layout, std::mt19937& random) {
    std::vector<std::int32_t> slots(static_cast<std::size_t>(layout.cosize()));
    for (std::int32_t& value : slots) value = static_cast<std::int32_t>(random() % 2001) - 1000;
    const Tensor tensor = place(Backend::reference, slots, layout);
    std::vector<std::int32_t> sums, largest, positions;
    for (Index kept = 0; kept < layout.mode(0).size(); ++kept) {
      const std::vector<std::int32_t> fibre = fibre_of(slots, layout, kept);
      sums.push_back(std::accumulate(fibre.begin(), fibre.end(), 0));
      const auto winner = std::max_element(fibre.begin(), fibre.end());
      largest.push_back(*winner);
      positions.push_back(static_cast<std::int32_t>(winner - fibre.begin()));
    }
    SCOPED_TRACE(layout.to_string());
    EXPECT_THAT(elements<std::int32_t>(run("reduce_sum", tensor)), ElementsAreArray(sums));
    EXPECT_THAT(elements<std::int32_t>(run("reduce_max", tensor)), ElementsAreArray(largest));
    EXPECT_THAT(elements<std::int32_t>(run("argmax", tensor)), ElementsAreArray(positions));
  });
}

TEST(ReduceSum, StaysWithinItsErrorBound) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (const Shape& shape : {Shape{1, 100000}, Shape{20, 30000}}) {
    std::vector<float> slots(static_cast<std::size_t>(shape.size()));
    for (float& value : slots) value = normal(random);
    const Layout layout = Layout::canonical(shape);
    for (const DType* accumulator :
         {static_cast<const DType*>(&dtypes::Float32), static_cast<const DType*>(&dtypes::Float64)}) {
      const OperationExecutionOptions options("reduce_sum", accumulator);
      const auto sums = elements<float>(run("reduce_sum", place(Backend::cpu, slots, layout), &options));
      for (Index kept = 0; kept < layout.mode(0).size(); ++kept) {
        long double exact = 0;
        long double magnitude = 0;
        const std::vector<float> fibre = fibre_of(slots, layout, kept);
        for (const float value : fibre) {
          exact += value;
          magnitude += std::fabs(value);
        }
        const long double unit = accumulator == &dtypes::Float64 ? 0x1p-53L : 0x1p-24L;
        const long double terms = static_cast<long double>(fibre.size()) * unit;
        const long double rounding = accumulator == &dtypes::Float64 ? 0x1p-24L * std::fabs(exact) : 0.0L;
        EXPECT_LE(std::fabs(sums[static_cast<std::size_t>(kept)] - exact),
                  terms / (1 - terms) * magnitude + rounding);
      }
    }
  }
}

std::vector<float> gradient(std::string_view name, const Tensor& tensor,
                            const std::vector<float>& cotangent) {
  const Tensor result = run(name, tensor);
  const Backend backend = tensor.carrier()->kernel_table() != nullptr ? Backend::cpu : Backend::reference;
  backward(result, place(backend, cotangent, result.layout()));
  EXPECT_EQ(gradient_of(tensor).layout(),
            tensor.layout().is_injective() ? tensor.layout() : Layout::canonical(tensor.layout().shape()));
  return elements<float>(gradient_of(tensor));
}

TEST(ReduceSum, GradientReachesEveryPositionOfTheFibre) {
  for (const Backend backend : backends) {
    const std::vector<float> slots(12, 1.0F);
    const Tensor rows = place(backend, slots, Layout(Shape{2, {2, 3}}, Stride{6, {3, 1}}));
    EXPECT_THAT(gradient("reduce_sum", rows, {3.0F, 4.0F}),
                ElementsAre(3.0F, 4.0F, 3.0F, 4.0F, 3.0F, 4.0F, 3.0F, 4.0F, 3.0F, 4.0F, 3.0F, 4.0F));
  }
}

TEST(ReduceMax, GradientIsSharedByTheWinners) {
  for (const Backend backend : backends) {
    const auto of = [&](std::string_view name, const std::vector<float>& values) {
      return gradient(name, one_fibre(backend, values), {2.0F});
    };
    EXPECT_THAT(of("reduce_max", {0.0F, -0.0F}), ElementsAre(1.0F, 1.0F));
    EXPECT_THAT(of("reduce_max", {1.0F, 3.0F, 2.0F}), ElementsAre(0.0F, 2.0F, 0.0F));
    EXPECT_THAT(of("reduce_min", {-infinity, 3.0F, -infinity}), ElementsAre(1.0F, 0.0F, 1.0F));
    EXPECT_THAT(bits(of("reduce_max", {1.0F, nan, 2.0F})), Each(bits({nan}).front()));
  }
}

TEST(Argmax, RecordsNothing) {
  const Tensor result = run("argmax", one_fibre<float>(Backend::cpu, {1.0F, 2.0F}));
  EXPECT_FALSE(result.is_differentiable());
  const Ref<Operation> operation = CPU::make(1)->dispatch_op("argmax");
  EXPECT_THROW(operation->backward(one_fibre<float>(Backend::cpu, {1.0F})), RuntimeError);
}

}  // namespace
}  // namespace orlop
