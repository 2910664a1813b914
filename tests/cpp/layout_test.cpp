// Layouts in C++: the values of the rules, and properties against a brute-force model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <list>
#include <random>
#include <set>
#include <sstream>

#include "orlop/layout/iteration.hpp"
#include "orlop/layout/layout.hpp"
#include "orlop/layout/maps.hpp"

namespace orlop {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class E, class F>
void expect_error(F&& call, const std::string& words) {
  try {
    call();
  } catch (const E& error) {
    EXPECT_THAT(std::string(error.what()), HasSubstr(words));
    return;
  }
  FAIL() << "no error with: " << words;
}

Layout make(const Coordinate& shape, const Coordinate& stride) {
  return Layout(Shape(shape), Stride(stride));
}

Ref<IndexMap> share(const Layout& layout) { return make_ref<Layout>(layout); }

std::vector<Index> values(const IndexMap& map) {
  std::vector<Index> out;
  for (Index q = 0; q < map.domain_size(); ++q) out.push_back(map.index_ordinal(q));
  return out;
}

bool is_injective_by_listing(const Layout& layout) {
  std::set<Index> seen;
  for (const Index value : values(layout))
    if (!seen.insert(value).second) return false;
  return true;
}

// A random layout of up to `most` modes, some of them nested pairs.
Layout random_layout(std::mt19937& random, Index most, Index extent, Index stride) {
  const auto up_to = [&](Index n) { return std::uniform_int_distribution<Index>(0, n)(random); };
  std::vector<Coordinate> extents;
  std::vector<Coordinate> strides;
  const Index modes = up_to(most);
  for (Index i = 0; i < modes; ++i) {
    if (up_to(3) == 0) {
      extents.push_back({1 + up_to(extent - 1), 1 + up_to(extent - 1)});
      strides.push_back({up_to(stride), up_to(stride)});
    } else {
      extents.push_back(1 + up_to(extent - 1));
      strides.push_back(up_to(stride));
    }
  }
  return make(extents, strides);
}

TEST(Shape, CountsDecodesAndEncodes) {
  const Shape shape{3, {4, 5}};
  EXPECT_EQ(shape.size(), 60);
  EXPECT_EQ(shape.rank(), 2u);
  EXPECT_EQ(shape.depth(), 2u);
  EXPECT_EQ(shape.to_string(), "Shape<(3, (4, 5))>");
  EXPECT_EQ(shape.decode(31), (Coordinate{1, {2, 2}}));
  EXPECT_EQ(shape.encode({1, 10}), 31);
  EXPECT_EQ(shape.encode(31), 31);
  EXPECT_EQ(Shape().decode(0), Coordinate(std::vector<Coordinate>{}));
  EXPECT_EQ(Shape().encode(0), 0);
  for (const Coordinate& wrong :
       {Coordinate{3, 0}, Coordinate{0, 20}, Coordinate{-1, 0}, Coordinate{1}, Coordinate{1, {2, 2, 2}},
        Coordinate{{1}, 2}, Coordinate(60), Coordinate(-1)})
    expect_error<ValueError>([&] { (void)shape.encode(wrong); }, "Coordinate");
  expect_error<ValueError>([&] { (void)shape.decode(60); }, "out of range");
  expect_error<ValueError>([&] { (void)shape.decode(-1); }, "out of range");
}

TEST(Shape, KeepsStructureApart) {
  EXPECT_EQ(Shape(Coordinate(4)), Shape{4});
  EXPECT_NE((Shape{{4}}), Shape{4});
  EXPECT_TRUE(Shape{4}.is_int());
  EXPECT_FALSE((Shape{{4}}).is_int());
  EXPECT_EQ((Shape{{4}}).to_integer(), 4);
  expect_error<ValueError>([] { (void)Shape{4, 1}.to_integer(); }, "single leaf");
  EXPECT_EQ((Shape{3, {4, 5}}).mode(1), (Shape{4, 5}));
  EXPECT_EQ((Shape{3, {4, 5}}).mode(0), Shape{3});
  EXPECT_NE((Shape{{2, 3}, 4}), (Shape{2, {3, 4}}));
  EXPECT_EQ((Shape{{2, 3}, 4}).hash(), (Shape{{2, 3}, 4}).hash());
  EXPECT_EQ(Shape::append(Shape{2}, Shape{3, 4}), (Shape{2, {3, 4}}));
  EXPECT_EQ(Shape::append(Shape{2}, Shape{3}), (Shape{2, 3}));
  EXPECT_EQ(Shape::concat(Shape{2}, Shape{3, 4}), (Shape{2, 3, 4}));
  EXPECT_EQ((Shape{3, {4, 5}, 6}).top_level(), (Coordinate{3, {4, 5}, 6}));
  expect_error<IndexError>([] { (void)Shape{2}.mode(1); }, "no mode 1");
}

TEST(Shape, RefusesBadExtentsAndKeepsHugeOnes) {
  expect_error<ValueError>([] { (void)Shape{2, {0, 3}}; }, "must not be less than 1");
  expect_error<ValueError>([] { (void)Stride{-1}; }, "must not be negative");
  const Index huge = Index{1} << 40;
  const Shape shape{huge, huge};
  EXPECT_EQ(shape.try_size(), std::nullopt);
  expect_error<OverflowError>([&] { (void)shape.size(); }, "64 bits");
  expect_error<OverflowError>([&] { (void)Layout(shape, Stride{0, 0}); }, "64 bits");
  expect_error<OverflowError>([&] { (void)Layout::canonical(shape); }, "64 bits");
  expect_error<OverflowError>([] { (void)Layout::leaf(2, std::numeric_limits<Index>::max()); }, "64 bits");
  EXPECT_EQ(Layout::leaf(2, std::numeric_limits<Index>::max() - 1).cosize(),
            std::numeric_limits<Index>::max());
  EXPECT_EQ(shape.decode(huge + 3), (Coordinate{3, 1}));
  Coordinate deep = 1;
  for (std::size_t i = 0; i < max_nesting_depth; ++i) deep = Coordinate(std::vector<Coordinate>(1, deep));
  EXPECT_EQ(Shape(deep).depth(), max_nesting_depth);
  expect_error<ValueError>([&] { (void)Coordinate(std::vector<Coordinate>(1, deep)); }, "too deep");
  expect_error<ValueError>([&] { (void)Shape::append(Shape{2}, Shape(deep)); }, "too deep");
}

TEST(Layout, EvaluatesOrdinalsAndCoordinates) {
  const Layout layout = make({4, 3}, {3, 20});
  EXPECT_EQ(layout(7), 29);
  EXPECT_EQ(layout({3, 1}), 29);
  EXPECT_EQ(make({3, {2, 4}}, {2, {7, 20}})({2, {1, 3}}), 71);
  EXPECT_EQ(make({3, 2}, {1, 5}).cosize(), 8);
  for (const Coordinate& wrong : {Coordinate{4, 0}, Coordinate(12), Coordinate(-1)})
    expect_error<ValueError>([&] { (void)layout(wrong); }, "Key is not in domain of shape");
  expect_error<ValueError>([] { (void)make({2, 3}, {{1, 2}}); }, "do not match in Structure");
  EXPECT_EQ(Layout()(0), 0);
  EXPECT_EQ(layout.to_string(), "Layout( Shape<(4, 3)>, Stride<(3, 20)>)");
  std::ostringstream stream;
  stream << layout.shape() << ' ' << layout;
  EXPECT_EQ(stream.str(), "Shape<(4, 3)> Layout( Shape<(4, 3)>, Stride<(3, 20)>)");
  const Layout copy = layout;
  EXPECT_TRUE(copy.same_data(layout));
}

TEST(Layout, KnowsItsCanonicalForm) {
  EXPECT_EQ(Layout::canonical(Shape{2, {3, 4}}), make({2, {3, 4}}, {1, {2, 6}}));
  EXPECT_TRUE(make({2, {3, 4}}, {1, {2, 6}}).is_canonical());
  EXPECT_FALSE(make({2, 3}, {3, 1}).is_canonical());
  EXPECT_FALSE(make({1, 3}, {0, 1}).is_canonical());
  EXPECT_TRUE(make({1, 3}, {0, 1}).is_identity());
  EXPECT_EQ(make({2, 1, 3}, {5, 9, 10}).constant_step(), 5);
  EXPECT_EQ(make({2, 3}, {1, 4}).constant_step(), std::nullopt);
  EXPECT_EQ(make({1, 1}, {7, 0}).constant_step(), 7);
  EXPECT_TRUE(Layout().is_canonical());
}

TEST(Layout, DecidesInjectivityExactly) {
  EXPECT_TRUE(make({4, 2}, {2, 3}).is_injective());
  EXPECT_FALSE(make({3, 2}, {1, 2}).is_injective());
  EXPECT_FALSE(make({3, 2}, {0, 1}).is_injective());
  EXPECT_TRUE(make({3, 2}, {0, 1}).is_broadcast_aliasing());
  EXPECT_FALSE(make({3, 2}, {1, 1}).is_broadcast_aliasing());
  std::mt19937 random(7);
  int injective = 0;
  for (int i = 0; i < 20000; ++i) {
    const Layout layout = random_layout(random, 4, 5, 60);
    const bool expected = is_injective_by_listing(layout);
    ASSERT_EQ(layout.is_injective(), expected) << layout.to_string();
    injective += expected ? 1 : 0;
  }
  EXPECT_GT(injective, 1000);
  EXPECT_LT(injective, 19000);
}

TEST(Layout, DecidesInjectivityOfHugeLayouts) {
  const Index big = Index{1} << 30;
  EXPECT_TRUE(make({big, big}, {1, big}).is_injective());
  EXPECT_FALSE(make({big, big}, {1, big - 1}).is_injective());
  EXPECT_TRUE(make({big, big}, {big, 1}).is_injective());
  EXPECT_TRUE(make({1000000007, 2}, {2, 1}).is_injective());
  EXPECT_FALSE(make({big, big}, {3, 5}).is_injective());
  EXPECT_FALSE(make({2, 2, 2}, {Index{1} << 61, Index{1} << 61, 1}).is_injective());
}

TEST(Layout, Broadcasts) {
  EXPECT_EQ(make({3, {1, 2}}, {1, {9, 3}}).broadcast_to(Shape{3, {5, 2}}), make({3, {5, 2}}, {1, {0, 3}}));
  expect_error<ValueError>([] { (void)Layout::leaf(3, 1).broadcast_to(Shape{3, 2}); }, "same shape profile");
  expect_error<ValueError>([] { (void)Layout::leaf(3, 1).broadcast_to(Shape{4}); },
                           "can only widen an extent-1 leaf");
}

TEST(Layout, FindsUniformPreimages) {
  EXPECT_EQ(make({5, 2}, {0, 1}).uniform_preimage_extent(Shape{2}), 5);
  EXPECT_EQ(make({3, 2}, {1, 2}).uniform_preimage_extent(Shape{5}), std::nullopt);
  EXPECT_EQ(make({1000000000, 1000000000}, {0, 1}).uniform_preimage_extent(Shape{1000000000}), 1000000000);
}

TEST(Layout, JoinsAndPermutes) {
  const Layout a = make({2, 3}, {1, 2});
  EXPECT_EQ(Layout::concat(Layout::leaf(4, 7), a), make({4, 2, 3}, {7, 1, 2}));
  EXPECT_EQ(Layout::append(Layout::leaf(4, 7), a), make({4, {2, 3}}, {7, {1, 2}}));
  EXPECT_EQ(Layout::append(a, Layout()), a);
  EXPECT_EQ(Layout::make_layout(std::vector{a, Layout::leaf(4, 7)}), make({{2, 3}, 4}, {{1, 2}, 7}));
  EXPECT_EQ(a.permute(std::vector<Index>{1, 0}), make({3, 2}, {2, 1}));
  const std::vector<std::vector<Index>> wrong_orders{{0}, {0, 0}, {0, 2}, {-1, 0}, {0, 1, 2}};
  for (const std::vector<Index>& wrong : wrong_orders)
    expect_error<ValueError>([&] { (void)a.permute(wrong); }, "must reorder every layout mode");
}

TEST(Layout, RearrangesAndReverses) {
  const Layout a = make({4, 5}, {1, 4});
  const Tree output{Node::id(1), Node::Leaf, Node::id(0)};
  const Layout b = a.rearrange(output);
  EXPECT_EQ(b, make({5, 1, 4}, {4, 0, 1}));
  const auto [back, selection] = Layout::reverse_rearrange(output, Tree{Node::Leaf, Node::Leaf});
  EXPECT_EQ(b.rearrange(back, selection), a);
  EXPECT_EQ(a.rearrange(Tree{{Node::id(1)}, {Node::id(0)}}), make({5, 4}, {4, 1}));
  EXPECT_EQ(a.rearrange(Tree{{Node::id(0), Node::id(1)}}), make({{4, 5}}, {{1, 4}}));
  const Layout nested = make({2, {3, 4}}, {1, {2, 6}});
  EXPECT_EQ(nested.rearrange(Tree{Node::id(1), Node::id(0)}, Tree{Node::Leaf, Node::Leaf}),
            make({{3, 4}, 2}, {{2, 6}, 1}));
  EXPECT_EQ(nested.rearrange(Tree{Node::id(2), Node::id(0), Node::id(1)},
                             Tree{Node::Leaf, {Node::Leaf, Node::Leaf}}),
            make({4, 2, 3}, {6, 1, 2}));
  expect_error<ValueError>([&] { (void)a.rearrange(Tree{Node::id(0)}); },
                           "must include every extracted layout");
  expect_error<ValueError>([&] { (void)a.rearrange(Tree{Node::id(0), Node::id(0)}); }, "duplicated");
  expect_error<ValueError>([&] { (void)a.rearrange(Tree{Node::id(2)}); }, "out of range");
  for (const Tree& wrong : {Tree{Node::Leaf}, Tree{{Node::Leaf}, Node::Leaf}})
    expect_error<ValueError>([&] { (void)a.rearrange(output, wrong); }, "tree profile do not match");
}

TEST(Layout, Coalesces) {
  EXPECT_EQ(make({2, {3, 1}, 4}, {1, {2, 9}, 6}).coalesce(), Layout::leaf(24, 1));
  EXPECT_EQ(make({2, 3}, {1, 4}).coalesce(), make({2, 3}, {1, 4}));
  EXPECT_EQ(make({1, 1}, {7, 3}).coalesce(), Layout::leaf(1, 7));
  EXPECT_EQ(Layout().coalesce(), Layout());
  EXPECT_EQ(make({{2, 3}, {4, 5}}, {{1, 2}, {6, 7}}).coalesce_by_mode(Tree{Node::Leaf, Node::Leaf}),
            make({6, {4, 5}}, {1, {6, 7}}));
}

TEST(LayoutAlgebra, ChoosesAndKeeps) {
  EXPECT_EQ(make({3, 6, 2, 8}, {5, 15, 90, 180}).choose(9), make({1, 2, 2, 8}, {45, 45, 90, 180}));
  EXPECT_EQ(make({3, 6, 2, 8}, {1, 1, 1, 1}).choose(72), make({1, 1, 1, 4}, {72, 24, 4, 2}));
  EXPECT_EQ(make({3, 6, 2, 8}, {1, 3, 18, 36}).modout(6), make({3, 2, 1, 1}, {1, 3, 18, 36}));
  const Layout a = make({4, 3}, {1, 4});
  for (const Index d : {3, 24, 0}) expect_error<ValueError>([&] { (void)a.choose(d); }, "choose the d-th");
  for (const Index s : {6, 24, 0})
    expect_error<ValueError>([&] { (void)a.modout(s); }, "divisibility condition");
  const Layout nested = make({{4, 3}}, {{1, 4}});
  expect_error<ValueError>([&] { (void)nested.modout(2); }, "flat");
  expect_error<ValueError>([&] { (void)nested.choose(2); }, "flat");
}

TEST(LayoutAlgebra, Composes) {
  EXPECT_EQ(Layout::leaf(18, 3).try_compose(make({3, 6}, {6, 1})), make({3, 6}, {18, 3}));
  EXPECT_EQ(make({4, 3}, {5, 1}).try_compose(make({2, 6}, {6, 1})), std::nullopt);  // 6 does not divide 4
  EXPECT_EQ(make({6, 2}, {2, 1}).try_compose(make({4, 3}, {3, 1})), make({{2, 2}, 3}, {{6, 1}, 2}));
  const Ref<IndexMap> outer = share(make({2, 3}, {1, 4}));
  const Ref<IndexMap> inner = share(make({2, 2}, {1, 1}));
  const Ref<IndexMap> opaque = IndexMap::compose(outer, inner);
  EXPECT_EQ(dynamic_cast<const Layout*>(opaque.get()), nullptr);
  EXPECT_EQ(opaque->injectivity(), false);
  EXPECT_THAT(values(*opaque), ElementsAre(0, 1, 1, 4));
  expect_error<ValueError>([&] { (void)IndexMap::compose(inner, outer); }, "inner codomain exceeds");
  EXPECT_EQ(opaque->index(Coordinate{1, 1}), 4);
  expect_error<ValueError>([&] { (void)opaque->index(4); }, "Key is not in domain of shape");
}

TEST(LayoutAlgebra, ReturnsTheOperandItselfForIdentities) {
  const Ref<IndexMap> a = share(make({2, 3}, {1, 4}));
  const Ref<IndexMap> identity = share(Layout::canonical(Shape{2, 3}));
  const Ref<IndexMap> flat_identity = share(Layout::leaf(9, 1));
  EXPECT_EQ(IndexMap::compose(a, identity), a);
  const Ref<IndexMap> nine = share(make({2, 2}, {1, 7}));
  EXPECT_EQ(IndexMap::compose(flat_identity, nine), nine);
}

TEST(LayoutAlgebra, ComposesWithTiles) {
  const Layout a = make({{4, 6}, 3}, {{7, 30}, 1});
  EXPECT_EQ(make({4, 6}, {7, 30}).compose(Shape{2}), make({2, 6}, {7, 30}));
  EXPECT_EQ(a.compose(Shape{8}), make({{4, 2}, 3}, {{7, 30}, 1}));
  EXPECT_EQ(a.compose(std::vector<Layout>{}), a);
  expect_error<ValueError>([&] { (void)a.compose(Shape{2, 3, 4}); }, "more tiles");
  expect_error<ValueError>([&] { (void)a.compose(Shape{2, 4}); }, "reaches beyond its mode");
}

TEST(LayoutAlgebra, ComplementsAndDivides) {
  EXPECT_EQ(make({2, 3}, {1, 4}).complement(24), make({2, 2}, {2, 12}));
  EXPECT_EQ(Layout::leaf(3, 2).complement(24), make({2, 4}, {1, 6}));
  EXPECT_EQ(Layout::leaf(24, 1).complement(24), Layout());
  EXPECT_EQ(Layout().complement(5), Layout::leaf(5, 1));
  expect_error<ValueError>([] { (void)make({2, 2}, {1, 1}).complement(24); }, "overlaps with itself");
  expect_error<ValueError>([] { (void)make({2, 2}, {0, 1}).complement(24); }, "overlaps with itself");
  expect_error<ValueError>([] { (void)make({2, 2}, {1, 3}).complement(24); }, "incongruent");
  expect_error<ValueError>([] { (void)Layout::leaf(4, 1).complement(6); }, "incongruent");
  expect_error<ValueError>([] { (void)Layout::leaf(4, 2).complement(6); }, "larger than cotarget");
  expect_error<ValueError>([] { (void)Layout().complement(0); }, "cotarget");
  EXPECT_EQ(make({4, 6}, {7, 30}).divide(Layout::leaf(6, 2)), make({{2, 3}, {2, 2}}, {{14, 30}, {7, 90}}));
  const std::vector<Layout> tiler{Layout::leaf(4, 2), make({2, 3}, {1, 4})};
  const Layout a = make({8, {2, 6}}, {24, {12, 2}});
  EXPECT_EQ(a.zipped_divide(tiler), make({{4, {2, 3}}, {2, 2}}, {{48, {12, 4}}, {24, 2}}));
  EXPECT_EQ(a.divide_tiler(tiler), make({{4, 2}, {{2, 3}, 2}}, {{48, 24}, {{12, 4}, 2}}));
  EXPECT_EQ(make({4, 5}, {1, 4}).zipped_divide(std::vector{Layout::leaf(4, 1)}), make({4, 1, 5}, {1, 0, 4}));
}

TEST(LayoutAlgebra, CompositionIsEvaluationInTurn) {
  std::mt19937 random(11);
  int layouts = 0;
  for (int i = 0; i < 20000; ++i) {
    const Layout outer = random_layout(random, 3, 6, 20);
    const Layout inner = random_layout(random, 3, 4, 6);
    if (inner.cosize() > outer.size()) continue;
    const Ref<IndexMap> result = IndexMap::compose(share(outer), share(inner));
    layouts += dynamic_cast<const Layout*>(result.get()) != nullptr ? 1 : 0;
    ASSERT_EQ(result->domain_size(), inner.size());
    for (Index q = 0; q < inner.size(); ++q)
      ASSERT_EQ(result->index_ordinal(q), outer(inner(q))) << outer.to_string() << " o " << inner.to_string();
  }
  EXPECT_GT(layouts, 500);
}

TEST(Tree, HasARecipeAndReshapes) {
  const Tree tree{Node::id(3), {Node::Leaf, Node::Leaf}};
  EXPECT_EQ(tree.size(), 3u);
  EXPECT_EQ(tree.depth(), 2u);
  EXPECT_THAT(tree.recipe(), ElementsAre(Node::Leaf, Node::Push, Node::Leaf, Node::Leaf, Node::Pop));
  EXPECT_EQ(tree.reshape(std::vector<Index>{7, 8, 9}), (Coordinate{7, {8, 9}}));
  expect_error<ValueError>([&] { (void)tree.reshape(std::vector<Index>{7, 8}); }, "too few");
  expect_error<ValueError>([&] { (void)tree.reshape(std::vector<Index>{7, 8, 9, 0}); }, "too many");
  EXPECT_EQ(Tree{Node::Leaf}, Tree(Nested<Node>(Node::Leaf)));
  EXPECT_NE(Tree{Node::Leaf}, Tree{Node::id(0)});
  expect_error<ValueError>([] { (void)Tree{Node::Push}; }, "leaf");
  expect_error<ValueError>([] { (void)Node::id(-1); }, "negative");
}

// The ordinals backwards; what it is asked for injectivity and identity is up to the test.
class Backwards final : public StoredIndexMap {
 public:
  Backwards(Index count, std::optional<bool> known) : StoredIndexMap(Shape{count}, count, known) {}
  [[nodiscard]] Index index_ordinal(Index ordinal) const override { return codomain_size() - 1 - ordinal; }
};

TEST(IndexMap, ComposesOpaquely) {
  const Ref<IndexMap> swap = share(make({2, 2}, {2, 1}));
  const Ref<IndexMap> back = make_ref<Backwards>(4, true);
  const Ref<IndexMap> chain = IndexMap::compose(IndexMap::compose(swap, back), swap);
  EXPECT_THAT(values(*chain), ElementsAre(3, 2, 1, 0));
  EXPECT_EQ(chain->injectivity(), true);
  EXPECT_EQ(chain->shape(), (Shape{2, 2}));
  EXPECT_EQ(dynamic_cast<const Composition&>(*chain).chain().size(), 3u);
  EXPECT_EQ(IndexMap::compose(swap, make_ref<Backwards>(4, std::nullopt))->injectivity(), std::nullopt);
  EXPECT_EQ(IndexMap::compose(swap, make_ref<Backwards>(4, false))->injectivity(), false);
  EXPECT_EQ(IndexMap::compose(make_ref<Backwards>(4, false), swap)->injectivity(), std::nullopt);
  expect_error<ValueError>([] { (void)Backwards(3, true).index(3); }, "Key is not in domain of shape");
  expect_error<ValueError>([] { (void)Backwards(0, true); }, "must not be less than 1");
}

TEST(IndexMap, LongChainsStayFlat) {
  const Ref<IndexMap> back = make_ref<Backwards>(4, true);
  Ref<IndexMap> chain = back;
  for (int i = 0; i < 1000; ++i) chain = IndexMap::compose(chain, back);
  EXPECT_THAT(values(*chain), ElementsAre(3, 2, 1, 0));
}

TEST(Permutation, ComposesToAPermutation) {
  const Ref<IndexMap> outer = make_ref<Permutation>(std::vector<Index>{2, 0, 4}, 5);
  const Ref<IndexMap> inner = make_ref<Permutation>(std::vector<Index>{2, 0}, 3);
  const Ref<IndexMap> both = IndexMap::compose(outer, inner);
  EXPECT_THAT(dynamic_cast<const Permutation&>(*both).values(), ElementsAre(4, 2));
  EXPECT_EQ(IndexMap::compose(outer, make_ref<Permutation>(std::vector<Index>{0, 1, 2}, 3)), outer);
  expect_error<ValueError>([] { (void)Permutation({}, 3); }, "at least one entry");
  expect_error<ValueError>([] { (void)Permutation({-1}, 3); }, "non-negative");
  expect_error<ValueError>([] { (void)Permutation({3}, 3); }, "smaller than codomain_size");
  expect_error<ValueError>([] { (void)Permutation({1, 1}, 3); }, "pairwise distinct");
}

TEST(Product, PairsItsChildren) {
  const Ref<IndexMap> a = make_ref<Permutation>(std::vector<Index>{2, 0}, 5);
  const Ref<IndexMap> b = make_ref<Permutation>(std::vector<Index>{1, 3}, 7);
  const Ref<IndexMap> product = make_ref<Product>(std::vector{a, b});
  EXPECT_EQ(product->index({0, 0}), 7);
  EXPECT_EQ(product->index({1, 1}), 15);
  EXPECT_EQ(product->codomain_size(), 35);
  const Ref<IndexMap> swap = make_ref<Permutation>(std::vector<Index>{1, 0}, 2);
  const Ref<IndexMap> both = IndexMap::compose(product, make_ref<Product>(std::vector{swap, swap}));
  EXPECT_NE(dynamic_cast<const Product*>(both.get()), nullptr);
  EXPECT_EQ(both->index({0, 0}), 15);
  const Ref<IndexMap> nested =
      make_ref<Product>(std::vector{product, share(Layout()), share(make({2, 3}, {1, 2}))});
  EXPECT_EQ(nested->shape(), (Shape{{2, 2}, Coordinate(std::vector<Coordinate>{}), {2, 3}}));
  expect_error<ValueError>([&] { (void)Product({a}); }, "at least two");
}

TEST(Swizzle, XorsBitFields) {
  EXPECT_EQ(Swizzle(Shape{16}, {SwizzleStage(2, 0, 2)}).index(0b0111), 0b0110);
  EXPECT_EQ(Swizzle(Shape{16}, {SwizzleStage(2, 0, -2)}).index(0b0111), 0b1011);
  const Ref<IndexMap> swizzle =
      make_ref<Swizzle>(Shape{16}, std::vector{SwizzleStage(2, 0, 2), SwizzleStage(1, 0, 3)});
  const Ref<IndexMap> undo =
      make_ref<Swizzle>(Shape{4, 4}, std::vector{SwizzleStage(1, 0, 3), SwizzleStage(2, 0, 2)});
  const Ref<IndexMap> nothing = IndexMap::compose(swizzle, undo);
  EXPECT_TRUE(dynamic_cast<const Swizzle&>(*nothing).stages().empty());
  EXPECT_EQ(nothing->shape(), (Shape{4, 4}));
  expect_error<ValueError>([] { (void)Swizzle(Shape{12}, {}); }, "power of two");
  expect_error<ValueError>([] { (void)Swizzle(Shape{16}, {SwizzleStage(2, 1, 2)}); },
                           "exceed the domain bit width");
  expect_error<ValueError>([] { (void)SwizzleStage(2, 0, 1); }, "must not overlap");
}

TEST(StridedLoop, MergesWhatAllOperandsAllow) {
  const Layout a = Layout::canonical(Shape{2, 1, 3, 4});
  const Layout b = make({2, 1, 3, 4}, {1, 5, 2, 0});
  const Layout* layouts[] = {&a, &b};
  const StridedLoop loop = coalesce_together(a.extents(), layouts);
  EXPECT_THAT(loop.extents, ElementsAre(6, 4));
  EXPECT_THAT(loop.strides, ElementsAre(1, 1, 6, 0));
  EXPECT_EQ(loop.size, 24);
  const Layout* alone[] = {&a};
  EXPECT_TRUE(coalesce_together(a.extents(), alone).is_contiguous(0));
  const Layout other = Layout::canonical(Shape{2, 2, 3, 4});
  const Layout* unlike[] = {&a, &other};
  expect_error<ValueError>([&] { (void)coalesce_together(a.extents(), unlike); }, "share their leaf extents");
}

TEST(StridedLoop, StaysAtCoordinateZeroOfNarrowLeaves) {
  const Layout result = Layout::canonical(Shape{2, 3, 4});
  const Layout row = make({2, 1, 1}, {1, 7, 7});
  const Layout* layouts[] = {&result, &row, nullptr};
  const StridedLoop loop = coalesce_together(result.extents(), layouts);
  EXPECT_THAT(loop.extents, ElementsAre(2, 12));
  EXPECT_THAT(loop.strides, ElementsAre(1, 1, 0, 2, 0, 0));
}

TEST(StridedLoop, WalksEveryRangeOfOrdinals) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const Layout a = random_layout(random, 4, 4, 30);
    const Layout canonical = Layout::canonical(a.shape());
    const Layout* layouts[] = {&a, &canonical};
    const StridedLoop loop = coalesce_together(a.extents(), layouts);
    const Index first = a.size() / 3;
    const Index last = a.size() - a.size() / 4;
    Index ordinal = first;
    for_each_run(loop, first, last, [&](std::span<const Index> offsets, Index count) {
      for (Index k = 0; k < count; ++k, ++ordinal) {
        ASSERT_EQ(offsets[0] + (k == 0 ? 0 : k * loop.stride(0, 0)), a(ordinal));
        ASSERT_EQ(offsets[1] + (k == 0 ? 0 : k * loop.stride(0, 1)), ordinal);
      }
    });
    ASSERT_EQ(ordinal, std::max(first, last));
  }
}

