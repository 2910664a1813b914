// conv_general through the C++ interface, on CPU and on the reference kernels (P67).
#include <limits>

#include "backends.hpp"
#include "interrupts.hpp"
#include "orlop/interop/friendly.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"

namespace orlop {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr Index one_step[] = {1};
constexpr Padding no_padding[] = {{0, 0}};
constexpr Padding one_around[] = {{1, 1}};

TEST(ConvGeneral, SlidesTheKernelWithoutTurningIt) {
  for (const Backend backend : backends) {
    const Tensor lhs = make_tensor<float>(backend, {1, 2, 4}, Shape{1, 1, 3});
    const Tensor kernel = make_tensor<float>(backend, {3, -1}, Shape{1, 1, 2});
    const Tensor result = conv_general(lhs, kernel, one_step, no_padding);
    EXPECT_EQ(result.layout(), Layout::canonical(Shape{1, 1, 2}));
    EXPECT_THAT(elements<float>(result), ElementsAre(1.0F, 2.0F));
    backward(result, make_tensor<float>(backend, {1, 1}, Shape{1, 1, 2}));
    EXPECT_THAT(elements<float>(gradient_of(lhs)), ElementsAre(3.0F, 2.0F, -1.0F));
    EXPECT_THAT(elements<float>(gradient_of(kernel)), ElementsAre(3.0F, 6.0F));
  }
}

TEST(ConvGeneral, TakesItsOptions) {
  for (const Backend backend : backends) {
    const Tensor lhs =
        make_tensor<float>(backend, {1, 2, 3, 4}, Shape{2, 1, 2});  // [position, batch, feature]
    const Tensor kernel = make_tensor<float>(backend, {1, 10, 100, 1000}, Shape{2, 1, 2});
    const Index strides[] = {2};
    const Padding padding[] = {{2, 1}};
    const Tensor result = conv_general(lhs, kernel, strides, padding,
                                       {.lhs_dilation = std::vector<Index>{3},
                                        .kernel_dilation = std::vector<Index>{3},
                                        .feature_groups = 2,
                                        .lhs_dims = std::vector<Index>{1, 2, 0},
                                        .output_dims = std::vector<Index>{1, 2, 0}});
    EXPECT_EQ(result.layout().shape(), (Shape{2, 2, 1}));
    // Padded and dilated the features are 0 0 1 0 0 2 0 and 0 0 3 0 0 4 0; the taps are three steps apart.
    EXPECT_THAT(elements<float>(result), ElementsAre(0.0F, 0.0F, 201.0F, 4030.0F));
  }
}

TEST(ConvGeneral, HolesAreZerosThatMeetTheKernel) {
  for (const Backend backend : backends) {
    const Tensor lhs = make_tensor<float>(backend, {2}, Shape{1, 1, 1});
    const Tensor kernel = make_tensor<float>(backend, {infinity}, Shape{1, 1, 1});
    const auto values = elements<float>(conv_general(lhs, kernel, one_step, one_around));
    EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[2]));
    EXPECT_EQ(values[1], infinity);
  }
}

TEST(ConvGeneral, AgreesWithTheReferenceInAnyLayout) {
  std::mt19937 random(11);
  for (int repeat = 0; repeat < 40; ++repeat) {
    const Shape lhs_shape{{2, 2}, {2, 3}, 7, 5};
    const Shape kernel_shape{{2, 2}, 3, 3, 2};
    const Layout left = repeat == 0 ? Layout::canonical(lhs_shape) : random_aliased_layout(lhs_shape, random);
    const Layout right =
        repeat == 0 ? Layout::canonical(kernel_shape) : random_aliased_layout(kernel_shape, random);
    const auto draw = [&](Index count) {
      std::vector<float> slots(static_cast<std::size_t>(count));
      for (float& slot : slots) slot = static_cast<float>(static_cast<int>(random() % 15) - 7);
      return slots;
    };
    const auto lhs = draw(left.cosize());
    const auto kernel = draw(right.cosize());
    const Index strides[] = {1 + repeat % 2, 1 + repeat / 2 % 3};
    const Padding padding[] = {{1, 2}, {0, repeat % 3}};
    std::vector<std::vector<float>> found;
    for (const Backend backend : backends) {
      const Tensor x = place(backend, lhs, left);
      const Tensor w = place(backend, kernel, right);
      const Tensor y = conv_general(x, w, strides, padding,
                                    {.lhs_dilation = std::vector<Index>{1 + repeat % 3 / 2, 1},
                                     .kernel_dilation = std::vector<Index>{1, 1 + repeat / 3 % 2},
                                     .feature_groups = 2});
      EXPECT_EQ(y.layout(), Layout::canonical(y.layout().shape()));
      backward(y, make_tensor(backend, std::vector<float>(static_cast<std::size_t>(y.size()), 1.0F),
                              y.layout().shape()));
      found.push_back(elements<float>(y));
      for (const Tensor& gradient : {gradient_of(x), gradient_of(w)})
        found.push_back(elements<float>(gradient));
    }
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(found[i], found[i + 3]);  // whole numbers: exact
  }
}

