// The command grammar (M701–M706), and the functions that take commands (M707, P64).
#include "orlop/operation/command.hpp"

#include <string>
#include <thread>

#include "backends.hpp"
#include "orlop/operation/autograd.hpp"
#include "orlop/operation/functional.hpp"
#include "orlop/operation/views.hpp"

namespace orlop {
namespace {

using namespace testing_support;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::EndsWith;
using testing::HasSubstr;
using testing::ThrowsMessage;

Node id(Index number) { return Node::id(number); }
const Node leaf = Node::Leaf;

TEST(Lex, NamesEachWordAndItsPlace) {
  EXPECT_THAT(lex(" b (h1 1)\t->\n,"),
              ElementsAre(Token{TokenKind::symbol, "b", 1, 2}, Token{TokenKind::left_paren, "(", 3, 4},
                          Token{TokenKind::symbol, "h1", 4, 6}, Token{TokenKind::one, "1", 7, 8},
                          Token{TokenKind::right_paren, ")", 8, 9}, Token{TokenKind::arrow, "->", 10, 12},
                          Token{TokenKind::comma, ",", 13, 14}));
  EXPECT_THAT(lex(" \t\n\r\f\v"), testing::IsEmpty());
}

struct Fault {
  std::string command;
  std::string text;
};

TEST(Lex, RefusesWhatIsNoWord) {
  for (const Fault& fault :
       std::vector<Fault>{{"a\xc3\xa9", "Layout command must contain only ASCII characters at offset 1"},
                          {"-\xc3\xa9", "Layout command must contain only ASCII characters at offset 1"},
                          {"1\xff", "Layout command must contain only ASCII characters at offset 1"},
                          {"a - b", "Expected '->' arrow token at offset 2"},
                          {"a -", "Expected '->' arrow token at offset 2"},
                          {"a > b", "Unexpected '>' at offset 2"},
                          {"11", "Invalid singleton token at offset 0"},
                          {"a 1b", "Invalid singleton token at offset 2"},
                          {"2", "Invalid dimension symbol at offset 0"},
                          {"_a", "Invalid dimension symbol at offset 0"},
                          {"a .", "Unexpected character at offset 2"},
                          {std::string("a\0", 2), "Unexpected character at offset 1"}})
    EXPECT_THAT([&] { (void)lex(fault.command); }, ThrowsMessage<ValueError>(EndsWith(fault.text)))
        << fault.command;
}

TEST(LayoutReference, NumbersItsLeavesFromTheLeft) {
  const LayoutReference reference = parse_layout_ref(lex("m (1 (n)) k"));
  EXPECT_EQ(reference.tree, (Tree{leaf, {leaf, {leaf}}, leaf}));
  EXPECT_THAT(reference.symbol_ids, ElementsAre(SymbolId{"m", 0}, SymbolId{"n", 2}, SymbolId{"k", 3}));
}

TEST(LayoutReference, RefusesWhatIsNone) {
  for (const Fault& fault :
       std::vector<Fault>{{"", "Layout reference must not be empty"},
                          {"a (", "Layout reference must not be empty"},
                          {"a (()", "Empty parenthesized group at offset 4"},
                          {"()", "Empty parenthesized group at offset 1"},
                          {"a) b", "Unmatched right parenthesis at offset 1"},
                          {")", "Unmatched right parenthesis at offset 0"},
                          {"(a (b", "Unclosed left parenthesis at offset 3"},
                          {"(a (b)", "Unclosed left parenthesis at offset 0"},
                          {"a, b", "Commas are not valid in layout references at offset 1"},
                          {"a -> b", "Arrows are not valid in layout references at offset 2"},
                          {"ab (c ab)", "Duplicate dimension symbol 'ab' at offset 6"}})
    EXPECT_THAT([&] { (void)parse_layout_ref(lex(fault.command)); },
                ThrowsMessage<ValueError>(EndsWith(fault.text)))
        << fault.command;
}

TEST(LayoutReference, LimitsItsDepth) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '(') + "a" + std::string(depth, ')');
  };
  EXPECT_EQ(parse_layout_ref(lex(nested(max_nesting_depth - 1))).tree.depth(), max_nesting_depth);
  EXPECT_THROW((void)parse_layout_ref(lex(nested(max_nesting_depth))), ValueError);
  EXPECT_THROW((void)parse_layout_ref(lex(std::string(1'000'000, '('))), ValueError);
}

