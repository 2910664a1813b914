// Building and writing structure trees.
#include "orlop/dtype/structure.hpp"

namespace orlop::inline v0 {

Structure& Structure::open() {
  items_.push_back({Token::open, {}});
  return *this;
}

Structure& Structure::close() {
  items_.push_back({Token::close, {}});
  return *this;
}

Structure& Structure::leaf(std::string leaf) {
  items_.push_back({Token::leaf, std::move(leaf)});
  return *this;
}

Structure& Structure::append(const Structure& other) {
  items_.insert(items_.end(), other.items_.begin(), other.items_.end());
  return *this;
}

std::string Structure::to_string() const {
  std::string out = "(";
  bool is_first = true;
  for (const Item& item : items_) {
    if (item.token == Token::close) {
      out += ')';
      is_first = false;
      continue;
    }
    if (!is_first) out += ", ";
    is_first = item.token == Token::open;
    out += is_first ? std::string("(") : text('\'', item.leaf, '\'');
  }
  return out + ')';
}

}  // namespace orlop::inline v0
