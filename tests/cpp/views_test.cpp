// Zero-copy views: their layout arithmetic against index models, every error, compound tensors, and
// gradients.
#include "orlop/operation/views.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>

#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/dtype/compound.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"

namespace {

using namespace orlop;
using testing::ElementsAre;
using testing::HasSubstr;

/// A sibling carrier: values of any dtype in a vector; it dispatches the names that `offers` accepts.
class Shelf final : public Carrier {
 public:
  Shelf(std::vector<Scalar> values, const DType& dtype, bool offers_all = true)
      : values_(std::move(values)), dtype_(&dtype), offers_all_(offers_all) {}
  [[nodiscard]] Index size() const override { return static_cast<Index>(values_.size()); }
  [[nodiscard]] const DType& dtype() const override { return *dtype_; }
  [[nodiscard]] Scalar get_value(Index index) const override {
    return values_[static_cast<std::size_t>(index)];
  }
  void set_value(Index index, const Scalar& value) override {
    values_[static_cast<std::size_t>(index)] = value;
    advance_version();
  }
  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values, const NewLikeOptions& options) const override {
    return make_ref<Shelf>(std::vector<Scalar>(values.begin(), values.end()),
                           options.dtype ? *options.dtype : *dtype_, offers_all_);
  }
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options) const override {
    return make_ref<Shelf>(std::vector<Scalar>(static_cast<std::size_t>(size), Scalar(0.0F)),
                           options.dtype ? *options.dtype : *dtype_, offers_all_);
  }

 protected:
  [[nodiscard]] bool intrinsic_mutable() const override { return true; }
  [[nodiscard]] Ref<Operation> make_operation(std::string_view name) override {
    if (!offers_all_ && !is_view_operation(name)) return Carrier::make_operation(name);
    return table_operation(name);
  }

 private:
  std::vector<Scalar> values_;
  const DType* dtype_;
  bool offers_all_;
};

Tensor counting(const Layout& layout, Index offset = 0) {
  std::vector<Scalar> values;
  for (Index i = 0; i < offset + layout.cosize(); ++i) values.emplace_back(static_cast<float>(i));
  return {CPU::make(1)->new_like(values), offset, layout};
}

Tensor tensor_of(const std::vector<float>& values, const Layout& layout) {
  const std::vector<Scalar> scalars(values.begin(), values.end());
  return {CPU::make(1)->new_like(scalars), 0, layout};
}

std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values;
  for (Index i = 0; i < tensor.size(); ++i) values.push_back(tensor.at(i).to_binary32());
  return values;
}

