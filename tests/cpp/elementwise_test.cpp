// Elementwise operations: values, special cases, broadcasting and gradients, on CPU and on the reference
// kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backends.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"

namespace orlop {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::allocate;
using testing_support::Backend;
using testing_support::bits;
using testing_support::dtype_of;
using testing_support::elements;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int32_t int32_min = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t int32_max = std::numeric_limits<std::int32_t>::max();

/// Equal as bits, any NaN for a NaN.
void expect_floats(const Tensor& tensor, const std::vector<float>& expected) {
  ASSERT_EQ(&tensor.dtype(), &dtypes::Float32);
  EXPECT_THAT(bits(elements<float>(tensor)), ElementsAreArray(bits(expected)))
      << testing::PrintToString(elements<float>(tensor)) << " and expected "
      << testing::PrintToString(expected);
}

void expect_integers(const Tensor& tensor, const std::vector<std::int32_t>& expected) {
  ASSERT_EQ(&tensor.dtype(), &dtypes::Int32);
  EXPECT_EQ(elements<std::int32_t>(tensor), expected);
}

void expect_bools(const Tensor& tensor, const std::vector<bool>& expected) {
  ASSERT_EQ(&tensor.dtype(), &dtypes::Bool);
  EXPECT_EQ(elements<bool>(tensor), expected);
}

class Elementwise : public testing::TestWithParam<Backend> {
 protected:
  template <class T>
  [[nodiscard]] Tensor make(const std::vector<T>& values, const Layout& layout, Index offset = 0) const {
    Ref<Carrier> carrier = allocate(GetParam(), offset + layout.cosize(), dtype_of<T>());
    for (Index i = 0; i < layout.size(); ++i)
      carrier->store(offset + layout(i), Scalar(static_cast<T>(values[static_cast<std::size_t>(i)])));
    return {carrier, offset, layout};
  }
  template <class T>
  [[nodiscard]] Tensor make(const std::vector<T>& values, const Shape& shape) const {
    return make(values, Layout::canonical(shape));
  }
  template <class T>
  [[nodiscard]] Tensor make(const std::vector<T>& values) const {
    return make(values, Shape{static_cast<Index>(values.size())});
  }
  [[nodiscard]] Tensor floats(const std::vector<float>& values) const { return make(values); }
  [[nodiscard]] Tensor ints(const std::vector<std::int32_t>& values) const { return make(values); }
  [[nodiscard]] Tensor bools(const std::vector<bool>& values) const { return make(values); }

