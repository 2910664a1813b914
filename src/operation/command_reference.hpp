// The one walk over a reference: items, groups and what may be wrong with them (M702).
#pragma once

#include <unordered_set>

#include "layout/nest.hpp"
#include "orlop/operation/command.hpp"

namespace orlop::inline v0 {

/// Throws the ValueError with this text.
[[noreturn]] void fail_command(std::string_view what);
/// The same, at the token's offset.
[[noreturn]] void fail_at(const Token& token, std::string_view what);

/// The tree of a reference. `leaf(token)` gives the id that a symbol or a `1` has there, or -1.
template <class Leaf>
Tree parse_reference(std::span<const Token> tokens, Leaf leaf) {
  struct Group {
    const Token* parenthesis;
    std::size_t items;
  };
  std::vector<Group> open{{nullptr, 0}};
  detail::NestBuilder builder;
  for (const Token& token : tokens) {
    switch (token.kind) {
      case TokenKind::left_paren:
        builder.push();
        ++open.back().items;
        open.push_back({&token, 0});
        break;
      case TokenKind::right_paren:
        if (open.size() == 1) fail_at(token, "Unmatched right parenthesis");
        if (open.back().items == 0) fail_at(token, "Empty parenthesized group");
        builder.pop();
        open.pop_back();
        break;
      case TokenKind::comma:
        fail_at(token, "Commas are not valid in layout references");
      case TokenKind::arrow:
        fail_at(token, "Arrows are not valid in layout references");
      case TokenKind::one:
      case TokenKind::symbol:
        builder.leaf(leaf(token));
        ++open.back().items;
        break;
    }
  }
  if (open.back().items == 0) fail_command("Layout reference must not be empty");
  if (open.size() > 1) fail_at(*open.back().parenthesis, "Unclosed left parenthesis");
  return Tree(builder.finish());
}

}  // namespace orlop::inline v0