template <class E>
void expect_error(const std::function<void()>& call, const std::string& words) {
  try {
    call();
    ADD_FAILURE() << "no error; expected " << words;
  } catch (const E& error) {
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
}
void expect_value_error(const std::function<void()>& call, const std::string& words) {
  expect_error<ValueError>(call, words);
}

const SliceRange all{};

/// Every flat layout of up to `leaves` leaves with these extents and strides.
std::vector<Layout> small_layouts(std::size_t leaves, Index extents, Index strides) {
  std::vector<Layout> layouts{Layout()};
  std::vector<Layout> last{Layout()};
  for (; leaves > 0; --leaves) {
    std::vector<Layout> longer;
    for (const Layout& layout : last)
      for (Index extent = 1; extent <= extents; ++extent)
        for (Index stride = 0; stride <= strides; ++stride)
          longer.push_back(Layout::concat(layout, Layout::leaf(extent, stride)));
    layouts.insert(layouts.end(), longer.begin(), longer.end());
    last = std::move(longer);
  }
  return layouts;
}

TEST(Slices, SelectIndicesAndRanges) {
  const Tensor tensor = counting(Layout(Shape{6, 8}, Stride{1, 6}));
  const Tensor row = tensor.slice({Index{3}, SliceRange{2, 8, 3}});
  EXPECT_EQ(row.layout(), Layout::leaf(2, 18));
  EXPECT_EQ(row.offset(), 15);
  EXPECT_EQ(row.carrier(), tensor.carrier());
  const Tensor element = tensor.slice({Index{5}, Index{7}});
  EXPECT_EQ(element.layout(), Layout());
  EXPECT_EQ(element.offset(), 47);
  const Tensor last = tensor.slice({SliceRange{-2, std::nullopt, 1}, SliceRange{-100, 100, std::nullopt}});
  EXPECT_EQ(last.layout(), Layout(Shape{2, 8}, Stride{1, 6}));
  EXPECT_EQ(last.offset(), 4);
}

TEST(Slices, KeepOrIndexNestedModesWhole) {
  const Tensor tensor = counting(Layout(Shape{{2, 3}, {4}}, Stride{{3, 7}, {40}}), 5);
  EXPECT_EQ(tensor.slice({all, SliceRange{std::nullopt, std::nullopt, 1}}).layout(), tensor.layout());
  const Tensor indexed = tensor.slice({Index{5}, all});
  EXPECT_EQ(indexed.layout(), Layout(Shape{{4}}, Stride{{40}}));
  EXPECT_EQ(indexed.offset(), 5 + 3 + 14);
  expect_value_error([&] { return tensor.slice({SliceRange{0, 6, 1}, all}); }, "whole slices");
  expect_value_error([&] { return tensor.slice({all, SliceRange{{}, {}, 2}}); }, "whole slices");
  expect_value_error([&] { return tensor.slice({Index{6}, all}); }, "out of domain");
}

TEST(Slices, AgreeWithPythonsBounds) {
  const auto python_bound = [](std::optional<Index> bound, Index otherwise, Index extent) {
    Index value = bound.value_or(otherwise);
    if (value < 0) value = std::max<Index>(value + extent, 0);
    return std::min(value, extent);
  };
  std::vector<std::optional<Index>> bounds{std::nullopt};
  for (Index bound = -7; bound <= 7; ++bound) bounds.emplace_back(bound);
  const Index extent = 5;
  const Tensor tensor = counting(Layout::leaf(extent, 3), 2);
  for (const auto start : bounds)
    for (const auto stop : bounds)
      for (Index step = 1; step <= 4; ++step) {
        std::vector<float> expected;
        const Index first = python_bound(start, 0, extent);
        const Index last = python_bound(stop, extent, extent);
        for (Index i = first; i < last; i += step) expected.push_back(static_cast<float>(2 + 3 * i));
        const auto call = [&] { return tensor.slice({SliceRange{start, stop, step}}); };
        if (expected.empty())
          expect_value_error(call, "non-empty");
        else if ((last - first) % step != 0)
          expect_value_error(call, "divisible by its step");
        else
          EXPECT_EQ(values_of(call()), expected);
      }
}

TEST(Slices, NameEveryError) {
  const Tensor tensor = counting(Layout(Shape{6, 8}, Stride{1, 6}));
  expect_value_error([&] { return tensor.slice({Index{0}}); }, "exactly one key per top-level mode");
  expect_value_error([&] { return tensor.slice({Index{0}, all, all}); },
                     "exactly one key per top-level mode");
  expect_value_error([&] { return tensor.slice({Index{6}, all}); }, "out of domain");
  expect_value_error([&] { return tensor.slice({Index{-1}, all}); }, "out of domain");
  expect_value_error([&] { return tensor.slice({SliceRange{{}, {}, 0}, all}); }, "positive step");
  expect_value_error([&] { return tensor.slice({SliceRange{{}, {}, -1}, all}); }, "positive step");
  expect_value_error([&] { return tensor.slice({SliceRange{4, 4, {}}, all}); }, "non-empty");
  expect_value_error([&] { return tensor.slice({SliceRange{0, 5, 2}, all}); }, "divisible by its step");
  const Index least = std::numeric_limits<Index>::min();
  const Index most = std::numeric_limits<Index>::max();
  expect_value_error([&] { return tensor.slice({SliceRange{least, least, most}, all}); }, "non-empty");
  expect_value_error([&] { return tensor.slice({SliceRange{least, most, most}, all}); },
                     "divisible by its step");
}

TEST(Views, ShareTheCarrierAndItsVersion) {
  const Tensor tensor = counting(Layout(Shape{2, 3}, Stride{1, 2}), 4);
  const Tensor view = permute(tensor, std::array<Index, 2>{1, 0});
  EXPECT_EQ(view.version(), 0);
  view.set({2, 1}, Scalar(-1.0F));
  EXPECT_EQ(tensor.version(), 1);
  EXPECT_EQ(tensor.at({1, 2}), Scalar(-1.0F));
  EXPECT_EQ(view.carrier(), tensor.carrier());
  EXPECT_EQ(&view.dtype(), &dtypes::Float32);
}

TEST(Views, WorkOnEveryDType) {
  for (const DType* dtype :
       {static_cast<const DType*>(&dtypes::Int32), static_cast<const DType*>(&dtypes::Bool)}) {
    const Tensor tensor(CPU::make(6, {.dtype = *dtype}), 0, Layout(Shape{2, 3}, Stride{1, 2}));
    const Tensor view = tensor.slice({Index{1}, all});
    EXPECT_EQ(&view.dtype(), dtype);
    EXPECT_FALSE(autograd_node(view));
  }
}

TEST(Views, NeedALiveCarrier) {
  const Tensor tensor = counting(Layout(Shape{2, 3}, Stride{1, 2}));
  tensor.carrier()->release();
  expect_error<RuntimeError>([&] { return unsqueeze(tensor, 0); }, "released");
  expect_error<RuntimeError>([&] { return tensor.slice({all, all}); }, "released");
}

TEST(Views, RefuseWrongArgumentKinds) {
  const Tensor tensor = counting(Layout(Shape{2, 3}, Stride{1, 2}));
  const auto forward = [&](std::string_view name, std::vector<Argument> arguments) {
    return [=] { return tensor.carrier()->dispatch_op(name)->forward(arguments); };
  };
  const Argument shape = Argument::of(Shape{6});
  for (const std::string_view name :
       {"as_strided", "broadcast_to", "permute", "rearrange", "reshape", "squeeze", "unsqueeze", "view"}) {
    expect_error<TypeError>(forward(name, {}), "tensor must be a Tensor");
    expect_error<TypeError>(forward(name, {shape}), "tensor must be a Tensor");
    if (name != "permute") expect_error<TypeError>(forward(name, {tensor}), "takes a Tensor and");
    expect_error<TypeError>(forward(name, {tensor, Argument::of(1.5), Argument::of(1.5)}), std::string(name));
    EXPECT_TRUE(is_view_operation(name));
  }
  EXPECT_FALSE(is_view_operation("add"));
  EXPECT_FALSE(is_view_operation("broadcast_in_dim"));
  expect_error<TypeError>(forward("squeeze", {tensor, Scalar(true)}), "dim must be an integer");
  expect_error<TypeError>(forward("squeeze", {tensor, Scalar(1.0F)}), "dim must be an integer");
  expect_error<TypeError>(forward("permute", {tensor, Scalar(0), Scalar(true)}), "order must be integers");
  const Argument order = Argument::of(std::vector<Index>{0, 1});
  expect_error<TypeError>(forward("permute", {tensor, order, order}), "order must be integers");
  expect_error<TypeError>(forward("reshape", {tensor, Argument::of(Stride{6})}), "shape must be a Shape");
  expect_error<TypeError>(forward("as_strided", {tensor, shape, shape}), "stride must be a Stride");
  expect_error<TypeError>(forward("rearrange", {tensor, shape}), "output must be a Tree");
  expect_error<TypeError>(forward("view", {tensor, Scalar(0.5)}), "key must be");
  expect_value_error(forward("squeeze", {tensor, Scalar(Scalar::BigInteger{1e30F})}), "out of range");
}

TEST(Permute, ReordersTopLevelModes) {
  const Tensor tensor = counting(Layout(Shape{2, {3, 4}, 5}, Stride{1, {2, 6}, 24}));
  EXPECT_EQ(permute(tensor, std::array<Index, 3>{2, 0, 1}).layout(),
            Layout(Shape{5, 2, {3, 4}}, Stride{24, 1, {2, 6}}));
  const Ref<Operation> operation = tensor.carrier()->dispatch_op("permute");
  const std::array<Argument, 4> arguments{tensor, Scalar(1), Scalar(2), Scalar(0)};
  EXPECT_EQ(operation->forward(arguments).layout().shape(), (Shape{{3, 4}, 5, 2}));
  expect_value_error([&] { return permute(tensor, std::array<Index, 2>{0, 1}); },
                     "must reorder every layout mode");
  expect_value_error([&] { return permute(tensor, std::array<Index, 3>{0, 1, 1}); },
                     "must reorder every layout mode");
}

TEST(Reshape, KeepsTheOrdinalSequence) {
  const Tensor tensor = counting(Layout(Shape{2, 4}, Stride{3, 6}));
  EXPECT_EQ(reshape(tensor, Shape{4, {2}}).layout(), Layout(Shape{4, {2}}, Stride{3, {12}}));
  expect_value_error([&] { return reshape(counting(Layout(Shape{3, 2}, Stride{1, 4})), Shape{6}); },
                     "coalesces to one logical leaf");
  expect_value_error([&] { return reshape(tensor, Shape{9}); }, "same logical size");
  const Index huge = Index{1} << 40;
  expect_value_error([&] { return reshape(tensor, Shape{huge, huge}); }, "same logical size");
}

TEST(Reshape, AgreesWithAnIndexModel) {
  const std::vector<Shape> shapes{Shape{4}, Shape{2, 2}, Shape{1, 4},   Shape{{2, 1}, 2},
                                  Shape{3}, Shape{{3}},  Shape{2},      Shape{1},
                                  Shape{6}, Shape{2, 3}, Shape{{3, 2}}, Shape{}};
  for (const Layout& layout : small_layouts(3, 3, 4))
    for (const Shape& shape : shapes) {
      if (shape.size() != layout.size()) continue;
      bool has_constant_step = true;
      for (Index i = 2; i < layout.size(); ++i)
        has_constant_step = has_constant_step && layout(i) - layout(i - 1) == layout(1) - layout(0);
      if (!has_constant_step) {
        EXPECT_THROW(static_cast<void>(reshape_layout(layout, shape)), ValueError) << layout.to_string();
        continue;
      }
      const Layout result = reshape_layout(layout, shape);
      EXPECT_EQ(result.shape(), shape);
      for (Index i = 0; i < layout.size(); ++i) ASSERT_EQ(result(i), layout(i)) << layout.to_string();
    }
}

TEST(AsStrided, ComposesThePlacementWithTheSelector) {
  const Tensor tensor = counting(Layout(Shape{3, 4}, Stride{4, 1}));
  EXPECT_EQ(as_strided(tensor, Shape{3, 2}, Stride{1, 3}).layout(), Layout(Shape{3, 2}, Stride{4, 1}));
  EXPECT_EQ(as_strided(tensor, Shape{3}, Stride{4}).layout(), Layout::leaf(3, 5));
  // A constant step scales every stride, also of leaves with extent 1.
  EXPECT_EQ(as_strided(counting(Layout::leaf(6, 2)), Shape{1, 3}, Stride{7, 2}).layout(),
            Layout(Shape{1, 3}, Stride{14, 4}));
}

TEST(AsStrided, NamesEveryError) {
  const Tensor tensor = counting(Layout(Shape{3, 4}, Stride{4, 1}));
  const auto select = [&](const Shape& shape, const Stride& stride) {
    return [=] { return as_strided(tensor, shape, stride); };
  };
  expect_value_error(select(Shape{2, 2}, Stride{{1, 2}}), "do not match in Structure");
  expect_value_error(select(Shape{2, 2}, Stride{0, 1}), "mapping must be injective");
  expect_value_error(select(Shape{1000000000}, Stride{0}), "mapping must be injective");
  expect_value_error(select(Shape{1000000000}, Stride{1}), "exceeds the input");
  expect_value_error(select(Shape{2}, Stride{12}), "exceeds the input");
  expect_value_error(select(Shape{4}, Stride{2}), "not representable");
  const Tensor repeated = broadcast_to(counting(Layout(Shape{1, 2}, Stride{1, 1})), Shape{3, 2});
  expect_value_error([&] { return as_strided(repeated, Shape{2}, Stride{1}); },
                     "composed placement must be injective");
  EXPECT_EQ(as_strided(repeated, Shape{2}, Stride{3}).layout(), Layout::leaf(2, 1));
}

TEST(AsStrided, AgreesWithAnIndexModel) {
  const std::vector<Layout> selectors = small_layouts(2, 3, 7);
  int accepted = 0;
  int refused = 0;
  for (const Layout& layout : small_layouts(3, 3, 3)) {
    const Shape digits = layout.coalesce().shape();
    for (const Layout& selector : selectors) {
      if (!selector.is_injective() || selector.cosize() > layout.size()) continue;
      // Representable where the digits of the selected ordinals add up without a carry.
      bool carries = false;
      for (std::size_t j = 0; j < digits.leaves().size(); ++j) {
        Index most = 0;
        for (std::size_t i = 0; i < selector.extents().size(); ++i)
          if (selector.extents()[i] > 1)
            most += (selector.extents()[i] - 1) *
                    (*digits.leaf_coordinates(digits.decode(selector.strides()[i])))[j];
        carries = carries || most >= digits.leaves()[j];
      }
      if (carries) {
        ++refused;
        expect_value_error([&] { return as_strided_layout(layout, selector.shape(), selector.stride()); },
                           "not representable");
        continue;
      }
      ++accepted;
      const Layout result = as_strided_layout(layout, selector.shape(), selector.stride());
      EXPECT_EQ(result.shape(), selector.shape());
      for (Index q = 0; q < selector.size(); ++q) ASSERT_EQ(result(q), layout(selector(q)));
    }
  }
  EXPECT_GT(accepted, 10000);
  EXPECT_GT(refused, 10000);
}

TEST(SqueezeAndUnsqueeze, DropAndInsertUnitLeaves) {
  const Tensor tensor = counting(Layout(Shape{2, 1, {3, 4}}, Stride{1, 9, {2, 6}}));
  EXPECT_EQ(squeeze(tensor, 1).layout(), Layout(Shape{2, {3, 4}}, Stride{1, {2, 6}}));
  EXPECT_EQ(squeeze(tensor, -2).layout(), squeeze(tensor, 1).layout());
  EXPECT_EQ(unsqueeze(tensor, 0).layout(), Layout(Shape{1, 2, 1, {3, 4}}, Stride{0, 1, 9, {2, 6}}));
  EXPECT_EQ(unsqueeze(tensor, -1).layout(), Layout(Shape{2, 1, {3, 4}, 1}, Stride{1, 9, {2, 6}, 0}));
  EXPECT_EQ(unsqueeze(tensor, 3).layout(), unsqueeze(tensor, -1).layout());
  EXPECT_EQ(unsqueeze(tensor, -4).layout(), unsqueeze(tensor, 0).layout());
  for (const Index dim : {Index{3}, Index{-4}, std::numeric_limits<Index>::min()})
    expect_value_error([&] { return squeeze(tensor, dim); }, "out of range");
  for (const Index dim : {Index{4}, Index{-5}, std::numeric_limits<Index>::max()})
    expect_value_error([&] { return unsqueeze(tensor, dim); }, "out of range");
  expect_value_error([&] { return squeeze(tensor, 2); }, "nested");
  expect_value_error([&] { return squeeze(tensor, 0); }, "extent 2");
  const Tensor scalar = squeeze(counting(Layout::leaf(1, 1)), 0);
  EXPECT_EQ(scalar.layout(), Layout());
  EXPECT_EQ(unsqueeze(scalar, -1).layout(), Layout::leaf(1, 0));
  expect_value_error([&] { return squeeze(scalar, 0); }, "out of range");
}

TEST(BroadcastInDim, PlacesModesThenWidens) {
  const Tensor tensor = counting(Layout::leaf(4, 1));
  const Shape target{2, 4, 3};
  const auto place = [&](const std::vector<Index>& positions) {
    return broadcast_in_dim(tensor, target, positions);
  };
  EXPECT_EQ(place({1}).layout(), Layout(target, Stride{0, 1, 0}));
  const Tensor matrix = counting(Layout(Shape{4, 3}, Stride{1, 4}));
  expect_value_error([&] { return broadcast_in_dim(matrix, target, std::vector<Index>{2, 1}); },
                     "strictly increasing");
  expect_value_error([&] { return broadcast_in_dim(matrix, target, std::vector<Index>{1, 1}); },
                     "strictly increasing");
  expect_value_error([&] { return place({}); }, "one position per source mode");
  expect_value_error([&] { return place({1, 0}); }, "one position per source mode");
  expect_value_error([&] { return place({3}); }, "out of range");
  expect_value_error([&] { return place({-2}); }, "out of range");
  expect_value_error([&] { return place({0}); }, "can only widen an extent-1 leaf");
}

TEST(Rearrange, FollowsTheTree) {
  const Tensor tensor = counting(Layout(Shape{4, 5}, Stride{1, 4}));
  const Tree output{Node::id(1), Node::Leaf, Node::id(0)};
  EXPECT_EQ(rearrange(tensor, output).layout(), Layout(Shape{5, 1, 4}, Stride{4, 0, 1}));
  const Tree grouped{{Node::id(1), Node::id(0)}};
  EXPECT_EQ(rearrange(tensor, grouped, Tree{Node::Leaf, Node::Leaf}).layout(),
            Layout(Shape{{5, 4}}, Stride{{4, 1}}));
  expect_value_error([&] { return rearrange(tensor, Tree{Node::id(0)}); },
                     "must include every extracted layout");
}

// --- Compound tensors ---------------------------------------------------------------------------------

struct PairDType final : CompoundDType {
  PairDType() : CompoundDType("ViewsTestPair", {.simple_types = {dtypes::Float32, dtypes::Float32}}) {}
};
struct WrappedDType final : CompoundDType {
  WrappedDType() : CompoundDType("ViewsTestWrapped", {.simple_types = {dtypes::Float32}}) {}
};
template <class T>
const DType& registered() {
  static const DType& dtype = publish(std::make_unique<T>());
  return dtype;
}

Tensor pair(const Layout& placement, const Layout& adjacent, const Layout& deeper) {
  const Tensor first = counting(placement);
  const Tensor second = counting(deeper);
  return Tensor::from_representation(
      {&registered<PairDType>(),
       {{&dtypes::Float32, first.carrier(), 0, placement}, {&dtypes::Float32, second.carrier(), 0, deeper}},
       {adjacent}});
}

TEST(CompoundViews, TransformPlacementAndAdjacentLayoutAlike) {
  const Tensor tensor =
      pair(Layout(Shape{1, 4}, Stride{4, 1}), Layout(Shape{1, 4}, Stride{0, 1}), Layout::leaf(4, 1));
  const auto expect_view = [&](const Tensor& view, const Layout& placement, const Layout& adjacent) {
    const TensorRepresentation before = tensor.representation();
    const TensorRepresentation after = view.representation();
    EXPECT_EQ(after.logical_dtype, before.logical_dtype);
    EXPECT_EQ(view.version_token(), tensor.version_token());
    EXPECT_EQ(after.subtensors[0].carrier, before.subtensors[0].carrier);
    EXPECT_EQ(after.subtensors[0].offset, 0);
    EXPECT_EQ(after.subtensors[0].layout, placement);
    EXPECT_EQ(after.adjacent_layouts[0], adjacent);
    EXPECT_EQ(after.subtensors[1].carrier, before.subtensors[1].carrier);
    EXPECT_EQ(after.subtensors[1].layout, before.subtensors[1].layout);
  };
  expect_view(unsqueeze(tensor, 2), Layout(Shape{1, 4, 1}, Stride{4, 1, 0}),
              Layout(Shape{1, 4, 1}, Stride{0, 1, 0}));
  expect_view(squeeze(tensor, 0), Layout::leaf(4, 1), Layout::leaf(4, 1));
  expect_view(broadcast_to(tensor, Shape{3, 4}), Layout(Shape{3, 4}, Stride{0, 1}),
              Layout(Shape{3, 4}, Stride{0, 1}));
  expect_view(permute(tensor, std::array<Index, 2>{1, 0}), Layout(Shape{4, 1}, Stride{1, 4}),
              Layout(Shape{4, 1}, Stride{1, 0}));
  expect_view(reshape(tensor, Shape{2, 2}), Layout(Shape{2, 2}, Stride{1, 2}),
              Layout(Shape{2, 2}, Stride{1, 2}));
  expect_view(as_strided(tensor, Shape{2}, Stride{2}), Layout::leaf(2, 2), Layout::leaf(2, 2));
  expect_view(tensor.slice({Index{0}, SliceRange{0, 2, {}}}), Layout::leaf(2, 1), Layout::leaf(2, 1));
  const Shape target{1, 4, 2};
  expect_view(broadcast_in_dim(tensor, target, std::array<Index, 2>{0, 1}), Layout(target, Stride{4, 1, 0}),
              Layout(target, Stride{0, 1, 0}));
}

TEST(CompoundViews, RefuseEverythingElse) {
  const Tensor tensor = pair(Layout::leaf(4, 1), Layout::leaf(4, 1), Layout::leaf(4, 1));
  const auto refuses = [](const std::function<void()>& call, const std::string& words) {
    expect_error<NotImplementedError>(call, words);
  };
  refuses([&] { return tensor.slice({SliceRange{1, {}, {}}}); }, "normalized start 0");
  refuses([&] { return tensor.slice({Index{2}}); }, "normalized start 0");
  refuses([&] { return rearrange(tensor, Tree{Node::id(0)}); }, "Multi-subtensor Tensor operation execution");
  refuses([&] { return tensor.at(0); }, "Multi-subtensor Tensor indexing");
  refuses([&] { tensor.set(0, Scalar(1)); }, "Multi-subtensor Tensor mutation");
  EXPECT_EQ(tensor.version(), 0);
}

TEST(CompoundViews, OfOnePlaneKeepTheLogicalDType) {
  const Layout layout(Shape{2, 3}, Stride{1, 2});
  const Tensor tensor = Tensor::from_representation(
      {&registered<WrappedDType>(), {{&dtypes::Float32, CPU::make(7), 1, layout}}, {}});
  const Tensor view = tensor.slice({Index{1}, SliceRange{1, {}, {}}});
  EXPECT_EQ(&view.dtype(), &registered<WrappedDType>());
  EXPECT_EQ(view.offset(), 1 + 1 + 2);
}

Tensor nvfp4(const Layout& placement, const Layout& blocks) {
  const auto shelf = [](const DType& dtype, Index size) {
    std::vector<Scalar> values;
    for (Index i = 0; i < size; ++i) values.emplace_back(static_cast<float>(i));
    return Ref<Carrier>(make_ref<Shelf>(values, dtype));
  };
  return Tensor::from_representation({&dtypes::NVFP4,
                                      {{&dtypes::E2M1, shelf(dtypes::E2M1, placement.cosize()), 0, placement},
                                       {&dtypes::E4M3, shelf(dtypes::E4M3, 2), 0, Layout::leaf(2, 1)},
                                       {&dtypes::Float32, shelf(dtypes::Float32, 1), 0, Layout::leaf(1, 1)}},
                                      {blocks, Layout::leaf(2, 0)}});
}

TEST(CompoundViews, StayWithinTheRulesOfTheirDType) {
  const Tensor tensor = nvfp4(Layout(Shape{16, 2}, Stride{1, 16}), Layout(Shape{16, 2}, Stride{0, 1}));
  const Tensor view = permute(tensor, std::array<Index, 2>{1, 0});
  EXPECT_EQ(view.representation().adjacent_layouts[0], Layout(Shape{2, 16}, Stride{1, 0}));
  EXPECT_EQ(view.representation().subtensors.size(), 3U);
  // Half of the blocks, or blocks met twice as often, break the block rule.
  expect_value_error([&] { return tensor.slice({all, SliceRange{0, 1, {}}}); },
                     "NVFP4 LevelExtent rule at level 0");
  expect_value_error([&] { return broadcast_to(unsqueeze(tensor, 0), Shape{2, 16, 2}); },
                     "NVFP4 LevelExtent rule at level 0");
}

TEST(CompoundViews, HaveADirectGradientThatCopiesDeeperPlanes) {
  const Tensor tensor = nvfp4(Layout(Shape{16, 2}, Stride{1, 16}), Layout(Shape{16, 2}, Stride{0, 1}));
  const Ref<Operation> operation = tensor.carrier()->dispatch_op("permute");
  const std::array<Argument, 3> arguments{tensor, Scalar(1), Scalar(0)};
  const Tensor view = operation->forward(arguments);
  EXPECT_FALSE(autograd_node(view));
  operation->store_inputs(std::array{tensor});
  const Gradients gradients = operation->backward(view);
  const TensorRepresentation gradient = gradients.at(0)->representation();
  const TensorRepresentation source = tensor.representation();
  EXPECT_EQ(gradient.logical_dtype, &dtypes::NVFP4);
  EXPECT_EQ(gradient.adjacent_layouts, source.adjacent_layouts);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(gradient.subtensors[i].layout, source.subtensors[i].layout);
    EXPECT_NE(gradient.subtensors[i].carrier, source.subtensors[i].carrier);
    for (Index slot = 0; slot < source.subtensors[i].layout.cosize(); ++slot)
      EXPECT_EQ(gradient.subtensors[i].carrier->at(slot), source.subtensors[i].carrier->at(slot));
  }
}