  /// Gradients of `output` for the cotangent `g`, as `.grad` of each input.
  static void run_backward(const Tensor& output, const Tensor& g) { backward(output, g); }
};

INSTANTIATE_TEST_SUITE_P(Host, Elementwise, testing::Values(Backend::cpu, Backend::reference),
                         [](const auto& info) { return info.param == Backend::cpu ? "CPU" : "Reference"; });

// --- values

TEST_P(Elementwise, ArithmeticOfFloatsIsIeee) {
  const Tensor a = floats({1.5F, -0.0F, infinity, 1.0F, 0.0F, 16777216.0F});
  const Tensor b = floats({2.0F, 0.0F, infinity, -0.0F, 0.0F, 1.0F});
  expect_floats(add(a, b), {3.5F, 0.0F, infinity, 1.0F, 0.0F, 16777216.0F});
  expect_floats(sub(a, b), {-0.5F, -0.0F, nan, 1.0F, 0.0F, 16777215.0F});
  expect_floats(mul(a, b), {3.0F, -0.0F, infinity, -0.0F, 0.0F, 16777216.0F});
  expect_floats(elementwise_mul(a, b), {3.0F, -0.0F, infinity, -0.0F, 0.0F, 16777216.0F});
  expect_floats(div(a, b), {0.75F, nan, nan, -infinity, nan, 16777216.0F});
}

TEST_P(Elementwise, ArithmeticOfIntegersIsExact) {
  const Tensor a = ints({int32_max, int32_min, -46341, 7});
  expect_integers(add(a, ints({int32_min, int32_max, 1, 3})), {-1, -1, -46340, 10});
  expect_integers(sub(a, ints({int32_max, int32_min, 1, 3})), {0, 0, -46342, 4});
  expect_integers(mul(a, ints({1, 1, 46340, -3})), {int32_max, int32_min, -2147441940, -21});
  expect_floats(div(ints({7, 16777217, 1}), ints({2, 1, 0})), {3.5F, 16777216.0F, infinity});
}

TEST_P(Elementwise, MixedOperandsComputeInFloat32) {
  expect_floats(add(ints({16777217, 2}), floats({0.0F, 0.5F})), {16777216.0F, 2.5F});
  expect_floats(mul(floats({0.5F, 0.0F}), ints({3, -1})), {1.5F, -0.0F});
}

TEST_P(Elementwise, IntegerOverflowIsAnErrorAndNamesTheElement) {
  const auto overflows = [](const auto& compute) {
    EXPECT_THAT(compute,
                ThrowsMessage<OverflowError>(HasSubstr("the exact result leaves Int32 at element 1;")));
  };
  const Tensor a = ints({0, int32_max, int32_max});
  const Tensor lowest = ints({0, int32_min, 0});
  overflows([&] { (void)add(a, Scalar(1)); });
  overflows([&] { (void)sub(lowest, Scalar(1)); });
  overflows([&] { (void)sub(Scalar(0), lowest); });
  overflows([&] { (void)mul(a, Scalar(-2)); });
  overflows([&] { (void)mul(lowest, lowest); });
  overflows([&] { (void)neg(lowest); });
  overflows([&] { (void)pow(ints({1, 2, 1}), Scalar(31)); });
  std::vector<std::int32_t> many(5000, 1);
  many[4321] = int32_min;
  EXPECT_THAT([&] { (void)neg(ints(many)); }, ThrowsMessage<OverflowError>(HasSubstr("at element 4321;")));
  EXPECT_THAT([&] { (void)neg(ints({int32_min})); }, ThrowsMessage<OverflowError>(HasSubstr("[neg]")));
}

TEST_P(Elementwise, WeakScalarsRoundOnceAndNeverFailOnFloats) {
  const Tensor x = floats({1.0F, -2.0F});
  expect_floats(mul(x, Scalar(1e300)), {infinity, -infinity});
  expect_floats(mul(Scalar(3), x), {3.0F, -6.0F});
  expect_floats(add(Scalar(16777217), floats({0.0F})), {16777216.0F});
  expect_floats(sub(Scalar(1.0), x), {0.0F, 3.0F});
  expect_floats(div(Scalar(1), x), {1.0F, -0.5F});
  expect_floats(maximum(Scalar(0), x), {1.0F, 0.0F});
  expect_floats(mul(ints({3}), Scalar(0.5)), {1.5F});
  expect_floats(mul(ints({3}), Scalar(true)), {3.0F});
  expect_integers(mul(Scalar(2), ints({3, -4})), {6, -8});
  EXPECT_THROW((void)mul(ints({1}), Scalar(std::int64_t{1} << 31)), OverflowError);
}

TEST_P(Elementwise, PowOfFloatsFollowsIeee) {
  expect_floats(
      pow(floats({nan, 1.0F, 0.0F, -8.0F, -2.0F, 0.0F}), floats({0.0F, nan, -1.0F, 0.5F, 3.0F, 0.0F})),
      {1.0F, 1.0F, infinity, nan, -8.0F, 1.0F});
  expect_floats(pow(Scalar(2), ints({-1, 10})), {0.5F, 1024.0F});
  expect_floats(pow(ints({2, -3}), Scalar(-1)), {0.5F, -1.0F / 3.0F});
  expect_floats(pow(ints({1, -1}), Scalar(std::int64_t{1} << 31)), {1.0F, 1.0F});
}

TEST_P(Elementwise, PowOfIntegersIsExact) {
  expect_integers(pow(ints({0, 1, -1, 5}), Scalar(0)), {1, 1, 1, 1});
  expect_integers(pow(ints({-2, 0, 1}), Scalar(31)), {int32_min, 0, 1});
  expect_integers(pow(ints({0, 1, -1}), Scalar(int32_max)), {0, 1, -1});
  expect_integers(pow(ints({-46340, 46340, int32_min}), Scalar(1)), {-46340, 46340, int32_min});
  for (const std::int32_t base : {2, -3, int32_min, int32_max})
    EXPECT_THROW((void)pow(ints({base}), Scalar(int32_max)), OverflowError) << base;
  EXPECT_THROW((void)pow(ints({46341}), Scalar(2)), OverflowError);
  EXPECT_THROW((void)pow(ints({int32_min}), Scalar(2)), OverflowError);
}

TEST_P(Elementwise, MaximumKnowsNanAndTheSignOfZero) {
  const Tensor a = floats({0.0F, -0.0F, -0.0F, nan, 1.0F, -infinity, 2.0F});
  const Tensor b = floats({-0.0F, 0.0F, -0.0F, 1.0F, nan, infinity, 3.0F});
  expect_floats(maximum(a, b), {0.0F, 0.0F, -0.0F, nan, nan, infinity, 3.0F});
  expect_integers(maximum(ints({int32_min, 5}), ints({int32_max, -5})), {int32_max, 5});
  EXPECT_THROW((void)maximum(floats({1.0F}), ints({1})), TypeError);
}

TEST_P(Elementwise, MinimumMirrorsMaximum) {
  const Tensor a = floats({0.0F, -0.0F, 0.0F, nan, 1.0F, -infinity, 2.0F});
  const Tensor b = floats({-0.0F, 0.0F, 0.0F, 1.0F, nan, infinity, 3.0F});
  expect_floats(minimum(a, b), {-0.0F, -0.0F, 0.0F, nan, nan, -infinity, 2.0F});
  expect_integers(minimum(ints({int32_min, 5}), ints({int32_max, -5})), {int32_min, -5});
  expect_floats(minimum(Scalar(0), floats({1, -1})), {0, -1});
}

TEST_P(Elementwise, RemOfFloatsIsExact) {
  expect_floats(
      rem(floats({-5, 5, -0.0F, 1, infinity, nan, 3, -7}), floats({3, infinity, 2, 0, 2, 1, nan, -infinity})),
      {-2, 5, -0.0F, nan, nan, nan, nan, -7});
  std::mt19937 random(5);
  std::vector<float> a, b, exact;
  for (int i = 0; i < 5000; ++i) {
    a.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    b.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    exact.push_back(std::fmod(a.back(), b.back()));
  }
  expect_floats(rem(floats(a), floats(b)), exact);
}

TEST_P(Elementwise, RemOfIntegersTruncatesAndNeverTraps) {
  expect_integers(rem(ints({int32_min, int32_min, int32_max, -5, 5, 7}), ints({-1, 1, int32_min, 3, -3, 7})),
                  {0, 0, int32_max, -2, 2, 0});
  EXPECT_THAT([&] { (void)rem(ints({7, 7}), ints({1, 0})); },
              ThrowsMessage<ValueError>(HasSubstr("[rem] the divisor is 0 at element 1;")));
  std::vector<std::int32_t> divisors(5000, 3);
  divisors[4321] = 0;
  EXPECT_THAT([&] { (void)rem(ints(std::vector<std::int32_t>(5000, 7)), ints(divisors)); },
              ThrowsMessage<ValueError>(HasSubstr("at element 4321;")));
}

TEST_P(Elementwise, ClampIsTheMinimumOfTheMaximum) {
  const Tensor x = floats({-1, 2, nan, -0.0F});
  const Tensor zero = floats({0, 0, 0, 0});
  const Tensor one = floats({1, 1, 1, 1});
  const std::vector<float> clamped{0, 1, nan, 0};
  expect_floats(clamp(x, zero, one), clamped);
  expect_floats(clamp(x, Scalar(0), one), clamped);
  expect_floats(clamp(x, zero, Scalar(1.0)), clamped);
  expect_floats(clamp(x, Scalar(0), Scalar(1)), clamped);
  expect_floats(clamp(floats({2}), Scalar(1.0), Scalar(-1.0)), {-1});
  expect_integers(clamp(ints({-7, 2, 9}), Scalar(0), Scalar(3)), {0, 2, 3});
  expect_floats(clamp(ints({-7, 2, 9}), Scalar(0), Scalar(2.5)), {0, 2, 2.5F});
  EXPECT_THROW((void)clamp(x, ints({1, 1, 1, 1}), one), TypeError);
}

TEST_P(Elementwise, RoundingsAndRootsKeepTheSignOfZero) {
  expect_floats(floor(floats({-0.0F, 0.5F, -0.5F, 8388609, infinity, nan})),
                {-0.0F, 0, -1, 8388609, infinity, nan});
  expect_floats(ceil(floats({-0.0F, -0.5F, 0.5F, -infinity, nan})), {-0.0F, -0.0F, 1, -infinity, nan});
  expect_floats(round(floats({0.5F, 1.5F, 2.5F, -0.4F, -0.5F, infinity, nan})),
                {0, 2, 2, -0.0F, -0.0F, infinity, nan});
  expect_floats(sqrt(floats({4, -0.0F, -1, infinity, nan})), {2, -0.0F, nan, infinity, nan});
  expect_floats(rsqrt(floats({4, 0, -0.0F, infinity, -1})), {0.5F, infinity, -infinity, 0, nan});
  expect_floats(recip(floats({4, 0, -0.0F, infinity, -infinity})), {0.25F, infinity, -infinity, 0, -0.0F});
  expect_floats(sign(floats({-0.0F, -3, 1e-45F, nan})), {0, -1, 1, nan});
  expect_floats(abs(floats({-0.0F, -infinity, nan})), {0, infinity, nan});
  expect_floats(leaky_relu(floats({-0.0F, -1, 2, nan})), {-0.0F, -0.01F, 2, nan});
  expect_floats(leaky_relu(ints({-100, 3})), {-100 * 0.01F, 3});
  expect_integers(sign(ints({int32_min, 0, 5})), {-1, 0, 1});
  expect_integers(abs(ints({-int32_max, 5})), {int32_max, 5});
  EXPECT_THROW((void)abs(ints({int32_min})), OverflowError);
  expect_bools(logical_not(floats({-0.0F, nan, 1})), {true, false, false});
  expect_bools(logical_not(ints({0, 5})), {true, false});
  expect_bools(logical_not(bools({true, false})), {false, true});
}

TEST_P(Elementwise, UnaryFunctionsKeepTheirSpecialValues) {
  expect_floats(neg(floats({0.0F, -0.0F, 1.0F, -infinity})), {-0.0F, 0.0F, -1.0F, infinity});
  expect_integers(neg(ints({int32_max, 0, -1})), {-int32_max, 0, 1});
  expect_floats(exp(floats({0.0F, -0.0F, 89.0F, -infinity, infinity, nan, -104.0F, -103.0F})),
                {1.0F, 1.0F, infinity, 0.0F, infinity, nan, 0.0F, 1.401298464324817e-45F});
  expect_floats(exp(ints({0, 1})), {1.0F, 2.7182817F});
  expect_floats(log(floats({0.0F, -0.0F, -1.0F, 1.0F, infinity, nan})),
                {-infinity, -infinity, nan, 0.0F, infinity, nan});
  EXPECT_THROW((void)log(ints({1})), TypeError);
}

TEST_P(Elementwise, ElementaryFunctionsKeepTheirSpecialValues) {
  expect_floats(exp2(floats({0.0F, -0.0F, 10.0F, 128.0F, -149.0F, -151.0F, -infinity, infinity, nan})),
                {1.0F, 1.0F, 1024.0F, infinity, 0x1p-149F, 0.0F, 0.0F, infinity, nan});
  expect_floats(log2(floats({0.0F, -0.0F, -1.0F, 1.0F, 0x1p-149F, 0x1p127F, infinity, -infinity, nan})),
                {-infinity, -infinity, nan, 0.0F, -149.0F, 127.0F, infinity, nan, nan});
  expect_floats(sin(floats({0.0F, -0.0F, infinity, -infinity, nan, 1e-40F, -3e38F, 0x1.7d1c8cp-1F})),
                {0.0F, -0.0F, nan, nan, nan, 1e-40F, static_cast<float>(std::sin(-3e38F * 1.0)),
                 static_cast<float>(std::sin(0x1.7d1c8cp-1))});
  expect_floats(cos(floats({0.0F, -0.0F, infinity, -infinity, nan, 1e-40F, -3e38F, 0x1p21F})),
                {1.0F, 1.0F, nan, nan, nan, 1.0F, static_cast<float>(std::cos(-3e38F * 1.0)),
                 static_cast<float>(std::cos(0x1p21))});
  expect_floats(erf(floats({0.0F, -0.0F, infinity, -infinity, nan, 4.0F, -4.0F})),
                {0.0F, -0.0F, 1.0F, -1.0F, nan, 1.0F, -1.0F});
}

TEST_P(Elementwise, ActivationsKeepTheirSpecialValues) {
  expect_floats(relu(floats({2.0F, -1.0F, nan, -0.0F, 0.0F, infinity, -infinity})),
                {2.0F, 0.0F, nan, 0.0F, 0.0F, infinity, 0.0F});
  expect_integers(relu(ints({int32_min, 3, 0})), {0, 3, 0});
  expect_floats(sigmoid(floats({infinity, -infinity, 0.0F, nan, -104.0F})), {1.0F, 0.0F, 0.5F, nan, 0.0F});
  expect_floats(tanh(floats({infinity, -infinity, -0.0F, 0.0F, nan})), {1.0F, -1.0F, -0.0F, 0.0F, nan});
  expect_floats(gelu(floats({infinity, -infinity, -0.0F, 0.0F, nan, -10.0F})),
                {infinity, nan, -0.0F, 0.0F, nan, -0.0F});
  EXPECT_NEAR(elements<float>(gelu(floats({1.0F})))[0], 0.84134477F, 2 * 0x1p-24);
  expect_floats(silu(floats({infinity, -infinity, -0.0F, 0.0F, nan, 2.0F, -200.0F})),
                {infinity, nan, -0.0F, 0.0F, nan, 2.0F / (1.0F + 0.13533528F), -0.0F});
  expect_floats(softplus(floats({infinity, -infinity, nan, 100.0F, -100.0F})),
                {infinity, 0.0F, nan, 100.0F, 3.783506e-44F});
  expect_floats(elu(floats({infinity, -infinity, -0.0F, 0.0F, nan, 2.0F, -1e-40F, -30.0F})),
                {infinity, -1.0F, -0.0F, 0.0F, nan, 2.0F, -1e-40F, -1.0F});
  expect_floats(elu(ints({3, 0, -100})), {3.0F, 0.0F, -1.0F});
}

TEST_P(Elementwise, ComparisonsTreatNanAsUnorderedAndZerosAsEqual) {
  const Tensor a = floats({nan, 0.0F, 1.0F, 2.0F});
  const Tensor b = floats({nan, -0.0F, 2.0F, 1.0F});
  expect_bools(eq(a, b), {false, true, false, false});
  expect_bools(ne(a, b), {true, false, true, true});
  expect_bools(lt(a, b), {false, false, true, false});
  expect_bools(le(a, b), {false, true, true, false});
  expect_bools(gt(a, b), {false, false, false, true});
  expect_bools(ge(a, b), {false, true, false, true});
  expect_bools(eq(bools({true, false}), bools({true, true})), {true, false});
  expect_bools(ne(bools({true, false}), bools({true, true})), {false, true});
  expect_bools(lt(ints({int32_min, 5}), ints({int32_max, 5})), {true, false});
  expect_bools(lt(Scalar(1), ints({1, 2})), {false, true});
  expect_bools(le(ints({1, 2}), Scalar(1.5)), {true, false});
  EXPECT_THROW((void)lt(bools({true}), bools({true})), NotImplementedError);
}

TEST(CpuBool, EveryByteButZeroIsTrue) {
  std::vector<std::uint8_t> bytes{0, 1, 2, 255};
  const Ref<CPU> carrier = CPU::wrap(4, reinterpret_cast<Index>(bytes.data()), {.dtype = dtypes::Bool});
  const Tensor odd(carrier, 0, Layout::canonical(Shape{4}));
  const Ref<CPU> truths = CPU::make(4, {.dtype = dtypes::Bool});
  for (Index i = 0; i < 4; ++i) truths->store(i, Scalar(true));
  const Tensor yes(truths, 0, Layout::canonical(Shape{4}));
  expect_bools(eq(odd, yes), {false, true, true, true});
  const Tensor copy = select(yes, odd, yes);
  const auto* slots = reinterpret_cast<const std::uint8_t*>(copy.carrier()->host_data());
  EXPECT_THAT(std::vector(slots, slots + 4), ElementsAre(0, 1, 1, 1));
}

TEST_P(Elementwise, SelectReadsTheChosenBranchOnly) {
  const Tensor condition = bools({true, false, true});
  expect_floats(select(condition, floats({1.0F, nan, -0.0F}), floats({nan, 2.0F, nan})), {1.0F, 2.0F, -0.0F});
  expect_integers(select(condition, ints({1, 2, 3}), ints({4, 5, 6})), {1, 5, 3});
  expect_bools(select(condition, bools({false, true, true}), bools({true, false, false})),
               {false, false, true});
  EXPECT_THROW((void)select(condition, floats({1, 2, 3}), ints({1, 2, 3})), TypeError);
}

// The last place of the binary32 value nearest to `exact`.
double last_place(double exact) {
  const float rounded = std::fabs(static_cast<float>(exact));
  return static_cast<double>(std::nextafter(rounded, infinity)) - static_cast<double>(rounded);
}

TEST(Elementary, StaysWithinOneUlpOfTheExactValue) {
  std::mt19937 random(1);
  std::vector<float> inputs;
  while (inputs.size() < 200000) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(x)) inputs.push_back(x);
  }
  const Ref<CPU> carrier = CPU::make(static_cast<Index>(inputs.size()));
  carrier->write_span(0, carrier->size(), inputs.data());
  const Tensor x(carrier, 0, Layout::canonical(Shape{carrier->size()}));
  const auto check = [&](const Tensor& y, long double (*exact)(long double), double ulps) {
    const auto* values = reinterpret_cast<const float*>(y.carrier()->host_data());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto wanted = static_cast<double>(exact(inputs[i]));
      const auto nearest = static_cast<float>(wanted);
      if (!std::isfinite(nearest)) {
        EXPECT_EQ(bits({values[i]}), bits({nearest})) << inputs[i];
      } else {
        ASSERT_LE(std::fabs(static_cast<double>(values[i]) - wanted), ulps * last_place(wanted)) << inputs[i];
      }
    }
  };
  check(exp(x), std::exp, 1.0);
  check(exp2(x), std::exp2, 1.0);
  check(log(x), std::log, 1.0);
  check(log2(x), std::log2, 1.0);
  check(sin(x), std::sin, 1.0);
  check(cos(x), std::cos, 1.0);
  check(erf(x), std::erf, 1.0);
  check(tanh(x), std::tanh, 1.0);
  check(sigmoid(x), [](long double v) { return 1.0L / (1.0L + std::exp(-v)); }, 3.0);
}

