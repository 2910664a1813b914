// matmul and its gradient on CPU and on the reference kernels (P10, P66).
#include <limits>
#include <string>

#include "backends.hpp"
#include "interrupts.hpp"
#include "orlop/interop/friendly.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"
#include "orlop/operation/grad_mode.hpp"

namespace orlop {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int32_t int32_max = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t int32_min = std::numeric_limits<std::int32_t>::min();

/// Row and term sizes that take every way through the kernels: vectors, tiny ones, several blocks.
struct Sizes {
  Shape lhs;
  Shape rhs;
};
std::vector<Sizes> sizes() {
  return {{Shape{1, 1}, Shape{1, 1}},
          {Shape{3, 4}, Shape{5, 4}},
          {Shape{1, 70}, Shape{90, 70}},
          {Shape{90, 70}, Shape{1, 70}},
          {Shape{{3, 5}, {4, 7}}, Shape{{2, 3}, {2, {7, 2}}}},
          {Shape{40, 1}, Shape{30, 1}},
          {Shape{300, 3}, Shape{20, 3}},
          {Shape{33, 600}, Shape{17, 600}}};
}

/// Calls `body(lhs layout, rhs layout, random)`: canonical, transposed, gapped, broadcast.
template <class Body>
void for_random_layouts(Body body) {
  std::mt19937 random(3);
  for (const auto& [lhs, rhs] : sizes())
    for (int repeat = 0; repeat < 6; ++repeat) {
      const auto layout_of = [&](const Shape& shape) {
        if (repeat == 0) return Layout::canonical(shape);
        return repeat % 2 == 1 ? random_layout(shape, random) : random_aliased_layout(shape, random);
      };
      const Layout left = layout_of(lhs);
      const Layout right = layout_of(rhs);
      SCOPED_TRACE(text(left, " by ", right));
      body(left, right, random);
    }
}

template <class T, class Draw>
std::vector<T> draw(const Layout& layout, Draw value) {
  std::vector<T> slots(static_cast<std::size_t>(layout.cosize()));
  for (T& slot : slots) slot = static_cast<T>(value());
  return slots;
}

/// Element (row, term) of a placed matrix.
template <class T>
T element(const std::vector<T>& slots, const Layout& layout, Index row, Index term) {
  return slots[static_cast<std::size_t>(layout.mode(0)(row) + layout.mode(1)(term))];
}

TEST(Matmul, ContractsTheSecondModesByOrdinal) {
  for (const Backend backend : backends) {
    const Tensor lhs = make_tensor<float>(backend, {1, 2, 3, 4, 5, 6}, Shape{2, 3});
    const Tensor rhs = make_tensor<float>(backend, {1, 10, 100, 2, 20, 200}, Shape{Coordinate{2}, 3});
    const Tensor result = matmul(lhs, rhs);
    EXPECT_EQ(result.layout(), Layout::canonical(Shape{2, Coordinate{2}}));
    // rhs is [[1, 100, 20], [10, 2, 200]].
    EXPECT_THAT(elements<float>(result), ElementsAre(401.0F, 522.0F, 1016.0F, 1228.0F));
  }
}

TEST(Matmul, KeepsTheFirstModesShapes) {
  const std::vector<float> ones(24, 1.0F);
  const Tensor lhs = make_tensor(Backend::cpu, ones, Shape{{2, 3}, 4});
  const Tensor rhs = make_tensor(Backend::cpu, ones, Shape{{3, {1, 2}}, {2, 2}});
  EXPECT_EQ(matmul(lhs, rhs).layout(), Layout::canonical(Shape{{2, 3}, {3, {1, 2}}}));
}

TEST(Matmul, RefusesWrongOperands) {
  const std::vector<float> ones(24, 1.0F);
  const Tensor matrix = make_tensor(Backend::cpu, ones, Shape{6, 4});
  EXPECT_THAT([&] { (void)matmul(matrix, make_tensor(Backend::cpu, ones, Shape{4, 6})); },
              ThrowsMessage<ValueError>(HasSubstr("one size")));
  EXPECT_THAT([&] { (void)matmul(matrix, make_tensor(Backend::cpu, ones, Shape{24})); },
              ThrowsMessage<ValueError>(HasSubstr("two top-level modes")));
  const std::vector<Argument> with_number{matrix, Scalar(2)};
  EXPECT_THROW(apply_operation("matmul", with_number), TypeError);
  EXPECT_THROW((void)matmul(matrix, matrix, {.accumulator_dtype = dtypes::Int32}), NotImplementedError);
}

TEST(Matmul, AddsInOrdinalOrderOnTheReference) {
  const auto product = [](Backend backend, const DType& accumulator) {
    const Tensor lhs = make_tensor<float>(backend, {16777216.0F, 1.0F, 1.0F, -16777216.0F}, Shape{1, 4});
    const Tensor ones = make_tensor<float>(backend, {1, 1, 1, 1}, Shape{1, 4});
    return elements<float>(matmul(lhs, ones, {.accumulator_dtype = accumulator})).front();
  };
  EXPECT_EQ(product(Backend::reference, dtypes::Float32), 0.0F);
  for (const Backend backend : backends) EXPECT_EQ(product(backend, dtypes::Float64), 2.0F);
}

TEST(Matmul, IsExactOnSmallIntegersInAnyLayout) {
  for_random_layouts([](const Layout& left, const Layout& right, std::mt19937& random) {
    const auto value = [&] { return static_cast<int>(random() % 21) - 10; };
    const auto lhs = draw<std::int32_t>(left, value);
    const auto rhs = draw<std::int32_t>(right, value);
    const std::vector<float> lhs_floats(lhs.begin(), lhs.end());
    const std::vector<float> rhs_floats(rhs.begin(), rhs.end());
    std::vector<std::int32_t> expected;
    for (Index j = 0; j < right.mode(0).size(); ++j)
      for (Index i = 0; i < left.mode(0).size(); ++i) {
        std::int32_t sum = 0;
        for (Index k = 0; k < left.mode(1).size(); ++k)
          sum += element(lhs, left, i, k) * element(rhs, right, j, k);
        expected.push_back(sum);
      }
    const std::vector<float> expected_floats(expected.begin(), expected.end());
    for (const Backend backend : backends) {
      const Tensor a = place(backend, lhs, left);
      const Tensor b = place(backend, rhs, right);
      const Tensor x = place(backend, lhs_floats, left);
      const Tensor y = place(backend, rhs_floats, right);
      EXPECT_THAT(elements<std::int32_t>(matmul(a, b)), ElementsAreArray(expected));
      EXPECT_THAT(elements<float>(matmul(x, y)), ElementsAreArray(expected_floats));
      EXPECT_THAT(elements<float>(matmul(a, y)), ElementsAreArray(expected_floats));
      EXPECT_THAT(elements<float>(matmul(x, y, {.accumulator_dtype = dtypes::Float64})),
                  ElementsAreArray(expected_floats));
    }
  });
}

TEST(Matmul, IsExactOnLargeIntegers) {
  std::mt19937 random(5);
  for (const Index half : {1, 40, 1500}) {
    // The second half of the terms undoes the first, after partial sums far beyond 64 bits; one term is left.
    const Shape left{40, 2 * half + 1};
    const Shape right{30, 2 * half + 1};
    std::vector<std::int32_t> lhs(static_cast<std::size_t>(left.size()));
    std::vector<std::int32_t> rhs(static_cast<std::size_t>(right.size()));
    const auto count = static_cast<std::size_t>(half);
    for (std::size_t i = 0; i < 40 * count; ++i) {
      lhs[i] = std::max(static_cast<std::int32_t>(random()), -int32_max);
      lhs[i + 40 * count] = -lhs[i];
    }
    for (std::size_t j = 0; j < 30 * count; ++j)
      rhs[j] = rhs[j + 30 * count] = static_cast<std::int32_t>(random());
    std::vector<std::int32_t> expected;
    for (int i = 0; i < 40; ++i) lhs[80 * count + static_cast<std::size_t>(i)] = i;
    for (int j = 0; j < 30; ++j) {
      rhs[60 * count + static_cast<std::size_t>(j)] = j;
      for (int i = 0; i < 40; ++i) expected.push_back(i * j);
    }
    for (const Backend backend : backends)
      EXPECT_THAT(
          elements<std::int32_t>(matmul(make_tensor(backend, lhs, left), make_tensor(backend, rhs, right))),
          ElementsAreArray(expected));
  }
}

TEST(Matmul, IsExactOverVeryManyTerms) {
  // 3 · 2^19 products of -2^60 and as many of 2^60 leave the sums of doubles and of 64 bits; one term is
  // left.
  constexpr Index half = 3 * (Index{1} << 19);
  std::vector<std::int32_t> lhs(2 * half + 1, int32_min);
  std::vector<std::int32_t> rhs(2 * half + 1, 1 << 29);
  std::fill(lhs.begin() + half, lhs.end() - 1, 1 << 30);
  std::fill(rhs.begin() + half, rhs.end() - 1, 1 << 30);
  lhs.back() = 7;
  rhs.back() = -3;
  const Shape row{1, 2 * half + 1};
  EXPECT_THAT(elements<std::int32_t>(
                  matmul(make_tensor(Backend::cpu, lhs, row), make_tensor(Backend::cpu, rhs, row))),
              ElementsAre(-21));
}

TEST(Matmul, RoundsIntegersToFloat32BeforeAnyAccumulator) {
  for (const Backend backend : backends)
    for (const Index rows : {1, 100})  // tiny, and in blocks
      for (const DType* accumulator :
           {static_cast<const DType*>(&dtypes::Float32), static_cast<const DType*>(&dtypes::Float64)}) {
        const std::vector<std::int32_t> integers(static_cast<std::size_t>(50 * rows), 16777217);
        std::vector<float> floats(50, 0.0F);
        floats[7] = floats[8] = floats[9] = 1.0F;  // one alone would hide in the last rounding
        const Tensor product =
            matmul(make_tensor(backend, integers, Shape{rows, 50}),
                   make_tensor(backend, floats, Shape{1, 50}), {.accumulator_dtype = accumulator});
        EXPECT_THAT(elements<float>(product), testing::Each(50331648.0F));
      }
}

TEST(Matmul, ChecksOnlyTheSum) {
  for (const Backend backend : backends)
    for (const Index rows : {1, 100}) {  // tiny, and in blocks
      const auto product = [&](std::int32_t a, std::int32_t b) {
        const std::vector<std::int32_t> lhs(static_cast<std::size_t>(50 * rows), a);
        const std::vector<std::int32_t> rhs(50, b);
        return elements<std::int32_t>(
            matmul(make_tensor(backend, lhs, Shape{rows, 50}), make_tensor(backend, rhs, Shape{1, 50})));
      };
      EXPECT_THAT(product(int32_min, 0), testing::Each(0));
      EXPECT_THAT(product(42949672, 1), testing::Each(2147483600));
      EXPECT_THAT([&] { product(42949673, 1); }, ThrowsMessage<OverflowError>(HasSubstr("2147483650")));
      EXPECT_THAT([&] { product(int32_min, int32_min); },
                  ThrowsMessage<OverflowError>(HasSubstr("230584300921369395200")));
    }
}

TEST(Matmul, PassesSpecialValuesOn) {
  for (const Backend backend : backends)
    for (const Index rows : {1, 2, 40})
      for (const Index columns : {1, 3, 40})
        for (const Index terms : {1, 2, 33}) {
          SCOPED_TRACE(text(rows, " x ", columns, " x ", terms));
          const auto product = [&](float special, float other) {
            std::vector<float> lhs(static_cast<std::size_t>(rows * terms), 0.0F);
            const std::vector<float> rhs(static_cast<std::size_t>(columns * terms), other);
            lhs.back() = special;
            return elements<float>(matmul(make_tensor(backend, lhs, Shape{rows, terms}),
                                          make_tensor(backend, rhs, Shape{columns, terms})))
                .back();
          };
          EXPECT_TRUE(std::isnan(product(nan, 0.0F)));
          EXPECT_TRUE(std::isnan(product(infinity, 0.0F)));
          EXPECT_EQ(product(-infinity, 2.0F), -infinity);
          EXPECT_EQ(std::bit_cast<std::uint32_t>(product(-0.0F, 0.0F)), 0U);
        }
}

TEST(Matmul, StaysWithinItsErrorBoundAndRepeatsItsBits) {
  constexpr Index terms = 4096;
  std::mt19937 random(13);
  std::normal_distribution<float> normal;
  const auto value = [&] { return normal(random); };
  const Layout left = Layout::canonical(Shape{24, terms});
  const Layout right(Shape{16, terms}, Stride{terms, 1});
  const auto lhs = draw<float>(left, value);
  const auto rhs = draw<float>(right, value);
  const auto product = [&](const DType& accumulator) {
    return elements<float>(matmul(place(Backend::cpu, lhs, left), place(Backend::cpu, rhs, right),
                                  {.accumulator_dtype = accumulator}));
  };
  const auto single = product(dtypes::Float32);
  const auto wide = product(dtypes::Float64);
  for (Index j = 0; j < 16; ++j)
    for (Index i = 0; i < 24; ++i) {
      long double exact = 0;
      long double magnitude = 0;
      for (Index k = 0; k < terms; ++k) {
        const long double term =
            static_cast<long double>(element(lhs, left, i, k)) * element(rhs, right, j, k);
        exact += term;
        magnitude += std::fabs(term);
      }
      const auto at = static_cast<std::size_t>(i + 24 * j);
      constexpr long double gamma = terms * 0x1p-24L / (1 - terms * 0x1p-24L);
      constexpr long double gamma_wide = terms * 0x1p-53L / (1 - terms * 0x1p-53L);
      EXPECT_LE(std::fabs(single[at] - exact), gamma * magnitude);
      EXPECT_LE(std::fabs(wide[at] - exact), (0x1p-24L + gamma_wide) * magnitude);
    }
  EXPECT_EQ(bits(product(dtypes::Float32)), bits(single));
  EXPECT_EQ(bits(product(dtypes::Float64)), bits(wide));
}

TEST(Matmul, GradientsContractTheCotangent) {
  for_random_layouts([](const Layout& left, const Layout& right, std::mt19937& random) {
    const auto value = [&] { return static_cast<int>(random() % 9) - 4; };
    const auto lhs = draw<float>(left, value);
    const auto rhs = draw<float>(right, value);
    const Index rows = left.mode(0).size();
    const Index columns = right.mode(0).size();
    for (const Backend backend : backends) {
      const Tensor a = place(backend, lhs, left);
      const Tensor b = place(backend, rhs, right);
      const Tensor y = matmul(a, b, {.accumulator_dtype = dtypes::Float64});
      const auto g = draw<float>(y.layout(), value);
      const Ref<Operation> node = autograd_node(y);
      const Gradients gradients = node->backward(place(backend, g, y.layout()));
      ASSERT_EQ(gradients.size(), 2U);
      std::vector<float> lhs_gradient, rhs_gradient;
      for (Index k = 0; k < left.mode(1).size(); ++k)
        for (Index i = 0; i < rows; ++i) {
          float sum = 0;
          for (Index j = 0; j < columns; ++j)
            sum += g[static_cast<std::size_t>(i + rows * j)] * element(rhs, right, j, k);
          lhs_gradient.push_back(sum);
        }
      for (Index k = 0; k < left.mode(1).size(); ++k)
        for (Index j = 0; j < columns; ++j) {
          float sum = 0;
          for (Index i = 0; i < rows; ++i)
            sum += g[static_cast<std::size_t>(i + rows * j)] * element(lhs, left, i, k);
          rhs_gradient.push_back(sum);
        }
      EXPECT_THAT(elements<float>(*gradients[0]), ElementsAreArray(lhs_gradient));
      EXPECT_THAT(elements<float>(*gradients[1]), ElementsAreArray(rhs_gradient));
      EXPECT_EQ(gradients[0]->layout(), left.is_injective() ? left : Layout::canonical(left.shape()));
    }
  });
}

TEST(Matmul, LongOnesCanBeInterrupted) {
  const Tensor square = friendly::ones({2600, 2600});
  EXPECT_GE(checks_of([&] { return matmul(square, square); }), 1);
  EXPECT_EQ(checks_until_interrupted([&] { return matmul(square, square); }), 1);
  const Tensor result = matmul(square, square);
  EXPECT_THAT(elements<float>(reduce_max(result, "a b -> 1")), ElementsAre(2600.0F));
  EXPECT_THAT(elements<float>(reduce_min(result, "a b -> 1")), ElementsAre(2600.0F));
  for (const DType& dtype : {std::cref(dtypes::Float32), std::cref(dtypes::Int32)}) {
    const Tensor lhs = friendly::ones({768, 4096}, dtype);
    const Tensor rhs = friendly::ones({2048, 4096}, dtype);
    const AccumulatorOptions options{&dtype == &dtypes::Int32 ? nullptr : &dtypes::Float64};
    EXPECT_EQ(checks_until_interrupted([&] { return matmul(lhs, rhs, options); }), 1);
  }
}

TEST(Matmul, BatchesCanBeInterrupted) {
  const NoGrad no_grad;  // else they are multiplied and summed
  const Tensor many = friendly::ones({600, 600, 48});
  const Tensor few = friendly::ones({2600, 2600, 1});
  for (const Tensor& batch : {many, few})
    EXPECT_EQ(checks_until_interrupted([&] { return einsum(batch, batch, "i k b, j k b -> i j b"); }), 1);
}

TEST(Matmul, ShortOnesAskForNoInterrupt) {
  const Tensor square = friendly::ones({500, 500});
  EXPECT_EQ(checks_of([&] { return matmul(square, square); }), 0);
}

}  // namespace
}  // namespace orlop