// --- Gradients ----------------------------------------------------------------------------------------

/// 1, 2, 3 … in ordinal order, in `layout`.
Tensor counting_cotangent(const Layout& layout) {
  Tensor tensor(CPU::make(layout.cosize()), 0, layout);
  for (Index i = 0; i < layout.size(); ++i) tensor.set(i, Scalar(static_cast<float>(i + 1)));
  return tensor;
}

/// Runs backward through a view of `source` and compares `.grad` with sums of the cotangent per source slot.
void check_gradient(const Tensor& source, const std::function<Tensor(const Tensor&)>& make_view) {
  const Tensor view = make_view(source);
  ASSERT_TRUE(autograd_node(view));
  const Layout& layout = view.layout();
  const Tensor cotangent =
      counting_cotangent(layout.is_injective() ? layout : Layout::canonical(layout.shape()));
  std::vector<float> by_slot(static_cast<std::size_t>(source.carrier()->size()), 0.0F);
  for (Index i = 0; i < view.size(); ++i)
    by_slot[static_cast<std::size_t>(view.offset() + layout(i))] += static_cast<float>(i + 1);
  backward(view, cotangent);
  const Tensor gradient = gradient_of(source);
  ASSERT_TRUE(gradient);
  const Layout& expected = source.layout();
  EXPECT_EQ(gradient.layout(), expected.is_injective() ? expected : Layout::canonical(expected.shape()));
  EXPECT_EQ(gradient.carrier_type(), source.carrier_type());
  EXPECT_FALSE(gradient.carrier() == cotangent.carrier());
  for (Index i = 0; i < source.size(); ++i)
    EXPECT_EQ(gradient.at(i).to_binary32(), by_slot[static_cast<std::size_t>(source.offset() + expected(i))])
        << i;
}

