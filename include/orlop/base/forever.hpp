// A place for what is used until the very end of the process, by destructors of statics too.
#pragma once

#include <memory>
#include <utility>

namespace orlop::inline v0 {

/// A `T` that is never destroyed. It lies in the object itself: making one takes no memory that could be
/// missing.
template <class T>
class Forever {
 public:
  template <class... Arguments>
  explicit Forever(Arguments&&... arguments) {
    std::construct_at(&value_, std::forward<Arguments>(arguments)...);
  }
  Forever(const Forever&) = delete;
  Forever& operator=(const Forever&) = delete;
  ~Forever() {}  // NOLINT(modernize-use-equals-default): that of the union's member would run

  [[nodiscard]] T& operator*() noexcept { return value_; }

 private:
  union {
    T value_;
  };
};

}  // namespace orlop::inline v0