// --- geometry

TEST_P(Elementwise, BroadcastsLeafByLeaf) {
  const Tensor column = make<float>({1, 2}, Shape{2, 1});
  const Tensor matrix = make<float>({10, 20, 30, 40, 50, 60}, Shape{2, 3});
  const Tensor sum = add(column, matrix);
  EXPECT_EQ(sum.layout(), Layout::canonical(Shape{2, 3}));
  expect_floats(sum, {11, 22, 31, 42, 51, 62});
  const Tensor row = make<float>({1, 2, 3}, Shape{1, 3});
  EXPECT_EQ(add(column, row).layout().shape(), (Shape{2, 3}));
  expect_floats(sub(row, column), {0, -1, 1, 0, 2, 1});
  const Tensor condition = make<bool>({true, false, true}, Shape{1, 3});
  expect_floats(select(condition, column, matrix), {1, 2, 30, 40, 1, 2});
  const Tensor nested = make<std::int32_t>({1, 2, 3}, Shape{{1, 3}, 1});
  const Tensor other = make<std::int32_t>({10, 20, 30, 40}, Shape{{2, 1}, 2});
  expect_integers(add(nested, other), {11, 21, 12, 22, 13, 23, 31, 41, 32, 42, 33, 43});
}

TEST_P(Elementwise, RefusesShapesThatDoNotBroadcast) {
  const Tensor two = floats({1, 2});
  EXPECT_THAT([&] { (void)add(two, make<float>({1, 2}, Shape{1, 2})); },
              ThrowsMessage<ValueError>(HasSubstr("same shape profile")));
  EXPECT_THAT([&] { (void)add(two, floats({1, 2, 3})); },
              ThrowsMessage<ValueError>(HasSubstr("leaf 0: extents 2 and 3")));
  const Tensor nested = make<float>(std::vector<float>(12), Shape{2, {2, 3}});
  const Tensor other = make<float>(std::vector<float>(16), Shape{2, {2, 4}});
  EXPECT_THAT([&] { (void)mul(nested, other); },
              ThrowsMessage<ValueError>(HasSubstr("leaf 1.1: extents 3 and 4")));
  EXPECT_THAT([&] { (void)select(bools({true, false}), two, floats({1, 2, 3})); },
              ThrowsMessage<ValueError>(HasSubstr("leaf 0")));
}