TEST(ViewGradients, ScatterIntoZeros) {
  for (const Layout& layout : {Layout(Shape{4, 6}, Stride{1, 4}), Layout(Shape{4, 6}, Stride{13, 2})}) {
    check_gradient(counting(layout, 3),
                   [](const Tensor& t) { return t.slice({Index{1}, SliceRange{1, 5, 2}}); });
    check_gradient(counting(layout, 3),
                   [](const Tensor& t) { return t.slice({SliceRange{2, {}, {}}, all}); });
    check_gradient(counting(layout), [](const Tensor& t) { return permute(t, std::array<Index, 2>{1, 0}); });
    check_gradient(counting(layout),
                   [](const Tensor& t) { return as_strided(t, Shape{2, 3}, Stride{1, 8}); });
    check_gradient(counting(layout), [](const Tensor& t) { return unsqueeze(t, 1); });
    check_gradient(counting(layout), [](const Tensor& t) {
      return rearrange(t, Tree{Node::Leaf, {Node::id(1), Node::id(0)}});
    });
  }
  check_gradient(counting(Layout(Shape{4, 6}, Stride{2, 8}), 1),
                 [](const Tensor& t) { return reshape(t, Shape{{2, 3}, 4}); });
  check_gradient(counting(Layout(Shape{4, 1}, Stride{3, 2})), [](const Tensor& t) { return squeeze(t, 1); });
  check_gradient(counting(Layout(Shape{4, 1}, Stride{3, 2})),
                 [](const Tensor& t) { return rearrange(t, Tree{Node::id(0)}); });
}

