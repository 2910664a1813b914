// How far every function of one float, and pow with a float of many, is from the exact value (P55): the
// compiled block functions beside double precision. By default each function is tried on a fixed sample of
// all bit patterns; with ORLOP_EXHAUSTIVE=1 on all 2^32 of them, and then the largest error is printed, for
// tools/accuracy.py to write down.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "operation/elementwise_functions.hpp"
#include "operation/elementwise_unit.hpp"
#include "operation/processor.hpp"
#include "orlop/operation/plan.hpp"

namespace orlop::inline v0 {

namespace {

using Pattern = std::uint32_t;

// --- what each function should be

/// The distance between binary32 numbers of this size.
double last_place(double exact) {
  const std::uint64_t exponent = std::bit_cast<std::uint64_t>(exact) >> 52 & 0x7ff;
  return std::bit_cast<double>((std::max<std::uint64_t>(exponent, 1023 - 126) - 23) << 52);
}
double ulp(double, double exact) { return last_place(exact); }

constexpr double smallest = 0x1p-149;

/// gelu is bounded beside its argument, but not closer than the smallest number.
double place_of_argument(double x, double) { return std::max(std::fabs(x) * 0x1p-23, smallest); }

/// silu multiplies x with a sigmoid that may be subnormal, and then is off by half of the smallest number.
double ulp_of_silu(double x, double exact) { return last_place(exact) + (x < -87 ? -x * smallest / 8 : 0.0); }

double sigmoid(double x) {
  const double e = std::exp(-std::fabs(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}

/// One exponent for each base, so that pow is a function of one float too. A power of every size, or a half
/// of a small integer; of negative bases a whole power.
float exponent_of(float x) {
  if (std::isnan(x)) return 0.5F;  // binary64 does not keep every NaN as it is
  const Pattern mixed = (std::bit_cast<Pattern>(x) ^ std::bit_cast<Pattern>(x) >> 15) * 0x2c1b3c6dU;
  const double between = static_cast<double>(mixed >> 3) * 0x1p-29;
  const double scale = std::log2(std::fabs(static_cast<double>(x)));
  const bool is_any = (mixed & 3) != 0 && std::isfinite(scale) && scale != 0;
  const double exponent = is_any ? (between * 280 - 151) / scale : std::floor(between * 33 - 16) / 2;
  return static_cast<float>(x < 0 ? std::nearbyint(exponent) : exponent);
}

double pow_of(double x) { return std::pow(x, double{exponent_of(static_cast<float>(x))}); }

struct Function {
  const char* name;
  double (*exact)(double);
  double bound;  ///< in units
  double (*unit)(double x, double exact) = ulp;
  float (*second)(float) = nullptr;  ///< the other operand beside each
};

constexpr Function functions[] = {
    {"abs", [](double x) { return std::fabs(x); }, 0},
    {"ceil", [](double x) { return std::ceil(x); }, 0},
    {"cos", [](double x) { return std::cos(x); }, 1},
    {"elu", [](double x) { return x > 0 ? x : std::expm1(x); }, 1},
    {"erf", [](double x) { return std::erf(x); }, 1},
    {"exp", [](double x) { return std::exp(x); }, 1},
    {"exp2", [](double x) { return std::exp2(x); }, 1},
    {"floor", [](double x) { return std::floor(x); }, 0},
    {"gelu", [](double x) { return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5))); }, 1, place_of_argument},
    {"leaky_relu", [](double x) { return x >= 0 ? x : 0.01F * x; }, 0.5},
    {"log", [](double x) { return std::log(x); }, 1},
    {"log2", [](double x) { return std::log2(x); }, 1},
    {"neg", [](double x) { return -x; }, 0},
    {"pow", pow_of, 1, ulp, exponent_of},
    {"recip", [](double x) { return 1 / x; }, 0.5},
    {"relu", [](double x) { return x <= 0 ? 0.0 : x; }, 0},
    {"round", [](double x) { return std::nearbyint(x); }, 0},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1.5},
    {"sigmoid", sigmoid, 3},
    {"sign", [](double x) { return x > 0 ? 1.0 : (x < 0 ? -1.0 : x + 0.0); }, 0},
    {"silu", [](double x) { return x * sigmoid(x); }, 4, ulp_of_silu},
    {"sin", [](double x) { return std::sin(x); }, 1},
    {"softplus", [](double x) { return std::log1p(std::exp(-std::fabs(x))) + std::fmax(x, 0.0); }, 3},
    {"sqrt", [](double x) { return std::sqrt(x); }, 0.5},
    {"tanh", [](double x) { return std::tanh(x); }, 1},
};

// --- what it is

using Table = std::span<const ElementwiseFunction>;