TEST_P(Elementwise, RefusesWrongOperands) {
  const Tensor x = floats({1, 2});
  EXPECT_THROW((void)add(Scalar(1), Scalar(2)), TypeError);
  EXPECT_THROW((void)apply_operation("add", std::vector<Argument>{x}), TypeError);
  EXPECT_THROW((void)apply_operation("neg", std::vector<Argument>{x, x}), TypeError);
  EXPECT_THROW((void)apply_operation("exp", std::vector<Argument>{Scalar(1)}), TypeError);
  EXPECT_THROW((void)add(x, Argument::of(std::string("2"))), TypeError);
  const Tensor elsewhere(
      allocate(GetParam() == Backend::cpu ? Backend::reference : Backend::cpu, 2, dtypes::Float32), 0,
      Layout::canonical(Shape{2}));
  EXPECT_THROW((void)add(x, elsewhere), TypeError);
  const Tensor gone = floats({1, 2});
  gone.carrier()->release();
  EXPECT_THAT([&] { (void)add(x, gone); }, ThrowsMessage<RuntimeError>(HasSubstr("released")));
}

/// A shape and, for each operand, which of its leaves are narrow and how the rest lies.
Layout random_layout(std::mt19937& random, const std::vector<Index>& extents) {
  std::vector<Coordinate> shape, stride;
  Index next = 1;
  for (const Index extent : extents) {
    const unsigned kind = static_cast<unsigned>(random()) % 5;
    const bool is_narrow = kind == 0;
    shape.emplace_back(is_narrow ? 1 : extent);
    if (kind == 1) {
      stride.emplace_back(Index{0});
      continue;
    }
    if (kind == 2) next *= 2;
    stride.emplace_back(next);
    next *= is_narrow ? 1 : extent;
  }
  if (random() % 3 == 0) std::reverse(stride.begin(), stride.end());
  return {Shape(Coordinate(shape)), Stride(Coordinate(stride))};
}

