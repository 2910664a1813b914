// The checks of what providers answer.
#include "orlop/extension/completion.hpp"

namespace orlop::inline v0 {

Unsupported::Unsupported(std::string why) : reason(std::move(why)) {
  if (reason.empty())
    raise<ValueError>("Unsupported", "reason must not be empty; say what the provider cannot do");
}

void detail::require_completion(bool is_there, std::string_view provider) {
  if (!is_there)
    raise<TypeError>(provider, "submit gave neither a result nor a completion of it; return one of them");
}

void detail::require_done(bool is_done, std::string_view provider) {
  if (!is_done)
    raise<TypeError>(provider, "the completion is not done after wait(); done must be True from then on");
}

}  // namespace orlop::inline v0
