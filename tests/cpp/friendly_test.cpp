// What a newcomer writes first: tensors of braced lists and of vectors, numbers back, texts and errors.
#include <gtest/gtest.h>

#include <orlop/orlop.hpp>

#include <array>
#include <random>
#include <sstream>
#include <vector>

namespace orlop {
namespace {

std::vector<float> floats(const Tensor& tensor) { return friendly::to_list<float>(tensor); }

template <class E>
std::string failure(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    EXPECT_NE(dynamic_cast<const E*>(&error), nullptr) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(Friendly, TensorsComeOfBracedListsAndOfWhateverHoldsNumbers) {
  EXPECT_EQ(floats(friendly::tensor({1.0, 2.0, 3.0})), (std::vector<float>{1, 2, 3}));
  const Tensor matrix = friendly::tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(matrix.shape(), (Shape{2, 3}));
  EXPECT_EQ(float(matrix.at({1, 0})), 4.0F);
  EXPECT_EQ(floats(matrix), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(friendly::tensor({{{1.5}}}).shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(friendly::to_list<bool>(friendly::tensor({true, false}, dtypes::Bool)),
            (std::vector<bool>{true, false}));

  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(floats(friendly::tensor(values)), values);
  EXPECT_EQ(floats(friendly::tensor(std::vector<double>{0.5, 2})), (std::vector<float>{0.5F, 2}));
  EXPECT_EQ(floats(friendly::tensor(std::array<int, 2>{7, 8})), (std::vector<float>{7, 8}));
  EXPECT_EQ(friendly::to_list<bool>(friendly::tensor(std::vector<bool>{false, true}, dtypes::Bool)),
            (std::vector<bool>{false, true}));
  const std::vector<std::int32_t> integers{-1, 2};
  EXPECT_EQ(friendly::to_list<std::int32_t>(friendly::tensor(integers, dtypes::Int32)), integers);

  EXPECT_EQ(float(friendly::tensor(values, friendly::column_major({2, 3})).at({1, 0})), 2.0F);
  EXPECT_EQ(float(friendly::tensor({1, 2, 3, 4}, friendly::row_major({2, 2})).at({1, 0})), 2.0F);
  const Tensor by_row(friendly::tensor(values).carrier(), 0, friendly::row_major({2, 3}));
  EXPECT_EQ(float(by_row.at({1, 0})), 4.0F);
}

TEST(Friendly, RandomTensorsFollowTheirGenerator) {
  std::mt19937 first(3);
  std::mt19937 second(3);
  const Tensor uniform = friendly::rand({20, 50}, first);
  EXPECT_EQ(floats(uniform), floats(friendly::rand({20, 50}, second)));
  for (const float value : floats(uniform)) EXPECT_TRUE(value >= 0.0F && value < 1.0F) << value;
  EXPECT_NEAR(friendly::item<double>(friendly::mean(uniform)), 0.5, 0.05);
  const Tensor normal = friendly::randn({1000}, first);
  EXPECT_NEAR(friendly::item<double>(friendly::mean(normal)), 0.0, 0.15);
  EXPECT_NEAR(friendly::item<double>(friendly::mean(normal * normal)), 1.0, 0.25);
}

TEST(Friendly, WhatIsNoTensorIsRefusedInWords) {
  EXPECT_EQ(failure<ValueError>([] { static_cast<void>(friendly::tensor({})); }),
            "[friendly] values must be a non-empty list: got an empty list; one value is tensor({1.0})");
  EXPECT_EQ(failure<ValueError>([] { static_cast<void>(friendly::tensor(Nested<Scalar>(1.0))); }),
            "[friendly] values must be a non-empty list: got a number; one value is tensor({1.0})");
  EXPECT_EQ(failure<ValueError>([] { static_cast<void>(friendly::tensor({{1, 2}, {3}})); }),
            "[friendly] values must be rectangular: a level or a length differs at depth 1");
  EXPECT_EQ(failure<ValueError>([] { static_cast<void>(friendly::tensor({{1, 2}, 3})); }),
            "[friendly] values must be rectangular: a level or a length differs at depth 1");
  EXPECT_EQ(failure<ValueError>([] { static_cast<void>(friendly::tensor({{}, {}})); }),
            "[friendly] values must not have empty levels");
  EXPECT_EQ(failure<ValueError>(
                [] { static_cast<void>(friendly::tensor({1, 2, 3}, friendly::column_major({2, 2}))); }),
            "[friendly] the number of values must be the layout logical size 4: got 3");
  EXPECT_EQ(failure<ValueError>([] { static_cast<void>(friendly::zeros({2, 0})); }),
            "[friendly] extents must be positive integers: got 0");
  EXPECT_EQ(failure<ValueError>([] { static_cast<void>(friendly::ones({})); }),
            "[friendly] a tensor needs at least one extent: got none");
  failure<TypeError>([] { static_cast<void>(friendly::tensor({0.5}, dtypes::Int32)); });
}

TEST(Friendly, NumbersComeBackAsTheTypeThatIsAskedFor) {
  const Tensor whole = friendly::tensor({3, 200}, dtypes::Int32);
  EXPECT_EQ(friendly::to_list<double>(whole), (std::vector<double>{3, 200}));
  EXPECT_EQ(friendly::to_list<std::size_t>(whole), (std::vector<std::size_t>{3, 200}));
  EXPECT_EQ(friendly::to_list(whole), (std::vector<Scalar>{Scalar(3), Scalar(200)}));
  EXPECT_EQ(failure<OverflowError>([&] { static_cast<void>(friendly::to_list<std::int8_t>(whole)); }),
            "[Scalar] the integer does not fit the type that it is read as: 200; read it as a wider one");
  EXPECT_EQ(failure<TypeError>([] { static_cast<void>(friendly::item<int>(friendly::ones({1}))); }),
            "[Scalar] the value is no integer: 1.0; read it as float or double");
  EXPECT_EQ(failure<TypeError>([&] { static_cast<void>(friendly::to_list<bool>(whole)); }),
            "[Scalar] the value is no bool: 3; read it as float or double");
  EXPECT_EQ(int(Scalar(true)), 1);
  failure<OverflowError>([] { static_cast<void>(std::uint32_t(Scalar(-1))); });
  failure<OverflowError>([] { static_cast<void>(std::int64_t(Scalar(~std::uint64_t{0}))); });
}

TEST(Friendly, ScalarsTakeEveryNumberAndCompareByValue) {
  const Tensor x = friendly::tensor({2.0});
  const std::size_t count = 4;
  EXPECT_EQ(float((x / count).at(0)), 0.5F);
  EXPECT_EQ(float((x * 3U).at(0)), 6.0F);
  EXPECT_TRUE(x.at(0) == 2.0 && 2 == x.at(0) && x.at(0) == 2.0F && x.at(0) != 2.5);
  EXPECT_TRUE(Scalar((std::int64_t{1} << 62) + 1) != static_cast<double>(std::int64_t{1} << 62));
  static_assert(!std::is_constructible_v<Scalar, const char*> && !std::is_constructible_v<Scalar, int*>);
  static_assert(!std::is_constructible_v<Argument, const char*>);
}

TEST(Friendly, ListsStandWhereverSeveralValuesDo) {
  const Tensor x = friendly::tensor({{1, 2}, {3, 4}});
  const std::vector<Index> order{1, 0};
  EXPECT_EQ(floats(permute(x, {1, 0})), floats(permute(x, order)));
  EXPECT_EQ(floats(x.slice({1, {}})), (std::vector<float>{3, 4}));
  EXPECT_EQ(floats(slice(x, {{}, SliceRange{0, 1}})), (std::vector<float>{1, 3}));
  EXPECT_EQ(broadcast_in_dim(friendly::tensor({1, 2, 3}), {2, 3}, {1}).shape(), (Shape{2, 3}));
  EXPECT_EQ(floats(conv_general(friendly::ones({1, 1, 4}), friendly::ones({1, 1, 2}), {1}, {{1, 1}})),
            (std::vector<float>{1, 2, 2, 2, 1}));
  EXPECT_EQ(floats(apply_operation("add", {x, 1})), (std::vector<float>{2, 4, 3, 5}));
  const auto gradients = grad(friendly::sum(x * x), {x}, friendly::ones({1}));
  EXPECT_EQ(floats(*gradients[0]), (std::vector<float>{2, 6, 4, 8}));
  EXPECT_EQ(Layout::make_layout({Layout::leaf(2, 1), Layout::leaf(3, 2)}), Layout::canonical({2, 3}));
  EXPECT_EQ(Layout::canonical({2, 3}).permute({1, 0}).shape(), (Shape{3, 2}));
  EXPECT_EQ(Shape::flat({2, 3}), (Shape{2, 3}));
  EXPECT_EQ(CPU::make(0)->new_like({1.0, 2.0})->at(1), 2.0);
}

TEST(Texts, TensorsAndCarriersPrintWhatPythonShows) {
  std::ostringstream out;
  out << friendly::arange(10, dtypes::Int32) << "\n"
      << friendly::tensor({{1, 2}, {3, 4}}) << "\n"
      << Tensor();
  EXPECT_EQ(out.str(),
            "Tensor(0, 1, 2, …, 7, 8, 9, shape=(10,), strides=(1,), dtype=Int32, carrier=CPU, "
            "residency=resident, version=0)\n"
            "Tensor(1.0, 3.0, 2.0, 4.0, shape=(2, 2), strides=(1, 2), dtype=Float32, carrier=CPU, "
            "residency=resident, version=0)\n"
            "Tensor(none)");
  EXPECT_EQ(CPU::make(3)->to_string(), "CPU(size=3, dtype=Float32, residency=resident, version=0)");
}

TEST(Texts, PrintingNeitherReadsAFileNorPromotes) {
  const Ref<Carrier> file = FileBacked::make(dtypes::Float32)->allocate_like(4);
  EXPECT_EQ(
      Tensor(file, 0, friendly::column_major({4})).to_string(),
      "Tensor(…, shape=(4,), strides=(1,), dtype=Float32, carrier=FileBacked, residency=file, version=0)");
  const Ref<Evictable> tiers = Evictable::make(CPU::make(2), FileBacked::make(dtypes::Float32));
  const Tensor tensor(tiers, 0, friendly::column_major({2}));
  tiers->evict();
  EXPECT_EQ(
      tensor.to_string(),
      "Tensor(…, shape=(2,), strides=(1,), dtype=Float32, carrier=Evictable, residency=evicted, version=0)");
  EXPECT_TRUE(tiers->is_evicted());
  tensor.carrier()->release();
  EXPECT_TRUE(tensor.to_string().starts_with("Tensor(released, shape=(2,), ")) << tensor.to_string();
}

class Doubled final : public Operation {
 protected:
  Tensor forward_impl(std::span<const Argument> inputs) override { return tensor_argument(inputs, 0) * 2; }
};

TEST(Operations, AnAuthorsArgumentsAreChecked) {
  EXPECT_EQ(floats(make_ref<Doubled>()->forward({friendly::ones({2})})), (std::vector<float>{2, 2}));
  EXPECT_EQ(failure<TypeError>([] { make_ref<Doubled>()->forward({2.0}); }),
            "[forward] argument 0 must be a Tensor: got number");
  EXPECT_EQ(failure<TypeError>([] { make_ref<Doubled>()->forward({}); }),
            "[forward] argument 0 is missing: got 0");
}

}  // namespace
}  // namespace orlop