/// The units that this processor can run, the newest last: the one that the library runs.
const std::vector<Table>& tables() {
  static const std::vector<Table> result = [] {
    std::vector<Table> found{baseline::table};
#if defined(__x86_64__)
    const std::size_t size = found[0].size();
    if (native_processor() != Processor::baseline) found.emplace_back(x86_64_v3::elementwise_table(), size);
    if (native_processor() == Processor::x86_64_v4) found.emplace_back(x86_64_v4::elementwise_table(), size);
#endif
    return found;
  }();
  return result;
}

BlockFunction block_of(Table table, std::string_view name) {
  const auto function = std::ranges::find(table, name, &ElementwiseFunction::name);
  if (function == table.end() || function->overloads[0].last_operand != StorageType::float32) return nullptr;
  return function->overloads[0].block;
}

struct Worst {
  double error = 0;  ///< in units; infinite where a special value is missed
  float input = 0;
  float result = 0;
};

double error_of(const Function& function, float input, float result) {
  constexpr double never = std::numeric_limits<double>::infinity();
  const double x = input;
  const double exact = function.exact(x);
  if (std::isnan(exact) || std::isnan(result)) return std::isnan(exact) && std::isnan(result) ? 0 : never;
  const auto nearest = static_cast<float>(exact);
  if (exact == 0 || std::isinf(exact))
    return std::bit_cast<Pattern>(result) == std::bit_cast<Pattern>(nearest) ? 0 : never;
  if (result == nearest && std::isinf(nearest)) return 0;
  // An infinite result counts as the number that would follow the largest.
  const double value = std::isinf(result) ? std::copysign(0x1p128, result) : result;
  return std::fabs(value - exact) / function.unit(x, exact);
}

constexpr std::size_t block_size = 4096;

void run(const Function& function, BlockFunction block, const std::vector<float>& inputs,
         std::vector<float>& results) {
  results.resize(inputs.size());
  std::vector<float> seconds;
  if (function.second != nullptr)
    for (const float input : inputs) seconds.push_back(function.second(input));
  const std::byte* const operands[] = {reinterpret_cast<const std::byte*>(inputs.data()),
                                       reinterpret_cast<const std::byte*>(seconds.data())};
  block(static_cast<Index>(inputs.size()), reinterpret_cast<std::byte*>(results.data()), operands, false);
}

void try_inputs(const Function& function, BlockFunction block, const std::vector<float>& inputs,
                std::vector<float>& results, Worst& worst) {
  run(function, block, inputs, results);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const double error = error_of(function, inputs[i], results[i]);
    if (error > worst.error) worst = {error, inputs[i], results[i]};
  }
}

/// One pattern out of every 256, a block of them; another one of the 256 each time.
std::vector<float> sample(Pattern first) {
  std::vector<float> inputs(block_size);
  for (std::size_t i = 0; i < block_size; ++i) {
    const Pattern number = first + static_cast<Pattern>(i);
    inputs[i] = std::bit_cast<float>(number << 8 | (number * 0x9e3779b1U) >> 24);
  }
  return inputs;
}
constexpr Pattern sample_size = 1U << 24;

/// The first, second, middle and last number of every binade, of both signs, infinities and NaN among them.
std::vector<float> edges() {
  std::vector<float> inputs;
  for (Pattern exponent = 0; exponent < 512; ++exponent)
    for (const Pattern mantissa : {0x0U, 0x1U, 0x3504f3U, 0x400000U, 0x7ffffeU, 0x7fffffU})
      inputs.push_back(std::bit_cast<float>(exponent << 23 | mantissa));
  return inputs;
}