TEST(ParseRearrange, MakesTreesOfBothSides) {
  const RearrangeSpec& spec = parse_rearrange("a 1 (b c) -> (c a) 1 b");
  EXPECT_EQ(spec.selection, (Tree{leaf, leaf, {leaf, leaf}}));
  EXPECT_EQ(spec.output, (Tree{{id(3), id(0)}, leaf, id(2)}));
  EXPECT_THAT(spec.symbol_ids, ElementsAre(SymbolId{"a", 0}, SymbolId{"b", 2}, SymbolId{"c", 3}));
}

TEST(ParseReduce, CollectsWhatTheOutputLeavesOut) {
  const ReduceSpec& spec = parse_reduce("m (p q) n -> m p");
  EXPECT_EQ(spec.selection, (Tree{leaf, {leaf, leaf}, leaf}));
  EXPECT_EQ(spec.output, (Tree{id(0), id(1)}));
  EXPECT_EQ(spec.reduced, (Tree{id(2), id(3)}));
  EXPECT_EQ(spec.rearrange_output, (Tree{{id(0), id(1)}, {id(2), id(3)}}));
}

TEST(ParseEinsum, WithoutABatchIsAMatmul) {
  const EinsumSpec& spec = parse_einsum("p q, r q -> p r");
  EXPECT_EQ(spec.lhs_selection, (Tree{leaf, leaf}));
  EXPECT_EQ(spec.lhs_rearrange_output, (Tree{{id(0)}, {id(1)}}));
  EXPECT_EQ(spec.rhs_rearrange_output, (Tree{{id(0)}, {id(1)}}));
  EXPECT_EQ(spec.matmul_output_selection, (Tree{{leaf}, {leaf}}));
  EXPECT_EQ(spec.output, (Tree{id(0), id(1)}));
  EXPECT_THAT(spec.common_symbols, ElementsAre("q"));
  EXPECT_THAT(spec.union_symbols, ElementsAre("p", "q", "r"));
  EXPECT_THAT(spec.contraction_symbols, ElementsAre("q"));
  EXPECT_THAT(spec.batch_symbols, testing::IsEmpty());
  EXPECT_EQ(spec.lhs_union_output, (Tree{id(0), id(1), leaf}));
  EXPECT_EQ(spec.rhs_union_output, (Tree{leaf, id(1), id(0)}));
  EXPECT_EQ(spec.union_selection, (Tree{leaf, leaf, leaf}));
  EXPECT_EQ(spec.general_output, (Tree{id(0), id(2)}));
  EXPECT_EQ(parse_einsum("q, r q -> r").output, Tree{id(1)});
  EXPECT_EQ(parse_einsum("q, r q -> r").lhs_rearrange_output, (Tree{{leaf}, {id(0)}}));
}

TEST(ParseEinsum, WithABatchIsAProductOverTheUnion) {
  const EinsumSpec& spec = parse_einsum("h i k, h j k -> h i j");
  EXPECT_THAT(spec.union_symbols, ElementsAre("h", "i", "k", "j"));
  EXPECT_THAT(spec.batch_symbols, ElementsAre("h"));
  EXPECT_THAT(spec.contraction_symbols, ElementsAre("k"));
  EXPECT_EQ(spec.lhs_rearrange_output, (Tree{id(0), id(1), id(2), leaf}));
  EXPECT_EQ(spec.rhs_rearrange_output, (Tree{id(0), leaf, id(2), id(1)}));
  EXPECT_EQ(spec.matmul_output_selection, (Tree{leaf, leaf, leaf, leaf}));
  EXPECT_EQ(spec.output, (Tree{id(0), id(1), id(3)}));
}