TEST(ViewGradients, OfARepeatedSourceAreSummedPerSlot) {
  const Layout repeated(Shape{2, 3}, Stride{0, 1});
  check_gradient(counting(repeated), [](const Tensor& t) { return permute(t, std::array<Index, 2>{1, 0}); });
  check_gradient(counting(repeated),
                 [](const Tensor& t) { return t.slice({Index{1}, SliceRange{1, 3, 1}}); });
  check_gradient(counting(repeated), [](const Tensor& t) { return as_strided(t, Shape{3}, Stride{2}); });
  check_gradient(counting(Layout(Shape{2, 3}, Stride{0, 0})),
                 [](const Tensor& t) { return reshape(t, Shape{6}); });
}

// Cotangents whose memory order differs from the gradient's are copied in tiles; these end within a tile.
TEST(ViewGradients, OfTransposedCotangents) {
  for (const std::array<Index, 2> extents : {std::array<Index, 2>{37, 70}, {4, 130}, {131, 5}, {3, 50}}) {
    const auto [rows, columns] = extents;
    const Layout repeated(Shape{rows, columns, 2}, Stride{1, rows, 0});
    check_gradient(counting(repeated),
                   [](const Tensor& t) { return permute(t, std::array<Index, 3>{1, 0, 2}); });
    check_gradient(counting(repeated),
                   [](const Tensor& t) { return permute(t, std::array<Index, 3>{2, 1, 0}); });
    check_gradient(counting(Layout(Shape{2, rows, columns}, Stride{0, 2, 3 * rows})),
                   [](const Tensor& t) { return permute(t, std::array<Index, 3>{2, 0, 1}); });
  }
}

