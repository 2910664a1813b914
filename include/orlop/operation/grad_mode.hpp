// Whether the calling thread records graphs (P82).
#pragma once

#include "orlop/base/export.hpp"

namespace orlop::inline v0 {

/// True in every new thread.
[[nodiscard]] ORLOP_API bool is_grad_enabled() noexcept;
ORLOP_API void set_grad_enabled(bool enabled) noexcept;

/// Switches recording on or off for a scope and restores what it found, also on an exception.
class ORLOP_API GradMode {
 public:
  explicit GradMode(bool enabled) noexcept : before_(is_grad_enabled()) { set_grad_enabled(enabled); }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;
  ~GradMode() { set_grad_enabled(before_); }

 private:
  bool before_;
};

/// Switches recording off for a scope.
class ORLOP_API NoGrad : public GradMode {
 public:
  NoGrad() noexcept : GradMode(false) {}
};

}  // namespace orlop::inline v0