Worst try_every_pattern(const Function& function, BlockFunction block) {
  std::vector<Worst> worst(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (std::size_t number = 0; number < worst.size(); ++number)
    threads.emplace_back([&, number] {
      std::vector<float> inputs(block_size), results;
      for (std::uint64_t first = number * block_size; first >> 32 == 0; first += worst.size() * block_size) {
        for (std::size_t i = 0; i < block_size; ++i)
          inputs[i] = std::bit_cast<float>(static_cast<Pattern>(first + i));
        try_inputs(function, block, inputs, results, worst[number]);
      }
    });
  for (std::thread& thread : threads) thread.join();
  return *std::ranges::max_element(worst, {}, &Worst::error);
}

class Accuracy : public testing::TestWithParam<Function> {};

INSTANTIATE_TEST_SUITE_P(Unary, Accuracy, testing::ValuesIn(functions),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Accuracy, StaysWithinItsBound) {
  const Function& function = GetParam();
  const BlockFunction block = block_of(tables().back(), function.name);
  ASSERT_NE(block, nullptr);
  Worst worst;
  if (std::getenv("ORLOP_EXHAUSTIVE") != nullptr) {
    worst = try_every_pattern(function, block);
    std::printf("accuracy %s %.4f %a\n", function.name, worst.error, static_cast<double>(worst.input));
  } else {
    std::vector<float> results;
    try_inputs(function, block, edges(), results, worst);
    for (Pattern first = 0; first < sample_size; first += block_size)
      try_inputs(function, block, sample(first), results, worst);
    RecordProperty("largest error", std::to_string(worst.error));
  }
  EXPECT_LE(worst.error, function.bound)
      << worst.input << " gives " << worst.result << " instead of " << function.exact(worst.input);
}

TEST(Functions, AreAllLookedAt) {
  const std::vector<const DType*> dtypes{&dtypes::Float32};
  for (const OperationPlan* plan : resolvable_plans(dtypes)) {
    const bool is_unary = plan->operands.size() == 1 && &plan->output == &dtypes::Float32;
    if (!is_unary || block_of(tables().back(), plan->operation) == nullptr) continue;
    EXPECT_TRUE(std::ranges::any_of(functions, [&](const Function& function) {
      return function.name == plan->operation;
    })) << plan->operation;
  }
}

// --- the same bits everywhere

bool is_same(float a, float b) {
  return std::bit_cast<Pattern>(a) == std::bit_cast<Pattern>(b) || (std::isnan(a) && std::isnan(b));
}

TEST_P(Accuracy, HasTheSameBitsOnEveryInstructionSet) {
  std::vector<float> expected, results;
  const auto compare = [&](const std::vector<float>& inputs) {
    run(GetParam(), block_of(tables().back(), GetParam().name), inputs, expected);
    for (const Table table : tables()) {
      run(GetParam(), block_of(table, GetParam().name), inputs, results);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        ASSERT_TRUE(is_same(expected[i], results[i])) << inputs[i];
    }
  };
  compare(edges());
  for (Pattern first = 0; first < sample_size && !HasFatalFailure(); first += 16 * block_size)
    compare(sample(first));
}

TEST_P(Accuracy, DoesNotDependOnThePlaceInABlock) {
  const BlockFunction block = block_of(tables().back(), GetParam().name);
  const std::vector<float> inputs = edges();
  std::vector<float> expected, results;
  run(GetParam(), block, inputs, expected);
  for (std::size_t size = 1; size < 40; ++size) {
    const std::vector<float> few(inputs.end() - static_cast<std::ptrdiff_t>(size), inputs.end());
    run(GetParam(), block, few, results);
    for (std::size_t i = 0; i < size; ++i)
      EXPECT_TRUE(is_same(results[i], expected[expected.size() - size + i])) << few[i];
  }
}

TEST(Functions, ComputeSquaresAsTheyComputeBlocks) {
  constexpr std::array<Index, 3> strides{4 * square_side, 4 * (square_side + 3), 0};
  std::mt19937 random(7);
  std::array<std::vector<Pattern>, 3> slots;
  for (std::vector<Pattern>& each : slots) each.resize(square_side * (square_side + 3));
  int squares = 0;
  for (const Table table : tables())
    for (const ElementwiseFunction& function : table)
      for (const ElementwiseFunction::Overload& overload : function.overloads) {
        if (overload.square == nullptr) continue;
        ++squares;
        const bool are_integers = overload.last_operand == StorageType::int32;
        for (std::vector<Pattern>& each : slots)
          for (Pattern& slot : each) {
            slot = static_cast<Pattern>(random());
            if (are_integers && random() % 40 != 0) slot >>= 16;  // few of the sums leave Int32
          }
        std::array<Pattern, square_side * square_side> result, row;
        std::array<const std::byte*, 3> operands;
        for (std::size_t i = 0; i < 3; ++i) operands[i] = reinterpret_cast<const std::byte*>(slots[i].data());
        const ElementFault fault =
            overload.square(reinterpret_cast<std::byte*>(result.data()), operands.data(), strides.data());
        ElementFault expected = ElementFault::none;
        for (Index number = 0; number < square_side; ++number) {
          const ElementFault found =
              overload.block(square_side, reinterpret_cast<std::byte*>(row.data()), operands.data(), false);
          if (found != ElementFault::none) expected = found;
          for (std::size_t i = 0; i < square_side && found == ElementFault::none; ++i)
            EXPECT_TRUE(
                is_same(std::bit_cast<float>(row[i]), std::bit_cast<float>(result[number * square_side + i])))
                << function.name << ", row " << number << ", element " << i;
          for (std::size_t i = 0; i < 3; ++i) operands[i] += strides[i];
        }
        EXPECT_EQ(fault, expected) << function.name;
      }
  EXPECT_GE(squares, 40);
}

}  // namespace
}  // namespace orlop::inline v0
