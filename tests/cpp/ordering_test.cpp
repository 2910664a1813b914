// sort, topk, cumsum and reduce_prod on CPU beside the reference kernels (P64, P69).
#include <limits>
#include <string>

#include "backends.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"

namespace orlop {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

const Shape shapes[] = {Shape{1}, Shape{300}, Shape{{7, 3}, 40}, Shape{20, 33, 5}, Shape{2, {50, 3}}};

/// Slots for `layout`: some special values among numbers of moderate size, whose binary64 sums are exact.
template <class T>
std::vector<T> random_slots(const Layout& layout, std::mt19937& random) {
  std::vector<T> slots(static_cast<std::size_t>(layout.cosize()));
  for (T& slot : slots) {
    slot = static_cast<T>(static_cast<int>(random() % 2001) - 1000);
    if constexpr (std::is_same_v<T, float>) slot *= 0.03125F;
  }
  return slots;
}

std::vector<float> with_specials(std::vector<float> slots, std::mt19937& random) {
  constexpr float specials[] = {nan, -0.0F, 0.0F, infinity, -infinity, 1.0F};
  for (float& slot : slots)
    if (random() % 3 == 0) slot = specials[random() % 6];
  return slots;
}

/// Calls `body(on_cpu, on_reference, axis)` with the same Tensor in random layouts, for every axis.
template <class T, class Slots, class Body>
void for_each_axis(Slots make_slots, Body body) {
  std::mt19937 random(11);
  for (const Shape& shape : shapes) {
    const Layout layout = random_aliased_layout(shape, random);
    const std::vector<T> slots = make_slots(layout, random);
    const Tensor on_cpu = place(Backend::cpu, slots, layout);
    const Tensor on_reference = place(Backend::reference, slots, layout);
    for (std::size_t axis = 0; axis < shape.rank(); ++axis)
      body(on_cpu, on_reference, static_cast<Index>(axis));
  }
}

template <class T>
void expect_equal(const Tensor& on_cpu, const Tensor& on_reference) {
  EXPECT_EQ(on_cpu.layout(), on_reference.layout());
  if constexpr (std::is_same_v<T, float>)
    EXPECT_EQ(bits(elements<float>(on_cpu)), bits(elements<float>(on_reference)));
  else
    EXPECT_EQ(elements<T>(on_cpu), elements<T>(on_reference));
}

template <class T>
void expect_equal_orders(const Tensor& on_cpu, const Tensor& on_reference, Index axis) {
  for (const bool flag : {false, true}) {
    const SortResult sorted = sort(on_cpu, axis, flag);
    const SortResult expected = sort(on_reference, axis, flag);
    expect_equal<T>(sorted.values, expected.values);
    expect_equal<std::int32_t>(sorted.indices, expected.indices);
    for (const Index k : {Index{1}, on_cpu.layout().mode(static_cast<std::size_t>(axis)).size()}) {
      const TopKResult first = topk(on_cpu, k, axis, flag);
      const TopKResult expected_first = topk(on_reference, k, axis, flag);
      expect_equal<T>(first.values, expected_first.values);
      expect_equal<std::int32_t>(first.indices, expected_first.indices);
    }
  }
}

TEST(Sort, GivesTheSameBitsOnCPUAsTheReference) {
  for_each_axis<float>(
      [](const Layout& layout, std::mt19937& random) {
        return with_specials(random_slots<float>(layout, random), random);
      },
      expect_equal_orders<float>);
  for_each_axis<std::int32_t>(random_slots<std::int32_t>, expect_equal_orders<std::int32_t>);
}

TEST(Sort, KeepsTheOrderOfEqualElementsBothWays) {
  for (const Backend backend : backends) {
    const Tensor tensor = make_tensor<float>(backend, {nan, 2, -0.0F, 0, -infinity, nan, 1}, Shape{7});
    EXPECT_THAT(elements<std::int32_t>(sort(tensor).indices), ElementsAre(4, 2, 3, 6, 1, 0, 5));
    EXPECT_THAT(elements<std::int32_t>(sort(tensor, 0, true).indices), ElementsAre(0, 5, 1, 6, 2, 3, 4));
    EXPECT_THAT(elements<std::int32_t>(topk(tensor, 3).indices), ElementsAre(0, 5, 1));
    EXPECT_THAT(elements<std::int32_t>(topk(tensor, 2, -1, false).indices), ElementsAre(4, 2));
  }
}

TEST(Sort, SendsCotangentsToTheirSourcePositions) {
  for (const Backend backend : backends) {
    const Tensor tensor = make_tensor<float>(backend, {3, 1, 2}, Shape{3});
    const Tensor cotangent = make_tensor<float>(backend, {10, 20, 30}, Shape{3});
    backward(sort(tensor).values, cotangent);
    EXPECT_THAT(elements<float>(gradient_of(tensor)), ElementsAre(30, 10, 20));
  }
}

TEST(TopK, RefusesCountsOutsideTheAxis) {
  for (const Backend backend : backends) {
    const Tensor tensor = make_tensor<float>(backend, {3, 1, 2}, Shape{3});
    for (const Index k : {Index{0}, Index{4}, Index{-1}, std::numeric_limits<Index>::max()})
      EXPECT_THAT([&] { topk(tensor, k); },
                  ThrowsMessage<ValueError>(HasSubstr("from 1 to the axis' size 3")));
    for (const Index axis : {Index{1}, Index{-2}, std::numeric_limits<Index>::min()}) {
      EXPECT_THROW(topk(tensor, 1, axis), ValueError);
      EXPECT_THROW(sort(tensor, axis), ValueError);
      EXPECT_THROW(cumsum(tensor, axis), ValueError);
    }
  }
}

TEST(Cumsum, GivesTheSameBitsOnCPUAsTheReference) {
  const auto expect_equal_sums = [](const Tensor& on_cpu, const Tensor& on_reference, Index axis) {
    expect_equal<float>(cumsum(on_cpu, axis), cumsum(on_reference, axis));
  };
  for_each_axis<float>(random_slots<float>, expect_equal_sums);
  for_each_axis<std::int32_t>(random_slots<std::int32_t>,
                              [](const Tensor& on_cpu, const Tensor& on_reference, Index axis) {
                                expect_equal<std::int32_t>(cumsum(on_cpu, axis), cumsum(on_reference, axis));
                              });
}

TEST(Cumsum, NamesTheSumThatLeavesInt32) {
  for (const Backend backend : backends)
    for (const Shape& shape : {Shape{3}, Shape{1, 3}}) {
      const Tensor tensor = make_tensor<std::int32_t>(backend, {2147483647, 1, -1}, shape);
      EXPECT_THAT([&] { cumsum(tensor, -1); }, ThrowsMessage<OverflowError>(HasSubstr("2147483648")));
    }
}

TEST(ReduceProd, GivesTheSameBitsOnCPUAsTheReference) {
  std::mt19937 random(3);
  for (const Shape& shape : {Shape{1, 300}, Shape{300, 7}, Shape{{5, 8}, {3, 4}}, Shape{3, 100}}) {
    const Layout layout = random_aliased_layout(shape, random);
    std::vector<float> slots(static_cast<std::size_t>(layout.cosize()));
    for (float& slot : slots) slot = 0.5F + static_cast<float>(random() % 1000) / 1000;
    const auto product = [&](Backend backend) {
      const Argument argument(place(backend, slots, layout));
      return apply_operation("reduce_prod", {argument});
    };
    expect_equal<float>(product(Backend::cpu), product(Backend::reference));
  }
}

TEST(ReduceProd, ChecksOnlyTheFinalInteger) {
  for (const Backend backend : backends) {
    const auto product = [&](const std::vector<std::int32_t>& factors) {
      const Tensor tensor = make_tensor(backend, factors, Shape{static_cast<Index>(factors.size())});
      return elements<std::int32_t>(reduce_prod(tensor, "k -> 1")).front();
    };
    EXPECT_EQ(product({65536, 65536, 0}), 0);
    EXPECT_EQ(product({65536, 32768, -1}), std::numeric_limits<std::int32_t>::min());
    EXPECT_THROW(product({65536, 32768}), OverflowError);
    EXPECT_THROW(product({65536, 65537, -1}), OverflowError);
  }
}

TEST(ReduceProd, MultipliesTheOthersForItsGradient) {
  for (const Backend backend : backends) {
    const Tensor tensor = make_tensor<float>(backend, {2, 0, 5}, Shape{3});
    backward(reduce_prod(tensor, "k -> 1"), make_tensor<float>(backend, {1}, Shape{1}));
    EXPECT_THAT(elements<float>(gradient_of(tensor)), ElementsAre(0, 10, 0));
  }
}

}  // namespace
}  // namespace orlop
