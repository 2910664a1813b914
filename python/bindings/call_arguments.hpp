// The arguments of a constructor that Python calls.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "support.hpp"

namespace orlop::bindings {

/// The keyword and positional arguments of a constructor, matched as Python does it and with Python's
/// messages.
class CallArguments {
 public:
  /// `positional` then keyword-only `keywords`; the first `required` positional ones must be given.
  CallArguments(const char* name, const nb::args& args, const nb::kwargs& kwargs,
                std::initializer_list<const char*> positional, std::size_t required,
                std::initializer_list<const char*> keywords);
  /// The argument, or nothing where it was left out.
  [[nodiscard]] nb::object get(std::string_view name) const;
  /// The keyword-only argument, or TypeError ‹missing 1 required keyword-only argument›.
  [[nodiscard]] nb::object require_keyword(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name, bool otherwise) const;
  [[nodiscard]] bool has(std::string_view name) const { return get(name).is_valid(); }

 private:
  const char* name_;
  std::vector<std::pair<std::string_view, nb::object>> values_;
};

}  // namespace orlop::bindings