TEST_P(Elementwise, ReadsStridedAndBroadcastOperandsEverywhere) {
  std::mt19937 random(7);
  const std::vector<std::vector<Index>> shapes{{1},      {3},         {4},       {7},         {1000},
                                               {1024},   {1025},      {2, 3},    {5, 1, 4},   {40, 60},
                                               {3, 999}, {2, 2, 700}, {1500, 2}, {2, 3, 4, 5}};
  for (int round = 0; round < 60; ++round) {
    const std::vector<Index>& extents = shapes[static_cast<std::size_t>(round) % shapes.size()];
    const Layout result = Layout::canonical(Shape::flat(extents));
    const auto operand = [&](auto zero) {
      using T = decltype(zero);
      const Layout layout = random_layout(random, extents);
      std::vector<T> values;
      for (Index i = 0; i < layout.size(); ++i) values.push_back(static_cast<T>(random() % 1000));
      return make<T>(values, layout, static_cast<Index>(random() % 3));
    };
    // The element that `tensor` contributes at a coordinate of the result.
    const auto read = [&](const Tensor& tensor, Index ordinal) {
      Index index = 0;
      for (std::size_t leaf = 0; leaf < extents.size(); ++leaf) {
        if (tensor.layout().extents()[leaf] != 1)
          index += ordinal % extents[leaf] * tensor.layout().strides()[leaf];
        ordinal /= extents[leaf];
      }
      return tensor.carrier()->at(tensor.offset() + index).to_binary32();
    };
    const Tensor a = operand(0.0F);
    const Tensor b = operand(0);
    const Tensor full =
        make<float>(std::vector<float>(static_cast<std::size_t>(result.size()), 0.0F), result);
    const Tensor y = add(add(a, b), full);
    ASSERT_EQ(y.layout(), result);
    const std::vector<float> values = elements<float>(y);
    for (Index i = 0; i < result.size(); ++i)
      ASSERT_EQ(values[static_cast<std::size_t>(i)], read(a, i) + read(b, i))
          << a.layout().to_string() << b.layout().to_string() << i;
  }
}

