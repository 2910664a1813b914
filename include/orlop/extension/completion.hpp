// What a provider answers: no, with a reason; or work, which may end later (X14, X18).
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "orlop/base/blocking.hpp"
#include "orlop/base/error.hpp"

namespace orlop::inline v0 {

/// A provider declines one request. Errors: ValueError for an empty reason.
struct ORLOP_API Unsupported {
  explicit Unsupported(std::string why);

  std::string reason;
};

/// What `prepare` returns.
template <class T>
using Result = std::variant<T, Unsupported>;

/// Work that a provider has started and that ends later. `wait()` may be called again and from several
/// threads: all get one outcome, and once it has returned or thrown, `done()` is true.
template <class T>
class ProviderCompletion {
 public:
  ProviderCompletion() = default;
  ProviderCompletion(const ProviderCompletion&) = delete;
  ProviderCompletion& operator=(const ProviderCompletion&) = delete;
  virtual ~ProviderCompletion() = default;

  [[nodiscard]] virtual bool done() const = 0;
  virtual T wait() = 0;
};

namespace detail {

ORLOP_API void require_completion(bool is_there, std::string_view provider);
ORLOP_API void require_done(bool is_done, std::string_view provider);

/// The outcome of `completion`, waited for with the interpreter let go. TypeError where it is null, or not
/// done afterwards.
template <class T>
T finish(const std::shared_ptr<ProviderCompletion<T>>& completion, std::string_view provider) {
  require_completion(completion != nullptr, provider);
  const auto wait = [&] {
    const BlockingScope scope;
    return completion->wait();
  };
  if constexpr (std::is_void_v<T>) {
    wait();
    require_done(completion->done(), provider);
  } else {
    T result = wait();
    require_done(completion->done(), provider);
    return result;
  }
}

}  // namespace detail

}  // namespace orlop::inline v0