TEST(ViewGradients, OfOtherDTypesAreCopiesOnADirectCall) {
  for (const DType* dtype :
       {static_cast<const DType*>(&dtypes::Int32), static_cast<const DType*>(&dtypes::Bool)}) {
    const Tensor source(CPU::make(37 * 70, {.dtype = *dtype}), 0, Layout(Shape{37, 70, 2}, Stride{1, 37, 0}));
    const Ref<Operation> operation = source.carrier()->dispatch_op("permute");
    const std::array<Argument, 4> arguments{source, Scalar(1), Scalar(0), Scalar(2)};
    const Tensor view = operation->forward(arguments);
    operation->store_inputs(std::array{source});
    const Layout layout = Layout::canonical(view.layout().shape());
    const Tensor cotangent(CPU::make(layout.cosize(), {.dtype = *dtype}), 0, layout);
    for (Index i = 0; i < cotangent.size(); ++i)
      cotangent.set(i, dtype == &dtypes::Bool ? Scalar(i % 3 == 0) : Scalar(i));
    const Gradients gradients = operation->backward(cotangent);
    const Tensor& gradient = *gradients.at(0);
    EXPECT_EQ(gradient.layout(), Layout::canonical(source.layout().shape()));
    const Tensor back = permute(gradient, std::array<Index, 3>{1, 0, 2});
    for (Index i = 0; i < cotangent.size(); ++i) ASSERT_EQ(back.at(i), cotangent.at(i));
  }
}