TEST(ConvGeneral, WeighsEveryFeatureOnItsOwn) {
  constexpr Index features = 83;  // several vectors of every width, and a rest
  std::mt19937 random(12);
  const auto draw = [&](const Shape& shape) {
    std::vector<float> values(static_cast<std::size_t>(shape.size()));
    for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 15) - 7);
    return values;
  };
  for (const Index stride : {1, 2, 5}) {
    const Shape lhs_shape{2, features, 9, 8};
    const Shape kernel_shape{features, 1, 3, 2};
    const auto lhs = draw(lhs_shape);
    const auto kernel = draw(kernel_shape);
    const Index strides[] = {stride, 1};
    const Padding padding[] = {{1, 1}, {0, 1}};
    std::vector<std::vector<float>> found;
    for (const Backend backend : backends) {
      const Tensor x = make_tensor(backend, lhs, lhs_shape);
      const Tensor w = make_tensor(backend, kernel, kernel_shape);
      const Tensor y = conv_general(x, w, strides, padding, {.feature_groups = features});
      backward(y, make_tensor(backend, std::vector<float>(static_cast<std::size_t>(y.size()), 1.0F),
                              y.layout().shape()));
      for (const Tensor& tensor : {y, gradient_of(x), gradient_of(w)})
        found.push_back(elements<float>(tensor));
    }
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(found[i], found[i + 3]);  // whole numbers: exact
  }
}

TEST(ConvGeneral, RefusesWhatDoesNotFit) {
  const Tensor lhs = make_tensor<float>(Backend::cpu, {1, 2}, Shape{1, 1, 2});
  const Tensor kernel = make_tensor<float>(Backend::cpu, {1, 2, 3}, Shape{1, 1, 3});
  const Index two_strides[] = {1, 1};
  EXPECT_THAT([&] { (void)conv_general(lhs, kernel, one_step, no_padding); },
              ThrowsMessage<ValueError>(HasSubstr("no position")));
  EXPECT_THAT([&] { (void)conv_general(lhs, lhs, two_strides, no_padding); },
              ThrowsMessage<ValueError>(HasSubstr("strides")));
  EXPECT_THAT([&] { (void)conv_general(lhs, lhs, one_step, no_padding, {.feature_groups = 0}); },
              ThrowsMessage<ValueError>(HasSubstr("feature_groups")));
  EXPECT_THAT(
      [&] { (void)conv_general(lhs, lhs, one_step, no_padding, {.kernel_dims = std::vector<Index>{0, 1}}); },
      ThrowsMessage<ValueError>(HasSubstr("kernel_dims")));
  const Padding huge[] = {{std::numeric_limits<Index>::max(), 1}};
  EXPECT_THROW((void)conv_general(lhs, lhs, one_step, huge), OverflowError);
}

TEST(ConvGeneral, LongOnesCanBeInterrupted) {
  const Tensor lhs = friendly::ones({1, 256, 30000});
  const Tensor kernel = friendly::ones({256, 256, 9});
  EXPECT_EQ(checks_until_interrupted([&] { return conv_general(lhs, kernel, one_step, no_padding); }), 1);
  const Tensor result = conv_general(lhs, kernel, one_step, no_padding);
  EXPECT_THAT(elements<float>(reduce_max(result, "b f p -> 1")), ElementsAre(2304.0F));
  EXPECT_THAT(elements<float>(reduce_min(result, "b f p -> 1")), ElementsAre(2304.0F));
  for (const Tensor& operand : {lhs, kernel}) {
    const Tensor cotangent = friendly::ones({1, 256, 30000 - 8});
    EXPECT_EQ(
        checks_until_interrupted([&] { return grad(result, {operand}, cotangent, {.retain_graph = true}); }),
        1);
  }
  const Tensor whole = grad(result, {kernel}, friendly::ones({1, 256, 30000 - 8})).at(0).value();
  EXPECT_THAT(elements<float>(reduce_max(whole, "o i w -> 1")), ElementsAre(29992.0F));
  EXPECT_THAT(elements<float>(reduce_min(whole, "o i w -> 1")), ElementsAre(29992.0F));
  EXPECT_EQ(checks_of([&] { return conv_general(lhs, friendly::ones({8, 256, 9}), one_step, no_padding); }),
            0);
}

}  // namespace
}  // namespace orlop
