// Contractions of two Tensors as rearrangements around matmul, or around a product and a sum (M707).
#include "layout/nest.hpp"
#include "orlop/operation/command.hpp"
#include "orlop/operation/functional.hpp"
#include "orlop/operation/views.hpp"

namespace orlop::inline v0 {

namespace {

/// One operand's symbols and the layouts they stand for.
class Side {
 public:
  Side(const Layout& layout, const Tree& selection, const std::vector<SymbolId>& ids)
      : ids_(ids), sources_(layout.extract_profile(selection)) {}

  /// The number of the symbol's source, or -1.
  [[nodiscard]] Index id(const std::string& symbol) const {
    for (const SymbolId& entry : ids_)
      if (entry.symbol == symbol) return entry.id;
    return -1;
  }
  [[nodiscard]] const Layout& source(const std::string& symbol) const {
    return sources_[static_cast<std::size_t>(id(symbol))];
  }

 private:
  const std::vector<SymbolId>& ids_;
  std::vector<Layout> sources_;
};

void check_shared_sizes(const EinsumSpec& spec, const Side& lhs, const Side& rhs) {
  for (const std::string& symbol : spec.common_symbols) {
    const Index left = lhs.source(symbol).size();
    const Index right = rhs.source(symbol).size();
    if (left != right)
      raise<ValueError>("einsum", "Einsum shared dimension '", symbol,
                        "' has mismatched logical size: ", left, " on the left and ", right,
                        " on the right; both operands must agree");
  }
}

/// One item per symbol of the union: the operand's source, or where it has none leaves of extent 1, nested as
/// the other's source is.
Tree union_output(const EinsumSpec& spec, const Side& side, const Side& other) {
  detail::NestBuilder builder;
  for (const std::string& symbol : spec.union_symbols) {
    if (const Index id = side.id(symbol); id >= 0) {
      builder.leaf(id);
      continue;
    }
    const Shape shape = other.source(symbol).shape();
    const std::vector<Index> inserted(shape.leaves().size(), -1);
    builder.append(detail::with_leaves(shape.nest(), inserted));
  }
  return Tree(builder.finish());
}

/// The selection of the symbols in a product. A group of one leaf has collapsed into that leaf on the way.
Tree selection_of(const EinsumSpec& spec, const Layout& product) {
  detail::NestCursor cursor(spec.matmul_output_selection.nest());
  std::vector<Nested<Node>> sides;
  for (const std::size_t side : {0, 1}) {
    const std::size_t modes[] = {side};
    std::vector<Nested<Node>> leaves(cursor.open(), Node::Leaf);
    for (std::size_t i = 0; i < leaves.size(); ++i) cursor.take_leaf();
    if (product.shape().select(modes).is_flat())
      sides.emplace_back(Node::Leaf);
    else
      sides.emplace_back(std::move(leaves));
  }
  return Tree(Nested<Node>(std::move(sides)));
}

Tensor contract(const EinsumSpec& spec, const Tensor& lhs, const Tensor& rhs) {
  const Tensor product = matmul(rearrange(lhs, spec.lhs_rearrange_output, spec.lhs_selection),
                                rearrange(rhs, spec.rhs_rearrange_output, spec.rhs_selection));
  return rearrange(product, spec.output, selection_of(spec, product.layout()));
}

/// The general output, then the contracted symbols as the second mode.
Tree with_contracted(const EinsumSpec& spec) {
  detail::NestBuilder builder;
  builder.push();
  builder.modes(spec.general_output.nest());
  builder.pop();
  builder.push();
  for (std::size_t i = 0; i < spec.union_symbols.size(); ++i)
    if (std::find(spec.contraction_symbols.begin(), spec.contraction_symbols.end(), spec.union_symbols[i]) !=
        spec.contraction_symbols.end())
      builder.leaf(static_cast<Index>(i));
  builder.pop();
  return Tree(builder.finish());
}

Tensor multiply_and_sum(const EinsumSpec& spec, const Tensor& lhs, const Side& left, const Tensor& rhs,
                        const Side& right) {
  const Tensor product = elementwise_mul(rearrange(lhs, union_output(spec, left, right), spec.lhs_selection),
                                         rearrange(rhs, union_output(spec, right, left), spec.rhs_selection));
  if (spec.contraction_symbols.empty()) return rearrange(product, spec.general_output, spec.union_selection);
  const Argument summed(rearrange(product, with_contracted(spec), spec.union_selection));
  return apply_operation("reduce_sum", {&summed, 1});
}

}  // namespace

Tensor einsum(const Tensor& lhs, const Tensor& rhs, std::string_view description) {
  const EinsumSpec& spec = parse_einsum(description);
  const Side left(lhs.layout(), spec.lhs_selection, spec.lhs_symbol_ids);
  const Side right(rhs.layout(), spec.rhs_selection, spec.rhs_symbol_ids);
  check_shared_sizes(spec, left, right);
  if (spec.batch_symbols.empty()) return contract(spec, lhs, rhs);
  return multiply_and_sum(spec, lhs, left, rhs, right);
}

}  // namespace orlop::inline v0
