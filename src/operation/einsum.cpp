// Contractions of two Tensors as rearrangements around matmul, or around a product and a sum (M707).
#include <algorithm>
#include <array>
#include <numeric>

#include "layout/nest.hpp"
#include "operation/definition.hpp"
#include "operation/matrix.hpp"
#include "orlop/operation/command.hpp"
#include "orlop/operation/functional.hpp"
#include "orlop/operation/grad_mode.hpp"
#include "orlop/operation/invocation_executor.hpp"
#include "orlop/operation/views.hpp"

namespace orlop::inline v0 {

namespace {

/// The number of each of some symbols; the symbols outlive it.
class SymbolNumbers {
 public:
  explicit SymbolNumbers(const std::vector<SymbolId>& ids) {
    entries_.reserve(ids.size());
    for (const SymbolId& entry : ids) entries_.emplace_back(entry.symbol, entry.id);
    std::ranges::sort(entries_);
  }
  /// Counts them.
  explicit SymbolNumbers(const std::vector<std::string>& symbols) {
    entries_.reserve(symbols.size());
    for (const std::string& symbol : symbols)
      entries_.emplace_back(symbol, static_cast<Index>(entries_.size()));
    std::ranges::sort(entries_);
  }

  /// The symbol's number, or -1.
  [[nodiscard]] Index find(std::string_view symbol) const {
    const auto found = std::ranges::lower_bound(entries_, symbol, {}, &Entry::first);
    return found == entries_.end() || found->first != symbol ? -1 : found->second;
  }

 private:
  using Entry = std::pair<std::string_view, Index>;
  std::vector<Entry> entries_;
};

/// One operand's symbols and the modes they stand for; the layout outlives it.
class Side {
 public:
  Side(const Layout& layout, const Tree& selection, const std::vector<SymbolId>& ids,
       const SymbolNumbers& common)
      : ids_(ids), sources_(detail::extract_modes(layout, selection)) {
    for (const SymbolId& entry : ids)
      if (common.find(entry.symbol) < 0) free_symbols_.push_back(entry.symbol);
  }

  /// The number of the symbol's source, or -1.
  [[nodiscard]] Index id(const std::string& symbol) const { return ids_.find(symbol); }
  [[nodiscard]] detail::ModeReader source(const std::string& symbol) const {
    return sources_[static_cast<std::size_t>(id(symbol))];
  }
  /// Those that the other operand does not have.
  [[nodiscard]] const std::vector<std::string>& free_symbols() const { return free_symbols_; }
  /// The sources of some symbols as one mode; an inserted leaf where there is none.
  [[nodiscard]] Nested<Node> mode_of(const std::vector<std::string>& symbols) const {
    std::vector<Nested<Node>> items;
    items.reserve(symbols.size());
    for (const std::string& symbol : symbols) items.emplace_back(Node::id(id(symbol)));
    if (items.empty()) items.emplace_back(Node::Leaf);
    return items;
  }