TEST(Commands, NameWhatIsWrong) {
  const auto fails = [](auto parse, const std::vector<Fault>& faults) {
    for (const Fault& fault : faults)
      EXPECT_THAT([&] { (void)parse(fault.command); }, ThrowsMessage<ValueError>(EndsWith(fault.text)))
          << fault.command;
  };
  fails(parse_rearrange, {{"a b", "Rearrange command must contain one '->' arrow"},
                          {"a -> a -> a", "Rearrange command must contain only one '->' arrow"},
                          {"-> a", "Layout reference must not be empty"},
                          {"a a -> b", "Duplicate dimension symbol 'a' at offset 2"},
                          {"a -> b", "Unknown dimension symbol 'b' at offset 5"},
                          {"ab c -> ab ab", "Duplicate output dimension symbol 'ab' at offset 11"},
                          {"a, b -> a b", "Commas are not valid in layout references at offset 1"}});
  fails(parse_reduce, {{"a b", "Reduce command must contain one '->' arrow"},
                       {"a -> a -> a", "Reduce command must contain only one '->' arrow"},
                       {"a b -> b a 1", "Reduce command must omit at least one dimension"}});
  fails(parse_einsum, {{"a, b", "Einsum command must contain one '->' arrow"},
                       {"a, b -> a -> b", "Einsum command must contain only one '->' arrow"},
                       {"a b -> a", "Contraction command must contain one comma before '->'"},
                       {"a, b, c -> a", "Contraction command must contain only one comma before '->'"},
                       {"a b, c d -> (", "Contraction command must include at least one shared dimension"},
                       {"p q, r q -> p, r", "Commas are not valid in layout references at offset 13"},
                       {"d q c, q -> q", "Einsum output must include every non-shared input symbol: c, d"}});
}

TEST(Commands, AreCompiledOncePerString) {
  EXPECT_EQ(&parse_reduce("a b -> a"), &parse_reduce("a b -> a"));
  EXPECT_NE(&parse_reduce("a b -> a"), &parse_reduce("a b ->  a"));
  std::vector<const EinsumSpec*> compiled(4);
  std::vector<std::thread> threads;
  for (const EinsumSpec*& spec : compiled)
    threads.emplace_back([&spec] { spec = &parse_einsum("u v, w v -> u w"); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(compiled, testing::Each(compiled.front()));
}

// --- Functions
// ------------------------------------------------------------------------------------------------

/// 0, 1, 2, … in the canonical layout.
Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.size()));
  std::iota(values.begin(), values.end(), 0.0F);
  return make_tensor(Backend::cpu, values, shape);
}

TEST(Rearrange, TakesACommand) {
  const Tensor tensor = counting(Shape{2, {3, 4}});
  EXPECT_EQ(rearrange(tensor, "a (b c) -> (c a) b 1").layout(),
            Layout(Shape{{4, 2}, 3, 1}, Stride{{6, 1}, 2, 0}));
  EXPECT_THAT([&] { (void)rearrange(tensor, "a b c -> c a b"); },
              ThrowsMessage<ValueError>(HasSubstr("layout and tree profile do not match")));
  EXPECT_THAT(
      [&] { (void)rearrange(tensor, "a b -> a"); },
      ThrowsMessage<ValueError>(HasSubstr("Layout rearrange ids must include every extracted layout")));
}

