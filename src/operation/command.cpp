// Compiling commands, and remembering what was compiled.
#include "orlop/operation/command.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "operation/command_reference.hpp"

namespace orlop::inline v0 {

namespace {

using Tokens = std::span<const Token>;
using Symbols = std::vector<std::string>;
using Item = Nested<Node>;

/// Both sides of the one arrow.
struct Sides {
  Tokens input;
  Tokens output;
};

Sides split_at_arrow(Tokens tokens, std::string_view command_name) {
  const auto is_arrow = [](const Token& token) { return token.kind == TokenKind::arrow; };
  const auto arrow = std::find_if(tokens.begin(), tokens.end(), is_arrow);
  if (arrow == tokens.end()) fail_command(text(command_name, " command must contain one '->' arrow"));
  if (std::find_if(arrow + 1, tokens.end(), is_arrow) != tokens.end())
    fail_command(text(command_name, " command must contain only one '->' arrow"));
  const auto before = static_cast<std::size_t>(arrow - tokens.begin());
  return {tokens.first(before), tokens.subspan(before + 1)};
}

/// An output: symbols by the ids that `ids` gives them, `1` as an inserted leaf. The symbols are views of
/// tokens.
struct Output {
  Tree tree;
  std::unordered_set<std::string_view> symbols;
};

Output parse_output(Tokens tokens, const std::vector<SymbolId>& ids) {
  std::unordered_map<std::string_view, Index> known;
  for (const SymbolId& entry : ids) known.emplace(entry.symbol, entry.id);
  Output output;
  output.tree = parse_reference(tokens, [&](const Token& token) {
    if (token.kind == TokenKind::one) return Index{-1};
    const auto found = known.find(token.value);
    if (found == known.end()) fail_at(token, text("Unknown dimension symbol '", token.value, "'"));
    if (!output.symbols.insert(token.value).second)
      fail_at(token, text("Duplicate output dimension symbol '", token.value, "'"));
    return found->second;
  });
  return output;
}

Tree tree_of(std::vector<Item> items) { return Tree(Item(std::move(items))); }

/// Two trees as the items of one.
Tree pair_of(const Tree& first, const Tree& second) {
  detail::NestBuilder builder;
  for (const Tree* tree : {&first, &second}) {
    builder.push();
    builder.modes(tree->nest());
    builder.pop();
  }
  return Tree(builder.finish());
}

RearrangeSpec compile_rearrange(std::string_view command) {
  const std::vector<Token> tokens = lex(command);
  const Sides sides = split_at_arrow(tokens, "Rearrange");
  LayoutReference input = parse_layout_ref(sides.input);
  Output output = parse_output(sides.output, input.symbol_ids);
  return {std::move(input.tree), std::move(output.tree), std::move(input.symbol_ids)};
}

ReduceSpec compile_reduce(std::string_view command) {
  const std::vector<Token> tokens = lex(command);
  const Sides sides = split_at_arrow(tokens, "Reduce");
  LayoutReference input = parse_layout_ref(sides.input);
  const Output output = parse_output(sides.output, input.symbol_ids);
  std::vector<bool> is_kept(input.tree.size());
  for (const SymbolId& entry : input.symbol_ids)
    is_kept[static_cast<std::size_t>(entry.id)] = output.symbols.contains(entry.symbol);
  std::vector<Item> dropped;
  for (std::size_t id = 0; id < is_kept.size(); ++id)
    if (!is_kept[id]) dropped.emplace_back(Node::id(static_cast<Index>(id)));
  if (dropped.empty()) fail_command("Reduce command must omit at least one dimension");
  const Tree reduced = tree_of(std::move(dropped));
  return {std::move(input.tree), output.tree, reduced, pair_of(output.tree, reduced),
          std::move(input.symbol_ids)};
}

/// The symbols of one operand of a contraction.
class Operand {
 public:
  explicit Operand(Tokens tokens) : reference_(parse_layout_ref(tokens)) {
    for (const SymbolId& entry : reference_.symbol_ids) ids_.emplace(entry.symbol, entry.id);
  }

  [[nodiscard]] const LayoutReference& reference() const { return reference_; }
  [[nodiscard]] bool has(const std::string& symbol) const { return ids_.contains(symbol); }
  /// The symbol's source, or an inserted leaf where the operand has none.
  [[nodiscard]] Item node(const std::string& symbol) const {
    const auto found = ids_.find(symbol);
    return found == ids_.end() ? Node::Leaf : Node::id(found->second);
  }
  /// One item per symbol; an inserted leaf where there is none.
  [[nodiscard]] Item nodes(const Symbols& symbols) const {
    std::vector<Item> items;
    for (const std::string& symbol : symbols) items.push_back(node(symbol));
    if (items.empty()) items.emplace_back(Node::Leaf);
    return items;
  }
  /// The symbols that `other` has as well, or has not.
  [[nodiscard]] Symbols symbols(const Operand& other, bool shared) const {
    Symbols result;
    for (const SymbolId& entry : reference_.symbol_ids)
      if (other.has(entry.symbol) == shared) result.push_back(entry.symbol);
    return result;
  }

