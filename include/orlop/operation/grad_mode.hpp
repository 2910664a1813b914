// Whether the calling thread records graphs (P82).
#pragma once

#include "orlop/base/export.hpp"

namespace orlop::inline v0 {

/// True in every new thread.
[[nodiscard]] ORLOP_API bool is_grad_enabled() noexcept;
ORLOP_API void set_grad_enabled(bool enabled) noexcept;

/// Switches recording off for a scope and restores what it found, also on an exception.
class ORLOP_API NoGrad {
 public:
  NoGrad() noexcept : before_(is_grad_enabled()) { set_grad_enabled(false); }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;
  ~NoGrad() { set_grad_enabled(before_); }

 private:
  bool before_;
};

}  // namespace orlop::inline v0