TEST_P(Elementwise, LeavesAFailedCallWithoutATrace) {
  const Tensor x = ints({int32_max, 1});
  const std::int64_t version = x.version();
  EXPECT_THROW((void)add(x, x), OverflowError);
  EXPECT_EQ(x.version(), version);
  expect_integers(x, {int32_max, 1});
}

// --- gradients

TEST_P(Elementwise, GradientsOfArithmetic) {
  const Tensor a = floats({3, -2});
  const Tensor b = floats({4, 0.5F});
  const Tensor g = floats({10, 1});
  const auto gradients = [&](const Tensor& y) {
    std::vector<std::vector<float>> result;
    for (const auto& gradient : grad(y, std::vector<Tensor>{a, b}, g))
      result.push_back(elements<float>(*gradient));
    return result;
  };
  using Both = std::vector<std::vector<float>>;
  EXPECT_EQ(gradients(add(a, b)), (Both{{10, 1}, {10, 1}}));
  EXPECT_EQ(gradients(sub(a, b)), (Both{{10, 1}, {-10, -1}}));
  EXPECT_EQ(gradients(mul(a, b)), (Both{{40, 0.5F}, {30, -2}}));
  EXPECT_EQ(gradients(elementwise_mul(a, b)), (Both{{40, 0.5F}, {30, -2}}));
  EXPECT_EQ(gradients(div(a, b)), (Both{{2.5F, 2}, {-1.875F, 8}}));
  EXPECT_EQ(gradients(maximum(a, b)), (Both{{0, 0}, {10, 1}}));
}