TEST(ViewGradients, SumOverWidenedLeaves) {
  const Tensor source = tensor_of({1, 2, 3}, Layout(Shape{1, 3}, Stride{1, 1}));
  const Tensor view = broadcast_to(source, Shape{2, 3});
  backward(view, counting_cotangent(Layout::canonical(Shape{2, 3})));
  EXPECT_THAT(values_of(gradient_of(source)), ElementsAre(3, 7, 11));
  EXPECT_EQ(gradient_of(source).layout(), source.layout());
  check_gradient(counting(Layout(Shape{1, 3}, Stride{5, 2})),
                 [](const Tensor& t) { return broadcast_to(t, Shape{1, 3}); });
  check_gradient(counting(Layout::leaf(3, 2)), [](const Tensor& t) {
    return broadcast_in_dim(t, Shape{2, 3, 2}, std::array<Index, 1>{1});
  });
}

TEST(ViewGradients, CheckTheCotangent) {
  const Tensor source = counting(Layout(Shape{2, 3}, Stride{1, 2}));
  const Tensor view = permute(source, std::array<Index, 2>{1, 0});
  expect_value_error([&] { backward(view, counting_cotangent(Layout::canonical(Shape{3, 2}))); }, "layout");
  const Ref<Operation> node = autograd_node(view);
  expect_value_error([&] { return node->backward(counting_cotangent(Layout::canonical(Shape{3, 2}))); },
                     "layout");
  const Tensor integers(CPU::make(6, {.dtype = dtypes::Int32}), 0, view.layout());
  expect_error<TypeError>([&] { return node->backward(integers); }, "dtype");
  expect_value_error([&] { backward(view); }, "without a gradient");
  EXPECT_FALSE(gradient_of(source));

  const Tensor wide = broadcast_to(tensor_of({1}, Layout::leaf(1, 1)), Shape{3});
  const Tensor bad(CPU::make(1), 0, Layout::leaf(3, 0));
  expect_value_error([&] { backward(wide, bad); }, "injective");
  const Tensor aliased = counting(Layout(Shape{3, 2}, Stride{1, 1}));
  const Tensor row = aliased.slice({all, Index{0}});
  expect_value_error([&] { backward(row, counting_cotangent(row.layout())); }, "share slots");
}

