// The one class of built-in operations, driven by the central table (P45).
#pragma once

#include <utility>
#include <vector>

#include "orlop/operation/operation.hpp"

namespace orlop::inline v0 {

class Definition;

/// What carries out every built-in name, and what profiles show as its implementation. Made by
/// `table_operation(name)` and by dispatch.
class ORLOP_API TableOperation final : public Operation {
 public:
  explicit TableOperation(const Definition& definition) noexcept : definition_(definition) {}
  ~TableOperation() override;

  Gradients backward(const Tensor& gradient) override;
  [[nodiscard]] std::string implementation_name() const override;

 protected:
  Tensor forward_impl(std::span<const Argument> inputs) override;
  [[nodiscard]] bool accepts_compound() const override;
  void on_release_autograd_state() noexcept override { others_.clear(); }

 private:
  const Definition& definition_;
  // The arguments that are not Tensors, by position; Tensors are kept by the base, and only for a graph.
  std::vector<std::pair<std::size_t, Argument>> others_;
  std::size_t argument_count_ = 0;
};

}  // namespace orlop::inline v0
