// The command grammar of rearrangements, reductions and contractions (M701–M706): "b (h w) -> h w b".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orlop/layout/tree.hpp"

namespace orlop::inline v0 {

enum class TokenKind : std::uint8_t { left_paren, right_paren, arrow, comma, one, symbol };
/// "left_paren", "right_paren", …
[[nodiscard]] ORLOP_API std::string_view value_of(TokenKind kind) noexcept;

/// One word of a command: `value` is its text, at the characters `start` … `end - 1`.
struct Token {
  TokenKind kind;
  std::string value;
  Index start;
  Index end;
  friend bool operator==(const Token&, const Token&) = default;
};

/// Splits a command into words. ValueError that names the offset, for anything that is no word (M702).
[[nodiscard]] ORLOP_API std::vector<Token> lex(std::string_view command);

/// A dimension symbol and the source it names: the number of its leaf, counted from the left.
struct SymbolId {
  std::string symbol;
  Index id;
  friend bool operator==(const SymbolId&, const SymbolId&) = default;
};

/// How a command names the modes of a layout: one leaf for each symbol and each `1`.
struct LayoutReference {
  Tree tree;
  std::vector<SymbolId> symbol_ids;  ///< without the `1`s
};

/// Reads one side of a command as an input. ValueError (M702).
[[nodiscard]] ORLOP_API LayoutReference parse_layout_ref(Sequence<Token> tokens);

/// Layout::rearrange(output, selection).
struct RearrangeSpec {
  Tree selection;
  Tree output;
  std::vector<SymbolId> symbol_ids;
};

/// Layout::rearrange(rearrange_output, selection) has two modes: the kept sources and the reduced ones.
struct ReduceSpec {
  Tree selection;
  Tree output;
  Tree reduced;           ///< the ids that the output leaves out, ascending
  Tree rearrange_output;  ///< (output, reduced)
  std::vector<SymbolId> symbol_ids;
};

/// A contraction of two operands (M705). Symbols of both operands that the output keeps are batch symbols,
/// the others contraction symbols. Without a batch it is a matmul of two rearrangements; with one, a product
/// over the union of all symbols (the operands' own, then the right one's new ones), from which contraction
/// symbols are summed.
struct EinsumSpec {
  Tree lhs_selection;
  Tree rhs_selection;
  Tree lhs_rearrange_output;
  Tree rhs_rearrange_output;
  Tree matmul_output_selection;
  Tree output;
  std::vector<SymbolId> lhs_symbol_ids;
  std::vector<SymbolId> rhs_symbol_ids;
  std::vector<std::string> common_symbols;
  std::vector<std::string> union_symbols;
  std::vector<std::string> contraction_symbols;
  std::vector<std::string> batch_symbols;
  Tree lhs_union_output;
  Tree rhs_union_output;
  Tree union_selection;
  Tree general_output;
};

// The compilers. Each remembers what it has compiled, by the exact string: the same object comes back and
// lives forever (M706). ValueError (M702).
[[nodiscard]] ORLOP_API const RearrangeSpec& parse_rearrange(std::string_view command);
[[nodiscard]] ORLOP_API const ReduceSpec& parse_reduce(std::string_view command);
[[nodiscard]] ORLOP_API const EinsumSpec& parse_einsum(std::string_view command);

}  // namespace orlop::inline v0
