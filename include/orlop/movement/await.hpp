// AwaitResult: the handle of work that goes on in the background (S410, S411).
#pragma once

#include <utility>

#include "orlop/base/executor.hpp"

namespace orlop::inline v0 {

/// Work that yields a `T`.
template <class T>
class ORLOP_API ResultTask : public Task {
 public:
  /// The result of the done work that did not fail.
  [[nodiscard]] const T& result() const noexcept { return result_; }

 protected:
  void set_result(T result) { result_ = std::move(result); }
  void clear_result() noexcept { result_ = T(); }

 private:
  T result_{};
};

/// A handle; copies share the work. Dropping the last one neither blocks nor cancels. There is no await, no
/// cancel and no timeout.
template <class T>
class AwaitResult {
 public:
  explicit AwaitResult(Ref<ResultTask<T>> task) noexcept : task_(std::move(task)) {}

  /// Whether the work has ended, well or not.
  [[nodiscard]] bool done() const noexcept { return task_->is_done(); }
  /// The result, the same on every call and thread, or throws what the work failed with. Work that has not
  /// started runs here.
  [[nodiscard]] T wait() const {
    task_->wait();
    return task_->result();
  }
  [[nodiscard]] const Ref<ResultTask<T>>& task() const noexcept { return task_; }

 private:
  Ref<ResultTask<T>> task_;
};

}  // namespace orlop::inline v0