TEST(Sequence, TakesIntegersOfAnyType) {
  const std::vector<int> order{1, 0};
  const int sizes[] = {3, 4};
  const Layout layout = Layout::canonical(Shape::flat(sizes));
  EXPECT_EQ(layout, Layout::canonical(Shape{3, 4}));
  EXPECT_EQ(layout.permute(order).shape(), (Shape{4, 3}));
  EXPECT_EQ(layout.permute(std::span(order)).shape(), (Shape{4, 3}));
  EXPECT_EQ(layout.permute(std::list<short>{1, 0}).shape(), (Shape{4, 3}));
  const std::initializer_list<int> list{1, 0};
  EXPECT_EQ(layout.permute(list).shape(), (Shape{4, 3}));
  EXPECT_EQ(layout.select(order), layout.permute(order));
  EXPECT_EQ(Stride::flat(std::array<unsigned, 2>{4, 1}), (Stride{4, 1}));
  const Sequence<Index> copy = Sequence<Index>(order);
  EXPECT_THAT(std::vector<Index>(copy.begin(), copy.end()), ElementsAre(1, 0));
}

TEST(Sequence, RefusesIntegersThatDoNotFit) {
  expect_error<OverflowError>(
      [] { return Shape::flat(std::vector<std::uint64_t>{2, std::uint64_t{1} << 63}); },
      "an integer is out of range: 9223372036854775808");
  expect_error<OverflowError>([] { return Layout::canonical(Shape{2}).select(std::vector<int>{-1}); },
                              "an integer is out of range: -1");
  static_assert(!std::constructible_from<Sequence<Index>, const std::vector<bool>&>);
  static_assert(!std::constructible_from<Sequence<Index>, const std::string&>);
  static_assert(!std::constructible_from<Sequence<Index>, const std::vector<double>&>);
}

}  // namespace
}  // namespace orlop
