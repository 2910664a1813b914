// gather, scatter and scatter_add with their gradients on CPU and on the reference kernels (P68).
#include <string>

#include "backends.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"

namespace orlop {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Integers = std::vector<std::int32_t>;

TEST(Gather, ReadsAlongTheAxis) {
  for (const Backend backend : backends) {
    const Tensor data = make_tensor<float>(backend, {1, 2, 3, 4, 5, 6}, Shape{2, 3});
    const Tensor indices = make_tensor<std::int32_t>(backend, {2, 0, 2, 1}, Shape{{2, 1}, 2});
    const Tensor columns = gather(data, indices, 1);
    EXPECT_EQ(columns.layout(), Layout::canonical(Shape{2, {2, 1}, 2}));
    EXPECT_THAT(elements<float>(columns), ElementsAre(5, 6, 1, 2, 5, 6, 3, 4));
    const Tensor rows = gather(data, make_tensor<std::int32_t>(backend, {1}, Shape{1}), -2);
    EXPECT_EQ(rows.layout(), Layout::canonical(Shape{1, 3}));
    EXPECT_THAT(elements<float>(rows), ElementsAre(2, 4, 6));
  }
}

TEST(Gather, AddressesANestedAxisByItsOrdinal) {
  for (const Backend backend : backends) {
    const Tensor data =
        place<std::int32_t>(backend, {0, 1, 2, 3, 4, 5}, Layout(Shape{{2, 3}}, Stride{{3, 1}}));
    const Tensor indices = make_tensor<std::int32_t>(backend, {1, 5, 0}, Shape{3});
    EXPECT_THAT(elements<std::int32_t>(gather(data, indices, 0)), ElementsAre(3, 5, 0));
  }
}

TEST(Gather, MovesBools) {
  for (const Backend backend : backends) {
    const Tensor data = make_tensor<bool>(backend, {true, false, true}, Shape{3});
    const Tensor indices = make_tensor<std::int32_t>(backend, {1, 2, 1, 0}, Shape{4});
    EXPECT_THAT(elements<bool>(gather(data, indices, 0)), ElementsAre(false, true, false, true));
  }
}

TEST(Gather, ReadsAStrideZeroIndexTensorPerCoordinate) {
  for (const Backend backend : backends) {
    const Tensor data = make_tensor<float>(backend, {7, 8}, Shape{2});
    const Tensor indices = place<std::int32_t>(backend, {1}, Layout(Shape{3}, Stride{0}));
    EXPECT_THAT(elements<float>(gather(data, indices, 0)), ElementsAre(8, 8, 8));
  }
}

TEST(Indexing, RefusesIndicesOutsideTheAxis) {
  for (const Backend backend : backends)
    for (const std::int32_t index : {-1, 3}) {
      const Tensor data = make_tensor<float>(backend, {1, 2, 3}, Shape{3});
      const Tensor indices = make_tensor<std::int32_t>(backend, {0, index}, Shape{2});
      const Tensor updates = make_tensor<float>(backend, {1, 1}, Shape{2});
      EXPECT_THAT([&] { (void)gather(data, indices, 0); },
                  ThrowsMessage<IndexError>(HasSubstr(std::to_string(index))));
      EXPECT_THROW((void)scatter_add(data, indices, updates, 0), IndexError);
    }
}

TEST(Indexing, RefusesWrongArguments) {
  const Tensor data = make_tensor<float>(Backend::cpu, {1, 2, 3, 4, 5, 6}, Shape{2, 3});
  const Tensor indices = make_tensor<std::int32_t>(Backend::cpu, {0, 1}, Shape{2});
  for (const Index axis : {Index{2}, Index{-3}, std::numeric_limits<Index>::min()})
    EXPECT_THAT([&] { (void)gather(data, indices, axis); }, ThrowsMessage<ValueError>(HasSubstr("axis")));
  for (const Scalar& axis : {Scalar(true), Scalar(1.0)}) {
    const std::vector<Argument> arguments{data, indices, axis};
    EXPECT_THROW(apply_operation("gather", arguments), TypeError);
  }
  const std::vector<Argument> few{data, indices};
  EXPECT_THROW(apply_operation("gather", few), TypeError);
  EXPECT_THROW((void)gather(data, data, 0), TypeError);
  EXPECT_THAT([&] { (void)scatter_add(data, indices, data, 1); },
              ThrowsMessage<ValueError>(HasSubstr("updates")));
}

TEST(ScatterAdd, AddsInOrdinalOrder) {
  for (const Backend backend : backends) {
    const Tensor base = make_tensor<float>(backend, {0.0F, 5.0F}, Shape{2});
    const Tensor indices = make_tensor<std::int32_t>(backend, {0, 0, 0, 0}, Shape{4});
    const Tensor updates = make_tensor<float>(backend, {16777216.0F, 1.0F, 1.0F, -16777216.0F}, Shape{4});
    EXPECT_THAT(elements<float>(scatter_add(base, indices, updates, 0)), ElementsAre(0.0F, 5.0F));
    EXPECT_THAT(elements<float>(base), ElementsAre(0.0F, 5.0F));
  }
}

TEST(ScatterAdd, IsExactPerIntegerSlot) {
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  for (const Backend backend : backends) {
    const Tensor base = make_tensor<std::int32_t>(backend, {most, 0}, Shape{2});
    const Tensor indices = make_tensor<std::int32_t>(backend, {0, 0, 1}, Shape{3});
    const auto add = [&](const Integers& updates) {
      return elements<std::int32_t>(scatter_add(base, indices, make_tensor(backend, updates, Shape{3}), 0));
    };
    EXPECT_THAT(add({most, -most, 3}), ElementsAre(most, 3));
    EXPECT_THAT([&] { add({1, 0, 0}); }, ThrowsMessage<OverflowError>(HasSubstr("2147483648")));
  }
}

TEST(Scatter, OverwritesACopyAtDistinctIndices) {
  for (const Backend backend : backends) {
    const Tensor base = make_tensor<float>(backend, {1, 2, 3, 4, 5, 6}, Shape{2, 3});
    const Tensor indices = make_tensor<std::int32_t>(backend, {2, 0}, Shape{2});
    const Tensor updates =
        place<float>(backend, {10, 0, 20, 0, 30, 0, 40}, Layout(Shape{2, 2}, Stride{2, 4}));
    const Tensor result = scatter(base, indices, updates, 1);
    EXPECT_EQ(result.layout(), Layout::canonical(Shape{2, 3}));
    EXPECT_THAT(elements<float>(result), ElementsAre(30, 40, 3, 4, 10, 20));
    EXPECT_THAT(elements<float>(base), ElementsAre(1, 2, 3, 4, 5, 6));
    const Tensor bools = make_tensor<bool>(backend, {true, false}, Shape{2});
    EXPECT_THAT(elements<bool>(scatter(bools, make_tensor<std::int32_t>(backend, {1}, Shape{1}),
                                       make_tensor<bool>(backend, {true}, Shape{1}), 0)),
                ElementsAre(true, true));
  }
}

TEST(Scatter, RefusesARepeatedIndex) {
  for (const Backend backend : backends) {
    const Tensor base = make_tensor<float>(backend, {1, 2, 3}, Shape{3});
    const Tensor updates = make_tensor<float>(backend, {1, 1, 1}, Shape{3});
    const auto scatter_at = [&](const Integers& indices) {
      (void)scatter(base, make_tensor(backend, indices, Shape{3}), updates, 0);
    };
    EXPECT_THAT([&] { scatter_at({1, 0, 1}); },
                ThrowsMessage<ValueError>(HasSubstr("an index is repeated: 1")));
    EXPECT_THROW(scatter_at({1, 1, 3}), IndexError);
  }
}

TEST(Scatter, GradientsGoToWhatTheResultKept) {
  for (const Backend backend : backends) {
    const Tensor base = make_tensor<float>(backend, {1, 2, 3}, Shape{3});
    const Tensor updates = make_tensor<float>(backend, {7, 8}, Shape{2});
    backward(scatter(base, make_tensor<std::int32_t>(backend, {2, 0}, Shape{2}), updates, 0),
             make_tensor<float>(backend, {1, 2, 4}, Shape{3}));
    EXPECT_THAT(elements<float>(gradient_of(base)), ElementsAre(0, 2, 0));
    EXPECT_THAT(elements<float>(gradient_of(updates)), ElementsAre(4, 1));
  }
}

/// A table and an axis with index shapes, in random layouts.
template <class Body>
void for_random_cases(Body body) {
  std::mt19937 random(17);
  const std::vector<std::pair<Shape, Index>> tables{{Shape{5}, 0},
                                                    {Shape{4, 3}, 0},
                                                    {Shape{4, 3}, 1},
                                                    {Shape{{2, 3}, 4, {2, 2}}, 1},
                                                    {Shape{2, {3, 2}, {2, 3}}, 1},
                                                    {Shape{20, 6}, 1},
                                                    {Shape{700, 3}, 0}};
  for (const auto& [table, axis] : tables)
    for (const Shape& indices : {Shape{1}, Shape{300}, Shape{{2, 3}, 2}})
      for (const bool is_aliased : {false, true}) {
        const auto layout_of = [&](const Shape& shape) {
          return is_aliased ? random_aliased_layout(shape, random) : random_layout(shape, random);
        };
        SCOPED_TRACE(text(table, " along ", axis, " by ", indices));
        body(layout_of(table), axis, layout_of(indices), random);
      }
}

TEST(Indexing, AgreesWithAModelOnAnyLayout) {
  for_random_cases([](const Layout& table, Index axis, const Layout& indices, std::mt19937& random) {
    const Layout axis_mode = table.mode(static_cast<std::size_t>(axis));
    Integers slots(static_cast<std::size_t>(table.cosize()));
    for (std::int32_t& slot : slots) slot = static_cast<std::int32_t>(random() % 1000);
    Integers index_slots(static_cast<std::size_t>(indices.cosize()));
    for (std::int32_t& index : index_slots)
      index = static_cast<std::int32_t>(static_cast<Index>(random() % 1024) % axis_mode.size());

    // Item (b, q, a) in ordinal order: the table's ordinal it names.
    Index before = 1;
    for (Index mode = 0; mode < axis; ++mode) before *= table.mode(static_cast<std::size_t>(mode)).size();
    const Index after = table.size() / before / axis_mode.size();
    std::vector<Index> named;
    for (Index a = 0; a < after; ++a)
      for (Index q = 0; q < indices.size(); ++q)
        for (Index b = 0; b < before; ++b)
          named.push_back(b + before *
                                  (index_slots[static_cast<std::size_t>(indices(q))] + axis_mode.size() * a));

    Integers gathered, scattered;
    for (Index i = 0; i < table.size(); ++i) scattered.push_back(slots[static_cast<std::size_t>(table(i))]);
    for (const Index ordinal : named) gathered.push_back(scattered[static_cast<std::size_t>(ordinal)]);
    Integers updates;
    for (const Index ordinal : named) {
      updates.push_back(static_cast<std::int32_t>(random() % 1000));
      scattered[static_cast<std::size_t>(ordinal)] += updates.back();
    }
    for (const Backend backend : backends) {
      const Tensor data = place(backend, slots, table);
      const Tensor names = place(backend, index_slots, indices);
      const Tensor result = gather(data, names, axis);
      EXPECT_THAT(elements<std::int32_t>(result), ElementsAreArray(gathered));
      // The updates in another layout of the same shape.
      const Layout layout = random_layout(result.layout().shape(), random);
      Integers update_slots(static_cast<std::size_t>(layout.cosize()));
      for (Index i = 0; i < layout.size(); ++i)
        update_slots[static_cast<std::size_t>(layout(i))] = updates[static_cast<std::size_t>(i)];
      EXPECT_THAT(
          elements<std::int32_t>(scatter_add(data, names, place(backend, update_slots, layout), axis)),
          ElementsAreArray(scattered));
      const std::vector<float> floats(slots.begin(), slots.end());
      const std::vector<float> float_updates(update_slots.begin(), update_slots.end());
      EXPECT_THAT(elements<float>(scatter_add(place(backend, floats, table), names,
                                              place(backend, float_updates, layout), axis)),
                  ElementsAreArray(std::vector<float>(scattered.begin(), scattered.end())));
    }
  });
}

TEST(Gather, GradientSumsIntoTheSource) {
  for (const Backend backend : backends) {
    const Tensor data = place<float>(backend, {1, 0, 2, 0, 3}, Layout(Shape{3}, Stride{2}));
    const Tensor indices = make_tensor<std::int32_t>(backend, {2, 0, 2}, Shape{3});
    const Tensor result = gather(data, indices, 0);
    backward(result, make_tensor<float>(backend, {1, 2, 4}, Shape{3}));
    EXPECT_EQ(gradient_of(data).layout(), data.layout());
    EXPECT_THAT(elements<float>(gradient_of(data)), ElementsAre(2, 0, 5));
  }
}

TEST(ScatterAdd, GradientsArePassedOnAndGathered) {
  for (const Backend backend : backends) {
    const Tensor base = make_tensor<float>(backend, {1, 2, 3}, Shape{3});
    const Tensor indices = make_tensor<std::int32_t>(backend, {2, 0, 2}, Shape{3});
    const Tensor updates = make_tensor<float>(backend, {1, 1, 1}, Shape{3});
    backward(scatter_add(base, indices, updates, 0), make_tensor<float>(backend, {1, 2, 4}, Shape{3}));
    EXPECT_THAT(elements<float>(gradient_of(base)), ElementsAre(1, 2, 4));
    EXPECT_THAT(elements<float>(gradient_of(updates)), ElementsAre(4, 1, 4));
  }
}

}  // namespace
}  // namespace orlop
