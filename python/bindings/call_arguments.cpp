// The arguments of a constructor that Python calls: see call_arguments.hpp.
#include "call_arguments.hpp"

#include <algorithm>
#include <string>

namespace orlop::bindings {

CallArguments::CallArguments(const char* name, const nb::args& args, const nb::kwargs& kwargs,
                             std::initializer_list<const char*> positional, std::size_t required,
                             std::initializer_list<const char*> keywords)
    : name_(name) {
  for (const char* parameter : positional) values_.emplace_back(parameter, nb::object());
  for (const char* parameter : keywords) values_.emplace_back(parameter, nb::object());
  if (args.size() > positional.size())
    raise<TypeError>(name, name, "() takes at most ", positional.size(), " positional arguments but ",
                     args.size(), " were given; the others are keyword-only");
  for (std::size_t i = 0; i < args.size(); ++i) values_[i].second = args[i];
  for (const auto& [key, value] : kwargs) {
    const auto word = to_text(key);
    const auto found =
        std::find_if(values_.begin(), values_.end(), [&](const auto& entry) { return entry.first == word; });
    if (found == values_.end())
      raise<TypeError>(name, name, "() got an unexpected keyword argument '", word, "'");
    if (found->second.is_valid())
      raise<TypeError>(name, name, "() got multiple values for argument '", word, "'");
    found->second = nb::borrow(value);
  }
  for (std::size_t i = 0; i < required; ++i)
    if (!values_[i].second.is_valid())
      raise<TypeError>(name, name, "() missing 1 required positional argument: '", values_[i].first, "'");
}

nb::object CallArguments::get(std::string_view name) const {
  for (const auto& [known, value] : values_)
    if (known == name) return value;
  return {};
}

nb::object CallArguments::require_keyword(std::string_view name) const {
  nb::object value = get(name);
  if (!value.is_valid())
    raise<TypeError>(name_, name_, "() missing 1 required keyword-only argument: '", name, "'");
  return value;
}

bool CallArguments::flag(std::string_view name, bool otherwise) const {
  const nb::object value = get(name);
  return value.is_valid() ? to_bool(value, name_, name) : otherwise;
}

}  // namespace orlop::bindings