 private:
  SymbolNumbers ids_;
  std::vector<std::string> free_symbols_;
  std::vector<detail::ModeReader> sources_;
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

/// A product of batches goes leaf by leaf: where one side nests a symbol as (1, 4) and the other as (4, 1),
/// its leaves would be widened instead of paired.
void check_shared_shapes(const EinsumSpec& spec, const Side& lhs, const Side& rhs) {
  for (const std::string& symbol : spec.common_symbols) {
    const Shape left = lhs.source(symbol).mode().shape();
    const Shape right = rhs.source(symbol).mode().shape();
    if (left != right)
      raise<ValueError>("einsum", "Einsum shared dimension '", symbol,
                        "' has mismatched shape: ", left.to_string(), " on the left and ", right.to_string(),
                        " on the right; beside a batch both operands must nest it alike");
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
    const Shape shape = other.source(symbol).mode().shape();
    const std::vector<Index> inserted(shape.leaves().size(), -1);
    builder.append(detail::with_leaves(shape.nest(), inserted));
  }
  return Tree(builder.finish());
}

/// The selection of so many symbols in each mode of a product. A mode of one leaf has collapsed into that
/// leaf on the way.
Tree selection_of(std::span<const std::size_t> symbols, const Shape& product) {
  detail::NestBuilder builder;
  detail::NestCursor modes(product.nest());
  for (const std::size_t count : symbols) {
    if (modes.at_leaf()) {
      builder.leaf(-1);
    } else {
      builder.push();
      for (std::size_t i = 0; i < count; ++i) builder.leaf(-1);
      builder.pop();
    }
    modes.skip();
  }
  return Tree(builder.finish());
}

Tensor contract(const EinsumSpec& spec, const Tensor& lhs, const Side& left, const Tensor& rhs,
                const Side& right) {
  const Tensor product = matmul(rearrange(lhs, spec.lhs_rearrange_output, spec.lhs_selection),
                                rearrange(rhs, spec.rhs_rearrange_output, spec.rhs_selection));
  const std::size_t symbols[] = {left.free_symbols().size(), right.free_symbols().size()};
  return rearrange(product, spec.output, selection_of(symbols, product.layout().shape()));
}

/// Whether a product of batches saves making all products before they are summed: on carriers that have one,
/// where no graph is recorded and no product can overflow. Both could tell the two ways apart.
bool multiplies_batches(const EinsumSpec& spec, const Tensor& lhs, const Side& left, const Tensor& rhs,
                        const Side& right) {
  if (is_grad_enabled() || !(lhs.is_differentiable() || rhs.is_differentiable())) return false;
  const KernelTable* kernels = lhs.carrier()->kernel_table();
  return !spec.contraction_symbols.empty() &&
         !(left.free_symbols().empty() && right.free_symbols().empty()) && kernels != nullptr &&
         kernels->find(batch_matmul_kernel) != nullptr && invocation_executor(lhs.carrier_type()) == nullptr;
}

/// A layout of this shape whose rearrangement is canonical.
Layout layout_for(const Shape& shape, const Tree& output, const Tree& selection) {
  // Strides that number the leaves: in the rearrangement they tell where each leaf went.
  std::vector<Index> numbers(shape.leaves().size());
  std::iota(numbers.begin(), numbers.end(), Index{1});
  const auto placed = [&] { return Layout(shape, Stride(detail::with_leaves(shape.nest(), numbers))); };
  const Layout rearranged = placed().rearrange(output, selection);
  const Layout canonical = Layout::canonical(rearranged.shape());
  std::fill(numbers.begin(), numbers.end(), 0);  // of what the output leaves out
  for (std::size_t leaf = 0; leaf < canonical.strides().size(); ++leaf)
    if (const Index number = rearranged.strides()[leaf]; number > 0)
      numbers[static_cast<std::size_t>(number - 1)] = canonical.strides()[leaf];
  return placed();
}

/// As modes (free, contracted, batch). The result is what the sum would be: canonical.
Tensor contract_batches(const EinsumSpec& spec, const Tensor& lhs, const Side& left, const Tensor& rhs,
                        const Side& right) {
  const auto modes = [&](const Side& side) {
    return Tree{side.mode_of(side.free_symbols()), side.mode_of(spec.contraction_symbols),
                side.mode_of(spec.batch_symbols)};
  };
  const Tensor lhs_batch = rearrange(lhs, modes(left), spec.lhs_selection);
  const Tensor rhs_batch = rearrange(rhs, modes(right), spec.rhs_selection);
  constexpr std::size_t rows[] = {0};
  constexpr std::size_t rows_and_batch[] = {0, 2};
  const Shape shape = Shape::concat(lhs_batch.layout().shape().select(rows),
                                    rhs_batch.layout().shape().select(rows_and_batch));
  const SymbolNumbers union_places(spec.union_symbols);
  // Where each symbol of the union stands among the product's symbols; a mode without any has one leaf.
  std::vector<Index> places(spec.union_symbols.size());
  std::vector<std::size_t> counts;
  Index place = 0;
  for (const auto* symbols : {&left.free_symbols(), &right.free_symbols(), &spec.batch_symbols}) {
    for (std::size_t i = 0; i < symbols->size(); ++i)
      places[static_cast<std::size_t>(union_places.find((*symbols)[i]))] = place + static_cast<Index>(i);
    counts.push_back(std::max<std::size_t>(symbols->size(), 1));
    place += static_cast<Index>(counts.back());
  }
  const detail::Nest& output = spec.general_output.nest();
  std::vector<Index> ids(output.leaves.begin(), output.leaves.end());
  for (Index& id : ids)
    if (id >= 0) id = places[static_cast<std::size_t>(id)];
  const Tree rearranged(detail::with_leaves(output, ids));
  const Tree selection = selection_of(counts, shape);
  const std::array<Argument, 3> arguments{lhs_batch, rhs_batch,
                                          Argument::of(layout_for(shape, rearranged, selection))};
  const Tensor product = apply_definition(batch_matmul_definition(), arguments);
  return Tensor::trusted(product.carrier(), 0,
                         Layout::canonical(product.layout().rearrange(rearranged, selection).shape()));
}

/// The general output, then the contracted symbols as the second mode.
Tree with_contracted(const EinsumSpec& spec) {
  detail::NestBuilder builder;
  builder.push();
  builder.modes(spec.general_output.nest());
  builder.pop();
  builder.push();
  const SymbolNumbers contracted(spec.contraction_symbols);
  for (std::size_t i = 0; i < spec.union_symbols.size(); ++i)
    if (contracted.find(spec.union_symbols[i]) >= 0) builder.leaf(static_cast<Index>(i));
  builder.pop();
  return Tree(builder.finish());
}

Tensor multiply_and_sum(const EinsumSpec& spec, const Tensor& lhs, const Side& left, const Tensor& rhs,
                        const Side& right) {
  const Tensor product = elementwise_mul(rearrange(lhs, union_output(spec, left, right), spec.lhs_selection),
                                         rearrange(rhs, union_output(spec, right, left), spec.rhs_selection));
  if (spec.contraction_symbols.empty()) return rearrange(product, spec.general_output, spec.union_selection);
  const Argument summed(rearrange(product, with_contracted(spec), spec.union_selection));
  return apply_operation("reduce_sum", {summed});
}

}  // namespace

Tensor einsum(const Tensor& lhs, const Tensor& rhs, std::string_view description) {
  const EinsumSpec& spec = parse_einsum(description);
  const SymbolNumbers common(spec.common_symbols);
  const Side left(lhs.layout(), spec.lhs_selection, spec.lhs_symbol_ids, common);
  const Side right(rhs.layout(), spec.rhs_selection, spec.rhs_symbol_ids, common);
  check_shared_sizes(spec, left, right);
  if (spec.batch_symbols.empty()) return contract(spec, lhs, left, rhs, right);
  check_shared_shapes(spec, left, right);
  if (multiplies_batches(spec, lhs, left, rhs, right)) return contract_batches(spec, lhs, left, rhs, right);
  return multiply_and_sum(spec, lhs, left, rhs, right);
}

}  // namespace orlop::inline v0