TEST_P(Elementwise, GradientsBesideScalarsAndIntegers) {
  const Tensor x = floats({3, -2});
  const Tensor ones = floats({1, 1});
  const auto gradient = [&](const Tensor& y) {
    return elements<float>(*grad(y, std::vector<Tensor>{x}, ones)[0]);
  };
  EXPECT_THAT(gradient(add(x, Scalar(5))), ElementsAre(1, 1));
  EXPECT_THAT(gradient(sub(Scalar(5), x)), ElementsAre(-1, -1));
  EXPECT_THAT(gradient(mul(Scalar(5), x)), ElementsAre(5, 5));
  EXPECT_THAT(gradient(div(x, Scalar(2))), ElementsAre(0.5F, 0.5F));
  EXPECT_THAT(gradient(div(Scalar(12), x)), ElementsAre(-12.0F / 3.0F / 3.0F, -3));
  EXPECT_THAT(gradient(maximum(x, Scalar(3))), ElementsAre(0.5F, 0));
  EXPECT_THAT(gradient(pow(x, Scalar(3))), ElementsAre(27, 12));
  EXPECT_THAT(gradient(pow(Scalar(1), x)), ElementsAre(0, 0));
  EXPECT_THAT(gradient(mul(x, ints({4, 5}))), ElementsAre(4, 5));
  EXPECT_THAT(gradient(pow(ints({1, 0}), x)), ElementsAre(0, -infinity));
  EXPECT_THAT(gradient(mul(x, x)), ElementsAre(6, -4));
  EXPECT_FALSE(autograd_node(mul(ints({1}), ints({2}))));
}

TEST_P(Elementwise, GradientOfDivisionKeepsItsRange) {
  const Tensor a = floats({1e-20F});
  const Tensor b = floats({1e-25F});
  backward(div(a, b));
  EXPECT_NEAR(elements<float>(gradient_of(b))[0], -1e30, 1e24);
}

TEST_P(Elementwise, GradientsOfPowAreZeroWhereTheRulesSaySo) {
  const Tensor x = floats({0, 0, 2, -0.0F, 0});
  const Tensor p = floats({0, -1, 3, 2, nan});
  backward(pow(x, p), floats({1, 1, 1, 1, 1}));
  expect_floats(gradient_of(x), {0, -infinity, 12, -0.0F, nan});
  const std::vector<float> exponents = elements<float>(gradient_of(p));
  EXPECT_EQ(exponents[0], 0);
  EXPECT_EQ(exponents[1], -infinity);
  EXPECT_FLOAT_EQ(exponents[2], 8 * std::log(2.0F));
  EXPECT_EQ(exponents[3], 0);
  EXPECT_TRUE(std::isnan(exponents[4]));
}

TEST_P(Elementwise, GradientsOfMaximumShareTies) {
  const Tensor a = floats({0.0F, infinity, 1, nan, 2});
  const Tensor b = floats({-0.0F, infinity, 2, 1, nan});
  backward(maximum(a, b), floats({1, 1, 1, 1, 1}));
  expect_floats(gradient_of(a), {0.5F, 0.5F, 0, nan, nan});
  expect_floats(gradient_of(b), {0.5F, 0.5F, 1, nan, nan});
}

TEST_P(Elementwise, GradientsOfClampSplitTiesRuleByRule) {
  const Tensor x = floats({1, 0, 5, nan});
  const Tensor lower = floats({1, 1, 1, 0});
  const Tensor upper = floats({1, 2, 2, 1});
  backward(clamp(x, lower, upper), floats({4, 4, 4, 4}));
  expect_floats(gradient_of(x), {1, 0, 0, nan});
  expect_floats(gradient_of(lower), {1, 4, 0, nan});
  expect_floats(gradient_of(upper), {2, 0, 4, nan});
}

TEST_P(Elementwise, GradientOfRemIsTheExactQuotient) {
  // The third quotient is 16777217 and a third: truncated, then a tie, which rounds to even.
  const Tensor a = floats({-7, 1e30F, 12582914.0F * 16777216.0F, 1, 3e38F});
  const Tensor b = floats({2, 3, 12582913, 0, 1e-3F});
  backward(rem(a, b), floats({2, 1, 1, 1, 1}));
  expect_floats(gradient_of(a), {2, 1, 1, 1, 1});
  const auto huge = static_cast<float>(static_cast<double>(3e38F) / static_cast<double>(1e-3F));
  expect_floats(gradient_of(b), {6, -1e30F / 3.0F, -16777216, -infinity, -huge});
}

