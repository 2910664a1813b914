// The words of commands, and references to layouts made of them.
#include <array>

#include "operation/command_reference.hpp"

namespace orlop::inline v0 {

std::string_view value_of(TokenKind kind) noexcept {
  constexpr std::array<std::string_view, 6> values{"left_paren", "right_paren", "arrow",
                                                   "comma",      "one",         "symbol"};
  return values[static_cast<std::size_t>(kind)];
}

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool continues_word(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; }
bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class Lexer {
 public:
  explicit Lexer(std::string_view command) : command_(command) {}

  std::vector<Token> run() {
    while (position_ < command_.size()) {
      const char c = look(position_);
      if (is_blank(c))
        ++position_;
      else
        word(c);
    }
    return std::move(tokens_);
  }

 private:
  void word(char c) {
    switch (c) {
      case '(':
        return take(TokenKind::left_paren, 1);
      case ')':
        return take(TokenKind::right_paren, 1);
      case ',':
        return take(TokenKind::comma, 1);
      case '-':
        if (look(position_ + 1) != '>') fail("Expected '->' arrow token");
        return take(TokenKind::arrow, 2);
      case '>':
        fail("Unexpected '>'");
      case '1':
        if (continues_word(look(position_ + 1))) fail("Invalid singleton token");
        return take(TokenKind::one, 1);
      default:
        break;
    }
    if (!is_letter(c)) fail(continues_word(c) ? "Invalid dimension symbol" : "Unexpected character");
    std::size_t length = 1;
    while (continues_word(look(position_ + length))) ++length;
    take(TokenKind::symbol, length);
  }

  void take(TokenKind kind, std::size_t length) {
    const auto start = static_cast<Index>(position_);
    tokens_.push_back(
        {kind, std::string(command_.substr(position_, length)), start, start + static_cast<Index>(length)});
    position_ += length;
  }

  /// The character there, or a blank behind the end.
  [[nodiscard]] char look(std::size_t position) const {
    if (position >= command_.size()) return ' ';
    if (static_cast<unsigned char>(command_[position]) > 0x7f)
      fail_command(text("Layout command must contain only ASCII characters at offset ", position));
    return command_[position];
  }

  [[noreturn]] void fail(std::string_view what) const { fail_command(text(what, " at offset ", position_)); }

  std::string_view command_;
  std::size_t position_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex(std::string_view command) { return Lexer(command).run(); }

void fail_command(std::string_view what) { raise<ValueError>("command", what); }

void fail_at(const Token& token, std::string_view what) {
  fail_command(text(what, " at offset ", token.start));
}

LayoutReference parse_layout_ref(Sequence<Token> tokens) {
  LayoutReference reference;
  Index next_id = 0;
  std::unordered_set<std::string_view> seen;
  reference.tree = parse_reference(tokens, [&](const Token& token) {
    if (token.kind == TokenKind::symbol) {
      if (!seen.insert(token.value).second)
        fail_at(token, text("Duplicate dimension symbol '", token.value, "'"));
      reference.symbol_ids.push_back({token.value, next_id});
    }
    ++next_id;
    return Index{-1};
  });
  return reference;
}

}  // namespace orlop::inline v0