 private:
  LayoutReference reference_;
  std::unordered_map<std::string, Index> ids_;
};

std::pair<Tokens, Tokens> split_at_comma(Tokens tokens) {
  const auto is_comma = [](const Token& token) { return token.kind == TokenKind::comma; };
  const auto comma = std::find_if(tokens.begin(), tokens.end(), is_comma);
  if (comma == tokens.end()) fail_command("Contraction command must contain one comma before '->'");
  if (std::find_if(comma + 1, tokens.end(), is_comma) != tokens.end())
    fail_command("Contraction command must contain only one comma before '->'");
  const auto before = static_cast<std::size_t>(comma - tokens.begin());
  return {tokens.first(before), tokens.subspan(before + 1)};
}

/// Where each symbol stands in a list.
std::vector<SymbolId> positions_of(const Symbols& symbols, Index first = 0) {
  std::vector<SymbolId> positions;
  for (const std::string& symbol : symbols) positions.push_back({symbol, first++});
  return positions;
}

Item leaves(std::size_t count) { return std::vector<Item>(count, Node::Leaf); }

Symbols joined(Symbols symbols, const Symbols& more) {
  symbols.insert(symbols.end(), more.begin(), more.end());
  return symbols;
}

EinsumSpec compile_einsum(std::string_view command) {
  const std::vector<Token> tokens = lex(command);
  const Sides sides = split_at_arrow(tokens, "Einsum");
  const auto [left, right] = split_at_comma(sides.input);
  const Operand lhs(left);
  const Operand rhs(right);
  EinsumSpec spec;
  spec.common_symbols = lhs.symbols(rhs, true);
  if (spec.common_symbols.empty())
    fail_command("Contraction command must include at least one shared dimension");

  const Symbols lhs_free = lhs.symbols(rhs, false);
  const Symbols rhs_free = rhs.symbols(lhs, false);
  for (const SymbolId& entry : lhs.reference().symbol_ids) spec.union_symbols.push_back(entry.symbol);
  spec.union_symbols = joined(std::move(spec.union_symbols), rhs_free);
  const Output general = parse_output(sides.output, positions_of(spec.union_symbols));
  Symbols missing;
  for (const std::string& symbol : joined(lhs_free, rhs_free))
    if (!general.symbols.contains(symbol)) missing.push_back(symbol);
  if (!missing.empty()) {
    std::sort(missing.begin(), missing.end());
    std::string names = missing.front();
    for (std::size_t i = 1; i < missing.size(); ++i) names += ", " + missing[i];
    fail_command(text("Einsum output must include every non-shared input symbol: ", names));
  }
  for (const std::string& symbol : spec.common_symbols)
    (general.symbols.contains(symbol) ? spec.batch_symbols : spec.contraction_symbols).push_back(symbol);

  spec.lhs_selection = lhs.reference().tree;
  spec.rhs_selection = rhs.reference().tree;
  spec.lhs_symbol_ids = lhs.reference().symbol_ids;
  spec.rhs_symbol_ids = rhs.reference().symbol_ids;
  spec.lhs_union_output = Tree(lhs.nodes(spec.union_symbols));
  spec.rhs_union_output = Tree(rhs.nodes(spec.union_symbols));
  spec.union_selection = Tree(leaves(spec.union_symbols.size()));
  spec.general_output = general.tree;
  if (!spec.batch_symbols.empty()) {
    spec.lhs_rearrange_output = spec.lhs_union_output;
    spec.rhs_rearrange_output = spec.rhs_union_output;
    spec.matmul_output_selection = spec.union_selection;
    spec.output = spec.general_output;
    return spec;
  }
  spec.lhs_rearrange_output = tree_of({lhs.nodes(lhs_free), lhs.nodes(spec.common_symbols)});
  spec.rhs_rearrange_output = tree_of({rhs.nodes(rhs_free), rhs.nodes(spec.common_symbols)});
  // The product has one leaf where an operand has no free symbol.
  const std::size_t lhs_leaves = std::max<std::size_t>(lhs_free.size(), 1);
  spec.matmul_output_selection =
      tree_of({leaves(lhs_leaves), leaves(std::max<std::size_t>(rhs_free.size(), 1))});
  std::vector<SymbolId> places = positions_of(lhs_free);
  for (SymbolId& place : positions_of(rhs_free, static_cast<Index>(lhs_leaves)))
    places.push_back(std::move(place));
  spec.output = parse_output(sides.output, places).tree;
  return spec;
}

/// What one compiler has compiled.
template <class Spec>
class Memory {
 public:
  template <class Compile>
  const Spec& get(std::string_view command, Compile compile) {
    std::string key(command);
    {
      const std::shared_lock lock(mutex_);
      if (const auto found = specs_.find(key); found != specs_.end()) return *found->second;
    }
    auto spec = std::make_unique<const Spec>(compile(command));
    const std::unique_lock lock(mutex_);
    return *specs_.try_emplace(std::move(key), std::move(spec)).first->second;  // the first one stays
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<const Spec>> specs_;
};

}  // namespace

const RearrangeSpec& parse_rearrange(std::string_view command) {
  static Memory<RearrangeSpec> memory;
  return memory.get(command, compile_rearrange);
}

const ReduceSpec& parse_reduce(std::string_view command) {
  static Memory<ReduceSpec> memory;
  return memory.get(command, compile_reduce);
}

const EinsumSpec& parse_einsum(std::string_view command) {
  static Memory<EinsumSpec> memory;
  return memory.get(command, compile_einsum);
}

}  // namespace orlop::inline v0