TEST(Reduce, KeepsTheOutputsShape) {
  const Tensor tensor = counting(Shape{3, 4});
  const Tensor sum = reduce_sum(tensor, "p q -> (q 1)");
  EXPECT_EQ(sum.layout(), Layout(Shape{{4, 1}}, Stride{{1, 4}}));
  EXPECT_THAT(elements<float>(sum), ElementsAre(3, 12, 21, 30));
  const Tensor all = reduce_sum(tensor, "p q -> 1");
  EXPECT_EQ(all.layout(), Layout::canonical(Shape{1}));
  EXPECT_THAT(elements<float>(all), ElementsAre(66));
  EXPECT_THAT(elements<float>(reduce_max(tensor, "p q -> p")), ElementsAre(9, 10, 11));
  EXPECT_THAT(elements<float>(reduce_min(tensor, "p q -> q")), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(elements<std::int32_t>(argmax(tensor, "p q -> 1")), ElementsAre(11));
  EXPECT_THAT(elements<std::int32_t>(argmin(tensor, "p q -> p")), ElementsAre(0, 0, 0));
  // A symbol may stand for a nested mode.
  EXPECT_EQ(reduce_sum(counting(Shape{{2, 3}, 4}), "p q -> p").layout(), Layout::canonical(Shape{{2, 3}}));
}

TEST(Reduce, PassesTheAccumulatorOn) {
  const Tensor tensor =
      place<float>(Backend::reference, {16777216.0F, 1.0F, 1.0F, -16777216.0F}, Layout::leaf(4, 1));
  EXPECT_THAT(elements<float>(reduce_sum(tensor, "k -> 1")), ElementsAre(0));
  EXPECT_THAT(elements<float>(reduce_sum(tensor, "k -> 1", {.accumulator_dtype = dtypes::Float64})),
              ElementsAre(2));
  EXPECT_THROW((void)reduce_sum(tensor, "k -> 1", {.accumulator_dtype = dtypes::Int32}), NotImplementedError);
}

TEST(Reduce, GradientGoesThroughTheRearrangement) {
  const Tensor tensor = counting(Shape{2, 3});
  backward(reduce_sum(tensor, "a b -> b"), make_tensor<float>(Backend::cpu, {1, 2, 3}, Shape{3}));
  EXPECT_THAT(elements<float>(gradient_of(tensor)), ElementsAre(1, 1, 2, 2, 3, 3));
}

/// Element at flat coordinates.
float at(const Tensor& tensor, std::initializer_list<Index> coordinate) {
  return tensor.at(Coordinate(std::vector<Coordinate>(coordinate.begin(), coordinate.end()))).to_binary32();
}

TEST(Einsum, ContractsWithoutABatch) {
  const Tensor lhs = counting(Shape{2, 3, 4});
  const Tensor rhs = counting(Shape{5, 4, 3});
  const Tensor result = einsum(lhs, rhs, "a b c, d c b -> d 1 a");
  EXPECT_EQ(result.layout(), Layout(Shape{5, 1, 2}, Stride{2, 0, 1}));
  for (Index a = 0; a < 2; ++a)
    for (Index d = 0; d < 5; ++d) {
      float sum = 0;
      for (Index b = 0; b < 3; ++b)
        for (Index c = 0; c < 4; ++c) sum += at(lhs, {a, b, c}) * at(rhs, {d, c, b});
      EXPECT_EQ(at(result, {d, 0, a}), sum);
    }
  EXPECT_THAT(elements<float>(einsum(counting(Shape{3}), counting(Shape{3}), "q, q -> 1")), ElementsAre(5));
  EXPECT_THAT(elements<float>(einsum(counting(Shape{3}), counting(Shape{2, 3}), "q, r q -> r")),
              ElementsAre(10, 13));
}

TEST(Einsum, MultipliesAndSumsWithABatch) {
  const Tensor lhs = counting(Shape{2, 3, 4, 2});
  const Tensor rhs = counting(Shape{2, 5, 2, 4});
  const Tensor result = einsum(lhs, rhs, "h i k m, h j m k -> h m i j");
  ASSERT_EQ(result.layout(), Layout::canonical(Shape{2, 2, 3, 5}));
  for (Index h = 0; h < 2; ++h)
    for (Index m = 0; m < 2; ++m)
      for (Index i = 0; i < 3; ++i)
        for (Index j = 0; j < 5; ++j) {
          float sum = 0;
          for (Index k = 0; k < 4; ++k) sum += at(lhs, {h, i, k, m}) * at(rhs, {h, j, m, k});
          EXPECT_EQ(at(result, {h, m, i, j}), sum);
        }
  EXPECT_THAT(elements<float>(einsum(counting(Shape{3}), counting(Shape{3}), "a, a -> a")),
              ElementsAre(0, 1, 4));
}

TEST(Einsum, LetsASymbolStandForANestedMode) {
  const Tensor lhs = counting(Shape{{2, 2}, 3});
  const Tensor rhs = counting(Shape{5, 3});
  EXPECT_EQ(einsum(lhs, rhs, "i k, j k -> j i").layout().shape(), (Shape{5, {2, 2}}));
  EXPECT_EQ(einsum(lhs, rhs, "i k, j k -> k j i").layout().shape(), (Shape{3, 5, {2, 2}}));
  const Tensor nested = einsum(lhs, rhs, "i k, j k -> (i j)");
  EXPECT_EQ(nested.layout().shape(), (Shape{{{2, 2}, 5}}));
}

TEST(Einsum, RefusesMismatchedOperandsBeforeItComputes) {
  const Tensor lhs = counting(Shape{2, 3});
  EXPECT_THAT(
      [&] { (void)einsum(lhs, counting(Shape{2, 4}), "i k, j k -> i j"); },
      ThrowsMessage<ValueError>(HasSubstr("Einsum shared dimension 'k' has mismatched logical size")));
  EXPECT_THAT([&] { (void)einsum(lhs, counting(Shape{2}), "i k, j k -> i j"); },
              ThrowsMessage<ValueError>(HasSubstr("layout and tree profile do not match")));
}

}  // namespace
}  // namespace orlop