TEST_P(Elementwise, GradientsOfUnaryFunctions) {
  const auto gradient = [&](Tensor (*f)(const Tensor&), std::vector<float> x, std::vector<float> g) {
    const Tensor leaf = floats(x);
    backward(f(leaf), floats(g));
    return gradient_of(leaf);
  };
  expect_floats(gradient(neg, {1, 2}, {3, -0.0F}), {-3, 0});
  expect_floats(gradient(exp, {0, -infinity}, {3, 3}), {3, 0});
  expect_floats(gradient(log, {4, 0}, {2, 1}), {0.5F, infinity});
  expect_floats(gradient(exp2, {3, -infinity}, {0.5F, 1}), {8 * 0.6931472F * 0.5F, 0});
  expect_floats(gradient(log2, {4, 0, -0.0F}, {2, 1, 1}), {2 / (4 * 0.6931472F), infinity, -infinity});
  expect_floats(gradient(sin, {0, infinity}, {3, 1}), {3, nan});
  expect_floats(gradient(cos, {0, -0.0F}, {3, 3}), {-0.0F, 0});
  expect_floats(gradient(erf, {0, infinity, -infinity}, {2, 1, 1}), {2 * 1.1283792F, 0, 0});
  expect_floats(gradient(gelu, {0, infinity, 40, -40, nan}, {1, 1, 1, 1, 1}), {0.5F, nan, 1, 0, nan});
  expect_floats(gradient(silu, {0, 200, -200, infinity, nan}, {1, 1, 1, 1, 1}), {0.5F, 1, 0, nan, nan});
  expect_floats(gradient(softplus, {0, infinity, -infinity, nan}, {4, 1, 1, 1}), {2, 1, 0, nan});
  expect_floats(gradient(elu, {3, 0, -0.0F, -infinity, infinity, nan}, {2, 2, 2, 2, 2, 2}),
                {2, 2, 2, 0, 2, nan});
  expect_floats(gradient(relu, {1, 0, -0.0F, -1, nan}, {infinity, infinity, 1, nan, 1}),
                {infinity, 0, 0, 0, 0});
  expect_floats(gradient(abs, {-2, 0, -0.0F, 3}, {5, 5, 5, 5}), {-5, 0, 0, 5});
  expect_floats(gradient(recip, {2, 0}, {1, 1}), {-0.25F, -infinity});
  expect_floats(gradient(sqrt, {4, 0}, {1, 1}), {0.25F, infinity});
  expect_floats(gradient(rsqrt, {4, 0}, {2, 1}), {-0.125F, -infinity});
  expect_floats(gradient(leaky_relu, {-1, 0, 1}, {1, 1, 1}), {0.01F, 1, 1});
  for (Tensor (*f)(const Tensor&) : {sign, floor, ceil, round})
    expect_floats(gradient(f, {0.5F, nan}, {infinity, nan}), {0, 0});
  expect_floats(gradient(sigmoid, {0, infinity}, {4, 1}), {1, 0});
  expect_floats(gradient(tanh, {0, infinity}, {4, 1}), {4, 0});
}

TEST_P(Elementwise, GradientsOfSelectGoWhereTheValueCameFrom) {
  const Tensor condition = bools({true, false});
  const Tensor a = floats({1, 2});
  const Tensor b = floats({3, 4});
  backward(select(condition, a, b), floats({5, nan}));
  expect_floats(gradient_of(a), {5, 0});
  expect_floats(gradient_of(b), {0, nan});
  const Ref<Operation> node = autograd_node(select(condition, a, b));
  const Gradients gradients = node->backward(floats({1, 1}));
  ASSERT_EQ(gradients.size(), 3U);
  EXPECT_FALSE(gradients[0].has_value());
}

TEST_P(Elementwise, GradientsAreSummedOverWidenedLeaves) {
  const Tensor column = make<float>({1, 2}, Shape{2, 1});
  const Tensor matrix = make<float>({1, 2, 3, 4, 5, 6}, Shape{2, 3});
  backward(mul(column, matrix), make<float>({1, 1, 1, 1, 1, 1}, Shape{2, 3}));
  EXPECT_EQ(gradient_of(column).layout(), Layout::canonical(Shape{2, 1}));
  expect_floats(gradient_of(column), {9, 12});
  expect_floats(gradient_of(matrix), {1, 2, 1, 2, 1, 2});
}

TEST_P(Elementwise, GradientsTakeTheLayoutOfTheirInput) {
  const Layout gapped(Shape{2, 2}, Stride{3, 1});
  const Tensor x = make<float>({1, 2, 3, 4}, gapped, 2);
  backward(mul(x, Scalar(2)), make<float>({1, 2, 3, 4}, Shape{2, 2}));
  EXPECT_EQ(gradient_of(x).layout(), gapped);
  expect_floats(gradient_of(x), {2, 4, 6, 8});
}

TEST_P(Elementwise, PredicatesHaveNoGradient) {
  const Tensor x = floats({1});
  EXPECT_FALSE(autograd_node(lt(x, x)));
  const Ref<Operation> operation = x.carrier()->dispatch_op("eq");
  (void)operation->forward(std::vector<Argument>{x, x});
  EXPECT_THROW((void)operation->backward(x), RuntimeError);
}

TEST(Backends, CpuAndReferenceAgreeBitForBit) {
  std::mt19937 random(11);
  std::vector<float> x, p;
  for (int i = 0; i < 20000; ++i) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    p.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  }
  const auto tensor = [](Backend backend, const std::vector<float>& values) {
    Ref<Carrier> carrier = allocate(backend, static_cast<Index>(values.size()), dtypes::Float32);
    carrier->write_span(0, carrier->size(), values.data());
    return Tensor(carrier, 0, Layout::canonical(Shape{carrier->size()}));
  };
  for (const std::string_view name : {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "rem"}) {
    const auto result = [&](Backend backend) {
      return bits(elements<float>(
          apply_operation(name, std::vector<Argument>{tensor(backend, x), tensor(backend, p)})));
    };
    EXPECT_EQ(result(Backend::cpu), result(Backend::reference)) << name;
  }
  for (const std::string_view name :
       {"neg",  "abs",     "sign", "recip", "sqrt", "rsqrt",    "exp",  "exp2",
        "log",  "log2",    "sin",  "cos",   "erf",  "floor",    "ceil", "round",
        "relu", "sigmoid", "tanh", "gelu",  "silu", "softplus", "elu",  "leaky_relu"}) {
    const auto result = [&](Backend backend) {
      return bits(elements<float>(apply_operation(name, std::vector<Argument>{tensor(backend, x)})));
    };
    EXPECT_EQ(result(Backend::cpu), result(Backend::reference)) << name;
  }
}

}  // namespace
}  // namespace orlop