TEST(ViewGradients, RefuseAMutatedSource) {
  const Tensor source = counting(Layout(Shape{2, 3}, Stride{1, 2}));
  const Tensor view = source.slice({Index{0}, all});
  const Tensor cotangent = counting_cotangent(view.layout());
  view.set(0, Scalar(9));
  expect_error<RuntimeError>([&] { backward(view, cotangent); }, "modified in-place");
  expect_error<RuntimeError>([&] { return autograd_node(view)->backward(cotangent); }, "modified in-place");
  EXPECT_FALSE(gradient_of(source));
}

TEST(ViewGradients, AreLeavesUnderNoGrad) {
  const Tensor source = counting(Layout(Shape{2, 3}, Stride{1, 2}));
  const NoGrad no_grad;
  EXPECT_FALSE(autograd_node(unsqueeze(source, 0)));
}

TEST(ViewGradients, FailWhereTheCotangentIsOnlyStored) {
  const auto shelf = [] {
    return make_ref<Shelf>(std::vector<Scalar>(6, Scalar(1.0F)), dtypes::Float32, false);
  };
  const Tensor source(shelf(), 0, Layout(Shape{2, 3}, Stride{1, 2}));
  const Tensor view = source.slice({Index{1}, all});
  EXPECT_EQ(view.layout(), Layout::leaf(3, 2));
  const Tensor stored(shelf(), 0, view.layout());
  expect_error<NotImplementedError>([&] { backward(view, stored); }, "add");
  backward(view, counting_cotangent(view.layout()));  // runs where the cotangent lives
  EXPECT_THAT(values_of(gradient_of(source)), ElementsAre(0, 1, 0, 2, 0, 3));
  EXPECT_EQ(gradient_of(source).carrier_type(), carrier_class<CPU>());
}

TEST(ViewGradients, FlowThroughChainsOfViews) {
  const Tensor source = counting(Layout(Shape{4, 6}, Stride{1, 4}));
  const Tensor flat = reshape(source, Shape{24});
  const Tensor part = flat.slice({SliceRange{4, 16, 3}});
  const Tensor last = unsqueeze(part, 0);
  backward(last, counting_cotangent(last.layout()));
  std::vector<float> expected(24, 0.0F);
  for (std::size_t i = 0; i < 4; ++i) expected[4 + 3 * i] = static_cast<float>(i + 1);
  EXPECT_EQ(values_of(gradient_of(source)), expected);
}

}  // namespace
